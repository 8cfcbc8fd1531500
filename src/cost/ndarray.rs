//! ndarray matrices and views of any layout as costs.
//!
//! Row-major arrays lend their rows where they lie; others are gathered line by line along their strides.

use core::ops::Range;

use ::ndarray::{ArrayBase, ArrayView1, Data, Ix2};

use crate::{Cost, Real};

impl<T, S> Cost<T> for ArrayBase<S, Ix2>
where
    T: Real,
    S: Data<Elem = T> + Sync,
{
    fn rows(&self) -> usize {
        self.nrows()
    }

    fn cols(&self) -> usize {
        self.ncols()
    }

    fn at(&self, row: usize, col: usize) -> T {
        self[[row, col]]
    }

    fn fill(&self, rows: Range<usize>, out: &mut [T]) {
        for (i, line) in rows.zip(out.chunks_exact_mut(self.ncols().max(1))) {
            copy(self.row(i), line);
        }
    }

    fn fill_cols(&self, cols: Range<usize>, out: &mut [T]) {
        for (j, line) in cols.zip(out.chunks_exact_mut(self.nrows().max(1))) {
            copy(self.column(j), line);
        }
    }

    fn block(&self, rows: Range<usize>) -> Option<&[T]> {
        let cols = self.ncols();
        self.as_slice()?.get(rows.start * cols..rows.end * cols)
    }

    fn is_stored(&self) -> bool {
        true
    }
}

fn copy<T: Real>(line: ArrayView1<'_, T>, out: &mut [T]) {
    match line.as_slice() {
        Some(line) => out.copy_from_slice(line),
        None => out.iter_mut().zip(line).for_each(|(o, c)| *o = *c),
    }
}
