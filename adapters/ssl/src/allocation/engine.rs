//! The solver behind the allocator, kept behind a seam of four verbs: replace rows, set masses, solve, read
//! the potentials.
//!
//! For column potentials g (the slack column last) let the rows be exact,
//!
//! ```text
//! Q_ij = a_i exp((g_j − C_ij)/ε) / (Σ_j' exp((g_j' − C_ij')/ε) + exp(g_s/ε)),
//! ```
//!
//! and likewise for the slack row, whose costs are zero. Then g ← g + ε(ln c − ln colsum) is Sinkhorn's
//! iteration and Σ|colsum − c| its error, from one pass over the costs.

use earthmover::Status;

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

    pub(crate) fn solve(&mut self, tolerance: f64, max_iterations: usize) -> Outcome {
        let total = self.masses.total();
        let mut iterations = 0;
        loop {
            let columns = self.sweep();
            let error = columns
                .iter()
                .zip(self.targets())
                .map(|(sum, target)| (sum - target).abs())
                .sum::<f64>()
                / total;
            let status = if error <= tolerance {
                Some(Status::Converged)
            } else if !error.is_finite() {
                Some(Status::Stalled)
            } else if iterations >= max_iterations {
                Some(Status::IterationLimit)
            } else {
                None
            };
            if let Some(status) = status {
                return Outcome {
                    status,
                    error,
                    iterations,
                };
            }
            let logs = self.log_columns(&columns);
            let targets: Vec<f64> = self.targets().collect();
            for ((scaling, target), log) in self.scaling.iter_mut().zip(targets).zip(logs) {
                *scaling += target.ln() - log;
            }
            iterations += 1;
        }
    }

    /// c: the caps, then the mass of the slack column.
    fn targets(&self) -> impl Iterator<Item = f64> {
        let last = std::iter::once(self.masses.slack_col);
        self.masses.caps.iter().copied().chain(last)
    }

    /// The shares of one row and the logarithm of its normaliser.
    fn shares(&self, row: &[f32], out: &mut [f64]) -> f64 {
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
        top + sum.ln()
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

    /// Logarithms of the column sums, also of those too small to be represented.
    fn log_columns(&self, columns: &[f64]) -> Vec<f64> {
        let mut logs: Vec<f64> = columns.iter().map(|sum| sum.ln()).collect();
        if columns.iter().all(|sum| *sum > 1e-280) {
            return logs;
        }
        let mut shares = vec![0.0; self.classes + 1];
        let none = vec![0.0; self.classes];
        logs.fill(f64::NEG_INFINITY);
        let rows = self.costs.chunks_exact(self.classes).enumerate();
        let rows = rows.map(|(index, row)| (row, self.row_mass(index)));
        for (row, mass) in rows.chain([(none.as_slice(), self.masses.slack_row)]) {
            let normaliser = self.shares(row, &mut shares) - mass.ln();
            let costs = row.iter().copied().chain([0.0]);
            for ((log, scaling), cost) in logs.iter_mut().zip(&self.scaling).zip(costs) {
                let term = scaling - self.gamma * f64::from(cost) - normaliser;
                let (high, low) = (log.max(term), log.min(term));
                if low > f64::NEG_INFINITY {
                    *log = high + (low - high).exp().ln_1p();
                } else {
                    *log = high;
                }
            }
        }
        logs
    }
}
