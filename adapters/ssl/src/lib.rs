//! Label allocation.

#[cfg(feature = "data")]
pub mod data;
#[cfg(feature = "data")]
pub mod rng;
