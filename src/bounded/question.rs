//! The question: which sums are bounded, by what.

use core::marker::PhantomData;

use super::entropic::{BregmanProjections, project};
use super::exact::flow;
use super::laminar::Tree;
use super::solution::BoundedSolution;
use crate::flow::{Bounds, MinCostFlow, NODE_LIMIT};
use crate::problem::check::rows as check_rows;
use crate::{Cost, Error, Real};

/// Bounds for each of several sums.
#[derive(Debug, Clone)]
enum Each {
    Same(Bounds),
    Listed(Vec<Bounds>),
}

impl Each {
    fn list(
        &self,
        what: &'static str,
        bounds: &'static str,
        len: usize,
    ) -> Result<Vec<Bounds>, Error> {
        let list = match self {
            Self::Same(bounds) => vec![*bounds; len],
            Self::Listed(list) => list.clone(),
        };
        if list.len() != len {
            return Err(Error::Length {
                what: bounds,
                expected: len,
                found: list.len(),
            });
        }
        check(what, &list)?;
        Ok(list)
    }
}

pub(super) fn check(what: &'static str, list: &[Bounds]) -> Result<(), Error> {
    match list.iter().position(|b| !b.are_sound()) {
        Some(index) => Err(Error::Bounds {
            what,
            index,
            lower: list[index].lower,
            upper: list[index].upper,
        }),
        None => Ok(()),
    }
}

/// Transport with bounds on every kind of sum; see the formula in [the module](super).
///
/// By default nothing is bounded but `P ≥ 0`, so that with costs that are not negative the answer is
/// zero: say with lower bounds what must be moved.
///
/// # Complexity
/// Exactly, every allowed pair becomes an arc: about 80 bytes of memory for each of the rows × columns pairs; entropically it is 16.
/// For plain marginals without such bounds the other solvers need none of that.
///
/// # Examples
/// Label four examples, at most two and a half of each class, and three in all:
/// ```
/// use earthmover::{Dense, bounded::BoundedTransport};
/// let costs = [0.1, 2.0, 0.2, 1.5, 0.3, 1.0, 0.9, 0.8];
/// let answer = BoundedTransport::new(Dense::new(&costs, 4, 2)?)
///     .every_row(..=1.0)
///     .every_col(..=2.5)
///     .total(3.0..)
///     .solve()?;
/// assert_eq!(answer.to_dense(), [1.0, 0.0, 1.0, 0.0, 0.5, 0.0, 0.0, 0.5]);
/// // More room in class 0 would spare 0.8 − 0.3 per unit.
/// assert!((answer.col_prices()[0] + 0.5).abs() < 1e-12);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct BoundedTransport<T, C> {
    cost: C,
    rows: Each,
    cols: Each,
    entry_cap: f64,
    groups: Vec<(Vec<usize>, Bounds)>,
    total: Bounds,
    scalar: PhantomData<fn() -> T>,
}

impl<T: Real, C: Cost<T>> BoundedTransport<T, C> {
    /// Transport at these costs, +∞ forbidding a pair.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, bounded::BoundedTransport};
    /// let answer = BoundedTransport::new(Dense::new(&[-1.0, 2.0], 1, 2)?).every_row(..=1.0).solve()?;
    /// assert_eq!(answer.to_dense(), [1.0, 0.0]); // only what pays is moved
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn new(cost: C) -> Self {
        Self {
            cost,
            rows: Each::Same(Bounds::default()),
            cols: Each::Same(Bounds::default()),
            entry_cap: f64::INFINITY,
            groups: Vec::new(),
            total: Bounds::default(),
            scalar: PhantomData,
        }
    }

