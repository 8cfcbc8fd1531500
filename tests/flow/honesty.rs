//! No false word about a network: numbers of 10³ to 10²⁴ for arcs that nobody should use, units over many decades, stopped at
//! any pivot. Held against cycle cancelling in whole numbers, which rounds nothing.

use core::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use earthmover::Status;
use earthmover::flow::{Bounds, MinCostFlow, Network};
use earthmover_testkit::Rng;
use proptest::prelude::*;

/// An arc of whole numbers: from, to, cost, lower and upper bound, a feasible flow.
type Arc = (usize, usize, i128, i128, i128, i128);

/// A network around a feasible flow, in whole numbers.
fn network(draw: &mut Rng) -> (usize, Vec<Arc>) {
    let nodes = 2 + draw.below(8);
    // A power of two times whole numbers, as large as is exact.
    let large = match draw.below(3) {
        0 => 0,
        1 => 10i128.pow(3 + draw.below(13) as u32),
        _ => 1 << (54 + draw.below(26)),
    };
    let mut arcs = Vec::new();
    for _ in 0..draw.below(30) {
        let (from, to) = (draw.below(nodes), draw.below(nodes));
        let x = draw.below(6) as i128;
        let cost = if large > 0 && draw.chance(0.4) {
            large
        } else {
            draw.below(40) as i128 - 10
        };
        let (lower, upper) = (x - draw.below(4) as i128, x + draw.below(5) as i128);
        arcs.push((from, to, cost, lower, upper, x));
    }
    (nodes, arcs)
}

