//! Costs of some pairs only: all others are forbidden.
//!
//! ```text
//! C_ij = c_p   where the pair (i, j) is the p-th that is named,        C_ij = +∞   elsewhere
//! ```
//!
//! The same question as a matrix with +∞ elsewhere, and the same answers, errors and proofs; but solvers that ask for
//! [`Cost::pairs`] look at what is allowed and at nothing else, so that their work and memory grow with the number of pairs and not
//! with rows × columns. Pairs are kept twice, by row and by column: a transposed view is as good as the cost itself.

use core::ops::Range;

use crate::{Cost, Error, Real};

/// Pairs in compressed lines: those of line `i` lie at `starts[i]..starts[i + 1]`, by the other index.
#[derive(Debug, Clone, Default)]
struct Lines<T> {
    starts: Vec<usize>,
    others: Vec<u32>,
    costs: Vec<T>,
}

impl<T: Real> Lines<T> {
    fn line(&self, i: usize) -> (&[u32], &[T]) {
        let places = self.starts[i]..self.starts[i + 1];
        (&self.others[places.clone()], &self.costs[places])
    }

    /// Lines of these many from (line, other, cost), a line's pairs in the order in which they come.
    fn gathered(count: usize, pairs: impl Iterator<Item = (usize, u32, T)> + Clone) -> Self {
        let mut starts = vec![0; count + 1];
        for (line, ..) in pairs.clone() {
            starts[line + 1] += 1;
        }
        for line in 0..count {
            starts[line + 1] += starts[line];
        }
        let mut others = vec![0; starts[count]];
        let mut costs = vec![T::zero(); starts[count]];
        let mut next = starts.clone();
        for (line, other, cost) in pairs {
            (others[next[line]], costs[next[line]]) = (other, cost);
            next[line] += 1;
        }
        Self {
            starts,
            others,
            costs,
        }
    }

    fn iter(&self) -> impl Iterator<Item = (usize, u32, T)> + Clone + '_ {
        (0..self.starts.len() - 1).flat_map(|i| {
            let (others, costs) = self.line(i);
            others.iter().zip(costs).map(move |(&j, &c)| (i, j, c))
        })
    }

    /// The same pairs by their other index: each line then is in order, whatever the order was.
    fn turned(&self, count: usize) -> Self {
        let turned = self.iter().map(|(i, j, c)| (j as usize, i as u32, c));
        Self::gathered(count, turned)
    }

    /// Writes lines with +∞ between the pairs.
    fn fill(&self, lines: Range<usize>, length: usize, out: &mut [T]) {
        out.fill(T::infinity());
        for (i, out) in lines.zip(out.chunks_exact_mut(length.max(1))) {
            let (others, costs) = self.line(i);
            for (&j, &c) in others.iter().zip(costs) {
                out[j as usize] = c;
            }
        }
    }
}

/// The costs of some pairs; all others are forbidden.
///
/// Exact and entropic solvers look at the pairs alone: thirty pairs for each of 100,000 rows and columns are seconds of sweeps, and for each
/// of 20,000 seconds of pivots. [`Newton`](crate::Newton) and [`ShortestPaths`](crate::ShortestPaths), where they are asked for by
/// name, read whole rows.
///
/// # Examples
/// ```
/// use earthmover::{Entropic, Exact, Marginals, Problem, Sparse};
/// // Three workers, three machines; who has not learnt a machine is not listed with it.
/// let hours = Sparse::from_pairs(3, 3, [(0, 0, 4.0), (0, 1, 2.0), (1, 1, 3.0), (1, 2, 5.0), (2, 0, 1.0)])?;
/// let problem = Problem::new(&hours, Marginals::uniform(3, 3)?)?;
/// let solution = Exact::new().solve(&problem)?;
/// assert_eq!(solution.plan().argmax(), [Some(1), Some(2), Some(0)]);
/// assert!((Entropic::new(0.01).solve(&problem)?.objective() - 8.0 / 3.0).abs() < 1e-6);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Sparse<T> {
    by_row: Lines<T>,
    by_col: Lines<T>,
}

