//! Sliced distances: clouds in any dimension, compared through their shadows on lines.
//!
//! ```text
//! SW_pᵖ(μ, ν) = ∫ W_pᵖ(θ·μ, θ·ν) dθ       max-SW_p(μ, ν) = max_θ W_p(θ·μ, θ·ν)       θ on the unit sphere
//! ```
//!
//! Each shadow is a list on a [line](crate::line), solved by sorting, so that a distance takes O(L n (d + log n)) for L directions and
//! never a pair of points. The integral is the mean over random directions, and comes with the standard error of that mean; the
//! maximum is climbed to from the best of them, and is a lower bound of the true one, which is at most W_p itself.
//!
//! The gradient with respect to the points is exact for the directions drawn: a shadow's gradient, times its direction, averaged.
//! Directions are functions of the seed and their number alone, and sums are folded in their order: the same bits for any
//! number of threads.
//!
//! # References
//! Rabin, Peyré, Delon and Bernot, *Wasserstein barycenter and its application to texture mixing*, 2011. Deshpande et al.,
//! *Max-sliced Wasserstein distance*, 2019.

mod ascent;

use crate::kernel::random::Random;
use crate::kernel::sort::{key, sort, unkey};
use crate::kernel::tiles::map_ranges;
use crate::line::{Cumulative, Power, distance_cost, position_gradients};
use crate::problem::marginals::shares;
use crate::{Error, Real, Side};

/// Directions that are worked on at a time by one thread, and folded together.
const AT_ONCE: usize = 4;

/// How sliced distances are measured.
///
/// # Examples
/// ```
/// use earthmover::Sliced;
/// let x = [0.0, 0.0, 1.0, 0.0, 0.0, 1.0]; // three points of the plane
/// let y: Vec<f64> = x.iter().map(|c| c + 2.0).collect();
/// let answer = Sliced::new().projections(400).seed(7).distance(&x, &y, 2)?;
/// // A translation by (2, 2): the mean of (θ·(2, 2))² is 8 / 2.
/// assert!((answer.value - 2.0).abs() < 4.0 * answer.standard_error);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Sliced {
    order: f64,
    projections: usize,
    seed: u64,
    steps: usize,
}

/// A sliced distance and how far it may be from the integral.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SlicedDistance {
    /// SW_p.
    pub value: f64,
    /// SW_pᵖ: the mean over the directions.
    pub cost: f64,
    /// One standard deviation of [`value`](Self::value) over draws of the directions; zero in one dimension, where all directions say
    /// the same, and infinite for one direction.
    pub standard_error: f64,
    /// W_pᵖ along each direction.
    pub costs: Vec<f64>,
}

/// Derivatives of SW_pᵖ, the mean over the directions drawn.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SlicedGradients {
    /// The distance itself.
    pub distance: SlicedDistance,
    /// With respect to the row points, row-major.
    pub rows: Vec<f64>,
    /// With respect to the column points, row-major.
    pub cols: Vec<f64>,
}

/// A max-sliced distance: the direction found, and what is seen along it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MaxSliced {
    /// W_p along [`direction`](Self::direction): a lower bound of max-SW_p, and so of W_p.
    pub value: f64,
    /// The unit vector along which the clouds are farthest apart.
    pub direction: Vec<f64>,
    /// Length of the gradient along the sphere there, as a share of the cost: zero where no direction nearby is better.
    pub stationarity: f64,
    /// Steps taken uphill, from all starts together.
    pub iterations: usize,
}

impl Default for Sliced {
    fn default() -> Self {
        Self::new()
    }
}

impl Sliced {
    /// Of order 2, along 100 directions of seed 0.
    pub fn new() -> Self {
        Self {
            order: 2.0,
            projections: 100,
            seed: 0,
            steps: 100,
        }
    }

    /// The order p ≥ 1. Default 2.
    pub fn order(mut self, order: f64) -> Self {
        self.order = order;
        self
    }

    /// How many directions are drawn. Default 100.
    pub fn projections(mut self, count: usize) -> Self {
        self.projections = count;
        self
    }

    /// Which directions are drawn. Default 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Most steps uphill from each start of [`max`](Self::max). Default 100.
    pub fn max_steps(mut self, steps: usize) -> Self {
        self.steps = steps;
        self
    }

    /// SW_p between two clouds of points of equal weight, each row-major with `dimension` coordinates a point.
    ///
    /// # Errors
    /// [`Error::Empty`], [`Error::Length`] or [`Error::Point`] for clouds that are none, [`Error::Option`] for an order below one or
    /// no directions, [`Error::TooFar`] where a cost overflows.
    pub fn distance<T: Real>(
        &self,
        rows: &[T],
        cols: &[T],
        dimension: usize,
    ) -> Result<SlicedDistance, Error> {
        self.weighted_distance(rows, None, cols, None, dimension)
    }

