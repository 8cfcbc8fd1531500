//! The basis of the network simplex: a spanning tree hung from an artificial root.
//!
//! Each node knows its parent, the arc to it and its depth, and lists its children in a doubly linked
//! list, so that moving a subtree costs its stem for the links and its size for the potentials.
//!
//! In layered graphs nearly all nodes are leaves (rows that send all they have one way), thousands under
//! one column, and a pivot that moves the column would touch them all. So leaves are kept out of the lists
//! and own neither potential nor depth: both are read off the parent when asked for. What moves is
//! then only the few inner nodes.
//!
//! Potentials have two parts compared lexicographically, `π_v + side_v · M` for an M larger than any
//! number: the tree reaches the root through exactly one artificial arc, so the second part is just +1 or −1. No
//! large number is ever added to a cost, so none of its digits are lost.
//!
//! Potentials are recomputed along the tree (never shifted by a difference), so they are a function of
//! the basis alone and their rounding does not grow with the number of pivots. They are kept to twice the digits: a node that
//! hangs from an arc of cost 10¹⁶, as many write it for one that is not to be used, has neighbours that cost 1.

use crate::kernel::rounding::Double;

/// No node.
pub(super) const NIL: u32 = u32::MAX;

/// What a node needs to know, kept together because a pivot touches all of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) parent: u32,
    /// The arc between this node and its parent.
    pub(super) arc: u32,
    /// Meaningless for a leaf.
    depth: u32,
    /// How many children it has; a leaf has none.
    children: u32,
    /// Whether that arc points from this node to its parent.
    pub(super) up: bool,
    /// The lists hold inner nodes only.
    first_child: u32,
    next: u32,
    previous: u32,
}

/// A potential in its two parts; what pricing reads.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Price {
    /// π, and what rounding took from it.
    pub(super) value: f64,
    pub(super) low: f64,
    /// ±1 times a number that dwarfs every reduced cost: the artificial part.
    pub(super) side: f64,
}

impl Price {
    /// The first part.
    pub(super) fn double(self) -> Double {
        Double {
            high: self.value,
            low: self.low,
        }
    }
}

/// A spanning tree of `nodes` nodes and a root that is numbered last.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    /// Meaningless for a leaf; see [`Tree::price`].
    prices: Vec<Price>,
    big: f64,
}

impl Tree {
    /// The star of artificial arcs `first_arc + v`, pointing up where `up(v)`.
    pub(super) fn star(
        nodes: usize,
        first_arc: usize,
        big: f64,
        up: impl Fn(usize) -> bool,
    ) -> Self {
        let leaf = |v: usize| Node {
            parent: nodes as u32,
            arc: (first_arc + v) as u32,
            depth: 1,
            children: 0,
            up: up(v),
            first_child: NIL,
            next: NIL,
            previous: NIL,
        };
        let mut all: Vec<Node> = (0..nodes).map(leaf).collect();
        all.push(Node {
            parent: NIL,
            arc: NIL,
            depth: 0,
            children: nodes as u32,
            up: false,
            first_child: NIL,
            next: NIL,
            previous: NIL,
        });
        Self {
            nodes: all,
            prices: vec![Price::default(); nodes + 1],
            big,
        }
    }

    pub(super) fn root(&self) -> u32 {
        self.nodes.len() as u32 - 1
    }

    pub(super) fn node(&self, v: u32) -> Node {
        self.nodes[v as usize]
    }

    pub(super) fn depth(&self, v: u32) -> u32 {
        let node = self.nodes[v as usize];
        if node.children > 0 || node.parent == NIL {
            node.depth
        } else {
            self.nodes[node.parent as usize].depth + 1
        }
    }

    /// The potential of a node.
    #[inline(always)]
    pub(super) fn price(&self, v: u32, cost: &[f64]) -> Price {
        let node = self.nodes[v as usize];
        if node.children > 0 || node.parent == NIL {
            self.prices[v as usize]
        } else {
            self.price_below(node, cost)
        }
    }

