//! The front door for exact answers: one solver that picks the way.
//!
//! Both ways solve every problem exactly and say the same about it; they differ in what they are fast
//! at. With k the shorter side and n the longer:
//!
//! * [`ShortestPaths`] works on the graph of the shorter side, in rounds of O(k²) after passes of
//!   O(n k), with O(n + k²) memory. With costs that have little to do with each other, or a slack row
//!   and column, as in label allocation, it takes few rounds; with costs between points it takes many.
//! * [`NetworkSimplex`] works on a tree of all rows and columns, with O(n + k) memory; its time grows
//!   with n¹·⁶⁵ but hardly with k: the way for square problems, and for point clouds, which it solves
//!   coarse to fine over short lists of pairs: 100,000 points in the plane in seconds.
//!
//! Measured, milliseconds on two cores, contracted / simplex (costs stored as a matrix: squared distances of
//! 2-D points, independent random numbers, label allocation with a share ρ placed):
//!
//! | n × k | points | random | labels |
//! | --- | --- | --- | --- |
//! | 200 × 20 | 0.35 / 0.25 | 0.13 / 0.19 | |
//! | 1,000 × 60 | 9.1 / 6.0 | 1.2 / 5.0 | |
//! | 1,000 × 300 | | | ρ = 0.5: 3.2 / 33 |
//! | 1,000 × 490 | | | ρ = 0.9: 12 / 13, ρ = 1: 16 / 15 |
//! | 1,000 × 1,000 | | | ρ = 0.5: 41 / 49, ρ = 1: 36 / 13 |
//! | 2,000 × 500 | 157 / 25 | 22 / 29 | |
//! | 3,000 × 1,000 | | 265 / 129 | |
//! | 4,000 × 60 | 19 / 37 | 6.3 / 27 | |
//! | 4,000 × 250 | 259 / 82 | 24 / 55 | |
//! | 5,000 × 1,000 | | | ρ = 0.9: 103 / 737 |
//! | 16,000 × 250 | 646 / 786 | 72 / 475 | |
//! | 20,000 × 1,000 | | | ρ = 0.9: 932 / 11,900 |
//!
//! Square tables with the same mass everywhere are tried by shortest augmenting paths first ([`matching`]), which are done soonest where costs
//! have little to do with each other and give up early where not. Else [`Algorithm::Auto`] turns
//!
//! * from points on a line, whose cost is convex in their difference, to sorting them ([`line`]);
//! * with a slack row and a slack column, at k = n / 2, where both take about the same time (and where the contracted
//!   graph takes many times longer than the simplex ever did, the simplex takes over);
//! * from costs that name their pairs ([`Sparse`](crate::Sparse)), to the simplex, which reads those alone;
//! * from points that the simplex solves coarse to fine ([`Start`]), to the simplex;
//! * else by trying: shape does not tell the first column of the table from the second. The contracted
//!   graph works until the simplex, from its beginning, is likely to be done sooner, judged by the pace at which mass
//!   finds its place and counted in arcs looked at, so that every machine decides alike; then the simplex takes over.
//!   The worst seen is twice the better way (4,000 × 60 points with heavy-tailed masses).
//!
//! `cargo bench --bench exact -- --way auto,contracted,simplex` measures any shape.

pub(crate) mod assignment;
mod line;
mod lists;
mod matching;
mod max_flow;
pub(crate) mod offsets;
mod penalised;
pub(crate) mod repair;
pub(crate) mod shortest_paths;
pub(crate) mod simplex;
mod stopped;

use crate::problem::Erased;
use crate::problem::check;
use crate::solution::plan::{Representation, SparseRows};
use crate::solution::start;
use crate::solver::{Guard, Watch, options, solves, watched};
use crate::{
    Cost, Error, NetworkSimplex, Potentials, Problem, Real, ShortestPaths, Solution, Start, Status,
};

/// How an exact answer is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Algorithm {
    /// The faster of the others for the shape of the problem.
    #[default]
    Auto,
    /// [`NetworkSimplex`].
    NetworkSimplex,
    /// [`ShortestPaths`].
    ShortestPaths,
}

/// What [`Exact`] makes of a problem.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Choice {
    ShortestPaths,
    Simplex,
    /// The contracted graph unless the simplex, which takes as long as looking at so many arcs, is sooner done.
    Trial(f64),
}