impl<T: Real> Sparse<T> {
    /// Reads compressed rows: the pairs of row `i` lie at `starts[i]..starts[i + 1]` of `indices`, which are their columns in any
    /// order, and of `costs`. A cost of +∞ forbids its pair like one that is not named.
    ///
    /// # Errors
    /// [`Error::Empty`] without rows or columns; [`Error::Length`] where there are not `rows + 1` starts, where the last is not the
    /// number of pairs, or indices and costs differ in number; [`Error::Starts`] for a row that ends before it starts;
    /// [`Error::Index`] for a column that is not there; [`Error::Duplicate`] for a pair that is named twice;
    /// [`Error::TooLarge`] for more than 2³² − 1 rows or columns. What is wrong with a cost is said when a problem is solved.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Cost, Sparse};
    /// let cost = Sparse::from_csr(2, 3, &[0, 2, 3], &[0, 2, 1], &[1.0, 2.0, 3.0])?;
    /// assert_eq!((cost.at(0, 2), cost.at(1, 1), cost.at(1, 2)), (2.0, 3.0, f64::INFINITY));
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn from_csr(
        rows: usize,
        cols: usize,
        starts: &[usize],
        indices: &[usize],
        costs: &[T],
    ) -> Result<Self, Error> {
        check_shape(rows, cols)?;
        let length = |what, expected, found| Error::Length {
            what,
            expected,
            found,
        };
        if starts.len() != rows + 1 {
            return Err(length("row starts", rows + 1, starts.len()));
        }
        if indices.len() != costs.len() {
            return Err(length("costs of the pairs", indices.len(), costs.len()));
        }
        let mut end = 0;
        for (row, &next) in starts.iter().enumerate() {
            if next < end || (row == 0 && next > 0) {
                return Err(Error::Starts {
                    row: row.saturating_sub(1),
                    start: if row == 0 { next } else { end },
                    end: next,
                });
            }
            end = next;
        }
        if end != indices.len() {
            return Err(length("pairs", end, indices.len()));
        }
        let line = |i: usize| starts[i]..starts[i + 1];
        let named = (0..rows).flat_map(|i| line(i).map(move |at| (i, indices[at], costs[at])));
        Self::checked(rows, cols, named)
    }

    /// Reads pairs (row, column, cost) in any order.
    ///
    /// # Errors
    /// As [`from_csr`](Self::from_csr): [`Error::Index`] for a row or column that is not there, [`Error::Duplicate`] for a pair that
    /// is named twice.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Error, Sparse};
    /// let twice = Sparse::from_pairs(2, 2, [(0, 1, 1.0), (1, 0, 1.0), (0, 1, 2.0)]);
    /// assert_eq!(twice.unwrap_err(), Error::Duplicate { row: 0, col: 1 });
    /// ```
    pub fn from_pairs(
        rows: usize,
        cols: usize,
        pairs: impl IntoIterator<Item = (usize, usize, T)>,
    ) -> Result<Self, Error> {
        check_shape(rows, cols)?;
        let pairs: Vec<_> = pairs.into_iter().collect();
        Self::checked(rows, cols, pairs.iter().copied())
    }

    fn checked(
        rows: usize,
        cols: usize,
        named: impl Iterator<Item = (usize, usize, T)> + Clone,
    ) -> Result<Self, Error> {
        for (i, j, _) in named.clone() {
            for (what, index, len) in [("row", i, rows), ("column", j, cols)] {
                if index >= len {
                    return Err(Error::Index { what, index, len });
                }
            }
        }
        let named = named.map(|(i, j, c)| (i, j as u32, c));
        // Turned twice, every line is in order. What is forbidden by its cost goes only then: named twice is named twice.
        let by_col = Lines::gathered(rows, named).turned(cols);
        let by_row = by_col.turned(rows);
        let same = |(i, w): (usize, &[u32])| (w[0] == w[1]).then_some((i, w[0] as usize));
        let twice = (0..rows)
            .flat_map(|i| by_row.line(i).0.windows(2).map(move |w| (i, w)))
            .find_map(same);
        if let Some((row, col)) = twice {
            return Err(Error::Duplicate { row, col });
        }
        if !by_row.costs.contains(&T::infinity()) {
            return Ok(Self { by_row, by_col });
        }
        let allowed = by_row.iter().filter(|p| p.2 != T::infinity());
        let by_row = Lines::gathered(rows, allowed);
        let by_col = by_row.turned(cols);
        Ok(Self { by_row, by_col })
    }

