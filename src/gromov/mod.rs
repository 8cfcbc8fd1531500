//! Gromov–Wasserstein: two sets of things that know only how they relate among themselves, matched.
//!
//! ```text
//! GW(P) = Σ_{ii'jj'} L(C_ii', D_jj') P_ij P_i'j'         P ≥ 0,  P1 = a,  Pᵀ1 = b
//! fused   (1 − α) Σ_ij M_ij P_ij + α GW(P)               M compares features, where there are any
//! ```
//!
//! with the square loss L(c, d) = (c − d)² or KL's c ln (c/d) − c + d. Either splits, L(c, d) = φ(c) + ψ(d) − h(c) k(d), so that
//! with A(P) = h(C) P k(D)ᵀ (symmetrised) the objective is a constant less ⟨A(P), P⟩ and its gradient −2 A(P).
//!
//! * **Conditional gradient** ([`GromovWasserstein::new`]): the gradient is a table of costs; the exact solver finds the plan that is
//!   best for it; the objective along the way there is a parabola with its minimum known. A vertex has n + m − 1 entries, so
//!   that every inner product is O(n), and A of it costs one product of tables; of what has changed since the last vertex only,
//!   and late vertices change little.
//! * **Entropic** ([`GromovWasserstein::epsilon`]): the plan is the entropic answer to its own gradient, ε coming down from large values.
//! * **Points with squared distances** ([`Relations::points`]): nothing quadratic is stored. With both clouds centred the objective is a
//!   constant less 4 Σ |x_i|²|y_j|² P_ij + 8 ‖Xᵀ P Y‖², and each step is an exact transport between two clouds of one more dimension.
//!
//! The objective is not convex. What is proven is on the answer: *stationarity* (no feasible direction descends by more), the value as an
//! upper bound, and a lower bound from the distributions of relations ([`GromovSolution::certificate`]).
//!
//! # References
//! Mémoli, *Gromov–Wasserstein distances and the metric approach to object matching*, 2011. Peyré, Cuturi and Solomon,
//! *Gromov–Wasserstein averaging of kernel and distance matrices*, 2016. Vayer et al., *Fused Gromov–Wasserstein distance for
//! structured objects*, 2020. Delon, Desolneux and Salmona, *Gromov–Wasserstein distances between Gaussian distributions*, 2022.

mod bounds;
mod clouds;
mod conditional_gradient;
mod entropic;
mod images;
mod objective;
mod profiles;
mod relations;
mod solution;
mod tables;

pub use relations::{Loss, Relations};
pub use solution::{GromovCertificate, GromovSolution};

use crate::kernel::tiles::map_ranges;
use crate::solver::{Watch, options, watched};
use crate::{Error, Marginals};
use clouds::Clouds;
use objective::{Found, Objective};
use tables::Tables;

/// What is to be matched: relations on both sides, masses, a loss, and features where there are any.
///
/// # Examples
/// ```
/// use earthmover::{GromovProblem, GromovWasserstein, Marginals, Relations};
/// // A path of three nodes, and the same path listed in another order.
/// let path = [0.0, 1.0, 2.0, 1.0, 0.0, 1.0, 2.0, 1.0, 0.0];
/// let mixed = [0.0, 1.0, 1.0, 1.0, 0.0, 2.0, 1.0, 2.0, 0.0];
/// let problem = GromovProblem::new(
///     Relations::table(&path, 3)?,
///     Relations::table(&mixed, 3)?,
///     Marginals::uniform(3, 3)?,
/// )?;
/// let solution = GromovWasserstein::new().solve(&problem)?;
/// assert_eq!(solution.value(), 0.0); // the same graph
/// assert_eq!(solution.argmax()[1], Some(0)); // the middle is the middle
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct GromovProblem<'a> {
    rows: Relations<'a>,
    cols: Relations<'a>,
    marginals: Marginals,
    loss: Loss,
    features: Option<(&'a [f64], f64)>,
    semi_relaxed: bool,
}