/// The exact solver for any problem.
///
/// # Examples
/// ```
/// use earthmover::{Dense, Exact, Marginals, Problem};
/// let cost = Dense::new(&[0.0, 1.0, 0.2, 1.0, 0.5, 0.6], 3, 2)?;
/// let problem = Problem::new(cost, Marginals::balanced(&[1.0, 1.0, 1.0], &[1.0, 2.0])?)?;
/// let solution = Exact::new().solve(&problem)?;
/// assert!((solution.objective() - 1.6).abs() < 1e-12);
/// assert!(solution.certificate().relative_gap() < 1e-12);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[must_use]
pub struct Exact {
    algorithm: Algorithm,
    start: Start,
    max_iterations: Option<usize>,
    memory_budget: usize,
    gap: f64,
    #[cfg_attr(feature = "serde", serde(rename = "time_limit"))]
    watch: Watch,
}

/// What a copy of the costs may take, unless said otherwise.
const TABLE_BYTES: usize = 1 << 28;

impl Default for Exact {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::default(),
            start: Start::default(),
            max_iterations: None,
            memory_budget: TABLE_BYTES,
            gap: 1e-4,
            watch: Watch::default(),
        }
    }
}

solves! {
    Exact by exact,
    /// Answers the problem.
    ///
    /// # Errors
    /// [`Error::Cost`] or [`Error::TooDear`] for an entry that is no cost, [`Error::Blocked`] where a row or column that
    /// carries mass has no allowed pair, [`Error::Infeasible`] where the forbidden pairs together leave
    /// no way.
    solve,
    /// Answers the problem starting from potentials that are believed to be near the optimal ones.
    ///
    /// # Errors
    /// As [`solve`](Self::solve), [`Error::Length`] for potentials of another shape and
    /// [`Error::Start`] where one is NaN or +∞.
    solve_from,
}

impl Exact {
    /// Runs to the optimum, by the way that suits the shape.
    pub fn new() -> Self {
        Self::default()
    }

    options! {
        /// Which way to go; [`Algorithm::Auto`] by default.
        algorithm: Algorithm,

        /// Where the simplex takes its first plan from, if it is the simplex that is used;
        /// [`Start::Auto`] by default.
        ///
        /// # Examples
        /// ```
        /// use earthmover::{Exact, Marginals, PointCloud, Problem, SquaredEuclidean, Start, Algorithm};
        /// let (here, there) = ([0.0, 1.0, 2.0], [0.5, 1.5, 2.5]);
        /// let cost = PointCloud::new(&here, &there, 1, SquaredEuclidean)?;
        /// let problem = Problem::new(cost, Marginals::balanced(&[1.0; 3], &[1.0; 3])?)?;
        /// let exact = Exact::new().algorithm(Algorithm::NetworkSimplex).start(Start::Multiscale);
        /// assert_eq!(exact.solve(&problem)?.objective(), 0.75);
        /// # Ok::<(), earthmover::Error>(())
        /// ```
        start: Start,

        /// Bytes that a copy of the costs may take. Where they are worked out on the fly or lie column by column, and such a copy is
        /// not larger, they are copied once, row by row, which is many times faster to read; Default 256 MB (2²⁸ bytes); 0 for never.
        ///
        /// # Examples
        /// ```
        /// use earthmover::{Exact, FromFn, Marginals, Problem};
        /// let cost = FromFn::new(2, 2, |i, j| if i == j { 0.0 } else { 1.0 })?;
        /// let problem = Problem::new(cost, Marginals::uniform(2, 2)?)?;
        /// let (table, none) = (Exact::new(), Exact::new().memory_budget(0));
        /// assert_eq!(table.solve(&problem)?.objective(), none.solve(&problem)?.objective());
        /// # Ok::<(), earthmover::Error>(())
        /// ```
        memory_budget: usize,

        /// The relative gap between upper and lower bound at which to stop where masses are penalised by
        /// [`Penalty::Kl`](crate::Penalty::Kl): that has no vertex to end at, and is approached from the entropic side. All other
        /// problems are solved to the optimum. Default 1e-4.
        ///
        /// # Examples
        /// ```
        /// use earthmover::{Dense, Exact, Marginals, Penalty, Problem};
        /// let kl = Penalty::Kl(1.0);
        /// let cost = Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2)?;
        /// let problem = Problem::new(cost, Marginals::relaxed(&[1.0, 2.0], &[2.0, 2.0], kl, kl)?)?;
        /// let solution = Exact::new().gap(1e-6).solve(&problem)?;
        /// assert!(solution.status().is_converged() && solution.certificate().relative_gap() <= 1e-6);
        /// # Ok::<(), earthmover::Error>(())
        /// ```
        gap: f64,
    }

