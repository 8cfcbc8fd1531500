//! Barycentres with a free support: points that are moved to the middle of what they send mass to.
//!
//! ```text
//! P_k optimal from x to cloud k      x_j ← Σ_k w_k Σ_i P_k,ji y_k,i / m_j      m_j ← m_j exp(−η f_j),  f = Σ_k w_k f_k
//! ```
//!
//! Each half-step lowers Σ_k w_k ⟨|x − y_k|², P_k⟩, so that the value descends, to a point that neither half improves: not
//! convex, so not the optimum for sure. The masses are fixed unless they are sought, too ([`FreeSupport::free_masses`]): the prices f of
//! the plans are what more mass at a point costs, and a step against them is kept where it lowers the value. No barycentre can be below Σ_{k<l} w_k w_l W₂²(k, l)
//! ([`FreeSupport::lower_bound`]).

use core::time::Duration;

use crate::cost::check_points;
use crate::kernel::random::Random;
use crate::kernel::tiles::map_ranges;
use crate::problem::marginals::shares;
use crate::solver::{Watch, options, watched};
use crate::{
    Cost, Dense, Entropic, Error, Exact, Marginals, PointCloud, Potentials, Problem, Progress,
    Side, SquaredEuclidean, Status,
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
    free_masses: bool,
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
    /// How far the points would move in the next step: mean square over the clouds' mean square spread; and the share of mass that
    /// would change its place, where masses are sought.
    pub movement: f64,
}

impl FreeSupport {
    /// So many points of equal mass, exact plans, starting at random points of the clouds.
    pub fn new(size: usize) -> Self {
        Self {
            size,
            start: None,
            masses: None,
            free_masses: false,
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

    /// Seeks the masses of the points, too, from those given or equal ones. A point may end without mass.
    ///
    /// # Examples
    /// ```
    /// use earthmover::FreeSupport;
    /// // One cloud, three quarters of it in one place: two points of equal mass cannot be it.
    /// let cloud = [0.0, 0.0, 0.0, 8.0];
    /// let solver = FreeSupport::new(2).start(&[0.0, 7.0]);
    /// let fixed = solver.solve(&[&cloud], None, &[1.0], 1)?;
    /// let free = solver.free_masses().solve(&[&cloud], None, &[1.0], 1)?;
    /// assert!(fixed.value > 7.0 && free.value < 1e-3);
    /// assert!((free.masses[0] - 0.75).abs() < 1e-3);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn free_masses(mut self) -> Self {
        self.free_masses = true;
        self
    }

    /// Entropic plans at this regularisation instead of exact ones.
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = Some(epsilon);
        self
    }

    options! {
        /// Stops where the mean square of the points' movement is below this share of the clouds' mean square spread. Default 1e-7.
        tolerance: f64,

        /// Most moves. Default 1,000.
        max_iterations: usize,

        /// Seed of the random start. Default 0.
        seed: u64,
    }

