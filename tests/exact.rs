//! Both ways of the exact solver are the same answer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use core::ops::ControlFlow;
use core::time::Duration;

use earthmover::{
    Algorithm, Cosine, Cost, Dense, Error, Euclidean, Exact, Manhattan, Marginals, Metric,
    MetricFn, NetworkSimplex, PointCloud, Problem, Real, Slack, SquaredEuclidean, Start, Status,
    assignment, best_assignment,
};
use earthmover_testkit::Rng;

fn costs(n: usize, k: usize) -> Vec<f64> {
    Rng(1).units(n * k)
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
        let slack = Slack::new(1.0 + k as f64, 1.0 + n as f64).col_cost(0.3);
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
    let mut rng = Rng(seed);
    (0..count * dimension)
        .map(|_| from + rng.unit() * rng.unit())
        .collect()
}

/// Coarse to fine over lists, and pivots over all pairs, find plans of the same cost, each proven optimal.
fn lists_agree<T: Real, M: Metric<T>>(metric: &M, here: &[T], there: &[T], d: usize, weigh: bool) {
    let cost = PointCloud::new(here, there, d, metric).unwrap();
    let mass = |count: usize| -> Vec<f64> {
        let weight = |i: usize| if weigh { (i * 7 % 5) as f64 } else { 1.0 };
        (0..count).map(weight).collect()
    };
    let masses = Marginals::normalised(&mass(here.len() / d), &mass(there.len() / d)).unwrap();
    let problem = Problem::new(cost, masses).unwrap();
    let by = |start| NetworkSimplex::new().start(start).solve(&problem).unwrap();
    let (lists, pivots) = (by(Start::Multiscale), by(Start::RowMinimum));
    assert_eq!(lists.status(), Status::Converged);
    let gap = lists.certificate().relative_gap();
    assert!(gap <= 1e-12, "d = {d}: {gap}");
    let optimum = pivots.objective();
    assert!((lists.objective() - optimum).abs() <= 1e-12 * optimum);
}

#[test]
fn lists_find_what_all_pairs_do() {
    for d in [1, 2, 3, 5, 10] {
        let (here, there) = (cloud(600, d, 1, 0.0), cloud(600, d, 2, 0.3));
        lists_agree(&SquaredEuclidean, &here, &there, d, false);
    }
    let (here, there) = (cloud(560, 2, 3, 0.0), cloud(1530, 2, 4, 0.2));
    lists_agree(&SquaredEuclidean, &here, &there, 2, true);
    lists_agree(&Euclidean, &here, &there, 2, false);
    lists_agree(&Manhattan, &here, &there, 2, true);
    lists_agree(&Cosine, &here, &there, 2, true);
    // A metric that nobody has told anything about.
    let slanted =
        MetricFn(|x: &[f64], y: &[f64]| (x[0] - 2.0 * y[1]).abs() + (x[1] - y[0]).powi(2));
    lists_agree(&slanted, &here, &there, 2, true);
    // Many copies of few points.
    let coarse = |points: &[f64]| points.iter().map(|x| (x * 8.0).round()).collect::<Vec<_>>();
    let (copies, others) = (coarse(&here), coarse(&there));
    lists_agree(&SquaredEuclidean, &copies, &others, 2, false);
    lists_agree(&Manhattan, &copies, &others, 2, true);
    let narrow = |points: &[f64]| points.iter().map(|&x| x as f32).collect::<Vec<_>>();
    lists_agree(&SquaredEuclidean, &narrow(&here), &narrow(&there), 2, true);
    lists_agree(&Euclidean, &narrow(&here), &narrow(&there), 2, false);
}

