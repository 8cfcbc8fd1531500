//! The contracted-graph solver against an independent LP solver, and against its own certificate.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use earthmover::{
    Cost, Dense, Error, FromFn, Marginals, Potentials, Problem, Real, ShortestPaths, Side, Slack,
    Solution, Status,
};
use earthmover_testkit::{Rng, label_allocation, optimum};
use proptest::prelude::*;

/// Negative log-probabilities of `k` classes, the later ones likelier where `skew` is positive.
fn label_costs(n: usize, k: usize, skew: f64, seed: u64) -> Vec<f64> {
    let mut rng = Rng(seed);
    let mut cost = vec![0.0; n * k];
    for row in cost.chunks_mut(k) {
        for (j, c) in row.iter_mut().enumerate() {
            *c = 3.0 * rng.normal() + skew * j as f64 / k as f64;
        }
        let top = row.iter().copied().fold(f64::MIN, f64::max);
        let z = top + row.iter().map(|c| (c - top).exp()).sum::<f64>().ln();
        row.iter_mut().for_each(|c| *c = z - *c);
    }
    cost
}

/// The certificate proves optimality, the plan is a vertex, and the potentials are feasible and tight.
fn assert_optimal<T: Real, C: Cost<T>>(problem: &Problem<T, C>, solution: &Solution<'_, T, C>) {
    assert_eq!(solution.status(), Status::Converged);
    let proof = solution.certificate();
    let scale = proof
        .primal
        .abs()
        .max(proof.dual.abs())
        .max(problem.marginals().total());
    assert!(
        proof.gap().abs() <= 1e-12 * scale,
        "gap {:e} at {scale}",
        proof.gap()
    );
    assert!(proof.violation <= 1e-14, "violation {:e}", proof.violation);
    let m = problem.marginals();
    let (n, k) = (problem.rows(), problem.cols());
    let entries = solution.plan().entries(0.0);
    // Real pairs, rows that keep something back, columns that are filled by the slack row, the corner.
    let mut support = entries.len();
    let tolerance = 1e-12 * m.total();
    let (rows, cols) = (solution.plan().row_sums(), solution.plan().col_sums());
    support += (0..n)
        .filter(|&i| m.rows()[i] - rows[i] > tolerance)
        .count();
    support += (0..k)
        .filter(|&j| m.cols()[j] - cols[j] > tolerance)
        .count();
    let nodes = n + k + usize::from(m.slack().row > 0.0) + usize::from(m.slack().col > 0.0);
    assert!(support < nodes, "{support} entries on {nodes} nodes");

    let g = solution.potentials();
    let total: f64 = m.rows().iter().sum();
    for e in &entries {
        let c = problem.cost().at(e.row, e.col).widen();
        let slack = c - g.rows[e.row] - g.cols[e.col];
        assert!(
            slack.abs() <= 1e-9 * (1.0 + c.abs()),
            "pair {e:?} is {slack:e} off"
        );
        assert!(e.mass <= total);
    }
}

/// Small problems with whole-number masses: degenerate, with ties, empty rows and columns.
fn small() -> impl Strategy<Value = (usize, usize, Vec<f64>, Marginals)> {
    (1usize..9, 1usize..7).prop_flat_map(|(n, k)| {
        let costs = prop_oneof![
            6 => (0i32..5).prop_map(f64::from),
            6 => -2.0f64..3.0,
            2 => Just(f64::INFINITY),
        ];
        let slack_cost = prop_oneof![4 => Just(0.0), 2 => -1.0f64..2.0, 1 => Just(f64::INFINITY)];
        (
            prop::collection::vec(costs, n * k),
            prop::collection::vec(0u8..4, n),
            prop::collection::vec(0u8..4, k),
            (0u8..6, slack_cost.clone(), slack_cost.clone(), slack_cost),
        )
            .prop_filter_map("no mass", move |(cost, a, b, (extra, rc, cc, corner))| {
                let sum = |v: &[u8]| v.iter().map(|&x| f64::from(x)).sum::<f64>();
                let (rows, cols) = (sum(&a), sum(&b));
                let slack = Slack::new(
                    (cols - rows).max(0.0) + f64::from(extra),
                    (rows - cols).max(0.0) + f64::from(extra),
                )
                .row_cost(rc)
                .col_cost(cc)
                .corner_cost(corner);
                let a: Vec<f64> = a.into_iter().map(f64::from).collect();
                let b: Vec<f64> = b.into_iter().map(f64::from).collect();
                let masses = Marginals::with_slack(&a, &b, slack).ok()?;
                Some((n, k, cost, masses))
            })
    })
}

