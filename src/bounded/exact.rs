//! Transport whose sums lie *between* bounds: rows, columns, groups of columns, entries, the total.
//!
//! ```text
//! minimise  Σ_ij C_ij P_ij    subject to   0 ≤ P_ij ≤ cap
//!                                          rlo_i ≤ Σ_j P_ij ≤ rhi_i,    clo_j ≤ Σ_i P_ij ≤ chi_j
//!                                          glo_G ≤ Σ_{j ∈ G} Σ_i P_ij ≤ ghi_G    for nested or disjoint G
//!                                          tlo ≤ Σ_ij P_ij ≤ thi
//! ```
//!
//! Each sum is the flow through one arc of a layered graph,
//!
//! ```text
//! source ──rows──► row i ──C_ij──► column j ──columns──► groups ──groups──► … ──► sink ──total──► source
//! ```
//!
//! so the whole family is one [minimum-cost flow](crate::flow), solved exactly, and the reduced cost of each
//! arc is the shadow price of its bounds. Groups must be *laminar* (nested or disjoint): only then does mass
//! pass through them one after the other.

use core::marker::PhantomData;

use super::laminar::Forest;
use crate::flow::{ArcId, Bounds, FlowSolution, MinCostFlow, NODE_LIMIT, Network};
use crate::{Certificate, Cost, Entry, Error, Real, Status};

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

fn check(what: &'static str, list: &[Bounds]) -> Result<(), Error> {
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
/// Every allowed pair becomes an arc: about 80 bytes of memory for each of the rows × columns pairs. For plain
/// marginals without such bounds the dense exact solver needs none of that.
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
        let layers = self.layers()?;
        let flow = solver.solve(&layers.network)?;
        Ok(BoundedSolution::new(&layers, &flow))
    }

    /// The layered graph: node 0 the source, 1 the sink, then rows, columns, groups.
    fn layers(&self) -> Result<Layers, Error> {
        let (rows, cols) = (self.cost.rows(), self.cost.cols());
        if rows == 0 || cols == 0 {
            return Err(Error::Empty { rows, cols });
        }
        let entries = rows.checked_mul(cols).filter(|&e| e < NODE_LIMIT);
        let Some(entries) = entries else {
            return Err(Error::TooLarge { rows, cols });
        };
        let row_bounds = self.rows.list("row", "row bounds", rows)?;
        let col_bounds = self.cols.list("column", "column bounds", cols)?;
        let (sets, group_bounds): (Vec<_>, Vec<_>) = self.groups.iter().cloned().unzip();
        check("group", &group_bounds)?;
        check("the total, number", &[self.total])?;
        let cap = Bounds::from(..=self.entry_cap);
        check("every entry, row", &[cap])?;
        let forest = Forest::new(cols, &sets)?;

        let (source, sink) = (0, 1);
        let row = |i: usize| 2 + i;
        let col = |j: usize| 2 + rows + j;
        let above = |parent: Option<usize>| parent.map_or(sink, |g| 2 + rows + cols + g);
        let mut network = Network::new(2 + rows + cols + sets.len());
        network.reserve(rows + cols + sets.len() + 1 + entries);
        for (i, &bounds) in row_bounds.iter().enumerate() {
            network.arc(source, row(i), 0.0, bounds);
        }
        for (j, &bounds) in col_bounds.iter().enumerate() {
            network.arc(col(j), above(forest.col_parent[j]), 0.0, bounds);
        }
        for (g, &bounds) in group_bounds.iter().enumerate() {
            network.arc(above(Some(g)), above(forest.group_parent[g]), 0.0, bounds);
        }
        network.arc(sink, source, 0.0, self.total);
        let mut line = vec![T::zero(); cols];
        for i in 0..rows {
            self.cost.fill(i..i + 1, &mut line);
            for (j, c) in line.iter().enumerate() {
                let value = c.widen();
                if value.is_nan() || value == f64::NEG_INFINITY {
                    return Err(Error::Cost {
                        row: i,
                        col: j,
                        value,
                    });
                }
                if value < f64::INFINITY {
                    network.arc(row(i), col(j), value, cap);
                }
            }
        }
        Ok(Layers {
            network,
            rows,
            cols,
            groups: sets.len(),
        })
    }
}

/// The network of a bounded transport and how its arcs are numbered.
struct Layers {
    network: Network,
    rows: usize,
    cols: usize,
    groups: usize,
}

