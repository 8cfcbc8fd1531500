//! nalgebra matrices and views of any storage as costs.
//!
//! nalgebra stores columns one after the other, so rows are gathered tile by tile and columns are
//! handed over without striding.

use core::ops::Range;

use ::nalgebra::{Dim, Matrix, RawStorage, Scalar};

use crate::{Cost, Real};

impl<T, R, K, S> Cost<T> for Matrix<T, R, K, S>
where
    T: Real + Scalar,
    R: Dim,
    K: Dim,
    S: RawStorage<T, R, K> + Sync,
{
    fn rows(&self) -> usize {
        self.nrows()
    }

    fn cols(&self) -> usize {
        self.ncols()
    }

    fn at(&self, row: usize, col: usize) -> T {
        self[(row, col)]
    }

    fn fill(&self, rows: Range<usize>, out: &mut [T]) {
        let cols = self.ncols();
        for j in 0..cols {
            for (r, i) in rows.clone().enumerate() {
                out[r * cols + j] = self[(i, j)];
            }
        }
    }

    fn is_stored(&self) -> bool {
        true
    }
}
