//! Bounds on columns, on nested groups of columns and on the total, as one tree.
//!
//! ```text
//! lower_v ≤ Σ_{j below v} Σ_i P_ij ≤ upper_v      for every node v
//! ```
//!
//! Leaves are the columns, inner nodes the groups, the root is everything. Groups that are nested or disjoint (a laminar
//! family) make a tree, and on a tree feasibility is interval arithmetic: what a node can hold is what its
//! children can hold together, cut to its own bounds.

use super::question::{SLIP, lacking};
use crate::Error;
use crate::flow::Bounds;

/// The tree: columns 0..k, then the groups, then the root.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) cols: usize,
    pub(super) bounds: Vec<Bounds>,
    parent: Vec<usize>,
    children: Vec<Vec<usize>>,
    /// The columns below each node, in order.
    leaves: Vec<Vec<usize>>,
    /// Children before parents.
    pub(super) upwards: Vec<usize>,
}

impl Tree {
    /// Arranges groups of columns; equal groups nest in the order given.
    pub(super) fn new(
        cols: &[Bounds],
        groups: &[Vec<usize>],
        group_bounds: &[Bounds],
        total: Bounds,
    ) -> Result<Self, Error> {
        let k = cols.len();
        let root = k + groups.len();
        let mut leaves: Vec<Vec<usize>> = (0..k).map(|j| vec![j]).collect();
        for group in groups {
            if let Some(&index) = group.iter().find(|&&j| j >= k) {
                let (what, len) = ("column", k);
                return Err(Error::Index { what, index, len });
            }
            let mut set = group.clone();
            set.sort_unstable();
            set.dedup();
            leaves.push(set);
        }
        leaves.push((0..k).collect());
        // Largest first, so that each group hangs itself below the smallest one that is there already.
        let mut order: Vec<usize> = (k..root).collect();
        order.sort_by_key(|&v| core::cmp::Reverse(leaves[v].len()));
        let mut parent = vec![root; root + 1];
        for &v in &order {
            let set = &leaves[v];
            let Some(&first) = set.first() else {
                continue;
            };
            let above = parent[first];
            if let Some(&other) = set.iter().find(|&&j| parent[j] != above) {
                // Of the two columns' groups at least one holds only a part of this group.
                let part = |w: &usize| set.iter().any(|j| leaves[*w].binary_search(j).is_err());
                let cut = [above, parent[other]].into_iter().find(part).unwrap_or(v);
                return Err(Error::Overlap {
                    first: cut.min(v) - k,
                    second: cut.max(v) - k,
                });
            }
            parent[v] = above;
            for &j in set {
                parent[j] = v;
            }
        }
        let mut children = vec![Vec::new(); root + 1];
        for v in 0..root {
            children[parent[v]].push(v);
        }
        let mut upwards: Vec<usize> = (0..k).collect();
        // Smaller groups are below larger ones, equal ones below those that came first.
        upwards.extend(order.iter().rev());
        upwards.push(root);
        Ok(Self {
            cols: k,
            bounds: [cols, group_bounds, &[total]].concat(),
            parent,
            children,
            leaves,
            upwards,
        })
    }

    /// The node above; none above the root.
    pub(super) fn parent(&self, node: usize) -> Option<usize> {
        (node != self.root()).then(|| self.parent[node])
    }

    /// The columns below a node.
    pub(super) fn leaves(&self, node: usize) -> &[usize] {
        &self.leaves[node]
    }

    /// Whether some node on the way up from a column has an upper bound.
    pub(super) fn is_bounded(&self, col: usize) -> bool {
        let mut way = core::iter::successors(Some(col), |&v| self.parent(v));
        way.any(|v| self.bounds[v].upper < f64::INFINITY)
    }

    /// Takes for granted that no sum is negative.
    pub(super) fn at_least_zero(&mut self) {
        for bounds in &mut self.bounds {
            bounds.lower = bounds.lower.max(0.0);
        }
    }

    pub(super) fn root(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Sums of all nodes from those of the columns.
    pub(super) fn sums(&self, cols: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.bounds.len()];
        sums[..self.cols].copy_from_slice(cols);
        for &v in &self.upwards {
            if v != self.root() {
                sums[self.parent[v]] += sums[v];
            }
        }
        sums
    }

    /// For each column the sum of the multipliers of all nodes above it and its own.
    pub(super) fn along_paths(&self, multipliers: &[f64]) -> Vec<f64> {
        let mut down = multipliers.to_vec();
        for &v in self.upwards.iter().rev() {
            if v != self.root() {
                down[v] += down[self.parent[v]];
            }
        }
        down.truncate(self.cols);
        down
    }