    watched! {
        /// Called after every move; [`ControlFlow::Break`](core::ops::ControlFlow::Break) stops.
        on_progress,
        /// Stops when this much time has passed; obeyed within one move. Default: never.
        time_limit,
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
        let points = self.first(clouds, dimension)?;
        let own = match &self.masses {
            None => vec![1.0 / self.size as f64; self.size],
            Some(masses) => shares(masses, self.size, Side::Rows, "masses of the support")?,
        };
        let guard = self.watch.begin()?;
        let mut at = self.evaluate(&question, points, own, Vec::new(), None)?;
        let (mut iterations, mut first, mut rate) = (0, f64::NAN, FIRST_RATE);
        let (status, movement) = loop {
            let (points, masses) = at.led_to(&question, self.free_masses.then_some(rate));
            let movement = at.movement(&question, &points, &masses);
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
            if movement <= self.tolerance {
                break (Status::Converged, movement);
            }
            if iterations >= self.max_iterations {
                break (Status::IterationLimit, movement);
            }
            if guard.says_stop(&progress) {
                break (Status::Stopped, movement);
            }
            let prices = core::mem::take(&mut at.prices);
            let mut next = self.evaluate(&question, points, masses, prices, guard.time_left())?;
            if self.free_masses {
                if next.value > at.value && next.masses != at.masses {
                    // Too long a step for the masses; the points alone never make it worse.
                    rate *= SHORTER;
                    let Evaluation { points, prices, .. } = next;
                    let masses = at.masses.clone();
                    next = self.evaluate(&question, points, masses, prices, guard.time_left())?;
                } else {
                    rate *= LONGER;
                }
            }
            if guard.is_over() {
                // Cut short, perhaps before the plans were plans.
                break (Status::Stopped, movement);
            }
            at = next;
            iterations += 1;
        };
        Ok(FreeSupportSolution {
            points: at.points,
            masses: at.masses,
            value: at.value,
            status,
            iterations,
            movement,
        })
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

    /// The plans to all clouds, and what they say.
    fn evaluate(
        &self,
        question: &Question<'_>,
        points: Vec<f64>,
        masses: Vec<f64>,
        prices: Vec<Potentials>,
        limit: Option<Duration>,
    ) -> Result<Evaluation, Error> {
        let sent = map_ranges(question.clouds.len(), 1, |k| {
            let start = prices.get(k.start);
            self.send(question, k.start, &points, &masses, start, limit)
        });
        let mut at = Evaluation {
            images: vec![0.0; points.len()],
            slopes: vec![0.0; masses.len()],
            value: 0.0,
            prices: Vec::with_capacity(sent.len()),
            points,
            masses,
        };
        for (sent, w) in sent.into_iter().zip(&question.weights) {
            let sent = sent?;
            let add = |to: &mut [f64], from: &[f64]| {
                to.iter_mut().zip(from).for_each(|(t, f)| *t += w * f);
            };
            add(&mut at.images, &sent.images);
            add(&mut at.slopes, &sent.slopes);
            at.value += w * sent.cost;
            at.prices.push(sent.potentials);
        }
        Ok(at)
    }

    /// Where each point's mass goes in one cloud, on average.
    fn send(
        &self,
        question: &Question<'_>,
        k: usize,
        points: &[f64],
        own: &[f64],
        start: Option<&Potentials>,
        limit: Option<Duration>,
    ) -> Result<Sent, Error> {
        let (cloud, d) = (question.clouds[k], question.dimension);
        let cost = PointCloud::new(points, cloud, d, SquaredEuclidean)?;
        let marginals = Marginals::normalised(own, &question.masses[k])?;
        let (n, m) = (own.len(), question.masses[k].len());
        if n.checked_mul(m).is_some_and(|cells| cells <= MOST_STORED) {
            // Few enough to be read many times from memory rather than worked out each time.
            let mut table = vec![0.0; n * m];
            cost.fill(0..n, &mut table);
            let problem = Problem::new(Dense::new(&table, n, m)?, marginals)?;
            return self.sent(&problem, question, k, points, start, limit);
        }
        let problem = Problem::new(cost, marginals)?;
        self.sent(&problem, question, k, points, start, limit)
    }

    fn sent<C: Cost<f64>>(
        &self,
        problem: &Problem<f64, C>,
        question: &Question<'_>,
        k: usize,
        points: &[f64],
        start: Option<&Potentials>,
        limit: Option<Duration>,
    ) -> Result<Sent, Error> {
        let (cloud, d) = (question.clouds[k], question.dimension);
        let solution = match self.epsilon {
            None => {
                let solver = Exact::new();
                let solver = limit.map_or(solver.clone(), |l| solver.time_limit(l));
                match start {
                    None => solver.solve(problem)?,
                    Some(start) => solver.solve_from(problem, start)?,
                }
            }
            Some(epsilon) => {
                let solver = Entropic::new(epsilon);
                let solver = limit.map_or(solver.clone(), |l| solver.time_limit(l));
                match start {
                    None => solver.solve(problem)?,
                    Some(start) => solver.solve_from(problem, start)?,
                }
            }
        };
        let own = problem.marginals().rows();
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
        let potentials = solution.potentials().clone();
        // Entropic potentials hold ε ln m beside the price.
        let epsilon = self.epsilon.unwrap_or(0.0);
        let slope = |(f, m): (&f64, &f64)| match *m > 0.0 {
            true => f - epsilon * m.ln(),
            false => 0.0,
        };
        Ok(Sent {
            images,
            slopes: potentials.rows.iter().zip(own).map(slope).collect(),
            cost: total,
            potentials,
        })
    }
}

/// Tables of so many distances are stored: a few megabytes.
const MOST_STORED: usize = 1 << 20;

/// Steps of the masses: a price that is the clouds' spread above the mean takes this share, and what longer and shorter steps are.
const FIRST_RATE: f64 = 1.0;
const LONGER: f64 = 1.5;
const SHORTER: f64 = 0.25;

/// Masses below this are none.
const LEAST_MASS: f64 = 1e-12;

/// What the plan to one cloud says.
struct Sent {
    images: Vec<f64>,
    slopes: Vec<f64>,
    cost: f64,
    potentials: Potentials,
}

/// A support, and what the plans from it say.
struct Evaluation {
    points: Vec<f64>,
    masses: Vec<f64>,
    /// Σ_k w_k of where each point's mass goes.
    images: Vec<f64>,
    /// Σ_k w_k of what more mass at each point costs, up to a constant.
    slopes: Vec<f64>,
    value: f64,
    prices: Vec<Potentials>,
}

impl Evaluation {
    /// The points and masses that either half-step leads to; masses at a rate where they are sought.
    fn led_to(&self, question: &Question<'_>, rate: Option<f64>) -> (Vec<f64>, Vec<f64>) {
        let d = question.dimension;
        let mut points = self.images.clone();
        let each = points.chunks_exact_mut(d).zip(self.points.chunks_exact(d));
        for ((n, x), m) in each.zip(&self.masses) {
            // Points of no mass stay where they are.
            if *m == 0.0 {
                n.copy_from_slice(x);
            }
        }
        let masses = match rate {
            Some(rate) if question.spread > 0.0 => self.shifted_masses(rate / question.spread),
            _ => self.masses.clone(),
        };
        (points, masses)
    }

