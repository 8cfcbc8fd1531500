//! Label allocation for any training loop.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::PathBuf;

use earthmover_ssl::allocation::{self, Bounds, CostStorage};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arrays::{Matrix, indices, matrix, optional_vector, vector};
use crate::errors::{OptionError, ShapeError, allocation as refused};

/// Sinkhorn Label Allocation: pseudo-labels for all examples at once, for any training loop.
///
///     minimise  Σ Q_ij C_ij,   C_ij = −log p(class j | example i)
///     subject to  Q ≥ 0,   Σ_j Q_ij ≤ 1,   Σ_i Q_ij ≤ 1 + n b_j,   Σ_ij Q_ij ≥ n(ρ − μ₊) − 1,   μ = 1 − Σ_j b_j
///
/// A step of training asks for the soft labels of its batch (`targets`), hands the batch's predictions over (`observe`), and
/// now and then re-solves for a share ρ of examples that grows while training (`allocate`). `bounds` are upper bounds b on
/// the classes' shares: `LabelAllocator.empirical(counts)` or `wilson(counts, confidence)` from the labels there are.
///
/// >>> import numpy as np, earthmover_ot as em
/// >>> sla = em.LabelAllocator(4, 2, bounds=[0.5, 0.5])
/// >>> log_p = np.log(np.array([[0.99, 0.01], [0.9, 0.1], [0.8, 0.2], [0.3, 0.7]], dtype=np.float32))
/// >>> sla.observe([0, 1, 2, 3], log_p)
/// >>> sla.allocate(1.0)["status"]
/// 'converged'
/// >>> q = sla.targets(log_p)
/// >>> bool((q.sum(axis=1) <= 1 + 1e-6).all())
/// True
#[pyclass(module = "earthmover_ot")]
pub(crate) struct LabelAllocator {
    inner: allocation::LabelAllocator,
}

fn bounds(given: Option<&Bound<'_, PyAny>>, classes: usize) -> PyResult<Bounds> {
    match given.filter(|b| !b.is_none()) {
        None => Ok(Bounds::none(classes)),
        Some(given) => Bounds::given(&vector("bounds", given)?.values).map_err(refused),
    }
}

fn row_bounds(given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Vec<f64>>> {
    Ok(optional_vector("row_bounds", given)?.map(|v| v.values))
}

/// Log-probabilities, in single precision and row-major.
fn log_probs(given: &Bound<'_, PyAny>, classes: usize) -> PyResult<(Vec<f32>, usize)> {
    let (values, [rows, cols]) = match matrix("log_probs", given)? {
        Matrix::Single(m) => (m.to_vec(), m.shape()),
        Matrix::Double(m) => {
            let narrow = m.to_vec().into_iter().map(|x| x as f32);
            (narrow.collect(), m.shape())
        }
    };
    if cols != classes {
        return Err(ShapeError::new_err(format!(
            "log_probs has {cols} columns; there are {classes} classes"
        )));
    }
    Ok((values, rows))
}

fn shares(
    py: Python<'_>,
    bounds: Result<Bounds, earthmover_ssl::Error>,
) -> PyResult<Bound<'_, PyArray1<f64>>> {
    Ok(PyArray1::from_slice(py, bounds.map_err(refused)?.upper()))
}

#[pymethods]
impl LabelAllocator {
    #[new]
    #[pyo3(signature = (examples, classes, *, bounds=None, row_bounds=None, gamma=100.0, tol=0.01, max_iter=1000, storage="single"))]
    fn new(
        examples: usize,
        classes: usize,
        bounds: Option<&Bound<'_, PyAny>>,
        row_bounds: Option<&Bound<'_, PyAny>>,
        gamma: f64,
        tol: f64,
        max_iter: usize,
        storage: &str,
    ) -> PyResult<Self> {
        let storage = match storage {
            "single" => CostStorage::Single,
            "half" => CostStorage::Half,
            "bfloat" => CostStorage::Bfloat,
            other => {
                return Err(OptionError::new_err(format!(
                    "storage is {other:?}; it must be \"single\", \"half\" or \"bfloat\""
                )));
            }
        };
        let mut options = allocation::LabelAllocator::options(examples, classes)
            .bounds(self::bounds(bounds, classes)?)
            .gamma(gamma)
            .tolerance(tol)
            .max_iterations(max_iter)
            .storage(storage);
        if let Some(rows) = self::row_bounds(row_bounds)? {
            options = options.row_bounds(rows);
        }
        let inner = options.build().map_err(refused)?;
        Ok(Self { inner })
    }

