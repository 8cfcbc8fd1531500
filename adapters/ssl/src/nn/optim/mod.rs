//! Optimisation: [`Sgd`] with its [`LearningRate`], the [average](Ema) of the parameters, gradient
//! [clipping](clip_gradients). All state is by name, and saved and restored exactly.

mod clip;
mod ema;
mod schedule;
mod sgd;

pub use clip::clip_gradients;
pub use ema::Ema;
pub use schedule::{LearningRate, Schedule};
pub use sgd::{Momentum, Sgd};
