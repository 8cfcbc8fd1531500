//! Barycentres on a fixed support, entropic.

use std::sync::OnceLock;

use crate::entropic::outcome::check_tolerance;
use crate::entropic::sinkhorn::anderson::Anderson;
use crate::kernel::rounding::sum;
use crate::kernel::tiles::pooled;
use crate::problem::check::survey;
use crate::problem::marginals::shares;
use crate::solution::plan::Representation;
use crate::solver::{Guard, Watch, options, watched};
use crate::sweep::{AnyKernel, GridKernel, LogKernel, Onto};
use crate::{Cost, Error, Marginals, Potentials, Problem, Progress, Real, Side, Status};

/// Barycentres of histograms over one support: any cost, grids included.
///
/// # Examples
/// ```
/// use earthmover::{Barycenter, Grid};
/// let grid = Grid::unit(&[21])?;
/// let peak = |at: usize| (0..21).map(|i| if i == at { 1.0 } else { 0.0 }).collect::<Vec<f64>>();
/// let histograms = [peak(2), peak(12)].concat();
/// let middle = Barycenter::new(1e-3).debiased().solve(&grid, &histograms, &[0.5, 0.5])?;
/// assert!(middle.status().is_converged());
/// assert!(middle.weights()[7] > 0.95); // halfway
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Barycenter {
    epsilon: f64,
    tolerance: f64,
    max_iterations: usize,
    acceleration: usize,
    debiased: bool,
    watch: Watch,
}

/// Bounds on the unregularised Σ_k w_k OT(a_k, ·) at its least.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct BarycenterCertificate {
    /// Σ w_k ⟨C, P_k⟩ of plans that are feasible for the barycentre found.
    pub upper: f64,
    /// No histogram on this support does better.
    pub lower: f64,
}

impl BarycenterCertificate {
    /// `upper − lower`: includes what the entropy costs.
    #[must_use]
    pub fn gap(&self) -> f64 {
        self.upper - self.lower
    }
}

/// A barycentre and how near it is.
#[must_use = "look at `status` before trusting the answer"]
pub struct BarycenterSolution<'c, T> {
    cost: &'c dyn Cost<T>,
    parts: Parts,
    certificate: OnceLock<BarycenterCertificate>,
}

impl<T> core::fmt::Debug for BarycenterSolution<'_, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("BarycenterSolution")
            .field("status", &self.parts.status)
            .field("weights", &self.parts.weights)
            .finish_non_exhaustive()
    }
}

/// An answer without its cost.
#[derive(Debug, Clone)]
#[allow(unreachable_pub)]
pub struct Parts {
    weights: Vec<f64>,
    histograms: Vec<Vec<f64>>,
    shares: Vec<f64>,
    /// Prices of the columns towards each histogram.
    potentials: Vec<Vec<f64>>,
    epsilon: f64,
    least: f64,
    status: Status,
    iterations: usize,
    violation: f64,
}

/// ε comes down from this share of the costs' range, by this factor.
const FIRST_EPSILON: f64 = 0.02;
const COOLING: f64 = 0.25;

/// Above the last ε this much violation, or so many iterations, are enough.
const STAGE_TOLERANCE: f64 = 1e-2;
const STAGE_ITERATIONS: usize = 100;

/// A violation this many times the best seen says that acceleration has gone astray.
const ASTRAY_RATIO: f64 = 3.0;

/// How often acceleration may go astray, or be no better for so many iterations, before it is left alone.
const MOST_ASTRAY: usize = 2;
const PATIENCE: usize = 30;

/// Weights below this are none: no problem that has them could be posed.
const LEAST_WEIGHT: f64 = 1e-140;

impl Barycenter {
    /// A solver at this regularisation, in the units of the cost.
    pub fn new(epsilon: f64) -> Self {
        Self {
            epsilon,
            tolerance: 1e-6,
            max_iterations: 10_000,
            acceleration: 8,
            debiased: false,
            watch: Watch::default(),
        }
    }

    /// The barycentre of the Sinkhorn divergence, which is not blurred by ε. The cost must be symmetric, of rows and columns that are the
    /// same things. Default: not.
    pub fn debiased(mut self) -> Self {
        self.debiased = true;
        self
    }

