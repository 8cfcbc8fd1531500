//! How much mass goes from each row to each column.
//!
//! An entropic plan is never stored: it is `P_ij = exp((f_i + g_j − C_ij)/ε)` and its rows are computed
//! when asked for. A vertex of the polytope has at most n + m − 1 entries and is stored as such.

use core::ops::Range;
use std::borrow::Cow;

use crate::kernel::rounding::{FORBIDDEN_SLACK, sum};
use crate::kernel::tiles::{map_ranges, tile_rows};
use crate::sweep::DualPoint;
use crate::{Cost, Error, Potentials, Problem, Real};

/// How a plan is represented.
#[derive(Debug, Clone)]
#[allow(unreachable_pub)]
pub enum Representation {
    /// `exp((f_i + g_j − C_ij)/ε)`, the rows being what their law makes of the columns' potentials. Those are kept with `lift`
    /// taken off; see [`Law`](crate::sweep::Law).
    Gibbs { epsilon: f64, lift: f64 },
    /// Entries by row: `starts[i]..starts[i + 1]` indexes `cols` and `mass`; slack is what is missing.
    Sparse(SparseRows),
}

/// Compressed rows of a sparse plan.
#[derive(Debug, Clone, Default)]
#[allow(unreachable_pub)]
pub struct SparseRows {
    pub(super) starts: Vec<usize>,
    pub(super) cols: Vec<usize>,
    pub(super) mass: Vec<f64>,
}

impl SparseRows {
    /// Builds from (row, column, mass) entries in any order; entries of no mass are dropped.
    pub(crate) fn new(rows: usize, mut entries: Vec<(usize, usize, f64)>) -> Self {
        entries.retain(|e| e.2 > 0.0);
        entries.sort_unstable_by_key(|e| (e.0, e.1));
        let mut starts = vec![0; rows + 1];
        for e in &entries {
            starts[e.0 + 1] += 1;
        }
        for i in 0..rows {
            starts[i + 1] += starts[i];
        }
        Self {
            starts,
            cols: entries.iter().map(|e| e.1).collect(),
            mass: entries.iter().map(|e| e.2).collect(),
        }
    }

    /// Some of the rows.
    pub(super) fn part(&self, rows: Range<usize>) -> Self {
        let entries = self.starts[rows.start]..self.starts[rows.end];
        let starts = &self.starts[rows.start..=rows.end];
        Self {
            starts: starts.iter().map(|s| s - entries.start).collect(),
            cols: self.cols[entries.clone()].to_vec(),
            mass: self.mass[entries].to_vec(),
        }
    }

    pub(crate) fn row(&self, i: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let range: Range<usize> = self.starts[i]..self.starts[i + 1];
        self.cols[range.clone()]
            .iter()
            .copied()
            .zip(self.mass[range].iter().copied())
    }
}

/// What is left of `whole`: a sparse plan leaves its slack unsaid. Where slack is forbidden, rounding of
/// the masses (of magnitude `scale`) must not be read as mass of infinite cost.
pub(crate) fn unplaced(whole: f64, given: f64, scale: f64, cost: f64) -> f64 {
    let rest = (whole - given).max(0.0);
    if cost == f64::INFINITY && rest <= FORBIDDEN_SLACK * scale {
        0.0
    } else {
        rest
    }
}

/// One entry of a plan: `mass` goes from `row` to `col`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Entry {
    /// The row it leaves.
    pub row: usize,
    /// The column it reaches.
    pub col: usize,
    /// How much.
    pub mass: f64,
}

/// A transport plan, dense and computed on demand or sparse and stored.
///
/// # Examples
/// ```
/// use earthmover::{Dense, Exact, Marginals, Problem};
/// let problem = Problem::new(Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2)?, Marginals::uniform(2, 2)?)?;
/// let solution = Exact::new().solve(&problem)?;
/// let plan = solution.plan();
/// assert_eq!(plan.to_dense(), [0.5, 0.0, 0.0, 0.5]);
/// assert_eq!(plan.argmax(), [Some(0), Some(1)]);
/// assert_eq!(plan.entries(0.0).len(), 2);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Plan<'s, T, C> {
    pub(super) problem: &'s Problem<T, C>,
    pub(super) potentials: &'s Potentials,
    pub(super) shape: &'s Representation,
}

