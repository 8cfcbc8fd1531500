//! One front door for entropic answers.
//!
//! | problem | way | why |
//! | --- | --- | --- |
//! | points of which a row sees few at this ε | [`Sinkhorn`], coarse to fine | far mass finds its way between clusters, and sweeps look at near pairs only |
//! | few entries of a row visible at this ε, and a side of at most 15 or much smaller than the other | [`Newton`] | small samples give a good start, the curvature is sparse, a handful of sweeps suffice |
//! | a cost that names its pairs ([`Sparse`](crate::Sparse)) | [`Sinkhorn`], and [`Newton`] only if that takes long and a side is short | a sweep looks at what is allowed and at nothing else |
//! | a side of more than 1,024 | [`Sinkhorn`], accelerated | a sweep of a stored kernel runs near memory speed |
//! | otherwise | [`Sinkhorn`], and [`Newton`] from there if it takes long | how many sweeps it takes shows only on the way |
//!
//! How many entries are visible is estimated from a few rows: those within 14 ε of the row's best. With `v`
//! of them a curvature costs v² a row and a factorisation k³/3 in all, against k a row for a sweep: that tells how
//! many sweeps a solution by Newton's method is worth, and so many are given to Sinkhorn first. No choice is
//! then much worse than the better one. Sinkhorn is annealed down to an ε far below the costs' spread.
//!
//! Measured, in milliseconds to 1e-6 (`f64`; the row marked so 1e-4 in `f32`), with sweeps and steps, on two quiet cores:
//!
//! | | Newton | Sinkhorn | chosen |
//! | --- | --- | --- | --- |
//! | labels 50,000 × 16, ε = 0.001 | 20 (6) | 84 (73) | 21, Newton |
//! | labels 50,000 × 64, ε = 0.001 | 83 (5) | 192 (72) | 77, Newton |
//! | labels 50,000 × 32, ε = 0.1 | 62 (4) | 21 (14) | 62, Newton: looks sharper than it is |
//! | random 20,000 × 16, ε = 0.05, `f32` | 13 (2) | 1.2 (3) | 1.2, Sinkhorn |
//! | random 3,000 × 500, ε = 0.005 | 157 (3) | 6.9 (7) | 7.8, Sinkhorn |
//! | points 16 × 20,000, heavy-tailed, ε = 0.05 | 30 (4) | 23 (10) | 7.7, Sinkhorn, turned |
//! | points 100 × 100, ε = 0.001 | 2.7 (5) | 3.5 (145) | 5.4, Sinkhorn |
//! | points 200 × 200 in 10 dimensions, ε = 0.0002 | 22 (26) | 482 (7,777) | 38 (376), both |
//! | points 500 × 500, ε = 0.001 | 75 (4) | 21 (112) | 17, Sinkhorn |
//! | points 3,000 × 500, clustered, ε = 0.0005 | 2,778 (41) | 1,335 (2,276) | 2,664 (413), both |

pub(crate) mod multiscale;
pub(crate) mod newton;
pub(crate) mod outcome;
pub(crate) mod precision;
pub(crate) mod probe;
pub(crate) mod prohibitive;
pub(crate) mod semidual;
pub(crate) mod sinkhorn;
pub(crate) mod stagnation;
pub(crate) mod transpose;

use crate::cost::{Transposed, whole_rows};
use crate::entropic::outcome::check_tau;
use crate::entropic::probe::CostProbe;
use crate::entropic::transpose::transposed_back;
use crate::problem::Erased;
use crate::problem::check;
use crate::problem::check::Survey;
use crate::solution::start;
use crate::solver::{Guard, Watch, solves, watched};
use crate::{
    Cost, Epsilon, Error, Kernel, Newton, Potentials, Problem, Real, Sinkhorn, Solution, Status,
};

/// Solves an entropic problem the way its shape asks for.
///
/// # Examples
/// ```
/// use earthmover::{Dense, Entropic, Marginals, Problem};
/// let problem = Problem::new(Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2)?, Marginals::uniform(2, 2)?)?;
/// let solution = Entropic::new(0.01).solve(&problem)?.converged()?;
/// assert!(solution.objective() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "Written", into = "Written"))]
#[must_use]
pub struct Entropic {
    epsilon: f64,
    sinkhorn: Sinkhorn,
    newton: Newton,
    tolerance: f64,
    max_iterations: Option<usize>,
    watch: Watch,
}

/// The options as they are written down.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    epsilon: f64,
    #[serde(default)]
    tolerance: Option<f64>,
    #[serde(default)]
    max_iterations: Option<usize>,
    #[serde(default)]
    time_limit: Watch,
}

