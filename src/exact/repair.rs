//! Rounding to feasibility where forbidden pairs are in the way.
//!
//! ```text
//! P' = (1 − t) P + R        R an exact plan for what (1 − t) P leaves of the marginals
//! ```
//!
//! Missing mass cannot be spread over all pairs when some are forbidden: it may have to travel by way of
//! rows and columns that are not short of anything. So the whole plan is shrunk by a small share t, which
//! gives every row and column something to trade with, and the exact solver moves what is then left, along
//! allowed pairs only. Where a cost names its pairs, what is missing goes along the shortest ways there are instead. At t = 1 the plan is the exact one; only where even that does not exist is there no
//! bound.

use super::max_flow::MaxFlow;
use crate::cost::Pairs;
use crate::kernel::rounding::{REPAIRED, Sum};
use crate::problem::Erased;
use crate::solution::certificate::{Deficient, Repaired};
use crate::solver::Guard;
use crate::{Cost, Exact, Marginals, Problem, Real, Slack, Solution};

/// Shares of the plan that may be given up, smallest first.
const SHARES: [f64; 3] = [0.01, 0.1, 1.0];

/// Larger problems than this many pairs are not solved again for the sake of a bound.
const MOST_PAIRS: usize = 1 << 24;

/// A feasible plan next to `plan`; `None` where none is found.
pub(crate) fn repair<T: Real>(problem: &Erased<'_, T>, plan: &Deficient<'_>) -> Option<Repaired> {
    let (n, k) = (problem.rows(), problem.cols());
    let cost = *problem.cost();
    let m = problem.marginals();
    if let Some(pairs) = cost.pairs()
        && !plan.entries.is_empty()
    {
        return along_pairs(cost, pairs, m, &plan.entries);
    }
    if n.checked_mul(k).is_none_or(|pairs| pairs > MOST_PAIRS) {
        return None;
    }
    let left = |mass: f64, used: f64, share: f64| (mass - (1.0 - share) * used).max(0.0);
    for share in SHARES {
        let rest = |masses: &[f64], used: &[f64]| -> Vec<f64> {
            let both = masses.iter().zip(used);
            both.map(|(&m, &u)| left(m, u, share)).collect()
        };
        let slack = Slack {
            row: left(m.slack().row, plan.rows[n], share),
            col: left(m.slack().col, plan.cols[k], share),
            ..m.slack()
        };
        let (a, b) = (rest(m.rows(), plan.rows), rest(m.cols(), plan.cols));
        let price = Marginals::with_slack(&a, &b, slack)
            .and_then(|marginals| Problem::new(cost, marginals))
            .and_then(|rest| {
                Exact::new()
                    .solve(&rest)
                    .map(|found| price_of(&rest, &found))
            });
        if let Ok(Some(rest)) = price {
            return Some(Repaired {
                price: (1.0 - share) * plan.price + rest.price,
                ..rest
            });
        }
    }
    None
}

/// Where the allowed pairs are named: what is missing finds its place along shortest ways, and the rest stays where it is.
fn along_pairs<T: Real>(
    cost: &dyn Cost<T>,
    pairs: Pairs<'_, T>,
    m: &Marginals,
    entries: &[(usize, usize, f64)],
) -> Option<Repaired> {
    let mut flow = MaxFlow::new(pairs, (m.rows(), m.cols()), entries.iter().copied());
    let left = flow.run(&Guard::nobody())?;
    let (mut price, mut dearest) = (Sum::default(), 0.0f64);
    for (i, j, mass) in flow.entries() {
        let cost = cost.at(i, j).widen();
        price.add(mass * cost);
        dearest = dearest.max(cost.abs());
    }
    let price = price.value();
    (left <= REPAIRED * m.total()).then_some(Repaired { price, dearest })
}

/// What a vertex costs, entry by entry; its slack is what rows and columns lack. `None` where that is not what the slack has to
/// give: what is rounding to a solver of the rest may be all that the plan was short of.
fn price_of<T: Real, C: Cost<T>>(
    problem: &Problem<T, C>,
    solution: &Solution<'_, T, C>,
) -> Option<Repaired> {
    let m = problem.marginals();
    let slack = m.slack();
    let (mut kept, mut unused) = (m.rows().to_vec(), m.cols().to_vec());
    let (mut price, mut dearest) = (0.0, 0.0f64);
    for entry in solution.plan().entries(0.0) {
        let cost = problem.cost().at(entry.row, entry.col).widen();
        price += entry.mass * cost;
        dearest = dearest.max(cost.abs());
        kept[entry.row] -= entry.mass;
        unused[entry.col] -= entry.mass;
    }
    let positive = |left: &[f64]| left.iter().map(|x| x.max(0.0)).sum::<f64>();
    let (kept, unused) = (positive(&kept), positive(&unused));
    let (row, col) = (slack.row - unused, slack.col - kept);
    let corner = row.min(col).max(0.0);
    let forbidden = |mass: f64, cost: f64| if cost.is_finite() { 0.0 } else { mass };
    let off = (row - corner).abs()
        + (col - corner).abs()
        + forbidden(kept, slack.col_cost)
        + forbidden(unused, slack.row_cost)
        + forbidden(corner, slack.corner_cost);
    for (mass, cost) in [
        (kept, slack.col_cost),
        (unused, slack.row_cost),
        (corner, slack.corner_cost),
    ] {
        if mass > 0.0 && cost.is_finite() {
            price += mass * cost;
            dearest = dearest.max(cost.abs());
        }
    }
    (off <= REPAIRED * m.total()).then_some(Repaired { price, dearest })
}
