//! Gromov–Wasserstein.

use core::ops::ControlFlow;
use core::time::Duration;

use earthmover::{
    Error, GromovProblem, GromovWasserstein, Loss, Marginals, Penalty, Relations, Status,
};
use earthmover_testkit::Rng;

use crate::{cloud, near, shuffled};

fn distances(points: &[f64], d: usize) -> Vec<f64> {
    let apart = |x: &[f64], y: &[f64]| -> f64 {
        let squares = x.iter().zip(y).map(|(x, y)| (x - y) * (x - y));
        squares.sum::<f64>().sqrt()
    };
    let each = points.chunks_exact(d);
    each.flat_map(|x| points.chunks_exact(d).map(move |y| apart(x, y)))
        .collect()
}

/// The lengths of shortest ways in a random connected graph.
fn graph(rng: &mut Rng, n: usize) -> Vec<f64> {
    let mut ways = vec![1e6; n * n];
    let mut join = |i: usize, j: usize, length: f64| {
        ways[i * n + j] = length;
        ways[j * n + i] = length;
    };
    (1..n).for_each(|i| join(i, rng.below(i), 1.0 + rng.below(3) as f64));
    (0..n).for_each(|_| join(rng.below(n), rng.below(n), 1.0 + rng.below(3) as f64));
    (0..n).for_each(|i| ways[i * n + i] = 0.0);
    for k in 0..n {
        for i in 0..n {
            for j in 0..n {
                ways[i * n + j] = ways[i * n + j].min(ways[i * n + k] + ways[k * n + j]);
            }
        }
    }
    ways
}

fn reordered(table: &[f64], order: &[usize]) -> Vec<f64> {
    let n = order.len();
    let each = order
        .iter()
        .flat_map(|&i| order.iter().map(move |&j| (i, j)));
    each.map(|(i, j)| table[i * n + j]).collect()
}

fn uniform<'a>(c: &'a [f64], n: usize, d: &'a [f64], m: usize) -> GromovProblem<'a> {
    GromovProblem::new(
        Relations::table(c, n).unwrap(),
        Relations::table(d, m).unwrap(),
        Marginals::uniform(n, m).unwrap(),
    )
    .unwrap()
}

#[test]
fn isomorphic_graphs_are_at_distance_zero() {
    let mut rng = Rng(41);
    for n in [1, 2, 5, 20, 60] {
        let c = graph(&mut rng, n);
        let order = shuffled(&mut rng, n);
        let d = reordered(&c, &order);
        for loss in [Loss::Square, Loss::Kl] {
            let problem = uniform(&c, n, &d, n).loss(loss);
            let found = GromovWasserstein::new().starts(6).solve(&problem).unwrap();
            assert!(
                found.value().abs() < 1e-9,
                "{n} {loss:?}: {}",
                found.value()
            );
            let proof = found.certificate();
            assert!(proof.lower <= proof.upper && proof.gap() < 1e-9);
        }
    }
}

#[test]
fn isometries_are_found() {
    let mut rng = Rng(42);
    for (n, d) in [(40, 2), (80, 3), (30, 5)] {
        let x = cloud(&mut rng, n, d);
        let order = shuffled(&mut rng, n);
        // A mirror image, turned in the first two coordinates, moved, in another order.
        let (c, s) = (0.28, 0.96);
        let mut y = Vec::new();
        for &i in &order {
            let p = &x[i * d..][..d];
            y.extend([c * p[0] - s * p[1] + 5.0, -(s * p[0] + c * p[1]) - 7.0]);
            y.extend(p[2..].iter().map(|v| v + 1.0));
        }
        let marginals = Marginals::uniform(n, n).unwrap();
        let points = GromovProblem::new(
            Relations::points(&x, d).unwrap(),
            Relations::points(&y, d).unwrap(),
            marginals,
        )
        .unwrap();
        let (c, k) = (distances(&x, d), distances(&y, d));
        let tables = uniform(&c, n, &k, n);
        for problem in [&points, &tables] {
            let found = GromovWasserstein::new().starts(4).solve(problem).unwrap();
            assert!(found.value() < 1e-12, "{n} {d}: {}", found.value());
            let right = found.argmax();
            assert!(order.iter().enumerate().all(|(j, &i)| right[i] == Some(j)));
        }
    }
}

#[test]
fn a_thing_cut_in_two_is_still_one() {
    // Unequal sizes: each point twice, at half the mass.
    let mut rng = Rng(43);
    let (n, d) = (12, 2);
    let x = cloud(&mut rng, n, d);
    let twice: Vec<f64> = x.chunks_exact(d).flat_map(|p| [p, p].concat()).collect();
    let (c, k) = (distances(&x, d), distances(&twice, d));
    let problem = uniform(&c, n, &k, 2 * n);
    let found = GromovWasserstein::new().starts(4).solve(&problem).unwrap();
    assert!(found.value() < 1e-12, "{}", found.value());
    // One point against everything: Σ C² / n².
    let alone = uniform(&[0.0], 1, &c, n);
    let found = GromovWasserstein::new().solve(&alone).unwrap();
    let expected = c.iter().map(|c| c * c).sum::<f64>() / (n * n) as f64;
    assert!(near(found.value(), expected, 1e-12));
    assert!(found.certificate().gap() < 1e-9);
}

