//! Minimum-cost flow with lower and upper bounds on the arcs, exactly.
//!
//! ```text
//! minimise  Σ_a c_a x_a    subject to   Σ_{a leaves v} x_a − Σ_{a enters v} x_a = b_v   for every node v
//!                                       l_a ≤ x_a ≤ u_a                                 for every arc a
//! ```
//!
//! Transport from rows to columns is the special case of a graph with two layers. What the dense exact
//! solver cannot say (sums *between* two numbers, caps on single entries, caps on groups of columns)
//! is a few more layers and a bound on each arc: [`bounded`](crate::bounded) poses that question over any
//! [`Cost`](crate::Cost) and reads the answer back in rows, columns and groups. Here [`Network`] is the
//! question, [`MinCostFlow`] the solver, [`FlowSolution`] the answer with its proof.
//!
//! The proof is linear-programming duality. Any node potentials π give the lower bound
//!
//! ```text
//! Σ_v b_v π_v + Σ_a min { r_a x : l_a ≤ x ≤ u_a },      r_a = c_a − π_from(a) + π_to(a)
//! ```
//!
//! and at an optimum it equals the cost of the flow.
//!
//! # References
//! Ahuja, Magnanti and Orlin, *Network Flows* (1993), chapter 11, for the network simplex and strongly
//! feasible bases; Cunningham, *A network simplex method* (1976), for why those cannot cycle.

mod bounds;
mod certificate;
mod network;
mod simplex;
mod solution;
mod tree;

pub use bounds::Bounds;
pub(crate) use network::NODE_LIMIT;
pub use network::{ArcId, Network};
pub use simplex::MinCostFlow;
pub use solution::FlowSolution;
