//! Adam with decoupled weight decay.
//!
//! ```text
//! m ← β₁ m + (1 − β₁) g,   v ← β₂ v + (1 − β₂) g²
//! p ← p − η λ p − η (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)        (λ = 0 on spared parameters)
//! ```
//!
//! # References
//! Loshchilov and Hutter, "Decoupled weight decay regularization" (2019). Conventions are PyTorch's.

use std::collections::BTreeMap;

use candle_core::backprop::GradStore;
use candle_core::{Device, Tensor};

use crate::nn::error::NnError;
use crate::nn::store::{Decay, Parameter, Tensors};

const STEP: &str = "adamw.step";

/// The optimiser.
///
/// # Examples
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use earthmover_ssl::nn::{Classifier, Mlp, Mode};
/// use earthmover_ssl::nn::optim::AdamW;
/// let model = Mlp::new(2, &[], 2, 0, DType::F32, &Device::Cpu)?;
/// let mut adam = AdamW::new().weight_decay(0.01);
/// let x = Tensor::ones((1, 2), DType::F32, &Device::Cpu)?;
/// let loss = model.forward(&x, Mode::Train)?.sqr()?.sum_all()?;
/// adam.step(model.parameters(), &loss.backward()?, &|_| 1e-3)?;
/// let after = model.forward(&x, Mode::Train)?.sqr()?.sum_all()?;
/// assert!(after.to_scalar::<f32>()? < loss.to_scalar::<f32>()?);
/// # Ok::<(), earthmover_ssl::nn::NnError>(())
/// ```
#[derive(Clone, Debug)]
pub struct AdamW {
    betas: (f64, f64),
    epsilon: f64,
    weight_decay: f64,
    step: u64,
    /// First and second moment by parameter.
    moments: BTreeMap<String, (Tensor, Tensor)>,
}

impl Default for AdamW {
    fn default() -> Self {
        Self::new()
    }
}

impl AdamW {
    /// β = (0.9, 0.999), ε = 10⁻⁸, no weight decay.
    #[must_use]
    pub fn new() -> Self {
        Self {
            betas: (0.9, 0.999),
            epsilon: 1e-8,
            weight_decay: 0.0,
            step: 0,
            moments: BTreeMap::new(),
        }
    }

    /// Sets λ for the parameters that decay (default 0).
    #[must_use]
    pub fn weight_decay(mut self, lambda: f64) -> Self {
        self.weight_decay = lambda;
        self
    }

    /// One step at the learning rate of each parameter. A parameter without a gradient is left alone.
    ///
    /// # Errors
    /// If the weight decay is out of range, or the device fails.
    pub fn step(
        &mut self,
        parameters: &[Parameter],
        gradients: &GradStore,
        rate: &dyn Fn(&Parameter) -> f64,
    ) -> Result<(), NnError> {
        if !(self.weight_decay >= 0.0 && self.weight_decay.is_finite()) {
            return Err(NnError::Setting {
                what: "the weight decay",
                value: self.weight_decay,
                rule: "finite and at least 0",
            });
        }
        self.step += 1;
        let (one, two) = self.betas;
        let unbiased = |beta: f64| 1.0 - beta.powf(self.step as f64);
        let (first, second) = (unbiased(one), unbiased(two));
        for parameter in parameters {
            let Some(gradient) = gradients.get(parameter.var.as_tensor()) else {
                continue;
            };
            let (g, rate) = (gradient.detach(), rate(parameter));
            let (m, v) = match self.moments.get(&parameter.name) {
                Some((m, v)) => (
                    ((m * one)? + (&g * (1.0 - one))?)?,
                    ((v * two)? + (g.sqr()? * (1.0 - two))?)?,
                ),
                None => ((&g * (1.0 - one))?, (g.sqr()? * (1.0 - two))?),
            };
            let mut value = parameter.var.as_detached_tensor();
            if parameter.decay == Decay::Decayed && self.weight_decay != 0.0 {
                value = (&value * (1.0 - rate * self.weight_decay))?;
            }
            let scale = ((&v / second)?.sqrt()? + self.epsilon)?;
            let direction = ((&m / first)? / scale)?;
            parameter.var.set(&(value - (direction * rate)?)?)?;
            self.moments.insert(parameter.name.clone(), (m, v));
        }
        Ok(())
    }

    /// The moments, under the names of their parameters, and the number of steps.
    ///
    /// # Errors
    /// If the device fails.
    pub fn snapshot(&self) -> Result<Tensors, NnError> {
        let mut tensors = Tensors::new();
        for (name, (m, v)) in &self.moments {
            tensors.insert(format!("{name}.first"), m.clone());
            tensors.insert(format!("{name}.second"), v.clone());
        }
        let step = Tensor::new(&[self.step as i64], &Device::Cpu)?;
        tensors.insert(STEP.to_owned(), step);
        Ok(tensors)
    }

    /// Takes over a [`AdamW::snapshot`].
    ///
    /// # Errors
    /// If a tensor is missing or has not the shape and type of its parameter.
    pub fn restore(&mut self, parameters: &[Parameter], tensors: &Tensors) -> Result<(), NnError> {
        let mut moments = BTreeMap::new();
        for parameter in parameters {
            let moment = |which: &str| {
                let name = format!("{}.{which}", parameter.name);
                tensors.get(&name).map(|t| super::fitting(parameter, t))
            };
            if let (Some(m), Some(v)) = (moment("first"), moment("second")) {
                moments.insert(parameter.name.clone(), (m?, v?));
            }
        }
        let step = tensors.get(STEP).ok_or_else(|| NnError::MissingTensor {
            name: STEP.to_owned(),
            present: tensors.len(),
        })?;
        self.step = step.to_vec1::<i64>()?.first().copied().unwrap_or(0) as u64;
        self.moments = moments;
        Ok(())
    }
}
