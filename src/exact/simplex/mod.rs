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

mod augmented_rows;
mod finish;
mod multiscale;
mod phases;
mod pivot_budget;
mod pricing;
mod pruned;
mod short_lists;
mod start;
mod tree;

use core::ops::ControlFlow;
use core::time::Duration;

use crate::problem::Erased;
use crate::problem::check;
use crate::solution::plan::SparseRows;
use crate::solution::start as warm;
use crate::solver::{Guard, Watch};
use crate::{Cost, Error, Marginals, Potentials, Problem, Progress, Real, Slack, Solution, Solver};
use augmented_rows::AugmentedRows;
use phases::Solve;
use pivot_budget::PivotBudget;
use start::Masses;

/// Where [`NetworkSimplex`] takes its first plan from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
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
    /// Prices from a loose entropic solve, then shortest augmenting paths on the short list of pairs that these prices make
    /// attractive, until no other pair is: the plan is optimal before the first pivot. For costs that know their points, with a
    /// metric that is the same both ways, and without slack; as [`Auto`](Self::Auto) for others.
    ///
    /// Never chosen by itself: it suits squared distances of evenly spread clouds of equal masses in many dimensions. Measured,
    /// seconds on two cores, multiscale / lists, normal clouds: n = 4,000, d = 10: 4.6 / 0.55; 3,000, d = 30: 9.0 / 0.44; but tight
    /// clusters, 4,000, d = 10: 0.8 / 3.8, and heavy tails, 2,000, d = 5: 0.5 / 3.3.
    ShortLists,
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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[must_use]
pub struct NetworkSimplex {
    max_iterations: usize,
    start: Start,
    #[cfg_attr(feature = "serde", serde(rename = "time_limit"))]
    watch: Watch,
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
            watch: Watch::default(),
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

    /// Calls `callback` every thousand pivots; return [`ControlFlow::Break`] to stop with the best plan so far.
    pub fn on_progress(
        mut self,
        callback: impl Fn(&Progress) -> ControlFlow<()> + Send + Sync + 'static,
    ) -> Self {
        self.watch.call(callback);
        self
    }

