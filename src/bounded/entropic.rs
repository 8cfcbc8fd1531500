//! Entropic transport under bounds of every kind, by cyclic Bregman projections in the logarithm.
//!
//! ```text
//! minimise  ⟨C, P⟩ + ε Σ P (ln P − 1)
//! subject to  0 ≤ P_ij ≤ cap,   lower_i ≤ Σ_j P_ij ≤ upper_i,   lower_v ≤ Σ_{j below v} Σ_i P_ij ≤ upper_v
//! ```
//!
//! Dykstra's algorithm projects onto one constraint after the other in the Kullback–Leibler sense, each
//! time first undoing its own last correction. For bounds on sums the correction is one number per sum, its
//! multiplier, so the plan always has the form
//!
//! ```text
//! P_ij = min(cap, exp(γ(y_j − C_ij) + α_i)),    γ = 1/ε,    y_j = sum of the prices of the nodes above column j,
//! ```
//!
//! with a multiplier negative only where its upper bound holds, positive only where its lower bound does: a projection is
//! a coordinate's exact maximisation of the dual. The corrections of the caps on
//! single entries are what `min` cuts off; eliminating them leaves O(n + k) multipliers instead of n·k, and makes
//! each projection a one-dimensional equation Σ min(cap, e^{x + l}) = t, solved exactly in finitely many rounds:
//! the set of capped entries only grows.
//!
//! Rows come last in a cycle, so they hold exactly; what is measured is the error of the tree of column sums. Multipliers are
//! prices in units of cost, so a solution for a large ε is a good start for a smaller one.
//!
//! Cycles always get there, but may need tens of thousands. Between them Newton's step on the same dual
//! (see `newton`) is tried; it is kept if the dual value rises, or does not fall by more than rounding
//! and the error halves, and as long as it halves the error no cycle is run at all. A kept step thus never undoes what
//! cycles have won, and a refused one costs its passes over the costs, which count as iterations.

use super::certificate::certify;
use super::exact::feasible;
use super::newton::Step;
use super::projection::{CLOSED, corrected, level, project_row};
use super::question::Question;
use super::solution::{BoundedSolution, Prices};
use crate::entropic::outcome::{check_epsilon, check_tolerance};
use crate::entropic::probe::CostProbe;
use crate::flow::MinCostFlow;
use crate::kernel::exp::log_sum_exp;
use crate::solver::{Guard, Watch, options, watched};
use crate::{Dense, Error, OwnedPlan, Progress, Status};

/// What [`BregmanProjections`] does between cycles of projections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Acceleration {
    /// Newton's steps on the prices.
    #[default]
    Newton,
    /// Nothing: the textbook's cycles, as a check on the other.
    None,
}

/// The entropic solver of a [`BoundedTransport`](super::BoundedTransport): Dykstra's cyclic projections, and Newton's steps
/// on the prices between them.
///
/// # Complexity
/// 16 bytes of memory for each of the rows × columns pairs. A cycle is one exponential per pair, with caps on entries a few
/// passes for each column and group; a Newton step another two passes and a decomposition of as many unknowns as there
/// are columns and groups.
///
/// # Examples
/// ```
/// use earthmover::{Dense, bounded::{BoundedTransport, BregmanProjections}};
/// let transport = BoundedTransport::new(Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2)?)
///     .every_row(0.5)
///     .every_col(0.3..=0.7);
/// let answer = transport.solve_entropic(&BregmanProjections::new(0.1))?;
/// assert!((answer.col_sums()[0] - 0.5).abs() < 1e-6);
/// # Ok::<(), earthmover::Error>(())
/// ```
///
/// # References
/// Benamou, Carlier, Cuturi, Nenna and Peyré, *Iterative Bregman projections for regularized transportation
/// problems* (2015); Dykstra (1983) for the corrections.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(default = "BregmanProjections::unregularised", deny_unknown_fields)
)]
#[must_use]
pub struct BregmanProjections {
    epsilon: f64,
    tolerance: f64,
    max_iterations: usize,
    acceleration: Acceleration,
    #[cfg_attr(feature = "serde", serde(rename = "time_limit"))]
    watch: Watch,
}

