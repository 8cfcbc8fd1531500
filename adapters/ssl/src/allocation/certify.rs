//! Bounds on the optimum of the constrained linear programme, from any plan and any prices.
//!
//! ```text
//! Σ_i min { Σ_j (C_ij − y_j) q_j : 0 ≤ q_j ≤ cap, Σ_j q_j ≤ a_i } + Σ_v (lower_v λ_v⁺ − upper_v λ_v⁻)
//!     ≤   optimum   ≤   ⟨C, Q'⟩
//! ```
//!
//! The left side is Lagrangian duality: whatever the prices λ of the tree's nodes (y_j their sum above class
//! j), each row is left with a fractional knapsack. The right side is a plan made feasible: class sums are taken to
//! the nearest ones the bounds allow, classes that hold too much are scaled down, and what is then missing is
//! filled into rows with room. Where caps on entries leave no such room the bound is +∞.

use earthmover::Certificate;

use super::dykstra::Question;
use super::laminar::Interval;

/// Judges a plan whose rows and entries are within bounds, and prices of the tree's nodes.
pub(crate) fn certify(
    question: &Question<'_>,
    held: &[Interval],
    plan: &[f64],
    prices: &[f64],
) -> Certificate {
    let tree = question.tree;
    let k = tree.classes;
    let mut classes = vec![0.0; k];
    let (mut objective, mut rows_over) = (0.0, 0.0);
    for ((costs, q), mass) in rows(question, plan) {
        for ((sum, q), cost) in classes.iter_mut().zip(q).zip(costs) {
            *sum += q;
            objective += q * f64::from(*cost);
        }
        rows_over += (q.iter().sum::<f64>() - mass).max(0.0);
    }
    let sums = tree.sums(&classes);
    let mass = sums[tree.root()];
    let pairs = tree.bounds.iter().zip(&sums);
    let violation = rows_over + pairs.map(|(b, s)| b.distance(*s)).sum::<f64>();
    Certificate {
        primal: primal(question, held, plan, &classes).unwrap_or(f64::INFINITY),
        dual: dual(question, prices),
        objective,
        violation: violation / mass.max(tree.bounds[tree.root()].lower).max(1e-300),
        mass,
    }
}

fn rows<'a>(
    question: &Question<'a>,
    plan: &'a [f64],
) -> impl Iterator<Item = ((&'a [f32], &'a [f64]), f64)> {
    let k = question.tree.classes;
    let costs = question.costs.chunks_exact(k);
    costs
        .zip(plan.chunks_exact(k))
        .zip(question.rows.iter().copied())
}

fn dual(question: &Question<'_>, prices: &[f64]) -> f64 {
    let tree = question.tree;
    let above = tree.along_paths(prices);
    let mut value = 0.0;
    for (bounds, price) in tree.bounds.iter().zip(prices) {
        if *price > 0.0 {
            value += bounds.lower * price;
        } else if *price < 0.0 {
            value += bounds.upper * price;
        }
    }
    let mut reduced = vec![0.0; tree.classes];
    for (costs, &mass) in question.costs.chunks_exact(tree.classes).zip(question.rows) {
        for ((r, cost), y) in reduced.iter_mut().zip(costs).zip(&above) {
            *r = f64::from(*cost) - y;
        }
        reduced.sort_by(f64::total_cmp);
        let mut left = mass;
        for r in reduced.iter().take_while(|r| **r < 0.0) {
            let share = left.min(question.cap);
            value += r * share;
            left -= share;
        }
    }
    value
}

fn primal(
    question: &Question<'_>,
    held: &[Interval],
    plan: &[f64],
    classes: &[f64],
) -> Option<f64> {
    let k = question.tree.classes;
    let wanted = question.tree.repair(classes, held);
    let scale = |j: usize| {
        if classes[j] > wanted[j] {
            wanted[j] / classes[j]
        } else {
            1.0
        }
    };
    let factors: Vec<f64> = (0..k).map(scale).collect();
    let mut lack: Vec<f64> = (0..k)
        .map(|j| (wanted[j] - classes[j] * factors[j]).max(0.0))
        .collect();
    let missing: f64 = lack.iter().sum();
    let (mut value, mut room) = (0.0, Vec::with_capacity(question.rows.len()));
    for ((costs, q), mass) in rows(question, plan) {
        let mut left = mass;
        for ((q, factor), cost) in q.iter().zip(&factors).zip(costs) {
            value += q * factor * f64::from(*cost);
            left -= q * factor;
        }
        room.push(left.max(0.0));
    }
    let all: f64 = room.iter().sum();
    if missing <= 1e-12 * (1.0 + all) {
        return Some(value);
    }
    if question.cap.is_infinite() {
        // Proportional: row i's room times class j's lack. The rows' total room is at least the lack.
        for (costs, room) in question.costs.chunks_exact(k).zip(&room) {
            for (cost, lack) in costs.iter().zip(&lack) {
                value += room * lack / all.max(missing) * f64::from(*cost);
            }
        }
        return Some(value);
    }
    for ((costs, q), room) in question
        .costs
        .chunks_exact(k)
        .zip(plan.chunks_exact(k))
        .zip(&mut room)
    {
        for j in 0..k {
            let more = lack[j]
                .min(*room)
                .min(question.cap - q[j] * factors[j])
                .max(0.0);
            value += more * f64::from(costs[j]);
            lack[j] -= more;
            *room -= more;
        }
    }
    let left: f64 = lack.iter().sum();
    (left <= 1e-9 * (1.0 + all)).then_some(value)
}
