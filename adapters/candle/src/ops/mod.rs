//! The operations a network is made of, each differentiable, each with one body for every device.

pub(crate) mod attach;
mod batch_norm;
mod conv;
mod dispatch;
mod element;
mod loss;
mod planes;
mod rows;
mod tile;

pub use batch_norm::{Activation, Moments, Normaliser, batch_norm, batch_norm_by_tensor_ops};
pub use conv::{Conv2dParams, conv2d, conv2d_by_tensor_ops};
pub use loss::{cross_entropy, log_softmax, log_sum_exp, soft_cross_entropy};
