//! The exact solver against an independent LP solver, brute force, and its own certificate.
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

use earthmover::{
    Cost, Dense, Error, Euclidean, FromFn, Marginals, MetricFn, NetworkSimplex, PointCloud,
    Potentials, Problem, Real, Side, Slack, Solution, SquaredEuclidean, Start, Status,
};
use earthmover_testkit::{Rng, optimum};

fn assert_optimal<T: Real, C: Cost<T>>(solution: &Solution<'_, T, C>, problem: &Problem<T, C>) {
    assert_eq!(solution.status(), Status::Converged);
    let certificate = solution.certificate();
    let scale = certificate.primal.abs().max(certificate.dual.abs());
    assert!(
        certificate.gap().abs() <= 1e-12 * scale.max(1e-3),
        "gap {:e} of {:e}",
        certificate.gap(),
        scale
    );
    assert!(certificate.violation < 1e-14, "{:e}", certificate.violation);
    let entries = solution.plan().entries(0.0).len();
    assert!(entries < problem.rows() + problem.cols());
    // Tree prices are feasible as they are, not only after a c-transform.
    let p = solution.potentials();
    let slack = problem.marginals().slack();
    for i in 0..problem.rows() {
        for j in 0..problem.cols() {
            let c = problem.cost().at(i, j).widen();
            let (f, g) = (p.rows[i], p.cols[j]);
            assert!(f + g <= c + 1e-13 * (f.abs() + g.abs() + c.abs()).min(1e300));
        }
        if slack.col > 0.0 {
            assert!(p.rows[i] + p.slack_col <= slack.col_cost + 1e-12);
        }
    }
    if slack.row > 0.0 {
        for g in &p.cols {
            assert!(p.slack_row + g <= slack.row_cost + 1e-12);
        }
    }
}

#[test]
fn agrees_with_an_lp_solver_on_small_problems_of_every_kind() {
    let mut rng = Rng(1);
    let (mut feasible, mut infeasible) = (0, 0);
    for round in 0..600 {
        let (n, k) = (1 + rng.below(7), 1 + rng.below(7));
        let forbid = round % 3 == 0;
        let ties = round % 2 == 0;
        let cost: Vec<f64> = (0..n * k)
            .map(|_| match rng.below(5) {
                0 if forbid => f64::INFINITY,
                _ if ties => rng.below(4) as f64,
                _ => rng.unit() * 2.0 - 0.5,
            })
            .collect();
        let (a, b) = (rng.masses(n, true), rng.masses(k, true));
        let marginals = match round % 4 {
            0 => Marginals::balanced(&a, &b),
            1 => Marginals::bounded(&a, &b, 0.6 * rng.unit()),
            2 => Marginals::partial(&a, &b, 0.9 * rng.unit()),
            _ => {
                let (row, col) = (rng.unit(), rng.below(2) as f64);
                let scale = (1.0 + row - col).max(0.0);
                let b: Vec<f64> = b.iter().map(|x| x * scale).collect();
                Marginals::with_slack(
                    &a,
                    &b,
                    Slack::new(row, col)
                        .row_cost(rng.unit())
                        .col_cost(-rng.unit())
                        .corner_cost(rng.unit()),
                )
            }
        }
        .unwrap();
        let problem = Problem::new(Dense::new(&cost, n, k).unwrap(), marginals).unwrap();
        let expected = optimum(&cost, problem.marginals());
        match NetworkSimplex::new().solve(&problem) {
            Ok(solution) => {
                let expected = expected.unwrap_or_else(|| panic!("round {round}: is infeasible"));
                assert!(
                    // The oracle works to about seven digits; the certificate below to all.
                    (solution.objective() - expected).abs() < 1e-6,
                    "round {round}: {} instead of {expected}",
                    solution.objective()
                );
                assert_optimal(&solution, &problem);
                feasible += 1;
            }
            Err(Error::Infeasible { stranded, total }) => {
                assert!(expected.is_none(), "round {round}: {expected:?} found");
                assert!(stranded > 0.0 && stranded <= total);
                infeasible += 1;
            }
            Err(Error::Blocked { .. }) => {
                assert!(expected.is_none(), "round {round}: {expected:?} found");
                infeasible += 1;
            }
            Err(e) => panic!("round {round}: {e}"),
        }
    }
    assert!(feasible > 400 && infeasible > 20, "{feasible} {infeasible}");
}

