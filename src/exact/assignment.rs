//! Who goes with whom: one partner for each row, one row for each partner.
//!
//! ```text
//! minimise (or maximise)  Σ_i C_{i, p(i)}    over   p one-to-one
//! ```
//!
//! The transport problem with masses of one: its vertices are the matchings, and prices prove one to be the best. A table is tried by
//! shortest augmenting paths first ([`matching`](super::matching)); what those are not made for, [`Exact`] solves. Where a side is
//! longer some of it stays alone, which is slack at no cost.

use core::ops::Range;

use super::matching::matching;
use crate::cost::{Copied, Transposed};
use crate::kernel::rounding::sum;
use crate::problem::check;
use crate::solver::Guard;
use crate::{Cost, Error, Exact, Marginals, Potentials, Problem, Real, Slack, Status};

/// An assignment and what it costs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Assignment {
    /// The partner of each row; `None` for those that stay alone because there are more rows than columns.
    pub partners: Vec<Option<usize>>,
    /// The sum of the partners' costs (or gains).
    pub value: f64,
    /// What the prices prove: no assignment costs less (or gains more) than this, up to rounding; the value itself where the solve
    /// converged.
    pub bound: f64,
    /// The price of each row: what it pays (or gets) with its partner less the partner's.
    pub row_prices: Vec<f64>,
    /// The price of each column: with that of any row together no more (or no less) than what the pair costs (or gains).
    pub col_prices: Vec<f64>,
    /// How the solve ended: anything but [`Status::Converged`] may be improved upon.
    pub status: Status,
}

/// The cheapest assignment of rows to columns, +∞ forbidding a pair: every row has a partner where there are no more rows than
/// columns, every column where there are no fewer.
///
/// # Errors
/// [`Error::Empty`] for no rows or no columns, [`Error::Cost`] or [`Error::TooDear`] for an entry that is no cost,
/// [`Error::Blocked`] or [`Error::Infeasible`] where forbidden pairs leave no way.
///
/// # Examples
/// ```
/// use earthmover::{Dense, assignment};
/// let cost = Dense::new(&[4.0, 1.0, 3.0, 2.0, 0.5, 5.0], 2, 3)?;
/// let found = assignment(&cost)?;
/// assert_eq!(found.partners, [Some(1), Some(0)]);
/// assert_eq!((found.value, found.bound), (3.0, 3.0));
/// assert!(found.row_prices[0] + found.col_prices[2] <= 3.0);
/// # Ok::<(), earthmover::Error>(())
/// ```
pub fn assignment<T: Real, C: Cost<T>>(cost: &C) -> Result<Assignment, Error> {
    assign(cost, &Exact::new())
}

/// The assignment of most gain, −∞ forbidding a pair; otherwise as [`assignment`].
///
/// # Errors
/// As [`assignment`].
///
/// # Examples
/// ```
/// use earthmover::{Dense, best_assignment};
/// let gain = Dense::new(&[4.0, 1.0, 3.0, 2.0, 0.5, 5.0], 2, 3)?;
/// let found = best_assignment(&gain)?;
/// assert_eq!(found.partners, [Some(0), Some(2)]);
/// assert_eq!(found.value, 9.0);
/// # Ok::<(), earthmover::Error>(())
/// ```
pub fn best_assignment<T: Real, C: Cost<T>>(gain: &C) -> Result<Assignment, Error> {
    let mut found = assign(&Negated(gain), &Exact::new()).map_err(|error| match error {
        Error::Cost { row, col, value } => Error::Cost {
            row,
            col,
            value: -value,
        },
        other => other,
    })?;
    found.value = -found.value;
    found.bound = -found.bound;
    for price in found.row_prices.iter_mut().chain(&mut found.col_prices) {
        *price = -*price;
    }
    Ok(found)
}

