//! The solvers as the laws see them: how to make one, and how close its answers must be.

use earthmover::{Cost, Epsilon, Error, Kernel, Potentials, Problem, Real, Solution, Solver};

pub use earthmover::{Entropic, Exact, NetworkSimplex, Newton, ShortestPaths, Sinkhorn};

/// The regularisation of the laws. Costs are from 0 to about 3.
pub const EPSILON: f64 = 0.1;

/// What `f32` resolves without help from `f64`, and what `f64` does.
pub fn tolerance<T: Real>() -> f64 {
    if T::epsilon().widen() > 1e-10 {
        1e-5
    } else {
        1e-10
    }
}

/// A solver under test.
pub trait Method<T: Real>: Solver<T> + Sized {
    /// The regularisation it solves at; zero for exact solvers.
    const EPSILON: f64;
    /// Most iterations it may take to see that a warm start is the answer already.
    const GLANCE: usize;

    fn make() -> Self;

    fn solve_from<'p, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        start: &Potentials,
    ) -> Result<Solution<'p, T, C>, Error>;

    fn is_exact() -> bool {
        Self::EPSILON == 0.0
    }
}

/// A method by delegation: a name, what it wraps, how that is made.
macro_rules! wrapped {
    ($($(#[$doc:meta])* $name:ident($inner:ty), $glance:literal, $make:expr;)*) => {$(
        $(#[$doc])*
        pub struct $name($inner);

        impl<T: Real> Solver<T> for $name {
            fn solve<'p, C: Cost<T>>(&self, problem: &'p Problem<T, C>) -> Result<Solution<'p, T, C>, Error> {
                self.0.solve(problem)
            }
        }

        impl<T: Real> Method<T> for $name {
            const EPSILON: f64 = EPSILON;
            const GLANCE: usize = $glance;
            fn make() -> Self {
                Self($make.tolerance(tolerance::<T>()))
            }
            fn solve_from<'p, C: Cost<T>>(&self, problem: &'p Problem<T, C>, start: &Potentials) -> Result<Solution<'p, T, C>, Error> {
                self.0.solve_from(problem, start)
            }
        }
    )*};
}

wrapped! {
    /// Exponentials kept, whatever the cost.
    Stored(Sinkhorn), 2, Sinkhorn::new(EPSILON).kernel(Kernel::Stored);
    /// ε from large to small. A warm start is spoilt by the first stages, so nothing is asked of it.
    Annealed(Sinkhorn), 10_000, Sinkhorn::new(Epsilon::Annealed { from: 1.0, to: EPSILON, factor: 3.0 });
}

/// The library's own solvers: a name, its ε, what a glance takes, how it is made.
macro_rules! own {
    ($($name:ident, $epsilon:expr, $glance:literal, $make:expr;)*) => {$(
        impl<T: Real> Method<T> for $name {
            const EPSILON: f64 = $epsilon;
            const GLANCE: usize = $glance;
            fn make() -> Self {
                $make
            }
            fn solve_from<'p, C: Cost<T>>(&self, problem: &'p Problem<T, C>, start: &Potentials) -> Result<Solution<'p, T, C>, Error> {
                self.solve_from(problem, start)
            }
        }
    )*};
}

own! {
    // One sweep, and one more in `f64` where `f32` cannot tell.
    Sinkhorn, EPSILON, 2, Self::new(EPSILON).tolerance(tolerance::<T>());
    // A wide problem is solved turned over, and swept once more the right way round.
    Newton, EPSILON, 2, Self::new(EPSILON).tolerance(tolerance::<T>());
    Entropic, EPSILON, 2, Self::new(EPSILON).tolerance(tolerance::<T>());
    // Ties leave a few pivots of no mass.
    NetworkSimplex, 0.0, 12, Self::new();
    // Rounds, most of which find nothing to do.
    ShortestPaths, 0.0, 30, Self::new();
    Exact, 0.0, 30, Self::new();
}
