//! Costs between two point clouds, computed from the coordinates on the fly.
//!
//! ```text
//! squared Euclidean  Σ_d (x_d − y_d)²       Manhattan  Σ_d |x_d − y_d|
//! Euclidean          √ of the same          cosine     1 − ⟨x, y⟩ / (‖x‖ ‖y‖)
//! ```
//!
//! The targets are kept coordinate by coordinate (all first coordinates, then all second ones …), so
//! that a row of costs is built in `d` runs over contiguous memory, which compilers vectorise. Memory
//! is O((n + m) d), never n × m.

use core::fmt;
use core::ops::Range;

use crate::kernel::dispatch::dispatch;
use crate::{Cost, Error, Real, Side};

/// The points behind a cost: both clouds row-major and how far apart they are measured.
#[derive(Clone, Copy)]
pub struct Points<'a, T> {
    /// Coordinates of the row points, one point after the other.
    pub rows: &'a [T],
    /// Coordinates of the column points, one point after the other.
    pub cols: &'a [T],
    /// Number of coordinates of a point.
    pub dimension: usize,
    /// How far apart a row point and a column point are. Exchanging rows and columns leaves it as it is: only where
    /// [it says](Metric::is_symmetric) that both directions are the same do solvers rely on it from either side.
    pub metric: &'a dyn Metric<T>,
}

impl<T> Points<'_, T> {
    pub(crate) fn transposed(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            ..self
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Points<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Points")
            .field("rows", &self.rows)
            .field("cols", &self.cols)
            .field("dimension", &self.dimension)
            .finish_non_exhaustive()
    }
}

/// A way to measure how far two points are apart.
///
/// Implement [`distance`](Metric::distance) for a metric of your own, or pass a closure through
/// [`MetricFn`]; the built-in metrics also override [`fill_row`](Metric::fill_row), which is what makes
/// them fast.
pub trait Metric<T: Real>: Sync {
    /// The cost between the points `x` and `y`.
    fn distance(&self, x: &[T], y: &[T]) -> T;

    /// Writes the cost from `x` to each of the `out.len()` points whose coordinates lie coordinate by
    /// coordinate in `by_coordinate` (point `j`, coordinate `d` at `d * out.len() + j`) and point by
    /// point in `points`.
    fn fill_row(&self, x: &[T], points: &[T], by_coordinate: &[T], out: &mut [T]) {
        let _ = by_coordinate;
        for (c, y) in out.iter_mut().zip(points.chunks_exact(x.len().max(1))) {
            *c = self.distance(x, y);
        }
    }

    /// A lower bound of the cost from `x` to any point of the box `low ≤ y ≤ high`; −∞, which says
    /// nothing, by default. With it the exact solver passes over most far pairs without looking.
    fn least_distance(&self, x: &[T], low: &[T], high: &[T]) -> T {
        let _ = (x, low, high);
        T::neg_infinity()
    }

    /// A lower bound of the cost between any point of the first box (its lower and upper corner) and any of the second; −∞,
    /// which says nothing, by default. With it entropic sweeps pass over far pairs of clusters without looking.
    fn least_between(&self, here: (&[T], &[T]), there: (&[T], &[T])) -> T {
        let _ = (here, there);
        T::neg_infinity()
    }

    /// A lower bound of the cost from `x` to `y` plus `slopes·(y − centre)`, over all `y` of the box around that centre; rounding
    /// of the cost in `T` is allowed for. `None` where nothing is known.
    #[doc(hidden)]
    fn least_sloped(&self, x: &[T], low: &[T], high: &[T], slopes: &[f64]) -> Option<f64> {
        let _ = (x, low, high, slopes);
        None
    }

    /// An upper bound of the cost between any two points of the box `low ≤ x ≤ high`, in `f64` so that it can be told from an
    /// overflow; `None`, which says nothing, by default. With it clouds whose costs would overflow are refused when they are
    /// made, and solvers need not look for entries that are no costs.
    fn largest_distance(&self, low: &[T], high: &[T]) -> Option<f64> {
        let _ = (low, high);
        None
    }

    /// The largest cost for which nothing overflows on the way: [`Real::LARGEST_COST`] by default, its root for a metric that takes
    /// the root of a sum of squares. Clouds with a larger [`largest_distance`](Self::largest_distance) are refused.
    fn largest_cost(&self) -> f64 {
        T::LARGEST_COST
    }

