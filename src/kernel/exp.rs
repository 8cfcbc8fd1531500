//! A branch-free exponential that compilers vectorise.
//!
//! ```text
//! eˣ = 2ⁿ · eʳ      n = round(x / ln 2),   r = x − n ln 2 ∈ [−½ ln 2, ½ ln 2]
//! ```
//!
//! `n` is rounded by adding and subtracting 1.5·2^(mantissa bits), `ln 2` is split into a short high
//! part (so that `n · hi` is exact) and a low part, `eʳ` is its Taylor polynomial, `2ⁿ` is assembled in
//! the exponent bits. Only `x ≤ 0` is needed: every sweep subtracts the row maximum first. There is no
//! fused multiply-add, so vector and scalar code give the same bits on every machine.

/// `e^x` in single precision for `x ≤ 88`: within 3 units in the last place above `e^-87`, zero below.
#[inline(always)]
pub(crate) fn exp_f32(x: f32) -> f32 {
    const MAGIC: f32 = 12_582_912.0; // 1.5 · 2²³
    const LN2_HI: f32 = 0.693_359_4;
    const LN2_LO: f32 = -2.121_944_4e-4;
    const FLOOR: f32 = -87.0;
    let y = if x < FLOOR { FLOOR } else { x }; // NaN fails the comparison and passes through
    let shifted = y * core::f32::consts::LOG2_E + MAGIC;
    let n = shifted - MAGIC;
    let r = (y - n * LN2_HI) - n * LN2_LO;
    let mut p = 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    let scale = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    let e = p * scale;
    if x < FLOOR { 0.0 } else { e }
}

/// `e^x` in double precision for `x ≤ 709`: within 3 units in the last place above `e^-708`, zero below.
#[inline(always)]
pub(crate) fn exp_f64(x: f64) -> f64 {
    const MAGIC: f64 = 6_755_399_441_055_744.0; // 1.5 · 2⁵²
    const LN2_HI: f64 = 0.693_147_180_369_123_8;
    const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
    const FLOOR: f64 = -708.0;
    let y = if x < FLOOR { FLOOR } else { x };
    let shifted = y * core::f64::consts::LOG2_E + MAGIC;
    let n = shifted - MAGIC;
    let r = (y - n * LN2_HI) - n * LN2_LO;
    let mut p = 1.0 / 6_227_020_800.0; // 1/13!
    p = p * r + 1.0 / 479_001_600.0;
    p = p * r + 1.0 / 39_916_800.0;
    p = p * r + 1.0 / 3_628_800.0;
    p = p * r + 1.0 / 362_880.0;
    p = p * r + 1.0 / 40_320.0;
    p = p * r + 1.0 / 5_040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    let scale = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    let e = p * scale;
    if x < FLOOR { 0.0 } else { e }
}

/// ln Σ eˣ, with the largest taken out; −∞ for none.
pub(crate) fn log_sum_exp(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let top = values.clone().fold(f64::NEG_INFINITY, f64::max);
    if !top.is_finite() {
        return top;
    }
    top + values.map(|x| exp_or_nothing(x - top)).sum::<f64>().ln()
}

/// The library's `e^x`, to the bit; where it is zero, without the slow way a library finds that out. At small ε most
/// entries of a plan are.
#[inline]
pub(crate) fn exp_or_nothing(x: f64) -> f64 {
    // Half of the least subnormal number is e^-745.13…
    if x < -746.0 { 0.0 } else { x.exp() }
}

/// ln(eᵃ + eᵇ).
pub(crate) fn log_add(a: f64, b: f64) -> f64 {
    let top = a.max(b);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + ((a - top).exp() + (b - top).exp()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_are_exact() {
        assert_eq!(exp_f32(0.0), 1.0);
        assert_eq!(exp_f64(0.0), 1.0);
        assert_eq!(exp_f32(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp_f64(f64::NEG_INFINITY), 0.0);
        assert!(exp_f32(f32::NAN).is_nan() && exp_f64(f64::NAN).is_nan());
    }

    #[test]
    fn nothing_is_where_the_library_has_nothing() {
        for x in [
            -745.0,
            -745.2,
            -746.0,
            -746.1,
            -1e9,
            f64::NEG_INFINITY,
            0.0,
            -1.0,
        ] {
            assert_eq!(exp_or_nothing(x).to_bits(), x.exp().to_bits(), "{x}");
        }
        assert!(exp_or_nothing(f64::NAN).is_nan());
    }

    proptest! {
        #[test]
        fn single_precision_agrees_with_libm(x in -87.0f32..=80.0) {
            let exact = f64::from(x).exp();
            prop_assert!((f64::from(exp_f32(x)) - exact).abs() <= 3e-7 * exact);
        }

        #[test]
        fn double_precision_agrees_with_libm(x in -708.0f64..=700.0) {
            let exact = x.exp();
            prop_assert!((exp_f64(x) - exact).abs() <= 6e-16 * exact, "{x}: {} {exact}", exp_f64(x));
        }
    }
}
