//! What all solvers share: the trait, the progress they report, and how they are stopped.
//!
//! A solve is stopped by a progress callback that breaks, or by a time limit. Either way the answer is the
//! best there is at that moment, with the status [`Stopped`](crate::Status::Stopped) and its certificate. Whoever has
//! been told to stop stays stopped: a callback that breaks once is not asked again.

use core::fmt;
use core::ops::ControlFlow;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::kernel::interrupt::Interrupt;
use crate::kernel::tiles::map_ranges;
use crate::team::Shard;
use crate::{Cost, Error, Problem, Real, Solution};

/// A way to answer a [`Problem`].
///
/// # Examples
/// ```
/// use earthmover::{Dense, Exact, Marginals, Problem, Sinkhorn, Solver};
///
/// fn price(solver: &impl Solver<f64>) -> Result<f64, earthmover::Error> {
///     let problem = Problem::new(Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2)?, Marginals::uniform(2, 2)?)?;
///     Ok(solver.solve(&problem)?.objective())
/// }
///
/// assert!(price(&Exact::new())? <= price(&Sinkhorn::new(0.1))?);
/// # Ok::<(), earthmover::Error>(())
/// ```
pub trait Solver<T: Real> {
    /// Answers the problem.
    ///
    /// # Errors
    /// Where the question is wrong or a device fails. Stopping early is not an error: see
    /// [`Status`](crate::Status).
    fn solve<'p, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
    ) -> Result<Solution<'p, T, C>, Error>;

    /// Answers many problems, as many at a time as there are cores: answers in the order of the problems, and to the last bit those
    /// of [`solve`](Self::solve). Where a question is wrong its own place says so, and the others are answered all the same. A time
    /// limit is each problem's own; a progress callback hears of all of them.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, Exact, Marginals, Problem, Solver};
    /// let tables = [[0.0, 1.0, 1.0, 0.0], [3.0, 1.0, 1.0, 3.0], [0.0, f64::NAN, 1.0, 0.0]];
    /// let pose = |t| Problem::new(Dense::new(t, 2, 2)?, Marginals::uniform(2, 2)?);
    /// let problems = tables.iter().map(|t| pose(t)).collect::<Result<Vec<_>, _>>()?;
    /// let answers = Exact::new().solve_all(&problems);
    /// assert_eq!(answers[1].as_ref().map(|a| a.objective()), Ok(1.0));
    /// assert!(answers[0].is_ok() && answers[2].is_err());
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    fn solve_all<'p, C: Cost<T>>(
        &self,
        problems: &'p [Problem<T, C>],
    ) -> Vec<Result<Solution<'p, T, C>, Error>>
    where
        Self: Sync,
    {
        map_ranges(problems.len(), 1, |one| self.solve(&problems[one.start]))
    }
}

/// Where a solver stands; handed to the progress callback.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Iterations (sweeps or pivots) done so far.
    pub iteration: usize,
    /// L1 error of the column sums over the total mass; for an exact solver the share of mass that is
    /// not yet placed.
    pub violation: f64,
    /// The entropic regularisation in force; zero for an exact solver.
    pub epsilon: f64,
    /// How much of the work is done, from 0 to 1 and never less than before: an estimate, for a bar to show. An entropic solver
    /// counts the orders of magnitude between the first violation and the tolerance, an exact one the mass that is
    /// placed or the part of the first gap that is closed.
    pub done: f64,
    /// An upper bound of what the plan at hand costs more than the optimum; +∞ where none is known yet, as
    /// for entropic solvers, whose certificate says it in the end.
    pub gap: f64,
}

impl Progress {
    /// Progress of an entropic solver: sweeps so far, violation now and at the beginning, and where it has to get to.
    pub(crate) fn entropic(
        iteration: usize,
        violation: f64,
        first: f64,
        tolerance: f64,
        epsilon: f64,
    ) -> Self {
        let way = (first / tolerance).ln();
        let done = if way > 0.0 {
            (first / violation).ln() / way
        } else {
            1.0
        };
        Self {
            iteration,
            violation,
            epsilon,
            // A NaN is no progress.
            done: if done > 0.0 { done.min(1.0) } else { 0.0 },
            gap: f64::INFINITY,
        }
    }
}

type Callback = dyn Fn(&Progress) -> ControlFlow<()> + Send + Sync;

/// How the caller wants a solve to be watched and stopped: options of every solver.
#[derive(Clone, Default)]
pub(crate) struct Watch {
    callback: Option<Arc<Callback>>,
    limit: Option<Duration>,
}

impl Watch {
    /// Another progress callback.
    pub(crate) fn call(
        &mut self,
        callback: impl Fn(&Progress) -> ControlFlow<()> + Send + Sync + 'static,
    ) {
        self.callback = Some(Arc::new(callback));
    }

