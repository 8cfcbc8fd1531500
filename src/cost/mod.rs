//! The price of moving one unit of mass from each row to each column.
//!
//! `Cost<T>` is the door for anybody who has numbers on the CPU. Its shape and one method are enough, [`Cost::at`];
//! the others are there so that a cost can hand over whole *tiles* of rows faster than one entry at a
//! time, or lend them without copying. Nothing here is ever asked for all n × m entries at once, so a
//! cost computed on the fly stays O(n + m) in memory. `+∞` forbids a pair.

mod boxes;
mod clusters;
mod copied;
mod dense;
mod forbidding;
mod from_fn;
mod grid;
#[cfg(feature = "mmap")]
mod mapped;
#[cfg(feature = "nalgebra")]
mod nalgebra;
#[cfg(feature = "ndarray")]
mod ndarray;
mod points;
mod priced;
mod reduced;
mod rewritable;
mod sampled;
mod sharded;
mod sparse;

use core::ops::Range;

pub(crate) use boxes::Boxes;
pub(crate) use clusters::Clusters;
pub(crate) use copied::Copied;
pub use dense::Dense;
pub(crate) use forbidding::Forbidding;
pub use from_fn::FromFn;
pub use grid::Grid;
#[cfg(feature = "mmap")]
pub use mapped::Mapped;
pub(crate) use reduced::Reduced;
pub use rewritable::{Rewritable, Table};
pub(crate) use sampled::Sampled;
pub use sharded::Sharded;
pub(crate) use sharded::{fetch, whole_rows};
pub use sparse::{Pairs, Sparse};

pub(crate) use points::check_points;
pub use points::{
    Cosine, Euclidean, Manhattan, Metric, MetricFn, PointCloud, Points, SquaredEuclidean,
};
pub(crate) use priced::{Find, Least, Priced, Room, fewest_for_boxes};

use crate::Real;
use crate::team::Shard;

/// A rows × columns table of costs, held or computed.
///
/// A trait object is a cost as well: a program that learns its kind of cost while it runs solves over `&dyn Cost<T>`. That costs
/// nothing, for the solvers hide the type anyway and ask for whole tiles.
///
/// ```
/// use earthmover::{Cost, Dense, Exact, FromFn, Marginals, Problem};
/// let (table, rule) = (Dense::new(&[3.0, 1.0], 2, 1)?, FromFn::new(2, 1, |i, _| i as f64)?);
/// for (cost, price) in [(&table as &dyn Cost<f64>, 2.0), (&rule, 0.5)] {
///     let problem = Problem::new(cost, Marginals::uniform(2, 1)?)?;
///     assert_eq!(Exact::new().solve(&problem)?.objective(), price);
/// }
/// # Ok::<(), earthmover::Error>(())
/// ```
///
/// # Examples
/// ```
/// use earthmover::Cost;
///
/// struct Ring { places: usize }
///
/// impl Cost<f64> for Ring {
///     fn rows(&self) -> usize { self.places }
///     fn cols(&self) -> usize { self.places }
///     fn at(&self, i: usize, j: usize) -> f64 {
///         let step = i.abs_diff(j);
///         step.min(self.places - step) as f64
///     }
/// }
///
/// let mut row = [0.0; 4];
/// Ring { places: 4 }.fill(1..2, &mut row);
/// assert_eq!(row, [1.0, 0.0, 1.0, 2.0]);
/// ```
pub trait Cost<T: Real>: Sync {
    /// Number of rows.
    fn rows(&self) -> usize;

    /// Number of columns.
    fn cols(&self) -> usize;

    /// The cost of one pair; +∞ forbids it. Indices are always in range when the crate calls it.
    fn at(&self, row: usize, col: usize) -> T;

    /// Writes the rows `rows`, one after the other, into `out` of length `rows.len() * self.cols()`.
    fn fill(&self, rows: Range<usize>, out: &mut [T]) {
        for (i, line) in rows.zip(out.chunks_exact_mut(self.cols().max(1))) {
            for (j, c) in line.iter_mut().enumerate() {
                *c = self.at(i, j);
            }
        }
    }

    /// Writes the columns `cols`, one after the other, into `out` of length `cols.len() * self.rows()`.
    fn fill_cols(&self, cols: Range<usize>, out: &mut [T]) {
        for (j, line) in cols.zip(out.chunks_exact_mut(self.rows().max(1))) {
            for (i, c) in line.iter_mut().enumerate() {
                *c = self.at(i, j);
            }
        }
    }

    /// Lends the rows `rows` as one row-major block where they lie so in memory.
    fn block(&self, rows: Range<usize>) -> Option<&[T]> {
        let _ = rows;
        None
    }

    /// Whether all entries lie in memory already; only then will a solver spend as much again on a table
    /// of its own to go faster.
    fn is_stored(&self) -> bool {
        false
    }

