//! A first plan for point clouds, coarse to fine.
//!
//! Points are clustered in k-d trees, four to a cluster and again, until a few hundred clusters are
//! left on the longer side. The clusters' centres and masses are a small transport problem. Its optimal row prices F price
//! the columns of the next level, wherever they lie, by the most that they allow,
//!
//! ```text
//! g_j = min_I (C(X_I, y_j) − F_I)
//! ```
//!
//! which is smooth where prices of the clusters themselves jump from one to the next: the short list of pairs that these
//! prices make cheap ([`listed`](super::listed)) holds all of the answer but a handful. The plan is handed down by sharing what flows between
//! two clusters among their members, pairs of least reduced cost first. Each level thus starts close to its optimum, and so
//! does the full problem, whose answer is exact whatever the levels above said: they are a start and nothing else.
//!
//! Measured, normal clouds in the plane, 10,000 to 100,000 points: 5 to 7 pivots a point, and one pair in a thousand that the
//! first list lacks.

use super::augmented_rows::AugmentedRows;
use super::listed::Listed;
use super::pivot_budget::PivotBudget;
use super::pricing::{Arcs, Outcome};
use super::start::{Hands, Masses, Plan, build_basis, greedy};
use super::tree::Tree;
use crate::cost::{Clusters, Transposed};
use crate::exact::lists::source;
use crate::kernel::rounding::{FRESH_GAIN, GAIN};
use crate::{Cost, Metric, PointCloud, Problem, Real, Slack};

/// Shorter sides are not worth clustering.
pub(super) const FEWEST_POINTS: usize = 512;

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

/// The plan and prices of a level.
struct CoarseSolution<T> {
    arcs: Vec<(usize, usize, f64)>,
    g: Vec<f64>,
    /// Clusters of the rows and their prices; −∞ where they have no mass.
    rows: Vec<T>,
    f: Vec<f64>,
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
        above: Option<CoarseSolution<T>>,
    ) -> Option<CoarseSolution<T>> {
        let [(rows, row_masses), (cols, col_masses)] =
            self.sides.each_ref().map(|s| s.clusters(level));
        let d = self.sides[0].dimension;
        let cost = PointCloud::new(&rows, &cols, d, self.metric).ok()?;
        let mut lines = AugmentedRows::new(&cost, self.slack);
        let masses = Masses::with_slack(&row_masses, &col_masses, self.slack);
        let (plan, g) = match above {
            None => {
                let g = vec![0.0; masses.cols.len()];
                (greedy(&mut lines, &masses, &g), g)
            }
            Some(handed) => {
                let g = self.prices(&handed, &cols, masses.cols.len())?;
                (
                    self.hand_down(&handed, level + 1, &mut lines, &masses, &g),
                    g,
                )
            }
        };
        let Plan { arcs, forbidden } = plan;
        if forbidden {
            return None;
        }
        let mut tree = build_basis(&arcs, &lines, &masses, &g);
        let takes_part: Vec<bool> = masses.rows.iter().map(|&a| a > 0.0).collect();
        let mut outcome = Outcome::Stopped;
        // Whoever stops gets what the levels so far have found, handed down.
        if !meter.is_over() {
            let mut source = source(&cost);
            let mut listed = Listed::new(lines, source.as_mut(), Some(g));
            let mut pivot = |tree: &mut Tree, tolerance, most| {
                let (masses, part) = (&masses, &takes_part);
                let outcome = meter.pivot(tree, &mut listed, masses, part, tolerance, most);
                listed.reprice(tree);
                outcome
            };
            outcome = pivot(&mut tree, GAIN, usize::MAX);
            if level == 0 && outcome == Outcome::Optimal {
                // As fine as the full problem will look, where looking is cheap.
                outcome = pivot(&mut tree, FRESH_GAIN, masses.rows.len() + masses.cols.len());
                if outcome == Outcome::Limit && !meter.is_spent() {
                    outcome = Outcome::Optimal;
                }
            }
        }
        let price = |i: usize| {
            if takes_part[i] {
                tree.f(i)
            } else {
                f64::NEG_INFINITY
            }
        };
        Some(CoarseSolution {
            arcs: tree.arcs().filter(|a| a.2 > 0.0).collect(),
            g: tree.prices(),
            f: (0..row_masses.len()).map(price).collect(),
            rows,
            solved: outcome == Outcome::Optimal,
        })
    }

    /// Column prices of the level below: the most that its row prices allow. The slack column keeps its own.
    fn prices(&self, handed: &CoarseSolution<T>, cols: &[T], count: usize) -> Option<Vec<f64>> {
        let d = self.sides[0].dimension;
        let cost = PointCloud::new(&handed.rows, cols, d, self.metric).ok()?;
        let mut g = source(&Transposed(&cost)).row_prices(&handed.f);
        g.resize(count, handed.g.last().copied()?);
        let unpriced = g.iter_mut().filter(|g| !g.is_finite());
        unpriced.for_each(|g| *g = 0.0);
        Some(g)
    }

    /// Shares the flow of each arc of `level` among pairs of members, those of least reduced cost first.
    fn hand_down<C: Cost<T>>(
        &self,
        handed: &CoarseSolution<T>,
        level: usize,
        lines: &mut AugmentedRows<'_, T, C>,
        masses: &Masses,
        g: &[f64],
    ) -> Plan {
        let mut hands = Hands::new(masses);
        let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
        for &(a, b, mut flow) in &handed.arcs {
            pairs.clear();
            for i in self.sides[0].members(level, a) {
                let open = self.sides[1].members(level, b);
                let open = open.filter(|&j| hands.pair_open(i, j));
                pairs.extend(open.map(|j| (lines.at(i, j) - g[j], i, j)));
            }
            pairs.sort_by(|x, y| x.0.total_cmp(&y.0));
            for &(cost, i, j) in &pairs {
                if flow > 0.0 && cost < f64::INFINITY && hands.pair_open(i, j) {
                    flow -= hands.place_up_to(i, j, flow);
                }
            }
        }
        hands.fill(lines, g); // what rounding has left over
        let mut plan = hands.finish();
        if !plan.forbidden {
            plan.arcs = forest(&plan.arcs, lines, masses, g);
        }
        plan
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
