//! The cost as the simplex reads it: line by line, slack row and slack column at the end.
//!
//! ```text
//! C = [ C_ij       slack.col_cost   ]       phase one reads  [C = +∞]  instead of C:
//!     [ slack.row_cost  corner_cost ]       its optimum is the mass that forbidden pairs strand
//! ```
//!
//! Slack lines are scalars and never stored. The one operation that matters is the cheapest arc of a
//! line at given column prices, `min_j C_ij + h_j` with h = −g; on dense costs it reads the caller's memory in
//! place, of costs that name their pairs it reads those, otherwise one line is computed into a buffer at a time.

use super::pricing::Arcs;
use crate::cost::{Pairs, Points, Priced, Room, fewest_for_boxes};
use crate::kernel::dispatch::dispatch;
use crate::problem::check;
use crate::{Cost, Real, Slack};

/// Which costs are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// 1 on forbidden pairs, 0 elsewhere.
    Feasibility,
    /// +∞ on forbidden pairs, 0 elsewhere.
    Pattern,
    /// The costs themselves.
    Optimality,
}

/// Rows of the slack-augmented cost.
pub(super) struct AugmentedRows<'a, T, C> {
    cost: &'a C,
    pairs: Option<Pairs<'a, T>>,
    slack: Slack,
    pub(super) phase: Phase,
    buffer: Vec<T>,
    /// The lowest of all columns when prices were last said to have changed: what forbidden pairs are worth at best.
    lowest: (f64, usize),
}

impl<'a, T: Real, C: Cost<T>> AugmentedRows<'a, T, C> {
    pub(super) fn new(cost: &'a C, slack: Slack) -> Self {
        Self {
            cost,
            pairs: cost.pairs(),
            slack,
            phase: Phase::Optimality,
            buffer: Vec::new(),
            lowest: (f64::INFINITY, 0),
        }
    }

    /// Another reader of the same lines, for another thread.
    pub(super) fn another(&self) -> Self {
        Self {
            phase: self.phase,
            lowest: self.lowest,
            ..Self::new(self.cost, self.slack)
        }
    }

    fn read(&self, c: f64) -> f64 {
        match self.phase {
            Phase::Optimality => c,
            Phase::Feasibility => f64::from(c == f64::INFINITY),
            Phase::Pattern if c == f64::INFINITY => c,
            Phase::Pattern => 0.0,
        }
    }

    /// The pairs that the cost names, where there is no slack beside them.
    pub(super) fn pairs_alone(&self) -> Option<Pairs<'a, T>> {
        let alone = self.slack.row == 0.0 && self.slack.col == 0.0;
        self.pairs.filter(|_| alone)
    }

    /// The cost itself.
    pub(super) fn cost(&self) -> &'a C {
        self.cost
    }

    /// Rows, slack not counted.
    pub(super) fn real_rows(&self) -> usize {
        self.cost.rows()
    }

    /// Columns, slack not counted.
    pub(super) fn real_cols(&self) -> usize {
        self.cost.cols()
    }

    /// The columns in boxes at these prices, where there are points enough for boxes to tell them apart.
    pub(super) fn boxes(&self, h: &[f64]) -> Option<Near<'a, T>> {
        let points = self.cost.points()?;
        let shorter = self.cost.rows().min(self.cost.cols());
        let many = shorter >= fewest_for_boxes(points.dimension) && points.metric.is_symmetric();
        if self.phase != Phase::Optimality || !many {
            return None;
        }
        let boxes = Priced::new(points.metric, points.dimension, points.cols)?;
        let mut near = Near { points, boxes };
        near.refresh(h);
        Some(near)
    }

    /// The slack column of a real row, with its `C + h`; (+∞, 0) where there is none.
    pub(super) fn slack(&self, i: usize, h: &[f64]) -> (f64, usize) {
        let k = self.cost.cols();
        h.get(k)
            .map_or((f64::INFINITY, 0), |s| (self.at(i, k) + s, k))
    }

    /// The real entries of line `i`, a real row.
    fn line(&mut self, i: usize) -> &[T] {
        if let Some(line) = self.cost.block(i..i + 1) {
            return line;
        }
        self.buffer.resize(self.cost.cols(), T::zero());
        self.cost.fill(i..i + 1, &mut self.buffer);
        &self.buffer
    }

    /// The cheapest real column of a real row, of those the cost names.
    fn cheapest_pair(&self, pairs: Pairs<'a, T>, i: usize, h: &[f64]) -> (f64, usize) {
        let (cols, costs) = pairs.row(i);
        let priced = cols.iter().zip(costs);
        let mut best = match self.phase {
            Phase::Optimality => first_least(priced.map(|(&j, c)| c.widen() + h[j as usize])),
            Phase::Feasibility | Phase::Pattern => first_least(cols.iter().map(|&j| h[j as usize])),
        };
        best.1 = cols.get(best.1).map_or(0, |&j| j as usize);
        // A forbidden pair costs one more than its column, and the lowest column is as good as any.
        let (lowest, at) = self.lowest;
        if self.phase == Phase::Feasibility && 1.0 + lowest < best.0 {
            best = (1.0 + lowest, at);
        }
        best
    }
}

