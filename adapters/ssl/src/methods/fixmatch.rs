//! FixMatch: the most likely class, wherever its probability reaches a threshold.
//!
//! ```text
//! q = argmax p,   w = [max p ≥ τ],   τ = 0.95
//! ```
//!
//! # References
//! Sohn et al., "FixMatch: simplifying semi-supervised learning with consistency and confidence" (2020).

use super::{Batch, Labels, Method, top};
use crate::Error;

/// Confidence thresholding; it has no state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FixMatch {
    threshold: f64,
}

impl FixMatch {
    /// The threshold τ; 0.95 in the paper.
    #[must_use]
    pub fn new(threshold: f64) -> Self {
        Self { threshold }
    }
}

impl Method for FixMatch {
    fn label(&mut self, batch: &Batch<'_>) -> Result<Labels, Error> {
        batch.check()?;
        let mut labels = Labels::none(batch.indices.len(), batch.classes);
        for (row, log_p) in batch.rows().enumerate() {
            let (class, log) = top(log_p);
            if f64::from(log).exp() >= self.threshold {
                labels.set(row, batch.classes, class, 1.0);
            }
        }
        Ok(labels)
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand;
    use super::*;

    #[test]
    fn takes_the_confident_and_leaves_the_rest() {
        let p = [0.96, 0.02, 0.02, 0.94, 0.03, 0.03, 0.01, 0.0, 0.99];
        let labels = hand::label(&mut FixMatch::new(0.95), &p, 3);
        assert_eq!(labels.weights, [1.0, 0.0, 1.0]);
        assert_eq!(
            labels.targets,
            [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
        );
        assert_eq!(labels.weighted(), labels.targets);
    }

    #[test]
    fn refuses_rows_that_do_not_fit() {
        let batch = Batch {
            log_probs: &[0.0, -1.0, -2.0],
            labeled: &[],
            indices: &[0, 1],
            classes: 2,
            step: 0,
            steps: 1,
        };
        let refused = FixMatch::new(0.95).label(&batch);
        assert!(matches!(
            refused,
            Err(Error::Length {
                expected: 4,
                found: 3,
                ..
            })
        ));
    }
}
