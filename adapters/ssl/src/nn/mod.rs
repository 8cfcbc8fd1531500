//! Networks on candle: what lies below the trainer.
//!
//! ```text
//! layers   parameters from a Store, operations from ops
//! model    Classifier: WideResNet, SmallCnn, Mlp, or your own
//! optim    SGD, learning rate, average of the parameters, clipping
//! ```
//!
//! The operations ([`ops`]: convolution, batch norm + activation, losses) and the names of devices are those
//! of [`earthmover_candle`].

mod error;
mod init;
mod layers;
mod model;
pub mod optim;
mod store;

pub use earthmover_candle::{
    Chosen, DeviceError, DeviceName, Fallback, FallbackReason, explain_memory, ops,
};
pub use error::NnError;
pub use init::Init;
pub use layers::{BatchNorm, Conv2d, Linear, average_pool, leaky_relu};
pub use model::{
    Classifier, Mlp, Mode, SmallCnn, WideResNet, load_tensors, save_tensors, tensor_bytes,
};
pub use store::{Buffer, Decay, Parameter, Store, Tensors, restore_into};
