use super::objective::Objective;
use super::*;
use crate::kernel::random::Random;
use crate::solver::Guard;
use crate::{Dense, Entry, Exact, Problem, Status};
use core::ops::ControlFlow;

fn relations(random: &mut Random, n: usize, symmetric: bool) -> Vec<f64> {
    let mut table = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..n {
            table[i * n + j] = if symmetric && j < i {
                table[j * n + i]
            } else {
                random.unit()
            };
        }
    }
    table
}

fn masses(random: &mut Random, n: usize) -> Vec<f64> {
    let mut a: Vec<f64> = (0..n).map(|_| 0.2 + random.unit()).collect();
    let total: f64 = a.iter().sum();
    a.iter_mut().for_each(|a| *a /= total);
    a
}

/// The definition: four sums.
fn naive(problem: &GromovProblem<'_>, plan: &[f64]) -> f64 {
    let (n, m) = (problem.rows.len(), problem.cols.len());
    let mut total = 0.0;
    for i in 0..n {
        for k in 0..n {
            for j in 0..m {
                for l in 0..m {
                    let loss = problem
                        .loss
                        .between(problem.rows.at(i, k), problem.cols.at(j, l));
                    total += loss * plan[i * m + j] * plan[k * m + l];
                }
            }
        }
    }
    let linear = problem.features.map_or(0.0, |(costs, share)| {
        (1.0 - share) * costs.iter().zip(plan).map(|(c, p)| c * p).sum::<f64>()
    });
    problem.share() * total + linear
}

fn points(random: &mut Random, n: usize, d: usize) -> Vec<f64> {
    (0..n * d).map(|_| random.normal()).collect()
}

#[test]
fn values_are_the_definition_for_every_kind_of_problem() {
    let mut random = Random::new(41, 0);
    for case in 0..24 {
        let (n, m) = (3 + case % 4, 2 + case % 5);
        let symmetric = case % 3 != 0;
        let (c, d) = (
            relations(&mut random, n, symmetric),
            relations(&mut random, m, symmetric),
        );
        let (a, b) = (masses(&mut random, n), masses(&mut random, m));
        let features: Vec<f64> = (0..n * m).map(|_| random.unit()).collect();
        let marginals = if case % 4 == 1 {
            Marginals::partial(&a, &b, 0.6).unwrap()
        } else {
            Marginals::balanced(&a, &b).unwrap()
        };
        let mut problem = GromovProblem::new(
            Relations::table(&c, n).unwrap(),
            Relations::table(&d, m).unwrap(),
            marginals,
        )
        .unwrap();
        if case % 2 == 0 {
            problem = problem.fused(&features, 0.3).unwrap();
        }
        if case % 5 == 0 {
            problem = problem.loss(Loss::Kl);
        }
        if case % 4 == 3 {
            problem = problem.semi_relaxed();
        }
        let solution = GromovWasserstein::new().starts(3).solve(&problem).unwrap();
        let plan = solution.to_dense();
        let value = naive(&problem, &plan);
        assert!((solution.value() - value).abs() < 1e-11, "case {case}");
        // The value as the images have it, at the product, too.
        let tables = Tables::new(&problem).unwrap();
        let (share, image, linear, quadratic) = tables.product();
        let product: Vec<f64> = a
            .iter()
            .flat_map(|a| b.iter().map(move |b| share * a * b))
            .collect();
        let value = tables.constant() + linear - quadratic;
        assert!(
            (value - naive(&problem, &product)).abs() < 1e-12,
            "case {case}"
        );
        assert!(solution.value() <= value + 1e-12);
        // The image of a sparse plan is its gradient: differences say so.
        let entries = [
            Entry {
                row: 0,
                col: m - 1,
                mass: 0.3,
            },
            Entry {
                row: n - 1,
                col: 0,
                mass: 0.2,
            },
        ];
        let of_entries = tables.image(&entries, None);
        let from_before = tables.image(
            &entries,
            Some((&entries[..1], &tables.image(&entries[..1], None))),
        );
        assert!(
            of_entries
                .iter()
                .zip(&from_before)
                .all(|(x, y)| (x - y).abs() < 1e-13)
        );
        assert!(
            (tables.inner(&image, &entries) - {
                let lines = of_entries.iter().zip(&product).map(|(x, p)| x * p);
                lines.sum::<f64>()
            })
            .abs()
                < 1e-12,
            "case {case}: A is not symmetric"
        );
        let proof = solution.certificate();
        assert!(proof.lower <= proof.upper && proof.stationarity >= 0.0);
        if problem.is_balanced() && problem.loss == Loss::Square {
            assert!(proof.lower >= 0.0);
        }
    }
}

