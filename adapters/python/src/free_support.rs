//! Barycentres of clouds, on points that are sought.

use earthmover::{FreeSupport, FreeSupportSolution};
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;

use crate::arrays::{double_matrix, optional_vector, vector};
use crate::errors::{ShapeError, refused};
use crate::plan;
use crate::solve::seconds;
use crate::watch::Watch;

/// A barycentre of clouds on points of its own; see `barycenter_points`.
#[pyclass(frozen, module = "earthmover_ot")]
pub(crate) struct PointBarycenter {
    found: FreeSupportSolution,
    dimension: usize,
}

#[pymethods]
impl PointBarycenter {
    /// The points, one a row.
    #[getter]
    fn points<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let shape = (self.found.masses.len(), self.dimension);
        plan::matrix(py, self.found.points.clone(), shape)
    }
    /// Their masses, of total one.
    #[getter]
    fn masses<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.found.masses)
    }
    /// Σ_k w_k ⟨|x − y_k|², P_k⟩ at the last plans.
    #[getter]
    fn value(&self) -> f64 {
        self.found.value
    }
    /// How it ended.
    #[getter]
    fn status(&self) -> String {
        self.found.status.to_string()
    }
    /// Whether the points came to rest.
    #[getter]
    fn converged(&self) -> bool {
        self.found.status.is_converged()
    }
    /// How often the points were moved.
    #[getter]
    fn iterations(&self) -> usize {
        self.found.iterations
    }
    /// How far the points would move in the next step: mean square over the clouds' mean square spread.
    #[getter]
    fn movement(&self) -> f64 {
        self.found.movement
    }
    fn __repr__(&self) -> String {
        let FreeSupportSolution {
            masses,
            value,
            status,
            iterations,
            ..
        } = &self.found;
        let size = masses.len();
        format!("PointBarycenter({status}, value={value}, {size} points, iterations={iterations})")
    }
}

/// The barycentre of clouds of points for squared distances, on points that are sought.
///
///     minimise  Σ_k w_k W₂²(x, y_k)    over the points x:      P_k optimal from x to y_k,   x_j ← Σ_k w_k Σ_i P_k,ji y_k,i / m_j
///
/// `clouds` is a list of arrays (n_k, d), `size` how many points are sought (as many as `start` has rows, or as the first cloud has points,
/// where left out), `masses` those of each cloud (equal ones where left out), `support_masses` those of the points sought; with `free_masses`
/// they are sought, too. Exact plans, or entropic ones where `eps` is given. Not convex: where it ends depends on `start` or `seed`.
///
/// >>> import numpy as np, earthmover_ot as em
/// >>> square = np.array([[0., 0.], [2., 0.], [0., 2.], [2., 2.]])
/// >>> middle = em.barycenter_points([square, square + 4.0], start=square)
/// >>> middle.converged, middle.points.tolist()
/// (True, [[2.0, 2.0], [4.0, 2.0], [2.0, 4.0], [4.0, 4.0]])
#[pyfunction]
#[pyo3(signature = (clouds, size=None, weights=None, *, masses=None, support_masses=None, free_masses=false, start=None, eps=None, tol=1e-7, max_iter=None, time_limit=None, seed=0, progress=None))]
pub(crate) fn barycenter_points(
    py: Python<'_>,
    clouds: &Bound<'_, PyAny>,
    size: Option<usize>,
    weights: Option<&Bound<'_, PyAny>>,
    masses: Option<&Bound<'_, PyAny>>,
    support_masses: Option<&Bound<'_, PyAny>>,
    free_masses: bool,
    start: Option<&Bound<'_, PyAny>>,
    eps: Option<f64>,
    tol: f64,
    max_iter: Option<usize>,
    time_limit: Option<f64>,
    seed: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<PointBarycenter> {
    let mut points: Vec<Vec<f64>> = Vec::new();
    let mut dimension = None;
    for (k, cloud) in clouds.try_iter()?.enumerate() {
        let cloud = double_matrix(&format!("clouds[{k}]"), &cloud?)?;
        let [_, d] = cloud.shape();
        let first = *dimension.get_or_insert(d);
        if d != first {
            return Err(ShapeError::new_err(format!(
                "clouds[{k}] has points of {d} coordinates, the first cloud of {first}"
            )));
        }
        points.push(cloud.to_vec());
    }
    let Some(dimension) = dimension else {
        return Err(ShapeError::new_err("there are no clouds"));
    };
    let start = start.filter(|s| !s.is_none());
    let start = start.map(|s| double_matrix("start", s)).transpose()?;
    let first = points[0].len() / dimension.max(1);
    let size = size.unwrap_or_else(|| start.as_ref().map_or(first, |s| s.shape()[0]));
    let watch = Watch::new(progress);
    let looked = watch.clone();
    let mut solver = FreeSupport::new(size)
        .tolerance(tol)
        .seed(seed)
        .on_progress(move |p| looked.look(p));
    if let Some(start) = start {
        solver = solver.start(&start.to_vec());
    }
    if let Some(masses) = optional_vector("support_masses", support_masses)? {
        solver = solver.masses(&masses.values);
    }
    if free_masses {
        solver = solver.free_masses();
    }
    if let Some(eps) = eps {
        solver = solver.epsilon(eps);
    }
    if let Some(most) = max_iter {
        solver = solver.max_iterations(most);
    }
    if let Some(limit) = seconds(time_limit)? {
        solver = solver.time_limit(limit);
    }
    let weights = match optional_vector("weights", weights)? {
        Some(weights) => weights.values,
        None => vec![1.0; points.len()],
    };
    let mut each = None;
    if let Some(masses) = masses.filter(|m| !m.is_none()) {
        let mut lists = Vec::with_capacity(points.len());
        for (k, list) in masses.try_iter()?.enumerate() {
            lists.push(vector(&format!("masses[{k}]"), &list?)?.values);
        }
        each = Some(lists);
    }
    let found = py.detach(|| {
        let points: Vec<&[f64]> = points.iter().map(Vec::as_slice).collect();
        let each: Option<Vec<&[f64]>> = each
            .as_ref()
            .map(|lists| lists.iter().map(Vec::as_slice).collect());
        solver.solve(&points, each.as_deref(), &weights, dimension)
    });
    watch.raised()?;
    let found = found.map_err(refused)?;
    Ok(PointBarycenter { found, dimension })
}
