//! Entropic Gromov–Wasserstein: a plan that is the entropic answer to its own gradient.
//!
//! P ← the plan with the least ⟨∇E(P), ·⟩ − ε entropy, over and over: each step is projected mirror descent, and a fixed point is
//! stationary for E less ε times the entropy. ε comes down from a share of the gradient's spread, since far from the
//! answer a sharp plan only commits itself too early; each inner solve goes on from the last one's prices, and only as far as the
//! plan still moves.

use super::GromovWasserstein;
use super::objective::{Found, Objective, Smooth, Step};
use crate::kernel::tiles::pooled;
use crate::solver::Guard;
use crate::{Error, Progress, Status};

/// ε comes down by this factor, from this share of the spread.
const COOLING: f64 = 0.25;
const FIRST_EPSILON: f64 = 0.05;

/// Above the last ε a plan that moves by less than this, or has moved so often, is good enough.
const STAGE_TOLERANCE: f64 = 0.05;
const STAGE_STEPS: usize = 3;

/// Inner solves go on to this share of the last change, and to half of the tolerance at most: more sweeps would save no step.
const INNER_SHARE: f64 = 0.02;
const STAGE_INNER: f64 = 1e-2;

/// Images follow each other in single precision; once all but this share of the plan stands they are worked out anew, and from there
/// on follow changes that are too small to show.
const SETTLED: f64 = 1e-2;

pub(super) fn run<O: Objective>(
    solver: &GromovWasserstein,
    objective: &O,
    epsilon: f64,
    start: usize,
    guard: &Guard<'_>,
) -> Result<Found, Error> {
    let tolerance = solver.tolerance.unwrap_or(1e-6);
    let (mut image, from_product) = pooled(|| begin(solver, objective, start, guard))?;
    // A start that says something is not to be forgotten at a large ε.
    let highest =
        objective.spread(&image) * FIRST_EPSILON * if from_product { 1.0 } else { COOLING };
    let mut now = epsilon.max(if highest.is_finite() {
        highest
    } else {
        epsilon
    });
    let mut last: Option<Smooth<O>> = None;
    let (mut iterations, mut steps, mut change) = (0, 0, 1.0f64);
    // By how much plans have moved since an image was last worked out anew.
    let mut followed = f64::INFINITY;
    let status = loop {
        let at_last = now <= epsilon;
        let settled = at_last && change <= SETTLED.max(tolerance);
        let step = Step {
            epsilon: now,
            tolerance: if at_last {
                (INNER_SHARE * change).clamp((0.5 * tolerance).min(STAGE_INNER), STAGE_INNER)
            } else {
                STAGE_INNER
            },
            roughly: !(settled && followed > SETTLED),
            guard,
        };
        let next = pooled(|| objective.smooth(&image, &step, last.as_ref()))?;
        iterations += 1;
        steps += 1;
        change = next.change;
        followed = if step.roughly { followed + change } else { 0.0 };
        let inner_status = next.status;
        image = next.image.clone();
        last = Some(next);
        if at_last && change <= tolerance && followed <= 2.0 * SETTLED {
            break if inner_status.is_converged() {
                Status::Converged
            } else {
                inner_status
            };
        }
        if iterations >= solver.max_iterations {
            break Status::IterationLimit;
        }
        let progress = Progress {
            iteration: iterations,
            violation: change,
            epsilon: now,
            done: (change.ln() / tolerance.ln()).clamp(0.0, 1.0),
            gap: f64::INFINITY,
        };
        if guard.says_stop(&progress) {
            break Status::Stopped;
        }
        if !at_last && (change <= STAGE_TOLERANCE || steps == STAGE_STEPS) {
            let cooler = now * COOLING;
            now = if cooler < 1.5 * epsilon {
                epsilon
            } else {
                cooler
            };
            steps = 0;
        }
    };
    let Some(last) = last else {
        return Err(Error::Empty { rows: 0, cols: 0 });
    };
    Ok(Found {
        value: objective.constant() + last.linear - last.quadratic,
        status,
        iterations,
        stationarity: change,
        plan: last.plan,
    })
}

/// The image to start from, and whether it is that of the product.
fn begin<O: Objective>(
    solver: &GromovWasserstein,
    objective: &O,
    start: usize,
    guard: &Guard<'_>,
) -> Result<(O::Image, bool), Error> {
    let entries = objective.start(start, solver.seed, guard)?;
    Ok(match entries.filter(|_| !guard.is_over()) {
        None => (objective.product().1, true),
        Some(entries) => (objective.image(&entries, None), false),
    })
}
