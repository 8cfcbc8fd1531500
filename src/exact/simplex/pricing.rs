//! Which arc enters: multiple partial pricing.
//!
//! ```text
//! gain(i, j) = f_i + g_j − C_ij      an arc with a positive gain makes the plan cheaper by gain × mass
//! ```
//!
//! Rows are scanned in turn and each puts its best arc on a short list; then the best of the list
//! enters, again and again while the list stays good, before any more of the cost is read. So a scan of
//! a line, which is memory traffic, serves several pivots, which are not. A full round without a gain
//! is the proof of optimality.
//!
//! What counts as a gain is judged against the size of the three numbers it is the difference of, so
//! that costs of very different magnitudes in one problem do not hide each other's last digits.

use core::ops::ControlFlow;

use super::tree::Tree;

/// The arcs that may enter, line by line.
pub(super) trait Arcs {
    /// Number of lines.
    fn rows(&self) -> usize;

    /// Number of columns.
    fn cols(&self) -> usize;

    /// The cost of one pair.
    fn at(&self, row: usize, col: usize) -> f64;

    /// The least `C_ij + h_j` of line `row` and its column, where that is less than `below`; anything
    /// not less than `below` otherwise.
    fn cheapest(&mut self, row: usize, h: &[f64], below: f64) -> (f64, usize);

    /// The columns that a line may have a finite cost in, in order.
    fn columns(&self, row: usize) -> impl Iterator<Item = usize> {
        let _ = row;
        0..self.cols()
    }

    /// How many those are in a typical line.
    fn line_length(&self) -> usize {
        self.cols()
    }

    /// The least `C_ij + h_j` of every line that takes part, over all columns whatever [`cheapest`](Self::cheapest) looks at.
    fn floors(&mut self, h: &[f64], takes_part: &[bool]) -> Vec<f64> {
        self.refresh(h);
        let floor = |i: usize| {
            if takes_part[i] {
                self.cheapest(i, h, f64::INFINITY).0
            } else {
                f64::INFINITY
            }
        };
        (0..takes_part.len()).map(floor).collect()
    }

    /// Called before lines are scanned, after the prices have changed.
    fn refresh(&mut self, h: &[f64]) {
        let _ = h;
    }

    /// Called when no arc that was looked at has a gain: arcs that have one and were not are looked at from then on. False where there
    /// are none, which is the proof of optimality.
    fn replenish(&mut self, tree: &Tree, takes_part: &[bool], tolerance: f64) -> bool {
        let _ = (tree, takes_part, tolerance);
        false
    }

    /// Gains not above this are rounding, whatever the prices.
    fn grain(&self) -> f64 {
        0.0
    }
}

/// Rows on the short list: few where lines are long, for then each is the best of many arcs; more
/// where there are many short lines, so that an entering arc still is the best of thousands.
fn listed(rows: usize, length: usize) -> usize {
    (20 * rows / length.max(1)).saturating_sub(20).clamp(8, 512)
}

struct Candidate {
    row: usize,
    col: usize,
    cost: f64,
}

/// How a run of pivots ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// No arc has a gain.
    Optimal,
    /// The cap on pivots came first.
    Limit,
    /// The caller wanted to stop.
    Stopped,
}

/// Pivots until no gain above `tolerance` is left.
pub(super) struct Pricer {
    next: usize,
    list: Vec<Candidate>,
}

impl Pricer {
    pub(super) fn new() -> Self {
        Self {
            next: 0,
            list: Vec::new(),
        }
    }

    /// Runs to optimality or until `before` a pivot says to stop.
    pub(super) fn run<A: Arcs>(
        &mut self,
        tree: &mut Tree,
        arcs: &mut A,
        takes_part: &[bool],
        tolerance: f64,
        mut before: impl FnMut(&Tree, &mut A) -> ControlFlow<Outcome>,
    ) -> Outcome {
        let rows = arcs.rows();
        let listed = listed(rows, arcs.line_length());
        let mut quiet = 0;
        loop {
            if quiet >= rows {
                if !arcs.replenish(tree, takes_part, tolerance) {
                    return Outcome::Optimal;
                }
                quiet = 0;
            }
            // Scan until the list is full or a round is complete.
            self.list.clear();
            arcs.refresh(tree.heights());
            while self.list.len() < listed && quiet < rows {
                let i = self.next;
                self.next = if i + 1 == rows { 0 } else { i + 1 };
                quiet += 1;
                if takes_part[i]
                    && let Some(found) = best_gain(tree, arcs, i, tolerance)
                {
                    self.list.push(found);
                }
            }
            // Enter the best while there is one.
            while let Some((at, gain)) = self.best(tree, tolerance) {
                if let ControlFlow::Break(outcome) = before(tree, arcs) {
                    return outcome;
                }
                let Candidate { row, col, .. } = self.list.swap_remove(at);
                tree.pivot(row, col, gain);
                quiet = 0;
            }
        }
    }

    /// The best candidate that still has a gain; the others are struck off.
    fn best(&mut self, tree: &Tree, tolerance: f64) -> Option<(usize, f64)> {
        let mut best: Option<(usize, f64)> = None;
        let mut at = 0;
        while at < self.list.len() {
            let c = &self.list[at];
            match gain(tree.f(c.row), tree.g(c.col), c.cost, tolerance) {
                None => {
                    self.list.swap_remove(at);
                }
                Some(gain) => {
                    if best.is_none_or(|b| gain > b.1) {
                        best = Some((at, gain));
                    }
                    at += 1;
                }
            }
        }
        best
    }
}

/// `f + g − c` where that is more than rounding.
pub(super) fn gain(f: f64, g: f64, c: f64, tolerance: f64) -> Option<f64> {
    let gain = f - (c - g);
    (gain > tolerance * (f.abs() + g.abs() + c.abs())).then_some(gain)
}

/// What `c − g` has to be below for an arc of a row of price `f` to have a gain: |c| + |g| is no less than |f| but for the gain itself.
/// Where very many arcs are tight, as between clouds in the Manhattan metric, this is what tells them from those that matter.
pub(super) fn least_gainful(f: f64, tolerance: f64) -> f64 {
    f - 1.9 * tolerance * f.abs()
}

/// Whether line `i` has an arc with a gain.
pub(super) fn has_gain(tree: &Tree, arcs: &mut impl Arcs, i: usize, tolerance: f64) -> bool {
    best_gain(tree, arcs, i, tolerance).is_some()
}

/// The best arc of a line, if it has a gain.
fn best_gain(tree: &Tree, arcs: &mut impl Arcs, i: usize, tolerance: f64) -> Option<Candidate> {
    let f = tree.f(i);
    let (least, j) = arcs.cheapest(i, tree.heights(), f);
    let rest = f - least;
    if rest <= arcs.grain() {
        return None;
    }
    let cost = arcs.at(i, j);
    if gain(f, tree.g(j), cost, tolerance).is_some() {
        return Some(Candidate {
            row: i,
            col: j,
            cost,
        });
    }
    // The largest difference may be the rounding of two huge numbers and hide a smaller, real one.
    if rest > tolerance * 4.0 * f.abs() {
        return arcs.columns(i).find_map(|col| {
            let cost = arcs.at(i, col);
            gain(f, tree.g(col), cost, tolerance).map(|_| Candidate { row: i, col, cost })
        });
    }
    None
}
