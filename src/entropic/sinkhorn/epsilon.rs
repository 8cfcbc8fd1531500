//! Fixed or annealed regularisation.

use crate::Error;
use crate::entropic::outcome::check_epsilon;

/// The entropic regularisation, in the units of the cost.
///
/// # Examples
/// ```
/// use earthmover::{Epsilon, Sinkhorn};
/// let fixed = Sinkhorn::new(0.01);
/// let annealed = Sinkhorn::new(Epsilon::Annealed { from: 1.0, to: 0.01, factor: 4.0 });
/// # let _ = (fixed, annealed);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Epsilon {
    /// One value throughout.
    Fixed(f64),
    /// From `from` down to `to`, divided by `factor` from stage to stage.
    Annealed {
        /// First value.
        from: f64,
        /// Last value, the one of the answer.
        to: f64,
        /// Divisor between stages, above one.
        factor: f64,
    },
}

/// Stages that an annealed ε may have.
const MOST_STAGES: f64 = 1e4;

impl From<f64> for Epsilon {
    fn from(epsilon: f64) -> Self {
        Self::Fixed(epsilon)
    }
}

impl Epsilon {
    /// The value of the answer.
    pub(crate) fn last(self) -> f64 {
        match self {
            Self::Fixed(epsilon) | Self::Annealed { to: epsilon, .. } => epsilon,
        }
    }

    /// The values to go through, the last being the one asked for.
    pub(crate) fn stages(self) -> Result<Vec<f64>, Error> {
        match self {
            Self::Fixed(epsilon) => Ok(vec![check_epsilon(epsilon)?]),
            Self::Annealed { from, to, factor } => {
                let (from, to) = (check_epsilon(from)?, check_epsilon(to)?);
                if !(factor.is_finite() && factor > 1.0) {
                    let expected = "a number above one";
                    return Err(Error::Option {
                        name: "annealing factor",
                        value: factor,
                        expected,
                    });
                }
                // The quotient itself may be beyond the largest number.
                if from.ln() - to.ln() > MOST_STAGES * factor.ln() {
                    return Err(Error::Option {
                        name: "annealing factor",
                        value: factor,
                        expected: "large enough to get there in 10,000 stages",
                    });
                }
                let mut stages = Vec::new();
                let mut epsilon = from;
                while epsilon > to * (1.0 + 1e-12) {
                    stages.push(epsilon);
                    epsilon /= factor;
                }
                stages.push(to);
                Ok(stages)
            }
        }
    }
}
