//! Entropic allocation under bounds of every kind, by cyclic Bregman projections in the logarithm.
//!
//! ```text
//! minimise ⟨C, Q⟩ + ε Σ Q (ln Q − 1)
//! subject to  0 ≤ Q_ij ≤ cap,   Σ_j Q_ij ≤ a_i,   lower_v ≤ Σ_{j below v} Σ_i Q_ij ≤ upper_v
//! ```
//!
//! Dykstra's algorithm projects onto one constraint after the other in the Kullback–Leibler sense, each
//! time first undoing its own last correction. For bounds on sums the correction is one number per sum, its
//! multiplier, so the plan always has the form
//!
//! ```text
//! Q_ij = min(cap, exp(γ(y_j + α_i − C_ij))),    y_j = sum of the multipliers of the nodes above class j,
//! ```
//!
//! with α_i ≤ 0, and a node's multiplier negative only where its upper bound holds, positive only where its
//! lower bound does: a projection is a coordinate's exact maximisation of the dual. The corrections of the caps on
//! single entries are what `min` cuts off; eliminating them leaves O(n + k) memory instead of n·k, and makes
//! each projection a one-dimensional equation Σ min(cap, e^{x + l}) = t, solved exactly in finitely many rounds:
//! the set of capped entries only grows.
//!
//! Rows come last in a cycle, so they hold exactly; what is measured is the error of the tree of column sums. Multipliers are
//! prices in units of cost, so a solution for a small γ is a good start for a larger one.
//!
//! Cycles always get there, but may need tens of thousands. Between them Newton's step on the same dual
//! (see [`newton`](super::newton)) is tried; it is kept if the dual value rises, or does not fall by more than rounding
//! and the error halves, and as long as it halves the error no cycle is run at all. A kept step thus never undoes what
//! cycles have won, and a refused one costs its passes over the costs, which count as iterations.

use std::time::Instant;

use earthmover::Status;

use super::laminar::Tree;
use super::newton::Step;

/// What [`ConstrainedAllocation::solve`](super::ConstrainedAllocation::solve) does between cycles of projections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Acceleration {
    /// Newton's steps on the prices.
    #[default]
    Newton,
    /// Nothing: the textbook's cycles, as a check on the other.
    None,
}

/// What is asked, in masses.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) costs: &'a [f32],
    pub(crate) rows: &'a [f64],
    pub(crate) cap: f64,
    pub(crate) tree: &'a Tree,
}

/// Where the projections ended.
#[derive(Debug)]
pub(crate) struct Projected {
    /// Multipliers of the tree's nodes over γ.
    pub(crate) prices: Vec<f64>,
    pub(crate) plan: Vec<f64>,
    pub(crate) status: Status,
    pub(crate) iterations: usize,
}

/// Projects a row: the largest α ≤ 0 for which Σ min(cap, e^{α + l}) ≤ mass, and the row itself in place of l.
pub(crate) fn project_row(logits: &mut [f64], mass: f64, cap: f64) -> f64 {
    let shift = level(logits.iter().copied(), mass, cap).min(0.0);
    let ceiling = cap.ln();
    for logit in logits {
        *logit = if *logit + shift >= ceiling {
            cap
        } else {
            (*logit + shift).exp()
        };
    }
    shift
}

/// The x with Σ min(cap, e^{x + l}) = target; +∞ where even all at the cap fall short.
fn level(logits: impl Iterator<Item = f64> + Clone, target: f64, cap: f64) -> f64 {
    let ceiling = cap.ln();
    // Ignoring the caps overestimates the sum, so this x is too small and the capped set too.
    let mut x = target.ln() - log_sum_exp(logits.clone());
    let mut capped = 0usize;
    loop {
        if x == f64::NEG_INFINITY {
            return x;
        }
        let now = logits.clone().filter(|l| l + x >= ceiling).count();
        if now == capped {
            return x;
        }
        capped = now;
        let left = target - cap * capped as f64;
        let free = log_sum_exp(logits.clone().filter(|l| l + x < ceiling));
        if free == f64::NEG_INFINITY {
            // Only a rounding error may be left over.
            return if left > 1e-12 * target {
                f64::INFINITY
            } else {
                x
            };
        }
        let next = left.max(0.0).ln() - free;
        if next <= x {
            return x;
        }
        x = next;
    }
}

