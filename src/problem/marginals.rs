//! How much mass leaves each row and arrives in each column.
//!
//! Every problem here is one balanced problem with a slack row and a slack column,
//!
//! ```text
//!           columns        slack
//! rows    [   P_ij     |    u_i   ]  = a_i          Σ_j P_ij + u_i = a_i
//! slack   [   v_j      |     τ    ]  = slack.row    Σ_i P_ij + v_j = b_j
//!         =   b_j          slack.col
//! ```
//!
//! and a slack of mass zero is no slack at all: balanced transport is not a special case of the code.
//! Masses that may be missed at a price are penalised instead ([`Penalty`]), and need no slack.
//! Inequalities become slack: P1 ≤ a, Pᵀ1 ≤ b, ΣP ≥ m is `slack.col = Σa − m`, `slack.row = Σb − m`.

use core::ops::Range;

use super::penalty::{Law, Penalty, Reference};
use crate::kernel::rounding::{Sum, sum};
use crate::kernel::tiles::{fold, is_split};
use crate::team::Shard;
use crate::{Error, Real, Side};

/// The slack row and column: their masses and the cost of using them.
///
/// # Examples
/// ```
/// use earthmover::Slack;
/// let slack = Slack::new(2.0, 1.0).col_cost(0.3); // leaving a row's mass unused costs 0.3 a unit
/// assert_eq!((slack.row, slack.col_cost, slack.row_cost), (2.0, 0.3, 0.0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct Slack {
    /// Mass of the extra row: what columns may leave unused.
    pub row: f64,
    /// Mass of the extra column: what rows may leave unused.
    pub col: f64,
    /// Cost per unit of mass from the extra row into any column.
    #[cfg_attr(feature = "serde", serde(with = "crate::kernel::extended"))]
    pub row_cost: f64,
    /// Cost per unit of mass from any row into the extra column.
    #[cfg_attr(feature = "serde", serde(with = "crate::kernel::extended"))]
    pub col_cost: f64,
    /// Cost per unit of mass from the extra row into the extra column; +∞ forbids it.
    #[cfg_attr(feature = "serde", serde(with = "crate::kernel::extended"))]
    pub corner_cost: f64,
}

impl Slack {
    /// No slack: both masses and all costs zero.
    pub const NONE: Self = Self {
        row: 0.0,
        col: 0.0,
        row_cost: 0.0,
        col_cost: 0.0,
        corner_cost: 0.0,
    };

    /// An extra row and an extra column of these masses, free to use.
    #[must_use]
    pub const fn new(row: f64, col: f64) -> Self {
        Self {
            row,
            col,
            ..Self::NONE
        }
    }

    /// What mass from the extra row into any column costs.
    #[must_use]
    pub const fn row_cost(self, row_cost: f64) -> Self {
        Self { row_cost, ..self }
    }

    /// What mass from any row into the extra column costs.
    #[must_use]
    pub const fn col_cost(self, col_cost: f64) -> Self {
        Self { col_cost, ..self }
    }

    /// What mass from the extra row into the extra column costs; +∞ forbids it.
    #[must_use]
    pub const fn corner_cost(self, corner_cost: f64) -> Self {
        Self {
            corner_cost,
            ..self
        }
    }

    /// The slack of the transposed problem.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self {
            row: self.col,
            col: self.row,
            row_cost: self.col_cost,
            col_cost: self.row_cost,
            corner_cost: self.corner_cost,
        }
    }
}

impl Default for Slack {
    fn default() -> Self {
        Self::NONE
    }
}

/// Row and column masses with their slack, checked and balanced.
///
/// Masses are kept in `f64`; totals that differ by rounding only are made equal by scaling the columns.
///
/// # Examples
/// ```
/// use earthmover::Marginals;
/// let exact = Marginals::balanced(&[0.5, 0.5], &[0.25, 0.75])?;
/// assert_eq!(exact.total(), 1.0);
///
/// // Partial transport: each row gives at most 1, each column takes at most 2, at least 3 are moved.
/// let partial = Marginals::bounded(&[1.0; 4], &[2.0; 3], 3.0)?;
/// assert_eq!((partial.slack().row, partial.slack().col), (3.0, 1.0));
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Written", into = "Written"))]
pub struct Marginals {
    rows: Vec<f64>,
    cols: Vec<f64>,
    slack: Slack,
    total: f64,
    /// Sum of the rows, slack not counted.
    supply: f64,
    /// Whether `f32` holds the masses of all rows.
    single: bool,
    row_penalty: Penalty,
    col_penalty: Penalty,
    reference: Reference,
}

