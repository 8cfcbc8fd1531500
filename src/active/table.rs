//! A cost table that can be written to.

use core::ops::Range;

use crate::{Cost, Real};

/// Costs row-major, owned. Rows may all be unwritten at first and share one constant.
#[derive(Debug, Clone)]
pub(crate) struct Table<T> {
    pub(crate) entries: Vec<T>,
    pub(crate) cols: usize,
}

impl<T: Real> Table<T> {
    pub(crate) fn row(&self, i: usize) -> &[T] {
        &self.entries[i * self.cols..][..self.cols]
    }
}

impl<T: Real> Cost<T> for Table<T> {
    fn rows(&self) -> usize {
        self.entries.len() / self.cols
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

    fn block(&self, rows: Range<usize>) -> Option<&[T]> {
        self.entries
            .get(rows.start * self.cols..rows.end * self.cols)
    }

    fn is_stored(&self) -> bool {
        true
    }
}
