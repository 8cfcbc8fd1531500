//! A first plan for point clouds, coarse to fine.
//!
//! Points are clustered in k-d trees, four to a cluster and again, until a few hundred clusters are
//! left on the longer side. The clusters' centres and masses are a small transport problem; its optimal
//! plan is handed down by sharing what flows between two clusters among their members, nearest pairs
//! first, and is nearly optimal one level below. Each level thus starts close to its optimum, and so
//! does the full problem, whose answer is exact whatever the levels above said: they are a start and
//! nothing else.

use super::augmented_rows::AugmentedRows;
use super::pivot_budget::PivotBudget;
use super::pricing::{Arcs, Outcome};

use super::pruned::Pruned;
use super::start::{Hands, Masses, Plan, build_basis, greedy};
use super::tree::Tree;
use crate::cost::Clusters;
use crate::kernel::rounding::{FRESH_GAIN, GAIN};
use crate::{Cost, Metric, PointCloud, Problem, Real, Slack};

/// Sides shorter than this are not worth clustering: the more coordinates, the more points it takes for
/// clusters to be small against their distances.
pub(super) fn worthwhile(dimension: usize) -> usize {
    let doublings = dimension.saturating_sub(3).min(40) as u32;
    512usize.saturating_mul(1usize.checked_shl(doublings).unwrap_or(usize::MAX))
}

/// What the levels found.
pub(super) struct Descent {
    pub(super) plan: Plan,
    pub(super) g: Vec<f64>,
    /// Whether the points themselves were solved, too, so that plan and prices should be optimal.
    pub(super) near: bool,
}

/// A first plan and column prices for the problem; `None` where coarse problems do not help: no points,
/// too few of them, or forbidden pairs in the way. Whoever stops on the way gets what the levels so far have found, handed
/// down to the points.
pub(super) fn descend<T: Real, C: Cost<T>>(
    meter: &mut PivotBudget<'_>,
    problem: &Problem<T, C>,
) -> Option<Descent> {
    let points = problem.cost().points()?;
    let marginals = problem.marginals();
    let sides = [
        Clusters::new(points.rows, marginals.rows(), points.dimension),
        Clusters::new(points.cols, marginals.cols(), points.dimension),
    ];
    let stairs = Hierarchy {
        sides: &sides,
        metric: points.metric,
        slack: marginals.slack(),
    };
    let levels = sides.iter().map(Clusters::levels).max().unwrap_or(0);
    let mut above = None;
    // A level has a quarter of the points of the next.
    let mut before = 0.0;
    for level in (0..=levels).rev() {
        let whole = (4.0 - 0.25f64.powi(levels as i32)) / 3.0;
        meter.place = (before, 0.25f64.powi(level as i32) / whole);
        meter.is_whole = level == 0;
        before += meter.place.1;
        above = Some(stairs.solve(meter, level, above)?);
    }
    meter.place = (1.0, 0.0);
    meter.is_whole = true;
    let mut handed = above?;
    // Back from the nested order to the problem's own.
    let [rows, cols] = sides.each_ref().map(Clusters::original);
    let mut g = vec![0.0; handed.g.len()];
    for (at, &price) in handed.g.iter().enumerate() {
        g[cols(at)] = if price.is_finite() { price } else { 0.0 };
    }
    for (i, j, _) in &mut handed.arcs {
        (*i, *j) = (rows(*i), cols(*j));
    }
    let plan = Plan {
        arcs: handed.arcs,
        forbidden: false,
    };
    Some(Descent {
        plan,
        g,
        near: handed.solved,
    })
}

/// The plan and column prices of a level.
struct CoarseSolution {
    arcs: Vec<(usize, usize, f64)>,
    g: Vec<f64>,
    solved: bool,
}

/// The levels of a problem.
struct Hierarchy<'a, T> {
    sides: &'a [Clusters<'a, T>; 2],
    metric: &'a dyn Metric<T>,
    slack: Slack,
}

