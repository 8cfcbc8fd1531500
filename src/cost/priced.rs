//! Points in nested boxes with a number h on each: which of them a point finds cheap, without looking at most of them.
//!
//! ```text
//! C_ij + h_j  ≥  least_distance(x_i, box of a run of columns)  +  min h over the run
//! ```
//!
//! Where the right side is not below what is looked for, no pair of row i with that run is, and whole branches of the k-d
//! tree are left out at one comparison; near optimal prices hardly more than the tight columns remain. The nearer of two
//! branches is looked at first. Of equally good ones every point has its own favourite, so that copies of a point are not
//! all sent to the same partners.
//!
//! Between clouds that are displaced h rises across a box nearly as fast as costs fall, and the two minima lie far apart. So a box
//! keeps a plane that h lies above, `h_j ≥ α + β·(y_j − centre)`, and the bound is the least of `C(x, y) + α + β·(y − centre)`
//! over the box, where the metric knows that: half the time of a whole solve.

use crate::cost::Boxes;
use crate::cost::points::rounding;
use crate::kernel::tiles::map_ranges;
use crate::{Metric, Real};

/// Points in a run at the bottom, at least.
const RUN: usize = 16;

/// Most points of a box with a slope: larger ones are nearly always looked into.
const MOST_SLOPED: usize = 1024;

/// Points that one thread searches for at a time.
const TILE: usize = 256;

/// Fewest points that boxes tell apart: the more coordinates, the more points it takes for runs to be small against
/// their distances.
pub(crate) fn fewest_for_boxes(dimension: usize) -> usize {
    let doublings = dimension.saturating_sub(3).min(40) as u32;
    512usize.saturating_mul(1usize.checked_shl(doublings).unwrap_or(usize::MAX))
}

/// The points of one side in nested boxes, and what stands on them.
pub(crate) struct Priced<'a, T> {
    metric: &'a dyn Metric<T>,
    dimension: usize,
    boxes: Boxes<T>,
    /// The least h in each box or, with slopes, that of the plane below it at the centre.
    least: Vec<f64>,
    /// Slopes of these planes, box by box; none where the metric knows nothing of slopes.
    slopes: Vec<f64>,
}

/// What a search writes into; one for each thread.
pub(crate) struct Room<T> {
    stack: Vec<(f64, usize)>,
    buffer: Vec<T>,
}

impl<T> Default for Room<T> {
    fn default() -> Self {
        Self {
            stack: Vec::new(),
            buffer: Vec::new(),
        }
    }
}

/// What a point finds: itself, C + h, the other, C.
pub(crate) type Find<T> = (u32, f64, u32, T);

impl<'a, T: Real> Priced<'a, T> {
    /// `None` where the metric has no bounds.
    pub(crate) fn new(metric: &'a dyn Metric<T>, dimension: usize, points: &[T]) -> Option<Self> {
        let boxes = Boxes::new(points, dimension, RUN);
        let (low, high) = boxes.corners(1);
        let bound = metric.least_distance(boxes.point(0), low, high);
        (bound > T::neg_infinity()).then(|| Self {
            metric,
            dimension,
            least: vec![f64::NEG_INFINITY; 2 * boxes.leaves()],
            slopes: Vec::new(),
            boxes,
        })
    }

    /// Gathers the minima of h, which is given point by point, after it has changed. Where it has only grown since, searches are
    /// right without, and look at a few more points.
    pub(crate) fn refresh(&mut self, h: &[f64]) {
        let order = self.boxes.order();
        let by_place: Vec<f64> = order.iter().map(|&p| h[p as usize]).collect();
        self.least = self.boxes.lowest(&by_place);
        if self.knows_slopes() {
            let count = self.least.len();
            let parts = map_ranges(count, TILE, |nodes| {
                let mut slopes = vec![0.0; nodes.len() * self.dimension];
                let mut least = self.least[nodes.clone()].to_vec();
                let each = slopes.chunks_exact_mut(self.dimension).zip(&mut least);
                for (node, (slopes, least)) in nodes.zip(each) {
                    if node > 0 && self.boxes.population(node) <= MOST_SLOPED {
                        self.lay_plane(node, &by_place, least, slopes);
                    }
                }
                (least, slopes)
            });
            self.slopes.clear();
            self.least.clear();
            for (least, slopes) in parts {
                self.least.extend(least);
                self.slopes.extend(slopes);
            }
        }
    }

