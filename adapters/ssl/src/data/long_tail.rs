//! Class sizes that fall off, as experiments on long tails have them.
//!
//! ```text
//! n_j ∝ γ^(−j / (k − 1)),    j = 0 … k − 1
//! ```
//!
//! so that the first class is γ times as large as the last; γ < 1 turns the order round. Labeled and unlabeled examples have ratios of
//! their own. The unlabeled set is cut down to the profile, as large as the data allow; labels are shared out by theirs, at
//! least one each.

use serde::{Deserialize, Serialize};

use super::apportion::apportion;
use super::dataset::{Part, UNLABELED};
use super::split::{Split, SplitError};
use crate::rng::Rng;

/// Ratios of the largest class to the smallest.
///
/// # Examples
/// ```
/// use earthmover_ssl::data::{LongTail, digits};
/// let digits = digits::load()?;
/// let split = LongTail { labeled: 10.0, unlabeled: 10.0 }.draw(&digits.train, 10, 40, 1)?;
/// assert!(split.counts[0] > 5 * split.counts[9]);
/// assert!(split.unlabeled.len() < digits.train.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LongTail {
    /// Of the labeled examples.
    pub labeled: f64,
    /// Of the unlabeled ones.
    pub unlabeled: f64,
}

impl LongTail {
    /// Shares of the classes at a ratio; they sum to one.
    #[must_use]
    pub fn shares(ratio: f64, classes: usize) -> Vec<f64> {
        let last = classes.saturating_sub(1).max(1) as f64;
        let sizes: Vec<f64> = (0..classes)
            .map(|j| ratio.powf(-(j as f64) / last))
            .collect();
        let sum: f64 = sizes.iter().sum();
        sizes.iter().map(|s| s / sum).collect()
    }

    /// Cuts the unlabeled set down and chooses the labeled examples.
    ///
    /// # Errors
    /// For a ratio that is not a positive number, fewer labels than classes, or a class with fewer examples than its share.
    pub fn draw(
        self,
        train: &Part,
        classes: usize,
        labels: usize,
        seed: u64,
    ) -> Result<Split, SplitError> {
        for (what, ratio) in [
            ("ratio of the labeled classes", self.labeled),
            ("ratio of the unlabeled classes", self.unlabeled),
        ] {
            if !(ratio.is_finite() && ratio > 0.0) {
                return Err(SplitError::Share {
                    what,
                    value: ratio.to_string(),
                    rule: "a positive number",
                });
            }
        }
        let mut members = vec![Vec::new(); classes];
        let mut unlabeled = Vec::new();
        for (index, &label) in train.labels().iter().enumerate() {
            match members.get_mut(label as usize) {
                Some(class) => class.push(index),
                None if label == UNLABELED => unlabeled.push(index),
                None => {
                    return Err(SplitError::Label {
                        index,
                        label,
                        classes,
                    });
                }
            }
        }
        if labels < classes {
            return Err(SplitError::TooFewLabels {
                labels,
                classes,
                mode: super::SplitMode::LabelDistMin1,
            });
        }
        let root = Rng::new(seed).fork(STREAM);
        let shares = Self::shares(self.unlabeled, classes);
        let fits = members.iter().zip(&shares).map(|(m, s)| m.len() as f64 / s);
        let total = fits.fold(f64::INFINITY, f64::min);
        let counts = apportion(labels, &Self::shares(self.labeled, classes), 1);
        let mut labeled = Vec::new();
        for (class, (members, &wanted)) in members.iter().zip(&counts).enumerate() {
            let kept = ((total * shares[class] + 1e-9) as usize).max(1);
            let chosen = root.fork(class as u64).choose(members.len(), kept);
            let chosen: Vec<usize> = chosen.into_iter().map(|at| members[at]).collect();
            if chosen.len() < wanted {
                return Err(SplitError::ClassTooSmall {
                    class,
                    available: chosen.len(),
                    wanted,
                });
            }
            labeled.extend_from_slice(&chosen[..wanted]);
            unlabeled.extend(chosen);
        }
        labeled.sort_unstable();
        unlabeled.sort_unstable();
        Ok(Split {
            labeled,
            unlabeled,
            counts,
            validation: Vec::new(),
        })
    }
}

/// Stream of a split's seed that long tails are drawn from.
const STREAM: u64 = 1 << 41;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_have_their_ratio_in_either_direction() {
        let shares = LongTail::shares(100.0, 10);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!((shares[0] / shares[9] - 100.0).abs() < 1e-9);
        let turned = LongTail::shares(0.01, 10);
        assert!((turned[9] / turned[0] - 100.0).abs() < 1e-9);
        assert_eq!(LongTail::shares(1.0, 4), [0.25; 4]);
    }
}
