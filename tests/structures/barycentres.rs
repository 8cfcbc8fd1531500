//! Barycentres, on given cells and on points that are sought.

use core::ops::ControlFlow;
use core::time::Duration;

use earthmover::{Barycenter, Dense, Error, FreeSupport, Grid, Status};
use earthmover_testkit::Rng;

use crate::{cloud, near, shifted};

fn moments(histogram: &[f64]) -> (f64, f64) {
    let total: f64 = histogram.iter().sum();
    let mean = |f: &dyn Fn(f64) -> f64| -> f64 {
        let each = histogram.iter().enumerate();
        each.map(|(i, h)| h * f(i as f64)).sum::<f64>() / total
    };
    let middle = mean(&|x| x);
    (middle, mean(&|x| (x - middle) * (x - middle)))
}

#[test]
fn gaussians_on_a_line_have_the_gaussian_in_between() {
    let n = 200;
    let bell = |middle: f64, deviation: f64| -> Vec<f64> {
        let cell = |i: usize| (-0.5 * ((i as f64 - middle) / deviation).powi(2)).exp();
        (0..n).map(cell).collect()
    };
    let histograms = [bell(50.0, 6.0), bell(140.0, 14.0)].concat();
    let grid = Grid::unit(&[n]).unwrap();
    for (w, middle, deviation) in [(0.5, 95.0, 10.0), (0.25, 117.5, 12.0)] {
        let found = Barycenter::new(1e-4)
            .debiased()
            .tolerance(1e-8)
            .solve(&grid, &histograms, &[w, 1.0 - w])
            .unwrap();
        assert!(found.status().is_converged());
        let (mean, variance) = moments(found.weights());
        assert!((mean - middle).abs() < 0.01, "{mean}");
        assert!((variance.sqrt() - deviation).abs() < 0.1, "{variance}");
        let proof = found.certificate();
        assert!(proof.lower <= proof.upper);
        // W₂² between the two is 90² + 8² in cells; Σ w W₂² = w (1 − w) of that.
        let value = w * (1.0 - w) * (90.0f64.powi(2) + 64.0) / 199.0f64.powi(2);
        assert!(proof.lower <= value * (1.0 + 1e-3) && value <= proof.upper * (1.0 + 1e-3));
    }
}

#[test]
fn one_histogram_is_its_own_debiased_barycentre() {
    let mut rng = Rng(31);
    let grid = Grid::unit(&[6, 7]).unwrap();
    let h: Vec<f64> = (0..42).map(|_| 0.1 + rng.unit()).collect();
    let total: f64 = h.iter().sum();
    let found = Barycenter::new(0.01).debiased().tolerance(1e-9);
    for (histograms, weights) in [
        (h.clone(), vec![1.0]),
        ([h.clone(), h.clone()].concat(), vec![0.3, 0.7]),
        ([h.clone(), vec![1.0; 42]].concat(), vec![1.0, 0.0]),
    ] {
        let found = found.solve(&grid, &histograms, &weights).unwrap();
        let off: f64 = found
            .weights()
            .iter()
            .zip(&h)
            .map(|(x, h)| (x - h / total).abs())
            .sum();
        assert!(off < 1e-5, "{off}");
    }
}

#[test]
fn points_in_the_corners_meet_in_the_middle_at_every_epsilon() {
    // Nothing but zeros elsewhere, and kernels that underflow.
    let side = 11;
    let mut histograms = vec![0.0; 4 * side * side];
    for (k, corner) in [0, side - 1, side * (side - 1), side * side - 1]
        .into_iter()
        .enumerate()
    {
        histograms[k * side * side + corner] = 1.0;
    }
    let grid = Grid::unit(&[side, side]).unwrap();
    for epsilon in [0.1, 1e-3, 1e-6] {
        let found = Barycenter::new(epsilon)
            .solve(&grid, &histograms, &[0.25; 4])
            .unwrap();
        let weights = found.weights();
        let best = (0..side * side).max_by(|i, j| weights[*i].total_cmp(&weights[*j]));
        assert_eq!(best, Some(side * side / 2), "{epsilon}");
        let proof = found.certificate();
        assert!(
            proof.lower <= 0.5 + 1e-9 && 0.5 <= proof.upper + 1e-9,
            "{epsilon}: {proof:?}"
        );
    }
}

