//! Exponential moving average of the parameters: p̄ ← d·p̄ + (1 − d)·p after every step.
//!
//! The average is what is evaluated. Batch-norm statistics are not averaged again (they are running
//! averages already) but copied at each update.

use candle_core::Tensor;

use crate::nn::error::NnError;
use crate::nn::model::Classifier;
use crate::nn::store::Tensors;

/// The average of a network.
///
/// # Examples
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use earthmover_ssl::nn::{Classifier, Mlp, Mode};
/// use earthmover_ssl::nn::optim::Ema;
/// let model = Mlp::new(2, &[3], 2, 0, DType::F32, &Device::Cpu)?;
/// let mut average = Ema::new(0.999, &model)?;
/// average.update(&model)?;
/// let x = Tensor::ones((1, 2), DType::F32, &Device::Cpu)?;
/// let logits = average.applied(&model, |m| Ok(m.forward(&x, Mode::Evaluate)?))?;
/// assert_eq!(logits.dims(), [1, 2]);
/// # Ok::<(), earthmover_ssl::nn::NnError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ema {
    decay: f64,
    average: Tensors,
}

impl Ema {
    /// Starts at the parameters as they are. `decay` is 0.999 in the paper.
    ///
    /// # Errors
    /// If the decay is not in \[0, 1\], or the device fails.
    pub fn new<M: Classifier + ?Sized>(decay: f64, model: &M) -> Result<Self, NnError> {
        if !(0.0..=1.0).contains(&decay) {
            return Err(NnError::Setting {
                what: "the decay of the average",
                value: decay,
                rule: "in [0, 1]",
            });
        }
        let average = model.snapshot()?;
        Ok(Self { decay, average })
    }

    /// Moves the average towards the parameters and copies the buffers.
    ///
    /// # Errors
    /// If the device fails.
    pub fn update<M: Classifier + ?Sized>(&mut self, model: &M) -> Result<(), NnError> {
        for p in model.parameters() {
            let now = p.var.as_detached_tensor();
            let next = match self.average.get(&p.name) {
                Some(old) => ((old * self.decay)? + (now * (1.0 - self.decay))?)?,
                None => now.copy()?,
            };
            self.average.insert(p.name.clone(), next);
        }
        for b in model.buffers() {
            let now = b.var.as_detached_tensor().copy()?;
            self.average.insert(b.name.clone(), now);
        }
        Ok(())
    }

    /// Runs `f` on the network with the average in place of its parameters and buffers, and puts
    /// them back afterwards, bit for bit, whether `f` succeeds or not.
    ///
    /// # Errors
    /// Those of `f`, or if the device fails.
    pub fn applied<M: Classifier + ?Sized, R>(
        &self,
        model: &M,
        f: impl FnOnce(&M) -> Result<R, NnError>,
    ) -> Result<R, NnError> {
        let own = model.snapshot()?;
        let result = model.restore(&self.average).and_then(|()| f(model));
        model.restore(&own)?;
        result
    }

    /// The averaged parameters and copied buffers by name.
    #[must_use]
    pub fn tensors(&self) -> &Tensors {
        &self.average
    }

    /// Takes the average from `tensors`, which must hold all that the network has.
    ///
    /// # Errors
    /// If a tensor is missing or of another shape or type.
    pub fn restore<M: Classifier + ?Sized>(
        &mut self,
        model: &M,
        tensors: &Tensors,
    ) -> Result<(), NnError> {
        let own = model.snapshot()?;
        // Through the network, which checks names, shapes and types and moves to its device.
        let loaded = model.restore(tensors).and_then(|()| Ok(model.snapshot()?));
        model.restore(&own)?;
        self.average = loaded?;
        Ok(())
    }

    /// One averaged tensor.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.average.get(name)
    }
}