    /// The same bounds for the sum of every row. Default: zero to infinity.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, bounded::BoundedTransport};
    /// let answer = BoundedTransport::new(Dense::new(&[1.0, 2.0], 2, 1)?).every_row(3.0).solve()?;
    /// assert_eq!(answer.row_sums(), [3.0, 3.0]);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn every_row(mut self, bounds: impl Into<Bounds>) -> Self {
        self.rows = Each::Same(bounds.into());
        self
    }

    /// Bounds for the sum of each row in turn. Default: zero to infinity.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, bounded::BoundedTransport};
    /// let answer = BoundedTransport::new(Dense::new(&[1.0, 2.0], 2, 1)?)
    ///     .row_bounds([0.5..=1.0, 2.0..=3.0])
    ///     .solve()?;
    /// assert_eq!(answer.row_sums(), [0.5, 2.0]);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn row_bounds<B: Into<Bounds>>(mut self, bounds: impl IntoIterator<Item = B>) -> Self {
        self.rows = Each::Listed(bounds.into_iter().map(Into::into).collect());
        self
    }

    /// The same bounds for the sum of every column. Default: zero to infinity.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, bounded::BoundedTransport};
    /// let answer = BoundedTransport::new(Dense::new(&[1.0, 2.0], 1, 2)?).every_col(1.0..).solve()?;
    /// assert_eq!(answer.objective(), 3.0);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn every_col(mut self, bounds: impl Into<Bounds>) -> Self {
        self.cols = Each::Same(bounds.into());
        self
    }

    /// Bounds for the sum of each column in turn. Default: zero to infinity.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, bounded::BoundedTransport};
    /// let answer = BoundedTransport::new(Dense::new(&[1.0, 2.0], 1, 2)?)
    ///     .every_row(2.0)
    ///     .col_bounds([..=1.5, ..=9.0])
    ///     .solve()?;
    /// assert_eq!(answer.col_sums(), [1.5, 0.5]);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn col_bounds<B: Into<Bounds>>(mut self, bounds: impl IntoIterator<Item = B>) -> Self {
        self.cols = Each::Listed(bounds.into_iter().map(Into::into).collect());
        self
    }

    /// The most that any one entry may carry. Default: infinity.
    ///
    /// # Examples
    /// At most two labels for an example, none of them twice:
    /// ```
    /// use earthmover::{Dense, bounded::BoundedTransport};
    /// let answer = BoundedTransport::new(Dense::new(&[-3.0, -1.0, -2.0], 1, 3)?)
    ///     .every_row(..=2.0)
    ///     .entry_cap(1.0)
    ///     .solve()?;
    /// assert_eq!(answer.to_dense(), [1.0, 0.0, 1.0]);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn entry_cap(mut self, cap: f64) -> Self {
        self.entry_cap = cap;
        self
    }

    /// Bounds the sum of a set of columns together. Groups are numbered as they are added and must be nested in
    /// one another or disjoint.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, bounded::BoundedTransport};
    /// let answer = BoundedTransport::new(Dense::new(&[1.0, 1.0, 5.0], 1, 3)?)
    ///     .every_row(2.0)
    ///     .group([0, 1], ..=1.5)
    ///     .solve()?;
    /// assert_eq!(answer.col_sums()[2], 0.5);
    /// assert_eq!(answer.group_prices(), [-4.0]);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn group(
        mut self,
        columns: impl IntoIterator<Item = usize>,
        bounds: impl Into<Bounds>,
    ) -> Self {
        self.groups
            .push((columns.into_iter().collect(), bounds.into()));
        self
    }

    /// Bounds the sum of all entries. Default: zero to infinity.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, bounded::BoundedTransport};
    /// let answer = BoundedTransport::new(Dense::new(&[1.0, 2.0], 2, 1)?)
    ///     .every_row(..=1.0)
    ///     .total(1.5..)
    ///     .solve()?;
    /// assert_eq!(answer.objective(), 2.0);
    /// assert_eq!(answer.total_price(), 2.0);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn total(mut self, bounds: impl Into<Bounds>) -> Self {
        self.total = bounds.into();
        self
    }

    /// Solves to optimality with the default [`MinCostFlow`].
    ///
    /// # Errors
    /// As [`solve_with`](Self::solve_with).
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, Error, bounded::BoundedTransport};
    /// let short = BoundedTransport::new(Dense::new(&[1.0, 2.0], 1, 2)?).every_row(..=1.0).total(1.5..);
    /// assert_eq!(short.solve().unwrap_err(), Error::Infeasible { stranded: 0.5, total: 1.5 });
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn solve(&self) -> Result<BoundedSolution, Error> {
        self.solve_with(&MinCostFlow::new())
    }

    /// Solves with a given solver: an iteration cap, progress.
    ///
    /// # Errors
    /// * [`Error::Empty`], [`Error::TooLarge`], [`Error::Length`] for shapes that do not fit,
    ///   [`Error::Index`] for a group with a column that does not exist;
    /// * [`Error::Cost`] for a NaN or −∞; [`Error::Bounds`] for NaN, infinite or crossed bounds;
    /// * [`Error::Overlap`] for groups that are neither nested nor disjoint;
    /// * [`Error::Infeasible`] where the bounds contradict each other, and by how much mass;
    /// * [`Error::Unbounded`] where a negative cost meets no upper bound at all.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, Status, bounded::BoundedTransport, flow::MinCostFlow};
    /// let transport = BoundedTransport::new(Dense::new(&[1.0, 2.0], 1, 2)?).every_row(1.0);
    /// let answer = transport.solve_with(&MinCostFlow::new().max_iterations(0))?;
    /// assert_eq!(answer.status(), Status::IterationLimit);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn solve_with(&self, solver: &MinCostFlow) -> Result<BoundedSolution, Error> {
        flow(&self.question()?, solver)
    }

    /// Solves the problem smoothed by entropy.
    ///
    /// # Errors
    /// As [`solve_with`](Self::solve_with); [`Error::Option`] for an option out of range.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, bounded::{BoundedTransport, BregmanProjections}};
    /// let costs = [0.1, 2.0, 0.2, 1.5, 0.3, 1.0, 0.9, 0.8];
    /// let transport = BoundedTransport::new(Dense::new(&costs, 4, 2)?)
    ///     .every_row(..=1.0)
    ///     .every_col(..=2.5)
    ///     .total(3.0..);
    /// let smooth = transport.solve_entropic(&BregmanProjections::new(0.01))?;
    /// assert!(smooth.status().is_converged());
    /// let (proof, optimum) = (smooth.certificate(), transport.solve()?.objective());
    /// assert!(proof.dual <= optimum && optimum <= proof.primal);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn solve_entropic(&self, solver: &BregmanProjections) -> Result<BoundedSolution, Error> {
        project(self.question()?, solver)
    }

    /// Checks everything and reads the costs.
    fn question(&self) -> Result<Question, Error> {
        let (rows, cols) = (self.cost.rows(), self.cost.cols());
        if rows == 0 || cols == 0 {
            return Err(Error::Empty { rows, cols });
        }
        let Some(entries) = rows.checked_mul(cols).filter(|&e| e < NODE_LIMIT) else {
            return Err(Error::TooLarge { rows, cols });
        };
        let row_bounds = self.rows.list("row", "row bounds", rows)?;
        let col_bounds = self.cols.list("column", "column bounds", cols)?;
        let (sets, group_bounds): (Vec<_>, Vec<_>) = self.groups.iter().cloned().unzip();
        check("group", &group_bounds)?;
        check("the total, number", &[self.total])?;
        check("every entry, row", &[Bounds::from(..=self.entry_cap)])?;
        let tree = Tree::new(&col_bounds, &sets, &group_bounds, self.total)?;
        let (mut costs, mut line) = (Vec::with_capacity(entries), vec![T::zero(); cols]);
        for i in 0..rows {
            self.cost.fill(i..i + 1, &mut line);
            check_rows(&line, cols, i)?;
            costs.extend(line.iter().map(|c| c.widen()));
        }
        Ok(Question {
            costs,
            rows: row_bounds,
            cap: self.entry_cap,
            tree,
        })
    }
}

