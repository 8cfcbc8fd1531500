//! Barycentres with a free support: points that are moved to the middle of what they send mass to.
//!
//! ```text
//! P_k optimal from x to cloud k      x_j ← Σ_k w_k Σ_i P_k,ji y_k,i / m_j
//! ```
//!
//! Each half-step lowers Σ_k w_k ⟨|x − y_k|², P_k⟩, so that the value descends, to a point that neither half improves: not
//! convex, so not the optimum for sure. No barycentre can be below Σ_{k<l} w_k w_l W₂²(k, l)
//! ([`FreeSupport::lower_bound`]).

use core::ops::ControlFlow;
use core::time::Duration;

use crate::cost::check_points;
use crate::kernel::random::Random;
use crate::kernel::tiles::map_ranges;
use crate::problem::marginals::shares;
use crate::solver::Watch;
use crate::{
    Entropic, Error, Exact, Marginals, PointCloud, Potentials, Problem, Progress, Side,
    SquaredEuclidean, Status,
};

/// Barycentres of clouds, for squared distances, on points that are sought.
///
/// # Examples
/// ```
/// use earthmover::FreeSupport;
/// let (a, b) = ([0.0, 0.0, 2.0, 0.0], [4.0, 4.0, 6.0, 4.0]); // two clouds of two points each
/// let middle = FreeSupport::new(2).solve(&[&a, &b], None, &[1.0, 1.0], 2)?;
/// assert!(middle.status.is_converged());
/// let mut x = [middle.points[0], middle.points[2]];
/// x.sort_by(f64::total_cmp);
/// assert!((x[0] - 2.0).abs() < 1e-9 && (x[1] - 4.0).abs() < 1e-9);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct FreeSupport {
    size: usize,
    start: Option<Vec<f64>>,
    masses: Option<Vec<f64>>,
    epsilon: Option<f64>,
    tolerance: f64,
    max_iterations: usize,
    seed: u64,
    watch: Watch,
}

/// A barycentre on points of its own.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[must_use = "look at `status` before trusting the answer"]
pub struct FreeSupportSolution {
    /// The points, row-major.
    pub points: Vec<f64>,
    /// Their masses, of total one.
    pub masses: Vec<f64>,
    /// Σ_k w_k ⟨|x − y_k|², P_k⟩ at the last plans: with exact ones Σ w_k W₂², an upper bound of the optimum.
    pub value: f64,
    /// How it ended.
    pub status: Status,
    /// How often the points were moved.
    pub iterations: usize,
    /// How far the points would move in the next step: mean square over the clouds' mean square spread.
    pub movement: f64,
}

impl FreeSupport {
    /// So many points of equal mass, exact plans, starting at random points of the clouds.
    pub fn new(size: usize) -> Self {
        Self {
            size,
            start: None,
            masses: None,
            epsilon: None,
            tolerance: 1e-7,
            max_iterations: 1_000,
            seed: 0,
            watch: Watch::default(),
        }
    }

    /// Where the points start, row-major. Default: random points of the clouds.
    pub fn start(mut self, points: &[f64]) -> Self {
        self.start = Some(points.to_vec());
        self
    }

    /// Masses of the points, scaled to a total of one. Default: equal.
    pub fn masses(mut self, masses: &[f64]) -> Self {
        self.masses = Some(masses.to_vec());
        self
    }

