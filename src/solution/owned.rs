//! An answer that outlives its question.

use super::plan::Entry;
use crate::{Certificate, Potentials, Status};

/// A plan by itself: few entries, or all of them.
///
/// # Examples
/// ```
/// use earthmover::{Dense, Exact, Marginals, OwnedPlan, Problem};
/// let problem = Problem::new(Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2)?, Marginals::uniform(2, 2)?)?;
/// let plan = Exact::new().solve(&problem)?.into_owned().plan;
/// assert!(matches!(&plan, OwnedPlan::Sparse { entries, .. } if entries.len() == 2));
/// assert_eq!(plan.to_dense(), [0.5, 0.0, 0.0, 0.5]);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum OwnedPlan {
    /// The entries that carry mass, by row and column.
    Sparse {
        /// Number of rows.
        rows: usize,
        /// Number of columns.
        cols: usize,
        /// The entries.
        entries: Vec<Entry>,
    },
    /// Every entry, row-major.
    Dense {
        /// Number of rows.
        rows: usize,
        /// Number of columns.
        cols: usize,
        /// rows × columns masses.
        masses: Vec<f64>,
    },
}

impl OwnedPlan {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Self::Sparse { rows, .. } | Self::Dense { rows, .. } => *rows,
        }
    }

    /// Number of columns.
    #[must_use]
    pub fn cols(&self) -> usize {
        match self {
            Self::Sparse { cols, .. } | Self::Dense { cols, .. } => *cols,
        }
    }

    /// Calls `visit` with every entry that carries mass, by row and column.
    pub fn for_each(&self, mut visit: impl FnMut(Entry)) {
        match self {
            Self::Sparse { entries, .. } => entries.iter().for_each(|&e| visit(e)),
            Self::Dense { cols, masses, .. } => {
                for (at, &mass) in masses.iter().enumerate().filter(|(_, m)| **m > 0.0) {
                    let (row, col) = (at / cols, at % cols);
                    visit(Entry { row, col, mass });
                }
            }
        }
    }

    /// All entries that carry mass and not `threshold` or less, by row and column.
    #[must_use]
    pub fn entries(&self, threshold: f64) -> Vec<Entry> {
        let mut found = Vec::new();
        self.for_each(|e| {
            if !(e.mass <= threshold) {
                found.push(e);
            }
        });
        found
    }

    /// The whole plan row-major: rows × columns numbers.
    #[must_use]
    pub fn to_dense(&self) -> Vec<f64> {
        if let Self::Dense { masses, .. } = self {
            return masses.clone();
        }
        let mut dense = vec![0.0; self.rows() * self.cols()];
        self.for_each(|e| dense[e.row * self.cols() + e.col] = e.mass);
        dense
    }

    /// Mass that each row gives.
    #[must_use]
    pub fn row_sums(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.rows()];
        self.for_each(|e| sums[e.row] += e.mass);
        sums
    }

    /// Mass that each column receives.
    #[must_use]
    pub fn col_sums(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.cols()];
        self.for_each(|e| sums[e.col] += e.mass);
        sums
    }

    /// Mass moved in all.
    #[must_use]
    pub fn mass(&self) -> f64 {
        crate::kernel::rounding::sum(&self.row_sums())
    }
}

/// What a [`Solution`](crate::Solution) has to say, without the problem it borrows: to return, keep, send or write down.
///
/// # Examples
/// ```
/// use earthmover::{Dense, Error, Exact, Marginals, OwnedSolution, Problem};
///
/// fn solve(costs: &[f64], n: usize) -> Result<OwnedSolution, Error> {
///     let problem = Problem::new(Dense::new(costs, n, n)?, Marginals::uniform(n, n)?)?;
///     Ok(Exact::new().solve(&problem)?.into_owned()) // the problem ends here, the answer does not
/// }
///
/// let answer = solve(&[0.0, 1.0, 1.0, 0.0], 2)?;
/// assert!(answer.status.is_converged() && answer.certificate.gap() == 0.0);
/// assert_eq!(answer.plan.entries(0.0).len(), 2);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
#[must_use = "look at `status` before trusting the answer"]
pub struct OwnedSolution {
    /// How the solver ended.
    pub status: Status,
    /// Iterations used: sweeps over the cost, pivots or rounds.
    pub iterations: usize,
    /// L1 distance of the plan's marginals from the ones asked for, over the total mass.
    pub violation: f64,
    /// The regularisation of an entropic answer; zero for an exact one.
    pub epsilon: f64,
    /// The dual variables.
    pub potentials: Potentials,
    /// The plan, slack not included.
    pub plan: OwnedPlan,
    /// Bounds on the optimum and the true error.
    pub certificate: Certificate,
}
