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
//!
//! Penalised masses ([`Penalty`](crate::Penalty)) add what their law makes of it: a row's product counts by dφ/dφ*, and a column
//! under KL is stiffer by its mass over τ. There a cold start begins with Sinkhorn's steps, which under KL are often the end of it; under TV
//! potentials are bounded, the curvature jumps, and there are no others.

mod ascent;
mod continuation;
mod step;

pub(crate) use ascent::Limits;
use ascent::ascend;
pub(crate) use continuation::descend;
pub(crate) use step::Step;

use crate::cost::{Sampled, Transposed, whole_rows};
use crate::entropic::outcome::{
    Best, Outcome, answer, check_epsilon, check_law, check_shape, check_tau, check_tolerance,
    unswept,
};
use crate::entropic::precision as digits;
use crate::entropic::probe::CostProbe;
use crate::entropic::prohibitive;
use crate::entropic::semidual::{ROUNDING_SIDES, SemiDual, Verdict};
use crate::entropic::sinkhorn::{self, TABLE_BYTES, drive};
use crate::entropic::transpose::{measure, transposed_back};
use crate::kernel::tiles::MOST_CURVED;
use crate::problem::Erased;
use crate::problem::check;
use crate::problem::check::Survey;
use crate::solution::start;
use crate::solver::{Guard, Watch, options, solves, watched};
use crate::sweep::shared::Shared;
use crate::sweep::{Curvature, Streamed};
use crate::{Cost, Entropic, Error, Marginals, Potentials, Problem, Real, Solution, Status};

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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(default = "Newton::unregularised", deny_unknown_fields)
)]
#[must_use]
pub struct Newton {
    epsilon: f64,
    tolerance: f64,
    max_iterations: usize,
    pub(crate) memory_budget: usize,
    #[cfg_attr(feature = "serde", serde(rename = "time_limit"))]
    watch: Watch,
}

/// Entries of the largest sample: every member of a team has all of them.
const MOST_SAMPLED: usize = 1 << 27;

/// Rows of the smallest sample: so many, and so many a column; and of the next relative to the last.
const LEAST_SAMPLE: usize = 256;
const SAMPLE_PER_COLUMN: usize = 12;
const SAMPLE_GROWTH: usize = 8;

/// Rows a column that tell as much as the first sweep over all of them can use.
const ENOUGH_PER_COLUMN: usize = 200;

/// Sweeps over a sample before it counts as no help.
const MOST_SAMPLE_SWEEPS: usize = 150;

/// Share of the tolerance that lists of entries may leave out of a row.
const DROPPED_SHARE: f64 = 0.01;

/// Divisor of ε between stages of a cold start.
const COOLING: f64 = 4.0;

/// Sinkhorn's sweeps with which a cold start begins where masses are penalised.
const RELAXED_START: usize = 400;

/// Columns up to which a dense curvature is cheap.
const NARROW_COLUMNS: usize = 32;

solves! {
    Newton by newton,
    /// Solves from rest.
    ///
    /// # Errors
    /// [`Error::Option`] for an option outside its range; [`Error::Cost`] or [`Error::TooDear`] for an entry that is no cost;
    /// [`Error::Blocked`] or [`Error::Infeasible`] where forbidden pairs leave mass no way.
    solve,
    /// Solves from the column potentials of an earlier answer to a similar problem.
    ///
    /// # Errors
    /// As [`solve`](Self::solve), and [`Error::Length`] or [`Error::Start`] for potentials that do not fit.
    solve_from,
}

impl Newton {
    /// What options start from as they are read: ε has no default, and solving refuses to do without.
    #[cfg(feature = "serde")]
    fn unregularised() -> Self {
        Self::new(f64::NAN)
    }

    /// A solver at this regularisation, in the units of the cost.
    pub fn new(epsilon: f64) -> Self {
        Self {
            epsilon,
            tolerance: 1e-6,
            max_iterations: 1_000,
            memory_budget: TABLE_BYTES,
            watch: Watch::default(),
        }
    }

    /// The regularisation in force.
    pub(crate) fn regularisation(&self) -> f64 {
        self.epsilon
    }

