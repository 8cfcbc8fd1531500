//! A bounded-variable network simplex on a sparse graph.
//!
//! An arc outside the basis sits at its lower or its upper bound; a basis is a spanning tree. An arc
//! whose reduced cost `r = c − π_from + π_to` is negative at its lower bound (positive at its upper)
//! closes a cycle along which flow gets cheaper: push until some arc of the cycle is at a bound, which
//! leaves the tree. Of several such arcs the last one met along the cycle, starting from where it is
//! nearest to the root, leaves: that keeps the tree *strongly feasible* (some flow can still be pushed from
//! every node to the root), and strongly feasible trees never come back.
//!
//! The first tree is a star of artificial arcs to a root, which absorb what is not yet placed. Their cost
//! is infinitely larger than all others, as a second, lexicographically first part of the potentials
//! (see `tree`): both phases at once, without a big number that would swallow digits.
//!
//! Arcs are priced in blocks of about √arcs / 2, round robin, the worst of a block entering.

use super::certificate::Reduced;
use super::network::Network;
use super::solution::{FlowSolution, conclude};
use super::tree::{NIL, Price, Tree};
use crate::kernel::rounding::REDUCED_COST;
use crate::solver::{Guard, Watch, options, watched};
use crate::{Error, Progress, Status};

/// Pivots between two reports to the progress callback.
const REPORT_EVERY: usize = 1024;

/// Whether a reduced cost `r`, computed from these numbers, differs from zero by more than rounding.
#[inline(always)]
fn is_significant(r: f64, cost: f64, from: f64, to: f64) -> bool {
    r.abs() > REDUCED_COST * (cost.abs() + from.abs() + to.abs())
}

/// The exact solver for a [`Network`].
///
/// # Complexity
/// Memory of about 40 bytes per arc beyond the network. Time per pivot is that of pricing blocks of
/// √arcs / 2 arcs until one has a candidate, plus the length of the cycle, plus the inner nodes of the subtree that moves.
///
/// # Examples
/// ```
/// use earthmover::flow::{MinCostFlow, Network};
/// let mut network = Network::new(2);
/// network.supply(0, 1.0).supply(1, -1.0);
/// network.arc(0, 1, 5.0, ..);
/// network.arc(0, 1, 4.0, ..=0.25); // a cheaper parallel arc
/// let solution = MinCostFlow::new().solve(&network)?;
/// assert_eq!(solution.cost(), 4.75);
/// assert_eq!(solution.certificate().gap(), 0.0);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[must_use]
pub struct MinCostFlow {
    max_iterations: usize,
    #[cfg_attr(feature = "serde", serde(rename = "time_limit"))]
    watch: Watch,
}

impl Default for MinCostFlow {
    fn default() -> Self {
        Self::new()
    }
}