#[test]
fn agrees_with_all_permutations_on_assignments_with_huge_ranges() {
    fn cheapest(cost: &[f64], n: usize, row: usize, taken: &mut [bool]) -> f64 {
        if row == n {
            return 0.0;
        }
        let mut best = f64::INFINITY;
        for j in 0..n {
            if !taken[j] {
                taken[j] = true;
                best = best.min(cost[row * n + j] + cheapest(cost, n, row + 1, taken));
                taken[j] = false;
            }
        }
        best
    }
    let mut rng = Rng(2);
    for round in 0..200 {
        let n = 1 + rng.below(7);
        let cost: Vec<f64> = (0..n * n)
            .map(|_| 10f64.powf(24.0 * rng.unit() - 12.0))
            .collect();
        let expected = cheapest(&cost, n, 0, &mut vec![false; n]);
        let problem = Problem::new(
            Dense::new(&cost, n, n).unwrap(),
            Marginals::balanced(&vec![1.0; n], &vec![1.0; n]).unwrap(),
        )
        .unwrap();
        let solution = NetworkSimplex::new().solve(&problem).unwrap();
        assert!(
            (solution.objective() - expected).abs() <= 1e-12 * expected,
            "round {round}: {} instead of {expected}",
            solution.objective()
        );
        let gap = solution.certificate().relative_gap();
        assert!(gap.abs() <= 1e-12, "round {round}: gap {gap:e}");
    }
}

#[test]
fn the_smallest_shapes() {
    for (n, k) in [(1, 1), (1, 5), (5, 1), (2, 2)] {
        let cost: Vec<f64> = (0..n * k).map(|x| x as f64).collect();
        let problem = Problem::new(
            Dense::new(&cost, n, k).unwrap(),
            Marginals::uniform(n, k).unwrap(),
        )
        .unwrap();
        let solution = NetworkSimplex::new().solve(&problem).unwrap();
        assert_optimal(&solution, &problem);
        let mean = cost.iter().sum::<f64>() / cost.len() as f64;
        assert!((solution.objective() - mean).abs() < 1e-15 || (n, k) == (2, 2));
    }
}

#[test]
fn stranded_mass_is_what_a_cut_says() {
    // Rows 0 and 1 may only use column 0, which takes 0.25 of their 0.75.
    let inf = f64::INFINITY;
    let cost = [1.0, inf, 2.0, inf, 3.0, 4.0];
    let problem = Problem::new(
        Dense::new(&cost, 3, 2).unwrap(),
        Marginals::balanced(&[0.5, 0.25, 0.25], &[0.25, 0.75]).unwrap(),
    )
    .unwrap();
    match NetworkSimplex::new().solve(&problem) {
        Err(Error::Infeasible { stranded, total }) => {
            assert!((stranded - 0.5).abs() < 1e-15);
            assert_eq!(total, 1.0);
        }
        other => panic!("{other:?}"),
    }
    // The same masses with a way out for column 1 are feasible only through one tree.
    let cost = [1.0, inf, 2.0, 7.0, 3.0, 4.0];
    let problem = Problem::new(
        Dense::new(&cost, 3, 2).unwrap(),
        Marginals::balanced(&[0.25, 0.5, 0.25], &[0.25, 0.75]).unwrap(),
    )
    .unwrap();
    let solution = NetworkSimplex::new().solve(&problem).unwrap();
    assert_eq!(solution.plan().to_dense(), [0.25, 0.0, 0.0, 0.5, 0.0, 0.25]);
    assert_optimal(&solution, &problem);
}

