//! Exact answers from short lists of pairs.
//!
//! ```text
//! prices g  →  for each row and column the few pairs of least C_ij − f_i − g_j  →  an optimal flow on those pairs
//!           →  one look at all pairs at its prices: those with C_ij < f_i + g_j join the list  →  again, until there are none
//! ```
//!
//! Near the optimal prices hardly any pair is close to tight, so the list holds nearly all of the answer, and what it lacks the
//! look at all pairs finds: one to four rounds in practice. On the list shortest augmenting paths ([`paths`]) start from the
//! prices as they are and, in later rounds, from the flow as it is.
//!
//! Prices come from an entropic solve, whose smooth potentials are balanced on every scale ([`prices`]): of the clusters of a
//! few points each in low dimension, of the problem itself in high. Pairs are found by boxes around nearby points in low dimension
//! ([`nearby`]) and by reading every row and column otherwise ([`scan`]).

pub(in crate::exact) mod index;
pub(in crate::exact) mod nearby;
mod pairs;
mod paths;
pub(in crate::exact) mod prices;
pub(in crate::exact) mod scan;

use core::ops::ControlFlow;

use self::pairs::Pairs;
use self::paths::{End, Flow, Unit};
use crate::kernel::rounding::UNPLACED;

/// Pairs listed for each row and for each column at first, and how often that is doubled where they have no room for all mass.
const FEW: usize = 8;
const DOUBLINGS: u32 = 4;

/// Pairs as (row, column, cost).
type List = Vec<(u32, u32, f64)>;

/// Where the pairs of a problem are found.
pub(in crate::exact) trait Source {
    /// The `few` pairs of least `C_ij − f_i − g_j` of every row and column, where f is the most that g allows; then g is
    /// raised to the most that f allows.
    fn short_list(&mut self, g: &mut [f64], few: usize) -> List;

    /// Pairs with `C_ij < f_i + g_j`, the worst few of each row.
    fn violated(&mut self, f: &[f64], g: &[f64]) -> List;
}

/// How the rounds ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exact) enum Outcome {
    /// No pair is cheaper than its prices say.
    Optimal,
    /// Stopped, or no list that was tried has room for all mass: the plan is short of some.
    Partial,
}

/// A plan and its column prices.
pub(in crate::exact) struct Found {
    pub(in crate::exact) arcs: Vec<(usize, usize, f64)>,
    pub(in crate::exact) g: Vec<f64>,
    pub(in crate::exact) outcome: Outcome,
}

/// Rounds until no pair is cheaper than its prices say, or until `before` a phase, told which share of the mass has no place
/// yet, says to stop. `None` where the prices are so far off that another way is likely to be done sooner.
pub(in crate::exact) fn rounds(
    source: &mut dyn Source,
    masses: (&[f64], &[f64]),
    mut g: Vec<f64>,
    mut before: impl FnMut(f64) -> ControlFlow<()>,
) -> Option<Found> {
    let total: f64 = masses.0.iter().sum();
    let mut few = FEW;
    let list = source.short_list(&mut g, few);
    let sizes = list.iter().map(|p| p.2).chain(g.iter().copied());
    let unit = Unit::new(sizes.fold(0.0, |m: f64, c| m.max(c.abs())));
    let counted = |list: List| -> Vec<(u32, u32, i64)> {
        let each = list.into_iter().filter(|p| unit.holds(p.2));
        each.map(|(i, j, c)| (i, j, unit.count(c))).collect()
    };
    let values = |prices: &[i64]| prices.iter().map(|&p| unit.value(p)).collect::<Vec<f64>>();
    let pairs = Pairs::new(masses.0.len(), &counted(list));
    let prices = g.iter().map(|&g| unit.count(g)).collect();
    let mut flow = Flow::new(pairs, masses, prices);
    loop {
        flow.settle();
        let end = flow.run(|unplaced| before(unplaced / total));
        g = values(&flow.g);
        let more = match end {
            End::Stuck(left) if left > UNPLACED * total => {
                if few >= FEW << DOUBLINGS {
                    break;
                }
                few *= 2;
                counted(source.short_list(&mut g, few))
            }
            End::Stopped => break,
            End::TooLong => return None,
            End::Placed | End::Stuck(_) => {
                let mut more = counted(source.violated(&values(&flow.f), &g));
                more.retain(|&(i, j, c)| c < flow.f[i as usize] + flow.g[j as usize]);
                if more.is_empty() {
                    return Some(Found {
                        arcs: flow.entries().collect(),
                        g,
                        outcome: Outcome::Optimal,
                    });
                }
                more
            }
        };
        flow.extend(&more);
    }
    Some(Found {
        arcs: flow.entries().collect(),
        g,
        outcome: Outcome::Partial,
    })
}