#[test]
fn odd_histograms_are_answered_or_refused() {
    let grid = Grid::unit(&[3]).unwrap();
    let solver = Barycenter::new(0.1);
    assert!(solver.solve(&grid, &[], &[]).is_err());
    assert!(solver.solve(&grid, &[0.0; 3], &[1.0]).is_err());
    assert!(solver.solve(&grid, &[1.0, f64::NAN, 0.0], &[1.0]).is_err());
    assert!(solver.solve(&grid, &[1.0, -1.0, 1.0], &[1.0]).is_err());
    assert!(solver.solve(&grid, &[1.0; 3], &[0.0]).is_err());
    assert!(solver.solve(&grid, &[1.0; 3], &[f64::NAN]).is_err());
    assert!(solver.solve(&grid, &[1.0; 4], &[1.0]).is_err());
    let nan = [0.0, f64::NAN, 1.0, 0.0];
    assert!(
        solver
            .solve(&Dense::new(&nan, 2, 2).unwrap(), &[1.0, 1.0], &[1.0])
            .is_err()
    );
    let forbidden = [0.0, f64::INFINITY, f64::INFINITY, 0.0];
    let apart = Dense::new(&forbidden, 2, 2).unwrap();
    // Two islands with other shares on each: no histogram serves both.
    if let Ok(found) =
        solver
            .max_iterations(2_000)
            .solve(&apart, &[1.0, 3.0, 3.0, 1.0], &[1.0, 1.0])
    {
        assert!(!found.status().is_converged() || found.certificate().upper.is_infinite());
    }
    let one = Grid::unit(&[1]).unwrap();
    let alone = Barycenter::new(0.1)
        .solve(&one, &[5.0, 2.0], &[1.0, 1.0])
        .unwrap();
    assert_eq!(alone.weights(), [1.0]);
}

#[test]
fn barycentres_stop_when_told() {
    let mut rng = Rng(32);
    let grid = Grid::unit(&[40, 40]).unwrap();
    let h: Vec<f64> = (0..3 * 1600).map(|_| rng.unit()).collect();
    let solver = Barycenter::new(1e-5).tolerance(1e-14);
    let found = solver
        .clone()
        .time_limit(Duration::ZERO)
        .solve(&grid, &h, &[1.0; 3])
        .unwrap();
    assert_eq!(found.status(), Status::Stopped);
    let found = solver
        .on_progress(|_| ControlFlow::Break(()))
        .solve(&grid, &h, &[1.0; 3])
        .unwrap();
    assert_eq!(found.status(), Status::Stopped);
    assert!(near(found.weights().iter().sum(), 1.0, 1e-9));
    let (a, b) = (cloud(&mut rng, 50, 2), cloud(&mut rng, 50, 2));
    let free = FreeSupport::new(50).tolerance(1e-14);
    let found = free
        .clone()
        .time_limit(Duration::ZERO)
        .solve(&[&a, &b], None, &[1.0; 2], 2)
        .unwrap();
    assert_eq!(found.status, Status::Stopped);
    let found = free
        .on_progress(|_| ControlFlow::Break(()))
        .solve(&[&a, &b], None, &[1.0; 2], 2)
        .unwrap();
    assert_eq!((found.status, found.iterations), (Status::Stopped, 0));
}

#[test]
fn a_single_point_is_the_mean_of_everything() {
    let mut rng = Rng(33);
    let (a, b) = (
        cloud(&mut rng, 9, 3),
        shifted(&cloud(&mut rng, 4, 3), &[1.0, 2.0, 3.0]),
    );
    let found = FreeSupport::new(1)
        .solve(&[&a, &b], None, &[1.0, 3.0], 3)
        .unwrap();
    assert!(found.status.is_converged());
    for k in 0..3 {
        let mean = |x: &[f64]| x.iter().skip(k).step_by(3).sum::<f64>() / (x.len() / 3) as f64;
        assert!(near(
            found.points[k],
            0.25 * mean(&a) + 0.75 * mean(&b),
            1e-9
        ));
    }
}