    /// The potential of a node from that of its parent, which is never a leaf.
    #[inline(always)]
    fn price_below(&self, node: Node, cost: &[f64]) -> Price {
        let above = self.prices[node.parent as usize];
        let c = cost[node.arc as usize];
        let sum = Double::difference(above.value, if node.up { -c } else { c });
        // Where large numbers cancel, what they had hidden is the value.
        let sum = Double::difference(sum.high, -(above.low + sum.low));
        Price {
            value: sum.high,
            low: sum.low,
            side: if node.parent == self.root() {
                if node.up { self.big } else { -self.big }
            } else {
                above.side
            },
        }
    }

    /// Stores what a node that is no leaf must know.
    fn inform(&mut self, v: u32, cost: &[f64]) {
        let node = self.node(v);
        self.prices[v as usize] = self.price_below(node, cost);
        self.nodes[v as usize].depth = self.nodes[node.parent as usize].depth + 1;
    }

    fn link(&mut self, v: u32) {
        let parent = self.node(v).parent as usize;
        let first = self.nodes[parent].first_child;
        if first != NIL {
            self.nodes[first as usize].previous = v;
        }
        self.nodes[v as usize].next = first;
        self.nodes[v as usize].previous = NIL;
        self.nodes[parent].first_child = v;
    }

    fn unlink(&mut self, v: u32) {
        let Node {
            parent,
            next,
            previous,
            ..
        } = self.node(v);
        if previous == NIL {
            self.nodes[parent as usize].first_child = next;
        } else {
            self.nodes[previous as usize].next = next;
        }
        if next != NIL {
            self.nodes[next as usize].previous = previous;
        }
    }

    fn detach(&mut self, v: u32) {
        let Node {
            parent, children, ..
        } = self.node(v);
        if children > 0 {
            self.unlink(v);
        }
        self.nodes[parent as usize].children -= 1;
        if self.nodes[parent as usize].children == 0 && parent != self.root() {
            self.unlink(parent);
        }
    }

    fn attach(&mut self, v: u32, parent: u32, arc: u32, up: bool, cost: &[f64]) {
        let node = &mut self.nodes[v as usize];
        (node.parent, node.arc, node.up) = (parent, arc, up);
        if node.children > 0 {
            self.link(v);
        }
        self.nodes[parent as usize].children += 1;
        if self.nodes[parent as usize].children == 1 && parent != self.root() {
            self.link(parent);
            self.inform(parent, cost);
        }
    }

    /// Cuts the subtree under `top` from its parent and hangs it by its node `inside` from `outside`
    /// through the arc `arc`, which points from `inside` where `up`.
    pub(super) fn rehang(
        &mut self,
        top: u32,
        inside: u32,
        outside: u32,
        arc: u32,
        up: bool,
        cost: &[f64],
    ) {
        let (mut v, mut parent, mut arc, mut up) = (inside, outside, arc, up);
        loop {
            let old = self.node(v);
            self.detach(v);
            self.attach(v, parent, arc, up, cost);
            if v == top {
                break;
            }
            (parent, arc, up, v) = (v, old.arc, !old.up, old.parent);
        }
        if self.node(inside).children > 0 {
            self.walk(inside, |tree, v| tree.inform(v, cost));
        }
    }

    /// Visits the inner nodes of the subtree under `top`, parents before children.
    fn walk(&mut self, top: u32, mut visit: impl FnMut(&mut Self, u32)) {
        let mut v = top;
        loop {
            visit(self, v);
            let child = self.nodes[v as usize].first_child;
            if child != NIL {
                v = child;
                continue;
            }
            loop {
                if v == top {
                    return;
                }
                let next = self.nodes[v as usize].next;
                if next != NIL {
                    v = next;
                    break;
                }
                v = self.nodes[v as usize].parent;
            }
        }
    }

    /// All nodes but the root, parents before children.
    pub(super) fn order(&mut self) -> Vec<u32> {
        let root = self.root();
        let mut order = Vec::with_capacity(self.nodes.len());
        self.walk(root, |_, v| order.push(v));
        order.retain(|&v| v != root);
        order.extend((0..root).filter(|&v| self.node(v).children == 0));
        order
    }
}