impl Marginals {
    /// Exact marginals: row `i` gives exactly `rows[i]`, column `j` receives exactly `cols[j]`.
    ///
    /// # Errors
    /// [`Error::Mass`] for a NaN, negative or infinite mass, [`Error::NoMass`] where all are zero, [`Error::MassRange`] where one
    /// is not zero and less than 1e-150 of the total, or the total not from 1e-150 to 1e150, [`Error::Unbalanced`] where the totals differ by more than [`Real::MASS_TOLERANCE`] relative (more than one unit in
    /// the last place of `f32` where `f32` holds all masses),
    /// [`Error::Empty`] for an empty side.
    pub fn balanced<M: Real>(rows: &[M], cols: &[M]) -> Result<Self, Error> {
        Self::with_slack(rows, cols, Slack::NONE)
    }

    /// As [`balanced`](Self::balanced) with a relative difference of the totals of one's own, for masses that were rounded
    /// on their way. The columns are scaled to the rows' total.
    ///
    /// # Errors
    /// As [`balanced`](Self::balanced), and [`Error::Option`] for a tolerance that is not a number from zero to below one.
    ///
    /// # Examples
    /// ```
    /// use earthmover::Marginals;
    /// let (rows, cols) = ([0.333, 0.333, 0.333], [0.5, 0.5]); // three decimals
    /// assert!(Marginals::balanced(&rows, &cols).is_err());
    /// let fitted = Marginals::balanced_within(&rows, &cols, 0.01)?;
    /// assert!((fitted.cols()[0] - 0.4995).abs() < 1e-15); // the rows' total is kept
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn balanced_within<M: Real>(rows: &[M], cols: &[M], tolerance: f64) -> Result<Self, Error> {
        if !(0.0..1.0).contains(&tolerance) {
            return Err(Error::Option {
                name: "mass tolerance",
                value: tolerance,
                expected: "a number from zero to below one",
            });
        }
        Self::build(
            checked(Side::Rows, rows)?,
            checked(Side::Cols, cols)?,
            Slack::NONE,
            tolerance,
        )
    }

    /// Both sides scaled to a total of one, whatever their sums are: weights, histograms, counts.
    ///
    /// # Errors
    /// [`Error::Mass`] for a NaN, negative or infinite mass or a sum that overflows, [`Error::NoMass`] where all masses of a
    /// side are zero, [`Error::Empty`] for an empty side.
    ///
    /// # Examples
    /// ```
    /// use earthmover::Marginals;
    /// let counts = Marginals::normalised(&[3.0, 1.0], &[10.0, 10.0, 20.0])?;
    /// assert_eq!((counts.rows(), counts.cols()), (&[0.75, 0.25][..], &[0.25, 0.25, 0.5][..]));
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn normalised<M: Real>(rows: &[M], cols: &[M]) -> Result<Self, Error> {
        let (a, b) = (scaled(rows, Side::Rows)?, scaled(cols, Side::Cols)?);
        Self::build(a, b, Slack::NONE, <f64 as Real>::MASS_TOLERANCE)
    }

    /// `rows` sources and `cols` targets of equal mass, total one.
    ///
    /// # Errors
    /// [`Error::Empty`] where a side has no entries.
    pub fn uniform(rows: usize, cols: usize) -> Result<Self, Error> {
        if rows == 0 || cols == 0 {
            return Err(Error::Empty { rows, cols });
        }
        let a = vec![1.0 / rows as f64; rows];
        let b = vec![1.0 / cols as f64; cols];
        Self::balanced(&a, &b)
    }

