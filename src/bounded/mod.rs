//! Transport whose sums lie *between* bounds: rows, columns, groups of columns, entries, the total.
//!
//! ```text
//! minimise  Σ_ij C_ij P_ij    subject to   0 ≤ P_ij ≤ cap
//!                                          rlo_i ≤ Σ_j P_ij ≤ rhi_i,    clo_j ≤ Σ_i P_ij ≤ chi_j
//!                                          glo_G ≤ Σ_{j ∈ G} Σ_i P_ij ≤ ghi_G    for nested or disjoint G
//!                                          tlo ≤ Σ_ij P_ij ≤ thi
//! ```
//!
//! [`BoundedTransport`] poses the question over any [`Cost`](crate::Cost). Two solvers answer it with the same type, the same
//! prices and a certificate of the same linear programme:
//!
//! * [`solve`](BoundedTransport::solve) exactly, as a [minimum-cost flow](crate::flow) through layers;
//! * [`solve_entropic`](BoundedTransport::solve_entropic) smoothed by ε Σ P (ln P − 1), by [`BregmanProjections`].
//!
//! Groups must be *laminar*, nested or disjoint: bounds on columns, groups and the total are then a tree.

mod certificate;
mod entropic;
mod exact;
mod laminar;
mod newton;
mod projection;
mod question;
mod solution;

pub use crate::flow::Bounds;
pub use entropic::{Acceleration, BregmanProjections};
pub use question::BoundedTransport;
pub use solution::BoundedSolution;
