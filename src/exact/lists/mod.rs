//! Where the few pairs are found that matter at given prices.
//!
//! ```text
//! prices g  →  for each row and column the few pairs of least C_ij − f_i − g_j
//! prices f, g  →  the pairs with C_ij < f_i + g_j
//! ```
//!
//! Near the optimal prices hardly any pair is close to tight, so the first list holds nearly all of an optimal plan, and the second
//! is empty where nothing is missing. Pairs are found by boxes around nearby points in low dimension ([`nearby`]) and by reading every row
//! and column otherwise ([`scan`]).

mod nearby;
pub(in crate::exact) mod pairs;
mod scan;

use self::nearby::Nearby;
use self::scan::Scan;
use crate::cost::fewest_for_boxes;
use crate::{Cost, Real};

/// Pairs as (row, column, cost).
pub(in crate::exact) type List = Vec<(u32, u32, f64)>;

/// Violated pairs of a row that are told at a time.
const WORST: usize = 8;

/// Where the pairs of a problem are found.
pub(in crate::exact) trait Source {
    /// The most that g allows: `f_i = min_j (C_ij − g_j)`.
    fn row_prices(&mut self, g: &[f64]) -> Vec<f64>;

    /// The `few` pairs of least `C_ij − f_i − g_j` of every row and column, where f is the most that g allows; then g is
    /// raised to the most that f allows.
    fn short_list(&mut self, g: &mut [f64], few: usize) -> List;

    /// Pairs with `C_ij < f_i + g_j`, the worst few of each row.
    fn violated(&mut self, f: &[f64], g: &[f64]) -> List;
}

/// The pairs of a cost: by boxes where it is one between points, so many that these tell them apart.
pub(in crate::exact) fn source<'a, T: Real>(cost: &'a dyn Cost<T>) -> Box<dyn Source + 'a> {
    let shorter = cost.rows().min(cost.cols());
    let points = cost.points();
    let many = points.filter(|p| shorter >= fewest_for_boxes(p.dimension));
    match many.and_then(|p| Nearby::new(p.metric, p.dimension, p.rows, p.cols)) {
        Some(nearby) => Box::new(nearby),
        None => Box::new(Scan::new(cost)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::cost::Clusters;
    use crate::kernel::random::Random;
    use crate::{Euclidean, Manhattan, Metric, PointCloud, SquaredEuclidean};

    /// Boxes find what reading every pair finds, but for which of equally good ones.
    fn agree(metric: &dyn Metric<f64>, d: usize) {
        let (n, m) = (700, 600);
        let mut random = Random::new(7, 0);
        let mut side = |count: usize| -> Vec<f64> {
            let points: Vec<f64> = (0..count * d).map(|_| random.normal()).collect();
            Clusters::new(&points, &vec![1.0; count], d).clusters(0).0
        };
        let (x, y) = (side(n), side(m));
        let cost = PointCloud::new(&x, &y, d, metric).unwrap();
        let (mut near, mut all) = (
            Nearby::new(metric, d, &x, &y).unwrap(),
            Scan::new(&cost as &dyn Cost<f64>),
        );
        let start: Vec<f64> = (0..m).map(|j| (j % 9) as f64 / 20.0).collect();
        assert_eq!(near.row_prices(&start), all.row_prices(&start));
        let (mut g, mut other) = (start.clone(), start);
        let lists = (near.short_list(&mut g, 5), all.short_list(&mut other, 5));
        assert_eq!(g, other);
        // A row may be the best of more columns than are listed, all equally good: which of them is a matter of taste.
        let mut f = near.row_prices(&g);
        let worth = |list: &List| -> f64 {
            let above = |&(i, j, c): &(u32, u32, f64)| c - f[i as usize] - g[j as usize];
            list.iter().map(above).sum()
        };
        assert_eq!(lists.0.len(), lists.1.len());
        assert!((worth(&lists.0) - worth(&lists.1)).abs() < 1e-9);
        assert!(near.violated(&f, &g).is_empty() && all.violated(&f, &g).is_empty());
        f.iter_mut().step_by(3).for_each(|f| *f += 0.1);
        let (found, other) = (near.violated(&f, &g), all.violated(&f, &g));
        assert!(!found.is_empty());
        assert_eq!(found.len(), other.len());
        let worth: f64 = found.iter().map(|p| p.2 - g[p.1 as usize]).sum();
        let others: f64 = other.iter().map(|p| p.2 - g[p.1 as usize]).sum();
        assert!((worth - others).abs() < 1e-9);
    }

    #[test]
    fn boxes_find_what_scans_find() {
        agree(&SquaredEuclidean, 2);
        agree(&Euclidean, 3);
        agree(&Manhattan, 1);
    }
}