impl<'s, T: Real, C: Cost<T>> Plan<'s, T, C> {
    pub(crate) fn new(
        problem: &'s Problem<T, C>,
        potentials: &'s Potentials,
        shape: &'s Representation,
    ) -> Self {
        Self {
            problem,
            potentials,
            shape,
        }
    }

    /// Calls `visit(i, row)` with each row of the plan in turn, without storing more than one.
    pub fn for_each_row(&self, mut visit: impl FnMut(usize, &[f64])) {
        let mut row = vec![0.0; self.problem.cols()];
        let mut costs = vec![T::zero(); self.problem.cols()];
        for i in 0..self.problem.rows() {
            self.write_row(i, &mut costs, &mut row);
            visit(i, &row);
        }
    }

    fn write_row(&self, i: usize, costs: &mut [T], row: &mut [f64]) {
        if matches!(self.shape, Representation::Gibbs { .. }) {
            self.problem.cost().fill(i..i + 1, costs);
        }
        self.write_row_with(i, costs, row);
    }

    /// Writes row `i`, given its costs; returns the mass that goes to the slack column.
    pub(crate) fn write_row_with(&self, i: usize, costs: &[T], row: &mut [f64]) -> f64 {
        let mass = self.problem.marginals().rows()[i];
        match self.shape {
            Representation::Sparse(sparse) => {
                row.fill(0.0);
                let mut given = 0.0;
                for (j, p) in sparse.row(i) {
                    row[j] = p;
                    given += p;
                }
                self.kept_back(i, given)
            }
            Representation::Gibbs { epsilon, lift } => {
                let marginals = self.problem.marginals();
                let point = self.potentials.dual_point(*epsilon, marginals.slack());
                let law = marginals.row_law().lifted(*lift);
                let costs = costs.iter().map(|c| c.widen());
                point.row_under(&law, mass, costs, row).0
            }
        }
    }

    /// Writes the entries of row `i` in the columns that its cost names; returns the mass that goes to the slack column.
    pub(crate) fn write_listed(
        &self,
        i: usize,
        (cols, costs): (&[u32], &[T]),
        room: &mut Vec<f64>,
        row: &mut Vec<f64>,
    ) -> f64 {
        row.clear();
        row.resize(cols.len(), 0.0);
        let marginals = self.problem.marginals();
        match self.shape {
            Representation::Sparse(sparse) => {
                let mut at = 0;
                for (j, p) in sparse.row(i) {
                    // Both are in order, and a plan has no mass elsewhere.
                    at += cols[at..].partition_point(|&col| (col as usize) < j);
                    if let Some(place) = row.get_mut(at) {
                        *place = p;
                    }
                }
                self.kept_back(i, row.iter().sum())
            }
            Representation::Gibbs { epsilon, lift } => {
                room.clear();
                room.extend(cols.iter().map(|&j| self.potentials.cols[j as usize]));
                let point = self.potentials.dual_point(*epsilon, marginals.slack());
                let point = DualPoint {
                    cols: room,
                    ..point
                };
                let law = marginals.row_law().lifted(*lift);
                let costs = costs.iter().map(|c| c.widen());
                point.row_under(&law, marginals.rows()[i], costs, row).0
            }
        }
    }

    /// What a row of a stored plan leaves to the slack column.
    pub(super) fn kept_back(&self, i: usize, given: f64) -> f64 {
        let (mass, slack) = (
            self.problem.marginals().rows()[i],
            self.problem.marginals().slack(),
        );
        if slack.col > 0.0 {
            unplaced(mass, given, mass, slack.col_cost)
        } else {
            0.0
        }
    }

