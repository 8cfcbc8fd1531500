//! Entropic Gromov–Wasserstein: a plan that is the entropic answer to its own gradient.
//!
//! P ← the plan with the least ⟨∇E(P), ·⟩ − ε entropy, over and over: each step is projected mirror descent, and a fixed point is
//! stationary for E less ε times the entropy. ε comes down from a share of the gradient's spread, since far from the
//! answer a sharp plan only commits itself too early; each inner solve goes on from the last one's prices, and only as far as the
//! plan still moves.

use super::GromovWasserstein;
use super::objective::{Found, Objective, Smooth};
use crate::solver::Guard;
use crate::{Error, Progress, Status};

/// ε comes down by this factor, from this share of the spread.
const FACTOR: f64 = 0.25;
const FIRST: f64 = 0.05;

/// Above the last ε a plan that moves by less than this is still enough.
const ROUGH: f64 = 0.05;

pub(super) fn run<O: Objective>(
    solver: &GromovWasserstein,
    objective: &O,
    epsilon: f64,
    start: usize,
    guard: &Guard<'_>,
) -> Result<Found, Error> {
    let tolerance = solver.tolerance.unwrap_or(1e-6);
    let (mut image, from_product) = match objective.start(start, solver.seed)? {
        None => (objective.product().1, true),
        Some(entries) => (objective.image(&entries, None), false),
    };
    // A start that says something is not to be forgotten at a large ε.
    let highest = objective.spread(&image) * FIRST * if from_product { 1.0 } else { FACTOR };
    let mut now = epsilon.max(if highest.is_finite() {
        highest
    } else {
        epsilon
    });
    let mut last: Option<Smooth<O>> = None;
    let (mut iterations, mut change) = (0, 1.0f64);
    let status = loop {
        let at_last = now <= epsilon;
        let inner = if at_last {
            (0.02 * change).clamp(0.1 * tolerance, 1e-2)
        } else {
            1e-2
        };
        let prices = last.as_ref().map(|l| &l.potentials);
        let next = objective.smooth(&image, now, inner, prices)?;
        iterations += 1;
        change = last
            .as_ref()
            .map_or(1.0, |before| objective.change(before, &next));
        let inner_status = next.status;
        image = next.image.clone();
        last = Some(next);
        if at_last && change <= tolerance {
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
        if !at_last && (change <= ROUGH || iterations % 4 == 0) {
            now = (now * FACTOR).max(epsilon);
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
