//! The exact solver for few columns and many rows.
//!
//! Given prices g, every row wants to go where C_ij − g_j is least. Too many want the same columns, so
//! prices must move until every column j is left with exactly its mass. That is a transport problem
//! whose columns are the only thing that matters:
//!
//! ```text
//! ℓ(u→v) = min { (C_iv − g_v) − (C_iu − g_u) : row i holds mass in column u }
//! ```
//!
//! is what it costs to shift one unit from column u to column v, and mass goes from columns that hold too
//! much to columns that hold too little along *shortest augmenting paths* on this **contracted graph** of
//! k + 1 nodes. Adding the distances to the prices keeps all lengths non-negative, so the plan is
//! optimal among those with the same column sums at every moment, and optimal for the problem when the
//! column sums are right.
//!
//! The rest is about never touching most rows. They are solved **coarse to fine**: a sample of the rows
//! with their mass scaled up, then four times as many, and so on; prices hardly differ from one level to
//! the next, so at each level only the rows near a tie (about √n of them) have to move. A level reads
//! all its costs once, in parallel and with vector code, and then single rows only.
//!
//! # Complexity
//! O(n k) for the passes, O(n + k²) memory, and O(√n) rounds of O(k²) on ordinary data.
//!
//! # References
//! * L. R. Ford and D. R. Fulkerson, *Flows in Networks*, 1962 (primal-dual method).
//! * J. Edmonds and R. M. Karp, "Theoretical improvements in algorithmic efficiency for network flow
//!   problems", J. ACM 19, 1972 (shortest paths with potentials).
//! * T. Tokuyama and J. Nakano, "Efficient algorithms for the Hitchcock transportation problem", SIAM
//!   J. Comput. 24, 1995 (few columns).

mod arcs;
mod assignment;
mod budget;
mod forest;
mod heaps;
mod level;
mod paths;
mod table;

use self::budget::Budget;
use self::level::{End, Excess, Level};
use self::table::{NOWHERE, Table};
use crate::cost::Transposed;
use crate::exact::simplex::filled_up;
use crate::exact::stopped::worth;
use crate::kernel::hash::mix;
use crate::problem::Erased;
use crate::problem::check;
use crate::problem::check::Survey;
use crate::solution::plan::{Representation, SparseRows};
use crate::solution::start;
use crate::solver::{Guard, Watch, options, solves, watched};
use crate::{Cost, Error, Marginals, Potentials, Problem, Progress, Real, Solution, Status};

/// Rows at the coarsest level, at least, and per column.
const COARSEST: usize = 256;
const COARSEST_PER_COLUMN: usize = 4;

/// How many times more rows the next level has.
const REFINEMENT: usize = 4;

/// Where more than this share of the mass is excess, prices are lowered before single rows move …
const CROWDED_SHARE: f64 = 0.05;

/// … again and again while that finds a place for this share of the mass at least: about what the
/// rounds would take as long for as the pass over the costs.
const RELIEF_SHARE: f64 = 0.01;

/// Exact optimal transport by shortest augmenting paths on the graph of the columns.
///
/// For problems with few columns (or few rows: then it works on the transposed problem).
/// [`Exact`](crate::Exact) picks it where it is the fastest way.
///
/// # Examples
/// ```
/// use earthmover::{ShortestPaths, Dense, Marginals, Problem};
/// let cost = Dense::new(&[0.0, 1.0, 0.2, 1.0, 0.5, 0.6], 3, 2)?;
/// let problem = Problem::new(cost, Marginals::balanced(&[1.0, 1.0, 1.0], &[1.0, 2.0])?)?;
/// let solution = ShortestPaths::new().solve(&problem)?;
/// assert_eq!(solution.plan().argmax(), [Some(0), Some(1), Some(1)]);
/// assert!(solution.certificate().relative_gap() < 1e-12);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[must_use]
pub struct ShortestPaths {
    max_iterations: usize,
    /// Arcs that can be looked at while another way solves the problem.
    #[cfg_attr(feature = "serde", serde(skip, default = "no_other_way"))]
    other_way: f64,
    #[cfg_attr(feature = "serde", serde(rename = "time_limit"))]
    watch: Watch,
}

#[cfg(feature = "serde")]
fn no_other_way() -> f64 {
    f64::INFINITY
}

impl Default for ShortestPaths {
    fn default() -> Self {
        Self {
            max_iterations: usize::MAX,
            other_way: f64::INFINITY,
            watch: Watch::default(),
        }
    }
}

