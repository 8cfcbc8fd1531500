//! The Sinkhorn divergence: entropic transport without the bias of its entropy.
//!
//! ```text
//! S(α, β) = F(α, β) − ½ F(α, α) − ½ F(β, β) + ½ ε (Σa − Σb)²
//! ```
//!
//! with F the regularised value relative to the product of the masses (Feydy et al., 2019; Séjourné et al., 2019, for penalised ones).
//! S is zero where α = β and positive elsewhere for squared and plain Euclidean costs; for ε → 0 it is the transport cost, for ε → ∞ a
//! maximum mean discrepancy. Its gradients are differences of those of F.
//!
//! F(α, α) has one potential instead of two: f ← ½ (f + T f), whose error at least halves in a step and usually does far better,
//! accelerated as everything here.
//!
//! **What is proven.** Values are dual ones, below the true F by at most ½ Σ|wanted − sums| (osc C + osc ψ): the value is a concave
//! function whose gradient is what columns lack, and no optimal ψ varies by more than the costs do. The sum of the three, with
//! their factors, is `error`: the true divergence is within it, so that a value below −`error` cannot be.

use super::gradient::Sides;
use super::value::Lines;
use crate::entropic::outcome::{check_epsilon, check_tolerance};
use crate::entropic::precision as digits;
use crate::entropic::semidual::{ROUNDING_SIDES, Verdict, verdict};
use crate::entropic::sinkhorn::anderson::Anderson;
use crate::problem::check::{self, Survey};
use crate::problem::{Erased, penalty::Law};
use crate::solution::plan::Representation;
use crate::solver::{Guard, Watch, options, watched};
use crate::sweep::{Backend, DualPoint, Stabilised, Streamed};
use crate::{
    Cost, Entropic, Error, Kernel, Marginals, Metric, Penalty, PointCloud, Potentials, Problem,
    Progress, Real, Reference, Solution, Status,
};

/// Compares two weighted clouds by the Sinkhorn divergence.
///
/// # Examples
/// ```
/// use earthmover::loss::Divergence;
/// use earthmover::SquaredEuclidean;
/// let (x, y) = ([0.0, 1.0, 2.0], [1.0, 2.0, 3.0]);
/// let uniform = [1.0 / 3.0; 3];
/// let found = Divergence::new(0.1).between(&x, &y, 1, SquaredEuclidean, &uniform, &uniform)?;
/// assert!((found.value - 1.0).abs() < 0.05); // one step to the right
/// assert!(found.row_points.iter().all(|g| (g + 2.0 / 3.0).abs() < 0.05));
/// let same = Divergence::new(0.1).between(&x, &x, 1, SquaredEuclidean, &uniform, &uniform)?;
/// assert!(same.value.abs() <= same.error && same.error < 1e-4);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Divergence {
    epsilon: f64,
    tolerance: f64,
    max_iterations: usize,
    penalty: Penalty,
    watch: Watch,
}

/// What two clouds are apart, and which way is closer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// The divergence.
    pub value: f64,
    /// How far the true divergence may be from `value`.
    pub error: f64,
    /// Gradient with respect to the first cloud's points, point after point; empty where the metric has no derivative.
    pub row_points: Vec<f64>,
    /// Gradient with respect to the second cloud's points.
    pub col_points: Vec<f64>,
    /// Gradient with respect to the first cloud's masses.
    pub row_masses: Vec<f64>,
    /// Gradient with respect to the second cloud's masses.
    pub col_masses: Vec<f64>,
    /// How the solves ended: the worst of the three.
    pub status: Status,
    /// Sweeps of all three.
    pub iterations: usize,
}

impl Divergence {
    /// At this regularisation, in the units of the cost.
    pub fn new(epsilon: f64) -> Self {
        Self {
            epsilon,
            tolerance: 1e-6,
            max_iterations: 10_000,
            penalty: Penalty::Exact,
            watch: Watch::default(),
        }
    }

