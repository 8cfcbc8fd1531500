//! How the allocated share ρ grows while training.
//!
//! With s ∈ [0, 1] the fraction of training done, s = t/(T − 1) for steps t = 0 … T − 1 (the paper counts
//! from one and writes (t − 1)/(T − 1)):
//!
//! ```text
//! constant      ρ
//! linear        s
//! truncated     min(cap, s)
//! piecewise     linear between knots (s_0, ρ_0), (s_1, ρ_1), …
//! cosine        from + (to − from)·(1 − cos πs)/2
//! ```

use serde::{Deserialize, Serialize};

use crate::Error;

/// A schedule for the allocated share; its values are always in [0, 1].
///
/// # Examples
/// ```
/// use earthmover_ssl::allocation::Schedule;
/// let ramp = Schedule::linear();
/// assert_eq!((ramp.at(0, 101), ramp.at(50, 101), ramp.at(100, 101)), (0.0, 0.5, 1.0));
/// let partial = Schedule::truncated(0.8)?;
/// assert_eq!(partial.at(100, 101), 0.8);
/// assert!(Schedule::constant(1.2).is_err());
/// # Ok::<(), earthmover_ssl::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Shape", into = "Shape")]
pub struct Schedule(Shape);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Shape {
    Constant(f64),
    Linear,
    Truncated { cap: f64 },
    Piecewise(Vec<(f64, f64)>),
    Cosine { from: f64, to: f64 },
}

impl TryFrom<Shape> for Schedule {
    type Error = Error;
    fn try_from(shape: Shape) -> Result<Self, Error> {
        match shape {
            Shape::Constant(rho) => Self::constant(rho),
            Shape::Linear => Ok(Self::linear()),
            Shape::Truncated { cap } => Self::truncated(cap),
            Shape::Piecewise(knots) => Self::piecewise(knots),
            Shape::Cosine { from, to } => Self::cosine(from, to),
        }
    }
}

impl From<Schedule> for Shape {
    fn from(schedule: Schedule) -> Self {
        schedule.0
    }
}

impl std::fmt::Display for Schedule {
    /// Where it begins and ends, as in tables; different schedules read differently.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Shape::Constant(rho) => write!(f, "from {rho} to {rho}"),
            Shape::Linear => write!(f, "linear"),
            Shape::Truncated { cap } => write!(f, "from 0 to {cap}"),
            Shape::Cosine { from, to } => write!(f, "cosine from {from} to {to}"),
            Shape::Piecewise(knots) => {
                write!(f, "piecewise")?;
                let mut knots = knots.iter();
                knots.try_for_each(|(at, rho)| write!(f, " {rho} at {at}"))
            }
        }
    }
}

impl Default for Schedule {
    /// The paper's linear ramp.
    fn default() -> Self {
        Self::linear()
    }
}

impl Schedule {
    /// The same share throughout.
    ///
    /// # Errors
    /// [`Error::Option`] for a share outside [0, 1].
    pub fn constant(rho: f64) -> Result<Self, Error> {
        share("rho", rho).map(|rho| Self(Shape::Constant(rho)))
    }

    /// From nothing to everything, in proportion to the steps done.
    #[must_use]
    pub fn linear() -> Self {
        Self(Shape::Linear)
    }

    /// [`linear`](Self::linear), but never above `cap`; the paper suggests 0.8 where labels turn noisy late.
    ///
    /// # Errors
    /// [`Error::Option`] for a cap outside [0, 1].
    pub fn truncated(cap: f64) -> Result<Self, Error> {
        share("cap", cap).map(|cap| Self(Shape::Truncated { cap }))
    }

    /// Linear between knots (fraction of training, share); the first and last hold outside.
    ///
    /// # Errors
    /// [`Error::Knot`] where there is no knot, where fractions do not increase, or for a coordinate
    /// outside [0, 1].
    pub fn piecewise(knots: Vec<(f64, f64)>) -> Result<Self, Error> {
        let knot = |index: usize, problem| {
            let (at, value) = knots.get(index).copied().unwrap_or((f64::NAN, f64::NAN));
            Err(Error::Knot {
                index,
                at,
                value,
                problem,
            })
        };
        if knots.is_empty() {
            return knot(0, "missing: there must be at least one");
        }
        for (index, (at, value)) in knots.iter().enumerate() {
            if !((0.0..=1.0).contains(at) && (0.0..=1.0).contains(value)) {
                return knot(index, "outside [0, 1]");
            }
            if index > 0 && *at <= knots[index - 1].0 {
                return knot(index, "not after the one before");
            }
        }
        Ok(Self(Shape::Piecewise(knots)))
    }

    /// Half a cosine wave from one share to another: slow at both ends.
    ///
    /// # Errors
    /// [`Error::Option`] for a share outside [0, 1].
    pub fn cosine(from: f64, to: f64) -> Result<Self, Error> {
        Ok(Self(Shape::Cosine {
            from: share("from", from)?,
            to: share("to", to)?,
        }))
    }

    /// The share at `step` (counted from zero) of `steps`; the last step's value holds beyond it.
    #[must_use]
    pub fn at(&self, step: usize, steps: usize) -> f64 {
        let last = steps.saturating_sub(1);
        // A run of one step is at its end, not at 0/0.
        self.at_progress(if last == 0 {
            1.0
        } else {
            step.min(last) as f64 / last as f64
        })
    }

    /// The share at a fraction of training, taken into [0, 1].
    #[must_use]
    pub fn at_progress(&self, progress: f64) -> f64 {
        let s = progress.clamp(0.0, 1.0);
        let rho = match &self.0 {
            Shape::Constant(rho) => *rho,
            Shape::Linear => s,
            Shape::Truncated { cap } => s.min(*cap),
            Shape::Cosine { from, to } => {
                from + (to - from) * 0.5 * (1.0 - (std::f64::consts::PI * s).cos())
            }
            Shape::Piecewise(knots) => {
                let after = knots.partition_point(|(at, _)| *at <= s);
                match (knots.get(after.wrapping_sub(1)), knots.get(after)) {
                    (Some((a, low)), Some((b, high))) => low + (high - low) * (s - a) / (b - a),
                    (Some((_, value)), None) | (None, Some((_, value))) => *value,
                    (None, None) => 0.0,
                }
            }
        };
        rho.clamp(0.0, 1.0)
    }
}

/// `value` if it is a share.
pub(crate) fn share(name: &'static str, value: f64) -> Result<f64, Error> {
    if (0.0..=1.0).contains(&value) {
        return Ok(value);
    }
    Err(Error::Option {
        name,
        value,
        expected: "between 0 and 1",
    })
}
