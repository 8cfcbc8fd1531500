//! What can go wrong below the trainer.

use candle_core::DType;
use earthmover_candle::DeviceError;

/// An error of the networks, their optimisation or their device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NnError {
    /// Candle or the device under it failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// No such device, or its memory ran out.
    #[error(transparent)]
    Device(DeviceError),
    /// A network that cannot be built.
    #[error("{network}: {what} is {value}, but must be {rule}")]
    Architecture {
        /// Which network.
        network: &'static str,
        /// Which of its numbers.
        what: &'static str,
        /// The number.
        value: usize,
        /// What it should be.
        rule: &'static str,
    },
    /// A setting of the optimisation outside its range.
    #[error("{what} is {value}, but must be {rule}")]
    Setting {
        /// Which setting.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What it should be.
        rule: &'static str,
    },
    /// A checkpoint lacks a tensor.
    #[error("the checkpoint has no tensor {name:?} ({present} others are there)")]
    MissingTensor {
        /// Its name.
        name: String,
        /// How many tensors the checkpoint has.
        present: usize,
    },
    /// A checkpoint's tensor does not fit the network.
    #[error(
        "tensor {name:?} of the checkpoint is {found_type:?} {found:?}, the network's is {expected_type:?} {expected:?}"
    )]
    TensorMismatch {
        /// Its name.
        name: String,
        /// Shape in the network.
        expected: Vec<usize>,
        /// Type in the network.
        expected_type: DType,
        /// Shape in the checkpoint.
        found: Vec<usize>,
        /// Type in the checkpoint.
        found_type: DType,
    },
}

impl From<DeviceError> for NnError {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Candle(error) => Self::Candle(error),
            other => Self::Device(other),
        }
    }
}
