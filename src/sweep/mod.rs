//! The sweep that everything entropic rests on.
//!
//! Eliminate the row potentials: for column potentials g let P(g) be the plan whose *rows are exact*,
//!
//! ```text
//! P_ij = a_i exp((g_j − C_ij)/ε) / Z_i        Z_i = Σ_j exp((g_j − C_ij)/ε)   (slack column included)
//! ```
//!
//! One pass over the cost gives the column sums of P(g). That is all the drivers need: the error of the
//! marginals is Σ|colsum − b|, Sinkhorn's update is g += ε (ln b − ln colsum), and b − colsum is the
//! gradient of the semi-dual, a smooth concave function of k + 1 variables. A [`Backend`] is whoever can
//! do that pass: [`Streamed`] reads the cost anew each time and stores nothing, [`Stabilised`] keeps the
//! exponentials of a cost that is stored anyway, and a device can bring its own. Where masses are penalised, a row's mass is a
//! function of Z_i (its [`Law`]) and what is wanted of a column one of g_j; all else stays the same.

pub(crate) mod active;
mod backend;
mod conformance;
pub(crate) mod definition;
pub(crate) mod gibbs;
mod grid;
mod log_kernel;
pub(crate) mod nearby;
mod pairs;
pub(crate) mod rows;
pub(crate) mod shared;
mod short_rows;
mod stabilised;
pub(crate) mod streamed;

pub use crate::problem::penalty::Law;
pub use backend::{Backend, Curvature, DualPoint};
pub use conformance::{Deviation, conformance};
pub use grid::GridSweeps;
pub use stabilised::Stabilised;
pub use streamed::Streamed;

pub(crate) use backend::diagnose_row;
pub(crate) use grid::GridKernel;
pub(crate) use log_kernel::{AnyKernel, LogKernel, Onto};
pub(crate) use pairs::PairSweeps;
