//! Regular grids: histograms and images, with costs that are sums over the axes.
//!
//! ```text
//! C_ij = Σ_a c_a(i_a, j_a)          exp(−C_ij/ε) = Π_a exp(−c_a(i_a, j_a)/ε)
//! ```
//!
//! So what a sweep does with n² entries can be done one axis after the other, in n · Σ sides; the entropic solvers see that for
//! themselves ([`Cost::grid`]). To the exact solvers a grid is a cost like any other.

use core::ops::Range;

use crate::{Cost, Error, Real};

/// The cost between the cells of a regular grid in one or more dimensions, row-major, the last axis fastest. Rows and columns are the same
/// cells.
///
/// # Examples
/// ```
/// use earthmover::{Cost, Entropic, Grid, Marginals, Problem};
/// let grid = Grid::unit(&[3, 3])?; // an image of the unit square
/// assert_eq!(grid.at(0, 8), 2.0); // from corner to corner, squared
/// let (mut here, mut there) = ([0.0; 9], [0.0; 9]);
/// (here[0], there[2]) = (1.0, 1.0);
/// let problem = Problem::new(grid, Marginals::balanced(&here, &there)?)?;
/// assert!((Entropic::new(0.01).solve(&problem)?.objective() - 1.0).abs() < 1e-9);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    sides: Vec<usize>,
    /// For each axis the cost from each place to each.
    axes: Vec<Vec<f64>>,
    count: usize,
    least: f64,
    greatest: f64,
}

impl Grid {
    /// Squared Euclidean distances on the unit cube, the first and last place of an axis at its ends; `sides[a]` places along axis a.
    ///
    /// # Errors
    /// [`Error::Empty`] without an axis or for one without a place, [`Error::TooLarge`] where the cells are more than can be counted.
    pub fn unit(sides: &[usize]) -> Result<Self, Error> {
        let count = sides.iter().try_fold(1usize, |n, s| n.checked_mul(*s));
        if count.is_none() {
            return Err(Error::TooLarge {
                rows: usize::MAX,
                cols: usize::MAX,
            });
        }
        let lines: Vec<Vec<f64>> = sides
            .iter()
            .map(|&side| {
                let last = side.saturating_sub(1).max(1) as f64;
                (0..side).map(|i| i as f64 / last).collect()
            })
            .collect();
        Self::squared_euclidean(&lines.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    /// Squared Euclidean distances, the places of each axis at these coordinates.
    ///
    /// # Errors
    /// As [`unit`](Self::unit), and [`Error::Matrix`] for coordinates so far apart, or none, that a cost is not a number.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Cost, Grid};
    /// let grid = Grid::squared_euclidean(&[&[0.0, 1.0], &[0.0, 2.0, 5.0]])?;
    /// assert_eq!(grid.at(0, 5), 26.0);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn squared_euclidean(coordinates: &[&[f64]]) -> Result<Self, Error> {
        Self::of_coordinates(coordinates, |d| d * d)
    }

    /// Manhattan distances, the places of each axis at these coordinates.
    ///
    /// # Errors
    /// As [`squared_euclidean`](Self::squared_euclidean).
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Cost, Grid};
    /// let grid = Grid::manhattan(&[&[0.0, 1.0], &[0.0, 2.0, 5.0]])?;
    /// assert_eq!(grid.at(0, 5), 6.0);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn manhattan(coordinates: &[&[f64]]) -> Result<Self, Error> {
        Self::of_coordinates(coordinates, f64::abs)
    }

    fn of_coordinates(coordinates: &[&[f64]], f: impl Fn(f64) -> f64) -> Result<Self, Error> {
        let sides: Vec<usize> = coordinates.iter().map(|c| c.len()).collect();
        let tables: Vec<Vec<f64>> = coordinates
            .iter()
            .map(|c| {
                let pairs = c.iter().flat_map(|&x| c.iter().map(move |&y| x - y));
                pairs.map(&f).collect()
            })
            .collect();
        Self::build(sides, tables)
    }

    /// Costs of one's own along each axis: `tables[a][i * sides[a] + j]` from place i to place j. They need not be symmetric.
    ///
    /// # Errors
    /// As [`unit`](Self::unit), [`Error::Length`] for tables of other sizes, [`Error::Matrix`] for an entry that is no number or too
    /// large for sums.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Cost, Grid};
    /// let hours = |i: usize, j: usize| { let d = i.abs_diff(j) as f64; d.min(24.0 - d) }; // round the clock
    /// let table: Vec<f64> = (0..24 * 24).map(|k| hours(k / 24, k % 24)).collect();
    /// assert_eq!(Grid::per_axis(&[24], &[&table])?.at(23, 1), 2.0);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn per_axis(sides: &[usize], tables: &[&[f64]]) -> Result<Self, Error> {
        if sides.len() != tables.len() {
            return Err(Error::Length {
                what: "axis costs",
                expected: sides.len(),
                found: tables.len(),
            });
        }
        for (side, table) in sides.iter().zip(tables) {
            let expected = side.checked_mul(*side).unwrap_or(usize::MAX);
            if table.len() != expected {
                return Err(Error::Length {
                    what: "costs of an axis",
                    expected,
                    found: table.len(),
                });
            }
        }
        let tables = tables.iter().map(|t| t.to_vec()).collect();
        Self::build(sides.to_vec(), tables)
    }

    fn build(sides: Vec<usize>, axes: Vec<Vec<f64>>) -> Result<Self, Error> {
        if sides.is_empty() || sides.contains(&0) {
            return Err(Error::Empty { rows: 0, cols: 0 });
        }
        let count = sides.iter().try_fold(1usize, |n, s| n.checked_mul(*s));
        let Some(count) = count else {
            return Err(Error::TooLarge {
                rows: usize::MAX,
                cols: usize::MAX,
            });
        };
        let (mut least, mut greatest) = (0.0, 0.0);
        for (side, table) in sides.iter().zip(&axes) {
            if let Some(at) = table
                .iter()
                .position(|c| !(c.abs() <= <f64 as Real>::LARGEST_COST / 8.0))
            {
                return Err(Error::Matrix {
                    what: "costs of an axis",
                    row: at / side,
                    col: at % side,
                    value: table[at],
                    expected: "a number of at most 1e249 in size",
                });
            }
            least += table.iter().copied().fold(f64::INFINITY, f64::min);
            greatest += table.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        }
        Ok(Self {
            sides,
            axes,
            count,
            least,
            greatest,
        })
    }

    /// Places along each axis.
    #[must_use]
    pub fn sides(&self) -> &[usize] {
        &self.sides
    }

    /// Costs along an axis, row-major.
    pub(crate) fn axis(&self, axis: usize) -> &[f64] {
        &self.axes[axis]
    }

    /// How many cells agree in the axes before, and how many follow each other in those after.
    pub(crate) fn strides(&self, axis: usize) -> (usize, usize) {
        let before = self.sides[..axis].iter().product();
        let after = self.sides[axis + 1..].iter().product();
        (before, after)
    }

    /// Writes the costs of one line: from a cell to all, or to a cell from all.
    fn line(&self, cell: usize, to: bool, out: &mut [f64]) {
        out.fill(0.0);
        for (a, &side) in self.sides.iter().enumerate() {
            let (_, inner) = self.strides(a);
            let place = cell / inner % side;
            let cost = |k: usize| match to {
                false => self.axes[a][place * side + k],
                true => self.axes[a][k * side + place],
            };
            for block in out.chunks_exact_mut(side * inner) {
                for (k, part) in block.chunks_exact_mut(inner).enumerate() {
                    let c = cost(k);
                    part.iter_mut().for_each(|o| *o += c);
                }
            }
        }
    }
}

