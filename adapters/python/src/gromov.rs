//! Gromov–Wasserstein: two sides that know only how they relate among themselves.

use core::time::Duration;

use earthmover::{Error, GromovProblem, GromovWasserstein, Loss, Marginals, Relations};
use numpy::{PyArray1, PyArray2};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use self_cell::self_cell;

use crate::arrays::double_matrix;
use crate::cost::Lent;
use crate::errors::{OptionError, ShapeError, refused};
use crate::plan;
use crate::solve::{Relaxation, marginals, seconds};
use crate::watch::Watch;

/// What a problem is made of.
struct Sides {
    rows: Lent<f64>,
    cols: Lent<f64>,
    /// Costs between features, and how much relations count.
    features: Option<(Lent<f64>, f64)>,
    are_points: bool,
    loss: Loss,
    semi_relaxed: bool,
}

impl Sides {
    fn problem(&self, marginals: Marginals) -> Result<GromovProblem<'_>, Error> {
        let rows = Self::relations(&self.rows, self.are_points)?;
        let cols = Self::relations(&self.cols, self.are_points)?;
        let mut problem = GromovProblem::new(rows, cols, marginals)?.loss(self.loss);
        if let Some((costs, share)) = &self.features {
            problem = problem.fused(costs.as_slice(), *share)?;
        }
        Ok(if self.semi_relaxed {
            problem.semi_relaxed()
        } else {
            problem
        })
    }

    fn relations(side: &Lent<f64>, are_points: bool) -> Result<Relations<'_>, Error> {
        let [count, dimension] = side.shape();
        if are_points {
            Relations::points(side.as_slice(), dimension)
        } else {
            Relations::table(side.as_slice(), count)
        }
    }

    fn is_unchanged(&self) -> bool {
        let features = self.features.as_ref();
        self.rows.is_unchanged()
            && self.cols.is_unchanged()
            && features.is_none_or(|f| f.0.is_unchanged())
    }
}

type Answer<'a> = earthmover::GromovSolution<'a>;

self_cell!(
    struct Posed {
        owner: Sides,
        #[covariant]
        dependent: GromovProblem,
    }
);

self_cell!(
    struct Solved {
        owner: Posed,
        #[covariant]
        dependent: Answer,
    }
);

/// What is known of a Gromov–Wasserstein value: the least one lies between the bounds.
#[pyclass(frozen, module = "earthmover_ot")]
pub(crate) struct GromovCertificate(earthmover::GromovCertificate);

#[pymethods]
impl GromovCertificate {
    /// No plan does better: from the distributions of relations, which every plan has to rearrange.
    #[getter]
    fn lower(&self) -> f64 {
        self.0.lower
    }
    /// The value of the plan found.
    #[getter]
    fn upper(&self) -> f64 {
        self.0.upper
    }
    /// upper − lower: zero proves that no plan is better.
    #[getter]
    fn gap(&self) -> f64 {
        self.0.gap()
    }
    /// How fast the objective still descends to first order; of an entropic answer the last change of the plan.
    #[getter]
    fn stationarity(&self) -> f64 {
        self.0.stationarity
    }
    fn __repr__(&self) -> String {
        let c = &self.0;
        format!(
            "GromovCertificate(lower={}, upper={}, stationarity={:.3e})",
            c.lower, c.upper, c.stationarity
        )
    }
}

/// A matching of two sides by their relations; see `gromov`.
#[pyclass(frozen, module = "earthmover_ot")]
pub(crate) struct GromovSolution {
    solved: Solved,
    shape: (usize, usize),
}

impl GromovSolution {
    fn answer(&self) -> &Answer<'_> {
        self.solved.borrow_dependent()
    }
}

