//! The solver behind the allocator, kept behind a seam of four verbs: replace rows, set masses, solve, read
//! the potentials.
//!
//! For column potentials g (the slack column last) let the rows be exact,
//!
//! ```text
//! Q_ij = a_i exp((g_j − C_ij)/ε) / (Σ_j' exp((g_j' − C_ij')/ε) + exp(g_s/ε)),
//! ```
//!
//! and likewise for the slack row, whose costs are zero. Then Σ|colsum − c| is the error and c − colsum the gradient
//! of a concave function of g, which Newton's method climbs from wherever the last solve ended.

use earthmover::{Dense, Marginals, Newton, Potentials, Problem, Slack, Status};

use super::masses::Masses;

/// How a solve ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) status: Status,
    /// L1 error of the column sums, slack column included, over ‖c‖₁.
    pub(crate) error: f64,
    pub(crate) iterations: usize,
}

/// The costs, the potentials, and the column sums that belong to them.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    classes: usize,
    gamma: f64,
    costs: Vec<f32>,
    row_masses: Option<Vec<f64>>,
    masses: Masses,
    /// γ·g, slack column last.
    scaling: Vec<f64>,
    /// Column sums over the real rows at the last solve, slack column last.
    sums: Vec<f64>,
}

impl Engine {
    pub(crate) fn new(
        costs: Vec<f32>,
        classes: usize,
        gamma: f64,
        row_masses: Option<Vec<f64>>,
        masses: Masses,
        scaling: Vec<f64>,
        sums: Vec<f64>,
    ) -> Self {
        Self {
            classes,
            gamma,
            costs,
            row_masses,
            masses,
            scaling,
            sums,
        }
    }

    pub(crate) fn costs(&self) -> &[f32] {
        &self.costs
    }

    pub(crate) fn row(&self, index: usize) -> &[f32] {
        &self.costs[index * self.classes..][..self.classes]
    }

    pub(crate) fn row_masses(&self) -> Option<&[f64]> {
        self.row_masses.as_deref()
    }

    pub(crate) fn row_mass(&self, index: usize) -> f64 {
        self.row_masses.as_ref().map_or(1.0, |a| a[index])
    }

    pub(crate) fn masses(&self) -> &Masses {
        &self.masses
    }

    /// γ·g, slack column last, in whatever gauge the solver left it.
    pub(crate) fn scaling(&self) -> &[f64] {
        &self.scaling
    }

    /// Mass given to each class, and the abstained mass last.
    pub(crate) fn sums(&self) -> &[f64] {
        &self.sums
    }

    pub(crate) fn replace_row(&mut self, index: usize, row: impl Iterator<Item = f32>) {
        let place = &mut self.costs[index * self.classes..][..self.classes];
        for (cost, new) in place.iter_mut().zip(row) {
            *cost = new;
        }
    }

    pub(crate) fn set_row_masses(&mut self, row_masses: Option<Vec<f64>>) {
        self.row_masses = row_masses;
    }

    pub(crate) fn set_masses(&mut self, masses: Masses) {
        self.masses = masses;
    }

    pub(crate) fn solve(
        &mut self,
        tolerance: f64,
        max_iterations: usize,
    ) -> Result<Outcome, earthmover::Error> {
        let error = self.error();
        if error <= tolerance {
            return Ok(Outcome {
                status: Status::Converged,
                error,
                iterations: 0,
            });
        }
        let examples = self.costs.len() / self.classes;
        let ones;
        let rows = match &self.row_masses {
            Some(rows) => rows,
            None => {
                ones = vec![1.0; examples];
                &ones
            }
        };
        let slack = Slack {
            row: self.masses.slack_row,
            col: self.masses.slack_col,
            ..Slack::NONE
        };
        let marginals = Marginals::with_slack(rows, &self.masses.caps, slack)?;
        let cost = Dense::new(&self.costs, examples, self.classes)?;
        let problem = Problem::new(cost, marginals)?;
        let epsilon = 1.0 / self.gamma;
        let start = Potentials {
            rows: vec![0.0; examples],
            cols: self.scaling[..self.classes]
                .iter()
                .map(|s| s * epsilon)
                .collect(),
            slack_row: 0.0,
            slack_col: self.scaling[self.classes] * epsilon,
        };
        let solution = Newton::new(epsilon)
            .tolerance(tolerance)
            .max_iterations(max_iterations)
            .solve_from(&problem, &start)?;
        let (status, iterations) = (solution.status(), solution.iterations());
        let found = solution.into_potentials();
        self.scaling = found.cols.iter().map(|g| g * self.gamma).collect();
        self.scaling.push(found.slack_col * self.gamma);
        Ok(Outcome {
            status,
            error: self.error(),
            iterations,
        })
    }

    fn error(&mut self) -> f64 {
        let columns = self.sweep();
        let gaps = columns.iter().zip(self.targets());
        gaps.map(|(sum, target)| (sum - target).abs()).sum::<f64>() / self.masses.total()
    }

    /// c: the caps, then the mass of the slack column.
    fn targets(&self) -> impl Iterator<Item = f64> {
        let last = std::iter::once(self.masses.slack_col);
        self.masses.caps.iter().copied().chain(last)
    }

    /// The shares of one row.
    fn shares(&self, row: &[f32], out: &mut [f64]) {
        let (classes, slack) = self.scaling.split_at(self.classes);
        let mut top = slack[0];
        for ((logit, scaling), cost) in out.iter_mut().zip(classes).zip(row) {
            *logit = scaling - self.gamma * f64::from(*cost);
            top = top.max(*logit);
        }
        out[self.classes] = slack[0];
        let mut sum = 0.0;
        for logit in out.iter_mut() {
            *logit = (*logit - top).exp();
            sum += *logit;
        }
        out.iter_mut().for_each(|share| *share /= sum);
    }

    /// Column sums with the slack row; those of the real rows are kept aside.
    fn sweep(&mut self) -> Vec<f64> {
        let mut sums = vec![0.0; self.classes + 1];
        let mut shares = vec![0.0; self.classes + 1];
        for (index, row) in self.costs.chunks_exact(self.classes).enumerate() {
            self.shares(row, &mut shares);
            let mass = self.row_mass(index);
            for (sum, share) in sums.iter_mut().zip(&shares) {
                *sum += mass * share;
            }
        }
        self.shares(&vec![0.0; self.classes], &mut shares);
        let columns = sums
            .iter()
            .zip(&shares)
            .map(|(sum, share)| sum + self.masses.slack_row * share)
            .collect();
        self.sums = sums;
        columns
    }
}
