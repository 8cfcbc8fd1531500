//! The front door for exact answers: one solver that picks the way.
//!
//! Both ways solve every problem exactly and say the same about it; they differ in what they are fast
//! at. With m the shorter side and n the longer:
//!
//! * [`Contracted`] works on the graph of the shorter side, about √n rounds of O(m²) after passes of
//!   O(n m): unbeatable where one side is short, as in label allocation.
//! * [`NetworkSimplex`] works on a tree of all rows and columns, about n pivots of some rows each:
//!   better for square problems.

use core::ops::ControlFlow;

use crate::solver::Observer;
use crate::{
    Contracted, Cost, Error, NetworkSimplex, Potentials, Problem, Progress, Real, Solution, Solver,
};

/// How an exact answer is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Way {
    /// The faster of the others for the shape of the problem.
    #[default]
    Auto,
    /// [`NetworkSimplex`].
    Simplex,
    /// [`Contracted`].
    Contracted,
}

/// The exact solver for any problem.
///
/// # Examples
/// ```
/// use earthmover::{Dense, Exact, Marginals, Problem};
/// let cost = Dense::new(&[0.0, 1.0, 0.2, 1.0, 0.5, 0.6], 3, 2)?;
/// let problem = Problem::new(cost, Marginals::balanced(&[1.0, 1.0, 1.0], &[1.0, 2.0])?)?;
/// let solution = Exact::new().solve(&problem)?;
/// assert!((solution.objective() - 1.6).abs() < 1e-12);
/// assert!(solution.certificate().relative_gap() < 1e-12);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Exact {
    way: Way,
    max_iterations: Option<usize>,
    observer: Option<Observer>,
}

impl Exact {
    /// Runs to the optimum, by the way that suits the shape.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Which way to go; [`Way::Auto`] by default.
    #[must_use]
    pub fn way(mut self, way: Way) -> Self {
        self.way = way;
        self
    }

    /// Most iterations (pivots, or rounds of shortest paths); unlimited by default.
    #[must_use]
    pub fn max_iterations(mut self, iterations: usize) -> Self {
        self.max_iterations = Some(iterations);
        self
    }

    /// Called now and then; may stop the solver. Nobody is called by default.
    #[must_use]
    pub fn on_progress(
        mut self,
        callback: impl Fn(&Progress) -> ControlFlow<()> + Send + Sync + 'static,
    ) -> Self {
        self.observer = Some(Observer::new(callback));
        self
    }

    /// Answers the problem.
    ///
    /// # Errors
    /// [`Error::Cost`] for a cost that is NaN or −∞, [`Error::Blocked`] where a row or column that
    /// carries mass has no allowed pair, [`Error::Infeasible`] where the forbidden pairs together leave
    /// no way.
    pub fn solve<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
    ) -> Result<Solution<'p, T, C>, Error> {
        match self.way_for(problem.rows(), problem.cols()) {
            Way::Contracted => self.contracted().solve(problem),
            _ => self.simplex().solve(problem),
        }
    }

    /// Answers the problem starting from potentials that are believed to be near the optimal ones.
    ///
    /// # Errors
    /// As [`solve`](Self::solve), [`Error::Length`] for potentials of another shape and
    /// [`Error::Start`] where one is NaN or +∞.
    pub fn solve_from<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        start: &Potentials,
    ) -> Result<Solution<'p, T, C>, Error> {
        match self.way_for(problem.rows(), problem.cols()) {
            Way::Contracted => self.contracted().solve_from(problem, start),
            _ => self.simplex().solve_from(problem, start),
        }
    }

    /// The way that [`solve`](Self::solve) goes for a problem of this shape; never [`Way::Auto`].
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Exact, Way};
    /// assert_eq!(Exact::new().way_for(50_000, 10), Way::Contracted);
    /// assert_eq!(Exact::new().way_for(10, 50_000), Way::Contracted);
    /// assert_eq!(Exact::new().way_for(2_000, 2_000), Way::Simplex);
    /// ```
    #[must_use]
    pub fn way_for(&self, rows: usize, cols: usize) -> Way {
        if self.way != Way::Auto {
            return self.way;
        }
        let (long, short) = (rows.max(cols), rows.min(cols));
        if short <= long / SHORT_SIDE {
            Way::Contracted
        } else {
            Way::Simplex
        }
    }

    fn simplex(&self) -> NetworkSimplex {
        let mut solver = NetworkSimplex::new();
        if let Some(cap) = self.max_iterations {
            solver = solver.max_iterations(cap);
        }
        if let Some(observer) = self.observer.clone() {
            solver = solver.on_progress(move |p| pass_on(&observer, p));
        }
        solver
    }

    fn contracted(&self) -> Contracted {
        let mut solver = Contracted::new();
        if let Some(cap) = self.max_iterations {
            solver = solver.max_iterations(cap);
        }
        if let Some(observer) = self.observer.clone() {
            solver = solver.on_progress(move |p| pass_on(&observer, p));
        }
        solver
    }
}

/// One side counts as short where it is this many times shorter than the other.
const SHORT_SIDE: usize = 16;

fn pass_on(observer: &Observer, progress: &Progress) -> ControlFlow<()> {
    if Observer::says_stop(Some(observer), progress) {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

impl<T: Real> Solver<T> for Exact {
    fn solve<'p, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
    ) -> Result<Solution<'p, T, C>, Error> {
        Exact::solve(self, problem)
    }
}
