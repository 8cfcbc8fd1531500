//! Shortest paths in the contracted graph, from all columns that hold too much at once.
//!
//! Dijkstra's algorithm on a dense graph of k + 1 nodes: settling a node is one sweep of vector code
//! that relaxes its arcs and finds the nearest open node on the way; no heap.

use crate::kernel::dispatch::dispatch;
use crate::kernel::rounding::{ARC_LENGTH, PATH_TIE};

/// Nodes per step of the sweep; all arrays are padded to a multiple, with nodes that nothing reaches.
pub(super) const LANES: usize = 8;

/// Marks a node that is its own source.
pub(super) const SOURCE: u64 = u64::MAX;

/// The shortest-path forest found so far.
#[derive(Debug)]
pub(super) struct Paths {
    nodes: usize,
    /// Distances of the settled nodes.
    distance: Vec<f64>,
    /// Distances of the nodes that are not settled; NaN, which no path is shorter than, for the others.
    open: Vec<f64>,
    /// Added to the last bit of an open distance before it is compared: of several nodes equally near
    /// those with a zero come first.
    rank: Vec<u64>,
    nearest: Option<usize>,
    // As wide as a distance, so that both fit the same vectors.
    parent: Vec<u64>,
    /// Nodes in the order in which they were settled.
    settled: Vec<usize>,
    /// Room for [`revise`](Self::revise).
    children: Vec<usize>,
    /// What rounding can make of two paths of the same length.
    tie: f64,
}

impl Paths {
    pub(super) fn new(nodes: usize) -> Self {
        let padded = nodes.next_multiple_of(LANES);
        Self {
            nodes,
            distance: vec![f64::INFINITY; padded],
            open: vec![f64::NAN; padded],
            rank: vec![1; padded],
            nearest: None,
            parent: vec![SOURCE; padded],
            settled: Vec::with_capacity(nodes),
            children: Vec::new(),
            tie: 0.0,
        }
    }

    /// Forgets everything and starts from the given sources. Of nodes equally near those that are
    /// `wanted` are settled first: a slack row ties most columns together, and all of them would
    /// otherwise be settled before the one that ends the search.
    ///
    /// Of paths equally long, up to rounding at prices that have `moved` so far, the one found first stays, which has
    /// the fewest arcs. That is more than taste: a row that is split between two columns by a speck of rounding can go
    /// from one to the other and on from there, or straight on. By the detour it could take along only as much as the
    /// speck, and leave as much behind for the next time, for ever.
    pub(super) fn restart(
        &mut self,
        sources: impl Iterator<Item = usize>,
        wanted: &[bool],
        moved: &[f64],
    ) {
        let farthest = moved.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        self.tie = PATH_TIE * farthest;
        self.open[..self.nodes].fill(f64::INFINITY);
        self.nearest = None;
        self.parent.fill(SOURCE);
        self.settled.clear();
        for (rank, wanted) in self.rank.iter_mut().zip(wanted) {
            *rank = u64::from(!wanted);
        }
        for s in sources {
            self.open[s] = 0.0;
            self.nearest = self.nearest.or(Some(s));
        }
    }

    /// The distance of a settled node; of another one no more than it will turn out to be.
    pub(super) fn distance(&self, v: usize) -> f64 {
        if self.open[v].is_nan() {
            self.distance[v]
        } else {
            self.open[v]
        }
    }

    /// The node before `v`; `None` where `v` is a source.
    pub(super) fn parent(&self, v: usize) -> Option<usize> {
        Some(self.parent[v])
            .filter(|&u| u != SOURCE)
            .map(|u| u as usize)
    }

    pub(super) fn settled(&self) -> &[usize] {
        &self.settled
    }

    /// The nearest node that is not settled.
    pub(super) fn nearest(&self) -> Option<usize> {
        self.nearest
    }

    /// Settles `u` and relaxes its arcs, of length `keys[v] + moved[u] − moved[v]`.
    pub(super) fn settle(&mut self, u: usize, keys: &[f64], moved: &[f64]) {
        let base = core::mem::replace(&mut self.open[u], f64::NAN);
        self.distance[u] = base;
        self.settled.push(u);
        let nearest = relax::<u64>(
            base,
            u as u64,
            moved[u],
            self.tie,
            keys,
            moved,
            &self.rank,
            &mut self.open,
            &mut self.parent,
        );
        self.nearest = (nearest < self.open.len()).then_some(nearest);
    }

    /// The arcs out of the settled node `u` have become longer: finds its open children their shortest
    /// paths anew. `keys(w)` are the keys of the arcs out of `w`. Returns how many arcs it looked at.
    pub(super) fn revise<'k>(
        &mut self,
        u: usize,
        keys: impl Fn(usize) -> &'k [f64],
        moved: &[f64],
    ) -> usize {
        self.children.clear();
        for v in 0..self.nodes {
            if self.parent[v] == u as u64 && !self.open[v].is_nan() {
                self.children.push(v);
                self.open[v] = f64::INFINITY;
                self.parent[v] = SOURCE;
            }
        }
        // Line by line, as the keys lie in memory.
        for &w in &self.settled {
            let (keys, base) = (keys(w), self.distance[w]);
            for &v in &self.children {
                let reach = base + length(keys[v], moved[w], moved[v]);
                if is_nearer(reach, self.open[v], self.tie) {
                    self.open[v] = reach;
                    self.parent[v] = w as u64;
                }
            }
        }
        let mut nearest = (f64::INFINITY, None);
        for v in 0..self.nodes {
            let order = ranked(self.open[v], self.rank[v]);
            if order < nearest.0 {
                nearest = (order, Some(v));
            }
        }
        self.nearest = nearest.1;
        self.children.len() * self.settled.len()
    }
}