    /// Another time limit.
    pub(crate) fn limit(&mut self, limit: Duration) {
        self.limit = Some(limit);
    }

    /// Starts the clock of one solve of a problem, for the whole team where one holds it: if any member watches, all stop
    /// where one of them is told to.
    pub(crate) fn begin_over<'a>(&'a self, shard: Option<&'a Shard>) -> Result<Guard<'a>, Error> {
        let guard = self.begin();
        let Some(shard) = shard else {
            return guard;
        };
        let guard = shard.agree(guard)?;
        let watches = self.callback.is_some() || self.limit.is_some();
        let any = shard.largest(f64::from(u8::from(watches)))? > 0.0;
        Ok(Guard {
            shard: any.then_some(shard),
            ..guard
        })
    }

    /// Starts the clock of one solve.
    pub(crate) fn begin(&self) -> Result<Guard<'_>, Error> {
        let clock = match self.limit {
            None => None,
            Some(limit) => Some(Clock::start(limit)?),
        };
        Ok(Guard {
            callback: self.callback.as_deref(),
            clock,
            shard: None,
            stopped: Arc::default(),
            done: AtomicU64::new(0),
        })
    }
}

/// Options that are a field and nothing else, as methods of a solver: `name: type` under its documentation.
macro_rules! options {
    ($($(#[$meta:meta])* $name:ident: $type:ty,)*) => {$(
        $(#[$meta])*
        pub fn $name(mut self, $name: $type) -> Self {
            self.$name = $name;
            self
        }
    )*};
}
pub(crate) use options;

/// How every solver is watched and stopped: `on_progress` and `time_limit`, each under its documentation, of a solver that keeps
/// a [`Watch`].
macro_rules! watched {
    ($(#[$called:meta])* on_progress, $(#[$limited:meta])* time_limit $(,)?) => {
        $(#[$called])*
        pub fn on_progress(
            mut self,
            callback: impl Fn(&$crate::Progress) -> core::ops::ControlFlow<()> + Send + Sync + 'static,
        ) -> Self {
            self.watch.call(callback);
            self
        }

        $(#[$limited])*
        ///
        /// # Errors
        /// On a target without a clock (`wasm32-unknown-unknown`) solving is refused with [`Error::Option`](crate::Error::Option).
        pub fn time_limit(mut self, limit: core::time::Duration) -> Self {
            self.watch.limit(limit);
            self
        }
    };
}
pub(crate) use watched;

/// The two questions every solver answers, `solve` and `solve_from`, as shells around the body that is compiled once for each
/// scalar, and the trait that asks the first.
macro_rules! solves {
    ($solver:ident by $body:ident, $(#[$cold:meta])* solve, $(#[$warm:meta])* solve_from $(,)?) => {
        impl $solver {
            $(#[$cold])*
            pub fn solve<'p, T: $crate::Real, C: $crate::Cost<T>>(
                &self,
                problem: &'p $crate::Problem<T, C>,
            ) -> Result<$crate::Solution<'p, T, C>, $crate::Error> {
                let answer = T::$body(self, &problem.erased(), None)?;
                Ok($crate::Solution::of(problem, answer))
            }

            $(#[$warm])*
            pub fn solve_from<'p, T: $crate::Real, C: $crate::Cost<T>>(
                &self,
                problem: &'p $crate::Problem<T, C>,
                start: &$crate::Potentials,
            ) -> Result<$crate::Solution<'p, T, C>, $crate::Error> {
                let answer = T::$body(self, &problem.erased(), Some(start))?;
                Ok($crate::Solution::of(problem, answer))
            }
        }

        impl<T: $crate::Real> $crate::Solver<T> for $solver {
            fn solve<'p, C: $crate::Cost<T>>(
                &self,
                problem: &'p $crate::Problem<T, C>,
            ) -> Result<$crate::Solution<'p, T, C>, $crate::Error> {
                self.solve(problem)
            }
        }
    };
}
pub(crate) use solves;

/// A callback cannot be written down; a time limit can.
#[cfg(feature = "serde")]
impl serde::Serialize for Watch {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.limit.serialize(serializer)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Watch {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self {
            callback: None,
            limit: Option::deserialize(deserializer)?,
        })
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("callback", &self.callback.is_some())
            .field("limit", &self.limit)
            .finish()
    }
}

/// Watches over one solve, with all its levels and attempts.
pub(crate) struct Guard<'a> {
    callback: Option<&'a Callback>,
    clock: Option<Clock>,
    /// Those who are to agree on stopping.
    shard: Option<&'a Shard>,
    stopped: Arc<AtomicBool>,
    /// The largest share done that was reported, as bits: of numbers from 0 to 1 the larger has the larger bits.
    done: AtomicU64,
}