    /// Upper bounds: row `i` gives at most `rows[i]`, column `j` takes at most `caps[j]`, and at least
    /// `min_mass` is moved in all. Doing more than `min_mass` is free, so with non-negative costs
    /// exactly `min_mass` is moved.
    ///
    /// # Errors
    /// As [`balanced`](Self::balanced), and [`Error::MinMass`] where `min_mass` is NaN or larger than
    /// either side can carry.
    pub fn bounded<M: Real>(rows: &[M], caps: &[M], min_mass: f64) -> Result<Self, Error> {
        let (a, b) = (checked(Side::Rows, rows)?, checked(Side::Cols, caps)?);
        if a.is_empty() || b.is_empty() {
            return Err(Error::Empty {
                rows: a.len(),
                cols: b.len(),
            });
        }
        let supply = added_up(&a, b.len()).value();
        let slack = free_slack(supply, sum(&b), min_mass, M::MASS_TOLERANCE)?;
        Self::build(a, b, slack, M::MASS_TOLERANCE)
    }

    /// Partial transport of exactly `mass`: as [`bounded`](Self::bounded), but not a grain more, which
    /// matters where costs are negative.
    ///
    /// # Errors
    /// As [`bounded`](Self::bounded).
    pub fn partial<M: Real>(rows: &[M], caps: &[M], mass: f64) -> Result<Self, Error> {
        let mut bounded = Self::bounded(rows, caps, mass)?;
        bounded.slack.corner_cost = f64::INFINITY;
        Ok(bounded)
    }

    /// The augmented problem itself: masses of both sides, masses and costs of the slack row and column.
    ///
    /// # Errors
    /// As [`balanced`](Self::balanced), with the slack included in the totals, and [`Error::SlackCost`]
    /// for a slack cost that is NaN, −∞ or larger than [`Real::LARGEST_COST`] in size.
    pub fn with_slack<M: Real>(rows: &[M], cols: &[M], slack: Slack) -> Result<Self, Error> {
        Self::build(
            checked(Side::Rows, rows)?,
            checked(Side::Cols, cols)?,
            slack,
            M::MASS_TOLERANCE,
        )
    }

