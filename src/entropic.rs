//! One front door for entropic answers.
//!
//! | problem | way | why |
//! | --- | --- | --- |
//! | a side of at most [`Entropic::FEW`] | [`Newton`] | curvature and factorisation cost nothing beside the sweep |
//! | few entries of a row visible at this ε, one side much smaller | [`Newton`] | the curvature is sparse and a handful of sweeps suffice |
//! | the same at a very small ε, a side of at most [`Entropic::MANY`] | [`Newton`] | first-order steps would need thousands of sweeps |
//! | otherwise | [`Sinkhorn`], accelerated | a sweep of a stored kernel runs near memory speed |
//!
//! How many entries are visible is estimated from a few rows: those within 14 ε of the row's best. With `v`
//! of them a curvature costs v² a row and a factorisation k³/3 in all, against k a row for a sweep. Sinkhorn
//! is annealed down to an ε far below the costs' spread.
//!
//! Measured, in milliseconds to 1e-4 (label allocations of 20,000 rows, ρ = 0.9, `f32`) and 1e-6 (squares of
//! points in the unit square, `f64`), on two cores that had other work too:
//!
//! | | Newton | Sinkhorn | chosen |
//! | --- | --- | --- | --- |
//! | 20,000 × 8, ε = 0.01 | 6 | 33 | Newton |
//! | 20,000 × 64, ε = 0.01 | 36 | 88 | Newton |
//! | 10,000 × 256, ε = 0.01 | 97 to 167 | 174 | Newton |
//! | 20,000 × 16 and × 64, ε = 0.2 | 47, 84 | 14, 22 | Newton: the price of being safe at few columns |
//! | 100 × 100, ε = 0.001 | 3 | 16 | Newton |
//! | 400 × 400, ε = 0.001 | 143 | 15 | Sinkhorn |
//! | 1,000 × 1,000, ε = 0.05 and 0.001 | 6,239, 886 | 26, 190 | Sinkhorn |

use core::ops::ControlFlow;

use crate::newton::Outlook;

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
    /// Smaller side up to which Newton's method is always used.
    pub const FEW: usize = 16;

    /// Smaller side up to which Newton's method is used at a very small ε.
    pub const MANY: usize = 1024;

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

    /// Whether Newton's method is what this problem asks for.
    fn few<T: Real, C: Cost<T>>(&self, problem: &Problem<T, C>) -> bool {
        let (rows, cols) = (problem.rows(), problem.cols());
        let (small, large) = (rows.min(cols), rows.max(cols));
        if small <= Self::FEW {
            return true;
        }
        let outlook = if cols <= rows {
            Outlook::new(problem.cost(), self.epsilon)
        } else {
            Outlook::new(problem.transposed().cost(), self.epsilon)
        };
        let sparse = outlook.visible * outlook.visible <= 4.0 * small as f64;
        let lopsided = small.saturating_mul(small) <= large.saturating_mul(150);
        let deep = small <= Self::MANY && outlook.spread > 3_000.0 * self.epsilon;
        sparse && (lopsided || deep)
    }

    /// Solves from rest.
    ///
    /// # Errors
    /// As [`Sinkhorn::solve`].
    pub fn solve<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
    ) -> Result<Solution<'p, T, C>, Error> {
        if self.few(problem) {
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
        if self.few(problem) {
            return self.newton.solve_from(problem, start);
        }
        self.sinkhorn.solve_from(problem, start)
    }

    /// Sinkhorn, annealed where ε is far below what the costs span.
    fn annealed<T: Real, C: Cost<T>>(&self, problem: &Problem<T, C>) -> Sinkhorn {
        let from = Outlook::new(problem.cost(), self.epsilon).spread / FAR;
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