/// The answer to a [`BoundedTransport`]: the plan, the shadow prices, the proof.
///
/// A *price* is what the optimal cost grows by per unit by which the binding bound is raised: negative
/// where an upper bound holds mass back, positive where a lower bound forces it, zero where neither
/// binds. At a degenerate optimum (all bounds whole numbers, say) several prices prove it and this is
/// one of them: then a bound that is met exactly may be worth less one way than the other.
///
/// # Examples
/// ```
/// use earthmover::{Dense, bounded::BoundedTransport};
/// let answer = BoundedTransport::new(Dense::new(&[0.0, 1.0, 0.0, 3.0], 2, 2)?)
///     .every_row(1.0)
///     .col_bounds([..=1.0, ..=2.0])
///     .solve()?;
/// assert_eq!(answer.objective(), 1.0);
/// assert_eq!(answer.col_prices(), [-1.0, 0.0]);
/// assert_eq!(answer.certificate().gap(), 0.0);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "look at `status` before trusting the answer"]
pub struct BoundedSolution {
    entries: Vec<Entry>,
    row_potentials: Vec<f64>,
    col_potentials: Vec<f64>,
    row_prices: Vec<f64>,
    col_prices: Vec<f64>,
    group_prices: Vec<f64>,
    total_price: f64,
    certificate: Certificate,
    status: Status,
    iterations: usize,
}

impl BoundedSolution {
    fn new(layers: &Layers, flow: &FlowSolution) -> Self {
        let Layers {
            network,
            rows,
            cols,
            groups,
        } = layers;
        let sums = rows + cols + groups + 1;
        let prices = |range: core::ops::Range<usize>| -> Vec<f64> {
            range.map(|a| flow.reduced_cost(ArcId(a))).collect()
        };
        let entries: Vec<Entry> = (sums..network.arcs())
            .map(|a| Entry {
                row: network.from[a] as usize - 2,
                col: network.to[a] as usize - 2 - rows,
                mass: flow.flow(ArcId(a)),
            })
            .filter(|e| e.mass > 0.0)
            .collect();
        let mass = entries.iter().map(|e| e.mass).sum();
        let potential = |v: usize| flow.potential(v);
        Self {
            entries,
            row_potentials: (2..2 + rows).map(potential).collect(),
            col_potentials: (2 + rows..2 + rows + cols).map(|v| -potential(v)).collect(),
            row_prices: prices(0..*rows),
            col_prices: prices(*rows..rows + cols),
            group_prices: prices(rows + cols..rows + cols + groups),
            total_price: flow.reduced_cost(ArcId(sums - 1)),
            certificate: Certificate {
                mass,
                ..*flow.certificate()
            },
            status: flow.status(),
            iterations: flow.iterations(),
        }
    }

    /// How the solver ended.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Pivots made.
    #[must_use]
    pub fn iterations(&self) -> usize {
        self.iterations
    }

    /// The entries that carry mass, by row and column.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The whole plan row-major.
    #[must_use]
    pub fn to_dense(&self) -> Vec<f64> {
        let cols = self.col_prices.len();
        let mut dense = vec![0.0; self.row_prices.len() * cols];
        for e in &self.entries {
            dense[e.row * cols + e.col] = e.mass;
        }
        dense
    }

    /// The sum of each row.
    #[must_use]
    pub fn row_sums(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.row_prices.len()];
        self.entries.iter().for_each(|e| sums[e.row] += e.mass);
        sums
    }

    /// The sum of each column.
    #[must_use]
    pub fn col_sums(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.col_prices.len()];
        self.entries.iter().for_each(|e| sums[e.col] += e.mass);
        sums
    }

    /// Cost ⟨C, P⟩ of the plan.
    #[must_use]
    pub fn objective(&self) -> f64 {
        self.certificate.objective
    }

    /// Shadow price of each row's bounds.
    #[must_use]
    pub fn row_prices(&self) -> &[f64] {
        &self.row_prices
    }

    /// Shadow price of each column's bounds.
    #[must_use]
    pub fn col_prices(&self) -> &[f64] {
        &self.col_prices
    }

    /// Shadow price of each group's bounds, in the order in which groups were added.
    #[must_use]
    pub fn group_prices(&self) -> &[f64] {
        &self.group_prices
    }

    /// Shadow price of the bounds on the total.
    #[must_use]
    pub fn total_price(&self) -> f64 {
        self.total_price
    }

    /// Potentials f of the rows: `C_ij − f_i − g_j` is ≥ 0 where `P_ij = 0`, zero where it lies between
    /// zero and the cap, ≤ 0 at the cap.
    #[must_use]
    pub fn row_potentials(&self) -> &[f64] {
        &self.row_potentials
    }

    /// Potentials g of the columns, groups and total included: where a new row would go is where
    /// `C_j − g_j` is least.
    #[must_use]
    pub fn col_potentials(&self) -> &[f64] {
        &self.col_potentials
    }

    /// Bounds on the optimum and the true error, evaluated from the data; `mass` is the plan's total.
    #[must_use]
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }
}
