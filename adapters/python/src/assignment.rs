//! Who goes with whom.

use earthmover::{Assignment, Error, Real, assignment as cheapest, best_assignment as dearest};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::arrays::{Matrix, matrix};
use crate::cost::Lent;
use crate::errors::refused;

type Pairs<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

fn found<T: Real>(cost: &Lent<T>, maximise: bool) -> Result<Assignment, Error> {
    if maximise {
        dearest(cost)
    } else {
        cheapest(cost)
    }
}

/// The assignment problem: one column for each row and one row for each column, as cheaply as possible.
///
///     minimise (or maximise)  Σ_i C_{i, p(i)}    over   p one-to-one
///
/// Returns (rows, columns) as scipy.optimize.linear_sum_assignment does, so that `cost[em.assignment(cost)].sum()` is the optimum; where there are
/// more rows than columns some stay alone. inf forbids a pair (−inf where gains are maximised).
///
/// >>> import numpy as np, earthmover_ot as em
/// >>> C = np.array([[4., 1., 3.], [2., 0.5, 5.]])
/// >>> rows, cols = em.assignment(C)
/// >>> rows.tolist(), cols.tolist(), float(C[rows, cols].sum())
/// ([0, 1], [1, 0], 3.0)
#[pyfunction]
#[pyo3(signature = (cost, maximise=false))]
pub(crate) fn assignment<'py>(
    py: Python<'py>,
    cost: &Bound<'py, PyAny>,
    maximise: bool,
) -> PyResult<Pairs<'py>> {
    let cost = matrix("cost", cost)?;
    let found = py.detach(|| match &cost {
        Matrix::Single(cost) => found(cost, maximise),
        Matrix::Double(cost) => found(cost, maximise),
    });
    let partners = found.map_err(refused)?.partners;
    let pairs = partners.iter().enumerate();
    let (rows, cols): (Vec<i64>, Vec<i64>) = pairs
        .filter_map(|(i, j)| j.map(|j| (i as i64, j as i64)))
        .unzip();
    Ok((rows.into_pyarray(py), cols.into_pyarray(py)))
}
