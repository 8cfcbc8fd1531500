//! UDA: sharpened predictions as targets, for the confident.
//!
//! ```text
//! q_j ∝ p_j^(1/T),   w = [max p ≥ τ]
//! ```
//!
//! # References
//! Xie et al., "Unsupervised data augmentation for consistency training" (2020). T = 0.4, τ = 0.8 there; its annealing of the
//! labeled loss, which needs thousands of labels, is left out, as USB does.

use super::{Batch, Labels, Method, top};
use crate::Error;

/// Sharpened soft targets; it has no state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uda {
    threshold: f64,
    temperature: f64,
}

impl Uda {
    /// The confidence τ asked for, and the temperature T.
    #[must_use]
    pub fn new(threshold: f64, temperature: f64) -> Self {
        Self {
            threshold,
            temperature,
        }
    }
}

impl Method for Uda {
    fn label(&mut self, batch: &Batch<'_>) -> Result<Labels, Error> {
        batch.check()?;
        let mut labels = Labels::none(batch.indices.len(), batch.classes);
        let rows = labels.targets.chunks_exact_mut(batch.classes);
        for ((log_p, q), w) in batch.rows().zip(rows).zip(&mut labels.weights) {
            let (_, most) = top(log_p);
            if f64::from(most).exp() < self.threshold {
                continue;
            }
            *w = 1.0;
            let power = |l: f32| ((f64::from(l) - f64::from(most)) / self.temperature).exp();
            let sum: f64 = log_p.iter().map(|l| power(*l)).sum();
            for (q, l) in q.iter_mut().zip(log_p) {
                *q = (power(*l) / sum) as f32;
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
    fn sharpens_the_confident_and_leaves_the_rest() {
        // Squares of 0.9 and 0.1 are 0.81 and 0.01.
        let labels = hand::label(&mut Uda::new(0.8, 0.5), &[0.9, 0.1, 0.7, 0.3], 2);
        assert_eq!(labels.weights, [1.0, 0.0]);
        assert!((labels.targets[0] - 0.81 / 0.82).abs() < 1e-6);
        assert!((labels.targets[1] - 0.01 / 0.82).abs() < 1e-6);
        assert_eq!(labels.targets[2..], [0.0, 0.0]);
    }
}
