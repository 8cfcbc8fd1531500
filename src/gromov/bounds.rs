//! What no plan can do better than.
//!
//! A plan P makes of the relations C_ii', weighed a_i a_i', and D_jj', weighed b_j b_j', a coupling P ⊗ P of two distributions on the line;
//! the best coupling of the two is the sorted one, since either loss is submodular. So Σ L(sorted, sorted) is a lower bound (Mémoli's
//! second). Fused: with the optimum of the features' own transport beside it.

use super::{GromovProblem, Loss, Relations};
use crate::kernel::rounding::Sum;
use crate::kernel::sort::{key, sort, unkey};
use crate::kernel::tiles::both;
use crate::line::{Cumulative, walk};
use crate::{Dense, Exact, Marginals, Problem};

/// Things on a side from which on n² relations are not sorted where the points' moments give a bound, too.
const MANY: usize = 2_000;

pub(super) fn lower_bound(problem: &GromovProblem<'_>) -> f64 {
    if !problem.is_balanced() {
        return f64::NEG_INFINITY;
    }
    let few = problem.rows.len().max(problem.cols.len()) <= MANY;
    let sorted = match problem.clouds() {
        None => sorted_bound(problem),
        Some(clouds) => {
            let moments = clouds.moment_bound().unwrap_or(f64::NEG_INFINITY);
            if few {
                moments.max(sorted_bound(problem))
            } else {
                moments
            }
        }
    };
    let least = match problem.loss {
        Loss::Square => 0.0,
        Loss::Kl => f64::NEG_INFINITY,
    };
    let relations = sorted.max(least);
    match problem.features {
        None => relations,
        Some((costs, share)) => {
            let features = feature_bound(costs, &problem.marginals);
            // Zero times −∞ is nothing.
            let part = |share: f64, bound: f64| if share > 0.0 { share * bound } else { 0.0 };
            part(share, relations) + part(1.0 - share, features)
        }
    }
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
    pairs.sort_unstable();
    let shares = pairs.iter().map(|p| f64::from_bits(p.1));
    let levels = Cumulative::of_shares(shares);
    (pairs.into_iter().map(|p| unkey(p.0)).collect(), levels)
}
