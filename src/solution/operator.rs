//! Plans that act: products with a plan, row by row in parallel, never rows × columns in memory.
//!
//! ```text
//! (P·Y)_i = Σ_j P_ij Y_j        (Pᵀ·X)_j = Σ_i P_ij X_i        barycentric projection (P·Y)_i / Σ_j P_ij
//! ```
//!
//! A row of an entropic plan is worked out at the speed of a sweep and used at once; a sparse plan has few entries anyway. Tiles
//! depend on the shape only and are folded in order: the same bits for any number of threads.

use core::ops::Range;

use super::plan::{Entry, Plan, Representation, SparseRows};
use crate::kernel::lanes::{LANES, Lanes};
use crate::kernel::tiles::{map_ranges, tile_rows};
use crate::problem::Erased;
use crate::sweep::gibbs::GibbsRows;
use crate::{Cost, Error, Potentials, Real};

/// A plan as something to multiply with.
pub(crate) struct Operator<'a, T> {
    problem: &'a Erased<'a, T>,
    shape: &'a Representation,
    rows: Option<GibbsRows>,
}

impl<'a, T: Real> Operator<'a, T> {
    pub(crate) fn new(
        problem: &'a Erased<'a, T>,
        potentials: &Potentials,
        shape: &'a Representation,
    ) -> Self {
        let rows = match shape {
            Representation::Sparse(_) => None,
            Representation::Gibbs { epsilon, lift } => {
                let marginals = problem.marginals();
                let point = potentials.dual_point(*epsilon, marginals.slack());
                Some(GibbsRows::new(&point, marginals.row_law().lifted(*lift)))
            }
        };
        Self {
            problem,
            shape,
            rows,
        }
    }

    fn tile(&self) -> usize {
        tile_rows(self.problem.rows(), self.problem.cols())
    }

    /// Visits rows of the plan that carry mass.
    fn visit(&self, rows: Range<usize>, mut each: impl FnMut(usize, &[f64])) {
        let k = self.problem.cols();
        let (mut costs, mut row) = (vec![T::zero(); k], vec![0.0; k]);
        let masses = self.problem.marginals().rows();
        for i in rows {
            match (&self.rows, self.shape) {
                (Some(gibbs), _) => {
                    let costs = crate::cost::lend_row(self.problem.cost(), i, &mut costs);
                    if gibbs.write(masses[i], costs, &mut row) > f64::NEG_INFINITY {
                        each(i, &row);
                    }
                }
                (None, Representation::Sparse(sparse)) => {
                    row.fill(0.0);
                    sparse.row(i).for_each(|(j, p)| row[j] += p);
                    each(i, &row);
                }
                (None, Representation::Gibbs { .. }) => {}
            }
        }
    }

