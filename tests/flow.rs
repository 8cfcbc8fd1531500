//! Minimum-cost flow and bounded transport against an independent LP solver and their own proofs.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use core::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use earthmover::bounded::{BoundedSolution, BoundedTransport};
use earthmover::flow::{ArcId, Bounds, FlowSolution, MinCostFlow, Network};
use earthmover::{Dense, Error, FromFn, Status};
use microlp::{ComparisonOp, OptimizationDirection, Variable};
use proptest::prelude::*;

#[path = "common/rng.rs"]
mod rng;

use rng::Rng;

/// From −`scale` to `scale`; an integer half of the time, for ties and degeneracy.
fn number(rng: &mut Rng, scale: f64) -> f64 {
    let x = (2.0 * rng.unit() - 1.0) * scale;
    if rng.below(2) == 0 { x.round() } else { x }
}

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

fn optimum(lp: &microlp::Problem) -> Result<f64, microlp::Error> {
    match lp.solve()? {
        microlp::SolveOutcome::Solution(solution) => Ok(solution.objective()),
        microlp::SolveOutcome::Interrupted(_) => panic!("no limit was set"),
    }
}

/// The optimum by a general LP solver; `Err` for infeasible or unbounded.
fn oracle(supply: &[f64], lines: &[Line]) -> Result<f64, microlp::Error> {
    let mut lp = microlp::Problem::new(OptimizationDirection::Minimize);
    let x: Vec<Variable> = lines
        .iter()
        .map(|l| lp.add_var(l.2, (l.3.lower, l.3.upper)))
        .collect();
    for (v, &b) in supply.iter().enumerate() {
        let mut terms = Vec::new();
        for (a, l) in lines.iter().enumerate().filter(|(_, l)| l.0 != l.1) {
            if l.0 == v {
                terms.push((x[a], 1.0));
            } else if l.1 == v {
                terms.push((x[a], -1.0));
            }
        }
        lp.add_constraint(&terms[..], ComparisonOp::Eq, b);
    }
    optimum(&lp)
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

#[test]
fn stopping_early_is_a_status_and_admits_what_is_missing() {
    let costs: Vec<f64> = (0..100).map(|i| f64::from(i * 37 % 11)).collect();
    let transport = BoundedTransport::new(Dense::new(&costs, 10, 10).unwrap()).every_row(1.0);
    let capped = MinCostFlow::new().max_iterations(3);
    let capped = transport.solve_with(&capped).unwrap();
    assert_eq!(capped.status(), Status::IterationLimit);
    assert_eq!(capped.iterations(), 3);
    assert!(capped.certificate().violation > 0.0);
    assert_eq!(capped.certificate().primal, f64::INFINITY);
    let exact = transport.solve().unwrap();
    assert!(capped.certificate().dual <= exact.objective());
    let enough = MinCostFlow::new().max_iterations(exact.iterations());
    let enough = transport.solve_with(&enough).unwrap();
    assert!(enough.status().is_converged());

    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    let watched = MinCostFlow::new().on_progress(move |p| {
        assert!((0.0..=1.0).contains(&p.violation) && p.epsilon == 0.0);
        seen.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Break(())
    });
    let stopped = transport.solve_with(&watched).unwrap();
    assert_eq!(stopped.status(), Status::Stopped);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

/// A bounded transport as plain data.
#[derive(Debug, Clone)]
struct Case {
    cost: Vec<f64>,
    rows: Vec<Bounds>,
    cols: Vec<Bounds>,
    cap: f64,
    groups: Vec<(Vec<usize>, Bounds)>,
    total: Bounds,
}

impl Case {
    fn solve(&self) -> Result<BoundedSolution, Error> {
        let cost = Dense::new(&self.cost, self.rows.len(), self.cols.len())?;
        let mut transport = BoundedTransport::new(cost)
            .row_bounds(self.rows.clone())
            .col_bounds(self.cols.clone())
            .entry_cap(self.cap)
            .total(self.total);
        for (columns, bounds) in &self.groups {
            transport = transport.group(columns.clone(), *bounds);
        }
        transport.solve()
    }

    /// The cells of every sum with its bounds: rows, columns, groups, the total.
    fn sums(&self) -> Vec<(Vec<usize>, Bounds)> {
        let (n, k) = (self.rows.len(), self.cols.len());
        let mut sums = Vec::new();
        for i in 0..n {
            sums.push(((0..k).map(|j| i * k + j).collect(), self.rows[i]));
        }
        for j in 0..k {
            sums.push(((0..n).map(|i| i * k + j).collect(), self.cols[j]));
        }
        for (columns, bounds) in &self.groups {
            let cells = (0..n * k).filter(|e| columns.contains(&(e % k)));
            sums.push((cells.collect(), *bounds));
        }
        sums.push(((0..n * k).collect(), self.total));
        sums
    }

    /// The same linear programme, written out for an LP solver.
    fn oracle(&self) -> Result<f64, microlp::Error> {
        let mut lp = microlp::Problem::new(OptimizationDirection::Minimize);
        let p: Vec<Option<Variable>> = self
            .cost
            .iter()
            .map(|&c| (c < f64::INFINITY).then(|| lp.add_var(c, (0.0, self.cap))))
            .collect();
        for (cells, bounds) in self.sums() {
            let terms: Vec<_> = cells
                .iter()
                .filter_map(|&e| p[e].map(|v| (v, 1.0)))
                .collect();
            if terms.is_empty() {
                continue;
            }
            lp.add_constraint(&terms[..], ComparisonOp::Ge, bounds.lower);
            if bounds.upper < f64::INFINITY {
                lp.add_constraint(&terms[..], ComparisonOp::Le, bounds.upper);
            }
        }
        optimum(&lp)
    }

    /// Feasible, proved, and complementary to its prices.
    fn assert_answer(&self, answer: &BoundedSolution) {
        assert_eq!(answer.status(), Status::Converged);
        let (plan, k) = (answer.to_dense(), self.cols.len());
        let used = self.cost.iter().zip(&plan).filter(|e| *e.1 > 0.0);
        let scale = used.map(|(c, p)| (c * p).abs()).sum::<f64>().max(1.0);
        let gap = answer.certificate().gap();
        assert!(gap.abs() <= 1e-12 * scale, "gap {gap:e}, scale {scale}");
        for (e, &p) in plan.iter().enumerate() {
            assert!((0.0..=self.cap).contains(&p));
            let (f, g) = (
                answer.row_potentials()[e / k],
                answer.col_potentials()[e % k],
            );
            let reduced = self.cost[e] - f - g;
            assert!(reduced <= 1e-9 || p <= 1e-11);
            assert!(reduced >= -1e-9 || p >= self.cap - 1e-11);
        }
        let mut prices = answer.row_prices().to_vec();
        prices.extend(answer.col_prices());
        prices.extend(answer.group_prices());
        prices.push(answer.total_price());
        for ((cells, bounds), price) in self.sums().into_iter().zip(prices) {
            let sum: f64 = cells.iter().map(|&e| plan[e]).sum();
            assert!(bounds.lower - 1e-10 <= sum && sum <= bounds.upper + 1e-10);
            assert!(price <= 1e-9 || sum <= bounds.lower + 1e-10);
            assert!(price >= -1e-9 || sum >= bounds.upper - 1e-10);
        }
    }
}

/// Bounds that allow `x`.
fn around(random: &mut Rng, x: f64) -> Bounds {
    let (below, above) = (number(random, 1.0).abs(), number(random, 1.0).abs());
    Bounds {
        lower: [0.0, x, (x - below).max(0.0)][random.below(3)],
        upper: [x, x + above, x + 1.0][random.below(3)],
    }
}

/// A case around a random plan, so that it has an answer.
fn feasible_case(random: &mut Rng, n: usize, k: usize) -> Case {
    let cap = [f64::INFINITY, 1.0][random.below(2)];
    let (mut cost, mut plan) = (Vec::new(), Vec::new());
    for _ in 0..n * k {
        let forbidden = random.below(12) == 0;
        let (c, p) = (number(random, 4.0), number(random, 1.0).abs());
        let carries = !forbidden && random.below(3) == 0;
        cost.push(if forbidden { f64::INFINITY } else { c });
        plan.push(if carries { p } else { 0.0 });
    }
    // Nested and disjoint groups, one of them empty when k is small.
    let mut groups: Vec<(Vec<usize>, Bounds)> = [0..k / 2, 0..k / 4, k / 2..k, 0..k]
        .into_iter()
        .map(|columns| (columns.collect(), Bounds::from(..)))
        .collect();
    groups.truncate(random.below(5));
    let mut case = Case {
        cost,
        rows: vec![Bounds::from(..); n],
        cols: vec![Bounds::from(..); k],
        cap,
        groups,
        total: Bounds::from(..),
    };
    let mut bounds = case.sums().into_iter().map(|(cells, _)| {
        let sum = cells.iter().map(|&e| plan[e]).sum();
        around(random, sum)
    });
    case.rows.fill_with(|| bounds.next().unwrap());
    case.cols.fill_with(|| bounds.next().unwrap());
    for group in &mut case.groups {
        group.1 = bounds.next().unwrap();
    }
    case.total = bounds.next().unwrap();
    case
}

#[test]
fn bounded_transport_matches_an_lp_solver() {
    let mut random = Rng(4);
    let mut compared = 0;
    for _ in 0..300 {
        let (n, k) = (1 + random.below(6), 1 + random.below(6));
        let case = feasible_case(&mut random, n, k);
        let answer = case.solve().unwrap_or_else(|e| panic!("{e}: {case:?}"));
        case.assert_answer(&answer);
        if let Ok(optimum) = case.oracle() {
            compared += 1;
            let cost = answer.objective();
            assert!(
                (cost - optimum).abs() <= 1e-7 * (1.0 + optimum.abs()),
                "{cost} but the LP says {optimum}: {case:?}"
            );
        }
    }
    assert!(compared > 200, "the LP solver answered only {compared}");
}

#[test]
fn multi_label_allocation_matches_an_lp_solver() {
    // At most 3 labels for each example, none twice; classes bounded from both sides.
    let (n, k) = (12, 6);
    let mut random = Rng(5);
    for _ in 0..20 {
        let case = Case {
            cost: (0..n * k).map(|_| -random.unit().ln()).collect(),
            rows: vec![Bounds::from(..=3.0); n],
            cols: vec![Bounds::from(2.0..=5.5); k],
            cap: 1.0,
            groups: vec![(vec![0, 1, 2], Bounds::from(..=14.0))],
            total: Bounds::from(25.0..),
        };
        let answer = case.solve().unwrap();
        case.assert_answer(&answer);
        assert!((answer.objective() - case.oracle().unwrap()).abs() <= 1e-8);
    }
}

#[test]
fn a_price_is_what_the_bound_is_worth() {
    let mut random = Rng(6);
    let (n, k) = (20, 4);
    let mut cols = vec![Bounds::from(..); k];
    (cols[0], cols[1]) = (Bounds::from(..=4.5), Bounds::from(6.3..));
    let case = Case {
        cost: (0..n * k).map(|_| random.unit()).collect(),
        rows: vec![Bounds::from(..=1.0); n],
        cols,
        cap: f64::INFINITY,
        groups: vec![(vec![2, 3], Bounds::from(..=5.2))],
        total: Bounds::from(14.7..),
    };
    let answer = case.solve().unwrap();
    case.assert_answer(&answer);
    let step = 1e-4;
    let slope = |change: &dyn Fn(&mut Case)| {
        let mut changed = case.clone();
        change(&mut changed);
        (changed.solve().unwrap().objective() - answer.objective()) / step
    };
    let total = slope(&|c| c.total.lower += step);
    assert!((total - answer.total_price()).abs() < 1e-8 && total > 0.0);
    let group = slope(&|c| c.groups[0].1.upper += step);
    assert!((group - answer.group_prices()[0]).abs() < 1e-8);
    let first = slope(&|c| c.cols[0].upper += step);
    assert!((first - answer.col_prices()[0]).abs() < 1e-8);
    let second = slope(&|c| c.cols[1].lower += step);
    assert!((second - answer.col_prices()[1]).abs() < 1e-8);
}

#[test]
fn bounded_transport_refuses_what_it_cannot_answer() {
    let costs = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let transport = || BoundedTransport::new(Dense::new(&costs, 2, 3).unwrap());
    let crossing = transport().group([0, 1], ..).group([1, 2], ..);
    let (first, second) = (0, 1);
    assert_eq!(
        crossing.solve().unwrap_err(),
        Error::Overlap { first, second }
    );
    let stray = transport().group([0, 3], ..).solve();
    assert!(matches!(stray, Err(Error::Index { index: 3, .. })));
    let short = transport().row_bounds([..=1.0]).solve();
    assert!(matches!(short, Err(Error::Length { found: 1, .. })));
    for upper in [f64::NAN, -1.0] {
        let bounds = Bounds { lower: 0.0, upper };
        for wrong in [
            transport().every_row(bounds),
            transport().every_col(bounds),
            transport().entry_cap(upper),
            transport().total(bounds),
            transport().group([1], bounds),
        ] {
            assert!(matches!(wrong.solve(), Err(Error::Bounds { .. })));
        }
    }
    // Column 0 alone must hold 3 but both rows together give 2.
    let contradiction = transport()
        .every_row(..=1.0)
        .col_bounds([3.0.., 0.0.., 0.0..]);
    let (stranded, total) = (1.0, 3.0);
    assert_eq!(
        contradiction.solve().unwrap_err(),
        Error::Infeasible { stranded, total }
    );
    let nan = BoundedTransport::new(FromFn::new(1, 2, |_, j| [0.0, f64::NAN][j]).unwrap());
    assert!(matches!(nan.solve(), Err(Error::Cost { col: 1, .. })));
    let paid = BoundedTransport::new(FromFn::new(1, 1, |_, _| -1.0f64).unwrap());
    assert!(matches!(paid.solve(), Err(Error::Unbounded { .. })));
    let blocked = BoundedTransport::new(FromFn::new(2, 1, |i, _| [1.0, f64::INFINITY][i]).unwrap());
    let blocked = blocked.every_row(1.0).solve();
    assert!(matches!(blocked, Err(Error::Infeasible { stranded, .. }) if stranded == 1.0));
}

proptest! {
    #[test]
    fn any_feasible_network_is_proved_optimal(seed: u64, nodes in 1usize..30, arcs in 0usize..120) {
        let (supply, lines) = feasible_network(&mut Rng(seed), nodes, arcs);
        assert_proved(&supply, &lines, &solve(&supply, &lines).unwrap());
    }

    #[test]
    fn any_feasible_transport_is_proved_optimal(seed: u64, n in 1usize..25, k in 1usize..9) {
        let case = feasible_case(&mut Rng(seed), n, k);
        case.assert_answer(&case.solve().unwrap());
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

/// Label allocation with bounds on classes, on a group of them and on the mass.
fn allocation(n: usize, k: usize, rho: f64) -> BoundedSolution {
    let mut random = Rng(7);
    let mut costs = Vec::with_capacity(n * k);
    for _ in 0..n {
        let logits: Vec<f64> = (0..k).map(|_| 6.0 * random.unit()).collect();
        let partition = logits.iter().map(|l| l.exp()).sum::<f64>().ln();
        costs.extend(logits.iter().map(|l| partition - l));
    }
    let share = n as f64 / k as f64;
    let start = std::time::Instant::now();
    let answer = BoundedTransport::new(Dense::new(&costs, n, k).unwrap())
        .every_row(..=1.0)
        .col_bounds((0..k).map(|j| 0.5 * share..=share * (0.7 + j as f64 / k as f64)))
        .group(0..k / 2, ..=0.45 * n as f64)
        .total(rho * n as f64..)
        .solve()
        .unwrap();
    println!(
        "{n} x {k}, rho {rho}: {:.1} ms, {} pivots, relative gap {:.1e}, violation {:.1e}",
        start.elapsed().as_secs_f64() * 1e3,
        answer.iterations(),
        answer.certificate().relative_gap(),
        answer.certificate().violation,
    );
    answer
}

#[test]
fn a_large_allocation_is_proved_optimal() {
    for rho in [0.6, 0.9] {
        let answer = allocation(1000, 10, rho);
        let proof = answer.certificate();
        assert!(answer.status().is_converged());
        assert!(proof.relative_gap().abs() <= 1e-12);
        assert!(proof.violation <= 1e-12);
        assert!((proof.mass - rho * 1000.0).abs() <= 1e-9);
    }
}

/// `cargo test --release -p earthmover --test flow timings -- --ignored --nocapture`
#[test]
#[ignore = "prints timings"]
fn timings() {
    for (n, k) in [(5_000, 10), (5_000, 100), (50_000, 10)] {
        for rho in [0.6, 0.9] {
            let answer = allocation(n, k, rho);
            assert!(answer.certificate().relative_gap().abs() <= 1e-12);
        }
    }
}
