//! Label allocation: against the paper's algorithm, against linear programmes, against its own proofs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod allocator;
mod constrained;
mod diagnostic;
mod generality;
mod paper;
mod priors;
mod team;