impl<'a> GromovProblem<'a> {
    /// The problem with the square loss. Marginals with slack ([`Marginals::partial`]) make it partial.
    ///
    /// # Errors
    /// [`Error::Length`] where the masses are not as many as the things on a side, [`Error::Penalised`] where they are penalised.
    pub fn new(
        rows: Relations<'a>,
        cols: Relations<'a>,
        marginals: Marginals,
    ) -> Result<Self, Error> {
        for (what, expected, found) in [
            ("row masses", rows.len(), marginals.rows().len()),
            ("column masses", cols.len(), marginals.cols().len()),
        ] {
            if expected != found {
                return Err(Error::Length {
                    what,
                    expected,
                    found,
                });
            }
        }
        if marginals.is_relaxed() {
            return Err(Error::Penalised {
                solver: "GromovWasserstein",
            });
        }
        Ok(Self {
            rows,
            cols,
            marginals,
            loss: Loss::Square,
            features: None,
            semi_relaxed: false,
        })
    }

    options! {
        /// Another loss. Default [`Loss::Square`].
        loss: Loss,
    }

    /// Fused: `costs[i * cols + j]` says how different the features of i and j are, `share` (α, from 0 to 1) how much relations
    /// count against them.
    ///
    /// # Errors
    /// [`Error::Length`] for a table of another size, [`Error::Cost`] for an entry that is not finite, [`Error::Option`] for a share outside
    /// 0 to 1.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{GromovProblem, GromovWasserstein, Marginals, Relations};
    /// let pair = [0.0, 1.0, 1.0, 0.0];
    /// let problem = GromovProblem::new(
    ///     Relations::table(&pair, 2)?, Relations::table(&pair, 2)?, Marginals::uniform(2, 2)?,
    /// )?.fused(&[1.0, 0.0, 0.0, 1.0], 0.5)?; // features say: crosswise
    /// let solution = GromovWasserstein::new().solve(&problem)?;
    /// assert_eq!(solution.argmax(), [Some(1), Some(0)]);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn fused(mut self, costs: &'a [f64], share: f64) -> Result<Self, Error> {
        let (n, m) = (self.rows.len(), self.cols.len());
        if costs.len() != n * m {
            return Err(Error::Length {
                what: "feature costs",
                expected: n * m,
                found: costs.len(),
            });
        }
        if let Some(at) = costs.iter().position(|c| !c.is_finite()) {
            return Err(Error::Cost {
                row: at / m,
                col: at % m,
                value: costs[at],
            });
        }
        if !(0.0..=1.0).contains(&share) {
            return Err(Error::Option {
                name: "share of the relations",
                value: share,
                expected: "a number from 0 to 1",
            });
        }
        self.features = Some((costs, share));
        Ok(self)
    }

    /// Semi-relaxed: the rows' masses are kept, the columns take what they get.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{GromovProblem, GromovWasserstein, Marginals, Relations};
    /// // Two things at distance one, sought in a path of three: two neighbours take all.
    /// let (pair, path) = ([0.0, 1.0, 1.0, 0.0], [0.0, 1.0, 2.0, 1.0, 0.0, 1.0, 2.0, 1.0, 0.0]);
    /// let problem = GromovProblem::new(
    ///     Relations::table(&pair, 2)?, Relations::table(&path, 3)?, Marginals::uniform(2, 3)?,
    /// )?.semi_relaxed();
    /// assert!(GromovWasserstein::new().starts(4).solve(&problem)?.value() < 1e-12);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    #[must_use]
    pub fn semi_relaxed(mut self) -> Self {
        self.semi_relaxed = true;
        self
    }

    /// The masses.
    #[must_use]
    pub fn marginals(&self) -> &Marginals {
        &self.marginals
    }

    /// Whether both marginals are kept exactly.
    fn is_balanced(&self) -> bool {
        let slack = self.marginals.slack();
        slack.row == 0.0 && slack.col == 0.0 && !self.semi_relaxed
    }

    /// How much relations count.
    fn share(&self) -> f64 {
        self.features.map_or(1.0, |f| f.1)
    }

    /// Both sides' points, where nothing quadratic need be stored.
    fn clouds(&self) -> Option<Clouds<'_>> {
        let plain = self.loss == Loss::Square && self.features.is_none() && self.is_balanced();
        let (x, y) = (self.rows.as_points()?, self.cols.as_points()?);
        plain.then(|| Clouds::new(x, y, &self.marginals))
    }
}

