//! Batch normalisation and the activation behind it, as one operation.
//!
//! ```text
//! x̂ = (x − μ) / √(σ² + ε)      μ, σ² per channel, over the batch and its pixels (or given)
//! y = φ(γ·x̂ + β)               φ(z) = z for z > 0, slope·z otherwise
//! ```
//!
//! With g = dy · φ′ and m elements per channel the gradients are, in closed form,
//!
//! ```text
//! dβ = Σ g      dγ = Σ g·x̂      dx = γ/√(σ² + ε) · (g − dβ/m − x̂·dγ/m)
//! ```
//!
//! and without the last two terms where μ, σ² are given. Only x is kept for the backward pass; x̂ and
//! φ′ are computed again, which halves what a step of a deep network holds in memory. Sums are taken
//! per image and channel, each about its own mean, and merged in f64 in a fixed order: no
//! cancellation in σ², and the same bits for any number of threads.

use std::sync::{Arc, OnceLock};

use candle_core::{CpuStorage, CustomOp3, D, DType, Layout, Result, Shape, Tensor, bail};
use rayon::prelude::*;

use super::attach::{Gradients3, attach};
use super::conv::{elements, with_elements};
use super::rows::{Channel, Rows};

/// What follows the normalisation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// Nothing.
    Identity,
    /// z for z > 0, `slope`·z otherwise; slope 0 is the plain rectifier.
    LeakyRelu {
        /// Slope on the negative side.
        slope: f64,
    },
}

impl Activation {
    fn slope(self) -> f64 {
        match self {
            Self::Identity => 1.0,
            Self::LeakyRelu { slope } => slope,
        }
    }
}

/// Mean and variance per channel, each \[C\], on the device of what they were taken of: they need not
/// cross to the host to be remembered.
#[derive(Clone, Debug)]
pub struct Moments {
    /// Mean of each channel.
    pub mean: Tensor,
    /// Biased variance (divided by the count) of each channel.
    pub variance: Tensor,
    /// Elements per channel they were taken over.
    pub count: usize,
}

/// Which moments to normalise by.
#[derive(Clone, Debug)]
pub enum Normaliser {
    /// Those of the batch itself; gradients flow through them.
    Batch,
    /// These, as constants.
    Given(Moments),
}

/// φ(γ·x̂ + β) for `x` \[N, C, …\], with `gamma` and `beta` \[C\]; also the moments used, whichever they
/// were. Differentiable in all three tensors.
///
/// # Errors
/// If the shapes do not fit, a batch is normalised by itself with fewer than two elements per
/// channel, or the device fails.
///
/// # Examples
/// ```
/// use candle_core::{Device, Tensor};
/// use earthmover_candle::ops::{Activation, Normaliser, batch_norm};
/// let x = Tensor::new(&[[1f32, 5.0], [3.0, 9.0]], &Device::Cpu)?;
/// let (one, zero) = (Tensor::new(&[1f32, 1.0], &Device::Cpu)?, Tensor::new(&[0f32, 0.0], &Device::Cpu)?);
/// let (y, moments) = batch_norm(&x, &one, &zero, Normaliser::Batch, 0.0, Activation::Identity)?;
/// assert_eq!(y.to_vec2::<f32>()?, [[-1.0, -1.0], [1.0, 1.0]]);
/// assert_eq!(moments.mean.to_vec1::<f32>()?, [2.0, 7.0]);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn batch_norm(
    x: &Tensor,
    gamma: &Tensor,
    beta: &Tensor,
    normaliser: Normaliser,
    epsilon: f64,
    activation: Activation,
) -> Result<(Tensor, Moments)> {
    let fast = x.device().is_cpu() && matches!(x.dtype(), DType::F32 | DType::F64);
    if !fast {
        return batch_norm_by_tensor_ops(x, gamma, beta, normaliser, epsilon, activation);
    }
    check(x, gamma, beta, &normaliser)?;
    if gamma.dtype() != x.dtype() || beta.dtype() != x.dtype() {
        bail!(
            "batch norm: input {:?}, scale {:?}, shift {:?} must be of one type",
            x.dtype(),
            gamma.dtype(),
            beta.dtype()
        )
    }
    let moments = Arc::new(OnceLock::new());
    let given = match normaliser {
        Normaliser::Batch => None,
        Normaliser::Given(m) => Some(HostMoments {
            mean: host(&m.mean)?,
            variance: host(&m.variance)?,
            count: m.count,
        }),
    };
    let op = Fused {
        given,
        epsilon,
        slope: activation.slope(),
        moments: Arc::clone(&moments),
    };
    let y = x
        .contiguous()?
        .apply_op3(&gamma.contiguous()?, &beta.contiguous()?, op)?;
    match moments.get() {
        Some(m) => {
            let device = |v: &[f64]| Tensor::new(v, x.device())?.to_dtype(x.dtype());
            let moments = Moments {
                mean: device(&m.mean)?,
                variance: device(&m.variance)?,
                count: m.count,
            };
            Ok((y, moments))
        }
        None => bail!("batch norm: the forward pass left no moments"),
    }
}

