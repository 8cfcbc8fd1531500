//! The answer as Python sees it.
//!
//! An answer of the library borrows its problem, which borrows its cost, which borrows the data. Here they are kept together, each
//! in a cell with what it borrows from.

use std::sync::OnceLock;

use earthmover::loss::{self, Cotangent};
use earthmover::{Cost, Entry, Error, Marginals, Potentials, Problem, Real, Reference, Status};
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use self_cell::self_cell;

use crate::arrays::{Columns, Scalar, double_matrix, optional_vector};
use crate::cost::Data;
use crate::errors::{OptionError, ShapeError, refused};
use crate::pickle::{self, State};
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
    fn regularised(&self, reference: Reference) -> f64;
    fn transport_cost(&self) -> f64;
    fn dense(&self) -> Vec<f64>;
    fn entries(&self, threshold: f64) -> Vec<Entry>;
    fn apply(&self, y: &[f64], d: usize) -> Result<Vec<f64>, Error>;
    fn apply_transposed(&self, x: &[f64], d: usize) -> Result<Vec<f64>, Error>;
    fn map(&self, points: &[f64]) -> Result<Vec<f64>, Error>;
    fn gradient_points(&self) -> Result<(Vec<f64>, Vec<f64>), Error>;
    fn gradient_masses(&self) -> (Vec<f64>, Vec<f64>);
    /// Gradients of a function with this cotangent and, where asked for, those of the cost.
    fn pull_back(
        &self,
        cotangent: &Cotangent<'_>,
        by_cost: bool,
    ) -> Result<(loss::PullBack, Option<Vec<f64>>), Error>;
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
    fn regularised(&self, reference: Reference) -> f64 {
        self.regularised(reference)
    }
    fn transport_cost(&self) -> f64 {
        self.transport_cost()
    }
    fn dense(&self) -> Vec<f64> {
        self.plan().to_dense()
    }
    fn entries(&self, threshold: f64) -> Vec<Entry> {
        self.plan().entries(threshold)
    }
    fn apply(&self, y: &[f64], d: usize) -> Result<Vec<f64>, Error> {
        self.plan().apply(y, d)
    }
    fn apply_transposed(&self, x: &[f64], d: usize) -> Result<Vec<f64>, Error> {
        self.plan().apply_transposed(x, d)
    }
    fn map(&self, points: &[f64]) -> Result<Vec<f64>, Error> {
        let narrow: Vec<T> = points.iter().map(|x| T::narrow(*x)).collect();
        self.map_points(&narrow)
    }
    fn gradient_points(&self) -> Result<(Vec<f64>, Vec<f64>), Error> {
        self.gradient_points()
    }
    fn gradient_masses(&self) -> (Vec<f64>, Vec<f64>) {
        self.gradient_masses()
    }
    fn pull_back(
        &self,
        cotangent: &Cotangent<'_>,
        by_cost: bool,
    ) -> Result<(loss::PullBack, Option<Vec<f64>>), Error> {
        let found = self.pull_back(cotangent)?;
        let cost = by_cost.then(|| found.cost(self, cotangent.plan));
        Ok((found, cost.transpose()?))
    }
}

/// An answer with all that it is about.
pub(crate) trait Kept: Send + Sync {
    fn answer(&self) -> &dyn Answered;
    fn is_unchanged(&self) -> bool;
    fn marginals(&self) -> &Marginals;
    /// The number of coordinates where the cost is made of points.
    fn dimension(&self) -> Option<usize>;
    /// What the cost is made of, for Python to write down.
    fn written<'py>(&self, py: Python<'py>) -> PyResult<pickle::Written<'py>>;
}

/// A solver, as a function of the question.
pub(crate) type Solve<'s, T> = dyn for<'p, 'c> Fn(
        &'p Problem<T, &'c (dyn Cost<T> + 'c)>,
    ) -> Result<earthmover::Solution<'p, T, &'c (dyn Cost<T> + 'c)>, Error>
    + Sync
    + 's;

/// A scalar whose questions can be answered and kept.
pub(crate) trait Keeps: Scalar {
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
                fn dimension(&self) -> Option<usize> {
                    let data = self.borrow_owner().borrow_owner().borrow_owner();
                    data.dimension()
                }
                fn written<'py>(&self, py: Python<'py>) -> PyResult<pickle::Written<'py>> {
                    let data = self.borrow_owner().borrow_owner().borrow_owner();
                    pickle::write(py, data)
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
    by_points: OnceLock<Result<Sides, Error>>,
    by_masses: OnceLock<Sides>,
}

