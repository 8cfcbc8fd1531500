//! The answer to a network, and its proof, evaluated from the data alone.

use super::certificate::{Reduced, certify};
use super::network::{ArcId, Network};
use super::simplex::Simplex;
use super::tree::Price;
use crate::kernel::rounding::{ARTIFICIAL, CANCELLED, Double};
use crate::{Certificate, Error, Status};

/// A flow, the node potentials that prove it, and the proof.
///
/// # Examples
/// ```
/// use earthmover::flow::{MinCostFlow, Network};
/// let mut network = Network::new(2);
/// network.supply(0, 1.0).supply(1, -1.0);
/// let arc = network.arc(0, 1, 5.0, ..);
/// let solution = MinCostFlow::new().solve(&network)?;
/// assert!(solution.status().is_converged());
/// assert_eq!(solution.flow(arc), 1.0);
/// assert_eq!(solution.potential(0) - solution.potential(1), 5.0);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "look at `status` before trusting the answer"]
pub struct FlowSolution {
    flow: Vec<f64>,
    potentials: Vec<f64>,
    reduced: Vec<f64>,
    certificate: Certificate,
    status: Status,
    iterations: usize,
}

impl FlowSolution {
    /// How the solver ended.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Pivots made.
    #[must_use]
    pub fn iterations(&self) -> usize {
        self.iterations
    }

    /// Flow on an arc; NaN for an arc of another network.
    #[must_use]
    pub fn flow(&self, arc: ArcId) -> f64 {
        self.flow.get(arc.0).copied().unwrap_or(f64::NAN)
    }

    /// Flows in the order in which the arcs were added.
    #[must_use]
    pub fn flows(&self) -> &[f64] {
        &self.flow
    }

    /// Dual variable π of a node: what one more unit of supply there (and of demand where π = 0) would
    /// cost; NaN for a node of another network. Potentials are defined up to a constant.
    #[must_use]
    pub fn potential(&self, node: usize) -> f64 {
        self.potentials.get(node).copied().unwrap_or(f64::NAN)
    }

    /// The potentials of all nodes.
    #[must_use]
    pub fn potentials(&self) -> &[f64] {
        &self.potentials
    }

    /// `c − π_from + π_to`: by how much the cost grows per unit by which the bound that holds the arc is
    /// raised. Positive only at a lower bound, negative only at an upper one.
    #[must_use]
    pub fn reduced_cost(&self, arc: ArcId) -> f64 {
        self.reduced.get(arc.0).copied().unwrap_or(f64::NAN)
    }

    /// Cost of the flow.
    #[must_use]
    pub fn cost(&self) -> f64 {
        self.certificate.objective
    }

    /// Bounds on the optimum and the true error of the flow, evaluated from the network's data.
    ///
    /// `violation` is Σ_v |Σ out − Σ in − b_v| plus what bounds are overstepped by, over `mass`, the larger
    /// of the total supply and the largest flow on an arc. `primal` is the flow's cost, +∞ where the
    /// violation is more than rounding. Bounds are rounded outwards and hold up to the last digit of the supplies; the dual is −∞
    /// where a solve was stopped with prices that no bound holds.
    ///
    /// # Examples
    /// ```
    /// use earthmover::flow::{MinCostFlow, Network};
    /// let mut network = Network::new(2);
    /// network.arc(0, 1, -2.0, ..=3.0);
    /// network.arc(1, 0, 1.0, ..=5.0);
    /// let solution = MinCostFlow::new().solve(&network)?;
    /// let proof = solution.certificate();
    /// assert_eq!((proof.primal, proof.dual, proof.violation), (-3.0, -3.0, 0.0));
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    #[must_use]
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }
}

/// Turns the last basis into an answer.
pub(super) fn conclude(
    network: &Network,
    mut simplex: Simplex,
    status: Status,
    iterations: usize,
) -> Result<FlowSolution, Error> {
    let stranded = simplex.settle(&network.supply);
    let total = simplex.total;
    let rounding = (ARTIFICIAL * total).max(CANCELLED * simplex.handled);
    if status.is_converged() && stranded > rounding {
        return Err(Error::Infeasible { stranded, total });
    }
    let potentials = one_part(&simplex);
    let mut flow = simplex.flow;
    flow.truncate(network.arcs());
    let reduced: Vec<Reduced> = (0..network.arcs())
        .map(|a| {
            let (from, to) = (network.from[a] as usize, network.to[a] as usize);
            Reduced::new(network.cost[a], potentials[from], potentials[to])
        })
        .collect();
    let proof = certify(network, &flow, &potentials, &reduced);
    Ok(FlowSolution {
        flow,
        potentials: potentials.iter().map(|p| p.high + p.low).collect(),
        // A difference that rounding explains is none; see `MinCostFlow`.
        reduced: reduced
            .iter()
            .map(|r| if r.is_significant { r.value } else { 0.0 })
            .collect(),
        certificate: proof.certificate,
        // Costs of so many magnitudes that twice the digits do not hold them.
        status: if status.is_converged() && !proof.is_closed {
            Status::Stalled
        } else {
            status
        },
        iterations,
    })
}

/// The two-part potentials as single numbers, with the least M that keeps every reduced cost's sign.
fn one_part(simplex: &Simplex) -> Vec<Double> {
    let nodes = simplex.tree.root();
    let prices: Vec<_> = (0..nodes)
        .map(|v| simplex.tree.price(v, &simplex.cost))
        .collect();
    let mut large = 0.0f64;
    for a in 0..simplex.real {
        let (from, to) = (
            prices[simplex.from[a] as usize],
            prices[simplex.to[a] as usize],
        );
        let place = f64::from(simplex.place[a]);
        if place * (to.side - from.side) > 0.0 {
            let r = Reduced::new(simplex.cost[a], from.double(), to.double()).value;
            large = large.max(-0.5 * place * r);
        }
    }
    let whole = |p: &Price| Double::difference(p.value, -large * p.side.signum()).less(-p.low);
    prices.iter().map(whole).collect()
}
