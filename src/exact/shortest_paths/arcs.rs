//! The arcs of the contracted graph, and the rows that could travel along them.
//!
//! ```text
//! ℓ(u→v) = min { h_iv − h_iu : row i holds mass in u } + Δ_u − Δ_v  ≥ 0        Δ = g − g⁰
//! ```
//!
//! The *key* h_iv − h_iu of a row does not change while prices do, so each arc keeps its rows in a heap
//! by key, and a row that has left u is dropped when it surfaces. Only rows that are nearly tied ever
//! matter: a column *lists* its rows in the order of their regret, a few at a time, and the smallest
//! regret ϱ_u among those not listed bounds all their keys from below. An arc whose best listed key is
//! above ϱ_u is not known; only if a shortest path wants to use it does the column list more rows.

use super::assignment::Assignment;
use super::heaps::{Candidate, Heaps};
use super::paths::LANES;
use super::table::{NOWHERE, RowMinima, Table};
use crate::{Cost, Real};

/// Fewest rows that a column lists at once.
const FEWEST_LISTED: usize = 8;

/// When all rows are listed the bound grows by this factor: far keys stay out of the heaps.
const BOUND_GROWTH: f64 = 4.0;

#[derive(Debug)]
pub(super) struct Arcs<T> {
    nodes: usize,
    /// Length of a line of `keys` and `rows`: the nodes, padded for the sweeps.
    stride: usize,
    heaps: Heaps,
    /// Smallest key on the arc u→v at `u * stride + v`, never above ϱ_u.
    keys: Vec<f64>,
    /// The row of that key; [`NOWHERE`] where it is only the bound ϱ_u.
    rows: Vec<u32>,
    /// ϱ_u.
    bounds: Vec<f64>,
    /// Rows by home column with their regret; those of column u start at `starts[u]`, the first
    /// `listed[u]` are listed.
    members: Vec<(f64, u32)>,
    starts: Vec<usize>,
    listed: Vec<usize>,
    /// Rows that came to u from elsewhere.
    arrived: Vec<Vec<u32>>,
    line: Vec<T>,
    shifted: Vec<f64>,
    /// Rows read so far.
    pub(super) read: usize,
}

impl<T: Real> Arcs<T> {
    /// Sorts the rows by home; nothing is listed yet.
    pub(super) fn new(nodes: usize, minima: &[RowMinima], assignment: &Assignment) -> Self {
        let rows = minima.len();
        let mut starts = vec![0; nodes + 1];
        for u in (0..rows).filter_map(|i| assignment.whole(i)) {
            starts[u as usize + 1] += 1;
        }
        for u in 0..nodes {
            starts[u + 1] += starts[u];
        }
        let mut next = starts.clone();
        let mut members = vec![(0.0, 0); starts[nodes]];
        for i in 0..rows {
            if let Some(u) = assignment.whole(i) {
                members[next[u as usize]] = (minima[i].regret, i as u32);
                next[u as usize] += 1;
            }
        }
        let stride = nodes.next_multiple_of(LANES);
        Self {
            nodes,
            stride,
            heaps: Heaps::new(nodes * stride),
            keys: vec![f64::INFINITY; nodes * stride],
            rows: vec![NOWHERE; nodes * stride],
            bounds: vec![f64::NEG_INFINITY; nodes],
            members,
            starts,
            listed: vec![0; nodes],
            arrived: vec![Vec::new(); nodes],
            line: vec![T::zero(); nodes],
            shifted: vec![f64::INFINITY; stride],
            read: 0,
        }
    }

    /// Keys of all arcs out of `u`, padded with +∞.
    pub(super) fn keys(&self, u: usize) -> &[f64] {
        &self.keys[u * self.stride..(u + 1) * self.stride]
    }

    /// Whether the key of the arc is that of a row, not merely a bound.
    pub(super) fn is_known(&self, u: usize, v: usize) -> bool {
        self.rows[u * self.stride + v] != NOWHERE
    }

    /// Lists at least `wanted` rows more of column `u`, and never fewer than it has listed so far, so
    /// that reading them all again is paid for.
    pub(super) fn list<C: Cost<T>>(
        &mut self,
        table: &Table<'_, T, C>,
        minima: &[RowMinima],
        assignment: &Assignment,
        u: usize,
        wanted: usize,
    ) {
        let members = &mut self.members[self.starts[u]..self.starts[u + 1]];
        let before = self.listed[u];
        let wanted = wanted.max(FEWEST_LISTED).max(before);
        let now = before.saturating_add(wanted).min(members.len());
        let old = self.bounds[u];
        let is_all = now == members.len();
        let bound = if is_all {
            let worst = members.iter().map(|m| m.0).filter(|r| r.is_finite());
            let wider = worst.fold(BOUND_GROWTH * old.max(0.0), f64::max);
            if wider > old { wider } else { f64::INFINITY }
        } else {
            let rest = &mut members[before..];
            let (_, next, _) = rest.select_nth_unstable_by(now - before, |a, b| {
                a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
            });
            next.0
        };
        self.listed[u] = now;
        self.bounds[u] = bound;
        for at in u * self.stride..u * self.stride + self.nodes {
            if self.rows[at] == NOWHERE {
                self.keys[at] = bound;
            }
        }
        let mut kept_back = false;
        // Rows listed before have their keys up to the old bound in the heaps already.
        for at in 0..now {
            let (_, i) = self.members[self.starts[u] + at];
            let above = if at < before { old } else { f64::NEG_INFINITY };
            let place = &minima[i as usize];
            if place.third > bound {
                // At most its second best column is near: no need to read the row.
                if place.regret > above && place.regret <= bound {
                    self.push(u, place.next as usize, place.regret, i);
                }
                kept_back |= place.third < f64::INFINITY;
                kept_back |= place.regret > bound && place.regret < f64::INFINITY;
            } else {
                kept_back |= self.offer(table, assignment, i, u, above);
            }
        }
        let arrived = core::mem::take(&mut self.arrived[u]);
        for &i in &arrived {
            kept_back |= self.offer(table, assignment, i, u, old);
        }
        self.arrived[u] = arrived;
        if is_all && !kept_back {
            self.bounds[u] = f64::INFINITY;
            for at in u * self.stride..u * self.stride + self.nodes {
                if self.rows[at] == NOWHERE {
                    self.keys[at] = f64::INFINITY;
                }
            }
        }
    }

