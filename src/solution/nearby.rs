//! Feasible prices of point clouds, without a look at most pairs.
//!
//! ```text
//! f_i = min_j (C_ij − g_j)        g'_j = min_i (C_ij − f_i)
//! ```
//!
//! each a search through boxes of nearby points ([`Priced`]): near optimal prices, O((n + m) log (n + m)) in few dimensions. The
//! searches compare in `f64` and allow for its rounding; what they find is compared to twice the digits, as it is where every
//! pair is read.

use crate::cost::{Points, Priced, Room, fewest_for_boxes};
use crate::kernel::rounding::Double;
use crate::kernel::tiles::map_ranges;
use crate::{Cost, Real};

/// Points that one thread searches for at a time.
const TILE: usize = 256;

/// Two clouds that are many enough for boxes to tell points apart.
pub(super) struct Nearby<'a, T> {
    points: Points<'a, T>,
}

impl<'a, T: Real> Nearby<'a, T> {
    /// `None` where reading every pair is the way.
    pub(super) fn new<C: Cost<T>>(cost: &'a C) -> Option<Self> {
        let points = cost.points()?;
        let shorter = cost.rows().min(cost.cols());
        let many = shorter >= fewest_for_boxes(points.dimension);
        (many && points.metric.is_symmetric()).then_some(Self { points })
    }

    /// The most that column prices allow each row; `None` where the metric has no bounds. Prices of −∞ bind nobody.
    pub(super) fn row_prices(&self, g: &[Double]) -> Option<Vec<Double>> {
        least(self.points, g)
    }

    /// The most that row prices allow each column.
    pub(super) fn col_prices(&self, f: &[Double]) -> Option<Vec<Double>> {
        least(self.points.transposed(), f)
    }
}

/// The least `C_ij − price_j` of each row.
fn least<T: Real>(points: Points<'_, T>, prices: &[Double]) -> Option<Vec<Double>> {
    let d = points.dimension;
    let mut boxes = Priced::new(points.metric, d, points.cols)?;
    let h: Vec<f64> = prices.iter().map(|p| -p.high).collect();
    boxes.refresh(&h);
    let finite = h.iter().filter(|h| h.is_finite());
    let reach = finite.fold(0.0f64, |m, h| m.max(h.abs()));
    let tiles = map_ranges(points.rows.len() / d, TILE, |range| {
        let mut room = Room::default();
        let of_row = |i: usize| {
            let mut best = Double::from(f64::INFINITY);
            let x = &points.rows[i * d..][..d];
            boxes.search(x, &h, f64::INFINITY, i, &mut room, |_, j, c| {
                let price = prices[j];
                best = best.min(Double::difference(c.widen(), price.high).less(price.low));
                // A cost is at most the sum of the two: a few roundings of such a number.
                best.high + 4.0 * f64::EPSILON * (2.0 * reach + best.high.abs())
            });
            best
        };
        range.map(of_row).collect::<Vec<Double>>()
    });
    Some(tiles.into_iter().flatten().collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::random::Random;
    use crate::{Euclidean, Manhattan, Metric, PointCloud, SquaredEuclidean};

    /// Boxes find the minima that reading every pair finds, to twice the digits.
    fn agrees<T: Real, M: Metric<T>>(metric: M, d: usize, copies: bool) {
        let (n, m) = (620, 540);
        let mut random = Random::new(11, 0);
        let mut side = |count: usize| -> Vec<T> {
            let at = |x: f64| if copies { (3.0 * x).round() } else { x };
            let all = (0..count * d).map(|_| T::narrow(at(random.normal())));
            all.collect()
        };
        let (x, y) = (side(n), side(m));
        let cost = PointCloud::new(&x, &y, d, metric).unwrap();
        let near = Nearby::new(&cost).unwrap();
        let price = |j: usize| match j % 50 {
            7 => Double::from(f64::NEG_INFINITY),
            _ => Double::difference((j % 17) as f64 / 9.0, 1e-18 * j as f64),
        };
        let g: Vec<Double> = (0..m).map(price).collect();
        let f: Vec<Double> = (0..n).map(price).collect();
        let less = |c: T, p: Double| Double::difference(c.widen(), p.high).less(p.low);
        let same = |a: Double, b: Double| (a.high - b.high) + (a.low - b.low) == 0.0;
        let none = Double::from(f64::INFINITY);
        for (i, found) in near.row_prices(&g).unwrap().into_iter().enumerate() {
            let all = (0..m).map(|j| less(cost.at(i, j), g[j]));
            assert!(same(found, all.fold(none, Double::min)));
        }
        for (j, found) in near.col_prices(&f).unwrap().into_iter().enumerate() {
            let all = (0..n).map(|i| less(cost.at(i, j), f[i]));
            assert!(same(found, all.fold(none, Double::min)));
        }
    }

    #[test]
    fn boxes_find_the_prices_that_all_pairs_allow() {
        for copies in [false, true] {
            agrees::<f64, _>(SquaredEuclidean, 2, copies);
            agrees::<f32, _>(SquaredEuclidean, 3, copies);
            agrees::<f64, _>(Euclidean, 2, copies);
            agrees::<f64, _>(Manhattan, 1, copies);
            agrees::<f32, _>(Manhattan, 3, copies);
        }
    }
}