    /// As [`with_slack`](Self::with_slack) for the rows of a [team](crate::team): `rows` are those of this member's shard, columns and slack
    /// the same on all. All members call it.
    ///
    /// # Errors
    /// As [`with_slack`](Self::with_slack), on all members alike; rows are counted from the first of the whole problem.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use earthmover::team::{Alone, Shard};
    /// use earthmover::{Marginals, Slack};
    /// let shard = Shard::new(Arc::new(Alone), 3, 2);
    /// let here = Marginals::with_slack_over(&shard, &[0.5, 0.25, 0.25], &[0.5, 0.5], Slack::NONE)?;
    /// assert_eq!(here, Marginals::balanced(&[0.5, 0.25, 0.25], &[0.5, 0.5])?);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn with_slack_over<M: Real>(
        shard: &Shard,
        rows: &[M],
        cols: &[M],
        slack: Slack,
    ) -> Result<Self, Error> {
        Self::over(shard, rows, cols, M::MASS_TOLERANCE, |_| Ok(slack))
    }

    /// As [`bounded`](Self::bounded) for the rows of a [team](crate::team): `rows` are those of this member's shard.
    ///
    /// # Errors
    /// As [`bounded`](Self::bounded), on all members alike.
    pub fn bounded_over<M: Real>(
        shard: &Shard,
        rows: &[M],
        caps: &[M],
        min_mass: f64,
    ) -> Result<Self, Error> {
        Self::over(shard, rows, caps, M::MASS_TOLERANCE, |supply| {
            let demand: Vec<f64> = caps.iter().map(|m| m.widen()).collect();
            free_slack(supply, sum(&demand), min_mass, M::MASS_TOLERANCE)
        })
    }

    fn over<M: Real>(
        shard: &Shard,
        rows: &[M],
        cols: &[M],
        relative: f64,
        slack: impl FnOnce(f64) -> Result<Slack, Error>,
    ) -> Result<Self, Error> {
        let own = checked(Side::Rows, rows).and_then(|rows| {
            let (expected, found) = (shard.rows().len(), rows.len());
            if expected != found {
                return Err(Error::Length {
                    what: "row masses",
                    expected,
                    found,
                });
            }
            Ok((rows, checked(Side::Cols, cols)?))
        });
        let (rows, cols) = shard.agree(own)?;
        if cols.is_empty() || shard.whole() == 0 {
            return Err(Error::Empty {
                rows: shard.whole(),
                cols: cols.len(),
            });
        }
        let own = added_up(&rows, cols.len());
        let supply = shard.sum(Ok(own.to_numbers().to_vec()), &|all, more| {
            let mut sum = Sum::from_numbers(all);
            sum.merge(Sum::from_numbers(&more));
            all.copy_from_slice(&sum.to_numbers());
        })?;
        let supply = Sum::from_numbers(&supply).value();
        let rounded = shard.largest(f64::from(u8::from(!rows.iter().all(is_single))))? == 0.0;
        let slack = slack(supply)?;
        let fitted = fit(&rows, supply, rounded, cols, slack, relative);
        let (cols, slack, total) = shard.agree(fitted)?;
        Ok(Self {
            rows,
            cols,
            slack,
            total,
            supply,
            single: rounded,
            row_penalty: Penalty::Exact,
            col_penalty: Penalty::Exact,
            reference: Reference::Product,
        })
    }

    /// The same with the rows of all members in place of a member's.
    pub(crate) fn with_rows(&self, rows: Vec<f64>) -> Self {
        Self {
            rows,
            ..self.clone()
        }
    }

    /// Masses that need not be kept, nor be equal on the two sides: what either side pays for giving or taking another mass. One
    /// [`Penalty::Exact`] side is the semi-relaxed problem; with two the totals must be equal, and it is
    /// [`balanced`](Self::balanced). The entropy of entropic solvers is then relative to the product of the masses unless
    /// [`with_reference`](Self::with_reference) says otherwise.
    ///
    /// No slack goes with it. A slack row or column says which mass may stay behind, and at what price; a penalty says the same of its
    /// side, line by line, and under [`Penalty::Tv`] it *is* slack with that price. Both on one problem would be two prices for the same
    /// unit, of which the cheaper would be paid: so there is no way to ask for both.
    ///
    /// # Errors
    /// As [`balanced`](Self::balanced), where both sides are exact only [`Error::Unbalanced`]; [`Error::Option`] for a τ that is not a
    /// number from 1e-150 to 1e150 or +∞, which is exact.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, Entropic, Marginals, Penalty, Problem};
    /// let marginals = Marginals::relaxed(&[1.0, 2.0], &[1.5, 0.5, 3.0], Penalty::Kl(0.5), Penalty::Exact)?;
    /// let cost = Dense::new(&[0.0, 1.0, 4.0, 1.0, 0.0, 1.0], 2, 3)?;
    /// let problem = Problem::new(cost, marginals)?;
    /// let solution = Entropic::new(0.1).tolerance(1e-9).solve(&problem)?;
    /// let taken: f64 = solution.plan().col_sums().iter().sum();
    /// assert!((taken - 5.0).abs() < 1e-7); // exact columns, rows that give more than their 3
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn relaxed<M: Real>(
        rows: &[M],
        cols: &[M],
        row_penalty: Penalty,
        col_penalty: Penalty,
    ) -> Result<Self, Error> {
        let row_penalty = row_penalty.checked("row penalty")?;
        let col_penalty = col_penalty.checked("column penalty")?;
        if row_penalty.is_exact() && col_penalty.is_exact() {
            return Self::balanced(rows, cols);
        }
        let (rows, cols) = (checked(Side::Rows, rows)?, checked(Side::Cols, cols)?);
        if rows.is_empty() || cols.is_empty() {
            return Err(Error::Empty {
                rows: rows.len(),
                cols: cols.len(),
            });
        }
        let (supply, demand) = (sum(&rows), sum(&cols));
        check_totals(supply, demand)?;
        let total = supply.max(demand);
        check_range(&rows, &cols, Slack::NONE, total)?;
        Ok(Self {
            rows,
            cols,
            slack: Slack::NONE,
            total,
            supply,
            single: false,
            row_penalty,
            col_penalty,
            reference: Reference::Product,
        })
    }

    /// Another reference of the entropy of penalised masses.
    #[must_use]
    pub fn with_reference(mut self, reference: Reference) -> Self {
        self.reference = reference;
        self
    }

    /// What the rows pay for other masses.
    #[must_use]
    pub fn row_penalty(&self) -> Penalty {
        self.row_penalty
    }

    /// What the columns pay for other masses.
    #[must_use]
    pub fn col_penalty(&self) -> Penalty {
        self.col_penalty
    }

    /// What the entropy of penalised masses is relative to.
    #[must_use]
    pub fn reference(&self) -> Reference {
        self.reference
    }

    /// Whether any side may give or take other masses than its own.
    #[must_use]
    pub fn is_relaxed(&self) -> bool {
        !(self.row_penalty.is_exact() && self.col_penalty.is_exact())
    }

    /// How rows behave.
    pub(crate) fn row_law(&self) -> Law {
        Law::new(self.row_penalty, self.reference)
    }

    /// How columns behave.
    pub(crate) fn col_law(&self) -> Law {
        Law::new(self.col_penalty, self.reference)
    }

    /// Whether a constant added to a row of costs matters: to what a row saves by staying behind, or by giving less.
    pub(crate) fn has_anchored_rows(&self) -> bool {
        self.slack.col > 0.0 || !self.row_penalty.is_exact()
    }

    /// Whether slack that carries mass may not go everywhere.
    pub(crate) fn forbids_slack(&self) -> bool {
        let Slack {
            row,
            col,
            row_cost,
            col_cost,
            corner_cost,
            ..
        } = self.slack;
        let forbidden = |mass: f64, cost: f64| mass > 0.0 && cost == f64::INFINITY;
        forbidden(row, row_cost) || forbidden(col, col_cost) || forbidden(row.min(col), corner_cost)
    }

    /// Whether a constant added to all potentials of a side matters in a way that sums do not tell.
    pub(crate) fn has_bounded_potentials(&self) -> bool {
        let bounded = |p: Penalty| matches!(p, Penalty::Tv(_));
        bounded(self.row_penalty) || bounded(self.col_penalty)
    }

    /// Changes the columns and the slack and keeps the rows, all of them exact, in time that does not depend on how many rows
    /// there are.
    ///
    /// # Errors
    /// As [`with_slack`](Self::with_slack). Nothing has changed then.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Marginals, Slack};
    /// let mut marginals = Marginals::bounded(&[1.0; 4], &[2.0; 3], 3.0)?;
    /// marginals.set_columns(&[3.0, 3.0], Slack::new(4.0, 2.0))?;
    /// assert_eq!((marginals.cols(), marginals.total()), (&[3.0, 3.0][..], 8.0));
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn set_columns<M: Real>(&mut self, cols: &[M], slack: Slack) -> Result<(), Error> {
        let cols = checked(Side::Cols, cols)?;
        if cols.is_empty() {
            return Err(Error::Empty {
                rows: self.rows.len(),
                cols: 0,
            });
        }
        let fitted = fit(
            &self.rows,
            self.supply,
            self.single,
            cols,
            slack,
            M::MASS_TOLERANCE,
        )?;
        (self.cols, self.slack, self.total) = fitted;
        (self.row_penalty, self.col_penalty) = (Penalty::Exact, Penalty::Exact);
        Ok(())
    }

    /// Sum of the rows, slack not counted.
    pub(crate) fn supply(&self) -> f64 {
        self.supply
    }

    fn build(rows: Vec<f64>, cols: Vec<f64>, slack: Slack, relative: f64) -> Result<Self, Error> {
        if rows.is_empty() || cols.is_empty() {
            return Err(Error::Empty {
                rows: rows.len(),
                cols: cols.len(),
            });
        }
        let supply = added_up(&rows, cols.len()).value();
        let rounded = rows.iter().all(is_single);
        let (cols, slack, total) = fit(&rows, supply, rounded, cols, slack, relative)?;
        Ok(Self {
            rows,
            cols,
            slack,
            total,
            supply,
            single: rounded,
            row_penalty: Penalty::Exact,
            col_penalty: Penalty::Exact,
            reference: Reference::Product,
        })
    }

    /// Masses of the rows.
    #[must_use]
    pub fn rows(&self) -> &[f64] {
        &self.rows
    }

    /// Masses of the columns.
    #[must_use]
    pub fn cols(&self) -> &[f64] {
        &self.cols
    }

    /// The slack row and column.
    #[must_use]
    pub fn slack(&self) -> Slack {
        self.slack
    }

    /// Total mass of either side, slack included; of the larger one where they need not be equal.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.total
    }

    /// The same masses with rows and columns exchanged.
    #[must_use]
    pub fn transposed(&self) -> Self {
        Self {
            rows: self.cols.clone(),
            cols: self.rows.clone(),
            slack: self.slack.transposed(),
            total: self.total,
            supply: added_up(&self.cols, self.rows.len()).value(),
            single: self.cols.iter().all(is_single),
            row_penalty: self.col_penalty,
            col_penalty: self.row_penalty,
            reference: self.reference,
        }
    }
}

