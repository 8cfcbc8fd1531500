//! Bounds on the optimum of the linear programme, from any plan and any prices.
//!
//! ```text
//! Σ_i min { Σ_j (C_ij − y_j) p_j : 0 ≤ p_j ≤ cap, lo_i ≤ Σ_j p_j ≤ hi_i } + Σ_v (lower_v λ_v⁺ − upper_v λ_v⁻)
//!     ≤   optimum   ≤   ⟨C, P'⟩
//! ```
//!
//! The left side is Lagrangian duality: whatever the prices λ of the tree's nodes (y_j their sum above column
//! j), each row is left with a fractional knapsack. The right side is a plan made feasible: column sums are taken to
//! the nearest ones the bounds allow, columns that hold too much are scaled down, and what is then missing is
//! filled into rows with room, those first that hold too little. Where caps on entries or forbidden pairs leave no such
//! room the bound is +∞.

use super::laminar::shares;
use super::question::Question;
use crate::Certificate;
use crate::flow::Bounds;
use crate::kernel::rounding::{Double, Sum, Tally, sum};

/// Mass that may be missing from a plan made feasible, as a share of all: it is put together in a few roundings. What is missing is
/// counted at the dearest price there is.
const MISSING: f64 = 1e-9;

/// A plan made feasible is made so again while that brings it closer, at most as often as this.
const REPAIRS: usize = 4;

/// Judges a plan whose rows and entries are within bounds, and prices of the tree's nodes.
pub(super) fn certify(
    question: &Question,
    held: &[Bounds],
    plan: &[f64],
    prices: &[f64],
) -> Certificate {
    let tree = &question.tree;
    let sums = Sums::new(question, plan);
    Certificate {
        primal: primal(question, held, plan, prices),
        dual: dual(question, prices),
        objective: cost(question, plan).value.value(),
        violation: sums.beyond / sums.mass.max(tree.bounds[tree.root()].lower).max(1e-300),
        mass: sums.mass,
    }
}

/// The sums of a plan, and what they are beyond their bounds.
struct Sums {
    cols: Vec<f64>,
    mass: f64,
    beyond: f64,
}

impl Sums {
    fn new(question: &Question, plan: &[f64]) -> Self {
        let tree = &question.tree;
        let mut cols = vec![Sum::default(); tree.cols];
        let mut beyond = 0.0;
        for (row, bounds) in plan.chunks_exact(tree.cols).zip(&question.rows) {
            beyond += bounds.distance(sum(row));
            for (sum, p) in cols.iter_mut().zip(row) {
                sum.add(*p);
            }
        }
        let cols: Vec<f64> = cols.into_iter().map(Sum::value).collect();
        let sums = tree.sums(&cols);
        let nodes = tree.bounds.iter().zip(&sums);
        beyond += nodes.map(|(b, s)| b.distance(*s)).sum::<f64>();
        Self {
            mass: sums[tree.root()],
            cols,
            beyond,
        }
    }
}

/// ⟨C, P⟩; a forbidden pair that carries nothing costs nothing.
fn cost(question: &Question, plan: &[f64]) -> Tally {
    let mut spent = Tally::default();
    for (c, p) in question.costs.iter().zip(plan) {
        if *p > 0.0 {
            spent.add(*c, *p);
        }
    }
    spent
}

/// The cost of a feasible plan near this one, rounded up.
fn primal(question: &Question, held: &[Bounds], plan: &[f64], prices: &[f64]) -> f64 {
    let mut sums = Sums::new(question, plan);
    let mut best: Option<(Vec<f64>, f64)> = None;
    for _ in 0..REPAIRS {
        let from = best.as_ref().map_or(plan, |(plan, _)| plan);
        let Some(nearer) = feasible(question, held, from, &sums.cols) else {
            break;
        };
        sums = Sums::new(question, &nearer);
        let overfull = nearer.iter().map(|p| (p - question.cap).max(0.0));
        let off = sums.beyond + overfull.sum::<f64>();
        if best.as_ref().is_some_and(|(_, least)| off >= *least) {
            break;
        }
        best = Some((nearer, off));
        if off == 0.0 {
            break;
        }
    }
    let Some((plan, off)) = best else {
        return f64::INFINITY;
    };
    let finite = question.costs.iter().filter(|c| c.is_finite());
    let above = question.tree.along_paths(prices);
    let dearest = finite.chain(&above).fold(0.0, |d: f64, c| d.max(c.abs()));
    let spent = cost(question, &plan);
    spent.value.value() + spent.error() + 2.0 * off * dearest
}