    /// Writes ∂ distance(x, y) / ∂x over `out` and says whether the metric has a derivative; by default it has none, and losses over
    /// it have no gradient with respect to points. Where the distance has a kink, any subgradient will do.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Metric, SquaredEuclidean};
    /// let mut slope = [0.0; 2];
    /// assert!(SquaredEuclidean.gradient(&[1.0, 0.0], &[0.0, 3.0], &mut slope));
    /// assert_eq!(slope, [2.0, -6.0]);
    /// ```
    fn gradient(&self, x: &[T], y: &[T], out: &mut [f64]) -> bool {
        let _ = (x, y, out);
        false
    }

    /// Writes ∂ distance(x, y) / ∂y over `out`, as [`gradient`](Self::gradient) does ∂x: by default what that says with the points
    /// exchanged, which is right for metrics that do not tell one from the other.
    fn gradient_of_second(&self, x: &[T], y: &[T], out: &mut [f64]) -> bool {
        self.gradient(y, x, out)
    }

    /// Whether the distance is ‖x − y‖², whose gradients are products with a plan.
    #[doc(hidden)]
    fn is_quadratic(&self) -> bool {
        false
    }

    /// Whether `distance(x, y)` and `distance(y, x)` are the same to the last bit; `false` by default,
    /// which is always right. A symmetric metric may be filled from either side.
    fn is_symmetric(&self) -> bool {
        false
    }

    /// Whether between points of one coordinate the distance is a convex function of their difference; `false` by default, which
    /// is always right. Such clouds are solved by sorting them.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Cosine, Metric, SquaredEuclidean};
    /// assert!(Metric::<f64>::is_convex_on_a_line(&SquaredEuclidean));
    /// assert!(!Metric::<f64>::is_convex_on_a_line(&Cosine));
    /// ```
    fn is_convex_on_a_line(&self) -> bool {
        false
    }
}

impl<T: Real, M: Metric<T> + ?Sized> Metric<T> for &M {
    fn distance(&self, x: &[T], y: &[T]) -> T {
        (**self).distance(x, y)
    }
    fn fill_row(&self, x: &[T], points: &[T], by_coordinate: &[T], out: &mut [T]) {
        (**self).fill_row(x, points, by_coordinate, out);
    }
    fn least_distance(&self, x: &[T], low: &[T], high: &[T]) -> T {
        (**self).least_distance(x, low, high)
    }
    fn least_between(&self, here: (&[T], &[T]), there: (&[T], &[T])) -> T {
        (**self).least_between(here, there)
    }
    fn least_sloped(&self, x: &[T], low: &[T], high: &[T], slopes: &[f64]) -> Option<f64> {
        (**self).least_sloped(x, low, high, slopes)
    }
    fn largest_distance(&self, low: &[T], high: &[T]) -> Option<f64> {
        (**self).largest_distance(low, high)
    }
    fn largest_cost(&self) -> f64 {
        (**self).largest_cost()
    }
    fn gradient(&self, x: &[T], y: &[T], out: &mut [f64]) -> bool {
        (**self).gradient(x, y, out)
    }
    fn gradient_of_second(&self, x: &[T], y: &[T], out: &mut [f64]) -> bool {
        (**self).gradient_of_second(x, y, out)
    }
    fn is_quadratic(&self) -> bool {
        (**self).is_quadratic()
    }
    fn is_symmetric(&self) -> bool {
        (**self).is_symmetric()
    }
    fn is_convex_on_a_line(&self) -> bool {
        (**self).is_convex_on_a_line()
    }
}

/// What rounding may take from a distance of so many coordinates, as a share of it: d + 2 operations in `T`, each off by half a unit.
pub(super) fn rounding<T: Real>(dimension: usize) -> f64 {
    (dimension + 2) as f64 * T::epsilon().widen()
}

/// Coordinates of a point and of a box, with a slope each.
fn sloped<'a, T: Real>(
    x: &'a [T],
    low: &'a [T],
    high: &'a [T],
    slopes: &'a [f64],
) -> impl Iterator<Item = (f64, f64, f64, f64)> + 'a {
    let boxes = low.iter().zip(high);
    let each = x.iter().zip(boxes).zip(slopes);
    each.map(|((x, (low, high)), &slope)| (x.widen(), low.widen(), high.widen(), slope))
}

/// ‖x − y‖²: the cost of the 2-Wasserstein distance.
#[derive(Debug, Clone, Copy, Default)]
pub struct SquaredEuclidean;

