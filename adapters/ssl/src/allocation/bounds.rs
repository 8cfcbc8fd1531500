//! How large a share of the labels each class may (or must) get.
//!
//! ```text
//! n·lower_j  ≤  Σ_i Q_ij  ≤  1 + n·upper_j
//! ```
//!
//! The paper uses upper bounds: they forbid a class to swallow the others, yet forgive a prior that is
//! only roughly right. Where the shares are estimated from m labeled examples of which m_j are of class
//! j, the Wilson score interval at z = Φ⁻¹((1 + confidence)/2) is
//!
//! ```text
//! (p̂ + z²/2m ± z √(p̂(1 − p̂)/m + z²/4m²)) / (1 + z²/m),      p̂ = m_j/m,
//! ```
//!
//! which stays inside [0, 1] and is honest for a handful of labels, where the textbook interval is not.

use serde::{Deserialize, Serialize};

use super::normal;
use crate::Error;

/// Lower and upper bounds on class shares, as fractions of all examples.
///
/// # Examples
/// ```
/// use earthmover_ssl::allocation::Bounds;
/// let even = Bounds::empirical(&[4, 4, 4, 4])?;
/// assert_eq!(even.upper(), [0.25; 4]);
/// let cautious = Bounds::wilson(&[4, 4, 4, 4], 0.8)?;
/// assert!(cautious.upper()[0] > 0.25);
/// # Ok::<(), earthmover_ssl::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Raw", into = "Raw")]
pub struct Bounds {
    lower: Vec<f64>,
    upper: Vec<f64>,
}

#[derive(Serialize, Deserialize)]
struct Raw {
    lower: Vec<f64>,
    upper: Vec<f64>,
}

impl TryFrom<Raw> for Bounds {
    type Error = Error;
    fn try_from(raw: Raw) -> Result<Self, Error> {
        Self::between(&raw.lower, &raw.upper)
    }
}

impl From<Bounds> for Raw {
    fn from(bounds: Bounds) -> Self {
        Self {
            lower: bounds.lower,
            upper: bounds.upper,
        }
    }
}

impl Bounds {
    /// No bounds: every class may take everything (b = 1).
    #[must_use]
    pub fn none(classes: usize) -> Self {
        Self {
            lower: vec![0.0; classes],
            upper: vec![1.0; classes],
        }
    }

    /// Upper bounds known from elsewhere. They need not sum to one: below one, what the classes cannot
    /// take is left unallocated.
    ///
    /// # Errors
    /// [`Error::Bound`] for a NaN, infinite or negative share, [`Error::Classes`] for fewer than two.
    pub fn given(upper: &[f64]) -> Result<Self, Error> {
        Self::between(&vec![0.0; upper.len()], upper)
    }

    /// Lower and upper bounds.
    ///
    /// # Errors
    /// As [`given`](Self::given); [`Error::Length`] where the slices differ, [`Error::Crossed`] where a
    /// lower bound lies above its upper bound. Whether lower bounds fit together is for the allocation to
    /// say, which knows how many labels an example may get.
    pub fn between(lower: &[f64], upper: &[f64]) -> Result<Self, Error> {
        if upper.len() < 2 {
            return Err(Error::Classes { found: upper.len() });
        }
        if lower.len() != upper.len() {
            return Err(Error::Length {
                what: "lower bounds",
                expected: upper.len(),
                found: lower.len(),
            });
        }
        for (what, values) in [("lower", lower), ("upper", upper)] {
            for (index, &value) in values.iter().enumerate() {
                if !(value.is_finite() && value >= 0.0) {
                    return Err(Error::Bound { what, index, value });
                }
            }
        }
        for (index, (&lower, &upper)) in lower.iter().zip(upper).enumerate() {
            if lower > upper {
                return Err(Error::Crossed {
                    what: "class",
                    index,
                    lower,
                    upper,
                });
            }
        }
        Ok(Self {
            lower: lower.to_vec(),
            upper: upper.to_vec(),
        })
    }

    /// The class shares of the labeled examples as upper bounds.
    ///
    /// # Errors
    /// [`Error::NoCounts`] where there are none, [`Error::Classes`] for fewer than two classes.
    pub fn empirical(counts: &[usize]) -> Result<Self, Error> {
        let total = total(counts)?;
        let upper: Vec<f64> = counts.iter().map(|&c| c as f64 / total).collect();
        Self::given(&upper)
    }

    /// Upper ends of the Wilson score intervals at a two-sided `confidence` in (0, 1); the paper takes
    /// 0.8.
    ///
    /// # Errors
    /// As [`empirical`](Self::empirical), and [`Error::Option`] for a confidence outside (0, 1).
    pub fn wilson(counts: &[usize], confidence: f64) -> Result<Self, Error> {
        let both = Self::wilson_interval(counts, confidence)?;
        Self::given(&both.upper)
    }

