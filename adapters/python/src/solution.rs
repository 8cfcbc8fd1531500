//! The answer as Python sees it.
//!
//! An answer of the library borrows its problem, which borrows its cost, which borrows the data. Here they are kept together, each
//! in a cell with what it borrows from.

use earthmover::{Cost, Entry, Error, Marginals, Metric, Potentials, Problem, Real, Status};
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::prelude::*;
use self_cell::self_cell;

use crate::arrays::{Scalar, double_matrix};
use crate::cost::{Data, Metrics};
use crate::errors::{OptionError, ShapeError, refused};
use crate::plan;

/// What an answer can be asked, whatever its scalar and its cost.
pub(crate) trait Answered {
    fn status(&self) -> Status;
    fn advice(&self) -> Option<&'static str>;
    fn iterations(&self) -> usize;
    fn violation(&self) -> f64;
    fn epsilon(&self) -> f64;
    fn certificate(&self) -> &earthmover::Certificate;
    fn potentials(&self) -> &Potentials;
    fn dense(&self) -> Vec<f64>;
    fn entries(&self, threshold: f64) -> Vec<Entry>;
    /// Calls with each row of the plan in turn.
    fn each_row(&self, visit: &mut dyn FnMut(usize, &[f64]));
}

impl<T: Real, C: Cost<T>> Answered for earthmover::Solution<'_, T, C> {
    fn status(&self) -> Status {
        self.status()
    }
    fn advice(&self) -> Option<&'static str> {
        self.advice()
    }
    fn iterations(&self) -> usize {
        self.iterations()
    }
    fn violation(&self) -> f64 {
        self.violation()
    }
    fn epsilon(&self) -> f64 {
        self.epsilon()
    }
    fn certificate(&self) -> &earthmover::Certificate {
        self.certificate()
    }
    fn potentials(&self) -> &Potentials {
        self.potentials()
    }
    fn dense(&self) -> Vec<f64> {
        self.plan().to_dense()
    }
    fn entries(&self, threshold: f64) -> Vec<Entry> {
        self.plan().entries(threshold)
    }
    fn each_row(&self, visit: &mut dyn FnMut(usize, &[f64])) {
        self.plan().for_each_row(visit);
    }
}

/// An answer with all that it is about.
pub(crate) trait Kept: Send + Sync {
    fn answer(&self) -> &dyn Answered;
    fn is_unchanged(&self) -> bool;
    fn marginals(&self) -> &Marginals;
    /// Where points that were not in the problem go: the mean of the columns' points, weighted as a row of their costs would be. `None`
    /// where the cost is not made of points.
    fn map(&self, points: &[f64], dimension: usize) -> Option<Result<Vec<f64>, Error>>;
}

/// The mean of the columns' points for one that was not in the problem.
fn mapped<T: Metrics, C: Cost<T>>(
    answer: &earthmover::Solution<'_, T, C>,
    metric: &dyn Metric<T>,
    cols: &[T],
    point: &[f64],
) -> Result<Vec<f64>, Error> {
    let d = point.len();
    let point: Vec<T> = point.iter().map(|x| T::narrow(*x)).collect();
    let costs: Vec<T> = cols
        .chunks_exact(d)
        .map(|y| metric.distance(&point, y))
        .collect();
    let (shares, _) = answer.conditional(&costs)?;
    let (mut mean, mut total) = (vec![0.0; d], 0.0);
    for (share, y) in shares.iter().zip(cols.chunks_exact(d)) {
        total += share;
        mean.iter_mut()
            .zip(y)
            .for_each(|(m, y)| *m += share * y.widen());
    }
    mean.iter_mut().for_each(|m| *m /= total);
    Ok(mean)
}

