//! What a few rows say about a problem before it is solved.

use crate::{Cost, Real};

/// Rows looked at.
const ROWS: usize = 64;

/// Below `e^-VISIBLE` of a row's best an entry is not seen.
const VISIBLE: f64 = 14.0;

/// How costs and ε compare in a typical row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outlook {
    /// Half the distance between a row's smallest and largest finite cost.
    pub(crate) spread: f64,
    /// Entries close enough to the row's best to carry visible mass.
    pub(crate) visible: f64,
}

impl Outlook {
    pub(crate) fn new<T: Real, C: Cost<T>>(cost: &C, epsilon: f64) -> Self {
        let (n, k) = (cost.rows(), cost.cols());
        let rows = n.clamp(1, ROWS);
        let mut line = vec![T::zero(); k];
        let (mut spread, mut visible) = (0.0, 0.0);
        for r in 0..rows {
            let i = r * n / rows;
            cost.fill(i..i + 1, &mut line);
            let finite = || line.iter().map(|c| c.widen()).filter(|c| c.is_finite());
            let low = finite().fold(f64::INFINITY, f64::min);
            let high = finite().fold(f64::NEG_INFINITY, f64::max);
            if high > low {
                spread += high - low;
            }
            visible += finite().filter(|c| c - low < VISIBLE * epsilon).count() as f64;
        }
        Self {
            spread: 0.5 * spread / rows as f64,
            visible: visible / rows as f64,
        }
    }
}
