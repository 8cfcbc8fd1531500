//! Networks on candle: what lies below the trainer.
//!
//! ```text
//! ops      convolution, batch norm + activation, losses: one meaning, fast on the CPU, tensor code elsewhere
//! layers   parameters from a Store, operations from ops
//! model    Classifier: WideResNet, SmallCnn, Mlp, or your own
//! optim    SGD, learning rate, average of the parameters, clipping
//! device   names of devices, fall back to the CPU, memory that ran out
//! ```

mod device;
mod error;
mod init;
mod layers;
mod model;
pub mod optim;
mod store;

pub use device::{Chosen, DeviceName, Fallback, FallbackReason, explain_memory};
pub use earthmover_candle::ops;
pub use error::NnError;
pub use init::Init;
pub use layers::{BatchNorm, Conv2d, Linear, average_pool, leaky_relu};
pub use model::{Classifier, Mlp, Mode, SmallCnn, WideResNet, load_tensors, save_tensors};
pub use store::{Buffer, Decay, Parameter, Store, Tensors, restore_into};