impl BregmanProjections {
    /// What options start from as they are read: ε has no default, and solving refuses to do without.
    #[cfg(feature = "serde")]
    fn unregularised() -> Self {
        Self::new(f64::NAN)
    }

    /// A solver with the entropic regularisation ε, in the unit of the costs.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, Error, bounded::{BoundedTransport, BregmanProjections}};
    /// let transport = BoundedTransport::new(Dense::new(&[0.0, 1.0], 1, 2)?).every_col(0.3);
    /// let hard = transport.solve_entropic(&BregmanProjections::new(0.0));
    /// assert!(matches!(hard, Err(Error::Option { name: "epsilon", .. })));
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn new(epsilon: f64) -> Self {
        Self {
            epsilon,
            tolerance: 1e-6,
            max_iterations: 10_000,
            acceleration: Acceleration::default(),
            watch: Watch::default(),
        }
    }

    options! {
        /// Error of the bounded sums over the mass at which to stop: what they are beyond their bounds by, and how far a sum with a
        /// price is from its bound. Default: 1e-6.
        ///
        /// # Examples
        /// ```
        /// use earthmover::{Dense, bounded::{BoundedTransport, BregmanProjections}};
        /// let transport = BoundedTransport::new(Dense::new(&[0.0, 1.0, 0.3, 0.4], 2, 2)?).every_row(0.5).every_col(..=0.6);
        /// let answer = transport.solve_entropic(&BregmanProjections::new(0.1).tolerance(1e-10))?;
        /// assert!(answer.certificate().violation <= 1e-10);
        /// # Ok::<(), earthmover::Error>(())
        /// ```
        tolerance: f64,

        /// Cap on the passes over the costs: cycles of projections and Newton's steps. Default: 10,000.
        ///
        /// # Examples
        /// ```
        /// use earthmover::{Dense, Status, bounded::{BoundedTransport, BregmanProjections}};
        /// let transport = BoundedTransport::new(Dense::new(&[0.0, 1.0, 0.3, 0.4], 2, 2)?).every_row(0.5).every_col(..=0.6);
        /// let answer = transport.solve_entropic(&BregmanProjections::new(0.1).max_iterations(0))?;
        /// assert_eq!(answer.status(), Status::IterationLimit);
        /// # Ok::<(), earthmover::Error>(())
        /// ```
        max_iterations: usize,

        /// What is done between cycles of projections. Default: Newton's steps.
        ///
        /// # Examples
        /// ```
        /// use earthmover::{Dense, bounded::{Acceleration, BoundedTransport, BregmanProjections}};
        /// let transport = BoundedTransport::new(Dense::new(&[0.0, 1.0, 0.3, 0.4], 2, 2)?).every_row(0.5).every_col(..=0.6);
        /// let fast = BregmanProjections::new(0.1);
        /// let plain = fast.clone().acceleration(Acceleration::None);
        /// let (fast, plain) = (transport.solve_entropic(&fast)?, transport.solve_entropic(&plain)?);
        /// assert!((fast.objective() - plain.objective()).abs() < 1e-6);
        /// # Ok::<(), earthmover::Error>(())
        /// ```
        acceleration: Acceleration,
    }