impl Cost<f64> for Grid {
    fn rows(&self) -> usize {
        self.count
    }

    fn cols(&self) -> usize {
        self.count
    }

    fn at(&self, row: usize, col: usize) -> f64 {
        let mut total = 0.0;
        for (a, &side) in self.sides.iter().enumerate() {
            let (_, inner) = self.strides(a);
            total += self.axes[a][(row / inner % side) * side + col / inner % side];
        }
        total
    }

    fn fill(&self, rows: Range<usize>, out: &mut [f64]) {
        for (i, line) in rows.zip(out.chunks_exact_mut(self.count)) {
            self.line(i, false, line);
        }
    }

    fn fill_cols(&self, cols: Range<usize>, out: &mut [f64]) {
        for (j, line) in cols.zip(out.chunks_exact_mut(self.count)) {
            self.line(j, true, line);
        }
    }

    fn range(&self) -> Option<(f64, f64)> {
        Some((self.least, self.greatest))
    }

    fn grid(&self) -> Option<&Grid> {
        Some(self)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_entries() {
        let table = [0.0, 3.0, 1.0, 0.5];
        let grid = Grid::per_axis(
            &[2, 3],
            &[&table, &[0.0, 1.0, 4.0, 9.0, 0.0, 2.0, 5.0, 6.0, 0.0]],
        )
        .unwrap();
        let (mut row, mut col) = ([0.0; 6], [0.0; 6]);
        for i in 0..6 {
            grid.fill(i..i + 1, &mut row);
            grid.fill_cols(i..i + 1, &mut col);
            for j in 0..6 {
                assert_eq!((row[j], col[j]), (grid.at(i, j), grid.at(j, i)));
            }
        }
        assert_eq!(grid.range(), Some((0.0, 12.0)));
    }

    #[test]
    fn wrong_questions_are_refused() {
        assert!(Grid::unit(&[]).is_err() && Grid::unit(&[3, 0]).is_err());
        assert!(Grid::unit(&[usize::MAX, 2]).is_err());
        assert!(Grid::per_axis(&[2], &[&[0.0; 3]]).is_err());
        assert!(Grid::per_axis(&[2, 2], &[&[0.0; 4]]).is_err());
        assert!(Grid::squared_euclidean(&[&[0.0, f64::NAN]]).is_err());
        assert!(Grid::manhattan(&[&[0.0, 1e300]]).is_err());
    }
}