/// A solver, as a function of the question.
pub(crate) type Solve<'s, T> = dyn for<'p, 'c> Fn(
        &'p Problem<T, &'c (dyn Cost<T> + 'c)>,
    ) -> Result<earthmover::Solution<'p, T, &'c (dyn Cost<T> + 'c)>, Error>
    + Sync
    + 's;

/// A scalar whose questions can be answered and kept.
pub(crate) trait Keeps: Scalar + Metrics {
    fn keep(
        data: Data<Self>,
        marginals: Marginals,
        solve: &Solve<'_, Self>,
    ) -> Result<Box<dyn Kept>, Error>;
}

macro_rules! keeps {
    ($scalar:ty, $cells:ident) => {
        mod $cells {
            use super::*;

            type Costs<'a> = Box<dyn Cost<$scalar> + Send + 'a>;
            type Question<'a> = Problem<$scalar, &'a (dyn Cost<$scalar> + 'a)>;
            type Answer<'a> = earthmover::Solution<'a, $scalar, &'a (dyn Cost<$scalar> + 'a)>;

            self_cell!(
                struct Held {
                    owner: Data<$scalar>,
                    #[covariant]
                    dependent: Costs,
                }
            );

            self_cell!(
                struct Posed {
                    owner: Held,
                    #[covariant]
                    dependent: Question,
                }
            );

            self_cell!(
                struct Solved {
                    owner: Posed,
                    #[covariant]
                    dependent: Answer,
                }
            );

            impl Kept for Solved {
                fn answer(&self) -> &dyn Answered {
                    self.borrow_dependent()
                }
                fn is_unchanged(&self) -> bool {
                    self.borrow_owner()
                        .borrow_owner()
                        .borrow_owner()
                        .is_unchanged()
                }
                fn marginals(&self) -> &Marginals {
                    self.borrow_owner().borrow_dependent().marginals()
                }
                fn map(&self, points: &[f64], d: usize) -> Option<Result<Vec<f64>, Error>> {
                    let data = self.borrow_owner().borrow_owner().borrow_owner();
                    let (cols, dimension, metric) = data.targets()?;
                    if d != dimension {
                        return Some(Err(Error::Length {
                            what: "coordinates of a point",
                            expected: dimension,
                            found: d,
                        }));
                    }
                    let answer = self.borrow_dependent();
                    let one = |point: &[f64]| mapped(answer, metric, cols, point);
                    let all: Result<Vec<Vec<f64>>, Error> =
                        points.par_chunks_exact(d).map(one).collect();
                    Some(all.map(|all| all.concat()))
                }
            }

            impl Keeps for $scalar {
                fn keep(
                    data: Data<Self>,
                    marginals: Marginals,
                    solve: &Solve<'_, Self>,
                ) -> Result<Box<dyn Kept>, Error> {
                    let held = Held::try_new(data, Data::cost)?;
                    let posed = Posed::try_new(held, |held| {
                        let cost: &dyn Cost<$scalar> = held.borrow_dependent().as_ref();
                        Problem::new(cost, marginals)
                    })?;
                    let solved = Solved::try_new(posed, |posed| solve(posed.borrow_dependent()))?;
                    Ok(Box::new(solved))
                }
            }
        }
    };
}

keeps!(f32, single);
keeps!(f64, double);

/// Bounds on the optimum, and the true error of a plan.
///
/// ```text
/// dual = Σ a_i f_i + Σ b_j g_j  ≤  optimum  ≤  ⟨C, P'⟩ = primal
/// ```
///
/// >>> import earthmover_ot as em
/// >>> proof = em.solve([[0., 1.], [1., 0.]], eps=0.05).certificate
/// >>> proof.dual <= 0.0 <= proof.primal   # the optimum is 0
/// True
#[pyclass(frozen, module = "earthmover_ot")]
#[derive(Clone, Copy)]
pub(crate) struct Certificate(pub(crate) earthmover::Certificate);

#[pymethods]
impl Certificate {
    /// Cost of a feasible plan next to the answer's, rounded up: an upper bound of the optimum.
    #[getter]
    fn primal(&self) -> f64 {
        self.0.primal
    }
    /// Value of feasible potentials, rounded down: a lower bound of the optimum.
    #[getter]
    fn dual(&self) -> f64 {
        self.0.dual
    }
    /// primal − dual: the optimum lies in between.
    #[getter]
    fn gap(&self) -> f64 {
        self.0.gap()
    }
    /// The gap over the larger of the two bounds' sizes.
    #[getter]
    fn relative_gap(&self) -> f64 {
        self.0.relative_gap()
    }
    /// Cost of the plan as it is, slack costs included.
    #[getter]
    fn objective(&self) -> f64 {
        self.0.objective
    }
    /// L1 distance of the plan's marginals from the ones asked for, over the total mass.
    #[getter]
    fn violation(&self) -> f64 {
        self.0.violation
    }
    /// Mass moved between real rows and real columns.
    #[getter]
    fn mass(&self) -> f64 {
        self.0.mass
    }
    fn __repr__(&self) -> String {
        let c = &self.0;
        format!(
            "Certificate(primal={}, dual={}, gap={:.3e}, violation={:.3e}, mass={})",
            c.primal,
            c.dual,
            c.gap(),
            c.violation,
            c.mass
        )
    }
}

/// The answer to a transport problem: what was found, and the proof of how good it is.
///
/// The plan of an entropic answer is P_ij = exp((f_i + g_j − C_ij)/ε), with the masses inside f and g. It and the
/// certificate are worked out from the costs when they are asked for; a large matrix is not copied, and must not be changed
/// before that (it is noticed, and refused with a RuntimeError).
///
/// >>> import earthmover_ot as em
/// >>> s = em.solve([[0., 1.], [1., 0.]], [0.5, 0.5], [0.25, 0.75])
/// >>> s.status, s.value, s.certificate.gap < 1e-12
/// ('converged', 0.25, True)
/// >>> s.plan
/// array([[0.25, 0.25],
///        [0.  , 0.5 ]])
#[pyclass(frozen, module = "earthmover_ot")]
pub(crate) struct Solution {
    kept: Box<dyn Kept>,
}

impl Solution {
    pub(crate) fn new(kept: Box<dyn Kept>) -> Self {
        Self { kept }
    }

    pub(crate) fn answer(&self) -> &dyn Answered {
        self.kept.answer()
    }

    /// Works something out from the costs, without the interpreter lock; refused where they have changed.
    fn with_costs<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&dyn Answered) -> R + Send,
    ) -> PyResult<R> {
        let kept = &self.kept;
        py.detach(|| kept.is_unchanged().then(|| work(kept.answer())))
            .ok_or_else(|| {
                PyRuntimeError::new_err(
                    "the matrix of costs was changed after it was solved for: ask for value, plan and certificate before, \
                     or solve for a copy",
                )
            })
    }

    pub(crate) fn certified(&self, py: Python<'_>) -> PyResult<earthmover::Certificate> {
        self.with_costs(py, |answer| *answer.certificate())
    }
}

