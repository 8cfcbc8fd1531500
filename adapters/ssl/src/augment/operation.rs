//! The fourteen operations of RandAugment and what a level means for each.
//!
//! A level ℓ out of 10 becomes a magnitude, linearly: angles, shears and translations are s · M · ℓ/10 with a
//! random sign s, enhancement factors are φ = 0.1 + 1.8 · ℓ/10, solarize inverts from 256 − 256 · ℓ/10, and
//! posterize keeps 4 − ⌊4 · ℓ/10⌋ bits. Enhancements are at their strongest at both ends and nearly the
//! identity in the middle.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::canvas::Canvas;

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Nothing.
    Identity,
    /// [`Canvas::autocontrast`].
    Autocontrast,
    /// [`Canvas::equalize`].
    Equalize,
    /// [`Canvas::rotate`].
    Rotate,
    /// [`Canvas::solarize`].
    Solarize,
    /// [`Canvas::color`].
    Color,
    /// [`Canvas::contrast`].
    Contrast,
    /// [`Canvas::brightness`].
    Brightness,
    /// [`Canvas::sharpness`].
    Sharpness,
    /// [`Canvas::shear_x`].
    ShearX,
    /// [`Canvas::shear_y`].
    ShearY,
    /// [`Canvas::translate_x`].
    TranslateX,
    /// [`Canvas::translate_y`].
    TranslateY,
    /// [`Canvas::posterize`].
    Posterize,
}

/// The direction of an operation that has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// As the magnitude says.
    Plus,
    /// Its mirror image.
    Minus,
}

/// Magnitudes at level 10.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Magnitudes {
    /// Degrees.
    pub rotate: f64,
    /// Pixels per pixel.
    pub shear: f64,
    /// Pixels.
    pub translate: f64,
}

impl Default for Magnitudes {
    /// As published for images of 32 × 32.
    fn default() -> Self {
        Self {
            rotate: 30.0,
            shear: 0.3,
            translate: 10.0,
        }
    }
}

impl Operation {
    /// All fourteen.
    pub const ALL: [Self; 14] = [
        Self::Identity,
        Self::Autocontrast,
        Self::Equalize,
        Self::Rotate,
        Self::Solarize,
        Self::Color,
        Self::Contrast,
        Self::Brightness,
        Self::Sharpness,
        Self::ShearX,
        Self::ShearY,
        Self::TranslateX,
        Self::TranslateY,
        Self::Posterize,
    ];

    /// The name in settings and pictures.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Autocontrast => "autocontrast",
            Self::Equalize => "equalize",
            Self::Rotate => "rotate",
            Self::Solarize => "solarize",
            Self::Color => "color",
            Self::Contrast => "contrast",
            Self::Brightness => "brightness",
            Self::Sharpness => "sharpness",
            Self::ShearX => "shear_x",
            Self::ShearY => "shear_y",
            Self::TranslateX => "translate_x",
            Self::TranslateY => "translate_y",
            Self::Posterize => "posterize",
        }
    }

    /// Whether the sign makes a difference.
    #[must_use]
    pub fn is_signed(self) -> bool {
        matches!(
            self,
            Self::Rotate | Self::ShearX | Self::ShearY | Self::TranslateX | Self::TranslateY
        )
    }

    /// Whether the level makes a difference.
    #[must_use]
    pub fn has_level(self) -> bool {
        !matches!(self, Self::Identity | Self::Autocontrast | Self::Equalize)
    }

    /// Applies the operation at a level out of 10.
    pub fn apply(self, canvas: &mut Canvas, level: u32, sign: Sign, magnitudes: &Magnitudes) {
        let share = f64::from(level.min(10)) / 10.0;
        let signed = match sign {
            Sign::Plus => share,
            Sign::Minus => -share,
        };
        let factor = 0.1 + 1.8 * share;
        match self {
            Self::Identity => {}
            Self::Autocontrast => canvas.autocontrast(),
            Self::Equalize => canvas.equalize(),
            Self::Rotate => canvas.rotate(signed * magnitudes.rotate),
            Self::Solarize => canvas.solarize(256.0 - 256.0 * share),
            Self::Color => canvas.color(factor),
            Self::Contrast => canvas.contrast(factor),
            Self::Brightness => canvas.brightness(factor),
            Self::Sharpness => canvas.sharpness(factor),
            Self::ShearX => canvas.shear_x(signed * magnitudes.shear),
            Self::ShearY => canvas.shear_y(signed * magnitudes.shear),
            Self::TranslateX => canvas.translate_x(signed * magnitudes.translate),
            Self::TranslateY => canvas.translate_y(signed * magnitudes.translate),
            // In whole numbers: ⌊0.4 ℓ⌋ must not fall short at a multiple of 5.
            Self::Posterize => canvas.posterize(4 - 4 * level.min(10) / 10),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