#[test]
fn the_same_graph_in_another_order_is_found() {
    let mut random = Random::new(42, 0);
    let n = 40;
    let c = relations(&mut random, n, true);
    let mut order: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        order.swap(i, (random.unit() * (i + 1) as f64) as usize);
    }
    let mut d = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..n {
            d[order[i] * n + order[j]] = c[i * n + j];
        }
    }
    for loss in [Loss::Square, Loss::Kl] {
        let problem = GromovProblem::new(
            Relations::table(&c, n).unwrap(),
            Relations::table(&d, n).unwrap(),
            Marginals::uniform(n, n).unwrap(),
        )
        .unwrap()
        .loss(loss);
        let solution = GromovWasserstein::new().solve(&problem).unwrap();
        assert_eq!(solution.status(), Status::Converged);
        assert!(solution.value().abs() < 1e-14);
        assert!(solution.certificate().gap() < 1e-9);
        assert!(
            solution
                .argmax()
                .iter()
                .zip(&order)
                .all(|(found, place)| *found == Some(*place))
        );
    }
}

#[test]
fn clouds_without_tables_are_clouds_with_them() {
    let mut random = Random::new(43, 0);
    let (x, y) = (points(&mut random, 30, 2), points(&mut random, 25, 3));
    let (a, b) = (masses(&mut random, 30), masses(&mut random, 25));
    let marginals = Marginals::balanced(&a, &b).unwrap();
    let problem = GromovProblem::new(
        Relations::points(&x, 2).unwrap(),
        Relations::points(&y, 3).unwrap(),
        marginals,
    )
    .unwrap();
    let clouds = problem.clouds().unwrap();
    let tables = Tables::new(&problem).unwrap();
    let mut prices = None;
    let mut image = clouds.product().1;
    let mut table = tables.product().1;
    for _ in 0..3 {
        let plan = clouds
            .oracle(&image, &mut prices, &Guard::nobody())
            .unwrap();
        // As good for the table's gradient as the table's own.
        let own = tables.oracle(&table, &mut None, &Guard::nobody()).unwrap();
        let worth = |p: &[Entry]| tables.inner(&table, p);
        assert!((worth(&plan) - worth(&own)).abs() < 1e-9);
        image = clouds.image(&plan, None);
        table = tables.image(&plan, None);
        let value = |linear: f64, quadratic: f64, constant: f64| constant + linear - quadratic;
        let (one, two) = (
            value(
                clouds.linear(&plan),
                clouds.inner(&image, &plan),
                clouds.constant(),
            ),
            value(
                tables.linear(&plan),
                tables.inner(&table, &plan),
                tables.constant(),
            ),
        );
        assert!((one - two).abs() < 1e-10);
        assert!((clouds.direct(&plan).unwrap() - one).abs() < 1e-10);
    }
    let solution = GromovWasserstein::new().starts(6).solve(&problem).unwrap();
    assert_eq!(solution.status(), Status::Converged);
    assert!((solution.value() - naive(&problem, &solution.to_dense())).abs() < 1e-9);
    let proof = solution.certificate();
    assert!(0.0 < proof.lower && proof.lower <= proof.upper);
    assert!(clouds.moment_bound().unwrap() <= proof.upper);
}

