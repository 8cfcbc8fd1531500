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
mod budget;
mod forest;
mod heaps;
mod holdings;
mod level;
mod paths;
mod table;

use core::ops::ControlFlow;

use self::budget::Budget;
use self::level::{End, Level};
use self::table::{Misfit, NOWHERE, Table};
use crate::plan::{Shape, SparseRows};
use crate::solver::Observer;
use crate::{
    Cost, Error, Marginals, Potentials, Problem, Progress, Real, Side, Solution, Solver, Status,
};

/// Rows at the coarsest level, at least, and per column.
const COARSEST: usize = 256;
const COARSEST_PER_COLUMN: usize = 4;

/// How many times more rows the next level has.
const REFINEMENT: usize = 4;

/// Where more than this share of the mass is misplaced, prices are lowered before single rows move …
const CROWDED: f64 = 0.05;

/// … again and again while that finds a place for this share of the mass at least: about what the
/// rounds would take as long for as the pass over the costs.
const RELIEF: f64 = 0.01;

/// Exact optimal transport by shortest augmenting paths on the graph of the columns.
///
/// For problems with few columns (or few rows: then it works on the transposed problem).
/// [`Exact`](crate::Exact) picks it where it is the fastest way.
///
/// # Examples
/// ```
/// use earthmover::{Contracted, Dense, Marginals, Problem};
/// let cost = Dense::new(&[0.0, 1.0, 0.2, 1.0, 0.5, 0.6], 3, 2)?;
/// let problem = Problem::new(cost, Marginals::balanced(&[1.0, 1.0, 1.0], &[1.0, 2.0])?)?;
/// let solution = Contracted::new().solve(&problem)?;
/// assert_eq!(solution.plan().argmax(), [Some(0), Some(1), Some(1)]);
/// assert!(solution.certificate().relative_gap() < 1e-12);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Contracted {
    max_iterations: usize,
    /// Arcs that can be looked at while another way solves the problem.
    other_way: f64,
    observer: Option<Observer>,
}

impl Default for Contracted {
    fn default() -> Self {
        Self {
            max_iterations: usize::MAX,
            other_way: f64::INFINITY,
            observer: None,
        }
    }
}

impl Contracted {
    /// Runs to the optimum.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Most rounds of shortest paths, all levels together; unlimited by default.
    #[must_use]
    pub fn max_iterations(mut self, rounds: usize) -> Self {
        self.max_iterations = rounds;
        self
    }

    /// Gives up, with [`Status::IterationLimit`], where another way is likely to be done sooner: one that takes as long
    /// as looking at this many arcs.
    pub(crate) fn unless_slower_than(mut self, arcs: f64) -> Self {
        self.other_way = arcs;
        self
    }

    /// Called before every round of shortest paths; may stop the solver. Nobody is called by default.
    #[must_use]
    pub fn on_progress(
        mut self,
        callback: impl Fn(&Progress) -> ControlFlow<()> + Send + Sync + 'static,
    ) -> Self {
        self.observer = Some(Observer::new(callback));
        self
    }