fn log_sum_exp(logits: impl Iterator<Item = f64> + Clone) -> f64 {
    let top = logits.clone().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + logits.map(|l| (l - top).exp()).sum::<f64>().ln()
}

/// Runs the projections at γ, annealed from a small one.
pub(crate) fn project(
    question: &Question<'_>,
    gamma: f64,
    tolerance: f64,
    max_iterations: usize,
    acceleration: Acceleration,
    deadline: Option<Instant>,
) -> Projected {
    let mut stages = vec![gamma];
    while let Some(&last) = stages.last().filter(|&&g| g > 20.0) {
        stages.push(last / 3.0);
    }
    let nodes = question.tree.bounds.len();
    let mut state = State {
        question,
        gamma,
        alpha: vec![0.0; question.rows.len()],
        multipliers: vec![0.0; nodes],
        sums: vec![0.0; nodes],
        plan: vec![0.0; question.costs.len()],
        reach: REACH,
    };
    let (mut iterations, mut status) = (0, Status::IterationLimit);
    while let Some(stage) = stages.pop() {
        let ratio = stage / state.gamma;
        state.multipliers.iter_mut().for_each(|m| *m *= ratio);
        state.gamma = stage;
        // An intermediate stage need only be roughly right.
        let goal = if stages.is_empty() {
            tolerance
        } else {
            tolerance.max(1e-3)
        };
        state.project_rows();
        // Newton's matrix is a decomposition of as many unknowns as nodes, worth a few cycles where they are many.
        let rest = 1 + nodes / 64;
        let (mut patience, mut wait) = (rest, rest);
        status = loop {
            let error = state.error();
            if error <= goal {
                break Status::Converged;
            }
            if error.is_nan() {
                break Status::Stalled;
            }
            if deadline.is_some_and(|end| Instant::now() >= end) {
                break Status::Stopped;
            }
            if iterations >= max_iterations {
                break Status::IterationLimit;
            }
            let room = iterations + TRIALS < max_iterations;
            if acceleration == Acceleration::Newton && wait == 0 && room {
                let kept = state.newton(error, &mut iterations);
                if kept {
                    patience = rest;
                    if state.error() <= 0.5 * error {
                        continue;
                    }
                } else {
                    patience = (2 * patience).min(64.max(rest));
                }
                wait = patience;
            }
            if question.cap.is_finite() {
                state.project_capped_tree();
            } else {
                state.project_tree();
            }
            state.project_rows();
            iterations += 1;
            wait = wait.saturating_sub(1);
        };
        if matches!(status, Status::Stalled | Status::Stopped) {
            break;
        }
    }
    Projected {
        prices: state.multipliers.iter().map(|m| m / state.gamma).collect(),
        plan: state.plan,
        status,
        iterations,
    }
}

struct State<'a> {
    question: &'a Question<'a>,
    gamma: f64,
    alpha: Vec<f64>,
    /// γ times the prices of the tree's nodes.
    multipliers: Vec<f64>,
    sums: Vec<f64>,
    plan: Vec<f64>,
    /// How far Newton's step has been good for lately.
    reach: f64,
}

/// The longest step in the logarithm that a quadratic model of exponentials is ever trusted for.
const REACH: f64 = 10.0;

/// Lengths of Newton's step that are tried, each a quarter of the one before. Where rows are nearly decided the dual is
/// flat up to a wall that rises exponentially, and only a short step ends before it.
const TRIALS: usize = 4;

