//! Linear programmes for a general solver.

use earthmover::Marginals;
use microlp::{ComparisonOp, Error, OptimizationDirection, Problem, SolveOutcome, Variable};

use crate::textbook::table;

/// A programme in masses: what each costs, and bounds on sums of them.
///
/// ```
/// use earthmover_testkit::Programme;
/// let mut programme = Programme::new(&[1.0, 2.0], 3.0); // neither above 3
/// programme.sum([0, 1], 4.0, f64::INFINITY);
/// assert_eq!(programme.optimum().unwrap(), 5.0);
/// ```
#[derive(Debug)]
pub struct Programme {
    lp: Problem,
    variables: Vec<Option<Variable>>,
    /// An empty sum that may not be zero.
    contradiction: bool,
}

impl Default for Programme {
    fn default() -> Self {
        Self {
            lp: Problem::new(OptimizationDirection::Minimize),
            variables: Vec::new(),
            contradiction: false,
        }
    }
}

impl Programme {
    /// Masses from zero to `cap` at these costs; where +∞, none is allowed.
    pub fn new(costs: &[f64], cap: f64) -> Self {
        let mut programme = Self::default();
        for &cost in costs {
            programme.mass(cost, 0.0, cap);
        }
        programme
    }

    /// One more mass, between bounds.
    pub fn mass(&mut self, cost: f64, lower: f64, upper: f64) {
        let variable = cost
            .is_finite()
            .then(|| self.lp.add_var(cost, (lower, upper)));
        self.variables.push(variable);
    }

    /// Bounds the sum of some masses.
    pub fn sum(&mut self, masses: impl IntoIterator<Item = usize>, lower: f64, upper: f64) {
        self.combination(masses.into_iter().map(|at| (at, 1.0)), lower, upper);
    }

    /// Bounds a combination of some masses.
    pub fn combination(
        &mut self,
        terms: impl IntoIterator<Item = (usize, f64)>,
        lower: f64,
        upper: f64,
    ) {
        let allowed = |(at, factor): (usize, f64)| self.variables[at].map(|v| (v, factor));
        let terms: Vec<_> = terms.into_iter().filter_map(allowed).collect();
        if terms.is_empty() {
            self.contradiction |= !(lower <= 0.0 && 0.0 <= upper);
        } else if lower == upper {
            self.lp.add_constraint(&terms[..], ComparisonOp::Eq, lower);
        } else {
            self.lp.add_constraint(&terms[..], ComparisonOp::Ge, lower);
            if upper < f64::INFINITY {
                self.lp.add_constraint(&terms[..], ComparisonOp::Le, upper);
            }
        }
    }

    /// The least cost.
    ///
    /// # Errors
    /// Where there is none.
    pub fn optimum(&self) -> Result<f64, Error> {
        if self.contradiction {
            return Err(Error::Infeasible);
        }
        match self.lp.solve()? {
            SolveOutcome::Solution(solution) => Ok(solution.objective()),
            SolveOutcome::Interrupted(_) => panic!("no limit was set"),
        }
    }
}

/// The least cost of moving these masses at these costs, slack included; `None` where there is no plan.
pub fn optimum(cost: &[f64], marginals: &Marginals) -> Option<f64> {
    let cols = marginals.cols().len();
    table(|i, j| cost[i * cols + j], marginals).optimum()
}