/// The value of these prices, rounded down.
fn dual(question: &Question, prices: &[f64]) -> f64 {
    let tree = &question.tree;
    let above = tree.along_paths(prices);
    let mut value = Tally::default();
    for (bounds, price) in tree.bounds.iter().zip(prices) {
        if *price > 0.0 {
            value.add(bounds.lower, *price);
        } else if *price < 0.0 {
            value.add(bounds.upper, *price);
        }
    }
    // What the sums along paths may be off by.
    let sizes: Vec<f64> = prices.iter().map(|p| p.abs()).collect();
    let longest = tree.along_paths(&sizes).into_iter().fold(0.0, f64::max);
    let blur = f64::EPSILON * longest;
    let mut reduced = vec![(0.0, 0.0); tree.cols];
    for (costs, bounds) in question.costs.chunks_exact(tree.cols).zip(&question.rows) {
        for ((r, cost), y) in reduced.iter_mut().zip(costs).zip(&above) {
            let Double { high, low } = Double::difference(*cost, *y);
            *r = (high, low);
        }
        reduced.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut room, mut owed) = (bounds.upper, bounds.lower);
        for (r, low) in &reduced {
            let share = if *r < 0.0 { room } else { owed }.min(question.cap);
            if !(share > 0.0) || *r == f64::INFINITY {
                break;
            }
            value.add(*r, share);
            value.add(*low, share);
            value.blur += blur * share;
            room -= share;
            owed -= share;
        }
    }
    value.value.value() - value.error()
}

/// A plan near this one that keeps all bounds, if there is a simple way to one.
fn feasible(question: &Question, held: &[Bounds], plan: &[f64], cols: &[f64]) -> Option<Vec<f64>> {
    let (k, rows) = (question.tree.cols, &question.rows);
    let wanted = question.tree.repair(cols, held);
    let factor = |(wanted, sum): (&f64, &f64)| if sum > wanted { wanted / sum } else { 1.0 };
    let factors: Vec<f64> = wanted.iter().zip(cols).map(factor).collect();
    let mut plan: Vec<f64> = plan
        .iter()
        .enumerate()
        .map(|(at, p)| p * factors[at % k])
        .collect();
    let mut sums: Vec<f64> = plan.chunks_exact(k).map(|row| row.iter().sum()).collect();
    let mut missing = wanted.iter().sum::<f64>() - sums.iter().sum::<f64>();
    let needs: Vec<f64> = rows
        .iter()
        .zip(&sums)
        .map(|(b, s)| (b.lower - s).max(0.0))
        .collect();
    let needed: f64 = needs.iter().sum();
    if needed > missing {
        // Rows that hold more than they must give the difference back: together they hold enough.
        let surplus: Vec<f64> = rows
            .iter()
            .zip(&sums)
            .map(|(b, s)| (s - b.lower).max(0.0))
            .collect();
        let part = ((needed - missing) / surplus.iter().sum::<f64>()).min(1.0);
        for ((row, sum), surplus) in plan.chunks_exact_mut(k).zip(&mut sums).zip(&surplus) {
            if *surplus > 0.0 {
                let left = 1.0 - part * surplus / *sum;
                row.iter_mut().for_each(|p| *p *= left);
                *sum *= left;
            }
        }
        missing = needed;
    }
    let mut lacks = wanted;
    for row in plan.chunks_exact(k) {
        for (lack, p) in lacks.iter_mut().zip(row) {
            *lack -= p;
        }
    }
    lacks.iter_mut().for_each(|l| *l = l.max(0.0));
    let rooms: Vec<f64> = rows
        .iter()
        .zip(&sums)
        .zip(&needs)
        .map(|((b, s), need)| (b.upper - s - need).max(0.0))
        .collect();
    let rest = (missing - needed).max(0.0);
    let quotas: Vec<f64> = needs
        .iter()
        .zip(shares(&rooms))
        .map(|(need, share)| need + rest * share)
        .collect();
    let left = if question.is_open() {
        let parts = shares(&lacks);
        for (row, quota) in plan.chunks_exact_mut(k).zip(&quotas) {
            for (p, part) in row.iter_mut().zip(&parts) {
                *p += quota * part;
            }
        }
        missing - quotas.iter().sum::<f64>()
    } else {
        let owed = fill(question, &mut plan, &needs, &mut lacks);
        fill(question, &mut plan, &rooms, &mut lacks);
        owed + lacks.iter().sum::<f64>()
    };
    let mass = held[question.tree.root()].lower.max(cols.iter().sum());
    (left <= MISSING * mass).then_some(plan)
}

/// Fills rows, each with up to its budget, with what columns lack, where caps and allowed pairs leave room; what of the
/// budgets is left.
fn fill(question: &Question, plan: &mut [f64], budgets: &[f64], lacks: &mut [f64]) -> f64 {
    let (k, mut unspent) = (question.tree.cols, 0.0);
    let rows = plan.chunks_exact_mut(k).zip(question.costs.chunks_exact(k));
    for ((row, costs), &budget) in rows.zip(budgets) {
        let mut budget = budget;
        for ((p, cost), lack) in row.iter_mut().zip(costs).zip(lacks.iter_mut()) {
            if cost.is_finite() {
                let more = lack.min(budget).min(question.cap - *p).max(0.0);
                *p += more;
                *lack -= more;
                budget -= more;
            }
        }
        unspent += budget;
    }
    unspent
}
