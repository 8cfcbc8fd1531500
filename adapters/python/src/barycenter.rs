//! Barycentres of histograms on a fixed support.

use earthmover::{Barycenter, BarycenterSolution, Error};
use numpy::{PyArray1, PyUntypedArrayMethods};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use self_cell::self_cell;

use crate::arrays::{double_matrix, floats, optional_vector};
use crate::cost::Lent;
use crate::errors::{ShapeError, refused};
use crate::solve::seconds;
use crate::watch::Watch;

/// Squared distances between the cells of a regular grid on the unit square (or line, or cube): a cost that is never written out, and
/// swept one axis after the other.
///
/// >>> import earthmover_ot as em
/// >>> em.Grid((64, 64))
/// Grid((64, 64))
#[pyclass(frozen, module = "earthmover_ot")]
pub(crate) struct Grid {
    sides: Vec<usize>,
    grid: earthmover::Grid,
}

impl Grid {
    pub(crate) fn inner(&self) -> &earthmover::Grid {
        &self.grid
    }

    /// How many cells there are.
    pub(crate) fn cells(&self) -> usize {
        self.sides.iter().product()
    }
}

#[pymethods]
impl Grid {
    #[new]
    fn new(shape: Vec<usize>) -> PyResult<Self> {
        let grid = earthmover::Grid::unit(&shape).map_err(refused)?;
        Ok(Self { sides: shape, grid })
    }
    /// Places along each axis.
    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.sides.clone()
    }
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyType>, (Bound<'py, PyTuple>,))> {
        let sides = PyTuple::new(slf.py(), &slf.get().sides)?;
        Ok((slf.get_type(), (sides,)))
    }
    fn __repr__(&self) -> String {
        let sides: Vec<String> = self.sides.iter().map(usize::to_string).collect();
        // As a tuple is written.
        let comma = if sides.len() == 1 { "," } else { "" };
        format!("Grid(({}{comma}))", sides.join(", "))
    }
}

/// The cost between the histograms' support and the barycentre's.
enum Support {
    Matrix(Lent<f64>),
    Grid(earthmover::Grid),
}

type Answer<'a> = BarycenterSolution<'a, f64>;

self_cell!(
    struct Solved {
        owner: Support,
        #[covariant]
        dependent: Answer,
    }
);

/// A barycentre and how near it is; see `barycenter`.
#[pyclass(frozen, module = "earthmover_ot")]
pub(crate) struct BarycenterResult {
    solved: Solved,
}

impl BarycenterResult {
    fn answer(&self) -> &Answer<'_> {
        self.solved.borrow_dependent()
    }

    fn bounds(&self, py: Python<'_>) -> PyResult<(f64, f64)> {
        let solved = &self.solved;
        py.detach(|| {
            let unchanged = match solved.borrow_owner() {
                Support::Matrix(matrix) => matrix.is_unchanged(),
                Support::Grid(_) => true,
            };
            unchanged.then(|| {
                let proof = self.answer().certificate();
                (proof.lower, proof.upper)
            })
        })
        .ok_or_else(|| {
            PyRuntimeError::new_err("the matrix of costs was changed after it was solved for")
        })
    }
}

#[pymethods]
impl BarycenterResult {
    /// The barycentre: a mass for each column of the cost, of total one.
    #[getter]
    fn weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, self.answer().weights())
    }
    /// How the solver ended.
    #[getter]
    fn status(&self) -> String {
        self.answer().status().to_string()
    }
    /// Whether the tolerance was met.
    #[getter]
    fn converged(&self) -> bool {
        self.answer().status().is_converged()
    }
    /// Iterations used.
    #[getter]
    fn iterations(&self) -> usize {
        self.answer().iterations()
    }
    /// How far the histograms' plans are from agreeing, in L1.
    #[getter]
    fn violation(&self) -> f64 {
        self.answer().violation()
    }
    /// No histogram on this support has a smaller sum of transport costs; worked out when first asked for.
    #[getter]
    fn lower(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.bounds(py)?.0)
    }
    /// The sum of transport costs of feasible plans to the barycentre found; worked out when first asked for.
    #[getter]
    fn upper(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.bounds(py)?.1)
    }
    fn __repr__(&self) -> String {
        let a = self.answer();
        let (status, size, iterations) = (a.status(), a.weights().len(), a.iterations());
        format!("BarycenterResult({status}, {size} places, iterations={iterations})")
    }
}

/// The entropic barycentre of histograms: what is nearest to all of them, on the columns of a cost or on a grid.
///
///     minimise  Σ_k w_k OT_eps(h_k, b)    over   b ≥ 0,  Σ b = 1
///
/// `histograms` has one histogram for each entry of its first axis, over the rows of the cost or the cells of an `em.Grid`; each, and the
/// `weights`, are scaled to a total of one. `debiased` takes off the blur that eps brings.
///
/// >>> import numpy as np, earthmover_ot as em
/// >>> left, right = np.eye(21)[2], np.eye(21)[18]
/// >>> middle = em.barycenter([left, right], em.Grid((21,)), eps=1e-3)
/// >>> middle.converged, int(middle.weights.argmax())
/// (True, 10)
#[pyfunction]
#[pyo3(signature = (histograms, cost_or_grid, eps, weights=None, *, debiased=false, tol=1e-6, max_iter=None, time_limit=None, progress=None))]
pub(crate) fn barycenter(
    py: Python<'_>,
    histograms: &Bound<'_, PyAny>,
    cost_or_grid: &Bound<'_, PyAny>,
    eps: f64,
    weights: Option<&Bound<'_, PyAny>>,
    debiased: bool,
    tol: f64,
    max_iter: Option<usize>,
    time_limit: Option<f64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<BarycenterResult> {
    let array = floats("histograms", histograms)?;
    if array.ndim() < 2 {
        return Err(ShapeError::new_err(
            "histograms must have one axis for the histograms and at least one for their places",
        ));
    }
    let count = array.shape()[0];
    let places: usize = array.shape()[1..].iter().product();
    let flat = array.call_method1("reshape", (count, places))?;
    let masses = double_matrix("histograms", &flat)?.to_vec();
    let weights = match optional_vector("weights", weights)? {
        Some(weights) => weights.values,
        None => vec![1.0; count],
    };
    if weights.len() != count {
        return Err(ShapeError::new_err(format!(
            "{count} histograms but {} weights",
            weights.len()
        )));
    }
    let support = match cost_or_grid.cast::<Grid>() {
        Ok(grid) => Support::Grid(grid.get().grid.clone()),
        Err(_) => Support::Matrix(double_matrix("cost_or_grid", cost_or_grid)?.kept()),
    };
    let watch = Watch::new(progress);
    let looked = watch.clone();
    let mut solver = Barycenter::new(eps)
        .tolerance(tol)
        .on_progress(move |p| looked.look(p));
    if debiased {
        solver = solver.debiased();
    }
    if let Some(most) = max_iter {
        solver = solver.max_iterations(most);
    }
    if let Some(limit) = seconds(time_limit)? {
        solver = solver.time_limit(limit);
    }
    let solved: Result<Solved, Error> = py.detach(|| {
        Solved::try_new(support, |support| match support {
            Support::Matrix(matrix) => solver.solve(matrix, &masses, &weights),
            Support::Grid(grid) => solver.solve(grid, &masses, &weights),
        })
    });
    watch.raised()?;
    let solved = solved.map_err(refused)?;
    Ok(BarycenterResult { solved })
}
