//! How long there has been no progress worth the name.

/// An improvement is one by a per cent.
const IMPROVEMENT: f64 = 0.99;

/// The least violation seen, and for how long there has been none better.
pub(crate) struct Stagnation {
    best: f64,
    idle: usize,
}

impl Stagnation {
    pub(crate) fn new(violation: f64) -> Self {
        Self {
            best: violation,
            idle: 0,
        }
    }

    /// Takes note of a violation; whether it is better than all before it.
    pub(crate) fn improves(&mut self, violation: f64) -> bool {
        let better = violation < IMPROVEMENT * self.best;
        if better {
            (self.best, self.idle) = (violation, 0);
        } else {
            self.idle += 1;
        }
        better
    }

    /// Violations since the last improvement.
    pub(crate) fn idle(&self) -> usize {
        self.idle
    }
}
