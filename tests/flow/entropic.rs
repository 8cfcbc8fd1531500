//! Transport within bounds, smoothed by entropy: against the conditions that single out its answer, against cycles of
//! projections alone, against the exact answer.

use core::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use earthmover::bounded::{
    Acceleration, BoundedSolution, BoundedTransport, Bounds, BregmanProjections,
};
use earthmover::{Dense, Error, FromFn, Marginals, Problem, Sinkhorn, Status};
use earthmover_testkit::Rng;
use proptest::prelude::*;

use crate::bounded::{Case, feasible_case};

/// The conditions that only the optimum of the smoothed problem meets: the form of the plan, and prices only where bounds
/// hold.
fn assert_optimal(case: &Case, answer: &BoundedSolution, epsilon: f64, tolerance: f64) {
    assert_eq!(answer.status(), Status::Converged);
    let (plan, k) = (answer.to_dense(), case.cols.len());
    let off = tolerance * plan.iter().sum::<f64>().max(case.total.lower);
    for (e, &p) in plan.iter().enumerate() {
        let (f, g) = (
            answer.row_potentials()[e / k],
            answer.col_potentials()[e % k],
        );
        let form = ((f + g - case.cost[e]) / epsilon).exp().min(case.cap);
        assert!((p - form).abs() <= 1e-9 * form, "{p} {form}");
    }
    let nodes = answer.col_prices().iter().chain(answer.group_prices());
    let prices = answer.row_prices().iter().chain(nodes).copied();
    let prices: Vec<f64> = prices.chain([answer.total_price()]).collect();
    for ((cells, bounds), price) in case.sums().into_iter().zip(prices) {
        let sum: f64 = cells.iter().map(|&e| plan[e]).sum();
        assert!(bounds.lower - off <= sum && sum <= bounds.upper + off);
        assert!(
            price <= 0.0 || sum <= bounds.lower + off,
            "{price} {sum} {bounds:?}"
        );
        assert!(
            price >= 0.0 || sum >= bounds.upper - off,
            "{price} {sum} {bounds:?}"
        );
    }
}

/// A case with a plan inside all its bounds, so that prices are finite: bounds with room around the sums of a plan that
/// uses every allowed pair.
fn roomy_case(random: &mut Rng, n: usize, k: usize) -> Case {
    let mut case = feasible_case(random, n, k);
    let plan: Vec<f64> = case
        .cost
        .iter()
        .map(|c| {
            if c.is_finite() {
                0.1 + 0.8 * random.unit()
            } else {
                0.0
            }
        })
        .collect();
    let mut bounds = case.sums().into_iter().map(|(cells, _)| {
        let sum: f64 = cells.iter().map(|&e| plan[e]).sum();
        let width = [0.0, 0.5][random.below(2)] * random.unit();
        Bounds::from(sum * (1.0 - width)..=sum * (1.0 + width))
    });
    case.rows.fill_with(|| bounds.next().unwrap());
    case.cols.fill_with(|| bounds.next().unwrap());
    for group in &mut case.groups {
        group.1 = bounds.next().unwrap();
    }
    case.total = bounds.next().unwrap();
    case
}