#[pymethods]
impl GromovSolution {
    /// The objective at the plan: GW, or the fused sum; without the entropy.
    #[getter]
    fn value(&self) -> f64 {
        self.answer().value()
    }
    /// The square root of the value.
    #[getter]
    fn distance(&self) -> f64 {
        self.answer().distance()
    }
    /// How the best start ended.
    #[getter]
    fn status(&self) -> String {
        self.answer().status().to_string()
    }
    /// Whether the tolerance was met.
    #[getter]
    fn converged(&self) -> bool {
        self.answer().status().is_converged()
    }
    /// Steps taken, from all starts together.
    #[getter]
    fn iterations(&self) -> usize {
        self.answer().iterations()
    }
    /// Rows and columns of the plan.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        self.shape
    }
    /// Bounds on the least value; the lower one is worked out when first asked for.
    #[getter]
    fn certificate(&self, py: Python<'_>) -> PyResult<GromovCertificate> {
        let solved = &self.solved;
        let sides = solved.borrow_owner().borrow_owner();
        py.detach(|| sides.is_unchanged().then(|| *self.answer().certificate()))
            .map(GromovCertificate)
            .ok_or_else(|| {
                PyRuntimeError::new_err(
                    "the relations were changed after they were solved for: ask for the certificate before, or solve for a copy",
                )
            })
    }
    /// The whole plan.
    #[getter]
    fn plan<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        plan::matrix(py, py.detach(|| self.answer().to_dense()), self.shape)
    }
    /// The plan as a scipy.sparse.csr_array.
    #[getter]
    fn sparse<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plan::csr(py, &self.answer().entries(0.0), self.shape)
    }
    /// The entries of the plan above `threshold`, by row and column: arrays (rows, columns, masses).
    #[pyo3(signature = (threshold = 0.0))]
    fn entries<'py>(&self, py: Python<'py>, threshold: f64) -> plan::Columns<'py> {
        plan::columns(py, &self.answer().entries(threshold))
    }
    /// For each row the column that receives most of its mass; −1 for a row that gives none.
    fn argmax<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let best = self.answer().argmax();
        let numbers = best.into_iter().map(|j| j.map_or(-1, |j| j as i64));
        PyArray1::from_vec(py, numbers.collect())
    }
    fn __repr__(&self) -> String {
        let answer = self.answer();
        let ((rows, cols), status, value) = (self.shape, answer.status(), answer.value());
        let iterations = answer.iterations();
        format!("GromovSolution({status}, value={value}, {rows}x{cols}, iterations={iterations})")
    }
}

/// How a matching is sought.
struct Options {
    eps: Option<f64>,
    tol: Option<f64>,
    max_iter: Option<usize>,
    time_limit: Option<Duration>,
    starts: usize,
    seed: u64,
    watch: Watch,
}

impl Options {
    fn solver(&self) -> GromovWasserstein {
        let watch = self.watch.clone();
        let mut solver = GromovWasserstein::new()
            .starts(self.starts)
            .seed(self.seed)
            .on_progress(move |p| watch.look(p));
        if let Some(eps) = self.eps {
            solver = solver.epsilon(eps);
        }
        if let Some(tol) = self.tol {
            solver = solver.tolerance(tol);
        }
        if let Some(most) = self.max_iter {
            solver = solver.max_iterations(most);
        }
        if let Some(limit) = self.time_limit {
            solver = solver.time_limit(limit);
        }
        solver
    }

    fn answer(
        &self,
        py: Python<'_>,
        sides: Sides,
        marginals: Marginals,
    ) -> PyResult<GromovSolution> {
        let solver = self.solver();
        let shape = (marginals.rows().len(), marginals.cols().len());
        let solved = py.detach(|| {
            let posed = Posed::try_new(sides, |sides| sides.problem(marginals))?;
            Solved::try_new(posed, |posed| solver.solve(posed.borrow_dependent()))
        });
        self.watch.raised()?;
        let solved = solved.map_err(refused)?;
        Ok(GromovSolution { solved, shape })
    }
}

/// A table or points, without gaps, to be kept with the answer.
fn read(what: &str, table: &Bound<'_, PyAny>) -> PyResult<Lent<f64>> {
    Ok(double_matrix(what, table)?.contiguous().kept())
}

fn loss_named(name: &str) -> PyResult<Loss> {
    match name {
        "square" | "square_loss" => Ok(Loss::Square),
        "kl" | "kl_loss" => Ok(Loss::Kl),
        other => Err(OptionError::new_err(format!(
            "loss is {other:?}; it must be \"square\" or \"kl\""
        ))),
    }
}