    /// As [`distance`](Self::distance) with weights, which are scaled to a total of one; `None` for equal ones.
    ///
    /// # Errors
    /// As [`distance`](Self::distance), and [`Error::Mass`], [`Error::NoMass`] or [`Error::Length`] for weights that are none.
    ///
    /// # Examples
    /// ```
    /// use earthmover::Sliced;
    /// let (x, y) = ([0.0, 1.0], [0.0, 1.0]); // on a line all directions say the same
    /// let answer = Sliced::new().order(1.0).weighted_distance(&x, Some(&[3.0, 1.0]), &y, None, 1)?;
    /// assert!((answer.value - 0.25).abs() < 1e-15);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn weighted_distance<T: Real>(
        &self,
        rows: &[T],
        row_weights: Option<&[T]>,
        cols: &[T],
        col_weights: Option<&[T]>,
        dimension: usize,
    ) -> Result<SlicedDistance, Error> {
        let power = self.check()?;
        let (x, y) = (
            Cloud::new(rows, row_weights, dimension, Side::Rows)?,
            Cloud::new(cols, col_weights, dimension, Side::Cols)?,
        );
        let parts = map_ranges(self.projections, AT_ONCE, |directions| {
            let mut buffers = Buffers::default();
            let mut direction = vec![0.0; dimension];
            let cost = |index: usize| {
                self.direction(index, &mut direction);
                buffers.cost(&x, &y, &direction, power)
            };
            directions.map(cost).collect::<Vec<f64>>()
        });
        self.summary(parts.concat(), power)
    }

    /// The distance and its derivatives with respect to every point, for clouds with weights or, where `None`, equal ones.
    ///
    /// # Errors
    /// As [`weighted_distance`](Self::weighted_distance).
    ///
    /// # Examples
    /// ```
    /// use earthmover::Sliced;
    /// let (x, y) = ([0.0, 0.0, 1.0, 1.0], [0.5, 0.0, 1.5, 1.0]);
    /// let answer = Sliced::new().projections(50).gradients(&x, None, &y, None, 2)?;
    /// // Whatever pulls the rows pushes the columns.
    /// let pull: f64 = answer.rows.iter().chain(&answer.cols).sum();
    /// assert!(pull.abs() < 1e-12 && answer.rows[0] < 0.0);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn gradients<T: Real>(
        &self,
        rows: &[T],
        row_weights: Option<&[T]>,
        cols: &[T],
        col_weights: Option<&[T]>,
        dimension: usize,
    ) -> Result<SlicedGradients, Error> {
        let power = self.check()?;
        let (x, y) = (
            Cloud::new(rows, row_weights, dimension, Side::Rows)?,
            Cloud::new(cols, col_weights, dimension, Side::Cols)?,
        );
        // Few parts, as each holds a gradient of its own.
        let at_once = self.projections.div_ceil(MOST_GRADIENTS).max(AT_ONCE);
        let parts = map_ranges(self.projections, at_once, |directions| {
            let mut buffers = Buffers::default();
            let mut direction = vec![0.0; dimension];
            let (mut dx, mut dy) = (vec![0.0; rows.len()], vec![0.0; cols.len()]);
            let cost = |index: usize| {
                self.direction(index, &mut direction);
                let (cost, fx, fy) = buffers.gradients(&x, &y, &direction, power);
                spread(&fx, &buffers.row_pairs, &direction, &mut dx);
                spread(&fy, &buffers.col_pairs, &direction, &mut dy);
                cost
            };
            let costs: Vec<f64> = directions.map(cost).collect();
            (costs, dx, dy)
        });
        let (mut costs, mut dx, mut dy) =
            (Vec::new(), vec![0.0; rows.len()], vec![0.0; cols.len()]);
        let scale = 1.0 / self.projections as f64;
        for (part, px, py) in parts {
            costs.extend(part);
            dx.iter_mut().zip(px).for_each(|(d, p)| *d += scale * p);
            dy.iter_mut().zip(py).for_each(|(d, p)| *d += scale * p);
        }
        Ok(SlicedGradients {
            distance: self.summary(costs, power)?,
            rows: dx,
            cols: dy,
        })
    }

    fn check(&self) -> Result<Power, Error> {
        if self.projections == 0 {
            return Err(Error::Option {
                name: "projections",
                value: 0.0,
                expected: "at least one",
            });
        }
        Power::new(self.order)
    }

    fn direction(&self, index: usize, out: &mut [f64]) {
        Random::new(self.seed, index as u64).direction(out);
    }

    fn summary(&self, costs: Vec<f64>, power: Power) -> Result<SlicedDistance, Error> {
        let count = costs.len() as f64;
        let cost = crate::kernel::rounding::sum(&costs) / count;
        if !cost.is_finite() {
            return Err(Error::TooFar {
                cost,
                largest: <f64 as Real>::LARGEST_COST,
            });
        }
        let value = power.root(cost);
        let squares: f64 = costs.iter().map(|c| (c - cost) * (c - cost)).sum();
        let error = (squares / (count - 1.0) / count).sqrt();
        // d(c^(1/p)) = c^(1/p) / (p c) dc.
        let standard_error = if squares == 0.0 && costs.len() > 1 {
            0.0
        } else if costs.len() > 1 && cost > 0.0 {
            value / (self.order * cost) * error
        } else {
            f64::INFINITY
        };
        Ok(SlicedDistance {
            value,
            cost,
            standard_error,
            costs,
        })
    }
}

