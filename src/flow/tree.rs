//! The basis of the network simplex: a spanning tree hung from an artificial root.
//!
//! Each node knows its parent, the arc to it and its depth, and lists its children in a doubly linked
//! list, so that moving a subtree costs its stem for the links and its size for the potentials.
//!
//! Potentials have two parts compared lexicographically, `π_v + side_v · M` for an M larger than any
//! number: the tree reaches the root through exactly one artificial arc, so the second part is just +1 or −1. No
//! large number is ever added to a cost, so none of its digits are lost.
//!
//! Potentials are recomputed along the tree (never shifted by a difference), so they are a function of
//! the basis alone and their rounding does not grow with the number of pivots.

/// No node.
pub(super) const NIL: u32 = u32::MAX;

/// What a node needs to know, kept together because a pivot touches all of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) parent: u32,
    /// The arc between this node and its parent.
    pub(super) arc: u32,
    pub(super) depth: u32,
    /// Whether that arc points from this node to its parent.
    pub(super) up: bool,
    first_child: u32,
    next: u32,
    previous: u32,
}

/// A potential in its two parts; what pricing reads.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Price {
    /// π.
    pub(super) value: f64,
    /// ±1 times a number that dwarfs every reduced cost: the artificial part.
    pub(super) side: f64,
}

/// A spanning tree of `nodes` nodes and a root that is numbered last.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    pub(super) prices: Vec<Price>,
}

impl Tree {
    /// The star of artificial arcs `first_arc + v`, pointing up where `up(v)`.
    pub(super) fn star(
        nodes: usize,
        first_arc: usize,
        big: f64,
        up: impl Fn(usize) -> bool,
    ) -> Self {
        let root = nodes as u32;
        let mut tree = Self {
            nodes: Vec::with_capacity(nodes + 1),
            prices: Vec::with_capacity(nodes + 1),
        };
        for v in 0..nodes {
            tree.nodes.push(Node {
                parent: root,
                arc: (first_arc + v) as u32,
                depth: 1,
                up: up(v),
                first_child: NIL,
                next: if v + 1 < nodes { v as u32 + 1 } else { NIL },
                previous: if v > 0 { v as u32 - 1 } else { NIL },
            });
            tree.prices.push(Price {
                value: 0.0,
                side: if up(v) { big } else { -big },
            });
        }
        tree.nodes.push(Node {
            parent: NIL,
            arc: NIL,
            depth: 0,
            up: false,
            first_child: if nodes > 0 { 0 } else { NIL },
            next: NIL,
            previous: NIL,
        });
        tree.prices.push(Price::default());
        tree
    }

    pub(super) fn root(&self) -> u32 {
        self.nodes.len() as u32 - 1
    }

    pub(super) fn node(&self, v: u32) -> Node {
        self.nodes[v as usize]
    }

    fn detach(&mut self, v: u32) {
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

    fn attach(&mut self, v: u32, parent: u32, arc: u32, up: bool) {
        let first = self.nodes[parent as usize].first_child;
        if first != NIL {
            self.nodes[first as usize].previous = v;
        }
        let node = &mut self.nodes[v as usize];
        node.parent = parent;
        node.arc = arc;
        node.up = up;
        node.next = first;
        node.previous = NIL;
        self.nodes[parent as usize].first_child = v;
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
            self.attach(v, parent, arc, up);
            if v == top {
                break;
            }
            (parent, arc, up, v) = (v, old.arc, !old.up, old.parent);
        }
        let side = self.prices[outside as usize].side;
        self.walk(inside, |nodes, prices, v| {
            let node = nodes[v as usize];
            let c = cost[node.arc as usize];
            let above = prices[node.parent as usize].value;
            prices[v as usize] = Price {
                value: if node.up { above + c } else { above - c },
                side,
            };
            nodes[v as usize].depth = nodes[node.parent as usize].depth + 1;
        });
    }

    /// Visits the subtree under `top`, parents before children.
    fn walk(&mut self, top: u32, mut visit: impl FnMut(&mut [Node], &mut [Price], u32)) {
        let mut v = top;
        loop {
            visit(&mut self.nodes, &mut self.prices, v);
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
        self.walk(root, |_, _, v| order.push(v));
        order.retain(|&v| v != root);
        order
    }
}