impl State<'_> {
    fn project_rows(&mut self) {
        let tree = self.question.tree;
        let k = tree.classes;
        let paths = tree.along_paths(&self.multipliers);
        let mut classes = vec![0.0; k];
        let rows = self.question.costs.chunks_exact(k).zip(self.question.rows);
        let plan = self.plan.chunks_exact_mut(k);
        for (((costs, &mass), q), alpha) in rows.zip(plan).zip(&mut self.alpha) {
            for ((q, path), cost) in q.iter_mut().zip(&paths).zip(costs) {
                *q = path - self.gamma * f64::from(*cost);
            }
            *alpha = project_row(q, mass, self.question.cap);
            for (sum, q) in classes.iter_mut().zip(q) {
                *sum += *q;
            }
        }
        self.sums = tree.sums(&classes);
    }

    /// Distance from the optimality conditions of the tree, over the mass: bounds violated, and bounds
    /// with a price that are not met.
    fn error(&self) -> f64 {
        let tree = self.question.tree;
        let mut error = 0.0;
        for (v, (bounds, sum)) in tree.bounds.iter().zip(&self.sums).enumerate() {
            error += match self.multipliers[v] {
                m if m < 0.0 => (sum - bounds.upper).abs(),
                m if m > 0.0 => (sum - bounds.lower).abs(),
                _ => bounds.distance(*sum),
            };
        }
        error
            / self.sums[tree.root()]
                .max(tree.bounds[tree.root()].lower)
                .max(1e-300)
    }

    /// Tries Newton's step, whole and shortened; where none is any good, multipliers, row multipliers and sums
    /// are as before, but not the plan.
    fn newton(&mut self, error: f64, iterations: &mut usize) -> bool {
        let step = Step::new(
            self.question.tree,
            &self.curvature(),
            &self.multipliers,
            &self.sums,
            error.clamp(1e-10, 1e-3),
        );
        let Some(step) = step else { return false };
        let (before, _) = self.dual();
        let (alpha, sums) = (self.alpha.clone(), self.sums.clone());
        let old = self.multipliers.clone();
        for trial in 0..TRIALS {
            let share = step.within(self.reach);
            self.multipliers = step.at(share);
            self.project_rows();
            *iterations += 1;
            // The value is blunt near the optimum, where it is flat; the error is not.
            let (after, blur) = self.dual();
            if after > before || (after >= before - blur && self.error() <= 0.5 * error) {
                if trial == 0 {
                    self.reach = (4.0 * self.reach).min(REACH);
                }
                return true;
            }
            self.reach = 0.25 * step.length(share);
        }
        (self.alpha, self.sums, self.multipliers) = (alpha, sums, old);
        false
    }

    /// Value of the dual at the multipliers, the rows' and the caps' being the best there are; and what rounding
    /// may have done to it.
    fn dual(&self) -> (f64, f64) {
        let tree = self.question.tree;
        let (k, cap) = (tree.classes, self.question.cap);
        let paths = tree.along_paths(&self.multipliers);
        let rows = self
            .plan
            .chunks_exact(k)
            .zip(self.question.costs.chunks_exact(k));
        let (mut value, mut size) = (0.0, 0.0);
        let mut add = |term: f64| {
            value += term;
            size += term.abs();
        };
        for ((q, costs), alpha) in rows.zip(&self.alpha) {
            let mut free = 0.0;
            for ((q, cost), path) in q.iter().zip(costs).zip(&paths) {
                if *q < cap {
                    free += q;
                } else {
                    add(cap * (cap.ln() - 1.0 - (path - self.gamma * f64::from(*cost))));
                }
            }
            if free > 0.0 {
                add(free * (alpha - 1.0));
            }
        }
        for (m, bounds) in self.multipliers.iter().zip(&tree.bounds) {
            match *m {
                m if m > 0.0 => add(m * bounds.lower),
                m if m < 0.0 => add(m * bounds.upper),
                _ => {}
            }
        }
        (value, 1e-13 * size)
    }

    /// How the classes' sums answer to the logarithms of their scalings, k × k.
    fn curvature(&self) -> Vec<f64> {
        let (k, cap) = (self.question.tree.classes, self.question.cap);
        let mut curvature = vec![0.0; k * k];
        let mut heavy: Vec<(usize, f64)> = Vec::with_capacity(k);
        for (row, alpha) in self.plan.chunks_exact(k).zip(&self.alpha) {
            let slack = *alpha >= 0.0;
            let free: f64 = row.iter().filter(|q| **q < cap).sum();
            heavy.clear();
            for (j, &q) in row.iter().enumerate().filter(|(_, q)| **q < cap) {
                curvature[j * k + j] += if slack { q } else { q * (free - q) / free };
                // Rows are nearly decided: products of the few entries that count are all there is.
                if !slack && q > 1e-12 * free {
                    heavy.push((j, q));
                }
            }
            for (at, (j, q)) in heavy.iter().enumerate() {
                for (l, r) in &heavy[..at] {
                    curvature[j * k + l] -= q * r / free;
                    curvature[l * k + j] -= q * r / free;
                }
            }
        }
        curvature
    }

    /// Without caps a multiplier scales its node's sum, so the tree is projected onto by arithmetic on k
    /// sums, around and around until it stands still: one pass over the costs for all of it.
    fn project_tree(&mut self) {
        let tree = self.question.tree;
        let before = tree.along_paths(&self.multipliers);
        // Logarithms of the class sums without any multiplier of the tree.
        let bare: Vec<f64> = (0..tree.classes)
            .map(|j| self.log_class_sum(j) - before[j])
            .collect();
        for _ in 0..200 {
            let mut moved = 0.0f64;
            for &v in &tree.upwards {
                let paths = tree.along_paths(&self.multipliers);
                let owners = (0..tree.classes).filter(|&j| self.below(j, v));
                let sum = log_sum_exp(
                    owners
                        .map(|j| bare[j] + paths[j])
                        .collect::<Vec<_>>()
                        .into_iter(),
                );
                let old = self.multipliers[v];
                let new = corrected(sum - old, tree.bounds[v].lower, tree.bounds[v].upper);
                self.multipliers[v] = new;
                moved = moved.max((new - old).abs());
            }
            if moved < 1e-13 {
                break;
            }
        }
    }

    fn below(&self, class: usize, node: usize) -> bool {
        self.question.tree.holds(node, class)
    }

    fn log_class_sum(&self, class: usize) -> f64 {
        let sum = self.sums[class];
        if sum > 1e-280 {
            return sum.ln();
        }
        let k = self.question.tree.classes;
        let path = self.question.tree.along_paths(&self.multipliers)[class];
        let column = self.question.costs[class..].iter().step_by(k);
        log_sum_exp(
            column
                .zip(&self.alpha)
                .map(|(cost, alpha)| path + alpha - self.gamma * f64::from(*cost)),
        )
    }

    /// With caps each node's equation is solved on its entries, classes first.
    fn project_capped_tree(&mut self) {
        let tree = self.question.tree;
        let k = tree.classes;
        for &v in &tree.upwards {
            let classes: Vec<usize> = (0..k).filter(|&j| self.below(j, v)).collect();
            if classes.is_empty() {
                continue;
            }
            let paths = tree.along_paths(&self.multipliers);
            let old = self.multipliers[v];
            let (costs, gamma, alpha) = (self.question.costs, self.gamma, &self.alpha);
            let logits = classes.iter().flat_map(|&j| {
                let offset = paths[j] - old;
                let column = costs[j..].iter().step_by(k).zip(alpha);
                column.map(move |(cost, alpha)| offset + alpha - gamma * f64::from(*cost))
            });
            let cap = self.question.cap;
            let bare: f64 = logits.clone().map(|l| l.exp().min(cap)).sum();
            let bounds = tree.bounds[v];
            self.multipliers[v] = if bare > bounds.upper {
                level(logits, bounds.upper, cap).clamp(-1e9, 0.0)
            } else if bare < bounds.lower {
                // Where rows have been pushed down too far for now, the old price is kept.
                let raised = level(logits, bounds.lower, cap).max(0.0);
                if raised.is_finite() {
                    raised
                } else {
                    old.max(0.0) + 1.0
                }
            } else {
                0.0
            };
        }
    }
}

/// The multiplier that takes a sum (given by its logarithm, without it) into its bounds.
fn corrected(log_sum: f64, lower: f64, upper: f64) -> f64 {
    if log_sum == f64::NEG_INFINITY {
        return 0.0;
    }
    let (low, high) = (lower.ln(), upper.ln());
    if log_sum > high {
        // An upper bound of zero has the price +∞; a large finite one keeps the arithmetic honest.
        (high - log_sum).max(-1e9)
    } else if log_sum < low {
        low - log_sum
    } else {
        0.0
    }
}