fn check(seed: u64, n: usize, k: usize, epsilon: f64) {
    let case = roomy_case(&mut Rng(seed), n, k);
    let transport = case.transport().unwrap();
    let solver = BregmanProjections::new(epsilon).tolerance(1e-8);
    let answer = transport.solve_entropic(&solver).unwrap();
    assert_optimal(&case, &answer, epsilon, 1e-7);
    let optimum = transport.solve().unwrap().objective();
    let proof = answer.certificate();
    let size: f64 = answer
        .entries()
        .iter()
        .map(|e| (e.mass * case.cost[e.row * k + e.col]).abs())
        .sum();
    let off = 1e-13 * (1.0 + size);
    assert!(
        proof.dual <= optimum + off && optimum <= proof.primal + off,
        "{proof:?} {optimum}"
    );
    if case.cap == f64::INFINITY && case.cost.iter().all(|c| c.is_finite()) {
        assert!(proof.primal.is_finite());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_question_with_room_is_answered(seed: u64, n in 1usize..12, k in 1usize..7) {
        check(seed, n, k, 0.5);
    }

    #[test]
    fn newton_ends_where_cycles_end(seed: u64, n in 2usize..8, k in 1usize..5) {
        let case = roomy_case(&mut Rng(seed), n, k);
        let transport = case.transport().unwrap();
        let fast = BregmanProjections::new(2.0).tolerance(1e-9).max_iterations(200_000);
        let plain = fast.clone().acceleration(Acceleration::None);
        let fast = transport.solve_entropic(&fast).unwrap();
        let plain = transport.solve_entropic(&plain).unwrap();
        prop_assert!(fast.status().is_converged());
        if plain.status().is_converged() {
            for (ours, theirs) in fast.to_dense().iter().zip(plain.to_dense()) {
                prop_assert!((ours - theirs).abs() <= 1e-5, "{ours} {theirs}");
            }
        }
    }
}

#[test]
fn the_gap_closes_with_epsilon() {
    let mut random = Rng(3);
    let case = roomy_case(&mut random, 30, 5);
    let transport = case.transport().unwrap();
    let optimum = transport.solve().unwrap().objective();
    let mut last = f64::INFINITY;
    for epsilon in [1.0, 0.1, 0.01] {
        let answer = transport
            .solve_entropic(&BregmanProjections::new(epsilon).tolerance(1e-9))
            .unwrap();
        assert!(answer.status().is_converged());
        let off = (answer.objective() - optimum).abs();
        assert!(off < last, "{off} {last}");
        last = off;
    }
    assert!(last < 0.01 * (1.0 + optimum.abs()), "{last}");
}

#[test]
fn marginals_that_are_bounds_of_no_width_are_sinkhorns() {
    let mut random = Rng(12);
    let (n, k, epsilon) = (15, 9, 0.05);
    let cost: Vec<f64> = (0..n * k).map(|_| random.unit()).collect();
    let masses = |random: &mut Rng, len: usize| {
        let raw: Vec<f64> = (0..len).map(|_| 0.1 + random.unit()).collect();
        let all: f64 = raw.iter().sum();
        raw.iter().map(|m| m / all).collect::<Vec<f64>>()
    };
    let (a, b) = (masses(&mut random, n), masses(&mut random, k));
    let transport = BoundedTransport::new(Dense::new(&cost, n, k).unwrap())
        .row_bounds(a.clone())
        .col_bounds(b.clone());
    let answer = transport
        .solve_entropic(&BregmanProjections::new(epsilon).tolerance(1e-10))
        .unwrap();
    let problem = Problem::new(
        Dense::new(&cost, n, k).unwrap(),
        Marginals::balanced(&a, &b).unwrap(),
    )
    .unwrap();
    let plan = Sinkhorn::new(epsilon)
        .tolerance(1e-10)
        .max_iterations(100_000)
        .solve(&problem)
        .unwrap()
        .plan()
        .to_dense();
    for (ours, theirs) in answer.to_dense().iter().zip(&plan) {
        assert!((ours - theirs).abs() <= 1e-8, "{ours} {theirs}");
    }
}

#[test]
fn the_unit_of_costs_and_masses_does_not_matter() {
    let mut random = Rng(21);
    let case = roomy_case(&mut random, 12, 4);
    let answer = case
        .transport()
        .unwrap()
        .solve_entropic(&BregmanProjections::new(0.1))
        .unwrap();
    let mut dear = case.clone();
    dear.cost.iter_mut().for_each(|c| *c *= 1024.0);
    let dearer = dear
        .transport()
        .unwrap()
        .solve_entropic(&BregmanProjections::new(102.4))
        .unwrap();
    assert_eq!(answer.to_dense(), dearer.to_dense());
    assert_eq!(answer.iterations(), dearer.iterations());
}

#[test]
fn contradictions_are_errors_with_numbers() {
    let costs = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let transport = || BoundedTransport::new(Dense::new(&costs, 2, 3).unwrap());
    let solver = BregmanProjections::new(0.1);
    let short = transport()
        .every_row(..=1.0)
        .col_bounds([3.0.., 0.0.., 0.0..]);
    let (stranded, total) = (1.0, 3.0);
    assert_eq!(
        short.solve_entropic(&solver).unwrap_err(),
        Error::Infeasible { stranded, total }
    );
    let full = transport().every_row(2.0).every_col(..=1.0);
    let (stranded, total) = (1.0, 4.0);
    assert_eq!(
        full.solve_entropic(&solver).unwrap_err(),
        Error::Infeasible { stranded, total }
    );
    for wrong in [
        transport().every_row(1.0).entry_cap(0.2),
        transport().every_row(1.0).total(..=1.5),
        transport().every_col(1.0).total(..=1.5),
        transport()
            .group([0, 1], 2.0..)
            .col_bounds([..=0.5, ..=0.5, ..=9.0]),
        transport().every_row(-2.0..=-1.0),
    ] {
        let found = wrong.solve_entropic(&solver);
        assert!(matches!(found, Err(Error::Infeasible { .. })), "{found:?}");
        assert!(matches!(wrong.solve(), Err(Error::Infeasible { .. })));
    }
    // Rows 0 and 1 may only go to column 0, which has room for one of them: each bound alone could hold.
    let hall = |i: usize, j: usize| if i < 2 && j > 0 { f64::INFINITY } else { 0.5 };
    let hall = BoundedTransport::new(FromFn::new(3, 2, hall).unwrap())
        .every_row(1.0)
        .every_col(..=1.5);
    let found = hall.solve_entropic(&solver.clone().max_iterations(500));
    assert!(
        matches!(found, Err(Error::Infeasible { stranded, .. }) if (stranded - 0.5).abs() < 1e-9),
        "{found:?}"
    );
    let paid = BoundedTransport::new(FromFn::new(1, 2, |_, j| [1.0, -1.0][j]).unwrap());
    assert!(matches!(paid.solve(), Err(Error::Unbounded { .. })));
    // Arcs are the row, two columns, the total, and then the pairs.
    let found = paid.solve_entropic(&solver).unwrap_err();
    assert_eq!(found, Error::Unbounded { arc: 5 });
    for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let solver = BregmanProjections::new(wrong);
        assert!(matches!(
            transport().solve_entropic(&solver),
            Err(Error::Option {
                name: "epsilon",
                ..
            })
        ));
        let solver = BregmanProjections::new(0.1).tolerance(wrong);
        assert!(matches!(
            transport().solve_entropic(&solver),
            Err(Error::Option {
                name: "tolerance",
                ..
            })
        ));
    }
}