    options! {
        /// Violation at which each of the three solves stops. Default `1e-6`.
        tolerance: f64,

        /// Most sweeps of each solve. Default 10,000.
        max_iterations: usize,

        /// What either side pays for other masses than its own; clouds of unequal mass need it. Default [`Penalty::Exact`].
        penalty: Penalty,
    }

    watched! {
        /// Calls back after every sweep; [`ControlFlow::Break`](core::ops::ControlFlow::Break) stops with [`Status::Stopped`].
        on_progress,
        /// Stops, with [`Status::Stopped`] and the best answer so far, when this much time has passed. Default: never.
        time_limit,
    }

    /// The divergence of clouds of points with `dimension` coordinates each and these masses, with its gradients.
    ///
    /// # Errors
    /// As [`PointCloud::new`], [`Marginals::relaxed`] and [`Entropic::solve`].
    ///
    /// # Complexity
    /// Tables of pairs are kept for clouds of up to some 2,800 points a side; beyond that memory is O((n + m) d).
    #[allow(clippy::too_many_arguments)]
    pub fn between<T: Real, M: Metric<T>>(
        &self,
        x: &[T],
        y: &[T],
        dimension: usize,
        metric: M,
        a: &[f64],
        b: &[f64],
    ) -> Result<Comparison, Error> {
        let cross = PointCloud::new(x, y, dimension, &metric)?;
        let first = PointCloud::new(x, x, dimension, &metric)?;
        let second = PointCloud::new(y, y, dimension, &metric)?;
        let costs: [&dyn Cost<T>; 3] = [&cross, &first, &second];
        T::divergence(self, costs, metric.is_symmetric(), a, b)
    }

    /// The body of [`between`](Self::between).
    pub(crate) fn compare<T: Real>(
        &self,
        costs: [&dyn Cost<T>; 3],
        symmetric: bool,
        a: &[f64],
        b: &[f64],
    ) -> Result<Comparison, Error> {
        let guard = self.watch.begin()?;
        check_epsilon(self.epsilon)?;
        check_tolerance(self.tolerance)?;
        let sides = [(a, b), (a, a), (b, b)];
        let mut terms = Vec::with_capacity(3);
        for (which, (cost, (a, b))) in costs.into_iter().zip(sides).enumerate() {
            let marginals = Marginals::relaxed(a, b, self.penalty, self.penalty)?;
            let problem: Erased<'_, T> = Problem::new(cost, marginals)?;
            let survey = check::whole(&problem)?;
            let solution = if which > 0 && symmetric {
                self.symmetric(&problem, &survey, &guard)?
            } else {
                let stored = fits(&problem);
                let kernel = if stored { Kernel::Stored } else { Kernel::Auto };
                Entropic::new(self.epsilon)
                    .tolerance(self.tolerance)
                    .max_iterations(self.max_iterations)
                    .kernel(kernel)
                    .cold_under(&problem, &survey, &guard)?
            };
            let sides = if which > 0 && symmetric {
                Sides::Rows
            } else {
                Sides::Both
            };
            terms.push(Term::new(&solution, &survey, sides));
        }
        let [cross, first, second] = <[Term; 3]>::try_from(terms).map_err(|_| Error::NoGradient)?;
        let (supply, demand): (f64, f64) = (a.iter().sum(), b.iter().sum());
        let tilt = self.epsilon * (supply - demand);
        let less = |of: Vec<f64>, own: Vec<f64>, tilt: f64| -> Vec<f64> {
            let both = of.into_iter().zip(own);
            both.map(|(g, own)| g - own + tilt).collect()
        };
        let worst = [cross.status, first.status, second.status].into_iter();
        Ok(Comparison {
            value: cross.value - 0.5 * (first.value + second.value)
                + 0.5 * tilt * (supply - demand),
            error: cross.error + 0.5 * (first.error + second.error),
            status: worst.max_by_key(|s| rank(*s)).unwrap_or(Status::Converged),
            iterations: cross.iterations + first.iterations + second.iterations,
            row_points: less(cross.points.0, first.half_points(), 0.0),
            col_points: less(cross.points.1, second.half_points(), 0.0),
            row_masses: less(cross.masses.0, first.half_masses(), tilt),
            col_masses: less(cross.masses.1, second.half_masses(), -tilt),
        })
    }

