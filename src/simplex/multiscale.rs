//! A first plan for point clouds, coarse to fine.
//!
//! Points are clustered in k-d trees, four to a cluster and again, until a few hundred clusters are
//! left on the longer side. The clusters' centres and masses are a small transport problem; its optimal
//! plan is handed down by sharing what flows between two clusters among their members, nearest pairs
//! first, and is nearly optimal one level below. Each level thus starts close to its optimum, and so
//! does the full problem, whose answer is exact whatever the levels above said: they are a start and
//! nothing else.

use super::kd::{Nested, deepest, inside};
use super::lines::Lines;
use super::pricing::{COARSE, Outcome};
use super::start::{Hands, Masses, Plan, plant};
use super::tree::Tree;
use super::{NetworkSimplex, Solve};
use crate::cost::Points;
use crate::{Cost, PointCloud, Problem, Real, Slack};

/// The longest side of the coarsest problem, about.
const COARSEST: usize = 256;

/// Sides shorter than this are not worth clustering.
pub(super) const WORTHWHILE: usize = 512;

/// More coordinates than this leave clusters that are not small against their distances.
pub(super) const MOST_COORDINATES: usize = 8;

/// A first plan and column prices for the problem, with the pivots spent; `None` where the coarse
/// problems do not help: no points, too few of them, forbidden pairs in the way, or no pivots left.
pub(super) fn descend<T: Real, C: Cost<T>>(
    solver: &NetworkSimplex,
    problem: &Problem<T, C>,
    lines: &mut Lines<'_, T, C>,
    masses: &Masses,
) -> Option<(Plan, Vec<f64>, usize)> {
    let points = problem.cost().points()?;
    let slack = problem.marginals().slack();
    let sides = [
        Side::new(points.rows, problem.marginals().rows(), points.dimension),
        Side::new(points.cols, problem.marginals().cols(), points.dimension),
    ];
    let levels = sides.iter().map(|s| s.levels()).max().unwrap_or(0);
    let mut pivots = 0;
    let mut above: Option<(Handed, usize)> = None;
    for level in (1..=levels).rev() {
        let [rows, cols] = [sides[0].level(level), sides[1].level(level)];
        let (answer, spent) = solve_level(
            solver,
            points,
            slack,
            &sides,
            [&rows, &cols],
            above.as_ref(),
            level,
            pivots,
        )?;
        pivots = spent;
        above = Some((answer, level));
    }
    let (handed, level) = above?;
    let shares = Shares {
        sides: &sides,
        coarse: level,
        fine: 0,
    };
    let Handed { arcs, g } = shares.hand_down(&handed, lines, masses)?;
    let plan = Plan {
        arcs,
        forbidden: false,
    };
    Some((plan, g, pivots))
}

/// The plan and column prices of a level.
struct Handed {
    arcs: Vec<(usize, usize, f64)>,
    g: Vec<f64>,
}

/// One side's points and how they are clustered.
struct Side<'a, T> {
    points: &'a [T],
    masses: &'a [f64],
    dimension: usize,
    nested: Nested,
}

/// Clusters of one level: centres and masses.
struct Clusters<T> {
    centres: Vec<T>,
    masses: Vec<f64>,
}

impl<'a, T: Real> Side<'a, T> {
    fn new(points: &'a [T], masses: &'a [f64], dimension: usize) -> Self {
        Self {
            points,
            masses,
            dimension,
            nested: Nested::new(points, dimension),
        }
    }

    /// How many levels of clusters it takes to get down to the coarsest.
    fn levels(&self) -> usize {
        let mut levels = 0;
        while self.masses.len() >> (2 * levels) > COARSEST {
            levels += 1;
        }
        levels
    }

    /// Depth of the runs that are the clusters of `level`; `None` for the points themselves.
    fn depth(&self, level: usize) -> Option<u32> {
        (level > 0).then(|| (deepest(self.masses.len()) + 1).saturating_sub(2 * level as u32))
    }

    fn level(&self, level: usize) -> Clusters<T> {
        let depth = self.depth(level).unwrap_or(0);
        let mut clusters = Clusters {
            centres: Vec::new(),
            masses: Vec::new(),
        };
        let mut centre = vec![0.0; self.dimension];
        for q in 0..1usize << depth {
            let run = self.nested.run(depth, q);
            let mass: f64 = run.iter().map(|&p| self.masses[p as usize]).sum();
            centre.fill(0.0);
            for &p in run {
                let weight = if mass > 0.0 {
                    self.masses[p as usize] / mass
                } else {
                    1.0 / run.len() as f64
                };
                for (c, x) in centre
                    .iter_mut()
                    .zip(&self.points[p as usize * self.dimension..])
                {
                    *c += weight * x.widen();
                }
            }
            clusters
                .centres
                .extend(centre.iter().map(|&c| T::narrow(c)));
            clusters.masses.push(mass);
        }
        clusters
    }