/// The optimum: negative cycles of what is left, until there is none.
fn optimum(nodes: usize, arcs: &[Arc]) -> i128 {
    let mut flow: Vec<i128> = arcs.iter().map(|a| a.5).collect();
    loop {
        let mut distance = vec![0i128; nodes];
        let mut by: Vec<Option<(usize, bool)>> = vec![None; nodes];
        let mut last = None;
        for _ in 0..nodes {
            last = None;
            for (a, &(from, to, cost, lower, upper, _)) in arcs.iter().enumerate() {
                if flow[a] < upper && distance[from] + cost < distance[to] {
                    (distance[to], by[to], last) =
                        (distance[from] + cost, Some((a, true)), Some(to));
                }
                if flow[a] > lower && distance[to] - cost < distance[from] {
                    (distance[from], by[from], last) =
                        (distance[to] - cost, Some((a, false)), Some(from));
                }
            }
        }
        let Some(mut node) = last else {
            return arcs.iter().zip(&flow).map(|(a, x)| a.2 * x).sum();
        };
        let before = |node: usize| {
            let (a, forward) = by[node].unwrap();
            (a, forward, if forward { arcs[a].0 } else { arcs[a].1 })
        };
        for _ in 0..nodes {
            node = before(node).2;
        }
        let (start, mut cycle) = (node, Vec::new());
        loop {
            let (a, forward, next) = before(node);
            cycle.push((a, forward));
            node = next;
            if node == start {
                break;
            }
        }
        let room = cycle.iter().map(|&(a, forward)| match forward {
            true => arcs[a].4 - flow[a],
            false => flow[a] - arcs[a].3,
        });
        let room = room.min().unwrap();
        for (a, forward) in cycle {
            flow[a] += if forward { room } else { -room };
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn bounds_hold_the_optimum(seed: u64) {
        let mut draw = Rng(seed);
        let (nodes, arcs) = network(&mut draw);
        // Powers of two change no digit.
        let unit = 2f64.powi(draw.below(120) as i32 - 60);
        let weight = 2f64.powi(draw.below(120) as i32 - 60);
        let unbounded = draw.chance(0.2);
        let mut posed = Network::new(nodes);
        let mut supply = vec![0i128; nodes];
        for &(from, to, cost, lower, upper, x) in &arcs {
            supply[from] += x;
            supply[to] -= x;
            let bounds = Bounds {
                lower: lower as f64 * weight,
                upper: if unbounded && cost >= 0 {
                    f64::INFINITY
                } else {
                    upper as f64 * weight
                },
            };
            posed.arc(from, to, cost as f64 * unit, bounds);
        }
        for (node, &b) in supply.iter().enumerate() {
            posed.supply(node, b as f64 * weight);
        }
        let wide: Vec<Arc> = arcs
            .iter()
            .map(|&(f, t, c, l, u, x)| (f, t, c, l, if unbounded && c >= 0 { 1 << 40 } else { u }, x))
            .collect();
        let best = optimum(nodes, &wide) as f64 * (unit * weight);
        let found = MinCostFlow::new().solve(&posed).unwrap();
        let proof = *found.certificate();
        prop_assert_eq!(found.status(), Status::Converged, "{:?} {:e}", proof, best);
        prop_assert!(proof.violation == 0.0 && proof.primal < f64::INFINITY, "{:?}", proof);
        prop_assert!(proof.dual <= best && best <= proof.primal, "{:?} {:e}", proof, best);
        // Costs are taken to be rounded themselves: a path that is better by the last digits of its dearest arc is no better.
        let dearest = arcs.iter().map(|a| a.2.abs()).max().unwrap_or(0) as f64;
        let digits = if dearest < 1e12 { 0.0 } else { 64.0 * f64::EPSILON };
        let spent: f64 = found.flows().iter().zip(&arcs).map(|(x, a)| (x * a.2 as f64).abs()).sum();
        // And thirty digits are kept: of costs that are farther apart, bounds know the larger ones only.
        let apart = digits * spent * unit + 1e-28 * proof.mass.max(32.0 * weight) * dearest * unit;
        prop_assert!(proof.gap() <= 1e-14 * best.abs() + apart, "{:?} {:e}", proof, best);
        prop_assert!(found.cost() - best <= apart, "{:?} {:e}", proof, best);
        for cap in 0..found.iterations() {
            let capped = MinCostFlow::new().max_iterations(cap).solve(&posed).unwrap();
            let proof = *capped.certificate();
            prop_assert_eq!(capped.status(), Status::IterationLimit);
            prop_assert!(proof.dual <= best && best <= proof.primal, "{} {:?} {:e}", cap, proof, best);
            // What it says about itself is so.
            prop_assert_eq!(proof.primal < f64::INFINITY, proof.violation <= 1e-6);
        }
    }

    #[test]
    fn supplies_that_round_are_held_too(seed: u64, unit in -12.0f64..12.0) {
        let mut draw = Rng(seed);
        let (nodes, arcs) = network(&mut draw);
        let unit = 10f64.powf(unit);
        let mut posed = Network::new(nodes);
        let mut supply = vec![0.0; nodes];
        let mut anyhow = 0.0;
        for &(from, to, cost, lower, upper, _) in &arcs {
            let (lower, upper) = (unit * (lower as f64 + draw.unit() - 1.0), unit * upper as f64);
            let x = lower + (upper - lower) * draw.unit();
            supply[from] += x;
            supply[to] -= x;
            let cost = cost as f64 + draw.unit();
            anyhow += cost * x;
            posed.arc(from, to, cost, lower..=upper.max(lower));
        }
        let last = supply[1..].iter().sum::<f64>();
        supply[0] = -last;
        for (node, &b) in supply.iter().enumerate() {
            posed.supply(node, b);
        }
        let calls = AtomicUsize::new(0);
        let stop = draw.below(3);
        let found = MinCostFlow::new()
            .on_progress(move |p| {
                assert!((0.0..=1.0).contains(&p.done) && p.gap >= 0.0);
                match calls.fetch_add(1, Ordering::Relaxed) == stop {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            })
            .solve(&posed)
            .unwrap();
        let proof = *found.certificate();
        prop_assert!(proof.dual <= proof.primal, "{:?}", proof);
        prop_assert!(proof.dual <= anyhow + 1e-12 * anyhow.abs(), "{:?} {:e}", proof, anyhow);
        if found.status().is_converged() {
            prop_assert!(proof.violation <= 1e-12, "{:?}", proof);
            let size: f64 = found.flows().iter().zip(&arcs).map(|(x, a)| x.abs() * ((a.2 as f64).abs() + 1.0)).sum();
            prop_assert!(proof.gap() <= 1e-9 * size, "{:?} {:e}", proof, size);
        }
    }
}
