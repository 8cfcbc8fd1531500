//! Which of two plans to keep where a solve was cut short.

use crate::solution::plan::SparseRows;
use crate::{Cost, Problem, Real, Solution};

/// Mass that a plan leaves unplaced, as a share of the total and rounded away where it is rounding; then what the plan costs:
/// the less the better, in this order. Slack takes what rows and columns lack, as far as it goes and is allowed to.
pub(super) fn worth<T: Real, C: Cost<T>>(problem: &Problem<T, C>, plan: &SparseRows) -> (f64, f64) {
    let marginals = problem.marginals();
    let slack = marginals.slack();
    let mut unused = marginals.cols().to_vec();
    let (mut kept, mut price) = (0.0, 0.0);
    for (i, &a) in marginals.rows().iter().enumerate() {
        let mut left = a;
        for (j, mass) in plan.row(i) {
            price += mass * problem.cost().at(i, j).widen();
            left -= mass;
            unused[j] -= mass;
        }
        kept += left.max(0.0);
    }
    let unused: f64 = unused.iter().map(|u| u.max(0.0)).sum();
    let (kept_back, taken) = (kept.min(slack.col), unused.min(slack.row));
    let corner = (slack.col - kept_back).min(slack.row - taken).max(0.0);
    let mut forbidden = 0.0;
    for (mass, cost) in [
        (kept_back, slack.col_cost),
        (taken, slack.row_cost),
        (corner, slack.corner_cost),
    ] {
        if mass > 0.0 && cost.is_finite() {
            price += mass * cost;
        } else {
            forbidden += mass;
        }
    }
    let missing = ((kept - kept_back) + (unused - taken) + forbidden) / marginals.total();
    (if missing > 1e-9 { missing } else { 0.0 }, price)
}

/// The better of two answers that were cut short.
pub(super) fn better<'p, T: Real, C: Cost<T>>(
    one: Solution<'p, T, C>,
    other: Solution<'p, T, C>,
) -> Solution<'p, T, C> {
    let of = |solution: &Solution<'p, T, C>| {
        let plan = solution.sparse();
        plan.map(|plan| worth(solution.problem(), plan))
    };
    match (of(&one), of(&other)) {
        (Some(a), Some(b)) if a < b => one.ended_like(&other),
        _ => other,
    }
}
