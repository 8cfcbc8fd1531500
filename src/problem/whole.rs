//! All rows of a problem that a team holds, on every member.
//!
//! What cannot be done row by row, a flow on the pattern of allowed pairs, an exact solve, a wide problem turned round, is done by every
//! member for itself on the whole problem, as long as that is small enough to be sent round.

use crate::{Cost, Dense, Error, Marginals, Problem, Real};

/// Entries that are sent round at most.
const MOST_ENTRIES: usize = 1 << 25;

/// The costs and masses of all rows.
#[derive(Debug)]
#[allow(unreachable_pub)]
pub struct Whole<T> {
    entries: Vec<T>,
    marginals: Marginals,
}

impl<T: Real> Whole<T> {
    /// Sends the rows of a problem round; `None` where nobody else has any. All members call it.
    ///
    /// # Errors
    /// [`Error::Apart`] where that is too much for `what`.
    pub(crate) fn gather<C: Cost<T>>(
        problem: &Problem<T, C>,
        what: &'static str,
    ) -> Result<Option<Self>, Error> {
        let (cost, marginals) = (problem.cost(), problem.marginals());
        let Some(shard) = cost.shard() else {
            return Ok(None);
        };
        let entries = shard.whole().saturating_mul(cost.cols());
        if entries > MOST_ENTRIES {
            return Err(Error::Apart {
                what,
                entries,
                most: MOST_ENTRIES,
            });
        }
        let mut own = vec![T::zero(); problem.rows() * cost.cols()];
        cost.fill(0..problem.rows(), &mut own);
        let costs = shard.gather(Ok(own.iter().map(|c| c.widen()).collect()))?;
        let masses = shard.gather(Ok(marginals.rows().to_vec()))?;
        Ok(Some(Self {
            entries: costs.iter().flatten().map(|c| T::narrow(*c)).collect(),
            marginals: marginals.with_rows(masses.concat()),
        }))
    }

    /// The problem of all rows.
    pub(crate) fn problem(&self) -> Result<Problem<T, Dense<'_, T>>, Error> {
        let (rows, cols) = (self.marginals.rows().len(), self.marginals.cols().len());
        let cost = Dense::new(&self.entries, rows, cols)?;
        Problem::new(cost, self.marginals.clone())
    }
}