    options! {
        /// Σ_k w_k ‖s_k − b‖₁ at which to stop, s_k being the column sums towards histogram k. Default 1e-6.
        tolerance: f64,

        /// Most iterations, over all ε. Default 10,000.
        max_iterations: usize,

        /// How many past steps Anderson acceleration combines; 0 for plain Bregman projections. Default 8.
        acceleration: usize,
    }

    watched! {
        /// Calls back after every iteration; [`ControlFlow::Break`](core::ops::ControlFlow::Break) stops.
        on_progress,
        /// Stops when this much time has passed; obeyed within one iteration. Default: never.
        time_limit,
    }

    /// The barycentre of `weights.len()` histograms over the rows of the cost, one after the other, on its columns. Histograms and
    /// weights are each scaled to a total of one.
    ///
    /// # Errors
    /// [`Error::Option`] for an option outside its range, [`Error::Length`] for histograms of another size, [`Error::Mass`] or
    /// [`Error::NoMass`] for histograms or weights that are none, [`Error::Cost`] for an entry of the cost that is none or, where
    /// debiased, [`Error::Matrix`] for one that is not symmetric.
    pub fn solve<'c, T: Real, C: Cost<T>>(
        &self,
        cost: &'c C,
        histograms: &[f64],
        weights: &[f64],
    ) -> Result<BarycenterSolution<'c, T>, Error> {
        Ok(BarycenterSolution {
            cost,
            parts: T::barycenter(self, cost, histograms, weights)?,
            certificate: OnceLock::new(),
        })
    }

    /// The body of [`solve`](Self::solve).
    pub(crate) fn answer<T: Real>(
        &self,
        cost: &dyn Cost<T>,
        histograms: &[f64],
        weights: &[f64],
    ) -> Result<Parts, Error> {
        let (n, m) = (cost.rows(), cost.cols());
        self.check(cost)?;
        if histograms.len() != n * weights.len() {
            return Err(Error::Length {
                what: "histograms",
                expected: n * weights.len(),
                found: histograms.len(),
            });
        }
        let weights = shares(weights, weights.len(), Side::Cols, "weights")?;
        let histograms = histograms
            .chunks_exact(n)
            .map(|h| shares(h, n, Side::Rows, "histogram"))
            .collect::<Result<Vec<_>, Error>>()?;
        let look = survey(cost, &Marginals::normalised(&histograms[0], &vec![1.0; m])?)?;
        let guard = self.watch.begin()?;
        let question = Question {
            cost,
            logs: histograms
                .iter()
                .map(|h| h.iter().map(|a| a.ln()).collect())
                .collect(),
            weights: &weights,
            least: look.least,
            debiased: self.debiased,
        };
        let found = self.descend(&question, look.range(), &guard);
        Ok(Parts {
            weights: found.weights,
            histograms,
            potentials: found
                .point
                .iter()
                .take(weights.len())
                .map(|v| scaled(v, self.epsilon))
                .collect(),
            shares: weights,
            epsilon: self.epsilon,
            least: look.least,
            status: found.status,
            // A look at where it would start is none.
            iterations: found.iterations.min(self.max_iterations),
            violation: found.violation,
        })
    }

    fn check<T: Real>(&self, cost: &dyn Cost<T>) -> Result<(), Error> {
        check_tolerance(self.tolerance)?;
        if !(self.epsilon > 0.0 && self.epsilon.is_finite()) {
            return Err(Error::Option {
                name: "epsilon",
                value: self.epsilon,
                expected: "a number above zero",
            });
        }
        let (n, m) = (cost.rows(), cost.cols());
        if n == 0 || m == 0 {
            return Err(Error::Empty { rows: n, cols: m });
        }
        if !self.debiased {
            return Ok(());
        }
        if n != m {
            return Err(Error::Length {
                what: "columns of a debiased barycentre's cost",
                expected: n,
                found: m,
            });
        }
        // A few rows tell whether somebody took the wrong cost; all of a grid's or a stored one's would be n² again.
        for row in (0..n).step_by(n.div_ceil(32)) {
            for col in (0..n).step_by(n.div_ceil(32)) {
                let (c, mirror) = (cost.at(row, col).widen(), cost.at(col, row).widen());
                if (c - mirror).abs() > 1e-6 * c.abs().max(mirror.abs()) {
                    return Err(Error::Matrix {
                        what: "cost of a debiased barycentre",
                        row,
                        col,
                        value: c,
                        expected: "the same as its mirror image",
                    });
                }
            }
        }
        Ok(())
    }

    /// Comes down to ε, each stage going on from the last one's prices.
    fn descend<T: Real>(&self, question: &Question<'_, T>, range: f64, guard: &Guard<'_>) -> Stage {
        let mut epsilon = (FIRST_EPSILON * range).max(self.epsilon);
        let (m, count) = (question.cost.cols(), question.weights.len());
        let mut point = vec![vec![0.0; m]; count + usize::from(self.debiased)];
        let mut spent = 0;
        loop {
            let last = epsilon <= self.epsilon;
            let stage = match question.cost.grid() {
                Some(grid) => {
                    let kernel = GridKernel::new(grid, epsilon);
                    self.stage(question, &kernel, epsilon, last, point, spent, guard)
                }
                None => {
                    let kernel = AnyKernel::new(question.cost, epsilon, question.least);
                    self.stage(question, &kernel, epsilon, last, point, spent, guard)
                }
            };
            spent = stage.iterations;
            if last || stage.status == Status::Stopped || spent >= self.max_iterations {
                // Prices of a stage that was cut short are those of its own ε.
                let ratio = epsilon / self.epsilon;
                let point = stage.point.iter().map(|v| scaled(v, ratio)).collect();
                return Stage { point, ..stage };
            }
            let next = (COOLING * epsilon).max(self.epsilon);
            point = stage
                .point
                .iter()
                .map(|v| scaled(v, epsilon / next))
                .collect();
            epsilon = next;
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn stage<T: Real>(
        &self,
        question: &Question<'_, T>,
        kernel: &dyn LogKernel,
        epsilon: f64,
        last: bool,
        mut point: Vec<Vec<f64>>,
        spent: usize,
        guard: &Guard<'_>,
    ) -> Stage {
        let (tolerance, most) = if last {
            (self.tolerance, self.max_iterations)
        } else {
            (
                STAGE_TOLERANCE.max(self.tolerance),
                (spent + STAGE_ITERATIONS).min(self.max_iterations),
            )
        };
        let (mut iterations, mut first, mut best) = (spent, f64::NAN, f64::INFINITY);
        let mut anderson = Anderson::new(self.acceleration);
        let mut next = vec![0.0; point.len() * question.cost.cols()];
        let (mut idle, mut astray) = (0, 0);
        loop {
            let step = pooled(|| question.step(kernel, &point));
            iterations += 1;
            if first.is_nan() {
                first = step.violation;
            }
            let done = |status| Stage {
                weights: step.weights.clone(),
                point: point.clone(),
                status,
                iterations,
                violation: step.violation,
            };
            if step.violation <= tolerance {
                return done(Status::Converged);
            }
            if guard.says_stop(&Progress::entropic(
                iterations,
                step.violation,
                first,
                tolerance,
                epsilon,
            )) {
                return done(Status::Stopped);
            }
            if iterations >= most {
                return done(Status::IterationLimit);
            }
            // Not better for a long time: digits are gone.
            idle = if step.violation < best { 0 } else { idle + 1 };
            if idle > STALL_PATIENCE {
                return done(Status::Stalled);
            }
            if step.violation > ASTRAY_RATIO * best || idle == PATIENCE {
                // Plain steps always come nearer; where acceleration leads astray again and again they are all there is.
                astray += 1;
                anderson = Anderson::new(if astray > MOST_ASTRAY {
                    0
                } else {
                    self.acceleration
                });
                best = step.violation;
            }
            best = best.min(step.violation);
            anderson.propose(&point.concat(), &step.residual.concat(), &mut next);
            let m = question.cost.cols();
            for (v, n) in point.iter_mut().zip(next.chunks_exact(m)) {
                v.copy_from_slice(n);
            }
        }
    }
}

/// Iterations without a better violation after which nothing better is to be expected.
const STALL_PATIENCE: usize = 500;

/// Where a stage ended.
struct Stage {
    weights: Vec<f64>,
    /// g_k/ε, and ln d where debiased.
    point: Vec<Vec<f64>>,
    status: Status,
    iterations: usize,
    violation: f64,
}

/// What is asked, in logarithms.
struct Question<'a, T> {
    cost: &'a dyn Cost<T>,
    logs: Vec<Vec<f64>>,
    weights: &'a [f64],
    least: f64,
    debiased: bool,
}

