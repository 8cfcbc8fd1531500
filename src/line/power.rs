//! |d|ᵖ, its derivative and its root, with the cases of p = 1 and p = 2 apart: they are what everybody asks for.

use crate::Error;

/// The power of a distance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Power {
    One,
    Two,
    Any(f64),
}

impl Power {
    pub(crate) fn new(order: f64) -> Result<Self, Error> {
        if !(order >= 1.0 && order.is_finite()) {
            return Err(Error::Option {
                name: "order",
                value: order,
                expected: "a number from one up",
            });
        }
        Ok(match order {
            1.0 => Self::One,
            2.0 => Self::Two,
            p => Self::Any(p),
        })
    }

    /// |d|ᵖ.
    #[inline(always)]
    pub(crate) fn of(self, d: f64) -> f64 {
        match self {
            Self::One => d.abs(),
            Self::Two => d * d,
            Self::Any(p) => d.abs().powf(p),
        }
    }

    /// The derivative of |d|ᵖ; zero at zero.
    #[inline(always)]
    pub(crate) fn slope(self, d: f64) -> f64 {
        match self {
            Self::One if d == 0.0 => 0.0,
            Self::One => d.signum(),
            Self::Two => 2.0 * d,
            Self::Any(p) if d != 0.0 => p * d.abs().powf(p - 1.0).copysign(d),
            Self::Any(_) => 0.0,
        }
    }

    /// The p-th root.
    pub(crate) fn root(self, cost: f64) -> f64 {
        match self {
            Self::One => cost,
            Self::Two => cost.sqrt(),
            Self::Any(p) => cost.powf(1.0 / p),
        }
    }
}
