//! The two floating-point types the fast CPU paths are compiled for.

use candle_core::WithDType;

/// A float with a vector width: `f32` in lanes of 8, `f64` in lanes of 4 (32 bytes, one AVX register
/// or two NEON ones).
pub(crate) trait Element: WithDType + Default {
    /// `a · b + c`, rounded once. Slow (a library call) unless the target has the instruction, so
    /// only code compiled for such a target may ask for it.
    fn fused(a: Self, b: Self, c: Self) -> Self;
}

impl Element for f32 {
    #[inline(always)]
    fn fused(a: Self, b: Self, c: Self) -> Self {
        a.mul_add(b, c)
    }
}

impl Element for f64 {
    #[inline(always)]
    fn fused(a: Self, b: Self, c: Self) -> Self {
        a.mul_add(b, c)
    }
}
