//! Newton's method on the semi-dual, for problems with few columns (or few rows).
//!
//! ```text
//! J(g) = Σ_i a_i f_i(g) + Σ_j b_j g_j      ∇J = b − colsum(g)      ∇²J = −(diag(colsum) − Σ_i P_i P_iᵀ / a_i)/ε
//! ```
//!
//! Eliminating the rows leaves a smooth concave function of k + 1 variables; gradient and curvature come
//! out of one sweep. At small ε almost every row has one or two columns with visible mass, so the
//! curvature costs little more than the sweep itself. A cold start first solves a small sample of rows,
//! annealing ε there, then a larger sample, then the whole: most sweeps are over few rows.

mod ascent;
mod ladder;
mod outlook;
mod sample;
mod step;

use core::marker::PhantomData;
use core::ops::ControlFlow;

pub(crate) use ascent::Limits;
use ascent::ascend;
pub(crate) use ladder::descend;
pub(crate) use outlook::Outlook;
use sample::Sampled;
pub(crate) use step::Step;

use crate::cost::Widened;
use crate::sinkhorn::{answer, check_epsilon, check_tolerance, drive};
use crate::solver::Observer;
use crate::sweep::{Backend, Curvature, Streamed, Target};
use crate::turned::turned_back;
use crate::{
    Cost, Error, Marginals, Potentials, Problem, Progress, Real, Solution, Solver, Status,
};

/// The second-order entropic solver: the same question and answer as [`Sinkhorn`](crate::Sinkhorn).
///
/// Memory is O(rows + side²) with `side` the smaller number of rows or columns; time per iteration one
/// sweep and one factorisation of that side.
///
/// # Examples
/// ```
/// use earthmover::{Dense, Marginals, Newton, Problem};
/// let cost = [0.0, 1.0, 4.0, 1.0, 0.0, 1.0];
/// let problem = Problem::new(Dense::new(&cost, 2, 3)?, Marginals::uniform(2, 3)?)?;
/// let solution = Newton::new(0.01).tolerance(1e-12).solve(&problem)?;
/// assert!(solution.status().is_converged());
/// assert!((solution.objective() - 0.5).abs() < 1e-9);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Newton {
    epsilon: f64,
    tolerance: f64,
    max_iterations: usize,
    observer: Option<Observer>,
}

/// Rows of the smallest sample: so many, and so many a column; and of the next relative to the last.
const SAMPLE: usize = 256;
const FEWEST: usize = 12;
const GROWTH: usize = 8;

/// Rows a column that tell as much as the first sweep over all of them can use.
const ENOUGH: usize = 200;

/// Sweeps over a sample before it counts as no help.
const MOST_ON_SAMPLES: usize = 150;

/// Divisor of ε between stages of a cold start.
const COOLING: f64 = 4.0;

/// Columns up to which a dense curvature is cheap.
const NARROW: usize = 32;

impl Newton {
    /// A solver at this regularisation, in the units of the cost.
    pub fn new(epsilon: f64) -> Self {
        Self {
            epsilon,
            tolerance: 1e-6,
            max_iterations: 1_000,
            observer: None,
        }
    }

    /// L1 error of the column sums, relative to the total mass, at which to stop. Default `1e-6`.
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Most sweeps over the whole problem. Default 1,000.
    pub fn max_iterations(mut self, sweeps: usize) -> Self {
        self.max_iterations = sweeps;
        self
    }

    /// Calls back after every sweep over the whole problem; [`ControlFlow::Break`] stops.
    pub fn on_progress(
        mut self,
        callback: impl Fn(&Progress) -> ControlFlow<()> + Send + Sync + 'static,
    ) -> Self {
        self.observer = Some(Observer::new(callback));
        self
    }

