//! Costs that live as long as their answers.
//!
//! An answer works out its plan and its certificate from the costs when it is asked for them. So a matrix is kept: a small one as
//! a copy, a large one where it lies in Python's memory, with a fingerprint by which a change is noticed before anything
//! wrong comes of it. Points are copied: they are small beside what lies between them.

use core::ops::Range;

use earthmover::{
    Cosine, Cost, Error, Euclidean, Grid, Manhattan, Metric, PointCloud, Real, Sparse,
    SquaredEuclidean,
};
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::errors::{OptionError, ShapeError};

/// Entries up to which a matrix is copied and not lent: 256 KB in double precision.
const SMALL: usize = 1 << 15;

/// Who keeps the entries; kept, not read.
#[allow(dead_code)]
enum Keeper<T> {
    Copy(Vec<T>),
    Python(Py<PyAny>),
}

/// A matrix in somebody's memory, in any layout.
pub(crate) struct Lent<T> {
    first: *const T,
    shape: [usize; 2],
    /// From an entry to the one below, and to the one beside, in entries.
    steps: [isize; 2],
    #[allow(dead_code)]
    keeper: Keeper<T>,
    fingerprint: Option<u64>,
}

// SAFETY: only ever read. Whoever writes into an array while it is being solved for gets numbers that are in neither the
// old nor the new one, as everywhere in NumPy; the keeper is a reference count, which PyO3 guards.
unsafe impl<T: Send> Send for Lent<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Lent<T> {}

impl<T: Real> Lent<T> {
    /// # Safety
    /// `keeper` must keep entries of this shape alive at these steps from `first`, aligned.
    pub(crate) unsafe fn new(
        first: *const T,
        shape: [usize; 2],
        steps: [isize; 2],
        keeper: Py<PyAny>,
    ) -> Self {
        Self {
            first,
            shape,
            steps,
            keeper: Keeper::Python(keeper),
            fingerprint: None,
        }
    }

    pub(crate) fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// All entries, row-major.
    pub(crate) fn to_vec(&self) -> Vec<T> {
        let [rows, cols] = self.shape;
        match self.run(0..rows) {
            Some(entries) => entries.to_vec(),
            None => {
                let mut entries = vec![T::zero(); rows * cols];
                self.fill(0..rows, &mut entries);
                entries
            }
        }
    }

    /// All entries as they lie, row-major; only of one that is [`contiguous`](Self::contiguous).
    pub(crate) fn as_slice(&self) -> &[T] {
        self.run(0..self.shape[0]).unwrap_or_default()
    }

    /// Row-major without gaps; copied where it is not.
    pub(crate) fn contiguous(self) -> Self {
        match self.run(0..self.shape[0]) {
            Some(_) => self,
            None => Self::owned(self.to_vec(), self.shape),
        }
    }

    /// Ready to be kept with an answer: copied where it is small, fingerprinted where it is large.
    pub(crate) fn kept(self) -> Self {
        let [rows, cols] = self.shape;
        if rows.saturating_mul(cols) > SMALL {
            let fingerprint = Some(self.hash());
            return Self {
                fingerprint,
                ..self
            };
        }
        Self::owned(self.to_vec(), self.shape)
    }

    /// Entries of its own, row-major.
    pub(crate) fn owned(entries: Vec<T>, shape: [usize; 2]) -> Self {
        Self {
            first: entries.as_ptr(),
            shape,
            steps: [shape[1] as isize, 1],
            keeper: Keeper::Copy(entries),
            fingerprint: None,
        }
    }

    /// The same in double precision.
    pub(crate) fn widened(&self) -> Lent<f64> {
        let entries = self.to_vec();
        Lent::owned(entries.iter().map(|x| x.widen()).collect(), self.shape)
    }

    /// Whether the entries are still those that were solved for.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.fingerprint.is_none_or(|before| before == self.hash())
    }

    fn entry(&self, row: usize, col: usize) -> *const T {
        let step = self.steps[0] * row as isize + self.steps[1] * col as isize;
        // SAFETY: within the array for indices within its shape, as `new` was promised.
        unsafe { self.first.offset(step) }
    }

    /// Rows that lie one after the other without gaps.
    fn run(&self, rows: Range<usize>) -> Option<&[T]> {
        let cols = self.shape[1];
        let dense = self.steps[1] == 1 || cols == 1;
        let close = rows.len() <= 1 || self.steps[0] == cols as isize;
        if !(dense && close) || rows.end > self.shape[0] || rows.is_empty() || cols == 0 {
            return None;
        }
        let first = self.entry(rows.start, 0);
        // SAFETY: so many entries lie there one after the other, kept alive with `self`.
        Some(unsafe { core::slice::from_raw_parts(first, rows.len() * cols) })
    }

    fn lines(&self, lines: Range<usize>, by_row: bool, out: &mut [T]) {
        let length = self.shape[usize::from(by_row)];
        let step = self.steps[usize::from(by_row)];
        for (k, line) in lines.zip(out.chunks_exact_mut(length.max(1))) {
            let first = if by_row {
                self.entry(k, 0)
            } else {
                self.entry(0, k)
            };
            for (at, c) in line.iter_mut().enumerate() {
                // SAFETY: `at` is below the length of the line.
                *c = unsafe { *first.offset(step * at as isize) };
            }
        }
    }

    /// A number that changes when an entry does, but for one chance in 2⁶⁴: products with an odd number carry each bit
    /// into those above it, rotations back to those below.
    fn hash(&self) -> u64 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let [rows, cols] = self.shape;
        let block = (1 << 16) / cols.max(1) + 1;
        let one = |part: usize| {
            let rows = part * block..((part + 1) * block).min(rows);
            let mut lanes = [1u64, 2, 3, 4];
            let mut take = |entries: &[T]| {
                for four in entries.chunks(4) {
                    for (lane, c) in lanes.iter_mut().zip(four) {
                        *lane = ((*lane ^ c.widen().to_bits()).wrapping_mul(ODD)).rotate_left(29);
                    }
                }
            };
            match self.run(rows.clone()) {
                Some(entries) => take(entries),
                None => {
                    let mut room = vec![T::zero(); rows.len() * cols];
                    self.fill(rows, &mut room);
                    take(&room);
                }
            }
            let mix = |h: u64, lane: &u64| (h ^ lane).wrapping_mul(ODD).rotate_left(31);
            lanes.iter().fold(part as u64, mix)
        };
        let parts: Vec<u64> = (0..rows.div_ceil(block)).into_par_iter().map(one).collect();
        let mix = |h: u64, part: &u64| (h ^ part).wrapping_mul(ODD).rotate_left(31);
        parts.iter().fold(0, mix)
    }
}