/// ‖x − y‖: the cost of the earth mover's distance.
#[derive(Debug, Clone, Copy, Default)]
pub struct Euclidean;

/// Σ |x_d − y_d|.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manhattan;

/// 1 − cos ∠(x, y); a point at the origin is taken to be at right angles to everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cosine;

/// A metric given by a closure of two points.
///
/// # Examples
/// ```
/// use earthmover::{Cost, MetricFn, PointCloud};
/// let chebyshev = MetricFn(|x: &[f64], y: &[f64]| {
///     x.iter().zip(y).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
/// });
/// let cost = PointCloud::new(&[0.0, 0.0], &[3.0, 4.0], 2, chebyshev)?;
/// assert_eq!(cost.at(0, 0), 4.0);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct MetricFn<F>(pub F);

impl<F> fmt::Debug for MetricFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MetricFn")
    }
}

impl<T: Real, F: Fn(&[T], &[T]) -> T + Sync> Metric<T> for MetricFn<F> {
    fn distance(&self, x: &[T], y: &[T]) -> T {
        (self.0)(x, y)
    }
}

impl<T: Real> Metric<T> for SquaredEuclidean {
    fn distance(&self, x: &[T], y: &[T]) -> T {
        x.iter()
            .zip(y)
            .map(|(&a, &b)| (a - b) * (a - b))
            .fold(T::zero(), |s, d| s + d)
    }

    fn fill_row(&self, x: &[T], _: &[T], by_coordinate: &[T], out: &mut [T]) {
        squared_row(x, by_coordinate, out);
    }

    fn least_distance(&self, x: &[T], low: &[T], high: &[T]) -> T {
        steps_outside(x, low, high).fold(T::zero(), |s, d| s + d * d)
    }

    fn least_between(&self, here: (&[T], &[T]), there: (&[T], &[T])) -> T {
        steps_between(here, there).fold(T::zero(), |s, d| s + d * d)
    }

    fn least_sloped(&self, x: &[T], low: &[T], high: &[T], slopes: &[f64]) -> Option<f64> {
        let exact = 1.0 - rounding::<T>(x.len());
        let each = sloped(x, low, high, slopes).map(|(x, low, high, slope)| {
            let y = (x - 0.5 * slope / exact).max(low).min(high);
            exact * (y - x) * (y - x) + slope * (y - 0.5 * (low + high))
        });
        Some(each.sum())
    }

    fn largest_distance(&self, low: &[T], high: &[T]) -> Option<f64> {
        Some(sides(low, high).map(|d| d * d).sum())
    }

    fn gradient(&self, x: &[T], y: &[T], out: &mut [f64]) -> bool {
        for ((o, x), y) in out.iter_mut().zip(x).zip(y) {
            *o = 2.0 * (x.widen() - y.widen());
        }
        true
    }

    fn is_quadratic(&self) -> bool {
        true
    }

    fn is_symmetric(&self) -> bool {
        true
    }

    fn is_convex_on_a_line(&self) -> bool {
        true
    }
}

impl<T: Real> Metric<T> for Euclidean {
    fn distance(&self, x: &[T], y: &[T]) -> T {
        Metric::distance(&SquaredEuclidean, x, y).sqrt()
    }

    fn fill_row(&self, x: &[T], _: &[T], by_coordinate: &[T], out: &mut [T]) {
        squared_row(x, by_coordinate, out);
        out.iter_mut().for_each(|c| *c = c.sqrt());
    }

    fn least_distance(&self, x: &[T], low: &[T], high: &[T]) -> T {
        SquaredEuclidean.least_distance(x, low, high).sqrt()
    }

    fn least_between(&self, here: (&[T], &[T]), there: (&[T], &[T])) -> T {
        SquaredEuclidean.least_between(here, there).sqrt()
    }

    fn least_sloped(&self, x: &[T], low: &[T], high: &[T], slopes: &[f64]) -> Option<f64> {
        // ‖y − x‖ ≥ u·(y − x) for any unit vector u, for one the direction of the centre.
        let each = || sloped(x, low, high, slopes);
        let to_centre = |(x, low, high, _): (f64, f64, f64, f64)| 0.5 * (low + high) - x;
        let far = each()
            .map(|e| to_centre(e) * to_centre(e))
            .sum::<f64>()
            .sqrt();
        let exact = 1.0 - rounding::<T>(x.len());
        let (mut steep, mut flat) = (exact * far, 0.0);
        let inverse = if far > 0.0 { exact / far } else { 0.0 };
        for (x, low, high, slope) in each() {
            let (half, towards) = (0.5 * (high - low), to_centre((x, low, high, slope)));
            steep -= (towards * inverse + slope).abs() * half;
            flat += slope.abs() * half;
        }
        let flat = exact * self.least_distance(x, low, high).widen() - flat;
        Some(flat.max(steep))
    }