impl Guard<'_> {
    /// Nobody watches.
    pub(crate) fn nobody() -> Guard<'static> {
        Guard {
            callback: None,
            clock: None,
            shard: None,
            stopped: Arc::default(),
            done: AtomicU64::new(0),
        }
    }

    /// Whether a progress report would reach anybody: only then is it worth making.
    pub(crate) fn is_watched(&self) -> bool {
        self.callback.is_some()
    }

    /// Reports and says whether to stop. Once it was yes it stays yes, and nobody is asked again.
    pub(crate) fn says_stop(&self, progress: &Progress) -> bool {
        if self.is_stopped() {
            return true;
        }
        let report = |call: &Callback| {
            let done = progress.done.clamp(0.0, 1.0).to_bits();
            let before = self.done.fetch_max(done, Ordering::Relaxed);
            let done = f64::from_bits(before.max(done));
            call(&Progress { done, ..*progress }).is_break()
        };
        let mut stop = self.is_late() || self.callback.is_some_and(report);
        if let Some(shard) = self.shard {
            let told = shard.largest(f64::from(u8::from(stop)));
            stop = told.map_or(true, |told| told > 0.0);
        }
        if stop {
            self.stopped.store(true, Ordering::Relaxed);
        }
        stop
    }

    /// Whether it is time to stop, by the clock or because somebody has asked to before; asks nobody.
    pub(crate) fn is_over(&self) -> bool {
        if !self.is_stopped() && self.shard.is_none() && self.is_late() {
            self.stopped.store(true, Ordering::Relaxed);
        }
        self.is_stopped()
    }

    /// The same question, for long work that knows nothing of guards.
    pub(crate) fn interrupt(&self) -> Interrupt {
        // Clocks of a team differ: only what all have agreed on interrupts it.
        let clock = self.clock.filter(|_| self.shard.is_none());
        let stopped = Arc::clone(&self.stopped);
        Interrupt::by(move || {
            stopped.load(Ordering::Relaxed) || clock.as_ref().is_some_and(Clock::is_over)
        })
    }

    /// How much time there is left, where it is limited.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let left = self.clock.as_ref().and_then(Clock::left);
        if self.is_stopped() {
            return Some(Duration::ZERO);
        }
        left
    }

    /// Whether somebody has asked to stop, without asking anybody.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn is_late(&self) -> bool {
        self.clock.as_ref().is_some_and(Clock::is_over)
    }
}

impl fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("stopped", &self.is_stopped())
            .finish_non_exhaustive()
    }
}

/// A deadline. The bare `wasm32-unknown-unknown` has no clock: there a time limit is refused.
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
#[derive(Clone, Copy)]
struct Clock(Option<std::time::Instant>);

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
impl Clock {
    fn start(limit: Duration) -> Result<Self, Error> {
        // A limit beyond what the clock can count is none.
        Ok(Self(std::time::Instant::now().checked_add(limit)))
    }

    fn is_over(&self) -> bool {
        self.0.is_some_and(|end| std::time::Instant::now() >= end)
    }

    fn left(&self) -> Option<Duration> {
        self.0
            .map(|end| end.saturating_duration_since(std::time::Instant::now()))
    }
}

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
#[derive(Clone, Copy)]
struct Clock;

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
impl Clock {
    fn start(limit: Duration) -> Result<Self, Error> {
        Err(Error::Option {
            name: "time_limit",
            value: limit.as_secs_f64(),
            expected: "left out: this target has no clock",
        })
    }

    fn is_over(&self) -> bool {
        false
    }

    fn left(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn one_break_is_enough() {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let mut watch = Watch::default();
        watch.call(move |_| {
            if count.fetch_add(1, Ordering::Relaxed) == 1 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        let guard = watch.begin().unwrap();
        let at = Progress::entropic(0, 1.0, 1.0, 1e-6, 0.1);
        assert!(!guard.says_stop(&at));
        assert!(guard.says_stop(&at) && guard.says_stop(&at) && guard.is_stopped());
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn time_runs_out() {
        let mut watch = Watch::default();
        watch.limit(Duration::ZERO);
        let at = Progress::entropic(0, 1.0, 1.0, 1e-6, 0.1);
        assert!(watch.begin().unwrap().says_stop(&at));
        watch.limit(Duration::MAX);
        assert!(!watch.begin().unwrap().says_stop(&at));
    }

    #[test]
    fn orders_of_magnitude_are_the_way() {
        let done = |violation| Progress::entropic(3, violation, 1.0, 1e-6, 0.1).done;
        assert_eq!((done(1.0), done(1e-6), done(1e-9)), (0.0, 1.0, 1.0));
        assert!((done(1e-3) - 0.5).abs() < 1e-12 && done(f64::NAN) == 0.0 && done(2.0) == 0.0);
    }
}
