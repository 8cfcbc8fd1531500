//! A first plan from short lists of pairs, which is optimal already where nothing stops it on the way.
//!
//! See [`lists`](crate::exact::lists) for how. What is left to the simplex is to tie the plan together into a tree, to look at all pairs
//! once more at the tree's own prices and, where the lists ended early, to go on from there.

use super::augmented_rows::AugmentedRows;
use super::multiscale::{forest, worthwhile};
use super::pivot_budget::PivotBudget;
use super::start::{Hands, Masses, Plan};
use crate::cost::{Clusters, Points};
use crate::exact::lists::nearby::Nearby;
use crate::exact::lists::scan::Scan;
use crate::exact::lists::{Found, Outcome, prices, rounds};
use crate::problem::Erased;
use crate::{Cost, Problem, Real};

/// What the lists found.
pub(super) struct Start {
    pub(super) plan: Plan,
    pub(super) g: Vec<f64>,
    /// Whether plan and prices should be optimal.
    pub(super) near: bool,
}

/// Whether lists can be made at all.
pub(super) fn are_possible<T: Real, C: Cost<T>>(problem: &Problem<T, C>) -> bool {
    let slack = problem.marginals().slack();
    let points = problem.cost().points();
    let exact = !problem.marginals().is_relaxed() && slack.row == 0.0 && slack.col == 0.0;
    exact && points.is_some_and(|p| p.metric.is_symmetric())
}

/// A plan and prices for the problem; `None` where no good prices are found.
pub(super) fn start<T: Real>(
    meter: &mut PivotBudget<'_>,
    problem: &Erased<'_, T>,
    masses: &Masses,
) -> Option<Start> {
    let points = problem.cost().points()?;
    let shorter = problem.rows().min(problem.cols());
    let found = if shorter >= worthwhile(points.dimension) {
        near_points(meter, problem, points)?
    } else {
        let g = prices::of_problem(problem, meter.guard())?;
        let both = (&masses.rows[..], &masses.cols[..]);
        let mut scan = Scan::new(*problem.cost());
        rounds(&mut scan, both, g, |unplaced| meter.phase(unplaced))?
    };
    let Found { arcs, g, outcome } = found;
    let mut lines = AugmentedRows::new(problem.cost(), problem.marginals().slack());
    let mut hands = Hands::new(masses);
    for (i, j, mass) in arcs {
        if hands.pair_open(i, j) {
            hands.place_up_to(i, j, mass);
        }
    }
    hands.fill(&mut lines, &g); // what rounding, or an early end, has left over
    let mut plan = hands.finish();
    plan.arcs = forest(&plan.arcs, &lines, masses, &g);
    Some(Start {
        plan,
        g,
        near: outcome == Outcome::Optimal,
    })
}

/// Lists of near points, for few dimensions; `None` where the metric has no bounds or no good prices are found.
fn near_points<T: Real>(
    meter: &mut PivotBudget<'_>,
    problem: &Erased<'_, T>,
    points: Points<'_, T>,
) -> Option<Found> {
    let (d, marginals) = (points.dimension, problem.marginals());
    let sides = [
        Clusters::new(points.rows, marginals.rows(), d),
        Clusters::new(points.cols, marginals.cols(), d),
    ];
    let [(rows, a), (cols, b)] = sides.each_ref().map(|s| s.clusters(0));
    let mut nearby = Nearby::new(points.metric, d, &rows, &cols)?;
    let g = prices::of_clusters(&sides, points.metric, d, meter.guard())?;
    let mut found = rounds(&mut nearby, (&a, &b), g, |unplaced| meter.phase(unplaced))?;
    // Back from the nested order to the problem's own.
    let [row, col] = sides.each_ref().map(Clusters::original);
    for (i, j, _) in &mut found.arcs {
        (*i, *j) = (row(*i), col(*j));
    }
    let mut g = vec![0.0; found.g.len()];
    for (at, &price) in found.g.iter().enumerate() {
        g[col(at)] = price;
    }
    found.g = g;
    Some(found)
}
