//! Costs given by a closure.

use core::fmt;

use crate::{Cost, Error, Real};

/// A cost computed entry by entry; nothing is stored.
///
/// # Examples
/// ```
/// use earthmover::{Cost, FromFn};
/// let cost = FromFn::new(3, 3, |i, j| if i == j { f64::INFINITY } else { 1.0 })?;
/// assert_eq!(cost.at(0, 1), 1.0);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct FromFn<F> {
    rows: usize,
    cols: usize,
    price: F,
}

// By hand, because closures have no `Debug` and problems and answers over them should.
impl<F> fmt::Debug for FromFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FromFn({} x {})", self.rows, self.cols)
    }
}

impl<F> FromFn<F> {
    /// A `rows` × `cols` cost whose entry (i, j) is `price(i, j)`.
    ///
    /// # Errors
    /// [`Error::Empty`] where a side is zero.
    pub fn new<T: Real>(rows: usize, cols: usize, price: F) -> Result<Self, Error>
    where
        F: Fn(usize, usize) -> T + Sync,
    {
        if rows == 0 || cols == 0 {
            return Err(Error::Empty { rows, cols });
        }
        Ok(Self { rows, cols, price })
    }
}

impl<T: Real, F: Fn(usize, usize) -> T + Sync> Cost<T> for FromFn<F> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn cols(&self) -> usize {
        self.cols
    }

    fn at(&self, row: usize, col: usize) -> T {
        (self.price)(row, col)
    }
}
