//! Data sets, splits, augmentation and the random numbers behind them.
#![cfg(feature = "data")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod formats;
mod pillow;
mod real;
mod rng;
mod split;
mod views;