    /// Lays a plane below h over a box, where that is closer to h than a flat one: slopes that fit each coordinate by itself, and the
    /// least height at the centre.
    fn lay_plane(&self, node: usize, h: &[f64], least: &mut f64, slopes: &mut [f64]) {
        let (low, high) = self.boxes.corners(node);
        let middle = |c: usize| 0.5 * (low[c].widen() + high[c].widen());
        let places = || self.boxes.run(node).filter(|&p| h[p].is_finite());
        let (mut count, mut mean) = (0.0, 0.0);
        for p in places() {
            (count, mean) = (count + 1.0, mean + h[p]);
        }
        if count < 2.0 {
            return;
        }
        mean /= count;
        for (c, slope) in slopes.iter_mut().enumerate() {
            let (centre, mut sums) = (middle(c), (0.0, 0.0, 0.0, 0.0));
            for p in places() {
                let (y, above) = (self.boxes.point(p)[c].widen() - centre, h[p] - mean);
                sums = (
                    sums.0 + y,
                    sums.1 + y * y,
                    sums.2 + above,
                    sums.3 + y * above,
                );
            }
            let (y, square, above, both) = sums;
            let fitted = (both - y * above / count) / (square - y * y / count);
            *slope = if fitted.is_finite() { fitted } else { 0.0 };
        }
        let (mut flat, mut sloped) = (
            [f64::INFINITY, f64::NEG_INFINITY],
            [f64::INFINITY, f64::NEG_INFINITY],
        );
        let wider = |span: &mut [f64; 2], v: f64| *span = [span[0].min(v), span[1].max(v)];
        for p in places() {
            let point = self.boxes.point(p).iter().zip(&*slopes).enumerate();
            let risen: f64 = point
                .map(|(c, (y, slope))| slope * (y.widen() - middle(c)))
                .sum();
            wider(&mut flat, h[p]);
            wider(&mut sloped, h[p] - risen);
        }
        if sloped[1] - sloped[0] < flat[1] - flat[0] {
            let sides = low.iter().zip(high).map(|(l, u)| u.widen() - l.widen());
            let across: f64 = sides.zip(&*slopes).map(|(s, slope)| s * slope.abs()).sum();
            let size = sloped[0].abs() + flat[0].abs().max(flat[1].abs()) + across;
            let rounding = 2.0 * (self.dimension + 1) as f64 * f64::EPSILON * size;
            *least = sloped[0] - rounding;
        } else {
            slopes.fill(0.0);
        }
    }

    fn knows_slopes(&self) -> bool {
        let (low, high) = self.boxes.corners(1);
        let (x, flat) = (self.boxes.point(0), vec![0.0; self.dimension]);
        self.metric.least_sloped(x, low, high, &flat).is_some()
    }

    /// The bound for a box, rounding allowed for.
    fn bound(&self, x: &[T], node: usize) -> f64 {
        let (low, high) = self.boxes.corners(node);
        let d = self.dimension;
        let slopes = self.slopes.get(node * d..(node + 1) * d);
        let sloped = slopes.and_then(|slopes| self.metric.least_sloped(x, low, high, slopes));
        let above = sloped.unwrap_or_else(|| {
            let far = self.metric.least_distance(x, low, high).widen();
            far * (1.0 - rounding::<T>(d))
        });
        above + self.least[node]
    }

    /// Calls `offer(C_j + h_j, j, C_j)` for every point j where the first is less than `below`, and for few others;
    /// `offer` returns what to be below from then on.
    pub(crate) fn search(
        &self,
        x: &[T],
        h: &[f64],
        mut below: f64,
        favourite: usize,
        room: &mut Room<T>,
        mut offer: impl FnMut(f64, usize, T) -> f64,
    ) {
        let leaves = self.boxes.leaves();
        let order = self.boxes.order();
        let Room { stack, buffer } = room;
        stack.clear();
        stack.push((self.bound(x, 1), 1));
        while let Some((bound, node)) = stack.pop() {
            // A bound that is NaN hides nothing.
            if bound >= below {
                continue;
            }
            if node < leaves {
                let flip = (favourite.wrapping_mul(0x9e37_79b9) >> (node.ilog2() % 24)) & 1;
                let (one, other) = (2 * node + flip, 2 * node + 1 - flip);
                let [one, other] = [one, other].map(|v| (self.bound(x, v), v));
                stack.extend(if other.0 < one.0 {
                    [one, other]
                } else {
                    [other, one]
                });
                continue;
            }
            let places = self.boxes.places(node - leaves);
            buffer.resize(places.len(), T::zero());
            self.boxes.costs(self.metric, x, node - leaves, buffer);
            for (at, &c) in places.zip(buffer.iter()) {
                let j = order[at] as usize;
                let r = c.widen() + h[j];
                if r < below {
                    below = offer(r, j, c);
                }
            }
        }
    }