#[test]
fn rotated_clouds_are_matched() {
    let mut random = Random::new(44, 0);
    let n = 300;
    let x = points(&mut random, n, 3);
    let (s, c) = 0.7f64.sin_cos();
    // Turned, mirrored and moved.
    let y: Vec<f64> = x
        .chunks_exact(3)
        .flat_map(|p| [c * p[0] - s * p[2] + 4.0, -p[1], s * p[0] + c * p[2] - 1.0])
        .collect();
    let problem = GromovProblem::new(
        Relations::points(&x, 3).unwrap(),
        Relations::points(&y, 3).unwrap(),
        Marginals::uniform(n, n).unwrap(),
    )
    .unwrap();
    let solution = GromovWasserstein::new().solve(&problem).unwrap();
    assert!(solution.value() < 1e-20);
    assert!(
        solution
            .argmax()
            .iter()
            .enumerate()
            .all(|(i, j)| *j == Some(i))
    );
    assert!(solution.certificate().gap() < 1e-9);
}

#[test]
fn features_alone_are_plain_transport() {
    let mut random = Random::new(45, 0);
    let (n, m) = (7, 9);
    let (c, d) = (
        relations(&mut random, n, true),
        relations(&mut random, m, true),
    );
    let features: Vec<f64> = (0..n * m).map(|_| random.unit()).collect();
    let marginals = Marginals::uniform(n, m).unwrap();
    let plain = Problem::new(Dense::new(&features, n, m).unwrap(), marginals.clone()).unwrap();
    let optimum = Exact::new().solve(&plain).unwrap().objective();
    let problem = GromovProblem::new(
        Relations::table(&c, n).unwrap(),
        Relations::table(&d, m).unwrap(),
        marginals,
    )
    .unwrap();
    let fused = problem.clone().fused(&features, 0.0).unwrap();
    let solution = GromovWasserstein::new().solve(&fused).unwrap();
    assert!((solution.value() - optimum).abs() < 1e-12);
    assert!(solution.certificate().gap().abs() < 1e-12);
    let whole = problem.clone().fused(&features, 1.0).unwrap();
    let whole = GromovWasserstein::new().solve(&whole).unwrap().value();
    let alone = GromovWasserstein::new().solve(&problem).unwrap().value();
    assert!((whole - alone).abs() < 1e-12);
}

#[test]
fn entropic_plans_have_their_marginals_and_come_near() {
    let mut random = Random::new(46, 0);
    let n = 40;
    let x = points(&mut random, n, 2);
    let y: Vec<f64> = x.iter().map(|c| c + 0.05 * random.normal()).collect();
    let table = |x: &[f64]| Relations::points(x, 2).unwrap().mapped(f64::sqrt);
    let (c, d) = (table(&x), table(&y));
    let (a, b) = (masses(&mut random, n), masses(&mut random, n));
    let by_table = GromovProblem::new(
        Relations::table(&c, n).unwrap(),
        Relations::table(&d, n).unwrap(),
        Marginals::balanced(&a, &b).unwrap(),
    )
    .unwrap();
    let by_points = GromovProblem::new(
        Relations::points(&x, 2).unwrap(),
        Relations::points(&y, 2).unwrap(),
        Marginals::balanced(&a, &b).unwrap(),
    )
    .unwrap();
    for problem in [&by_table, &by_points] {
        let sharp = GromovWasserstein::new().solve(problem).unwrap().value();
        let solution = GromovWasserstein::new()
            .epsilon(0.01)
            .solve(problem)
            .unwrap();
        assert_eq!(solution.status(), Status::Converged);
        let plan = solution.to_dense();
        let rows = plan.chunks_exact(n).map(|line| line.iter().sum::<f64>());
        assert!(rows.zip(&a).all(|(s, a)| (s - a).abs() < 1e-6));
        let cols = (0..n).map(|j| plan.iter().skip(j).step_by(n).sum::<f64>());
        assert!(cols.zip(&b).all(|(s, b)| (s - b).abs() < 1e-6));
        // Of marginals that are off by some 1e-7.
        assert!((solution.value() - naive(problem, &plan)).abs() < 1e-4);
        assert!(
            solution.value() < sharp + 0.2,
            "{} {sharp}",
            solution.value()
        );
        assert!(solution.certificate().lower <= solution.value());
    }
}

