//! Optimal transport: move mass from rows to columns as cheaply as possible.
//!
//! ```text
//! minimise  Σ_ij C_ij P_ij    subject to   P ≥ 0,   Σ_j P_ij = a_i,   Σ_i P_ij = b_j
//! ```
mod active;
mod certificate;
mod contracted;
pub mod cost;
mod entropic;
mod error;
mod exact;
mod exp;
pub mod flow;
mod gibbs;
mod lanes;
mod linear;
mod marginals;
mod newton;
mod plan;
mod potentials;
mod problem;
mod real;
mod simd;
mod simplex;
pub mod sinkhorn;
mod solution;
mod solver;
pub mod sweep;
mod tiles;

pub use active::{Checkpoint, Incremental, Resolve, Rewritable, Table};
pub use certificate::Certificate;
pub use contracted::Contracted;
pub use cost::{
    Cosine, Cost, Dense, Euclidean, FromFn, Manhattan, Metric, MetricFn, PointCloud,
    SquaredEuclidean,
};
pub use entropic::Entropic;
pub use error::{Error, Side};
pub use exact::{Exact, Way};
pub use marginals::{Marginals, Slack};
pub use newton::Newton;
pub use plan::{Entry, Plan};
pub use potentials::Potentials;
pub use problem::Problem;
pub use real::Real;
pub use simplex::{NetworkSimplex, Start};
pub use sinkhorn::{Epsilon, Kernel, Sinkhorn};
pub use solution::{NotConverged, Solution, Status};
pub use solver::{Progress, Solver};
