//! AdaMatch: predictions aligned with those on labeled examples, and a threshold relative to the confidence there.
//!
//! ```text
//! l ← m l + (1 − m) mean p(labeled),   u ← m u + (1 − m) mean p(unlabeled)       (both uniform at first)
//! p̃ ∝ p · l / u,   q = argmax p̃,   w = [max p̃ ≥ τ · mean max p(labeled)]
//! ```
//!
//! # References
//! Berthelot et al., "AdaMatch: a unified approach to semi-supervised learning and domain adaptation" (2022); τ = 0.9 there. As
//! in USB, averages move with m = 0.999 and logits of the two domains are not interpolated: there is one domain.

use std::io::{Read, Write};

use serde::{Deserialize, Serialize};

use super::{Batch, Labels, Method, load_json, mean_prediction, same_length, save_json, top};
use crate::Error;

const FLOOR: f64 = 1e-6;

/// Alignment and a relative threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct AdaMatch {
    threshold: f64,
    momentum: f64,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct State {
    labeled: Vec<f64>,
    unlabeled: Vec<f64>,
    /// Mean confidence on the labeled examples of the last step.
    confidence: f64,
}

impl AdaMatch {
    /// The threshold τ relative to the labeled confidence, and the momentum m.
    #[must_use]
    pub fn new(threshold: f64, momentum: f64, classes: usize) -> Self {
        let uniform = vec![1.0 / classes.max(1) as f64; classes];
        Self {
            threshold,
            momentum,
            state: State {
                labeled: uniform.clone(),
                unlabeled: uniform,
                confidence: 1.0,
            },
        }
    }
}

fn move_towards(average: &mut [f64], now: &[f64], momentum: f64) {
    for (a, n) in average.iter_mut().zip(now) {
        *a = momentum * *a + (1.0 - momentum) * n;
    }
}

impl Method for AdaMatch {
    fn uses_labeled(&self) -> bool {
        true
    }

    fn label(&mut self, batch: &Batch<'_>) -> Result<Labels, Error> {
        batch.check()?;
        same_length("a row", self.state.labeled.len(), batch.classes)?;
        let known = batch.labeled.len() / batch.classes;
        // Without labeled examples (labels asked for after training) the averages stay as they are.
        if known > 0 {
            let indices: Vec<usize> = (0..known).collect();
            let labeled = Batch {
                log_probs: batch.labeled,
                indices: &indices,
                ..*batch
            };
            labeled.check()?;
            move_towards(
                &mut self.state.labeled,
                &mean_prediction(&labeled),
                self.momentum,
            );
            move_towards(
                &mut self.state.unlabeled,
                &mean_prediction(batch),
                self.momentum,
            );
            let sum: f64 = labeled.rows().map(|row| f64::from(top(row).1).exp()).sum();
            self.state.confidence = sum / known as f64;
        }
        let mut labels = Labels::none(batch.indices.len(), batch.classes);
        let mut aligned = vec![0.0f32; batch.classes];
        for (row, log_p) in batch.rows().enumerate() {
            let mut sum = 0.0;
            for (j, (a, l)) in aligned.iter_mut().zip(log_p).enumerate() {
                let ratio = (self.state.labeled[j] + FLOOR) / (self.state.unlabeled[j] + FLOOR);
                *a = (f64::from(*l).exp() * ratio) as f32;
                sum += f64::from(*a);
            }
            let (class, value) = top(&aligned);
            if f64::from(value) / sum >= self.threshold * self.state.confidence {
                labels.set(row, batch.classes, class, 1.0);
            }
        }
        Ok(labels)
    }

    fn save(&self, writer: &mut dyn Write) -> Result<(), Error> {
        save_json(&self.state, writer)
    }

    fn load(&mut self, reader: &mut dyn Read) -> Result<(), Error> {
        let state: State = load_json(reader)?;
        let classes = self.state.labeled.len();
        same_length("the labeled average", classes, state.labeled.len())?;
        same_length("the unlabeled average", classes, state.unlabeled.len())?;
        self.state = state;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand;
    use super::*;

    #[test]
    fn the_threshold_follows_the_labeled_confidence() {
        let logs = hand::logs(&[0.8, 0.2, 0.6, 0.4]);
        let labeled = hand::logs(&[0.7, 0.3, 0.3, 0.7]);
        let batch = Batch {
            log_probs: &logs,
            labeled: &labeled,
            indices: &[0, 1],
            classes: 2,
            step: 0,
            steps: 10,
        };
        // Averages that do not move: the confidence asked for is 0.9 · 0.7 = 0.63.
        let mut method = AdaMatch::new(0.9, 1.0, 2);
        let labels = method.label(&batch).unwrap_or_default();
        assert_eq!(labels.weights, [1.0, 0.0]);
        // Averages of the last batch: l = (0.5, 0.5), u = (0.7, 0.3); (0.6, 0.4) becomes (0.391, 0.609).
        let mut method = AdaMatch::new(0.8, 0.0, 2);
        let labels = method.label(&batch).unwrap_or_default();
        assert_eq!(labels.weights, [1.0, 1.0]);
        assert_eq!(labels.targets[2..], [0.0, 1.0]);
    }

    #[test]
    fn survives_saving() {
        let new = || AdaMatch::new(0.9, 0.5, 2);
        hand::survives_saving(&mut new(), &mut new(), &[0.9, 0.1, 0.4, 0.6], 2);
        assert!(
            AdaMatch::new(0.9, 0.5, 3)
                .load(&mut "{}".as_bytes())
                .is_err()
        );
    }
}