    /// Answers the problem.
    ///
    /// # Errors
    /// [`Error::Cost`] for a cost that is NaN or −∞, [`Error::Blocked`] where a row or column that
    /// carries mass has no allowed pair, [`Error::Infeasible`] where the forbidden pairs together leave
    /// no way.
    pub fn solve<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
    ) -> Result<Solution<'p, T, C>, Error> {
        self.either_way(problem, None)
    }

    /// Answers the problem starting from potentials that are believed to be near the optimal ones, such
    /// as those of an entropic solve or of a similar problem. Only one side is read: that of the columns
    /// where there are fewer columns than rows, else that of the rows.
    ///
    /// # Errors
    /// As [`solve`](Self::solve), [`Error::Length`] for potentials of another shape and
    /// [`Error::Start`] where one is NaN or +∞.
    pub fn solve_from<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        start: &Potentials,
    ) -> Result<Solution<'p, T, C>, Error> {
        self.either_way(problem, Some(start))
    }

    fn either_way<'p, T: Real, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
        start: Option<&Potentials>,
    ) -> Result<Solution<'p, T, C>, Error> {
        let answer = if problem.rows() >= problem.cols() {
            let start = start
                .map(|s| checked(problem, Side::Cols, Side::SlackCol, &s.cols, s.slack_col))
                .transpose()?;
            self.tall(problem, start)?
        } else {
            let start = start
                .map(|s| checked(problem, Side::Rows, Side::SlackRow, &s.rows, s.slack_row))
                .transpose()?;
            let flipped = problem.transposed();
            let mut answer = self.tall(&flipped, start).map_err(transposed)?;
            for entry in &mut answer.entries {
                *entry = (entry.1, entry.0, entry.2);
            }
            answer.potentials = answer.potentials.transposed();
            answer
        };
        Ok(Solution::new(
            problem,
            answer.potentials,
            Shape::Sparse(SparseRows::new(problem.rows(), answer.entries)),
            answer.status,
            answer.iterations,
            answer.violation,
        ))
    }

    fn tall<T: Real, C: Cost<T>>(
        &self,
        problem: &Problem<T, C>,
        start: Option<Vec<f64>>,
    ) -> Result<Answer, Error> {
        let (n, k) = (problem.rows(), problem.cols());
        if n >= 1 << 31 {
            return Err(Error::TooLarge { rows: n, cols: k });
        }
        let marginals = problem.marginals();
        let slack = marginals.slack();
        let mut wanted = marginals.cols().to_vec();
        wanted.push(slack.col);

        let coarse = if start.is_some() { n } else { coarsest(k) };
        let mut prices = start.unwrap_or_else(|| vec![0.0; k + 1]);
        for (g, w) in prices.iter_mut().zip(&wanted) {
            if *w == 0.0 {
                *g = f64::NEG_INFINITY;
            }
        }
        let mut iterations = 0;
        let mut status = Status::Converged;
        let mut budget = Budget::new(self.other_way);
        let mut go_on = |budget: &mut Budget, share: f64, work: f64| {
            let progress = Progress {
                iteration: iterations,
                violation: 2.0 * share,
                epsilon: 0.0,
            };
            if iterations >= self.max_iterations || !budget.allows(share, work) {
                status = Status::IterationLimit;
            } else if Observer::says_stop(self.observer.as_ref(), &progress) {
                status = Status::Stopped;
            } else {
                iterations += 1;
            }
            status == Status::Converged
        };

        let strides = strides(n, coarse);
        for (at, &stride) in strides.iter().enumerate() {
            let chosen = sample(n, stride);
            let Some(mass) = sampled_mass(marginals, &chosen) else {
                continue;
            };
            let mut level = settled_down(prices, |prices| {
                let table = Table::new(problem.cost(), slack, Some(chosen.clone()), prices);
                let (places, _) = table.places();
                Level::new(table, places, mass.clone(), &wanted)
            });
            // Stranded here says nothing about the whole; whatever the prices are, they are a start.
            budget.enter(strides.len() - at);
            level.run(&mut budget, &mut go_on);
            prices = level.prices();
        }

        let mut mass = marginals.rows().to_vec();
        mass.push(slack.row);
        let mut wrong = None;
        let mut level = settled_down(prices, |prices| {
            let table = Table::new(problem.cost(), slack, None, prices);
            let (places, misfit) = table.places();
            if let Some(Misfit { row, col, value }) = misfit {
                wrong = Some(Error::Cost { row, col, value });
            } else if let Some(i) = (0..n).find(|&i| mass[i] > 0.0 && places[i].home == NOWHERE) {
                wrong = Some(Error::Blocked {
                    side: Side::Rows,
                    index: i,
                    mass: mass[i],
                });
            }
            Level::new(table, places, mass.clone(), &wanted)
        });
        if let Some(error) = wrong {
            return Err(error);
        }
        budget.enter(0);
        match level.run(&mut budget, &mut go_on) {
            End::Stranded(stranded) => {
                return Err(blocked(problem).unwrap_or(Error::Infeasible {
                    stranded,
                    total: marginals.total(),
                }));
            }
            End::Cut if status == Status::Converged => status = Status::IterationLimit,
            End::Cut | End::Done => {}
        }
        Ok(answer(problem, &level, status, iterations))
    }
}