/// What one iteration finds.
struct Step {
    weights: Vec<f64>,
    residual: Vec<Vec<f64>>,
    violation: f64,
}

impl<T: Real> Question<'_, T> {
    fn step(&self, kernel: &dyn LogKernel, point: &[Vec<f64>]) -> Step {
        let count = self.weights.len();
        // The debiasing vector goes through the same kernel, along with the others.
        let mut rows = kernel.soft(Onto::Rows, point);
        let blurred = self.debiased.then(|| rows.pop()).flatten();
        for (z, a) in rows.iter_mut().zip(&self.logs) {
            z.iter_mut().zip(a).for_each(|(z, a)| {
                *z = if *a == f64::NEG_INFINITY { *a } else { a - *z };
            });
        }
        let cols = kernel.soft(Onto::Cols, &rows);
        let mut log_b = match self.debiased {
            true => point[count].clone(),
            false => vec![0.0; cols[0].len()],
        };
        for (t, w) in cols.iter().zip(self.weights) {
            log_b.iter_mut().zip(t).for_each(|(b, t)| *b += w * t);
        }
        let raw: Vec<f64> = log_b.iter().map(|b| b.exp()).collect();
        let total = sum(&raw);
        let weights: Vec<f64> = raw
            .iter()
            .map(|b| {
                if b / total >= LEAST_WEIGHT {
                    b / total
                } else {
                    0.0
                }
            })
            .collect();
        let mut violation = 0.0;
        let mut residual = Vec::with_capacity(point.len());
        for ((t, v), w) in cols.iter().zip(point).zip(self.weights) {
            let off = |((t, v), b): ((&f64, &f64), &f64)| ((t + v).exp() - b).abs();
            violation += w * t.iter().zip(v).zip(&weights).map(off).sum::<f64>();
            let next = log_b.iter().zip(t).zip(v);
            residual.push(next.map(|((b, t), v)| b - t - v).collect::<Vec<f64>>());
        }
        if let Some(blurred) = blurred {
            let d = point[count].iter().zip(&log_b).zip(&blurred);
            let change: Vec<f64> = d.map(|((d, b), k)| 0.5 * (b - k - d)).collect();
            violation += change
                .iter()
                .zip(&weights)
                .map(|(c, b)| (c * b).abs())
                .sum::<f64>();
            residual.push(change);
        }
        Step {
            weights,
            residual,
            violation,
        }
    }
}

