//! Prices that are good on every scale: potentials of a loose entropic solve.
//!
//! ```text
//! g_j = −ε ln Σ_I exp((F_I − C_Ij)/ε)        F the row potentials of an entropic plan, masses inside
//! ```
//!
//! Where points are few dimensions apart the plan is one between clusters, of some sixteen points each, at an ε that blurs
//! a few of them into each other: the formula then gives every point its price, and the plan of the points at these prices is balanced but
//! for noise between neighbours. Prices of an exact plan between clusters jump from cluster to cluster, and have most of
//! the mass look for its place far away.
//! In many dimensions clusters say little, and the plan is one of the problem itself.

use crate::cost::Clusters;
use crate::problem::{Erased, check};
use crate::solver::Guard;
use crate::sweep::{DualPoint, Law};
use crate::{Cost, Entropic, Marginals, Metric, PointCloud, Problem, Real};

/// How well the entropic plan has to meet its marginals.
const TOLERANCE: f64 = 5e-3;

/// Sweeps after which the potentials are taken as they are.
const SWEEPS: usize = 300;

/// Level of the clusters: 4² points each.
const LEVEL: usize = 2;

/// Most clusters that are still worth a plan between all of them.
const MOST_CLUSTERS: usize = 1 << 13;

/// ε between clusters, in costs of neighbours.
const BLUR: f64 = 4.0;

/// Rows that are looked at for a typical cost of neighbours.
const SAMPLE: usize = 64;

/// Neighbours whose costs tell how far apart those of a row are, and the share of that which ε is.
const NEIGHBOURS: usize = 16;
const SHARE: f64 = 0.25;

/// Prices of the column points, in nested order; `None` where there is no entropic plan.
pub(in crate::exact) fn of_clusters<T: Real>(
    sides: &[Clusters<'_, T>; 2],
    metric: &dyn Metric<T>,
    dimension: usize,
    guard: &Guard<'_>,
) -> Option<Vec<f64>> {
    let mut level = LEVEL;
    while sides.iter().any(|s| s.count(level) > MOST_CLUSTERS) {
        level += 1;
    }
    let [(rows, a), (cols, b)] = sides.each_ref().map(|s| s.clusters(level));
    let cost = PointCloud::new(&rows, &cols, dimension, metric).ok()?;
    let among = PointCloud::new(&cols, &cols, dimension, metric).ok()?;
    let epsilon = BLUR
        * typical(&among, |line, j| {
            line[j] = T::infinity();
            line.iter().copied().fold(T::infinity(), T::min).widen()
        })?;
    let marginals = Marginals::normalised(&a, &b).ok()?;
    let erased: &dyn Cost<T> = &cost;
    let problem = Problem::new(erased, marginals).ok()?;
    let solver = Entropic::new(epsilon)
        .tolerance(TOLERANCE)
        .max_iterations(SWEEPS);
    let survey = check::whole(&problem).ok()?;
    let solution = solver.cold_under(&problem, &survey, &guard.unseen()).ok()?;
    let (points, _) = sides[1].clusters(0);
    let towards = PointCloud::new(&points, &rows, dimension, metric).ok()?;
    let point = DualPoint {
        epsilon,
        cols: &solution.potentials().rows,
        slack: f64::NEG_INFINITY,
    };
    let mut g = vec![0.0; towards.rows()];
    point.row_potentials(&towards, &Law::EXACT, &vec![1.0; g.len()], &mut g);
    g.iter().all(|g| g.is_finite()).then_some(g)
}

/// Prices of the columns from a plan of the problem itself; `None` where there is none.
pub(in crate::exact) fn of_problem<T: Real>(
    problem: &Erased<'_, T>,
    guard: &Guard<'_>,
) -> Option<Vec<f64>> {
    let epsilon = SHARE
        * typical(*problem.cost(), |line, _| {
            let last = NEIGHBOURS.min(line.len() - 1);
            let by_size = |a: &T, b: &T| a.partial_cmp(b).unwrap_or(core::cmp::Ordering::Equal);
            let (below, &mut last, _) = line.select_nth_unstable_by(last, by_size);
            let least = below.iter().copied().fold(last, T::min);
            (last - least).widen()
        })?;
    let solver = Entropic::new(epsilon)
        .tolerance(TOLERANCE)
        .max_iterations(SWEEPS);
    let survey = check::whole(problem).ok()?;
    let solution = solver.cold_under(problem, &survey, &guard.unseen()).ok()?;
    let masses = problem.marginals().cols();
    let prices = solution.columns().cols.iter().zip(masses);
    // Without the masses inside.
    Some(prices.map(|(g, b)| g - epsilon * b.ln()).collect())
}

/// The median of a number of some rows; `None` where that is no number above zero.
fn typical<T: Real>(cost: &dyn Cost<T>, of_row: impl Fn(&mut [T], usize) -> f64) -> Option<f64> {
    let (n, k) = (cost.rows(), cost.cols());
    let count = n.min(SAMPLE);
    let mut line = vec![T::zero(); k];
    let mut all: Vec<f64> = (0..count)
        .map(|s| {
            let i = s * n / count;
            cost.fill(i..i + 1, &mut line);
            of_row(&mut line, i)
        })
        .filter(|x| *x > 0.0 && x.is_finite())
        .collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}
