//! Allocation under richer bounds than the transport form can say, entropic and exact.
//!
//! ```text
//! minimise ⟨Q, C⟩   subject to   0 ≤ Q_ij ≤ cap                        (multi-label: one)
//!                                Σ_j Q_ij ≤ a_i                        (rows: N labels, or a curriculum)
//!                                n lower_j ≤ Σ_i Q_ij ≤ n upper_j      (classes)
//!                                n lower_G ≤ Σ_{j∈G} Σ_i Q_ij ≤ n upper_G   (nested or disjoint groups)
//!                                Σ_ij Q_ij ≥ ρ Σ_i a_i                 (how much in all)
//! ```
//!
//! These are the extensions that the paper names: subsets of classes, lower bounds, multi-label allocation, bounds
//! that change over time (pose the question anew with other bounds). Here shares of examples become masses and
//! probabilities costs; [`earthmover::bounded`] answers: [`solve`](ConstrainedAllocation::solve) by Bregman projections and Newton's
//! steps at a given γ, [`solve_exact`](ConstrainedAllocation::solve_exact) by minimum-cost flow.
//! Bounds are taken as they are said here, without the unit of slack that the paper adds.

use std::time::Duration;

use earthmover::bounded::{Acceleration, BoundedSolution, BoundedTransport, BregmanProjections};
use earthmover::flow::MinCostFlow;
use earthmover::{Certificate, Dense, Status};

use super::Bounds;
use super::allocator::{COST_CEILING, check_length, check_row, check_settings, check_shape};
use super::share;
use crate::Error;

/// The question: which bounds an allocation has to keep.
///
/// # Examples
/// Two labels for each of three examples, no class left out:
/// ```
/// use earthmover_ssl::allocation::{Bounds, ConstrainedAllocation};
/// let p: [f32; 9] = [0.6, 0.3, 0.1, 0.6, 0.3, 0.1, 0.5, 0.3, 0.2];
/// let allocation = ConstrainedAllocation::new(3)
///     .labels_per_example(2.0)
///     .entry_cap(1.0)
///     .bounds(Bounds::between(&[0.0, 0.0, 1.0 / 3.0], &[1.0; 3])?)
///     .rho(1.0);
/// let exact = allocation.solve_exact(&p.map(f32::ln))?;
/// // The third class is cheapest for the last example.
/// assert_eq!(exact.plan(), [1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
/// # Ok::<(), earthmover_ssl::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct ConstrainedAllocation {
    classes: usize,
    labels: f64,
    row_bounds: Option<Vec<f64>>,
    bounds: Option<Bounds>,
    groups: Vec<(Vec<usize>, f64, f64)>,
    cap: f64,
    rho: f64,
    gamma: f64,
    tolerance: f64,
    max_iterations: usize,
    acceleration: Acceleration,
    time_limit: Option<Duration>,
}

impl ConstrainedAllocation {
    /// Nothing bounded yet but one label per example.
    pub fn new(classes: usize) -> Self {
        Self {
            classes,
            labels: 1.0,
            row_bounds: None,
            bounds: None,
            groups: Vec::new(),
            cap: f64::INFINITY,
            rho: 1.0,
            gamma: 100.0,
            tolerance: 1e-6,
            max_iterations: 10_000,
            acceleration: Acceleration::default(),
            time_limit: None,
        }
    }

    /// How many labels an example may get, N. Default: 1.
    pub fn labels_per_example(mut self, labels: f64) -> Self {
        self.labels = labels;
        self
    }

    /// How much label each example may get, in place of N for all. Default: N.
    pub fn row_bounds(mut self, row_bounds: Vec<f64>) -> Self {
        self.row_bounds = Some(row_bounds);
        self
    }