impl<T: Real> Solver<T> for Contracted {
    fn solve<'p, C: Cost<T>>(
        &self,
        problem: &'p Problem<T, C>,
    ) -> Result<Solution<'p, T, C>, Error> {
        Contracted::solve(self, problem)
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

fn answer<T: Real, C: Cost<T>>(
    problem: &Problem<T, C>,
    level: &Level<'_, T, C>,
    status: Status,
    iterations: usize,
) -> Answer {
    let (n, k) = (problem.rows(), problem.cols());
    let holdings = &level.holdings;
    let prices = level.prices();

    let (mut line, mut shifted) = (vec![T::zero(); k], vec![0.0; k + 1]);
    let mut price_of = |i: usize| {
        let Some((u, _)) = holdings.of(i).next() else {
            return f64::NEG_INFINITY;
        };
        let u = u as usize;
        let best = match level.places.get(i) {
            Some(place) if place.home == u as u32 => place.best,
            _ => {
                level.table.shifted(i, &mut line, &mut shifted);
                shifted[u]
            }
        };
        best - level.moved[u]
    };
    let potentials = Potentials {
        rows: (0..n).map(&mut price_of).collect(),
        slack_row: price_of(n),
        slack_col: prices[k],
        cols: prices[..k].to_vec(),
    };

    // What the split rows have to bring to each column, given the whole ones.
    let mut received = vec![(0.0f64, 0.0f64); k + 1];
    for i in 0..n {
        let Some(u) = holdings.whole(i).filter(|&u| u != NOWHERE) else {
            continue;
        };
        let mass = holdings.mass(i);
        let (sum, carry) = &mut received[u as usize];
        let next = *sum + mass;
        *carry += if *sum >= mass {
            (*sum - next) + mass
        } else {
            (mass - next) + *sum
        };
        *sum = next;
    }
    let rest: Vec<f64> = received
        .iter()
        .zip(level.wanted())
        .map(|((sum, carry), w)| (w - sum) - carry)
        .collect();
    let split: Vec<(usize, &[(u32, f64)])> = holdings.split().collect();
    let shares: Vec<Vec<(u32, f64)>> = split.iter().map(|s| s.1.to_vec()).collect();
    let mass: Vec<f64> = split.iter().map(|s| holdings.mass(s.0)).collect();
    let shares = forest::untangle(&shares, &mass, &rest, status.is_converged());

    // By row, because what is sorted need not be sorted again.
    let mut entries = Vec::with_capacity(n + k);
    let mut next = 0;
    for i in 0..n {
        if split.get(next).is_some_and(|s| s.0 == i) {
            let real = shares[next].iter().filter(|s| (s.0 as usize) < k);
            entries.extend(real.map(|&(u, m)| (i, u as usize, m)));
            next += 1;
        } else if let Some(u) = holdings.whole(i).filter(|&u| (u as usize) < k) {
            entries.push((i, u as usize, holdings.mass(i)));
        }
    }
    Answer {
        entries,
        potentials,
        status,
        iterations,
        violation: 2.0 * level.misplaced() / level.total(),
    }
}

/// Starting prices of one side, its slack last. −∞, which entropic solvers give to empty columns, is
/// replaced by the lowest price there is.
fn checked<T: Real, C: Cost<T>>(
    problem: &Problem<T, C>,
    side: Side,
    slack_side: Side,
    prices: &[f64],
    slack: f64,
) -> Result<Vec<f64>, Error> {
    let (what, expected) = match side {
        Side::Rows => ("starting row potentials", problem.rows()),
        _ => ("starting column potentials", problem.cols()),
    };
    if prices.len() != expected {
        return Err(Error::Length {
            what,
            expected,
            found: prices.len(),
        });
    }
    let mut prices = prices.to_vec();
    prices.push(slack);
    for (index, &value) in prices.iter().enumerate() {
        if value.is_nan() || value == f64::INFINITY {
            let (side, index) = if index < expected {
                (side, index)
            } else {
                (slack_side, 0)
            };
            return Err(Error::Start { side, index, value });
        }
    }
    let finite = prices.iter().copied().filter(|g| g.is_finite());
    let lowest = finite.fold(f64::INFINITY, f64::min);
    let lowest = if lowest.is_finite() { lowest } else { 0.0 };
    prices.iter_mut().for_each(|g| *g = g.max(lowest));
    Ok(prices)
}

