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

use core::cmp::Ordering;
use std::collections::BinaryHeap;

use super::holdings::Holdings;
use super::table::{NOWHERE, Place, Table};
use crate::{Cost, Real};

/// Fewest rows that a column lists at once.
const FEW: usize = 8;

/// A row that could leave u for v; ordered so that the heap's greatest is the cheapest, and equal
/// entries meet at the top.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    key: f64,
    row: u32,
}

impl Eq for Candidate {}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .key
            .total_cmp(&self.key)
            .then(other.row.cmp(&self.row))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Debug)]
pub(super) struct Arcs<T> {
    nodes: usize,
    heaps: Vec<BinaryHeap<Candidate>>,
    /// Smallest key on the arc u→v at `u * nodes + v`, never above ϱ_u.
    keys: Vec<f64>,
    /// The row of that key; [`NOWHERE`] where it is only the bound ϱ_u.
    rows: Vec<u32>,
    /// ϱ_u.
    bounds: Vec<f64>,
    /// Rows by home column; those of column u start at `starts[u]`, the first `listed[u]` are listed.
    members: Vec<u32>,
    starts: Vec<usize>,
    listed: Vec<usize>,
    /// Rows that came to u from elsewhere.
    arrived: Vec<Vec<u32>>,
    line: Vec<T>,
    shifted: Vec<f64>,
}

impl<T: Real> Arcs<T> {
    /// Sorts the rows by home; nothing is listed yet.
    pub(super) fn new(nodes: usize, rows: usize, holdings: &Holdings) -> Self {
        let mut starts = vec![0; nodes + 1];
        for u in (0..rows).filter_map(|i| holdings.whole(i)) {
            starts[u as usize + 1] += 1;
        }
        for u in 0..nodes {
            starts[u + 1] += starts[u];
        }
        let mut next = starts.clone();
        let mut members = vec![0; starts[nodes]];
        for i in 0..rows {
            if let Some(u) = holdings.whole(i) {
                members[next[u as usize]] = i as u32;
                next[u as usize] += 1;
            }
        }
        Self {
            nodes,
            heaps: vec![BinaryHeap::new(); nodes * nodes],
            keys: vec![f64::INFINITY; nodes * nodes],
            rows: vec![NOWHERE; nodes * nodes],
            bounds: vec![f64::NEG_INFINITY; nodes],
            members,
            starts,
            listed: vec![0; nodes],
            arrived: vec![Vec::new(); nodes],
            line: vec![T::zero(); nodes],
            shifted: vec![0.0; nodes],
        }
    }

    /// Keys of all arcs out of `u`.
    pub(super) fn keys(&self, u: usize) -> &[f64] {
        &self.keys[u * self.nodes..(u + 1) * self.nodes]
    }

    /// Whether the key of the arc is that of a row, not merely a bound.
    pub(super) fn is_known(&self, u: usize, v: usize) -> bool {
        self.rows[u * self.nodes + v] != NOWHERE
    }

    /// Lists at least `wanted` rows more of column `u`, and never fewer than it has listed so far, so
    /// that reading them all again is paid for.
    pub(super) fn list<C: Cost<T>>(
        &mut self,
        table: &Table<'_, T, C>,
        places: &[Place],
        holdings: &Holdings,
        u: usize,
        wanted: usize,
    ) {
        let members = &mut self.members[self.starts[u]..self.starts[u + 1]];
        let before = self.listed[u];
        let wanted = wanted.max(FEW).max(before);
        let now = before.saturating_add(wanted).min(members.len());
        let old = self.bounds[u];
        let by_regret = |i: &u32| places[*i as usize].regret;
        let bound = if now < members.len() {
            let rest = &mut members[before..];
            let (_, next, _) = rest.select_nth_unstable_by(now - before, |a, b| {
                by_regret(a).total_cmp(&by_regret(b)).then(a.cmp(b))
            });
            by_regret(next)
        } else {
            f64::INFINITY
        };
        self.listed[u] = now;
        self.bounds[u] = bound;
        // Rows listed before have their keys up to the old bound in the heaps already.
        for at in 0..now {
            let i = self.members[self.starts[u] + at];
            let above = if at < before { old } else { f64::NEG_INFINITY };
            self.offer(table, holdings, i, u, above);
        }
        let arrived = core::mem::take(&mut self.arrived[u]);
        for &i in &arrived {
            self.offer(table, holdings, i, u, old);
        }
        self.arrived[u] = arrived;
        for v in 0..self.nodes {
            self.refresh(holdings, u, v);
        }
    }