    /// Lower and upper bounds on each class, as shares of the number of examples. Default: none.
    pub fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = Some(bounds);
        self
    }

    /// Bounds a set of classes together, as shares of the number of examples; `upper` may be +∞. Groups must be nested
    /// or disjoint.
    pub fn group(
        mut self,
        classes: impl IntoIterator<Item = usize>,
        lower: f64,
        upper: f64,
    ) -> Self {
        self.groups
            .push((classes.into_iter().collect(), lower, upper));
        self
    }

    /// The most any one example may get of any one class; one for multi-label allocation. Default: no cap.
    pub fn entry_cap(mut self, cap: f64) -> Self {
        self.cap = cap;
        self
    }

    /// Share ρ of the examples' mass that must be allocated. Default: 1.
    pub fn rho(mut self, rho: f64) -> Self {
        self.rho = rho;
        self
    }

    /// Inverse regularisation of [`solve`](Self::solve). Default: 100.
    pub fn gamma(mut self, gamma: f64) -> Self {
        self.gamma = gamma;
        self
    }

    /// Error of the bounded sums over the mass at which [`solve`](Self::solve) stops. Default: 1e-6.
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Cap on the passes over the costs: cycles of projections and Newton's steps. Default: 10,000.
    pub fn max_iterations(mut self, max_iterations: usize) -> Self {
        self.max_iterations = max_iterations;
        self
    }

    /// Stops with [`Status::Stopped`] when this much time has passed; obeyed within a cycle of projections or a block of pivots. What
    /// is found by then need not keep the bounds: the certificate says how far off it is. Default: never.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// What [`solve`](Self::solve) does between cycles of projections. Default: Newton's steps.
    pub fn acceleration(mut self, acceleration: Acceleration) -> Self {
        self.acceleration = acceleration;
        self
    }

    /// The entropic answer, from log-probabilities of k values per example.
    ///
    /// # Errors
    /// As for [`observe`](super::LabelAllocator::observe) for the log-probabilities; [`Error::Bound`],
    /// [`Error::Crossed`], [`Error::Option`] for values out of range; [`Error::NotLaminar`] for groups that
    /// overlap; [`Error::Infeasible`] for bounds that contradict each other.
    pub fn solve(&self, log_probs: &[f32]) -> Result<ConstrainedSolution, Error> {
        check_settings(self.gamma, self.tolerance)?;
        let mut solver = BregmanProjections::new(1.0 / self.gamma)
            .tolerance(self.tolerance)
            .max_iterations(self.max_iterations)
            .acceleration(self.acceleration);
        if let Some(limit) = self.time_limit {
            solver = solver.time_limit(limit);
        }
        self.answer(log_probs, |transport| transport.solve_entropic(&solver))
    }

    /// The exact answer, by minimum-cost flow.
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    pub fn solve_exact(&self, log_probs: &[f32]) -> Result<ConstrainedSolution, Error> {
        let solver = match self.time_limit {
            None => MinCostFlow::new(),
            Some(limit) => MinCostFlow::new().time_limit(limit),
        };
        self.answer(log_probs, |transport| transport.solve_with(&solver))
    }

    /// Poses the question in masses and costs, and reads the answer in labels.
    fn answer(
        &self,
        log_probs: &[f32],
        solve: impl FnOnce(&Transport<'_>) -> Result<BoundedSolution, earthmover::Error>,
    ) -> Result<ConstrainedSolution, Error> {
        let n = self.check(log_probs)?;
        let (rows, scale) = (self.rows(n)?, n as f64);
        let costs: Vec<f32> = log_probs.iter().map(|l| cost(*l)).collect();
        let mut transport = BoundedTransport::new(Dense::new(&costs, n, self.classes)?)
            .row_bounds(rows.iter().map(|a| ..=*a))
            .entry_cap(self.cap)
            .total(self.rho * rows.iter().sum::<f64>()..);
        if let Some(bounds) = &self.bounds {
            check_length("class bounds", self.classes, bounds.classes())?;
            let pairs = bounds.lower().iter().zip(bounds.upper());
            transport = transport.col_bounds(pairs.map(|(low, high)| scale * low..=scale * high));
        }
        for (set, lower, upper) in &self.groups {
            transport = transport.group(set.iter().copied(), scale * lower..=scale * upper);
        }
        let solution = solve(&transport).map_err(in_labels)?;
        Ok(ConstrainedSolution {
            plan: solution.to_dense(),
            mass: solution.col_sums(),
            solution,
            labels: self.labels,
        })
    }

    /// Checks what is said in shares; the number of examples.
    fn check(&self, log_probs: &[f32]) -> Result<usize, Error> {
        let k = self.classes;
        let n = log_probs.len() / k.max(1);
        check_shape(n, k)?;
        check_length("log-probabilities", n * k, log_probs.len())?;
        for (row, log_p) in log_probs.chunks_exact(k).enumerate() {
            check_row(row, log_p)?;
        }
        share("rho", self.rho)?;
        if self.cap.is_nan() || self.cap <= 0.0 {
            return Err(Error::Option {
                name: "entry_cap",
                value: self.cap,
                expected: "positive",
            });
        }
        for (index, &(_, lower, upper)) in self.groups.iter().enumerate() {
            let what = "group";
            if !(lower.is_finite() && lower >= 0.0) || upper.is_nan() {
                let value = if upper.is_nan() { upper } else { lower };
                return Err(Error::Bound { what, index, value });
            }
            if lower > upper {
                return Err(Error::Crossed {
                    what,
                    index,
                    lower,
                    upper,
                });
            }
        }
        Ok(n)
    }

    /// How much label each example may get.
    fn rows(&self, n: usize) -> Result<Vec<f64>, Error> {
        let rows = match &self.row_bounds {
            Some(rows) => rows.clone(),
            None => vec![self.labels; n],
        };
        check_length("row bounds", n, rows.len())?;
        match rows.iter().position(|a| !(a.is_finite() && *a >= 0.0)) {
            None => Ok(rows),
            Some(index) => Err(Error::Bound {
                what: "row",
                index,
                value: rows[index],
            }),
        }
    }
}

