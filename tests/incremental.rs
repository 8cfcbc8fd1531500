//! A problem that changes a few rows at a time stays solved, by the definition's own measure.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use earthmover::{Dense, Error, Incremental, Marginals, Newton, Problem, Real, Slack, Status};

use earthmover_testkit::{Rng, label_allocation};

/// The violation by definition: every entry in f64, no lists, no maintained sums.
fn true_violation<T: Real>(problem: &Incremental<T>) -> f64 {
    let (k, eps) = (problem.cols(), problem.epsilon());
    let m = problem.marginals();
    let g = problem.potentials();
    let mut sums = vec![0.0; k + 1];
    let mut add = |mass: f64, logits: Vec<f64>| {
        let top = logits.iter().copied().fold(f64::MIN, f64::max);
        let e: Vec<f64> = logits.iter().map(|z| ((z - top) / eps).exp()).collect();
        let z: f64 = e.iter().sum();
        sums.iter_mut()
            .zip(&e)
            .for_each(|(s, e)| *s += mass * e / z);
    };
    for i in 0..problem.rows() {
        let row = problem.cost_row(i).unwrap();
        let logits = row
            .iter()
            .zip(g)
            .map(|(c, g)| g - c.widen())
            .chain([g[k]])
            .collect();
        add(m.rows()[i], logits);
    }
    add(m.slack().row, g.to_vec());
    let wanted = m.cols().iter().copied().chain([m.slack().col]);
    sums.iter()
        .zip(wanted)
        .map(|(s, w)| (s - w).abs())
        .sum::<f64>()
        / m.total()
}

fn training<T: Real>(k: usize, epsilon: f64, tolerance: f64, steps: usize) -> usize {
    let n = 2_000;
    let mut rng = Rng(7);
    let flat = vec![T::narrow((k as f64).ln()); n * k];
    let mut problem = Incremental::new(flat, label_allocation(n, k, 0.0), epsilon).unwrap();
    let mut idle = 0;
    for step in 0..steps {
        let rho = step as f64 / (steps - 1) as f64;
        let rows: Vec<usize> = (0..40).map(|r| (step * 37 + r * 50 + r / 40) % n).collect();
        let costs: Vec<T> = rows
            .iter()
            .flat_map(|_| rng.surprisals(k))
            .map(T::narrow)
            .collect();
        problem.replace_rows(&rows, &costs).unwrap();
        problem.set_marginals(label_allocation(n, k, rho)).unwrap();
        let answer = problem.solve(tolerance).unwrap();
        assert_eq!(answer.status, Status::Converged, "step {step}: {answer:?}");
        idle += usize::from(answer.iterations == 0);
        let truth = true_violation(&problem);
        assert!(
            truth <= 1.05 * tolerance + 1e-12,
            "step {step}: {truth} against {answer:?}"
        );
    }
    idle
}

#[test]
fn loose_tolerances_mostly_need_no_iteration() {
    assert!(training::<f32>(10, 0.01, 1e-2, 200) > 60);
    training::<f32>(37, 0.01, 1e-2, 60);
}

#[test]
fn tight_tolerances_hold_at_every_step() {
    training::<f64>(10, 0.01, 1e-6, 60);
    training::<f32>(5, 0.1, 1e-4, 60);
    training::<f64>(3, 1.0, 1e-9, 30);
    training::<f64>(8, 0.001, 1e-6, 30);
}

#[test]
fn agrees_with_a_solve_from_scratch() {
    let (n, k) = (500, 7);
    let mut rng = Rng(3);
    let costs: Vec<f64> = (0..n).flat_map(|_| rng.surprisals(k)).collect();
    let marginals = label_allocation(n, k, 0.6);
    let mut problem = Incremental::new(vec![1.0; n * k], marginals.clone(), 0.05).unwrap();
    assert!(problem.solve(1e-9).unwrap().status.is_converged());
    let all: Vec<usize> = (0..n).collect();
    problem.replace_rows(&all, &costs).unwrap();
    assert!(problem.solve(1e-11).unwrap().status.is_converged());
    let question = Problem::new(Dense::new(&costs, n, k).unwrap(), marginals).unwrap();
    let answer = Newton::new(0.05).tolerance(1e-11).solve(&question).unwrap();
    let sums = answer.plan().col_sums();
    for (a, b) in problem.col_sums().iter().zip(&sums) {
        assert!((a - b).abs() < 1e-7, "{a} {b}");
    }
}