fn check(x: &Tensor, gamma: &Tensor, beta: &Tensor, normaliser: &Normaliser) -> Result<()> {
    let &[batch, channels, ..] = x.dims() else {
        bail!("batch norm takes [N, C, …], got {:?}", x.dims())
    };
    if gamma.dims() != [channels] || beta.dims() != [channels] {
        bail!(
            "batch norm: {channels} channels, but scale {:?} and shift {:?}",
            gamma.dims(),
            beta.dims()
        )
    }
    match normaliser {
        Normaliser::Batch => {
            let count = x.elem_count() / channels.max(1);
            if count < 2 {
                bail!(
                    "batch norm: a batch of {batch} has {count} elements per channel, its variance needs 2"
                )
            }
        }
        Normaliser::Given(m) => {
            if m.mean.dims() != [channels] || m.variance.dims() != [channels] {
                bail!(
                    "batch norm: {channels} channels, but means {:?} and variances {:?}",
                    m.mean.dims(),
                    m.variance.dims()
                )
            }
        }
    }
    Ok(())
}

/// The same in tensor operations: what runs on CUDA and Metal, and the oracle of the fast version.
///
/// # Errors
/// As [`batch_norm`].
pub fn batch_norm_by_tensor_ops(
    x: &Tensor,
    gamma: &Tensor,
    beta: &Tensor,
    normaliser: Normaliser,
    epsilon: f64,
    activation: Activation,
) -> Result<(Tensor, Moments)> {
    check(x, gamma, beta, &normaliser)?;
    let dims = x.dims().to_vec();
    let (batch, channels) = (dims[0], dims[1]);
    let pixels: usize = dims[2..].iter().product();
    let count = batch * pixels;
    let per_channel = (1, channels, 1);
    let rows = x
        .detach()
        .contiguous()?
        .reshape((batch, channels, pixels))?;
    // A mean of means: no sum runs over more than one image or the batch, which f32 can bear.
    let average = |t: &Tensor| t.mean(D::Minus1)?.mean(0)?.reshape(per_channel);
    let (mean, variance, moments, joint) = match normaliser {
        Normaliser::Batch => {
            let mean = average(&rows)?;
            let variance = average(&rows.broadcast_sub(&mean)?.sqr()?)?;
            let moments = Moments {
                mean: mean.flatten_all()?,
                variance: variance.flatten_all()?,
                count,
            };
            (mean, variance, moments, true)
        }
        Normaliser::Given(moments) => {
            let device = |t: &Tensor| t.to_dtype(x.dtype())?.detach().reshape(per_channel);
            let (mean, variance) = (device(&moments.mean)?, device(&moments.variance)?);
            (mean, variance, moments, false)
        }
    };
    let inverse = (variance + epsilon)?.sqrt()?.recip()?;
    let scaling = inverse.flatten_all()?;
    let slope = activation.slope();
    let evaluate = move |x: &Tensor, gamma: &Tensor, beta: &Tensor| -> Result<(Tensor, Tensor)> {
        let rows = x
            .detach()
            .contiguous()?
            .reshape((batch, channels, pixels))?;
        let hat = rows.broadcast_sub(&mean)?.broadcast_mul(&inverse)?;
        let z = hat
            .broadcast_mul(&gamma.detach().reshape(per_channel)?)?
            .broadcast_add(&beta.detach().reshape(per_channel)?)?;
        Ok((hat, z))
    };
    let rectify = move |z: &Tensor| -> Result<Tensor> {
        // φ′ is slope at 0 and below, as everywhere else in the field.
        let positive = z.gt(0.0)?.to_dtype(z.dtype())?;
        (positive * (1.0 - slope))? + slope
    };
    let (_, z) = evaluate(x, gamma, beta)?;
    let y = (rectify(&z)? * z)?.reshape(dims.clone())?;
    let backward = move |[x, gamma, beta]: [&Tensor; 3], grad: &Tensor| {
        let (hat, z) = evaluate(x, gamma, beta)?;
        let g = (grad.contiguous()?.reshape((batch, channels, pixels))? * rectify(&z)?)?;
        let shift = g.sum(D::Minus1)?.sum(0)?;
        let scale = (&g * &hat)?.sum(D::Minus1)?.sum(0)?;
        let inner = if joint {
            let m = count as f64;
            g.broadcast_sub(&(&shift / m)?.reshape(per_channel)?)?
                .sub(&hat.broadcast_mul(&(&scale / m)?.reshape(per_channel)?)?)?
        } else {
            g
        };
        let factor = scaling.mul(&gamma.detach())?;
        let dx = inner
            .broadcast_mul(&factor.reshape(per_channel)?)?
            .reshape(x.dims())?;
        Ok((Some(dx), Some(scale), Some(shift)))
    };
    let y = attach("batch_norm", y, [&x.contiguous()?, gamma, beta], backward)?;
    Ok((y, moments))
}

