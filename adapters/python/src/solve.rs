//! The functions that pose a question and have it answered.

use core::time::Duration;

use earthmover::{Entropic, Error, Exact, Marginals, Penalty, Potentials, Real, Reference, Slack};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::arrays::{Matrix, Vector, matrix, optional_vector, vector};
use crate::barycenter::Grid;
use crate::cost::{Data, Lent};
use crate::errors::{OptionError, refused};
use crate::solution::{Keeps, Kept, Solution};
use crate::watch::Watch;

/// How a question is to be answered.
pub(crate) struct Options {
    pub(crate) eps: Option<f64>,
    pub(crate) tol: f64,
    pub(crate) max_iter: Option<usize>,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) start: Option<Potentials>,
    pub(crate) watch: Watch,
}

/// A number of seconds.
pub(crate) fn seconds(limit: Option<f64>) -> PyResult<Option<Duration>> {
    let duration = |limit: f64| {
        Duration::try_from_secs_f64(limit).map_err(|_| {
            OptionError::new_err(format!(
                "time_limit is {limit}; it must be a number of seconds"
            ))
        })
    };
    limit.map(duration).transpose()
}

/// Potentials to start from: an answer, (f, g), or g alone.
pub(crate) fn start(from: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Potentials>> {
    let Some(from) = from.filter(|from| !from.is_none()) else {
        return Ok(None);
    };
    if let Ok(solution) = from.cast::<Solution>() {
        return Ok(Some(solution.get().answer().potentials().clone()));
    }
    let g = match from.cast::<PyTuple>() {
        Ok(both) if both.len() == 2 => both.get_item(1)?,
        Ok(_) => {
            return Err(PyTypeError::new_err(
                "start must be a Solution, the pair (f, g) or the column potentials g",
            ));
        }
        Err(_) => from.clone(),
    };
    Ok(Some(Potentials::from_columns(vector("start", &g)?.values)))
}

/// The slack row and column from (row, col) or a dictionary.
fn slack(given: &Bound<'_, PyAny>) -> PyResult<Slack> {
    let mut slack = Slack::NONE;
    if let Ok((row, col)) = given.extract::<(f64, f64)>() {
        (slack.row, slack.col) = (row, col);
        return Ok(slack);
    }
    let Ok(given) = given.cast::<PyDict>() else {
        return Err(PyTypeError::new_err(
            "slack must be the pair (row, col) of masses, or a dict of row, col, row_cost, col_cost, corner_cost",
        ));
    };
    for (name, value) in given {
        let name: String = name.extract()?;
        let place = match name.as_str() {
            "row" => &mut slack.row,
            "col" => &mut slack.col,
            "row_cost" => &mut slack.row_cost,
            "col_cost" => &mut slack.col_cost,
            "corner_cost" => &mut slack.corner_cost,
            other => {
                return Err(OptionError::new_err(format!(
                    "slack has no {other:?}; it has row, col, row_cost, col_cost and corner_cost"
                )));
            }
        };
        *place = value.extract()?;
    }
    Ok(slack)
}

/// What one side pays for other masses than its own: a number is KL's, a pair says which.
fn side_penalty(given: &Bound<'_, PyAny>) -> PyResult<Penalty> {
    if given.is_none() {
        return Ok(Penalty::Exact);
    }
    if let Ok(tau) = given.extract::<f64>() {
        return Ok(Penalty::Kl(tau));
    }
    let wrong = || {
        PyTypeError::new_err(
            "penalty must be a number (KL's), (\"kl\", tau), (\"tv\", tau), or a pair of these for rows and columns, \
             with None for a side whose masses are kept",
        )
    };
    let (kind, tau): (String, f64) = given.extract().map_err(|_| wrong())?;
    match kind.as_str() {
        "kl" => Ok(Penalty::Kl(tau)),
        "tv" => Ok(Penalty::Tv(tau)),
        other => Err(OptionError::new_err(format!(
            "penalty is {other:?}; it must be \"kl\" or \"tv\""
        ))),
    }
}

/// The penalties of rows and columns: one for both, or a pair.
pub(crate) fn penalties(given: Option<&Bound<'_, PyAny>>) -> PyResult<(Penalty, Penalty)> {
    let Some(given) = given else {
        return Ok((Penalty::Exact, Penalty::Exact));
    };
    if let Ok(both) = given.cast::<PyTuple>()
        && both.len() == 2
        && !both.get_item(0)?.is_instance_of::<PyString>()
    {
        let (rows, cols) = (both.get_item(0)?, both.get_item(1)?);
        return Ok((side_penalty(&rows)?, side_penalty(&cols)?));
    }
    let one = side_penalty(given)?;
    Ok((one, one))
}

/// What the entropy of penalised masses is relative to.
pub(crate) fn reference(name: &str) -> PyResult<Reference> {
    match name {
        "product" => Ok(Reference::Product),
        "counting" => Ok(Reference::Counting),
        other => Err(OptionError::new_err(format!(
            "reference is {other:?}; it must be \"product\" or \"counting\""
        ))),
    }
}

/// What may become of masses that do not fit each other.
#[derive(Default)]
pub(crate) struct Relaxation<'a, 'py> {
    pub(crate) slack: Option<&'a Bound<'py, PyAny>>,
    pub(crate) partial: Option<f64>,
    pub(crate) penalty: Option<&'a Bound<'py, PyAny>>,
    pub(crate) reference: Reference,
}

/// The marginals of a question.
pub(crate) fn marginals(
    shape: [usize; 2],
    a: Option<&Bound<'_, PyAny>>,
    b: Option<&Bound<'_, PyAny>>,
    relaxation: &Relaxation<'_, '_>,
) -> PyResult<Marginals> {
    let [rows, cols] = shape;
    if rows == 0 || cols == 0 {
        return Err(refused(Error::Empty { rows, cols }));
    }
    let (a, b) = (optional_vector("a", a)?, optional_vector("b", b)?);
    let single = |v: &Option<Vector>| v.as_ref().is_some_and(|v| v.single);
    let rounded = single(&a) || single(&b);
    let total = |side: &Option<Vector>| side.as_ref().map_or(1.0, |s| s.values.iter().sum());
    let (supply, demand) = (total(&a), total(&b));
    let masses = |side: Option<Vector>, count: usize, total: f64| match side {
        Some(masses) => masses.values,
        // As much in all as the other side has.
        None => vec![total / count as f64; count],
    };
    let (rows, cols) = (masses(a, rows, demand), masses(b, cols, supply));
    let made = match (relaxation.slack, relaxation.partial, relaxation.penalty) {
        (None, None, None) if rounded => {
            Marginals::balanced_within(&rows, &cols, <f32 as Real>::MASS_TOLERANCE)
        }
        (None, None, None) => Marginals::balanced(&rows, &cols),
        (None, Some(mass), None) => Marginals::partial(&rows, &cols, mass),
        (Some(given), None, None) => Marginals::with_slack(&rows, &cols, slack(given)?),
        (None, None, penalty) => {
            let (of_rows, of_cols) = penalties(penalty)?;
            Marginals::relaxed(&rows, &cols, of_rows, of_cols)
                .map(|made| made.with_reference(relaxation.reference))
        }
        _ => {
            return Err(OptionError::new_err(
                "slack, partial and penalty exclude each other",
            ));
        }
    };
    made.map_err(refused)
}

/// Answers a question and keeps the answer with all that it is about.
pub(crate) fn answer<T: Keeps>(
    data: Data<T>,
    marginals: Marginals,
    options: &Options,
) -> Result<Box<dyn Kept>, Error> {
    let watch = options.watch.clone();
    match options.eps {
        None => {
            let mut solver = Exact::new()
                .gap(options.tol)
                .on_progress(move |p| watch.look(p));
            if let Some(most) = options.max_iter {
                solver = solver.max_iterations(most);
            }
            if let Some(limit) = options.time_limit {
                solver = solver.time_limit(limit);
            }
            T::keep(data, marginals, &|problem| match &options.start {
                None => solver.solve(problem),
                Some(start) => solver.solve_from(problem, start),
            })
        }
        Some(eps) => {
            let mut solver = Entropic::new(eps)
                .tolerance(options.tol)
                .on_progress(move |p| watch.look(p));
            if let Some(most) = options.max_iter {
                solver = solver.max_iterations(most);
            }
            if let Some(limit) = options.time_limit {
                solver = solver.time_limit(limit);
            }
            T::keep(data, marginals, &|problem| match &options.start {
                None => solver.solve(problem),
                Some(start) => solver.solve_from(problem, start),
            })
        }
    }
}

/// The same, without the interpreter lock, and with what was raised on the way.
pub(crate) fn answered<T: Keeps>(
    py: Python<'_>,
    data: impl FnOnce() -> Data<T> + Send,
    marginals: Marginals,
    options: &Options,
) -> PyResult<Solution> {
    let kept = py.detach(|| answer(data(), marginals, options));
    options.watch.raised()?;
    Ok(Solution::new(kept.map_err(refused)?))
}

/// Optimal transport between the rows and the columns of a matrix of costs.
///
///     minimise  Σ C_ij P_ij  [+ eps KL(P | a ⊗ b)]    subject to   P ≥ 0,  P 1 = a,  Pᵀ 1 = b   [or D(P 1 | a) + D(Pᵀ 1 | b) as a cost]
///
/// Exact where `eps` is None, entropic otherwise. A cost of inf forbids a pair.
///
/// Parameters
/// ----------
/// cost : array (n, m), float32 or float64, in any layout, not copied if it is large; or an `em.Grid`
/// a, b : masses of rows and columns; equal ones where left out. Their totals must agree, unless they are penalised.
/// eps : entropic regularisation in the units of the cost
/// tol : L1 error of the marginals, over the total mass, at which an entropic solve stops. Exact ones end at the optimum; only where masses
///     are penalised by KL is it approached, until the gap between the bounds is this share of them
/// max_iter : most sweeps or pivots; running out of them is a status, not an error
/// time_limit : seconds after which to stop with the best answer so far
/// slack : (row, col) masses, or a dict (row, col, row_cost, col_cost, corner_cost), of an extra row and column that take what is
///     left
/// partial : move exactly this much mass; a and b are then upper bounds
/// penalty : what other masses than a and b cost: tau or ("kl", tau) for tau Σ (r ln(r/a) − r + a), ("tv", tau) for tau Σ |r − a|; a pair
///     of these for rows and columns, with None for a side whose masses are kept
/// reference : what the entropy is relative to where masses are penalised: "product" (KL(P | a ⊗ b)) or "counting" (Σ P (ln P − 1))
/// start : a Solution, (f, g) or g: potentials of a similar problem to start from
/// progress : called now and then with a dict (iteration, violation, epsilon, done, gap); returning False stops
///
/// >>> import earthmover_ot as em
/// >>> C = [[4., 9., 12.], [6., 3., 5.]]                # minutes from two bakeries to three cafés
/// >>> s = em.solve(C, [60, 80], [45, 50, 45])
/// >>> s.value
/// 645.0
/// >>> s.plan
/// array([[45., 15.,  0.],
///        [ 0., 35., 45.]])
/// >>> em.solve(C, [60, 80], [45, 50, 45], eps=0.1).converged
/// True
/// >>> em.solve(C, [60, 80], [45, 50, 45], penalty=("tv", 3.0)).plan        # a loaf that stays, or is lacking, costs three minutes
/// array([[45.,  0.,  0.],
///        [ 0., 50., 30.]])
#[pyfunction]
#[pyo3(signature = (cost, a=None, b=None, *, eps=None, tol=1e-6, max_iter=None, time_limit=None, slack=None, partial=None, penalty=None, reference="product", start=None, progress=None))]
pub(crate) fn solve(
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
    if let Ok(grid) = cost.cast::<Grid>() {
        let data = Data::grid(grid.get().inner());
        let cells = grid.get().cells();
        let marginals = marginals([cells, cells], a, b, &relaxation)?;
        return answered(py, || data, marginals, &options);
    }
    match matrix("cost", cost)? {
        Matrix::Single(cost) => {
            let marginals = marginals(cost.shape(), a, b, &relaxation)?;
            answered(py, || Data::Matrix(cost.kept()), marginals, &options)
        }
        Matrix::Double(cost) => {
            let marginals = marginals(cost.shape(), a, b, &relaxation)?;
            answered(py, || Data::Matrix(cost.kept()), marginals, &options)
        }
    }
}

/// Two clouds in one precision: single where both are.
pub(crate) enum Clouds {
    Single(Lent<f32>, Lent<f32>),
    Double(Lent<f64>, Lent<f64>),
}

pub(crate) fn clouds(x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>) -> PyResult<Clouds> {
    Ok(match (matrix("x", x)?, matrix("y", y)?) {
        (Matrix::Single(x), Matrix::Single(y)) => Clouds::Single(x, y),
        (Matrix::Double(x), Matrix::Double(y)) => Clouds::Double(x, y),
        (Matrix::Single(x), Matrix::Double(y)) => Clouds::Double(x.widened(), y),
        (Matrix::Double(x), Matrix::Single(y)) => Clouds::Double(x, y.widened()),
    })
}

/// Optimal transport between two clouds of points, without ever writing their matrix of costs.
///
///     minimise  Σ c(x_i, y_j) P_ij  [+ eps KL(P | a ⊗ b)]    subject to   P ≥ 0,  P 1 = a,  Pᵀ 1 = b
///
/// `metric` is "sqeuclidean" (the default), "euclidean", "cityblock" or "cosine"; the rest is as for `solve`. Memory grows with the
/// number of points, not with that of pairs.
///
/// >>> import numpy as np, earthmover_ot as em
/// >>> x = np.array([[0., 0.], [1., 0.], [2., 0.]])
/// >>> em.solve_points(x, x + [0., 3.]).value          # everybody moves by (0, 3)
/// 9.0
#[pyfunction]
#[pyo3(signature = (x, y, a=None, b=None, *, metric="sqeuclidean", eps=None, tol=1e-6, max_iter=None, time_limit=None, slack=None, partial=None, penalty=None, reference="product", start=None, progress=None))]
pub(crate) fn solve_points(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    a: Option<&Bound<'_, PyAny>>,
    b: Option<&Bound<'_, PyAny>>,
    metric: &str,
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
    match clouds(x, y)? {
        Clouds::Single(x, y) => {
            let marginals = marginals([x.shape()[0], y.shape()[0]], a, b, &relaxation)?;
            let data = Data::points(&x, &y, metric)?;
            answered(py, || data, marginals, &options)
        }
        Clouds::Double(x, y) => {
            let marginals = marginals([x.shape()[0], y.shape()[0]], a, b, &relaxation)?;
            let data = Data::points(&x, &y, metric)?;
            answered(py, || data, marginals, &options)
        }
    }
}
