//! Layers: parameters from a [`Store`], operations from [`ops`](super::ops).

use candle_core::{DType, Result, Tensor, Var};

use super::error::NnError;
use super::init::Init;
use super::model::Mode;
use super::ops::{Activation, Conv2dParams, Moments, Normaliser, batch_norm, conv2d};
use super::store::{Decay, Store};

/// A square convolution without bias (a batch norm follows it).
#[derive(Clone, Debug)]
pub struct Conv2d {
    weight: Var,
    params: Conv2dParams,
}

impl Conv2d {
    /// Makes `{name}.weight` \[outputs, inputs, kernel, kernel\]; the padding is ⌊kernel / 2⌋.
    ///
    /// # Errors
    /// If the device fails.
    pub fn new(
        store: &mut Store,
        name: &str,
        inputs: usize,
        outputs: usize,
        kernel: usize,
        stride: usize,
    ) -> std::result::Result<Self, NnError> {
        let shape = [outputs, inputs, kernel, kernel];
        let weight = store.parameter(
            &format!("{name}.weight"),
            &shape,
            Init::convolution(&shape),
            Decay::Decayed,
        )?;
        let params = Conv2dParams::new().stride(stride).padding(kernel / 2);
        Ok(Self { weight, params })
    }

    /// The response to a batch \[N, C, H, W\].
    ///
    /// # Errors
    /// If the shapes do not fit or the device fails.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        conv2d(x, self.weight.as_tensor(), self.params)
    }
}

/// Batch normalisation with running statistics, and the activation behind it.
///
/// In training the batch's own moments normalise; the running ones move towards them by the
/// momentum, running ← (1 − momentum)·running + momentum·batch, with the unbiased variance.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    gamma: Var,
    beta: Var,
    mean: Var,
    variance: Var,
    activation: Activation,
    momentum: f64,
}

/// Added to every variance.
const EPSILON: f64 = 1e-5;

impl BatchNorm {
    /// Makes `{name}.weight`, `{name}.bias`, `{name}.running_mean` and `{name}.running_var`, each
    /// \[channels\]. `momentum` is the weight of the new statistics.
    ///
    /// # Errors
    /// If the device fails.
    pub fn new(
        store: &mut Store,
        name: &str,
        channels: usize,
        momentum: f64,
        activation: Activation,
    ) -> std::result::Result<Self, NnError> {
        let shape = [channels];
        let (one, zero) = (Init::Constant(1.0), Init::Constant(0.0));
        Ok(Self {
            gamma: store.parameter(&format!("{name}.weight"), &shape, one, Decay::Spared)?,
            beta: store.parameter(&format!("{name}.bias"), &shape, zero, Decay::Spared)?,
            mean: store.buffer(&format!("{name}.running_mean"), &shape, zero)?,
            variance: store.buffer(&format!("{name}.running_var"), &shape, one)?,
            activation,
            momentum,
        })
    }

    /// The normalised and activated batch \[N, C, …\].
    ///
    /// # Errors
    /// If the shapes do not fit or the device fails.
    pub fn forward(&self, x: &Tensor, mode: Mode) -> Result<Tensor> {
        let normaliser = match mode {
            Mode::Train | Mode::TrainKeepingStatistics => Normaliser::Batch,
            Mode::Evaluate => Normaliser::Given(Moments {
                mean: self.mean.as_detached_tensor(),
                variance: self.variance.as_detached_tensor(),
                count: 0,
            }),
        };
        let (gamma, beta) = (self.gamma.as_tensor(), self.beta.as_tensor());
        let (y, moments) = batch_norm(x, gamma, beta, normaliser, EPSILON, self.activation)?;
        if mode == Mode::Train {
            let n = moments.count as f64;
            let towards = |running: &Var, new: &Tensor, weight: f64| {
                let kept = (running.as_detached_tensor() * (1.0 - self.momentum))?;
                let new = (new.to_dtype(running.dtype())? * weight)?;
                running.set(&(kept + new)?)
            };
            towards(&self.mean, &moments.mean, self.momentum)?;
            towards(
                &self.variance,
                &moments.variance,
                self.momentum * n / (n - 1.0),
            )?;
        }
        Ok(y)
    }
}

/// x·Wᵀ + b.
#[derive(Clone, Debug)]
pub struct Linear {
    weight: Var,
    bias: Var,
}

impl Linear {
    /// Makes `{name}.weight` \[outputs, inputs\], drawn as `init` says, and `{name}.bias` \[outputs\],
    /// zero.
    ///
    /// # Errors
    /// If the device fails.
    pub fn new(
        store: &mut Store,
        name: &str,
        inputs: usize,
        outputs: usize,
        init: Init,
    ) -> std::result::Result<Self, NnError> {
        Ok(Self {
            weight: store.parameter(
                &format!("{name}.weight"),
                &[outputs, inputs],
                init,
                Decay::Decayed,
            )?,
            bias: store.parameter(
                &format!("{name}.bias"),
                &[outputs],
                Init::Constant(0.0),
                Decay::Spared,
            )?,
        })
    }

    /// The map of a batch \[N, inputs\].
    ///
    /// # Errors
    /// If the shapes do not fit or the device fails.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.matmul(&self.weight.as_tensor().t()?)?
            .broadcast_add(self.bias.as_tensor())
    }
}

/// z for z > 0, slope·z otherwise, with derivative `slope` at zero.
///
/// # Errors
/// If the device fails.
pub fn leaky_relu(z: &Tensor, slope: f64) -> Result<Tensor> {
    let positive = z
        .detach()
        .gt(0.0)?
        .to_dtype(DType::F32)?
        .to_dtype(z.dtype())?;
    z * ((positive * (1.0 - slope))? + slope)?
}

/// Mean over the pixels: \[N, C, H, W\] → \[N, C\].
///
/// # Errors
/// If the shapes do not fit or the device fails.
pub fn average_pool(x: &Tensor) -> Result<Tensor> {
    x.flatten_from(2)?.mean(2)
}