    /// Upper bounds on the classes' shares from counts of labels, as they are.
    #[staticmethod]
    fn empirical<'py>(
        py: Python<'py>,
        counts: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        shares(py, Bounds::empirical(&indices("counts", counts)?))
    }

    /// Upper bounds on the classes' shares from counts of labels: the upper end of Wilson's interval.
    #[staticmethod]
    #[pyo3(signature = (counts, confidence=0.8))]
    fn wilson<'py>(
        py: Python<'py>,
        counts: &Bound<'py, PyAny>,
        confidence: f64,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        shares(py, Bounds::wilson(&indices("counts", counts)?, confidence))
    }

    /// Number of examples n.
    #[getter]
    fn examples(&self) -> usize {
        self.inner.examples()
    }

    /// Number of classes k.
    #[getter]
    fn classes(&self) -> usize {
        self.inner.classes()
    }

    /// Inverse regularisation γ = 1/ε.
    #[getter]
    fn gamma(&self) -> f64 {
        self.inner.gamma()
    }

    /// The share asked for by the last `allocate`.
    #[getter]
    fn rho(&self) -> f64 {
        self.inner.rho()
    }

    /// The scaling variables β: one per class and the abstention's last; with them any example can be labelled.
    #[getter]
    fn scaling<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.inner.scaling().into_pyarray(py)
    }

    /// The costs −log p last observed, one row per example.
    #[getter]
    fn costs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let costs = PyArray1::from_slice(py, &self.inner.costs());
        costs.reshape([self.inner.examples(), self.inner.classes()])
    }

    /// Changes the class bounds from the next `allocate` on; None for no bounds.
    #[pyo3(signature = (bounds=None))]
    fn set_bounds(&mut self, bounds: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let bounds = self::bounds(bounds, self.inner.classes())?;
        self.inner.set_bounds(bounds).map_err(refused)
    }

    /// Changes how much label each example may get, from 0 to 1, from the next `allocate` on; None for one each.
    #[pyo3(signature = (row_bounds=None))]
    fn set_row_bounds(&mut self, row_bounds: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let rows = self::row_bounds(row_bounds)?;
        self.inner.set_row_bounds(rows).map_err(refused)
    }

    /// Takes over predictions: row r of `log_probs` is log p(· | example indices[r]).
    fn observe(
        &mut self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        log_probs: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let indices = self::indices("indices", indices)?;
        let (values, _) = self::log_probs(log_probs, self.inner.classes())?;
        let inner = &mut self.inner;
        py.detach(|| inner.observe(&indices, &values))
            .map_err(refused)
    }

    /// Re-solves for the share `rho` in [0, 1] of examples, from the last solution; returns a dict of status, error, iterations,
    /// mass (per class, in examples), allocated (share) and seconds.
    fn allocate<'py>(&mut self, py: Python<'py>, rho: f64) -> PyResult<Bound<'py, PyDict>> {
        let inner = &mut self.inner;
        let report = py.detach(|| inner.allocate(rho)).map_err(refused)?;
        let told = PyDict::new(py);
        told.set_item("status", report.status.to_string())?;
        told.set_item("error", report.error)?;
        told.set_item("iterations", report.iterations)?;
        told.set_item("mass", report.mass.into_pyarray(py))?;
        told.set_item("allocated", report.allocated)?;
        told.set_item("seconds", report.seconds)?;
        Ok(told)
    }

    /// Soft labels for any examples, in the set or not, from their log-probabilities. Rows sum to at most one; what is
    /// missing is abstention.
    fn targets<'py>(
        &self,
        py: Python<'py>,
        log_probs: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let (values, rows) = self::log_probs(log_probs, self.inner.classes())?;
        let mut soft = vec![0.0; values.len()];
        py.detach(|| self.inner.targets(&values, &mut soft))
            .map_err(refused)?;
        soft.into_pyarray(py).reshape([rows, self.inner.classes()])
    }

    /// Rows of the allocation Q for examples of the set, at the costs last observed.
    fn plan_rows<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let indices = self::indices("indices", indices)?;
        let mut rows = vec![0.0; indices.len() * self.inner.classes()];
        py.detach(|| self.inner.plan_rows(&indices, &mut rows))
            .map_err(refused)?;
        rows.into_pyarray(py)
            .reshape([indices.len(), self.inner.classes()])
    }

    /// The class with the largest share for every example; −1 where abstaining weighs more than each class.
    fn hard_labels<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let labels = py.detach(|| self.inner.hard_labels());
        let numbers = labels
            .into_iter()
            .map(|label| label.map_or(-1, |class| class as i64));
        PyArray1::from_vec(py, numbers.collect())
    }

    /// Writes the allocator to a file, from which `load` goes on bit for bit.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| {
            let file = BufWriter::new(File::create(path)?);
            self.inner.save(file)
        })
        .map_err(refused)
    }

    /// Reads what `save` wrote.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let read = || allocation::LabelAllocator::load(BufReader::new(File::open(path)?));
        let inner = py.detach(read).map_err(refused)?;
        Ok(Self { inner })
    }

    #[staticmethod]
    fn _from_bytes(bytes: &[u8]) -> PyResult<Self> {
        let inner = allocation::LabelAllocator::load(bytes).map_err(refused)?;
        Ok(Self { inner })
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let mut bytes = Vec::new();
        slf.borrow().inner.save(&mut bytes).map_err(refused)?;
        let bytes = PyBytes::new(slf.py(), &bytes);
        Ok((slf.getattr("_from_bytes")?, (bytes,)))
    }

    fn __repr__(&self) -> String {
        let a = &self.inner;
        let (n, k, gamma, rho) = (a.examples(), a.classes(), a.gamma(), a.rho());
        format!("LabelAllocator(examples={n}, classes={k}, gamma={gamma}, rho={rho})")
    }
}