impl MinCostFlow {
    /// A solver without an iteration cap, silent.
    ///
    /// # Examples
    /// ```
    /// use earthmover::flow::{MinCostFlow, Network};
    /// assert_eq!(MinCostFlow::new().solve(&Network::new(1))?.cost(), 0.0);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn new() -> Self {
        Self {
            max_iterations: usize::MAX,
            watch: Watch::default(),
        }
    }

    /// The same, watched over like another solver.
    pub(crate) fn watched(watch: Watch) -> Self {
        Self {
            watch,
            ..Self::new()
        }
    }

    options! {
        /// Most pivots to make. Default: no cap.
        ///
        /// # Examples
        /// ```
        /// use earthmover::{Status, flow::{MinCostFlow, Network}};
        /// let mut network = Network::new(2);
        /// network.supply(0, 1.0).supply(1, -1.0);
        /// network.arc(0, 1, 5.0, ..);
        /// let solution = MinCostFlow::new().max_iterations(0).solve(&network)?;
        /// assert_eq!(solution.status(), Status::IterationLimit);
        /// assert!(solution.certificate().violation > 0.0); // and it says so
        /// # Ok::<(), earthmover::Error>(())
        /// ```
        max_iterations: usize,
    }

    watched! {
        /// Calls `callback` at the start and every 1024 pivots; [`ControlFlow::Break`](core::ops::ControlFlow::Break) stops with the flow
        /// so far. Default: none.
        ///
        /// # Examples
        /// ```
        /// use core::ops::ControlFlow;
        /// use earthmover::{Status, flow::{MinCostFlow, Network}};
        /// let mut network = Network::new(2);
        /// network.supply(0, 1.0).supply(1, -1.0);
        /// network.arc(0, 1, 5.0, ..);
        /// let impatient = MinCostFlow::new().on_progress(|_| ControlFlow::Break(()));
        /// assert_eq!(impatient.solve(&network)?.status(), Status::Stopped);
        /// # Ok::<(), earthmover::Error>(())
        /// ```
        on_progress,
        /// Stops, with [`Status::Stopped`] and the flow so far, when this much time has passed. Default: never.
        ///
        /// # Examples
        /// ```
        /// use std::time::Duration;
        /// use earthmover::{Status, flow::{MinCostFlow, Network}};
        /// let mut network = Network::new(2);
        /// network.supply(0, 1.0).supply(1, -1.0);
        /// network.arc(0, 1, 5.0, ..);
        /// let hasty = MinCostFlow::new().time_limit(Duration::ZERO);
        /// assert_eq!(hasty.solve(&network)?.status(), Status::Stopped);
        /// # Ok::<(), earthmover::Error>(())
        /// ```
        time_limit,
    }

    /// Finds a flow of least cost.
    ///
    /// # Errors
    /// * [`Error::Empty`], [`Error::Length`], [`Error::Index`] for no nodes, too many, or one that does
    ///   not exist;
    /// * [`Error::Supply`], [`Error::Arc`] for a NaN or infinite number where none may be, or crossed bounds;
    /// * [`Error::Unbalanced`] where supplies and demands differ;
    /// * [`Error::Infeasible`] where the bounds leave no way for some mass, and how much;
    /// * [`Error::Unbounded`] where a cycle of negative cost has no upper bound.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Error, flow::{MinCostFlow, Network}};
    /// let mut network = Network::new(2);
    /// network.supply(0, 3.0).supply(1, -3.0);
    /// network.arc(0, 1, 1.0, ..=2.0);
    /// let error = MinCostFlow::new().solve(&network).unwrap_err();
    /// assert_eq!(error, Error::Infeasible { stranded: 1.0, total: 3.0 });
    /// ```
    pub fn solve(&self, network: &Network) -> Result<FlowSolution, Error> {
        network.validate()?;
        let guard = self.watch.begin()?;
        let mut simplex = Simplex::start(network)?;
        let (status, iterations) = self.drive(&mut simplex, &guard)?;
        conclude(network, simplex, status, iterations)
    }

    fn drive(&self, simplex: &mut Simplex, guard: &Guard<'_>) -> Result<(Status, usize), Error> {
        // In exact arithmetic strongly feasible trees do not repeat. Should rounding ever break that, no
        // flow moves for longer than any honest run of degenerate pivots: stop and say so.
        let patience = 1000 + 64 * (simplex.tree.nodes.len() + simplex.real);
        let (mut iteration, mut idle) = (0, 0);
        loop {
            if iteration % REPORT_EVERY == 0 {
                let violation = if guard.is_watched() {
                    simplex.unplaced_share()
                } else {
                    0.0
                };
                let progress = Progress {
                    iteration,
                    violation,
                    epsilon: 0.0,
                    // How long it takes to better a feasible flow nobody knows: half of the way is the mass.
                    done: 0.5 * (1.0 - violation).clamp(0.0, 1.0),
                    gap: f64::INFINITY,
                };
                if guard.says_stop(&progress) {
                    return Ok((Status::Stopped, iteration));
                }
            }
            let Some(arc) = simplex.price() else {
                return Ok((Status::Converged, iteration));
            };
            if iteration >= self.max_iterations {
                return Ok((Status::IterationLimit, iteration));
            }
            let moved = simplex.pivot(arc)?;
            idle = if moved > 0.0 { 0 } else { idle + 1 };
            // Specks of flow can go in circles, too, where costs differ by more digits than there are.
            if idle > patience || iteration > 8 * patience {
                return Ok((Status::Stalled, iteration));
            }
            iteration += 1;
        }
    }
}

/// Where an arc is: the sign that makes `place · r < 0` mean "worth pushing".
const AT_LOWER: i8 = 1;
const FIXED: i8 = 0; // in the tree, or unable to move: not priced
const AT_UPPER: i8 = -1;

/// The state of the method. Arcs from `real` on are artificial, one per node.
pub(super) struct Simplex {
    pub(super) real: usize,
    pub(super) from: Vec<u32>,
    pub(super) to: Vec<u32>,
    pub(super) cost: Vec<f64>,
    lower: Vec<f64>,
    upper: Vec<f64>,
    pub(super) flow: Vec<f64>,
    pub(super) place: Vec<i8>,
    pub(super) tree: Tree,
    /// Mass that the artificial arcs carried at the start.
    pub(super) total: f64,
    /// Supplies and lower bounds, without their signs.
    pub(super) handled: f64,
    next: usize,
    block: usize,
}