solves! {
    ShortestPaths by shortest_paths,
    /// Answers the problem.
    ///
    /// # Errors
    /// [`Error::Cost`] or [`Error::TooDear`] for an entry that is no cost, [`Error::Blocked`] where a row or column that
    /// carries mass has no allowed pair, [`Error::Infeasible`] where the forbidden pairs together leave
    /// no way.
    solve,
    /// Answers the problem starting from column potentials that are believed to be near the optimal ones, such
    /// as those of an entropic solve or of a similar problem.
    ///
    /// # Errors
    /// As [`solve`](Self::solve), [`Error::Length`] for potentials of another shape and
    /// [`Error::Start`] where one is NaN or +∞.
    solve_from,
}

impl ShortestPaths {
    /// Runs to the optimum.
    pub fn new() -> Self {
        Self::default()
    }

    options! {
        /// Most rounds of shortest paths, all levels together; unlimited by default.
        max_iterations: usize,
    }

    /// Gives up, with [`Status::IterationLimit`], where another way is likely to be done sooner: one that takes as long
    /// as looking at this many arcs.
    pub(crate) fn unless_slower_than(mut self, arcs: f64) -> Self {
        self.other_way = arcs;
        self
    }

    watched! {
        /// Called before every round of shortest paths; [`ControlFlow::Break`](core::ops::ControlFlow::Break) stops with the best plan so far. Nobody is called
        /// by default.
        on_progress,
        /// Stops, with [`Status::Stopped`] and the best plan so far, when this much time has passed; obeyed within a round of
        /// shortest paths or one look at all costs. Default: never.
        time_limit,
    }

    /// The body of [`solve`](Self::solve) and [`solve_from`](Self::solve_from).
    pub(crate) fn answer<'p, 'c, T: Real>(
        &self,
        problem: &'p Erased<'c, T>,
        start: Option<&Potentials>,
    ) -> Result<Solution<'p, T, &'c dyn Cost<T>>, Error> {
        let start = start.map(|start| start::priced_columns(start, problem.marginals()));
        self.run(problem, start.transpose()?, &self.watch.begin()?)
    }

    /// Solves under a guard that may watch over more than this.
    pub(crate) fn run<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        start: Option<Vec<f64>>,
        guard: &Guard<'_>,
    ) -> Result<Solution<'p, T, C>, Error> {
        check::keeps_masses(problem, "ShortestPaths")?;
        let survey = check::entries(problem)?;
        let start = start.map(|g| start::within(g, 4.0 * survey.span(problem.marginals())));
        let answer = if problem.rows() >= problem.cols() {
            self.tall(problem, start, &survey, guard)?
        } else {
            let start = start.map(|g| row_prices(problem, &g));
            let view = Transposed(problem.cost());
            let flipped = problem.transposed_over(&view);
            let answer = self.tall(&flipped, start, &survey, guard);
            answer.map_err(Error::transposed)?.transposed()
        };
        Ok(Solution::new(
            problem,
            answer.potentials,
            Representation::Sparse(SparseRows::new(problem.rows(), answer.entries)),
            answer.status,
            answer.iterations,
            Some(answer.violation),
        ))
    }

    fn tall<T: Real, C: Cost<T>>(
        &self,
        problem: &Problem<T, C>,
        start: Option<Vec<f64>>,
        survey: &Survey,
        guard: &Guard<'_>,
    ) -> Result<Answer, Error> {
        let (n, k) = (problem.rows(), problem.cols());
        if n >= 1 << 31 {
            return Err(Error::TooLarge { rows: n, cols: k });
        }
        let marginals = problem.marginals();
        let slack = marginals.slack();
        let mut demands = marginals.cols().to_vec();
        demands.push(slack.col);

        let coarse = if start.is_some() { n } else { coarsest(k) };
        let mut prices = start.unwrap_or_else(|| vec![0.0; k + 1]);
        for (g, w) in prices.iter_mut().zip(&demands) {
            if *w == 0.0 {
                *g = f64::NEG_INFINITY;
            }
        }
        let mut budget = Budget::new(self.other_way);
        let mut descent = Descent {
            guard,
            max_iterations: self.max_iterations,
            iterations: 0,
            status: Status::Converged,
            before: 0.0,
            width: 0.0,
            first: None,
            // Rows are where they are cheapest at the prices of their columns. A unit in excess that goes to where it is wanted,
            // unless that is forbidden, pays one row's difference in cost and the columns' difference in price.
            range: if survey.forbidden || marginals.forbids_slack() {
                f64::INFINITY
            } else {
                survey.span(marginals)
            },
            total: marginals.total(),
            is_whole: false,
        };
        let level = |rows: Option<&[u32]>, mass: &[f64], prices: Vec<f64>| {
            let table = Table::new(problem.cost(), slack, rows.map(<[_]>::to_vec), prices);
            let minima = table.minima();
            Level::new(table, minima, mass.to_vec(), &demands)
        };

        let strides = strides(n, coarse);
        let whole: f64 = 1.0 + strides.iter().map(|&s| 1.0 / s as f64).sum::<f64>();
        for (at, &stride) in strides.iter().enumerate() {
            descent.enter(1.0 / (stride as f64 * whole));
            let chosen = sample(n, stride);
            let Some(mass) = sampled_mass(marginals, &chosen).filter(|_| !descent.is_cut()) else {
                continue;
            };
            let mut coarse = settled_down(guard, prices, |p| level(Some(&chosen), &mass, p));
            // Stranded here says nothing about the whole; whatever the prices are, they are a start.
            budget.enter(strides.len() - at);
            descent.down(&mut coarse, &mut budget);
            prices = coarse.prices();
        }

        let mut mass = marginals.rows().to_vec();
        mass.push(slack.row);
        descent.enter(1.0 / whole);
        descent.is_whole = true;
        if descent.is_cut() {
            return Ok(answer(problem, &level(None, &mass, prices), &descent));
        }
        let mut level = settled_down(guard, prices, |p| level(None, &mass, p));
        budget.enter(0);
        if let End::Stranded(stranded) = descent.down(&mut level, &mut budget) {
            return Err(Error::Infeasible {
                stranded,
                total: marginals.total(),
            });
        }
        Ok(answer(problem, &level, &descent))
    }
}

