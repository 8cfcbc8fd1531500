//! Conditional gradient: step by step towards the plan that is best for the gradient.

use super::GromovWasserstein;
use super::objective::{Found, FoundPlan, Objective};
use crate::kernel::tiles::pooled;
use crate::solver::Guard;
use crate::{Entry, Error, Progress, Status};

/// A plan on the way.
struct State<I> {
    background: f64,
    entries: Vec<Entry>,
    image: I,
    linear: f64,
    /// ⟨A(P), P⟩.
    quadratic: f64,
}

/// Descent below this share of the scale is what rounding leaves.
const ROUNDING: f64 = 1e-15;

pub(super) fn run<O: Objective>(
    solver: &GromovWasserstein,
    objective: &O,
    start: usize,
    guard: &Guard<'_>,
) -> Result<Found, Error> {
    let tolerance = solver.tolerance.unwrap_or(1e-9) * objective.scale();
    let mut state = pooled(|| begin(solver, objective, start, guard))?;
    let value = |s: &State<O::Image>| objective.constant() + s.linear - s.quadratic;
    let mut prices = None;
    // The last vertex and its image, from which the next one's follows.
    let mut last: Option<(Vec<Entry>, O::Image)> =
        (state.background == 0.0).then(|| (state.entries.clone(), state.image.clone()));
    let (mut gap, mut iterations, mut idle) = (f64::INFINITY, 0, 0);
    let status = loop {
        if iterations >= solver.max_iterations {
            break Status::IterationLimit;
        }
        let progress = Progress {
            iteration: iterations,
            violation: 0.0,
            epsilon: 0.0,
            done: (iterations as f64 / solver.max_iterations as f64).min(1.0),
            gap,
        };
        if guard.says_stop(&progress) {
            break Status::Stopped;
        }
        let vertex = pooled(|| objective.oracle(&state.image, &mut prices, guard))?;
        if guard.is_over() {
            // It was cut short, perhaps before it was feasible.
            break Status::Stopped;
        }
        iterations += 1;
        let linear = objective.linear(&vertex);
        let cross = objective.inner(&state.image, &vertex);
        // ⟨∇E(P), P − D⟩: no feasible direction descends faster.
        gap = ((state.linear - 2.0 * state.quadratic) - (linear - 2.0 * cross)).max(0.0);
        if gap <= tolerance {
            break Status::Converged;
        }
        let before = last.as_ref().map(|(plan, image)| (&plan[..], image));
        let image = pooled(|| objective.image(&vertex, before));
        let quadratic = objective.inner(&image, &vertex);
        // E along the way: value + slope t + curvature t².
        let slope = -gap;
        let curvature = -(quadratic - 2.0 * cross + state.quadratic);
        let step = if curvature > 0.0 {
            (-slope / (2.0 * curvature)).min(1.0)
        } else {
            1.0
        };
        let descent = -(slope * step + curvature * step * step);
        idle = if descent <= ROUNDING * objective.scale() {
            idle + 1
        } else {
            0
        };
        if idle > 1 {
            break Status::Stalled;
        }
        advance(
            objective,
            &mut state,
            &vertex,
            (&image, linear, quadratic, cross),
            step,
        );
        last = Some((vertex, image));
    };
    let mut value = value(&state);
    if state.background == 0.0 {
        value = objective.direct(&state.entries).unwrap_or(value);
    }
    Ok(Found {
        value: value.max(0.0).max(value),
        status,
        iterations,
        stationarity: gap,
        plan: FoundPlan::Sparse {
            background: state.background,
            entries: state.entries,
        },
    })
}

fn begin<O: Objective>(
    solver: &GromovWasserstein,
    objective: &O,
    start: usize,
    guard: &Guard<'_>,
) -> Result<State<O::Image>, Error> {
    let entries = match guard.is_over() {
        true => None,
        false => objective.start(start, solver.seed, guard)?,
    };
    // Where time ran out it may not have become a plan; the product always is one.
    let Some(entries) = entries.filter(|_| !guard.is_over()) else {
        let (background, image, linear, quadratic) = objective.product();
        return Ok(State {
            background,
            entries: Vec::new(),
            image,
            linear,
            quadratic,
        });
    };
    let image = objective.image(&entries, None);
    Ok(State {
        background: 0.0,
        linear: objective.linear(&entries),
        quadratic: objective.inner(&image, &entries),
        entries,
        image,
    })
}

/// Goes the share `step` of the way to a vertex.
fn advance<O: Objective>(
    objective: &O,
    state: &mut State<O::Image>,
    vertex: &[Entry],
    (image, linear, quadratic, cross): (&O::Image, f64, f64, f64),
    step: f64,
) {
    let rest = 1.0 - step;
    state.background *= rest;
    state.linear = rest * state.linear + step * linear;
    state.quadratic =
        rest * rest * state.quadratic + 2.0 * rest * step * cross + step * step * quadratic;
    if step == 1.0 {
        state.image = image.clone();
        state.entries = vertex.to_vec();
        return;
    }
    objective.mix(&mut state.image, image, step);
    let scaled = |share: f64| {
        move |e: &Entry| Entry {
            mass: share * e.mass,
            ..*e
        }
    };
    let mut all: Vec<Entry> = state.entries.iter().map(scaled(rest)).collect();
    all.extend(vertex.iter().map(scaled(step)));
    all.sort_by_key(|e| (e.row, e.col));
    all.dedup_by(|next, kept| {
        let same = (next.row, next.col) == (kept.row, kept.col);
        if same {
            kept.mass += next.mass;
        }
        same
    });
    all.retain(|e| e.mass > 0.0);
    state.entries = all;
}
