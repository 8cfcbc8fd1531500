#![doc = include_str!("../README.md")]

pub mod allocation;
#[cfg(feature = "data")]
pub mod augment;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "data")]
pub mod data;
mod error;
mod fingerprint;
#[cfg(feature = "train")]
pub mod methods;
#[cfg(feature = "train")]
pub mod nn;
#[cfg(feature = "train")]
pub mod presets;
#[cfg(feature = "train")]
pub mod report;
#[cfg(feature = "data")]
pub mod rng;
#[cfg(feature = "train")]
pub mod trainer;

pub use error::Error;
