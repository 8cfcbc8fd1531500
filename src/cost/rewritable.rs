//! A cost table that can be written to.

use core::ops::Range;

use crate::{Cost, Error, Real};

/// A cost whose rows can be replaced: what [`Incremental`](crate::Incremental) holds.
///
/// The costs may be kept in fewer bits than the solver computes in.
///
/// # Examples
/// ```
/// use earthmover::{Cost, Incremental, Marginals, Rewritable};
///
/// #[derive(Clone)]
/// struct Single { entries: Vec<f32>, cols: usize }
///
/// impl Cost<f64> for Single {
///     fn rows(&self) -> usize { self.entries.len() / self.cols }
///     fn cols(&self) -> usize { self.cols }
///     fn at(&self, i: usize, j: usize) -> f64 { f64::from(self.entries[i * self.cols + j]) }
/// }
///
/// impl Rewritable<f64> for Single {
///     fn write_row(&mut self, row: usize, costs: &[f64]) {
///         let place = &mut self.entries[row * self.cols..][..self.cols];
///         place.iter_mut().zip(costs).for_each(|(c, new)| *c = *new as f32);
///     }
/// }
///
/// let cost = Single { entries: vec![0.7; 8], cols: 2 };
/// let mut problem = Incremental::over(cost, Marginals::bounded(&[1.0; 4], &[3.0, 3.0], 3.0)?, 0.01)?;
/// problem.replace_rows(&[1], &[0.25, 4.0])?;
/// assert!(problem.solve(1e-9)?.status.is_converged());
/// # Ok::<(), earthmover::Error>(())
/// ```
pub trait Rewritable<T: Real>: Cost<T> {
    /// Replaces a row; `row` is in range and `costs` has one value per column.
    fn write_row(&mut self, row: usize, costs: &[T]);
}

/// Costs row-major, owned.
#[derive(Debug, Clone)]
pub struct Table<T> {
    pub(crate) entries: Vec<T>,
    pub(crate) cols: usize,
}

impl<T: Real> Rewritable<T> for Table<T> {
    fn write_row(&mut self, row: usize, costs: &[T]) {
        self.entries[row * self.cols..][..self.cols].copy_from_slice(costs);
    }
}

impl<T: Real> Table<T> {
    /// Takes over rows of so many costs each, one after the other; there may be none.
    ///
    /// # Errors
    /// [`Error::Length`] where they do not fill whole rows, [`Error::Empty`] for rows of nothing.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Cost, Table};
    /// assert_eq!(Table::new(vec![0.5, 1.0, 2.0, 0.0], 2)?.at(1, 0), 2.0);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn new(entries: Vec<T>, cols: usize) -> Result<Self, Error> {
        if cols == 0 {
            return Err(Error::Empty { rows: 0, cols });
        }
        let found = entries.len();
        if !found.is_multiple_of(cols) {
            return Err(Error::Length {
                what: "cost table",
                expected: found.next_multiple_of(cols),
                found,
            });
        }
        Ok(Self { entries, cols })
    }

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
