//! Minimum-cost flow.

use earthmover::flow::{ArcId, Bounds, FlowSolution, MinCostFlow, Network};
use earthmover::{Error, Status};
use earthmover_testkit::{Programme, Rng, Unsolved};
use proptest::prelude::*;

use crate::number;

/// One arc as plain data: from, to, cost, bounds.
type Line = (usize, usize, f64, Bounds);

fn solve(supply: &[f64], lines: &[Line]) -> Result<FlowSolution, Error> {
    let mut network = Network::new(supply.len());
    for (v, &b) in supply.iter().enumerate() {
        network.supply(v, b);
    }
    for &(from, to, cost, bounds) in lines {
        network.arc(from, to, cost, bounds);
    }
    MinCostFlow::new().solve(&network)
}

/// The optimum by a general LP solver; `Err` for infeasible or unbounded.
fn oracle(supply: &[f64], lines: &[Line]) -> Result<f64, Unsolved> {
    let mut programme = Programme::default();
    for &(_, _, cost, bounds) in lines {
        programme.mass(cost, bounds.lower, bounds.upper);
    }
    for (v, &b) in supply.iter().enumerate() {
        let arcs = lines.iter().enumerate().filter(|(_, l)| l.0 != l.1);
        let terms = arcs.filter(|(_, l)| l.0 == v || l.1 == v);
        let terms = terms.map(|(a, l)| (a, if l.0 == v { 1.0 } else { -1.0 }));
        programme.combination(terms, b, b);
    }
    programme.optimum()
}

/// What every converged answer must satisfy, recomputed here from the data.
fn assert_proved(supply: &[f64], lines: &[Line], solution: &FlowSolution) {
    assert_eq!(solution.status(), Status::Converged);
    let proof = solution.certificate();
    let spent = lines.iter().zip(solution.flows());
    let scale = spent.map(|(l, x)| (l.2 * x).abs()).sum::<f64>().max(1.0);
    let gap = proof.gap();
    assert!(gap.abs() <= 1e-12 * scale, "gap {gap:e}, scale {scale}");
    assert!(proof.violation <= 1e-12, "violation {:e}", proof.violation);
    let mut balance = supply.to_vec();
    for (a, &(from, to, cost, bounds)) in lines.iter().enumerate() {
        let x = solution.flow(ArcId(a));
        assert!(bounds.lower <= x && x <= bounds.upper);
        balance[from] -= x;
        balance[to] += x;
        let reduced = cost - solution.potential(from) + solution.potential(to);
        assert!((reduced - solution.reduced_cost(ArcId(a))).abs() <= 1e-11);
        assert!(reduced <= 1e-9 || x <= bounds.lower + 1e-11);
        assert!(reduced >= -1e-9 || x >= bounds.upper - 1e-11);
    }
    assert!(balance.iter().all(|b| b.abs() <= 1e-10));
}

/// A random network around a feasible flow, so that it has an answer.
fn feasible_network(random: &mut Rng, nodes: usize, arcs: usize) -> (Vec<f64>, Vec<Line>) {
    let mut supply = vec![0.0; nodes];
    let mut lines = Vec::new();
    for _ in 0..arcs {
        let (from, to) = (random.below(nodes), random.below(nodes));
        let x = number(random, 4.0);
        let lower = x - [0.0, number(random, 3.0).abs()][random.below(2)];
        // Without an upper bound costs stay positive, so that the optimum exists.
        let (cost, upper) = match random.below(4) {
            0 => (number(random, 5.0).abs(), f64::INFINITY),
            1 => (number(random, 5.0), x),
            _ => (number(random, 5.0), x + number(random, 3.0).abs()),
        };
        supply[from] += x;
        supply[to] -= x;
        lines.push((from, to, cost, Bounds { lower, upper }));
    }
    (supply, lines)
}

#[test]
fn random_networks_match_an_lp_solver() {
    let mut random = Rng(1);
    let mut compared = 0;
    for _ in 0..400 {
        let (nodes, arcs) = (1 + random.below(8), random.below(25));
        let (supply, lines) = feasible_network(&mut random, nodes, arcs);
        let solution = solve(&supply, &lines).unwrap();
        assert_proved(&supply, &lines, &solution);
        // The LP solver may take the rounding in the supplies' sum for infeasibility.
        if let Ok(optimum) = oracle(&supply, &lines) {
            compared += 1;
            let cost = solution.cost();
            assert!(
                (cost - optimum).abs() <= 1e-7 * (1.0 + optimum.abs()),
                "{cost} but the LP says {optimum}"
            );
        }
    }
    assert!(compared > 300, "the LP solver answered only {compared}");
}

