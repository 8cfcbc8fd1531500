//! The question: a cost and marginals, and no algorithm.
//!
//! ```text
//! minimise  Σ_ij C_ij P_ij  (+ slack costs)     subject to   P ≥ 0   and the marginals
//! ```

pub(crate) mod check;
pub(crate) mod marginals;
pub(crate) mod penalty;
pub(crate) mod whole;

use core::marker::PhantomData;
use std::sync::Arc;

use crate::cost::{Transposed, whole_rows};
use crate::{Cost, Error, Marginals, Real};

/// A problem whose cost is known only as a cost: what the solvers' bodies are compiled for.
#[allow(unreachable_pub)]
pub type Erased<'c, T> = Problem<T, &'c dyn Cost<T>>;

/// A transport problem: which cost, which masses.
///
/// # Examples
/// ```
/// use earthmover::{Dense, Marginals, Problem};
/// let cost = Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2)?;
/// let problem = Problem::new(cost, Marginals::uniform(2, 2)?)?;
/// assert_eq!((problem.rows(), problem.cols()), (2, 2));
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Problem<T, C> {
    cost: C,
    marginals: Arc<Marginals>,
    scalar: PhantomData<fn() -> T>,
}

impl<T: Real, C: Cost<T>> Problem<T, C> {
    /// Puts a cost and marginals together. Pass `&cost` to keep the cost.
    ///
    /// # Errors
    /// [`Error::Length`] where the marginals do not fit the cost, [`Error::TooLarge`] where the number
    /// of pairs overflows. The cost's entries are checked by the solvers, which read them anyway.
    pub fn new(cost: C, marginals: Marginals) -> Result<Self, Error> {
        let (rows, cols, whole) = (cost.rows(), cost.cols(), whole_rows(&cost));
        // A member of a team may have none.
        if whole == 0 || cols == 0 {
            return Err(Error::Empty { rows: whole, cols });
        }
        if cost.shard().is_some() && marginals.is_relaxed() {
            return Err(Error::Penalised { solver: "a team" });
        }
        if whole
            .checked_add(1)
            .zip(cols.checked_add(1))
            .and_then(|(r, c)| r.checked_mul(c))
            .is_none()
        {
            return Err(Error::TooLarge { rows: whole, cols });
        }
        for (what, expected, found) in [
            ("row masses", rows, marginals.rows().len()),
            ("column masses", cols, marginals.cols().len()),
        ] {
            if expected != found {
                return Err(Error::Length {
                    what,
                    expected,
                    found,
                });
            }
        }
        Ok(Self {
            cost,
            marginals: Arc::new(marginals),
            scalar: PhantomData,
        })
    }

    /// Number of rows, slack not counted.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.marginals.rows().len()
    }

    /// Number of columns, slack not counted.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.marginals.cols().len()
    }

    /// The cost.
    #[must_use]
    pub fn cost(&self) -> &C {
        &self.cost
    }

    /// The masses.
    #[must_use]
    pub fn marginals(&self) -> &Marginals {
        &self.marginals
    }

    /// The same question without the type of its cost.
    pub(crate) fn erased(&self) -> Erased<'_, T> {
        Problem {
            cost: &self.cost,
            marginals: Arc::clone(&self.marginals),
            scalar: PhantomData,
        }
    }

    /// The same question over another reading of its cost.
    pub(crate) fn over<'v>(&self, cost: &'v dyn Cost<T>) -> Erased<'v, T> {
        Problem {
            cost,
            marginals: Arc::clone(&self.marginals),
            scalar: PhantomData,
        }
    }

    /// The same question with rows and columns exchanged, over a view of the cost that does the same.
    pub(crate) fn transposed_over<'v>(&self, view: &'v dyn Cost<T>) -> Erased<'v, T> {
        Problem {
            cost: view,
            marginals: Arc::new(self.marginals.transposed()),
            scalar: PhantomData,
        }
    }

    /// The same question with rows and columns exchanged; borrows the cost.
    #[must_use]
    pub fn transposed(&self) -> Problem<T, Transposed<&C>> {
        Problem {
            cost: Transposed(&self.cost),
            marginals: Arc::new(self.marginals.transposed()),
            scalar: PhantomData,
        }
    }
}
