//! Bounded transport as a flow through layers, each sum the flow on one arc:
//!
//! ```text
//! source ──rows──► row i ──C_ij──► column j ──columns──► groups ──groups──► … ──► sink ──total──► source
//! ```
//!
//! The reduced cost of each arc is the shadow price of its bounds. Groups must be *laminar* (nested or disjoint): only
//! then does mass pass through them one after the other.

use super::question::Question;
use super::solution::{BoundedSolution, Prices};
use crate::flow::{ArcId, Bounds, MinCostFlow, Network};
use crate::{Certificate, Entry, Error, OwnedPlan};

/// The least cost of moving mass within the bounds.
pub(super) fn flow(question: &Question, solver: &MinCostFlow) -> Result<BoundedSolution, Error> {
    let network = layers(question, |cost| cost);
    let flow = solver.solve(&network)?;
    let (rows, k) = (question.rows.len(), question.tree.cols);
    let sums = rows + question.tree.bounds.len();
    let allowed = question.costs.iter().enumerate();
    let allowed = allowed.filter(|(_, c)| c.is_finite()).map(|(at, _)| at);
    let entries = allowed.enumerate().map(|(arc, at)| Entry {
        row: at / k,
        col: at % k,
        mass: flow.flow(ArcId(sums + arc)),
    });
    let entries: Vec<Entry> = entries.filter(|e| e.mass > 0.0).collect();
    let mass = entries.iter().map(|e| e.mass).sum();
    let price = |arc| flow.reduced_cost(ArcId(arc));
    // Potentials are defined up to a constant: the one that makes a row's its price.
    let source = flow.potential(0);
    let cols = 2 + rows..2 + rows + k;
    Ok(BoundedSolution {
        plan: OwnedPlan::Sparse {
            rows,
            cols: k,
            entries,
        },
        prices: Prices {
            rows: (0..rows).map(price).collect(),
            nodes: (rows..sums).map(price).collect(),
        },
        row_potentials: (2..2 + rows).map(|v| flow.potential(v) - source).collect(),
        col_potentials: cols.map(|v| source - flow.potential(v)).collect(),
        certificate: Certificate {
            mass,
            ..*flow.certificate()
        },
        status: flow.status(),
        iterations: flow.iterations(),
        epsilon: 0.0,
        cap: question.cap,
    })
}

/// Whether any plan keeps the bounds.
pub(super) fn feasible(question: &Question, solver: &MinCostFlow) -> Result<(), Error> {
    solver.solve(&layers(question, |_| 0.0)).map(drop)
}

/// The layered graph: node 0 the source, 1 the sink, then rows, columns, groups. Its arcs are the rows, the nodes of the
/// tree, and the pairs that are allowed.
fn layers(question: &Question, price: impl Fn(f64) -> f64) -> Network {
    let (rows, tree) = (question.rows.len(), &question.tree);
    let (source, sink) = (0, 1);
    let row = |i: usize| 2 + i;
    let node = |v: usize| {
        if v == tree.root() { sink } else { 2 + rows + v }
    };
    let mut network = Network::new(1 + rows + tree.bounds.len());
    network.reserve(rows + tree.bounds.len() + question.costs.len());
    for (i, &bounds) in question.rows.iter().enumerate() {
        network.arc(source, row(i), 0.0, bounds);
    }
    for (v, &bounds) in tree.bounds.iter().enumerate() {
        let above = tree.parent(v).map_or(source, node);
        network.arc(node(v), above, 0.0, bounds);
    }
    let cap = Bounds::from(..=question.cap);
    for (at, &cost) in question.costs.iter().enumerate() {
        if cost < f64::INFINITY {
            let (i, j) = (at / tree.cols, at % tree.cols);
            network.arc(row(i), node(j), price(cost), cap);
        }
    }
    network
}