    /// Stops, with [`Status::Stopped`](crate::Status::Stopped) and the best plan so far, when this much time has passed; obeyed within a
    /// thousand pivots or one look at all costs. Default: never.
    ///
    /// # Errors
    /// On a target without a clock (`wasm32-unknown-unknown`) solving is refused with [`Error::Option`].
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.watch.limit(limit);
        self
    }

    /// Solves the problem.
    ///
    /// # Errors
    /// [`Error::Cost`] or [`Error::TooDear`] for an entry that is no cost, [`Error::Blocked`] for a mass all of whose pairs are
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
        let answer = T::network_simplex(self, &problem.erased(), None)?;
        Ok(Solution::of(problem, answer))
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
        start: &Potentials,
    ) -> Result<Solution<'p, T, C>, Error> {
        let answer = T::network_simplex(self, &problem.erased(), Some(start))?;
        Ok(Solution::of(problem, answer))
    }

    /// The body of [`solve`](Self::solve) and [`solve_from`](Self::solve_from).
    pub(crate) fn answer<'p, 'c, T: Real>(
        &self,
        problem: &'p Erased<'c, T>,
        start: Option<&Potentials>,
    ) -> Result<Solution<'p, T, &'c dyn Cost<T>>, Error> {
        let start = start.map(|start| warm::priced_columns(start, problem.marginals()));
        self.run(problem, start.transpose()?, &self.watch.begin()?)
    }

    /// Solves under a guard that may watch over more than this.
    pub(crate) fn run<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        start: Option<Vec<f64>>,
        guard: &Guard<'_>,
    ) -> Result<Solution<'p, T, C>, Error> {
        check::keeps_masses(problem, "NetworkSimplex")?;
        let (n, k) = (problem.rows(), problem.cols());
        let marginals = problem.marginals();
        if n.saturating_add(k) > u32::MAX as usize - 4 {
            return Err(Error::TooLarge { rows: n, cols: k });
        }
        let mut lines = AugmentedRows::new(problem.cost(), marginals.slack());
        check::entries(problem)?;
        let masses = Masses::new(marginals);
        let is_warm = start.is_some();
        let mut g = start.unwrap_or_else(|| vec![0.0; masses.cols.len()]);
        g.truncate(masses.cols.len());
        let mut meter = PivotBudget::new(self, guard);
        let mut near = false;
        let first = if is_warm {
            start::eliminate_leaves(&mut lines, &masses, &g)
        } else if self.takes_lists(problem)
            && let Some(listed) = short_lists::start(&mut meter, &problem.erased(), &masses)
        {
            (g, near) = (listed.g, listed.near);
            listed.plan
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
    pub(crate) fn takes_lists<T: Real, C: Cost<T>>(&self, problem: &Problem<T, C>) -> bool {
        match self.start {
            Start::RowMinimum | Start::Multiscale | Start::Auto => false,
            Start::ShortLists => short_lists::are_possible(problem),
        }
    }

    pub(crate) fn goes_coarse_to_fine<T: Real, C: Cost<T>>(&self, problem: &Problem<T, C>) -> bool {
        match self.start {
            Start::RowMinimum => false,
            Start::Multiscale => true,
            Start::Auto | Start::ShortLists => {
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

/// Whether all mass can go along allowed pairs at once; the amount that cannot is the error. A flow problem that knows no
/// costs: greedily first, which nearly always finds a way, then by pivots that count the mass on forbidden pairs.
pub(crate) fn stranded<T: Real>(cost: &dyn Cost<T>, marginals: &Marginals) -> Result<(), Error> {
    let free = |c: f64| if c < f64::INFINITY { 0.0 } else { c };
    let slack = marginals.slack();
    let slack = Slack {
        row_cost: free(slack.row_cost),
        col_cost: free(slack.col_cost),
        corner_cost: free(slack.corner_cost),
        ..slack
    };
    let pattern = Pattern(cost);
    let mut lines = AugmentedRows::new(&pattern, slack);
    let masses = Masses::new(marginals);
    let flat = vec![0.0; masses.cols.len()];
    let first = start::greedy(&mut lines, &masses, &flat);
    if !first.forbidden {
        return Ok(());
    }
    let (solver, guard) = (NetworkSimplex::new(), Guard::nobody());
    let meter = PivotBudget::new(&solver, &guard);
    let mut solve = Solve::new(meter, lines, masses);
    solve.both_phases(first, &flat, true, marginals.total())?;
    Ok(())
}

/// Which pairs are allowed, as a cost: zero for those that are.
struct Pattern<'a, T>(&'a dyn Cost<T>);

impl<T: Real> Cost<T> for Pattern<'_, T> {
    fn rows(&self) -> usize {
        self.0.rows()
    }
    fn cols(&self) -> usize {
        self.0.cols()
    }
    fn at(&self, row: usize, col: usize) -> T {
        allowed(self.0.at(row, col))
    }
    fn fill(&self, rows: core::ops::Range<usize>, out: &mut [T]) {
        self.0.fill(rows, out);
        out.iter_mut().for_each(|c| *c = allowed(*c));
    }
}

fn allowed<T: Real>(c: T) -> T {
    if c < T::infinity() { T::zero() } else { c }
}

/// A plan that is short of some marginals, filled up with what is missing, as cheaply as one can at these prices, row by
/// row; forbidden pairs stay empty. Entries are (row, column, mass), slack as the last row and column; those listed first
/// keep their place where columns are too full.
pub(crate) fn filled_up<T: Real, C: Cost<T>>(
    problem: &Problem<T, C>,
    entries: impl Iterator<Item = (usize, usize, f64)>,
    prices: &[f64],
) -> SparseRows {
    let (n, k) = (problem.rows(), problem.cols());
    let marginals = problem.marginals();
    let masses = Masses::new(marginals);
    let mut lines = AugmentedRows::new(problem.cost(), marginals.slack());
    let mut hands = start::Hands::new(&masses);
    for (i, j, mass) in entries {
        if i < masses.rows.len() && j < masses.cols.len() && hands.pair_open(i, j) {
            hands.place_up_to(i, j, mass);
        }
    }
    hands.fill(&mut lines, &prices[..masses.cols.len()]);
    let mut placed = hands.into_arcs();
    placed.retain(|e| e.0 < n && e.1 < k);
    placed.sort_unstable_by_key(|e| (e.0, e.1));
    placed.dedup_by(|next, kept| {
        let same = (next.0, next.1) == (kept.0, kept.1);
        if same {
            kept.2 += next.2;
        }
        same
    });
    SparseRows::new(n, placed)
}
