//! Bounds on classes, on nested groups of classes and on the total, as one tree.
//!
//! ```text
//! lower_v ≤ Σ_{j below v} Σ_i Q_ij ≤ upper_v      for every node v
//! ```
//!
//! Leaves are the classes, inner nodes the groups, the root is everything. Groups that are nested or disjoint (a laminar
//! family) make a tree, and on a tree feasibility is interval arithmetic: what a node can hold is what its
//! children can hold together, cut to its own bounds.

use crate::Error;

/// A node's interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    pub(crate) lower: f64,
    pub(crate) upper: f64,
}

impl Interval {
    /// Distance of a sum from the interval.
    pub(crate) fn distance(self, sum: f64) -> f64 {
        (self.lower - sum).max(sum - self.upper).max(0.0)
    }
}

/// The tree: classes 0..k, then the groups, then the root.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub(crate) classes: usize,
    pub(crate) bounds: Vec<Interval>,
    parent: Vec<usize>,
    children: Vec<Vec<usize>>,
    /// Children before parents.
    pub(crate) upwards: Vec<usize>,
}

impl Tree {
    pub(crate) fn new(
        classes: &[Interval],
        groups: &[(Vec<usize>, Interval)],
        total: Interval,
    ) -> Result<Self, Error> {
        let k = classes.len();
        let root = k + groups.len();
        let mut sets = Vec::with_capacity(groups.len());
        for (set, _) in groups {
            let mut set = set.clone();
            set.sort_unstable();
            set.dedup();
            if let Some(&index) = set.last().filter(|&&j| j >= k) {
                return Err(Error::Option {
                    name: "class of a group",
                    value: index as f64,
                    expected: "below the number of classes",
                });
            }
            sets.push(set);
        }
        // Largest first, so that each group hangs itself below the smallest one that is there already.
        let mut order: Vec<usize> = (0..sets.len()).collect();
        order.sort_by_key(|&g| std::cmp::Reverse(sets[g].len()));
        let mut parent = vec![root; root + 1];
        for &g in &order {
            let Some(&first) = sets[g].first() else {
                continue;
            };
            let above = parent[first];
            if let Some(&odd) = sets[g].iter().find(|&&j| parent[j] != above) {
                let other = if above == root { parent[odd] } else { above };
                return Err(Error::NotLaminar {
                    first: g.min(other - k),
                    second: g.max(other - k),
                });
            }
            // The group above must hold all of this one; same parent for every member says just that.
            parent[k + g] = above;
            for &j in &sets[g] {
                parent[j] = k + g;
            }
        }
        let mut children = vec![Vec::new(); root + 1];
        for v in 0..root {
            children[parent[v]].push(v);
        }
        let mut upwards: Vec<usize> = (0..k).collect();
        // Smaller groups are below larger ones, equal ones below those that came first.
        upwards.extend(order.iter().rev().map(|g| k + g));
        upwards.push(root);
        let mut bounds = classes.to_vec();
        bounds.extend(groups.iter().map(|(_, interval)| *interval));
        bounds.push(total);
        Ok(Self {
            classes: k,
            bounds,
            parent,
            children,
            upwards,
        })
    }

    pub(crate) fn root(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Sums of all nodes from those of the classes.
    pub(crate) fn sums(&self, classes: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.bounds.len()];
        sums[..self.classes].copy_from_slice(classes);
        for &v in &self.upwards {
            if v != self.root() {
                sums[self.parent[v]] += sums[v];
            }
        }
        sums
    }

    /// For each class the sum of the multipliers of all nodes above it and its own.
    pub(crate) fn along_paths(&self, multipliers: &[f64]) -> Vec<f64> {
        let mut down = multipliers.to_vec();
        for &v in self.upwards.iter().rev() {
            if v != self.root() {
                down[v] += down[self.parent[v]];
            }
        }
        down.truncate(self.classes);
        down
    }

    /// Whether a class is below a node, or is it.
    pub(crate) fn holds(&self, node: usize, class: usize) -> bool {
        let mut v = class;
        while v != node && v != self.root() {
            v = self.parent[v];
        }
        v == node
    }

    /// What each node can hold given what each class can.
    pub(crate) fn attainable(&self, room: &[f64]) -> Result<Vec<Interval>, Error> {
        let nothing = Interval {
            lower: 0.0,
            upper: 0.0,
        };
        let mut held = vec![nothing; self.bounds.len()];
        for &v in &self.upwards {
            let own = self.bounds[v];
            let below = if v < self.classes {
                Interval {
                    lower: 0.0,
                    upper: room[v],
                }
            } else {
                self.children[v].iter().fold(nothing, |sum, &c| Interval {
                    lower: sum.lower + held[c].lower,
                    upper: sum.upper + held[c].upper,
                })
            };
            let slip = 1e-9 * (1.0 + own.lower.abs());
            if own.lower > below.upper + slip {
                return Err(Error::Infeasible {
                    what: self.kind(
                        v,
                        "lower bounds of classes",
                        "lower bounds of a group",
                        "the total",
                    ),
                    required: own.lower,
                    available: below.upper,
                });
            }
            if below.lower > own.upper + slip {
                return Err(Error::Infeasible {
                    what: "lower bounds inside a group or the total",
                    required: below.lower,
                    available: own.upper,
                });
            }
            let lower = own.lower.max(below.lower);
            held[v] = Interval {
                lower,
                upper: own.upper.min(below.upper).max(lower),
            };
        }
        Ok(held)
    }

    fn kind(
        &self,
        v: usize,
        class: &'static str,
        group: &'static str,
        root: &'static str,
    ) -> &'static str {
        if v < self.classes {
            class
        } else if v == self.root() {
            root
        } else {
            group
        }
    }

    /// Class sums near the given ones that satisfy every bound, given what nodes can hold.
    pub(crate) fn repair(&self, classes: &[f64], held: &[Interval]) -> Vec<f64> {
        let mut wanted = self.sums(classes);
        let root = self.root();
        wanted[root] = wanted[root].clamp(held[root].lower, held[root].upper);
        for &v in self.upwards.iter().rev() {
            let children = &self.children[v];
            for &c in children {
                wanted[c] = wanted[c].clamp(held[c].lower, held[c].upper);
            }
            let excess = children.iter().map(|&c| wanted[c]).sum::<f64>() - wanted[v];
            // Take the excess from, or give the lack to, the children in proportion to their room.
            let room = |c: usize| {
                if excess > 0.0 {
                    wanted[c] - held[c].lower
                } else {
                    held[c].upper - wanted[c]
                }
            };
            let rooms: Vec<f64> = children.iter().map(|&c| room(c).max(0.0)).collect();
            let all: f64 = rooms.iter().sum();
            if all > 0.0 {
                for (&c, room) in children.iter().zip(rooms) {
                    wanted[c] -= excess * room / all;
                }
            }
        }
        wanted.truncate(self.classes);
        wanted
    }
}