#[test]
fn a_permuted_staircase_of_allowed_pairs_is_found() {
    // Only one plan exists, and greedy choices miss it: row i may use columns i and i + 1 only.
    let n = 60;
    let cost = FromFn::new(n, n, move |i, j| {
        if j == (n - 1 - i) || (j + i == n && i > 0) {
            if j == (n - 1 - i) { 5.0 } else { 0.0 }
        } else {
            f64::INFINITY
        }
    })
    .unwrap();
    let problem = Problem::new(cost, Marginals::uniform(n, n).unwrap()).unwrap();
    let solution = NetworkSimplex::new().solve(&problem).unwrap();
    assert_optimal(&solution, &problem);
    assert!((solution.objective() - 5.0).abs() < 1e-12);
}

#[test]
fn bad_costs_and_blocked_masses_are_named() {
    let solve = |cost: &[f64], a: &[f64], b: &[f64]| {
        let problem = Problem::new(
            Dense::new(cost, a.len(), b.len()).unwrap(),
            Marginals::balanced(a, b).unwrap(),
        )
        .unwrap();
        NetworkSimplex::new().solve(&problem).err()
    };
    let (half, inf) = ([0.5, 0.5], f64::INFINITY);
    match solve(&[0.0, 1.0, f64::NAN, 0.0], &half, &half) {
        Some(Error::Cost {
            row: 1,
            col: 0,
            value,
        }) => assert!(value.is_nan()),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        solve(&[0.0, -inf, 1.0, 0.0], &half, &half),
        Some(Error::Cost {
            row: 0,
            col: 1,
            value: -inf
        })
    );
    assert_eq!(
        solve(&[0.0, 1.0, inf, inf], &half, &half),
        Some(Error::Blocked {
            side: Side::Rows,
            index: 1,
            mass: 0.5
        })
    );
    assert_eq!(
        solve(&[0.0, inf, 0.0, inf], &half, &half),
        Some(Error::Blocked {
            side: Side::Cols,
            index: 1,
            mass: 0.5
        })
    );
    // No mass, no complaint.
    assert_eq!(solve(&[0.0, 1.0, inf, inf], &[1.0, 0.0], &half), None);
}

fn plane(rng: &mut Rng, n: usize) -> Vec<f64> {
    (0..2 * n).map(|_| rng.unit()).collect()
}

fn squared(x: &[f64], y: &[f64]) -> Vec<f64> {
    let pairs = x.chunks(2).flat_map(|p| y.chunks(2).map(move |q| (p, q)));
    pairs
        .map(|(p, q)| (p[0] - q[0]).powi(2) + (p[1] - q[1]).powi(2))
        .collect()
}

#[test]
fn degenerate_assignments_end_and_are_certified() {
    let mut rng = Rng(3);
    let n = 300;
    let random = squared(&plane(&mut rng, n), &plane(&mut rng, n));
    let tied: Vec<f64> = (0..n * n).map(|_| rng.below(3) as f64).collect();
    let mut duplicated = plane(&mut rng, 10).repeat(n / 10);
    let copies = squared(&duplicated, &plane(&mut rng, n));
    duplicated.truncate(2 * n);
    let itself = squared(&duplicated, &duplicated);
    for cost in [&random, &tied, &copies, &itself] {
        let problem = Problem::new(
            Dense::new(cost, n, n).unwrap(),
            Marginals::uniform(n, n).unwrap(),
        )
        .unwrap();
        let solution = NetworkSimplex::new().solve(&problem).unwrap();
        assert_optimal(&solution, &problem);
        // A vertex of the assignment polytope is a permutation.
        assert_eq!(solution.plan().entries(0.0).len(), n);
    }
}

#[test]
fn oblong_heavy_tailed_and_f32() {
    let mut rng = Rng(4);
    for (n, k) in [(40, 300), (300, 40), (500, 2), (2, 500), (151, 97)] {
        let cost = squared(&plane(&mut rng, n), &plane(&mut rng, k));
        let heavy = |rng: &mut Rng, n: usize| {
            let m: Vec<f64> = (0..n).map(|_| rng.unit().powi(-2)).collect();
            let total: f64 = m.iter().sum();
            m.iter().map(|x| x / total).collect::<Vec<_>>()
        };
        let marginals = Marginals::balanced(&heavy(&mut rng, n), &heavy(&mut rng, k)).unwrap();
        let problem = Problem::new(Dense::new(&cost, n, k).unwrap(), marginals.clone()).unwrap();
        let wide = NetworkSimplex::new().solve(&problem).unwrap();
        assert_optimal(&wide, &problem);
        let narrow: Vec<f32> = cost.iter().map(|&c| c as f32).collect();
        let single = Problem::new(Dense::new(&narrow, n, k).unwrap(), marginals).unwrap();
        let solution = NetworkSimplex::new().solve(&single).unwrap();
        assert_optimal(&solution, &single);
        assert!((solution.objective() - wide.objective()).abs() < 1e-6);
    }
}

