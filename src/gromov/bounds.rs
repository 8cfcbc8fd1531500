//! What no plan can do better than.
//!
//! A plan P makes of the relations C_ii', weighed a_i a_i', and D_jj', weighed b_j b_j', a coupling P ⊗ P of two distributions on the line;
//! the best coupling of the two is the sorted one, since either loss is submodular. So Σ L(sorted, sorted) is a lower bound (Mémoli's
//! second). Where columns take what they get every relation of the rows finds the best of all the columns'; where only a part is moved
//! no loss is below zero. Fused: with the optimum of the features' own transport beside it.

use super::{GromovProblem, Relations};
use crate::kernel::rounding::Sum;
use crate::kernel::sort::{key, sort, sort_by_halves, unkey};
use crate::kernel::tiles::both;
use crate::line::{Cumulative, walk};
use crate::{Dense, Exact, Marginals, Problem};

/// Things on a side from which on n² relations are not sorted where the points' moments give a bound, too.
const MOST_SORTED: usize = 2_000;

pub(super) fn lower_bound(problem: &GromovProblem<'_>) -> f64 {
    let (rows, marginals) = (&problem.rows, &problem.marginals);
    let supply: f64 = marginals.rows().iter().sum();
    let relations = if problem.semi_relaxed {
        nearest_bound(problem)
    } else if problem.is_balanced() {
        balanced_bound(problem)
    } else {
        f64::NEG_INFINITY
    };
    let largest = || rows.mapped(|c| c).into_iter().fold(0.0, f64::max);
    let least = supply * supply * problem.loss.least(largest);
    let relations = relations.max(least);
    let Some((costs, share)) = problem.features else {
        return relations;
    };
    let features = if problem.semi_relaxed {
        let lines = costs.chunks_exact(problem.cols.len());
        let cheapest = lines.map(|line| line.iter().copied().fold(f64::INFINITY, f64::min));
        cheapest.zip(marginals.rows()).map(|(c, a)| c * a).sum()
    } else {
        feature_bound(costs, marginals)
    };
    // Zero times −∞ is nothing.
    let part = |share: f64, bound: f64| if share > 0.0 { share * bound } else { 0.0 };
    part(share, relations) + part(1.0 - share, features)
}

fn balanced_bound(problem: &GromovProblem<'_>) -> f64 {
    let few = problem.rows.len().max(problem.cols.len()) <= MOST_SORTED;
    match problem.clouds() {
        None => sorted_bound(problem),
        Some(clouds) => {
            let moments = clouds.moment_bound().unwrap_or(f64::NEG_INFINITY);
            if few {
                moments.max(sorted_bound(problem))
            } else {
                moments
            }
        }
    }
}

/// Where columns take what they get: each relation of the rows against the one of the columns that suits it best.
fn nearest_bound(problem: &GromovProblem<'_>) -> f64 {
    let mut there = problem.cols.mapped(|d| d);
    there.sort_unstable_by(f64::total_cmp);
    // The loss falls to its least at d = c and rises from there: one of the two neighbours is the best.
    let best = |c: f64| {
        let above = there.partition_point(|d| *d < c);
        let neighbours = [above.checked_sub(1), Some(above)].into_iter().flatten();
        let losses = neighbours.filter_map(|k| there.get(k));
        losses
            .map(|d| problem.loss.between(c, *d))
            .fold(f64::INFINITY, f64::min)
    };
    let masses = problem.marginals.rows();
    let mut bound = Sum::default();
    for (i, a) in masses.iter().enumerate() {
        for (j, b) in masses.iter().enumerate() {
            bound.add(a * b * best(problem.rows.at(i, j)));
        }
    }
    bound.value() * (1.0 - 1e-13)
}

/// The dual value of the features' own transport.
fn feature_bound(costs: &[f64], marginals: &Marginals) -> f64 {
    let solve = || {
        let cost = Dense::new(costs, marginals.rows().len(), marginals.cols().len())?;
        let problem = Problem::new(cost, marginals.clone())?;
        Ok::<f64, crate::Error>(Exact::new().solve(&problem)?.certificate().dual)
    };
    solve().unwrap_or(f64::NEG_INFINITY)
}

fn sorted_bound(problem: &GromovProblem<'_>) -> f64 {
    let ((c, c_levels), (d, d_levels)) = both(
        || distribution(&problem.rows, problem.marginals.rows()),
        || distribution(&problem.cols, problem.marginals.cols()),
    );
    let mut bound = Sum::default();
    walk(&c_levels, &d_levels, 0..c.len(), |i, j, mass| {
        bound.add(mass * problem.loss.between(c[i], d[j]));
    });
    let total = problem.marginals.total();
    let value = bound.value() * total * total;
    // What rounding of so many sums may have added.
    let size: f64 = c.iter().chain(&d).fold(0.0, |m: f64, x| m.max(x.abs()));
    value - 1e-13 * total * total * size * size.max(1.0)
}

/// All relations, least first, and the levels of their weights out of one.
fn distribution(relations: &Relations<'_>, masses: &[f64]) -> (Vec<f64>, Cumulative) {
    let n = relations.len();
    if masses.iter().all(|a| *a == masses[0]) {
        let mut keys: Vec<u64> = relations.mapped(|c| c).into_iter().map(key).collect();
        sort(&mut keys);
        return (
            keys.into_iter().map(unkey).collect(),
            Cumulative::Uniform(n * n),
        );
    }
    let total: f64 = masses.iter().sum();
    let mut pairs: Vec<(u64, u64)> = Vec::with_capacity(n * n);
    for i in 0..n {
        for j in 0..n {
            let weight = (masses[i] / total) * (masses[j] / total);
            if weight > 0.0 {
                pairs.push((key(relations.at(i, j)), weight.to_bits()));
            }
        }
    }
    let pairs = sort_by_halves(pairs);
    let shares = pairs.iter().map(|p| f64::from_bits(p.1));
    let levels = Cumulative::of_shares(shares);
    (pairs.into_iter().map(|p| unkey(p.0)).collect(), levels)
}