    /// Both ends of the Wilson score intervals.
    ///
    /// # Errors
    /// As [`wilson`](Self::wilson).
    pub fn wilson_interval(counts: &[usize], confidence: f64) -> Result<Self, Error> {
        if !(confidence > 0.0 && confidence < 1.0) {
            return Err(Error::Option {
                name: "confidence",
                value: confidence,
                expected: "strictly between 0 and 1",
            });
        }
        let m = total(counts)?;
        let z = -normal::quantile(0.5 * (1.0 - confidence));
        let (lower, upper): (Vec<f64>, Vec<f64>) = counts
            .iter()
            .map(|&count| {
                let share = count as f64 / m;
                let centre = share + z * z / (2.0 * m);
                let spread = z * (share * (1.0 - share) / m + z * z / (4.0 * m * m)).sqrt();
                let scale = 1.0 + z * z / m;
                // At 0 and m the two terms are equal up to rounding; the ends are 0 and 1 exactly.
                let low = if count == 0 {
                    0.0
                } else {
                    (centre - spread) / scale
                };
                let high = if share == 1.0 {
                    1.0
                } else {
                    (centre + spread) / scale
                };
                (low.max(0.0), high.min(1.0))
            })
            .unzip();
        Self::between(&lower, &upper)
    }

    /// Number of classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.upper.len()
    }

    /// Upper bounds b.
    #[must_use]
    pub fn upper(&self) -> &[f64] {
        &self.upper
    }

    /// Lower bounds.
    #[must_use]
    pub fn lower(&self) -> &[f64] {
        &self.lower
    }
}

fn total(counts: &[usize]) -> Result<f64, Error> {
    match counts.iter().fold(0.0, |sum, &c| sum + c as f64) {
        0.0 => Err(Error::NoCounts),
        sum => Ok(sum),
    }
}

/// Bounds that change while training: linear between the bounds given at a few moments.
///
/// A class can so be introduced late (upper bound zero at first), or a loose prior tightened.
///
/// # Examples
/// ```
/// use earthmover_ssl::allocation::{Bounds, MovingBounds};
/// let closed = Bounds::given(&[1.0, 0.0])?;
/// let open = Bounds::given(&[0.5, 0.5])?;
/// let moving = MovingBounds::new(vec![(0.25, closed), (0.75, open)])?;
/// assert_eq!(moving.at(0.1).upper(), [1.0, 0.0]);
/// assert_eq!(moving.at(0.5).upper(), [0.75, 0.25]);
/// assert_eq!(moving.at(1.0).upper(), [0.5, 0.5]);
/// # Ok::<(), earthmover_ssl::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(f64, Bounds)>", into = "Vec<(f64, Bounds)>")]
pub struct MovingBounds {
    knots: Vec<(f64, Bounds)>,
}

impl TryFrom<Vec<(f64, Bounds)>> for MovingBounds {
    type Error = Error;
    fn try_from(knots: Vec<(f64, Bounds)>) -> Result<Self, Error> {
        Self::new(knots)
    }
}

impl From<MovingBounds> for Vec<(f64, Bounds)> {
    fn from(moving: MovingBounds) -> Self {
        moving.knots
    }
}

impl MovingBounds {
    /// Bounds at given moments, each a fraction of training in [0, 1], in increasing order.
    ///
    /// # Errors
    /// [`Error::Knot`] for a moment out of range or order or where there are none; [`Error::Length`]
    /// where the numbers of classes differ.
    pub fn new(knots: Vec<(f64, Bounds)>) -> Result<Self, Error> {
        let wrong = |index, at, problem| Error::Knot {
            index,
            at,
            value: f64::NAN,
            problem,
        };
        let Some(classes) = knots.first().map(|(_, bounds)| bounds.classes()) else {
            return Err(wrong(0, f64::NAN, "missing: there must be at least one"));
        };
        for (index, (at, bounds)) in knots.iter().enumerate() {
            if !(0.0..=1.0).contains(at) {
                return Err(wrong(index, *at, "outside [0, 1]"));
            }
            if index > 0 && *at <= knots[index - 1].0 {
                return Err(wrong(index, *at, "not after the one before"));
            }
            if bounds.classes() != classes {
                return Err(Error::Length {
                    what: "bounds at a knot",
                    expected: classes,
                    found: bounds.classes(),
                });
            }
        }
        Ok(Self { knots })
    }

    /// The bounds at a fraction `progress` of training; the first and last hold outside the knots.
    #[must_use]
    pub fn at(&self, progress: f64) -> Bounds {
        let after = self.knots.partition_point(|(at, _)| *at <= progress);
        let (Some((left, from)), Some((right, to))) =
            (self.knots.get(after.wrapping_sub(1)), self.knots.get(after))
        else {
            let nearest = after.min(self.knots.len()).saturating_sub(1);
            return self.knots[nearest].1.clone();
        };
        let share = (progress - left) / (right - left);
        let mix = |a: &[f64], b: &[f64]| {
            let blend = |(a, b): (&f64, &f64)| a + share * (b - a);
            a.iter().zip(b).map(blend).collect()
        };
        Bounds {
            lower: mix(&from.lower, &to.lower),
            upper: mix(&from.upper, &to.upper),
        }
    }
}