    fn largest_distance(&self, low: &[T], high: &[T]) -> Option<f64> {
        // In units of the longest side, whose square may overflow.
        let longest = sides(low, high).fold(0.0, f64::max);
        if longest == f64::INFINITY {
            return Some(longest);
        }
        let unit = if longest > 0.0 { longest } else { 1.0 };
        let square: f64 = sides(low, high).map(|d| (d / unit) * (d / unit)).sum();
        Some(longest * square.sqrt())
    }

    fn largest_cost(&self) -> f64 {
        // The square is what overflows first.
        T::LARGEST_COST.sqrt()
    }

    fn gradient(&self, x: &[T], y: &[T], out: &mut [f64]) -> bool {
        let mut square = 0.0;
        for ((o, x), y) in out.iter_mut().zip(x).zip(y) {
            *o = x.widen() - y.widen();
            square += *o * *o;
        }
        // At the same place there is no direction: zero is a subgradient.
        let inverse = if square > 0.0 {
            1.0 / square.sqrt()
        } else {
            0.0
        };
        out.iter_mut().for_each(|o| *o *= inverse);
        true
    }

    fn is_symmetric(&self) -> bool {
        true
    }

    fn is_convex_on_a_line(&self) -> bool {
        true
    }
}

impl<T: Real> Metric<T> for Manhattan {
    fn distance(&self, x: &[T], y: &[T]) -> T {
        x.iter()
            .zip(y)
            .map(|(&a, &b)| (a - b).abs())
            .fold(T::zero(), |s, d| s + d)
    }

    fn fill_row(&self, x: &[T], _: &[T], by_coordinate: &[T], out: &mut [T]) {
        manhattan_row(x, by_coordinate, out);
    }

    fn least_distance(&self, x: &[T], low: &[T], high: &[T]) -> T {
        steps_outside(x, low, high).fold(T::zero(), |s, d| s + d)
    }

    fn least_between(&self, here: (&[T], &[T]), there: (&[T], &[T])) -> T {
        steps_between(here, there).fold(T::zero(), |s, d| s + d)
    }

    fn least_sloped(&self, x: &[T], low: &[T], high: &[T], slopes: &[f64]) -> Option<f64> {
        let exact = 1.0 - rounding::<T>(x.len());
        let each = sloped(x, low, high, slopes).map(|(x, low, high, slope)| {
            let at = |y: f64| exact * (y - x).abs() + slope * (y - 0.5 * (low + high));
            at(low).min(at(high)).min(at(x.max(low).min(high)))
        });
        Some(each.sum())
    }

    fn largest_distance(&self, low: &[T], high: &[T]) -> Option<f64> {
        Some(sides(low, high).sum())
    }

    fn gradient(&self, x: &[T], y: &[T], out: &mut [f64]) -> bool {
        for ((o, x), y) in out.iter_mut().zip(x).zip(y) {
            let step = x.widen() - y.widen();
            *o = if step == 0.0 { 0.0 } else { step.signum() };
        }
        true
    }

    fn is_symmetric(&self) -> bool {
        true
    }

    fn is_convex_on_a_line(&self) -> bool {
        true
    }
}

impl<T: Real> Metric<T> for Cosine {
    fn distance(&self, x: &[T], y: &[T]) -> T {
        // By the largest coordinate first: squares of what is large or small would over- or underflow.
        let largest = |u: &[T]| u.iter().fold(0.0, |m: f64, c| m.max(c.widen().abs()));
        let (scale_x, scale_y) = (largest(x), largest(y));
        if scale_x == 0.0 || scale_y == 0.0 {
            return T::one();
        }
        let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
        for (a, b) in x.iter().zip(y) {
            let (a, b) = (a.widen() / scale_x, b.widen() / scale_y);
            xx += a * a;
            yy += b * b;
            xy += a * b;
        }
        T::narrow((1.0 - xy / (xx * yy).sqrt()).clamp(0.0, 2.0))
    }