fn host(t: &Tensor) -> Result<Vec<f64>> {
    t.to_dtype(DType::F64)?.to_vec1()
}

#[derive(Clone)]
struct HostMoments {
    mean: Vec<f64>,
    variance: Vec<f64>,
    count: usize,
}

/// The CPU operation.
struct Fused {
    given: Option<HostMoments>,
    epsilon: f64,
    slope: f64,
    moments: Arc<OnceLock<HostMoments>>,
}

impl CustomOp3 for Fused {
    fn name(&self) -> &'static str {
        "batch_norm"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
        s3: &CpuStorage,
        l3: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let shape = l1.shape().clone();
        let storage = match s1 {
            CpuStorage::F32(_) => self.forward::<f32>(
                shape.dims(),
                elements(s1, l1)?,
                elements(s2, l2)?,
                elements(s3, l3)?,
            ),
            _ => self.forward::<f64>(
                shape.dims(),
                elements(s1, l1)?,
                elements(s2, l2)?,
                elements(s3, l3)?,
            ),
        };
        Ok((storage, shape))
    }

    fn bwd(
        &self,
        x: &Tensor,
        gamma: &Tensor,
        beta: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<Gradients3> {
        let grad = grad.contiguous()?;
        match x.dtype() {
            DType::F32 => self.backward::<f32>(x, gamma, beta, &grad),
            _ => self.backward::<f64>(x, gamma, beta, &grad),
        }
    }
}

impl Fused {
    fn channels<T: Rows>(&self, moments: &HostMoments, gamma: &[T], beta: &[T]) -> Vec<Channel<T>> {
        let moments = moments.mean.iter().zip(&moments.variance);
        moments
            .zip(gamma.iter().zip(beta))
            .map(|((&mean, &variance), (&gamma, &beta))| {
                let inverse = 1.0 / (variance + self.epsilon).sqrt();
                let scale = gamma.to_f64() * inverse;
                Channel {
                    scale: T::from_f64(scale),
                    shift: T::from_f64(beta.to_f64() - mean * scale),
                    inverse: T::from_f64(inverse),
                    centre: T::from_f64(-mean * inverse),
                    slope: T::from_f64(self.slope),
                }
            })
            .collect()
    }

    fn forward<T: Rows>(&self, dims: &[usize], x: &[T], gamma: &[T], beta: &[T]) -> CpuStorage {
        let pixels: usize = dims[2..].iter().product();
        let image = dims[1] * pixels;
        let moments = match &self.given {
            None => moments(x, dims[1], pixels),
            Some(m) => m.clone(),
        };
        let channels = self.channels(&moments, gamma, beta);
        // Set once: candle runs the forward pass of an operation exactly once.
        let _ = self.moments.set(moments);
        let mut y = vec![T::zero(); x.len()];
        if !x.is_empty() {
            y.par_chunks_exact_mut(image)
                .zip(x.par_chunks_exact(image))
                .for_each(|(y, x)| {
                    let rows = y.chunks_exact_mut(pixels).zip(x.chunks_exact(pixels));
                    for ((y, x), c) in rows.zip(&channels) {
                        T::activate(x, c.scale, c.shift, c.slope, y);
                    }
                });
        }
        T::to_cpu_storage_owned(y)
    }