    /// What each node can hold given what each column can, and all rows together.
    pub(super) fn attainable(&self, room: &[f64], rows: Bounds) -> Result<Vec<Bounds>, Error> {
        let mut held = vec![Bounds::from(0.0); self.bounds.len()];
        for &v in &self.upwards {
            let own = self.bounds[v];
            let mut below = Bounds::from(0.0);
            if v < self.cols {
                below.upper = room[v];
            }
            for &c in &self.children[v] {
                below.lower += held[c].lower;
                below.upper += held[c].upper;
            }
            if v == self.root() {
                below.lower = below.lower.max(rows.lower);
                below.upper = below.upper.min(rows.upper);
            }
            let slip = SLIP * own.lower.max(below.lower);
            for (required, available) in [
                (own.lower, below.upper),
                (below.lower, own.upper),
                (below.lower, below.upper),
            ] {
                if required > available + slip {
                    return Err(lacking(required, available));
                }
            }
            let lower = own.lower.max(below.lower);
            held[v] = Bounds {
                lower,
                upper: own.upper.min(below.upper).max(lower),
            };
        }
        Ok(held)
    }

    /// Column sums near the given ones that satisfy every bound, given what nodes can hold.
    pub(super) fn repair(&self, cols: &[f64], held: &[Bounds]) -> Vec<f64> {
        let mut sums_asked = self.sums(cols);
        let root = self.root();
        sums_asked[root] = sums_asked[root].clamp(held[root].lower, held[root].upper);
        for &v in self.upwards.iter().rev() {
            let children = &self.children[v];
            for &c in children {
                sums_asked[c] = sums_asked[c].clamp(held[c].lower, held[c].upper);
            }
            let excess = children.iter().map(|&c| sums_asked[c]).sum::<f64>() - sums_asked[v];
            // Take the excess from, or give the lack to, the children in proportion to their room.
            let room = |c: usize| {
                if excess > 0.0 {
                    sums_asked[c] - held[c].lower
                } else {
                    held[c].upper - sums_asked[c]
                }
            };
            let rooms: Vec<f64> = children.iter().map(|&c| room(c).max(0.0)).collect();
            for (&c, share) in children.iter().zip(shares(&rooms)) {
                sums_asked[c] -= excess * share;
            }
        }
        sums_asked.truncate(self.cols);
        sums_asked
    }
}

/// What part of an amount goes to each place, in proportion to its room; none where there is none.
pub(super) fn shares(rooms: &[f64]) -> Vec<f64> {
    let endless = rooms.iter().filter(|r| **r == f64::INFINITY).count();
    let all: f64 = rooms.iter().sum();
    let share = |room: &f64| match *room {
        f64::INFINITY => 1.0 / endless as f64,
        room if endless == 0 && all > 0.0 => room / all,
        _ => 0.0,
    };
    rooms.iter().map(share).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn tree(cols: usize, groups: &[Vec<usize>]) -> Result<Tree, Error> {
        let free = Bounds::from(..);
        Tree::new(&vec![free; cols], groups, &vec![free; groups.len()], free)
    }

    #[test]
    fn nested_and_disjoint_groups_become_a_tree() {
        let groups = [vec![2, 3], vec![0, 1, 2, 3], vec![5], vec![], vec![3, 2]];
        let tree = tree(6, &groups).unwrap();
        let (group, root) = (|g: usize| 6 + g, 11);
        let cols = [1, 1, 4, 4].map(group).into_iter().chain([root, group(2)]);
        let groups = [group(1), root, root, root, group(0)];
        let expected: Vec<usize> = cols.chain(groups).collect();
        let found: Vec<usize> = (0..root).filter_map(|v| tree.parent(v)).collect();
        assert_eq!(found, expected);
        assert_eq!(tree.parent(root), None);
        assert_eq!(tree.leaves(group(4)), [2, 3]);
        assert_eq!(
            tree.sums(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0])[6..],
            [12.0, 15.0, 32.0, 0.0, 12.0, 63.0]
        );
    }

    #[test]
    fn groups_that_cross_are_named() {
        let crossing = |cols, groups: &[Vec<usize>]| match tree(cols, groups) {
            Err(Error::Overlap { first, second }) => (first, second),
            other => unreachable!("{other:?}"),
        };
        assert_eq!(crossing(4, &[vec![3], vec![0, 1], vec![1, 2]]), (1, 2));
        assert_eq!(
            crossing(5, &[vec![0, 1, 2, 3], vec![0, 1], vec![1, 2]]),
            (1, 2)
        );
    }
}
