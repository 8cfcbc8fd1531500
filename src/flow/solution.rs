//! The answer to a network, and its proof, evaluated from the data alone.

use super::network::{ArcId, Network};
use super::simplex::{Simplex, is_significant};
use crate::kernel::rounding::{ARTIFICIAL, sum};
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
    /// violation is more than rounding. Unlike those of a transport plan, these bounds are plain sums and hold up to the
    /// rounding of their terms; the dual is −∞ where a solve was stopped with prices that no bound holds.
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
    if status.is_converged() && stranded > ARTIFICIAL * total {
        return Err(Error::Infeasible { stranded, total });
    }
    let potentials = one_part(&simplex);
    let mut flow = simplex.flow;
    flow.truncate(network.arcs());
    let reduced: Vec<f64> = (0..network.arcs())
        .map(|a| {
            let (from, to) = (network.from[a] as usize, network.to[a] as usize);
            let r = network.cost[a] - potentials[from] + potentials[to];
            // A difference that rounding explains is none; see `MinCostFlow`.
            if is_significant(r, network.cost[a], potentials[from], potentials[to]) {
                r
            } else {
                0.0
            }
        })
        .collect();
    let certificate = certify(network, &flow, &potentials, &reduced);
    Ok(FlowSolution {
        flow,
        potentials,
        reduced,
        certificate,
        status,
        iterations,
    })
}

/// The two-part potentials as single numbers, with the least M that keeps every reduced cost's sign.
fn one_part(simplex: &Simplex) -> Vec<f64> {
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
        let (r, place) = (
            simplex.cost[a] - from.value + to.value,
            f64::from(simplex.place[a]),
        );
        if place * (to.side - from.side) > 0.0 {
            large = large.max(-0.5 * place * r);
        }
    }
    prices
        .iter()
        .map(|p| p.value + large * p.side.signum())
        .collect()
}

fn certify(network: &Network, flow: &[f64], potentials: &[f64], reduced: &[f64]) -> Certificate {
    let mut balance: Vec<f64> = network.supply.iter().map(|b| -b).collect();
    let (mut overstepped, mut widest) = (0.0f64, 0.0f64);
    let mut spent = Vec::with_capacity(flow.len());
    let mut worth = Vec::with_capacity(flow.len() + potentials.len());
    worth.extend(network.supply.iter().zip(potentials).map(|(b, p)| b * p));
    for (a, (&x, &r)) in flow.iter().zip(reduced).enumerate() {
        let bounds = network.bounds[a];
        if network.from[a] != network.to[a] {
            balance[network.from[a] as usize] += x;
            balance[network.to[a] as usize] -= x;
        }
        overstepped += (bounds.lower - x).max(x - bounds.upper).max(0.0);
        widest = widest.max(x.abs());
        spent.push(network.cost[a] * x);
        if r != 0.0 {
            worth.push(r * if r > 0.0 { bounds.lower } else { bounds.upper });
        }
    }
    let supplied: f64 = network.supply.iter().map(|b| b.max(0.0)).sum();
    let mass = supplied.max(widest);
    let off: f64 = balance.iter().map(|b| b.abs()).sum::<f64>() + overstepped;
    let violation = if mass > 0.0 { off / mass } else { off };
    let objective = sum(&spent);
    // −∞ must not meet the compensation of the sum.
    let dual = if worth.contains(&f64::NEG_INFINITY) {
        f64::NEG_INFINITY
    } else {
        sum(&worth)
    };
    Certificate {
        primal: if violation <= <f64 as crate::Real>::MASS_TOLERANCE {
            objective
        } else {
            f64::INFINITY
        },
        dual,
        objective,
        violation,
        mass,
    }
}