#[test]
fn masses_that_are_sought_are_found() {
    // Two heaps of masses 0.8 and 0.2, moved: with equal masses two points cannot be right.
    let here = [0.0, 0.0, 0.1, 0.0, 10.0, 0.0];
    let there = shifted(&here, &[0.0, 6.0]);
    let masses = [0.4, 0.4, 0.2];
    let solve = |solver: FreeSupport| {
        solver
            .start(&[1.0, 1.0, 9.0, 1.0])
            .solve(&[&here, &there], Some(&[&masses, &masses]), &[1.0, 1.0], 2)
            .unwrap()
    };
    let (fixed, free) = (
        solve(FreeSupport::new(2)),
        solve(FreeSupport::new(2).free_masses()),
    );
    assert!(free.status.is_converged(), "{:?}", free.status);
    assert!(free.value < fixed.value - 1.0);
    assert!((free.masses[0] - 0.8).abs() < 1e-3, "{:?}", free.masses);
    assert!(near(free.masses.iter().sum(), 1.0, 1e-12));
    for (x, e) in free.points.iter().zip([0.05, 3.0, 10.0, 3.0]) {
        assert!((x - e).abs() < 0.02, "{:?}", free.points);
    }
    // Spread within the heap, and half the way up: ¼·36 + 0.8·0.0025.
    assert!((free.value - 9.002).abs() < 0.01, "{}", free.value);
    let blurred = solve(FreeSupport::new(2).free_masses().epsilon(0.01));
    assert!(
        (blurred.masses[0] - 0.8).abs() < 0.01,
        "{:?}",
        blurred.masses
    );
}

#[test]
fn sought_masses_never_make_it_worse() {
    let mut rng = Rng(34);
    let clouds: Vec<Vec<f64>> = (0..3).map(|k| cloud(&mut rng, 15 + 5 * k, 2)).collect();
    let clouds: Vec<&[f64]> = clouds.iter().map(Vec::as_slice).collect();
    let bound = FreeSupport::lower_bound(&clouds, None, &[1.0; 3], 2).unwrap();
    let fixed = FreeSupport::new(12)
        .solve(&clouds, None, &[1.0; 3], 2)
        .unwrap();
    let free = FreeSupport::new(12)
        .start(&fixed.points)
        .free_masses()
        .solve(&clouds, None, &[1.0; 3], 2)
        .unwrap();
    assert!(bound <= free.value && free.value <= fixed.value + 1e-12);
    assert!(free.masses.iter().all(|m| *m >= 0.0));
    assert!(near(free.masses.iter().sum(), 1.0, 1e-12));
}

#[test]
fn odd_clouds_are_answered_or_refused() {
    let same = [2.0, 2.0, 2.0, 2.0];
    let found = FreeSupport::new(3)
        .solve(&[&same, &same], None, &[1.0, 1.0], 2)
        .unwrap();
    assert!(found.status.is_converged() && found.value.abs() < 1e-15);
    let solver = FreeSupport::new(2);
    let bad = [0.0, f64::NAN];
    assert!(matches!(
        solver.solve(&[&bad], None, &[1.0], 2),
        Err(Error::Point { .. })
    ));
    assert!(
        solver
            .solve(&[&same], Some(&[&[0.0, 0.0]]), &[1.0], 2)
            .is_err()
    );
    assert!(
        solver
            .solve(&[&same], Some(&[&[1.0, f64::NAN]]), &[1.0], 2)
            .is_err()
    );
    assert!(solver.solve(&[&same], None, &[1.0], 3).is_err());
    assert!(
        solver
            .clone()
            .masses(&[1.0])
            .solve(&[&same], None, &[1.0], 2)
            .is_err()
    );
    assert!(
        solver
            .clone()
            .start(&bad)
            .solve(&[&same], None, &[1.0], 2)
            .is_err()
    );
    let idle = solver
        .clone()
        .masses(&[1.0, 0.0])
        .solve(&[&same], None, &[1.0], 2)
        .unwrap();
    assert!(idle.status.is_converged() && idle.points.iter().all(|x| x.is_finite()));
    assert!(
        solver
            .solve(&[&[1e200, 0.0, -1e200, 0.0]], None, &[1.0], 2)
            .is_err()
    );
}