/// Numbers for the rows and for the columns.
type Sides = (Vec<f64>, Vec<f64>);

impl Solution {
    pub(crate) fn new(kept: Box<dyn Kept>) -> Self {
        Self {
            kept,
            by_points: OnceLock::new(),
            by_masses: OnceLock::new(),
        }
    }

    pub(crate) fn kept(&self) -> &dyn Kept {
        self.kept.as_ref()
    }

    pub(crate) fn answer(&self) -> &dyn Answered {
        self.kept.answer()
    }

    /// Works something out from the costs, without the interpreter lock; refused where they have changed.
    pub(crate) fn with_costs<R: Send>(
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

    fn point_gradients(&self, py: Python<'_>) -> PyResult<(&Sides, usize)> {
        let found = match self.by_points.get() {
            Some(found) => found,
            None => {
                let found = self.with_costs(py, |answer| answer.gradient_points())?;
                self.by_points.get_or_init(|| found)
            }
        };
        let found = found.as_ref().map_err(|error| refused(error.clone()))?;
        Ok((found, self.kept.dimension().unwrap_or(1)))
    }

    fn mass_gradients(&self, py: Python<'_>) -> PyResult<&Sides> {
        if let Some(found) = self.by_masses.get() {
            return Ok(found);
        }
        let found = self.with_costs(py, |answer| answer.gradient_masses())?;
        Ok(self.by_masses.get_or_init(|| found))
    }
}

#[pymethods]
impl Solution {
    /// What the plan costs: ⟨C, P⟩, slack costs and penalties included, entropy not.
    #[getter]
    fn value(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.certified(py)?.objective)
    }

    /// ⟨C, P⟩ alone: without what penalised masses pay.
    #[getter]
    fn transport_cost(&self, py: Python<'_>) -> PyResult<f64> {
        self.with_costs(py, |answer| answer.transport_cost())
    }

    /// The value of the regularised problem, ⟨C, P⟩ + eps KL(P | a ⊗ b), slack costs and penalties included: what `grad_…` are the
    /// gradients of. A dual value, closer to the optimum than the plan is; `value` where there is no eps.
    ///
    /// >>> import numpy as np, earthmover_ot as em
    /// >>> s = em.solve([[0., 1.], [1., 0.]], eps=1.0, tol=1e-12)
    /// >>> kl = (s.plan * np.log(s.plan / 0.25)).sum()
    /// >>> bool(abs(s.regularised - (s.value + kl)) < 1e-9)
    /// True
    #[getter]
    fn regularised(&self, py: Python<'_>) -> PyResult<f64> {
        self.with_costs(py, |answer| answer.regularised(Reference::Product))
    }