#[test]
fn bad_rows_change_nothing() {
    let marginals = label_allocation(4, 3, 0.5);
    let mut problem = Incremental::new(vec![1.0f64; 12], marginals, 0.1).unwrap();
    let _ = problem.solve(1e-8).unwrap();
    let before = (
        problem.costs().to_vec(),
        problem.potentials().to_vec(),
        problem.col_sums().to_vec(),
    );
    let nan = [0.0, f64::NAN, 0.0];
    assert!(matches!(
        problem.replace_rows(&[1], &nan),
        Err(Error::Cost { row: 0, col: 1, .. })
    ));
    assert!(matches!(
        problem.replace_rows(&[9], &[0.0; 3]),
        Err(Error::Index { index: 9, .. })
    ));
    assert!(matches!(
        problem.replace_rows(&[1, 1], &[0.0; 6]),
        Err(Error::Repeated { index: 1 })
    ));
    assert!(matches!(
        problem.replace_rows(&[1], &[0.0; 2]),
        Err(Error::Length { .. })
    ));
    assert!(matches!(
        problem.solve(0.0),
        Err(Error::Option {
            name: "tolerance",
            ..
        })
    ));
    let after = (
        problem.costs().to_vec(),
        problem.potentials().to_vec(),
        problem.col_sums().to_vec(),
    );
    assert_eq!(before, after);
}

#[test]
fn a_checkpoint_goes_on_bit_for_bit() {
    let (n, k) = (600, 6);
    let mut rng = Rng(11);
    let masses: Vec<f64> = (0..n).map(|_| 0.3 + rng.unit()).collect();
    let supply: f64 = masses.iter().sum();
    let marginals = |rho: f64| {
        let slack = Slack::new(supply * (1.2 - rho), supply * (1.0 - rho));
        Marginals::with_slack(&masses, &[0.2 * supply; 6], slack).unwrap()
    };
    let mut straight = Incremental::new(vec![1.7f32; n * k], marginals(0.0), 0.01).unwrap();
    let mut resumed: Option<Incremental<f32>> = None;
    for step in 0..60 {
        let rho = step as f64 / 60.0;
        let rows: Vec<usize> = (0..20).map(|r| (step * 37 + r * 29) % n).collect();
        let costs: Vec<f32> = rows
            .iter()
            .flat_map(|_| rng.surprisals(k))
            .map(|c| c as f32)
            .collect();
        for problem in [Some(&mut straight), resumed.as_mut()]
            .into_iter()
            .flatten()
        {
            problem.replace_rows(&rows, &costs).unwrap();
            problem
                .set_columns(marginals(rho).cols(), marginals(rho).slack())
                .unwrap();
            let _ = problem.solve(1e-3).unwrap();
        }
        if let Some(resumed) = &resumed {
            assert_eq!(resumed.potentials(), straight.potentials(), "step {step}");
            assert_eq!(resumed.col_sums(), straight.col_sums(), "step {step}");
        }
        // Anew at some steps only, so that lists are resumed both fresh and long edited.
        if step % 13 == 5 {
            let costs = straight.costs().to_vec();
            let mut again = Incremental::new(costs, straight.marginals().clone(), 0.01).unwrap();
            again.resume(&straight.checkpoint()).unwrap();
            resumed = Some(again);
        }
    }
}

#[test]
fn a_checkpoint_is_taken_as_it_is() {
    // Long training drifts: what the potentials have in common grows past all in which they differ.
    let marginals = Marginals::bounded(&[1.0; 4], &[3.0, 3.0], 3.0).unwrap();
    let costs = vec![0.7f64, 0.5, 0.1, 2.0, 0.3, 0.3, 1.0, 0.2];
    let mut problem = Incremental::new(costs, marginals, 0.01).unwrap();
    let _ = problem.solve(1e-6).unwrap();
    let mut drifted = problem.checkpoint();
    for part in [&mut drifted.potentials, &mut drifted.reference] {
        part.iter_mut().for_each(|g| *g += 9.0);
    }
    problem.resume(&drifted).unwrap();
    assert_eq!(problem.checkpoint(), drifted);
    assert!(problem.solve(1e-6).unwrap().status.is_converged());
}

#[test]
fn stranded_mass_is_an_error() {
    // Rows 0 and 1 can only go to column 0, which takes half of what they bring.
    let no = f64::INFINITY;
    let marginals = Marginals::balanced(&[1.0, 1.0, 1.0], &[1.0, 2.0]).unwrap();
    let costs = vec![0.0, no, 0.5, no, 1.0, 0.0];
    let mut problem = Incremental::new(costs, marginals, 0.1).unwrap();
    let error = problem.solve(1e-6).unwrap_err();
    assert_eq!(
        error,
        Error::Infeasible {
            stranded: 1.0,
            total: 3.0
        }
    );
    // One more pair, and there is a way.
    problem.replace_rows(&[1], &[0.5, 1.0]).unwrap();
    assert!(problem.solve(1e-6).unwrap().status.is_converged());
}
