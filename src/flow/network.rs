//! The question: nodes with supplies, arcs with costs and bounds.

use super::Bounds;
use crate::Error;
use crate::kernel::rounding::sum;

/// The name of an arc in the [`Network`] that made it; arcs are numbered from zero as they are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArcId(pub usize);

/// A directed graph with supplies at the nodes, costs and bounds on the arcs.
///
/// Parallel arcs and self-loops are welcome, costs may be negative, lower bounds may be positive or
/// negative, upper bounds infinite. Nothing is checked before [`solve`](super::MinCostFlow::solve).
///
/// # Examples
/// ```
/// use earthmover::flow::{MinCostFlow, Network};
///
/// // 4 units from node 0 to node 2: the direct arc is cheap but narrow.
/// let mut network = Network::new(3);
/// network.supply(0, 4.0).supply(2, -4.0);
/// let direct = network.arc(0, 2, 1.0, ..=3.0);
/// let first = network.arc(0, 1, 1.0, ..);
/// network.arc(1, 2, 1.0, ..);
///
/// let solution = MinCostFlow::new().solve(&network)?;
/// assert_eq!(solution.flow(direct), 3.0);
/// assert_eq!(solution.flow(first), 1.0);
/// assert_eq!(solution.cost(), 5.0);
/// assert_eq!(solution.reduced_cost(direct), -1.0); // what one more unit of width would save
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Network {
    pub(super) supply: Vec<f64>,
    pub(super) from: Vec<u32>,
    pub(super) to: Vec<u32>,
    pub(super) cost: Vec<f64>,
    pub(super) bounds: Vec<Bounds>,
    /// The first node named that does not exist.
    stray: Option<usize>,
    nodes: usize,
}

impl Network {
    /// A network of `nodes` nodes without supplies or arcs.
    ///
    /// # Examples
    /// ```
    /// use earthmover::flow::Network;
    /// assert_eq!(Network::new(3).nodes(), 3);
    /// ```
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self {
            // A count beyond 32 bits is refused at the door; do not allocate for it here.
            supply: vec![0.0; if nodes < NODE_LIMIT { nodes } else { 0 }],
            nodes,
            ..Self::default()
        }
    }

    /// Makes room for `arcs` more arcs.
    ///
    /// # Examples
    /// ```
    /// let mut network = earthmover::flow::Network::new(2);
    /// network.reserve(10);
    /// assert_eq!(network.arcs(), 0);
    /// ```
    pub fn reserve(&mut self, arcs: usize) {
        self.from.reserve(arcs);
        self.to.reserve(arcs);
        self.cost.reserve(arcs);
        self.bounds.reserve(arcs);
    }

    /// Sets what leaves `node` on balance: positive for a source, negative for a demand. Default 0.
    ///
    /// # Examples
    /// ```
    /// use earthmover::flow::{MinCostFlow, Network};
    /// let mut network = Network::new(2);
    /// network.supply(0, 1.5).supply(1, -1.5);
    /// let arc = network.arc(0, 1, 2.0, ..);
    /// assert_eq!(MinCostFlow::new().solve(&network)?.flow(arc), 1.5);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn supply(&mut self, node: usize, mass: f64) -> &mut Self {
        match self.supply.get_mut(node) {
            Some(supply) => *supply = mass,
            None => {
                self.stray.get_or_insert(node);
            }
        }
        self
    }

    /// Adds an arc that carries a flow within `bounds` at `cost` per unit.
    ///
    /// # Examples
    /// ```
    /// use earthmover::flow::{MinCostFlow, Network};
    /// let mut network = Network::new(2);
    /// let there = network.arc(0, 1, 3.0, 1.0..=2.0); // at least one unit must go round
    /// let back = network.arc(1, 0, -1.0, ..);
    /// let solution = MinCostFlow::new().solve(&network)?;
    /// assert_eq!((solution.flow(there), solution.flow(back)), (1.0, 1.0));
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn arc(&mut self, from: usize, to: usize, cost: f64, bounds: impl Into<Bounds>) -> ArcId {
        for node in [from, to] {
            if node >= self.supply.len() {
                self.stray.get_or_insert(node);
            }
        }
        self.from.push(u32::try_from(from).unwrap_or(u32::MAX));
        self.to.push(u32::try_from(to).unwrap_or(u32::MAX));
        self.cost.push(cost);
        self.bounds.push(bounds.into());
        ArcId(self.cost.len() - 1)
    }

    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Number of arcs.
    #[must_use]
    pub fn arcs(&self) -> usize {
        self.cost.len()
    }

    /// Every check on the question, made once.
    pub(super) fn validate(&self) -> Result<(), Error> {
        let (nodes, arcs) = (self.nodes, self.arcs());
        if nodes == 0 {
            return Err(Error::Empty { rows: 0, cols: 0 });
        }
        if nodes >= NODE_LIMIT || arcs >= NODE_LIMIT {
            return Err(Error::Length {
                what: "nodes and arcs of a network, each at most",
                expected: NODE_LIMIT - 1,
                found: nodes.max(arcs),
            });
        }
        if let Some(index) = self.stray {
            return Err(Error::Index {
                what: "node",
                index,
                len: nodes,
            });
        }
        if let Some(node) = self
            .supply
            .iter()
            .position(|b| !(b.abs() <= LARGEST_SUPPLY))
        {
            return Err(Error::Supply {
                node,
                value: self.supply[node],
            });
        }
        // Sums of costs along a path must stay finite.
        let most = <f64 as crate::Real>::LARGEST_COST;
        for (arc, (&cost, &bounds)) in self.cost.iter().zip(&self.bounds).enumerate() {
            if !(cost.abs() <= most) || !bounds.are_sound() {
                let Bounds { lower, upper } = bounds;
                return Err(Error::Arc {
                    arc,
                    cost,
                    lower,
                    upper,
                });
            }
        }
        let part = |sign: f64| {
            let kept: Vec<f64> = self.supply.iter().map(|b| (sign * b).max(0.0)).collect();
            sum(&kept)
        };
        let (rows, cols) = (part(1.0), part(-1.0));
        let tolerance = <f64 as crate::Real>::MASS_TOLERANCE * rows.max(cols);
        if !((rows - cols).abs() <= tolerance) {
            return Err(Error::Unbalanced {
                rows,
                cols,
                tolerance,
            });
        }
        Ok(())
    }
}

/// Supplies beyond this could not be added up or priced.
const LARGEST_SUPPLY: f64 = 1e150;

/// Nodes and arcs (and one artificial arc per node) are counted in 32 bits.
pub(crate) const NODE_LIMIT: usize = 1 << 30;
