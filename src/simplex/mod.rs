//! The exact solver: the primal network simplex on the transport problem.
//!
//! ```text
//! minimise  Σ_ij C_ij P_ij    subject to   P ≥ 0,   Σ_j P_ij = a_i,   Σ_i P_ij = b_j
//! ```
//!
//! A vertex of the feasible plans is a spanning tree of the rows and columns ([`tree`]). A pivot brings
//! an arc in whose price is too high, sends mass round the cycle it closes, and drops the arc that runs
//! empty first; when no price is too high the tree's prices prove that the plan is optimal. The cost is
//! read one line at a time ([`lines`]), and as seldom as possible ([`pricing`]).
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
mod multiscale;
mod pricing;
mod start;
mod tree;

use core::ops::ControlFlow;

use crate::marginals::sum;
use crate::plan::{Shape, SparseRows};
use crate::solver::Observer;
use crate::{Cost, Error, Potentials, Problem, Progress, Real, Side, Solution, Solver, Status};
use lines::{Lines, Phase};
use pricing::{COARSE, FINE, Outcome, Pricer};
use start::Masses;
use tree::Tree;

/// Stranded mass up to this share of the total is rounding of the masses, not infeasibility.
const STRANDED: f64 = 1e-12;

/// A relative gap above this says that the prices of an optimal tree are blurred by rounding.
const BLURRED: f64 = 1e-13;

/// Rounds of the last, fine look at most.
const POLISHES: usize = 4;

/// Pivots between two calls of the progress callback.
const REPORT_EVERY: usize = 1024;

/// Where [`NetworkSimplex`] takes its first plan from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Start {
    /// [`Multiscale`](Self::Multiscale) for point clouds of at least 512 points a side in at most 8
    /// dimensions, otherwise [`RowMinimum`](Self::RowMinimum).
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
        start::check(&mut lines, marginals)?;
        let masses = Masses::new(marginals);
        let mut g = first_prices(potentials, masses.cols.len());
        let mut pivots = 0;
        let first = if potentials.is_some() {
            start::peel(&mut lines, &masses, &g)
        } else if self.goes_coarse_to_fine(problem)
            && let Some((plan, prices, spent)) =
                multiscale::descend(self, problem, &mut lines, &masses)
        {
            (g, pivots) = (prices, spent);
            plan
        } else {
            start::greedy(&mut lines, &masses, &g)
        };
        let mut solve = Solve::new(self, lines, masses, pivots);
        let (tree, outcome) = solve.both_phases(first, &g, marginals.total())?;
        Ok(solve.answer(problem, tree, outcome))
    }
}

