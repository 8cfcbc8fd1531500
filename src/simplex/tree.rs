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
//! Children hang in doubly linked lists and each node knows the size of its subtree. Sizes find the
//! apex of a cycle without depths (which would have to be rewritten below every pivot) and tell which
//! side of a cut is the smaller one to re-price.

/// "No such node".
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Node {
    parent: u32,
    first: u32,
    next: u32,
    prev: u32,
    /// Nodes in the subtree, this one included.
    size: u32,
}

/// A spanning tree over rows, columns and the root.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    rows: usize,
    nodes: Vec<Node>,
    /// Flow on the arc to the parent.
    flow: Vec<f64>,
    /// f of the rows, then g of the columns.
    price: Vec<f64>,
}

impl Tree {
    /// All nodes loose: each hangs on the root alone, with price zero.
    pub(super) fn loose(rows: usize, cols: usize) -> Self {
        let count = rows + cols;
        let root = Node {
            parent: NONE,
            first: NONE,
            next: NONE,
            prev: NONE,
            size: 1,
        };
        let mut tree = Self {
            rows,
            nodes: vec![root; count + 1],
            flow: vec![0.0; count + 1],
            price: vec![0.0; count],
        };
        for v in (0..count as u32).rev() {
            tree.hang(v, count as u32);
        }
        tree.nodes[count].size = count as u32 + 1;
        tree
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// f of each row.
    pub(super) fn f(&self) -> &[f64] {
        &self.price[..self.rows]
    }

    /// g of each column.
    pub(super) fn g(&self) -> &[f64] {
        &self.price[self.rows..]
    }

    pub(super) fn set_price(&mut self, node: usize, price: f64) {
        self.price[node] = price;
    }

    fn root(&self) -> u32 {
        self.price.len() as u32
    }

    fn is_row(&self, v: u32) -> bool {
        (v as usize) < self.rows
    }

    /// The arcs of the tree between rows and columns, as (row, column, flow).
    pub(super) fn arcs(&self) -> impl Iterator<Item = (usize, usize, f64)> + '_ {
        let root = self.root();
        (0..self.price.len()).filter_map(move |v| {
            let p = self.nodes[v].parent;
            (p != root).then(|| {
                let (v, p) = (v, p as usize);
                let (i, j) = if v < self.rows { (v, p) } else { (p, v) };
                (i, j - self.rows, self.flow[v])
            })
        })
    }

    fn hang(&mut self, v: u32, parent: u32) {
        let old = self.nodes[parent as usize].first;
        self.nodes[v as usize].parent = parent;
        self.nodes[v as usize].prev = NONE;
        self.nodes[v as usize].next = old;
        if old != NONE {
            self.nodes[old as usize].prev = v;
        }
        self.nodes[parent as usize].first = v;
    }

    fn unhang(&mut self, v: u32) {
        let Node {
            parent, next, prev, ..
        } = self.nodes[v as usize];
        if prev == NONE {
            self.nodes[parent as usize].first = next;
        } else {
            self.nodes[prev as usize].next = next;
        }
        if next != NONE {
            self.nodes[next as usize].prev = prev;
        }
    }

    /// Moves the subtree below `cut` so that it hangs by `inside` on `outside`, over an arc that carries
    /// `flow`. `inside` lies in the subtree, `outside` does not; sizes above are left to the caller.
    fn rehang(&mut self, cut: u32, inside: u32, outside: u32, flow: f64) {
        let whole = self.nodes[cut as usize].size;
        let (mut v, mut onto, mut carry) = (inside, outside, flow);
        let mut below = 0;
        loop {
            let up = self.nodes[v as usize].parent;
            self.unhang(v);
            self.hang(v, onto);
            core::mem::swap(&mut self.flow[v as usize], &mut carry);
            let size = core::mem::replace(&mut self.nodes[v as usize].size, whole - below);
            if v == cut {
                return;
            }
            below = size;
            onto = v;
            v = up;
        }
    }