    /// Entropic plans at this regularisation instead of exact ones.
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = Some(epsilon);
        self
    }

    /// Stops where the mean square of the points' movement is below this share of the clouds' mean square spread. Default 1e-7.
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Most moves. Default 1,000.
    pub fn max_iterations(mut self, moves: usize) -> Self {
        self.max_iterations = moves;
        self
    }

    /// Seed of the random start. Default 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Called after every move; [`ControlFlow::Break`] stops.
    pub fn on_progress(
        mut self,
        callback: impl Fn(&Progress) -> ControlFlow<()> + Send + Sync + 'static,
    ) -> Self {
        self.watch.call(callback);
        self
    }

    /// Stops when this much time has passed; obeyed within one move. Default: never.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.watch.limit(limit);
        self
    }

    /// The barycentre of some clouds, each row-major with `dimension` coordinates a point, with masses for each (`None`: equal ones) and
    /// weights of the clouds. Masses and weights are scaled to a total of one.
    ///
    /// # Errors
    /// [`Error::Option`] for an option outside its range; [`Error::Empty`], [`Error::Length`], [`Error::Point`], [`Error::Mass`] or
    /// [`Error::NoMass`] for clouds, masses or weights that are none; and whatever the inner solver refuses.
    pub fn solve(
        &self,
        clouds: &[&[f64]],
        masses: Option<&[&[f64]]>,
        weights: &[f64],
        dimension: usize,
    ) -> Result<FreeSupportSolution, Error> {
        let question = Question::new(clouds, masses, weights, dimension)?;
        self.check()?;
        let mut points = self.first(clouds, dimension)?;
        let own = match &self.masses {
            None => vec![1.0 / self.size as f64; self.size],
            Some(masses) => shares(masses, self.size, Side::Rows, "masses of the support")?,
        };
        let guard = self.watch.begin()?;
        let mut prices: Vec<Option<Potentials>> = vec![None; clouds.len()];
        let (mut iterations, mut first) = (0, f64::NAN);
        loop {
            let sent = map_ranges(clouds.len(), 1, |k| {
                self.send(&question, k.start, &points, &own, prices[k.start].as_ref())
            });
            let (mut next, mut value) = (vec![0.0; points.len()], 0.0);
            for (k, sent) in sent.into_iter().enumerate() {
                let Sent {
                    images,
                    cost,
                    potentials,
                } = sent?;
                let w = question.weights[k];
                next.iter_mut().zip(&images).for_each(|(n, y)| *n += w * y);
                value += w * cost;
                prices[k] = Some(potentials);
            }
            // Points of no mass stay where they are.
            for ((n, x), m) in next
                .chunks_exact_mut(dimension)
                .zip(points.chunks_exact(dimension))
                .zip(&own)
            {
                if *m == 0.0 {
                    n.copy_from_slice(x);
                }
            }
            let moved = next
                .chunks_exact(dimension)
                .zip(points.chunks_exact(dimension))
                .zip(&own);
            let moved: f64 = moved
                .map(|((n, x), m)| m * n.iter().zip(x).map(|(n, x)| (n - x) * (n - x)).sum::<f64>())
                .sum();
            let movement = if question.spread > 0.0 {
                moved / question.spread
            } else {
                moved
            };
            if first.is_nan() {
                first = movement;
            }
            let progress = Progress::entropic(
                iterations,
                movement,
                first,
                self.tolerance,
                self.epsilon.unwrap_or(0.0),
            );
            let status = if movement <= self.tolerance {
                Some(Status::Converged)
            } else if iterations >= self.max_iterations {
                Some(Status::IterationLimit)
            } else if guard.says_stop(&progress) {
                Some(Status::Stopped)
            } else {
                None
            };
            if let Some(status) = status {
                return Ok(FreeSupportSolution {
                    points,
                    masses: own,
                    value,
                    status,
                    iterations,
                    movement,
                });
            }
            points = next;
            iterations += 1;
        }
    }

    /// Σ_{k<l} w_k w_l W₂²(k, l), by exact transport between every two clouds: no barycentre, on any support, has a lower value.
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    ///
    /// # Examples
    /// ```
    /// use earthmover::FreeSupport;
    /// let (a, b) = ([0.0, 2.0], [4.0, 6.0]);
    /// let bound = FreeSupport::lower_bound(&[&a, &b], None, &[1.0, 1.0], 1)?;
    /// let found = FreeSupport::new(2).solve(&[&a, &b], None, &[1.0, 1.0], 1)?;
    /// assert!((bound - 4.0).abs() < 1e-9 && (found.value - bound).abs() < 1e-9); // two are met exactly
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn lower_bound(
        clouds: &[&[f64]],
        masses: Option<&[&[f64]]>,
        weights: &[f64],
        dimension: usize,
    ) -> Result<f64, Error> {
        let question = Question::new(clouds, masses, weights, dimension)?;
        let pairs: Vec<(usize, usize)> = (0..clouds.len())
            .flat_map(|k| (0..k).map(move |l| (k, l)))
            .collect();
        let parts = map_ranges(pairs.len(), 1, |at| {
            let (k, l) = pairs[at.start];
            let cost = PointCloud::new(clouds[k], clouds[l], dimension, SquaredEuclidean)?;
            let marginals = Marginals::normalised(&question.masses[k], &question.masses[l])?;
            let problem = Problem::new(cost, marginals)?;
            let dual = Exact::new().solve(&problem)?.certificate().dual;
            Ok::<f64, Error>(question.weights[k] * question.weights[l] * dual)
        });
        let mut total = 0.0;
        for part in parts {
            total += part?;
        }
        Ok(total)
    }

    fn check(&self) -> Result<(), Error> {
        let wrong = |name, value, expected| {
            Err(Error::Option {
                name,
                value,
                expected,
            })
        };
        if self.size == 0 {
            return wrong("support size", 0.0, "at least one");
        }
        if !(self.tolerance > 0.0 && self.tolerance.is_finite()) {
            return wrong("tolerance", self.tolerance, "a number above zero");
        }
        match self.epsilon {
            Some(e) if !(e > 0.0 && e.is_finite()) => wrong("epsilon", e, "a number above zero"),
            _ => Ok(()),
        }
    }

    fn first(&self, clouds: &[&[f64]], dimension: usize) -> Result<Vec<f64>, Error> {
        if let Some(points) = &self.start {
            check_points(points, dimension, Side::Rows)?;
            if points.len() != self.size * dimension {
                return Err(Error::Length {
                    what: "points to start from",
                    expected: self.size * dimension,
                    found: points.len(),
                });
            }
            return Ok(points.clone());
        }
        let mut random = Random::new(self.seed, 0);
        let mut points = Vec::with_capacity(self.size * dimension);
        for _ in 0..self.size {
            let below =
                |random: &mut Random, n: usize| ((random.unit() * n as f64) as usize).min(n - 1);
            let cloud = clouds[below(&mut random, clouds.len())];
            let point = below(&mut random, cloud.len() / dimension);
            points.extend_from_slice(&cloud[point * dimension..][..dimension]);
        }
        Ok(points)
    }

    /// Where each point's mass goes in one cloud, on average.
    fn send(
        &self,
        question: &Question<'_>,
        k: usize,
        points: &[f64],
        own: &[f64],
        start: Option<&Potentials>,
    ) -> Result<Sent, Error> {
        let (cloud, d) = (question.clouds[k], question.dimension);
        let cost = PointCloud::new(points, cloud, d, SquaredEuclidean)?;
        let problem = Problem::new(cost, Marginals::normalised(own, &question.masses[k])?)?;
        let solution = match (self.epsilon, start) {
            (None, None) => Exact::new().solve(&problem)?,
            (None, Some(start)) => Exact::new().solve_from(&problem, start)?,
            (Some(e), None) => Entropic::new(e).solve(&problem)?,
            (Some(e), Some(start)) => Entropic::new(e).solve_from(&problem, start)?,
        };
        let (mut images, mut total) = (vec![0.0; points.len()], 0.0);
        for e in solution.plan().entries(0.0) {
            let y = &cloud[e.col * d..][..d];
            let x = &points[e.row * d..][..d];
            let share = e.mass / own[e.row];
            images[e.row * d..][..d]
                .iter_mut()
                .zip(y)
                .for_each(|(o, y)| *o += share * y);
            total += e.mass * x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)).sum::<f64>();
        }
        Ok(Sent {
            images,
            cost: total,
            potentials: solution.potentials().clone(),
        })
    }
}

