//! Sinkhorn's fixed point, accelerated.
//!
//! ```text
//! g ← g + ε (ln b − ln colsum(g))        one sweep per step; stops at Σ|colsum − b| ≤ tolerance · mass
//! ```
//!
//! The plain step always improves the semi-dual. On top of it sits Anderson acceleration: the last steps
//! are combined so that their residuals cancel best; where the combination turns out worse than plain
//! steps it is dropped and the plain step taken. ε may be annealed: large first, so that far-away mass
//! finds its way in a few sweeps, then down to the value asked for.

pub(crate) mod anderson;
mod epsilon;
mod iteration;
mod line_search;

pub use epsilon::Epsilon;

pub(crate) use iteration::{Limits, drive};

use crate::entropic::multiscale;
use crate::entropic::outcome::{
    answer, check_law, check_shape, check_tau, check_tolerance, columns, unswept,
};
use crate::entropic::precision as digits;
use crate::entropic::prohibitive;
use crate::entropic::semidual::SemiDual;
use crate::problem::Erased;
use crate::problem::check;
use crate::problem::check::Survey;
use crate::solution::start;
use crate::solver::{Guard, Watch, options, solves, watched};
use crate::sweep::nearby::Nearby;
use crate::sweep::shared::Shared;
use crate::sweep::{Backend, GridSweeps, PairSweeps, Stabilised, Streamed};
use crate::{Cost, Error, Marginals, Potentials, Problem, Real, Solution, Status};

/// What the sweeps of a stored cost do with its exponentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Kernel {
    /// Point clouds of which a row sees little at this ε: look for what it sees, and keep nothing. Other costs: keep them where the
    /// cost is stored or a copy fits the [budget](Sinkhorn::memory_budget), recompute them where not.
    #[default]
    Auto,
    /// Recompute them in every sweep: no memory beyond O(rows + cols), and no copy of the costs.
    Streamed,
    /// Keep them: a table of rows × columns.
    Stored,
}

/// Where sweeps over costs that are elsewhere have ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Swept {
    /// Potentials of both sides: P = exp((f + g − C)/ε).
    pub potentials: Potentials,
    /// How it ended.
    pub status: Status,
    /// Sweeps.
    pub iterations: usize,
    /// L1 error of the column sums over the mass, as the backend's sweeps say.
    pub violation: f64,
}

/// The entropic solver for problems of any shape.
///
/// Minimises ⟨C, P⟩ + ε Σ P_ij (ln P_ij − 1) over the plans with the marginals of the problem.
///
/// # Examples
/// ```
/// use earthmover::{Dense, Marginals, Problem, Sinkhorn};
/// let cost = [0.0, 1.0, 4.0, 1.0, 0.0, 1.0];
/// let problem = Problem::new(Dense::new(&cost, 2, 3)?, Marginals::uniform(2, 3)?)?;
/// let solution = Sinkhorn::new(0.01).tolerance(1e-9).solve(&problem)?;
/// assert!(solution.status().is_converged());
/// assert!((solution.objective() - 0.5).abs() < 1e-6);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(default = "Sinkhorn::unregularised", deny_unknown_fields)
)]
#[must_use]
pub struct Sinkhorn {
    epsilon: Epsilon,
    tolerance: f64,
    max_iterations: usize,
    acceleration: usize,
    kernel: Kernel,
    memory_budget: usize,
    #[cfg_attr(feature = "serde", serde(rename = "time_limit"))]
    watch: Watch,
}