    options! {
        /// L1 error of the column sums, relative to the total mass, at which to stop. Default `1e-6`.
        tolerance: f64,

        /// Most sweeps over the whole problem. Default 1,000.
        max_iterations: usize,

        /// Bytes that a copy of the costs may take. Where they are worked out on the fly or lie column by column, and such a copy is
        /// not larger, they are copied once, row by row, which is many times faster to read; Default 64 MB (2²⁶ bytes); 0 for never.
        ///
        /// # Examples
        /// ```
        /// use earthmover::{FromFn, Marginals, Newton, Problem};
        /// let cost = FromFn::new(2, 2, |i, j| if i == j { 0.0 } else { 1.0 })?;
        /// let problem = Problem::new(cost, Marginals::uniform(2, 2)?)?;
        /// let (table, none) = (Newton::new(0.1), Newton::new(0.1).memory_budget(0));
        /// assert_eq!(table.solve(&problem)?.objective(), none.solve(&problem)?.objective());
        /// # Ok::<(), earthmover::Error>(())
        /// ```
        memory_budget: usize,
    }

    watched! {
        /// Calls back after every sweep over the whole problem, and after those over samples of it with which a cold start
        /// begins (as iteration 0); [`ControlFlow::Break`](core::ops::ControlFlow::Break) stops.
        on_progress,
        /// Stops, with [`Status::Stopped`] and the best answer so far, when this much time has passed; obeyed within one
        /// sweep. Default: never.
        time_limit,
    }

