//! Networks, optimisers and whole runs of the trainer.
#![cfg(feature = "train")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod fidelity;
mod models;
mod optim;
mod resume;
mod steps;
mod tensors;