    /// The points behind the cost, where there are any. Whoever gives them says that every entry is the metric's distance between its
    /// two points: solvers and certificates then look at near pairs only, where the metric has bounds for the others.
    fn points(&self) -> Option<Points<'_, T>> {
        None
    }

    /// The regular grid behind the cost, where it is one: then entropic solvers sweep one axis after the other.
    fn grid(&self) -> Option<&Grid> {
        None
    }

    /// The pairs that are allowed, where the cost names them: all others are forbidden, and solvers look at these alone.
    fn pairs(&self) -> Option<Pairs<'_, T>> {
        None
    }

    /// Two numbers that all entries are known to lie between without looking, none being +∞: whoever knows saves the
    /// solvers the look at every entry with which they begin. `None`, which is always right, by default.
    fn range(&self) -> Option<(f64, f64)> {
        None
    }

    /// The part of a larger problem that these rows are, where a [team](crate::team) holds that together: [`Sharded`] says so.
    fn shard(&self) -> Option<&Shard> {
        None
    }
}

impl<T: Real, C: Cost<T> + ?Sized> Cost<T> for &C {
    fn rows(&self) -> usize {
        (**self).rows()
    }
    fn cols(&self) -> usize {
        (**self).cols()
    }
    fn at(&self, row: usize, col: usize) -> T {
        (**self).at(row, col)
    }
    fn fill(&self, rows: Range<usize>, out: &mut [T]) {
        (**self).fill(rows, out);
    }
    fn fill_cols(&self, cols: Range<usize>, out: &mut [T]) {
        (**self).fill_cols(cols, out);
    }
    fn block(&self, rows: Range<usize>) -> Option<&[T]> {
        (**self).block(rows)
    }
    fn is_stored(&self) -> bool {
        (**self).is_stored()
    }
    fn points(&self) -> Option<Points<'_, T>> {
        (**self).points()
    }
    fn grid(&self) -> Option<&Grid> {
        (**self).grid()
    }
    fn pairs(&self) -> Option<Pairs<'_, T>> {
        (**self).pairs()
    }
    fn range(&self) -> Option<(f64, f64)> {
        (**self).range()
    }
    fn shard(&self) -> Option<&Shard> {
        (**self).shard()
    }
}

/// A cost with rows and columns exchanged.
#[derive(Debug, Clone, Copy)]
pub struct Transposed<C>(pub C);

impl<T: Real, C: Cost<T>> Cost<T> for Transposed<C> {
    fn rows(&self) -> usize {
        self.0.cols()
    }
    fn cols(&self) -> usize {
        self.0.rows()
    }
    fn at(&self, row: usize, col: usize) -> T {
        self.0.at(col, row)
    }
    fn fill(&self, rows: Range<usize>, out: &mut [T]) {
        self.0.fill_cols(rows, out);
    }
    fn fill_cols(&self, cols: Range<usize>, out: &mut [T]) {
        self.0.fill(cols, out);
    }
    fn is_stored(&self) -> bool {
        self.0.is_stored()
    }
    fn points(&self) -> Option<Points<'_, T>> {
        self.0.points().map(Points::transposed)
    }
    fn pairs(&self) -> Option<Pairs<'_, T>> {
        self.0.pairs().map(Pairs::transposed)
    }
    fn range(&self) -> Option<(f64, f64)> {
        self.0.range()
    }
}

/// Writes lines of the given length in `f64`, a few at a time as `fill` writes them.
fn widen_lines<T: Real>(
    lines: Range<usize>,
    length: usize,
    fill: impl Fn(Range<usize>, &mut [T]),
    out: &mut [f64],
) {
    let length = length.max(1);
    let few = (4096 / length).clamp(1, lines.len().max(1));
    let mut narrow = vec![T::zero(); few * length];
    for (part, wide) in out.chunks_mut(few * length).enumerate() {
        let first = lines.start + part * few;
        let narrow = &mut narrow[..wide.len()];
        fill(first..first + wide.len() / length, narrow);
        for (w, c) in wide.iter_mut().zip(narrow) {
            *w = c.widen();
        }
    }
}

/// A row of a cost, lent where it lies or else written into `room`, which is as long as a row.
pub(crate) fn lend_row<'a, T: Real, C: Cost<T> + ?Sized>(
    cost: &'a C,
    row: usize,
    room: &'a mut [T],
) -> &'a [T] {
    match cost.block(row..row + 1) {
        Some(row) => row,
        None => {
            cost.fill(row..row + 1, room);
            room
        }
    }
}

/// Writes a row of a cost: a lent one is copied without asking what it takes to make it.
pub(crate) fn copy_row<T: Real, C: Cost<T> + ?Sized>(cost: &C, row: usize, out: &mut [T]) {
    match cost.block(row..row + 1) {
        Some(row) => out.copy_from_slice(row),
        None => cost.fill(row..row + 1, out),
    }
}
