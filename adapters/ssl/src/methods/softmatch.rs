//! SoftMatch: no example is thrown away, those below the mean confidence count less.
//!
//! ```text
//! p̃_j ∝ p_j / (k·p̄_j)                                   uniform alignment
//! w = exp(−2 (μ − max p̃)₊² / σ²),   q = argmax p
//! ```
//!
//! μ, σ² and p̄ are moving averages of the mean and variance of max p and of the mean prediction; they
//! start at 1/k, 1 and uniform, and take the batch in before it is labeled. The exponent is a Gaussian of
//! deviation σ/2, as in the method's published experiments.
//!
//! # References
//! Chen et al., "SoftMatch: addressing the quantity-quality trade-off in semi-supervised learning" (2023).

use std::io::{Read, Write};

use serde::{Deserialize, Serialize};

use super::{Batch, Labels, Method, load_json, mean_prediction, same_length, save_json, top};
use crate::Error;

/// Gaussian weights.
#[derive(Clone, Debug, PartialEq)]
pub struct SoftMatch {
    momentum: f64,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct State {
    mean: f64,
    variance: f64,
    prediction: Vec<f64>,
}

impl SoftMatch {
    /// The momentum of the averages (0.999 in the paper, for a million steps).
    #[must_use]
    pub fn new(momentum: f64, classes: usize) -> Self {
        let uniform = 1.0 / classes.max(1) as f64;
        Self {
            momentum,
            state: State {
                mean: uniform,
                variance: 1.0,
                prediction: vec![uniform; classes],
            },
        }
    }
}

impl Method for SoftMatch {
    fn label(&mut self, batch: &Batch<'_>) -> Result<Labels, Error> {
        batch.check()?;
        same_length("a row", self.state.prediction.len(), batch.classes)?;
        let rows = batch.indices.len();
        let m = self.momentum;
        let tops: Vec<f64> = batch.rows().map(|r| f64::from(top(r).1).exp()).collect();
        let mean = tops.iter().sum::<f64>() / rows.max(1) as f64;
        let squares = tops.iter().map(|t| (t - mean).powi(2)).sum::<f64>();
        let variance = squares / rows.saturating_sub(1).max(1) as f64;
        let state = &mut self.state;
        state.mean = m * state.mean + (1.0 - m) * mean;
        state.variance = m * state.variance + (1.0 - m) * variance;
        for (old, new) in state.prediction.iter_mut().zip(mean_prediction(batch)) {
            *old = m * *old + (1.0 - m) * new;
        }
        let spread = state.variance.max(f64::MIN_POSITIVE);
        let mut labels = Labels::none(rows, batch.classes);
        for (row, log_p) in batch.rows().enumerate() {
            let (mut sum, mut most) = (0.0, 0.0f64);
            for (l, seen) in log_p.iter().zip(&state.prediction) {
                let aligned = f64::from(*l).exp() / seen.max(1e-12);
                sum += aligned;
                most = most.max(aligned);
            }
            let below = (state.mean - most / sum).max(0.0);
            let weight = (-2.0 * below * below / spread).exp();
            labels.set(row, batch.classes, top(log_p).0, weight as f32);
        }
        Ok(labels)
    }

    fn save(&self, writer: &mut dyn Write) -> Result<(), Error> {
        save_json(&self.state, writer)
    }

    fn load(&mut self, reader: &mut dyn Read) -> Result<(), Error> {
        let state: State = load_json(reader)?;
        let classes = self.state.prediction.len();
        same_length("the mean prediction", classes, state.prediction.len())?;
        self.state = state;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand;
    use super::*;

    #[test]
    fn weights_by_hand() {
        // m = 0: the averages are the batch's own. Mean prediction (½, ½), so alignment changes nothing.
        // max p = 0.9, 0.6, 0.9, 0.6: μ = 0.75, σ² = 4·0.15²/3 = 0.03.
        let mut method = SoftMatch::new(0.0, 2);
        let labels = hand::label(&mut method, &[0.9, 0.1, 0.6, 0.4, 0.1, 0.9, 0.4, 0.6], 2);
        let low = (-2.0f64 * 0.15 * 0.15 / 0.03).exp() as f32;
        for (weight, expected) in labels.weights.iter().zip([1.0, low, 1.0, low]) {
            assert!((weight - expected).abs() < 1e-5, "{weight} for {expected}");
        }
        assert_eq!(labels.targets, [1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0]);
    }

    #[test]
    fn survives_saving() {
        let new = || SoftMatch::new(0.9, 2);
        hand::survives_saving(&mut new(), &mut new(), &[0.9, 0.1, 0.3, 0.7], 2);
        let wrong = r#"{"mean":0.5,"variance":1.0,"prediction":[1.0]}"#;
        assert!(new().load(&mut wrong.as_bytes()).is_err());
    }
}
