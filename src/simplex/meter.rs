//! Pivots counted, capped and reported, over all phases and levels of one solve.

use core::ops::ControlFlow;

use super::NetworkSimplex;
use super::pricing::{Arcs, Outcome, Pricer};
use super::tree::Tree;
use crate::Progress;
use crate::solver::Observer;

/// Pivots between two calls of the progress callback.
const REPORT_EVERY: usize = 1024;

/// What a solve may spend and has spent.
pub(super) struct Meter<'a> {
    solver: &'a NetworkSimplex,
    pub(super) pivots: usize,
    /// Share of the mass that forbidden pairs still carry.
    pub(super) violation: f64,
}

impl<'a> Meter<'a> {
    pub(super) fn new(solver: &'a NetworkSimplex) -> Self {
        Self {
            solver,
            pivots: 0,
            violation: 0.0,
        }
    }

    /// Whether the caller's cap, not one of our own, is reached.
    pub(super) fn is_spent(&self) -> bool {
        self.pivots >= self.solver.max_iterations
    }

    /// At most `most` pivots on gains above `tolerance`.
    pub(super) fn pivot(
        &mut self,
        tree: &mut Tree,
        arcs: &mut impl Arcs,
        takes_part: &[bool],
        tolerance: f64,
        most: usize,
    ) -> Outcome {
        let cap = self.pivots.saturating_add(most);
        let cap = cap.min(self.solver.max_iterations);
        if self.reports_stop() {
            return Outcome::Stopped;
        }
        let before = || {
            if self.pivots >= cap {
                return ControlFlow::Break(Outcome::Limit);
            }
            self.pivots += 1;
            if self.pivots.is_multiple_of(REPORT_EVERY) && self.reports_stop() {
                return ControlFlow::Break(Outcome::Stopped);
            }
            ControlFlow::Continue(())
        };
        Pricer::new().run(tree, arcs, takes_part, tolerance, before)
    }

    fn reports_stop(&self) -> bool {
        let now = Progress {
            iteration: self.pivots,
            violation: self.violation,
            epsilon: 0.0,
        };
        Observer::says_stop(self.solver.observer.as_ref(), &now)
    }
}
