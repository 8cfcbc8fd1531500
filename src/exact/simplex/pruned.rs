//! Pricing that passes over far columns without looking, for points in k-d order.
//!
//! Boxes around the columns ([`Index`]) say which of them cannot have a gain. The minima of h are gathered afresh before lines are
//! scanned.

use super::augmented_rows::AugmentedRows;
use super::pricing::Arcs;
use crate::exact::lists::index::{Index, Room};
use crate::{Cost, Metric, Real};

/// Lines whose columns are searched by boxes.
pub(super) struct Pruned<'a, T, C> {
    lines: AugmentedRows<'a, T, C>,
    index: Index<'a, T>,
    dimension: usize,
    rows: &'a [T],
    room: Room<T>,
}

impl<'a, T: Real, C: Cost<T>> Pruned<'a, T, C> {
    /// `rows` and `cols` are the points behind the lines' cost, the columns in nested order. The lines are
    /// handed back where the metric has no bounds.
    pub(super) fn new(
        lines: AugmentedRows<'a, T, C>,
        metric: &'a dyn Metric<T>,
        dimension: usize,
        rows: &'a [T],
        cols: &'a [T],
    ) -> Result<Self, AugmentedRows<'a, T, C>> {
        match Index::new(metric, dimension, cols) {
            None => Err(lines),
            Some(index) => Ok(Self {
                lines,
                index,
                dimension,
                rows,
                room: Room::default(),
            }),
        }
    }
}

impl<T: Real, C: Cost<T>> Arcs for Pruned<'_, T, C> {
    fn rows(&self) -> usize {
        self.lines.rows()
    }

    fn cols(&self) -> usize {
        self.lines.cols()
    }

    fn at(&self, row: usize, col: usize) -> f64 {
        self.lines.at(row, col)
    }

    fn cheapest(&mut self, i: usize, h: &[f64], below: f64) -> (f64, usize) {
        let d = self.dimension;
        let count = self.index.len();
        if i * d >= self.rows.len() {
            return self.lines.cheapest(i, h, below);
        }
        let mut best = (below, 0);
        if let Some(&slack) = h.get(count) {
            let r = self.lines.at(i, count) + slack;
            if r < best.0 {
                best = (r, count);
            }
        }
        let x = &self.rows[i * d..][..d];
        let found = self.index.cheapest(x, h, best.0, &mut self.room);
        found.unwrap_or(best)
    }

    fn refresh(&mut self, h: &[f64]) {
        self.index.refresh(h);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::kd::Nested;
    use crate::{Euclidean, Manhattan, MetricFn, PointCloud, Slack, SquaredEuclidean};

    fn scattered(count: usize, step: usize) -> Vec<f64> {
        let spread = |x: usize| ((x * step) % 1009) as f64 / 1009.0;
        (0..3 * count).map(spread).collect()
    }

    fn finds_what_full_lines_find(metric: &dyn Metric<f64>) {
        let (rows, scattered_cols) = (scattered(40, 613), scattered(333, 271));
        let nested = Nested::new(&scattered_cols, 3);
        let order = nested.order().iter().map(|&p| p as usize);
        let cols: Vec<f64> = order
            .flat_map(|p| scattered_cols[3 * p..][..3].to_vec())
            .collect();
        let cost = PointCloud::new(&rows, &cols, 3, metric).unwrap_or_else(|_| unreachable!());
        let slack = Slack {
            row: 1.0,
            col: 1.0,
            ..Slack::NONE
        };
        let mut full = AugmentedRows::new(&cost, slack);
        let Ok(mut pruned) = Pruned::new(AugmentedRows::new(&cost, slack), metric, 3, &rows, &cols)
        else {
            unreachable!("the metric has bounds")
        };
        for round in 0..3 {
            let h: Vec<f64> = (0..334)
                .map(|j| ((j * 7 + round) % 13) as f64 / 40.0)
                .collect();
            pruned.refresh(&h);
            for i in 0..41 {
                let (least, at) = full.cheapest(i, &h, f64::INFINITY);
                for below in [least + 1e-9, least + 1.0, f64::INFINITY] {
                    let found = pruned.cheapest(i, &h, below);
                    assert!((found.0 - least).abs() < 1e-15);
                    assert!(found.1 == at || (full.at(i, found.1) + h[found.1] - least) < 1e-15);
                }
                assert!(pruned.cheapest(i, &h, least - 1e-9).0 >= least - 1e-9);
            }
        }
    }

    #[test]
    fn boxes_hide_nothing() {
        finds_what_full_lines_find(&SquaredEuclidean);
        finds_what_full_lines_find(&Euclidean);
        finds_what_full_lines_find(&Manhattan);
    }

    #[test]
    fn metrics_without_bounds_are_handed_back() {
        let points = scattered(20, 7);
        let metric = MetricFn(|x: &[f64], y: &[f64]| (x[0] - y[0]).abs());
        let cost = PointCloud::new(&points, &points, 3, &metric).unwrap_or_else(|_| unreachable!());
        let lines = AugmentedRows::new(&cost, Slack::NONE);
        assert!(Pruned::new(lines, &metric, 3, &points, &points).is_err());
    }
}
