//! The answer, which judges itself.

pub(crate) mod certificate;
mod grid;
mod nearby;
pub(crate) mod operator;
pub(crate) mod owned;
pub(crate) mod penalised;
pub(crate) mod plan;
pub(crate) mod potentials;
pub(crate) mod start;

use core::ops::Range;
use std::sync::OnceLock;

use crate::solution::certificate::Certificate;
use crate::solution::owned::{OwnedPlan, OwnedSolution};
use crate::solution::plan::{Plan, Representation};
use crate::sweep::DualPoint;
use crate::{Cost, Error, Potentials, Problem, Real};

/// How a solver ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
#[must_use]
pub enum Status {
    /// The tolerance was met; for the exact solver: optimal.
    Converged,
    /// The iteration cap came first.
    IterationLimit,
    /// No further progress was possible at the precision at hand.
    Stalled,
    /// The progress callback asked to stop, or the time limit came first; the answer is the best so far.
    Stopped,
}

impl Status {
    /// Whether the tolerance was met.
    #[must_use]
    pub fn is_converged(self) -> bool {
        self == Self::Converged
    }
}

impl core::fmt::Display for Status {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Converged => "converged",
            Self::IterationLimit => "iteration limit",
            Self::Stalled => "stalled",
            Self::Stopped => "stopped",
        })
    }
}

/// The answer to a [`Problem`], the same for every solver.
///
/// Potentials and violation are there at once; the plan's rows, the objective and the certificate are
/// worked out when first asked for.
///
/// # Examples
/// ```
/// use earthmover::{Dense, Marginals, Problem, Sinkhorn, Status};
/// let problem = Problem::new(Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2)?, Marginals::uniform(2, 2)?)?;
/// let solution = Sinkhorn::new(0.1).solve(&problem)?;
/// assert_eq!(solution.status(), Status::Converged);
/// assert!(solution.violation() <= 1e-6);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "look at `status` before trusting the answer"]
pub struct Solution<'p, T, C> {
    problem: &'p Problem<T, C>,
    potentials: Potentials,
    shape: Representation,
    status: Status,
    iterations: usize,
    /// As the solver measured it, if it did.
    violation: Option<f64>,
    /// The potentials with the row side, of an entropic answer that was asked for it.
    both_sides: OnceLock<Potentials>,
    certificate: OnceLock<Certificate>,
}

/// An answer without its question.
#[derive(Debug)]
#[allow(unreachable_pub)]
pub struct Answer {
    potentials: Potentials,
    shape: Representation,
    status: Status,
    iterations: usize,
    violation: Option<f64>,
}

impl Answer {
    /// The answer for costs that are dearer by these amounts, row by row and column by column.
    pub(crate) fn raised(mut self, rows: &[f64], cols: &[f64]) -> Self {
        let raise = |prices: &mut [f64], by: &[f64]| {
            prices.iter_mut().zip(by).for_each(|(p, by)| *p += by);
        };
        raise(&mut self.potentials.rows, rows);
        raise(&mut self.potentials.cols, cols);
        self
    }

    /// What it says of some of the rows.
    pub(crate) fn of_rows(mut self, rows: Range<usize>) -> Self {
        if !self.potentials.rows.is_empty() {
            self.potentials.rows = self.potentials.rows[rows.clone()].to_vec();
        }
        if let Representation::Sparse(sparse) = &mut self.shape {
            *sparse = sparse.part(rows);
        }
        self
    }
}

impl<'p, T: Real, C: Cost<T>> Solution<'p, T, C> {
    /// The answer to this question.
    pub(crate) fn of(problem: &'p Problem<T, C>, answer: Answer) -> Self {
        let Answer {
            potentials,
            shape,
            status,
            iterations,
            violation,
        } = answer;
        Self::new(problem, potentials, shape, status, iterations, violation)
    }

    /// Without the question.
    pub(crate) fn into_answer(self) -> Answer {
        Answer {
            potentials: self.potentials,
            shape: self.shape,
            status: self.status,
            iterations: self.iterations,
            violation: self.violation,
        }
    }

    pub(crate) fn new(
        problem: &'p Problem<T, C>,
        potentials: Potentials,
        shape: Representation,
        status: Status,
        iterations: usize,
        violation: Option<f64>,
    ) -> Self {
        Self {
            problem,
            potentials,
            shape,
            status,
            iterations,
            violation,
            both_sides: OnceLock::new(),
            certificate: OnceLock::new(),
        }
    }

