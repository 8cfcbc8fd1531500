//! FlexMatch: a threshold per class, lower where few examples have been learned yet.
//!
//! ```text
//! σ_c = number of examples whose last confident (max p ≥ τ) prediction was c
//! β_c = σ_c / max(max_c' σ_c', n − Σ σ_c')      the second term warms the thresholds up
//! q = argmax p = c,   w = [max p ≥ τ · β_c / (2 − β_c)]
//! ```
//!
//! # References
//! Zhang et al., "FlexMatch: boosting semi-supervised learning with curriculum pseudo labeling" (2021).

use std::io::{Read, Write};

use serde::{Deserialize, Serialize};

use super::{Batch, Labels, Method, load_json, same_length, save_json, top};
use crate::Error;

/// Curriculum pseudo-labelling.
#[derive(Clone, Debug, PartialEq)]
pub struct FlexMatch {
    threshold: f64,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct State {
    /// Last confident prediction of each example; `None` while there was none.
    learned: Vec<Option<u32>>,
    /// σ.
    counts: Vec<usize>,
}

impl FlexMatch {
    /// The base threshold τ (0.95 in the paper), for `examples` unlabeled examples of `classes` classes.
    #[must_use]
    pub fn new(threshold: f64, examples: usize, classes: usize) -> Self {
        Self {
            threshold,
            state: State {
                learned: vec![None; examples],
                counts: vec![0; classes],
            },
        }
    }

    fn thresholds(&self) -> Vec<f64> {
        let counts = &self.state.counts;
        let used: usize = counts.iter().sum();
        let most = counts.iter().copied().max().unwrap_or(0);
        let scale = most.max(self.state.learned.len() - used).max(1) as f64;
        let status = counts.iter().map(|&c| c as f64 / scale);
        status.map(|b| self.threshold * b / (2.0 - b)).collect()
    }
}

impl Method for FlexMatch {
    fn label(&mut self, batch: &Batch<'_>) -> Result<Labels, Error> {
        batch.check()?;
        same_length("a row", self.state.counts.len(), batch.classes)?;
        let thresholds = self.thresholds();
        let mut labels = Labels::none(batch.indices.len(), batch.classes);
        for (row, log_p) in batch.rows().enumerate() {
            let (class, log) = top(log_p);
            if f64::from(log).exp() >= thresholds[class] {
                labels.set(row, batch.classes, class, 1.0);
            }
        }
        Ok(labels)
    }

    fn update(&mut self, batch: &Batch<'_>) -> Result<(), Error> {
        batch.check()?;
        let State { learned, counts } = &mut self.state;
        for (position, (&index, log_p)) in batch.indices.iter().zip(batch.rows()).enumerate() {
            let examples = learned.len();
            let Some(slot) = learned.get_mut(index) else {
                return Err(Error::Index {
                    position,
                    index,
                    examples,
                });
            };
            let (class, log) = top(log_p);
            if f64::from(log).exp() >= self.threshold {
                if let Some(before) = slot.replace(class as u32) {
                    counts[before as usize] -= 1;
                }
                counts[class] += 1;
            }
        }
        Ok(())
    }

    fn save(&self, writer: &mut dyn Write) -> Result<(), Error> {
        save_json(&self.state, writer)
    }

    fn load(&mut self, reader: &mut dyn Read) -> Result<(), Error> {
        let state: State = load_json(reader)?;
        let (n, k) = (self.state.learned.len(), self.state.counts.len());
        same_length("the list of examples", n, state.learned.len())?;
        same_length("the list of classes", k, state.counts.len())?;
        let mut counts = vec![0; k];
        for class in state.learned.iter().flatten() {
            match counts.get_mut(*class as usize) {
                Some(count) => *count += 1,
                None => same_length("the list of classes", k, *class as usize + 1)?,
            }
        }
        self.state = State { counts, ..state };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand;
    use super::*;

    #[test]
    fn thresholds_follow_what_was_learned() {
        // Six examples; after the first batch σ = (2, 1) and three are still unknown: β = (2/3, 1/3),
        // thresholds τ·(2/3)/(4/3) = τ/2 and τ·(1/3)/(5/3) = τ/5.
        let mut method = FlexMatch::new(0.9, 6, 2);
        let p = [
            0.95, 0.05, 0.95, 0.05, 0.05, 0.95, 0.6, 0.4, 0.6, 0.4, 0.6, 0.4,
        ];
        hand::label(&mut method, &p, 2);
        let thresholds = method.thresholds();
        assert!((thresholds[0] - 0.45).abs() < 1e-12 && (thresholds[1] - 0.18).abs() < 1e-12);
    }

    #[test]
    fn an_example_that_changes_its_mind_is_counted_once() {
        let mut method = FlexMatch::new(0.9, 2, 2);
        hand::label(&mut method, &[0.95, 0.05, 0.95, 0.05], 2);
        hand::label(&mut method, &[0.05, 0.95, 0.95, 0.05], 2);
        assert_eq!(method.state.counts, [1, 1]);
    }

    #[test]
    fn survives_saving() {
        let new = || FlexMatch::new(0.9, 2, 2);
        hand::survives_saving(&mut new(), &mut new(), &[0.95, 0.05, 0.3, 0.7], 2);
        let wrong = r#"{"learned":[null,9],"counts":[0,0]}"#;
        assert!(new().load(&mut wrong.as_bytes()).is_err());
    }
}
