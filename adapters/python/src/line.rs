//! Samples on a line.

use earthmover::line::{self, Samples, Transport};
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;

use crate::arrays::{Vector, optional_vector, vector};
use crate::errors::refused;
use crate::plan;

/// Both lists and their weights.
struct Lists {
    x: Vec<f64>,
    y: Vec<f64>,
    a: Option<Vec<f64>>,
    b: Option<Vec<f64>>,
}

impl Lists {
    fn read(
        x: &Bound<'_, PyAny>,
        y: &Bound<'_, PyAny>,
        a: Option<&Bound<'_, PyAny>>,
        b: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let values = |v: Option<Vector>| v.map(|v| v.values);
        Ok(Self {
            x: vector("x", x)?.values,
            y: vector("y", y)?.values,
            a: values(optional_vector("a", a)?),
            b: values(optional_vector("b", b)?),
        })
    }

    fn samples(x: &[f64], weights: Option<&[f64]>) -> Result<Samples, earthmover::Error> {
        match weights {
            None => Samples::new(x),
            Some(weights) => Samples::weighted(x, weights),
        }
    }
}

/// The Wasserstein distance of order p between two lists of samples on the line, by sorting.
///
///     W_p = (min_P Σ |x_i − y_j|^p P_ij)^(1/p) = (∫₀¹ |F⁻¹(t) − G⁻¹(t)|^p dt)^(1/p),     p ≥ 1
///
/// `a` and `b` are weights, scaled to a total of one; equal ones where left out.
///
/// >>> import earthmover_ot as em
/// >>> em.wasserstein_1d([3., 1., 2.], [2.5, 4.5, 3.5], p=2)       # a translation by 1.5
/// 1.5
#[pyfunction]
#[pyo3(signature = (x, y, a=None, b=None, p=1.0))]
pub(crate) fn wasserstein_1d(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    a: Option<&Bound<'_, PyAny>>,
    b: Option<&Bound<'_, PyAny>>,
    p: f64,
) -> PyResult<f64> {
    let Lists { x, y, a, b } = Lists::read(x, y, a, b)?;
    py.detach(|| line::weighted_distance(&x, a.as_deref(), &y, b.as_deref(), p))
        .map_err(refused)
}

/// How one list of samples on a line is moved onto another; see `transport_1d`.
#[pyclass(frozen, module = "earthmover_ot")]
pub(crate) struct LineTransport {
    shape: (usize, usize),
    found: Transport,
    gradients: (Vec<f64>, Vec<f64>),
}

/// The optimal plan between two lists of samples on the line, with its proof and its gradients.
///
///     minimise  Σ |x_i − y_j|^p P_ij    subject to   P ≥ 0,  P 1 = a,  Pᵀ 1 = b,     p ≥ 1
///
/// >>> import earthmover_ot as em
/// >>> t = em.transport_1d([0., 1.], [3., 0.], p=2)
/// >>> t.cost, t.dual, t.grad_x.tolist()
/// (2.0, 2.0, [0.0, -2.0])
#[pyfunction]
#[pyo3(signature = (x, y, a=None, b=None, p=1.0))]
pub(crate) fn transport_1d(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    a: Option<&Bound<'_, PyAny>>,
    b: Option<&Bound<'_, PyAny>>,
    p: f64,
) -> PyResult<LineTransport> {
    let Lists { x, y, a, b } = Lists::read(x, y, a, b)?;
    py.detach(|| {
        let rows = Lists::samples(&x, a.as_deref())?;
        let cols = Lists::samples(&y, b.as_deref())?;
        Ok(LineTransport {
            shape: (x.len(), y.len()),
            found: rows.transport(&cols, p)?,
            gradients: rows.gradients(&cols, p)?,
        })
    })
    .map_err(refused)
}

#[pymethods]
impl LineTransport {
    /// W_p^p: what the plan costs.
    #[getter]
    fn cost(&self) -> f64 {
        self.found.cost
    }
    /// W_p.
    #[getter]
    fn distance(&self) -> f64 {
        self.found.distance()
    }
    /// The value of feasible prices: a lower bound of every plan's cost, equal to it up to rounding.
    #[getter]
    fn dual(&self) -> f64 {
        self.found.dual
    }
    /// Prices of the rows.
    #[getter]
    fn f<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.found.row_potentials)
    }
    /// Prices of the columns.
    #[getter]
    fn g<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.found.col_potentials)
    }
    /// Derivatives of the cost with respect to x.
    #[getter]
    fn grad_x<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.gradients.0.clone().into_pyarray(py)
    }
    /// Derivatives of the cost with respect to y.
    #[getter]
    fn grad_y<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.gradients.1.clone().into_pyarray(py)
    }
    /// The entries of the plan, at most n + m − 1 and in the order of the line: arrays (rows, columns, masses).
    #[getter]
    fn entries<'py>(&self, py: Python<'py>) -> plan::Columns<'py> {
        plan::columns(py, &self.found.plan)
    }
    /// The plan as a scipy.sparse.csr_array.
    #[getter]
    fn sparse<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plan::csr(py, &self.found.plan, self.shape)
    }
    /// The whole plan as an array.
    #[getter]
    fn plan<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (rows, cols) = self.shape;
        let mut dense = vec![0.0; rows * cols];
        for e in &self.found.plan {
            dense[e.row * cols + e.col] += e.mass;
        }
        plan::matrix(py, dense, self.shape)
    }
    fn __repr__(&self) -> String {
        let (rows, cols) = self.shape;
        let t = &self.found;
        format!(
            "LineTransport(cost={}, dual={}, {rows}x{cols})",
            t.cost, t.dual
        )
    }
}