    /// A cloud against itself: one potential, the mean of itself and what it asks of the other.
    fn symmetric<'p, 'c, T: Real>(
        &self,
        problem: &'p Erased<'c, T>,
        survey: &Survey,
        guard: &Guard<'_>,
    ) -> Result<Solution<'p, T, &'c dyn Cost<T>>, Error> {
        let (cost, masses) = (*problem.cost(), problem.marginals());
        let careful = digits::needed(cost, masses, survey, self.epsilon, self.tolerance);
        let found = match (&careful, fits(problem)) {
            (Some(cost), true) => {
                self.halve(&mut Stabilised::over(cost, masses.rows()), masses, guard)
            }
            (Some(cost), false) => {
                self.halve(&mut Streamed::over(cost, masses.rows()), masses, guard)
            }
            (None, true) => self.halve(&mut Stabilised::over(cost, masses.rows()), masses, guard),
            (None, false) => self.halve(&mut Streamed::over(cost, masses.rows()), masses, guard),
        };
        let Halved {
            g,
            status,
            iterations,
            violation,
        } = found?;
        let potentials = Potentials {
            rows: Vec::new(),
            cols: g,
            slack_row: f64::NEG_INFINITY,
            slack_col: f64::NEG_INFINITY,
        };
        let shape = Representation::Gibbs {
            epsilon: self.epsilon,
            lift: 0.0,
        };
        Ok(Solution::new(
            problem,
            potentials,
            shape,
            status,
            iterations,
            Some(violation),
        ))
    }

    fn halve(
        &self,
        backend: &mut dyn Backend,
        marginals: &Marginals,
        guard: &Guard<'_>,
    ) -> Result<Halved, Error> {
        let (epsilon, masses) = (self.epsilon, marginals.rows());
        let law = marginals.row_law();
        backend.obey(&law);
        let rest = |m: &f64| match *m > 0.0 {
            // Where all of the costs are small this is the answer.
            true => law.offset(epsilon, *m),
            false => f64::NEG_INFINITY,
        };
        let n = masses.len();
        let mut g: Vec<f64> = masses.iter().map(rest).collect();
        let (mut f, mut sums) = (vec![0.0; n], vec![0.0; n + 1]);
        let (mut x, mut step, mut next) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        let mut anderson = Anderson::new(8);
        let (mut last, mut first) = (f64::INFINITY, None);
        let mut plain = g.clone();
        for iteration in 1.. {
            let at = DualPoint {
                epsilon,
                cols: &g,
                slack: f64::NEG_INFINITY,
            };
            backend.sweep(&at, &mut sums)?;
            backend.row_potentials(&mut f)?;
            let violation = off(&law, epsilon, masses, &g, &sums).1;
            let first = *first.get_or_insert(violation);
            let status = match verdict(
                violation,
                backend.resolution(),
                self.tolerance,
                ROUNDING_SIDES,
            ) {
                Verdict::Met => Some(Status::Converged),
                Verdict::Blurred => Some(Status::Stalled),
                Verdict::Missed => {
                    let progress =
                        Progress::entropic(iteration, violation, first, self.tolerance, epsilon);
                    if guard.says_stop(&progress) {
                        Some(Status::Stopped)
                    } else {
                        (iteration >= self.max_iterations).then_some(Status::IterationLimit)
                    }
                }
            };
            if let Some(status) = status {
                return Ok(Halved {
                    g,
                    status,
                    iterations: iteration,
                    violation,
                });
            }
            // A combination that made things worse is dropped for the plain step it was made from.
            if violation > 2.0 * last {
                anderson.forget();
                last = f64::INFINITY;
                g.copy_from_slice(&plain);
                continue;
            }
            last = violation;
            for i in 0..n {
                if masses[i] > 0.0 && f[i] > f64::NEG_INFINITY {
                    (x[i], step[i]) = (g[i] / epsilon, 0.5 * (f[i] - g[i]) / epsilon);
                }
                plain[i] = if g[i] > f64::NEG_INFINITY {
                    0.5 * (g[i] + f[i])
                } else {
                    g[i]
                };
            }
            anderson.propose(&x, &step, &mut next);
            for (g, &n) in g.iter_mut().zip(&next) {
                if *g > f64::NEG_INFINITY {
                    *g = epsilon * n;
                }
            }
        }
        Err(Error::NoGradient)
    }
}

