//! Pivots counted, capped and reported, over all phases and levels of one solve.
//!
//! Somebody who watches is told how far a plan is from the optimum at most,
//!
//! ```text
//! gap = Σ C_ij P_ij − (Σ_i a_i min_j (C_ij − g_j) + Σ_j b_j g_j)
//! ```
//!
//! the second part being a lower bound at any prices. It takes a look at every line, so it is worked out afresh only every
//! so many pivots, and not at all where nobody watches; in between the best bound so far serves, since the plan only gets
//! cheaper.

use core::ops::ControlFlow;

use super::NetworkSimplex;
use super::pricing::{Arcs, Outcome, Pricer};
use super::start::Masses;
use super::tree::Tree;
use crate::Progress;
use crate::kernel::rounding::Sum;
use crate::solver::Guard;

/// Pivots between two calls of the progress callback.
const REPORT_EVERY: usize = 1024;

/// What a solve may spend and has spent.
pub(super) struct PivotBudget<'a> {
    solver: &'a NetworkSimplex,
    guard: &'a Guard<'a>,
    pub(super) pivots: usize,
    /// Share of the mass that forbidden pairs still carry.
    pub(super) violation: f64,
    /// How much of the way lies before the level at hand, and how much of it that level is.
    pub(super) place: (f64, f64),
    /// Whether the level at hand is the problem itself, so that its gap is the problem's.
    pub(super) is_whole: bool,
}

/// The gap of a level as it closes.
struct Closing {
    first: f64,
    dual: f64,
    /// Pivots at the last lower bound.
    at: usize,
}

impl<'a> PivotBudget<'a> {
    pub(super) fn new(solver: &'a NetworkSimplex, guard: &'a Guard<'a>) -> Self {
        Self {
            solver,
            guard,
            pivots: 0,
            violation: 0.0,
            place: (0.0, 1.0),
            is_whole: true,
        }
    }

    /// Whether the caller's cap, not one of our own, is reached.
    pub(super) fn is_spent(&self) -> bool {
        self.pivots >= self.solver.max_iterations
    }

    /// Whether there is to be no further pivot, by the caller's cap or because he wants to stop.
    pub(super) fn is_over(&self) -> bool {
        self.is_spent() || self.guard.is_stopped()
    }

    /// At most `most` pivots on gains above `tolerance`, on a plan of these masses.
    pub(super) fn pivot<A: Arcs>(
        &mut self,
        tree: &mut Tree,
        arcs: &mut A,
        masses: &Masses,
        takes_part: &[bool],
        tolerance: f64,
        most: usize,
    ) -> Outcome {
        let cap = self.pivots.saturating_add(most);
        let cap = cap.min(self.solver.max_iterations);
        let mut closing = None;
        if self.reports_stop(tree, arcs, masses, takes_part, &mut closing) {
            return Outcome::Stopped;
        }
        let before = |tree: &Tree, arcs: &mut A| {
            if self.pivots >= cap {
                return ControlFlow::Break(Outcome::Limit);
            }
            self.pivots += 1;
            if self.pivots.is_multiple_of(REPORT_EVERY)
                && self.reports_stop(tree, arcs, masses, takes_part, &mut closing)
            {
                return ControlFlow::Break(Outcome::Stopped);
            }
            ControlFlow::Continue(())
        };
        Pricer::new().run(tree, arcs, takes_part, tolerance, before)
    }

    fn reports_stop(
        &self,
        tree: &Tree,
        arcs: &mut impl Arcs,
        masses: &Masses,
        takes_part: &[bool],
        closing: &mut Option<Closing>,
    ) -> bool {
        if self.guard.is_stopped() {
            return true;
        }
        let mut now = Progress {
            iteration: self.pivots,
            violation: self.violation,
            epsilon: 0.0,
            done: self.place.0,
            gap: f64::INFINITY,
        };
        if self.guard.is_watched() {
            let (gap, done) = self.gap(tree, arcs, masses, takes_part, closing);
            now.done += self.place.1 * done;
            if self.is_whole && self.violation == 0.0 {
                now.gap = gap;
            }
        }
        self.guard.says_stop(&now)
    }

    /// A bound of how much dearer the plan is than the best, and which share of the first such bound is gone.
    fn gap(
        &self,
        tree: &Tree,
        arcs: &mut impl Arcs,
        masses: &Masses,
        takes_part: &[bool],
        closing: &mut Option<Closing>,
    ) -> (f64, f64) {
        let mut primal = Sum::default();
        let carrying = tree.arcs().filter(|a| a.2 > 0.0);
        carrying.for_each(|(i, j, flow)| primal.add(flow * arcs.at(i, j)));
        let primal = primal.value();
        let rows = arcs.rows();
        if closing
            .as_ref()
            .is_none_or(|c| self.pivots >= c.at + rows.max(REPORT_EVERY))
        {
            let mut dual = Sum::default();
            let h = tree.heights();
            let floors = arcs.floors(h, takes_part);
            for i in (0..rows).filter(|&i| takes_part[i]) {
                dual.add(masses.rows[i] * floors[i]);
            }
            let open = masses.cols.iter().zip(h).filter(|(b, _)| **b > 0.0);
            open.for_each(|(b, h)| dual.add(-b * h));
            let dual = dual.value();
            match closing {
                None => {
                    let first = primal - dual;
                    let at = self.pivots;
                    *closing = Some(Closing { first, dual, at });
                }
                Some(c) => (c.dual, c.at) = (c.dual.max(dual), self.pivots),
            }
        }
        match closing {
            Some(c) if (primal - c.dual).is_finite() => {
                let gap = (primal - c.dual).max(0.0);
                let done = if c.first > 0.0 {
                    1.0 - gap / c.first
                } else {
                    1.0
                };
                (gap, done.clamp(0.0, 1.0))
            }
            _ => (f64::INFINITY, 0.0),
        }
    }
}