#[cfg(feature = "serde")]
impl From<Entropic> for Written {
    fn from(solver: Entropic) -> Self {
        Self {
            epsilon: solver.epsilon,
            tolerance: Some(solver.tolerance),
            max_iterations: solver.max_iterations,
            time_limit: solver.watch,
        }
    }
}

#[cfg(feature = "serde")]
impl From<Written> for Entropic {
    fn from(written: Written) -> Self {
        let mut solver = Self::new(written.epsilon);
        if let Some(tolerance) = written.tolerance {
            solver = solver.tolerance(tolerance);
        }
        if let Some(sweeps) = written.max_iterations {
            solver = solver.max_iterations(sweeps);
        }
        solver.watch = written.time_limit;
        solver
    }
}

/// What [`Entropic`] makes of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Newton,
    Sinkhorn,
    /// Sinkhorn for so many sweeps, then Newton's method.
    Trial(usize),
}

solves! {
    Entropic by entropic,
    /// Solves from rest.
    ///
    /// # Errors
    /// As [`Sinkhorn::solve`].
    solve,
    /// Solves from the column potentials of an earlier answer to a similar problem.
    ///
    /// # Errors
    /// As [`Sinkhorn::solve_from`].
    solve_from,
}

impl Entropic {
    /// A solver at this regularisation, in the units of the cost.
    pub fn new(epsilon: f64) -> Self {
        Self {
            epsilon,
            sinkhorn: Sinkhorn::new(epsilon),
            newton: Newton::new(epsilon),
            tolerance: 1e-6,
            max_iterations: None,
            watch: Watch::default(),
        }
    }

    /// The regularisation in force.
    pub(crate) fn regularisation(&self) -> f64 {
        self.epsilon
    }

