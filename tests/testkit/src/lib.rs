//! What tests and benches share: random numbers, problems made from them, and textbook answers to compare with.
//!
//! Nothing here is clever, and no answer is taken from the library.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod allocations;
mod crew;
mod hash;
mod linear;
mod problems;
mod rng;
mod textbook;

pub use allocations::{Counting, peak};
pub use crew::crew;
pub use hash::fnv1a;
pub use linear::{Programme, optimum};
/// Why a linear programme has no optimum.
pub use microlp::Error as Unsolved;
pub use problems::{distances, label_allocation};
pub use rng::Rng;
pub use textbook::{Table, augmented, relaxed_plan};