#[test]
fn lists_find_what_is_far_from_evenly_spread() {
    for d in [2, 5] {
        let mut rng = Rng(9);
        let mut tails = |count: usize| -> Vec<f64> {
            let far = (0..count * d).map(|_| rng.normal() / rng.unit().max(1e-3));
            far.collect()
        };
        let (here, there) = (tails(700), tails(900));
        lists_agree(&SquaredEuclidean, &here, &there, d, false);
        lists_agree(&Euclidean, &here, &there, d, true);
        // Ten tight clusters a side, none above another.
        let mut clusters = |count: usize| -> Vec<f64> {
            let centres: Vec<f64> = (0..10 * d).map(|_| rng.unit()).collect();
            let point = |at: usize| centres[at / d % 10 * d + at % d] + 1e-4 * rng.normal();
            (0..count * d).map(point).collect()
        };
        let (here, there) = (clusters(700), clusters(600));
        lists_agree(&SquaredEuclidean, &here, &there, d, true);
        lists_agree(&Manhattan, &here, &there, d, false);
    }
}

#[test]
fn lists_leave_room_for_slack_and_start_from_prices() {
    let (here, there) = (cloud(600, 2, 1, 0.0), cloud(800, 2, 2, 0.3));
    let cost = PointCloud::new(&here, &there, 2, SquaredEuclidean).unwrap();
    let (a, b) = (vec![1.0; 600], vec![1.0; 800]);
    for placed in [300.0, 590.0] {
        let masses = Marginals::bounded(&a, &b, placed).unwrap();
        let problem = Problem::new(&cost, masses).unwrap();
        let by = |start| NetworkSimplex::new().start(start).solve(&problem).unwrap();
        let (lists, pivots) = (by(Start::Multiscale), by(Start::RowMinimum));
        assert!(lists.certificate().relative_gap() <= 1e-12);
        let optimum = pivots.objective();
        assert!((lists.objective() - optimum).abs() <= 1e-12 * optimum);
    }
    let problem = Problem::new(&cost, Marginals::normalised(&a, &b).unwrap()).unwrap();
    let cold = Exact::new().solve(&problem).unwrap();
    let mut prices = cold.potentials().clone();
    for tilt in [0.0, 1e-3, 10.0] {
        let cols = prices.cols.iter_mut().enumerate();
        cols.for_each(|(j, g)| *g += tilt * (j % 3) as f64);
        let warm = Exact::new().solve_from(&problem, &prices).unwrap();
        assert!(tilt > 0.0 || 4 * warm.iterations() < cold.iterations());
        assert!(warm.certificate().relative_gap() <= 1e-12);
        assert!((warm.objective() - cold.objective()).abs() <= 1e-12 * cold.objective());
    }
}