#[test]
fn closures_and_slices_give_the_same_answer() {
    let mut rng = Rng(5);
    let (n, k) = (70, 90);
    let cost = squared(&plane(&mut rng, n), &plane(&mut rng, k));
    let marginals = Marginals::bounded(&vec![1.0; n], &vec![1.5; k], 50.0).unwrap();
    let dense = Problem::new(Dense::new(&cost, n, k).unwrap(), marginals.clone()).unwrap();
    let lazy = Problem::new(
        FromFn::new(n, k, |i, j| cost[i * k + j]).unwrap(),
        marginals,
    )
    .unwrap();
    let (x, y) = (
        NetworkSimplex::new().solve(&dense).unwrap(),
        NetworkSimplex::new().solve(&lazy).unwrap(),
    );
    assert_eq!(x.potentials(), y.potentials());
    assert_eq!(x.plan().to_dense(), y.plan().to_dense());
    assert!((x.plan().mass() - 50.0).abs() < 1e-12);
}

#[test]
fn caps_and_callbacks_stop_with_a_feasible_plan() {
    let mut rng = Rng(6);
    let n = 200;
    let cost = squared(&plane(&mut rng, n), &plane(&mut rng, n));
    let problem = Problem::new(
        Dense::new(&cost, n, n).unwrap(),
        Marginals::balanced(&rng.masses(n, false), &rng.masses(n, false)).unwrap(),
    )
    .unwrap();
    let full = NetworkSimplex::new().solve(&problem).unwrap();
    let capped = NetworkSimplex::new()
        .max_iterations(10)
        .solve(&problem)
        .unwrap();
    assert_eq!(capped.status(), Status::IterationLimit);
    assert_eq!(capped.iterations(), 10);
    let judged = capped.certificate();
    assert!(judged.violation < 1e-14);
    assert!(judged.dual <= full.objective() && full.objective() < judged.primal);
    let enough = NetworkSimplex::new().max_iterations(full.iterations());
    assert_eq!(enough.solve(&problem).unwrap().status(), Status::Converged);

    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    let stopped = NetworkSimplex::new()
        .on_progress(move |p| {
            assert_eq!(p.violation, 0.0);
            seen.fetch_add(1, Ordering::Relaxed);
            ControlFlow::Break(())
        })
        .solve(&problem)
        .unwrap();
    assert_eq!(stopped.status(), Status::Stopped);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert!(stopped.certificate().violation < 1e-14);
}

#[test]
fn a_warm_start_from_the_answer_has_hardly_a_pivot_left() {
    let mut rng = Rng(7);
    let n = 200;
    let cost = squared(&plane(&mut rng, n), &plane(&mut rng, n));
    for marginals in [
        Marginals::uniform(n, n).unwrap(),
        Marginals::balanced(&rng.masses(n, true), &rng.masses(n, true)).unwrap(),
        Marginals::bounded(&rng.masses(n, true), &rng.masses(n, false), 0.7).unwrap(),
    ] {
        let problem = Problem::new(Dense::new(&cost, n, n).unwrap(), marginals).unwrap();
        let cold = NetworkSimplex::new().solve(&problem).unwrap();
        let warm = NetworkSimplex::new()
            .solve_from(&problem, cold.potentials())
            .unwrap();
        assert_optimal(&warm, &problem);
        assert!(
            warm.iterations() * 20 <= cold.iterations(),
            "{} after {}",
            warm.iterations(),
            cold.iterations()
        );
        assert!((warm.objective() - cold.objective()).abs() <= 1e-13 * cold.objective());
        // Prices that are nearly right are worth something, too.
        let mut nearly = cold.potentials().clone();
        nearly.cols.iter_mut().for_each(|g| *g += 1e-6 * rng.unit());
        let solver = NetworkSimplex::new();
        let again = solver.solve_from(&problem, &nearly).unwrap();
        assert_optimal(&again, &problem);
        assert!(2 * again.iterations() < cold.iterations());
    }
}