    /// Most iterations (pivots, or rounds of shortest paths); unlimited by default. Where one way takes
    /// over from the other, each counts its own.
    pub fn max_iterations(mut self, iterations: usize) -> Self {
        self.max_iterations = Some(iterations);
        self
    }

    watched! {
        /// Called now and then; [`ControlFlow::Break`](core::ops::ControlFlow::Break) stops with the best plan so far. Nobody is called by default.
        on_progress,
        /// Stops, with [`Status::Stopped`] and the best plan so far, when this much time has passed; obeyed within a thousand
        /// pivots, a round of shortest paths or one look at all costs. Default: never.
        time_limit,
    }

    fn choose<T: Real, C: Cost<T>>(&self, problem: &Problem<T, C>) -> Choice {
        let (rows, cols) = (problem.rows(), problem.cols());
        let slack = problem.marginals().slack();
        match self.algorithm {
            Algorithm::ShortestPaths => Choice::ShortestPaths,
            Algorithm::NetworkSimplex => Choice::Simplex,
            Algorithm::Auto if problem.cost().pairs().is_some() => Choice::Simplex,
            Algorithm::Auto if slack.row > 0.0 && slack.col > 0.0 => {
                let short = rows.min(cols);
                if short <= MOST_NODES && short <= rows.max(cols) / 2 {
                    Choice::Trial(SLACK_ALLOWANCE * work(rows, cols))
                } else {
                    Choice::Simplex
                }
            }
            Algorithm::Auto if self.simplex().goes_coarse_to_fine(problem) => Choice::Simplex,
            Algorithm::Auto if self.algorithm_for(rows, cols) == Algorithm::ShortestPaths => {
                Choice::Trial(work(rows, cols))
            }
            Algorithm::Auto => Choice::Simplex,
        }
    }

    /// What a copy of this problem's costs may take. Points and pairs are left to those who know what to do with them.
    pub(crate) fn budget<T: Real>(&self, problem: &Erased<'_, T>) -> usize {
        if problem.cost().points().is_some() || problem.cost().pairs().is_some() {
            0
        } else {
            self.memory_budget
        }
    }

    /// The body of [`solve`](Self::solve) and [`solve_from`](Self::solve_from).
    pub(crate) fn answer<'p, 'c, T: Real>(
        &self,
        problem: &'p Erased<'c, T>,
        start: Option<&Potentials>,
    ) -> Result<Solution<'p, T, &'c dyn Cost<T>>, Error> {
        // Asked for penalised masses only, but what is no gap is none for others either.
        if !(self.gap.is_finite() && self.gap > 0.0) {
            return Err(Error::Option {
                name: "gap",
                value: self.gap,
                expected: "a number above zero",
            });
        }
        if problem.marginals().is_relaxed() {
            return self.penalised(problem, start);
        }
        let guard = self.watch.begin()?;
        let start = start.map(|start| start::priced_columns(start, problem.marginals()));
        let start = start.transpose()?;
        if self.algorithm == Algorithm::Auto
            && self.start == Start::Auto
            && let Some(sorted) = line::solve(problem, &guard)?
        {
            return Ok(sorted);
        }
        match start {
            None => self.cold_under(problem, &guard),
            Some(start) => self.warm(problem, start, &guard),
        }
    }

    fn cold_under<'p, 'c, T: Real>(
        &self,
        problem: &'p Erased<'c, T>,
        guard: &Guard<'_>,
    ) -> Result<Solution<'p, T, &'c dyn Cost<T>>, Error> {
        match self.choose(problem) {
            Choice::ShortestPaths => self.shortest_paths().run(problem, None, guard),
            Choice::Simplex => match self.one_to_one(problem, guard)? {
                Some(found) => Ok(found),
                None => self.simplex().run(problem, None, guard),
            },
            Choice::Trial(work) => {
                let trial = self.shortest_paths().unless_slower_than(work);
                let solution = trial.run(problem, None, guard)?;
                let capped = self
                    .max_iterations
                    .is_some_and(|m| solution.iterations() >= m);
                if capped || solution.status() != Status::IterationLimit {
                    return Ok(solution);
                }
                let found = self.simplex().run(problem, None, guard)?;
                if found.status().is_converged() {
                    return Ok(found);
                }
                // Cut short: what the trial had found may be better than how far the simplex has come.
                Ok(stopped::better(solution, found))
            }
        }
    }