fn assign<T: Real>(cost: &dyn Cost<T>, solver: &Exact) -> Result<Assignment, Error> {
    let (n, m) = (cost.rows(), cost.cols());
    let slack = Slack {
        row: m.saturating_sub(n) as f64,
        col: n.saturating_sub(m) as f64,
        row_cost: 0.0,
        col_cost: 0.0,
        corner_cost: f64::INFINITY,
    };
    if n == 0 || m == 0 {
        return Err(Error::Empty { rows: n, cols: m });
    }
    let marginals = Marginals::with_slack(&vec![1.0; n], &vec![1.0; m], slack)?;
    if cost.pairs().is_none() && cost.points().is_none() {
        check::survey(cost, &marginals)?;
        if let Some(found) = by_paths(cost) {
            return Ok(found);
        }
    }
    let problem = Problem::new(cost, marginals)?;
    let solution = solver.solve(&problem)?;
    let mut partners = vec![None; n];
    for entry in solution.plan().entries(0.5) {
        partners[entry.row] = Some(entry.col);
    }
    // Slack costs nothing, so that its price is what all others are counted from.
    let Potentials {
        rows,
        cols,
        slack_row,
        slack_col,
    } = solution.potentials();
    let zero = match (n < m, n > m) {
        (true, _) => -slack_row,
        (_, true) => *slack_col,
        _ => 0.0,
    };
    let rows = rows.iter().map(|f| f + zero).collect();
    let cols = cols.iter().map(|g| g - zero).collect();
    Ok(Assignment::new(
        cost,
        partners,
        (rows, cols),
        solution.status(),
    ))
}

/// Bytes that a copy of the costs may take, or of the costs the other way round.
const TABLE_BYTES: usize = 1 << 29;

/// The assignment by shortest augmenting paths; `None` where they are not the way.
fn by_paths<T: Real>(cost: &dyn Cost<T>) -> Option<Assignment> {
    let (n, m) = (cost.rows(), cost.cols());
    let guard = Guard::nobody();
    let (partners, prices) = if n <= m {
        let copy = Copied::within(cost, TABLE_BYTES);
        let table = copy.as_ref().map_or(cost, |copy| copy as &dyn Cost<T>);
        let found = matching(table, &guard)?;
        let partners = found.partners.into_iter().map(Some).collect();
        (partners, (found.rows, found.cols))
    } else {
        let copy = Copied::within(&Transposed(cost), TABLE_BYTES)?;
        let found = matching(&copy, &guard)?;
        let mut partners = vec![None; n];
        for (col, &row) in found.partners.iter().enumerate() {
            partners[row] = Some(col);
        }
        (partners, (found.cols, found.rows))
    };
    Some(Assignment::new(cost, partners, prices, Status::Converged))
}

impl Assignment {
    fn new<T: Real>(
        cost: &dyn Cost<T>,
        partners: Vec<Option<usize>>,
        (row_prices, col_prices): (Vec<f64>, Vec<f64>),
        status: Status,
    ) -> Self {
        let pairs = partners.iter().enumerate();
        let paid = pairs.filter_map(|(i, j)| j.map(|j| cost.at(i, j).widen()));
        let value = sum(&paid.collect::<Vec<f64>>());
        let prices = row_prices.iter().chain(&col_prices).copied();
        let bound = sum(&prices.collect::<Vec<f64>>());
        Self {
            partners,
            value,
            bound,
            row_prices,
            col_prices,
            status,
        }
    }
}

/// A gain as a cost.
struct Negated<'a, C>(&'a C);

impl<T: Real, C: Cost<T>> Cost<T> for Negated<'_, C> {
    fn rows(&self) -> usize {
        self.0.rows()
    }
    fn cols(&self) -> usize {
        self.0.cols()
    }
    fn at(&self, row: usize, col: usize) -> T {
        -self.0.at(row, col)
    }
    fn fill(&self, rows: Range<usize>, out: &mut [T]) {
        self.0.fill(rows, out);
        out.iter_mut().for_each(|c| *c = -*c);
    }
    fn fill_cols(&self, cols: Range<usize>, out: &mut [T]) {
        self.0.fill_cols(cols, out);
        out.iter_mut().for_each(|c| *c = -*c);
    }
}