impl<T: Real> Hierarchy<'_, T> {
    /// Solves a level from what the level above hands down.
    fn solve(
        &self,
        meter: &mut PivotBudget<'_>,
        level: usize,
        above: Option<CoarseSolution>,
    ) -> Option<CoarseSolution> {
        let [(rows, row_masses), (cols, col_masses)] =
            self.sides.each_ref().map(|s| s.clusters(level));
        let d = self.sides[0].dimension;
        let cost = PointCloud::new(&rows, &cols, d, self.metric).ok()?;
        let mut lines = AugmentedRows::new(&cost, self.slack);
        let masses = Masses::with_slack(&row_masses, &col_masses, self.slack);
        let first = match above {
            None => {
                let g = vec![0.0; masses.cols.len()];
                (greedy(&mut lines, &masses, &g), g)
            }
            Some(handed) => self.hand_down(&handed, level + 1, &mut lines, &masses),
        };
        let (Plan { arcs, forbidden }, g) = first;
        if forbidden {
            return None;
        }
        if meter.is_over() {
            return Some(CoarseSolution {
                arcs,
                g,
                solved: false,
            });
        }
        let mut tree = build_basis(&arcs, &lines, &masses, &g);
        let takes_part: Vec<bool> = masses.rows.iter().map(|&a| a > 0.0).collect();
        let outcome = match Pruned::new(lines, self.metric, d, &rows, &cols) {
            Ok(mut pruned) => {
                let mut outcome = meter.pivot(
                    &mut tree,
                    &mut pruned,
                    &masses,
                    &takes_part,
                    GAIN,
                    usize::MAX,
                );
                if level == 0 && outcome == Outcome::Optimal {
                    // As fine as the full problem will look, where looking is cheap.
                    tree.reprice(|i, j| pruned.at(i, j));
                    let most = masses.rows.len() + masses.cols.len();
                    outcome = meter.pivot(
                        &mut tree,
                        &mut pruned,
                        &masses,
                        &takes_part,
                        FRESH_GAIN,
                        most,
                    );
                    tree.reprice(|i, j| pruned.at(i, j));
                    if outcome == Outcome::Limit && !meter.is_spent() {
                        outcome = Outcome::Optimal;
                    }
                }
                outcome
            }
            // Without bounds the points are left to the full problem, which would do just the same.
            Err(_) if level == 0 => {
                return Some(CoarseSolution {
                    arcs,
                    g,
                    solved: false,
                });
            }
            Err(mut lines) => meter.pivot(
                &mut tree,
                &mut lines,
                &masses,
                &takes_part,
                GAIN,
                usize::MAX,
            ),
        };
        Some(CoarseSolution {
            arcs: tree.arcs().filter(|a| a.2 > 0.0).collect(),
            g: tree.heights().iter().map(|h| -h).collect(),
            solved: outcome == Outcome::Optimal,
        })
    }

    /// Shares the flow of each arc of `level` among pairs of members, nearest first.
    fn hand_down<C: Cost<T>>(
        &self,
        handed: &CoarseSolution,
        level: usize,
        lines: &mut AugmentedRows<'_, T, C>,
        masses: &Masses,
    ) -> (Plan, Vec<f64>) {
        let mut g = vec![0.0; masses.cols.len()];
        for (b, &price) in handed.g.iter().enumerate() {
            let price = if price.is_finite() { price } else { 0.0 };
            g[self.sides[1].members(level, b)].fill(price);
        }
        let mut hands = Hands::new(masses);
        let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
        for &(a, b, mut flow) in &handed.arcs {
            pairs.clear();
            for i in self.sides[0].members(level, a) {
                let open = self.sides[1].members(level, b);
                let open = open.filter(|&j| hands.pair_open(i, j));
                pairs.extend(open.map(|j| (lines.at(i, j), i, j)));
            }
            pairs.sort_by(|x, y| x.0.total_cmp(&y.0));
            for &(cost, i, j) in &pairs {
                if flow > 0.0 && cost < f64::INFINITY && hands.pair_open(i, j) {
                    flow -= hands.place_up_to(i, j, flow);
                }
            }
        }
        hands.fill(lines, &g); // what rounding has left over
        let mut plan = hands.finish();
        if !plan.forbidden {
            plan.arcs = forest(&plan.arcs, lines, masses, &g);
        }
        (plan, g)
    }
}

/// Makes a forest of a plan: where an arc would close a cycle, mass is sent round it, the way that pays,
/// until one of its arcs is empty.
pub(super) fn forest<T: Real, C: Cost<T>>(
    arcs: &[(usize, usize, f64)],
    lines: &AugmentedRows<'_, T, C>,
    masses: &Masses,
    g: &[f64],
) -> Vec<(usize, usize, f64)> {
    let mut tree: Tree = build_basis(&[], lines, masses, g);
    for &(i, j, flow) in arcs {
        let cost = lines.at(i, j);
        if !tree.link(i, j, flow, cost) {
            let gain = tree.f(i) + tree.g(j) - cost;
            tree.absorb(i, j, gain, flow);
        }
    }
    tree.arcs().filter(|a| a.2 > 0.0).collect()
}