    /// The answer of a square table with the same mass everywhere, where that is a matching and shortest augmenting paths are a fast way to it.
    /// Whoever watches or caps pivots gets pivots.
    fn one_to_one<'p, 'c, T: Real>(
        &self,
        problem: &'p Erased<'c, T>,
        guard: &Guard<'_>,
    ) -> Result<Option<Solution<'p, T, &'c dyn Cost<T>>>, Error> {
        let marginals = problem.marginals();
        let (a, b, slack) = (marginals.rows(), marginals.cols(), marginals.slack());
        let mass = a[0];
        let same = a.len() == b.len() && a.iter().chain(b).all(|&m| m == mass);
        let free = self.algorithm == Algorithm::Auto
            && self.start == Start::Auto
            && self.max_iterations.is_none()
            && !guard.is_watched();
        let cost = *problem.cost();
        if !(same && free && slack.row == 0.0 && slack.col == 0.0) || cost.block(0..1).is_none() {
            return Ok(None);
        }
        check::entries(problem)?;
        let Some(found) = matching::matching(cost, guard) else {
            return Ok(None);
        };
        let partners = found.partners.into_iter().enumerate();
        let entries = partners.map(|(i, j)| (i, j, mass)).collect();
        let potentials = Potentials {
            rows: found.rows,
            cols: found.cols,
            slack_row: f64::NEG_INFINITY,
            slack_col: f64::NEG_INFINITY,
        };
        Ok(Some(Solution::new(
            problem,
            potentials,
            Representation::Sparse(SparseRows::new(a.len(), entries)),
            Status::Converged,
            found.scans,
            Some(0.0),
        )))
    }

    fn warm<'p, 'c, T: Real>(
        &self,
        problem: &'p Erased<'c, T>,
        start: Vec<f64>,
        guard: &Guard<'_>,
    ) -> Result<Solution<'p, T, &'c dyn Cost<T>>, Error> {
        match self.choose(problem) {
            Choice::Simplex => self.simplex().run(problem, Some(start), guard),
            _ => self.shortest_paths().run(problem, Some(start), guard),
        }
    }

    /// The way that [`solve`](Self::solve) tries first for a matrix of costs of this shape without slack;
    /// never [`Algorithm::Auto`].
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Exact, Algorithm};
    /// assert_eq!(Exact::new().algorithm_for(50_000, 10), Algorithm::ShortestPaths);
    /// assert_eq!(Exact::new().algorithm_for(10, 50_000), Algorithm::ShortestPaths);
    /// assert_eq!(Exact::new().algorithm_for(2_000, 2_000), Algorithm::NetworkSimplex);
    /// ```
    #[must_use]
    pub fn algorithm_for(&self, rows: usize, cols: usize) -> Algorithm {
        if self.algorithm != Algorithm::Auto {
            return self.algorithm;
        }
        let nodes = rows.min(cols);
        if nodes <= MOST_NODES && work(rows, cols) >= FEWEST_ROUNDS * (nodes * nodes) as f64 {
            Algorithm::ShortestPaths
        } else {
            Algorithm::NetworkSimplex
        }
    }

    fn simplex(&self) -> NetworkSimplex {
        let mut solver = NetworkSimplex::new().start(self.start);
        if let Some(cap) = self.max_iterations {
            solver = solver.max_iterations(cap);
        }
        solver
    }

    fn shortest_paths(&self) -> ShortestPaths {
        let mut solver = ShortestPaths::new();
        if let Some(cap) = self.max_iterations {
            solver = solver.max_iterations(cap);
        }
        solver
    }
}

/// Beyond this the k² numbers of the contracted graph are more memory than anybody expects.
const MOST_NODES: usize = 4096;

/// With a slack row and a slack column the contracted graph is the faster way by far: only where something is badly
/// wrong with that, at so many times what the simplex takes, does the simplex take over.
const SLACK_ALLOWANCE: f64 = 16.0;

/// A trial of fewer rounds than this would not tell.
const FEWEST_ROUNDS: f64 = 8.0;

/// As many arcs of the contracted graph, at 2.5 ns each with everything around it, as can be looked at
/// while the simplex solves such a shape; its time is fitted to the table above: 60 ms (n / 4000)^1.65 (k / 250)^0.3.
fn work(rows: usize, cols: usize) -> f64 {
    let (n, k) = (rows.max(cols) as f64, rows.min(cols) as f64);
    60e6 / 2.5 * (n / 4000.0).powf(1.65) * (k / 250.0).powf(0.3)
}