impl NetworkSimplex {
    fn goes_coarse_to_fine<T: Real, C: Cost<T>>(&self, problem: &Problem<T, C>) -> bool {
        match self.start {
            Start::RowMinimum => false,
            Start::Multiscale => true,
            Start::Auto => {
                let shorter = problem.rows().min(problem.cols());
                let most = multiscale::MOST_COORDINATES;
                shorter >= multiscale::WORTHWHILE
                    && problem.cost().points().is_some_and(|p| p.dimension <= most)
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

/// One solve under way.
struct Solve<'a, T, C> {
    solver: &'a NetworkSimplex,
    lines: Lines<'a, T, C>,
    masses: Masses,
    takes_part: Vec<bool>,
    pivots: usize,
    /// Share of the mass that forbidden pairs still carry.
    violation: f64,
}

impl<'a, T: Real, C: Cost<T>> Solve<'a, T, C> {
    fn new(
        solver: &'a NetworkSimplex,
        lines: Lines<'a, T, C>,
        masses: Masses,
        pivots: usize,
    ) -> Self {
        Self {
            solver,
            takes_part: masses.rows.iter().map(|&a| a > 0.0).collect(),
            pivots,
            violation: 0.0,
            masses,
            lines,
        }
    }

    /// Both phases, from a first plan whose arcs form a forest.
    fn both_phases(
        &mut self,
        first: start::Plan,
        g: &[f64],
        total: f64,
    ) -> Result<(Tree, Outcome), Error> {
        let mut arcs = first.arcs;
        if first.forbidden {
            self.lines.phase = Phase::Feasibility;
            let flat = vec![0.0; g.len()];
            let mut tree = start::plant(&arcs, &self.lines, &self.masses, &flat);
            self.violation = self.stranded(&tree) / total;
            let outcome = self.pivot(&mut tree, COARSE, usize::MAX);
            let stranded = self.stranded(&tree);
            self.violation = stranded / total;
            if outcome == Outcome::Optimal && stranded > STRANDED * total {
                return Err(Error::Infeasible { stranded, total });
            }
            // Keep what flows on allowed pairs: a forest again, now without forbidden arcs.
            arcs = tree.arcs().filter(|a| a.2 > 0.0).collect();
            arcs.retain(|&(i, j, _)| self.lines.at(i, j) == 0.0);
            self.lines.phase = Phase::Optimality;
            if outcome != Outcome::Optimal {
                let tree = start::plant(&arcs, &self.lines, &self.masses, g);
                return Ok((tree, outcome));
            }
            self.violation = 0.0;
        }
        let mut tree = start::plant(&arcs, &self.lines, &self.masses, g);
        let mut outcome = self.optimise(&mut tree);
        if outcome == Outcome::Optimal && self.gap(&tree) > BLURRED {
            // Arcs without flow may have tied the plan together by costs of another magnitude, whose
            // rounding blurs the prices. The pieces that carry flow, each priced by itself, do not
            // have them, and no arc that costs more than the prices' own size can enter again.
            arcs = tree.arcs().filter(|a| a.2 > 0.0).collect();
            let flat = vec![0.0; g.len()];
            tree = start::plant(&arcs, &self.lines, &self.masses, &flat);
            outcome = self.optimise(&mut tree);
        }
        Ok((tree, outcome))
    }

    /// Relative difference of the plan's cost and the prices' value.
    fn gap(&self, tree: &Tree) -> f64 {
        let priced = tree.arcs().filter(|a| a.2 > 0.0);
        let primal: Vec<f64> = priced.map(|(i, j, x)| x * self.lines.at(i, j)).collect();
        let (f, g) = self.centred(tree);
        let worth = |mass: &[f64], price: &[f64]| -> Vec<f64> {
            let carried = mass.iter().zip(price).filter(|p| *p.0 > 0.0);
            carried.map(|(m, p)| m * p).collect()
        };
        let mut dual = worth(&self.masses.rows, &f);
        dual.extend(worth(&self.masses.cols, &g));
        let (primal, dual) = (sum(&primal), sum(&dual));
        if primal == dual {
            0.0
        } else {
            (primal - dual).abs() / primal.abs()
        }
    }

    /// Pivots to optimality, then again at prices worked out afresh and a finer tolerance.
    fn optimise(&mut self, tree: &mut Tree) -> Outcome {
        let mut outcome = self.pivot(tree, COARSE, usize::MAX);
        for _ in 0..POLISHES {
            let before = self.pivots;
            let lines = &self.lines;
            tree.reprice(|i, j| lines.at(i, j));
            if outcome != Outcome::Optimal {
                break;
            }
            // Gains this small may be rounding that no pivot removes, hence the bounds.
            let most = 64 + tree.rows() + tree.cols();
            outcome = self.pivot(tree, FINE, most);
            if self.pivots == before {
                break;
            }
            if outcome == Outcome::Limit && self.pivots < self.solver.max_iterations {
                outcome = Outcome::Optimal;
            }
        }
        outcome
    }

    /// Prices with the columns' mean at zero: the dual value is a difference of two sums, best kept small.
    fn centred(&self, tree: &Tree) -> (Vec<f64>, Vec<f64>) {
        let g: Vec<f64> = tree.heights().iter().map(|h| -h).collect();
        let weights: f64 = self.masses.cols.iter().sum();
        let open = g.iter().zip(&self.masses.cols).filter(|p| *p.1 > 0.0);
        let centre = open.map(|(g, b)| g * (b / weights)).sum::<f64>();
        let centre = if centre.is_finite() { centre } else { 0.0 };
        (
            (0..tree.rows()).map(|i| tree.f(i) + centre).collect(),
            g.iter().map(|g| g - centre).collect(),
        )
    }

    /// At most `most` pivots on gains above `tolerance`.
    fn pivot(&mut self, tree: &mut Tree, tolerance: f64, most: usize) -> Outcome {
        let cap = self.pivots.saturating_add(most);
        let cap = cap.min(self.solver.max_iterations);
        if self.reports_stop() {
            return Outcome::Stopped;
        }
        let mut pivots = self.pivots;
        let (observer, violation) = (self.solver.observer.as_ref(), self.violation);
        let before = || {
            if pivots >= cap {
                return ControlFlow::Break(Outcome::Limit);
            }
            pivots += 1;
            if pivots.is_multiple_of(REPORT_EVERY)
                && Observer::says_stop(observer, &progress(pivots, violation))
            {
                return ControlFlow::Break(Outcome::Stopped);
            }
            ControlFlow::Continue(())
        };
        let takes_part = &self.takes_part;
        let outcome = Pricer::new().run(tree, &mut self.lines, takes_part, tolerance, before);
        self.pivots = pivots;
        outcome
    }

    fn reports_stop(&self) -> bool {
        let now = progress(self.pivots, self.violation);
        Observer::says_stop(self.solver.observer.as_ref(), &now)
    }

    /// Mass on forbidden pairs; read in the feasibility phase.
    fn stranded(&self, tree: &Tree) -> f64 {
        let on_forbidden = tree.arcs().filter(|&(i, j, _)| self.lines.at(i, j) > 0.0);
        on_forbidden.map(|a| a.2).sum()
    }

    fn answer<'p>(
        mut self,
        problem: &'p Problem<T, C>,
        tree: Tree,
        outcome: Outcome,
    ) -> Solution<'p, T, C> {
        let (n, k) = (problem.rows(), problem.cols());
        let status = match outcome {
            Outcome::Optimal => Status::Converged,
            Outcome::Limit => Status::IterationLimit,
            Outcome::Stopped => Status::Stopped,
        };
        let entries = finish::entries(&tree, &self.masses);
        let mut sums = vec![0.0; self.masses.cols.len()];
        for &(_, j, flow) in &entries {
            sums[j] += flow;
        }
        let off = sums.iter().zip(&self.masses.cols);
        let off: f64 = off.map(|(s, c)| (s - c).abs()).sum();
        let violation = off / problem.marginals().total();
        let (mut rows, mut cols) = self.centred(&tree);
        let heights: Vec<f64> = cols.iter().map(|g| -g).collect();
        for (i, f) in rows.iter_mut().enumerate() {
            if !self.takes_part[i] {
                *f = f64::NEG_INFINITY;
            } else if outcome != Outcome::Optimal {
                // An unfinished tree's prices are too high somewhere; lower them to feasibility.
                *f = self.lines.cheapest(i, &heights).0;
            }
        }
        let slack_row = rows.get(n).copied().unwrap_or(f64::NEG_INFINITY);
        let slack_col = cols.get(k).copied().unwrap_or(f64::NEG_INFINITY);
        rows.truncate(n);
        cols.truncate(k);
        let real = entries.into_iter().filter(|e| e.0 < n && e.1 < k).collect();
        Solution::new(
            problem,
            Potentials {
                rows,
                cols,
                slack_row,
                slack_col,
            },
            Shape::Sparse(SparseRows::new(n, real)),
            status,
            self.pivots,
            violation,
        )
    }
}

fn progress(iteration: usize, violation: f64) -> Progress {
    Progress {
        iteration,
        violation,
        epsilon: 0.0,
    }
}
