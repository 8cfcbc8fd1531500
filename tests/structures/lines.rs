//! On a line and on a circle.

use earthmover::line::{self, CircularSamples, Samples};
use earthmover::{Dense, Error, Exact, Marginals, Problem};
use earthmover_testkit::Rng;

use crate::near;

#[test]
fn translations_cost_their_length_at_any_scale_and_order() {
    let mut rng = Rng(1);
    for scale in [1e-60, 1e-3, 1.0, 1e60] {
        let x: Vec<f64> = (0..50).map(|_| scale * rng.normal()).collect();
        let y: Vec<f64> = x.iter().map(|x| x + 3.0 * scale).collect();
        for order in [1.0, 1.5, 2.0, 3.0] {
            let found = line::distance(&x, &y, order).unwrap() / scale;
            assert!(near(found, 3.0, 1e-12), "{scale} {order}: {found}");
        }
    }
}

#[test]
fn an_affine_map_of_quantiles_has_a_closed_form() {
    // From U(0, 1) to U(1, 4): x ↦ 1 + 3x, W₂² = ∫ (1 + 2x)² dx = 13/3, W₁ = 2.
    let n = 20_000;
    let middle = |i: usize| (i as f64 + 0.5) / n as f64;
    let x: Vec<f64> = (0..n).rev().map(middle).collect();
    let y: Vec<f64> = (0..n).map(|i| 1.0 + 3.0 * middle(i)).collect();
    assert!(near(line::distance(&x, &y, 1.0).unwrap(), 2.0, 1e-12));
    let square = line::distance(&x, &y, 2.0).unwrap().powi(2);
    assert!(near(square, 13.0 / 3.0, 1e-8));
}

#[test]
fn the_staircase_is_what_the_exact_solver_finds() {
    let mut rng = Rng(2);
    for (case, order) in [1.0, 1.3, 2.0, 4.0]
        .into_iter()
        .cycle()
        .take(24)
        .enumerate()
    {
        let (n, m) = (1 + rng.below(9), 1 + rng.below(9));
        // Integers, so that samples meet; some of no weight.
        let mut side = |count: usize| -> (Vec<f64>, Vec<f64>) {
            let x = (0..count).map(|_| rng.below(6) as f64).collect();
            let mut w: Vec<f64> = (0..count).map(|_| rng.below(3) as f64).collect();
            w[0] += 1.0;
            (x, w)
        };
        let ((x, a), (y, b)) = (side(n), side(m));
        let costs: Vec<f64> = x
            .iter()
            .flat_map(|x| y.iter().map(move |y| (x - y).abs().powf(order)))
            .collect();
        let marginals = Marginals::normalised(&a, &b).unwrap();
        let problem = Problem::new(Dense::new(&costs, n, m).unwrap(), marginals).unwrap();
        let exact = Exact::new().solve(&problem).unwrap().certificate().primal;
        let total: f64 = problem.marginals().rows().iter().sum();
        let (rows, cols) = (
            Samples::weighted(&x, &a).unwrap(),
            Samples::weighted(&y, &b).unwrap(),
        );
        let found = rows.transport(&cols, order).unwrap();
        assert!(near(found.cost, exact / total, 1e-12), "case {case}");
        assert!(near(found.cost, found.dual, 1e-12), "case {case}");
        for (i, f) in found.row_potentials.iter().enumerate() {
            for (j, g) in found.col_potentials.iter().enumerate() {
                assert!(f + g <= costs[i * m + j] + 1e-9, "case {case}");
            }
        }
        let moved: f64 = found.plan.iter().map(|e| e.mass).sum();
        assert!(near(moved, 1.0, 1e-12));
    }
}

#[test]
fn a_turn_of_a_circle_goes_the_short_way() {
    let mut rng = Rng(3);
    let x: Vec<f64> = (0..40).map(|_| 0.2 * rng.unit()).collect();
    for by in [0.1, 0.45, 0.55, 0.9, 7.9] {
        let y: Vec<f64> = x.iter().map(|x| x + by).collect();
        let (a, b) = (
            CircularSamples::new(&x, 1.0).unwrap(),
            CircularSamples::new(&y, 1.0).unwrap(),
        );
        let turn: f64 = (by % 1.0_f64).min(1.0 - by % 1.0);
        for order in [1.0, 2.0, 3.0] {
            let found = a.distance(&b, order).unwrap();
            // Some may go round the other way where the arc is wide: never farther.
            assert!(found <= turn + 1e-12, "{by} {order}: {found}");
            if turn <= 0.3 {
                assert!(near(found, turn, 1e-10), "{by} {order}: {found}");
            }
            let transport = a.transport(&b, order).unwrap();
            assert!(near(transport.dual, transport.cost, 1e-10));
        }
    }
}

#[test]
fn odd_lists_are_answered_or_refused() {
    let (one, same) = ([5.0], [2.0; 7]);
    assert_eq!(line::distance(&one, &one, 2.0), Ok(0.0));
    assert_eq!(line::distance(&one, &same, 1.0), Ok(3.0));
    assert!(matches!(
        line::distance::<f64>(&[], &one, 1.0),
        Err(Error::Empty { .. })
    ));
    for bad in [f64::NAN, f64::INFINITY] {
        assert!(matches!(
            line::distance(&[bad], &one, 1.0),
            Err(Error::Point { .. })
        ));
        assert!(line::distance(&one, &one, bad).is_err());
        assert!(CircularSamples::new(&[bad], 1.0).is_err());
        assert!(CircularSamples::new(&one, bad).is_err());
        assert!(Samples::weighted(&one, &[bad]).is_err());
    }
    assert!(line::distance(&one, &one, 0.5).is_err());
    assert!(CircularSamples::new(&one, 0.0).is_err());
    assert!(Samples::weighted(&[1.0, 2.0], &[0.0, 0.0]).is_err());
    assert!(Samples::weighted(&[1.0, 2.0], &[1.0, -1.0]).is_err());
    assert!(Samples::weighted(&[1.0, 2.0], &[1.0]).is_err());
    assert!(matches!(
        line::distance(&[0.0], &[1e200], 2.0),
        Err(Error::TooFar { .. })
    ));
    let far = Samples::new(&[0.0, 1e200]).unwrap();
    assert!(far.transport(&Samples::new(&[1.0]).unwrap(), 2.0).is_err());
    assert!(far.quantile(1.5).is_err() && far.quantile(f64::NAN).is_err());
}