/// Parts that a gradient is folded from: each holds as many numbers as the clouds.
const MOST_GRADIENTS: usize = 16;

/// Points, checked, in `f64`, coordinate by coordinate, and their weights.
struct Cloud {
    by_coordinate: Vec<f64>,
    count: usize,
    weights: Option<Vec<f64>>,
}

impl Cloud {
    fn new<T: Real>(
        points: &[T],
        weights: Option<&[T]>,
        dimension: usize,
        side: Side,
    ) -> Result<Self, Error> {
        crate::cost::check_points(points, dimension, side)?;
        let count = points.len() / dimension;
        let weights = weights.map(|w| shares(w, count, side, "weights"));
        let coordinate = |d: usize| points.iter().skip(d).step_by(dimension).map(|x| x.widen());
        Ok(Self {
            by_coordinate: (0..dimension).flat_map(coordinate).collect(),
            count,
            weights: weights.transpose()?,
        })
    }

    fn project(&self, direction: &[f64], out: &mut Vec<f64>) {
        out.clear();
        out.resize(self.count, 0.0);
        let lines = self.by_coordinate.chunks_exact(self.count);
        for (&u, line) in direction.iter().zip(lines) {
            for (o, x) in out.iter_mut().zip(line) {
                *o += u * x;
            }
        }
    }
}

/// Adds what each shadow pulls, along the direction, to its point.
fn spread(pulls: &[f64], pairs: &[(u64, u32)], direction: &[f64], out: &mut [f64]) {
    let d = direction.len();
    for (pull, (_, i)) in pulls.iter().zip(pairs) {
        let point = &mut out[*i as usize * d..][..d];
        point
            .iter_mut()
            .zip(direction)
            .for_each(|(o, u)| *o += pull * u);
    }
}

/// What one thread works with, kept from direction to direction.
#[derive(Default)]
struct Buffers {
    shadow: Vec<f64>,
    keys: Vec<u64>,
    row_pairs: Vec<(u64, u32)>,
    col_pairs: Vec<(u64, u32)>,
}

impl Buffers {
    /// W_pᵖ along a direction.
    fn cost(&mut self, x: &Cloud, y: &Cloud, direction: &[f64], power: Power) -> f64 {
        let (x, x_levels) = self.sorted(x, direction, false);
        let (y, y_levels) = self.sorted(y, direction, true);
        distance_cost((&x, &x_levels), (&y, &y_levels), power)
    }

    /// W_pᵖ along a direction and its derivatives, in the order of the shadows.
    fn gradients(
        &mut self,
        x: &Cloud,
        y: &Cloud,
        direction: &[f64],
        power: Power,
    ) -> (f64, Vec<f64>, Vec<f64>) {
        let (xs, x_levels) = self.sorted_pairs(x, direction, false);
        let (ys, y_levels) = self.sorted_pairs(y, direction, true);
        let (one, two) = ((&xs[..], &x_levels), (&ys[..], &y_levels));
        let (dx, dy) = position_gradients(one, two, power);
        (distance_cost(one, two, power), dx, dy)
    }

    fn sorted(&mut self, cloud: &Cloud, direction: &[f64], cols: bool) -> (Vec<f64>, Cumulative) {
        if cloud.weights.is_some() {
            return self.sorted_pairs(cloud, direction, cols);
        }
        cloud.project(direction, &mut self.shadow);
        self.keys.clear();
        self.keys.extend(self.shadow.iter().map(|x| key(*x)));
        sort(&mut self.keys);
        let positions = self.keys.iter().map(|k| unkey(*k)).collect();
        (positions, Cumulative::Uniform(cloud.count))
    }