    /// Solves with the sweeps and curvatures of a backend that holds the costs and row masses of `problem`, from rest: no
    /// samples and no transposing, so that the columns should be the shorter side.
    ///
    /// # Errors
    /// As [`solve`](Self::solve), and whatever the backend reports.
    ///
    /// # Examples
    /// ```
    /// use earthmover::sweep::Streamed;
    /// use earthmover::{Dense, Marginals, Newton, Problem};
    /// let problem = Problem::new(Dense::new(&[0.0, 1.0, 2.0, 0.0, 1.0, 0.5], 3, 2)?, Marginals::uniform(3, 2)?)?;
    /// let mut device = Streamed::new(problem.cost(), problem.marginals().rows());
    /// let solution = Newton::new(0.1).solve_on(&problem, &mut device)?;
    /// assert!(solution.status().is_converged());
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn solve_on<'p, T: Real, C: Cost<T>, B: Curvature + ?Sized>(
        &self,
        problem: &'p Problem<T, C>,
        backend: &mut B,
    ) -> Result<Solution<'p, T, C>, Error> {
        let mut backend = backend;
        let answer = T::newton_on(self, &problem.erased(), &mut backend)?;
        Ok(Solution::of(problem, answer))
    }

    /// The body of [`solve`](Self::solve) and [`solve_from`](Self::solve_from).
    pub(crate) fn answer<'p, 'c, T: Real>(
        &self,
        problem: &'p Erased<'c, T>,
        start: Option<&Potentials>,
    ) -> Result<Solution<'p, T, &'c dyn Cost<T>>, Error> {
        let guard = self.watch.begin_over(problem.cost().shard())?;
        self.check_options()?;
        check_tau(problem.marginals(), self.epsilon)?;
        let start = start.map(|start| start::columns(start, problem.marginals()));
        let (start, survey) = (start.transpose()?, check::whole(problem)?);
        let reach = start::entropic_reach(survey.span(problem.marginals()), self.epsilon);
        let start = start.map(|g| start::within(g, reach));
        let asked = (self.epsilon, self.tolerance);
        prohibitive::solve(problem, &survey, asked, |problem, survey| {
            self.run(problem, start.clone(), 0, survey, &guard)
        })
    }

    /// The body of [`solve_on`](Self::solve_on).
    pub(crate) fn answer_on<'p, 'c, T: Real>(
        &self,
        problem: &'p Erased<'c, T>,
        backend: &mut dyn Curvature,
    ) -> Result<Solution<'p, T, &'c dyn Cost<T>>, Error> {
        let guard = self.watch.begin_over(problem.cost().shard())?;
        self.check_options()?;
        check_tau(problem.marginals(), self.epsilon)?;
        check_shape(problem.marginals(), backend)?;
        check_law(problem.marginals(), backend)?;
        let survey = check::whole(problem)?;
        let mut semidual = SemiDual::new(problem.marginals());
        let g = semidual.cold_start();
        if self.max_iterations == 0 {
            return Ok(unswept(problem, &semidual, g, self.epsilon));
        }
        let ceiling = survey.span(problem.marginals());
        let limits = self.limits(self.tolerance, ceiling, &guard);
        let mut backend = Shared::new(backend, problem.cost().shard());
        let outcome = descend(&mut backend, &mut semidual, g, self.epsilon, 0, &limits)?;
        Ok(answer(problem, &semidual, outcome))
    }

    /// Whether a problem is turned round to be solved, or has more columns than members of a team add up curvatures of: then none
    /// of them can do with its own rows.
    pub(crate) fn transposes<T: Real>(&self, problem: &Erased<'_, T>) -> bool {
        problem.cols() > whole_rows(problem.cost()).min(MOST_CURVED)
    }

    fn check_options(&self) -> Result<(), Error> {
        check_epsilon(self.epsilon)?;
        check_tolerance(self.tolerance)
    }

    fn limits<'a>(&self, tolerance: f64, ceiling: f64, guard: &'a Guard<'a>) -> Limits<'a> {
        Limits {
            tolerance,
            max_iterations: self.max_iterations,
            margin: ROUNDING_SIDES,
            ceiling,
            guard,
        }
    }

    /// Solves a problem that was looked at, after so many sweeps of another solver, under a guard that may watch over more
    /// than this.
    pub(crate) fn run<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        start: Option<Vec<f64>>,
        spent: usize,
        survey: &Survey,
        guard: &Guard<'_>,
    ) -> Result<Solution<'p, T, C>, Error> {
        let semidual = SemiDual::new(problem.marginals());
        let start = start.map(|g| semidual.fit(g));
        if self.max_iterations == 0 {
            let g = start.unwrap_or_else(|| semidual.cold_start());
            return Ok(unswept(problem, &semidual, g, self.epsilon));
        }
        let marginals = problem.marginals();
        let (start, spent) =
            if marginals.has_bounded_potentials() || (marginals.is_relaxed() && start.is_none()) {
                // Bounds make the curvature jump, and far away masses are exponentials that no parabola follows: plain steps mind neither.
                let most = if marginals.has_bounded_potentials() {
                    self.max_iterations
                } else {
                    self.max_iterations.min(RELAXED_START)
                };
                let steps = Entropic::new(self.epsilon)
                    .tolerance(self.tolerance)
                    .max_iterations(most)
                    .memory_budget(self.memory_budget);
                let found = steps.by_sinkhorn(problem, start, survey, guard)?;
                let sweeps = found.iterations();
                if found.status() != Status::IterationLimit || sweeps >= self.max_iterations {
                    return Ok(found);
                }
                let from = start::columns(&found.into_columns(), marginals)?;
                (Some(semidual.fit(from)), spent + sweeps)
            } else {
                (start, spent)
            };
        if problem.cols() <= whole_rows(problem.cost()) {
            return self.tall(problem, start, spent, survey, guard);
        }
        // Wide: the same on the transposed question.
        let view = Transposed(problem.cost());
        let transposed = problem.transposed_over(&view);
        let start = start.map(|g| self.rows_of(problem, g));
        let other = self
            .tall(&transposed, start, spent, survey, guard)
            .map_err(Error::transposed)?;
        transposed_back(problem, survey, self.tolerance, other)
    }

    /// Row potentials that belong to column potentials: the start of the transposed problem.
    fn rows_of<T: Real, C: Cost<T>>(&self, problem: &Problem<T, C>, g: Vec<f64>) -> Vec<f64> {
        let semidual = SemiDual::new(problem.marginals());
        let mut f = vec![0.0; problem.rows() + 1];
        let point = semidual.dual_point(self.epsilon, &g);
        let masses = problem.marginals().rows();
        let law = problem.marginals().row_law();
        point.row_potentials(problem.cost(), &law, masses, &mut f[..problem.rows()]);
        f[problem.rows()] = if semidual.slack.row > 0.0 {
            semidual.slack_row(self.epsilon, &g, &mut vec![0.0; g.len()])
        } else {
            f64::NEG_INFINITY
        };
        f
    }

    fn tall<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        start: Option<Vec<f64>>,
        spent: usize,
        survey: &Survey,
        guard: &Guard<'_>,
    ) -> Result<Solution<'p, T, C>, Error> {
        let mut semidual = SemiDual::new(problem.marginals());
        let (cost, marginals) = (problem.cost(), problem.marginals());
        let (epsilon, tolerance) = (self.epsilon, self.tolerance);
        if let Some(reduced) = digits::needed(cost, marginals, survey, epsilon, tolerance) {
            let outcome = self.over(
                &reduced,
                marginals,
                &mut semidual,
                start,
                spent,
                survey,
                guard,
            )?;
            return Ok(answer(problem, &semidual, outcome));
        }
        let outcome = self.over(cost, marginals, &mut semidual, start, spent, survey, guard)?;
        if outcome.status != Status::Stalled || outcome.iterations >= self.max_iterations {
            return Ok(answer(problem, &semidual, outcome));
        }
        // The scalar has no more digits: go on where there are some.
        let Some(reduced) = digits::worthwhile(cost, marginals, epsilon, tolerance) else {
            return Ok(answer(problem, &semidual, outcome));
        };
        let (start, spent) = (Some(outcome.g), outcome.iterations);
        let outcome = self.over(
            &reduced,
            marginals,
            &mut semidual,
            start,
            spent,
            survey,
            guard,
        )?;
        Ok(answer(problem, &semidual, outcome))
    }

    /// Solves over a cost, the problem's own or a more careful reading of it.
    #[allow(clippy::too_many_arguments)]
    fn over<T: Real>(
        &self,
        cost: &dyn Cost<T>,
        marginals: &Marginals,
        semidual: &mut SemiDual,
        start: Option<Vec<f64>>,
        spent: usize,
        survey: &Survey,
        guard: &Guard<'_>,
    ) -> Result<Outcome, Error> {
        let probe = CostProbe::new(cost, self.epsilon);
        let ceiling = survey.span(marginals);
        if marginals.has_bounded_potentials() {
            return self.plainly(cost, marginals, semidual, start, probe, spent, guard);
        }
        let g = match start {
            Some(g) => g,
            None => {
                let g = self.cold(cost, marginals, semidual, probe, ceiling, guard)?;
                if guard.is_stopped() {
                    return self.stopped_cold(cost, marginals, semidual, g, spent);
                }
                g
            }
        };
        // Lists leave out a share of each row: what they leave out counts, too.
        let limits = self.limits((1.0 - 2.0 * DROPPED_SHARE) * self.tolerance, ceiling, guard);
        let drop_tolerance = DROPPED_SHARE * self.tolerance;
        let interrupt = guard.interrupt();
        let mut backend =
            probe.backend(cost, marginals, marginals.rows(), drop_tolerance, interrupt);
        let mut outcome = descend(&mut *backend, semidual, g, self.epsilon, spent, &limits)?;
        drop(backend);
        if outcome.status == Status::Converged
            && survey.is_coarse::<T>(self.epsilon, self.tolerance)
        {
            self.look_again(cost, marginals, semidual, &mut outcome)?;
        }
        Ok(outcome)
    }

    /// Where potentials are bounded the curvature jumps and Newton's model is none: steps of Sinkhorn, annealed, instead.
    #[allow(clippy::too_many_arguments)]
    fn plainly<T: Real>(
        &self,
        cost: &dyn Cost<T>,
        marginals: &Marginals,
        semidual: &mut SemiDual,
        start: Option<Vec<f64>>,
        probe: CostProbe,
        spent: usize,
        guard: &Guard<'_>,
    ) -> Result<Outcome, Error> {
        let mut stages = vec![self.epsilon];
        let mut epsilon = COOLING * self.epsilon;
        while start.is_none() && epsilon < 0.1 * probe.spread {
            stages.push(epsilon);
            epsilon *= COOLING;
        }
        stages.reverse();
        let limits = sinkhorn::Limits {
            stages,
            tolerance: self.tolerance,
            max_iterations: self.max_iterations,
            memory: 10,
            guard,
            spent,
            part: None,
        };
        let g = start.unwrap_or_else(|| semidual.cold_start());
        let mut backend = Shared::new(Streamed::over(cost, marginals.rows()), cost.shard());
        drive(&mut backend, semidual, g, &limits)
    }

    /// Stopped before the first sweep over the whole problem: the samples' potentials, or none where those are better.
    fn stopped_cold<T: Real>(
        &self,
        cost: &dyn Cost<T>,
        marginals: &Marginals,
        semidual: &mut SemiDual,
        found: Vec<f64>,
        spent: usize,
    ) -> Result<Outcome, Error> {
        let mut backend = Shared::new(Streamed::over(cost, marginals.rows()), cost.shard());
        let mut best: Option<Outcome> = None;
        for mut g in [semidual.cold_start(), found] {
            let mut sums = vec![0.0; g.len()];
            let (epsilon, tolerance) = (self.epsilon, self.tolerance);
            let (violation, _) = measure(
                &mut backend,
                semidual,
                epsilon,
                &mut g,
                &mut sums,
                tolerance,
            )?;
            if best.as_ref().is_none_or(|b| violation <= b.violation) {
                best = Some(Outcome {
                    g,
                    epsilon,
                    status: Status::Stopped,
                    iterations: (spent + 1).min(self.max_iterations),
                    violation,
                    sums,
                });
            }
        }
        best.ok_or(Error::Empty { rows: 0, cols: 0 })
    }

    /// Lists know how large the potentials are that they blur, not how large the costs: where those could matter, a plain sweep
    /// has the last word.
    fn look_again<T: Real>(
        &self,
        cost: &dyn Cost<T>,
        marginals: &Marginals,
        semidual: &mut SemiDual,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        let mut plain = Shared::new(Streamed::over(cost, marginals.rows()), cost.shard());
        let (violation, verdict) = measure(
            &mut plain,
            semidual,
            self.epsilon,
            &mut outcome.g,
            &mut outcome.sums,
            self.tolerance,
        )?;
        outcome.violation = violation;
        if verdict != Verdict::Met {
            outcome.status = Status::Stalled;
        }
        Ok(())
    }

    /// Potentials to begin with: small samples first, ε annealed on the smallest.
    ///
    /// What goes wrong on a sample (a column none of its rows may use, say) need not be wrong with the
    /// whole: the start is then simply less good, and the whole problem has the last word.
    fn cold<T: Real>(
        &self,
        cost: &dyn Cost<T>,
        marginals: &Marginals,
        semidual: &mut SemiDual,
        probe: CostProbe,
        ceiling: f64,
        guard: &Guard<'_>,
    ) -> Result<Vec<f64>, Error> {
        let mut g = semidual.cold_start();
        let (n, k) = (whole_rows(cost), cost.cols());
        let mut count = if marginals.is_relaxed() {
            // What is best for a part says little where masses may be missed.
            n
        } else {
            LEAST_SAMPLE.max(SAMPLE_PER_COLUMN * k).min(n)
        };
        let mut first = true;
        loop {
            let part = Sampled::new(cost, count)?;
            let weights = part.masses(marginals.rows(), marginals.supply())?;
            // What a sample of this size knows about the whole.
            let know = 0.2 * ((k + 1) as f64 / count as f64).sqrt();
            if first {
                let mut backend = Streamed::new(&part, &weights).until(guard.interrupt());
                g = self.anneal(&mut backend, semidual, g, probe.spread, guard);
            }
            let tolerance = know.max(self.tolerance);
            let limits = Limits {
                max_iterations: MOST_SAMPLE_SWEEPS,
                ..self.limits(tolerance, ceiling, guard)
            };
            if guard.is_over() {
                return Ok(g);
            }
            let (dropped, interrupt) = (DROPPED_SHARE * tolerance, guard.interrupt());
            let mut backend = probe.backend(&part, marginals, &weights, dropped, interrupt);
            let outcome = descend(&mut *backend, semidual, g.clone(), self.epsilon, 0, &limits);
            if let Ok(outcome) = outcome
                && outcome.status != Status::IterationLimit
            {
                g = outcome.g;
            }
            first = false;
            let next = count * SAMPLE_GROWTH;
            let is_large = next > n || next.saturating_mul(k) > MOST_SAMPLED;
            if guard.is_stopped() || is_large || count >= ENOUGH_PER_COLUMN * k {
                return Ok(g);
            }
            count = next.min(ENOUGH_PER_COLUMN * k);
        }
    }
}

