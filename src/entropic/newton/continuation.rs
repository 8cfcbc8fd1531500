//! Getting down to a small ε from afar.
//!
//! At small ε the semi-dual is nearly piecewise linear: Newton's model holds over steps of a few ε only, and
//! a start that is many ε away takes many of them. A larger ε sees further. So: try; where it does not
//! converge in a few sweeps, climb to a larger ε until it does, then come back down, halving the way (in
//! logarithm) where a rung is too far.

use super::ascent::{Limits, ascend};
use crate::entropic::outcome::Outcome;
use crate::entropic::semidual::SemiDual;
use crate::sweep::Curvature;
use crate::{Error, Status};

/// Sweeps to try before a rung counts as too far.
const TRY: usize = 12;

/// Factor between rungs on the way up.
const RUNG: f64 = 4.0;

/// How well a rung has to place the mass: even the smallest of the masses demands, or the next rung down starts far away
/// for them.
fn rough(semidual: &SemiDual) -> f64 {
    let demands = semidual.asked().iter().copied().filter(|w| *w > 0.0);
    let least = demands.fold(f64::INFINITY, f64::min);
    (0.2 * least / semidual.total).min(0.05)
}

/// Ascends at `epsilon`, by way of larger ones where that is needed. The backend's last sweep is at the
/// outcome's potentials.
pub(crate) fn descend(
    backend: &mut dyn Curvature,
    semidual: &mut SemiDual,
    g: Vec<f64>,
    epsilon: f64,
    spent: usize,
    limits: &Limits<'_>,
) -> Result<Outcome, Error> {
    let rough = limits.tolerance.max(rough(semidual));
    let mut g = semidual.centred(g);
    let mut iterations = spent;
    let mut rungs = vec![epsilon];
    let mut solved: Option<f64> = None;
    loop {
        let here = rungs.last().copied().unwrap_or(epsilon);
        let last = rungs.len() <= 1;
        // No rung is left between here and the last one solved: stay until it is done.
        let patient = solved.is_some_and(|s| s < 1.2 * here)
            || here > 1e12 * epsilon
            || here >= limits.ceiling;
        // On the way one sweep is kept, to say in the end how far off that is at the ε asked for.
        let most = limits.max_iterations - usize::from(!last);
        // Another rung takes a sweep there and one back here.
        let cap = if patient || iterations + TRY + 2 > most {
            most
        } else {
            iterations + TRY
        };
        let rung = Limits {
            tolerance: if last { limits.tolerance } else { rough },
            max_iterations: cap,
            ..*limits
        };
        let outcome = ascend(backend, semidual, g, here, iterations, &rung)?;
        iterations = outcome.iterations;
        let done = match outcome.status {
            // Stalled: the scalar has no more digits, which no other ε would give it.
            Status::Converged | Status::Stalled => true,
            Status::Stopped if last => return Ok(outcome),
            Status::Stopped => return at_last(backend, semidual, outcome, epsilon, limits),
            Status::IterationLimit => false,
        };
        if (last && done) || iterations >= most {
            return if last {
                Ok(outcome)
            } else {
                at_last(backend, semidual, outcome, epsilon, limits)
            };
        }
        g = outcome.g;
        if done {
            solved = Some(here);
            rungs.pop();
        } else {
            rungs.push(match solved {
                // Not the root of the product, which may be no number.
                Some(above) => here.sqrt() * above.sqrt(),
                None => here * RUNG,
            });
        }
    }
}

/// Cut short on the way: one more sweep says how far off that is at the ε that was asked for.
fn at_last(
    backend: &mut dyn Curvature,
    semidual: &mut SemiDual,
    cut: Outcome,
    epsilon: f64,
    limits: &Limits<'_>,
) -> Result<Outcome, Error> {
    let end = Limits {
        max_iterations: 0,
        ..*limits
    };
    ascend(backend, semidual, cut.g, epsilon, cut.iterations, &end)
}
