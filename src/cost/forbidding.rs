//! A cost of which what is too dear is forbidden.
//!
//! ```text
//! C'_ij = C_ij where C_ij < limit, +∞ elsewhere
//! ```

use core::ops::Range;

use crate::{Cost, Real};

/// A view of a cost in which entries of `limit` or more are +∞.
pub(crate) struct Forbidding<'a, T> {
    cost: &'a dyn Cost<T>,
    limit: f64,
}

impl<'a, T: Real> Forbidding<'a, T> {
    pub(crate) fn new(cost: &'a dyn Cost<T>, limit: f64) -> Self {
        Self { cost, limit }
    }

    fn forbid(&self, entries: &mut [T]) {
        for c in entries {
            if c.widen() >= self.limit {
                *c = T::infinity();
            }
        }
    }
}

impl<T: Real> Cost<T> for Forbidding<'_, T> {
    fn rows(&self) -> usize {
        self.cost.rows()
    }

    fn cols(&self) -> usize {
        self.cost.cols()
    }

    fn at(&self, row: usize, col: usize) -> T {
        let mut entry = [self.cost.at(row, col)];
        self.forbid(&mut entry);
        entry[0]
    }

    fn fill(&self, rows: Range<usize>, out: &mut [T]) {
        self.cost.fill(rows, out);
        self.forbid(out);
    }

    fn fill_cols(&self, cols: Range<usize>, out: &mut [T]) {
        self.cost.fill_cols(cols, out);
        self.forbid(out);
    }

    fn is_stored(&self) -> bool {
        self.cost.is_stored()
    }
}
