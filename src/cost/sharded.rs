//! A member's rows of a cost that a team holds together.

use core::ops::Range;

use super::{Cost, Dense, Rewritable};
use crate::team::Shard;
use crate::{Error, Real};

/// The rows of a [`Shard`], as a cost: everything that is done with it is done by the whole team.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use earthmover::cost::Sharded;
/// use earthmover::team::{Alone, Shard};
/// use earthmover::{Cost, Entropic, FromFn, Marginals, Problem, Slack};
///
/// let whole = FromFn::new(1000, 3, |i, j| (i % 3).abs_diff(j) as f64)?;
/// let shard = Shard::new(Arc::new(Alone), 1000, 3); // a member of a larger team holds a part of the rows
/// let cost = Sharded::part_of(whole, shard.clone())?;
/// let masses = vec![1.0; cost.rows()];
/// let marginals = Marginals::with_slack_over(&shard, &masses, &[200.0, 300.0, 500.0], Slack::NONE)?;
/// let problem = Problem::new(cost, marginals)?;
/// let solution = Entropic::new(0.1).solve(&problem)?; // the same on all members
/// assert!(solution.status().is_converged());
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Sharded<C> {
    cost: C,
    /// The shard's first row in `cost`.
    first: usize,
    shard: Shard,
}

impl<C> Sharded<C> {
    /// This member's part of a cost of all rows: one that is worked out, or a file of which only the rows that are asked for are read.
    ///
    /// # Errors
    /// [`Error::Length`] where the cost is not of the shape that the shard is a part of.
    pub fn part_of<T: Real>(cost: C, shard: Shard) -> Result<Self, Error>
    where
        C: Cost<T>,
    {
        let first = shard.rows().start;
        Self::checked(cost, first, shard.whole(), shard)
    }

    /// A cost of this member's rows alone.
    ///
    /// # Errors
    /// [`Error::Length`] where it has not as many rows and columns as the shard.
    pub fn own<T: Real>(cost: C, shard: Shard) -> Result<Self, Error>
    where
        C: Cost<T>,
    {
        let rows = shard.rows().len();
        Self::checked(cost, 0, rows, shard)
    }

    fn checked<T: Real>(cost: C, first: usize, rows: usize, shard: Shard) -> Result<Self, Error>
    where
        C: Cost<T>,
    {
        for (what, expected, found) in [
            ("rows of the shard's cost", rows, cost.rows()),
            ("columns of the shard's cost", shard.cols(), cost.cols()),
        ] {
            if expected != found {
                return Err(Error::Length {
                    what,
                    expected,
                    found,
                });
            }
        }
        Ok(Self { cost, first, shard })
    }

    /// The cost as it was given.
    #[must_use]
    pub fn inner(&self) -> &C {
        &self.cost
    }

    fn within(&self, rows: Range<usize>) -> Range<usize> {
        self.first + rows.start..self.first + rows.end
    }
}

impl<'a, T: Real> Sharded<Dense<'a, T>> {
    /// The shard's rows, which may be none, row-major.
    ///
    /// # Errors
    /// [`Error::Length`] where there are more or fewer entries.
    pub fn rows_of(entries: &'a [T], shard: Shard) -> Result<Self, Error> {
        let (rows, cols) = (shard.rows().len(), shard.cols());
        let expected = rows
            .checked_mul(cols)
            .ok_or(Error::TooLarge { rows, cols })?;
        if entries.len() != expected {
            return Err(Error::Length {
                what: "dense cost",
                expected,
                found: entries.len(),
            });
        }
        let cost = Dense::of(entries, rows, cols);
        Self::own(cost, shard)
    }
}

impl<T: Real, C: Cost<T>> Cost<T> for Sharded<C> {
    fn rows(&self) -> usize {
        self.shard.rows().len()
    }

    fn cols(&self) -> usize {
        self.shard.cols()
    }

    fn at(&self, row: usize, col: usize) -> T {
        self.cost.at(self.first + row, col)
    }

    fn fill(&self, rows: Range<usize>, out: &mut [T]) {
        self.cost.fill(self.within(rows), out);
    }

    fn block(&self, rows: Range<usize>) -> Option<&[T]> {
        self.cost.block(self.within(rows))
    }

    fn is_stored(&self) -> bool {
        self.cost.is_stored()
    }

    fn range(&self) -> Option<(f64, f64)> {
        self.cost.range()
    }

    fn shard(&self) -> Option<&Shard> {
        Some(&self.shard)
    }
}

impl<T: Real, C: Rewritable<T>> Rewritable<T> for Sharded<C> {
    fn write_row(&mut self, row: usize, costs: &[T]) {
        self.cost.write_row(self.first + row, costs);
    }
}

/// Some rows of a cost, numbered from the first of the whole problem and rising, on every member of its team.
pub(crate) fn fetch<T: Real, C: Cost<T> + ?Sized>(
    cost: &C,
    rows: &[usize],
) -> Result<Vec<T>, Error> {
    let k = cost.cols();
    let write = |first: usize, rows: &[usize]| {
        let mut lines = vec![T::zero(); rows.len() * k];
        for (&i, line) in rows.iter().zip(lines.chunks_exact_mut(k.max(1))) {
            super::copy_row(cost, i - first, line);
        }
        lines
    };
    let Some(shard) = cost.shard() else {
        return Ok(write(0, rows));
    };
    let own = shard.rows();
    let from = rows.partition_point(|i| *i < own.start);
    let to = rows.partition_point(|i| *i < own.end);
    let mine = write(own.start, &rows[from..to]);
    let all = shard.gather(Ok(mine.iter().map(|c| c.widen()).collect()))?;
    Ok(all.iter().flatten().map(|c| T::narrow(*c)).collect())
}

/// Rows of the whole problem that a cost is a part of.
pub(crate) fn whole_rows<T: Real, C: Cost<T> + ?Sized>(cost: &C) -> usize {
    cost.shard().map_or_else(|| cost.rows(), Shard::whole)
}