proptest! {
    #[test]
    fn agrees_with_linear_programming((n, k, cost, masses) in small()) {
        let problem = Problem::new(Dense::new(&cost, n, k).unwrap(), masses.clone()).unwrap();
        let expected = optimum(&cost, &masses);
        match (ShortestPaths::new().solve(&problem), expected) {
            (Ok(solution), Some(optimum)) => {
                // The other solver works to tolerances of about 1e-7; the certificate is sharper.
                prop_assert!((solution.objective() - optimum).abs() <= 1e-6 * (1.0 + optimum.abs()),
                    "{} against {optimum}", solution.objective());
                assert_optimal(&problem, &solution);
            }
            (Err(Error::Infeasible { stranded, total }), None) => {
                prop_assert!(stranded > 0.0 && stranded <= total);
            }
            (Err(Error::Blocked { mass, .. }), None) => prop_assert!(mass > 0.0),
            (ours, theirs) => prop_assert!(false, "{:?} against {theirs:?}", ours.map(|s| s.objective())),
        }
    }

    #[test]
    fn stays_optimal_from_any_start((n, k, cost, masses) in small(), seed in 0u64..1000) {
        let problem = Problem::new(Dense::new(&cost, n, k).unwrap(), masses).unwrap();
        let mut rng = Rng(seed);
        let start = Potentials::new((0..n).map(|_| 9.0 * rng.normal()).collect(), (0..k).map(|_| 9.0 * rng.normal()).collect()).slack(rng.normal(), rng.normal());
        match (ShortestPaths::new().solve_from(&problem, &start), ShortestPaths::new().solve(&problem)) {
            (Ok(warm), Ok(cold)) => {
                assert_optimal(&problem, &warm);
                prop_assert!((warm.objective() - cold.objective()).abs() <= 1e-9 * (1.0 + cold.objective().abs()));
            }
            (Err(warm), Err(cold)) => {
                if let (Error::Infeasible { stranded: a, .. }, Error::Infeasible { stranded: b, .. }) = (warm, cold) {
                    prop_assert!((a - b).abs() <= 1e-9);
                }
            }
            (warm, cold) => prop_assert!(false, "{warm:?} against {cold:?}"),
        }
    }
}

#[test]
fn label_allocation_is_certified_at_every_strictness() {
    for (n, k, rho, skew) in [
        (4_000, 10, 0.1, 0.0),
        (4_000, 10, 0.9, 0.0),
        (4_000, 10, 1.0, 0.0),
        (3_000, 100, 0.9, 0.0),
        (3_000, 100, 1.0, 12.0),
        (4_000, 2, 0.5, 4.0),
        (4_000, 1, 0.5, 0.0),
        (50, 60, 0.7, 1.0),
    ] {
        let cost = label_costs(n, k, skew, 7);
        let problem = Problem::new(
            Dense::new(&cost, n, k).unwrap(),
            label_allocation(n, k, rho),
        )
        .unwrap();
        let solution = ShortestPaths::new().solve(&problem).unwrap();
        assert_optimal(&problem, &solution);
    }
}

/// A total that is off in its last digits leaves rows split by specks, which must not travel round and round.
#[test]
fn specks_of_rounding_do_not_circulate() {
    let (n, k) = (84, 6);
    for seed in 1000..2000 {
        let cost = label_costs(n, k, 16.0 + 8.0 * (seed % 2) as f64, seed);
        let slack = Slack::new(1.0 + k as f64 + 2e-14, 1.0);
        let masses = Marginals::with_slack(&vec![1.0; n], &vec![15.0; k], slack).unwrap();
        let problem = Problem::new(Dense::new(&cost, n, k).unwrap(), masses).unwrap();
        let solution = ShortestPaths::new().max_iterations(2_000).solve(&problem);
        assert_optimal(&problem, &solution.unwrap());
    }
}