    watched! {
        /// Calls `callback` before every cycle; [`ControlFlow::Break`](core::ops::ControlFlow::Break) stops with the plan so far. Default: none.
        ///
        /// # Examples
        /// ```
        /// use core::ops::ControlFlow;
        /// use earthmover::{Dense, Status, bounded::{BoundedTransport, BregmanProjections}};
        /// let transport = BoundedTransport::new(Dense::new(&[0.0, 1.0], 1, 2)?).every_col(0.3);
        /// let impatient = BregmanProjections::new(0.1).on_progress(|_| ControlFlow::Break(()));
        /// assert_eq!(transport.solve_entropic(&impatient)?.status(), Status::Stopped);
        /// # Ok::<(), earthmover::Error>(())
        /// ```
        on_progress,
        /// Stops with [`Status::Stopped`] when this much time has passed; obeyed within a cycle of projections. What is found by then
        /// need not keep the bounds: the certificate says how far off it is. Default: never.
        ///
        /// # Examples
        /// ```
        /// use earthmover::{Dense, Status, bounded::{BoundedTransport, BregmanProjections}};
        /// let transport = BoundedTransport::new(Dense::new(&[0.0, 1.0, 0.3, 0.4], 2, 2)?).every_row(0.5).every_col(..=0.6);
        /// let hasty = BregmanProjections::new(0.1).time_limit(std::time::Duration::ZERO);
        /// assert_eq!(transport.solve_entropic(&hasty)?.status(), Status::Stopped);
        /// # Ok::<(), earthmover::Error>(())
        /// ```
        time_limit,
    }
}

/// Costs that are apart by this many ε in a typical row are where to begin: softer stages teach nothing.
const FIRST_CONTRAST: f64 = 64.0;

/// What an intermediate stage need be right to.
const STAGE_TOLERANCE: f64 = 1e-3;

/// Projects, from a soft problem to the one that was asked.
pub(super) fn project(
    mut question: Question,
    solver: &BregmanProjections,
) -> Result<BoundedSolution, Error> {
    check_epsilon(solver.epsilon)?;
    check_tolerance(solver.tolerance)?;
    let guard = solver.watch.begin()?;
    let held = question.tighten()?;
    let (n, k) = (question.rows.len(), question.tree.cols);
    let spread = CostProbe::new(&Dense::new(&question.costs, n, k)?, solver.epsilon).spread;
    let gamma = 1.0 / solver.epsilon;
    let mut stages = vec![gamma];
    while let Some(&last) = stages.last().filter(|&&g| g * spread > FIRST_CONTRAST) {
        stages.push(last / 3.0);
    }
    let mut state = State::new(&question, gamma);
    let mut status = Status::IterationLimit;
    while let Some(stage) = stages.pop() {
        let goal = if stages.is_empty() {
            solver.tolerance
        } else {
            solver.tolerance.max(STAGE_TOLERANCE)
        };
        status = state.stage(stage, goal, solver, &guard);
        if matches!(status, Status::Stalled | Status::Stopped) {
            break;
        }
    }
    let unfinished = matches!(status, Status::Stalled | Status::IterationLimit);
    if unfinished && !question.is_open() {
        // Prices without end may be a question without an answer: caps and forbidden pairs can contradict the bounds in
        // ways that only a flow tells.
        feasible(&question, &MinCostFlow::watched(solver.watch.clone()))?;
    }
    let nodes: Vec<f64> = state.multipliers.iter().map(|m| m / state.gamma).collect();
    let rows: Vec<f64> = state.alpha.iter().map(|a| a / state.gamma).collect();
    let (plan, iterations) = (state.plan, state.iterations);
    let certificate = certify(&question, &held, &plan, &nodes);
    Ok(BoundedSolution {
        plan: OwnedPlan::Dense {
            rows: n,
            cols: k,
            masses: plan,
        },
        row_potentials: rows.clone(),
        col_potentials: question.tree.along_paths(&nodes),
        prices: Prices { rows, nodes },
        certificate,
        status,
        iterations,
        epsilon: solver.epsilon,
        cap: question.cap,
    })
}

struct State<'a> {
    question: &'a Question,
    gamma: f64,
    alpha: Vec<f64>,
    /// γ times the prices of the tree's nodes.
    multipliers: Vec<f64>,
    sums: Vec<f64>,
    plan: Vec<f64>,
    /// How far Newton's step has been good for lately.
    reach: f64,
    /// Passes over the costs so far.
    iterations: usize,
    /// The first error of all.
    first: Option<f64>,
}

