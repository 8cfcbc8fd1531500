//! Operations and sweeps on tensors, against candle's own, their tensor twins and the core.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod batch_norm;
mod common;
mod conv;
mod device;
mod loss;
mod tensor_backend;
mod transport;
