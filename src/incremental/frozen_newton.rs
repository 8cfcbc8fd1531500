//! Newton steps with a curvature of some time ago.
//!
//! ```text
//! Δ = ε H⁻¹ (b − colsum),        H = diag(colsum) − Σ_i P_i P_iᵀ / a_i   at an earlier solve
//! ```
//!
//! When a few rows have been replaced the column sums are known without a sweep and the curvature has
//! hardly changed: its factor of last time gives a step of nearly the same quality for a triangular
//! solve, and one plain sweep tells how good it was. Only where such a step gains too little is the
//! curvature taken anew, and only where a fresh one does not help either is the problem left to the
//! method that always gets there, [`descend`](crate::entropic::newton::descend).

use crate::Error;
use crate::entropic::newton::Step;
use crate::entropic::semidual::SemiDual;
use crate::sweep::Curvature;

/// Steps before the problem counts as too hard for this.
const MOST_STEPS: usize = 6;

/// What a step must leave of the violation at most, for its curvature to be used once more.
const LEAST_GAIN: f64 = 0.5;

/// Damping that only fixes the gauge.
const GAUGE_DAMPING: f64 = 1e-11;

/// No step longer than this many ε: further away the curvature says little.
const LONGEST_STEP: f64 = 16.0;

/// The point that is improved.
pub(crate) struct Point<'a> {
    /// Potentials, slack last.
    pub(crate) g: &'a mut Vec<f64>,
    /// Column sums at `g`, the slack row's share included.
    pub(crate) sums: &'a mut Vec<f64>,
}

/// Steps from the point until it is within `tolerance`; the number of sweeps taken, and the violation
/// reached, which is above the tolerance where this is not the way.
pub(crate) fn improve(
    backend: &mut dyn Curvature,
    semidual: &SemiDual,
    step: &mut Step,
    epsilon: f64,
    tolerance: f64,
    point: Point<'_>,
) -> Result<(usize, f64), Error> {
    let Point { g, sums } = point;
    let mut sweeps = 0;
    let mut violation = semidual.violation(sums);
    let mut renew = !step.is_factored();
    let (mut trial, mut trial_sums) = (g.clone(), sums.clone());
    let mut slack_row = vec![0.0; g.len()];
    for _ in 0..MOST_STEPS {
        let renewed = renew;
        if renew {
            let at = semidual.dual_point(epsilon, g);
            backend.sweep_with_curvature(&at, &mut trial_sums, &mut step.outer)?;
            sweeps += 1;
            if step.interrupt.is_due() {
                break;
            }
            sums.copy_from_slice(&trial_sums);
            if semidual.slack.row > 0.0 {
                semidual.slack_row(epsilon, g, &mut slack_row);
                sums.iter_mut().zip(&slack_row).for_each(|(s, p)| *s += p);
                step.add_row(&slack_row, semidual.slack.row);
            }
            violation = semidual.violation(sums);
            if violation <= tolerance || !step.factorise(&semidual.demands, sums, GAUGE_DAMPING) {
                break;
            }
        }
        if !step.direct(&semidual.demands, sums, epsilon, f64::INFINITY) {
            break;
        }
        let (middle, shrink) = tame(&step.delta, &semidual.demands, LONGEST_STEP * epsilon);
        for ((t, &g), &d) in trial.iter_mut().zip(g.iter()).zip(&step.delta) {
            *t = g + shrink * (d - middle);
        }
        backend.sweep(&semidual.dual_point(epsilon, &trial), &mut trial_sums)?;
        sweeps += 1;
        if semidual.slack.row > 0.0 {
            semidual.slack_row(epsilon, &trial, &mut slack_row);
            trial_sums
                .iter_mut()
                .zip(&slack_row)
                .for_each(|(s, p)| *s += p);
        }
        let reached = semidual.violation(&trial_sums);
        let better = reached < violation;
        let much_better = reached <= LEAST_GAIN * violation;
        if better {
            core::mem::swap(g, &mut trial);
            core::mem::swap(sums, &mut trial_sums);
            violation = reached;
        }
        renew = !much_better;
        if violation <= tolerance || (renewed && !better) {
            break;
        }
    }
    if renew {
        // Good enough for now, but the next solve would gain as little.
        step.forget();
    }
    Ok((sweeps, violation))
}

/// What to take off a step and then multiply it by so that it goes up as far as down and no further than
/// `longest`. A common shift changes nothing, but rounding in the sums can make it large.
fn tame(delta: &[f64], demands: &[f64], longest: f64) -> (f64, f64) {
    let moving = delta.iter().zip(demands).filter(|(_, w)| **w > 0.0);
    let (low, high) = moving.fold(
        (f64::INFINITY, f64::NEG_INFINITY),
        |(low, high), (&d, _)| (low.min(d), high.max(d)),
    );
    if low > high {
        return (0.0, 1.0);
    }
    let stride = 0.5 * (high - low);
    (
        0.5 * (low + high),
        if stride > longest {
            longest / stride
        } else {
            1.0
        },
    )
}