fn scaled(v: &[f64], factor: f64) -> Vec<f64> {
    v.iter().map(|v| v * factor).collect()
}

impl<T: Real> BarycenterSolution<'_, T> {
    /// The barycentre: masses of the columns, of total one.
    #[must_use]
    pub fn weights(&self) -> &[f64] {
        &self.parts.weights
    }

    /// How the solver ended.
    pub fn status(&self) -> Status {
        self.parts.status
    }

    /// Iterations, over all ε.
    #[must_use]
    pub fn iterations(&self) -> usize {
        self.parts.iterations
    }

    /// Σ_k w_k ‖s_k − b‖₁ at the end; where debiased, with what the debiasing still changes.
    #[must_use]
    pub fn violation(&self) -> f64 {
        self.parts.violation
    }

    /// Prices of the columns towards each histogram; with weights their sum is zero, but for debiasing.
    #[must_use]
    pub fn potentials(&self) -> &[Vec<f64>] {
        &self.parts.potentials
    }

    /// Bounds on the unregularised optimum over this support, worked out when first asked for.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Barycenter, Grid};
    /// let grid = Grid::unit(&[11])?;
    /// let histograms: Vec<f64> = (0..22).map(|i| if i == 2 || i == 19 { 1.0 } else { 0.0 }).collect();
    /// let middle = Barycenter::new(1e-4).solve(&grid, &histograms, &[1.0, 1.0])?;
    /// let proof = middle.certificate();
    /// // From 2 and 8 to 5: 0.3² each.
    /// assert!(proof.lower <= 0.09 && 0.09 <= proof.upper + 1e-12 && proof.gap() < 0.01);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    #[must_use]
    pub fn certificate(&self) -> &BarycenterCertificate {
        self.certificate.get_or_init(|| BarycenterCertificate {
            upper: self.upper().unwrap_or(f64::INFINITY),
            lower: self.lower(),
        })
    }

    fn upper(&self) -> Result<f64, Error> {
        let parts = &self.parts;
        let shape = Representation::Gibbs {
            epsilon: parts.epsilon,
            lift: 0.0,
        };
        let mut total = 0.0;
        for ((a, g), w) in parts
            .histograms
            .iter()
            .zip(&parts.potentials)
            .zip(&parts.shares)
        {
            let marginals = Marginals::normalised(a, &parts.weights)?;
            let priced = g.iter().zip(marginals.cols());
            let cols = priced.map(|(g, b)| if *b > 0.0 { *g } else { f64::NEG_INFINITY });
            let potentials = Potentials {
                rows: Vec::new(),
                cols: cols.collect(),
                slack_row: f64::NEG_INFINITY,
                slack_col: f64::NEG_INFINITY,
            };
            let problem = Problem::new(self.cost, marginals)?;
            total += w * T::certify(&problem.erased(), &potentials, &shape).primal;
        }
        Ok(total)
    }

    fn lower(&self) -> f64 {
        match self.cost.grid() {
            Some(grid) => self.lower_by(&GridKernel::new(grid, self.parts.epsilon)),
            None => self.lower_by(&AnyKernel::reading(self.cost, self.parts.epsilon)),
        }
    }

    fn lower_by(&self, kernel: &dyn LogKernel) -> f64 {
        let parts = &self.parts;
        let mut excess = vec![0.0; parts.weights.len()];
        let (mut value, mut largest) = (0.0, parts.least.abs());
        for ((a, g), w) in parts
            .histograms
            .iter()
            .zip(&parts.potentials)
            .zip(&parts.shares)
        {
            let mut f = kernel.hard(Onto::Rows, g);
            f.iter_mut()
                .zip(a)
                .filter(|(_, a)| **a == 0.0)
                .for_each(|(f, _)| *f = f64::NEG_INFINITY);
            let better = kernel.hard(Onto::Cols, &f);
            for (a, f) in a.iter().zip(&f).filter(|(a, _)| **a > 0.0) {
                value += w * a * f;
                largest = f.abs().max(largest);
            }
            excess
                .iter_mut()
                .zip(&better)
                .for_each(|(e, g)| *e += w * g);
        }
        let least = excess.iter().copied().fold(f64::INFINITY, f64::min);
        value + least - 1e-13 * (largest + least.abs())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::random::Random;
    use crate::{Dense, Exact, FromFn, Grid};

    fn histograms(random: &mut Random, count: usize, n: usize) -> Vec<f64> {
        (0..count * n).map(|_| 0.05 + random.unit()).collect()
    }

    #[test]
    fn grids_tables_and_closures_agree() {
        let mut random = Random::new(81, 0);
        let grid = Grid::unit(&[4, 5]).unwrap();
        let mut table = vec![0.0; 400];
        grid.fill(0..20, &mut table);
        let dense = Dense::new(&table, 20, 20).unwrap();
        let computed = FromFn::new(20, 20, |i, j| table[i * 20 + j]).unwrap();
        let h = histograms(&mut random, 3, 20);
        let weights = [1.0, 2.0, 1.0];
        for debiased in [false, true] {
            for epsilon in [0.05, 2e-3] {
                let mut solver = Barycenter::new(epsilon).tolerance(1e-9);
                if debiased {
                    solver = solver.debiased();
                }
                let a = solver.solve(&grid, &h, &weights).unwrap();
                let b = solver.solve(&dense, &h, &weights).unwrap();
                let c = solver.solve(&computed, &h, &weights).unwrap();
                for other in [b.weights(), c.weights()] {
                    let off: f64 = a
                        .weights()
                        .iter()
                        .zip(other)
                        .map(|(x, y)| (x - y).abs())
                        .sum();
                    assert!(off < 1e-6, "{debiased} {epsilon}: {off}");
                }
                assert!(a.status().is_converged() && b.status().is_converged());
                assert!((a.weights().iter().sum::<f64>() - 1.0).abs() < 1e-12);
                let (p, q) = (a.certificate(), b.certificate());
                assert!((p.upper - q.upper).abs() < 1e-6 && (p.lower - q.lower).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn plain_projections_end_where_accelerated_ones_do() {
        let mut random = Random::new(82, 0);
        let grid = Grid::unit(&[12]).unwrap();
        let h = histograms(&mut random, 2, 12);
        let solver = Barycenter::new(0.02).tolerance(1e-10);
        let fast = solver.solve(&grid, &h, &[0.3, 0.7]).unwrap();
        let plain = solver.clone().acceleration(0).max_iterations(100_000);
        let plain = plain.solve(&grid, &h, &[0.3, 0.7]).unwrap();
        assert!(fast.iterations() < plain.iterations());
        let off: f64 = fast
            .weights()
            .iter()
            .zip(plain.weights())
            .map(|(x, y)| (x - y).abs())
            .sum();
        assert!(off < 1e-8);
    }

    /// The linear programme has the barycentre's value between the bounds.
    #[test]
    fn bounds_hold_the_optimum_of_the_line() {
        use crate::line::Samples;
        let mut random = Random::new(83, 0);
        let places: Vec<f64> = (0..41).map(|i| f64::from(i) / 40.0).collect();
        let grid = Grid::unit(&[41]).unwrap();
        let h = histograms(&mut random, 2, 41);
        let solution = Barycenter::new(1e-3).solve(&grid, &h, &[0.5, 0.5]).unwrap();
        let proof = solution.certificate();
        // Anywhere on the line: ¼ W₂² of the two; on the grid a little more.
        let (a, b) = (
            Samples::weighted(&places, &h[..41]).unwrap(),
            Samples::weighted(&places, &h[41..]).unwrap(),
        );
        let free = 0.25 * a.distance(&b, 2.0).unwrap().powi(2);
        assert!(proof.upper >= free - 1e-12);
        assert!(proof.lower <= proof.upper && proof.lower <= free + 0.25 / 1600.0);
        // The upper bound is no less than what exact plans to the same barycentre cost.
        let exact: f64 = h
            .chunks_exact(41)
            .map(|h| {
                let marginals = Marginals::normalised(h, solution.weights()).unwrap();
                let problem = Problem::new(&grid, marginals).unwrap();
                0.5 * Exact::new().solve(&problem).unwrap().objective()
            })
            .sum();
        assert!(exact <= proof.upper + 1e-12 && proof.lower <= exact + 1e-12);
        assert!(proof.gap() < 0.02);
    }

    #[test]
    fn one_histogram_is_its_own_debiased_barycentre() {
        let mut random = Random::new(84, 0);
        let grid = Grid::unit(&[6, 6]).unwrap();
        let h = histograms(&mut random, 1, 36);
        let total: f64 = h.iter().sum();
        let solution = Barycenter::new(0.01)
            .debiased()
            .solve(&grid, &h, &[1.0])
            .unwrap();
        let off: f64 = solution
            .weights()
            .iter()
            .zip(&h)
            .map(|(b, a)| (b - a / total).abs())
            .sum();
        assert!(off < 1e-4, "{off}");
    }

    #[test]
    fn wrong_questions_are_refused() {
        let grid = Grid::unit(&[3]).unwrap();
        let h = [1.0; 6];
        let solver = Barycenter::new(0.1);
        assert!(matches!(
            solver.solve(&grid, &h, &[1.0]),
            Err(Error::Length { .. })
        ));
        assert!(solver.solve(&grid, &[], &[]).is_err());
        assert!(matches!(
            solver.solve(&grid, &[1.0, -1.0, 1.0], &[1.0]),
            Err(Error::Mass { index: 1, .. })
        ));
        assert!(solver.solve(&grid, &h, &[0.0, 0.0]).is_err());
        assert!(Barycenter::new(0.0).solve(&grid, &h, &[1.0, 1.0]).is_err());
        assert!(
            solver
                .clone()
                .tolerance(0.0)
                .solve(&grid, &h, &[1.0, 1.0])
                .is_err()
        );
        let skew = Dense::new(&[0.0, 1.0, 2.0, 0.0], 2, 2).unwrap();
        assert!(matches!(
            solver
                .clone()
                .debiased()
                .solve(&skew, &[1.0; 4], &[1.0, 1.0]),
            Err(Error::Matrix { .. })
        ));
        let cut = solver.tolerance(1e-14).max_iterations(2).solve(
            &grid,
            &[1.0, 2.0, 3.0, 3.0, 2.0, 0.0],
            &[1.0, 1.0],
        );
        assert_eq!(cut.unwrap().status(), Status::IterationLimit);
    }
}
