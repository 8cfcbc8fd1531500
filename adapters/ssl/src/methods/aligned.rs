//! FixMatch with distribution alignment: predictions are brought to the labeled examples' class shares first.
//!
//! ```text
//! p̃_j ∝ p_j · s_j / m_j,   q = argmax p̃,   w = [max p̃ ≥ τ]
//! ```
//!
//! s are the class shares of the labeled examples and m is the mean prediction of the last 128 batches,
//! those before the first counting as uniform. Both shares get 10⁻⁶, so a class that was never predicted
//! is not divided by zero.
//!
//! # References
//! Berthelot et al., "ReMixMatch: semi-supervised learning with distribution matching and augmentation
//! anchoring" (2020).

use std::collections::VecDeque;
use std::io::{Read, Write};

use super::{Batch, Labels, Method, load_json, mean_prediction, same_length, save_json, top};
use crate::Error;

const WINDOW: usize = 128;
const FLOOR: f64 = 1e-6;

/// Thresholding after distribution alignment.
#[derive(Clone, Debug, PartialEq)]
pub struct Aligned {
    threshold: f64,
    shares: Vec<f64>,
    recent: VecDeque<Vec<f64>>,
}

impl Aligned {
    /// The threshold τ and how many labeled examples each class has.
    ///
    /// # Errors
    /// [`Error::NoCounts`] where there is no labeled example.
    pub fn new(threshold: f64, counts: &[usize]) -> Result<Self, Error> {
        let total: usize = counts.iter().sum();
        if total == 0 {
            return Err(Error::NoCounts);
        }
        Ok(Self {
            threshold,
            shares: counts.iter().map(|&c| c as f64 / total as f64).collect(),
            recent: VecDeque::new(),
        })
    }

    /// s_j/m_j.
    fn ratios(&self) -> Vec<f64> {
        let k = self.shares.len();
        let missing = (WINDOW - self.recent.len()) as f64 / k as f64;
        (0..k)
            .map(|j| {
                let sum = self.recent.iter().map(|mean| mean[j]).sum::<f64>() + missing;
                (self.shares[j] + FLOOR) / (sum / WINDOW as f64 + FLOOR)
            })
            .collect()
    }
}

impl Method for Aligned {
    fn label(&mut self, batch: &Batch<'_>) -> Result<Labels, Error> {
        batch.check()?;
        same_length("a row", self.shares.len(), batch.classes)?;
        let ratios = self.ratios();
        let mut labels = Labels::none(batch.indices.len(), batch.classes);
        let mut aligned = vec![0.0; batch.classes];
        for (row, log_p) in batch.rows().enumerate() {
            let mut sum = 0.0;
            for ((a, l), ratio) in aligned.iter_mut().zip(log_p).zip(&ratios) {
                *a = (f64::from(*l).exp() * ratio) as f32;
                sum += f64::from(*a);
            }
            let (class, value) = top(&aligned);
            if f64::from(value) / sum >= self.threshold {
                labels.set(row, batch.classes, class, 1.0);
            }
        }
        Ok(labels)
    }

    fn update(&mut self, batch: &Batch<'_>) -> Result<(), Error> {
        batch.check()?;
        if self.recent.len() == WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back(mean_prediction(batch));
        Ok(())
    }

    fn save(&self, writer: &mut dyn Write) -> Result<(), Error> {
        save_json(&self.recent, writer)
    }

    fn load(&mut self, reader: &mut dyn Read) -> Result<(), Error> {
        let recent: VecDeque<Vec<f64>> = load_json(reader)?;
        if recent.len() > WINDOW {
            same_length("the window of predictions", WINDOW, recent.len())?;
        }
        for mean in &recent {
            same_length("a mean prediction", self.shares.len(), mean.len())?;
        }
        self.recent = recent;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand;
    use super::*;

    #[test]
    fn is_fixmatch_while_predictions_have_the_right_shares() {
        let mut method = Aligned::new(0.95, &[1, 1]).unwrap_or_else(|_| unreachable!());
        let labels = hand::label(&mut method, &[0.96, 0.04, 0.94, 0.06], 2);
        assert_eq!(labels.weights, [1.0, 0.0]);
    }

    #[test]
    fn discounts_a_class_predicted_too_often() {
        let mut method = Aligned::new(0.95, &[1, 1]).unwrap_or_else(|_| unreachable!());
        // 128 batches of mean (0.9, 0.1) fill the window: the ratios become 5/9 and 5.
        for _ in 0..WINDOW {
            hand::label(&mut method, &[0.9, 0.1], 2);
        }
        // (0.6, 0.4)·(5/9, 5) = (1/3, 2): 6/7 for class 1.  (0.99, 0.01) → (0.55, 0.05): 11/12 < 0.95.
        // (0.2, 0.8) → (1/9, 4): 36/37 ≥ 0.95.
        let labels = hand::label(&mut method, &[0.6, 0.4, 0.99, 0.01, 0.2, 0.8], 2);
        assert_eq!(labels.weights, [0.0, 0.0, 1.0]);
        assert_eq!(labels.targets[4..], [0.0, 1.0]);
    }

    #[test]
    fn survives_saving() {
        let new = || Aligned::new(0.9, &[3, 1]).unwrap_or_else(|_| unreachable!());
        hand::survives_saving(&mut new(), &mut new(), &[0.7, 0.3, 0.95, 0.05], 2);
        let mut other = Aligned::new(0.9, &[1, 1, 1]).unwrap_or_else(|_| unreachable!());
        assert!(other.load(&mut "[[0.5,0.5]]".as_bytes()).is_err());
    }
}
