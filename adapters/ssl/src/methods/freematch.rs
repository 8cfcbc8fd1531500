//! FreeMatch: thresholds that follow the model's own confidence, globally and per class.
//!
//! ```text
//! τ ← m·τ + (1 − m)·mean_i max p_i              starts at 1/k
//! p̄ ← m·p̄ + (1 − m)·mean_i p_i                  starts uniform
//! q = argmax p = c,   w = [max p ≥ τ · p̄_c / max p̄]
//! ```
//!
//! Both averages take the batch in before it is labeled. The method's fairness term is a loss on the strong
//! views' mean prediction over the examples with a label: with h̃ the moving average of the classes' shares among argmax p, and P̄,
//! H̄ the mean prediction and the classes' shares of the labeled strong views,
//!
//! ```text
//! F = Σ_j a_j log b_j,    a ∝ p̄ / h̃,    b ∝ P̄ / H̄         both scaled to sum to one,
//! ∂F/∂P̄_j = a_j / P̄_j − A / (H̄_j S),    S = Σ_j P̄_j / H̄_j,    A = Σ a_j over the classes with H̄_j > 0.
//! ```
//!
//! Its published weight is 0.01; by default it is left out (`fairness=0`), so that the methods here differ in their
//! labels only.
//!
//! # References
//! Wang et al., "FreeMatch: self-adaptive thresholding for semi-supervised learning" (2023).

use std::io::{Read, Write};

use serde::{Deserialize, Serialize};

use super::{
    Batch, Labels, Method, Penalty, load_json, mean_prediction, same_length, save_json, top,
};
use crate::Error;

/// Self-adaptive thresholding.
#[derive(Clone, Debug, PartialEq)]
pub struct FreeMatch {
    momentum: f64,
    fairness: f64,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct State {
    threshold: f64,
    mean: Vec<f64>,
    /// h̃; states from before there was one start it anew.
    #[serde(default)]
    shares: Vec<f64>,
}

impl FreeMatch {
    /// The momentum m of the averages (0.999 in the paper, for a million steps).
    #[must_use]
    pub fn new(momentum: f64, classes: usize) -> Self {
        let uniform = 1.0 / classes.max(1) as f64;
        Self {
            momentum,
            fairness: 0.0,
            state: State {
                threshold: uniform,
                mean: vec![uniform; classes],
                shares: vec![uniform; classes],
            },
        }
    }