#[test]
fn partial_plans_move_as_much_as_asked() {
    let mut random = Random::new(47, 0);
    let (n, m) = (6, 8);
    let (c, d) = (
        relations(&mut random, n, true),
        relations(&mut random, m, true),
    );
    let (a, b) = (masses(&mut random, n), masses(&mut random, m));
    let problem = GromovProblem::new(
        Relations::table(&c, n).unwrap(),
        Relations::table(&d, m).unwrap(),
        Marginals::partial(&a, &b, 0.5).unwrap(),
    )
    .unwrap();
    let solution = GromovWasserstein::new().starts(3).solve(&problem).unwrap();
    let plan = solution.to_dense();
    assert!((plan.iter().sum::<f64>() - 0.5).abs() < 1e-12);
    let rows = plan.chunks_exact(m).map(|line| line.iter().sum::<f64>());
    assert!(rows.zip(&a).all(|(s, a)| s <= a + 1e-12));
    let whole = GromovProblem {
        marginals: Marginals::balanced(&a, &b).unwrap(),
        ..problem.clone()
    };
    let whole = GromovWasserstein::new().starts(3).solve(&whole).unwrap();
    assert!(solution.value() < whole.value());
}

#[test]
fn wrong_questions_are_refused() {
    let table = [0.0, 1.0, 1.0, 0.0];
    let relations = Relations::table(&table, 2).unwrap();
    assert!(matches!(
        Relations::table(&table, 3),
        Err(Error::Length { .. })
    ));
    assert!(matches!(
        Relations::table(&[0.0, f64::NAN, 1.0, 0.0], 2),
        Err(Error::Matrix { row: 0, col: 1, .. })
    ));
    let marginals = |n, m| Marginals::uniform(n, m).unwrap();
    assert!(GromovProblem::new(relations, relations, marginals(2, 3)).is_err());
    let problem = GromovProblem::new(relations, relations, marginals(2, 2)).unwrap();
    assert!(problem.clone().fused(&[0.0; 3], 0.5).is_err());
    assert!(problem.clone().fused(&[0.0; 4], 1.5).is_err());
    let solver = GromovWasserstein::new();
    assert!(solver.clone().epsilon(0.0).solve(&problem).is_err());
    assert!(solver.clone().starts(0).solve(&problem).is_err());
    assert!(solver.clone().tolerance(f64::NAN).solve(&problem).is_err());
    assert!(
        solver
            .clone()
            .epsilon(1.0)
            .solve(&problem.clone().semi_relaxed())
            .is_err()
    );
    let negative = [0.0, -1.0, -1.0, 0.0];
    let negative = Relations::table(&negative, 2).unwrap();
    let problem = GromovProblem::new(negative, relations, marginals(2, 2))
        .unwrap()
        .loss(Loss::Kl);
    assert!(matches!(solver.solve(&problem), Err(Error::Matrix { .. })));
    let huge = [0.0, 1e200, 1e200, 0.0];
    let huge = Relations::table(&huge, 2).unwrap();
    let problem = GromovProblem::new(huge, relations, marginals(2, 2)).unwrap();
    assert!(matches!(solver.solve(&problem), Err(Error::TooFar { .. })));
}

#[test]
fn a_stop_keeps_the_plan() {
    let mut random = Random::new(48, 0);
    let (c, d) = (
        relations(&mut random, 20, true),
        relations(&mut random, 20, true),
    );
    let problem = GromovProblem::new(
        Relations::table(&c, 20).unwrap(),
        Relations::table(&d, 20).unwrap(),
        Marginals::uniform(20, 20).unwrap(),
    )
    .unwrap();
    let solver = GromovWasserstein::new().on_progress(|p| match p.iteration {
        0..2 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    });
    let solution = solver.solve(&problem).unwrap();
    assert_eq!(solution.status(), Status::Stopped);
    let plan = solution.to_dense();
    assert!((plan.iter().sum::<f64>() - 1.0).abs() < 1e-12);
}