    /// How many pairs are allowed.
    ///
    /// # Examples
    /// ```
    /// use earthmover::Sparse;
    /// let cost = Sparse::from_pairs(2, 2, [(0, 1, 1.0), (1, 0, f64::INFINITY)])?;
    /// assert_eq!((cost.len(), cost.is_empty()), (1, false));
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_row.costs.len()
    }

    /// Whether no pair is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_row.costs.is_empty()
    }
}

fn check_shape(rows: usize, cols: usize) -> Result<(), Error> {
    if rows == 0 || cols == 0 {
        return Err(Error::Empty { rows, cols });
    }
    if rows.max(cols) >= u32::MAX as usize || rows.checked_mul(cols).is_none() {
        return Err(Error::TooLarge { rows, cols });
    }
    Ok(())
}

impl<T: Real> Cost<T> for Sparse<T> {
    fn rows(&self) -> usize {
        self.by_row.starts.len() - 1
    }

    fn cols(&self) -> usize {
        self.by_col.starts.len() - 1
    }

    fn at(&self, row: usize, col: usize) -> T {
        let (cols, costs) = self.by_row.line(row);
        let found = cols.binary_search(&(col as u32));
        found.map_or(T::infinity(), |at| costs[at])
    }

    fn fill(&self, rows: Range<usize>, out: &mut [T]) {
        self.by_row.fill(rows, self.cols(), out);
    }

    fn fill_cols(&self, cols: Range<usize>, out: &mut [T]) {
        self.by_col.fill(cols, self.rows(), out);
    }

    fn pairs(&self) -> Option<Pairs<'_, T>> {
        Some(Pairs {
            by_row: &self.by_row,
            by_col: &self.by_col,
        })
    }
}

/// The allowed pairs of a cost that names them, by row and by column.
///
/// # Examples
/// ```
/// use earthmover::{Cost, Sparse};
/// let cost = Sparse::from_pairs(2, 3, [(0, 2, 5.0), (1, 2, 7.0), (0, 1, 6.0)])?;
/// let pairs = cost.pairs().unwrap_or_else(|| unreachable!());
/// assert_eq!(pairs.row(0), (&[1, 2][..], &[6.0, 5.0][..]));
/// assert_eq!(pairs.transposed().row(2), pairs.col(2));
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug)]
pub struct Pairs<'a, T> {
    by_row: &'a Lines<T>,
    by_col: &'a Lines<T>,
}

impl<T> Clone for Pairs<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Pairs<'_, T> {}

impl<'a, T: Real> Pairs<'a, T> {
    /// The columns that a row may use, in order, and what they cost.
    #[must_use]
    pub fn row(&self, row: usize) -> (&'a [u32], &'a [T]) {
        self.by_row.line(row)
    }

    /// The rows that may use a column, in order, and what they pay.
    #[must_use]
    pub fn col(&self, col: usize) -> (&'a [u32], &'a [T]) {
        self.by_col.line(col)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_row.costs.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_row.costs.is_empty()
    }