/// Whether `f32` holds a mass.
fn is_single(mass: &f64) -> bool {
    f64::from(*mass as f32) == *mass
}

/// The sum of the masses of rows, along the tree over them.
fn added_up(rows: &[f64], cols: usize) -> Sum {
    let leaf = |range: Range<usize>, ()| {
        let mut sum = Sum::default();
        rows[range].iter().for_each(|&m| sum.add(m));
        sum
    };
    fold(0..rows.len(), cols, is_split, (), &leaf, &Sum::merge)
}

/// Slack that lets rows and columns keep what is more than `min_mass`.
fn free_slack(supply: f64, demand: f64, min_mass: f64, tolerance: f64) -> Result<Slack, Error> {
    let available = supply.min(demand);
    let rounding = tolerance * available;
    if !(min_mass.is_finite() && min_mass >= 0.0 && min_mass <= available + rounding) {
        return Err(Error::MinMass {
            required: min_mass,
            available,
        });
    }
    Ok(Slack {
        row: (demand - min_mass).max(0.0),
        col: (supply - min_mass).max(0.0),
        ..Slack::NONE
    })
}

/// Masses scaled to a total of one.
fn scaled<M: Real>(masses: &[M], side: Side) -> Result<Vec<f64>, Error> {
    let mut masses = checked(side, masses)?;
    let total = sum(&masses);
    if total == 0.0 && !masses.is_empty() {
        return Err(Error::NoMass { side });
    }
    if !total.is_finite() {
        return Err(Error::Mass {
            side,
            index: 0,
            value: total,
        });
    }
    masses.iter_mut().for_each(|m| *m /= total);
    Ok(masses)
}

