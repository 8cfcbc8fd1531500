//! The proof of a flow, evaluated from the network's data alone.
//!
//! ```text
//! Σ_v b_v π_v + Σ_a min { r_a x : l_a ≤ x ≤ u_a }   ≤   optimum   ≤   Σ_a c_a x_a,      r_a = c_a − π_from(a) + π_to(a)
//! ```
//!
//! Potentials, reduced costs and sums are kept to twice the digits, and what is lost all the same is taken off the lower bound and put
//! onto the upper one. Where nothing is lost, as with whole numbers, nothing is moved. A balance that is off by rounding is priced at
//! the potential of its node: the optimum is known to the last digit of the supplies, no better.
//!
//! An arc without an upper bound whose reduced cost is a little below zero by rounding would make the lower bound −∞. But an optimal
//! flow need not go round in circles that cost something, so that no arc carries more than all supplies together, and
//! what arcs of negative cost can send round.

use super::Bounds;
use super::network::Network;
use crate::Certificate;
use crate::kernel::rounding::{CLOSED, DIGITS, Double, REDUCED_COST, Sum, Tally};

/// A reduced cost to twice the digits, and by how much rounding may have moved it all the same.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reduced {
    pub(super) value: f64,
    low: f64,
    error: f64,
    /// Whether it differs from zero by more than the digits of the costs explain.
    pub(super) is_significant: bool,
}

impl Reduced {
    /// `cost − from + to`.
    #[inline]
    pub(super) fn new(cost: f64, from: Double, to: Double) -> Self {
        let apart = Double::difference(to.high, from.high);
        let all = Double::difference(apart.high, -cost);
        let low = (apart.low + all.low) + (to.low - from.low);
        let is_exact = low == 0.0;
        let Double { high: value, low } = Double::difference(all.high, -low);
        let blur = DIGITS * (cost.abs() + from.high.abs() + to.high.abs());
        Self {
            value,
            low,
            error: if is_exact { 0.0 } else { 16.0 * blur },
            is_significant: value.abs()
                > REDUCED_COST * (cost.abs() + apart.high.abs() + 64.0 * blur),
        }
    }
}

/// What an optimal flow on an arc cannot exceed beyond its lower bound, where the cost has a minimum.
struct Reach {
    most: f64,
    /// Whether it has one for sure: every arc of negative cost has an upper bound.
    is_bounded: bool,
}

impl Reach {
    fn new(network: &Network) -> Self {
        let mut excess = network.supply.clone();
        let (mut round, mut anything) = (0.0, 0.0);
        let mut is_bounded = true;
        for (a, bounds) in network.bounds.iter().enumerate() {
            excess[network.from[a] as usize] -= bounds.lower;
            excess[network.to[a] as usize] += bounds.lower;
            let width = bounds.upper - bounds.lower;
            let is_finite = width < f64::INFINITY;
            anything += if is_finite { width } else { 0.0 };
            if network.cost[a] < 0.0 {
                round += if is_finite { width } else { 0.0 };
                is_bounded &= is_finite;
            }
        }
        let supplied: f64 = excess.iter().map(|e| e.max(0.0)).sum();
        Self {
            most: supplied + if is_bounded { round } else { anything },
            is_bounded,
        }
    }

    /// The upper bound of an arc in the light of this.
    fn upper(&self, bounds: Bounds) -> f64 {
        bounds.upper.min(bounds.lower + self.most)
    }
}

/// Bounds, and whether they meet as far as rounding lets them.
pub(super) struct Proof {
    pub(super) certificate: Certificate,
    pub(super) is_closed: bool,
}

pub(super) fn certify(
    network: &Network,
    flow: &[f64],
    potentials: &[Double],
    reduced: &[Reduced],
) -> Proof {
    let mut balance = vec![Sum::default(); network.nodes()];
    for (balance, b) in balance.iter_mut().zip(&network.supply) {
        balance.add(-b);
    }
    let reach = Reach::new(network);
    let (mut overstepped, mut widest) = (0.0f64, 0.0f64);
    let (mut spent, mut worth) = (Tally::default(), Tally::default());
    let mut has_bound = true;
    for (a, (&x, r)) in flow.iter().zip(reduced).enumerate() {
        let bounds = network.bounds[a];
        if network.from[a] != network.to[a] {
            balance[network.from[a] as usize].add(x);
            balance[network.to[a] as usize].add(-x);
        }
        overstepped += bounds.distance(x);
        widest = widest.max(x.abs());
        spent.add(network.cost[a], x);
        let upper = reach.upper(bounds);
        let cheapest = if r.value > 0.0 {
            bounds.lower
        } else {
            has_bound &= reach.is_bounded || !r.is_significant || bounds.upper < f64::INFINITY;
            upper
        };
        worth.add(r.value, cheapest);
        worth.add(r.low, cheapest);
        if r.error > 0.0 {
            worth.blur += r.error * bounds.lower.abs().max(upper.abs());
        }
    }
    let balance: Vec<f64> = balance.into_iter().map(Sum::value).collect();
    // Only differences of potentials matter: where they are small, little is lost.
    let centre = centre(potentials);
    let mut tilt = Sum::default();
    let (mut highest, mut unsettled) = (0.0f64, 0.0f64);
    for ((b, p), off) in network.supply.iter().zip(potentials).zip(&balance) {
        let from_centre = Double::difference(p.high, centre);
        let (high, low) = (from_centre.high, from_centre.low + p.low);
        worth.add(*b, high);
        worth.add(*b, low);
        tilt.add(*b);
        highest = highest.max(high.abs());
        unsettled += 2.0 * off.abs() * high.abs();
    }
    unsettled += 2.0 * overstepped * highest;
    worth.blur += tilt.value().abs() * highest;

    let supplied: f64 = network.supply.iter().map(|b| b.max(0.0)).sum();
    let mass = supplied.max(widest);
    let off: f64 = balance.iter().map(|b| b.abs()).sum::<f64>() + overstepped;
    let violation = if mass > 0.0 { off / mass } else { off };
    let objective = spent.value.value();
    let is_feasible = violation <= <f64 as crate::Real>::MASS_TOLERANCE;
    let outwards = [spent.error() + unsettled, worth.error()];
    let (primal, dual) = (objective + outwards[0], worth.value.value() - outwards[1]);
    let certificate = Certificate {
        primal: if is_feasible { primal } else { f64::INFINITY },
        dual: if has_bound && !dual.is_nan() {
            dual
        } else {
            f64::NEG_INFINITY
        },
        objective,
        violation,
        mass,
    };
    let moved = 4.0 * (outwards[0] + outwards[1]);
    Proof {
        is_closed: certificate.gap() <= CLOSED * spent.size + moved,
        certificate,
    }
}

/// The middle of all potentials.
fn centre(potentials: &[Double]) -> f64 {
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    let (least, most) = potentials.iter().fold(ends, |(least, most), p| {
        (least.min(p.high), most.max(p.high))
    });
    let centre = 0.5 * least + 0.5 * most;
    // Whole numbers stay whole.
    let centre = centre.round();
    if centre.is_finite() { centre } else { 0.0 }
}
