//! Points in nested boxes: which columns a row finds cheap, without looking at most of them.
//!
//! ```text
//! C_ij + h_j  ≥  least_distance(x_i, box of a run of columns)  +  min h over the run
//! ```
//!
//! Where the right side is not below what is looked for, no pair of row i with that run is, and whole branches of the k-d
//! tree are left out at one comparison; near the optimum hardly more than the tight columns remain. The nearer of two
//! branches is looked at first. Of equally good ones every point has its own favourite, so that copies of a point are not
//! all sent to the same partners.

use crate::kernel::kd::cut;
use crate::{Metric, Real};

/// Points in a run at the bottom, about.
const RUN: usize = 16;

/// The points of one side in nested boxes.
pub(in crate::exact) struct Index<'a, T> {
    metric: &'a dyn Metric<T>,
    dimension: usize,
    points: &'a [T],
    /// Of each run at the bottom: all first coordinates, then all second ones, and so on.
    by_coordinate: Vec<T>,
    depth: u32,
    /// Boxes by depth, run `q` of depth t at 2ᵗ + q: lower and upper corner.
    boxes: Vec<T>,
    /// The least h in each box.
    least: Vec<f64>,
}

/// What a search writes into; one for each thread.
pub(in crate::exact) struct Room<T> {
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

impl<'a, T: Real> Index<'a, T> {
    /// Over `points` in nested order; `None` where the metric has no bounds.
    pub(in crate::exact) fn new(
        metric: &'a dyn Metric<T>,
        dimension: usize,
        points: &'a [T],
    ) -> Option<Self> {
        let d = dimension;
        let count = points.len() / d;
        let depth = (count / RUN).max(1).ilog2();
        let mut boxes = vec![T::zero(); (2 * d) << (depth + 1)];
        let mut by_coordinate = vec![T::zero(); points.len()];
        for q in 0..1usize << depth {
            let (start, end) = (cut(count, depth, q), cut(count, depth, q + 1));
            let at = ((1 << depth) + q) * 2 * d;
            for c in 0..d {
                let (mut low, mut high) = (T::infinity(), T::neg_infinity());
                for j in start..end {
                    let x = points[j * d + c];
                    low = low.min(x);
                    high = high.max(x);
                    by_coordinate[start * d + c * (end - start) + j - start] = x;
                }
                (boxes[at + c], boxes[at + d + c]) = (low, high);
            }
        }
        for node in (1..1usize << depth).rev() {
            for c in 0..d {
                let [low, high] = [c, d + c].map(|c| {
                    let of = |node: usize| boxes[node * 2 * d + c];
                    (of(2 * node), of(2 * node + 1))
                });
                boxes[node * 2 * d + c] = low.0.min(low.1);
                boxes[node * 2 * d + d + c] = high.0.max(high.1);
            }
        }
        let all = &boxes[2 * d..4 * d];
        let bound = metric.least_distance(&points[..d], &all[..d], &all[d..]);
        (bound > T::neg_infinity()).then(|| Self {
            metric,
            dimension,
            points,
            by_coordinate,
            depth,
            boxes,
            least: vec![f64::NEG_INFINITY; 2 << depth],
        })
    }

    /// How many points there are.
    pub(in crate::exact) fn len(&self) -> usize {
        self.points.len() / self.dimension
    }

    /// Gathers the minima of h, after it has changed.
    pub(in crate::exact) fn refresh(&mut self, h: &[f64]) {
        let count = self.len();
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

    /// The bound for a box, rounding allowed for: d + 2 operations in `T`, each off by half a unit.
    fn bound(&self, x: &[T], node: usize) -> f64 {
        let d = self.dimension;
        let corners = &self.boxes[node * 2 * d..][..2 * d];
        let (low, high) = corners.split_at(d);
        let far = self.metric.least_distance(x, low, high).widen();
        far * (1.0 - (d + 2) as f64 * T::epsilon().widen()) + self.least[node]
    }

    /// Calls `offer(C_j + h_j, j, C_j)` for every point j where the first is less than `below`, and for few others;
    /// `offer` returns what to be below from then on.
    pub(in crate::exact) fn search(
        &self,
        x: &[T],
        h: &[f64],
        mut below: f64,
        favourite: usize,
        room: &mut Room<T>,
        mut offer: impl FnMut(f64, usize, T) -> f64,
    ) {
        let d = self.dimension;
        let count = self.len();
        let Room { stack, buffer } = room;
        stack.clear();
        stack.push((self.bound(x, 1), 1));
        while let Some((bound, node)) = stack.pop() {
            // `>=` would let a NaN bound hide a branch.
            if !(bound < below) {
                continue;
            }
            if node < 1 << self.depth {
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
            let q = node - (1 << self.depth);
            let (start, end) = (cut(count, self.depth, q), cut(count, self.depth, q + 1));
            buffer.resize(end - start, T::zero());
            self.metric.fill_row(
                x,
                &self.points[start * d..end * d],
                &self.by_coordinate[start * d..end * d],
                buffer,
            );
            for (j, (&c, h)) in buffer.iter().zip(&h[start..end]).enumerate() {
                let r = c.widen() + h;
                if r < below {
                    below = offer(r, start + j, c);
                }
            }
        }
    }

    /// The least `C_j + h_j` below `below` and its point.
    pub(in crate::exact) fn cheapest(
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
}

/// The few least of some numbers, in order, each with its place and cost.
pub(in crate::exact) struct Least<T> {
    list: Vec<(f64, usize, T)>,
    most: usize,
}

impl<T: Real> Least<T> {
    pub(in crate::exact) fn new(most: usize) -> Self {
        Self {
            list: Vec::with_capacity(most + 1),
            most,
        }
    }

    pub(in crate::exact) fn clear(&mut self) {
        self.list.clear();
    }

    /// Takes a number in; returns what others have to be below to get in.
    #[inline]
    pub(in crate::exact) fn offer(&mut self, r: f64, at: usize, cost: T) -> f64 {
        let place = self.list.partition_point(|e| e.0 <= r);
        if place < self.most {
            self.list.truncate(self.most - 1);
            self.list.insert(place, (r, at, cost));
        }
        self.bound()
    }

    /// What numbers have to be below to get in.
    pub(in crate::exact) fn bound(&self) -> f64 {
        if self.list.len() < self.most {
            f64::INFINITY
        } else {
            self.list[self.most - 1].0
        }
    }

    pub(in crate::exact) fn list(&self) -> &[(f64, usize, T)] {
        &self.list
    }
}
