//! earthmover for Python: arrays in, answers out.
//!
//! Python's objects are read where they lie (`arrays`), become a cost that lives as long as its answer (`cost`), and are
//! solved without the interpreter lock while signals are watched (`watch`). The rest is one file for each thing
//! that Python sees.
#![allow(
    missing_docs,
    reason = "what is public here is seen by Python alone, and documented for it"
)]

mod allocator;
mod arrays;
mod assignment;
mod barycenter;
mod batch;
mod cost;
mod divergence;
mod errors;
mod free_support;
mod gromov;
mod line;
mod pickle;
mod plan;
mod sliced;
mod solution;
mod solve;
mod sparse;
mod watch;

use pyo3::prelude::*;

#[pymodule]
mod _earthmover {
    #[pymodule_export]
    use crate::allocator::LabelAllocator;
    #[pymodule_export]
    use crate::assignment::assignment;
    #[pymodule_export]
    use crate::barycenter::{BarycenterResult, Grid, barycenter};
    #[pymodule_export]
    use crate::batch::solve_batch;
    #[pymodule_export]
    use crate::divergence::{Divergence, divergence};
    #[pymodule_export]
    use crate::errors::{
        CostError, InfeasibleError, MassError, OptionError, ShapeError, TransportError,
    };
    #[pymodule_export]
    use crate::free_support::{PointBarycenter, barycenter_points};
    #[pymodule_export]
    use crate::gromov::{GromovCertificate, GromovSolution, gromov, gromov_points};
    #[pymodule_export]
    use crate::line::{LineTransport, transport_1d, wasserstein_1d};
    #[pymodule_export]
    use crate::sliced::{MaxSliced, SlicedDistance, max_sliced, sliced};
    #[pymodule_export]
    use crate::solution::{Certificate, Solution};
    #[pymodule_export]
    use crate::solve::{solve, solve_points};
    #[pymodule_export]
    use crate::sparse::solve_sparse;

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
