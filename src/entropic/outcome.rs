//! Where an entropic solver ends, and the answer made of it.

use crate::entropic::semidual::SemiDual;
use crate::solution::plan::Representation;
use crate::sweep::Backend;
use crate::{Cost, Error, Potentials, Problem, Real, Solution, Status};

/// Where a driver ended: column potentials, slack last. The backend's last sweep was at `g`.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) g: Vec<f64>,
    pub(crate) epsilon: f64,
    pub(crate) status: Status,
    pub(crate) iterations: usize,
    pub(crate) violation: f64,
    /// Column sums at `g`, the slack row's share included, slack column last.
    pub(crate) sums: Vec<f64>,
}

/// Whether a backend has the shape of a problem.
pub(crate) fn check_shape<T: Real, C: Cost<T>>(
    problem: &Problem<T, C>,
    backend: &dyn Backend,
) -> Result<(), Error> {
    let shape = [
        ("backend rows", problem.rows(), backend.rows()),
        ("backend columns", problem.cols(), backend.cols()),
    ];
    for (what, expected, found) in shape {
        if expected != found {
            return Err(Error::Length {
                what,
                expected,
                found,
            });
        }
    }
    Ok(())
}

/// Whether a backend can keep the rows' law.
pub(crate) fn check_law<T: Real, C: Cost<T>>(
    problem: &Problem<T, C>,
    backend: &mut dyn Backend,
) -> Result<(), Error> {
    let law = problem.marginals().row_law();
    if backend.obey(&law) {
        return Ok(());
    }
    let solver = backend.name();
    Err(Error::Penalised { solver })
}

pub(crate) fn check_tolerance(tolerance: f64) -> Result<(), Error> {
    if tolerance.is_finite() && tolerance > 0.0 {
        return Ok(());
    }
    Err(Error::Option {
        name: "tolerance",
        value: tolerance,
        expected: "a number above zero",
    })
}

/// Makes an answer of the column potentials a driver ended with; the row side follows from them.
pub(crate) fn answer<'p, T: Real, C: Cost<T>>(
    problem: &'p Problem<T, C>,
    semidual: &SemiDual,
    outcome: Outcome,
) -> Solution<'p, T, C> {
    let Outcome {
        g,
        epsilon,
        status,
        iterations,
        violation,
        ..
    } = outcome;
    Solution::new(
        problem,
        potentials(semidual, &g, epsilon),
        Representation::Gibbs {
            epsilon,
            lift: semidual.lift(),
        },
        status,
        iterations,
        // Where digits are gone the solver's own number may be one of those: the certificate measures it anew.
        (status != Status::Stalled).then_some(violation),
    )
}

/// The answer of a solver that was allowed no sweep: where it would have started. How far off that is shows when asked.
pub(crate) fn unswept<'p, T: Real, C: Cost<T>>(
    problem: &'p Problem<T, C>,
    semidual: &SemiDual,
    g: Vec<f64>,
    epsilon: f64,
) -> Solution<'p, T, C> {
    Solution::new(
        problem,
        potentials(semidual, &g, epsilon),
        Representation::Gibbs {
            epsilon,
            lift: semidual.lift(),
        },
        Status::IterationLimit,
        0,
        None,
    )
}

/// Column potentials (slack last) and the slack row's that follows, as an answer keeps them.
fn potentials(semidual: &SemiDual, g: &[f64], epsilon: f64) -> Potentials {
    let k = g.len() - 1;
    let slack_row = if semidual.slack.row > 0.0 {
        semidual.slack_row(epsilon, g, &mut vec![0.0; k + 1])
    } else {
        f64::NEG_INFINITY
    };
    Potentials {
        rows: Vec::new(),
        slack_col: g[k],
        cols: g[..k].to_vec(),
        slack_row,
    }
}

/// ε, 1/ε and some hundred times either must be numbers one can calculate with.
pub(crate) fn check_epsilon(epsilon: f64) -> Result<f64, Error> {
    if (1e-300..=1e300).contains(&epsilon) {
        return Ok(epsilon);
    }
    Err(Error::Option {
        name: "epsilon",
        value: epsilon,
        expected: "a number from 1e-300 to 1e300",
    })
}