/// The way down the levels: when it ends, and how far it has come, for whoever watches.
struct Descent<'a> {
    guard: &'a Guard<'a>,
    max_iterations: usize,
    iterations: usize,
    /// `Converged` as long as nothing stopped it.
    status: Status,
    /// Share of the way before the level at hand, and what that level is of it.
    before: f64,
    width: f64,
    /// Misplaced share at the start of the level.
    first: Option<f64>,
    /// How far costs are apart at most; +∞ where pairs are forbidden.
    range: f64,
    total: f64,
    is_whole: bool,
}

impl Descent<'_> {
    /// Whether it was stopped at one of the levels.
    fn is_cut(&self) -> bool {
        self.status != Status::Converged
    }

    /// Solves a level.
    fn down<T: Real, C: Cost<T>>(
        &mut self,
        level: &mut Level<'_, T, C>,
        budget: &mut Budget,
    ) -> End {
        let end = level.run(budget, |budget, excess, work, round| {
            self.goes_on(budget, excess, work, round)
        });
        if end == End::Cut && !self.is_cut() {
            self.status = Status::IterationLimit;
        }
        end
    }

    fn goes_on(&mut self, budget: &mut Budget, excess: Excess, work: f64, round: bool) -> bool {
        let progress = self.progress(excess);
        let allowed =
            !round || (self.iterations < self.max_iterations && budget.allows(excess.share, work));
        if !allowed {
            self.status = Status::IterationLimit;
        } else if self.guard.says_stop(&progress) {
            self.status = Status::Stopped;
        } else {
            self.iterations += usize::from(round);
        }
        !self.is_cut()
    }

    fn enter(&mut self, width: f64) {
        self.before += self.width;
        self.width = width;
        self.first = None;
    }

    fn progress(&mut self, Excess { share, spread }: Excess) -> Progress {
        let first = *self.first.get_or_insert(share);
        let here = if first > 0.0 {
            1.0 - share / first
        } else {
            1.0
        };
        Progress {
            iteration: self.iterations,
            violation: 2.0 * share,
            epsilon: 0.0,
            done: self.before + self.width * here.clamp(0.0, 1.0),
            gap: if self.is_whole {
                share * self.total * (self.range + spread)
            } else {
                f64::INFINITY
            },
        }
    }
}

/// What a level leaves behind, slack not stored.
struct Answer {
    entries: Vec<(usize, usize, f64)>,
    potentials: Potentials,
    status: Status,
    iterations: usize,
    violation: f64,
}

impl Answer {
    fn transposed(mut self) -> Self {
        for entry in &mut self.entries {
            *entry = (entry.1, entry.0, entry.2);
        }
        self.potentials = self.potentials.transposed();
        self
    }
}