    fn largest_distance(&self, _: &[T], _: &[T]) -> Option<f64> {
        Some(2.0)
    }

    /// `−(y/‖y‖ − cos · x/‖x‖) / ‖x‖`; zero where a point is at the origin.
    fn gradient(&self, x: &[T], y: &[T], out: &mut [f64]) -> bool {
        let length = |u: &[T]| {
            let scale = u.iter().fold(0.0, |m: f64, c| m.max(c.widen().abs()));
            let square: f64 = u.iter().map(|c| (c.widen() / scale).powi(2)).sum();
            if scale > 0.0 {
                scale * square.sqrt()
            } else {
                0.0
            }
        };
        let (xx, yy) = (length(x), length(y));
        if xx == 0.0 || yy == 0.0 {
            out.fill(0.0);
            return true;
        }
        let both = || x.iter().zip(y);
        let cosine: f64 = both()
            .map(|(x, y)| (x.widen() / xx) * (y.widen() / yy))
            .sum();
        for (o, (x, y)) in out.iter_mut().zip(both()) {
            *o = (cosine * (x.widen() / xx) - y.widen() / yy) / xx;
        }
        true
    }
}

/// How wide a box is along each coordinate.
fn sides<'a, T: Real>(low: &'a [T], high: &'a [T]) -> impl Iterator<Item = f64> + 'a {
    low.iter().zip(high).map(|(l, h)| h.widen() - l.widen())
}

/// How far `x` lies outside a box, along each coordinate.
fn steps_outside<'a, T: Real>(
    x: &'a [T],
    low: &'a [T],
    high: &'a [T],
) -> impl Iterator<Item = T> + 'a {
    let sides = x.iter().zip(low.iter().zip(high));
    sides.map(|(&x, (&low, &high))| (low - x).max(x - high).max(T::zero()))
}

/// How far two boxes are apart, along each coordinate.
fn steps_between<'a, T: Real>(
    here: (&'a [T], &'a [T]),
    there: (&'a [T], &'a [T]),
) -> impl Iterator<Item = T> + 'a {
    let (here, there) = (here.0.iter().zip(here.1), there.0.iter().zip(there.1));
    here.zip(there)
        .map(|((&low, &high), (&from, &to))| (low - to).max(from - high).max(T::zero()))
}

dispatch! {
    fn squared_row<T: Real>(x: &[T], by_coordinate: &[T], out: &mut [T]) {
        let columns = out.len();
        out.fill(T::zero());
        for (&a, line) in x.iter().zip(by_coordinate.chunks_exact(columns)) {
            for (c, &b) in out.iter_mut().zip(line) {
                *c += (a - b) * (a - b);
            }
        }
    }
}

dispatch! {
    fn manhattan_row<T: Real>(x: &[T], by_coordinate: &[T], out: &mut [T]) {
        let columns = out.len();
        out.fill(T::zero());
        for (&a, line) in x.iter().zip(by_coordinate.chunks_exact(columns)) {
            for (c, &b) in out.iter_mut().zip(line) {
                *c += (a - b).abs();
            }
        }
    }
}

/// Two point clouds and a metric, as a cost.
///
/// # Examples
/// ```
/// use earthmover::{Cost, PointCloud, SquaredEuclidean};
/// let (here, there) = ([0.0, 0.0, 1.0, 0.0], [0.0, 2.0]);
/// let cost = PointCloud::new(&here, &there, 2, SquaredEuclidean)?;
/// assert_eq!((cost.rows(), cost.cols()), (2, 1));
/// assert_eq!(cost.at(1, 0), 5.0);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct PointCloud<'a, T, M> {
    rows: &'a [T],
    cols: &'a [T],
    rows_by_coordinate: Vec<T>,
    cols_by_coordinate: Vec<T>,
    dimension: usize,
    metric: M,
    /// Upper bound of all costs, where the metric knows one.
    farthest: Option<f64>,
}