    fn backward<T: Rows>(
        &self,
        x: &Tensor,
        gamma: &Tensor,
        beta: &Tensor,
        grad: &Tensor,
    ) -> Result<Gradients3> {
        let Some(moments) = self.moments.get() else {
            bail!("batch norm: backward before forward")
        };
        let channels = gamma.elem_count();
        let pixels = x.dims()[2..].iter().product();
        let (dx, scale, shift) = with_elements([x, gamma, beta, grad], |[x, gamma, beta, dy]| {
            let channels = self.channels::<T>(moments, gamma, beta);
            self.gradients(&channels, pixels, x, dy)
        })?;
        Ok((
            Some(Tensor::from_vec(dx, x.shape(), x.device())?),
            Some(Tensor::from_vec(scale, channels, x.device())?),
            Some(Tensor::from_vec(shift, channels, x.device())?),
        ))
    }

    /// dx, dγ, dβ.
    fn gradients<T: Rows>(
        &self,
        channels: &[Channel<T>],
        pixels: usize,
        x: &[T],
        dy: &[T],
    ) -> (Vec<T>, Vec<T>, Vec<T>) {
        let image = channels.len() * pixels;
        let mut dx = vec![T::zero(); x.len()];
        let mut sums = vec![[0.0; 2]; channels.len()];
        let part = |sums: &[[f64; 2]], i: usize| sums.iter().map(|s| T::from_f64(s[i])).collect();
        if x.is_empty() {
            return (dx, part(&sums, 1), part(&sums, 0));
        }
        let partial: Vec<Vec<[f64; 2]>> = x
            .par_chunks_exact(image)
            .zip(dy.par_chunks_exact(image))
            .map(|(x, dy)| {
                let rows = x.chunks_exact(pixels).zip(dy.chunks_exact(pixels));
                rows.zip(channels)
                    .map(|((x, dy), c)| T::slopes(x, dy, c))
                    .collect()
            })
            .collect();
        for (sum, part) in partial.iter().flat_map(|p| p.iter().enumerate()) {
            sums[sum][0] += part[0];
            sums[sum][1] += part[1];
        }
        let m = (x.len() / channels.len()) as f64;
        // dx = scale·(g − dβ/m − x̂·dγ/m), with x̂ = inverse·x + centre multiplied out.
        let rest: Vec<[T; 2]> = channels
            .iter()
            .zip(&sums)
            .map(|(c, &[shift, scale])| match self.given {
                None => {
                    let factor = -c.scale.to_f64() / m;
                    [
                        T::from_f64(factor * scale * c.inverse.to_f64()),
                        T::from_f64(factor * (shift + scale * c.centre.to_f64())),
                    ]
                }
                Some(_) => [T::zero(); 2],
            })
            .collect();
        dx.par_chunks_exact_mut(image)
            .zip(x.par_chunks_exact(image).zip(dy.par_chunks_exact(image)))
            .for_each(|(dx, (x, dy))| {
                let rows = x.chunks_exact(pixels).zip(dy.chunks_exact(pixels));
                let rows = dx.chunks_exact_mut(pixels).zip(rows);
                for ((dx, (x, dy)), (c, &rest)) in rows.zip(channels.iter().zip(&rest)) {
                    T::descend(x, dy, c, rest, dx);
                }
            });
        (dx, part(&sums, 1), part(&sums, 0))
    }
}

/// Moments per channel: those of each image's row, merged in the order of the images.
fn moments<T: Rows>(x: &[T], channels: usize, pixels: usize) -> HostMoments {
    let rows: Vec<Vec<[f64; 2]>> = x
        .par_chunks_exact(channels * pixels)
        .map(|x| x.chunks_exact(pixels).map(T::moments).collect())
        .collect();
    let batch = rows.len() as f64;
    let count = rows.len() * pixels;
    let mut mean = vec![0.0; channels];
    for (c, row) in rows.iter().flat_map(|r| r.iter().enumerate()) {
        mean[c] += row[0] / batch;
    }
    let mut variance = vec![0.0; channels];
    for (c, row) in rows.iter().flat_map(|r| r.iter().enumerate()) {
        let between = (row[0] - mean[c]).powi(2) * pixels as f64;
        variance[c] += (row[1] + between) / count as f64;
    }
    HostMoments {
        mean,
        variance,
        count,
    }
}