impl<T: Real> Cost<T> for Lent<T> {
    fn rows(&self) -> usize {
        self.shape[0]
    }
    fn cols(&self) -> usize {
        self.shape[1]
    }
    fn at(&self, row: usize, col: usize) -> T {
        // SAFETY: indices within the shape, as the trait promises.
        unsafe { *self.entry(row, col) }
    }
    fn fill(&self, rows: Range<usize>, out: &mut [T]) {
        match self.run(rows.clone()) {
            Some(entries) => out.copy_from_slice(entries),
            None => self.lines(rows, true, out),
        }
    }
    fn fill_cols(&self, cols: Range<usize>, out: &mut [T]) {
        self.lines(cols, false, out);
    }
    fn block(&self, rows: Range<usize>) -> Option<&[T]> {
        self.run(rows)
    }
    fn is_stored(&self) -> bool {
        true
    }
}

/// A metric for two clouds of points, with its name.
#[derive(Clone, Copy)]
pub(crate) struct Named<T: 'static> {
    pub(crate) name: &'static str,
    pub(crate) metric: &'static dyn Metric<T>,
}

impl<T: Real> Named<T> {
    /// By its name, as SciPy and POT call it.
    pub(crate) fn metric(name: &str) -> PyResult<Self> {
        let (name, metric): (_, &'static dyn Metric<T>) = match name {
            "sqeuclidean" => ("sqeuclidean", &SquaredEuclidean),
            "euclidean" => ("euclidean", &Euclidean),
            "cityblock" | "manhattan" => ("cityblock", &Manhattan),
            "cosine" => ("cosine", &Cosine),
            other => {
                return Err(OptionError::new_err(format!(
                    "metric is {other:?}; it must be one of \"sqeuclidean\", \"euclidean\", \"cityblock\", \"cosine\" \
                     (for others pass the matrix of costs to `solve`)"
                )));
            }
        };
        Ok(Self { name, metric })
    }
}

/// The number of coordinates of either cloud's points, which must be the same.
pub(crate) fn dimension<T: Real>(x: &Lent<T>, y: &Lent<T>) -> PyResult<usize> {
    let [dimension, other] = [x.shape[1], y.shape[1]];
    if dimension == other {
        return Ok(dimension);
    }
    Err(ShapeError::new_err(format!(
        "x has points of {dimension} coordinates, y of {other}"
    )))
}

/// What a cost is made of.
pub(crate) enum Data<T: 'static> {
    Matrix(Lent<T>),
    Points {
        rows: Vec<T>,
        cols: Vec<T>,
        dimension: usize,
        metric: Named<T>,
    },
    Pairs(Sparse<T>),
    /// Cells of a regular grid, this many along each axis.
    Grid {
        sides: Vec<usize>,
        cost: Box<dyn Cost<T> + Send>,
    },
}

impl Data<f64> {
    pub(crate) fn grid(grid: &Grid) -> Self {
        Self::Grid {
            sides: grid.sides().to_vec(),
            cost: Box::new(grid.clone()),
        }
    }
}

impl<T: Real> Data<T> {
    /// Two clouds; points of different dimensions are refused.
    pub(crate) fn points(x: &Lent<T>, y: &Lent<T>, metric: &str) -> PyResult<Self> {
        Ok(Self::Points {
            rows: x.to_vec(),
            cols: y.to_vec(),
            dimension: dimension(x, y)?,
            metric: Named::metric(metric)?,
        })
    }

    /// The cost itself.
    pub(crate) fn cost(&self) -> Result<Box<dyn Cost<T> + Send + '_>, Error> {
        Ok(match self {
            Self::Matrix(matrix) => Box::new(matrix),
            Self::Points {
                rows,
                cols,
                dimension,
                metric,
            } => Box::new(PointCloud::new(rows, cols, *dimension, metric.metric)?),
            Self::Pairs(pairs) => Box::new(pairs),
            Self::Grid { cost, .. } => Box::new(cost.as_ref()),
        })
    }

    /// The number of coordinates of a point, where there are any.
    pub(crate) fn dimension(&self) -> Option<usize> {
        match self {
            Self::Points { dimension, .. } => Some(*dimension),
            Self::Matrix(_) | Self::Pairs(_) | Self::Grid { .. } => None,
        }
    }

    /// Whether the costs are still those that were solved for.
    pub(crate) fn is_unchanged(&self) -> bool {
        match self {
            Self::Matrix(matrix) => matrix.is_unchanged(),
            Self::Points { .. } | Self::Pairs(_) | Self::Grid { .. } => true,
        }
    }
}
