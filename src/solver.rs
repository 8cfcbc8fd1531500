//! What all solvers share: the trait, and the progress they report.

use core::fmt;
use core::ops::ControlFlow;
use std::sync::Arc;

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
}

/// Where a solver stands; handed to the progress callback.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Iterations (sweeps or pivots) done so far.
    pub iteration: usize,
    /// L1 error of the column sums over the total mass; for the exact solver the share of mass that is
    /// not yet placed.
    pub violation: f64,
    /// The entropic regularisation in force; zero for the exact solver.
    pub epsilon: f64,
}

/// A progress callback: return [`ControlFlow::Break`] to stop with the best answer so far.
#[derive(Clone)]
pub(crate) struct Observer(Arc<Callback>);

type Callback = dyn Fn(&Progress) -> ControlFlow<()> + Send + Sync;

impl Observer {
    pub(crate) fn new(
        callback: impl Fn(&Progress) -> ControlFlow<()> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(callback))
    }

    /// Whether the caller wants to stop.
    pub(crate) fn says_stop(observer: Option<&Self>, progress: &Progress) -> bool {
        observer.is_some_and(|o| (o.0)(progress).is_break())
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}
