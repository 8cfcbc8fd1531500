//! Plans as arrays.

use earthmover::Entry;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;

/// Rows, columns and masses of a plan's entries.
pub(crate) type Columns<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<f64>>,
);

pub(crate) fn columns<'py>(py: Python<'py>, entries: &[Entry]) -> Columns<'py> {
    let rows: Vec<i64> = entries.iter().map(|e| e.row as i64).collect();
    let cols: Vec<i64> = entries.iter().map(|e| e.col as i64).collect();
    let mass: Vec<f64> = entries.iter().map(|e| e.mass).collect();
    (
        rows.into_pyarray(py),
        cols.into_pyarray(py),
        mass.into_pyarray(py),
    )
}

/// As a scipy.sparse.csr_array.
pub(crate) fn csr<'py>(
    py: Python<'py>,
    entries: &[Entry],
    shape: (usize, usize),
) -> PyResult<Bound<'py, PyAny>> {
    let (rows, cols, mass) = columns(py, entries);
    let csr = py.import("scipy.sparse")?.getattr("csr_array")?;
    csr.call1(((mass, (rows, cols)), shape))
}

/// Row-major numbers as a matrix.
pub(crate) fn matrix<'py>(
    py: Python<'py>,
    numbers: Vec<f64>,
    shape: (usize, usize),
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    numbers.into_pyarray(py).reshape([shape.0, shape.1])
}
