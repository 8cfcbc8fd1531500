//! Points in nested clusters: a k-d tree without nodes.
//!
//! At depth t the points, put in a suitable order, are cut into 2ᵗ runs at ⌊n q / 2ᵗ⌋: the cuts of one
//! depth are among those of the next, so the runs are nested and need no storage. The order comes from
//! splitting each run at its cut along its widest coordinate.

use core::ops::Range;

use crate::Real;

/// An order of points in which every run of every depth is a cluster.
pub(crate) struct Nested {
    /// `order[place]` is a point.
    order: Vec<u32>,
}

impl Nested {
    /// Orders the points, given one after the other with `dimension` coordinates each.
    pub(crate) fn new<T: Real>(points: &[T], dimension: usize) -> Self {
        let count = points.len() / dimension.max(1);
        let mut order: Vec<u32> = (0..count as u32).collect();
        let at = |p: u32, d: usize| points[p as usize * dimension + d];
        for depth in 0..deepest(count) {
            for q in 0..1usize << depth {
                let run = cut(count, depth, q)..cut(count, depth, q + 1);
                let middle = cut(count, depth + 1, 2 * q + 1) - run.start;
                let run = &mut order[run];
                let width = |d: usize| {
                    let (mut low, mut high) = (T::infinity(), T::neg_infinity());
                    for &p in run.iter() {
                        low = low.min(at(p, d));
                        high = high.max(at(p, d));
                    }
                    (high - low).widen()
                };
                let widest = (0..dimension)
                    .map(|d| (width(d), d))
                    .fold((-1.0, 0), |a, b| if b.0 > a.0 { b } else { a })
                    .1;
                if middle > 0 && middle < run.len() {
                    // Ties by index, so that the order depends on the points alone.
                    run.select_nth_unstable_by(middle, |&a, &b| {
                        let by = at(a, widest).partial_cmp(&at(b, widest));
                        by.unwrap_or(core::cmp::Ordering::Equal).then(a.cmp(&b))
                    });
                }
            }
        }
        Self { order }
    }

    /// The points in this order, to keep.
    pub(crate) fn into_order(self) -> Vec<u32> {
        self.order
    }

    /// The points in this order.
    pub(crate) fn order(&self) -> &[u32] {
        &self.order
    }

    /// The places of run `q` at `depth`.
    pub(crate) fn places(&self, depth: u32, q: usize) -> Range<usize> {
        let count = self.order.len();
        cut(count, depth, q)..cut(count, depth, q + 1)
    }
}

/// The depth at which runs hold one or two points.
pub(crate) fn deepest(count: usize) -> u32 {
    count.max(1).ilog2()
}

/// The runs of depth `fine` inside run `q` of depth `coarse`.
pub(crate) fn inside(coarse: u32, fine: u32, q: usize) -> Range<usize> {
    let by = fine - coarse;
    q << by..(q + 1) << by
}

/// Where run `q` of `depth` starts.
pub(crate) fn cut(count: usize, depth: u32, q: usize) -> usize {
    ((count as u128 * q as u128) >> depth) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_nested_and_cover_every_point_once() {
        let points: Vec<f64> = (0..2 * 77).map(|x| f64::from((x * 37) % 101)).collect();
        let nested = Nested::new(&points, 2);
        for depth in 0..=deepest(77) {
            let mut all: Vec<u32> = (0..1 << depth)
                .flat_map(|q| nested.order[nested.places(depth, q)].to_vec())
                .collect();
            assert_eq!(all, nested.order);
            all.sort_unstable();
            assert!(all.iter().copied().eq(0..77));
        }
        let together: Vec<u32> = inside(2, 5, 3)
            .flat_map(|q| nested.order[nested.places(5, q)].to_vec())
            .collect();
        assert_eq!(together, &nested.order[nested.places(2, 3)]);
        // The first cut separates along the widest coordinate.
        let widest = |r: &[u32]| {
            r.iter()
                .map(|&p| points[2 * p as usize])
                .fold(0.0, f64::max)
        };
        let least = |r: &[u32]| {
            r.iter()
                .map(|&p| points[2 * p as usize])
                .fold(1e9, f64::min)
        };
        let (left, right) = (
            &nested.order[nested.places(1, 0)],
            &nested.order[nested.places(1, 1)],
        );
        let other = |r: &[u32], m: fn(f64, f64) -> f64, s| {
            r.iter().map(|&p| points[2 * p as usize + 1]).fold(s, m)
        };
        assert!(
            widest(left) <= least(right)
                || other(left, f64::max, 0.0) <= other(right, f64::min, 1e9)
        );
    }
}
