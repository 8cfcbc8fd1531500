//! Which views of an example are made, as plain settings.
//!
//! ```text
//! weak    crop from mirrored padding, flip
//! strong  weak, then RandAugment, then normalise, then cutout
//! ```
//!
//! RandAugment draws two operations with replacement; each gets a level uniform on 1..=9 and is applied
//! with probability ½, signed ones in either direction. Sizes in pixels were published for 32 × 32 and
//! are scaled to other sides by the presets.

use serde::{Deserialize, Serialize};

use super::canvas::Canvas;
use super::cutout::Cutout;
use super::error::AugmentError;
use super::operation::{Magnitudes, Operation, Sign};
use super::tabular::TabularPolicy;
use crate::data::{Kind, Shape};
use crate::rng::Rng;

/// Which view of an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// As it is, for evaluation.
    Plain,
    /// Slightly changed; what labels are computed from.
    Weak,
    /// Heavily changed; what must agree with those labels.
    Strong,
}

/// Random crop and flip.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weak {
    /// Mirrored pixels on every side that the crop may reach into.
    pub padding: usize,
    /// Probability of turning left to right.
    pub flip: f64,
}

/// A few random operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RandAugment {
    /// What is drawn from, with replacement.
    pub operations: Vec<Operation>,
    /// How many are drawn.
    pub draws: usize,
    /// Probability with which each drawn operation is applied.
    pub probability: f64,
    /// Lowest level out of 10.
    pub lowest: u32,
    /// Highest level out of 10.
    pub highest: u32,
    /// What level 10 means.
    pub magnitudes: Magnitudes,
}

impl Default for RandAugment {
    /// As published.
    fn default() -> Self {
        Self {
            operations: Operation::ALL.to_vec(),
            draws: 2,
            probability: 0.5,
            lowest: 1,
            highest: 9,
            magnitudes: Magnitudes::default(),
        }
    }
}

/// Views of images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImagePolicy {
    /// The first half of both views.
    pub weak: Weak,
    /// The operations of the strong view.
    pub rand_augment: RandAugment,
    /// The hole in the strong view.
    pub cutout: Cutout,
}

impl Weak {
    /// Crops and flips at random.
    pub fn apply(&self, canvas: &mut Canvas, rng: &mut Rng) {
        let span = 2 * self.padding + 1;
        let (top, left) = (rng.below(span), rng.below(span));
        let flip = rng.chance(self.flip);
        if flip || (top, left) != (self.padding, self.padding) {
            canvas.crop(self.padding, top, left, flip);
        }
    }
}

impl RandAugment {
    /// Draws operations and applies them.
    pub fn apply(&self, canvas: &mut Canvas, rng: &mut Rng) {
        if self.operations.is_empty() {
            return;
        }
        for _ in 0..self.draws {
            // Everything is drawn before anything is decided: each draw always uses the same numbers.
            let operation = self.operations[rng.below(self.operations.len())];
            let level = rng.range(i64::from(self.lowest), i64::from(self.highest)) as u32;
            let applied = rng.chance(self.probability);
            let sign = if rng.chance(0.5) {
                Sign::Minus
            } else {
                Sign::Plus
            };
            if applied {
                operation.apply(canvas, level, sign, &self.magnitudes);
            }
        }
    }
}

impl ImagePolicy {
    /// The published settings: 4 pixels of padding, flips, a 16 × 16 hole.
    #[must_use]
    pub fn cifar() -> Self {
        Self {
            weak: Weak {
                padding: 4,
                flip: 0.5,
            },
            rand_augment: RandAugment::default(),
            cutout: Cutout { size: 16 },
        }
    }

    /// The same without flips: a mirrored digit is another sign.
    #[must_use]
    pub fn svhn() -> Self {
        Self::cifar().flip(0.0)
    }

    /// For the embedded 8 × 8 digits: a quarter of every length, no flips, and no solarize, which turns
    /// strokes one pixel wide into background. (Equalize and color are the identity on such images.)
    #[must_use]
    pub fn digits() -> Self {
        let mut policy = Self::sized(8).flip(0.0);
        policy
            .rand_augment
            .operations
            .retain(|&o| o != Operation::Solarize);
        policy
    }