    /// The costs of the pairs of some rows, one row after the other.
    pub(crate) fn costs(&self, rows: Range<usize>) -> &'a [T] {
        &self.by_row.costs[self.by_row.starts[rows.start]..self.by_row.starts[rows.end]]
    }

    /// Where the pairs of a row start among all, row by row.
    pub(crate) fn row_start(&self, row: usize) -> usize {
        self.by_row.starts[row]
    }

    /// Where the pairs of a column start among all, column by column.
    pub(crate) fn col_start(&self, col: usize) -> usize {
        self.by_col.starts[col]
    }

    /// Pairs of a row on average, rounded up.
    pub(crate) fn per_row(&self) -> usize {
        self.len().div_ceil(self.by_row.starts.len() - 1).max(1)
    }

    /// The same with rows and columns exchanged.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self {
            by_row: self.by_col,
            by_col: self.by_row,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::cost::Transposed;
    use crate::kernel::random::Random;

    #[test]
    fn lines_lie_where_the_pairs_say() {
        let mut random = Random::new(5, 0);
        let (n, k) = (13, 9);
        let mut dense = vec![f64::INFINITY; n * k];
        let mut pairs = Vec::new();
        for at in (0..n * k).rev() {
            if random.unit() < 0.3 {
                dense[at] = random.unit();
                pairs.push((at / k, at % k, dense[at]));
            }
        }
        pairs.push((0, 0, f64::INFINITY));
        pairs.retain(|p| (p.0, p.1) != (0, 0) || p.2 == f64::INFINITY);
        dense[0] = f64::INFINITY;
        let sparse = Sparse::from_pairs(n, k, pairs.clone()).unwrap();
        assert_eq!(sparse.len(), pairs.len() - 1);
        let mut written = vec![0.0; n * k];
        sparse.fill(0..n, &mut written);
        assert_eq!(written, dense);
        let turned = Transposed(&sparse);
        turned.fill_cols(0..n, &mut written);
        assert_eq!(written, dense);
        for i in 0..n {
            assert!((0..k).all(|j| sparse.at(i, j) == dense[i * k + j]));
            let (rows, costs) = turned.pairs().unwrap().col(i);
            let finite = (0..k).filter(|j| dense[i * k + j] < f64::INFINITY);
            assert!(rows.iter().map(|&j| j as usize).eq(finite));
            let each = rows.iter().zip(costs);
            assert!(each.clone().all(|(&j, &c)| dense[i * k + j as usize] == c));
        }
    }

    #[test]
    fn wrong_rows_are_named() {
        let csr = |starts: &[usize], indices: &[usize], costs: &[f64]| {
            Sparse::from_csr(2, 2, starts, indices, costs).unwrap_err()
        };
        let length = |what, expected, found| Error::Length {
            what,
            expected,
            found,
        };
        assert_eq!(csr(&[0, 1], &[0], &[1.0]), length("row starts", 3, 2));
        assert_eq!(csr(&[0, 1, 2], &[0], &[1.0]), length("pairs", 2, 1));
        let uneven = csr(&[0, 1, 1], &[0], &[1.0, 2.0]);
        assert_eq!(uneven, length("costs of the pairs", 1, 2));
        let (start, end) = (2, 1);
        let falling = csr(&[0, 2, 1], &[0], &[1.0]);
        assert_eq!(falling, Error::Starts { row: 1, start, end });
        let late = csr(&[1, 1, 1], &[0], &[1.0]);
        let (row, start, end) = (0, 1, 1);
        assert_eq!(late, Error::Starts { row, start, end });
        let outside = csr(&[0, 1, 2], &[0, 2], &[1.0, 1.0]);
        let (what, index, len) = ("column", 2, 2);
        assert_eq!(outside, Error::Index { what, index, len });
        let twice = csr(&[0, 0, 2], &[1, 1], &[1.0, f64::INFINITY]);
        assert_eq!(twice, Error::Duplicate { row: 1, col: 1 });
        let far = Sparse::from_pairs(2, 2, [(2, 0, 1.0f32)]).unwrap_err();
        let (what, index, len) = ("row", 2, 2);
        assert_eq!(far, Error::Index { what, index, len });
        let none = Sparse::<f64>::from_pairs(0, 2, []).unwrap_err();
        assert_eq!(none, Error::Empty { rows: 0, cols: 2 });
    }
}