    /// Adds a row to an arc.
    fn push(&mut self, u: usize, v: usize, key: f64, row: u32) {
        let at = u * self.stride + v;
        self.heaps.push(at, Candidate { key, row });
        if key < self.keys[at] || self.rows[at] == NOWHERE {
            self.keys[at] = key;
            self.rows[at] = row;
        }
    }

    /// Puts the keys of row `i` in column `u` that lie in (above, ϱ_u] into the heaps. Returns whether
    /// it has keys above ϱ_u.
    fn offer<C: Cost<T>>(
        &mut self,
        table: &Table<'_, T, C>,
        assignment: &Assignment,
        i: u32,
        u: usize,
        above: f64,
    ) -> bool {
        if assignment.held(i as usize, u as u32) <= 0.0 {
            return false;
        }
        self.read += 1;
        let Self { line, shifted, .. } = self;
        table.shifted(i as usize, &mut line[..table.nodes() - 1], shifted);
        let here = core::mem::replace(&mut self.shifted[u], f64::INFINITY);
        let bound = self.bounds[u];
        let mut kept_back = false;
        for group in (0..self.stride).step_by(LANES) {
            let (near, far) = around(&self.shifted[group..], here, bound);
            kept_back |= far;
            if !near {
                continue;
            }
            for v in group..group + LANES {
                let key = self.shifted[v] - here;
                if key <= bound && key < f64::INFINITY && !(key <= above) {
                    self.push(u, v, key, i);
                }
            }
        }
        kept_back
    }

    /// Row `i` is new in column `u`.
    pub(super) fn arrive<C: Cost<T>>(
        &mut self,
        table: &Table<'_, T, C>,
        assignment: &Assignment,
        i: u32,
        u: usize,
    ) {
        self.arrived[u].push(i);
        // Where nothing of the column is listed yet the row will be offered with the rest.
        if self.bounds[u] > f64::NEG_INFINITY {
            self.offer(table, assignment, i, u, f64::NEG_INFINITY);
        }
    }

    /// Row `i` has left column `u`.
    pub(super) fn leave(&mut self, assignment: &Assignment, i: u32, u: usize) {
        for group in (0..self.stride).step_by(LANES) {
            let rows = &self.rows[u * self.stride + group..][..LANES];
            if !rows.iter().fold(false, |any, &row| any | (row == i)) {
                continue;
            }
            for v in group..group + LANES {
                if self.rows[u * self.stride + v] == i {
                    self.refresh(assignment, u, v);
                }
            }
        }
    }

    /// Looks up the cheapest row on the arc that still holds mass in `u`.
    fn refresh(&mut self, assignment: &Assignment, u: usize, v: usize) {
        let at = u * self.stride + v;
        while let Some(top) = self.heaps.peek(at) {
            if assignment.held(top.row as usize, u as u32) > 0.0 {
                self.keys[at] = top.key;
                self.rows[at] = top.row;
                return;
            }
            self.heaps.pop(at);
        }
        self.keys[at] = self.bounds[u];
        self.rows[at] = NOWHERE;
    }

    /// Takes rows of keys up to `limit` off the arc until they hold `need` in column `u`; ties travel
    /// together. Those that stay in `u` must be given back.
    pub(super) fn take(
        &mut self,
        assignment: &Assignment,
        u: usize,
        v: usize,
        limit: f64,
        need: f64,
        out: &mut Vec<(u32, f64, f64)>,
    ) -> f64 {
        let heap = u * self.stride + v;
        let mut sum = 0.0;
        while sum < need {
            let Some(top) = self.heaps.peek(heap).filter(|c| c.key <= limit) else {
                break;
            };
            self.heaps.pop(heap);
            let again = out.last().is_some_and(|last| last.0 == top.row);
            let mass = assignment.held(top.row as usize, u as u32);
            if !again && mass > 0.0 {
                sum += mass;
                out.push((top.row, top.key, mass));
            }
        }
        sum
    }

    /// Gives rows back to the arc that were taken but stay in `u`.
    pub(super) fn give_back(
        &mut self,
        assignment: &Assignment,
        u: usize,
        v: usize,
        rows: &[(u32, f64, f64)],
    ) {
        for &(row, key, _) in rows {
            self.heaps.push(u * self.stride + v, Candidate { key, row });
        }
        self.refresh(assignment, u, v);
    }
}

/// Whether any of the first [`LANES`] shifted costs is within `bound` of `here`, and whether any finite
/// one is beyond.
#[inline(always)]
fn around(shifted: &[f64], here: f64, bound: f64) -> (bool, bool) {
    let (mut near, mut far) = (false, false);
    for &h in &shifted[..LANES] {
        let key = h - here;
        near |= key <= bound;
        far |= (key > bound) & (key < f64::INFINITY);
    }
    (near, far)
}
