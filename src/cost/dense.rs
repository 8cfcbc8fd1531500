//! Costs that lie row-major in memory.

use core::ops::Range;

use crate::{Cost, Error, Real};

/// A borrowed row-major slice read as a rows × columns cost.
///
/// # Examples
/// ```
/// use earthmover::{Cost, Dense};
/// let cost = Dense::new(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], 2, 3)?;
/// assert_eq!(cost.at(1, 0), 4.0);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Dense<'a, T> {
    entries: &'a [T],
    rows: usize,
    cols: usize,
}

impl<'a, T: Real> Dense<'a, T> {
    /// Reads `entries` as `rows` rows of `cols` costs each.
    ///
    /// # Errors
    /// [`Error::Length`] where `entries` has not `rows * cols` values, [`Error::TooLarge`] where that
    /// product overflows, [`Error::Empty`] where it is zero.
    pub fn new(entries: &'a [T], rows: usize, cols: usize) -> Result<Self, Error> {
        if rows == 0 || cols == 0 {
            return Err(Error::Empty { rows, cols });
        }
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
        Ok(Self::of(entries, rows, cols))
    }

    /// The same, of a shape that was looked at.
    pub(super) fn of(entries: &'a [T], rows: usize, cols: usize) -> Self {
        Self {
            entries,
            rows,
            cols,
        }
    }
}

impl<T: Real> Cost<T> for Dense<'_, T> {
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
        // Row by row, so that each read is a contiguous run and only the writes stride.
        for (i, line) in self.entries.chunks_exact(self.cols).enumerate() {
            for (j, &c) in line[cols.clone()].iter().enumerate() {
                out[j * self.rows + i] = c;
            }
        }
    }

    fn block(&self, rows: Range<usize>) -> Option<&[T]> {
        self.entries
            .get(rows.start * self.cols..rows.end * self.cols)
    }

    fn is_stored(&self) -> bool {
        true
    }
}
