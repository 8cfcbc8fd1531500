//! The solver behind the allocator, kept behind a seam of four verbs: replace rows, set masses, solve, read
//! the potentials.
//!
//! For column potentials g (the slack column last) let the rows be exact,
//!
//! ```text
//! Q_ij = a_i exp((g_j − C_ij)/ε) / (Σ_j' exp((g_j' − C_ij')/ε) + exp(g_s/ε)),
//! ```
//!
//! and likewise for the slack row, whose costs are zero. Then Σ|colsum − c| is the error, and replacing a row changes the
//! column sums by that row alone: [`Incremental`] keeps them up to date, so that most solves of a training loop
//! find the error still within the tolerance and do nothing.
//!
//! In single precision g − C carries an error of about 10⁻⁷ |C|, which γ magnifies; where the tolerance is
//! finer than that the arithmetic is in double precision. The costs are kept in the same bits either way.

use earthmover::{Checkpoint, Incremental, Marginals, Slack, Status};

use super::masses::Masses;
use super::storage::Stored;

/// How a solve ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) status: Status,
    /// L1 error of the column sums, slack column included, over ‖c‖₁.
    pub(crate) error: f64,
    pub(crate) iterations: usize,
}

/// The problem in the precision that the tolerance asks for.
#[derive(Debug, Clone)]
enum Live {
    Single(Incremental<f32, Stored>),
    Double(Incremental<f64, Stored>),
}

/// The same expression on either.
macro_rules! either {
    ($live:expr, $problem:ident => $value:expr) => {
        match $live {
            Live::Single($problem) => $value,
            Live::Double($problem) => $value,
        }
    };
}

/// What steers the solver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Settings {
    pub(crate) gamma: f64,
    pub(crate) tolerance: f64,
    pub(crate) max_iterations: usize,
}

/// The costs, the potentials, and the column sums that belong to them.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    settings: Settings,
    live: Live,
    masses: Masses,
    /// Whether row masses were given; if not they are all one.
    curriculum: bool,
    /// Sum of the row masses.
    supply: f64,
    /// γ·g, slack column last.
    scaling: Vec<f64>,
}

impl Engine {
    /// `supply` is the sum of the row masses.
    pub(crate) fn new(
        costs: Stored,
        settings: Settings,
        row_masses: Option<Vec<f64>>,
        supply: f64,
        masses: Masses,
    ) -> Result<Self, earthmover::Error> {
        let curriculum = row_masses.is_some();
        let rows = row_masses.unwrap_or_else(|| vec![1.0; costs.len() / masses.caps.len()]);
        let marginals = Marginals::with_slack(&rows, &masses.caps, slack(&masses))?;
        let (epsilon, cap) = (1.0 / settings.gamma, settings.max_iterations);
        // The paper starts from β = 0.
        let scaling = vec![0.0; masses.caps.len() + 1];
        let mut live = if settings.tolerance >= 1e-5 * settings.gamma {
            Live::Single(Incremental::over(costs, marginals, epsilon)?.max_iterations(cap))
        } else {
            Live::Double(Incremental::over(costs, marginals, epsilon)?.max_iterations(cap))
        };
        either!(&mut live, problem => problem.set_potentials(&scaling))?;
        Ok(Self {
            settings,
            live,
            curriculum,
            supply,
            scaling,
            masses,
        })
    }

    /// What to save; see [`resume`](Self::resume).
    pub(crate) fn checkpoint(&self) -> Checkpoint {
        either!(&self.live, problem => problem.checkpoint())
    }

    pub(crate) fn resume(&mut self, checkpoint: &Checkpoint) -> Result<(), earthmover::Error> {
        either!(&mut self.live, problem => problem.resume(checkpoint))?;
        self.rescale();
        Ok(())
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    pub(crate) fn costs(&self) -> &Stored {
        either!(&self.live, problem => problem.cost())
    }

    pub(crate) fn row_masses(&self) -> Option<&[f64]> {
        self.curriculum.then(|| self.rows())
    }

    pub(crate) fn row_mass(&self, index: usize) -> f64 {
        self.rows()[index]
    }

    fn rows(&self) -> &[f64] {
        either!(&self.live, problem => problem.marginals().rows())
    }

    /// Σ a_i.
    pub(crate) fn supply(&self) -> f64 {
        self.supply
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
        either!(&self.live, problem => problem.col_sums())
    }

    /// The indices must be in range and different, the costs finite.
    pub(crate) fn replace_rows(
        &mut self,
        indices: &[usize],
        costs: &[f32],
    ) -> Result<(), earthmover::Error> {
        match &mut self.live {
            Live::Single(problem) => problem.replace_rows(indices, costs),
            Live::Double(problem) => {
                let wide: Vec<f64> = costs.iter().map(|c| f64::from(*c)).collect();
                problem.replace_rows(indices, &wide)
            }
        }
    }

    pub(crate) fn set_row_masses(
        &mut self,
        row_masses: Option<Vec<f64>>,
        supply: f64,
        masses: Masses,
    ) -> Result<(), earthmover::Error> {
        let curriculum = row_masses.is_some();
        let rows = row_masses.unwrap_or_else(|| vec![1.0; self.rows().len()]);
        let marginals = Marginals::with_slack(&rows, &masses.caps, slack(&masses))?;
        either!(&mut self.live, problem => problem.set_marginals(marginals))?;
        (self.curriculum, self.supply, self.masses) = (curriculum, supply, masses);
        Ok(())
    }

    pub(crate) fn solve(&mut self, masses: Masses) -> Result<Outcome, earthmover::Error> {
        let tolerance = self.settings.tolerance;
        let answer = either!(&mut self.live, problem => {
            problem.set_columns(&masses.caps, slack(&masses))?;
            problem.solve(tolerance)?
        });
        self.masses = masses;
        if answer.iterations > 0 {
            self.rescale();
        }
        Ok(Outcome {
            status: answer.status,
            error: answer.violation,
            iterations: answer.iterations,
        })
    }

    fn rescale(&mut self) {
        let potentials = either!(&self.live, problem => problem.potentials());
        let scaled = potentials.iter().map(|g| g * self.settings.gamma);
        self.scaling = scaled.collect();
    }
}

fn slack(masses: &Masses) -> Slack {
    Slack {
        row: masses.slack_row,
        col: masses.slack_col,
        ..Slack::NONE
    }
}