#[test]
fn infeasible_and_unbounded_are_told_as_an_lp_solver_tells_them() {
    let mut random = Rng(2);
    let mut seen = [0; 3];
    for _ in 0..600 {
        let nodes = 2 + random.below(5);
        let mut supply: Vec<f64> = (0..nodes)
            .map(|_| number(&mut random, 3.0).round())
            .collect();
        supply[0] -= supply.iter().sum::<f64>();
        let lines: Vec<Line> = (0..3 + random.below(12))
            .map(|_| {
                let lower = number(&mut random, 2.0).round();
                let upper = [f64::INFINITY, lower + random.below(4) as f64][random.below(2)];
                let (from, to) = (random.below(nodes), random.below(nodes));
                (
                    from,
                    to,
                    number(&mut random, 4.0) + 1.0,
                    Bounds { lower, upper },
                )
            })
            .collect();
        match (solve(&supply, &lines), oracle(&supply, &lines)) {
            (Ok(solution), Ok(optimum)) => {
                seen[0] += 1;
                assert_proved(&supply, &lines, &solution);
                assert!((solution.cost() - optimum).abs() <= 1e-7 * (1.0 + optimum.abs()));
            }
            (Err(Error::Infeasible { stranded, total }), Err(_)) => {
                seen[1] += 1;
                assert!(0.0 < stranded && stranded <= total);
            }
            (Err(Error::Unbounded { arc }), Err(_)) => {
                seen[2] += 1;
                assert_eq!(lines[arc].3.upper, f64::INFINITY);
            }
            (ours, theirs) => panic!("{ours:?} but the LP solver says {theirs:?}"),
        }
    }
    assert!(seen.iter().all(|&n| n > 10), "one-sided test: {seen:?}");
}

#[test]
fn an_assignment_problem_with_many_ties_does_not_cycle() {
    for n in [2, 10, 40] {
        let mut network = Network::new(2 * n);
        for i in 0..n {
            network.supply(i, 1.0).supply(n + i, -1.0);
            for j in 0..n {
                network.arc(i, n + j, ((i * j) % 3) as f64, ..=1.0);
            }
        }
        let solution = MinCostFlow::new().solve(&network).unwrap();
        assert_eq!(solution.status(), Status::Converged);
        assert_eq!(solution.certificate().gap(), 0.0);
        assert!(solution.flows().iter().all(|&x| x == 0.0 || x == 1.0));
    }
}

#[test]
fn a_torus_of_narrow_arcs_is_proved_optimal() {
    // Deep trees, many arcs at their upper bounds.
    let n = 30;
    let mut random = Rng(3);
    let mut lines = Vec::new();
    for r in 0..n {
        for c in 0..n {
            for (dr, dc) in [(0, 1), (1, 0)] {
                let there = ((r + dr) % n) * n + (c + dc) % n;
                let bounds = Bounds::from(-1.0..=1.0 + random.unit());
                lines.push((r * n + c, there, number(&mut random, 3.0), bounds));
            }
        }
    }
    let mut supply = vec![0.0; n * n];
    (supply[0], supply[n * n / 2 + n / 2]) = (3.5, -3.5);
    assert_proved(&supply, &lines, &solve(&supply, &lines).unwrap());
}

#[test]
fn costs_of_very_different_sizes_keep_their_digits() {
    // A large penalty elsewhere must not blur a small difference here.
    let lines = [
        (0, 1, 1e12, Bounds::from(..)),
        (0, 2, 1.0, Bounds::from(..=1.0)),
        (2, 1, 2e-9, Bounds::from(..)),
        (2, 1, 1e-9, Bounds::from(..)),
    ];
    let solution = solve(&[1.0, -1.0, 0.0], &lines).unwrap();
    assert_eq!(solution.flows(), [0.0, 1.0, 0.0, 1.0]);
}

