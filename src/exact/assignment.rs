//! Who goes with whom: one partner for each row, one row for each partner.
//!
//! ```text
//! minimise (or maximise)  Σ_i C_{i, p(i)}    over   p one-to-one
//! ```
//!
//! The transport problem with masses of one: its vertices are the matchings, so that [`Exact`] finds one. Where a side is longer
//! some of it stays alone, which is slack at no cost.

use core::ops::Range;

use crate::{Cost, Error, Exact, Marginals, Problem, Real, Slack, Status};

/// An assignment and what it costs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Assignment {
    /// The partner of each row; `None` for those that stay alone because there are more rows than columns.
    pub partners: Vec<Option<usize>>,
    /// The sum of the partners' costs (or gains).
    pub value: f64,
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
/// assert_eq!(found.value, 3.0);
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
    let problem = Problem::new(cost, marginals)?;
    let solution = solver.solve(&problem)?;
    let mut partners = vec![None; n];
    let mut value = 0.0;
    for entry in solution.plan().entries(0.5) {
        partners[entry.row] = Some(entry.col);
        value += cost.at(entry.row, entry.col).widen();
    }
    Ok(Assignment {
        partners,
        value,
        status: solution.status(),
    })
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