/// The distance of an open node, a last bit more where it comes later among equals. +∞ and NaN become
/// NaN or stay, and compare as less than nothing.
#[inline(always)]
fn ranked(open: f64, rank: u64) -> f64 {
    f64::from_bits(open.to_bits() + rank)
}

/// Rounding can make a tight arc slightly negative; it is then tight.
#[inline(always)]
fn length(key: f64, from: f64, to: f64) -> f64 {
    let length = key + (from - to);
    if length > 0.0 { length } else { 0.0 }
}

/// Whether a new path is shorter than the best so far by more than rounding.
#[inline(always)]
fn is_nearer(reach: f64, open: f64, tie: f64) -> bool {
    reach * (1.0 + ARC_LENGTH) + tie < open
}

/// Whole groups of lanes; the arrays are padded so that there is no rest.
#[inline(always)]
fn lanes<X>(values: &[X]) -> &[[X; LANES]] {
    values.as_chunks().0
}

#[inline(always)]
fn lanes_mut<X>(values: &mut [X]) -> &mut [[X; LANES]] {
    values.as_chunks_mut().0
}

dispatch! {
    /// Relaxes the arcs of one node; returns the nearest open node, or the number of nodes where none
    /// is reached. Selections, not branches, and a minimum per lane: this is most of the work of a round.
    fn relax<N: Copy>(
        base: f64,
        from: N,
        moved_from: f64,
        tie: f64,
        keys: &[f64],
        moved: &[f64],
        rank: &[u64],
        open: &mut [f64],
        parent: &mut [N],
    ) -> usize {
        let none = open.len();
        let mut least = [f64::INFINITY; LANES];
        let mut least_at = [0u64; LANES];
        let arcs = lanes(keys).iter().zip(lanes(moved)).zip(lanes(rank));
        let reached = lanes_mut(open).iter_mut().zip(lanes_mut(parent));
        for (at, (((keys, moved), rank), (open, parent))) in (0u64..).zip(arcs.zip(reached)) {
            let mut reach = [0.0; LANES];
            let mut nearer = [false; LANES];
            for v in 0..LANES {
                reach[v] = base + length(keys[v], moved_from, moved[v]);
                nearer[v] = is_nearer(reach[v], open[v], tie);
            }
            // Most nodes bring nothing new to most others.
            if nearer.iter().fold(false, |any, &n| any | n) {
                for v in 0..LANES {
                    open[v] = if nearer[v] { reach[v] } else { open[v] };
                    parent[v] = if nearer[v] { from } else { parent[v] };
                }
            }
            for v in 0..LANES {
                let order = ranked(open[v], rank[v]);
                let nearest = order < least[v];
                least[v] = if nearest { order } else { least[v] };
                least_at[v] = if nearest { at } else { least_at[v] };
            }
        }
        let mut nearest = (f64::INFINITY, none);
        for v in 0..LANES {
            if least[v] < nearest.0 {
                nearest = (least[v], least_at[v] as usize * LANES + v);
            }
        }
        nearest.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::dispatch::plainly;

    /// Distances from node 0 by relaxing every arc as often as there are nodes.
    fn by_patience(keys: &[Vec<f64>], moved: &[f64]) -> Vec<f64> {
        let n = keys.len();
        let mut d = vec![f64::INFINITY; n];
        d[0] = 0.0;
        for _ in 0..n {
            for u in 0..n {
                for v in 0..n {
                    d[v] = d[v].min(d[u] + length(keys[u][v], moved[u], moved[v]));
                }
            }
        }
        d
    }

    #[test]
    fn distances_are_shortest_on_any_machine() {
        for n in [1usize, 3, 8, 13, 40] {
            let padded = n.next_multiple_of(LANES);
            let mut keys = vec![vec![f64::INFINITY; padded]; n];
            for (e, key) in keys.iter_mut().flat_map(|line| &mut line[..n]).enumerate() {
                *key = f64::from((e as u32).wrapping_mul(2_654_435_761) >> 12) * 1e-5 + 1.0;
            }
            let mut moved = vec![0.0; padded];
            for (v, m) in moved[..n].iter_mut().enumerate() {
                *m = (v % 5) as f64 * 0.2;
            }
            let search = || {
                let mut paths = Paths::new(n);
                paths.restart(core::iter::once(0), &[], &moved);
                while let Some(v) = paths.nearest() {
                    paths.settle(v, &keys[v], &moved);
                }
                assert_eq!(paths.settled().len(), n);
                (0..n).map(|v| paths.distance(v)).collect::<Vec<_>>()
            };
            let found = search();
            for (a, b) in found.iter().zip(by_patience(&keys, &moved)) {
                assert!((a - b).abs() <= 1e-12 * b.max(1.0));
            }
            assert_eq!(found, plainly(search));
        }
    }
}
