//! FreeMatch: thresholds that follow the model's own confidence, globally and per class.
//!
//! ```text
//! τ ← m·τ + (1 − m)·mean_i max p_i              starts at 1/k
//! p̄ ← m·p̄ + (1 − m)·mean_i p_i                  starts uniform
//! q = argmax p = c,   w = [max p ≥ τ · p̄_c / max p̄]
//! ```
//!
//! Both averages take the batch in before it is labeled. The method's additional fairness term, a loss on the
//! strong views' mean prediction, is not a matter of targets and weights and is left out.
//!
//! # References
//! Wang et al., "FreeMatch: self-adaptive thresholding for semi-supervised learning" (2023).

use std::io::{Read, Write};

use serde::{Deserialize, Serialize};

use super::{Batch, Labels, Method, load_json, mean_prediction, same_length, save_json, top};
use crate::Error;

/// Self-adaptive thresholding.
#[derive(Clone, Debug, PartialEq)]
pub struct FreeMatch {
    momentum: f64,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct State {
    threshold: f64,
    mean: Vec<f64>,
}

impl FreeMatch {
    /// The momentum m of the averages (0.999 in the paper, for a million steps).
    #[must_use]
    pub fn new(momentum: f64, classes: usize) -> Self {
        let uniform = 1.0 / classes.max(1) as f64;
        Self {
            momentum,
            state: State {
                threshold: uniform,
                mean: vec![uniform; classes],
            },
        }
    }
}

impl Method for FreeMatch {
    fn label(&mut self, batch: &Batch<'_>) -> Result<Labels, Error> {
        batch.check()?;
        same_length("a row", self.state.mean.len(), batch.classes)?;
        let m = self.momentum;
        let rows = batch.indices.len().max(1) as f64;
        let tops = batch.rows().map(|r| f64::from(top(r).1).exp());
        let confidence = tops.sum::<f64>() / rows;
        let State { threshold, mean } = &mut self.state;
        *threshold = m * *threshold + (1.0 - m) * confidence;
        for (old, new) in mean.iter_mut().zip(mean_prediction(batch)) {
            *old = m * *old + (1.0 - m) * new;
        }
        let most = mean.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let mut labels = Labels::none(batch.indices.len(), batch.classes);
        for (row, log_p) in batch.rows().enumerate() {
            let (class, log) = top(log_p);
            if f64::from(log).exp() >= *threshold * mean[class] / most {
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
        same_length(
            "the mean prediction",
            self.state.mean.len(),
            state.mean.len(),
        )?;
        self.state = state;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand;
    use super::*;

    #[test]
    fn thresholds_by_hand() {
        // With m = ½: confidence 0.75, τ = (0.5 + 0.75)/2 = 0.625; mean p = (0.75, 0.25),
        // p̄ = (0.625, 0.375). Class 1 needs 0.625·0.6 = 0.375 only, class 0 the full 0.625.
        let mut method = FreeMatch::new(0.5, 2);
        let labels = hand::label(&mut method, &[0.9, 0.1, 0.6, 0.4], 2);
        assert!((method.state.threshold - 0.625).abs() < 1e-6);
        assert!((method.state.mean[0] - 0.625).abs() < 1e-6);
        assert_eq!(labels.weights, [1.0, 0.0]);
    }

    #[test]
    fn survives_saving() {
        let new = || FreeMatch::new(0.9, 2);
        hand::survives_saving(&mut new(), &mut new(), &[0.9, 0.1, 0.3, 0.7], 2);
        let wrong = r#"{"threshold":0.5,"mean":[1.0]}"#;
        assert!(new().load(&mut wrong.as_bytes()).is_err());
    }
}