#[test]
fn heavy_tailed_masses_add_up() {
    let (n, k) = (3_000, 12);
    let cost = label_costs(n, k, 0.0, 3);
    let mut rng = Rng(5);
    let a: Vec<f64> = (0..n).map(|_| (6.0 * rng.normal()).exp()).collect();
    let b: Vec<f64> = (0..k).map(|_| (6.0 * rng.normal()).exp()).collect();
    let (rows, cols): (f64, f64) = (a.iter().sum(), b.iter().sum());
    let b: Vec<f64> = b.iter().map(|x| x * rows / cols).collect();
    let problem = Problem::new(
        Dense::new(&cost, n, k).unwrap(),
        Marginals::balanced(&a, &b).unwrap(),
    )
    .unwrap();
    let solution = ShortestPaths::new().solve(&problem).unwrap();
    assert_optimal(&problem, &solution);
    for (got, want) in solution
        .plan()
        .col_sums()
        .iter()
        .zip(problem.marginals().cols())
    {
        assert!((got - want).abs() <= 1e-12 * rows, "{got} against {want}");
    }
}

#[test]
fn ties_everywhere_take_few_rounds() {
    let (n, k) = (5_000, 10);
    let flat = vec![(k as f64).ln(); n * k];
    let problem = Problem::new(
        Dense::new(&flat, n, k).unwrap(),
        label_allocation(n, k, 0.9),
    )
    .unwrap();
    let solution = ShortestPaths::new().solve(&problem).unwrap();
    assert_optimal(&problem, &solution);
    assert!(solution.iterations() <= 20 * k, "{}", solution.iterations());

    // Few different rows, each many times: ties that placing alone cannot settle.
    let kinds = label_costs(7, k, 0.0, 1);
    let repeated: Vec<f64> = (0..n * k).map(|e| kinds[(e / k % 7) * k + e % k]).collect();
    let problem = Problem::new(
        Dense::new(&repeated, n, k).unwrap(),
        label_allocation(n, k, 0.9),
    )
    .unwrap();
    let solution = ShortestPaths::new().solve(&problem).unwrap();
    assert_optimal(&problem, &solution);
    assert!(
        solution.iterations() <= 100 * k,
        "{}",
        solution.iterations()
    );
}

#[test]
fn small_whole_costs_are_solved_among_ties() {
    let (n, k) = (2_000, 30);
    let mut rng = Rng(11);
    let cost: Vec<f64> = (0..n * k).map(|_| (4.0 * rng.unit()).floor()).collect();
    let problem = Problem::new(
        Dense::new(&cost, n, k).unwrap(),
        Marginals::uniform(n, k).unwrap(),
    )
    .unwrap();
    assert_optimal(&problem, &ShortestPaths::new().solve(&problem).unwrap());
}

#[test]
fn wide_is_tall_transposed() {
    let (n, k) = (600, 8);
    let cost = label_costs(n, k, 1.0, 2);
    let tall = Problem::new(
        Dense::new(&cost, n, k).unwrap(),
        label_allocation(n, k, 0.8),
    )
    .unwrap();
    let wide = tall.transposed();
    let (a, b) = (
        ShortestPaths::new().solve(&tall).unwrap(),
        ShortestPaths::new().solve(&wide).unwrap(),
    );
    assert_optimal(&wide, &b);
    assert_eq!(a.iterations(), b.iterations());
    assert!((a.objective() - b.objective()).abs() <= 1e-12 * a.objective());
    let again = ShortestPaths::new()
        .solve_from(&wide, b.potentials())
        .unwrap();
    assert_optimal(&wide, &again);
    assert!(again.iterations() <= 4 * k);
}

