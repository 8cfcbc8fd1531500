//! Learning rates by step.
//!
//! ```text
//! η(t) = η₀                        constant
//! η(t) = η₀ · cos(7πt / 16T)       cosine: falls to 0.195 η₀ at t = T, never to zero
//! ```
//!
//! After a warm-up of w steps, in which η rises linearly from 0 (η(t) = η₀ · t / w), t counts from the
//! end of the warm-up and T is shortened by it.

use crate::nn::error::NnError;

/// How the rate falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Not at all.
    Constant,
    /// Along 7/16 of a cosine over `total` steps.
    Cosine {
        /// T, the length of the run.
        total: u64,
    },
}

/// A learning rate as a function of the step.
///
/// # Examples
/// ```
/// use earthmover_ssl::nn::optim::{LearningRate, Schedule};
/// let rate = LearningRate::new(0.03, Schedule::Cosine { total: 1 << 20 });
/// assert_eq!(rate.at(0), 0.03);
/// assert!(rate.at(1 << 20) < 0.2 * 0.03);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearningRate {
    base: f64,
    schedule: Schedule,
    warm_up: u64,
}

impl LearningRate {
    /// A schedule of the base rate, without warm-up.
    #[must_use]
    pub fn new(base: f64, schedule: Schedule) -> Self {
        Self {
            base,
            schedule,
            warm_up: 0,
        }
    }

    /// Rises linearly over the first `steps` (default 0).
    #[must_use]
    pub fn warm_up(mut self, steps: u64) -> Self {
        self.warm_up = steps;
        self
    }

    /// The rate of step `t` = 0, 1, …
    #[must_use]
    pub fn at(&self, t: u64) -> f64 {
        if t < self.warm_up {
            return self.base * t as f64 / self.warm_up as f64;
        }
        match self.schedule {
            Schedule::Constant => self.base,
            Schedule::Cosine { total } => {
                let length = total.saturating_sub(self.warm_up).max(1) as f64;
                let progress = (t - self.warm_up) as f64 / length;
                // Past the end of the run the cosine would turn negative and climb the loss.
                let angle = (7.0 / 16.0 * progress).min(0.5);
                self.base * (std::f64::consts::PI * angle).cos().max(0.0)
            }
        }
    }

    /// Checks the base rate.
    ///
    /// # Errors
    /// If it is negative or not finite.
    pub fn validate(&self) -> Result<(), NnError> {
        if self.base.is_finite() && self.base >= 0.0 {
            return Ok(());
        }
        Err(NnError::Setting {
            what: "the learning rate",
            value: self.base,
            rule: "finite and at least 0",
        })
    }
}
