//! The basis: a spanning tree that carries a feasible flow and the prices it implies.
//!
//! ```text
//! f_i + g_j = C_ij   on every arc (i, j) of the tree
//! ```
//!
//! Nodes are the rows, then the columns, then one artificial *root*. Every arc runs from a row to a
//! column, so which way a tree arc points follows from the kind of its lower end: up from a row, down
//! into a column. Arcs into the root all point up and nothing ever leaves the root, so they carry no
//! mass whatever they cost: they only tie the pieces of a forest together, and no "large enough" cost
//! is ever needed.
//!
//! The tree is kept *strongly feasible* (Cunningham, 1976): an arc without flow points up. The
//! leaving arc is the last one to block on the way round the cycle, starting from its apex; that keeps
//! the property, and with it no sequence of pivots without flow can repeat a tree.
//!
//! The nodes are threaded in preorder on a ring, so that every subtree is a run of the ring: the prices
//! on one side of a cut are re-priced by walking that run, or the rest of the ring where that is
//! shorter. Sizes of subtrees say which is shorter, and find the apex of a cycle without depths, which
//! would have to be rewritten below every pivot.

use crate::kernel::rounding::Double;

/// "No such node".
const NONE: u32 = u32::MAX;

/// A cycle that an arc closes with the tree.
#[derive(Debug, Clone, Copy)]
struct Round {
    apex: u32,
    /// How much can be sent round.
    moved: f64,
    /// Lower end of the arc that then is empty.
    cut: u32,
    /// Whether that arc lies between the column and the apex.
    on_column_side: bool,
}

/// A spanning tree over rows, columns and the root.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    rows: usize,
    parent: Vec<u32>,
    /// Successor in preorder; the last node's is the root.
    next: Vec<u32>,
    /// Predecessor in preorder.
    prev: Vec<u32>,
    /// Last node of the subtree in preorder.
    last: Vec<u32>,
    /// Nodes in the subtree, this one included.
    size: Vec<u32>,
    /// Flow on the arc to the parent.
    flow: Vec<f64>,
    /// f of the rows, then −g of the columns, then the root's zero point: moving a subtree's prices
    /// adds the same number to all of them.
    height: Vec<f64>,
}