impl<'a, T: Real, M: Metric<T>> PointCloud<'a, T, M> {
    /// The cost between `rows` and `cols`, both lists of points of `dimension` coordinates each.
    ///
    /// # Errors
    /// [`Error::Empty`] where a cloud or the dimension is zero, [`Error::Length`] where a list is not a
    /// whole number of points, [`Error::Point`] for a coordinate that is not finite, [`Error::TooFar`] where costs could
    /// be larger than the metric's [`largest_cost`](Metric::largest_cost).
    pub fn new(rows: &'a [T], cols: &'a [T], dimension: usize, metric: M) -> Result<Self, Error> {
        if dimension == 0 || rows.is_empty() || cols.is_empty() {
            let per = dimension.max(1);
            return Err(Error::Empty {
                rows: rows.len() / per,
                cols: cols.len() / per,
            });
        }
        check_points(rows, dimension, Side::Rows)?;
        check_points(cols, dimension, Side::Cols)?;
        let (low, high) = common_box(rows, cols, dimension);
        let farthest = metric.largest_distance(&low, &high);
        let largest = metric.largest_cost();
        if let Some(cost) = farthest.filter(|f| !(*f <= largest)) {
            return Err(Error::TooFar { cost, largest });
        }
        Ok(Self {
            farthest,
            rows,
            cols,
            rows_by_coordinate: by_coordinate(rows, dimension),
            cols_by_coordinate: by_coordinate(cols, dimension),
            dimension,
            metric,
        })
    }
}

/// Whether this is a list of whole points with finite coordinates, at least one.
pub(crate) fn check_points<T: Real>(
    points: &[T],
    dimension: usize,
    side: Side,
) -> Result<(), Error> {
    if dimension == 0 || points.is_empty() {
        let count = points.len() / dimension.max(1);
        let (rows, cols) = match side {
            Side::Cols => (0, count),
            _ => (count, 0),
        };
        return Err(Error::Empty { rows, cols });
    }
    if !points.len().is_multiple_of(dimension) {
        return Err(Error::Length {
            what: match side {
                Side::Cols => "column points",
                _ => "row points",
            },
            expected: points.len().next_multiple_of(dimension),
            found: points.len(),
        });
    }
    match points.iter().position(|x| !x.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Error::Point {
            side,
            index: at / dimension,
            coordinate: at % dimension,
            value: points[at].widen(),
        }),
    }
}

/// The corners of the box around all points.
fn common_box<T: Real>(rows: &[T], cols: &[T], dimension: usize) -> (Vec<T>, Vec<T>) {
    let (mut low, mut high) = (rows[..dimension].to_vec(), rows[..dimension].to_vec());
    for point in rows
        .chunks_exact(dimension)
        .chain(cols.chunks_exact(dimension))
    {
        for ((l, h), &x) in low.iter_mut().zip(&mut high).zip(point) {
            *l = l.min(x);
            *h = h.max(x);
        }
    }
    (low, high)
}

fn by_coordinate<T: Real>(points: &[T], dimension: usize) -> Vec<T> {
    (0..dimension)
        .flat_map(|d| points.iter().skip(d).step_by(dimension).copied())
        .collect()
}

impl<T: Real, M: Metric<T>> Cost<T> for PointCloud<'_, T, M> {
    fn rows(&self) -> usize {
        self.rows.len() / self.dimension
    }

    fn cols(&self) -> usize {
        self.cols.len() / self.dimension
    }

    fn at(&self, row: usize, col: usize) -> T {
        let d = self.dimension;
        self.metric
            .distance(&self.rows[row * d..][..d], &self.cols[col * d..][..d])
    }

    fn fill(&self, rows: Range<usize>, out: &mut [T]) {
        let d = self.dimension;
        for (i, line) in rows.zip(out.chunks_exact_mut(self.cols().max(1))) {
            self.metric.fill_row(
                &self.rows[i * d..][..d],
                self.cols,
                &self.cols_by_coordinate,
                line,
            );
        }
    }

    fn fill_cols(&self, cols: Range<usize>, out: &mut [T]) {
        let d = self.dimension;
        for (j, line) in cols.zip(out.chunks_exact_mut(self.rows().max(1))) {
            let y = &self.cols[j * d..][..d];
            if self.metric.is_symmetric() {
                self.metric
                    .fill_row(y, self.rows, &self.rows_by_coordinate, line);
            } else {
                for (c, x) in line.iter_mut().zip(self.rows.chunks_exact(d)) {
                    *c = self.metric.distance(x, y);
                }
            }
        }
    }

    fn points(&self) -> Option<Points<'_, T>> {
        Some(Points {
            rows: self.rows,
            cols: self.cols,
            dimension: self.dimension,
            metric: &self.metric,
        })
    }

    fn range(&self) -> Option<(f64, f64)> {
        self.farthest.map(|far| (0.0, far))
    }
}
