//! What a few rows say about a problem before it is solved.

use crate::active::{Active, MOST};
use crate::sweep::{Curvature, Streamed};
use crate::upright::MOST_LINES;
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
    pub(crate) fn new<T: Real, C: Cost<T> + ?Sized>(cost: &C, epsilon: f64) -> Self {
        let (n, k) = (cost.rows(), cost.cols());
        let rows = n.clamp(1, ROWS);
        let mut lines = vec![T::zero(); rows * k];
        for (r, line) in lines.chunks_exact_mut(k).enumerate() {
            let i = r * n / rows;
            cost.fill(i..i + 1, line);
        }
        // Potentials make up for what a column is dearer than others to all rows alike: entries that are far
        // from the row's best now may not be so in the end.
        let centre = |j: usize| {
            let column = lines.iter().skip(j).step_by(k).map(|c| c.widen());
            let (sum, count) = column
                .filter(|c| c.is_finite())
                .fold((0.0, 0.0), |(sum, count), c| (sum + c, count + 1.0));
            if count > 0.0 { sum / count } else { 0.0 }
        };
        let centres: Vec<f64> = (0..k).map(centre).collect();
        let (mut spread, mut at_rest, mut centred) = (0.0, 0.0, 0.0);
        for line in lines.chunks_exact(k) {
            let finite = || line.iter().map(|c| c.widen()).filter(|c| c.is_finite());
            let low = finite().fold(f64::INFINITY, f64::min);
            let high = finite().fold(f64::NEG_INFINITY, f64::max);
            if high > low {
                spread += high - low;
            }
            at_rest += visible(finite(), epsilon);
            let above = line.iter().zip(&centres).map(|(c, m)| c.widen() - m);
            centred += visible(above.filter(|c| c.is_finite()), epsilon);
        }
        Self {
            spread: 0.5 * spread / rows as f64,
            visible: f64::max(at_rest, centred) / rows as f64,
        }
    }

    /// Whether the entries of most rows that matter are few enough for a list.
    pub(crate) fn is_sharp(&self) -> bool {
        self.visible <= MOST as f64
    }

    /// The backend for such rows: lists of the entries that matter, which may leave out what weighs less than `faint`,
    /// unless most rows would be too long for a list and short enough to be swept whole at little cost.
    pub(super) fn backend<'a, T: Real, C: Cost<T> + ?Sized>(
        self,
        cost: &'a C,
        masses: &[f64],
        faint: f64,
    ) -> Box<dyn Curvature + 'a> {
        if !self.is_sharp() && cost.cols() < MOST_LINES {
            Box::new(Streamed::new(cost, masses))
        } else {
            Box::new(Active::new(cost, masses.to_vec(), faint))
        }
    }
}

/// How many entries are within sight of the least.
fn visible(costs: impl Iterator<Item = f64> + Clone, epsilon: f64) -> f64 {
    let low = costs.clone().fold(f64::INFINITY, f64::min);
    costs.filter(|c| c - low < VISIBLE * epsilon).count() as f64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Dense;

    #[test]
    fn what_columns_cost_all_rows_alike_hides_nothing() {
        let (n, k) = (20, 8);
        let tilted: Vec<f64> = (0..n * k).map(|at| (at % k) as f64).collect();
        let outlook = Outlook::new(&Dense::new(&tilted, n, k).unwrap(), 0.01);
        assert_eq!(outlook.visible, k as f64);
        assert_eq!(outlook.spread, 3.5);

        let diagonal: Vec<f64> = (0..n * k)
            .map(|at| f64::from(u8::from(at % k != at / k % k)))
            .collect();
        let outlook = Outlook::new(&Dense::new(&diagonal, n, k).unwrap(), 0.01);
        assert_eq!(outlook.visible, 1.0);
    }
}
