//! Pricing that passes over far columns without looking, for points in k-d order.
//!
//! ```text
//! C_ij + h_j  ≥  least_distance(x_i, box of a run of columns)  +  min h over the run
//! ```
//!
//! Where the right side is not below f_i no arc of row i into that run has a gain, and whole branches
//! of the k-d tree are left out at one comparison; near the optimum hardly more than the tight columns
//! remain. The minima of h are gathered afresh before lines are scanned. Bounds are subject to
//! rounding, so this finds pivots, while the proof of optimality is left to the full lines.

use super::augmented_rows::AugmentedRows;
use super::pricing::Arcs;
use crate::kernel::kd::cut;
use crate::{Cost, Metric, Real};

/// Columns in a run at the bottom, about.
const RUN: usize = 16;

/// The columns of a cost in nested boxes.
pub(super) struct Pruned<'a, T, C> {
    lines: AugmentedRows<'a, T, C>,
    metric: &'a dyn Metric<T>,
    dimension: usize,
    rows: &'a [T],
    cols: &'a [T],
    /// Of each run at the bottom: all first coordinates, then all second ones, and so on.
    by_coordinate: Vec<T>,
    depth: u32,
    /// Boxes by depth, run `q` of depth t at 2ᵗ + q: lower and upper corner.
    boxes: Vec<T>,
    /// The least h in each box.
    least: Vec<f64>,
    stack: Vec<usize>,
    buffer: Vec<T>,
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
        let d = dimension;
        let count = cols.len() / d;
        let depth = (count / RUN).max(1).ilog2();
        let mut boxes = vec![T::zero(); (2 * d) << (depth + 1)];
        let mut by_coordinate = vec![T::zero(); cols.len()];
        for t in 0..=depth {
            for q in 0..1usize << t {
                let (start, end) = (cut(count, t, q), cut(count, t, q + 1));
                let at = ((1 << t) + q) * 2 * d;
                for c in 0..d {
                    let (mut low, mut high) = (T::infinity(), T::neg_infinity());
                    for j in start..end {
                        low = low.min(cols[j * d + c]);
                        high = high.max(cols[j * d + c]);
                        if t == depth {
                            by_coordinate[start * d + c * (end - start) + j - start] =
                                cols[j * d + c];
                        }
                    }
                    (boxes[at + c], boxes[at + d + c]) = (low, high);
                }
            }
        }
        let all = &boxes[2 * d..4 * d];
        let bound = metric.least_distance(&rows[..d], &all[..d], &all[d..]);
        if bound == T::neg_infinity() {
            return Err(lines);
        }
        Ok(Self {
            lines,
            metric,
            dimension,
            rows,
            cols,
            by_coordinate,
            depth,
            boxes,
            least: vec![f64::NEG_INFINITY; 2 << depth],
            stack: Vec::new(),
            buffer: Vec::new(),
        })
    }

    /// The bound for a box.
    fn bound(&self, x: &[T], node: usize) -> f64 {
        let d = self.dimension;
        let corners = &self.boxes[node * 2 * d..][..2 * d];
        let (low, high) = corners.split_at(d);
        self.metric.least_distance(x, low, high).widen() + self.least[node]
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
        let count = self.cols.len() / d;
        if i * d >= self.rows.len() {
            return self.lines.cheapest(i, h, below);
        }
        let x = &self.rows[i * d..][..d];
        let mut best = (below, 0);
        if let Some(&slack) = h.get(count) {
            let r = self.lines.at(i, count) + slack;
            if r < best.0 {
                best = (r, count);
            }
        }
        self.stack.clear();
        self.stack.push(1);
        while let Some(node) = self.stack.pop() {
            // `>=` would let a NaN bound hide a branch.
            if !(self.bound(x, node) < best.0) {
                continue;
            }
            if node < 1 << self.depth {
                self.stack.extend([2 * node, 2 * node + 1]);
                continue;
            }
            let q = node - (1 << self.depth);
            let (start, end) = (cut(count, self.depth, q), cut(count, self.depth, q + 1));
            let (points, lines) = (
                &self.cols[start * d..end * d],
                &self.by_coordinate[start * d..end * d],
            );
            self.buffer.resize(end - start, T::zero());
            self.metric.fill_row(x, points, lines, &mut self.buffer);
            for (j, (c, h)) in self.buffer.iter().zip(&h[start..end]).enumerate() {
                let r = c.widen() + h;
                if r < best.0 {
                    best = (r, start + j);
                }
            }
        }
        best
    }

    fn refresh(&mut self, h: &[f64]) {
        let count = self.cols.len() / self.dimension;
        for q in 0..1usize << self.depth {
            let (start, end) = (cut(count, self.depth, q), cut(count, self.depth, q + 1));
            let least = h[start..end].iter();
            let least = least.fold(f64::INFINITY, |a, &b| if b < a { b } else { a });
            self.least[(1 << self.depth) + q] = least;
        }
        for node in (1..1usize << self.depth).rev() {
            self.least[node] = self.least[2 * node].min(self.least[2 * node + 1]);
        }
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
