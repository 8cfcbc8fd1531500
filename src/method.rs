//! A solver chosen while the program runs.

use core::fmt;
use core::ops::ControlFlow;
use core::str::FromStr;
use core::time::Duration;

use crate::{
    Cost, Entropic, Epsilon, Error, Exact, NetworkSimplex, Newton, Potentials, Problem, Progress,
    Real, ShortestPaths, Sinkhorn, Solution, Solver,
};

/// Any of the solvers, for programs that learn which one from their user.
///
/// Read from a name, with ε after a colon where the method has one: `exact`, `network-simplex`, `shortest-paths`,
/// `entropic:0.01`, `newton:0.01`, `sinkhorn:0.01`, `sinkhorn:1..0.01/4` (annealed from 1 to 0.01, divided by 4 from stage
/// to stage). [`Display`](fmt::Display) writes it the same way; other options are set on the solvers.
///
/// Costs are chosen at run time as `&dyn Cost<T>`, which is itself a [`Cost`].
///
/// # Examples
/// ```
/// use earthmover::{Cost, Dense, FromFn, Marginals, Method, Problem};
///
/// let (table, rule) = (Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2)?, FromFn::new(2, 2, |i, j| (i + j) as f64)?);
/// let costs: [&dyn Cost<f64>; 2] = [&table, &rule];
/// for cost in costs {
///     for name in ["exact", "shortest-paths", "entropic:0.05"] {
///         let method: Method = name.parse()?;
///         let problem = Problem::new(cost, Marginals::uniform(2, 2)?)?;
///         assert!(method.solve(&problem)?.status().is_converged());
///         assert_eq!(method.to_string(), name);
///     }
/// }
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
#[must_use]
pub enum Method {
    /// The exact solver that suits the shape.
    Exact(Exact),
    /// The network simplex.
    NetworkSimplex(NetworkSimplex),
    /// Successive shortest paths.
    ShortestPaths(ShortestPaths),
    /// The entropic solver that suits the problem.
    Entropic(Entropic),
    /// Sinkhorn's iteration.
    Sinkhorn(Sinkhorn),
    /// Newton's method.
    Newton(Newton),
}

/// The same expression for whichever solver it is.
macro_rules! whichever {
    ($method:expr, $solver:ident => $then:expr) => {
        match $method {
            Method::Exact($solver) => $then,
            Method::NetworkSimplex($solver) => $then,
            Method::ShortestPaths($solver) => $then,
            Method::Entropic($solver) => $then,
            Method::Sinkhorn($solver) => $then,
            Method::Newton($solver) => $then,
        }
    };
}

impl Method {
    /// Answers the problem.
    ///
    /// # Errors
    /// Those of the solver.
    pub fn solve<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
    ) -> Result<Solution<'p, T, C>, Error> {
        whichever!(self, solver => solver.solve(problem))
    }

    /// Answers the problem from the potentials of another answer.
    ///
    /// # Errors
    /// Those of the solver.
    pub fn solve_from<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        start: &Potentials,
    ) -> Result<Solution<'p, T, C>, Error> {
        whichever!(self, solver => solver.solve_from(problem, start))
    }

    /// Calls back as the solver goes on; [`ControlFlow::Break`] stops it. Default: none.
    pub fn on_progress(
        self,
        callback: impl Fn(&Progress) -> ControlFlow<()> + Send + Sync + 'static,
    ) -> Self {
        whichever!(self, solver => solver.on_progress(callback).into())
    }

    /// Stops when this much time has passed. Default: never.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, Marginals, Method, Problem, Status};
    /// let problem = Problem::new(Dense::new(&[0.0, 3.0, 1.0, 0.0], 2, 2)?, Marginals::uniform(2, 2)?)?;
    /// let hasty = "sinkhorn:1".parse::<Method>()?.time_limit(std::time::Duration::ZERO);
    /// assert_eq!(hasty.solve(&problem)?.status(), Status::Stopped);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn time_limit(self, limit: Duration) -> Self {
        whichever!(self, solver => solver.time_limit(limit).into())
    }

    /// Most iterations, in the solver's own unit. Default: the solver's.
    pub fn max_iterations(self, iterations: usize) -> Self {
        whichever!(self, solver => solver.max_iterations(iterations).into())
    }

    /// Error of the column sums at which an entropic method stops; exact ones have no use for it. Default: the solver's.
    pub fn tolerance(self, tolerance: f64) -> Self {
        match self {
            Self::Entropic(solver) => solver.tolerance(tolerance).into(),
            Self::Sinkhorn(solver) => solver.tolerance(tolerance).into(),
            Self::Newton(solver) => solver.tolerance(tolerance).into(),
            exact => exact,
        }
    }
}

macro_rules! from {
    ($($solver:ident),*) => {$(
        impl From<$solver> for Method {
            fn from(solver: $solver) -> Self {
                Self::$solver(solver)
            }
        }
    )*};
}

from!(
    Exact,
    NetworkSimplex,
    ShortestPaths,
    Entropic,
    Sinkhorn,
    Newton
);

impl<T: Real> Solver<T> for Method {
    fn solve<'p, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
    ) -> Result<Solution<'p, T, C>, Error> {
        Self::solve(self, problem)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(_) => f.write_str("exact"),
            Self::NetworkSimplex(_) => f.write_str("network-simplex"),
            Self::ShortestPaths(_) => f.write_str("shortest-paths"),
            Self::Entropic(solver) => write!(f, "entropic:{}", solver.regularisation()),
            Self::Newton(solver) => write!(f, "newton:{}", solver.regularisation()),
            Self::Sinkhorn(solver) => match solver.regularisation() {
                Epsilon::Fixed(epsilon) => write!(f, "sinkhorn:{epsilon}"),
                Epsilon::Annealed { from, to, factor } => {
                    write!(f, "sinkhorn:{from}..{to}/{factor}")
                }
            },
        }
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let unknown = || Error::Method {
            given: name.to_owned(),
        };
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| unknown());
        let (kind, epsilon) = match name.split_once(':') {
            Some((kind, epsilon)) => (kind, Some(epsilon)),
            None => (name, None),
        };
        match (kind.trim(), epsilon) {
            ("exact", None) => Ok(Exact::new().into()),
            ("network-simplex", None) => Ok(NetworkSimplex::new().into()),
            ("shortest-paths", None) => Ok(ShortestPaths::new().into()),
            ("entropic", Some(epsilon)) => Ok(Entropic::new(number(epsilon)?).into()),
            ("newton", Some(epsilon)) => Ok(Newton::new(number(epsilon)?).into()),
            ("sinkhorn", Some(epsilon)) => match epsilon.split_once("..") {
                None => Ok(Sinkhorn::new(number(epsilon)?).into()),
                Some((from, rest)) => {
                    let (to, factor) = rest.split_once('/').ok_or_else(unknown)?;
                    let (from, to, factor) = (number(from)?, number(to)?, number(factor)?);
                    Ok(Sinkhorn::new(Epsilon::Annealed { from, to, factor }).into())
                }
            },
            _ => Err(unknown()),
        }
    }
}