#[test]
fn a_row_learnt_from_the_others() {
    let costs = [0.1, 0.9, 0.2, 0.5, 0.7, 0.3];
    let transport = BoundedTransport::new(Dense::new(&costs, 3, 2).unwrap())
        .every_row(1.0)
        .every_col(..=1.6);
    let exact = transport.solve().unwrap();
    let soft = transport
        .solve_entropic(&BregmanProjections::new(0.02).tolerance(1e-9))
        .unwrap();
    let mut row = [0.0; 2];
    for (i, costs) in costs.chunks(2).enumerate() {
        soft.new_row(costs, 1.0, &mut row).unwrap();
        for (new, old) in row.iter().zip(&soft.to_dense()[2 * i..]) {
            assert!((new - old).abs() <= 1e-8);
        }
    }
    // Column 0 is full and its price is what makes row 1 indifferent.
    exact.new_row(&[0.1, 0.5], 1.0, &mut row).unwrap();
    assert_eq!(row, [1.0, 0.0]);
    exact.new_row(&[0.3, 0.5], 1.0, &mut row).unwrap();
    assert_eq!(row, [0.0, 1.0]);
    assert!(matches!(
        exact.new_row(&[0.3], 1.0, &mut row),
        Err(Error::Length { .. })
    ));
    assert!(matches!(
        exact.new_row(&[0.3, f64::NAN], 1.0, &mut row),
        Err(Error::Cost { .. })
    ));
    assert!(matches!(
        exact.new_row(&[f64::INFINITY; 2], 1.0, &mut row),
        Err(Error::Infeasible { .. })
    ));
    assert!(matches!(
        exact.new_row(
            &[0.0; 2],
            Bounds {
                lower: 2.0,
                upper: 1.0
            },
            &mut row
        ),
        Err(Error::Bounds { .. })
    ));
}

#[test]
fn progress_is_reported_and_obeyed() {
    let case = roomy_case(&mut Rng(5), 20, 4);
    let transport = case.transport().unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    let watched = BregmanProjections::new(0.1).on_progress(move |p| {
        assert!(p.violation > 0.0 && p.epsilon >= 0.1 && (0.0..=1.0).contains(&p.done));
        if seen.fetch_add(1, Ordering::Relaxed) == 1 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    let stopped = transport.solve_entropic(&watched).unwrap();
    assert_eq!(stopped.status(), Status::Stopped);
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    assert!(
        stopped
            .to_dense()
            .iter()
            .all(|p| p.is_finite() && *p >= 0.0)
    );
}
