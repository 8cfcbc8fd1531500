//! Costs of a few pairs, as SciPy keeps them.

use earthmover::{Cost, Real, Sparse};
use numpy::{PyArrayDescrMethods, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::arrays::{floats, indices, vector};
use crate::cost::Data;
use crate::errors::refused;
use crate::solution::Solution;
use crate::solve::{Options, Relaxation, answered, marginals, reference, seconds, start};
use crate::watch::Watch;

/// Compressed rows of either precision.
pub(crate) enum Pairs {
    Single(Sparse<f32>),
    Double(Sparse<f64>),
}

impl Pairs {
    pub(crate) fn new(
        shape: (usize, usize),
        starts: &Bound<'_, PyAny>,
        columns: &Bound<'_, PyAny>,
        costs: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let (starts, columns) = (indices("indptr", starts)?, indices("indices", columns)?);
        let costs = floats("data", costs)?;
        let single = costs.dtype().itemsize() == 4;
        let costs = vector("data", costs.as_any())?.values;
        let (rows, cols) = shape;
        Ok(if single {
            let costs: Vec<f32> = costs.into_iter().map(|c| c as f32).collect();
            let made = Sparse::from_csr(rows, cols, &starts, &columns, &costs);
            Self::Single(made.map_err(refused)?)
        } else {
            let made = Sparse::from_csr(rows, cols, &starts, &columns, &costs);
            Self::Double(made.map_err(refused)?)
        })
    }
}

/// SciPy's own compressed rows, whatever format they came in.
fn read(cost: &Bound<'_, PyAny>) -> PyResult<Pairs> {
    let Ok(convert) = cost.getattr("tocsr") else {
        let found = cost.get_type();
        return Err(PyTypeError::new_err(format!(
            "cost must be a scipy.sparse matrix or array, not {found}; `solve` takes whole matrices"
        )));
    };
    let rows = convert.call0()?;
    let shape = rows.getattr("shape")?.extract()?;
    let part = |name: &str| rows.getattr(name);
    Pairs::new(shape, &part("indptr")?, &part("indices")?, &part("data")?)
}

/// Optimal transport where only some pairs are allowed: those that a sparse matrix names, a stored zero included.
///
///     minimise  Σ C_ij P_ij  [+ eps KL(P | a ⊗ b)]    over the pairs (i, j) of C,   subject to   P ≥ 0,  P 1 = a,  Pᵀ 1 = b
///
/// Time and memory go with the number of pairs. The answer's `sparse` and `entries` do, too; `plan` writes all of it out. Options are as for
/// `solve`.
///
/// >>> import scipy.sparse, earthmover_ot as em
/// >>> hours = scipy.sparse.csr_array(([4., 2., 3., 5., 1.], ([0, 0, 1, 1, 2], [0, 1, 1, 2, 0])), shape=(3, 3))
/// >>> s = em.solve_sparse(hours, [1., 1., 1.], [1., 1., 1.])
/// >>> s.value, s.entries()[1].tolist()                    # who cannot work a machine is not sent there
/// (8.0, [1, 2, 0])
#[pyfunction]
#[pyo3(signature = (cost, a=None, b=None, *, eps=None, tol=1e-6, max_iter=None, time_limit=None, slack=None, partial=None, penalty=None, reference="product", start=None, progress=None))]
pub(crate) fn solve_sparse(
    py: Python<'_>,
    cost: &Bound<'_, PyAny>,
    a: Option<&Bound<'_, PyAny>>,
    b: Option<&Bound<'_, PyAny>>,
    eps: Option<f64>,
    tol: f64,
    max_iter: Option<usize>,
    time_limit: Option<f64>,
    slack: Option<&Bound<'_, PyAny>>,
    partial: Option<f64>,
    penalty: Option<&Bound<'_, PyAny>>,
    reference: &str,
    start: Option<&Bound<'_, PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Solution> {
    let relaxation = Relaxation {
        slack,
        partial,
        penalty,
        reference: self::reference(reference)?,
    };
    let options = Options {
        eps,
        tol,
        max_iter,
        time_limit: seconds(time_limit)?,
        start: self::start(start)?,
        watch: Watch::new(progress),
    };
    match read(cost)? {
        Pairs::Single(pairs) => {
            let marginals = marginals(shape(&pairs), a, b, &relaxation)?;
            answered(py, || Data::Pairs(pairs), marginals, &options)
        }
        Pairs::Double(pairs) => {
            let marginals = marginals(shape(&pairs), a, b, &relaxation)?;
            answered(py, || Data::Pairs(pairs), marginals, &options)
        }
    }
}

fn shape<T: Real>(pairs: &Sparse<T>) -> [usize; 2] {
    [pairs.rows(), pairs.cols()]
}