#[test]
fn optimal_potentials_leave_next_to_nothing_to_do() {
    let (n, k) = (4_000, 20);
    let cost = label_costs(n, k, 1.0, 4);
    let problem = Problem::new(
        Dense::new(&cost, n, k).unwrap(),
        label_allocation(n, k, 0.9),
    )
    .unwrap();
    let cold = ShortestPaths::new().solve(&problem).unwrap();
    let warm = ShortestPaths::new()
        .solve_from(&problem, cold.potentials())
        .unwrap();
    assert_optimal(&problem, &warm);
    assert!(warm.iterations() <= 2 * k, "{}", warm.iterations());
    assert!(warm.iterations() < cold.iterations());
}

#[test]
fn single_precision_costs_are_solved_in_double() {
    let (n, k) = (3_000, 10);
    let cost: Vec<f32> = label_costs(n, k, 0.0, 9)
        .iter()
        .map(|&c| c as f32)
        .collect();
    let problem = Problem::new(
        Dense::new(&cost, n, k).unwrap(),
        label_allocation(n, k, 0.9),
    )
    .unwrap();
    assert_optimal(&problem, &ShortestPaths::new().solve(&problem).unwrap());
}

#[test]
fn computed_costs_give_the_same_bits_as_stored_ones() {
    let (n, k) = (3_000, 10);
    let cost = label_costs(n, k, 0.0, 9);
    let stored = Problem::new(
        Dense::new(&cost, n, k).unwrap(),
        label_allocation(n, k, 0.9),
    )
    .unwrap();
    let computed = FromFn::new(n, k, |i, j| cost[i * k + j]).unwrap();
    let computed = Problem::<f64, _>::new(computed, label_allocation(n, k, 0.9)).unwrap();
    let a = ShortestPaths::new().solve(&stored).unwrap();
    let b = ShortestPaths::new().solve(&computed).unwrap();
    assert_eq!(a.potentials(), b.potentials());
    assert_eq!(a.plan().entries(0.0), b.plan().entries(0.0));
}

#[test]
fn forbidden_pairs_are_respected_or_reported() {
    let inf = f64::INFINITY;
    let solve = |cost: &[f64], a: &[f64], b: &[f64]| {
        let cost = Dense::new(cost, a.len(), b.len()).unwrap();
        let problem = Problem::new(cost, Marginals::balanced(a, b).unwrap()).unwrap();
        ShortestPaths::new().solve(&problem).map(|s| s.objective())
    };
    let forced = solve(
        &[0.0, inf, 0.0, 5.0, 0.0, 9.0],
        &[1.0, 1.0, 1.0],
        &[2.0, 1.0],
    );
    assert_eq!(forced, Ok(5.0));
    // Rows 0 and 1 only fit into column 0, which has room for one of them.
    let stuck = solve(
        &[0.0, inf, 0.0, inf, 0.0, 0.0],
        &[1.0, 1.0, 1.0],
        &[1.0, 2.0],
    );
    assert_eq!(
        stuck,
        Err(Error::Infeasible {
            stranded: 1.0,
            total: 3.0
        })
    );
    let row = solve(
        &[inf, inf, 0.0, 0.0, 0.0, 0.0],
        &[1.0, 1.0, 1.0],
        &[1.0, 2.0],
    );
    assert_eq!(
        row,
        Err(Error::Blocked {
            side: Side::Rows,
            index: 0,
            mass: 1.0
        })
    );
    let col = solve(
        &[0.0, inf, 0.0, inf, 0.0, inf],
        &[1.0, 1.0, 1.0],
        &[1.0, 2.0],
    );
    assert_eq!(
        col,
        Err(Error::Blocked {
            side: Side::Cols,
            index: 1,
            mass: 2.0
        })
    );
    let wide = solve(
        &[0.0, 0.0, 0.0, inf, inf, inf],
        &[1.0, 2.0],
        &[1.0, 1.0, 1.0],
    );
    assert_eq!(
        wide,
        Err(Error::Blocked {
            side: Side::Rows,
            index: 1,
            mass: 2.0
        })
    );
    let nan = solve(
        &[0.0, 1.0, f64::NAN, 0.0, 0.0, 0.0],
        &[1.0, 1.0, 1.0],
        &[1.0, 2.0],
    );
    assert!(matches!(nan, Err(Error::Cost { row: 1, col: 0, .. })));
    let wide_nan = solve(
        &[0.0, 1.0, f64::NEG_INFINITY, 0.0, 0.0, 0.0],
        &[1.0, 2.0],
        &[1.0, 1.0, 1.0],
    );
    assert!(matches!(wide_nan, Err(Error::Cost { row: 0, col: 2, .. })));
}

