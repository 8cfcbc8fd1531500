//! Transport whose sums lie between bounds.

mod exact;
mod laminar;

pub use crate::flow::Bounds;
pub use exact::{BoundedSolution, BoundedTransport};
