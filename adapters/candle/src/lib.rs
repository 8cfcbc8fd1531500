#![doc = include_str!("../README.md")]

mod device;
pub mod ops;
mod tensor_backend;
mod transport;

pub use device::{Chosen, DeviceError, DeviceName, Fallback, FallbackReason, explain_memory};
pub use tensor_backend::TensorBackend;
pub use transport::{Loss, Transport};
