//! Views of rows of features.
//!
//! With x normalised (mean 0, deviation 1 per feature), a view is
//!
//! ```text
//! x'_j = b_j (x_j + σ z_j),     z_j ~ N(0, 1),  b_j ~ Bernoulli(1 − δ)
//! ```
//!
//! Noise stands for what crops do to images and dropped features, which fall to their mean, for the hole.

use serde::{Deserialize, Serialize};

use super::error::AugmentError;
use crate::rng::Rng;

/// Noise and dropout of one view.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// σ, in deviations of the feature.
    pub noise: f64,
    /// δ, the probability that a feature is dropped.
    pub dropout: f64,
}

/// Views of rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TabularPolicy {
    /// The weak view.
    pub weak: Disturbance,
    /// The strong view.
    pub strong: Disturbance,
}

impl Default for TabularPolicy {
    fn default() -> Self {
        Self {
            weak: Disturbance {
                noise: 0.05,
                dropout: 0.0,
            },
            strong: Disturbance {
                noise: 0.25,
                dropout: 0.2,
            },
        }
    }
}

impl Disturbance {
    /// Disturbs a normalised row.
    pub fn apply(&self, row: &mut [f32], rng: &mut Rng) {
        for x in row {
            if self.noise > 0.0 {
                *x += (self.noise * rng.normal()) as f32;
            }
            if self.dropout > 0.0 && rng.chance(self.dropout) {
                *x = 0.0;
            }
        }
    }
}

impl TabularPolicy {
    /// Checks every setting once, before the first row.
    ///
    /// # Errors
    /// When noise is negative or not finite, or dropout outside [0, 1].
    pub fn validate(&self) -> Result<(), AugmentError> {
        for d in [self.weak, self.strong] {
            if !(d.noise.is_finite() && d.noise >= 0.0) {
                let range = "finite and not negative";
                return Err(AugmentError::Setting {
                    setting: "noise",
                    value: d.noise,
                    range,
                });
            }
            if !(0.0..=1.0).contains(&d.dropout) {
                let range = "between 0 and 1";
                return Err(AugmentError::Setting {
                    setting: "dropout",
                    value: d.dropout,
                    range,
                });
            }
        }
        Ok(())
    }
}
