//! Optimisation: [`Sgd`] or [`AdamW`] behind one [`Optimiser`], the [`LearningRate`], layers that learn slower than those
//! [above](LayerDecay), the [average](Ema) of the parameters, gradient [clipping](clip_gradients). All state is by name, and saved and
//! restored exactly.

mod adamw;
mod clip;
mod ema;
mod layer_decay;
mod schedule;
mod sgd;

use candle_core::Tensor;
use candle_core::backprop::GradStore;

pub use adamw::AdamW;
pub use clip::clip_gradients;
pub use ema::Ema;
pub use layer_decay::LayerDecay;
pub use schedule::{LearningRate, Schedule};
pub use sgd::{Momentum, Sgd};

use crate::nn::error::NnError;
use crate::nn::store::{Parameter, Tensors};

/// Either optimiser.
#[derive(Clone, Debug)]
pub enum Optimiser {
    /// Stochastic gradient descent with momentum.
    Sgd(Sgd),
    /// Adam with decoupled weight decay.
    AdamW(AdamW),
}

impl Optimiser {
    /// One step at the learning rate of each parameter.
    ///
    /// # Errors
    /// If a setting is out of range, or the device fails.
    pub fn step(
        &mut self,
        parameters: &[Parameter],
        gradients: &GradStore,
        rate: &dyn Fn(&Parameter) -> f64,
    ) -> Result<(), NnError> {
        match self {
            Self::Sgd(sgd) => sgd.step_at(parameters, gradients, rate),
            Self::AdamW(adam) => adam.step(parameters, gradients, rate),
        }
    }

    /// All that changes while training.
    ///
    /// # Errors
    /// If the device fails.
    pub fn snapshot(&self) -> Result<Tensors, NnError> {
        match self {
            Self::Sgd(sgd) => Ok(sgd.snapshot()),
            Self::AdamW(adam) => adam.snapshot(),
        }
    }

    /// Takes over a [`Optimiser::snapshot`].
    ///
    /// # Errors
    /// If a tensor does not fit.
    pub fn restore(&mut self, parameters: &[Parameter], tensors: &Tensors) -> Result<(), NnError> {
        match self {
            Self::Sgd(sgd) => sgd.restore(parameters, tensors),
            Self::AdamW(adam) => adam.restore(parameters, tensors),
        }
    }
}

/// A stored tensor on the device of its parameter, whose shape and type it must have.
fn fitting(parameter: &Parameter, tensor: &Tensor) -> Result<Tensor, NnError> {
    let var = &parameter.var;
    if tensor.dims() != var.dims() || tensor.dtype() != var.dtype() {
        return Err(NnError::TensorMismatch {
            name: parameter.name.clone(),
            expected: var.dims().to_vec(),
            expected_type: var.dtype(),
            found: tensor.dims().to_vec(),
            found_type: tensor.dtype(),
        });
    }
    Ok(tensor.to_device(var.device())?)
}