    /// The entries that carry mass, where they are stored or few because the cost names its pairs; `None` for others.
    pub(super) fn listed(&self) -> Option<Cow<'s, SparseRows>> {
        if let Representation::Sparse(sparse) = self.shape {
            return Some(Cow::Borrowed(sparse));
        }
        let pairs = self.problem.cost().pairs()?;
        let tiles = map_ranges(
            self.problem.rows(),
            tile_rows(self.problem.rows(), pairs.per_row()),
            |rows| {
                let (mut room, mut row, mut entries) = (Vec::new(), Vec::new(), Vec::new());
                for i in rows {
                    self.write_listed(i, pairs.row(i), &mut room, &mut row);
                    let carrying = pairs.row(i).0.iter().zip(&row).filter(|e| *e.1 > 0.0);
                    entries.extend(carrying.map(|(&j, &p)| (i, j as usize, p)));
                }
                entries
            },
        );
        Some(Cow::Owned(SparseRows::new(
            self.problem.rows(),
            tiles.concat(),
        )))
    }

    /// The row `i`: mass to each column, slack not included.
    ///
    /// # Errors
    /// [`Error::Index`] for a row that is not there.
    pub fn row(&self, i: usize) -> Result<Vec<f64>, Error> {
        if i >= self.problem.rows() {
            return Err(Error::Index {
                what: "row",
                index: i,
                len: self.problem.rows(),
            });
        }
        let mut row = vec![0.0; self.problem.cols()];
        self.write_row(i, &mut vec![T::zero(); self.problem.cols()], &mut row);
        Ok(row)
    }

    /// All entries that carry mass and not `threshold` or less, by row and column. A threshold of NaN, which
    /// nothing is less than, hides nothing.
    #[must_use]
    pub fn entries(&self, threshold: f64) -> Vec<Entry> {
        let shown = |mass: f64| mass > 0.0 && !(mass <= threshold);
        let mut entries = Vec::new();
        if let Some(sparse) = self.listed() {
            for row in 0..self.problem.rows() {
                let kept = sparse.row(row).filter(|e| shown(e.1));
                entries.extend(kept.map(|(col, mass)| Entry { row, col, mass }));
            }
            return entries;
        }
        self.for_each_row(|row, line| {
            let kept = line.iter().enumerate().filter(|e| shown(*e.1));
            entries.extend(kept.map(|(col, &mass)| Entry { row, col, mass }));
        });
        entries
    }

    /// The whole plan row-major: rows × columns numbers, which for large problems is a lot.
    #[must_use]
    pub fn to_dense(&self) -> Vec<f64> {
        let mut dense = Vec::with_capacity(self.problem.rows() * self.problem.cols());
        self.for_each_row(|_, row| dense.extend_from_slice(row));
        dense
    }

    /// For each row the column that receives most of its mass; `None` where the slack column or nobody
    /// receives at least as much as any column.
    #[must_use]
    pub fn argmax(&self) -> Vec<Option<usize>> {
        let mut best = Vec::with_capacity(self.problem.rows());
        let masses = self.problem.marginals().rows();
        let relaxed = !self.problem.marginals().row_penalty().is_exact();
        let mut look = |i: usize, row: &mut dyn Iterator<Item = (usize, f64)>| {
            let (mut col, mut most, mut given) = (None, 0.0, 0.0);
            for (j, p) in row {
                given += p;
                if p > most {
                    (col, most) = (Some(j), p);
                }
            }
            // What a penalised row does not give is gone, and nobody receives it.
            let kept_back = if relaxed { 0.0 } else { masses[i] - given };
            best.push(col.filter(|_| most > kept_back));
        };
        match self.listed() {
            Some(sparse) => (0..masses.len()).for_each(|i| look(i, &mut sparse.row(i))),
            None => self.for_each_row(|i, row| look(i, &mut row.iter().copied().enumerate())),
        }
        best
    }

    /// Mass that each row gives to the real columns.
    #[must_use]
    pub fn row_sums(&self) -> Vec<f64> {
        if let Some(sparse) = self.listed() {
            let row = |i| sparse.row(i).map(|e| e.1).sum();
            return (0..self.problem.rows()).map(row).collect();
        }
        let mut sums = Vec::with_capacity(self.problem.rows());
        self.for_each_row(|_, row| sums.push(row.iter().sum()));
        sums
    }

    /// Mass that each column receives from the real rows.
    #[must_use]
    pub fn col_sums(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.problem.cols()];
        if let Some(sparse) = self.listed() {
            let each = sparse.cols.iter().zip(&sparse.mass);
            each.for_each(|(&j, p)| sums[j] += p);
            return sums;
        }
        self.for_each_row(|_, row| sums.iter_mut().zip(row).for_each(|(s, p)| *s += p));
        sums
    }

    /// Mass moved in all between real rows and real columns.
    #[must_use]
    pub fn mass(&self) -> f64 {
        sum(&self.row_sums())
    }
}
