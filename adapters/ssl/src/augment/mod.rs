//! Views of examples: what a learner must answer alike.
//!
//! Consistency training asks a network to give a heavily changed view A(x) of an example the label it gives
//! a slightly changed one α(x). For images both are defined on bytes, where the published operations are,
//! and only then turned into normalised planes; for rows of features they are noise and dropped features.
//!
//! A [`Policy`] says what is drawn, a [`Batcher`] makes whole batches on all cores, and [`Prefetch`] makes
//! them before they are asked for. Everything random comes from (seed, step, view, row).

mod batch;
mod canvas;
mod colour;
mod cutout;
mod error;
mod geometry;
mod operation;
mod policy;
mod prefetch;
mod tabular;

pub use batch::Batcher;
pub use canvas::Canvas;
pub use cutout::Cutout;
pub use error::AugmentError;
pub use operation::{Magnitudes, Operation, Sign};
pub use policy::{ImagePolicy, Policy, RandAugment, View, Weak};
pub use prefetch::Prefetch;
pub use tabular::{Disturbance, TabularPolicy};
