//! Both ways of the exact solver are the same answer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use core::ops::ControlFlow;

use earthmover::{Algorithm, Dense, Error, Exact, Marginals, Problem, Slack, Status};

fn costs(n: usize, k: usize) -> Vec<f64> {
    (0..n * k)
        .map(|e| {
            ((e as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / (1u64 << 24) as f64
        })
        .collect()
}

#[test]
fn ways_agree_on_every_shape() {
    for (n, k) in [
        (1, 1),
        (1, 9),
        (9, 1),
        (300, 4),
        (4, 300),
        (60, 60),
        (90, 40),
    ] {
        let cost = costs(n, k);
        let slack = Slack {
            row: 1.0 + k as f64,
            col: 1.0 + n as f64,
            col_cost: 0.3,
            ..Slack::NONE
        };
        let a = vec![1.0; n];
        let b = vec![1.0; k];
        let masses = Marginals::with_slack(&a, &b, slack).unwrap();
        let problem = Problem::new(Dense::new(&cost, n, k).unwrap(), masses).unwrap();
        let price = |way| {
            let solution = Exact::new().algorithm(way).solve(&problem).unwrap();
            assert!(solution.certificate().gap().abs() <= 1e-12 * (n + k) as f64);
            solution.objective()
        };
        let optimum = price(Algorithm::NetworkSimplex);
        for way in [Algorithm::Auto, Algorithm::ShortestPaths] {
            assert!(
                (price(way) - optimum).abs() <= 1e-10 * (1.0 + optimum),
                "{n}×{k}"
            );
        }
    }
}

#[test]
fn ways_agree_on_what_cannot_be_done() {
    let inf = f64::INFINITY;
    let cost = [0.0, inf, 0.0, inf, 0.0, 0.0];
    let masses = Marginals::balanced(&[1.0, 1.0, 1.0], &[1.0, 2.0]).unwrap();
    let problem = Problem::new(Dense::new(&cost, 3, 2).unwrap(), masses).unwrap();
    for way in [Algorithm::NetworkSimplex, Algorithm::ShortestPaths] {
        let error = Exact::new().algorithm(way).solve(&problem).unwrap_err();
        assert_eq!(
            error,
            Error::Infeasible {
                stranded: 1.0,
                total: 3.0
            }
        );
    }
}

#[test]
fn options_reach_either_way() {
    let (n, k) = (400, 8);
    let cost = costs(n, k);
    let problem = Problem::new(
        Dense::new(&cost, n, k).unwrap(),
        Marginals::uniform(n, k).unwrap(),
    )
    .unwrap();
    for way in [Algorithm::NetworkSimplex, Algorithm::ShortestPaths] {
        let capped = Exact::new()
            .algorithm(way)
            .max_iterations(1)
            .solve(&problem)
            .unwrap();
        assert_eq!(
            (capped.status(), capped.iterations()),
            (Status::IterationLimit, 1)
        );
        let stopped = Exact::new()
            .algorithm(way)
            .on_progress(|_| ControlFlow::Break(()))
            .solve(&problem)
            .unwrap();
        assert_ne!(stopped.status(), Status::IterationLimit);
        let best = Exact::new().algorithm(way).solve(&problem).unwrap();
        let again = Exact::new()
            .algorithm(way)
            .solve_from(&problem, best.potentials())
            .unwrap();
        assert!((again.objective() - best.objective()).abs() <= 1e-12);
    }
}

#[test]
fn a_trial_that_runs_out_is_taken_over() {
    // Costs between points need many rounds of the contracted graph: more than this shape is given.
    let (n, k) = (300, 60);
    let point = |i: usize, step: usize| ((i * step) % 997) as f64 / 997.0;
    let cost: Vec<f64> = (0..n * k)
        .map(|e| {
            let (i, j) = (e / k, e % k);
            let (x, y) = (point(i, 613) - point(j, 389), point(i, 71) - point(j, 863));
            x * x + y * y
        })
        .collect();
    let problem = Problem::new(
        Dense::new(&cost, n, k).unwrap(),
        Marginals::uniform(n, k).unwrap(),
    )
    .unwrap();
    let simplex = Exact::new()
        .algorithm(Algorithm::NetworkSimplex)
        .solve(&problem)
        .unwrap();
    let auto = Exact::new().solve(&problem).unwrap();
    assert_eq!(auto.status(), Status::Converged);
    assert!(auto.certificate().relative_gap().abs() < 1e-12);
    assert!((auto.objective() - simplex.objective()).abs() < 1e-12);
    // A cap of the caller's own is not a trial.
    let capped = Exact::new().max_iterations(1).solve(&problem).unwrap();
    assert_eq!(capped.status(), Status::IterationLimit);
}