fn answer<T: Real, C: Cost<T>>(
    problem: &Problem<T, C>,
    level: &Level<'_, T, C>,
    descent: &Descent<'_>,
) -> Answer {
    let potentials = potentials(problem, level);
    if descent.is_cut() {
        return unfinished(problem, level, potentials, descent);
    }
    Answer {
        entries: entries(problem, level),
        potentials,
        status: descent.status,
        iterations: descent.iterations,
        violation: 2.0 * level.excess() / level.total(),
    }
}

/// The level's prices, and for each row what its place leaves it.
fn potentials<T: Real, C: Cost<T>>(problem: &Problem<T, C>, level: &Level<'_, T, C>) -> Potentials {
    let (n, k) = (problem.rows(), problem.cols());
    let prices = level.prices();
    let (mut line, mut shifted) = (vec![T::zero(); k], vec![0.0; k + 1]);
    let mut price_of = |i: usize| {
        let Some((u, _)) = level.assignment.of(i).next() else {
            return f64::NEG_INFINITY;
        };
        let u = u as usize;
        let best = match level.minima.get(i) {
            Some(place) if place.argmin == u as u32 => place.best,
            _ => {
                level.table.shifted(i, &mut line, &mut shifted);
                shifted[u]
            }
        };
        best - level.moved[u]
    };
    Potentials {
        rows: (0..n).map(&mut price_of).collect(),
        slack_row: price_of(n),
        slack_col: prices[k],
        cols: prices[..k].to_vec(),
    }
}

/// What the split rows have to bring to each column, given the whole ones; sums with their rounding carried along.
fn left_to_split<T: Real, C: Cost<T>>(level: &Level<'_, T, C>, rows: usize) -> Vec<f64> {
    let assignment = &level.assignment;
    let mut received = vec![(0.0f64, 0.0f64); level.demands().len()];
    for i in 0..rows {
        let Some(u) = assignment.whole(i).filter(|&u| u != NOWHERE) else {
            continue;
        };
        let mass = assignment.mass(i);
        let (sum, carry) = &mut received[u as usize];
        let next = *sum + mass;
        *carry += if *sum >= mass {
            (*sum - next) + mass
        } else {
            (mass - next) + *sum
        };
        *sum = next;
    }
    let each = received.iter().zip(level.demands());
    each.map(|((sum, carry), w)| (w - sum) - carry).collect()
}

/// The plan, row by row, because what is sorted need not be sorted again.
fn entries<T: Real, C: Cost<T>>(
    problem: &Problem<T, C>,
    level: &Level<'_, T, C>,
) -> Vec<(usize, usize, f64)> {
    let (n, k) = (problem.rows(), problem.cols());
    let assignment = &level.assignment;
    let split: Vec<(usize, &[(u32, f64)])> = assignment.split().collect();
    let shares: Vec<Vec<(u32, f64)>> = split.iter().map(|s| s.1.to_vec()).collect();
    let mass: Vec<f64> = split.iter().map(|s| assignment.mass(s.0)).collect();
    let shares = forest::untangle(&shares, &mass, &left_to_split(level, n));

    let mut entries = Vec::with_capacity(n + k);
    let mut next = 0;
    for i in 0..n {
        if split.get(next).is_some_and(|s| s.0 == i) {
            let real = shares[next].iter().filter(|s| (s.0 as usize) < k);
            entries.extend(real.map(|&(u, m)| (i, u as usize, m)));
            next += 1;
        } else if let Some(u) = assignment.whole(i).filter(|&u| (u as usize) < k) {
            entries.push((i, u as usize, assignment.mass(i)));
        }
    }
    entries
}

