//! Costs copied row by row, so that how they lie in memory is no penalty.
//!
//! Solvers read rows, again and again. A cost that lies column by column, or is worked out anew each time, is read many times
//! slower than one that lies row by row; one copy, within a budget of memory, makes them the same.

use core::ops::Range;

use crate::kernel::tiles::{map_tiles, tile_rows};
use crate::team::Shard;
use crate::{Cost, Dense, Real};

/// A cost's entries row by row.
#[derive(Debug)]
pub(crate) struct Copied<T> {
    entries: Vec<T>,
    rows: usize,
    cols: usize,
    range: Option<(f64, f64)>,
    shard: Option<Shard>,
}

impl<T: Real> Copied<T> {
    /// A copy of at most so many bytes; `None` where it would be larger, or the rows lie in memory already.
    pub(crate) fn within(cost: &dyn Cost<T>, bytes: usize) -> Option<Self> {
        let (rows, cols) = (cost.rows(), cost.cols());
        let size = rows.checked_mul(cols)?;
        // Members of a team do alike: by the size of the whole.
        let whole = super::whole_rows(cost).checked_mul(cols)?;
        if whole.checked_mul(size_of::<T>())? > bytes || cost.block(0..rows).is_some() {
            return None;
        }
        let mut entries = vec![T::zero(); size];
        map_tiles(&mut entries, tile_rows(rows, cols) * cols, |at, out| {
            cost.fill(at.start / cols..at.end / cols, out);
        });
        Some(Self {
            entries,
            rows,
            cols,
            range: cost.range(),
            shard: cost.shard().cloned(),
        })
    }

    fn dense(&self) -> Option<Dense<'_, T>> {
        Dense::new(&self.entries, self.rows, self.cols).ok()
    }
}

impl<T: Real> Cost<T> for Copied<T> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn cols(&self) -> usize {
        self.cols
    }

    fn at(&self, row: usize, col: usize) -> T {
        self.entries[row * self.cols + col]
    }

    fn fill(&self, rows: Range<usize>, out: &mut [T]) {
        out.copy_from_slice(&self.entries[rows.start * self.cols..rows.end * self.cols]);
    }

    fn fill_cols(&self, cols: Range<usize>, out: &mut [T]) {
        if let Some(dense) = self.dense() {
            dense.fill_cols(cols, out);
        }
    }

    fn block(&self, rows: Range<usize>) -> Option<&[T]> {
        self.entries
            .get(rows.start * self.cols..rows.end * self.cols)
    }

    fn is_stored(&self) -> bool {
        true
    }

    fn range(&self) -> Option<(f64, f64)> {
        self.range
    }

    fn shard(&self) -> Option<&Shard> {
        self.shard.as_ref()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::FromFn;

    #[test]
    fn a_copy_says_what_the_cost_says() {
        let cost = FromFn::new(301, 57, |i, j| (i * 1000 + j) as f64).unwrap();
        assert!(Copied::<f64>::within(&cost, 301 * 57 * 8 - 1).is_none());
        let copy = Copied::within(&cost, 301 * 57 * 8).unwrap();
        let (mut rows, mut cols) = (vec![0.0; 2 * 57], vec![0.0; 2 * 301]);
        copy.fill(7..9, &mut rows);
        copy.fill_cols(5..7, &mut cols);
        for j in 0..57 {
            assert_eq!(rows[57 + j], cost.at(8, j));
            assert_eq!(copy.at(300, j), cost.at(300, j));
        }
        assert!((0..301).all(|i| cols[301 + i] == cost.at(i, 6)));
        // What lies row by row is not copied.
        assert!(Copied::within(&copy, usize::MAX).is_none());
    }
}