    /// Members at `fine` of cluster `q` at `coarse`, as indices of that level; the slack has itself.
    fn members(&self, coarse: usize, fine: usize, q: usize) -> Vec<usize> {
        let Some(depth) = self.depth(coarse) else {
            return vec![q];
        };
        if q >= 1 << depth {
            let slack = self.depth(fine).map_or(self.masses.len(), |d| 1 << d);
            return vec![slack];
        }
        match self.depth(fine) {
            None => self
                .nested
                .run(depth, q)
                .iter()
                .map(|&p| p as usize)
                .collect(),
            Some(deeper) => inside(depth, deeper, q).collect(),
        }
    }
}

#[allow(clippy::too_many_arguments)]
fn solve_level<T: Real>(
    solver: &NetworkSimplex,
    points: Points<'_, T>,
    slack: Slack,
    sides: &[Side<'_, T>; 2],
    [rows, cols]: [&Clusters<T>; 2],
    above: Option<&(Handed, usize)>,
    level: usize,
    pivots: usize,
) -> Option<(Handed, usize)> {
    let cost = PointCloud::new(
        &rows.centres,
        &cols.centres,
        points.dimension,
        points.metric,
    );
    let cost = cost.ok()?;
    let mut lines = Lines::new(&cost, slack);
    let masses = Masses::with_slack(&rows.masses, &cols.masses, slack);
    let Handed { arcs, g } = match above {
        None => {
            let g = vec![0.0; masses.cols.len()];
            let plan = super::start::greedy(&mut lines, &masses, &g);
            if plan.forbidden {
                return None;
            }
            Handed { arcs: plan.arcs, g }
        }
        Some((handed, coarse)) => {
            let shares = Shares {
                sides,
                coarse: *coarse,
                fine: level,
            };
            shares.hand_down(handed, &mut lines, &masses)?
        }
    };
    let mut tree = plant(&arcs, &lines, &masses, &g);
    let mut solve = Solve::new(solver, lines, masses, pivots);
    if solve.pivot(&mut tree, COARSE, usize::MAX) != Outcome::Optimal {
        return None;
    }
    let g = tree.heights().iter().map(|h| -h).collect();
    let arcs = tree.arcs().filter(|a| a.2 > 0.0).collect();
    Some((Handed { arcs, g }, solve.pivots))
}

/// How a plan between clusters is shared among their members.
struct Shares<'a, T> {
    sides: &'a [Side<'a, T>; 2],
    coarse: usize,
    fine: usize,
}

impl<T: Real> Shares<'_, T> {
    /// Shares the flow of each arc among pairs of members, nearest first. `None` where forbidden pairs
    /// are in the way.
    fn hand_down<C: Cost<T>>(
        &self,
        handed: &Handed,
        lines: &mut Lines<'_, T, C>,
        masses: &Masses,
    ) -> Option<Handed> {
        let g = self.prices(handed, masses);
        let mut hands = Hands::new(masses);
        let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
        for &(a, b, mut flow) in &handed.arcs {
            let rows = self.sides[0].members(self.coarse, self.fine, a);
            let cols = self.sides[1].members(self.coarse, self.fine, b);
            pairs.clear();
            for &i in &rows {
                let open = cols.iter().filter(|&&j| hands.pair_open(i, j));
                pairs.extend(open.map(|&j| (lines.at(i, j), i, j)));
            }
            pairs.sort_by(|x, y| x.0.total_cmp(&y.0));
            for &(cost, i, j) in &pairs {
                if flow > 0.0 && cost < f64::INFINITY && hands.pair_open(i, j) {
                    flow -= hands.place_up_to(i, j, flow);
                }
            }
        }
        hands.fill(lines, &g); // what rounding has left over
        let plan = hands.finish();
        (!plan.forbidden).then(|| Handed {
            arcs: forest(&plan.arcs, lines, masses, &g),
            g,
        })
    }

    /// Members take the price of their cluster.
    fn prices(&self, handed: &Handed, masses: &Masses) -> Vec<f64> {
        let mut g = vec![0.0; masses.cols.len()];
        for (b, &price) in handed.g.iter().enumerate() {
            for j in self.sides[1].members(self.coarse, self.fine, b) {
                g[j] = if price.is_finite() { price } else { 0.0 };
            }
        }
        g
    }
}

/// Makes a forest of a plan: where an arc would close a cycle, mass is sent round it, the way that pays,
/// until one of its arcs is empty.
fn forest<T: Real, C: Cost<T>>(
    arcs: &[(usize, usize, f64)],
    lines: &Lines<'_, T, C>,
    masses: &Masses,
    g: &[f64],
) -> Vec<(usize, usize, f64)> {
    let mut tree: Tree = plant(&[], lines, masses, g);
    for &(i, j, flow) in arcs {
        let cost = lines.at(i, j);
        if !tree.link(i, j, flow, cost) {
            let gain = tree.f(i) + tree.g(j) - cost;
            tree.absorb(i, j, gain, flow);
        }
    }
    tree.arcs().filter(|a| a.2 > 0.0).collect()
}
