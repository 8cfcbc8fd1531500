//! Stochastic gradient descent with momentum.
//!
//! ```text
//! g ← ∇ + λ·p        (λ = 0 on spared parameters)
//! v ← m·v + g        (v starts at 0)
//! p ← p − η·(g + m·v) with Nesterov's look-ahead, p − η·v with plain momentum, p − η·g without
//! ```
//!
//! These are PyTorch's conventions (no dampening, the rate outside the velocity), so that published
//! settings mean what they say.

use std::collections::BTreeMap;

use candle_core::Tensor;
use candle_core::backprop::GradStore;

use crate::nn::error::NnError;
use crate::nn::store::{Decay, Parameter, Tensors};

/// What the velocity does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Momentum {
    /// There is none.
    None,
    /// The step follows the velocity.
    Heavy(f64),
    /// The step follows where the velocity is going.
    Nesterov(f64),
}

/// The optimiser.
///
/// # Examples
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use earthmover_ssl::nn::{Classifier, Mlp, Mode};
/// use earthmover_ssl::nn::optim::{Momentum, Sgd};
/// let model = Mlp::new(2, &[], 2, 0, DType::F32, &Device::Cpu)?;
/// let mut sgd = Sgd::new().momentum(Momentum::Nesterov(0.9)).weight_decay(5e-4);
/// let x = Tensor::ones((1, 2), DType::F32, &Device::Cpu)?;
/// let loss = model.forward(&x, Mode::Train)?.sqr()?.sum_all()?;
/// sgd.step(model.parameters(), &loss.backward()?, 0.03)?;
/// let after = model.forward(&x, Mode::Train)?.sqr()?.sum_all()?;
/// assert!(after.to_scalar::<f32>()? < loss.to_scalar::<f32>()?);
/// # Ok::<(), earthmover_ssl::nn::NnError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sgd {
    momentum: Momentum,
    weight_decay: f64,
    velocity: BTreeMap<String, Tensor>,
}

impl Default for Sgd {
    fn default() -> Self {
        Self::new()
    }
}

impl Sgd {
    /// Nesterov momentum 0.9, no weight decay.
    #[must_use]
    pub fn new() -> Self {
        Self {
            momentum: Momentum::Nesterov(0.9),
            weight_decay: 0.0,
            velocity: BTreeMap::new(),
        }
    }

    /// Sets the momentum (default: Nesterov, 0.9).
    #[must_use]
    pub fn momentum(mut self, momentum: Momentum) -> Self {
        self.momentum = momentum;
        self
    }

    /// Sets λ for the parameters that decay (default 0).
    #[must_use]
    pub fn weight_decay(mut self, lambda: f64) -> Self {
        self.weight_decay = lambda;
        self
    }

    fn validate(&self) -> Result<(), NnError> {
        let (what, value, fits) = match self.momentum {
            Momentum::Heavy(m) | Momentum::Nesterov(m) if !(0.0..1.0).contains(&m) => {
                ("the momentum", m, "in [0, 1)")
            }
            _ if !(self.weight_decay >= 0.0 && self.weight_decay.is_finite()) => (
                "the weight decay",
                self.weight_decay,
                "finite and at least 0",
            ),
            _ => return Ok(()),
        };
        Err(NnError::Setting {
            what,
            value,
            rule: fits,
        })
    }

    /// One step at learning rate `rate`. A parameter without a gradient is left alone.
    ///
    /// # Errors
    /// If a setting is out of range, or the device fails.
    pub fn step(
        &mut self,
        parameters: &[Parameter],
        gradients: &GradStore,
        rate: f64,
    ) -> Result<(), NnError> {
        self.step_at(parameters, gradients, &|_| rate)
    }

    /// [`Sgd::step`] with a learning rate for each parameter.
    ///
    /// # Errors
    /// As [`Sgd::step`].
    pub fn step_at(
        &mut self,
        parameters: &[Parameter],
        gradients: &GradStore,
        rate: &dyn Fn(&Parameter) -> f64,
    ) -> Result<(), NnError> {
        self.validate()?;
        for parameter in parameters {
            let Some(gradient) = gradients.get(parameter.var.as_tensor()) else {
                continue;
            };
            let value = parameter.var.as_detached_tensor();
            let mut g = gradient.detach();
            if parameter.decay == Decay::Decayed && self.weight_decay != 0.0 {
                g = (g + (&value * self.weight_decay)?)?;
            }
            let direction = match self.momentum {
                Momentum::None => g,
                Momentum::Heavy(m) => self.accelerate(&parameter.name, &g, m)?,
                Momentum::Nesterov(m) => {
                    let velocity = self.accelerate(&parameter.name, &g, m)?;
                    (g + (velocity * m)?)?
                }
            };
            parameter
                .var
                .set(&(value - (direction * rate(parameter))?)?)?;
        }
        Ok(())
    }

    /// v ← m·v + g, returned.
    fn accelerate(&mut self, name: &str, g: &Tensor, m: f64) -> Result<Tensor, NnError> {
        let velocity = match self.velocity.get(name) {
            Some(v) => ((v * m)? + g)?,
            None => g.copy()?,
        };
        self.velocity.insert(name.to_owned(), velocity.clone());
        Ok(velocity)
    }

    /// The velocities, under the names of their parameters.
    #[must_use]
    pub fn snapshot(&self) -> Tensors {
        self.velocity.clone()
    }

    /// Takes the velocities of a [`Sgd::snapshot`]; of names not in it the velocity is zero.
    ///
    /// # Errors
    /// If a tensor has not the shape and type of its parameter.
    pub fn restore(&mut self, parameters: &[Parameter], tensors: &Tensors) -> Result<(), NnError> {
        let mut velocity = BTreeMap::new();
        for parameter in parameters {
            let Some(tensor) = tensors.get(&parameter.name) else {
                continue;
            };
            velocity.insert(parameter.name.clone(), super::fitting(parameter, tensor)?);
        }
        self.velocity = velocity;
        Ok(())
    }
}
