//! Label allocation.

pub mod allocation;
#[cfg(feature = "data")]
pub mod augment;
#[cfg(feature = "data")]
pub mod data;
mod error;
#[cfg(feature = "train")]
pub mod nn;
#[cfg(feature = "data")]
pub mod rng;

pub use error::Error;