/// Refuses a list of the wrong length.
fn fits(name: &str, found: usize, side: &str, expected: usize) -> PyResult<()> {
    if found == expected {
        return Ok(());
    }
    Err(ShapeError::new_err(format!(
        "{name} has {found} rows; the plan has {expected} {side}"
    )))
}

#[pymethods]
impl Solution {
    /// ⟨C, P⟩: the transport cost of the plan, slack costs included.
    #[getter]
    fn value(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.certified(py)?.objective)
    }

    /// Bounds on the optimum and the true error: two passes over the costs when first asked for.
    #[getter]
    fn certificate(&self, py: Python<'_>) -> PyResult<Certificate> {
        Ok(Certificate(self.certified(py)?))
    }

    /// How the solver ended: "converged", "iteration limit", "stalled" (rounding leaves no more digits) or "stopped".
    #[getter]
    fn status(&self) -> String {
        self.answer().status().to_string()
    }

    /// Whether the tolerance was met; of an exact answer, whether it is optimal.
    #[getter]
    fn converged(&self) -> bool {
        self.answer().status().is_converged()
    }

    /// What to try where it did not converge; None where it did.
    #[getter]
    fn advice(&self) -> Option<&'static str> {
        self.answer().advice()
    }

    /// Sweeps over the costs, or pivots.
    #[getter]
    fn iterations(&self) -> usize {
        self.answer().iterations()
    }

    /// L1 distance of the plan's marginals from the ones asked for, over the total mass, as the solver measured it.
    #[getter]
    fn violation(&self, py: Python<'_>) -> PyResult<f64> {
        self.with_costs(py, |answer| answer.violation())
    }

    /// The regularisation; 0.0 for an exact answer.
    #[getter]
    fn eps(&self) -> f64 {
        self.answer().epsilon()
    }

    /// Rows and columns of the plan.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        let marginals = self.kept.marginals();
        (marginals.rows().len(), marginals.cols().len())
    }

    /// The masses of the rows that were solved for.
    #[getter]
    fn a<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, self.kept.marginals().rows())
    }

    /// The masses of the columns that were solved for.
    #[getter]
    fn b<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, self.kept.marginals().cols())
    }

    /// Potentials (prices) of the rows; −inf where there is no mass.
    #[getter]
    fn f<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let rows = self.with_costs(py, |answer| answer.potentials().rows.clone())?;
        Ok(rows.into_pyarray(py))
    }

    /// Potentials (prices) of the columns; −inf where there is no mass.
    #[getter]
    fn g<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let cols = self.with_costs(py, |answer| answer.potentials().cols.clone())?;
        Ok(cols.into_pyarray(py))
    }

    /// The whole plan as an array of float64, worked out anew each time: rows × columns numbers, which for large problems is a
    /// lot. See `sparse` and `entries`.
    #[getter]
    fn plan<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let dense = self.with_costs(py, |answer| answer.dense())?;
        plan::matrix(py, dense, self.shape())
    }

    /// P y: for each row the sum over columns of mass times the row of `y`, without writing the plan out.
    ///
    /// `s.apply(y) / s.a[:, None]` is the barycentric map: where each row goes, on average.
    ///
    /// >>> import numpy as np, earthmover_ot as em
    /// >>> s = em.solve([[0., 1.], [1., 0.]])
    /// >>> s.apply([[1., 2.], [3., 4.]]).tolist()
    /// [[0.5, 1.0], [1.5, 2.0]]
    fn apply<'py>(
        &self,
        py: Python<'py>,
        y: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let y = double_matrix("y", y)?;
        let ((rows, cols), [found, d]) = (self.shape(), y.shape());
        fits("y", found, "columns", cols)?;
        let product = self.with_costs(py, |answer| {
            let (y, mut out) = (y.to_vec(), vec![0.0; rows * d]);
            answer.each_row(&mut |i, row| {
                let out = &mut out[i * d..][..d];
                for (mass, y) in row.iter().zip(y.chunks_exact(d.max(1))) {
                    if *mass > 0.0 {
                        out.iter_mut().zip(y).for_each(|(o, y)| *o += mass * y);
                    }
                }
            });
            out
        })?;
        plan::matrix(py, product, (rows, d))
    }

    /// Pᵀ x: for each column the sum over rows of mass times the row of `x`.
    ///
    /// >>> import earthmover_ot as em
    /// >>> em.solve([[1., 0.], [0., 1.]]).apply_t([[1.], [3.]]).tolist()
    /// [[1.5], [0.5]]
    fn apply_t<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let x = double_matrix("x", x)?;
        let ((rows, cols), [found, d]) = (self.shape(), x.shape());
        fits("x", found, "rows", rows)?;
        let product = self.with_costs(py, |answer| {
            let (x, mut out) = (x.to_vec(), vec![0.0; cols * d]);
            answer.each_row(&mut |i, row| {
                let x = &x[i * d..][..d];
                for (mass, out) in row.iter().zip(out.chunks_exact_mut(d.max(1))) {
                    if *mass > 0.0 {
                        out.iter_mut().zip(x).for_each(|(o, x)| *o += mass * x);
                    }
                }
            });
            out
        })?;
        plan::matrix(py, product, (cols, d))
    }

    /// Where points that were not in the problem go: the barycentric map of an answer of `solve_points`, for new rows. An exact answer sends
    /// a point where its cost less the column's price is least.
    ///
    /// >>> import numpy as np, earthmover_ot as em
    /// >>> x = np.linspace(0.0, 1.0, 50)[:, None]
    /// >>> s = em.solve_points(x, x + 3.0, eps=1e-3)
    /// >>> bool(abs(s.map([[0.5]])[0, 0] - 3.5) < 0.05)
    /// True
    fn map<'py>(
        &self,
        py: Python<'py>,
        x_new: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let points = double_matrix("x_new", x_new)?;
        let [count, d] = points.shape();
        let mapped = py.detach(|| self.kept.map(&points.to_vec(), d));
        let Some(mapped) = mapped else {
            return Err(OptionError::new_err(
                "map is for answers of solve_points: a matrix of costs does not say where a new point lies",
            ));
        };
        plan::matrix(py, mapped.map_err(refused)?, (count, d))
    }

    /// The entries of the plan above `threshold`, by row and column: arrays (rows, columns, masses).
    ///
    /// >>> import earthmover_ot as em
    /// >>> rows, cols, masses = em.solve([[0., 1.], [1., 0.]]).entries()
    /// >>> rows.tolist(), cols.tolist(), masses.tolist()
    /// ([0, 1], [0, 1], [0.5, 0.5])
    #[pyo3(signature = (threshold = 0.0))]
    fn entries<'py>(&self, py: Python<'py>, threshold: f64) -> PyResult<plan::Columns<'py>> {
        let entries = self.with_costs(py, |answer| answer.entries(threshold))?;
        Ok(plan::columns(py, &entries))
    }

    /// The plan as a scipy.sparse.csr_array. An exact plan of n × m has at most n + m − 1 entries; an entropic one
    /// as many as do not underflow (`entries` takes a threshold).
    #[getter]
    fn sparse<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let entries = self.with_costs(py, |answer| answer.entries(0.0))?;
        plan::csr(py, &entries, self.shape())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let answer = self.answer();
        let (rows, cols) = self.shape();
        let numbers = match self.certified(py) {
            Ok(c) => format!("value={}, gap={:.3e}", c.objective, c.gap()),
            Err(_) => "costs changed since".to_owned(),
        };
        let kind = match answer.epsilon() {
            0.0 => "exact".to_owned(),
            eps => format!("eps={eps}"),
        };
        let (status, iterations) = (answer.status(), answer.iterations());
        format!("Solution({status}, {numbers}, {rows}x{cols}, {kind}, iterations={iterations})")
    }
}
