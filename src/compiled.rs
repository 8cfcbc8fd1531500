//! What the library compiles once for each scalar, whatever costs its users bring.
//!
//! A solver takes a [`Problem`](crate::Problem) over any type of cost, and a generic function is compiled anew for each of
//! them, in the crate that calls it. So the public functions are shells: they hide the type of the cost behind
//! `&dyn Cost<T>` and call one of the functions below, which stand in the library as they are. A cost is asked for
//! a tile or a row at a time, so that the detour costs nothing that could be measured.
//!
//! This is the top floor, and the one place that the others reach by way of the scalar ([`Real`](crate::Real) has these
//! functions): a question asks whether forbidden pairs strand mass, an answer has its plan repaired, and both are work
//! for the exact solvers above them.

use crate::barycenter::Parts;
use crate::cost::Copied;
use crate::entropic::probe::CostProbe;
use crate::exact::offsets::Offsets;
use crate::exact::repair::repair;
use crate::exact::simplex::stranded;
use crate::loss::gradient::{Sides, point_gradients};
use crate::loss::implicit::pull_back;
use crate::loss::value::Lines;
use crate::loss::{Comparison, Cotangent, Divergence, PullBack};
use crate::problem::Erased;
use crate::problem::whole::Whole;
use crate::solution::Answer;
use crate::solution::certificate::{Certificate, Deficient, Repaired, certify};
use crate::solution::operator::Operator;
use crate::solution::plan::Representation;
use crate::sweep::{Backend, Curvature, GridSweeps, PairSweeps};
use crate::{
    Barycenter, Cost, Entropic, Entry, Error, Exact, Marginals, NetworkSimplex, Newton, Potentials,
    Real, ShortestPaths, Sinkhorn,
};