impl Simplex {
    /// Every arc at its lower bound, what is then missing at the nodes on artificial arcs.
    fn start(network: &Network) -> Result<Self, Error> {
        let (nodes, real) = (network.nodes(), network.arcs());
        let mut lower: Vec<f64> = network.bounds.iter().map(|b| b.lower).collect();
        let mut upper: Vec<f64> = network.bounds.iter().map(|b| b.upper).collect();
        let mut place = vec![AT_LOWER; real];
        let mut flow = lower.clone();
        let mut excess = network.supply.clone();
        let mut dearest = 0.0f64;
        let mut handled: f64 = excess.iter().map(|b| b.abs()).sum();
        for a in 0..real {
            let (from, to) = (network.from[a], network.to[a]);
            dearest = dearest.max(network.cost[a].abs());
            if from == to {
                // A loop is on its own: its flow goes where its cost wants it.
                place[a] = FIXED;
                if network.cost[a] < 0.0 {
                    if upper[a] == f64::INFINITY {
                        return Err(Error::Unbounded { arc: a });
                    }
                    flow[a] = upper[a];
                }
                continue;
            }
            if lower[a] == upper[a] {
                // It can never move; out of the pricing's sight.
                place[a] = FIXED;
            }
            handled += 2.0 * lower[a].abs();
            excess[from as usize] -= lower[a];
            excess[to as usize] += lower[a];
        }
        if let Some(node) = excess.iter().position(|e| !e.is_finite()) {
            return Err(Error::Supply {
                node,
                value: excess[node],
            });
        }
        let big = (8.0 * (nodes as f64 + 2.0) * dearest).max(1.0);
        let tree = Tree::star(nodes, real, big, |v| excess[v] >= 0.0);
        let root = tree.root();
        let (mut from, mut to) = (network.from.clone(), network.to.clone());
        let mut cost = network.cost.clone();
        cost.resize(real + nodes, 0.0);
        lower.resize(real + nodes, 0.0);
        upper.resize(real + nodes, f64::INFINITY);
        place.resize(real + nodes, FIXED);
        for (v, &e) in excess.iter().enumerate() {
            let (tail, head) = if e >= 0.0 {
                (v as u32, root)
            } else {
                (root, v as u32)
            };
            from.push(tail);
            to.push(head);
            flow.push(e.abs());
        }
        Ok(Self {
            real,
            from,
            to,
            cost,
            lower,
            upper,
            flow,
            place,
            tree,
            total: excess.iter().map(|e| e.max(0.0)).sum(),
            handled,
            next: 0,
            block: ((real as f64).sqrt() as usize / 2).max(64),
        })
    }

    /// The share of the mass that is still on artificial arcs.
    fn unplaced_share(&self) -> f64 {
        let unplaced: f64 = self.flow[self.real..].iter().sum();
        if self.total > 0.0 {
            0.5 * unplaced / self.total
        } else {
            0.0
        }
    }

    /// An arc worth pushing, the most so of the first block that has one.
    fn price(&mut self) -> Option<usize> {
        let mut left = self.real;
        while left > 0 {
            let end = (self.next + self.block.min(left)).min(self.real);
            let (mut best, mut worst) = (None, 0.0);
            // Arcs tend to be listed by the node they leave: look its potential up once.
            let (mut tail, mut below) = (NIL, Price::default());
            for a in self.next..end {
                if self.from[a] != tail {
                    tail = self.from[a];
                    below = self.tree.price(tail, &self.cost);
                }
                let above = self.tree.price(self.to[a], &self.cost);
                let (c, place) = (self.cost[a], f64::from(self.place[a]));
                let sides = above.side - below.side;
                let mut r = c - below.value + above.value;
                if sides == 0.0 && !is_significant(r, c, below.value, above.value) {
                    // Rounding may have made that up or hidden it: with twice the digits it has not.
                    if place == 0.0 {
                        continue;
                    }
                    let finely = Reduced::new(c, below.double(), above.double());
                    if !finely.is_significant {
                        continue;
                    }
                    r = finely.value;
                }
                let urge = place * (r + sides);
                if urge < worst {
                    (best, worst) = (Some(a), urge);
                }
            }
            left -= end - self.next;
            self.next = if end == self.real { 0 } else { end };
            if best.is_some() {
                return best;
            }
        }
        None
    }

    /// How much more may flow through the tree arc of `v`: towards the root where `up`, else away.
    fn residual(&self, v: u32, up: bool) -> f64 {
        let node = self.tree.node(v);
        let a = node.arc as usize;
        if node.up == up {
            self.upper[a] - self.flow[a]
        } else {
            self.flow[a] - self.lower[a]
        }
    }

    fn push(&mut self, v: u32, up: bool, delta: f64) {
        let node = self.tree.node(v);
        let a = node.arc as usize;
        self.flow[a] = if node.up == up {
            (self.flow[a] + delta).min(self.upper[a])
        } else {
            (self.flow[a] - delta).max(self.lower[a])
        };
    }