struct Halved {
    g: Vec<f64>,
    status: Status,
    iterations: usize,
    violation: f64,
}

/// Most pairs of a table that is kept between sweeps.
const MOST_PAIRS: usize = 1 << 23;

fn fits<T: Real>(problem: &Erased<'_, T>) -> bool {
    let (n, m) = (problem.rows(), problem.cols());
    n.saturating_mul(m) <= MOST_PAIRS
}

/// From best to worst.
fn rank(status: Status) -> usize {
    match status {
        Status::Converged => 0,
        Status::Stalled => 1,
        Status::IterationLimit => 2,
        Status::Stopped => 3,
    }
}

/// Σ|wanted − sums|, and the same over the mass that is there or wanted.
fn off(law: &Law, epsilon: f64, masses: &[f64], g: &[f64], sums: &[f64]) -> (f64, f64) {
    let (mut off, mut scale) = (0.0, 0.0);
    for ((&mass, &g), &sum) in masses.iter().zip(g).zip(sums) {
        if mass > 0.0 && g > f64::NEG_INFINITY {
            let log = sum.ln();
            let demand = law.log_demand(epsilon, mass, g, log);
            let demand = if demand == log { sum } else { demand.exp() };
            off += (demand - sum).abs();
            scale += demand.max(sum);
        }
    }
    (off, if off == 0.0 { 0.0 } else { off / scale })
}

/// One of the three values, with what it is off by at most, and its gradients.
struct Term {
    value: f64,
    error: f64,
    status: Status,
    iterations: usize,
    points: (Vec<f64>, Vec<f64>),
    masses: (Vec<f64>, Vec<f64>),
}

impl Term {
    fn new<T: Real>(
        solution: &Solution<'_, T, &dyn Cost<T>>,
        survey: &Survey,
        sides: Sides,
    ) -> Self {
        let mut lines: Lines = solution.lines_with(Some(sides));
        let (marginals, epsilon) = (solution.problem().marginals(), solution.epsilon());
        let law = marginals.col_law().lifted(-solution.lift());
        let (masses, g) = (marginals.cols(), &solution.columns().cols);
        let lacking = off(&law, epsilon, masses, g, &lines.col_sums).0;
        let carrying = lines.cols.iter().zip(masses).filter(|(_, m)| **m > 0.0);
        let finite = carrying.map(|(p, _)| *p).filter(|p| p.is_finite());
        let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), p| {
            (l.min(p), h.max(p))
        });
        // Values are sums of some ten thousand terms; what is left of rounding goes with their size.
        let size: f64 = lines
            .cols
            .iter()
            .zip(masses)
            .filter(|(_, m)| **m > 0.0)
            .map(|(p, m)| (p * m).abs())
            .sum();
        let rounding = 64.0 * f64::EPSILON * (size + epsilon * lines.row_sums.iter().sum::<f64>());
        Self {
            value: solution.value_of(&lines, Reference::Product),
            error: 0.5 * lacking * (survey.range() + (high - low).max(0.0)) + rounding,
            status: solution.status(),
            iterations: solution.iterations(),
            points: lines.gradients.take().unwrap_or_default(),
            masses: solution.mass_gradients(&lines),
        }
    }

    /// Half the gradient of a cloud against itself, which has two places in it.
    fn half_points(&self) -> Vec<f64> {
        half(&self.points)
    }

    fn half_masses(&self) -> Vec<f64> {
        half(&self.masses)
    }
}

/// The mean of both sides, or the one there is.
fn half((rows, cols): &(Vec<f64>, Vec<f64>)) -> Vec<f64> {
    if cols.is_empty() {
        return rows.clone();
    }
    rows.iter().zip(cols).map(|(r, c)| 0.5 * (r + c)).collect()
}