    /// L1 error of the column sums, relative to the total mass, at which to stop. Default `1e-6`.
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.sinkhorn = self.sinkhorn.tolerance(tolerance);
        self.newton = self.newton.tolerance(tolerance);
        self.tolerance = tolerance;
        self
    }

    /// Whether Sinkhorn's sweeps keep exponentials. Default [`Kernel::Auto`].
    pub fn kernel(mut self, kernel: Kernel) -> Self {
        self.sinkhorn = self.sinkhorn.kernel(kernel);
        self
    }

    /// Most sweeps over the problem. Default: that of the solver chosen.
    pub fn max_iterations(mut self, sweeps: usize) -> Self {
        self.sinkhorn = self.sinkhorn.max_iterations(sweeps);
        self.newton = self.newton.max_iterations(sweeps);
        self.max_iterations = Some(sweeps);
        self
    }

    /// Bytes that a copy of the costs may take. Where they are worked out on the fly or lie column by column, and such a copy is
    /// not larger, they are copied once, row by row, which is many times faster to read; a solver that keeps exponentials takes as much again. Default 64 MB (2²⁶ bytes); 0 for never.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Entropic, FromFn, Marginals, Problem};
    /// let cost = FromFn::new(2, 2, |i, j| if i == j { 0.0 } else { 1.0 })?;
    /// let problem = Problem::new(cost, Marginals::uniform(2, 2)?)?;
    /// let (table, none) = (Entropic::new(0.1), Entropic::new(0.1).memory_budget(0));
    /// assert_eq!(table.solve(&problem)?.objective(), none.solve(&problem)?.objective());
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.sinkhorn = self.sinkhorn.memory_budget(bytes);
        self.newton = self.newton.memory_budget(bytes);
        self
    }

    watched! {
        /// Calls back after every sweep over the problem, and after those over samples of it with which Newton's method may
        /// begin (as iteration 0); [`ControlFlow::Break`](core::ops::ControlFlow::Break) stops.
        on_progress,
        /// Stops, with [`Status::Stopped`] and the best answer so far, when this much time has passed; obeyed within one
        /// sweep. Default: never.
        time_limit,
    }

    fn choose<T: Real, C: Cost<T>>(&self, problem: &Problem<T, C>) -> Choice {
        self.look(problem).0
    }

    /// The choice, and what a few rows of the longer side said, if they were asked.
    fn look<T: Real, C: Cost<T>>(&self, problem: &Problem<T, C>) -> (Choice, Option<CostProbe>) {
        let (rows, cols) = (whole_rows(problem.cost()), problem.cols());
        let (small, large) = (rows.min(cols), rows.max(cols));
        // Where potentials are bounded the curvature jumps: plain steps do not mind.
        if small > MAX_NEWTON_SIDE
            || problem.cost().grid().is_some()
            || problem.marginals().has_bounded_potentials()
        {
            return (Choice::Sinkhorn, None);
        }
        let probe = if cols <= rows {
            CostProbe::new(problem.cost(), self.epsilon)
        } else {
            CostProbe::new(&Transposed(problem.cost()), self.epsilon)
        };
        let (k, n) = (small as f64, large as f64);
        let tall = small <= ALWAYS_NEWTON_SIDE || (n >= TALL_RATIO * k && k * k <= 150.0 * n);
        // Newton's method reads whole rows: where pairs are named it is for what sweeps over them do not get done. Penalised masses
        // contract by plain steps, and are far from any parabola at first.
        let pairs = problem.cost().pairs().map(|pairs| pairs.len() as f64);
        let direct = pairs.is_none() && !problem.marginals().is_relaxed();
        if direct && tall && probe.is_near_deterministic() {
            return (Choice::Newton, Some(probe));
        }
        let stored = problem.cost().is_stored();
        let entry = if stored {
            STORED_ENTRY_COST
        } else {
            COMPUTED_ENTRY_COST
        };
        let sweep = pairs.unwrap_or(n * k) * entry;
        let curvature = probe.effective_support * probe.effective_support;
        let newton = NEWTON_STEPS * (n * (2.0 * k + 2.0 * curvature) + k * k * k / 3.0);
        (Choice::Trial((newton / sweep) as usize), Some(probe))
    }

    /// Options and problem, before anything else is done.
    fn check<T: Real, C: Cost<T>>(&self, problem: &Problem<T, C>) -> Result<Survey, Error> {
        self.sinkhorn.limits(&Guard::nobody())?;
        check_tau(problem.marginals(), self.epsilon)?;
        check::whole(problem)
    }

    fn sinkhorn_first<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        (choice, probe): (Choice, Option<CostProbe>),
        survey: &Survey,
        guard: &Guard<'_>,
    ) -> Result<Solution<'p, T, C>, Error> {
        let tall = problem.cols() <= whole_rows(problem.cost());
        let sinkhorn = self.annealed(problem, probe.filter(|_| tall));
        match choice {
            Choice::Trial(sweeps) => self.trial(problem, sweeps, sinkhorn, None, survey, guard),
            Choice::Newton | Choice::Sinkhorn => sinkhorn.run(problem, None, survey, guard),
        }
    }

    /// Sinkhorn's steps, annealed from rest: for potentials that are bounded, where the curvature jumps.
    pub(crate) fn by_sinkhorn<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        start: Option<Vec<f64>>,
        survey: &Survey,
        guard: &Guard<'_>,
    ) -> Result<Solution<'p, T, C>, Error> {
        match start {
            None => self.sinkhorn_first(problem, (Choice::Sinkhorn, None), survey, guard),
            Some(_) => self.sinkhorn.run(problem, start, survey, guard),
        }
    }

    /// Whether a problem is turned round to be solved: then no member of a team can do with its own rows.
    pub(crate) fn transposes<T: Real>(&self, problem: &Erased<'_, T>) -> bool {
        let (rows, cols) = (whole_rows(problem.cost()), problem.cols());
        cols > rows && (rows <= MAX_NEWTON_SIDE || cols >= rows.saturating_mul(WIDE_RATIO))
    }

    /// What a copy of this problem's costs may take.
    pub(crate) fn budget<T: Real>(&self, problem: &Erased<'_, T>) -> usize {
        self.sinkhorn.budget(problem)
    }

    /// The body of [`solve`](Self::solve) and [`solve_from`](Self::solve_from).
    pub(crate) fn answer<'p, 'c, T: Real>(
        &self,
        problem: &'p Erased<'c, T>,
        start: Option<&Potentials>,
    ) -> Result<Solution<'p, T, &'c dyn Cost<T>>, Error> {
        match start {
            None => self.cold(problem),
            Some(start) => self.warm(problem, start),
        }
    }

    fn cold<'p, 'c, T: Real>(
        &self,
        problem: &'p Erased<'c, T>,
    ) -> Result<Solution<'p, T, &'c dyn Cost<T>>, Error> {
        let guard = self.watch.begin_over(problem.cost().shard())?;
        let survey = self.check(problem)?;
        let asked = (self.epsilon, self.tolerance);
        prohibitive::solve(problem, &survey, asked, |problem, survey| {
            self.cold_under(problem, survey, &guard)
        })
    }

    /// Solves a problem that was looked at from rest, under a guard that may watch over more than this.
    pub(crate) fn cold_under<'p, 'c, T: Real>(
        &self,
        problem: &'p Erased<'c, T>,
        survey: &Survey,
        guard: &Guard<'_>,
    ) -> Result<Solution<'p, T, &'c dyn Cost<T>>, Error> {
        let (choice, probe) = self.look(problem);
        if choice == Choice::Newton {
            return self.newton.run(problem, None, 0, survey, guard);
        }
        if self.max_iterations != Some(0)
            && multiscale::suits(problem, self.epsilon)
            && let Some(start) = multiscale::start(problem, self.epsilon, self.tolerance, guard)
        {
            return self.follow_by(choice, problem, Some(start), survey, guard);
        }
        if problem.cols() >= whole_rows(problem.cost()).saturating_mul(WIDE_RATIO)
            && problem.cost().pairs().is_none()
            && self.max_iterations != Some(0)
        {
            let view = Transposed(problem.cost());
            let transposed = problem.transposed_over(&view);
            let other = self
                .sinkhorn_first(&transposed, (choice, probe), survey, guard)
                .map_err(Error::transposed)?;
            return transposed_back(problem, survey, self.tolerance, other);
        }
        self.sinkhorn_first(problem, (choice, probe), survey, guard)
    }

    fn warm<'p, 'c, T: Real>(
        &self,
        problem: &'p Erased<'c, T>,
        start: &Potentials,
    ) -> Result<Solution<'p, T, &'c dyn Cost<T>>, Error> {
        let guard = self.watch.begin_over(problem.cost().shard())?;
        self.sinkhorn.limits(&guard)?;
        check_tau(problem.marginals(), self.epsilon)?;
        let start = start::columns(start, problem.marginals())?;
        let survey = check::whole(problem)?;
        let reach = start::entropic_reach(survey.span(problem.marginals()), self.epsilon);
        let start = Some(start::within(start, reach));
        let asked = (self.epsilon, self.tolerance);
        prohibitive::solve(problem, &survey, asked, |problem, survey| {
            self.follow(problem, start.clone(), survey, &guard)
        })
    }

    /// Solves a problem that was looked at from a start, or from rest, under a guard that may watch over more than this.
    pub(crate) fn follow<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        start: Option<Vec<f64>>,
        survey: &Survey,
        guard: &Guard<'_>,
    ) -> Result<Solution<'p, T, C>, Error> {
        self.follow_by(self.choose(problem), problem, start, survey, guard)
    }

    /// The same, when the choice is made.
    fn follow_by<'p, T: Real, C: Cost<T>>(
        &self,
        choice: Choice,
        problem: &'p Problem<T, C>,
        start: Option<Vec<f64>>,
        survey: &Survey,
        guard: &Guard<'_>,
    ) -> Result<Solution<'p, T, C>, Error> {
        match choice {
            Choice::Newton => self.newton.run(problem, start, 0, survey, guard),
            Choice::Sinkhorn => self.sinkhorn.run(problem, start, survey, guard),
            Choice::Trial(sweeps) => {
                let sinkhorn = self.sinkhorn.clone();
                self.trial(problem, sweeps, sinkhorn, start, survey, guard)
            }
        }
    }

    /// Sinkhorn for so many sweeps and, where that is not enough, Newton's method from there.
    fn trial<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        sweeps: usize,
        sinkhorn: Sinkhorn,
        start: Option<Vec<f64>>,
        survey: &Survey,
        guard: &Guard<'_>,
    ) -> Result<Solution<'p, T, C>, Error> {
        let relaxed = problem.marginals().is_relaxed();
        let sweeps = sweeps.max(if relaxed {
            FEWEST_RELAXED_SWEEPS
        } else {
            FEWEST_SWEEPS
        });
        if self.max_iterations.is_some_and(|most| most <= sweeps) {
            return sinkhorn.run(problem, start, survey, guard);
        }
        let sinkhorn = sinkhorn.max_iterations(sweeps);
        let solution = sinkhorn.run(problem, start, survey, guard)?;
        if solution.status() != Status::IterationLimit {
            return Ok(solution);
        }
        let spent = solution.iterations();
        let mut newton = self.newton.clone();
        if self.max_iterations.is_none() {
            newton = newton.max_iterations(spent + MOST_NEWTON_STEPS);
        }
        let start = start::columns(&solution.into_columns(), problem.marginals())?;
        newton.run(problem, Some(start), spent, survey, guard)
    }

    /// Sinkhorn, annealed where ε is far below what the costs span, as a few rows say that were asked or are now.
    fn annealed<T: Real, C: Cost<T>>(
        &self,
        problem: &Problem<T, C>,
        probe: Option<CostProbe>,
    ) -> Sinkhorn {
        let probe = probe.unwrap_or_else(|| CostProbe::new(problem.cost(), self.epsilon));
        let mut from = probe.spread / DIRECT_CONTRAST;
        if problem.marginals().has_bounded_potentials() {
            from *= 10.0;
        }
        if from > self.epsilon && from <= 1e300 {
            let epsilon = Epsilon::Annealed {
                from,
                to: self.epsilon,
                factor: 8.0,
            };
            return self.sinkhorn.clone().epsilon(epsilon);
        }
        self.sinkhorn.clone()
    }
}