    /// Solves from rest.
    ///
    /// # Errors
    /// [`Error::Option`] for an option outside its range; [`Error::Cost`] or [`Error::Blocked`] where the
    /// cost has no answer.
    pub fn solve<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
    ) -> Result<Solution<'p, T, C>, Error> {
        self.run(problem, None, 0)
    }

    /// Solves from the column potentials of an earlier answer to a similar problem.
    ///
    /// # Errors
    /// As [`solve`](Self::solve), and [`Error::Length`] or [`Error::Start`] for potentials that do not fit.
    pub fn solve_from<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        start: &Potentials,
    ) -> Result<Solution<'p, T, C>, Error> {
        self.run(problem, Some(start), 0)
    }

    /// Takes over from a solver that has spent so many sweeps.
    pub(crate) fn take_over<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        start: &Potentials,
        spent: usize,
    ) -> Result<Solution<'p, T, C>, Error> {
        self.run(problem, Some(start), spent)
    }

    fn run<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        start: Option<&Potentials>,
        spent: usize,
    ) -> Result<Solution<'p, T, C>, Error> {
        check_epsilon(self.epsilon)?;
        check_tolerance(self.tolerance)?;
        let start = start
            .map(|s| Target::new(problem.marginals()).start(s))
            .transpose()?;
        if problem.cols() <= problem.rows() {
            return self.tall(problem, start, spent);
        }
        // Wide: the same on the transposed question.
        let turned = problem.transposed();
        let start = match start {
            None => None,
            Some(g) => Some(self.rows_of(problem, g)?),
        };
        let other = self.tall(&turned, start, spent)?;
        turned_back(problem, self.epsilon, other)
    }

    /// Row potentials that belong to column potentials: the start of the transposed problem.
    fn rows_of<T: Real, C: Cost<T>>(
        &self,
        problem: &Problem<T, C>,
        g: Vec<f64>,
    ) -> Result<Vec<f64>, Error> {
        let target = Target::new(problem.marginals());
        let mut backend = Streamed::new(problem.cost(), problem.marginals().rows());
        let mut sums = vec![0.0; g.len()];
        backend.sweep(&target.scaling(self.epsilon, &g), &mut sums)?;
        let mut f = vec![0.0; problem.rows() + 1];
        backend.row_potentials(&mut f[..problem.rows()])?;
        f[problem.rows()] = if target.slack.row > 0.0 {
            target.slack_row(self.epsilon, &g, &mut sums)
        } else {
            f64::NEG_INFINITY
        };
        Ok(f)
    }

    fn tall<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        start: Option<Vec<f64>>,
        spent: usize,
    ) -> Result<Solution<'p, T, C>, Error> {
        let mut target = Target::new(problem.marginals());
        let masses = problem.marginals().rows();
        let outlook = Outlook::new(problem.cost(), self.epsilon);
        let g = match start {
            Some(g) => g,
            None => self.cold(problem.cost(), problem.marginals(), &mut target, outlook),
        };
        let limits = Limits {
            tolerance: self.tolerance,
            max_iterations: self.max_iterations,
            observer: self.observer.as_ref(),
        };
        let faint = 0.01 * self.tolerance;
        let mut spent = spent;
        let mut g = g;
        if 64.0 * T::epsilon().widen() <= self.tolerance || T::epsilon().widen() < 1e-12 {
            let mut backend = outlook.backend(problem.cost(), masses, faint);
            let outcome = descend(&mut *backend, &mut target, g, self.epsilon, spent, &limits)?;
            if outcome.status != Status::Stalled || T::epsilon().widen() < 1e-12 {
                return Ok(answer(problem, &target, outcome));
            }
            (g, spent) = (outcome.g, outcome.iterations);
        }
        // The scalar has no more digits: go on in f64.
        let wide = Widened {
            cost: problem.cost(),
            scalar: PhantomData::<fn() -> T>,
        };
        let mut backend = outlook.backend(&wide, masses, faint);
        let outcome = descend(&mut *backend, &mut target, g, self.epsilon, spent, &limits)?;
        Ok(answer(problem, &target, outcome))
    }

    /// Potentials to begin with: small samples first, ε annealed on the smallest.
    ///
    /// What goes wrong on a sample (a column none of its rows may use, say) need not be wrong with the
    /// whole: the start is then simply less good, and the whole problem has the last word.
    fn cold<T: Real, C: Cost<T> + ?Sized>(
        &self,
        cost: &C,
        marginals: &Marginals,
        target: &mut Target,
        outlook: Outlook,
    ) -> Vec<f64> {
        let mut g = target.rest();
        let (n, k) = (cost.rows(), cost.cols());
        let mut count = SAMPLE.max(FEWEST * k).min(n);
        let mut first = true;
        loop {
            let part = Sampled::new(cost, count);
            let weights = part.masses(marginals);
            // What a sample of this size knows about the whole.
            let know = 0.2 * ((k + 1) as f64 / count as f64).sqrt();
            if first {
                let mut backend = Streamed::new(&part, &weights);
                g = self.anneal(&mut backend, target, g, outlook.spread);
            }
            let tolerance = know.max(self.tolerance);
            let limits = Limits {
                tolerance,
                max_iterations: MOST_ON_SAMPLES,
                observer: None,
            };
            let mut backend = outlook.backend(&part, &weights, 0.01 * tolerance);
            let outcome = descend(&mut *backend, target, g.clone(), self.epsilon, 0, &limits);
            if let Ok(outcome) = outcome
                && outcome.status != Status::IterationLimit
            {
                g = outcome.g;
            }
            first = false;
            if count * GROWTH > n || count >= ENOUGH * k {
                return g;
            }
            count *= GROWTH;
        }
    }
}

impl Newton {
    /// Comes down from an ε as large as the costs' spread. Where everything is blurred every entry is
    /// visible, and a curvature would cost the square of the columns a row: with more than a few columns
    /// Sinkhorn steps do.
    fn anneal<B: Curvature>(
        &self,
        backend: &mut B,
        target: &mut Target,
        g: Vec<f64>,
        spread: f64,
    ) -> Vec<f64> {
        let mut g = g;
        // No more misplaced than what a typical column holds.
        let rough = (1.0 / g.len() as f64).min(0.05);
        let mut stages = Vec::new();
        let mut epsilon = self.epsilon * COOLING;
        while epsilon < spread {
            stages.push(epsilon);
            epsilon *= COOLING;
        }
        stages.reverse();
        for epsilon in stages {
            let outcome = if g.len() <= NARROW {
                let limits = Limits {
                    tolerance: rough,
                    max_iterations: 20,
                    observer: None,
                };
                ascend(backend, target, g.clone(), epsilon, 0, &limits)
            } else {
                let limits = crate::sinkhorn::Limits {
                    stages: vec![epsilon],
                    tolerance: rough,
                    max_iterations: 20,
                    memory: 5,
                    observer: None,
                    spent: 0,
                };
                drive(backend, target, g.clone(), &limits)
            };
            match outcome {
                Ok(outcome) => g = outcome.g,
                Err(_) => return g,
            }
        }
        g
    }
}

impl<T: Real> Solver<T> for Newton {
    fn solve<'p, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
    ) -> Result<Solution<'p, T, C>, Error> {
        Self::solve(self, problem)
    }
}