/// Points whose columns are searched by boxes.
pub(super) struct Near<'a, T> {
    points: Points<'a, T>,
    boxes: Priced<'a, T>,
}

impl<T: Real> Near<'_, T> {
    /// Offers every column of row `i` whose `C_ij + h_j` is less than `below`; see [`Priced::search`].
    pub(super) fn search(
        &self,
        i: usize,
        h: &[f64],
        below: f64,
        room: &mut Room<T>,
        offer: impl FnMut(f64, usize, T) -> f64,
    ) {
        self.boxes.search(self.row(i), h, below, i, room, offer);
    }

    /// The least `C_ij + h_j` of row `i` and its column; `other` where that is not more.
    pub(super) fn cheapest(
        &self,
        i: usize,
        h: &[f64],
        other: (f64, usize),
        room: &mut Room<T>,
    ) -> (f64, usize) {
        let found = self.boxes.cheapest(self.row(i), h, other.0, room);
        found.unwrap_or(other)
    }

    fn row(&self, i: usize) -> &[T] {
        let d = self.points.dimension;
        &self.points.rows[i * d..][..d]
    }

    /// Gathers bounds afresh after h has changed.
    pub(super) fn refresh(&mut self, h: &[f64]) {
        self.boxes
            .refresh(&h[..self.points.cols.len() / self.points.dimension]);
    }
}

impl<T: Real, C: Cost<T>> Arcs for AugmentedRows<'_, T, C> {
    /// Rows, the slack row included where it carries mass.
    fn rows(&self) -> usize {
        self.cost.rows() + usize::from(self.slack.row > 0.0)
    }

    /// Columns, the slack column included where it carries mass.
    fn cols(&self) -> usize {
        self.cost.cols() + usize::from(self.slack.col > 0.0)
    }

    fn at(&self, i: usize, j: usize) -> f64 {
        let real = (i < self.cost.rows(), j < self.cost.cols());
        let c = match real {
            (true, true) => self.cost.at(i, j).widen(),
            (true, false) => self.slack.col_cost,
            (false, true) => self.slack.row_cost,
            (false, false) => self.slack.corner_cost,
        };
        self.read(c)
    }

    /// `+∞` where nothing is allowed; columns with `h_j = +∞` are left out.
    fn cheapest(&mut self, i: usize, h: &[f64], _: f64) -> (f64, usize) {
        let (n, k) = (self.cost.rows(), self.cost.cols());
        let phase = self.phase;
        let (slack_cost, mut best) = if i < n
            && let Some(pairs) = self.pairs
        {
            (self.slack.col_cost, self.cheapest_pair(pairs, i, h))
        } else if i < n {
            let real = &h[..k];
            let line = self.line(i);
            let best = match phase {
                Phase::Optimality if k < SHORT => {
                    first_least(line.iter().zip(real).map(|(c, h)| c.widen() + h))
                }
                Phase::Optimality => cheapest_entry(line, real),
                Phase::Feasibility => {
                    let marked = line.iter().map(|&c| f64::from(c == T::infinity()));
                    first_least(marked.zip(real).map(|(c, h)| c + h))
                }
                Phase::Pattern => {
                    let allowed = line.iter().zip(real);
                    let closed = f64::INFINITY;
                    first_least(allowed.map(|(&c, h)| if c < T::infinity() { *h } else { closed }))
                }
            };
            (self.slack.col_cost, best)
        } else {
            let c = self.read(self.slack.row_cost);
            let best = first_least(h[..k].iter().map(|h| c + h));
            (self.slack.corner_cost, best)
        };
        if let Some(&last) = h.get(k) {
            let r = self.read(slack_cost) + last;
            if r < best.0 {
                best = (r, k);
            }
        }
        best
    }

    fn refresh(&mut self, h: &[f64]) {
        if self.pairs.is_some() && self.phase == Phase::Feasibility {
            self.lowest = first_least(h[..self.cost.cols()].iter().copied());
        }
    }

    fn columns(&self, i: usize) -> impl Iterator<Item = usize> {
        let (k, end) = (self.cost.cols(), self.cols());
        let listed = self.pairs.filter(|_| i < self.cost.rows());
        let listed = listed.map(|pairs| pairs.row(i).0);
        let rest = if listed.is_some() { k..end } else { 0..end };
        let listed = listed.unwrap_or_default().iter().map(|&j| j as usize);
        listed.chain(rest)
    }

    fn line_length(&self) -> usize {
        let slack = usize::from(self.slack.col > 0.0);
        check::line_length(self.cost) + slack
    }

    fn grain(&self) -> f64 {
        match self.phase {
            Phase::Optimality | Phase::Pattern => 0.0,
            Phase::Feasibility => 0.5, // all numbers are small integers
        }
    }
}