    /// The least `C_j + h_j` below `below` and its point.
    pub(crate) fn cheapest(
        &self,
        x: &[T],
        h: &[f64],
        below: f64,
        room: &mut Room<T>,
    ) -> Option<(f64, usize)> {
        let mut best = None;
        self.search(x, h, below, 0, room, |r, j, _| {
            best = Some((r, j));
            r
        });
        best
    }

    /// For each of some points, given one after the other, the `most` with the least `C + h` below what it asks; on all cores.
    pub(crate) fn find(
        &self,
        from: &[T],
        h: &[f64],
        most: usize,
        below: impl Fn(usize) -> f64 + Sync,
    ) -> Vec<Find<T>> {
        let d = self.dimension;
        let tiles = map_ranges(from.len() / d, TILE, |range| {
            let mut found = Vec::new();
            let (mut room, mut least) = (Room::default(), Least::new(most));
            for i in range {
                least.clear();
                let limit = below(i);
                let x = &from[i * d..][..d];
                self.search(x, h, limit, i, &mut room, |r, j, c| {
                    least.offer(r, j, c).min(limit)
                });
                let of_point = least.list().iter();
                found.extend(of_point.map(|&(r, j, c)| (i as u32, r, j as u32, c)));
            }
            found
        });
        tiles.into_iter().flatten().collect()
    }
}

/// The few least of some numbers, in order, each with its place and cost.
pub(crate) struct Least<T> {
    list: Vec<(f64, usize, T)>,
    most: usize,
}

impl<T: Real> Least<T> {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            list: Vec::with_capacity(most + 1),
            most,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }

    /// Takes a number in; returns what others have to be below to get in.
    #[inline]
    pub(crate) fn offer(&mut self, r: f64, at: usize, cost: T) -> f64 {
        let place = self.list.partition_point(|e| e.0 <= r);
        if place < self.most {
            self.list.truncate(self.most - 1);
            self.list.insert(place, (r, at, cost));
        }
        self.bound()
    }

    /// What numbers have to be below to get in.
    pub(crate) fn bound(&self) -> f64 {
        if self.list.len() < self.most {
            f64::INFINITY
        } else {
            self.list[self.most - 1].0
        }
    }

    pub(crate) fn list(&self) -> &[(f64, usize, T)] {
        &self.list
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Euclidean, Manhattan, MetricFn, SquaredEuclidean};

    fn scattered(count: usize, step: usize) -> Vec<f64> {
        let spread = |x: usize| ((x * step) % 1009) as f64 / 1009.0;
        (0..3 * count).map(spread).collect()
    }

    fn finds_what_full_lines_have(metric: &dyn Metric<f64>) {
        let (rows, cols) = (scattered(40, 613), scattered(333, 271));
        let mut priced = Priced::new(metric, 3, &cols).unwrap();
        for round in 0..3 {
            let h: Vec<f64> = (0..333)
                .map(|j| ((j * 7 + round) % 13) as f64 / 40.0 + round as f64 * cols[3 * j])
                .collect();
            priced.refresh(&h);
            for x in rows.chunks_exact(3) {
                let at = |j: usize| metric.distance(x, &cols[3 * j..][..3]) + h[j];
                let least = (0..h.len()).map(at).fold(f64::INFINITY, f64::min);
                let mut room = Room::default();
                for below in [least + 1e-9, least + 1.0, f64::INFINITY] {
                    let found = priced.cheapest(x, &h, below, &mut room).unwrap();
                    assert!((found.0 - least).abs() < 1e-15);
                    assert!((at(found.1) - least).abs() < 1e-15);
                }
                assert!(priced.cheapest(x, &h, least - 1e-9, &mut room).is_none());
            }
            let mut all: Vec<f64> = (0..h.len())
                .map(|j| metric.distance(&rows[..3], &cols[3 * j..][..3]) + h[j])
                .collect();
            all.sort_by(f64::total_cmp);
            let few = priced.find(&rows[..3], &h, 5, |_| all[40]);
            let few: Vec<f64> = few.iter().map(|e| e.1).collect();
            assert!(few.iter().zip(&all).all(|(a, b)| (a - b).abs() < 1e-15) && few.len() == 5);
        }
    }

    #[test]
    fn boxes_hide_nothing() {
        finds_what_full_lines_have(&SquaredEuclidean);
        finds_what_full_lines_have(&Euclidean);
        finds_what_full_lines_have(&Manhattan);
    }

    #[test]
    fn metrics_without_bounds_are_refused() {
        let metric = MetricFn(|x: &[f64], y: &[f64]| (x[0] - y[0]).abs());
        assert!(Priced::new(&metric, 3, &scattered(20, 7)).is_none());
    }
}
