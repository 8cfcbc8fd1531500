//! Parameters by name: what is learned, what is only remembered, and what decays.
//!
//! Everything a network owns lies here in the order of its names, so that optimisers, averages and
//! checkpoints meet the same tensors in the same order on every run. (Candle's own map of variables
//! is in random order.)

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor, Var};

use super::error::NnError;
use super::init::Init;

/// Whether weight decay pulls on a parameter. Biases and batch-norm parameters are spared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decay {
    /// It does.
    Decayed,
    /// It does not.
    Spared,
}

/// A learned tensor.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Unique name, dotted by layer.
    pub name: String,
    /// The value.
    pub var: Var,
    /// Its weight-decay group.
    pub decay: Decay,
    /// How many parameters of the network were made before it.
    pub made: usize,
}

/// A tensor that a network remembers but does not learn: running statistics.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Unique name, dotted by layer.
    pub name: String,
    /// The value.
    pub var: Var,
}

/// Tensors by name, as checkpoints hold them.
pub type Tensors = BTreeMap<String, Tensor>;

/// Makes and keeps the tensors of a network.
///
/// # Examples
/// ```
/// use candle_core::{DType, Device};
/// use earthmover_ssl::nn::{Decay, Init, Store};
/// let mut store = Store::new(7, DType::F32, &Device::Cpu);
/// store.parameter("head.weight", &[2, 3], Init::Normal { std: 0.1 }, Decay::Decayed)?;
/// assert_eq!(store.parameters()[0].var.dims(), [2, 3]);
/// # Ok::<(), earthmover_ssl::nn::NnError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    seed: u64,
    dtype: DType,
    device: Device,
    parameters: Vec<Parameter>,
    buffers: Vec<Buffer>,
}

impl Store {
    /// An empty store. The seed decides every initial value drawn.
    #[must_use]
    pub fn new(seed: u64, dtype: DType, device: &Device) -> Self {
        Self {
            seed,
            dtype,
            device: device.clone(),
            parameters: Vec::new(),
            buffers: Vec::new(),
        }
    }

    /// Makes a parameter. Its values depend on the seed and the name only, not on what was made before.
    ///
    /// # Errors
    /// If the device fails.
    pub fn parameter(
        &mut self,
        name: &str,
        shape: &[usize],
        init: Init,
        decay: Decay,
    ) -> Result<Var, NnError> {
        let var = Var::from_tensor(&self.draw(name, shape, init)?)?;
        let at = self.parameters.partition_point(|p| p.name.as_str() < name);
        let made = self.parameters.len();
        self.parameters.insert(
            at,
            Parameter {
                made,
                name: name.to_owned(),
                var: var.clone(),
                decay,
            },
        );
        Ok(var)
    }

    /// Makes a buffer.
    ///
    /// # Errors
    /// If the device fails.
    pub fn buffer(&mut self, name: &str, shape: &[usize], init: Init) -> Result<Var, NnError> {
        let var = Var::from_tensor(&self.draw(name, shape, init)?)?;
        let at = self.buffers.partition_point(|b| b.name.as_str() < name);
        self.buffers.insert(
            at,
            Buffer {
                name: name.to_owned(),
                var: var.clone(),
            },
        );
        Ok(var)
    }

    fn draw(&self, name: &str, shape: &[usize], init: Init) -> Result<Tensor, NnError> {
        let values = init.draw(self.seed, name, shape.iter().product());
        Ok(Tensor::from_vec(values, shape, &Device::Cpu)?
            .to_dtype(self.dtype)?
            .to_device(&self.device)?)
    }

    /// Learned tensors, in the order of their names.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Remembered tensors, in the order of their names.
    #[must_use]
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }
}

/// Copies `tensors[name]` into a variable after checking that it fits.
///
/// # Errors
/// If the tensor is missing or of another shape or type, or the device fails.
pub fn restore_into(var: &Var, name: &str, tensors: &Tensors) -> Result<(), NnError> {
    let Some(tensor) = tensors.get(name) else {
        return Err(NnError::MissingTensor {
            name: name.to_owned(),
            present: tensors.len(),
        });
    };
    if tensor.dims() != var.dims() || tensor.dtype() != var.dtype() {
        return Err(NnError::TensorMismatch {
            name: name.to_owned(),
            expected: var.dims().to_vec(),
            expected_type: var.dtype(),
            found: tensor.dims().to_vec(),
            found_type: tensor.dtype(),
        });
    }
    Ok(var.set(&tensor.to_device(var.device())?)?)
}
