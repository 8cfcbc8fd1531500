//! Plans that act: products with a plan, row by row in parallel, never rows × columns in memory.
//!
//! ```text
//! (P·Y)_i = Σ_j P_ij Y_j        (Pᵀ·X)_j = Σ_i P_ij X_i        barycentric projection (P·Y)_i / Σ_j P_ij
//! ```
//!
//! A row of an entropic plan is worked out at the speed of a sweep and used at once; a sparse plan has few entries anyway. Tiles
//! depend on the shape only and are folded in order: the same bits for any number of threads.

use core::ops::Range;
use std::borrow::Cow;

use super::plan::{Entry, Plan, Representation, SparseRows};
use crate::kernel::dispatch::dispatch;
use crate::kernel::lanes::{LANES, Lanes};
use crate::kernel::tiles::{map_ranges, tile_rows};
use crate::problem::Erased;
use crate::sweep::gibbs::GibbsRows;
use crate::{Cost, Error, Potentials, Real};

/// What a plan was multiplied with, and its sums.
pub(crate) struct Products {
    /// P·Y; empty where it was not asked for.
    pub(crate) rows: Vec<f64>,
    /// Pᵀ·X; empty where it was not asked for, as are the sums of the columns.
    pub(crate) cols: Vec<f64>,
    pub(crate) row_sums: Vec<f64>,
    pub(crate) col_sums: Vec<f64>,
    /// ln Z of each row of an entropic plan; −∞ for one that carries nothing, NaN where entries were listed.
    pub(crate) log_sums: Vec<f64>,
}

impl Products {
    fn nothing(rows: usize) -> Self {
        Self {
            rows: Vec::new(),
            cols: Vec::new(),
            row_sums: vec![0.0; rows],
            col_sums: Vec::new(),
            log_sums: vec![f64::NEG_INFINITY; rows],
        }
    }

    /// Of a plan that is few entries.
    fn of_entries(
        entries: impl Iterator<Item = (usize, usize, f64)>,
        (n, k): (usize, usize),
        x: Option<&[f64]>,
        y: Option<&[f64]>,
        d: usize,
    ) -> Self {
        let mut all = Self::nothing(n);
        all.log_sums = vec![f64::NAN; n];
        all.rows = vec![0.0; if y.is_some() { n * d } else { 0 }];
        all.cols = vec![
            0.0;
            if x.is_some_and(|x| !x.is_empty()) {
                k * d
            } else {
                0
            }
        ];
        all.col_sums = vec![0.0; k];
        let add = |out: &mut [f64], numbers: &[f64], p: f64| {
            let both = out.iter_mut().zip(numbers);
            both.for_each(|(o, v)| *o += p * v);
        };
        for (i, j, p) in entries {
            all.row_sums[i] += p;
            all.col_sums[j] += p;
            if let Some(y) = y {
                add(&mut all.rows[i * d..][..d], &y[j * d..][..d], p);
            }
            if let Some(x) = x.filter(|x| !x.is_empty()) {
                add(&mut all.cols[j * d..][..d], &x[i * d..][..d], p);
            }
        }
        all
    }
}

/// A plan as something to multiply with.
pub(crate) struct Operator<'a, T> {
    problem: &'a Erased<'a, T>,
    form: Form<'a>,
}

/// What rows of a plan are made from.
enum Form<'a> {
    /// The few entries there are.
    Listed(Cow<'a, SparseRows>),
    /// Potentials and costs.
    Gibbs(GibbsRows),
}

impl<'a, T: Real> Operator<'a, T> {
    pub(crate) fn new(
        problem: &'a Erased<'a, T>,
        potentials: &'a Potentials,
        shape: &'a Representation,
    ) -> Self {
        let listed = Plan::new(problem, potentials, shape).listed();
        let form = match (listed, shape) {
            (Some(listed), _) => Form::Listed(listed),
            (None, Representation::Sparse(sparse)) => Form::Listed(Cow::Borrowed(sparse)),
            (None, Representation::Gibbs { epsilon, lift }) => {
                let marginals = problem.marginals();
                let point = potentials.dual_point(*epsilon, marginals.slack());
                Form::Gibbs(GibbsRows::new(&point, marginals.row_law().lifted(*lift)))
            }
        };
        Self { problem, form }
    }

    fn tile(&self) -> usize {
        tile_rows(self.problem.rows(), self.problem.cols())
    }

    /// Visits rows of the plan that carry mass, with their ln Z where they have one.
    fn visit(&self, rows: Range<usize>, mut each: impl FnMut(usize, &[f64], f64)) {
        let k = self.problem.cols();
        let (mut costs, mut row) = (vec![T::zero(); k], vec![0.0; k]);
        let masses = self.problem.marginals().rows();
        for i in rows {
            match &self.form {
                Form::Gibbs(gibbs) => {
                    let costs = crate::cost::lend_row(self.problem.cost(), i, &mut costs);
                    let log_sum = gibbs.write(masses[i], costs, &mut row);
                    if log_sum > f64::NEG_INFINITY {
                        each(i, &row, log_sum);
                    }
                }
                Form::Listed(listed) => {
                    row.fill(0.0);
                    listed.row(i).for_each(|(j, p)| row[j] += p);
                    each(i, &row, f64::NAN);
                }
            }
        }
    }