    /// m_j exp(−η f_j), scaled to a total of one.
    fn shifted_masses(&self, eta: f64) -> Vec<f64> {
        let pairs = || self.masses.iter().zip(&self.slopes);
        let carried = || pairs().filter(|(m, f)| **m > 0.0 && f.is_finite());
        let mean: f64 = carried().map(|(m, f)| m * f).sum();
        let each = pairs().map(|(m, f)| match *m > 0.0 && f.is_finite() {
            true => m * (-eta * (f - mean)).clamp(-1.0, 1.0).exp(),
            false => *m,
        });
        let mut masses: Vec<f64> = each.collect();
        for _ in 0..2 {
            let total: f64 = masses.iter().sum();
            for m in &mut masses {
                *m = if *m < LEAST_MASS * total {
                    0.0
                } else {
                    *m / total
                };
            }
        }
        masses
    }

    /// Mean square movement over the spread, and the share of mass that changes its place.
    fn movement(&self, question: &Question<'_>, points: &[f64], masses: &[f64]) -> f64 {
        let d = question.dimension;
        let each = points.chunks_exact(d).zip(self.points.chunks_exact(d));
        let squares = each.map(|(n, x)| n.iter().zip(x).map(|(n, x)| (n - x) * (n - x)).sum());
        let moved: f64 = squares
            .zip(&self.masses)
            .map(|(s, m): (f64, _)| m * s)
            .sum();
        let both = masses.iter().zip(&self.masses);
        let shifted: f64 = both.map(|(n, m)| (n - m).abs()).sum();
        match question.spread > 0.0 {
            true => moved / question.spread + 0.5 * shifted,
            false => moved + 0.5 * shifted,
        }
    }
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