/// The least of some numbers and the first place where it is taken; `(+∞, 0)` for none.
#[inline]
fn first_least(values: impl Iterator<Item = f64>) -> (f64, usize) {
    let mut best = (f64::INFINITY, 0);
    for (at, v) in values.enumerate() {
        if v < best.0 {
            best = (v, at);
        }
    }
    best
}

/// Rows shorter than this are searched in one plain loop.
const SHORT: usize = 24;

/// Columns per block of the search: the minimum is found first, its place in one block afterwards.
const BLOCK: usize = 256;
const LANES: usize = 8;

dispatch! {
    /// The least `line_j + h_j` and the first place where it is taken.
    fn cheapest_entry<T: Real>(line: &[T], h: &[f64]) -> (f64, usize) {
        let (mut least, mut block) = (f64::INFINITY, 0);
        for (b, (cs, hs)) in line.chunks(BLOCK).zip(h.chunks(BLOCK)).enumerate() {
            let mut lanes = [f64::INFINITY; LANES];
            let (c8, h8) = (cs.chunks_exact(LANES), hs.chunks_exact(LANES));
            let (c_rest, h_rest) = (c8.remainder(), h8.remainder());
            for (c, h) in c8.zip(h8) {
                for l in 0..LANES {
                    let r = c[l].widen() + h[l];
                    lanes[l] = if r < lanes[l] { r } else { lanes[l] };
                }
            }
            for (c, h) in c_rest.iter().zip(h_rest) {
                let r = c.widen() + h;
                lanes[0] = if r < lanes[0] { r } else { lanes[0] };
            }
            for r in lanes {
                if r < least {
                    (least, block) = (r, b);
                }
            }
        }
        let start = block * BLOCK;
        let end = (start + BLOCK).min(line.len());
        for j in start..end {
            if line[j].widen() + h[j] == least {
                return (least, j);
            }
        }
        (least, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_finds_what_a_loop_finds() {
        for len in [1, 7, 8, 255, 256, 257, 1000] {
            let line: Vec<f32> = (0..len).map(|j| ((j * 37) % 101) as f32).collect();
            let h: Vec<f64> = (0..len).map(|j| ((j * 53) % 97) as f64 / 3.0).collect();
            let naive = first_least(line.iter().zip(&h).map(|(&c, h)| f64::from(c) + h));
            assert_eq!(cheapest_entry(&line, &h), naive);
            assert_eq!(
                crate::kernel::dispatch::plainly(|| cheapest_entry(&line, &h)),
                naive
            );
        }
        let nothing = cheapest_entry(&[f64::INFINITY; 3], &[0.0; 3]);
        assert_eq!(nothing, (f64::INFINITY, 0));
        let closed = cheapest_entry(&[1.0; 3], &[f64::INFINITY; 3]);
        assert_eq!(closed, (f64::INFINITY, 0));
    }
}
