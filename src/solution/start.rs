//! Whether potentials are sound to start from: as many as there are columns, and numbers.

use crate::error::LARGEST_START;
use crate::{Error, Marginals, Potentials, Side};

/// Starting potentials of the columns, slack last: of the right length, each a number or −∞ (which says nothing). The
/// slack's counts only where it carries mass.
pub(crate) fn columns_as_given(
    from: &Potentials,
    marginals: &Marginals,
) -> Result<Vec<f64>, Error> {
    let k = marginals.cols().len();
    if from.cols.len() != k {
        return Err(Error::Length {
            what: "starting column potentials",
            expected: k,
            found: from.cols.len(),
        });
    }
    let fine = |value: f64| value == f64::NEG_INFINITY || value.abs() <= LARGEST_START;
    // Those of the rows follow from them and are not needed; but what is given must be what it says it is.
    let n = marginals.rows().len();
    if !from.rows.is_empty() && from.rows.len() != n {
        return Err(Error::Length {
            what: "starting row potentials",
            expected: n,
            found: from.rows.len(),
        });
    }
    if let Some(index) = from.rows.iter().position(|f| f.is_nan()) {
        return Err(Error::Start {
            side: Side::Rows,
            index,
            value: from.rows[index],
        });
    }
    if let Some(index) = from.cols.iter().position(|&g| !fine(g)) {
        return Err(Error::Start {
            side: Side::Cols,
            index,
            value: from.cols[index],
        });
    }
    let mut g = from.cols.clone();
    if marginals.slack().col > 0.0 {
        if !fine(from.slack_col) {
            return Err(Error::Start {
                side: Side::SlackCol,
                index: 0,
                value: from.slack_col,
            });
        }
        g.push(from.slack_col);
    } else {
        g.push(f64::NEG_INFINITY);
    }
    Ok(g)
}

/// The same, less what all have in common.
pub(crate) fn columns(from: &Potentials, marginals: &Marginals) -> Result<Vec<f64>, Error> {
    let mut g = columns_as_given(from, marginals)?;
    // What all have in common says nothing; where it is larger than all in which they differ it costs digits.
    let finite = || g.iter().copied().filter(|g| g.is_finite());
    let top = finite().fold(f64::NEG_INFINITY, f64::max);
    let apart = finite().fold(0.0, |m: f64, g| m.max(top - g));
    if top.is_finite() && top.abs() > apart && !marginals.has_bounded_potentials() {
        g.iter_mut().for_each(|g| *g -= top);
    }
    Ok(g)
}

/// How far apart the potentials of an entropic answer can be, with room to spare: costs and their detours, and ε times the logarithms
/// of masses.
pub(crate) fn entropic_reach(span: f64, epsilon: f64) -> f64 {
    4.0 * span + 800.0 * epsilon
}

/// Potentials no further below the highest than this: no optimum is, and what is further costs the others their digits. Where any
/// is, the highest becomes zero.
pub(crate) fn within(mut g: Vec<f64>, reach: f64) -> Vec<f64> {
    let top = g.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let far = |g: &f64| g.is_finite() && top - g > reach;
    if top.is_finite() && g.iter().any(far) {
        let finite = g.iter_mut().filter(|g| g.is_finite());
        finite.for_each(|g| *g = (*g - top).max(-reach));
    }
    g
}

/// The same with every −∞ replaced by the lowest of the others: for exact solvers, which price every column.
pub(crate) fn priced_columns(from: &Potentials, marginals: &Marginals) -> Result<Vec<f64>, Error> {
    let mut g = columns(from, marginals)?;
    let finite = g.iter().copied().filter(|g| g.is_finite());
    let lowest = finite.fold(f64::INFINITY, f64::min);
    let lowest = if lowest.is_finite() { lowest } else { 0.0 };
    g.iter_mut().for_each(|g| *g = g.max(lowest));
    Ok(g)
}