struct Sent {
    images: Vec<f64>,
    cost: f64,
    potentials: Potentials,
}

/// The clouds, checked.
struct Question<'a> {
    clouds: &'a [&'a [f64]],
    masses: Vec<Vec<f64>>,
    weights: Vec<f64>,
    dimension: usize,
    /// Mean square distance from the common mean.
    spread: f64,
}

impl<'a> Question<'a> {
    fn new(
        clouds: &'a [&'a [f64]],
        masses: Option<&[&[f64]]>,
        weights: &[f64],
        dimension: usize,
    ) -> Result<Self, Error> {
        let weights = shares(weights, clouds.len(), Side::Cols, "weights of the clouds")?;
        if let Some(masses) = masses.filter(|m| m.len() != clouds.len()) {
            return Err(Error::Length {
                what: "lists of masses",
                expected: clouds.len(),
                found: masses.len(),
            });
        }
        let mut all = Vec::with_capacity(clouds.len());
        for (k, cloud) in clouds.iter().enumerate() {
            check_points(cloud, dimension, Side::Cols)?;
            let count = cloud.len() / dimension;
            all.push(match masses {
                None => vec![1.0 / count as f64; count],
                Some(masses) => shares(masses[k], count, Side::Cols, "masses of a cloud")?,
            });
        }
        let mut mean = vec![0.0; dimension];
        let each = || {
            clouds
                .iter()
                .zip(&all)
                .zip(&weights)
                .flat_map(|((c, m), w)| {
                    c.chunks_exact(dimension)
                        .zip(m)
                        .map(move |(y, m)| (y, w * m))
                })
        };
        each().for_each(|(y, m)| mean.iter_mut().zip(y).for_each(|(o, y)| *o += m * y));
        let square = |y: &[f64]| {
            y.iter()
                .zip(&mean)
                .map(|(y, m)| (y - m) * (y - m))
                .sum::<f64>()
        };
        let spread = each().map(|(y, m)| m * square(y)).sum();
        Ok(Self {
            clouds,
            masses: all,
            weights,
            dimension,
            spread,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn cloud(n: usize, stream: u64, shift: f64) -> Vec<f64> {
        let mut random = Random::new(91, stream);
        (0..2 * n).map(|_| random.normal() + shift).collect()
    }

    #[test]
    fn translates_meet_in_the_middle() {
        let a = cloud(30, 0, 0.0);
        let moved = |s: f64, t: f64| -> Vec<f64> {
            a.chunks_exact(2)
                .flat_map(|p| [p[0] + s, p[1] + t])
                .collect()
        };
        let (b, c) = (moved(3.0, 0.0), moved(0.0, 6.0));
        let clouds = [&a[..], &b, &c];
        let found = FreeSupport::new(30)
            .start(&a)
            .solve(&clouds, None, &[1.0; 3], 2)
            .unwrap();
        assert_eq!(found.status, Status::Converged);
        let expected = moved(1.0, 2.0);
        assert!(
            found
                .points
                .iter()
                .zip(&expected)
                .all(|(x, y)| (x - y).abs() < 1e-9)
        );
        let bound = FreeSupport::lower_bound(&clouds, None, &[1.0; 3], 2).unwrap();
        assert!((found.value - bound).abs() < 1e-9);
    }

    #[test]
    fn values_descend_to_between_the_bounds() {
        let (a, b, c) = (cloud(25, 1, 0.0), cloud(40, 2, 1.0), cloud(10, 3, -1.0));
        let heavy: Vec<f64> = (0..40).map(|i| 1.0 + f64::from(i % 3)).collect();
        let (ones, tens) = (vec![1.0; 25], vec![1.0; 10]);
        let masses = [&ones[..], &heavy, &tens];
        let clouds = [&a[..], &b, &c];
        let weights = [0.5, 0.3, 0.2];
        let bound = FreeSupport::lower_bound(&clouds, Some(&masses), &weights, 2).unwrap();
        let mut last = f64::INFINITY;
        for moves in [0, 1, 2, 4, 100] {
            let solver = FreeSupport::new(20).max_iterations(moves).tolerance(1e-12);
            let found = solver.solve(&clouds, Some(&masses), &weights, 2).unwrap();
            assert!(found.value <= last + 1e-12 && found.value >= bound);
            last = found.value;
        }
        let blurred = FreeSupport::new(20)
            .epsilon(0.05)
            .solve(&clouds, Some(&masses), &weights, 2)
            .unwrap();
        assert!(blurred.value >= bound && blurred.status.is_converged());
    }

    #[test]
    fn wrong_questions_are_refused() {
        let a = [0.0, 1.0];
        assert!(FreeSupport::new(0).solve(&[&a], None, &[1.0], 2).is_err());
        assert!(FreeSupport::new(1).solve(&[], None, &[], 2).is_err());
        assert!(
            FreeSupport::new(1)
                .solve(&[&a], None, &[1.0, 1.0], 2)
                .is_err()
        );
        assert!(
            FreeSupport::new(1)
                .solve(&[&a[..1]], None, &[1.0], 2)
                .is_err()
        );
        assert!(
            FreeSupport::new(2)
                .start(&a)
                .solve(&[&a], None, &[1.0], 2)
                .is_err()
        );
        assert!(
            FreeSupport::new(1)
                .epsilon(-1.0)
                .solve(&[&a], None, &[1.0], 2)
                .is_err()
        );
        assert!(
            FreeSupport::new(1)
                .solve(&[&a], Some(&[]), &[1.0], 2)
                .is_err()
        );
    }
}