#[test]
fn large_clouds_that_are_cut_short_keep_a_feasible_plan() {
    for d in [2, 8] {
        let (here, there) = (cloud(1200, d, 5, 0.0), cloud(1200, d, 6, 0.5));
        let cost = PointCloud::new(&here, &there, d, SquaredEuclidean).unwrap();
        let problem = Problem::new(cost, Marginals::uniform(1200, 1200).unwrap()).unwrap();
        let exact = Exact::new();
        let whole = exact.solve(&problem).unwrap();
        let optimum = whole.objective();
        assert!(whole.certificate().relative_gap() <= 1e-12);
        for most in [0, 1, 700, whole.iterations() / 2] {
            let cut = exact.clone().max_iterations(most).solve(&problem).unwrap();
            assert_eq!(cut.status(), Status::IterationLimit, "{most}");
            let proof = cut.certificate();
            assert!(cut.iterations() <= most && proof.violation <= 1e-12);
            assert!(proof.dual <= optimum * (1.0 + 1e-12) && optimum <= proof.primal);
        }
        let at_once = exact.clone().on_progress(|_| ControlFlow::Break(()));
        let late = exact.clone().time_limit(Duration::ZERO);
        for stopped in [at_once, late] {
            let stopped = stopped.solve(&problem).unwrap();
            assert_eq!(stopped.status(), Status::Stopped);
            assert!(stopped.certificate().violation <= 1e-12);
        }
        // Whoever watches is told bounds that hold.
        let watched = Exact::new().on_progress(move |now| {
            assert!(now.gap >= 0.0 && (0.0..=1.0).contains(&now.done));
            ControlFlow::Continue(())
        });
        assert_eq!(watched.solve(&problem).unwrap().objective(), optimum);
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

/// Costs in whole numbers, half of the pairs forbidden where asked for, masses in whole numbers.
fn whole_problem(
    rng: &mut Rng,
    n: usize,
    k: usize,
    forbidden: bool,
) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let costs = (0..n * k).map(|_| match forbidden && rng.unit() < 0.5 {
        true => f64::INFINITY,
        false => (rng.unit() * 16.0).round(),
    });
    let costs = costs.collect();
    let rows: Vec<f64> = (0..n).map(|_| 1.0 + (rng.unit() * 4.0).floor()).collect();
    let share = 4.0 * n as f64 / k as f64;
    let cols = (0..k).map(|_| 1.0 + (rng.unit() * share).floor()).collect();
    (costs, rows, cols)
}

#[test]
fn whoever_stops_has_a_feasible_plan_and_a_true_bound() {
    let mut rng = Rng(29);
    let shapes = [
        (2, 1),
        (3, 1),
        (2, 2),
        (4, 2),
        (6, 3),
        (3, 6),
        (9, 9),
        (30, 4),
        (4, 30),
    ];
    let mut stops = 0;
    for round in 0..shapes.len() * 40 {
        let (n, k) = shapes[round % shapes.len()];
        let forbidden = round % 5 < 2;
        let (costs, a, b) = whole_problem(&mut rng, n, k, forbidden);
        let most = a.iter().sum::<f64>().min(b.iter().sum());
        let masses = match round % 3 {
            0 => Marginals::bounded(&a, &b, (0.7 * most).ceil()),
            1 => Marginals::partial(&a, &b, (0.7 * most).ceil()),
            _ => Marginals::normalised(&a, &b),
        };
        let cost = Dense::new(&costs, n, k).unwrap();
        let problem = Problem::new(cost, masses.unwrap()).unwrap();
        let Ok(best) = NetworkSimplex::new().solve(&problem) else {
            continue;
        };
        let optimum = best.certificate().primal;
        for call in 0..3usize {
            for way in [Algorithm::NetworkSimplex, Algorithm::ShortestPaths] {
                let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
                let watched = std::sync::Arc::clone(&seen);
                let solver = Exact::new().algorithm(way).on_progress(move |p| {
                    let mut seen = watched.lock().unwrap();
                    seen.push(p.gap);
                    match seen.len() > call {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    }
                });
                let capped = Exact::new().algorithm(way).max_iterations(call);
                let answer = solver.solve(&problem).unwrap();
                let gap = seen.lock().unwrap().last().copied();
                for (answer, gap) in [(answer, gap), (capped.solve(&problem).unwrap(), None)] {
                    let certificate = answer.certificate();
                    assert!(
                        certificate.violation <= 1e-9,
                        "{way:?} {costs:?} {a:?} {b:?}: {certificate:?}"
                    );
                    let dearer = certificate.objective - optimum;
                    assert!(
                        (-1e-9..1e9).contains(&dearer),
                        "{way:?}: {certificate:?}, {optimum}"
                    );
                    if answer.status() == Status::Stopped {
                        stops += 1;
                        let gap = gap.unwrap_or(f64::INFINITY);
                        assert!(
                            dearer <= gap + 1e-9,
                            "{way:?} {n} x {k}: {dearer} beyond {gap}"
                        );
                    }
                }
            }
        }
    }
    assert!(stops > 300, "{stops}");
}

#[test]
fn starts_are_sound_on_both_sides() {
    let costs = costs(2, 3);
    let problem = Problem::new(
        Dense::new(&costs, 2, 3).unwrap(),
        Marginals::uniform(2, 3).unwrap(),
    )
    .unwrap();
    let mut start = Exact::new().solve(&problem).unwrap().potentials().clone();
    assert!(Exact::new().solve_from(&problem, &start).is_ok());
    start.rows[1] = f64::NAN;
    let error = Exact::new().solve_from(&problem, &start).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Start {
                side: earthmover::Side::Rows,
                index: 1,
                ..
            }
        ),
        "{error}"
    );
    start.rows = vec![0.0; 7];
    let error = Exact::new().solve_from(&problem, &start).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Length {
                expected: 2,
                found: 7,
                ..
            }
        ),
        "{error}"
    );
    // Prices of the columns alone are a start.
    start.rows.clear();
    assert!(Exact::new().solve_from(&problem, &start).is_ok());
}
