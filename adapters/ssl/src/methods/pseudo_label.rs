//! Plain pseudo-labelling: the most likely class of every example, trusted more and more.
//!
//! ```text
//! q = argmax p,   w = min(1, t / (r·T))
//! ```
//!
//! with t of T steps done and r the share of training over which trust grows.
//!
//! # References
//! Lee, "Pseudo-label: the simple and efficient semi-supervised learning method for deep neural networks"
//! (2013), whose weight ramps up in the same way.

use super::{Batch, Labels, Method, top};
use crate::Error;

/// Hard labels for everything, weighted by a ramp; it has no state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PseudoLabel {
    ramp: f64,
}

impl PseudoLabel {
    /// The share r of training over which the weight grows from 0 to 1; 0 for full weight at once.
    #[must_use]
    pub fn new(ramp: f64) -> Self {
        Self { ramp }
    }
}

impl Method for PseudoLabel {
    fn label(&mut self, batch: &Batch<'_>) -> Result<Labels, Error> {
        batch.check()?;
        let end = self.ramp * batch.steps as f64;
        let weight = if end > 0.0 {
            (batch.step as f64 / end).min(1.0)
        } else {
            1.0
        };
        let mut labels = Labels::none(batch.indices.len(), batch.classes);
        for (row, log_p) in batch.rows().enumerate() {
            labels.set(row, batch.classes, top(log_p).0, weight as f32);
        }
        Ok(labels)
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand;
    use super::*;

    #[test]
    fn trust_grows_along_the_ramp() {
        let log_probs = hand::logs(&[0.4, 0.6]);
        let mut method = PseudoLabel::new(0.4);
        for (step, weight) in [(0, 0.0), (20, 0.5), (40, 1.0), (90, 1.0)] {
            let batch = Batch {
                log_probs: &log_probs,
                labeled: &[],
                indices: &[7],
                classes: 2,
                step,
                steps: 100,
            };
            let labels = method.label(&batch).unwrap_or_default();
            assert_eq!(labels.weights, [weight]);
            assert_eq!(labels.targets, [0.0, 1.0]);
        }
        assert_eq!(
            hand::label(&mut PseudoLabel::new(0.0), &[0.4, 0.6], 2).weights,
            [1.0]
        );
    }
}
