//! Optimal transport: move mass from rows to columns as cheaply as possible.
//!
//! ```text
//! minimise  Σ_ij C_ij P_ij    subject to   P ≥ 0,   Σ_j P_ij = a_i,   Σ_i P_ij = b_j
//! ```
//!
//! ```
//! use earthmover::{Entropic, Exact, Marginals, PointCloud, Problem, SquaredEuclidean};
//!
//! let (here, there) = ([0.0, 1.0, 2.0], [0.5, 2.5]);
//! let cost = PointCloud::new(&here, &there, 1, SquaredEuclidean)?;
//! let problem = Problem::new(cost, Marginals::uniform(3, 2)?)?;
//!
//! let exact = Exact::new().solve(&problem)?;
//! assert!(exact.certificate().gap().abs() < 1e-12); // proven optimal
//!
//! let smooth = Entropic::new(0.01).solve(&problem)?;
//! let proof = smooth.certificate();
//! assert!(proof.dual <= exact.objective() && exact.objective() <= proof.primal + 1e-12);
//! # Ok::<(), earthmover::Error>(())
//! ```
//!
//! # Four nouns
//!
//! * **Data**: a [`Cost`] is a table of numbers, held or computed; +∞ forbids a pair.
//! * **Question**: a [`Problem`] is a cost and [`Marginals`], and no algorithm. Partial transport, upper
//!   bounds and slack are marginals too, and one code path for every solver.
//! * **Solver**: [`Exact`] and [`Entropic`] choose for you between [`NetworkSimplex`] and [`ShortestPaths`],
//!   [`Sinkhorn`] and [`Newton`]; each has its own options.
//!   [`Method`] is any of them, chosen while the program runs.
//! * **Answer**: a [`Solution`] has a [`Status`], [`Potentials`], a [`Plan`] and a [`Certificate`] that
//!   bounds the optimum from both sides.
//!
//! [`Error`] means that the question has no answer; running out of iterations is a [`Status`]. Results are
//! the same bits for any number of threads. [`sweep`] is the door for devices, [`bounded`] moves mass
//! between bounds, [`flow`] solves networks that are not bipartite.
//!
//! # More than one problem
//!
//! * [`mod@line`]: W_p on a line or a circle by sorting, with plans, quantiles, gradients.
//! * [`Sliced`]: clouds in any dimension through their shadows on lines.
//! * [`Barycenter`] and [`FreeSupport`]: the distribution nearest to several, on given cells or on points that are sought; [`Grid`] makes
//!   images cheap.
//! * [`GromovWasserstein`]: things that know only how they relate among themselves, matched; fused, partial, entropic.
//! * [`loss`]: values, gradients and divergences for those who descend them; maps of new points.
//! * [`assignment`]: the partner of each row. [`Incremental`]: rows that change a few at a time.
//! * [`batch`]: one against many, all pairs, in parallel.
//! * [`team`]: rows on many machines, and the same bits as on one.
//! * [`Gaussian`] and [`Mixture`] (feature `nalgebra`): closed forms.
//!
//! # Features
//!
//! * `rayon` (default): sweeps on all cores.
//! * `nalgebra` (default): matrices and views as costs.
//! * `ndarray`: matrices and views of any layout as costs.
//! * `mmap`: `.npy` files larger than memory as costs (`cost::Mapped`).
//! * `serde`: options, marginals, potentials, certificates and [owned answers](OwnedSolution) can be written down and read
//!   back; ±∞ survive JSON as words.
mod barycenter;
pub mod batch;
pub mod bounded;
mod compiled;
pub mod cost;
mod entropic;
mod error;
mod exact;
pub mod flow;
#[cfg(feature = "nalgebra")]
mod gaussian;
mod gromov;
mod incremental;
mod kernel;
pub mod line;
pub mod loss;
mod method;
mod problem;
mod sliced;
mod solution;
mod solver;
pub mod sweep;
pub mod team;

pub use barycenter::{
    Barycenter, BarycenterCertificate, BarycenterSolution, FreeSupport, FreeSupportSolution,
};
pub use cost::{
    Cosine, Cost, Dense, Euclidean, FromFn, Grid, Manhattan, Metric, MetricFn, PointCloud,
    Rewritable, Sparse, SquaredEuclidean, Table,
};
pub use entropic::Entropic;
pub use entropic::newton::Newton;
pub use entropic::sinkhorn::{Epsilon, Kernel, Sinkhorn, Swept};
pub use error::{Error, Side};
pub use exact::assignment::{Assignment, assignment, best_assignment};
pub use exact::shortest_paths::ShortestPaths;
pub use exact::simplex::{NetworkSimplex, Start};
pub use exact::{Algorithm, Exact};
#[cfg(feature = "nalgebra")]
pub use gaussian::{AffineMap, Gaussian, GaussianBarycenter, Mixture, MixtureTransport};
pub use gromov::{
    GromovCertificate, GromovProblem, GromovSolution, GromovWasserstein, Loss, Relations,
};
pub use incremental::{Checkpoint, Incremental, Resolve};
pub use kernel::real::Real;
pub use method::Method;
pub use problem::Problem;
pub use problem::marginals::{Marginals, Slack};
pub use problem::penalty::{Penalty, Reference};
pub use sliced::{MaxSliced, Sliced, SlicedDistance, SlicedGradients};
pub use solution::certificate::Certificate;
pub use solution::owned::{OwnedPlan, OwnedSolution};
pub use solution::plan::{Entry, Plan};
pub use solution::potentials::Potentials;
pub use solution::{NotConverged, Solution, Status};
pub use solver::{Progress, Solver};

/// The README's code is tested like everybody else's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