    /// The weight of the fairness term. Default: zero.
    #[must_use]
    pub fn fairness(mut self, weight: f64) -> Self {
        self.fairness = weight;
        self
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
        let State {
            threshold,
            mean,
            shares,
        } = &mut self.state;
        *threshold = m * *threshold + (1.0 - m) * confidence;
        for (old, new) in mean.iter_mut().zip(mean_prediction(batch)) {
            *old = m * *old + (1.0 - m) * new;
        }
        let mut found = vec![0.0; batch.classes];
        batch.rows().for_each(|r| found[top(r).0] += 1.0 / rows);
        for (old, new) in shares.iter_mut().zip(found) {
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

    fn penalises(&self) -> bool {
        self.fairness > 0.0
    }

    fn penalty(&mut self, strong: &Batch<'_>, labels: &Labels) -> Result<Penalty, Error> {
        strong.check()?;
        let k = strong.classes;
        same_length("a row", self.state.mean.len(), k)?;
        let labeled = |row: usize| labels.weights.get(row).is_some_and(|w| *w > 0.0);
        let count = (0..strong.indices.len()).filter(|&i| labeled(i)).count() as f64;
        let mut penalty = Penalty {
            value: 0.0,
            gradient: vec![0.0; strong.log_probs.len()],
        };
        if count == 0.0 {
            return Ok(penalty);
        }
        let (mut mean, mut shares) = (vec![0.0; k], vec![0.0; k]);
        for (_, row) in strong.rows().enumerate().filter(|(i, _)| labeled(*i)) {
            for (m, l) in mean.iter_mut().zip(row) {
                *m += f64::from(*l).exp() / count;
            }
            shares[top(row).0] += 1.0 / count;
        }
        let State {
            mean: weak,
            shares: found,
            ..
        } = &self.state;
        let ratio = |p: f64, h: f64| if h > 0.0 { p / h } else { 0.0 };
        let pairs = weak.iter().zip(found);
        let mut a: Vec<f64> = pairs.map(|(p, h)| ratio(*p, *h)).collect();
        let whole = a.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        a.iter_mut().for_each(|a| *a /= whole);
        let b: Vec<f64> = mean
            .iter()
            .zip(&shares)
            .map(|(p, h)| ratio(*p, *h))
            .collect();
        let sum: f64 = b.iter().sum();
        let counted: f64 = a
            .iter()
            .zip(&b)
            .filter(|(_, b)| **b > 0.0)
            .map(|(a, _)| a)
            .sum();
        let mut slope = vec![0.0; k];
        for j in (0..k).filter(|&j| b[j] > 0.0) {
            penalty.value += self.fairness * a[j] * (b[j] / sum).ln();
            slope[j] = self.fairness * (a[j] / mean[j] - counted / (shares[j] * sum));
        }
        for (i, row) in penalty.gradient.chunks_exact_mut(k).enumerate() {
            if labeled(i) {
                row.iter_mut()
                    .zip(&slope)
                    .for_each(|(g, s)| *g = (s / count) as f32);
            }
        }
        Ok(penalty)
    }

    fn save(&self, writer: &mut dyn Write) -> Result<(), Error> {
        save_json(&self.state, writer)
    }

    fn load(&mut self, reader: &mut dyn Read) -> Result<(), Error> {
        let mut state: State = load_json(reader)?;
        let k = self.state.mean.len();
        same_length("the mean prediction", k, state.mean.len())?;
        if state.shares.is_empty() {
            state.shares = vec![1.0 / k.max(1) as f64; k];
        }
        same_length("the shares", k, state.shares.len())?;
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

    /// The fairness term of these strong views, all but the last of them labeled.
    fn fairness(method: &mut FreeMatch, p: &[f64]) -> Penalty {
        let log_probs: Vec<f32> = p.iter().map(|p| p.ln() as f32).collect();
        let batch = Batch {
            log_probs: &log_probs,
            labeled: &[],
            indices: &[0, 1, 2],
            classes: 2,
            step: 0,
            steps: 10,
        };
        let mut labels = Labels::none(3, 2);
        labels.weights = vec![1.0, 1.0, 0.0];
        let penalty = method.penalty(&batch, &labels);
        penalty.unwrap_or_else(|_| unreachable!())
    }

    #[test]
    fn fairness_by_hand() {
        // m = ½ after one batch: p̄ = (0.625, 0.375), h̃ = (0.75, 0.25), so a ∝ (5/6, 3/2) = (5/14, 9/14).
        // Strong views (0.8, 0.2), (0.4, 0.6): P̄ = (0.6, 0.4), H̄ = (½, ½), so b = (0.6, 0.4).
        let mut method = FreeMatch::new(0.5, 2).fairness(1.0);
        hand::label(&mut method, &[0.9, 0.1, 0.6, 0.4], 2);
        let p = [0.8, 0.2, 0.4, 0.6, 0.5, 0.5];
        let penalty = fairness(&mut method, &p);
        let expected = 5.0 / 14.0 * 0.6f64.ln() + 9.0 / 14.0 * 0.4f64.ln();
        assert!((penalty.value - expected).abs() < 1e-6, "{penalty:?}");
        // The derivative by each entry, against differences; the example without a label has none.
        for entry in 0..6 {
            let at = |h: f64| {
                let mut moved = p;
                moved[entry] += h;
                fairness(&mut method.clone(), &moved).value
            };
            let slope = (at(1e-3) - at(-1e-3)) / 2e-3;
            let given = f64::from(penalty.gradient[entry]);
            assert!((slope - given).abs() < 1e-3, "{entry}: {slope} {given}");
        }
        assert_eq!(penalty.gradient[4..], [0.0, 0.0]);
    }

    #[test]
    fn survives_saving() {
        let new = || FreeMatch::new(0.9, 2);
        hand::survives_saving(&mut new(), &mut new(), &[0.9, 0.1, 0.3, 0.7], 2);
        let wrong = r#"{"threshold":0.5,"mean":[1.0]}"#;
        assert!(new().load(&mut wrong.as_bytes()).is_err());
    }
}
