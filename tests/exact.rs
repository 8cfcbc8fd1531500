//! Both ways of the exact solver are the same answer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use core::ops::ControlFlow;

use earthmover::{
    Algorithm, Cost, Dense, Error, Euclidean, Exact, Manhattan, Marginals, Metric, NetworkSimplex,
    PointCloud, Problem, Slack, SquaredEuclidean, Start, Status, assignment, best_assignment,
};

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

/// Points from a seed, every other cloud displaced.
fn cloud(count: usize, dimension: usize, seed: u64, from: f64) -> Vec<f64> {
    let unit = |e: u64| {
        let mut z = (e + seed * 1_000_003).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..(count * dimension) as u64)
        .map(|e| from + unit(e) * unit(e + 77))
        .collect()
}

/// Lists and pivots find plans of the same cost, each proven optimal.
fn lists_agree<M: Metric<f64>>(metric: &M, here: &[f64], there: &[f64], d: usize, weigh: bool) {
    let cost = PointCloud::new(here, there, d, metric).unwrap();
    let mass = |count: usize| -> Vec<f64> {
        let weight = |i: usize| if weigh { 1.0 + (i * 7 % 5) as f64 } else { 1.0 };
        (0..count).map(weight).collect()
    };
    let masses = Marginals::normalised(&mass(here.len() / d), &mass(there.len() / d)).unwrap();
    let problem = Problem::new(cost, masses).unwrap();
    let by = |start| NetworkSimplex::new().start(start).solve(&problem).unwrap();
    let (lists, pivots) = (by(Start::ShortLists), by(Start::RowMinimum));
    assert_eq!(lists.status(), Status::Converged);
    assert!(lists.certificate().relative_gap() <= 1e-12);
    let optimum = pivots.objective();
    assert!((lists.objective() - optimum).abs() <= 1e-12 * optimum);
}

#[test]
fn short_lists_find_what_pivots_find() {
    for d in [1, 2, 3, 8] {
        let (here, there) = (cloud(600, d, 1, 0.0), cloud(600, d, 2, 0.3));
        lists_agree(&SquaredEuclidean, &here, &there, d, false);
    }
    let (here, there) = (cloud(560, 2, 3, 0.0), cloud(530, 2, 4, 0.2));
    lists_agree(&SquaredEuclidean, &here, &there, 2, true);
    lists_agree(&Euclidean, &here, &there, 2, false);
    lists_agree(&Manhattan, &here, &there, 2, true);
    // Many copies of few points.
    let coarse = |points: Vec<f64>| points.iter().map(|x| (x * 8.0).round()).collect::<Vec<_>>();
    lists_agree(&SquaredEuclidean, &coarse(here), &coarse(there), 2, false);
}

#[test]
fn large_clouds_of_equal_masses_are_listed() {
    for d in [2, 8] {
        let (here, there) = (cloud(1200, d, 5, 0.0), cloud(1200, d, 6, 0.5));
        let cost = PointCloud::new(&here, &there, d, SquaredEuclidean).unwrap();
        let problem = Problem::new(cost, Marginals::uniform(1200, 1200).unwrap()).unwrap();
        let exact = Exact::new().start(Start::ShortLists);
        let listed = exact.solve(&problem).unwrap();
        let pivots = NetworkSimplex::new().start(Start::Multiscale);
        let pivots = pivots.solve(&problem).unwrap();
        // Phases of paths, where pivots are some for each point.
        assert!(listed.iterations() < 600 && pivots.iterations() > 1200);
        assert!(listed.certificate().relative_gap() <= 1e-12);
        let optimum = pivots.objective();
        assert!((listed.objective() - optimum).abs() <= 1e-12 * optimum);
        // Cut short at any phase there is a feasible plan.
        for most in [0, 1, 5, listed.iterations() - 1] {
            let cut = exact.clone().max_iterations(most).solve(&problem).unwrap();
            assert_eq!(cut.status(), Status::IterationLimit, "{most}");
            assert!(cut.iterations() <= most && cut.certificate().violation <= 1e-12);
            assert!(cut.objective() >= optimum * (1.0 - 1e-12));
        }
        let stopped = exact.clone().on_progress(|_| ControlFlow::Break(()));
        let stopped = stopped.solve(&problem).unwrap();
        assert_eq!(stopped.status(), Status::Stopped);
        assert!(stopped.certificate().violation <= 1e-12);
    }
}

/// Every assignment of few rows, the best of them.
fn by_hand(cost: &dyn Cost<f64>, row: usize, taken: &mut Vec<bool>, alone: usize) -> f64 {
    if row == cost.rows() {
        return 0.0;
    }
    let mut best = f64::INFINITY;
    if alone > 0 {
        best = by_hand(cost, row + 1, taken, alone - 1);
    }
    for j in 0..cost.cols() {
        if !taken[j] {
            taken[j] = true;
            best = best.min(cost.at(row, j) + by_hand(cost, row + 1, taken, alone));
            taken[j] = false;
        }
    }
    best
}

#[test]
fn assignments_are_the_best_of_all() {
    for (n, m) in [(1, 1), (5, 5), (3, 6), (6, 3), (1, 4)] {
        let mut table = costs(n, m);
        // Small whole numbers, so that there are ties, and a forbidden pair where there is a choice.
        table.iter_mut().for_each(|c| *c = (*c * 9.0).floor());
        if n * m > 4 {
            table[m / 2] = f64::INFINITY;
        }
        let cost = Dense::new(&table, n, m).unwrap();
        let found = assignment(&cost).unwrap();
        let best = by_hand(&cost, 0, &mut vec![false; m], n.saturating_sub(m));
        assert_eq!(found.value, best, "{n}×{m}");
        let mut partners: Vec<usize> = found.partners.iter().flatten().copied().collect();
        assert_eq!(partners.len(), n.min(m));
        partners.sort_unstable();
        partners.dedup();
        assert_eq!(partners.len(), n.min(m));
        let gains: Vec<f64> = table.iter().map(|c| -c).collect();
        let gain = Dense::new(&gains, n, m).unwrap();
        assert_eq!(best_assignment(&gain).unwrap().value, -best);
    }
}

#[test]
fn assignments_that_cannot_be_are_refused() {
    let inf = f64::INFINITY;
    let table = [0.0, inf, 1.0, inf];
    let cost = Dense::new(&table, 2, 2).unwrap();
    assert!(matches!(
        assignment(&cost),
        Err(Error::Blocked { .. } | Error::Infeasible { .. })
    ));
    let table = [0.0, inf];
    let gain = Dense::new(&table, 1, 2).unwrap();
    let expected = Error::Cost {
        row: 0,
        col: 1,
        value: inf,
    };
    assert_eq!(best_assignment(&gain).unwrap_err(), expected);
}
