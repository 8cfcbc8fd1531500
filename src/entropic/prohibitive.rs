//! Large numbers for pairs that are not allowed.
//!
//! ```text
//! C_ij = M ≫ all else:      P_ij = exp((f_i + g_j − M)/ε) = 0      as if C_ij were +∞
//! ```
//!
//! Most people write a large number M where +∞ is meant. In the potentials of a start, in what the costs span and in the rounding
//! of sums it is a number like any other, and the larger it is the more digits and sweeps it takes. So the question is answered
//! with such entries forbidden, where mass has a way without them. One sweep over the costs as they are then says whether that is
//! the answer to the question that was asked; where it is not, that one is solved.

use crate::cost::{Forbidding, Reduced};
use crate::entropic::outcome::{Outcome, answer};
use crate::entropic::precision as digits;
use crate::entropic::probe::Binades;
use crate::entropic::semidual::{SemiDual, Verdict, verdict};
use crate::entropic::transpose::measure;
use crate::problem::Erased;
use crate::problem::check::{self, Survey};
use crate::sweep::{Backend, Streamed};
use crate::{Cost, Error, Real, Solution, Status};

/// What lies less than so many ε above the least cost may carry mass.
const LEAST_DISTANCE: f64 = 200.0;

/// Binades without a single cost between prices and what stands for "forbidden": a factor of some hundreds. Fewer than where
/// nothing is checked afterwards.
const EMPTY_BINADES: usize = 8;

/// Entries looked at: of so many rows, so many.
const SAMPLED_ROWS: usize = 8;
const SAMPLED_COLS: usize = 32;

/// What the solver makes of a problem at this ε and tolerance, by way of the one without pairs that are as good as forbidden.
pub(crate) fn solve<'p, 'c, T: Real>(
    problem: &'p Erased<'c, T>,
    survey: &Survey,
    asked: (f64, f64),
    solver: impl for<'q, 'd> Fn(
        &'q Erased<'d, T>,
        &Survey,
    ) -> Result<Solution<'q, T, &'d dyn Cost<T>>, Error>,
) -> Result<Solution<'p, T, &'c dyn Cost<T>>, Error> {
    match without(problem, survey, asked, &solver)? {
        Some(found) => Ok(found),
        None => solver(problem, survey),
    }
}

/// The answer where entries that stand for "forbidden" are; `None` where there are none, or mass needs them after all.
fn without<'p, 'c, T: Real>(
    problem: &'p Erased<'c, T>,
    survey: &Survey,
    (epsilon, tolerance): (f64, f64),
    solver: impl for<'q, 'd> FnOnce(
        &'q Erased<'d, T>,
        &Survey,
    ) -> Result<Solution<'q, T, &'d dyn Cost<T>>, Error>,
) -> Result<Option<Solution<'p, T, &'c dyn Cost<T>>>, Error> {
    let cost: &dyn Cost<T> = problem.cost();
    // A member of a team would judge by its own rows.
    if cost.shard().is_some() {
        return Ok(None);
    }
    let Some(limit) = limit(cost, survey, epsilon) else {
        return Ok(None);
    };
    let view = Forbidding::new(cost, limit);
    let allowed = problem.over(&view);
    // Mass that has no other way takes the dear one.
    let Ok(seen) = check::whole(&allowed) else {
        return Ok(None);
    };
    let found = solver(&allowed, &seen)?;
    let epsilon = found.epsilon();
    let mut semidual = SemiDual::new(problem.marginals());
    semidual.set_lift(found.lift());
    let columns = found.columns();
    let mut g = columns.cols.clone();
    g.push(columns.slack_col);
    let mut sums = vec![0.0; g.len()];
    let (masses, rows) = (problem.marginals(), problem.marginals().rows());
    let mut judged = |backend: &mut dyn Backend| {
        let (violation, _) = measure(
            backend,
            &mut semidual,
            epsilon,
            &mut g,
            &mut sums,
            tolerance,
        )?;
        // The margin for rounding was kept by the solver.
        let verdict = verdict(violation, backend.resolution(), tolerance, 0.0);
        Ok::<_, Error>((violation, verdict))
    };
    let needed = digits::needed(cost, masses, &seen, epsilon, tolerance);
    let (mut violation, mut verdict) = match &needed {
        Some(reduced) => judged(&mut Streamed::new(reduced, rows))?,
        None => judged(&mut Streamed::over(cost, rows))?,
    };
    if found.status() == Status::Converged && verdict != Verdict::Met && needed.is_none() {
        let reduced = Reduced::new(cost, masses.has_anchored_rows());
        (violation, verdict) = judged(&mut Streamed::new(&reduced, rows))?;
    }
    let status = match (found.status(), verdict) {
        (Status::Converged, Verdict::Blurred | Verdict::Missed) => return Ok(None),
        (Status::IterationLimit | Status::Stalled, Verdict::Met) if found.iterations() > 0 => {
            Status::Converged
        }
        (status, _) => status,
    };
    let outcome = Outcome {
        g,
        epsilon,
        status,
        iterations: found.iterations(),
        violation,
        sums,
    };
    Ok(Some(answer(problem, &semidual, outcome)))
}

/// The cost from which on entries stand for "forbidden", if a few of them and the largest of all look like it.
fn limit<T: Real>(cost: &dyn Cost<T>, survey: &Survey, epsilon: f64) -> Option<f64> {
    let reach = LEAST_DISTANCE * epsilon;
    // Whoever knows the range of the costs has worked them out from something else; whoever names the pairs needs no large numbers.
    if !(survey.range() >= reach) || cost.range().is_some() || cost.pairs().is_some() {
        return None;
    }
    let (n, k) = (cost.rows(), cost.cols());
    let (rows, cols) = (n.min(SAMPLED_ROWS), k.min(SAMPLED_COLS));
    let mut seen = Binades::new();
    seen.note(survey.range());
    for r in 0..rows {
        for c in 0..cols {
            // Not the same columns in every row: what is forbidden often follows a pattern.
            let entry = cost.at(r * n / rows, (c * k / cols + r) % k);
            seen.note(entry.widen() - survey.least);
        }
    }
    let (_, lowest) = seen.gap(EMPTY_BINADES)?;
    (lowest >= reach).then_some(survey.least + lowest)
}