#[test]
fn loops_go_where_their_cost_wants_them() {
    let mut network = Network::new(1);
    let cheap = network.arc(0, 0, -2.0, 1.0..=3.0);
    let dear = network.arc(0, 0, 2.0, 1.0..);
    let solution = MinCostFlow::new().solve(&network).unwrap();
    assert_eq!((solution.flow(cheap), solution.flow(dear)), (3.0, 1.0));
    assert_eq!(solution.certificate().gap(), 0.0);
    let arc = network.arc(0, 0, -1.0, ..).0;
    let error = MinCostFlow::new().solve(&network).unwrap_err();
    assert_eq!(error, Error::Unbounded { arc });
}

#[test]
fn a_negative_cycle_without_bound_is_named() {
    let cycle = |middle: f64| {
        let free = Bounds::from(..);
        let lines = [
            (0, 1, 1.0, free),
            (1, 2, middle, free),
            (2, 0, 1.0, free),
            (0, 2, 9.0, Bounds::from(..=4.0)),
        ];
        solve(&[0.0; 3], &lines)
    };
    assert!(matches!(cycle(-3.0), Err(Error::Unbounded { arc }) if arc < 3));
    assert_eq!(cycle(-2.0).unwrap().cost(), 0.0);
}

#[test]
fn wrong_networks_are_refused_with_their_numbers() {
    let refused = |change: &dyn Fn(&mut Network)| {
        let mut network = Network::new(2);
        change(&mut network);
        MinCostFlow::new().solve(&network).unwrap_err()
    };
    let of_size = |n| MinCostFlow::new().solve(&Network::new(n)).unwrap_err();
    assert_eq!(of_size(0), Error::Empty { rows: 0, cols: 0 });
    assert!(matches!(of_size(usize::MAX), Error::Length { .. }));
    let stray = Error::Index {
        what: "node",
        index: 7,
        len: 2,
    };
    assert_eq!(
        refused(&|n| {
            n.arc(0, 7, 1.0, ..);
        }),
        stray
    );
    assert_eq!(
        refused(&|n| {
            n.supply(7, 1.0);
        }),
        stray
    );
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let supply = refused(&|n| {
            n.supply(1, value);
        });
        assert!(matches!(supply, Error::Supply { node: 1, .. }));
        let cost = refused(&|n| {
            n.arc(0, 1, value, ..);
        });
        assert!(matches!(cost, Error::Arc { arc: 0, .. }));
        let lower = refused(&|n| {
            n.arc(0, 1, 0.0, value..);
        });
        assert!(matches!(lower, Error::Arc { arc: 0, .. }));
    }
    for upper in [f64::NAN, f64::NEG_INFINITY, 0.5] {
        let crossed = refused(&|n| {
            n.arc(0, 1, 0.0, 1.0..=upper);
        });
        assert!(matches!(crossed, Error::Arc { arc: 0, .. }));
    }
    let unbalanced = refused(&|n| {
        n.supply(0, 2.5).supply(1, -1.25);
    });
    let message = unbalanced.to_string();
    assert!(message.contains("2.5") && message.contains("1.25"));
    let overflow = refused(&|n| {
        n.arc(0, 1, f64::MAX, ..);
    });
    assert!(matches!(overflow, Error::Arc { .. }));
    let heavy = refused(&|n| {
        n.arc(0, 1, 1.0, f64::MAX..);
        n.arc(0, 1, 1.0, f64::MAX..);
    });
    assert!(matches!(heavy, Error::Supply { .. }));
}

proptest! {
    #[test]
    fn any_feasible_network_is_proved_optimal(seed: u64, nodes in 1usize..30, arcs in 0usize..120) {
        let (supply, lines) = feasible_network(&mut Rng(seed), nodes, arcs);
        assert_proved(&supply, &lines, &solve(&supply, &lines).unwrap());
    }

    #[test]
    fn the_order_of_the_arcs_does_not_change_the_optimum(seed: u64, nodes in 2usize..10) {
        let (supply, mut lines) = feasible_network(&mut Rng(seed), nodes, 5 * nodes);
        let one = solve(&supply, &lines).unwrap().cost();
        lines.reverse();
        let other = solve(&supply, &lines).unwrap().cost();
        prop_assert!((one - other).abs() <= 1e-10 * (1.0 + one.abs()));
    }
}