/// An answer from a level that was cut short: what is too much in some columns goes to those that have room, so that the
/// plan is feasible all the same. Rows that would mind most keep their place.
fn unfinished<T: Real, C: Cost<T>>(
    problem: &Problem<T, C>,
    level: &Level<'_, T, C>,
    potentials: Potentials,
    descent: &Descent<'_>,
) -> Answer {
    let (n, prices) = (problem.rows(), level.prices());
    let mut order: Vec<usize> = (0..=n).collect();
    let regret = |i: &usize| level.minima.get(*i).map_or(0.0, |place| place.regret);
    order.sort_by(|a, b| regret(b).total_cmp(&regret(a)));
    let held = order.into_iter().flat_map(|i| {
        let parts = level.assignment.of(i);
        parts.map(move |(u, mass)| (i, u as usize, mass))
    });
    let placed = filled_up(problem, held, &prices);
    // The prices of a solve that has hardly begun may be worse than none.
    let greedy = filled_up(problem, core::iter::empty(), &vec![0.0; prices.len()]);
    let plan = if worth(problem, &greedy) < worth(problem, &placed) {
        greedy
    } else {
        placed
    };
    let marginals = problem.marginals();
    let slack = marginals.slack();
    let mut cols = vec![0.0; problem.cols()];
    // Slack takes what is left on its side, but no more than there is of it.
    let (mut kept, mut off) = (0.0, 0.0);
    let mut entries = Vec::new();
    for (i, &a) in marginals.rows().iter().enumerate() {
        let mut given = 0.0;
        for (j, mass) in plan.row(i) {
            entries.push((i, j, mass));
            cols[j] += mass;
            given += mass;
        }
        kept += (a - given).max(0.0);
    }
    off += (kept - slack.col).max(0.0);
    let unused: f64 = cols
        .iter()
        .zip(marginals.cols())
        .map(|(s, b)| (b - s).max(0.0))
        .sum();
    off += (unused - slack.row).max(0.0);
    Answer {
        entries,
        potentials,
        status: descent.status,
        iterations: descent.iterations,
        violation: off / marginals.total(),
    }
}

/// Row prices that belong to column prices, slack last: as high as those allow.
fn row_prices<T: Real, C: Cost<T>>(problem: &Problem<T, C>, g: &[f64]) -> Vec<f64> {
    let k = problem.cols();
    let slack = problem.marginals().slack();
    let mut line = vec![T::zero(); k];
    let mut prices = Vec::with_capacity(problem.rows() + 1);
    let cheapest = |costs: &mut dyn Iterator<Item = f64>| {
        let least = costs
            .zip(g)
            .map(|(c, g)| c - g)
            .fold(f64::INFINITY, f64::min);
        if least.is_finite() { least } else { 0.0 }
    };
    let with_slack = slack.col > 0.0;
    for i in 0..problem.rows() {
        problem.cost().fill(i..i + 1, &mut line);
        let kept = with_slack.then_some(slack.col_cost);
        prices.push(cheapest(&mut line.iter().map(|c| c.widen()).chain(kept)));
    }
    let corner = with_slack.then_some(slack.corner_cost);
    prices.push(cheapest(
        &mut core::iter::repeat_n(slack.row_cost, k).chain(corner),
    ));
    prices
}

/// The level at the given prices, or at those one gets to by lowering the prices of crowded columns
/// while that helps.
fn settled_down<'a, T: Real, C: Cost<T>>(
    guard: &Guard<'_>,
    prices: Vec<f64>,
    mut at: impl FnMut(Vec<f64>) -> Level<'a, T, C>,
) -> Level<'a, T, C> {
    let mut level = at(prices);
    while level.excess() > CROWDED_SHARE * level.total() && !guard.is_over() {
        let next = at(level.lowered());
        if !(next.excess() < level.excess() - RELIEF_SHARE * level.total()) {
            break;
        }
        level = next;
    }
    level
}

fn coarsest(cols: usize) -> usize {
    COARSEST.max(COARSEST_PER_COLUMN.saturating_mul(cols))
}

/// One in how many rows take part, from coarse to fine, the finest level not included.
fn strides(rows: usize, coarsest: usize) -> Vec<usize> {
    let mut strides = Vec::new();
    let mut stride = REFINEMENT;
    while rows / stride >= coarsest {
        strides.push(stride);
        stride *= REFINEMENT;
    }
    strides.reverse();
    strides
}

/// One row out of every `stride`, at a place in its block that no pattern in the rows can follow.
fn sample(rows: usize, stride: usize) -> Vec<u32> {
    (0..rows / stride)
        .map(|block| (block * stride) as u32 + (mix(block as u64) % stride as u64) as u32)
        .collect()
}

/// Masses of the chosen rows scaled up to the mass of all, slack row last.
fn sampled_mass(marginals: &Marginals, chosen: &[u32]) -> Option<Vec<f64>> {
    let rows = marginals.rows();
    let mut mass: Vec<f64> = chosen.iter().map(|&i| rows[i as usize]).collect();
    let scale = marginals.supply() / crate::kernel::rounding::sum(&mass);
    if !scale.is_finite() {
        return None;
    }
    mass.iter_mut().for_each(|m| *m *= scale);
    mass.push(marginals.slack().row);
    Some(mass)
}