    /// The gradient of the regularised value (of the optimum, for an exact answer) with respect to the masses of the rows. Where masses are
    /// kept only changes that leave both totals equal make sense, and a constant may be moved from one side to the other.
    #[getter]
    fn grad_a<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        Ok(PyArray1::from_slice(py, &self.mass_gradients(py)?.0))
    }

    /// The same with respect to the masses of the columns.
    #[getter]
    fn grad_b<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        Ok(PyArray1::from_slice(py, &self.mass_gradients(py)?.1))
    }

    /// The gradient of the same with respect to the points of the rows: Σ_j P_ij ∂c(x_i, y_j)/∂x_i. Answers of `solve_points` have it.
    ///
    /// >>> import earthmover_ot as em
    /// >>> em.solve_points([[0.], [1.]], [[3.]], eps=0.1).grad_x.round(9).tolist()         # half of 2 (x − y) each
    /// [[-3.0], [-2.0]]
    #[getter]
    fn grad_x<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (found, d) = self.point_gradients(py)?;
        plan::matrix(py, found.0.clone(), (self.shape().0, d))
    }

    /// The same with respect to the points of the columns.
    #[getter]
    fn grad_y<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (found, d) = self.point_gradients(py)?;
        plan::matrix(py, found.1.clone(), (self.shape().1, d))
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

    /// P y: for each row the sum over columns of mass times the row (or number) of `y`, without writing the plan out.
    ///
    /// `s.apply(y) / s.a[:, None]` is the barycentric map: where each row goes, on average.
    ///
    /// >>> import numpy as np, earthmover_ot as em
    /// >>> s = em.solve([[0., 1.], [1., 0.]])
    /// >>> s.apply([[1., 2.], [3., 4.]]).tolist(), s.apply([1., 3.]).tolist()
    /// ([[0.5, 1.0], [1.5, 2.0]], [0.5, 1.5])
    fn apply<'py>(&self, py: Python<'py>, y: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (rows, cols) = self.shape();
        let y = Columns::read("y", y, cols, "columns of the plan")?;
        let product = self.with_costs(py, |answer| answer.apply(&y.values, y.width))?;
        y.shaped(py, product.map_err(refused)?, rows)
    }

    /// Pᵀ x: for each column the sum over rows of mass times the row (or number) of `x`.
    ///
    /// >>> import earthmover_ot as em
    /// >>> em.solve([[1., 0.], [0., 1.]]).apply_t([[1.], [3.]]).tolist()
    /// [[1.5], [0.5]]
    fn apply_t<'py>(&self, py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (rows, cols) = self.shape();
        let x = Columns::read("x", x, rows, "rows of the plan")?;
        let product = self.with_costs(py, |answer| answer.apply_transposed(&x.values, x.width))?;
        x.shaped(py, product.map_err(refused)?, cols)
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
        let Some(dimension) = self.kept.dimension() else {
            return Err(OptionError::new_err(
                "map is for answers of solve_points: a matrix of costs does not say where a new point lies",
            ));
        };
        let points = double_matrix("x_new", x_new)?;
        let [count, d] = points.shape();
        if d != dimension {
            return Err(ShapeError::new_err(format!(
                "x_new has points of {d} coordinates, the problem of {dimension}"
            )));
        }
        let points = points.to_vec();
        let mapped = self.with_costs(py, |answer| answer.map(&points))?;
        plan::matrix(py, mapped.map_err(refused)?, (count, d))
    }

    /// Gradients of any function of the plan or the potentials, given its derivatives with respect to them, by implicit differentiation: a
    /// dict of `a`, `b` and `cost`, or `x` and `y` where the costs are made of points, and `residual`, which says how well it was solved
    /// for. Entropic answers without slack have it; solve them well below the accuracy you want.
    ///
    /// >>> import numpy as np, earthmover_ot as em
    /// >>> s = em.solve([[0., 1.], [2., 0.5]], eps=0.5, tol=1e-12)
    /// >>> back = s.pull_back(plan=[[1., 0.], [0., 0.]])              # how much of P_00 a dearer first pair costs
    /// >>> back["cost"].round(3).tolist(), back["residual"] < 1e-9
    /// ([[-0.035, 0.035], [0.035, -0.035]], True)
    #[pyo3(signature = (plan=None, f=None, g=None))]
    fn pull_back<'py>(
        &self,
        py: Python<'py>,
        plan: Option<&Bound<'py, PyAny>>,
        f: Option<&Bound<'py, PyAny>>,
        g: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let by_plan = plan.filter(|p| !p.is_none());
        let by_plan = by_plan.map(|p| double_matrix("plan", p)).transpose()?;
        let list = |what, given| {
            PyResult::Ok(optional_vector(what, given)?.map_or_else(Vec::new, |v| v.values))
        };
        let (by_f, by_g) = (list("f", f)?, list("g", g)?);
        let dimension = self.kept.dimension();
        let found = self.with_costs(py, |answer| {
            let cotangent = Cotangent {
                plan: by_plan.as_ref().map(|p| p as &dyn Cost<f64>),
                rows: by_f,
                cols: by_g,
            };
            answer.pull_back(&cotangent, dimension.is_none())
        })?;
        let (found, by_cost) = found.map_err(refused)?;
        let told = PyDict::new(py);
        told.set_item("a", found.row_masses.into_pyarray(py))?;
        told.set_item("b", found.col_masses.into_pyarray(py))?;
        if let Some(cost) = by_cost {
            told.set_item("cost", plan::matrix(py, cost, self.shape())?)?;
        }
        if let Some(d) = dimension.filter(|_| !found.row_points.is_empty()) {
            let (rows, cols) = self.shape();
            told.set_item("x", plan::matrix(py, found.row_points, (rows, d))?)?;
            told.set_item("y", plan::matrix(py, found.col_points, (cols, d))?)?;
        }
        told.set_item("residual", found.residual)?;
        Ok(told)
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

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, State<'py>)> {
        Ok((
            slf.getattr("_restored")?,
            pickle::state(slf.py(), slf.get())?,
        ))
    }

    #[classmethod]
    #[pyo3(signature = (*state))]
    fn _restored(kind: &Bound<'_, PyType>, state: State<'_>) -> PyResult<Self> {
        pickle::restored(kind.py(), state)
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
