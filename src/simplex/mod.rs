//! The exact solver: the primal network simplex on the transport problem.
//!
//! ```text
//! minimise  Σ_ij C_ij P_ij    subject to   P ≥ 0,   Σ_j P_ij = a_i,   Σ_i P_ij = b_j
//! ```
//!
//! A vertex of the feasible plans is a spanning tree of the rows and columns ([`tree`]). A pivot brings
//! an arc in whose price is too high, sends mass round the cycle it closes, and drops the arc that runs
//! empty first; when no price is too high the tree's prices prove that the plan is optimal. The cost is
//! read one line at a time ([`lines`]), and as seldom as possible ([`pricing`]). Point clouds are solved
//! coarse to fine ([`multiscale`]), looking at near pairs only ([`pruned`]); then the full problem is
//! left with one look at every pair, which is the proof, and rarely with a pivot.
//!
//! Slack is one more row and one more column. Forbidden pairs never enter; where the first plan
//! ([`start`]) cannot do without them, a first phase minimises the mass they carry, and if some is left
//! the problem is infeasible by just that mass. No large number stands in for infinity anywhere, so
//! costs may span any range.
//!
//! # References
//! W. H. Cunningham, *A network simplex method*, Mathematical Programming 11 (1976).
//! R. K. Ahuja, T. L. Magnanti, J. B. Orlin, *Network Flows* (1993), chapter 11.

mod finish;
mod kd;
mod lines;
mod meter;
mod multiscale;
mod phases;
mod pricing;
mod pruned;
mod start;
mod tree;

use core::ops::ControlFlow;

use crate::solver::Observer;
use crate::{Cost, Error, Potentials, Problem, Progress, Real, Side, Solution, Solver};
use lines::Lines;
use meter::Meter;
use phases::Solve;
use start::Masses;

/// Where [`NetworkSimplex`] takes its first plan from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Start {
    /// [`Multiscale`](Self::Multiscale) for point clouds of at least 512 points a side in up to three
    /// dimensions and twice as many for every dimension more, otherwise
    /// [`RowMinimum`](Self::RowMinimum): in d dimensions clusters of n points are n^(−1/d) wide, and help
    /// only if that is small. Measured, milliseconds, row minimum / multiscale: d = 4: 207 / 156 at
    /// n = 2,000; d = 5: 245 / 273 at 2,000, 1,754 / 918 at 4,000; d = 6: 274 / 384 at 2,000,
    /// 1,899 / 1,420 at 4,000; d = 8: 353 / 759 at 2,000.
    #[default]
    Auto,
    /// Each row in turn fills the columns that are cheapest for it.
    RowMinimum,
    /// Coarse to fine, for costs that know their points ([`Cost::points`]); row minimum for others.
    Multiscale,
}

/// The exact solver for transport problems of any shape: network simplex.
///
/// Memory is O(n + m) beyond the cost. The plan has at most n + m − 1 entries and the potentials prove
/// it optimal: [`certificate`](Solution::certificate)'s gap is zero up to rounding.
///
/// # Examples
/// ```
/// use earthmover::{Dense, Marginals, NetworkSimplex, Problem};
/// let cost = Dense::new(&[4.0, 1.0, 2.0, 3.0], 2, 2)?;
/// let problem = Problem::new(cost, Marginals::balanced(&[0.5, 0.5], &[0.25, 0.75])?)?;
/// let solution = NetworkSimplex::new().solve(&problem)?;
/// assert_eq!(solution.plan().to_dense(), [0.0, 0.5, 0.25, 0.25]);
/// assert!(solution.certificate().gap() < 1e-15);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct NetworkSimplex {
    max_iterations: usize,
    start: Start,
    observer: Option<Observer>,
}

impl Default for NetworkSimplex {
    fn default() -> Self {
        Self::new()
    }
}

impl NetworkSimplex {
    /// No cap on the pivots, no progress callback.
    pub fn new() -> Self {
        Self {
            max_iterations: usize::MAX,
            start: Start::Auto,
            observer: None,
        }
    }

    /// At most this many pivots; no cap by default. The simplex ends by itself, so this is for callers
    /// who would rather have a feasible plan early than the best one late.
    pub fn max_iterations(mut self, pivots: usize) -> Self {
        self.max_iterations = pivots;
        self
    }

    /// Where the first plan comes from; [`Start::Auto`] by default. The answer is exact either way.
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// Calls `callback` now and then; return [`ControlFlow::Break`] to stop with the plan so far.
    pub fn on_progress(
        mut self,
        callback: impl Fn(&Progress) -> ControlFlow<()> + Send + Sync + 'static,
    ) -> Self {
        self.observer = Some(Observer::new(callback));
        self
    }