    /// How the solver ended.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The answer if it converged, otherwise what it lacked: for callers who accept nothing less.
    ///
    /// # Errors
    /// [`NotConverged`] with the status, the violation and the iterations.
    pub fn converged(self) -> Result<Self, NotConverged> {
        if self.status.is_converged() {
            return Ok(self);
        }
        Err(NotConverged {
            status: self.status,
            violation: self.violation(),
            iterations: self.iterations,
            advice: self.advice(),
        })
    }

    /// The dual variables. The row side of an entropic answer follows from the column side; it is worked
    /// out when first asked for, in one pass over the cost.
    #[must_use]
    pub fn potentials(&self) -> &Potentials {
        match self.shape {
            Representation::Sparse(_) => &self.potentials,
            Representation::Gibbs { epsilon, lift } => self.both_sides.get_or_init(|| {
                let found = &self.potentials;
                let mut rows = T::row_potentials(&self.problem.erased(), found, epsilon, lift);
                let mut cols = found.cols.clone();
                if lift != 0.0 {
                    rows.iter_mut().for_each(|f| *f -= lift);
                    cols.iter_mut().for_each(|g| *g += lift);
                }
                Potentials {
                    rows,
                    cols,
                    ..*found
                }
            }),
        }
    }

    /// The entries of an exact answer.
    pub(crate) fn sparse(&self) -> Option<&plan::SparseRows> {
        match &self.shape {
            Representation::Sparse(rows) => Some(rows),
            Representation::Gibbs { .. } => None,
        }
    }

    /// This answer, with the other's status and number of iterations.
    pub(crate) fn ended_like(self, other: &Self) -> Self {
        self.with_status(other.status, other.iterations)
    }

    /// How the plan is kept.
    pub(crate) fn representation(&self) -> &Representation {
        &self.shape
    }

    /// What column potentials are kept without.
    pub(crate) fn lift(&self) -> f64 {
        match self.shape {
            Representation::Gibbs { lift, .. } => lift,
            Representation::Sparse(_) => 0.0,
        }
    }

    /// This answer, with another status and number of iterations.
    pub(crate) fn with_status(mut self, status: Status, iterations: usize) -> Self {
        (self.status, self.iterations) = (status, iterations);
        self
    }