/// The solver: conditional gradient on exact plans, or entropic.
///
/// # Examples
/// ```
/// use earthmover::{GromovProblem, GromovWasserstein, Marginals, Relations};
/// let square = [0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 2.0]; // four points …
/// let turned = [0.0, 0.0, 0.0, 1.0, -1.0, 1.0, -2.0, 0.0]; // … turned by a right angle
/// let problem = GromovProblem::new(
///     Relations::points(&square, 2)?, Relations::points(&turned, 2)?, Marginals::uniform(4, 4)?,
/// )?;
/// let solution = GromovWasserstein::new().starts(4).solve(&problem)?;
/// let proof = solution.certificate();
/// assert!(proof.lower <= solution.value() && solution.value() < 1e-12);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct GromovWasserstein {
    epsilon: Option<f64>,
    tolerance: Option<f64>,
    max_iterations: usize,
    starts: usize,
    seed: u64,
    watch: Watch,
}

impl Default for GromovWasserstein {
    fn default() -> Self {
        Self::new()
    }
}

impl GromovWasserstein {
    /// Conditional gradient, from one start.
    pub fn new() -> Self {
        Self {
            epsilon: None,
            tolerance: None,
            max_iterations: 1_000,
            starts: 1,
            seed: 0,
            watch: Watch::default(),
        }
    }

    /// Entropic, at this regularisation in the units of the loss. Default: not entropic.
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = Some(epsilon);
        self
    }

    /// When to stop: the descent that is still possible to first order, as a share of the objective's constant (default 1e-9); for an
    /// entropic solve the L1 change of the plan in one iteration, as a share of its mass (default 1e-6).
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = Some(tolerance);
        self
    }

    options! {
        /// Most steps from each start. Default 1,000.
        max_iterations: usize,

        /// From how many plans to start; the best end counts. The first comes from comparing how each thing relates to all others, the
        /// second is the product of the marginals, the rest are random. Default 1.
        starts: usize,

        /// Seed of the random starts. Default 0.
        seed: u64,
    }

    watched! {
        /// Called after every step of every start; [`ControlFlow::Break`](core::ops::ControlFlow::Break) stops with the best plan so far.
        on_progress,
        /// Stops when this much time has passed; obeyed within one step. Default: never.
        time_limit,
    }

    /// Matches the two sides.
    ///
    /// # Errors
    /// [`Error::Option`] for an option outside its range, [`Error::TooFar`] where sums of losses overflow, and whatever the exact or
    /// entropic solver refuses.
    pub fn solve<'p>(&self, problem: &'p GromovProblem<'p>) -> Result<GromovSolution<'p>, Error> {
        self.check(problem)?;
        let found = match problem.clouds() {
            Some(clouds) => self.best(&clouds)?,
            None => self.best(&Tables::new(problem)?)?,
        };
        Ok(GromovSolution::new(problem, found, self.epsilon))
    }

    fn best<O: Objective>(&self, objective: &O) -> Result<Found, Error> {
        if !objective.constant().is_finite() {
            return Err(Error::TooFar {
                cost: objective.constant(),
                largest: <f64 as crate::Real>::LARGEST_COST,
            });
        }
        let guard = self.watch.begin()?;
        let ends = map_ranges(self.starts, 1, |range| match self.epsilon {
            None => conditional_gradient::run(self, objective, range.start, &guard),
            Some(epsilon) => entropic::run(self, objective, epsilon, range.start, &guard),
        });
        let mut iterations = 0;
        let mut best: Option<Found> = None;
        for end in ends {
            let end = end?;
            iterations += end.iterations;
            if best.as_ref().is_none_or(|b| end.value < b.value) {
                best = Some(end);
            }
        }
        let mut best = best.ok_or(Error::Empty { rows: 0, cols: 0 })?;
        best.iterations = iterations;
        Ok(best)
    }

    fn check(&self, problem: &GromovProblem<'_>) -> Result<(), Error> {
        let wrong = |name, value, expected| {
            Err(Error::Option {
                name,
                value,
                expected,
            })
        };
        if let Some(t) = self.tolerance.filter(|t| !(*t > 0.0 && t.is_finite())) {
            return wrong("tolerance", t, "a number above zero");
        }
        if let Some(e) = self.epsilon.filter(|e| !(*e > 0.0 && e.is_finite())) {
            return wrong("epsilon", e, "a number above zero");
        }
        if self.starts == 0 {
            return wrong("starts", 0.0, "at least one");
        }
        if self.epsilon.is_some() && !problem.is_balanced() {
            return wrong(
                "epsilon",
                self.epsilon.unwrap_or(0.0),
                "left out where marginals are partial or semi-relaxed",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