type Transport<'a> = BoundedTransport<f32, Dense<'a, f32>>;

/// The cost of a label that the model gives this log-probability.
fn cost(log_p: f32) -> f32 {
    (-log_p).clamp(0.0, COST_CEILING)
}

/// What the core says of masses, rows and columns, in terms of labels.
fn in_labels(error: earthmover::Error) -> Error {
    match error {
        earthmover::Error::Infeasible { stranded, total } => Error::Infeasible {
            what: "the bounds",
            required: total,
            available: total - stranded,
        },
        earthmover::Error::Overlap { first, second } => Error::NotLaminar { first, second },
        earthmover::Error::Index { index, .. } => Error::Option {
            name: "class of a group",
            value: index as f64,
            expected: "below the number of classes",
        },
        other => other.into(),
    }
}

/// The answer of either solver.
///
/// A *price* is what the cost grows by per unit by which the bound in force is raised, in nats: negative where an
/// upper bound holds, positive where a lower bound does, zero where neither.
#[derive(Debug, Clone)]
#[must_use = "look at `status` before trusting the answer"]
pub struct ConstrainedSolution {
    solution: BoundedSolution,
    plan: Vec<f64>,
    mass: Vec<f64>,
    labels: f64,
}

impl ConstrainedSolution {
    /// Whether the tolerance was met.
    pub fn status(&self) -> Status {
        self.solution.status()
    }

    /// Passes over the costs by cycles of projections and Newton's steps, or pivots of the exact solver.
    #[must_use]
    pub fn iterations(&self) -> usize {
        self.solution.iterations()
    }

    /// The allocation Q, row-major.
    #[must_use]
    pub fn plan(&self) -> &[f64] {
        &self.plan
    }

    /// Mass allocated to each class.
    #[must_use]
    pub fn class_mass(&self) -> &[f64] {
        &self.mass
    }

    /// Shadow price of each class's bounds.
    #[must_use]
    pub fn class_prices(&self) -> &[f64] {
        self.solution.col_prices()
    }

    /// Shadow price of each group's bounds.
    #[must_use]
    pub fn group_prices(&self) -> &[f64] {
        self.solution.group_prices()
    }

    /// Shadow price of the total.
    #[must_use]
    pub fn mass_price(&self) -> f64 {
        self.solution.total_price()
    }

    /// Bounds on the optimum of the linear programme, the plan's cost, and how far it violates the bounds, as
    /// a share of the mass. For an exact answer the gap is zero; an entropic one's includes what the
    /// entropy costs.
    #[must_use]
    pub fn certificate(&self) -> &Certificate {
        self.solution.certificate()
    }

    /// Soft labels for other examples at these prices: the row of the plan an example with these
    /// log-probabilities would get. An exact answer gives hard labels, ties shared.
    ///
    /// # Errors
    /// [`Error::Length`] where the slices differ or do not hold whole rows, [`Error::LogProbability`] for a
    /// NaN or positive value, [`Error::NotNormalised`] for probabilities that do not sum to one. `out` is untouched then.
    pub fn targets(&self, log_probs: &[f32], out: &mut [f32]) -> Result<(), Error> {
        let k = self.mass.len();
        check_length(
            "log-probabilities",
            log_probs.len().next_multiple_of(k),
            log_probs.len(),
        )?;
        check_length("targets", log_probs.len(), out.len())?;
        for (row, log_p) in log_probs.chunks_exact(k).enumerate() {
            check_row(row, log_p)?;
        }
        let (mut costs, mut row) = (vec![0.0; k], vec![0.0; k]);
        for (log_p, out) in log_probs.chunks_exact(k).zip(out.chunks_exact_mut(k)) {
            for (c, l) in costs.iter_mut().zip(log_p) {
                *c = f64::from(cost(*l));
            }
            self.solution.new_row(&costs, ..=self.labels, &mut row)?;
            for (out, q) in out.iter_mut().zip(&row) {
                *out = *q as f32;
            }
        }
        Ok(())
    }
}
