//! `lower ≤ x ≤ upper`, written as the range it is.

use core::ops::{RangeFrom, RangeFull, RangeInclusive, RangeToInclusive};

/// An interval for a flow or a sum of entries.
///
/// Made from ranges: `1.0..=2.0`, `1.0..` (no upper bound), `..=2.0` and `..` (from zero: mass is not
/// negative unless a negative lower bound says so), or a number alone, which allows just itself.
///
/// # Examples
/// ```
/// use earthmover::flow::Bounds;
/// assert_eq!(Bounds::from(..=2.0), Bounds::from(0.0..=2.0));
/// assert_eq!(Bounds::from(1.0..).upper, f64::INFINITY);
/// assert_eq!(Bounds::from(3.0), Bounds { lower: 3.0, upper: 3.0 });
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Bounds {
    /// The least value allowed; finite.
    pub lower: f64,
    /// The largest value allowed; may be +∞.
    #[cfg_attr(feature = "serde", serde(with = "crate::kernel::extended"))]
    pub upper: f64,
}

impl Bounds {
    /// Whether `lower` is finite, `upper` a number or +∞, and the interval not empty.
    pub(crate) fn are_sound(self) -> bool {
        self.lower.is_finite() && self.lower <= self.upper
    }

    /// Distance of a sum from the interval.
    pub(crate) fn distance(self, sum: f64) -> f64 {
        (self.lower - sum).max(sum - self.upper).max(0.0)
    }
}

impl Default for Bounds {
    /// Zero to infinity.
    fn default() -> Self {
        Self::from(..)
    }
}

impl From<RangeInclusive<f64>> for Bounds {
    fn from(range: RangeInclusive<f64>) -> Self {
        Self {
            lower: *range.start(),
            upper: *range.end(),
        }
    }
}

impl From<RangeFrom<f64>> for Bounds {
    fn from(range: RangeFrom<f64>) -> Self {
        Self {
            lower: range.start,
            upper: f64::INFINITY,
        }
    }
}

impl From<RangeToInclusive<f64>> for Bounds {
    fn from(range: RangeToInclusive<f64>) -> Self {
        Self {
            lower: 0.0,
            upper: range.end,
        }
    }
}

impl From<RangeFull> for Bounds {
    fn from(_: RangeFull) -> Self {
        Self {
            lower: 0.0,
            upper: f64::INFINITY,
        }
    }
}

impl From<f64> for Bounds {
    fn from(value: f64) -> Self {
        Self {
            lower: value,
            upper: value,
        }
    }
}
