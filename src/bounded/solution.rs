//! The answer: a plan within bounds, and what each bound is worth.

use super::projection::project_row;
use super::question::{check, lacking};
use crate::flow::Bounds;
use crate::problem::check::rows as check_rows;
use crate::{Certificate, Entry, Error, OwnedPlan, Status};

/// The answer to a [`BoundedTransport`](super::BoundedTransport): the plan, the shadow prices, the proof.
///
/// A *price* is what the optimal cost grows by per unit by which the binding bound is raised: negative
/// where an upper bound holds mass back, positive where a lower bound forces it, zero where neither
/// binds. At a degenerate optimum (all bounds whole numbers, say) several prices prove it and this is
/// one of them: then a bound that is met exactly may be worth less one way than the other.
///
/// # Examples
/// ```
/// use earthmover::{Dense, bounded::BoundedTransport};
/// let answer = BoundedTransport::new(Dense::new(&[0.0, 1.0, 0.0, 3.0], 2, 2)?)
///     .every_row(1.0)
///     .col_bounds([..=1.0, ..=2.0])
///     .solve()?;
/// assert_eq!(answer.objective(), 1.0);
/// assert_eq!(answer.col_prices(), [-1.0, 0.0]);
/// assert_eq!(answer.certificate().gap(), 0.0);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "look at `status` before trusting the answer"]
pub struct BoundedSolution {
    pub(super) plan: OwnedPlan,
    pub(super) prices: Prices,
    pub(super) row_potentials: Vec<f64>,
    pub(super) col_potentials: Vec<f64>,
    pub(super) certificate: Certificate,
    pub(super) status: Status,
    pub(super) iterations: usize,
    /// Zero for an exact answer.
    pub(super) epsilon: f64,
    pub(super) cap: f64,
}

/// Shadow prices of the rows and of the tree's nodes: columns, groups, the total.
#[derive(Debug, Clone)]
pub(super) struct Prices {
    pub(super) rows: Vec<f64>,
    pub(super) nodes: Vec<f64>,
}

impl BoundedSolution {
    /// How the solver ended.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Pivots of the exact solver; passes over the costs by cycles of projections and Newton's steps of the entropic one.
    #[must_use]
    pub fn iterations(&self) -> usize {
        self.iterations
    }

    /// The plan: a vertex of the polytope has few entries, an entropic plan has all.
    #[must_use]
    pub fn plan(&self) -> &OwnedPlan {
        &self.plan
    }

    /// The entries that carry mass, by row and column.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        self.plan.entries(0.0)
    }

    /// The whole plan row-major.
    #[must_use]
    pub fn to_dense(&self) -> Vec<f64> {
        self.plan.to_dense()
    }

    /// The sum of each row.
    #[must_use]
    pub fn row_sums(&self) -> Vec<f64> {
        self.plan.row_sums()
    }

    /// The sum of each column.
    #[must_use]
    pub fn col_sums(&self) -> Vec<f64> {
        self.plan.col_sums()
    }

    /// Cost ⟨C, P⟩ of the plan.
    #[must_use]
    pub fn objective(&self) -> f64 {
        self.certificate.objective
    }

    /// Shadow price of each row's bounds.
    #[must_use]
    pub fn row_prices(&self) -> &[f64] {
        &self.prices.rows
    }

    /// Shadow price of each column's bounds.
    #[must_use]
    pub fn col_prices(&self) -> &[f64] {
        &self.prices.nodes[..self.col_potentials.len()]
    }

    /// Shadow price of each group's bounds, in the order in which groups were added.
    #[must_use]
    pub fn group_prices(&self) -> &[f64] {
        &self.prices.nodes[self.col_potentials.len()..self.prices.nodes.len() - 1]
    }

    /// Shadow price of the bounds on the total.
    #[must_use]
    pub fn total_price(&self) -> f64 {
        self.prices.nodes[self.prices.nodes.len() - 1]
    }

    /// Potentials f of the rows. Of an exact answer `C_ij − f_i − g_j` is ≥ 0 where `P_ij = 0`, zero where it lies
    /// between zero and the cap, ≤ 0 at the cap; of an entropic one `P_ij = min(cap, exp((f_i + g_j − C_ij)/ε))`.
    #[must_use]
    pub fn row_potentials(&self) -> &[f64] {
        &self.row_potentials
    }

    /// Potentials g of the columns, groups and total included: where a new row would go is where
    /// `C_j − g_j` is least.
    #[must_use]
    pub fn col_potentials(&self) -> &[f64] {
        &self.col_potentials
    }

    /// Bounds on the optimum of the linear programme and the true error, evaluated from the data; `mass` is the plan's
    /// total, `violation` what all sums together are beyond their bounds by, as a share of it. An entropic answer's gap
    /// includes what the entropy costs. The bounds are plain sums and hold up to the rounding of their terms; `primal` is +∞
    /// where caps or forbidden pairs leave no simple way to make the plan feasible.
    #[must_use]
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The row that the plan would have for one more row with these costs and bounds, at the prices as they are: what was learnt
    /// from some rows, applied to others. An exact answer's prices give all to the cheapest columns, ties shared.
    ///
    /// # Errors
    /// [`Error::Length`] where a slice does not have an entry for each column, [`Error::Cost`] or [`Error::TooDear`] for a
    /// cost that is none, [`Error::Bounds`] for bounds that are none, [`Error::Infeasible`] where caps and forbidden pairs keep
    /// the row from its lower bound.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, bounded::{BoundedTransport, BregmanProjections}};
    /// let transport = BoundedTransport::new(Dense::new(&[0.1, 0.9, 0.2, 0.5], 2, 2)?)
    ///     .every_row(1.0)
    ///     .every_col(..=1.0);
    /// let answer = transport.solve_entropic(&BregmanProjections::new(0.05))?;
    /// let mut row = [0.0; 2];
    /// answer.new_row(&[0.2, 0.5], 1.0, &mut row)?; // costs like the second row's
    /// assert!((row[1] - answer.to_dense()[3]).abs() < 1e-6);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn new_row(
        &self,
        costs: &[f64],
        bounds: impl Into<Bounds>,
        out: &mut [f64],
    ) -> Result<(), Error> {
        let (k, bounds) = (self.col_potentials.len(), bounds.into());
        for (what, found) in [("costs of a row", costs.len()), ("a row", out.len())] {
            if found != k {
                let expected = k;
                return Err(Error::Length {
                    what,
                    expected,
                    found,
                });
            }
        }
        check_rows(costs, k, 0)?;
        check("row", &[bounds])?;
        let allowed = costs.iter().filter(|c| c.is_finite()).count();
        let most = if allowed == 0 {
            0.0
        } else {
            self.cap * allowed as f64
        };
        if bounds.lower > most || bounds.upper < 0.0 {
            return Err(lacking(bounds.lower.max(0.0), most.min(bounds.upper)));
        }
        let gamma = if self.epsilon > 0.0 {
            1.0 / self.epsilon
        } else {
            // So sharp that only what rounding cannot tell apart is shared.
            let finite = costs.iter().chain(&self.col_potentials);
            let scale = finite
                .filter(|c| c.is_finite())
                .fold(1e-250, |s, c| c.abs().max(s));
            HARDEST_SCALE / scale
        };
        for ((logit, cost), g) in out.iter_mut().zip(costs).zip(&self.col_potentials) {
            *logit = gamma * (g - cost);
        }
        project_row(out, bounds, self.cap);
        Ok(())
    }
}

/// 1/ε, over the size of the costs, at which nothing is soft.
const HARDEST_SCALE: f64 = 1e12;