#[test]
fn scales_from_tiny_to_huge() {
    let mut rng = Rng(44);
    let (n, d) = (15, 2);
    let x = cloud(&mut rng, n, d);
    let order = shuffled(&mut rng, n);
    for scale in [1e-60, 1e-8, 1e8, 1e60] {
        let c: Vec<f64> = distances(&x, d).iter().map(|c| scale * c).collect();
        let k = reordered(&c, &order);
        let problem = uniform(&c, n, &k, n);
        let found = GromovWasserstein::new().starts(4).solve(&problem).unwrap();
        assert!(
            found.value() / scale / scale < 1e-12,
            "{scale}: {}",
            found.value()
        );
        let epsilon = 1e-3 * scale * scale;
        let soft = GromovWasserstein::new()
            .epsilon(epsilon)
            .starts(4)
            .solve(&problem)
            .unwrap();
        assert!(soft.status().is_converged(), "{scale}");
        assert!(
            soft.value() / scale / scale < 0.05,
            "{scale}: {}",
            soft.value()
        );
        let y: Vec<f64> = x.iter().map(|v| v * scale.sqrt()).collect();
        let points = Relations::points(&y, d).unwrap();
        let same = GromovProblem::new(points, points, Marginals::uniform(n, n).unwrap()).unwrap();
        let found = GromovWasserstein::new().solve(&same).unwrap();
        assert!(
            found.value() / scale / scale < 1e-12,
            "{scale}: {}",
            found.value()
        );
    }
    for scale in [1e130, 1e200] {
        let c: Vec<f64> = distances(&x, d).iter().map(|c| scale * c).collect();
        let refused = GromovWasserstein::new()
            .solve(&uniform(&c, n, &c, n))
            .map(|s| s.value());
        assert!(matches!(
            refused,
            Err(Error::TooFar { .. } | Error::TooDear { .. })
        ));
    }
}

#[test]
fn things_without_mass_and_twins_do_no_harm() {
    let mut rng = Rng(45);
    let (n, d) = (10, 2);
    let mut x = cloud(&mut rng, n, d);
    // Twins, and one far away that nobody asks for.
    x.copy_within(0..2, 2);
    x[8] = 1e6;
    let c = distances(&x, d);
    let mut masses = vec![0.125; n];
    (masses[4], masses[9]) = (0.0, 0.0);
    let relations = Relations::table(&c, n).unwrap();
    let points = Relations::points(&x, d).unwrap();
    for side in [relations, points] {
        let marginals = Marginals::balanced(&masses, &masses).unwrap();
        let problem = GromovProblem::new(side, side, marginals).unwrap();
        for solver in [
            GromovWasserstein::new(),
            GromovWasserstein::new().epsilon(0.05),
        ] {
            let found = solver.starts(3).solve(&problem).unwrap();
            let plan = found.to_dense();
            assert!(plan.iter().all(|p| p.is_finite() && *p >= 0.0));
            let row = |i: usize| plan[i * n..][..n].iter().sum::<f64>();
            assert!((0..n).all(|i| (row(i) - masses[i]).abs() < 1e-5));
            assert_eq!(found.argmax()[4], None);
            let proof = found.certificate();
            assert!(proof.lower <= proof.upper);
        }
        let found = GromovWasserstein::new().starts(3).solve(&problem).unwrap();
        assert!(found.value() < 1e-9, "{}", found.value());
    }
}

#[test]
fn parts_are_found_in_wholes() {
    let mut rng = Rng(46);
    let (n, part, d) = (18, 9, 2);
    let x = cloud(&mut rng, n, d);
    let (c, k) = (distances(&x, d), distances(&x[..part * d], d));
    let (a, b) = (vec![1.0; n], vec![1.0; part]);
    let partial = GromovProblem::new(
        Relations::table(&c, n).unwrap(),
        Relations::table(&k, part).unwrap(),
        Marginals::partial(&a, &b, part as f64).unwrap(),
    )
    .unwrap();
    let relaxed = uniform(&k, part, &c, n).semi_relaxed();
    for problem in [&partial, &relaxed] {
        let found = GromovWasserstein::new()
            .starts(24)
            .seed(3)
            .solve(problem)
            .unwrap();
        let proof = found.certificate();
        assert!(
            0.0 <= proof.lower && proof.lower <= proof.upper,
            "{proof:?}"
        );
        assert!(proof.stationarity >= 0.0);
        assert!(found.value() < 0.3, "{}", found.value());
    }
}