/// So many weights, at least one, scaled to a total of one.
pub(crate) fn shares<M: Real>(
    weights: &[M],
    expected: usize,
    side: Side,
    what: &'static str,
) -> Result<Vec<f64>, Error> {
    if expected == 0 {
        return Err(Error::Empty { rows: 0, cols: 0 });
    }
    if weights.len() != expected {
        return Err(Error::Length {
            what,
            expected,
            found: weights.len(),
        });
    }
    scaled(weights, side)
}

fn checked<M: Real>(side: Side, masses: &[M]) -> Result<Vec<f64>, Error> {
    masses
        .iter()
        .enumerate()
        .map(|(index, &m)| {
            let value = m.widen();
            if value.is_finite() && value >= 0.0 {
                Ok(value)
            } else {
                Err(Error::Mass { side, index, value })
            }
        })
        .collect()
}

/// Refuses sides without mass, and with more than can be added up.
fn check_totals(rows: f64, cols: f64) -> Result<(), Error> {
    for (side, value) in [(Side::Rows, rows), (Side::Cols, cols)] {
        if value == 0.0 {
            return Err(Error::NoMass { side });
        }
        if !value.is_finite() {
            return Err(Error::Mass {
                side,
                index: 0,
                value,
            });
        }
    }
    Ok(())
}

/// Masses, and ratios of them, that can be calculated with: squares and quotients are numbers.
const LEAST_RATIO: f64 = 1e-150;

/// Refuses totals and masses beside them that no `f64` can relate to each other.
fn check_range(rows: &[f64], cols: &[f64], slack: Slack, total: f64) -> Result<(), Error> {
    let least = if (LEAST_RATIO..=1.0 / LEAST_RATIO).contains(&total) {
        LEAST_RATIO * total
    } else {
        f64::INFINITY
    };
    for (side, masses) in [
        (Side::Rows, rows),
        (Side::Cols, cols),
        (Side::SlackRow, &[slack.row]),
        (Side::SlackCol, &[slack.col]),
    ] {
        if let Some(index) = masses.iter().position(|m| *m > 0.0 && *m < least) {
            return Err(Error::MassRange {
                side,
                index,
                value: masses[index],
                total,
            });
        }
    }
    Ok(())
}