/// Gromov–Wasserstein: matches two sides that know only how they relate among themselves.
///
///     minimise  (1 − alpha) Σ M_ij P_ij  +  alpha Σ L(C_ii', D_jj') P_ij P_i'j'     subject to   P ≥ 0,  P 1 = a,  Pᵀ 1 = b
///
/// with L the square loss or KL's. `fused` is the matrix M of costs between features, if there are any (then `alpha` says how much relations
/// count; without, it is 1). Conditional gradient on exact plans, or entropic where `eps` is given. The objective is not convex: the best of
/// `starts` ends counts, and the certificate bounds the least value from below.
///
/// >>> import numpy as np, earthmover_ot as em
/// >>> path = np.abs(np.subtract.outer(np.arange(3.), np.arange(3.)))
/// >>> order = [1, 0, 2]
/// >>> s = em.gromov(path, path[np.ix_(order, order)])
/// >>> s.value, int(s.argmax()[1])                          # the same graph; the middle is the middle
/// (0.0, 0)
#[pyfunction]
#[pyo3(signature = (c1, c2, a=None, b=None, *, fused=None, alpha=0.5, loss="square", eps=None, tol=None, max_iter=None, time_limit=None, starts=1, seed=0, partial=None, semi_relaxed=false, progress=None))]
pub(crate) fn gromov(
    py: Python<'_>,
    c1: &Bound<'_, PyAny>,
    c2: &Bound<'_, PyAny>,
    a: Option<&Bound<'_, PyAny>>,
    b: Option<&Bound<'_, PyAny>>,
    fused: Option<&Bound<'_, PyAny>>,
    alpha: f64,
    loss: &str,
    eps: Option<f64>,
    tol: Option<f64>,
    max_iter: Option<usize>,
    time_limit: Option<f64>,
    starts: usize,
    seed: u64,
    partial: Option<f64>,
    semi_relaxed: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<GromovSolution> {
    let (rows, cols) = (read("c1", c1)?, read("c2", c2)?);
    for (name, side) in [("c1", &rows), ("c2", &cols)] {
        let [n, m] = side.shape();
        if n != m {
            return Err(ShapeError::new_err(format!(
                "{name} has {n} rows and {m} columns; relations are square"
            )));
        }
    }
    let relaxation = Relaxation {
        partial,
        ..Relaxation::default()
    };
    let marginals = marginals([rows.shape()[0], cols.shape()[0]], a, b, &relaxation)?;
    let fused = fused.filter(|f| !f.is_none());
    let features = fused.map(|f| read("fused", f)).transpose()?;
    let sides = Sides {
        rows,
        cols,
        features: features.map(|f| (f, alpha)),
        are_points: false,
        loss: loss_named(loss)?,
        semi_relaxed,
    };
    let options = Options {
        eps,
        tol,
        max_iter,
        time_limit: seconds(time_limit)?,
        starts,
        seed,
        watch: Watch::new(progress),
    };
    options.answer(py, sides, marginals)
}

/// Gromov–Wasserstein between two clouds of points, related by their squared distances: nothing quadratic is stored. The clouds may have
/// different dimensions. Options are as for `gromov`.
///
///     minimise  Σ (|x_i − x_i'|² − |y_j − y_j'|²)² P_ij P_i'j'     subject to   P ≥ 0,  P 1 = a,  Pᵀ 1 = b
///
/// >>> import numpy as np, earthmover_ot as em
/// >>> x = np.random.default_rng(0).normal(size=(40, 2)) * [2., 1.]
/// >>> turned = x[:, ::-1] * [1., -1.]
/// >>> em.gromov_points(x, turned, starts=4).value < 1e-9
/// True
#[pyfunction]
#[pyo3(signature = (x, y, a=None, b=None, *, eps=None, tol=None, max_iter=None, time_limit=None, starts=1, seed=0, progress=None))]
pub(crate) fn gromov_points(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    a: Option<&Bound<'_, PyAny>>,
    b: Option<&Bound<'_, PyAny>>,
    eps: Option<f64>,
    tol: Option<f64>,
    max_iter: Option<usize>,
    time_limit: Option<f64>,
    starts: usize,
    seed: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<GromovSolution> {
    let (rows, cols) = (read("x", x)?, read("y", y)?);
    let marginals = marginals(
        [rows.shape()[0], cols.shape()[0]],
        a,
        b,
        &Relaxation::default(),
    )?;
    let sides = Sides {
        rows,
        cols,
        features: None,
        are_points: true,
        loss: Loss::Square,
        semi_relaxed: false,
    };
    let options = Options {
        eps,
        tol,
        max_iter,
        time_limit: seconds(time_limit)?,
        starts,
        seed,
        watch: Watch::new(progress),
    };
    options.answer(py, sides, marginals)
}