    /// The question.
    pub(crate) fn problem(&self) -> &'p Problem<T, C> {
        self.problem
    }

    /// The column side alone: all that a warm start needs. `rows` is empty for an entropic answer.
    pub(crate) fn columns(&self) -> &Potentials {
        &self.potentials
    }

    /// The same, without keeping the rest.
    pub(crate) fn into_columns(self) -> Potentials {
        let lift = self.lift();
        let mut potentials = self.potentials;
        potentials.cols.iter_mut().for_each(|g| *g += lift);
        potentials
    }

    /// The dual variables, without keeping the rest.
    #[must_use]
    pub fn into_potentials(self) -> Potentials {
        self.potentials().clone()
    }

    /// The answer without the problem it borrows, its plan written out: the few entries of an exact one, all rows × columns of an
    /// entropic one (see [`into_owned_above`](Self::into_owned_above) for less). Works the certificate out if nobody
    /// has asked for it before.
    pub fn into_owned(self) -> OwnedSolution {
        let (rows, cols) = (self.problem.rows(), self.problem.cols());
        let plan = match &self.shape {
            Representation::Sparse(_) => return self.into_owned_above(0.0),
            Representation::Gibbs { .. } => self.plan().to_dense(),
        };
        self.owned(OwnedPlan::Dense {
            rows,
            cols,
            masses: plan,
        })
    }

    /// The same, keeping only the entries of the plan that carry more than `threshold`.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, Entropic, Marginals, Problem};
    /// let problem = Problem::new(Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2)?, Marginals::uniform(2, 2)?)?;
    /// let answer = Entropic::new(0.05).solve(&problem)?.into_owned_above(1e-6);
    /// drop(problem);
    /// assert_eq!(answer.plan.entries(0.0).len(), 2);
    /// assert!((answer.plan.mass() - 1.0).abs() < 1e-6);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn into_owned_above(self, threshold: f64) -> OwnedSolution {
        let plan = OwnedPlan::Sparse {
            rows: self.problem.rows(),
            cols: self.problem.cols(),
            entries: self.plan().entries(threshold),
        };
        self.owned(plan)
    }

    fn owned(self, plan: OwnedPlan) -> OwnedSolution {
        OwnedSolution {
            status: self.status,
            iterations: self.iterations,
            violation: self.violation(),
            epsilon: self.epsilon(),
            certificate: *self.certificate(),
            potentials: self.into_potentials(),
            plan,
        }
    }

    /// An answer that was written down before, to the problem it was found for: its potentials and, of an exact one (`epsilon` of
    /// zero), the entries of its plan. What is not kept follows from the costs, as ever; nothing is taken on trust but the status.
    ///
    /// # Errors
    /// [`Error::Length`] for potentials of another shape, [`Error::Start`] where one is NaN or +∞, [`Error::Index`] for an entry
    /// outside the plan, [`Error::Option`] for an `epsilon` that is none.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, Entropic, Marginals, Problem, Solution};
    /// let problem = Problem::new(Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2)?, Marginals::uniform(2, 2)?)?;
    /// let found = Entropic::new(0.05).solve(&problem)?;
    /// let again = Solution::restored(&problem, found.potentials().clone(), 0.05, &[], found.status(), 3)?;
    /// assert_eq!(again.plan().to_dense(), found.plan().to_dense());
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn restored(
        problem: &'p Problem<T, C>,
        potentials: Potentials,
        epsilon: f64,
        entries: &[plan::Entry],
        status: Status,
        iterations: usize,
    ) -> Result<Self, Error> {
        let (rows, cols) = (problem.rows(), problem.cols());
        start::columns(&potentials, problem.marginals())?;
        let shape = if epsilon > 0.0 && epsilon.is_finite() {
            Representation::Gibbs { epsilon, lift: 0.0 }
        } else if epsilon == 0.0 {
            if potentials.rows.len() != rows {
                return Err(Error::Length {
                    what: "row potentials",
                    expected: rows,
                    found: potentials.rows.len(),
                });
            }
            let outside = |index: usize, len: usize, what| {
                (index >= len).then_some(Error::Index { what, index, len })
            };
            for e in entries {
                let wrong = outside(e.row, rows, "row").or(outside(e.col, cols, "column"));
                wrong.map_or(Ok(()), Err)?;
            }
            let entries = entries.iter().map(|e| (e.row, e.col, e.mass)).collect();
            Representation::Sparse(plan::SparseRows::new(rows, entries))
        } else {
            return Err(Error::Option {
                name: "epsilon",
                value: epsilon,
                expected: "a number above zero, or zero for an exact answer",
            });
        };
        Ok(Self::new(
            problem, potentials, shape, status, iterations, None,
        ))
    }

    /// The transport plan.
    #[must_use]
    pub fn plan(&self) -> Plan<'_, T, C> {
        Plan::new(self.problem, &self.potentials, &self.shape)
    }

    /// Iterations used: sweeps over the cost, or pivots of the simplex.
    #[must_use]
    pub fn iterations(&self) -> usize {
        self.iterations
    }

    /// L1 distance of the plan's marginals from the ones asked for, over the total mass, as the solver measured it when it
    /// ended; where masses are penalised, from those that the potentials ask for, over the mass moved. The [`certificate`](Self::certificate) measures the same anew from the costs in `f64`; the two differ by
    /// rounding.
    #[must_use]
    pub fn violation(&self) -> f64 {
        self.violation
            .unwrap_or_else(|| self.certificate().violation)
    }

    /// What to try where the answer did not converge; `None` where it did.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, Marginals, Problem, Sinkhorn};
    /// let problem = Problem::new(Dense::new(&[0.0, 1.0, 2.0, 0.0], 2, 2)?, Marginals::balanced(&[0.3, 0.7], &[0.6, 0.4])?)?;
    /// let solution = Sinkhorn::new(1e-4).max_iterations(3).solve(&problem)?;
    /// assert!(solution.advice().is_some_and(|advice| advice.contains("anneal")));
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match (self.status, &self.shape) {
            (Status::Converged, _) => None,
            (Status::Stopped, _) => {
                Some("it was told to stop: allow more time, or go on from its potentials")
            }
            (Status::IterationLimit, Representation::Sparse(_)) => {
                Some("allow more iterations, or go on from its potentials")
            }
            (Status::IterationLimit, Representation::Gibbs { epsilon, .. }) => {
                // Asked of some rows of all members, who may not all ask.
                if self.problem.cost().shard().is_some() {
                    return Some(
                        "allow more iterations or a larger epsilon, or go on from its potentials",
                    );
                }
                let spread = T::spread(&self.problem.erased(), *epsilon);
                Some(if spread > 300.0 * epsilon {
                    "epsilon is far below the spread of the costs: `Entropic` anneals it by itself, `Epsilon::Annealed` \
                     does for `Sinkhorn`"
                } else {
                    "allow more iterations, or go on from its potentials"
                })
            }
            (Status::Stalled, _) => Some(
                "rounding leaves no more digits at this epsilon: allow a larger tolerance or epsilon, or hold the costs in f64",
            ),
        }
    }

    /// The regularisation of an entropic answer; zero for an exact one.
    #[must_use]
    pub fn epsilon(&self) -> f64 {
        match self.shape {
            Representation::Gibbs { epsilon, .. } => epsilon,
            Representation::Sparse(_) => 0.0,
        }
    }

    /// Bounds on the optimum and the true error. Two passes over the cost when first asked for; where a [team](crate::team) holds the
    /// rows, all members ask.
    #[must_use]
    pub fn certificate(&self) -> &Certificate {
        self.certificate
            .get_or_init(|| T::certify(&self.problem.erased(), &self.potentials, &self.shape))
    }

    /// Transport cost ⟨C, P⟩ of the plan as it is, slack costs and penalties included.
    #[must_use]
    pub fn objective(&self) -> f64 {
        self.certificate().objective
    }

    /// How a row that is *not* in the problem would be spread: the share of its mass for each column,
    /// and for the slack column. An exact answer sends it where `C_j − g_j` is least.
    ///
    /// # Errors
    /// [`Error::Length`] for a row of the wrong length, [`Error::Cost`] for a NaN or −∞ in it (as row
    /// 0), [`Error::Blocked`] where all its pairs are forbidden.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, Marginals, Problem, Sinkhorn};
    /// let problem = Problem::new(Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2)?, Marginals::uniform(2, 2)?)?;
    /// let solution = Sinkhorn::new(0.1).solve(&problem)?;
    /// let (shares, slack) = solution.conditional(&[0.2, 0.2])?;
    /// assert!((shares[0] - 0.5).abs() < 1e-6 && slack == 0.0);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn conditional(&self, cost_row: &[T]) -> Result<(Vec<f64>, f64), Error> {
        let (expected, found) = (self.problem.cols(), cost_row.len());
        if expected != found {
            return Err(Error::Length {
                what: "cost row",
                expected,
                found,
            });
        }
        if let Some(col) = cost_row
            .iter()
            .position(|c| c.is_nan() || *c == T::neg_infinity())
        {
            return Err(Error::Cost {
                row: 0,
                col,
                value: cost_row[col].widen(),
            });
        }
        // At ε → 0 the softmax is the hard minimum; the smallest normal number is close enough.
        let epsilon = match self.shape {
            Representation::Gibbs { epsilon, .. } => epsilon,
            Representation::Sparse(_) => f64::MIN_POSITIVE,
        };
        let point: DualPoint<'_> = self
            .potentials
            .dual_point(epsilon, self.problem.marginals().slack());
        let mut shares = vec![0.0; found];
        let (slack, f) = point.row(1.0, cost_row.iter().map(|c| c.widen()), &mut shares);
        if f == f64::INFINITY {
            return Err(Error::Blocked {
                side: crate::Side::Rows,
                index: 0,
                mass: 1.0,
            });
        }
        Ok((shares, slack))
    }
}

/// An answer that did not meet its tolerance, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[error(
    "not converged: {status} after {iterations} iterations with a marginal violation of {violation:e}{}{}",
    if advice.is_some() { "; " } else { "" }, advice.unwrap_or_default()
)]
pub struct NotConverged {
    /// How the solver ended.
    pub status: Status,
    /// L1 distance of the plan's marginals from the ones asked for, over the total mass.
    pub violation: f64,
    /// Iterations used.
    pub iterations: usize,
    /// What to try.
    pub advice: Option<&'static str>,
}