#[test]
fn potentials_that_do_not_fit_are_refused() {
    let problem = Problem::new(
        Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2).unwrap(),
        Marginals::uniform(2, 2).unwrap(),
    )
    .unwrap();
    let from = |cols: Vec<f64>| {
        let start = Potentials::from_columns(cols).slack(0.0, 0.0);
        NetworkSimplex::new().solve_from(&problem, &start).err()
    };
    assert!(matches!(
        from(vec![0.0]),
        Some(Error::Length {
            expected: 2,
            found: 1,
            ..
        })
    ));
    assert!(matches!(
        from(vec![0.0, f64::NAN]),
        Some(Error::Start {
            side: Side::Cols,
            index: 1,
            ..
        })
    ));
    assert_eq!(from(vec![f64::NEG_INFINITY, 1e9]), None);
}

#[test]
fn coarse_to_fine_gives_the_exact_answer() {
    let mut rng = Rng(8);
    let shapes = [(700, 700), (530, 1400), (1100, 600)];
    for (round, (n, k)) in shapes.into_iter().enumerate() {
        let (mut x, y) = (plane(&mut rng, n), plane(&mut rng, k));
        if round == 1 {
            x = x[..100].repeat(n / 50 + 1)[..2 * n].to_vec(); // duplicates
        }
        let marginals = match round {
            0 => Marginals::uniform(n, k).unwrap(),
            1 => Marginals::balanced(&rng.masses(n, true), &rng.masses(k, true)).unwrap(),
            _ => Marginals::bounded(&rng.masses(n, false), &rng.masses(k, true), 0.8).unwrap(),
        };
        let cloud = PointCloud::new(&x, &y, 2, SquaredEuclidean).unwrap();
        let problem = Problem::new(cloud, marginals).unwrap();
        let plain = NetworkSimplex::new().start(Start::RowMinimum);
        let plain = plain.solve(&problem).unwrap();
        for start in [Start::Auto, Start::Multiscale] {
            let solution = NetworkSimplex::new().start(start).solve(&problem).unwrap();
            assert_optimal(&solution, &problem);
            let difference = (solution.objective() - plain.objective()).abs();
            assert!(difference <= 1e-12 * plain.objective());
        }
        let capped = NetworkSimplex::new().max_iterations(20);
        let capped = capped.solve(&problem).unwrap();
        assert_eq!(capped.status(), Status::IterationLimit);
        assert!(capped.iterations() <= 20 && capped.certificate().violation < 1e-14);
    }
}

#[test]
fn coarse_to_fine_copes_with_odd_metrics_and_few_points() {
    let mut rng = Rng(9);
    // Pairs further than 0.4 apart are forbidden.
    let near = MetricFn(|x: &[f64], y: &[f64]| {
        let far = (x[0] - y[0]).hypot(x[1] - y[1]);
        if far < 0.4 { far } else { f64::INFINITY }
    });
    let n = 600;
    let (x, y) = (plane(&mut rng, n), plane(&mut rng, n));
    let cloud = PointCloud::new(&x, &y, 2, near).unwrap();
    let problem = Problem::new(cloud, Marginals::uniform(n, n).unwrap()).unwrap();
    let solution = NetworkSimplex::new().solve(&problem).unwrap();
    assert_optimal(&solution, &problem);
    for n in [1, 2, 3, 5] {
        let cloud = PointCloud::new(&x[..2 * n], &y[..4], 2, Euclidean).unwrap();
        let problem = Problem::new(cloud, Marginals::uniform(n, 2).unwrap()).unwrap();
        let solver = NetworkSimplex::new().start(Start::Multiscale);
        assert_optimal(&solver.solve(&problem).unwrap(), &problem);
    }
}