/// The functions, for a scalar.
#[allow(unreachable_pub)]
pub trait Compiled: Sized + 'static {
    fn sinkhorn(
        solver: &Sinkhorn,
        problem: &Erased<'_, Self>,
        start: Option<&Potentials>,
    ) -> Result<Answer, Error>;

    fn newton(
        solver: &Newton,
        problem: &Erased<'_, Self>,
        start: Option<&Potentials>,
    ) -> Result<Answer, Error>;

    fn entropic(
        solver: &Entropic,
        problem: &Erased<'_, Self>,
        start: Option<&Potentials>,
    ) -> Result<Answer, Error>;

    fn network_simplex(
        solver: &NetworkSimplex,
        problem: &Erased<'_, Self>,
        start: Option<&Potentials>,
    ) -> Result<Answer, Error>;

    fn shortest_paths(
        solver: &ShortestPaths,
        problem: &Erased<'_, Self>,
        start: Option<&Potentials>,
    ) -> Result<Answer, Error>;

    fn exact(
        solver: &Exact,
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

    fn certify(
        problem: &Erased<'_, Self>,
        potentials: &Potentials,
        shape: &Representation,
    ) -> Certificate;

    fn row_potentials(
        problem: &Erased<'_, Self>,
        cols: &Potentials,
        epsilon: f64,
        lift: f64,
    ) -> Vec<f64>;

    /// P·Y and the sums of the rows.
    fn times(
        problem: &Erased<'_, Self>,
        potentials: &Potentials,
        shape: &Representation,
        y: &[f64],
        d: usize,
    ) -> (Vec<f64>, Vec<f64>);

    /// Pᵀ·X and the sums of the columns.
    fn transposed_times(
        problem: &Erased<'_, Self>,
        potentials: &Potentials,
        shape: &Representation,
        x: &[f64],
        d: usize,
    ) -> (Vec<f64>, Vec<f64>);

    /// The entries of most mass.
    fn heaviest(
        problem: &Erased<'_, Self>,
        potentials: &Potentials,
        shape: &Representation,
        count: usize,
    ) -> Vec<Entry>;

    /// Potentials less what belongs to the reference, and sums, of every line, with the gradients of points where they are wanted.
    fn lines(
        problem: &Erased<'_, Self>,
        potentials: &Potentials,
        shape: &Representation,
        wanted: Option<Sides>,
    ) -> Lines;

    /// The gradient of the value with respect to both clouds, row points first; `None` where the cost has none or its metric no
    /// derivative.
    fn point_gradients(
        problem: &Erased<'_, Self>,
        potentials: &Potentials,
        shape: &Representation,
        sides: Sides,
    ) -> Option<(Vec<f64>, Vec<f64>)>;

    /// Gradients of a function of the plan or the potentials; `None` for an exact answer.
    fn pull_back(
        problem: &Erased<'_, Self>,
        potentials: &Potentials,
        shape: &Representation,
        cotangent: &Cotangent<'_>,
    ) -> Option<PullBack>;

    /// The Sinkhorn divergence of clouds, from the costs between them and within each.
    fn divergence(
        options: &Divergence,
        costs: [&dyn Cost<Self>; 3],
        symmetric: bool,
        a: &[f64],
        b: &[f64],
    ) -> Result<Comparison, Error>;

    /// How far costs are apart in a typical row.
    fn spread(problem: &Erased<'_, Self>, epsilon: f64) -> f64;

    /// Whether all mass can go along allowed pairs at once.
    fn stranded(cost: &dyn Cost<Self>, marginals: &Marginals) -> Result<(), Error>;

    fn barycenter(
        solver: &Barycenter,
        cost: &dyn Cost<Self>,
        histograms: &[f64],
        weights: &[f64],
    ) -> Result<Parts, Error>;

    /// A feasible plan next to a deficient one, along allowed pairs.
    fn repair(problem: &Erased<'_, Self>, plan: &Deficient<'_>) -> Option<Repaired>;
}

/// Answers the question over a copy of its costs, where one of so many bytes is worth having.
fn copied<T: Real>(
    problem: &Erased<'_, T>,
    bytes: usize,
    solve: impl FnOnce(&Erased<'_, T>) -> Result<Answer, Error>,
) -> Result<Answer, Error> {
    match Copied::within(*problem.cost(), bytes) {
        Some(copy) => solve(&problem.over(&copy)),
        None => solve(problem),
    }
}

/// Answers the question on all rows, where a team holds them and every member needs the whole.
fn together<T: Real>(
    problem: &Erased<'_, T>,
    what: &'static str,
    solve: impl FnOnce(&Erased<'_, T>) -> Result<Answer, Error>,
) -> Result<Answer, Error> {
    let Some((whole, shard)) = Whole::gather(problem, what)?.zip(problem.cost().shard()) else {
        return solve(problem);
    };
    let answer = solve(&whole.problem()?.erased())?;
    Ok(answer.of_rows(shard.rows()))
}

fn row_potentials<T: Real>(
    problem: &Erased<'_, T>,
    potentials: &Potentials,
    epsilon: f64,
    lift: f64,
) -> Vec<f64> {
    let masses = problem.marginals();
    let point = potentials.dual_point(epsilon, masses.slack());
    let mut rows = vec![0.0; problem.rows()];
    let law = masses.row_law().lifted(lift);
    if let Some(grid) = problem.cost().grid() {
        let mut sweeps = GridSweeps::new(grid, masses.rows());
        sweeps.obey(&law);
        let swept = sweeps.sweep(&point, &mut vec![0.0; problem.cols() + 1]);
        if swept
            .and_then(|()| sweeps.row_potentials(&mut rows))
            .is_ok()
        {
            return rows;
        }
    }
    if let Some(pairs) = problem.cost().pairs() {
        let mut sweeps = PairSweeps::new(pairs, problem.cols(), masses.rows());
        sweeps.obey(&law);
        let swept = sweeps.sweep(&point, &mut vec![0.0; problem.cols() + 1]);
        if swept
            .and_then(|()| sweeps.row_potentials(&mut rows))
            .is_ok()
        {
            return rows;
        }
    }
    point.row_potentials(problem.cost(), &law, masses.rows(), &mut rows);
    rows
}

macro_rules! compiled {
    ($($scalar:ty),*) => {$(
        impl Compiled for $scalar {
            fn sinkhorn(
                solver: &Sinkhorn,
                problem: &Erased<'_, Self>,
                start: Option<&Potentials>,
            ) -> Result<Answer, Error> {
                copied(problem, solver.budget(problem), |p| {
                    Ok(solver.answer(p, start)?.into_answer())
                })
            }

            fn newton(
                solver: &Newton,
                problem: &Erased<'_, Self>,
                start: Option<&Potentials>,
            ) -> Result<Answer, Error> {
                let solve = |problem: &Erased<'_, Self>| {
                    copied(problem, solver.memory_budget, |p| {
                        Ok(solver.answer(p, start)?.into_answer())
                    })
                };
                if solver.transposes(problem) {
                    return together(problem, "Newton's method on these columns", solve);
                }
                solve(problem)
            }

            fn entropic(
                solver: &Entropic,
                problem: &Erased<'_, Self>,
                start: Option<&Potentials>,
            ) -> Result<Answer, Error> {
                let solve = |problem: &Erased<'_, Self>| {
                    copied(problem, solver.budget(problem), |p| {
                        Ok(solver.answer(p, start)?.into_answer())
                    })
                };
                if solver.transposes(problem) {
                    return together(problem, "a problem of more columns than rows", solve);
                }
                solve(problem)
            }

            fn network_simplex(
                solver: &NetworkSimplex,
                problem: &Erased<'_, Self>,
                start: Option<&Potentials>,
            ) -> Result<Answer, Error> {
                together(problem, "an exact answer", |problem| {
                    match Offsets::of(problem) {
                        Some(apart) => {
                            apart.answer(problem, start, |p, start| f64::network_simplex(solver, p, start))
                        }
                        None => Ok(solver.answer(problem, start)?.into_answer()),
                    }
                })
            }

            fn shortest_paths(
                solver: &ShortestPaths,
                problem: &Erased<'_, Self>,
                start: Option<&Potentials>,
            ) -> Result<Answer, Error> {
                together(problem, "an exact answer", |problem| {
                    match Offsets::of(problem) {
                        Some(apart) => {
                            apart.answer(problem, start, |p, start| f64::shortest_paths(solver, p, start))
                        }
                        None => Ok(solver.answer(problem, start)?.into_answer()),
                    }
                })
            }

            fn exact(
                solver: &Exact,
                problem: &Erased<'_, Self>,
                start: Option<&Potentials>,
            ) -> Result<Answer, Error> {
                together(problem, "an exact answer", |problem| {
                    if let Some(apart) = Offsets::of(problem) {
                        return apart.answer(problem, start, |p, start| f64::exact(solver, p, start));
                    }
                    copied(problem, solver.budget(problem), |p| {
                        Ok(solver.answer(p, start)?.into_answer())
                    })
                })
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

            fn certify(
                problem: &Erased<'_, Self>,
                potentials: &Potentials,
                shape: &Representation,
            ) -> Certificate {
                certify(problem, potentials, shape)
            }

            fn row_potentials(
                problem: &Erased<'_, Self>,
                cols: &Potentials,
                epsilon: f64,
                lift: f64,
            ) -> Vec<f64> {
                row_potentials(problem, cols, epsilon, lift)
            }

            fn times(
                problem: &Erased<'_, Self>,
                potentials: &Potentials,
                shape: &Representation,
                y: &[f64],
                d: usize,
            ) -> (Vec<f64>, Vec<f64>) {
                Operator::new(problem, potentials, shape).times(y, d)
            }

            fn transposed_times(
                problem: &Erased<'_, Self>,
                potentials: &Potentials,
                shape: &Representation,
                x: &[f64],
                d: usize,
            ) -> (Vec<f64>, Vec<f64>) {
                Operator::new(problem, potentials, shape).transposed_times(x, d)
            }

            fn heaviest(
                problem: &Erased<'_, Self>,
                potentials: &Potentials,
                shape: &Representation,
                count: usize,
            ) -> Vec<Entry> {
                Operator::new(problem, potentials, shape).heaviest(count)
            }

            fn lines(
                problem: &Erased<'_, Self>,
                potentials: &Potentials,
                shape: &Representation,
                wanted: Option<Sides>,
            ) -> Lines {
                Lines::new(problem, potentials, shape, wanted)
            }

            fn point_gradients(
                problem: &Erased<'_, Self>,
                potentials: &Potentials,
                shape: &Representation,
                sides: Sides,
            ) -> Option<(Vec<f64>, Vec<f64>)> {
                point_gradients(problem, potentials, shape, sides)
            }

            fn pull_back(
                problem: &Erased<'_, Self>,
                potentials: &Potentials,
                shape: &Representation,
                cotangent: &Cotangent<'_>,
            ) -> Option<PullBack> {
                pull_back(problem, potentials, shape, cotangent)
            }

            fn divergence(
                options: &Divergence,
                costs: [&dyn Cost<Self>; 3],
                symmetric: bool,
                a: &[f64],
                b: &[f64],
            ) -> Result<Comparison, Error> {
                options.compare(costs, symmetric, a, b)
            }

            fn spread(problem: &Erased<'_, Self>, epsilon: f64) -> f64 {
                CostProbe::new(problem.cost(), epsilon).spread
            }

            fn stranded(cost: &dyn Cost<Self>, marginals: &Marginals) -> Result<(), Error> {
                stranded(cost, marginals)
            }

            fn barycenter(
                solver: &Barycenter,
                cost: &dyn Cost<Self>,
                histograms: &[f64],
                weights: &[f64],
            ) -> Result<Parts, Error> {
                solver.answer(cost, histograms, weights)
            }

            fn repair(problem: &Erased<'_, Self>, plan: &Deficient<'_>) -> Option<Repaired> {
                repair(problem, plan)
            }
        }
    )*};
}

compiled!(f32, f64);
