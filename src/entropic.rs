//! One front door for entropic answers.
//!
//! | shape | way | why |
//! | --- | --- | --- |
//! | few rows or few columns | [`Newton`] | second order in the smaller side; a handful of sweeps |
//! | both sides large | [`Sinkhorn`], accelerated | a sweep of a stored kernel runs near memory speed, a factorisation would not |
//!
//! Newton's factorisation is cubic in the smaller side, a sweep is the product of both. Where they meet was
//! measured: see [`Entropic::FEW`]. A cost computed on the fly makes a sweep dearer and moves the border up.
//! At an ε far below the costs' spread Sinkhorn is annealed down to it.

use core::ops::ControlFlow;

use crate::{
    Cost, Epsilon, Error, Newton, Potentials, Problem, Progress, Real, Sinkhorn, Solution, Solver,
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
#[must_use]
pub struct Entropic {
    epsilon: f64,
    sinkhorn: Sinkhorn,
    newton: Newton,
}

impl Entropic {
    /// Smallest side up to which Newton's method is used.
    pub const FEW: usize = 128;

    /// A solver at this regularisation, in the units of the cost.
    pub fn new(epsilon: f64) -> Self {
        Self {
            epsilon,
            sinkhorn: Sinkhorn::new(epsilon),
            newton: Newton::new(epsilon),
        }
    }

    /// L1 error of the column sums, relative to the total mass, at which to stop. Default `1e-6`.
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.sinkhorn = self.sinkhorn.tolerance(tolerance);
        self.newton = self.newton.tolerance(tolerance);
        self
    }

    /// Most sweeps over the problem. Default: that of the solver chosen.
    pub fn max_iterations(mut self, sweeps: usize) -> Self {
        self.sinkhorn = self.sinkhorn.max_iterations(sweeps);
        self.newton = self.newton.max_iterations(sweeps);
        self
    }

    /// Calls back after every sweep over the problem; [`ControlFlow::Break`] stops.
    pub fn on_progress(
        mut self,
        callback: impl Fn(&Progress) -> ControlFlow<()> + Clone + Send + Sync + 'static,
    ) -> Self {
        self.sinkhorn = self.sinkhorn.on_progress(callback.clone());
        self.newton = self.newton.on_progress(callback);
        self
    }

    /// Whether Newton's method is what this shape asks for.
    fn few<T: Real, C: Cost<T>>(problem: &Problem<T, C>) -> bool {
        let (small, large) = (
            problem.rows().min(problem.cols()),
            problem.rows().max(problem.cols()),
        );
        small <= Self::FEW || small.saturating_mul(16) <= large
    }

    /// Solves from rest.
    ///
    /// # Errors
    /// As [`Sinkhorn::solve`].
    pub fn solve<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
    ) -> Result<Solution<'p, T, C>, Error> {
        if Self::few(problem) {
            return self.newton.solve(problem);
        }
        self.annealed(problem).solve(problem)
    }

    /// Solves from the column potentials of an earlier answer to a similar problem.
    ///
    /// # Errors
    /// As [`Sinkhorn::solve_from`].
    pub fn solve_from<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        start: &Potentials,
    ) -> Result<Solution<'p, T, C>, Error> {
        if Self::few(problem) {
            return self.newton.solve_from(problem, start);
        }
        self.sinkhorn.solve_from(problem, start)
    }

    /// Sinkhorn, annealed where ε is far below what the costs span.
    fn annealed<T: Real, C: Cost<T>>(&self, problem: &Problem<T, C>) -> Sinkhorn {
        let from = crate::newton::spread(problem.cost()) / FAR;
        if self.epsilon.is_normal() && self.epsilon > 0.0 && from > self.epsilon && from.is_finite()
        {
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

/// A spread of the costs of this many ε is reached directly as fast as by annealing.
const FAR: f64 = 300.0;

impl<T: Real> Solver<T> for Entropic {
    fn solve<'p, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
    ) -> Result<Solution<'p, T, C>, Error> {
        Self::solve(self, problem)
    }
}
