//! Clouds in any dimension through their shadows on lines.

use earthmover::Sliced;
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;

use crate::arrays::{double_matrix, optional_vector};
use crate::errors::{ShapeError, refused};
use crate::plan;

/// Two clouds and their weights.
struct Weighted {
    x: Vec<f64>,
    y: Vec<f64>,
    a: Option<Vec<f64>>,
    b: Option<Vec<f64>>,
    counts: [usize; 2],
    dimension: usize,
}

impl Weighted {
    fn read(
        x: &Bound<'_, PyAny>,
        y: &Bound<'_, PyAny>,
        a: Option<&Bound<'_, PyAny>>,
        b: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (x, y) = (double_matrix("x", x)?, double_matrix("y", y)?);
        let ([n, dimension], [m, other]) = (x.shape(), y.shape());
        if dimension != other {
            return Err(ShapeError::new_err(format!(
                "x has points of {dimension} coordinates, y of {other}"
            )));
        }
        Ok(Self {
            x: x.to_vec(),
            y: y.to_vec(),
            a: optional_vector("a", a)?.map(|v| v.values),
            b: optional_vector("b", b)?.map(|v| v.values),
            counts: [n, m],
            dimension,
        })
    }
}

/// A sliced distance and how exact it is; see `sliced`.
#[pyclass(frozen, module = "earthmover_ot")]
pub(crate) struct SlicedDistance {
    found: earthmover::SlicedDistance,
    gradients: Option<(Vec<f64>, Vec<f64>)>,
    counts: [usize; 2],
    dimension: usize,
}

/// The sliced Wasserstein distance: the mean of W_p^p over directions drawn at random, to the power 1/p.
///
///     SW_p = (E_u W_p^p(⟨u, x⟩, ⟨u, y⟩))^(1/p)
///
/// The same seed draws the same directions. `gradients=True` also works out the derivatives of SW_p^p with respect to the points.
///
/// >>> import numpy as np, earthmover_ot as em
/// >>> x = np.random.default_rng(0).normal(size=(50, 3))
/// >>> s = em.sliced(x, x + [1., 0., 0.], projections=400)
/// >>> bool(abs(s.value - np.sqrt(1 / 3)) < 4 * s.standard_error)
/// True
#[pyfunction]
#[pyo3(signature = (x, y, a=None, b=None, p=2.0, projections=100, seed=0, *, gradients=false))]
pub(crate) fn sliced(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    a: Option<&Bound<'_, PyAny>>,
    b: Option<&Bound<'_, PyAny>>,
    p: f64,
    projections: usize,
    seed: u64,
    gradients: bool,
) -> PyResult<SlicedDistance> {
    let w = Weighted::read(x, y, a, b)?;
    let solver = Sliced::new().order(p).projections(projections).seed(seed);
    let (a, b) = (w.a.as_deref(), w.b.as_deref());
    let (found, gradients) = py
        .detach(|| {
            if !gradients {
                let found = solver.weighted_distance(&w.x, a, &w.y, b, w.dimension)?;
                return Ok((found, None));
            }
            let found = solver.gradients(&w.x, a, &w.y, b, w.dimension)?;
            Ok((found.distance, Some((found.rows, found.cols))))
        })
        .map_err(refused)?;
    Ok(SlicedDistance {
        found,
        gradients,
        counts: w.counts,
        dimension: w.dimension,
    })
}

#[pymethods]
impl SlicedDistance {
    /// SW_p.
    #[getter]
    fn value(&self) -> f64 {
        self.found.value
    }
    /// SW_p^p, the mean over the directions.
    #[getter]
    fn cost(&self) -> f64 {
        self.found.cost
    }
    /// One standard deviation of the value over draws of the directions.
    #[getter]
    fn standard_error(&self) -> f64 {
        self.found.standard_error
    }
    /// W_p^p along each direction.
    #[getter]
    fn costs<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.found.costs)
    }
    /// Derivatives of the cost with respect to x; None unless they were asked for.
    #[getter]
    fn grad_x<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<f64>>>> {
        let gradient = self.gradients.as_ref().map(|g| g.0.clone());
        let shape = (self.counts[0], self.dimension);
        gradient.map(|g| plan::matrix(py, g, shape)).transpose()
    }
    /// Derivatives of the cost with respect to y; None unless they were asked for.
    #[getter]
    fn grad_y<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<f64>>>> {
        let gradient = self.gradients.as_ref().map(|g| g.1.clone());
        let shape = (self.counts[1], self.dimension);
        gradient.map(|g| plan::matrix(py, g, shape)).transpose()
    }
    fn __float__(&self) -> f64 {
        self.found.value
    }
    fn __repr__(&self) -> String {
        let d = &self.found;
        let (value, error, count) = (d.value, d.standard_error, d.costs.len());
        format!("SlicedDistance(value={value}, standard_error={error:.3e}, projections={count})")
    }
}

/// A max-sliced distance; see `max_sliced`.
#[pyclass(frozen, module = "earthmover_ot")]
pub(crate) struct MaxSliced(earthmover::MaxSliced);

/// The max-sliced Wasserstein distance: W_p along the direction in which the clouds are farthest apart.
///
///     max-SW_p = max_u W_p(⟨u, x⟩, ⟨u, y⟩)
///
/// Found uphill from directions drawn at random, so that the value is a lower bound of it, and of W_p.
///
/// >>> import numpy as np, earthmover_ot as em
/// >>> x = np.random.default_rng(0).normal(size=(50, 3))
/// >>> found = em.max_sliced(x, x + [1., 0., 0.])
/// >>> round(found.value, 6), np.round(np.abs(found.direction), 3).tolist()
/// (1.0, [1.0, 0.0, 0.0])
#[pyfunction]
#[pyo3(signature = (x, y, a=None, b=None, p=2.0, projections=100, seed=0))]
pub(crate) fn max_sliced(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    a: Option<&Bound<'_, PyAny>>,
    b: Option<&Bound<'_, PyAny>>,
    p: f64,
    projections: usize,
    seed: u64,
) -> PyResult<MaxSliced> {
    let w = Weighted::read(x, y, a, b)?;
    let solver = Sliced::new().order(p).projections(projections).seed(seed);
    let (a, b) = (w.a.as_deref(), w.b.as_deref());
    py.detach(|| solver.max(&w.x, a, &w.y, b, w.dimension))
        .map(MaxSliced)
        .map_err(refused)
}

#[pymethods]
impl MaxSliced {
    /// W_p along the direction found.
    #[getter]
    fn value(&self) -> f64 {
        self.0.value
    }
    /// The unit vector.
    #[getter]
    fn direction<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.0.direction)
    }
    /// Length of the gradient along the sphere there, as a share of the cost: zero where no direction nearby is better.
    #[getter]
    fn stationarity(&self) -> f64 {
        self.0.stationarity
    }
    fn __float__(&self) -> f64 {
        self.0.value
    }
    fn __repr__(&self) -> String {
        format!(
            "MaxSliced(value={}, direction={:?})",
            self.0.value, self.0.direction
        )
    }
}
