//! Earthmover's solvers over MPI: each rank holds its own rows, and column sums are all that travels.
//!
//! ```no_run
//! use std::sync::Arc;
//! use earthmover::cost::{Mapped, Sharded};
//! use earthmover::team::{Shard, Team};
//! use earthmover::{Cost, Entropic, Marginals, Problem, Slack};
//! use earthmover_mpi::Ranks;
//!
//! let (universe, ranks) = Ranks::of_the_world()?; // MPI ends when `universe` is dropped
//! let file = Mapped::open("costs.npy")?; // every rank sees the file; only rows that are asked for are read
//! let (rows, cols) = (Cost::<f32>::rows(&file), Cost::<f32>::cols(&file));
//! let shard = Shard::new(Arc::new(ranks), rows, cols);
//! let masses = vec![1.0f64; shard.rows().len()];
//! let columns = vec![rows as f64 / cols as f64; cols];
//! let marginals = Marginals::with_slack_over(&shard, &masses, &columns, Slack::NONE)?;
//! let problem = Problem::new(Sharded::part_of::<f32>(file, shard.clone())?, marginals)?;
//! let solution = Entropic::new(0.01).solve(&problem)?; // the same potentials of columns on all ranks
//! let labels = solution.plan().argmax(); // of this rank's rows
//! # drop((universe, labels));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The core's [`Team`](earthmover::team::Team) is the whole of the interface; [`Ranks`] is the one over a communicator, and
//! [`RowFile`] a `.npy` file to which every rank writes its rows.

mod ranks;
mod row_file;

pub use ranks::Ranks;
pub use row_file::{RowFile, Word};