impl Tree {
    /// All nodes loose: each hangs on the root alone, with price zero.
    pub(super) fn loose(rows: usize, cols: usize) -> Self {
        let count = (rows + cols) as u32;
        let mut size = vec![1; rows + cols + 1];
        size[rows + cols] = count + 1;
        let mut last: Vec<u32> = (0..=count).collect();
        last[rows + cols] = if count == 0 { 0 } else { count - 1 };
        let ring = |v: u32, by: u32| (v + by) % (count + 1);
        Self {
            rows,
            parent: (0..=count)
                .map(|v| if v == count { NONE } else { count })
                .collect(),
            next: (0..=count).map(|v| ring(v, 1)).collect(),
            prev: (0..=count).map(|v| ring(v, count)).collect(),
            last,
            size,
            flow: vec![0.0; rows + cols + 1],
            height: vec![0.0; rows + cols + 1],
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn cols(&self) -> usize {
        self.height.len() - 1 - self.rows
    }

    /// f of row `i`.
    pub(super) fn f(&self, i: usize) -> f64 {
        self.height[i]
    }

    /// g of column `j`.
    pub(super) fn g(&self, j: usize) -> f64 {
        -self.height[self.rows + j]
    }

    /// −g of all columns.
    pub(super) fn heights(&self) -> &[f64] {
        &self.height[self.rows..self.height.len() - 1]
    }

    /// g of all columns.
    pub(super) fn prices(&self) -> Vec<f64> {
        self.heights().iter().map(|h| -h).collect()
    }

    pub(super) fn set_g(&mut self, j: usize, g: f64) {
        self.height[self.rows + j] = -g;
    }

    fn root(&self) -> u32 {
        (self.height.len() - 1) as u32
    }

    fn is_row(&self, v: u32) -> bool {
        (v as usize) < self.rows
    }

    /// The arcs of the tree between rows and columns, as (row, column, flow).
    pub(super) fn arcs(&self) -> impl Iterator<Item = (usize, usize, f64)> + '_ {
        let root = self.root();
        (0..self.height.len() - 1).filter_map(move |v| {
            let p = self.parent[v];
            (p != root).then(|| {
                let p = p as usize;
                let (i, j) = if v < self.rows { (v, p) } else { (p, v) };
                (i, j - self.rows, self.flow[v])
            })
        })
    }

    /// Moves the subtree below `cut` so that it hangs by `inside` on `outside`, over an arc that carries
    /// `flow`. `inside` lies in the subtree, `outside` does not. Sizes on the way from the subtree's old
    /// and new place to the root are left to the caller.
    fn rehang(&mut self, cut: u32, inside: u32, outside: u32, flow: f64) {
        self.take_out(cut);
        let whole = self.size[cut as usize];
        // Turn the way from `inside` up to `cut` upside down. In the new preorder each node on the way
        // is followed by what it had before and after the branch it now hangs on.
        let (mut v, mut onto, mut carry, mut below) = (inside, outside, flow, 0);
        let (mut up, mut before) = (self.parent[v as usize], self.prev[v as usize]);
        let mut tail = self.last[v as usize];
        let mut after = self.next[tail as usize];
        let mut branch_end = tail;
        loop {
            self.parent[v as usize] = onto;
            core::mem::swap(&mut self.flow[v as usize], &mut carry);
            let size = core::mem::replace(&mut self.size[v as usize], whole - below);
            if v == cut {
                break;
            }
            (onto, v, below) = (v, up, size);
            let i = v as usize;
            let (old_up, old_before, old_end) = (self.parent[i], self.prev[i], self.last[i]);
            // Where both runs end together the link behind them has been overwritten already.
            let old_after = if old_end == branch_end {
                after
            } else {
                self.next[old_end as usize]
            };
            self.join(tail, v);
            // `before` may be `v` itself: then its first part is the node alone, already in place.
            tail = before;
            if branch_end != old_end {
                self.join(tail, after);
                tail = old_end;
            }
            (up, before, after, branch_end) = (old_up, old_before, old_after, old_end);
        }
        let mut v = cut;
        while v != outside {
            self.last[v as usize] = tail;
            v = self.parent[v as usize];
        }
        self.put_in(inside, tail, outside);
    }

    fn join(&mut self, a: u32, b: u32) {
        self.next[a as usize] = b;
        self.prev[b as usize] = a;
    }

    /// Closes the ring over the subtree of `cut`; its own threading stays.
    fn take_out(&mut self, cut: u32) {
        let (before, end) = (self.prev[cut as usize], self.last[cut as usize]);
        let after = self.next[end as usize];
        self.join(before, after);
        let mut a = self.parent[cut as usize];
        while a != NONE && self.last[a as usize] == end {
            self.last[a as usize] = before;
            a = self.parent[a as usize];
        }
    }

    /// Opens the ring behind `outside` for the run from `first` to `tail`.
    fn put_in(&mut self, first: u32, tail: u32, outside: u32) {
        let after = self.next[outside as usize];
        self.join(outside, first);
        self.join(tail, after);
        let mut a = outside;
        while a != NONE && self.last[a as usize] == outside {
            self.last[a as usize] = tail;
            a = self.parent[a as usize];
        }
    }

    /// Adds `by` to the sizes from `from` up to, not including, `until`.
    fn resize(&mut self, from: u32, until: u32, by: u32) {
        let mut v = from;
        while v != until {
            self.size[v as usize] = self.size[v as usize].wrapping_add(by);
            v = self.parent[v as usize];
        }
    }

    /// Ties two pieces of the forest together by the arc (row, col) with a positive flow. A row that is
    /// still alone takes the price that makes the arc tight; otherwise the smaller piece's prices move.
    ///
    /// Returns false where both ends are in one piece already.
    pub(super) fn link(&mut self, row: usize, col: usize, flow: f64, cost: f64) -> bool {
        let (i, j) = (row as u32, (self.rows + col) as u32);
        let (top_i, top_j) = (self.top(i), self.top(j));
        if top_i == top_j {
            return false;
        }
        let root = self.root();
        if self.size[top_i as usize] == 1 {
            self.height[row] = cost - self.g(col);
        }
        // The smaller piece moves; all its arcs on the way to its top turn round and keep their flow,
        // which is positive, so the tree stays strongly feasible.
        let (cut, inside, outside) = if self.size[top_i as usize] < self.size[top_j as usize] {
            (top_i, i, j)
        } else {
            (top_j, j, i)
        };
        let size = self.size[cut as usize];
        self.rehang(cut, inside, outside, flow);
        self.resize(outside, root, size);
        let change = cost - self.f(row) - self.g(col);
        self.shift(inside, if inside == i { change } else { -change });
        true
    }

    /// The child of the root above `v`.
    fn top(&self, mut v: u32) -> u32 {
        let root = self.root();
        loop {
            let up = self.parent[v as usize];
            if up == root {
                return v;
            }
            v = up;
        }
    }

    /// Raises the subtree of `top` by `by`; or lowers everything else, where that is less work: only
    /// sums f + g matter.
    fn shift(&mut self, top: u32, by: f64) {
        let (all, size) = (self.height.len(), self.size[top as usize] as usize);
        let (mut v, count, by) = if 2 * size <= all {
            (top, size, by)
        } else {
            let after = self.next[self.last[top as usize] as usize];
            (after, all - size, -by)
        };
        for _ in 0..count {
            self.height[v as usize] += by;
            v = self.next[v as usize];
        }
    }

    /// Brings the arc (row, col) into the basis, whose price is `gain = f_i + g_j − C_ij > 0` too high,
    /// and drops the arc that blocks. Returns the mass that was moved round the cycle.
    pub(super) fn pivot(&mut self, row: usize, col: usize, gain: f64) -> f64 {
        let round = self.round(row, col, true);
        self.exchange(row, col, gain, round, round.moved, 0.0)
    }

    /// Takes in an arc that closes a cycle within one piece and already carries `flow`: mass is sent
    /// round the cycle, the way that pays, until one of the arcs is empty. Ties may leave empty arcs
    /// that point down, so the tree should be planted again from its arcs with flow.
    pub(super) fn absorb(&mut self, row: usize, col: usize, gain: f64, flow: f64) {
        let more = gain > 0.0;
        let round = self.round(row, col, more);
        if more {
            self.exchange(row, col, gain, round, round.moved, flow);
        } else if flow <= round.moved {
            self.send(row, col, round.apex, -flow);
        } else {
            self.exchange(row, col, gain, round, -round.moved, flow);
        }
    }

    /// Finds the cycle that the arc (row, col) closes and which arc runs empty first when `more` mass is
    /// sent over it, or less.
    fn round(&self, row: usize, col: usize, more: bool) -> Round {
        let (i, j) = (row as u32, (self.rows + col) as u32);
        let root = self.root();
        // Climb from both ends; the smaller subtree can never be the apex, so it is the one to climb.
        let (mut u, mut v) = (i, j);
        let (mut least_u, mut leave_u) = (f64::INFINITY, NONE);
        let (mut least_v, mut leave_v) = (f64::INFINITY, NONE);
        while u != v {
            if self.size[u as usize] < self.size[v as usize] {
                // Mass comes down to the entering row: arcs that point up give way. Nearest to the
                // row is last on the way round, hence the strict comparison.
                let (up, flow) = (self.parent[u as usize], self.flow[u as usize]);
                if (self.is_row(u) || up == root) == more && flow < least_u {
                    (least_u, leave_u) = (flow, u);
                }
                u = up;
            } else {
                // Mass goes up from the entering column: arcs that point down give way, and the one
                // nearest to the apex is last.
                let (up, flow) = (self.parent[v as usize], self.flow[v as usize]);
                if (self.is_row(v) || up == root) != more && flow <= least_v {
                    (least_v, leave_v) = (flow, v);
                }
                v = up;
            }
        }
        let on_column_side = least_v <= least_u;
        let (moved, cut) = if on_column_side {
            (least_v, leave_v)
        } else {
            (least_u, leave_u)
        };
        Round {
            apex: u,
            moved,
            cut,
            on_column_side,
        }
    }

    /// Sends `mass` round the cycle of the arc (row, col), the tree's arcs only.
    fn send(&mut self, row: usize, col: usize, apex: u32, mass: f64) {
        let ends = [(row as u32, -mass), ((self.rows + col) as u32, mass)];
        for (end, mass) in ends {
            let mut v = end;
            while v != apex {
                let at = v as usize;
                let flow = self.flow[at] + if self.is_row(v) { mass } else { -mass };
                self.flow[at] = flow;
                v = self.parent[at];
            }
        }
    }

    /// Swaps the arc (row, col), which carried `flow` so far, for the one that blocks.
    fn exchange(
        &mut self,
        row: usize,
        col: usize,
        gain: f64,
        round: Round,
        mass: f64,
        flow: f64,
    ) -> f64 {
        let (i, j) = (row as u32, (self.rows + col) as u32);
        let Round { apex, cut, .. } = round;
        if cut == NONE {
            return 0.0; // no cycle: cannot happen for an arc between two nodes of the tree
        }
        let (inside, outside, by) = if round.on_column_side {
            (j, i, gain)
        } else {
            (i, j, -gain)
        };
        if mass != 0.0 {
            self.send(row, col, apex, mass);
        }
        let size = self.size[cut as usize];
        self.resize(self.parent[cut as usize], apex, size.wrapping_neg());
        self.rehang(cut, inside, outside, flow + mass);
        self.resize(outside, apex, size);
        self.shift(inside, by);
        round.moved
    }

    /// Works the prices out afresh from the tree and its costs, piece by piece from the root's
    /// children. Their prices stay, but for moving all column prices towards zero: only sums f + g
    /// matter, and small numbers have the finer digits. Returns the largest correction.
    pub(super) fn reprice(&mut self, cost: impl Fn(usize, usize) -> f64) -> f64 {
        let root = self.root();
        let open = self.heights().iter().filter(|h| h.is_finite());
        let (sum, count) = open.fold((0.0, 0.0), |(s, c), h| (s + h, c + 1.0));
        if count > 0.0 {
            self.height.iter_mut().for_each(|h| *h -= sum / count);
        }
        let mut worst = 0.0f64;
        // What rounding takes from each price goes on to those below: paths are thousands of arcs long, and where very many pairs are
        // tight, as in the Manhattan metric, its sum would look like a gain.
        let mut rest = vec![0.0; self.height.len()];
        let mut v = self.next[root as usize];
        while v != root {
            let (at, up) = (v as usize, self.parent[v as usize] as usize);
            if up != root as usize {
                let (above, below) = (self.height[up], rest[up]);
                let fresh = if self.is_row(v) {
                    Double::difference(cost(at, up - self.rows), -above)
                } else {
                    Double::difference(above, cost(up, at - self.rows))
                };
                let low = fresh.low + below;
                let high = fresh.high + low;
                if high.is_finite() {
                    rest[at] = low - (high - fresh.high);
                }
                worst = worst.max((high - self.height[at]).abs());
                self.height[at] = high;
            }
            v = self.next[at];
        }
        worst
    }
}

#[cfg(test)]
impl Tree {
    /// Checks every invariant the module promises; for tests.
    fn assert_sound(&self) {
        let root = self.root();
        let mut order = vec![root];
        let mut v = self.next[root as usize];
        while v != root {
            assert_eq!(self.prev[v as usize], order[order.len() - 1]);
            order.push(v);
            v = self.next[v as usize];
        }
        assert_eq!(order.len(), self.height.len());
        let mut place = vec![0; order.len()];
        for (at, &v) in order.iter().enumerate() {
            place[v as usize] = at;
        }
        let mut sizes = vec![1u32; order.len()];
        for (at, &v) in order.iter().enumerate().rev() {
            let size = self.size[v as usize];
            assert_eq!(sizes[v as usize], size);
            assert_eq!(self.last[v as usize], order[at + size as usize - 1]);
            if v != root {
                let up = self.parent[v as usize];
                sizes[up as usize] += size;
                let above = place[up as usize];
                assert!(above < at && at < above + self.size[up as usize] as usize);
                let flow = self.flow[v as usize];
                assert!(flow >= 0.0);
                assert!(flow > 0.0 || self.is_row(v) || up == root);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pivots_keep_the_tree_strongly_feasible() {
        // Uniform assignment: every pivot but few is degenerate.
        let n = 12;
        let cost = |i: usize, j: usize| ((i * 7 + j * 5 + i * j * 3) % 11) as f64;
        let mut tree = Tree::loose(n, n);
        tree.assert_sound();
        for i in 0..n {
            assert!(tree.link(i, (i * 5) % n, 1.0, cost(i, (i * 5) % n)));
            tree.assert_sound();
        }
        let mut pivots = 0;
        loop {
            let best = (0..n * n)
                .map(|at| (at / n, at % n))
                .map(|(i, j)| (tree.f(i) + tree.g(j) - cost(i, j), i, j))
                .fold((0.0, 0, 0), |a, b| if b.0 > a.0 { b } else { a });
            if best.0 <= 0.0 {
                break;
            }
            tree.pivot(best.1, best.2, best.0);
            tree.assert_sound();
            for (i, j, _) in tree.arcs() {
                assert!((tree.f(i) + tree.g(j) - cost(i, j)).abs() < 1e-12);
            }
            pivots += 1;
            assert!(pivots < 10_000, "cycling");
        }
        assert!(pivots > 0 && tree.reprice(cost) < 1e-12);
    }
}
