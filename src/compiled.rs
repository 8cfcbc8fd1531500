//! What the library compiles once for each scalar, whatever costs its users bring.
//!
//! A solver takes a [`Problem`](crate::Problem) over any type of cost, and a generic function is compiled anew for each of
//! them, in the crate that calls it. So the public functions are shells: they hide the type of the cost behind
//! `&dyn Cost<T>` and call one of the functions below, which stand in the library as they are. A cost is asked for
//! a tile or a row at a time, so that the detour costs nothing that could be measured.

use crate::certificate::{Certificate, certify};
use crate::newton::Outlook;
use crate::plan::Shape;
use crate::problem::Erased;
use crate::solution::Answer;
use crate::sweep::{Backend, Curvature};
use crate::{
    Contracted, Entropic, Error, Exact, NetworkSimplex, Newton, Potentials, Real, Sinkhorn,
};

/// Which solver.
#[derive(Debug, Clone, Copy)]
#[allow(unreachable_pub)]
pub enum Method<'a> {
    Sinkhorn(&'a Sinkhorn),
    Newton(&'a Newton),
    Entropic(&'a Entropic),
    NetworkSimplex(&'a NetworkSimplex),
    Contracted(&'a Contracted),
    Exact(&'a Exact),
}

/// The functions, for a scalar.
#[allow(unreachable_pub)]
pub trait Compiled: Sized + 'static {
    fn solve(
        method: Method<'_>,
        problem: &Erased<'_, Self>,
        start: Option<&Potentials>,
    ) -> Result<Answer, Error>;

    fn sinkhorn_on(
        solver: &Sinkhorn,
        problem: &Erased<'_, Self>,
        backend: &mut dyn Backend,
    ) -> Result<Answer, Error>;

    fn newton_on(
        solver: &Newton,
        problem: &Erased<'_, Self>,
        backend: &mut dyn Curvature,
    ) -> Result<Answer, Error>;

    fn certify(problem: &Erased<'_, Self>, potentials: &Potentials, shape: &Shape) -> Certificate;

    fn row_potentials(problem: &Erased<'_, Self>, cols: &Potentials, epsilon: f64) -> Vec<f64>;

    /// How far costs are apart in a typical row.
    fn spread(problem: &Erased<'_, Self>, epsilon: f64) -> f64;
}

fn solve<T: Real>(
    method: Method<'_>,
    problem: &Erased<'_, T>,
    start: Option<&Potentials>,
) -> Result<Answer, Error> {
    let solution = match method {
        Method::Sinkhorn(solver) => solver.answer(problem, start),
        Method::Newton(solver) => solver.answer(problem, start),
        Method::Entropic(solver) => solver.answer(problem, start),
        Method::NetworkSimplex(solver) => solver.answer(problem, start),
        Method::Contracted(solver) => solver.answer(problem, start),
        Method::Exact(solver) => solver.answer(problem, start),
    };
    Ok(solution?.into_answer())
}

fn row_potentials<T: Real>(
    problem: &Erased<'_, T>,
    potentials: &Potentials,
    epsilon: f64,
) -> Vec<f64> {
    let masses = problem.marginals();
    let gibbs = potentials.gibbs(epsilon, masses.slack());
    let mut rows = vec![0.0; problem.rows()];
    gibbs.row_potentials(problem.cost(), masses.rows(), &mut rows);
    rows
}

macro_rules! compiled {
    ($($scalar:ty),*) => {$(
        impl Compiled for $scalar {
            fn solve(
                method: Method<'_>,
                problem: &Erased<'_, Self>,
                start: Option<&Potentials>,
            ) -> Result<Answer, Error> {
                solve(method, problem, start)
            }

            fn sinkhorn_on(
                solver: &Sinkhorn,
                problem: &Erased<'_, Self>,
                backend: &mut dyn Backend,
            ) -> Result<Answer, Error> {
                Ok(solver.answer_on(problem, backend)?.into_answer())
            }

            fn newton_on(
                solver: &Newton,
                problem: &Erased<'_, Self>,
                backend: &mut dyn Curvature,
            ) -> Result<Answer, Error> {
                Ok(solver.answer_on(problem, backend)?.into_answer())
            }

            fn certify(problem: &Erased<'_, Self>, potentials: &Potentials, shape: &Shape) -> Certificate {
                certify(problem, potentials, shape)
            }

            fn row_potentials(problem: &Erased<'_, Self>, cols: &Potentials, epsilon: f64) -> Vec<f64> {
                row_potentials(problem, cols, epsilon)
            }

            fn spread(problem: &Erased<'_, Self>, epsilon: f64) -> f64 {
                Outlook::new(problem.cost(), epsilon).spread
            }
        }
    )*};
}

compiled!(f32, f64);
