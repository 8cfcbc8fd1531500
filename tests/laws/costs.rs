//! Every kind of cost the library knows, made from the same plain numbers; and costs that change another.

use earthmover::cost::Transposed;
use earthmover::{
    Cosine, Cost, Dense, Euclidean, FromFn, Manhattan, MetricFn, PointCloud, Real, Sparse,
    SquaredEuclidean,
};

use crate::problems::Case;

/// The kinds of cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Dense,
    #[cfg(feature = "nalgebra")]
    Matrix,
    #[cfg(feature = "nalgebra")]
    View,
    Closure,
    Own,
    Turned,
    Sparse,
    SparseTurned,
    SquaredEuclidean,
    Euclidean,
    Manhattan,
    Cosine,
    OwnMetric,
}

impl Kind {
    /// Whether it is made from the case's table, not from its points.
    pub fn is_table(self) -> bool {
        match self {
            #[cfg(feature = "nalgebra")]
            Self::Matrix | Self::View => true,
            Self::Dense | Self::Closure | Self::Own | Self::Turned => true,
            Self::Sparse | Self::SparseTurned => true,
            _ => false,
        }
    }
}

/// How many kinds there are.
pub const KINDS: u32 = if cfg!(feature = "nalgebra") { 13 } else { 11 };

/// A user's cost that implements nothing but what it must.
struct Own<'a, T>(&'a [T], usize);

impl<T: Real> Cost<T> for Own<'_, T> {
    fn rows(&self) -> usize {
        self.0.len() / self.1
    }
    fn cols(&self) -> usize {
        self.1
    }
    fn at(&self, row: usize, col: usize) -> T {
        self.0[row * self.1 + col]
    }
}

/// The case's cost of this kind, in `T`, handed to `use_it`.
pub fn with<T: Scalar, R>(kind: Kind, case: &Case, use_it: impl FnOnce(&dyn Cost<T>) -> R) -> R {
    let (mut use_it, mut result) = (Some(use_it), None);
    make(kind, case, &mut |cost| {
        result = use_it.take().map(|use_it| use_it(cost));
    });
    result.unwrap()
}

fn make<T: Scalar>(kind: Kind, case: &Case, use_it: &mut dyn FnMut(&dyn Cost<T>)) {
    let narrow = |x: &[f64]| x.iter().map(|&x| T::narrow(x)).collect::<Vec<T>>();
    let (n, m, d) = (case.rows, case.cols, case.dimension);
    let table = narrow(&case.table);
    let (here, there) = (narrow(&case.here), narrow(&case.there));
    match kind {
        Kind::Dense => use_it(&Dense::new(&table, n, m).unwrap()),
        #[cfg(feature = "nalgebra")]
        Kind::Matrix => use_it(&nalgebra::DMatrix::from_row_slice(n, m, &table)),
        #[cfg(feature = "nalgebra")]
        Kind::View => {
            // Every other row and all but the margins of a larger matrix: strides on both sides.
            let wide = nalgebra::DMatrix::from_fn(2 * n + 1, m + 2, |i, j| {
                let inside = i % 2 == 1 && (1..=m).contains(&j);
                if inside {
                    table[i / 2 * m + j - 1]
                } else {
                    T::narrow(f64::NAN)
                }
            });
            use_it(&wide.view_with_steps((1, 1), (n, m), (1, 0)))
        }
        Kind::Closure => use_it(&FromFn::new(n, m, |i, j| table[i * m + j]).unwrap()),
        Kind::Own => use_it(&Own(&table, m)),
        Kind::Turned => {
            let turned: Vec<T> = (0..n * m).map(|at| table[at % n * m + at / n]).collect();
            use_it(&Transposed(Dense::new(&turned, m, n).unwrap()))
        }
        Kind::Sparse => use_it(&sparse(&table, n, m)),
        Kind::SparseTurned => {
            let turned: Vec<T> = (0..n * m).map(|at| table[at % n * m + at / n]).collect();
            use_it(&Transposed(sparse(&turned, m, n)))
        }
        Kind::SquaredEuclidean => {
            use_it(&PointCloud::new(&here, &there, d, SquaredEuclidean).unwrap())
        }
        Kind::Euclidean => use_it(&PointCloud::new(&here, &there, d, Euclidean).unwrap()),
        Kind::Manhattan => use_it(&PointCloud::new(&here, &there, d, Manhattan).unwrap()),
        Kind::Cosine => use_it(&PointCloud::new(&here, &there, d, Cosine).unwrap()),
        Kind::OwnMetric => {
            // Not symmetric: uphill is dearer than downhill.
            let climb = MetricFn(|x: &[T], y: &[T]| {
                let steps = x
                    .iter()
                    .zip(y)
                    .map(|(&x, &y)| (y - x).max((x - y) * T::narrow(0.5)));
                steps.fold(T::zero(), T::max)
            });
            use_it(&PointCloud::new(&here, &there, d, climb).unwrap())
        }
    }
}

/// The pairs of a table that are not forbidden, last first.
fn sparse<T: Real>(table: &[T], rows: usize, cols: usize) -> Sparse<T> {
    let allowed = table.iter().enumerate().rev();
    let allowed = allowed.filter(|e| !(*e.1 == T::infinity()));
    let pairs = allowed.map(|(at, &c)| (at / cols, at % cols, c));
    Sparse::from_pairs(rows, cols, pairs).unwrap()
}

/// The scalars of the tests: what `nalgebra` asks of its entries comes along.
#[cfg(feature = "nalgebra")]
pub trait Scalar: Real + nalgebra::Scalar {}
#[cfg(not(feature = "nalgebra"))]
pub trait Scalar: Real {}
impl Scalar for f32 {}
impl Scalar for f64 {}

/// Another cost with its rows and columns in another order.
pub struct Permuted<'a, T> {
    pub cost: &'a dyn Cost<T>,
    pub rows: Vec<usize>,
    pub cols: Vec<usize>,
}

impl<T: Real> Cost<T> for Permuted<'_, T> {
    fn rows(&self) -> usize {
        self.rows.len()
    }
    fn cols(&self) -> usize {
        self.cols.len()
    }
    fn at(&self, row: usize, col: usize) -> T {
        self.cost.at(self.rows[row], self.cols[col])
    }
}

/// `C_ij + u_i + v_j`.
pub struct Shifted<'a, T> {
    pub cost: &'a dyn Cost<T>,
    pub u: Vec<f64>,
    pub v: Vec<f64>,
}

impl<T: Real> Cost<f64> for Shifted<'_, T> {
    fn rows(&self) -> usize {
        self.u.len()
    }
    fn cols(&self) -> usize {
        self.v.len()
    }
    fn at(&self, row: usize, col: usize) -> f64 {
        self.cost.at(row, col).widen() + self.u[row] + self.v[col]
    }
}