/// The longest step in the logarithm that a quadratic model of exponentials is ever trusted for.
const LONGEST_STEP: f64 = 10.0;

/// What rounding may do to the dual's value, as a share of the sizes of its terms.
const DUAL_ROUNDING: f64 = 1e-13;

/// Lengths of Newton's step that are tried, each a quarter of the one before. Where rows are nearly decided the dual is
/// flat up to a wall that rises exponentially, and only a short step ends before it.
const STEP_TRIALS: usize = 4;

impl<'a> State<'a> {
    fn new(question: &'a Question, gamma: f64) -> Self {
        let nodes = question.tree.bounds.len();
        Self {
            question,
            gamma,
            alpha: vec![0.0; question.rows.len()],
            multipliers: vec![0.0; nodes],
            sums: vec![0.0; nodes],
            plan: vec![0.0; question.costs.len()],
            reach: LONGEST_STEP,
            iterations: 0,
            first: None,
        }
    }

    /// Cycles and steps at one γ until the error is no more than `goal`.
    fn stage(
        &mut self,
        gamma: f64,
        goal: f64,
        solver: &BregmanProjections,
        guard: &Guard<'_>,
    ) -> Status {
        let ratio = gamma / self.gamma;
        self.multipliers.iter_mut().for_each(|m| *m *= ratio);
        self.gamma = gamma;
        self.project_rows();
        // Newton's matrix is a decomposition of as many unknowns as nodes, worth a few cycles where they are many.
        let rest = 1 + self.multipliers.len() / 64;
        let (mut patience, mut wait) = (rest, rest);
        loop {
            let error = self.error();
            if error <= goal {
                return Status::Converged;
            }
            if error.is_nan() {
                return Status::Stalled;
            }
            let first = *self.first.get_or_insert(error);
            let (at, end) = (self.iterations, solver.tolerance);
            if guard.says_stop(&Progress::entropic(at, error, first, end, 1.0 / gamma)) {
                return Status::Stopped;
            }
            if at >= solver.max_iterations {
                return Status::IterationLimit;
            }
            let room = at + STEP_TRIALS < solver.max_iterations;
            if solver.acceleration == Acceleration::Newton && wait == 0 && room {
                if self.newton(error, guard) {
                    patience = rest;
                    if self.error() <= 0.5 * error {
                        continue;
                    }
                } else {
                    patience = (2 * patience).min(64.max(rest));
                }
                wait = patience;
            }
            if self.question.cap.is_finite() {
                self.project_capped_tree();
            } else {
                self.project_tree();
            }
            self.project_rows();
            self.iterations += 1;
            wait = wait.saturating_sub(1);
        }
    }

    fn project_rows(&mut self) {
        let tree = &self.question.tree;
        let k = tree.cols;
        let paths = tree.along_paths(&self.multipliers);
        let mut cols = vec![0.0; k];
        let rows = self.question.costs.chunks_exact(k).zip(&self.question.rows);
        let plan = self.plan.chunks_exact_mut(k);
        for (((costs, &bounds), q), alpha) in rows.zip(plan).zip(&mut self.alpha) {
            for ((q, path), cost) in q.iter_mut().zip(&paths).zip(costs) {
                *q = path - self.gamma * cost;
            }
            *alpha = project_row(q, bounds, self.question.cap);
            for (sum, q) in cols.iter_mut().zip(q) {
                *sum += *q;
            }
        }
        self.sums = tree.sums(&cols);
    }

