//! Shortest paths in the contracted graph, from all columns that hold too much at once.
//!
//! Dijkstra's algorithm on a dense graph of k + 1 nodes: O(k) per settled node, two linear sweeps that
//! are vector code, no heap.

use crate::simd::dispatch;

/// Marks a node that is its own source.
pub(super) const SOURCE: u32 = u32::MAX;

/// The shortest-path forest found so far.
#[derive(Debug)]
pub(super) struct Paths {
    pub(super) distance: Vec<f64>,
    /// Distances of the nodes that are not settled; +∞ for the others.
    open: Vec<f64>,
    pub(super) parent: Vec<u32>,
    /// Key of the arc from the parent when the node was reached.
    pub(super) key: Vec<f64>,
    /// Nodes in the order in which they were settled.
    pub(super) settled: Vec<u32>,
}

impl Paths {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            distance: vec![f64::INFINITY; nodes],
            open: vec![f64::INFINITY; nodes],
            parent: vec![SOURCE; nodes],
            key: vec![0.0; nodes],
            settled: Vec::with_capacity(nodes),
        }
    }

    /// Forgets everything and starts from the given sources.
    pub(super) fn restart(&mut self, sources: impl Iterator<Item = usize>) {
        self.distance.fill(f64::INFINITY);
        self.open.fill(f64::INFINITY);
        self.parent.fill(SOURCE);
        self.settled.clear();
        for s in sources {
            self.distance[s] = 0.0;
            self.open[s] = 0.0;
        }
    }

    /// The nearest node that is not settled.
    pub(super) fn nearest(&self) -> Option<usize> {
        let least = least(&self.open);
        if least == f64::INFINITY {
            return None;
        }
        self.open.iter().position(|&d| d == least)
    }

    /// Settles `u` and relaxes its arcs, of length `keys[v] + moved[u] − moved[v]`.
    pub(super) fn settle(&mut self, u: usize, keys: &[f64], moved: &[f64]) {
        let base = self.distance[u];
        self.open[u] = f64::INFINITY;
        self.settled.push(u as u32);
        relax::<u32>(
            base,
            u as u32,
            moved[u],
            keys,
            moved,
            &mut self.distance,
            &mut self.open,
            &mut self.parent,
            &mut self.key,
        );
    }
}

fn least(values: &[f64]) -> f64 {
    const LANES: usize = 8;
    let mut lanes = [f64::INFINITY; LANES];
    let chunks = values.chunks_exact(LANES);
    for (m, &x) in lanes.iter_mut().zip(chunks.remainder()) {
        *m = x;
    }
    for chunk in chunks {
        for (m, &x) in lanes.iter_mut().zip(chunk) {
            *m = if x < *m { x } else { *m };
        }
    }
    lanes.into_iter().fold(f64::INFINITY, f64::min)
}

dispatch! {
    /// One node's arcs. Rounding can make a tight arc slightly negative; it is then tight.
    fn relax<N: Copy>(
        base: f64,
        from: N,
        moved_from: f64,
        keys: &[f64],
        moved: &[f64],
        distance: &mut [f64],
        open: &mut [f64],
        parent: &mut [N],
        key: &mut [f64],
    ) {
        let n = keys.len();
        let (moved, distance, open) = (&moved[..n], &mut distance[..n], &mut open[..n]);
        let (parent, key) = (&mut parent[..n], &mut key[..n]);
        for v in 0..n {
            let length = keys[v] + (moved_from - moved[v]);
            let reach = base + if length > 0.0 { length } else { 0.0 };
            if reach < distance[v] {
                distance[v] = reach;
                open[v] = reach;
                parent[v] = from;
                key[v] = keys[v];
            }
        }
    }
}
