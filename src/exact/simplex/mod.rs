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
//! coarse to fine ([`multiscale`]), pivoting on short lists of near pairs ([`listed`]); then the full problem is
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
mod listed;
mod multiscale;
mod phases;
mod pivot_budget;
mod pricing;
mod start;
mod tree;

use crate::entropic::probe::CostProbe;
use crate::exact::lists::{Source, source};
use crate::problem::Erased;
use crate::problem::check;
use crate::problem::check::Survey;
use crate::solution::plan::SparseRows;
use crate::solution::start as warm;
use crate::solver::{Guard, Watch, options, solves, watched};
use crate::{Cost, Error, Marginals, Potentials, Problem, Real, Sinkhorn, Solution};
use augmented_rows::{AugmentedRows, Phase};
use phases::Solve;
use pivot_budget::PivotBudget;
use start::Masses;

/// Where [`NetworkSimplex`] takes its first plan from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Start {
    /// [`Multiscale`](Self::Multiscale) for point clouds of at least 512 points a side, otherwise
    /// [`RowMinimum`](Self::RowMinimum).
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

solves! {
    NetworkSimplex by network_simplex,
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
    solve,
    /// Solves the problem, starting from the column potentials of an earlier or an approximate answer.
    /// From the potentials of an optimum hardly any pivot is left.
    ///
    /// # Errors
    /// As [`solve`](Self::solve), and [`Error::Length`] or [`Error::Start`] for potentials that do not
    /// fit the problem or are NaN or +∞.
    solve_from,
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

    options! {
        /// At most this many pivots; no cap by default. The simplex ends by itself, so this is for callers
        /// who would rather have a feasible plan early than the best one late.
        max_iterations: usize,

        /// Where the first plan comes from; [`Start::Auto`] by default. The answer is exact either way.
        start: Start,
    }

    watched! {
        /// Calls `callback` every thousand pivots; return [`ControlFlow::Break`](core::ops::ControlFlow::Break) to stop with the best plan so far.
        on_progress,
        /// Stops, with [`Status::Stopped`](crate::Status::Stopped) and the best plan so far, when this much time has passed; obeyed within a
        /// thousand pivots or one look at all costs. Default: never.
        time_limit,
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
        let survey = check::entries(problem)?;
        let masses = Masses::new(marginals);
        let is_warm = start.is_some();
        let mut g = start.unwrap_or_else(|| vec![0.0; masses.cols.len()]);
        g.truncate(masses.cols.len());
        let mut meter = PivotBudget::new(self, guard);
        let listed = self.goes_coarse_to_fine(problem) && problem.cost().points().is_some();
        let mut near = false;
        let first = if is_warm {
            let bare = marginals.slack().row == 0.0 && marginals.slack().col == 0.0;
            let mut source = (listed && bare).then(|| source(problem.cost()));
            let source = source.as_mut().map(|s| s.as_mut() as &mut dyn Source);
            start::eliminate_leaves(&mut lines, &masses, &g, source)
        } else if self.goes_coarse_to_fine(problem)
            && let Some(descent) = multiscale::descend(&mut meter, problem)
        {
            (g, near) = (descent.g, descent.near);
            descent.plan
        } else if let Some(pairs) = lines.pairs_alone()
            && pairs.len() >= MANY_PAIRS
            && let Some(prices) = loose_prices(problem, &survey, guard)
        {
            g = prices;
            start::eliminate_leaves(&mut lines, &masses, &g, None)
        } else {
            start::greedy(&mut lines, &masses, &g)
        };
        let first = start::along_pairs(&lines, &masses, &g, first, marginals.total(), guard)?;
        let mut solve = Solve::new(meter, lines, masses, listed);
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
                shorter >= multiscale::FEWEST_POINTS && problem.cost().points().is_some()
            }
        }
    }
}

/// So many pairs are worth a look at them by sweeps before the first pivot.
const MANY_PAIRS: usize = 1 << 14;

/// ε of those sweeps, as a share of how far the costs of a row are apart, how well they are to be balanced and how many there may be.
const LOOSE_SHARE: f64 = 0.02;
const LOOSE_TOLERANCE: f64 = 0.01;
const LOOSE_SWEEPS: usize = 200;

/// Column prices of an entropic answer that is balanced loosely: near enough for most of the best tree to be tight.
fn loose_prices<T: Real, C: Cost<T>>(
    problem: &Problem<T, C>,
    survey: &Survey,
    guard: &Guard<'_>,
) -> Option<Vec<f64>> {
    let epsilon = LOOSE_SHARE * CostProbe::new(problem.cost(), 1.0).spread;
    let sinkhorn = Sinkhorn::new(epsilon).tolerance(LOOSE_TOLERANCE);
    let sinkhorn = sinkhorn.max_iterations(LOOSE_SWEEPS);
    let found = sinkhorn.run(problem, None, survey, guard).ok()?;
    Some(found.into_columns().cols)
}

/// Whether all mass can go along allowed pairs at once; the amount that cannot is the error. A flow problem that knows no
/// costs: greedily first, which nearly always finds a way, then by pivots that count the mass on forbidden pairs.
pub(crate) fn stranded<T: Real>(cost: &dyn Cost<T>, marginals: &Marginals) -> Result<(), Error> {
    let mut lines = AugmentedRows::new(&cost, marginals.slack());
    lines.phase = Phase::Pattern;
    let masses = Masses::new(marginals);
    let flat = vec![0.0; masses.cols.len()];
    let (solver, guard) = (NetworkSimplex::new(), Guard::nobody());
    let first = start::greedy(&mut lines, &masses, &flat);
    let first = start::along_pairs(&lines, &masses, &flat, first, marginals.total(), &guard)?;
    if !first.forbidden {
        return Ok(());
    }
    let meter = PivotBudget::new(&solver, &guard);
    let mut solve = Solve::new(meter, lines, masses, false);
    solve.both_phases(first, &flat, true, marginals.total())?;
    Ok(())
}

/// A plan that is short of some marginals, filled up with what is missing, as cheaply as one can at these prices, row by
/// row; forbidden pairs stay empty. Entries are (row, column, mass), slack as the last row and column; those listed first
/// keep their place where columns are too full. Where that leaves mass behind, because what is open to it is taken, the plan
/// is made anew, for feasibility alone.
pub(crate) fn filled_up<T: Real, C: Cost<T>>(
    problem: &Problem<T, C>,
    entries: impl Iterator<Item = (usize, usize, f64)>,
    prices: &[f64],
) -> SparseRows {
    let (n, k) = (problem.rows(), problem.cols());
    let marginals = problem.marginals();
    let masses = Masses::new(marginals);
    let prices = &prices[..masses.cols.len()];
    let mut lines = AugmentedRows::new(problem.cost(), marginals.slack());
    let mut hands = start::Hands::new(&masses);
    for (i, j, mass) in entries {
        if i < masses.rows.len() && j < masses.cols.len() && hands.pair_open(i, j) {
            hands.place_up_to(i, j, mass);
        }
    }
    hands.fill(&mut lines, prices);
    let mut placed = if hands.is_done() {
        hands.into_arcs()
    } else {
        let first = start::greedy(&mut lines, &masses, prices);
        let (solver, guard) = (NetworkSimplex::new(), Guard::nobody());
        let meter = PivotBudget::new(&solver, &guard);
        let found = Solve::new(meter, lines, Masses::new(marginals), false).feasible(first, prices);
        found.unwrap_or_else(|| hands.into_arcs())
    };
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