/// The first column with mass that no row with mass may use.
fn blocked<T: Real, C: Cost<T>>(problem: &Problem<T, C>) -> Option<Error> {
    let (n, k) = (problem.rows(), problem.cols());
    let marginals = problem.marginals();
    let slack = marginals.slack();
    let from_slack = slack.row > 0.0;
    let mut open = vec![from_slack && slack.row_cost < f64::INFINITY; k];
    let mut line = vec![T::zero(); k];
    for i in (0..n).filter(|&i| marginals.rows()[i] > 0.0) {
        problem.cost().fill(i..i + 1, &mut line);
        for (o, c) in open.iter_mut().zip(&line) {
            *o |= *c < T::infinity();
        }
    }
    let block = |side, index, mass| Some(Error::Blocked { side, index, mass });
    if let Some(j) = (0..k).find(|&j| marginals.cols()[j] > 0.0 && !open[j]) {
        return block(Side::Cols, j, marginals.cols()[j]);
    }
    let corner = slack.corner_cost < f64::INFINITY;
    let to_slack = slack.col_cost < f64::INFINITY && marginals.rows().iter().any(|a| *a > 0.0);
    if slack.col > 0.0 && !to_slack && !(from_slack && corner) {
        return block(Side::SlackCol, 0, slack.col);
    }
    let to_cols = slack.row_cost < f64::INFINITY && marginals.cols().iter().any(|b| *b > 0.0);
    if from_slack && !to_cols && !(slack.col > 0.0 && corner) {
        return block(Side::SlackRow, 0, slack.row);
    }
    None
}

/// The same complaint about the problem as it was asked.
fn transposed(error: Error) -> Error {
    match error {
        Error::Cost { row, col, value } => Error::Cost {
            row: col,
            col: row,
            value,
        },
        Error::TooLarge { rows, cols } => Error::TooLarge {
            rows: cols,
            cols: rows,
        },
        Error::Blocked { side, index, mass } => Error::Blocked {
            side: match side {
                Side::Rows => Side::Cols,
                Side::Cols => Side::Rows,
                Side::SlackRow => Side::SlackCol,
                Side::SlackCol => Side::SlackRow,
            },
            index,
            mass,
        },
        other => other,
    }
}

/// The level at the given prices, or at those one gets to by lowering the prices of crowded columns
/// while that helps.
fn settled_down<'a, T: Real, C: Cost<T>>(
    prices: Vec<f64>,
    mut at: impl FnMut(Vec<f64>) -> Level<'a, T, C>,
) -> Level<'a, T, C> {
    let mut level = at(prices);
    while level.misplaced() > CROWDED * level.total() {
        let next = at(level.lowered());
        if !(next.misplaced() < level.misplaced() - RELIEF * level.total()) {
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
        .map(|block| {
            // SplitMix64's finaliser.
            let mut x = (block as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^= x >> 31;
            (block * stride) as u32 + (x % stride as u64) as u32
        })
        .collect()
}

/// Masses of the chosen rows scaled up to the mass of all, slack row last.
fn sampled_mass(marginals: &Marginals, chosen: &[u32]) -> Option<Vec<f64>> {
    let rows = marginals.rows();
    let mut mass: Vec<f64> = chosen.iter().map(|&i| rows[i as usize]).collect();
    let scale = marginals.supply() / crate::marginals::sum(&mass);
    if !scale.is_finite() {
        return None;
    }
    mass.iter_mut().for_each(|m| *m *= scale);
    mass.push(marginals.slack().row);
    Some(mass)
}
