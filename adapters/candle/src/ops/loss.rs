//! Log-sum-exp and the losses on top of it, safe at −∞.
//!
//! ```text
//! lse(z) = m + ln Σⱼ exp(zⱼ − m),  m = max z       log-softmax(z) = z − lse(z)
//! cross-entropy(q, z) = −Σⱼ qⱼ · log-softmax(z)ⱼ
//! ```
//!
//! The maximum is taken as 0 where it is −∞, so that a row of −∞ has log-sum-exp −∞ rather than NaN.
//! Targets may be classes or rows of weights; a row of weights may sum to less than one (an example
//! only partly allocated) and no gradient flows into it. A weight of zero times a log-probability
//! of −∞ counts as zero.

use candle_core::{D, DType, Result, Tensor, bail};

/// ln Σ exp over the last dimension, which is kept with size 1; −∞ for a row of −∞.
///
/// # Errors
/// If the device fails.
///
/// # Examples
/// ```
/// use candle_core::{Device, Tensor};
/// use earthmover_candle::ops::log_sum_exp;
/// let z = Tensor::new(&[[0f64, 0.0], [f64::NEG_INFINITY; 2]], &Device::Cpu)?;
/// let sums = log_sum_exp(&z)?.flatten_all()?.to_vec1::<f64>()?;
/// assert!((sums[0] - 2f64.ln()).abs() < 1e-15);
/// assert_eq!(sums[1], f64::NEG_INFINITY);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn log_sum_exp(z: &Tensor) -> Result<Tensor> {
    let max = z.detach().max_keepdim(D::Minus1)?;
    let infinite = max.eq(f64::NEG_INFINITY)?;
    let zero = max.zeros_like()?;
    let max = infinite.where_cond(&zero, &max)?;
    z.broadcast_sub(&max)?
        .exp()?
        .sum_keepdim(D::Minus1)?
        .log()?
        .broadcast_add(&max)
}

/// z − lse(z) over the last dimension; a row of −∞ stays one.
///
/// # Errors
/// If the device fails.
///
/// # Examples
/// ```
/// use candle_core::{Device, Tensor};
/// use earthmover_candle::ops::log_softmax;
/// let z = Tensor::new(&[[0f64, f64::NEG_INFINITY]], &Device::Cpu)?;
/// assert_eq!(log_softmax(&z)?.to_vec2::<f64>()?, [[0.0, f64::NEG_INFINITY]]);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn log_softmax(z: &Tensor) -> Result<Tensor> {
    let sum = log_sum_exp(z)?;
    let empty = sum.eq(f64::NEG_INFINITY)?;
    z.broadcast_sub(&empty.where_cond(&sum.zeros_like()?, &sum)?)
}

/// −log-softmax(z)\[class\] of every row of `logits` \[N, K\]; `classes` \[N\] are integers.
///
/// # Errors
/// If the shapes do not fit, a class is out of range, or the device fails.
///
/// # Examples
/// ```
/// use candle_core::{Device, Tensor};
/// use earthmover_candle::ops::cross_entropy;
/// let z = Tensor::new(&[[0f32, 0.0], [0.0, 100.0]], &Device::Cpu)?;
/// let losses = cross_entropy(&z, &Tensor::new(&[0u32, 1], &Device::Cpu)?)?.to_vec1::<f32>()?;
/// assert!((losses[0] - 2f32.ln()).abs() < 1e-6 && losses[1] == 0.0);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn cross_entropy(logits: &Tensor, classes: &Tensor) -> Result<Tensor> {
    let (n, k) = logits.dims2()?;
    if classes.dims() != [n] {
        bail!(
            "cross-entropy: {n} rows of logits over {k} classes, but targets {:?}",
            classes.dims()
        )
    }
    let picked = log_softmax(logits)?.gather(&classes.to_dtype(DType::U32)?.unsqueeze(1)?, 1)?;
    picked.squeeze(1)?.neg()
}

/// −Σⱼ qⱼ · log-softmax(z)ⱼ of every row; `targets` \[N, K\] are weights, taken as constants.
///
/// # Errors
/// If the shapes differ or the device fails.
///
/// # Examples
/// ```
/// use candle_core::{Device, Tensor};
/// use earthmover_candle::ops::soft_cross_entropy;
/// let z = Tensor::new(&[[0f64, 0.0]], &Device::Cpu)?;
/// let half = Tensor::new(&[[0.25, 0.25]], &Device::Cpu)?; // half allocated, half the loss
/// let loss = soft_cross_entropy(&z, &half)?.to_vec1::<f64>()?;
/// assert!((loss[0] - 0.5 * 2f64.ln()).abs() < 1e-15);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn soft_cross_entropy(logits: &Tensor, targets: &Tensor) -> Result<Tensor> {
    if logits.dims() != targets.dims() || logits.rank() != 2 {
        bail!(
            "soft cross-entropy: logits {:?}, targets {:?}",
            logits.dims(),
            targets.dims()
        )
    }
    let targets = targets.detach();
    let log_p = log_softmax(logits)?;
    // 0 · −∞ is NaN: where nothing is asked for, nothing is read.
    let asked = targets.ne(0.0)?;
    let log_p = asked.where_cond(&log_p, &log_p.zeros_like()?)?;
    (log_p * targets)?.sum(D::Minus1)?.neg()
}