    /// Distance from the optimality conditions of the tree, over the mass: bounds violated, and bounds
    /// with a price that are not met.
    fn error(&self) -> f64 {
        let tree = &self.question.tree;
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
    fn newton(&mut self, error: f64, guard: &Guard<'_>) -> bool {
        let curvature = self.curvature();
        if guard.is_over() {
            return false;
        }
        let step = Step::new(
            &self.question.tree,
            &curvature,
            &self.multipliers,
            &self.sums,
            error.clamp(1e-10, 1e-3),
        );
        let Some(step) = step else { return false };
        let (before, _) = self.dual();
        let (alpha, sums) = (self.alpha.clone(), self.sums.clone());
        let old = self.multipliers.clone();
        for trial in 0..STEP_TRIALS {
            if guard.is_over() {
                break;
            }
            let share = step.within(self.reach);
            self.multipliers = step.at(share);
            self.project_rows();
            self.iterations += 1;
            // The value is blunt near the optimum, where it is flat; the error is not.
            let (after, blur) = self.dual();
            if after > before || (after >= before - blur && self.error() <= 0.5 * error) {
                if trial == 0 {
                    self.reach = (4.0 * self.reach).min(LONGEST_STEP);
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
        let tree = &self.question.tree;
        let (k, cap) = (tree.cols, self.question.cap);
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
                    add(cap * (cap.ln() - 1.0 - (path - self.gamma * cost)));
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
        (value, DUAL_ROUNDING * size)
    }

    /// How the columns' sums answer to the logarithms of their scalings, k × k.
    fn curvature(&self) -> Vec<f64> {
        let (k, cap) = (self.question.tree.cols, self.question.cap);
        let mut curvature = vec![0.0; k * k];
        let mut heavy: Vec<(usize, f64)> = Vec::with_capacity(k);
        for (row, alpha) in self.plan.chunks_exact(k).zip(&self.alpha) {
            let slack = *alpha == 0.0;
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
        let tree = &self.question.tree;
        let before = tree.along_paths(&self.multipliers);
        // Logarithms of the column sums without any multiplier of the tree.
        let bare: Vec<f64> = (0..tree.cols)
            .map(|j| self.log_col_sum(j) - before[j])
            .collect();
        for _ in 0..200 {
            let mut moved = 0.0f64;
            for &v in &tree.upwards {
                let paths = tree.along_paths(&self.multipliers);
                let sum = log_sum_exp(tree.leaves(v).iter().map(|&j| bare[j] + paths[j]));
                let old = self.multipliers[v];
                let new = corrected(sum - old, tree.bounds[v]);
                self.multipliers[v] = new;
                moved = moved.max((new - old).abs());
            }
            if moved < 1e-13 {
                break;
            }
        }
    }

    fn log_col_sum(&self, col: usize) -> f64 {
        let sum = self.sums[col];
        if sum > 1e-280 {
            return sum.ln();
        }
        let k = self.question.tree.cols;
        let path = self.question.tree.along_paths(&self.multipliers)[col];
        let column = self.question.costs[col..].iter().step_by(k);
        log_sum_exp(
            column
                .zip(&self.alpha)
                .map(|(cost, alpha)| path + alpha - self.gamma * cost),
        )
    }

    /// With caps each node's equation is solved on its entries, columns first.
    fn project_capped_tree(&mut self) {
        let tree = &self.question.tree;
        let k = tree.cols;
        for &v in tree.upwards.iter().filter(|v| !tree.leaves(**v).is_empty()) {
            let paths = tree.along_paths(&self.multipliers);
            let old = self.multipliers[v];
            let (costs, gamma, alpha) = (&self.question.costs, self.gamma, &self.alpha);
            let logits = tree.leaves(v).iter().flat_map(|&j| {
                let offset = paths[j] - old;
                let column = costs[j..].iter().step_by(k).zip(alpha);
                column.map(move |(cost, alpha)| offset + alpha - gamma * cost)
            });
            let cap = self.question.cap;
            let bare: f64 = logits.clone().map(|l| l.exp().min(cap)).sum();
            let bounds = tree.bounds[v];
            self.multipliers[v] = if bare > bounds.upper {
                level(logits, bounds.upper, cap).clamp(CLOSED, 0.0)
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