    /// Adds `by` to the sizes from `from` up to, not including, `until`.
    fn resize(&mut self, from: u32, until: u32, by: u32) {
        let mut v = from;
        while v != until {
            self.nodes[v as usize].size = self.nodes[v as usize].size.wrapping_add(by);
            v = self.nodes[v as usize].parent;
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
        if self.nodes[top_i as usize].size == 1 {
            self.price[row] = cost - self.price[self.rows + col];
        }
        // The smaller piece moves; all its arcs on the way to its top turn round and keep their flow,
        // which is positive, so the tree stays strongly feasible.
        let (cut, inside, outside) =
            if self.nodes[top_i as usize].size < self.nodes[top_j as usize].size {
                (top_i, i, j)
            } else {
                (top_j, j, i)
            };
        let size = self.nodes[cut as usize].size;
        self.rehang(cut, inside, outside, flow);
        self.resize(outside, root, size);
        let change = cost - self.price[row] - self.price[self.rows + col];
        self.shift(inside, NONE, if inside == i { change } else { -change });
        true
    }

    /// The child of the root above `v`.
    fn top(&self, mut v: u32) -> u32 {
        let root = self.root();
        loop {
            let up = self.nodes[v as usize].parent;
            if up == root {
                return v;
            }
            v = up;
        }
    }

    /// Adds `by` to the row prices and takes it from the column prices in the subtree of `top`, leaving
    /// out the subtree of `except`.
    fn shift(&mut self, top: u32, except: u32, by: f64) {
        let mut v = top;
        loop {
            let at = v as usize;
            let mut deeper = NONE;
            if v != except {
                if at < self.rows {
                    self.price[at] += by;
                } else if at < self.price.len() {
                    self.price[at] -= by;
                }
                deeper = self.nodes[at].first;
            }
            if deeper != NONE {
                v = deeper;
                continue;
            }
            loop {
                if v == top {
                    return;
                }
                let Node { next, parent, .. } = self.nodes[v as usize];
                if next != NONE {
                    v = next;
                    break;
                }
                v = parent;
            }
        }
    }

    /// Brings the arc (row, col) into the basis, whose price is `gain = f_i + g_j − C_ij > 0` too high,
    /// and drops the arc that blocks. Returns the mass that was moved round the cycle.
    pub(super) fn pivot(&mut self, row: usize, col: usize, gain: f64) -> f64 {
        let (i, j) = (row as u32, (self.rows + col) as u32);
        let root = self.root();
        // Climb from both ends; the smaller subtree can never be the apex, so it is the one to climb.
        let (mut u, mut v) = (i, j);
        let (mut least_u, mut leave_u) = (f64::INFINITY, NONE);
        let (mut least_v, mut leave_v) = (f64::INFINITY, NONE);
        while u != v {
            let (nu, nv) = (self.nodes[u as usize], self.nodes[v as usize]);
            if nu.size < nv.size {
                // Mass comes down to the entering row: arcs that point up give way. Nearest to the
                // row is last on the way round, hence the strict comparison.
                let flow = self.flow[u as usize];
                if (self.is_row(u) || nu.parent == root) && flow < least_u {
                    (least_u, leave_u) = (flow, u);
                }
                u = nu.parent;
            } else {
                // Mass goes up from the entering column: arcs that point down give way, and the one
                // nearest to the apex is last.
                let flow = self.flow[v as usize];
                if !self.is_row(v) && nv.parent != root && flow <= least_v {
                    (least_v, leave_v) = (flow, v);
                }
                v = nv.parent;
            }
        }
        let apex = u;
        let on_column_side = least_v <= least_u;
        let (moved, cut, inside, outside) = if on_column_side {
            (least_v, leave_v, j, i)
        } else {
            (least_u, leave_u, i, j)
        };
        if cut == NONE {
            return 0.0; // no cycle: cannot happen for an arc between two nodes of the tree
        }
        if moved > 0.0 {
            let mut v = i;
            while v != apex {
                let sign = if self.is_row(v) { -moved } else { moved };
                self.flow[v as usize] += sign;
                v = self.nodes[v as usize].parent;
            }
            v = j;
            while v != apex {
                let sign = if self.is_row(v) { moved } else { -moved };
                self.flow[v as usize] += sign;
                v = self.nodes[v as usize].parent;
            }
        }
        let size = self.nodes[cut as usize].size;
        let above = self.nodes[cut as usize].parent;
        self.resize(above, apex, size.wrapping_neg());
        self.rehang(cut, inside, outside, moved);
        self.resize(outside, apex, size);
        // Either side of the cut may be the one to move, for only sums f + g matter.
        let by = if on_column_side { gain } else { -gain };
        if 2 * size as usize <= self.nodes.len() {
            self.shift(inside, NONE, by);
        } else {
            self.shift(root, inside, -by);
        }
        moved
    }

    /// Works the prices out afresh from the tree and its costs, piece by piece from the root's
    /// children. Their prices stay, but for moving all column prices towards zero: only sums f + g
    /// matter, and small numbers have the finer digits. Returns the largest correction.
    pub(super) fn reprice(&mut self, cost: impl Fn(usize, usize) -> f64) -> f64 {
        let root = self.root();
        let open = self.g().iter().filter(|g| g.is_finite());
        let (sum, count) = open.fold((0.0, 0.0), |(s, c), g| (s + g, c + 1.0));
        if count > 0.0 {
            self.shift(root, NONE, sum / count);
        }
        let mut worst = 0.0f64;
        let mut stack = vec![root];
        while let Some(v) = stack.pop() {
            let mut child = self.nodes[v as usize].first;
            while child != NONE {
                if v != root {
                    let (i, j) = if self.is_row(child) {
                        (child, v)
                    } else {
                        (v, child)
                    };
                    let c = cost(i as usize, j as usize - self.rows);
                    let fresh = c - self.price[v as usize];
                    worst = worst.max((fresh - self.price[child as usize]).abs());
                    self.price[child as usize] = fresh;
                }
                stack.push(child);
                child = self.nodes[child as usize].next;
            }
        }
        worst
    }
}

#[cfg(test)]
impl Tree {
    /// Checks every invariant the module promises; for tests.
    fn assert_sound(&self) {
        let root = self.root();
        let mut sizes = vec![1u32; self.nodes.len()];
        let mut order = vec![root];
        let mut at = 0;
        while at < order.len() {
            let v = order[at];
            let mut child = self.nodes[v as usize].first;
            while child != NONE {
                assert_eq!(self.nodes[child as usize].parent, v);
                order.push(child);
                child = self.nodes[child as usize].next;
            }
            at += 1;
        }
        assert_eq!(order.len(), self.nodes.len());
        for &v in order.iter().rev() {
            assert_eq!(sizes[v as usize], self.nodes[v as usize].size);
            if v != root {
                let p = self.nodes[v as usize].parent;
                sizes[p as usize] += sizes[v as usize];
                let flow = self.flow[v as usize];
                assert!(flow >= 0.0);
                assert!(flow > 0.0 || self.is_row(v) || p == root);
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
        for i in 0..n {
            assert!(tree.link(i, (i * 5) % n, 1.0, cost(i, (i * 5) % n)));
            tree.assert_sound();
        }
        let mut pivots = 0;
        loop {
            let best = (0..n * n)
                .map(|at| (at / n, at % n))
                .map(|(i, j)| (tree.f()[i] + tree.g()[j] - cost(i, j), i, j))
                .fold((0.0, 0, 0), |a, b| if b.0 > a.0 { b } else { a });
            if best.0 <= 0.0 {
                break;
            }
            tree.pivot(best.1, best.2, best.0);
            tree.assert_sound();
            for (i, j, _) in tree.arcs() {
                assert!((tree.f()[i] + tree.g()[j] - cost(i, j)).abs() < 1e-12);
            }
            pivots += 1;
            assert!(pivots < 10_000, "cycling");
        }
        assert!(tree.reprice(cost) < 1e-12);
    }
}
