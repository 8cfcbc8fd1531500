//! Random problems, as free strategies.
//!
//! Masses are the marginals of a random plan, so that every problem has an answer, forbidden pairs, slack
//! and rows of no mass included. Masses are often small whole numbers and costs often equal: ties and
//! degeneracy are the rule.

use earthmover::{Marginals, Penalty, Reference, Slack};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::costs::Kind;

/// A problem as plain numbers, from which each kind of cost takes what it needs.
#[derive(Debug, Clone)]
pub struct Case {
    pub rows: usize,
    pub cols: usize,
    /// Costs for the kinds that are tables; +∞ where forbidden.
    pub table: Vec<f64>,
    /// Points for the kinds that are clouds.
    pub here: Vec<f64>,
    pub there: Vec<f64>,
    pub dimension: usize,
    pub marginals: Marginals,
    /// Numbers for whatever a law wants to vary.
    pub noise: Vec<f64>,
}

/// Which problems to draw.
#[derive(Debug, Clone, Copy)]
pub struct Draw {
    pub largest: usize,
    pub slack: bool,
    pub forbidden: bool,
    pub penalties: Penalties,
}

/// What sides may pay for other masses than their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Penalties {
    /// Nothing: masses are kept.
    None,
    /// What an exact solver has a vertex for.
    Tv,
    Any,
}

impl Draw {
    pub const SMALL: Self = Self {
        largest: 6,
        slack: true,
        forbidden: true,
        penalties: Penalties::None,
    };

    /// Small problems for this kind of cost. Clouds have no forbidden pairs; masses that leave no choice but
    /// zero for an allowed pair are an entropic solver's worst case, and not what the laws are about.
    pub fn small(kind: Kind) -> Self {
        Self {
            forbidden: kind.is_table(),
            ..Self::SMALL
        }
    }

    /// The same with penalised masses, and totals that differ.
    pub fn penalised(kind: Kind, penalties: Penalties) -> Self {
        Self {
            slack: false,
            penalties,
            ..Self::small(kind)
        }
    }
}

/// Masses of a random plan as penalised ones: sides of other totals, τ over six decades, at least one side penalised.
fn penalised(penalties: Penalties, a: &[f64], b: &[f64], noise: &[f64]) -> Marginals {
    // From the end: the first says whether pairs are forbidden.
    let at = |k: usize| noise[noise.len() - 1 - k % noise.len()];
    // One that `f32` holds too can be written into either scalar.
    let tau = |k: usize| f64::from(10f64.powf(3.0 * at(k)) as f32);
    let penalty = |k: usize| match (penalties, at(k) > 0.0) {
        (Penalties::Any, true) => Penalty::Kl(tau(k + 1)),
        _ => Penalty::Tv(tau(k + 1)),
    };
    let (rows, cols) = match at(4) {
        x if x > 0.5 => (penalty(0), Penalty::Exact),
        x if x > 0.0 => (Penalty::Exact, penalty(2)),
        _ => (penalty(0), penalty(2)),
    };
    let heavier: Vec<f64> = b.iter().map(|b| b * 4f64.powf(at(5))).collect();
    let reference = if at(6) > 0.3 {
        Reference::Counting
    } else {
        Reference::Product
    };
    let marginals = Marginals::relaxed(a, &heavier, rows, cols).unwrap();
    marginals.with_reference(reference)
}

/// Costs from 0 to 1: any number, or one of a few, so that there are ties.
fn cost() -> impl Strategy<Value = f64> {
    prop_oneof![
        2 => 0.0..1.0f64,
        1 => prop::sample::select(vec![0.0, 0.25, 0.5, 1.0]),
    ]
}

/// Slack costs are `f64` beside costs of any scalar: one that `f32` holds too can be written into either.
fn price() -> impl Strategy<Value = f64> {
    cost().prop_map(|c| f64::from(c as f32))
}

/// Masses above zero: any, or one of a few.
fn mass() -> impl Strategy<Value = f64> {
    prop_oneof![0.05..1.0f64, prop::sample::select(vec![0.25, 0.5, 1.0]),]
}

/// A random problem.
pub fn case(draw: Draw) -> impl Strategy<Value = Case> {
    let shape = (1..=draw.largest, 1..=draw.largest, 1..4usize);
    shape.prop_flat_map(move |(rows, cols, dimension)| {
        let cells = (rows + 1) * (cols + 1);
        let slack = if draw.slack { 0..4u8 } else { 0..1 };
        (
            vec(cost(), rows * cols),
            vec(
                prop::bool::weighted(if draw.forbidden { 0.25 } else { 0.0 }),
                rows * cols,
            ),
            vec(mass(), cells),
            vec(prop::bool::weighted(0.1), rows + cols),
            slack,
            (price(), price(), price(), any::<bool>()),
            vec(-0.5..0.5f64, (rows + cols) * dimension),
            vec(-1.0..1.0f64, 2 * (rows + cols)),
        )
            .prop_map(
                move |(mut table, closed, plan, mut idle, slack, prices, points, noise)| {
                    // Every other problem is free of forbidden pairs.
                    let mut closed: Vec<bool> = if noise[0] > 0.0 {
                        closed
                    } else {
                        vec![false; rows * cols]
                    };
                    // Something must move: the first row gives to the first column.
                    closed[0] = false;
                    (idle[0], idle[rows]) = (false, false);
                    let (with_row, with_col) = (slack & 1 == 1, slack & 2 == 2);
                    let mut masses = plan;
                    for at in 0..masses.len() {
                        let (i, j) = (at / (cols + 1), at % (cols + 1));
                        let open = match (i < rows, j < cols) {
                            (true, true) => !closed[i * cols + j] && !idle[i] && !idle[rows + j],
                            (true, false) => with_col && !idle[i],
                            (false, true) => with_row && !idle[rows + j],
                            (false, false) => with_row && with_col && prices.3,
                        };
                        if !open {
                            masses[at] = 0.0;
                        }
                    }
                    for (c, closed) in table.iter_mut().zip(&closed) {
                        if *closed {
                            *c = f64::INFINITY;
                        }
                    }
                    let row = |i: usize| masses[i * (cols + 1)..][..cols + 1].iter().sum::<f64>();
                    let col = |j: usize| masses.iter().skip(j).step_by(cols + 1).sum::<f64>();
                    let a: Vec<f64> = (0..rows).map(row).collect();
                    let b: Vec<f64> = (0..cols).map(col).collect();
                    let slack = Slack::new(row(rows), col(cols))
                        .row_cost(prices.0)
                        .col_cost(prices.1)
                        .corner_cost(if prices.3 { prices.2 } else { f64::INFINITY });
                    let (here, there) = points.split_at(rows * dimension);
                    let marginals = match draw.penalties {
                        Penalties::None => Marginals::with_slack(&a, &b, slack).unwrap(),
                        some => penalised(some, &a, &b, &noise),
                    };
                    Case {
                        rows,
                        cols,
                        table,
                        here: here.to_vec(),
                        there: there.to_vec(),
                        dimension,
                        marginals,
                        noise,
                    }
                },
            )
    })
}