    /// The cycle that `arc` closes with the tree, and where it blocks.
    fn cycle(&self, arc: usize) -> Cycle {
        let rises = self.place[arc] == AT_LOWER;
        let (tail, head) = if rises {
            (self.from[arc], self.to[arc])
        } else {
            (self.to[arc], self.from[arc])
        };
        let (mut down, mut up) = ((f64::INFINITY, tail), (f64::INFINITY, head));
        let (mut u, mut v) = (tail, head);
        while u != v {
            if self.tree.depth(u) >= self.tree.depth(v) {
                let room = self.residual(u, false);
                if room < down.0 {
                    down = (room, u);
                }
                u = self.tree.node(u).parent;
            } else {
                let room = self.residual(v, true);
                if room <= up.0 {
                    up = (room, v);
                }
                v = self.tree.node(v).parent;
            }
        }
        Cycle {
            rises,
            tail,
            head,
            apex: u,
            down,
            up,
        }
    }

    /// Pushes flow along the tree's part of a cycle.
    fn push_around(&mut self, cycle: &Cycle, delta: f64) {
        for (from, up) in [(cycle.tail, false), (cycle.head, true)] {
            let mut v = from;
            while v != cycle.apex {
                self.push(v, up, delta);
                v = self.tree.node(v).parent;
            }
        }
    }

    /// Brings `arc` into the tree, or from one bound to the other; returns the flow pushed.
    fn pivot(&mut self, arc: usize) -> Result<f64, Error> {
        let cycle = self.cycle(arc);
        let Cycle {
            rises, down, up, ..
        } = cycle;
        // The last blocking arc along the cycle: ties go to the way up, then to the arc itself.
        let own = self.upper[arc] - self.lower[arc];
        let delta = own.min(down.0).min(up.0);
        if delta == f64::INFINITY {
            return Err(Error::Unbounded { arc });
        }
        if delta > 0.0 {
            self.push_around(&cycle, delta);
        }
        if up.0 > delta && own <= delta {
            self.rest(arc, rises);
            return Ok(delta);
        }
        self.flow[arc] = if rises {
            (self.lower[arc] + delta).min(self.upper[arc])
        } else {
            (self.upper[arc] - delta).max(self.lower[arc])
        };
        let upwards = up.0 <= delta;
        let (top, inside, outside) = if upwards {
            (up.1, cycle.head, cycle.tail)
        } else {
            (down.1, cycle.tail, cycle.head)
        };
        let node = self.tree.node(top);
        self.rest(node.arc as usize, node.up == upwards);
        self.place[arc] = FIXED;
        let points_up = self.from[arc] == inside;
        self.tree
            .rehang(top, inside, outside, arc as u32, points_up, &self.cost);
        Ok(delta)
    }

    /// Puts an arc at its upper bound, or at its lower one.
    fn rest(&mut self, arc: usize, full: bool) {
        (self.place[arc], self.flow[arc]) = if full {
            (AT_UPPER, self.upper[arc])
        } else {
            (AT_LOWER, self.lower[arc])
        };
    }

    /// Recomputes the flow in the tree from the arcs at their bounds, from the leaves to the root, so
    /// that no rounding of the pivots remains. Returns the mass left on artificial arcs.
    pub(super) fn settle(&mut self, supply: &[f64]) -> f64 {
        let order = self.tree.order();
        let mut in_tree = vec![false; self.from.len()];
        for &v in &order {
            in_tree[self.tree.node(v).arc as usize] = true;
        }
        let mut excess = supply.to_vec();
        excess.push(0.0);
        for a in 0..self.real {
            if !in_tree[a] && self.from[a] != self.to[a] {
                excess[self.from[a] as usize] -= self.flow[a];
                excess[self.to[a] as usize] += self.flow[a];
            }
        }
        self.flow[self.real..].fill(0.0);
        let (mut stranded, mut missing) = (0.0f64, 0.0f64);
        for &v in order.iter().rev() {
            let node = self.tree.node(v);
            let a = node.arc as usize;
            let e = excess[v as usize];
            if a >= self.real {
                stranded += e.max(0.0);
                missing += (-e).max(0.0);
                continue;
            }
            let wanted = if node.up { e } else { -e };
            self.flow[a] = wanted.clamp(self.lower[a], self.upper[a]);
            excess[node.parent as usize] += e;
        }
        // They differ by what supplies and demands differ by, which was accepted as rounding.
        stranded.min(missing)
    }
}

/// Flow is pushed from the apex down to `tail`, over the arc to `head`, and up to the apex.
struct Cycle {
    /// Whether the flow on the arc grows.
    rises: bool,
    tail: u32,
    head: u32,
    apex: u32,
    /// The least room on the way down and on the way up, and whose arc has it.
    down: (f64, u32),
    up: (f64, u32),
}