impl Newton {
    /// Comes down from an ε as large as the costs' spread. Where everything is blurred every entry is
    /// visible, and a curvature would cost the square of the columns a row: with more than a few columns
    /// Sinkhorn steps do.
    fn anneal(
        &self,
        backend: &mut dyn Curvature,
        semidual: &mut SemiDual,
        g: Vec<f64>,
        spread: f64,
        guard: &Guard<'_>,
    ) -> Vec<f64> {
        let mut g = g;
        // No more excess than what a typical column holds.
        let rough = (1.0 / g.len() as f64).min(0.05);
        let mut stages = Vec::new();
        let mut epsilon = self.epsilon * COOLING;
        while epsilon < spread {
            stages.push(epsilon);
            epsilon *= COOLING;
        }
        stages.reverse();
        for epsilon in stages {
            let outcome = if g.len() <= NARROW_COLUMNS {
                let limits = Limits {
                    max_iterations: 20,
                    ..self.limits(rough, spread, guard)
                };
                let mut best = Best::at(epsilon);
                ascend(backend, semidual, g.clone(), epsilon, 0, &limits, &mut best)
            } else {
                let limits = sinkhorn::Limits {
                    stages: vec![epsilon],
                    tolerance: rough,
                    max_iterations: 20,
                    memory: 5,
                    guard,
                    spent: 0,
                    part: None,
                };
                drive(backend, semidual, g.clone(), &limits)
            };
            match outcome {
                Ok(outcome) => g = outcome.g,
                Err(_) => return g,
            }
            if guard.is_stopped() {
                return g;
            }
        }
        g
    }
}