#[test]
fn sparse_permissions_on_many_rows() {
    // Each row may use three of forty columns, or stay unused at a price.
    let (n, k) = (3_000, 40);
    let mut rng = Rng(21);
    let mut cost = vec![f64::INFINITY; n * k];
    for row in cost.chunks_mut(k) {
        for _ in 0..3 {
            row[(rng.unit() * k as f64) as usize] = rng.unit();
        }
    }
    let a: Vec<f64> = (0..n).map(|_| rng.unit()).collect();
    let supply: f64 = a.iter().sum();
    let caps: Vec<f64> = (0..k).map(|_| 0.8 * supply / k as f64).collect();
    let slack = Slack::new(0.0, 0.2 * supply).col_cost(0.7);
    let masses = Marginals::with_slack(&a, &caps, slack).unwrap();
    let problem = Problem::new(Dense::new(&cost, n, k).unwrap(), masses).unwrap();
    assert_optimal(&problem, &ShortestPaths::new().solve(&problem).unwrap());
}

#[test]
fn it_can_be_stopped() {
    let (n, k) = (2_000, 10);
    // Classes of unequal appeal, so that their caps take rounds to settle.
    let cost = label_costs(n, k, 8.0, 9);
    let problem = Problem::new(
        Dense::new(&cost, n, k).unwrap(),
        label_allocation(n, k, 0.9),
    )
    .unwrap();
    let whole = ShortestPaths::new().solve(&problem).unwrap();
    assert!(whole.iterations() > 6, "{} rounds", whole.iterations());
    let capped = ShortestPaths::new()
        .max_iterations(3)
        .solve(&problem)
        .unwrap();
    assert_eq!(
        (capped.status(), capped.iterations()),
        (Status::IterationLimit, 3)
    );
    assert!(capped.violation() > 0.0);
    let stopped = ShortestPaths::new()
        .on_progress(|p| {
            if p.iteration < 5 {
                core::ops::ControlFlow::Continue(())
            } else {
                core::ops::ControlFlow::Break(())
            }
        })
        .solve(&problem)
        .unwrap();
    assert_eq!(
        (stopped.status(), stopped.iterations()),
        (Status::Stopped, 5)
    );
}

#[test]
fn wrong_starts_are_named() {
    let cost = [0.0, 1.0, 1.0, 0.0];
    let problem = Problem::new(
        Dense::new(&cost, 2, 2).unwrap(),
        Marginals::uniform(2, 2).unwrap(),
    )
    .unwrap();
    let start = |cols: Vec<f64>| Potentials::new(vec![0.0; 2], cols).slack(0.0, 0.0);
    let short = ShortestPaths::new()
        .solve_from(&problem, &start(vec![0.0]))
        .unwrap_err();
    assert!(matches!(
        short,
        Error::Length {
            expected: 2,
            found: 1,
            ..
        }
    ));
    let nan = ShortestPaths::new()
        .solve_from(&problem, &start(vec![0.0, f64::NAN]))
        .unwrap_err();
    assert!(matches!(
        nan,
        Error::Start {
            side: Side::Cols,
            index: 1,
            ..
        }
    ));
    let empty = start(vec![f64::NEG_INFINITY; 2]);
    assert_optimal(
        &problem,
        &ShortestPaths::new().solve_from(&problem, &empty).unwrap(),
    );
}

#[cfg(feature = "rayon")]
#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let (n, k) = (20_000, 10);
    let cost = label_costs(n, k, 0.0, 12);
    let problem = Problem::new(
        Dense::new(&cost, n, k).unwrap(),
        label_allocation(n, k, 0.9),
    )
    .unwrap();
    let answer = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            let solution = ShortestPaths::new().solve(&problem).unwrap();
            (solution.potentials().clone(), solution.plan().entries(0.0))
        })
    };
    assert_eq!(answer(1), answer(3));
}