/// Columns a row from which on it pays for Sinkhorn, too, to turn the problem round.
const WIDE_RATIO: usize = 16;

/// Rows a column that make a sample of them a good start for Newton's method, and a cheap one.
const TALL_RATIO: f64 = 50.0;

/// Steps of Newton's method that a hard problem takes, to be weighed against sweeps.
const NEWTON_STEPS: f64 = 16.0;

/// What an entry takes to sweep, in multiplications of a factorisation: of a stored kernel, and worked out each time.
const STORED_ENTRY_COST: f64 = 3.0;
const COMPUTED_ENTRY_COST: f64 = 24.0;

/// A trial of fewer sweeps than this would not tell.
const FEWEST_SWEEPS: usize = 50;

/// The same where masses are penalised: steps contract the faster the smaller τ is.
const FEWEST_RELAXED_SWEEPS: usize = 400;

/// Smaller side up to which the other need not be much larger for Newton's method.
const ALWAYS_NEWTON_SIDE: usize = 15;

/// Smaller side up to which Newton's method is used at all.
const MAX_NEWTON_SIDE: usize = 1024;

/// Most steps of Newton's method after a trial, unless the caller says otherwise.
const MOST_NEWTON_STEPS: usize = 1_000;

/// A spread of the costs of this many ε is reached directly as fast as by annealing.
const DIRECT_CONTRAST: f64 = 300.0;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::kernel::random::Random;
    use crate::{Dense, Marginals};

    /// Independent costs in [0, 1).
    fn costs(count: usize) -> Vec<f64> {
        let mut random = Random::new(1, 0);
        (0..count).map(|_| random.unit()).collect()
    }

    #[test]
    fn newton_takes_over_where_sinkhorn_takes_long() {
        let (n, costs) = (120, costs(120 * 120));
        let marginals = Marginals::uniform(n, n).unwrap();
        let problem = Problem::new(Dense::new(&costs, n, n).unwrap(), marginals).unwrap();
        let entropic = Entropic::new(2e-4).tolerance(1e-9);
        let Choice::Trial(sweeps) = entropic.choose(&problem) else {
            panic!("no trial");
        };
        let solution = entropic.solve(&problem).unwrap();
        assert!(solution.status().is_converged());
        let steps = solution.iterations() - sweeps;
        assert!(steps > 0 && steps < 100, "{steps} after {sweeps}");
        let alone = Newton::new(2e-4).tolerance(1e-9).solve(&problem).unwrap();
        assert!((solution.objective() - alone.objective()).abs() < 1e-8);

        // The caller's limit is for both together.
        for limit in [sweeps / 2, sweeps + 1] {
            let cut = entropic
                .clone()
                .max_iterations(limit)
                .solve(&problem)
                .unwrap();
            assert_eq!(cut.status(), Status::IterationLimit);
            assert!(cut.iterations() <= limit + 1);
        }
    }

    #[test]
    fn wide_problems_are_tall_ones_turned_round() {
        let (n, m) = (6, 200);
        let costs = costs(n * m);
        let marginals = Marginals::uniform(n, m).unwrap();
        let problem = Problem::new(Dense::new(&costs, n, m).unwrap(), marginals).unwrap();
        let entropic = Entropic::new(0.5).tolerance(1e-10);
        assert!(matches!(entropic.choose(&problem), Choice::Trial(_)));
        let wide = entropic.solve(&problem).unwrap();
        assert!(wide.status().is_converged() && wide.violation() <= 1e-10);
        let transposed = problem.transposed();
        let tall = entropic.solve(&transposed).unwrap();
        assert!((wide.objective() - tall.objective()).abs() < 1e-9);
    }
}
