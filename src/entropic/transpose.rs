//! The answer to a wide problem, from that to the tall one it is when turned round.
//!
//! Solvers work on the column potentials. Where there are many more columns than rows, the transposed question has
//! far fewer unknowns.

use crate::cost::Reduced;
use crate::entropic::outcome::{Outcome, answer};
use crate::entropic::precision as digits;
use crate::entropic::semidual::{ROUNDING_SIDES, SemiDual, Verdict, verdict};
use crate::problem::check::Survey;
use crate::sweep::{Backend, Streamed};
use crate::{Cost, Error, Problem, Real, Solution, Status};

/// Turns the entropic answer to the transposed problem back: one sweep the right way round makes the rows exact again,
/// which can only lower the violation, but for rounding. What the sweep measures decides the status anew; it is no
/// iteration and is not counted as one.
pub(crate) fn transposed_back<'p, T: Real, C: Cost<T>>(
    problem: &'p Problem<T, C>,
    survey: &Survey,
    tolerance: f64,
    other: Solution<'_, T, &dyn Cost<T>>,
) -> Result<Solution<'p, T, C>, Error> {
    let (status, iterations, epsilon) = (other.status(), other.iterations(), other.epsilon());
    let mut semidual = SemiDual::new(problem.marginals());
    let mut g = semidual.fit(columns(&other, epsilon)?);
    semidual.set_lift(-other.lift());
    semidual.snap(epsilon, &mut g);
    let mut sums = vec![0.0; g.len()];
    let masses = problem.marginals().rows();
    let mut measured = |backend: &mut dyn Backend| {
        measure(
            backend,
            &mut semidual,
            epsilon,
            &mut g,
            &mut sums,
            tolerance,
        )
    };
    let needed = digits::needed(
        problem.cost(),
        problem.marginals(),
        survey,
        epsilon,
        tolerance,
    );
    let (mut violation, mut verdict) = match &needed {
        Some(reduced) => measured(&mut Streamed::new(reduced, masses))?,
        None => measured(&mut Streamed::new(problem.cost(), masses))?,
    };
    if status == Status::Converged && verdict != Verdict::Met && needed.is_none() {
        // It was met the other way round: a more careful look is worth it before it is taken back.
        let reduced = Reduced::new(problem.cost(), problem.marginals().has_anchored_rows());
        (violation, verdict) = measured(&mut Streamed::new(&reduced, masses))?;
    }
    let status = match (status, verdict) {
        // Its own steps would have ended here.
        (Status::IterationLimit | Status::Stalled, Verdict::Met) => Status::Converged,
        (Status::Converged, Verdict::Blurred | Verdict::Missed) => Status::Stalled,
        _ => status,
    };
    let outcome = Outcome {
        g,
        epsilon,
        status,
        iterations,
        violation,
        sums,
    };
    Ok(answer(problem, &semidual, outcome))
}

/// What one sweep at `g` (slack last) says: the violation, and what that is worth.
pub(crate) fn measure(
    backend: &mut dyn Backend,
    semidual: &mut SemiDual,
    epsilon: f64,
    g: &mut [f64],
    sums: &mut [f64],
    tolerance: f64,
) -> Result<(f64, Verdict), Error> {
    if semidual.is_relaxed() {
        semidual.clip(epsilon, g);
        backend.obey(semidual.row_law());
    }
    backend.sweep(&semidual.dual_point(epsilon, g), sums)?;
    if semidual.is_relaxed() {
        semidual.respond(backend, epsilon, g, sums, &mut vec![0.0; g.len()])?;
    }
    semidual.add_slack_row(epsilon, g, sums);
    let violation = semidual.violation(sums);
    let verdict = verdict(violation, backend.resolution(), tolerance, ROUNDING_SIDES);
    Ok((violation, verdict))
}

/// Column potentials of the problem, slack last: the row potentials of its transpose. Only their differences matter, so
/// that what all of them have in common is taken off before it costs digits.
fn columns<T: Real>(
    other: &Solution<'_, T, &dyn Cost<T>>,
    epsilon: f64,
) -> Result<Vec<f64>, Error> {
    let problem = other.problem();
    let (slack, masses) = (problem.marginals().slack(), problem.marginals().rows());
    let found = other.columns();
    let point = found.dual_point(epsilon, slack);
    let mut g = vec![0.0; masses.len()];
    let relaxed = problem.marginals().is_relaxed();
    let reduced = Reduced::new(
        problem.cost(),
        slack.col > 0.0 || slack.row > 0.0 || relaxed,
    );
    let law = problem.marginals().row_law().lifted(other.lift());
    point.reduced_row_potentials(&reduced, &law, masses, &mut g)?;
    // Bounded potentials are what they are: a constant is not theirs to lose.
    let bounded = problem.marginals().has_bounded_potentials();
    let first = reduced.minima().first().filter(|_| !bounded);
    let first = first.copied().unwrap_or(0.0);
    for (g, least) in g.iter_mut().zip(reduced.minima()) {
        *g += least - first;
    }
    g.push(found.slack_row);
    let common = g.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if common.is_finite() && !bounded {
        g.iter_mut().for_each(|g| *g -= common);
    }
    Ok(g)
}