    /// For 28 × 28 digits: lengths scaled, no flips.
    #[must_use]
    pub fn mnist() -> Self {
        Self::sized(28).flip(0.0)
    }

    /// For 28 × 28 clothes: lengths scaled, flips.
    #[must_use]
    pub fn fashion_mnist() -> Self {
        Self::sized(28)
    }

    /// The published settings with lengths in proportion to `side` pixels instead of 32: padding an
    /// eighth, translation up to 10/32, a hole of half the side.
    #[must_use]
    pub fn sized(side: usize) -> Self {
        let mut policy = Self::cifar();
        policy.weak.padding = (side / 8).max(1);
        policy.rand_augment.magnitudes.translate = side as f64 * 10.0 / 32.0;
        policy.cutout.size = side / 2;
        policy
    }

    /// Another probability of flips.
    #[must_use]
    pub fn flip(mut self, probability: f64) -> Self {
        self.weak.flip = probability;
        self
    }

    /// Another padding.
    #[must_use]
    pub fn padding(mut self, pixels: usize) -> Self {
        self.weak.padding = pixels;
        self
    }

    /// Another hole.
    #[must_use]
    pub fn cutout(mut self, size: usize) -> Self {
        self.cutout.size = size;
        self
    }

    /// Other operations to draw from.
    #[must_use]
    pub fn operations(mut self, operations: &[Operation]) -> Self {
        self.rand_augment.operations = operations.to_vec();
        self
    }

    /// Checks every setting once, before the first image.
    ///
    /// # Errors
    /// When a probability is outside [0, 1], a level outside 0..=10, or a magnitude not finite.
    pub fn validate(&self) -> Result<(), AugmentError> {
        let check = |setting, value: f64, ok: bool, range| {
            if ok {
                Ok(())
            } else {
                Err(AugmentError::Setting {
                    setting,
                    value,
                    range,
                })
            }
        };
        let r = &self.rand_augment;
        for (setting, p) in [("flip", self.weak.flip), ("probability", r.probability)] {
            check(setting, p, (0.0..=1.0).contains(&p), "between 0 and 1")?;
        }
        check(
            "padding",
            self.weak.padding as f64,
            self.weak.padding <= 1 << 15,
            "at most 32768",
        )?;
        check(
            "lowest level",
            f64::from(r.lowest),
            r.lowest <= r.highest,
            "at most the highest",
        )?;
        check(
            "highest level",
            f64::from(r.highest),
            r.highest <= 10,
            "at most 10",
        )?;
        let m = &r.magnitudes;
        for (setting, value) in [
            ("rotate", m.rotate),
            ("shear", m.shear),
            ("translate", m.translate),
        ] {
            check(setting, value, value.is_finite(), "finite")?;
        }
        Ok(())
    }
}

/// Views of whatever a set holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Of images.
    Image(ImagePolicy),
    /// Of rows of features.
    Tabular(TabularPolicy),
}

impl Policy {
    /// The preset for a kind of set whose examples have this shape.
    ///
    /// # Examples
    /// ```
    /// use earthmover_ssl::augment::{ImagePolicy, Policy};
    /// use earthmover_ssl::data::{Kind, digits};
    ///
    /// let policy = Policy::preset(Kind::Digits, digits::load()?.shape());
    /// assert_eq!(policy, Policy::Image(ImagePolicy::digits()));
    /// # Ok::<(), earthmover_ssl::data::DataError>(())
    /// ```
    #[must_use]
    pub fn preset(kind: Kind, shape: Shape) -> Self {
        match (shape, kind) {
            (Shape::Table { .. }, _) => Self::Tabular(TabularPolicy::default()),
            (_, Kind::Digits) => Self::Image(ImagePolicy::digits()),
            (_, Kind::Mnist) => Self::Image(ImagePolicy::mnist()),
            (_, Kind::FashionMnist) => Self::Image(ImagePolicy::fashion_mnist()),
            (_, Kind::Cifar10 | Kind::Cifar100) => Self::Image(ImagePolicy::cifar()),
            (_, Kind::Svhn) => Self::Image(ImagePolicy::svhn()),
            (Shape::Image { height, width, .. }, Kind::Folder | Kind::Arrays | Kind::Csv) => {
                Self::Image(ImagePolicy::sized(height.min(width)))
            }
        }
    }
}
