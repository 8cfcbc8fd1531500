//! The answer as Python sees it.
//!
//! An answer of the library borrows its problem, which borrows its cost, which borrows the data. Here they are kept together, each
//! in a cell with what it borrows from.

use earthmover::{Cost, Entry, Error, Marginals, Potentials, Problem, Real, Status};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use self_cell::self_cell;

use crate::arrays::Scalar;
use crate::cost::{Data, Metrics};

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
}

/// An answer with all that it is about.
pub(crate) trait Kept: Send + Sync {
    fn answer(&self) -> &dyn Answered;
    fn is_unchanged(&self) -> bool;
    fn marginals(&self) -> &Marginals;
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
        let (rows, cols) = self.shape();
        let dense = self.with_costs(py, |answer| answer.dense())?;
        dense.into_pyarray(py).reshape([rows, cols])
    }

    /// The entries of the plan above `threshold`, by row and column: arrays (rows, columns, masses).
    ///
    /// >>> import earthmover_ot as em
    /// >>> rows, cols, masses = em.solve([[0., 1.], [1., 0.]]).entries()
    /// >>> rows.tolist(), cols.tolist(), masses.tolist()
    /// ([0, 1], [0, 1], [0.5, 0.5])
    #[pyo3(signature = (threshold = 0.0))]
    fn entries<'py>(&self, py: Python<'py>, threshold: f64) -> PyResult<Columns<'py>> {
        let entries = self.with_costs(py, |answer| answer.entries(threshold))?;
        let rows: Vec<i64> = entries.iter().map(|e| e.row as i64).collect();
        let cols: Vec<i64> = entries.iter().map(|e| e.col as i64).collect();
        let mass: Vec<f64> = entries.iter().map(|e| e.mass).collect();
        Ok((
            rows.into_pyarray(py),
            cols.into_pyarray(py),
            mass.into_pyarray(py),
        ))
    }

    /// The plan as a scipy.sparse.csr_array. An exact plan of n × m has at most n + m − 1 entries; an entropic one
    /// as many as do not underflow (`entries` takes a threshold).
    #[getter]
    fn sparse<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (rows, cols, mass) = self.entries(py, 0.0)?;
        let csr = py.import("scipy.sparse")?.getattr("csr_array")?;
        csr.call1(((mass, (rows, cols)), self.shape()))
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

type Columns<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<f64>>,
);