    /// Solves the problem.
    ///
    /// # Errors
    /// [`Error::Cost`] for a NaN or −∞ cost, [`Error::Blocked`] for a mass all of whose pairs are
    /// forbidden, [`Error::Infeasible`] where forbidden pairs strand mass in any other way,
    /// [`Error::TooLarge`] for more than 2³² − 4 rows and columns.
    ///
    /// # Complexity
    /// O(n + m) memory. Pivots are not bounded by a small polynomial in theory; in practice their
    /// number grows a little faster than n + m, and each reads a few lines of the cost.
    pub fn solve<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
    ) -> Result<Solution<'p, T, C>, Error> {
        self.run(problem, None)
    }

    /// Solves the problem, starting from the column potentials of an earlier or an approximate answer.
    /// From the potentials of an optimum hardly any pivot is left.
    ///
    /// # Errors
    /// As [`solve`](Self::solve), and [`Error::Length`] or [`Error::Start`] for potentials that do not
    /// fit the problem or are NaN or +∞.
    pub fn solve_from<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        potentials: &Potentials,
    ) -> Result<Solution<'p, T, C>, Error> {
        let (expected, found) = (problem.cols(), potentials.cols.len());
        if expected != found {
            return Err(Error::Length {
                what: "column potentials",
                expected,
                found,
            });
        }
        let wrong = |g: &f64| g.is_nan() || *g == f64::INFINITY;
        if let Some(index) = potentials.cols.iter().position(wrong) {
            return Err(Error::Start {
                side: Side::Cols,
                index,
                value: potentials.cols[index],
            });
        }
        if problem.marginals().slack().col > 0.0 && wrong(&potentials.slack_col) {
            return Err(Error::Start {
                side: Side::SlackCol,
                index: 0,
                value: potentials.slack_col,
            });
        }
        self.run(problem, Some(potentials))
    }

    fn run<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        potentials: Option<&Potentials>,
    ) -> Result<Solution<'p, T, C>, Error> {
        let (n, k) = (problem.rows(), problem.cols());
        let marginals = problem.marginals();
        if n.saturating_add(k) > u32::MAX as usize - 4 {
            return Err(Error::TooLarge { rows: n, cols: k });
        }
        let mut lines = Lines::new(problem.cost(), marginals.slack());
        start::check(&lines, marginals)?;
        let masses = Masses::new(marginals);
        let mut g = first_prices(potentials, masses.cols.len());
        let mut meter = Meter::new(self);
        let mut near = false;
        let first = if potentials.is_some() {
            start::peel(&mut lines, &masses, &g)
        } else if self.goes_coarse_to_fine(problem)
            && let Some(descent) = multiscale::descend(&mut meter, problem)
        {
            (g, near) = (descent.g, descent.near);
            descent.plan
        } else {
            start::greedy(&mut lines, &masses, &g)
        };
        let mut solve = Solve::new(meter, lines, masses);
        let (tree, outcome) = solve.both_phases(first, &g, near, marginals.total())?;
        Ok(solve.answer(problem, tree, outcome))
    }
}

impl NetworkSimplex {
    pub(crate) fn goes_coarse_to_fine<T: Real, C: Cost<T>>(&self, problem: &Problem<T, C>) -> bool {
        match self.start {
            Start::RowMinimum => false,
            Start::Multiscale => true,
            Start::Auto => {
                let shorter = problem.rows().min(problem.cols());
                let points = problem.cost().points();
                points.is_some_and(|p| shorter >= multiscale::worthwhile(p.dimension))
            }
        }
    }
}

impl<T: Real> Solver<T> for NetworkSimplex {
    fn solve<'p, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
    ) -> Result<Solution<'p, T, C>, Error> {
        self.solve(problem)
    }
}

/// Column prices to start from: the given ones, −∞ among them replaced by the lowest of the others.
fn first_prices(potentials: Option<&Potentials>, cols: usize) -> Vec<f64> {
    let Some(p) = potentials else {
        return vec![0.0; cols];
    };
    let finite = p.cols.iter().copied().filter(|g| g.is_finite());
    let lowest = finite.fold(f64::INFINITY, f64::min).min(f64::MAX);
    let mut g: Vec<f64> = p.cols.clone();
    g.push(p.slack_col);
    g.truncate(cols);
    for g in &mut g {
        if !g.is_finite() {
            *g = if lowest < f64::MAX { lowest } else { 0.0 };
        }
    }
    g
}