#[test]
fn semi_relaxed_bounds_are_bounds() {
    // Relations that the columns do not have at all: 3 against 0 and 1 costs at least 2² each.
    let (c, d) = ([0.0, 3.0, 3.0, 0.0], [0.0, 1.0, 1.0, 0.0]);
    let problem = uniform(&c, 2, &d, 2).semi_relaxed();
    let found = GromovWasserstein::new().starts(4).solve(&problem).unwrap();
    let proof = found.certificate();
    assert!(near(found.value(), 2.0, 1e-12), "{}", found.value());
    assert!(near(proof.lower, 2.0, 1e-9), "{}", proof.lower);
    let features = [1.0, 5.0, 2.0, 7.0];
    let fused = problem.fused(&features, 0.5).unwrap();
    let found = GromovWasserstein::new().starts(4).solve(&fused).unwrap();
    let proof = found.certificate();
    assert!(0.0 < proof.lower && proof.lower <= proof.upper);
}

#[test]
fn seeds_and_threads_give_the_same_answer() {
    let mut rng = Rng(47);
    let (c, d) = (graph(&mut rng, 30), graph(&mut rng, 25));
    let problem = uniform(&c, 30, &d, 25);
    let solver = GromovWasserstein::new().starts(5).seed(7);
    let (one, two) = (
        solver.solve(&problem).unwrap(),
        solver.solve(&problem).unwrap(),
    );
    assert_eq!(one.value().to_bits(), two.value().to_bits());
    assert_eq!(one.to_dense(), two.to_dense());
    let more = solver.starts(12).solve(&problem).unwrap();
    assert!(more.value() <= one.value());
}

#[test]
fn stops_are_obeyed() {
    let mut rng = Rng(48);
    let (c, d) = (graph(&mut rng, 40), graph(&mut rng, 40));
    let problem = uniform(&c, 40, &d, 40);
    let x = cloud(&mut rng, 200, 3);
    let points = Relations::points(&x, 3).unwrap();
    let clouds = GromovProblem::new(points, points, Marginals::uniform(200, 200).unwrap()).unwrap();
    for solver in [
        GromovWasserstein::new().tolerance(1e-300),
        GromovWasserstein::new().epsilon(1e-3).tolerance(1e-300),
    ] {
        for problem in [&problem, &clouds] {
            let at_once = solver
                .clone()
                .time_limit(Duration::ZERO)
                .solve(problem)
                .unwrap();
            assert_eq!(at_once.status(), Status::Stopped);
            let told = solver
                .clone()
                .on_progress(|_| ControlFlow::Break(()))
                .solve(problem)
                .unwrap();
            assert_eq!(told.status(), Status::Stopped);
            let mass: f64 = told.entries(0.0).iter().map(|e| e.mass).sum();
            assert!(near(mass, 1.0, 1e-6));
            let few = solver.clone().max_iterations(1).solve(problem).unwrap();
            assert!(few.iterations() <= 1 && few.value().is_finite());
        }
    }
}

#[test]
fn loose_tolerances_end_early_with_a_plan() {
    let mut rng = Rng(49);
    let (c, d) = (graph(&mut rng, 12), graph(&mut rng, 9));
    let problem = uniform(&c, 12, &d, 9);
    for tolerance in [0.1, 1.0, 1e3] {
        for solver in [
            GromovWasserstein::new(),
            GromovWasserstein::new().epsilon(0.5),
        ] {
            let found = solver.tolerance(tolerance).solve(&problem).unwrap();
            assert_eq!(found.status(), Status::Converged, "{tolerance}");
            let mass: f64 = found.entries(0.0).iter().map(|e| e.mass).sum();
            assert!(near(mass, 1.0, 1e-6));
        }
    }
}

#[test]
fn odd_relations_are_refused() {
    let c = [0.0, 1.0, 1.0, 0.0];
    for bad in [f64::NAN, f64::INFINITY] {
        // A graph that is not connected has infinite distances.
        let apart = [0.0, bad, bad, 0.0];
        assert!(matches!(
            Relations::table(&apart, 2),
            Err(Error::Matrix { row: 0, col: 1, .. })
        ));
        assert!(Relations::points(&[bad], 1).is_err());
        let problem = uniform(&c, 2, &c, 2);
        assert!(problem.fused(&[0.0, bad, 0.0, 0.0], 0.5).is_err());
        assert!(
            GromovWasserstein::new()
                .epsilon(bad)
                .solve(&uniform(&c, 2, &c, 2))
                .is_err()
        );
    }
    let penalty = Penalty::Kl(1.0);
    let relaxed = Marginals::relaxed(&[1.0, 1.0], &[1.0, 1.0], penalty, penalty).unwrap();
    let table = Relations::table(&c, 2).unwrap();
    assert!(GromovProblem::new(table, table, relaxed).is_err());
}
