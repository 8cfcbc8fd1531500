//! Many problems at once.

use earthmover::Error;
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::arrays::{Matrix, matrix};
use crate::cost::Data;
use crate::errors::refused;
use crate::solution::{Kept, Solution};
use crate::solve::{Options, Relaxation, answer, marginals, seconds};
use crate::watch::Watch;

/// Many problems, as many at a time as there are cores.
///
///     minimise  Σ C_ij P_ij  [+ eps KL(P | a ⊗ b)]    subject to   P ≥ 0,  P 1 = a,  Pᵀ 1 = b         for each C
///
/// `costs` is an array (problems, n, m) or a list of matrices of any shapes; `a` and `b` are masses for all of them, or one row (or list
/// entry) each. Answers come in the order of the problems, and are to the last bit those of `solve`.
///
/// >>> import numpy as np, earthmover_ot as em
/// >>> costs = np.array([[[0., 1.], [1., 0.]], [[3., 1.], [1., 3.]]])
/// >>> [s.value for s in em.solve_batch(costs)]
/// [0.0, 1.0]
#[pyfunction]
#[pyo3(signature = (costs, a=None, b=None, *, eps=None, tol=1e-6, max_iter=None, time_limit=None))]
pub(crate) fn solve_batch(
    py: Python<'_>,
    costs: &Bound<'_, PyAny>,
    a: Option<&Bound<'_, PyAny>>,
    b: Option<&Bound<'_, PyAny>>,
    eps: Option<f64>,
    tol: f64,
    max_iter: Option<usize>,
    time_limit: Option<f64>,
) -> PyResult<Vec<Solution>> {
    let options = Options {
        eps,
        tol,
        max_iter,
        time_limit: seconds(time_limit)?,
        start: None,
        watch: Watch::new(None),
    };
    let mut problems = Vec::new();
    for (k, cost) in costs.try_iter()?.enumerate() {
        let cost = matrix(&format!("costs[{k}]"), &cost?)?;
        let shape = match &cost {
            Matrix::Single(cost) => cost.shape(),
            Matrix::Double(cost) => cost.shape(),
        };
        let (a, b) = (of_problem(a, k)?, of_problem(b, k)?);
        let masses = marginals(shape, a.as_ref(), b.as_ref(), &Relaxation::default())?;
        problems.push((cost, masses));
    }
    let answers: Vec<Result<Box<dyn Kept>, Error>> = py.detach(|| {
        problems
            .into_par_iter()
            .map(|(cost, masses)| {
                let kept = match cost {
                    Matrix::Single(cost) => answer(Data::Matrix(cost.kept()), masses, &options),
                    Matrix::Double(cost) => answer(Data::Matrix(cost.kept()), masses, &options),
                }?;
                // Whoever has many problems wants their values: here they are worked out on all cores.
                kept.answer().certificate();
                Ok(kept)
            })
            .collect()
    });
    options.watch.raised()?;
    let each = answers.into_iter();
    each.map(|found| found.map(Solution::new).map_err(refused))
        .collect()
}

/// The masses of problem `k`: those of all, or its own.
fn of_problem<'py>(
    masses: Option<&Bound<'py, PyAny>>,
    k: usize,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(masses) = masses.filter(|m| !m.is_none()) else {
        return Ok(None);
    };
    let each = match masses.cast::<PyUntypedArray>() {
        Ok(array) => array.ndim() == 2,
        Err(_) => masses.get_item(0)?.len().is_ok(),
    };
    Ok(Some(if each {
        masses.get_item(k)?
    } else {
        masses.clone()
    }))
}