    /// Puts the keys of row `i` in column `u` that lie in (above, ϱ_u] into the heaps.
    fn offer<C: Cost<T>>(
        &mut self,
        table: &Table<'_, T, C>,
        holdings: &Holdings,
        i: u32,
        u: usize,
        above: f64,
    ) {
        if holdings.held(i as usize, u as u32) <= 0.0 {
            return;
        }
        let Self { line, shifted, .. } = self;
        table.shifted(i as usize, &mut line[..table.nodes() - 1], shifted);
        let (here, bound) = (self.shifted[u], self.bounds[u]);
        for v in 0..self.nodes {
            let key = self.shifted[v] - here;
            if v != u && key <= bound && key < f64::INFINITY && !(key <= above) {
                self.heaps[u * self.nodes + v].push(Candidate { key, row: i });
            }
        }
    }

    /// Row `i` is new in column `u`.
    pub(super) fn arrive<C: Cost<T>>(
        &mut self,
        table: &Table<'_, T, C>,
        holdings: &Holdings,
        i: u32,
        u: usize,
    ) {
        self.arrived[u].push(i);
        if self.bounds[u] == f64::NEG_INFINITY {
            // Nothing of this column is listed yet; the row will be offered with the rest.
            return;
        }
        self.offer(table, holdings, i, u, f64::NEG_INFINITY);
        let here = self.shifted[u];
        for v in 0..self.nodes {
            let at = u * self.nodes + v;
            let key = self.shifted[v] - here;
            let better = key < self.keys[at] || (key == self.keys[at] && self.rows[at] == NOWHERE);
            if v != u && better && key < f64::INFINITY {
                self.keys[at] = key;
                self.rows[at] = i;
            }
        }
    }

    /// Row `i` has left column `u`.
    pub(super) fn leave(&mut self, holdings: &Holdings, i: u32, u: usize) {
        for v in 0..self.nodes {
            if self.rows[u * self.nodes + v] == i {
                self.refresh(holdings, u, v);
            }
        }
    }

    /// Looks up the cheapest row on the arc that still holds mass in `u`.
    fn refresh(&mut self, holdings: &Holdings, u: usize, v: usize) {
        let at = u * self.nodes + v;
        let heap = &mut self.heaps[at];
        while let Some(top) = heap.peek() {
            if holdings.held(top.row as usize, u as u32) > 0.0 {
                // Not below its bound for long: `offer` admits keys up to ϱ_u only.
                self.keys[at] = top.key;
                self.rows[at] = top.row;
                return;
            }
            heap.pop();
        }
        self.keys[at] = self.bounds[u];
        self.rows[at] = NOWHERE;
    }

    /// Takes rows of keys up to `limit` off the arc until they hold `need` in column `u`; ties travel
    /// together. Those that stay in `u` must be given back.
    pub(super) fn take(
        &mut self,
        holdings: &Holdings,
        u: usize,
        v: usize,
        limit: f64,
        need: f64,
        out: &mut Vec<(u32, f64, f64)>,
    ) -> f64 {
        let heap = &mut self.heaps[u * self.nodes + v];
        let mut sum = 0.0;
        while sum < need {
            let Some(&top) = heap.peek().filter(|c| c.key <= limit) else {
                break;
            };
            heap.pop();
            let again = out.last().is_some_and(|last| last.0 == top.row);
            let mass = holdings.held(top.row as usize, u as u32);
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
        holdings: &Holdings,
        u: usize,
        v: usize,
        rows: &[(u32, f64, f64)],
    ) {
        let heap = &mut self.heaps[u * self.nodes + v];
        heap.extend(rows.iter().map(|&(row, key, _)| Candidate { key, row }));
        self.refresh(holdings, u, v);
    }
}
