//! Classifiers: images (or features) in, one logit per class out.

use std::path::Path;

use candle_core::{Result, Tensor};

use super::error::NnError;
use super::store::{Buffer, Parameter, Store, Tensors, restore_into};

mod mlp;
mod small_cnn;
mod wide_resnet;

pub use mlp::Mlp;
pub use small_cnn::SmallCnn;
pub use wide_resnet::WideResNet;

/// What a forward pass is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Batch statistics normalise, and move the running ones.
    Train,
    /// Batch statistics normalise; the running ones stay as they are.
    TrainKeepingStatistics,
    /// Running statistics normalise.
    Evaluate,
}

/// A network that tells classes apart. Bring your own: own a [`Store`], build layers on it.
///
/// # Examples
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use earthmover_ssl::nn::{Classifier, Init, Linear, Mode, NnError, Store};
///
/// struct Logistic {
///     store: Store,
///     map: Linear,
/// }
///
/// impl Classifier for Logistic {
///     fn forward(&self, x: &Tensor, _: Mode) -> candle_core::Result<Tensor> {
///         self.map.forward(&x.flatten_from(1)?)
///     }
///     fn store(&self) -> &Store {
///         &self.store
///     }
///     fn classes(&self) -> usize {
///         3
///     }
/// }
///
/// let mut store = Store::new(0, DType::F32, &Device::Cpu);
/// let map = Linear::new(&mut store, "map", 4, 3, Init::linear(4, 3))?;
/// let model = Logistic { store, map };
/// let x = Tensor::zeros((5, 1, 2, 2), DType::F32, &Device::Cpu)?;
/// assert_eq!(model.forward(&x, Mode::Evaluate)?.dims(), [5, 3]);
/// assert_eq!(model.parameter_count(), 15);
/// # Ok::<(), NnError>(())
/// ```
pub trait Classifier: Send + Sync {
    /// Logits \[N, K\] of a batch \[N, …\].
    ///
    /// # Errors
    /// If the shapes do not fit or the device fails.
    fn forward(&self, x: &Tensor, mode: Mode) -> Result<Tensor>;

    /// Where the tensors of the network live.
    fn store(&self) -> &Store;

    /// K.
    fn classes(&self) -> usize;

    /// Learned tensors, in the order of their names.
    fn parameters(&self) -> &[Parameter] {
        self.store().parameters()
    }

    /// Running statistics, in the order of their names.
    fn buffers(&self) -> &[Buffer] {
        self.store().buffers()
    }

    /// Learned numbers.
    fn parameter_count(&self) -> usize {
        self.parameters().iter().map(|p| p.var.elem_count()).sum()
    }

    /// A copy of every parameter and buffer.
    ///
    /// # Errors
    /// If the device fails.
    fn snapshot(&self) -> Result<Tensors> {
        let parameters = self.parameters().iter().map(|p| (&p.name, &p.var));
        let buffers = self.buffers().iter().map(|b| (&b.name, &b.var));
        parameters
            .chain(buffers)
            .map(|(name, var)| Ok((name.clone(), var.as_detached_tensor().copy()?)))
            .collect()
    }

    /// Takes every parameter and buffer from `tensors`, which may hold others beside.
    ///
    /// # Errors
    /// If one is missing or of another shape or type, or the device fails.
    fn restore(&self, tensors: &Tensors) -> std::result::Result<(), NnError> {
        for p in self.parameters() {
            restore_into(&p.var, &p.name, tensors)?;
        }
        for b in self.buffers() {
            restore_into(&b.var, &b.name, tensors)?;
        }
        Ok(())
    }
}

/// The bytes of a safetensors file of these tensors; PyTorch's loader takes it, too.
///
/// # Errors
/// If a tensor cannot be read from its device.
pub fn tensor_bytes(tensors: &Tensors) -> Result<Vec<u8>> {
    let about = [("format".to_owned(), "pt".to_owned())].into();
    safetensors::serialize(tensors.iter(), Some(about)).map_err(candle_core::Error::wrap)
}

/// Writes tensors to a safetensors file.
///
/// # Errors
/// If the file cannot be written.
pub fn save_tensors(tensors: &Tensors, path: &Path) -> Result<()> {
    Ok(std::fs::write(path, tensor_bytes(tensors)?)?)
}

/// Reads all tensors of a safetensors file onto a device.
///
/// # Errors
/// If the file cannot be read or is not one.
pub fn load_tensors(path: &Path, device: &candle_core::Device) -> Result<Tensors> {
    let tensors = candle_core::safetensors::load(path, device)?;
    Ok(tensors.into_iter().collect())
}