    /// Entries of a sparse plan; `None` for a dense one.
    fn sparse(&self) -> Option<impl Iterator<Item = (usize, usize, f64)> + '_> {
        match self.shape {
            Representation::Sparse(sparse) => Some(
                (0..self.problem.rows()).flat_map(|i| sparse.row(i).map(move |(j, p)| (i, j, p))),
            ),
            Representation::Gibbs { .. } => None,
        }
    }

    /// P·Y and the sums of the rows, `y` having `d` numbers a column.
    pub(crate) fn times(&self, y: &[f64], d: usize) -> (Vec<f64>, Vec<f64>) {
        let (n, k) = (self.problem.rows(), self.problem.cols());
        if let Some(entries) = self.sparse() {
            let (mut out, mut sums) = (vec![0.0; n * d], vec![0.0; n]);
            for (i, j, p) in entries {
                sums[i] += p;
                let both = out[i * d..][..d].iter_mut().zip(&y[j * d..][..d]);
                both.for_each(|(o, y)| *o += p * y);
            }
            return (out, sums);
        }
        let by_coordinate = by_coordinate(y, d, k);
        let tiles = map_ranges(n, self.tile(), |rows| {
            let (mut out, mut sums) = (vec![0.0; rows.len() * d], vec![0.0; rows.len()]);
            let first = rows.start;
            self.visit(rows, |i, row| {
                let at = i - first;
                sums[at] = total(row);
                for (o, y) in out[at * d..][..d]
                    .iter_mut()
                    .zip(by_coordinate.chunks_exact(k))
                {
                    *o = dot(row, y);
                }
            });
            (out, sums)
        });
        let (mut out, mut sums) = (Vec::with_capacity(n * d), Vec::with_capacity(n));
        for (part, part_sums) in tiles {
            out.extend(part);
            sums.extend(part_sums);
        }
        (out, sums)
    }

    /// Pᵀ·X and the sums of the columns, `x` having `d` numbers a row.
    pub(crate) fn transposed_times(&self, x: &[f64], d: usize) -> (Vec<f64>, Vec<f64>) {
        let (n, k) = (self.problem.rows(), self.problem.cols());
        // Coordinate by coordinate, the sums last.
        let mut lines = vec![0.0; (d + 1) * k];
        if let Some(entries) = self.sparse() {
            for (i, j, p) in entries {
                for (c, x) in x[i * d..][..d].iter().enumerate() {
                    lines[c * k + j] += p * x;
                }
                lines[d * k + j] += p;
            }
        } else {
            let tiles = map_ranges(n, self.tile(), |rows| {
                let mut lines = vec![0.0; (d + 1) * k];
                self.visit(rows, |i, row| {
                    let numbers = x[i * d..][..d].iter().copied().chain([1.0]);
                    for (line, x) in lines.chunks_exact_mut(k).zip(numbers) {
                        line.iter_mut().zip(row).for_each(|(o, p)| *o += p * x);
                    }
                });
                lines
            });
            for tile in tiles {
                lines.iter_mut().zip(tile).for_each(|(o, t)| *o += t);
            }
        }
        let sums = lines.split_off(d * k);
        let mut out = vec![0.0; d * k];
        for (c, line) in lines.chunks_exact(k).enumerate() {
            for (j, &v) in line.iter().enumerate() {
                out[j * d + c] = v;
            }
        }
        (out, sums)
    }

    /// Runs over all rows in tiles and returns what each tile made of its own.
    pub(crate) fn map_rows<R: Send>(
        &self,
        begin: impl Fn() -> R + Sync,
        each: impl Fn(&mut R, usize, &[f64]) + Sync,
    ) -> Vec<R> {
        map_ranges(self.problem.rows(), self.tile(), |rows| {
            let mut made = begin();
            self.visit(rows, |i, row| each(&mut made, i, row));
            made
        })
    }

    /// The `count` entries of most mass, most first; ties by row and column.
    pub(crate) fn heaviest(&self, count: usize) -> Vec<Entry> {
        let order = |a: &Entry, b: &Entry| {
            let by_mass = b.mass.total_cmp(&a.mass);
            by_mass.then((a.row, a.col).cmp(&(b.row, b.col)))
        };
        let keep = |entries: &mut Vec<Entry>| {
            if entries.len() > count {
                if count > 0 {
                    entries.select_nth_unstable_by(count - 1, order);
                }
                entries.truncate(count);
            }
        };
        let room = count.saturating_mul(4).max(1024);
        let begin = || (Vec::<Entry>::new(), 0.0f64);
        let tiles = self.map_rows(begin, |(entries, least), row, line| {
            for (col, &mass) in line.iter().enumerate() {
                if mass > 0.0 && mass >= *least {
                    entries.push(Entry { row, col, mass });
                }
            }
            if entries.len() > room {
                keep(entries);
                *least = entries.iter().map(|e| e.mass).fold(f64::INFINITY, f64::min);
            }
        });
        let mut all = Vec::new();
        for (entries, _) in tiles {
            all.extend(entries);
            keep(&mut all);
        }
        all.sort_unstable_by(order);
        all
    }
}

/// Numbers of `count` lines of `d`, all first ones first.
fn by_coordinate(y: &[f64], d: usize, count: usize) -> Vec<f64> {
    let mut out = vec![0.0; d * count];
    for (j, line) in y.chunks_exact(d.max(1)).enumerate() {
        for (c, &v) in line.iter().enumerate() {
            out[c * count + j] = v;
        }
    }
    out
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (x, x_rest) = a.as_chunks::<LANES>();
    let (y, y_rest) = b.as_chunks::<LANES>();
    let mut chains = Lanes::splat(0.0);
    for (x, y) in x.iter().zip(y) {
        let products = Lanes::of(x).zip(Lanes::of(y), |a, b| a * b);
        chains = chains.zip(products, |a, b| a + b);
    }
    chains.sum() + x_rest.iter().zip(y_rest).map(|(a, b)| a * b).sum::<f64>()
}

fn total(a: &[f64]) -> f64 {
    let (x, rest) = a.as_chunks::<LANES>();
    let mut chains = Lanes::splat(0.0);
    for x in x {
        chains = chains.zip(Lanes::of(x), |a, b| a + b);
    }
    chains.sum() + rest.iter().sum::<f64>()
}

/// Whether there are `d` numbers for each of `count` lines.
pub(crate) fn check_numbers(
    what: &'static str,
    numbers: &[f64],
    d: usize,
    count: usize,
) -> Result<(), Error> {
    let expected = count.saturating_mul(d);
    if numbers.len() == expected {
        return Ok(());
    }
    Err(Error::Length {
        what,
        expected,
        found: numbers.len(),
    })
}

