//! The Sinkhorn divergence of two clouds.

use earthmover::Error;
use earthmover::loss::{Comparison, Divergence as Solver};
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;

use crate::arrays::{Scalar, optional_vector};
use crate::cost::{Lent, Named, dimension};
use crate::errors::{OptionError, ShapeError, refused};
use crate::plan;
use crate::solve::{Clouds, clouds, penalties, seconds};
use crate::watch::Watch;

/// How far two clouds are apart, and which way is closer; see `divergence`.
#[pyclass(frozen, module = "earthmover_ot")]
pub(crate) struct Divergence {
    found: Comparison,
    dimension: usize,
}

impl Divergence {
    fn points<'py>(
        &self,
        py: Python<'py>,
        of: &[f64],
        lines: usize,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        if of.is_empty() {
            return Err(refused(Error::NoGradient));
        }
        plan::matrix(py, of.to_vec(), (lines, self.dimension))
    }
}

#[pymethods]
impl Divergence {
    /// The divergence.
    #[getter]
    fn value(&self) -> f64 {
        self.found.value
    }
    /// How far the true divergence may be from `value`.
    #[getter]
    fn error(&self) -> f64 {
        self.found.error
    }
    /// The gradient with respect to the points of x.
    #[getter]
    fn grad_x<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        self.points(py, &self.found.row_points, self.found.row_masses.len())
    }
    /// The gradient with respect to the points of y.
    #[getter]
    fn grad_y<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        self.points(py, &self.found.col_points, self.found.col_masses.len())
    }
    /// The gradient with respect to the masses of x; only differences within a side mean anything where totals must be equal.
    #[getter]
    fn grad_a<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.found.row_masses)
    }
    /// The gradient with respect to the masses of y.
    #[getter]
    fn grad_b<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.found.col_masses)
    }
    /// How the solves ended: the worst of the three.
    #[getter]
    fn status(&self) -> String {
        self.found.status.to_string()
    }
    /// Whether all three met the tolerance.
    #[getter]
    fn converged(&self) -> bool {
        self.found.status.is_converged()
    }
    /// Sweeps of all three.
    #[getter]
    fn iterations(&self) -> usize {
        self.found.iterations
    }
    fn __float__(&self) -> f64 {
        self.found.value
    }
    fn __repr__(&self) -> String {
        let Comparison {
            value,
            error,
            status,
            iterations,
            ..
        } = &self.found;
        format!("Divergence({status}, value={value}, error={error:.1e}, iterations={iterations})")
    }
}

/// The Sinkhorn divergence between two weighted clouds of points, with its gradients.
///
///     S(x, y) = F(x, y) − ½ F(x, x) − ½ F(y, y) + ½ eps (Σa − Σb)²,      F = min_P ⟨C, P⟩ + eps KL(P | a ⊗ b)
///
/// Zero where the clouds are the same and positive elsewhere; for small eps the transport cost, for large eps a maximum mean discrepancy. Masses of
/// different totals need a `penalty`, as in `solve`, the same for both sides.
///
/// >>> import numpy as np, earthmover_ot as em
/// >>> x = np.array([[0.], [1.], [2.]])
/// >>> d = em.divergence(x, x + 1.0, eps=0.1)
/// >>> bool(abs(d.value - 1.0) < 0.05), bool(np.abs(d.grad_x + 2 / 3).max() < 0.05)
/// (True, True)
#[pyfunction]
#[pyo3(signature = (x, y, a=None, b=None, *, eps, metric="sqeuclidean", tol=1e-6, max_iter=None, time_limit=None, penalty=None, progress=None))]
pub(crate) fn divergence(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    a: Option<&Bound<'_, PyAny>>,
    b: Option<&Bound<'_, PyAny>>,
    eps: f64,
    metric: &str,
    tol: f64,
    max_iter: Option<usize>,
    time_limit: Option<f64>,
    penalty: Option<&Bound<'_, PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Divergence> {
    let (penalty, of_cols) = penalties(penalty)?;
    if penalty != of_cols {
        return Err(OptionError::new_err(
            "a divergence has one penalty for both sides: a cloud is compared with itself, too",
        ));
    }
    let watch = Watch::new(progress);
    let looked = watch.clone();
    let mut solver = Solver::new(eps)
        .tolerance(tol)
        .penalty(penalty)
        .on_progress(move |p| looked.look(p));
    if let Some(most) = max_iter {
        solver = solver.max_iterations(most);
    }
    if let Some(limit) = seconds(time_limit)? {
        solver = solver.time_limit(limit);
    }
    let masses = Masses {
        a: optional_vector("a", a)?.map(|v| v.values),
        b: optional_vector("b", b)?.map(|v| v.values),
    };
    match clouds(x, y)? {
        Clouds::Single(x, y) => masses.compare(py, &solver, &watch, &x, &y, metric),
        Clouds::Double(x, y) => masses.compare(py, &solver, &watch, &x, &y, metric),
    }
}

/// Masses that may be left out.
struct Masses {
    a: Option<Vec<f64>>,
    b: Option<Vec<f64>>,
}

impl Masses {
    fn compare<T: Scalar>(
        self,
        py: Python<'_>,
        solver: &Solver,
        watch: &Watch,
        x: &Lent<T>,
        y: &Lent<T>,
        metric: &str,
    ) -> PyResult<Divergence> {
        let (dimension, metric) = (dimension(x, y)?, Named::<T>::metric(metric)?);
        let counts = [x.shape()[0], y.shape()[0]];
        let total = |m: &Option<Vec<f64>>| m.as_ref().map_or(1.0, |m| m.iter().sum());
        // As much in all as the other side has.
        let (of_a, of_b) = (total(&self.b), total(&self.a));
        let equal = |count: usize, total: f64| vec![total / count as f64; count];
        let a = self.a.unwrap_or_else(|| equal(counts[0], of_a));
        let b = self.b.unwrap_or_else(|| equal(counts[1], of_b));
        for (name, masses, count) in [("a", &a, counts[0]), ("b", &b, counts[1])] {
            if masses.len() != count {
                return Err(ShapeError::new_err(format!(
                    "{name} has {} masses for {count} points",
                    masses.len()
                )));
            }
        }
        let found = py.detach(|| {
            let (x, y) = (x.to_vec(), y.to_vec());
            solver.between(&x, &y, dimension, metric.metric, &a, &b)
        });
        watch.raised()?;
        let found = found.map_err(refused)?;
        Ok(Divergence { found, dimension })
    }
}
