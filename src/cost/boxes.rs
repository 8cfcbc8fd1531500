//! Points in k-d order with a box around every run of them.
//!
//! Node `2ᵗ + q` is run `q` of depth `t` ([`crate::kernel::kd`]); its children are `2 · node` and `2 · node + 1`. The runs of the
//! last depth are the leaves. Their points lie together in memory, point by point and coordinate by coordinate, so that a row of
//! costs to a leaf is a few vector instructions.

use core::ops::Range;

use crate::kernel::kd::{Nested, cut};
use crate::{Metric, Real};

/// The points of one side in nested boxes.
#[derive(Debug)]
pub(crate) struct Boxes<T> {
    dimension: usize,
    /// `order[place]` is a point.
    order: Vec<u32>,
    /// Coordinates in this order.
    points: Vec<T>,
    /// Of each leaf: all first coordinates, then all second ones, and so on.
    by_coordinate: Vec<T>,
    depth: u32,
    /// Lower and upper corner of every node.
    corners: Vec<T>,
}

impl<T: Real> Boxes<T> {
    /// Orders the points; leaves hold at least `least` of them, where there are so many, and fewer than twice that.
    pub(crate) fn new(points: &[T], dimension: usize, least: usize) -> Self {
        let order = Nested::new(points, dimension).into_order();
        let mut sorted = Vec::with_capacity(points.len());
        for &p in &order {
            sorted.extend_from_slice(&points[p as usize * dimension..][..dimension]);
        }
        Self::around(order, sorted, dimension, least)
    }

    fn around(order: Vec<u32>, sorted: Vec<T>, dimension: usize, least: usize) -> Self {
        let (d, count) = (dimension, order.len());
        let depth = (count / least).max(1).ilog2();
        let mut by_coordinate = vec![T::zero(); sorted.len()];
        let mut corners = vec![T::zero(); (2 * d) << (depth + 1)];
        for leaf in 0..1usize << depth {
            let run = cut(count, depth, leaf)..cut(count, depth, leaf + 1);
            let at = ((1 << depth) + leaf) * 2 * d;
            for c in 0..d {
                let (mut low, mut high) = (T::infinity(), T::neg_infinity());
                let lines = &mut by_coordinate[run.start * d + c * run.len()..][..run.len()];
                for (line, place) in lines.iter_mut().zip(run.clone()) {
                    *line = sorted[place * d + c];
                    (low, high) = (low.min(*line), high.max(*line));
                }
                (corners[at + c], corners[at + d + c]) = (low, high);
            }
        }
        for node in (1..1usize << depth).rev() {
            for c in 0..d {
                let (one, two) = (4 * node * d, (4 * node + 2) * d);
                corners[2 * node * d + c] = corners[one + c].min(corners[two + c]);
                corners[(2 * node + 1) * d + c] = corners[one + d + c].max(corners[two + d + c]);
            }
        }
        Self {
            dimension,
            order,
            points: sorted,
            by_coordinate,
            depth,
            corners,
        }
    }

    /// The points, place by place.
    pub(crate) fn order(&self) -> &[u32] {
        &self.order
    }

    /// The point at a place.
    pub(crate) fn point(&self, place: usize) -> &[T] {
        &self.points[place * self.dimension..][..self.dimension]
    }

    /// How many leaves there are; the first of them is also the number of its node.
    pub(crate) fn leaves(&self) -> usize {
        1 << self.depth
    }

    /// The places of a leaf.
    pub(crate) fn places(&self, leaf: usize) -> Range<usize> {
        let count = self.order.len();
        cut(count, self.depth, leaf)..cut(count, self.depth, leaf + 1)
    }

    /// The places of a node.
    pub(crate) fn run(&self, node: usize) -> Range<usize> {
        let (count, depth) = (self.order.len(), node.ilog2());
        let q = node - (1 << depth);
        cut(count, depth, q)..cut(count, depth, q + 1)
    }

    /// How many points lie in a node.
    pub(crate) fn population(&self, node: usize) -> usize {
        self.run(node).len()
    }

    /// Lower and upper corner of a node's box.
    pub(crate) fn corners(&self, node: usize) -> (&[T], &[T]) {
        let d = self.dimension;
        self.corners[2 * node * d..][..2 * d].split_at(d)
    }

    /// Costs from a point to those of a leaf.
    pub(crate) fn costs(&self, metric: &dyn Metric<T>, x: &[T], leaf: usize, out: &mut [T]) {
        let run = self.places(leaf);
        let run = run.start * self.dimension..run.end * self.dimension;
        metric.fill_row(x, &self.points[run.clone()], &self.by_coordinate[run], out);
    }

    /// The largest of the values, given place by place, in each node.
    pub(crate) fn highest(&self, values: &[f64]) -> Vec<f64> {
        self.gather(values, f64::NEG_INFINITY, f64::max)
    }

    /// The least of the values, given place by place, in each node.
    pub(crate) fn lowest(&self, values: &[f64]) -> Vec<f64> {
        self.gather(values, f64::INFINITY, f64::min)
    }

    fn gather(&self, values: &[f64], none: f64, fold: fn(f64, f64) -> f64) -> Vec<f64> {
        let leaves = self.leaves();
        let mut all = vec![none; 2 * leaves];
        for leaf in 0..leaves {
            let run = values[self.places(leaf)].iter().copied();
            all[leaves + leaf] = run.fold(none, fold);
        }
        for node in (1..leaves).rev() {
            all[node] = fold(all[2 * node], all[2 * node + 1]);
        }
        all
    }
}