/// A question that was checked, in plain numbers.
#[derive(Debug)]
pub(super) struct Question {
    /// Row-major; +∞ forbids a pair.
    pub(super) costs: Vec<f64>,
    pub(super) rows: Vec<Bounds>,
    /// The most that any entry may carry.
    pub(super) cap: f64,
    /// Bounds on columns, groups and the total.
    pub(super) tree: Tree,
}

impl Question {
    /// Whether every pair may carry any mass.
    pub(super) fn is_open(&self) -> bool {
        self.cap == f64::INFINITY && self.costs.iter().all(|c| c.is_finite())
    }

    /// Says what mass each node of the tree can hold, after taking as bounds what others imply: no sum is negative, and
    /// no row holds more than all columns together can.
    pub(super) fn tighten(&mut self) -> Result<Vec<Bounds>, Error> {
        let k = self.tree.cols;
        let mut room = vec![0.0; k];
        let mut all = Bounds::from(0.0);
        for (row, costs) in self.rows.iter_mut().zip(self.costs.chunks_exact(k)) {
            row.lower = row.lower.max(0.0);
            let mut most = 0.0;
            for (room, _) in room.iter_mut().zip(costs).filter(|(_, c)| c.is_finite()) {
                *room += row.upper.min(self.cap);
                most += self.cap;
            }
            let most = row.upper.min(most);
            if row.lower > most * (1.0 + SLIP) {
                return Err(lacking(row.lower, most));
            }
            all.lower += row.lower;
            all.upper += most;
        }
        self.tree.at_least_zero();
        let held = self.tree.attainable(&room, all)?;
        let most = held[self.tree.root()].upper;
        if most == f64::INFINITY {
            self.check_bounded()?;
        }
        for row in self.rows.iter_mut().filter(|r| r.upper == f64::INFINITY) {
            // Loosely, so that in the end it is not this bound that holds and has a price.
            row.upper = 2.0 * most;
        }
        Ok(held)
    }

    /// Whether something holds every pair that pays.
    fn check_bounded(&self) -> Result<(), Error> {
        let k = self.tree.cols;
        let bounded: Vec<bool> = (0..k).map(|j| self.tree.is_bounded(j)).collect();
        let mut arc = self.rows.len() + self.tree.bounds.len();
        for (at, cost) in self.costs.iter().enumerate() {
            let held = bounded[at % k] || self.rows[at / k].upper < f64::INFINITY;
            if *cost < 0.0 && !held && self.cap == f64::INFINITY {
                return Err(Error::Unbounded { arc });
            }
            arc += usize::from(cost.is_finite());
        }
        Ok(())
    }
}

/// Bounds contradict each other only where they do so by more than this share: they are sums of sums.
pub(super) const SLIP: f64 = 1e-9;

/// More is required than can be had.
pub(super) fn lacking(required: f64, available: f64) -> Error {
    Error::Infeasible {
        stranded: required - available,
        total: required,
    }
}