    /// Entries of a sparse plan; `None` for a dense one.
    fn sparse(&self) -> Option<impl Iterator<Item = (usize, usize, f64)> + '_> {
        match &self.form {
            Form::Listed(listed) => Some(
                (0..self.problem.rows()).flat_map(|i| listed.row(i).map(move |(j, p)| (i, j, p))),
            ),
            Form::Gibbs(_) => None,
        }
    }

    /// P·Y and the sums of the rows, `y` having `d` numbers a column.
    pub(crate) fn times(&self, y: &[f64], d: usize) -> (Vec<f64>, Vec<f64>) {
        let products = self.products(None, Some(y), d);
        (products.rows, products.row_sums)
    }

    /// Pᵀ·X and the sums of the columns, `x` having `d` numbers a row.
    pub(crate) fn transposed_times(&self, x: &[f64], d: usize) -> (Vec<f64>, Vec<f64>) {
        let products = self.products(Some(x), None, d);
        (products.cols, products.col_sums)
    }

    /// Both in one pass, or the one that is asked for: a row of the plan is dearer to work out than to use. An empty `x` asks for the
    /// sums of the columns alone.
    pub(crate) fn products(&self, x: Option<&[f64]>, y: Option<&[f64]>, d: usize) -> Products {
        let (n, k) = (self.problem.rows(), self.problem.cols());
        if let Some(entries) = self.sparse() {
            return Products::of_entries(entries, (n, k), x, y, d);
        }
        let by_coordinate = by_coordinate(y.unwrap_or_default(), d, k);
        let across = x.map(|x| if x.is_empty() { 0 } else { d });
        let length = across.map_or(0, |d| (d + 1) * k);
        let tiles = map_ranges(n, self.tile(), |rows| {
            let (first, count) = (rows.start, rows.len());
            let mut part = Products::nothing(count);
            part.rows = vec![0.0; if y.is_some() { count * d } else { 0 }];
            // Coordinate by coordinate, the sums last.
            let mut lines = vec![0.0; length];
            self.visit(rows, |i, row, log_sum| {
                let at = i - first;
                part.log_sums[at] = log_sum;
                part.row_sums[at] = total(row);
                if y.is_some() {
                    let out = part.rows[at * d..][..d].iter_mut();
                    out.zip(by_coordinate.chunks_exact(k))
                        .for_each(|(o, y)| *o = dot(row, y));
                }
                if let Some((x, d)) = x.zip(across) {
                    let numbers = x[i * d..][..d].iter().copied().chain([1.0]);
                    let both = lines.chunks_exact_mut(k).zip(numbers);
                    both.for_each(|(line, x)| add_scaled(row, x, line));
                }
            });
            part.cols = lines;
            part
        });
        let mut all = Products::nothing(0);
        all.cols = vec![0.0; length];
        for tile in tiles {
            all.rows.extend(tile.rows);
            all.row_sums.extend(tile.row_sums);
            all.log_sums.extend(tile.log_sums);
            let both = all.cols.iter_mut().zip(tile.cols);
            both.for_each(|(o, t)| *o += t);
        }
        if let Some(d) = across {
            all.col_sums = all.cols.split_off(d * k);
            all.cols = by_point(&all.cols, d, k);
        }
        all
    }

    /// Runs over all rows in tiles and returns what each tile made of its own.
    pub(crate) fn map_rows<R: Send>(
        &self,
        begin: impl Fn() -> R + Sync,
        each: impl Fn(&mut R, usize, &[f64]) + Sync,
    ) -> Vec<R> {
        map_ranges(self.problem.rows(), self.tile(), |rows| {
            let mut made = begin();
            self.visit(rows, |i, row, _| each(&mut made, i, row));
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
        if let Some(entries) = self.sparse() {
            let carrying = entries.filter(|e| e.2 > 0.0);
            let mut all: Vec<Entry> = carrying
                .map(|(row, col, mass)| Entry { row, col, mass })
                .collect();
            keep(&mut all);
            all.sort_unstable_by(order);
            return all;
        }
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

/// The other way round.
fn by_point(lines: &[f64], d: usize, count: usize) -> Vec<f64> {
    let mut out = vec![0.0; d * count];
    for (c, line) in lines.chunks_exact(count.max(1)).enumerate() {
        for (j, &v) in line.iter().enumerate() {
            out[j * d + c] = v;
        }
    }
    out
}

dispatch! {
    fn dot<S: Real>(a: &[S], b: &[S]) -> S {
        let (x, x_rest) = a.as_chunks::<LANES>();
        let (y, y_rest) = b.as_chunks::<LANES>();
        let mut chains = Lanes::splat(S::zero());
        for (x, y) in x.iter().zip(y) {
            let products = Lanes::of(x).zip(Lanes::of(y), |a, b| a * b);
            chains = chains.zip(products, |a, b| a + b);
        }
        let mut rest = S::zero();
        for (&a, &b) in x_rest.iter().zip(y_rest) {
            rest += a * b;
        }
        chains.sum() + rest
    }
}

dispatch! {
    fn total<S: Real>(a: &[S]) -> S {
        let (x, x_rest) = a.as_chunks::<LANES>();
        let mut chains = Lanes::splat(S::zero());
        for x in x {
            chains = chains.zip(Lanes::of(x), |a, b| a + b);
        }
        let mut rest = S::zero();
        for &a in x_rest {
            rest += a;
        }
        chains.sum() + rest
    }
}

dispatch! {
    /// Adds a row's entries, times a factor.
    fn add_scaled<S: Real>(row: &[S], factor: S, out: &mut [S]) {
        for (o, &p) in out.iter_mut().zip(row) {
            *o += p * factor;
        }
    }
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
