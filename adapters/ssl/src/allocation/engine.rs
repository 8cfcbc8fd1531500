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

use std::fmt;
use std::str::FromStr;

use earthmover::team::Shard;
use earthmover::{Checkpoint, Incremental, Marginals, Potentials, Sinkhorn, Slack, Status};
use serde::{Deserialize, Serialize};

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

/// What solves the allocation.
///
/// Both stop at the same tolerance, but not at the same potentials: near ρ = 1 the semi-dual is flat, and Newton's steps go on to its
/// top where the paper's alternating updates stop on the way. Labels that an example has by a wide margin are the same; weights of
/// undecided ones differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AllocationSolver {
    /// Newton's method on the semi-dual, with column sums kept up to date: a fraction of a pass over the costs per step.
    #[default]
    Newton,
    /// The paper's Algorithm 1: alternating updates from the last β, all costs at each; an ablation.
    Sinkhorn,
}

impl AllocationSolver {
    /// Whether it is the default.
    #[must_use]
    pub fn is_newton(&self) -> bool {
        *self == Self::Newton
    }
}

impl fmt::Display for AllocationSolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Newton => "newton",
            Self::Sinkhorn => "sinkhorn",
        })
    }
}

impl FromStr for AllocationSolver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "newton" => Ok(Self::Newton),
            "sinkhorn" => Ok(Self::Sinkhorn),
            _ => Err(format!("unknown solver `{text}`: newton or sinkhorn")),
        }
    }
}

/// What steers the solver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Settings {
    pub(crate) solver: AllocationSolver,
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
    /// Column sums of the last solve by Algorithm 1, which keeps none of its own.
    alternated: Option<Vec<f64>>,
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
        let marginals = marginals(costs.part(), &rows, &masses)?;
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
            alternated: None,
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

    #[cfg(feature = "train")]
    pub(crate) fn set_solver(&mut self, solver: AllocationSolver) {
        self.settings.solver = solver;
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
        match &self.alternated {
            Some(sums) => sums,
            None => either!(&self.live, problem => problem.col_sums()),
        }
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
        let marginals = marginals(self.costs().part(), &rows, &masses)?;
        either!(&mut self.live, problem => problem.set_marginals(marginals))?;
        (self.curriculum, self.supply, self.masses) = (curriculum, supply, masses);
        Ok(())
    }

    pub(crate) fn solve(&mut self, masses: Masses) -> Result<Outcome, earthmover::Error> {
        let tolerance = self.settings.tolerance;
        if self.settings.solver == AllocationSolver::Sinkhorn {
            return self.alternate(masses);
        }
        let answer = either!(&mut self.live, problem => {
            problem.set_columns(&masses.caps, slack(&masses))?;
            problem.solve(tolerance)?
        });
        (self.masses, self.alternated) = (masses, None);
        if answer.iterations > 0 {
            self.rescale();
        }
        Ok(Outcome {
            status: answer.status,
            error: answer.violation,
            iterations: answer.iterations,
        })
    }

    /// Algorithm 1: plain alternating updates from the last potentials until the tolerance is met.
    fn alternate(&mut self, masses: Masses) -> Result<Outcome, earthmover::Error> {
        let (gamma, k) = (self.settings.gamma, masses.caps.len());
        let solver = Sinkhorn::new(1.0 / gamma)
            .acceleration(0)
            .tolerance(self.settings.tolerance)
            .max_iterations(self.settings.max_iterations);
        let start =
            Potentials::from_columns(self.scaling[..k].iter().map(|beta| beta / gamma).collect())
                .slack(0.0, self.scaling[k] / gamma);
        let supply = self.supply;
        let (outcome, found, sums) = either!(&mut self.live, problem => {
            problem.set_columns(&masses.caps, slack(&masses))?;
            let asked = problem.problem()?;
            let answer = solver.solve_from(&asked, &start)?;
            let mut found = answer.potentials().cols.clone();
            found.push(answer.potentials().slack_col);
            let outcome = Outcome {
                status: answer.status(),
                error: answer.certificate().violation,
                iterations: answer.iterations(),
            };
            let mut sums = answer.plan().col_sums();
            sums.push(supply - sums.iter().sum::<f64>());
            (outcome, found, sums)
        });
        either!(&mut self.live, problem => problem.set_potentials(&found))?;
        (self.masses, self.alternated) = (masses, Some(sums));
        self.rescale();
        Ok(outcome)
    }

    fn rescale(&mut self) {
        let potentials = either!(&self.live, problem => problem.potentials());
        let scaled = potentials.iter().map(|g| g * self.settings.gamma);
        self.scaling = scaled.collect();
    }
}

/// Masses of one machine's rows, or of a member's of a team.
fn marginals(
    shard: Option<&Shard>,
    rows: &[f64],
    masses: &Masses,
) -> Result<Marginals, earthmover::Error> {
    match shard {
        None => Marginals::with_slack(rows, &masses.caps, slack(masses)),
        Some(shard) => Marginals::with_slack_over(shard, rows, &masses.caps, slack(masses)),
    }
}

fn slack(masses: &Masses) -> Slack {
    Slack::new(masses.slack_row, masses.slack_col)
}