/// Marginals as they are written down.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    rows: Vec<f64>,
    cols: Vec<f64>,
    #[serde(default)]
    slack: Slack,
    #[serde(default)]
    row_penalty: Penalty,
    #[serde(default)]
    col_penalty: Penalty,
    #[serde(default)]
    reference: Reference,
}

#[cfg(feature = "serde")]
impl From<Marginals> for Written {
    fn from(marginals: Marginals) -> Self {
        Self {
            rows: marginals.rows,
            cols: marginals.cols,
            slack: marginals.slack,
            row_penalty: marginals.row_penalty,
            col_penalty: marginals.col_penalty,
            reference: marginals.reference,
        }
    }
}

#[cfg(feature = "serde")]
impl TryFrom<Written> for Marginals {
    type Error = Error;

    fn try_from(written: Written) -> Result<Self, Error> {
        let (rows, cols, reference) = (written.row_penalty, written.col_penalty, written.reference);
        let penalised = [rows, cols]
            .into_iter()
            .any(|p| p.strength() < f64::INFINITY);
        if penalised && written.slack == Slack::NONE {
            let read = Self::relaxed(&written.rows, &written.cols, rows, cols)?;
            return Ok(read.with_reference(reference));
        }
        if penalised {
            return Err(Error::Penalised {
                solver: "a slack row or column",
            });
        }
        let read = Self::with_slack(&written.rows, &written.cols, written.slack)?;
        let read = read.with_reference(reference);
        let near = |a: &f64, b: &f64| (a - b).abs() <= 4.0 * f64::EPSILON * a.abs();
        let same = read.cols.iter().zip(&written.cols).all(|(a, b)| near(a, b));
        // Masses that were balanced when they were written are read back to the last bit.
        Ok(if same && near(&read.slack.col, &written.slack.col) {
            Self {
                cols: written.cols,
                slack: written.slack,
                ..read
            }
        } else {
            read
        })
    }
}

/// Columns and slack that balance rows of total mass `supply`, and the total of either side.
fn fit(
    rows: &[f64],
    supply: f64,
    rounded_rows: bool,
    mut cols: Vec<f64>,
    mut slack: Slack,
    relative: f64,
) -> Result<(Vec<f64>, Slack, f64), Error> {
    for (side, value) in [(Side::SlackRow, slack.row), (Side::SlackCol, slack.col)] {
        if !(value.is_finite() && value >= 0.0) {
            return Err(Error::Mass {
                side,
                index: 0,
                value,
            });
        }
    }
    for (side, value) in [
        (Side::SlackRow, slack.row_cost),
        (Side::SlackCol, slack.col_cost),
        (Side::SlackRow, slack.corner_cost),
    ] {
        if value != f64::INFINITY && !(value.abs() <= <f64 as Real>::LARGEST_COST) {
            let largest = <f64 as Real>::LARGEST_COST;
            return Err(Error::SlackCost {
                side,
                value,
                largest,
            });
        }
    }
    let (row_total, col_total) = (supply + slack.row, sum(&cols) + slack.col);
    check_totals(row_total, col_total)?;
    check_range(rows, &cols, slack, row_total)?;
    let largest = row_total.max(col_total);
    let tolerance = relative * largest;
    let difference = (row_total - col_total).abs();
    // Masses that `f32` holds were most likely rounded to it: half a unit in the last place on either side.
    let rounded = rounded_rows && cols.iter().all(is_single);
    let explained = || difference <= f64::from(f32::EPSILON) * largest && rounded;
    if difference > tolerance && !explained() {
        return Err(Error::Unbalanced {
            rows: row_total,
            cols: col_total,
            tolerance,
        });
    }
    // One side must give way for the totals to agree to the last bit that matters.
    let scale = row_total / col_total;
    if scale != 1.0 {
        cols.iter_mut().for_each(|c| *c *= scale);
        slack.col *= scale;
    }
    Ok((cols, slack, row_total))
}
