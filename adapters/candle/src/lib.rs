//! Optimal transport on candle tensors, and the operations candle lacks.

pub mod ops;
mod tensor_backend;

pub use tensor_backend::TensorBackend;