impl<T: Real, C: Cost<T>> Plan<'_, T, C> {
    /// P·Y: for each row the sum over columns of mass times the `d` numbers that `y` has for a column. Slack carries nothing.
    ///
    /// # Errors
    /// [`Error::Length`] where `y` has not `d` numbers a column.
    ///
    /// # Complexity
    /// One pass over the cost, in parallel; O(d (rows + columns)) memory.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, Exact, Marginals, Problem};
    /// let problem = Problem::new(Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2)?, Marginals::uniform(2, 2)?)?;
    /// let solution = Exact::new().solve(&problem)?;
    /// assert_eq!(solution.plan().apply(&[1.0, 2.0, 3.0, 4.0], 2)?, [0.5, 1.0, 1.5, 2.0]);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn apply(&self, y: &[f64], d: usize) -> Result<Vec<f64>, Error> {
        check_numbers("numbers of the columns", y, d, self.problem.cols())?;
        let problem = self.problem.erased();
        Ok(T::times(&problem, self.potentials, self.shape, y, d).0)
    }

    /// Pᵀ·X: for each column the sum over rows of mass times the `d` numbers that `x` has for a row.
    ///
    /// # Errors
    /// [`Error::Length`] where `x` has not `d` numbers a row.
    pub fn apply_transposed(&self, x: &[f64], d: usize) -> Result<Vec<f64>, Error> {
        check_numbers("numbers of the rows", x, d, self.problem.rows())?;
        let problem = self.problem.erased();
        Ok(T::transposed_times(&problem, self.potentials, self.shape, x, d).0)
    }

    /// The barycentric projection: where each row's mass goes on average, `y` being where columns are (`d` numbers each). NaN for
    /// a row that gives nothing.
    ///
    /// # Errors
    /// [`Error::Length`] where `y` has not `d` numbers a column.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Entropic, Marginals, PointCloud, Problem, SquaredEuclidean};
    /// let (here, there) = ([0.0, 1.0], [10.0, 11.0]);
    /// let cost = PointCloud::new(&here, &there, 1, SquaredEuclidean)?;
    /// let problem = Problem::new(cost, Marginals::uniform(2, 2)?)?;
    /// let solution = Entropic::new(0.01).solve(&problem)?;
    /// let mapped = solution.plan().barycentric(&there, 1)?;
    /// assert!((mapped[0] - 10.0).abs() < 1e-6 && (mapped[1] - 11.0).abs() < 1e-6);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn barycentric(&self, y: &[f64], d: usize) -> Result<Vec<f64>, Error> {
        check_numbers("numbers of the columns", y, d, self.problem.cols())?;
        let problem = self.problem.erased();
        let (mut out, sums) = T::times(&problem, self.potentials, self.shape, y, d);
        for (line, sum) in out.chunks_exact_mut(d.max(1)).zip(sums) {
            let factor = if sum > 0.0 { 1.0 / sum } else { f64::NAN };
            line.iter_mut().for_each(|o| *o *= factor);
        }
        Ok(out)
    }

    /// The `count` entries of most mass, most first, without writing the others out.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, Entropic, Marginals, Problem};
    /// let problem = Problem::new(Dense::new(&[0.0, 1.0, 2.0, 0.0], 2, 2)?, Marginals::uniform(2, 2)?)?;
    /// let solution = Entropic::new(0.5).solve(&problem)?;
    /// let most = solution.plan().heaviest(2);
    /// assert!(most.len() == 2 && most.iter().all(|e| e.row == e.col));
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    #[must_use]
    pub fn heaviest(&self, count: usize) -> Vec<Entry> {
        T::heaviest(&self.problem.erased(), self.potentials, self.shape, count)
    }

    /// The entries above `threshold` as compressed rows: where each row starts (one more than rows), columns and masses.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, Exact, Marginals, Problem};
    /// let problem = Problem::new(Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2)?, Marginals::uniform(2, 2)?)?;
    /// let solution = Exact::new().solve(&problem)?;
    /// assert_eq!(solution.plan().to_csr(0.0), (vec![0, 1, 2], vec![0, 1], vec![0.5, 0.5]));
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    #[must_use]
    pub fn to_csr(&self, threshold: f64) -> (Vec<usize>, Vec<usize>, Vec<f64>) {
        let entries = self.entries(threshold).into_iter();
        let entries = entries.map(|e| (e.row, e.col, e.mass)).collect();
        let rows = SparseRows::new(self.problem.rows(), entries);
        (rows.starts, rows.cols, rows.mass)
    }
}
