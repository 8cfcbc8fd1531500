//! Getting down to a small ε from afar.
//!
//! At small ε the semi-dual is nearly piecewise linear: Newton's model holds over steps of a few ε only, and
//! a start that is many ε away takes many of them. A larger ε sees further. So: try; where it does not
//! converge in a few sweeps, climb to a larger ε until it does, then come back down, halving the way (in
//! logarithm) where a stage is too far.

use super::ascent::{Limits, ascend};
use crate::entropic::outcome::{Best, Outcome};
use crate::entropic::semidual::{SemiDual, Verdict, verdict};
use crate::entropic::transpose::measure;
use crate::sweep::Curvature;
use crate::{Error, Status};

/// Sweeps to try before a stage counts as too far.
const TRIAL_SWEEPS: usize = 12;

/// Factor between stages on the way up.
const STAGE_FACTOR: f64 = 4.0;

/// How well a stage has to place the mass: even the smallest of the masses asked for, or the next stage down starts far away
/// for them.
fn rough(semidual: &SemiDual) -> f64 {
    let demands = semidual.asked().iter().copied().filter(|w| *w > 0.0);
    let least = demands.fold(f64::INFINITY, f64::min);
    (0.2 * least / semidual.total).min(0.05)
}

/// Ascends at `epsilon`, by way of larger ones where that is needed. Cut short, it hands back the best point it has met there.
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
    let mut stages = vec![epsilon];
    let mut solved: Option<f64> = None;
    let mut best = Best::at(epsilon);
    loop {
        let here = stages.last().copied().unwrap_or(epsilon);
        let last = stages.len() <= 1;
        // No stage is left between here and the last one solved: stay until it is done.
        let patient = solved.is_some_and(|s| s < 1.2 * here)
            || here > 1e12 * epsilon
            || here >= limits.ceiling;
        // On the way one sweep is kept, to say in the end how far off that is at the ε asked for.
        let most = limits.max_iterations - usize::from(!last);
        // Another stage takes a sweep there and one back here.
        let cap = if patient || iterations + TRIAL_SWEEPS + 2 > most {
            most
        } else {
            iterations + TRIAL_SWEEPS
        };
        let stage = Limits {
            tolerance: if last { limits.tolerance } else { rough },
            max_iterations: cap,
            ..*limits
        };
        let outcome = ascend(backend, semidual, g, here, iterations, &stage, &mut best)?;
        iterations = outcome.iterations;
        // Stalled: the scalar has no more digits, which no other ε would give it.
        let done = matches!(outcome.status, Status::Converged | Status::Stalled);
        if (last && done) || iterations >= most || outcome.status == Status::Stopped {
            let end = if last {
                outcome
            } else {
                at_last(backend, semidual, outcome, epsilon, limits)?
            };
            return Ok(best.or(semidual, end));
        }
        g = outcome.g;
        if done {
            solved = Some(here);
            stages.pop();
        } else {
            stages.push(match solved {
                // Not the root of the product, which may be no number.
                Some(above) => here.sqrt() * above.sqrt(),
                None => here * STAGE_FACTOR,
            });
        }
    }
}

/// Cut short on the way: one more sweep says how far off that is at the ε that was asked for.
fn at_last(
    backend: &mut dyn Curvature,
    semidual: &mut SemiDual,
    end: Outcome,
    epsilon: f64,
    limits: &Limits<'_>,
) -> Result<Outcome, Error> {
    let Outcome {
        mut g, mut sums, ..
    } = end;
    let tolerance = limits.tolerance;
    let (violation, _) = measure(backend, semidual, epsilon, &mut g, &mut sums, tolerance)?;
    let status = match verdict(violation, backend.resolution(), tolerance, limits.margin) {
        Verdict::Met => Status::Converged,
        Verdict::Blurred => Status::Stalled,
        Verdict::Missed if limits.guard.is_over() => Status::Stopped,
        Verdict::Missed => Status::IterationLimit,
    };
    Ok(Outcome {
        g,
        epsilon,
        status,
        iterations: end.iterations + 1,
        violation,
        sums,
    })
}
