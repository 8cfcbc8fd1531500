//! Shortest paths in the contracted graph, from all columns that hold too much at once.
//!
//! Dijkstra's algorithm on a dense graph of k + 1 nodes: settling a node is one sweep of vector code
//! that relaxes its arcs and finds the nearest open node on the way; no heap.

use crate::simd::dispatch;

/// Nodes per step of the sweep; all arrays are padded to a multiple, with nodes that nothing reaches.
pub(super) const LANES: usize = 8;

/// Marks a node that is its own source.
pub(super) const SOURCE: u64 = u64::MAX;

/// The shortest-path forest found so far.
#[derive(Debug)]
pub(super) struct Paths {
    distance: Vec<f64>,
    /// Distances of the nodes that are not settled; +∞ for the others.
    open: Vec<f64>,
    /// The least of them.
    least: f64,
    // As wide as a distance, so that both fit the same vectors.
    parent: Vec<u64>,
    /// Nodes in the order in which they were settled.
    settled: Vec<usize>,
}

impl Paths {
    pub(super) fn new(nodes: usize) -> Self {
        let padded = nodes.next_multiple_of(LANES);
        Self {
            distance: vec![f64::INFINITY; padded],
            open: vec![f64::INFINITY; padded],
            least: f64::INFINITY,
            parent: vec![SOURCE; padded],
            settled: Vec::with_capacity(nodes),
        }
    }

    /// Forgets everything and starts from the given sources.
    pub(super) fn restart(&mut self, sources: impl Iterator<Item = usize>) {
        self.distance.fill(f64::INFINITY);
        self.open.fill(f64::INFINITY);
        self.least = f64::INFINITY;
        self.parent.fill(SOURCE);
        self.settled.clear();
        for s in sources {
            self.distance[s] = 0.0;
            self.open[s] = 0.0;
            self.least = 0.0;
        }
    }

    pub(super) fn distance(&self, v: usize) -> f64 {
        self.distance[v]
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
        if self.least == f64::INFINITY {
            return None;
        }
        let is_it = |&d: &f64| d == self.least;
        let group = lanes(&self.open)
            .iter()
            .position(|group| group.iter().fold(false, |any, d| any | is_it(d)))?;
        let lane = lanes(&self.open)[group].iter().position(is_it)?;
        Some(group * LANES + lane)
    }

    /// Settles `u` and relaxes its arcs, of length `keys[v] + moved[u] − moved[v]`.
    pub(super) fn settle(&mut self, u: usize, keys: &[f64], moved: &[f64]) {
        self.open[u] = f64::INFINITY;
        self.settled.push(u);
        self.least = relax::<u64>(
            self.distance[u],
            u as u64,
            moved[u],
            keys,
            moved,
            &mut self.distance,
            &mut self.open,
            &mut self.parent,
        );
    }

    /// The arcs out of the settled node `u` have become longer: finds its open children their shortest
    /// paths anew. `keys(w)` are the keys of the arcs out of `w`.
    pub(super) fn revise<'k>(
        &mut self,
        u: usize,
        keys: impl Fn(usize) -> &'k [f64],
        moved: &[f64],
    ) {
        for v in 0..self.open.len() {
            if self.open[v] == f64::INFINITY || self.parent[v] != u as u64 {
                continue;
            }
            self.distance[v] = f64::INFINITY;
            self.parent[v] = SOURCE;
            for &w in &self.settled {
                let reach = self.distance[w] + length(keys(w)[v], moved[w], moved[v]);
                if reach < self.distance[v] {
                    self.distance[v] = reach;
                    self.parent[v] = w as u64;
                }
            }
            self.open[v] = self.distance[v];
        }
        self.least = self.open.iter().copied().fold(f64::INFINITY, f64::min);
    }
}

/// Rounding can make a tight arc slightly negative; it is then tight.
#[inline(always)]
fn length(key: f64, from: f64, to: f64) -> f64 {
    let length = key + (from - to);
    if length > 0.0 { length } else { 0.0 }
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
    /// Relaxes the arcs of one node; returns the least open distance. Selections, not branches, and a
    /// minimum per lane: this is most of the work of a round.
    fn relax<N: Copy>(
        base: f64,
        from: N,
        moved_from: f64,
        keys: &[f64],
        moved: &[f64],
        distance: &mut [f64],
        open: &mut [f64],
        parent: &mut [N],
    ) -> f64 {
        let mut least = [f64::INFINITY; LANES];
        let arcs = lanes(keys).iter().zip(lanes(moved));
        let reached = lanes_mut(distance)
            .iter_mut()
            .zip(lanes_mut(open))
            .zip(lanes_mut(parent));
        for ((keys, moved), ((distance, open), parent)) in arcs.zip(reached) {
            let mut reach = [0.0; LANES];
            let mut nearer = [false; LANES];
            for v in 0..LANES {
                reach[v] = base + length(keys[v], moved_from, moved[v]);
                nearer[v] = reach[v] < distance[v];
            }
            // Most nodes bring nothing new to most others.
            if nearer.iter().fold(false, |any, &n| any | n) {
                for v in 0..LANES {
                    distance[v] = if nearer[v] { reach[v] } else { distance[v] };
                    open[v] = if nearer[v] { reach[v] } else { open[v] };
                    parent[v] = if nearer[v] { from } else { parent[v] };
                }
            }
            for v in 0..LANES {
                least[v] = if open[v] < least[v] { open[v] } else { least[v] };
            }
        }
        least.into_iter().fold(f64::INFINITY, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::plainly;

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
                paths.restart(core::iter::once(0));
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
