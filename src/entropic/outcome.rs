//! Where an entropic solver ends, and the answer made of it.

use crate::entropic::semidual::SemiDual;
use crate::solution::plan::Representation;
use crate::sweep::Backend;
use crate::{Cost, Error, Marginals, Penalty, Potentials, Problem, Real, Solution, Status};

/// Where a driver ended: column potentials, slack last.
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

/// The point of least violation met at one ε. Steps that go too far are taken back later, unless the solver is stopped first: then
/// this is what it has to show.
#[derive(Debug)]
pub(crate) struct Best {
    epsilon: f64,
    violation: f64,
    g: Vec<f64>,
    sums: Vec<f64>,
    lift: f64,
}

impl Best {
    /// None yet, at the ε of the answer.
    pub(crate) fn at(epsilon: f64) -> Self {
        Self {
            epsilon,
            violation: f64::INFINITY,
            g: Vec::new(),
            sums: Vec::new(),
            lift: 0.0,
        }
    }

    /// Takes note of a point, if it is the best at this ε.
    pub(crate) fn note(
        &mut self,
        semidual: &SemiDual,
        (epsilon, violation): (f64, f64),
        g: &[f64],
        sums: &[f64],
    ) {
        if epsilon == self.epsilon && violation < self.violation {
            (self.violation, self.lift) = (violation, semidual.lift());
            self.g.clear();
            self.g.extend_from_slice(g);
            self.sums.clear();
            self.sums.extend_from_slice(sums);
        }
    }

    /// The end, or the best point where that is another one and the end is none that was wished for.
    pub(crate) fn or(self, semidual: &mut SemiDual, end: Outcome) -> Outcome {
        let is_better = self.epsilon == end.epsilon && !(end.violation <= self.violation);
        if end.status == Status::Converged || self.g.is_empty() || !is_better {
            return end;
        }
        semidual.set_lift(self.lift);
        Outcome {
            g: self.g,
            sums: self.sums,
            violation: self.violation,
            ..end
        }
    }
}

/// Whether a backend has a problem's shape.
pub(crate) fn check_shape(marginals: &Marginals, backend: &dyn Backend) -> Result<(), Error> {
    let shape = [
        ("backend rows", marginals.rows().len(), backend.rows()),
        ("backend columns", marginals.cols().len(), backend.cols()),
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
pub(crate) fn check_law(marginals: &Marginals, backend: &mut dyn Backend) -> Result<(), Error> {
    if backend.obey(&marginals.row_law()) {
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

/// A potential under KL(τ) is a share τ/(τ + ε) of what would keep the mass, and a mass its exponential over τ: beside an ε beyond all
/// digits of τ neither is a number to go by.
pub(crate) fn check_tau(marginals: &Marginals, epsilon: f64) -> Result<(), Error> {
    for penalty in [marginals.row_penalty(), marginals.col_penalty()] {
        if let Penalty::Kl(tau) = penalty
            && !(tau >= LEAST_TAU * epsilon)
        {
            return Err(Error::Option {
                name: "tau of a KL penalty",
                value: tau,
                expected: "at least 1e-15 times epsilon",
            });
        }
    }
    Ok(())
}

/// The least τ of a KL penalty, in ε.
const LEAST_TAU: f64 = 1e-15;

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
        columns(semidual, &g, epsilon),
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
        columns(semidual, &g, epsilon),
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
pub(crate) fn columns(semidual: &SemiDual, g: &[f64], epsilon: f64) -> Potentials {
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