    fn sorted_pairs(
        &mut self,
        cloud: &Cloud,
        direction: &[f64],
        cols: bool,
    ) -> (Vec<f64>, Cumulative) {
        cloud.project(direction, &mut self.shadow);
        let pairs = if cols {
            &mut self.col_pairs
        } else {
            &mut self.row_pairs
        };
        pairs.clear();
        pairs.extend(self.shadow.iter().zip(0..).map(|(x, i)| (key(*x), i)));
        sort(pairs);
        let positions = pairs.iter().map(|p| unkey(p.0)).collect();
        let levels = match &cloud.weights {
            None => Cumulative::Uniform(cloud.count),
            Some(shares) => Cumulative::of_shares(pairs.iter().map(|p| shares[p.1 as usize])),
        };
        (positions, levels)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn cloud(n: usize, d: usize, stream: u64) -> Vec<f64> {
        let mut random = Random::new(9, stream);
        (0..n * d).map(|_| random.normal()).collect()
    }

    #[test]
    fn every_direction_is_a_line() {
        let (x, y) = (cloud(300, 3, 0), cloud(200, 3, 1));
        let sliced = Sliced::new().projections(9).order(1.5).seed(3);
        let answer = sliced.distance(&x, &y, 3).unwrap();
        let mut direction = [0.0; 3];
        for (index, cost) in answer.costs.iter().enumerate() {
            sliced.direction(index, &mut direction);
            let shadow = |points: &[f64]| -> Vec<f64> {
                let dot = |p: &[f64]| p.iter().zip(&direction).map(|(a, b)| a * b).sum();
                points.chunks_exact(3).map(dot).collect()
            };
            let line = crate::line::distance(&shadow(&x), &shadow(&y), 1.5).unwrap();
            assert!((line.powf(1.5) - cost).abs() < 1e-13);
        }
        // Equal weights written out are equal weights.
        let weights = vec![2.0; 300];
        let again = sliced.weighted_distance(&x, Some(&weights), &y, None, 3);
        assert!((again.unwrap().cost - answer.cost).abs() < 1e-13);
    }

    #[test]
    fn gradients_are_differences() {
        let (x, y) = (cloud(12, 2, 2), cloud(9, 2, 3));
        let weights: Vec<f64> = (0..9).map(|j| 1.0 + f64::from(j % 4)).collect();
        let sliced = Sliced::new().projections(20).order(2.0);
        let cost = |x: &[f64], y: &[f64]| {
            let answer = sliced.weighted_distance(x, None, y, Some(&weights), 2);
            answer.unwrap().cost
        };
        let all = sliced.gradients(&x, None, &y, Some(&weights), 2).unwrap();
        assert_eq!(all.distance.cost, cost(&x, &y));
        let h = 1e-6;
        for at in 0..24 {
            let (mut up, mut down) = (x.clone(), x.clone());
            up[at] += h;
            down[at] -= h;
            let slope = (cost(&up, &y) - cost(&down, &y)) / (2.0 * h);
            assert!((slope - all.rows[at]).abs() < 1e-7);
        }
        for at in 0..18 {
            let (mut up, mut down) = (y.clone(), y.clone());
            up[at] += h;
            down[at] -= h;
            let slope = (cost(&x, &up) - cost(&x, &down)) / (2.0 * h);
            assert!((slope - all.cols[at]).abs() < 1e-7);
        }
    }

    #[test]
    fn the_mean_over_directions_is_within_its_error() {
        // Two Gaussian clouds with the same shape, apart by a shift: SW₂² = |shift|² / d.
        let x = cloud(400, 5, 4);
        let y: Vec<f64> = x.iter().map(|c| c + 1.0).collect();
        let answer = Sliced::new().projections(2000).distance(&x, &y, 5).unwrap();
        assert!((answer.value - 1.0).abs() < 4.0 * answer.standard_error);
        assert!(answer.standard_error < 0.02);
    }

    #[test]
    fn wrong_questions_are_refused() {
        let sliced = Sliced::new();
        assert!(matches!(
            sliced.distance(&[0.0, 1.0, 2.0], &[0.0, 1.0], 2),
            Err(Error::Length { .. })
        ));
        assert!(matches!(
            sliced.distance(&[0.0, f64::INFINITY], &[0.0, 1.0], 2),
            Err(Error::Point { coordinate: 1, .. })
        ));
        assert!(
            sliced
                .clone()
                .projections(0)
                .distance(&[0.0], &[1.0], 1)
                .is_err()
        );
        assert!(sliced.distance::<f64>(&[], &[], 0).is_err());
    }
}
