//! The scalar of a cost: `f32` or `f64`.
//!
//! Only *costs* are generic. Masses, potentials, sums and certificates are `f64` throughout: they are
//! O(n + m) numbers, so the width costs nothing, and an `f32` cost still gets an honest certificate.

use core::fmt::{Debug, Display};
use core::iter::Sum;
use num_traits::{Float, NumAssign};

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A floating-point scalar that costs can be made of: `f32` or `f64`.
///
/// Sealed, because the sweeps rely on each scalar's exponential being branch-free and vectorisable.
///
/// # Examples
/// ```
/// use earthmover::Real;
/// assert_eq!(f32::narrow(0.5).widen(), 0.5);
/// ```
pub trait Real:
    Float
    + NumAssign
    + Sum
    + Debug
    + Display
    + Default
    + Send
    + Sync
    + private::Sealed
    + crate::compiled::Compiled
    + 'static
{
    /// Largest relative difference of two mass totals that is still taken for rounding in data of
    /// this type: `1e-4` for `f32`, which may have been summed in `f32`, and `1e-8` for `f64`.
    const MASS_TOLERANCE: f64;

    /// Costs larger than this in size, other than +∞, are refused: `1e36` for `f32`, `1e250` for `f64`. Below it
    /// no difference or sum of costs that a solver makes overflows.
    const LARGEST_COST: f64;

    /// Rounds to this type.
    fn narrow(x: f64) -> Self;

    /// Widens to `f64` without loss.
    fn widen(self) -> f64;

    /// `e^x` within a few units in the last place, branch-free so that loops over it vectorise; `0` below
    /// the smallest normal number, NaN for NaN, not for large `x`.
    #[doc(hidden)]
    fn quick_exp(self) -> Self;
}

impl Real for f32 {
    const MASS_TOLERANCE: f64 = 1e-4;
    const LARGEST_COST: f64 = 1e36;

    #[inline(always)]
    fn narrow(x: f64) -> Self {
        x as f32
    }

    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn quick_exp(self) -> Self {
        crate::kernel::exp::exp_f32(self)
    }
}

impl Real for f64 {
    const MASS_TOLERANCE: f64 = 1e-8;
    const LARGEST_COST: f64 = 1e250;

    #[inline(always)]
    fn narrow(x: f64) -> Self {
        x
    }

    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }

    #[inline(always)]
    fn quick_exp(self) -> Self {
        crate::kernel::exp::exp_f64(self)
    }
}