solves! {
    Sinkhorn by sinkhorn,
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

impl Sinkhorn {
    /// What options start from as they are read: ε has no default, and solving refuses to do without.
    #[cfg(feature = "serde")]
    fn unregularised() -> Self {
        Self::new(f64::NAN)
    }

    /// A solver at this regularisation, in the units of the cost; an [`Epsilon`] or a number.
    pub fn new(epsilon: impl Into<Epsilon>) -> Self {
        Self {
            epsilon: epsilon.into(),
            tolerance: 1e-6,
            max_iterations: 10_000,
            acceleration: 10,
            kernel: Kernel::Auto,
            memory_budget: TABLE_BYTES,
            watch: Watch::default(),
        }
    }

    /// Another regularisation than the one the solver was made with.
    pub fn epsilon(mut self, epsilon: impl Into<Epsilon>) -> Self {
        self.epsilon = epsilon.into();
        self
    }

    /// The regularisation in force.
    pub(crate) fn regularisation(&self) -> Epsilon {
        self.epsilon
    }

    options! {
        /// L1 error of the column sums, relative to the total mass, at which to stop. Default `1e-6`.
        tolerance: f64,

        /// Most sweeps, over all stages of an annealed ε. Default 10,000.
        max_iterations: usize,

        /// How many past steps Anderson acceleration combines; 0 for plain Sinkhorn. Default 10.
        acceleration: usize,

        /// Whether exponentials are kept between sweeps. Default [`Kernel::Auto`].
        kernel: Kernel,

        /// Bytes that a copy of the costs may take. Where they are worked out on the fly or lie column by column, and such a copy is
        /// not larger, they are copied once, row by row, which is many times faster to read; a solver that keeps exponentials takes as much again. Default 64 MB (2²⁶ bytes); 0 for never.
        ///
        /// # Examples
        /// ```
        /// use earthmover::{FromFn, Marginals, Problem, Sinkhorn};
        /// let cost = FromFn::new(2, 2, |i, j| if i == j { 0.0 } else { 1.0 })?;
        /// let problem = Problem::new(cost, Marginals::uniform(2, 2)?)?;
        /// let (table, none) = (Sinkhorn::new(0.1), Sinkhorn::new(0.1).memory_budget(0));
        /// assert_eq!(table.solve(&problem)?.objective(), none.solve(&problem)?.objective());
        /// # Ok::<(), earthmover::Error>(())
        /// ```
        memory_budget: usize,
    }

    watched! {
        /// Calls back after every sweep; [`ControlFlow::Break`](core::ops::ControlFlow::Break) stops with [`Status::Stopped`].
        ///
        /// # Examples
        /// ```
        /// use earthmover::{Dense, Marginals, Problem, Sinkhorn, Status};
        /// use core::ops::ControlFlow;
        /// let problem = Problem::new(Dense::new(&[0.0, 1.0, 2.0, 0.0], 2, 2)?, Marginals::balanced(&[0.3, 0.7], &[0.6, 0.4])?)?;
        /// let solver = Sinkhorn::new(0.1).on_progress(|p| {
        ///     if p.iteration < 2 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        /// });
        /// assert_eq!(solver.solve(&problem)?.status(), Status::Stopped);
        /// # Ok::<(), earthmover::Error>(())
        /// ```
        on_progress,
        /// Stops, with [`Status::Stopped`] and the best answer so far, when this much time has passed; obeyed within one sweep. Default: never.
        time_limit,
    }

    /// Solves with the sweeps of a backend that holds the costs and row masses of `problem`, from rest. The problem's own
    /// cost is looked at once, before the first sweep.
    ///
    /// # Errors
    /// As [`solve`](Self::solve), and whatever the backend reports.
    pub fn solve_on<'p, T: Real, C: Cost<T>, B: Backend + ?Sized>(
        &self,
        problem: &'p Problem<T, C>,
        backend: &mut B,
    ) -> Result<Solution<'p, T, C>, Error> {
        let mut backend = backend;
        let answer = T::sinkhorn_on(self, &problem.erased(), &mut backend)?;
        Ok(Solution::of(problem, answer))
    }

    /// Potentials by the sweeps of a backend alone, from rest: for costs that are on a device and are not to be copied from there. Nobody
    /// looks at the costs, so that there is no certificate; what the backend's own sweeps say is the violation.
    ///
    /// # Errors
    /// [`Error::Option`] for an option outside its range, [`Error::Length`] for a backend of another shape, [`Error::Penalised`] where
    /// it cannot keep the rows' law, and whatever it reports.
    ///
    /// # Examples
    /// ```
    /// use earthmover::sweep::Streamed;
    /// use earthmover::{Dense, Marginals, Sinkhorn};
    /// let (cost, marginals) = (Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2)?, Marginals::uniform(2, 2)?);
    /// let mut device = Streamed::new(&cost, marginals.rows());
    /// let swept = Sinkhorn::new(0.1).potentials_on(&marginals, &mut device)?;
    /// let p = ((swept.potentials.rows[0] + swept.potentials.cols[1] - 1.0) / 0.1).exp();
    /// assert!(swept.status.is_converged() && p < 1e-4);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn potentials_on(
        &self,
        marginals: &Marginals,
        mut backend: &mut dyn Backend,
    ) -> Result<Swept, Error> {
        let guard = self.watch.begin()?;
        let limits = self.limits(&guard)?;
        check_shape(marginals, backend)?;
        check_law(marginals, backend)?;
        let mut semidual = SemiDual::new(marginals);
        let g = semidual.cold_start();
        // Without a single sweep there are no row potentials to speak of.
        let limits = Limits {
            max_iterations: limits.max_iterations.max(1),
            ..limits
        };
        let outcome = drive(&mut backend, &mut semidual, g, &limits)?;
        let mut potentials = columns(&semidual, &outcome.g, outcome.epsilon);
        potentials.rows = vec![0.0; marginals.rows().len()];
        backend.row_potentials(&mut potentials.rows)?;
        let lift = semidual.lift();
        potentials.rows.iter_mut().for_each(|f| *f -= lift);
        potentials.cols.iter_mut().for_each(|g| *g += lift);
        Ok(Swept {
            potentials,
            status: outcome.status,
            iterations: outcome.iterations,
            violation: outcome.violation,
        })
    }

    /// The body of [`solve`](Self::solve) and [`solve_from`](Self::solve_from).
    pub(crate) fn answer<'p, 'c, T: Real>(
        &self,
        problem: &'p Erased<'c, T>,
        start: Option<&Potentials>,
    ) -> Result<Solution<'p, T, &'c dyn Cost<T>>, Error> {
        let guard = self.watch.begin_over(problem.cost().shard())?;
        self.limits(&guard)?;
        check_tau(problem.marginals(), self.epsilon.last())?;
        let start = start.map(|start| start::columns(start, problem.marginals()));
        let (start, survey) = (start.transpose()?, check::whole(problem)?);
        let reach = start::entropic_reach(survey.span(problem.marginals()), self.epsilon.last());
        let start = start.map(|g| start::within(g, reach));
        let asked = (self.epsilon.last(), self.tolerance);
        prohibitive::solve(problem, &survey, asked, |problem, survey| {
            self.run(problem, start.clone(), survey, &guard)
        })
    }

    /// The body of [`solve_on`](Self::solve_on).
    pub(crate) fn answer_on<'p, 'c, T: Real>(
        &self,
        problem: &'p Erased<'c, T>,
        backend: &mut dyn Backend,
    ) -> Result<Solution<'p, T, &'c dyn Cost<T>>, Error> {
        let guard = self.watch.begin_over(problem.cost().shard())?;
        let limits = self.limits(&guard)?;
        check_shape(problem.marginals(), backend)?;
        check_law(problem.marginals(), backend)?;
        check_tau(problem.marginals(), self.epsilon.last())?;
        check::whole(problem)?;
        let mut semidual = SemiDual::new(problem.marginals());
        let g = semidual.cold_start();
        if self.max_iterations == 0 {
            return Ok(unswept(problem, &semidual, g, self.epsilon.last()));
        }
        let mut backend = Shared::new(backend, problem.cost().shard());
        let outcome = drive(&mut backend, &mut semidual, g, &limits)?;
        Ok(answer(problem, &semidual, outcome))
    }

    /// What a copy of this problem's costs may take.
    pub(crate) fn budget<T: Real>(&self, problem: &Erased<'_, T>) -> usize {
        match self.kernel {
            Kernel::Streamed => 0,
            _ if problem.cost().pairs().is_some() => 0,
            Kernel::Auto if self.sees_few(problem) => 0,
            Kernel::Auto | Kernel::Stored => self.memory_budget,
        }
    }

    fn sees_few<T: Real, C: Cost<T>>(&self, problem: &Problem<T, C>) -> bool {
        multiscale::suits(problem, self.epsilon.last())
    }

    /// The options, checked.
    pub(crate) fn limits<'a>(&self, guard: &'a Guard<'a>) -> Result<Limits<'a>, Error> {
        check_tolerance(self.tolerance)?;
        Ok(Limits {
            stages: self.epsilon.stages()?,
            tolerance: self.tolerance,
            max_iterations: self.max_iterations,
            memory: self.acceleration,
            guard,
            spent: 0,
            part: None,
        })
    }

    /// Solves a problem that was looked at, under a guard that may watch over more than this.
    pub(crate) fn run<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        start: Option<Vec<f64>>,
        survey: &Survey,
        guard: &Guard<'_>,
    ) -> Result<Solution<'p, T, C>, Error> {
        let mut semidual = SemiDual::new(problem.marginals());
        let g = start.map_or_else(|| semidual.cold_start(), |g| semidual.fit(g));
        let epsilon = self.epsilon.last();
        if self.max_iterations == 0 {
            return Ok(unswept(problem, &semidual, g, epsilon));
        }
        let limits = self.limits(guard)?;
        if self.kernel == Kernel::Auto && self.sees_few(problem) {
            return self.nearby(problem, &mut semidual, g, &limits);
        }
        let (cost, masses) = (problem.cost(), problem.marginals());
        if let Some(grid) = cost.grid() {
            let mut sweeps = GridSweeps::new(grid, masses.rows());
            let outcome = drive(&mut sweeps, &mut semidual, g, &limits)?;
            return Ok(answer(problem, &semidual, outcome));
        }
        if let Some(pairs) = cost.pairs() {
            let mut sweeps = PairSweeps::new(pairs, cost.cols(), masses.rows());
            let outcome = drive(&mut sweeps, &mut semidual, g, &limits)?;
            return Ok(answer(problem, &semidual, outcome));
        }
        if let Some(reduced) = digits::needed(cost, masses, survey, epsilon, self.tolerance) {
            return self.on_cpu(problem, &reduced, &mut semidual, g, &limits);
        }
        let solution = self.on_cpu(problem, cost, &mut semidual, g, &limits)?;
        if solution.status() != Status::Stalled {
            return Ok(solution);
        }
        let Some(reduced) = digits::worthwhile(cost, masses, epsilon, self.tolerance) else {
            return Ok(solution);
        };
        let limits = Limits {
            spent: solution.iterations(),
            stages: limits.last_stage(),
            ..limits
        };
        if limits.spent >= limits.max_iterations {
            return Ok(solution);
        }
        let g = semidual.fit(start::columns(&solution.into_columns(), masses)?);
        self.on_cpu(problem, &reduced, &mut semidual, g, &limits)
    }

    /// Drives the sweeps over what rows see of a point cloud: in `f32` as long as that has the digits.
    fn nearby<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        semidual: &mut SemiDual,
        g: Vec<f64>,
        limits: &Limits<'_>,
    ) -> Result<Solution<'p, T, C>, Error> {
        let (mut g, mut spent) = (g, limits.spent);
        let share = DROPPED_SHARE * self.tolerance;
        let masses = problem.marginals().rows();
        let points = || problem.cost().points();
        if self.tolerance >= SINGLE_TOLERANCE
            && let Some(mut backend) =
                points().and_then(|p| Nearby::<T, f32>::new(p, masses, share))
        {
            let outcome = drive(&mut backend, semidual, g, limits)?;
            if outcome.status != Status::Stalled || outcome.iterations >= limits.max_iterations {
                return Ok(answer(problem, semidual, outcome));
            }
            (g, spent) = (outcome.g, outcome.iterations);
        }
        let stages = if spent > limits.spent {
            limits.last_stage()
        } else {
            limits.stages.clone()
        };
        let limits = Limits {
            spent,
            stages,
            ..*limits
        };
        match points().and_then(|p| Nearby::<T, f64>::new(p, masses, share)) {
            Some(mut backend) => {
                let outcome = drive(&mut backend, semidual, g, &limits)?;
                Ok(answer(problem, semidual, outcome))
            }
            None => self.on_cpu(problem, problem.cost(), semidual, g, &limits),
        }
    }

    /// Drives one of the CPU backends over `cost`, the problem's own or a more careful reading of it.
    fn on_cpu<'p, T: Real, C: Cost<T>, S: Real>(
        &self,
        problem: &'p Problem<T, C>,
        cost: &dyn Cost<S>,
        semidual: &mut SemiDual,
        g: Vec<f64>,
        limits: &Limits<'_>,
    ) -> Result<Solution<'p, T, C>, Error> {
        let masses = problem.marginals().rows();
        let store = match self.kernel {
            Kernel::Auto => cost.is_stored(),
            Kernel::Streamed => false,
            Kernel::Stored => true,
        };
        let shard = cost.shard();
        let outcome = if store {
            let mut backend = Shared::new(Stabilised::over(cost, masses), shard);
            drive(&mut backend, semidual, g, limits)?
        } else {
            let mut backend = Shared::new(Streamed::over(cost, masses), shard);
            drive(&mut backend, semidual, g, limits)?
        };
        Ok(answer(problem, semidual, outcome))
    }
}

/// What a copy of the costs may take in an entropic solver, unless said otherwise.
pub(crate) const TABLE_BYTES: usize = 1 << 26;

/// Tolerances from which on exponentials in `f32` will do.
pub(crate) const SINGLE_TOLERANCE: f64 = 3e-5;

/// Share of the tolerance that may be left out of a plan unseen.
const DROPPED_SHARE: f64 = 0.02;
