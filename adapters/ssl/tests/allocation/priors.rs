//! Bounds, schedules and shift estimation against published or independently derived values.

use earthmover_ssl::Error;
use earthmover_ssl::allocation::{Bounds, MovingBounds, Schedule, ShiftEstimator};
use earthmover_testkit::Rng;
use proptest::prelude::*;

#[test]
fn wilson_interval_of_the_literature() {
    // Newcombe (1998), table of examples without continuity correction, 95%: 81/263 and 15/148, 0/20, 1/29.
    for (count, m, low, high) in [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ] {
        let bounds = Bounds::wilson_interval(&[count, m - count], 0.95).unwrap();
        assert!((bounds.lower()[0] - low).abs() < 5e-5, "{count}/{m}");
        assert!((bounds.upper()[0] - high).abs() < 5e-5, "{count}/{m}");
    }
}

proptest! {
    #[test]
    fn wilson_ends_solve_the_score_equation(counts in prop::collection::vec(0usize..60, 2..8), confidence in 0.01f64..0.999) {
        let m: usize = counts.iter().sum();
        prop_assume!(m > 0);
        let bounds = Bounds::wilson_interval(&counts, confidence).unwrap();
        let wider = Bounds::wilson_interval(&counts, 0.5 * (1.0 + confidence)).unwrap();
        // |p̂ − p| = z √(p(1 − p)/m) with one z for every class and both ends.
        let mut scores = Vec::new();
        for (j, &count) in counts.iter().enumerate() {
            let share = count as f64 / m as f64;
            prop_assert!(bounds.lower()[j] <= share && share <= bounds.upper()[j]);
            prop_assert!(wider.upper()[j] >= bounds.upper()[j] && wider.lower()[j] <= bounds.lower()[j]);
            for p in [bounds.lower()[j], bounds.upper()[j]] {
                if p > 1e-9 && p < 1.0 - 1e-9 {
                    scores.push((share - p).abs() / (p * (1.0 - p) / m as f64).sqrt());
                }
            }
        }
        for score in &scores {
            prop_assert!((score - scores[0]).abs() < 1e-7, "{:?}", scores);
        }
    }

    #[test]
    fn schedules_stay_in_range(step in 0usize..2000, steps in 1usize..1000, a in 0.0f64..=1.0, b in 0.0f64..=1.0) {
        for schedule in [
            Schedule::constant(a).unwrap(),
            Schedule::linear(),
            Schedule::truncated(a).unwrap(),
            Schedule::cosine(a, b).unwrap(),
            Schedule::piecewise(vec![(0.1, a), (0.5, b), (0.9, a)]).unwrap(),
        ] {
            let rho = schedule.at(step, steps);
            prop_assert!((0.0..=1.0).contains(&rho));
            let text = serde_json::to_string(&schedule).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Schedule>(&text).unwrap(), &schedule);
        }
    }

    #[test]
    fn shift_is_recovered_from_exact_confusion(seed in any::<u64>(), k in 2usize..7) {
        let mut rng = Rng(seed);
        let simplex = |rng: &mut Rng| {
            let raw: Vec<f64> = (0..k).map(|_| 0.05 + rng.unit()).collect();
            let sum: f64 = raw.iter().sum();
            raw.iter().map(|r| r / sum).collect::<Vec<f64>>()
        };
        let (p, q) = (simplex(&mut rng), simplex(&mut rng));
        // P(predicted i | true j): mostly right.
        let mut given = vec![0.0; k * k];
        for j in 0..k {
            let noise = simplex(&mut rng);
            for i in 0..k {
                given[i * k + j] = 0.4 * noise[i] + if i == j { 0.6 } else { 0.0 };
            }
        }
        let joint: Vec<f64> = (0..k * k).map(|c| given[c] * p[c % k]).collect();
        let mu: Vec<f64> = (0..k).map(|i| (0..k).map(|j| given[i * k + j] * q[j]).sum()).collect();
        let shift = ShiftEstimator::new(&joint, k).unwrap().estimate(&mu).unwrap();
        for j in 0..k {
            prop_assert!((shift.proportions[j] - q[j]).abs() < 1e-9);
            prop_assert!((shift.weights[j] - q[j] / p[j]).abs() < 1e-8);
        }
        // A ridge pulls the weights towards one, all the way as it grows.
        let stiff = ShiftEstimator::new(&joint, k).unwrap().ridge(1e9).estimate(&mu).unwrap();
        prop_assert!(stiff.weights.iter().all(|w| (w - 1.0).abs() < 1e-6));
        prop_assert!(stiff.distance < 1e-6);
        let sum: f64 = shift.proportions.iter().sum();
        prop_assert!((sum - 1.0).abs() < 1e-12);
    }
}

#[test]
fn shift_estimates_stay_on_the_simplex() {
    // Noise beyond what the confusion explains: the exact solution has a negative share.
    let estimator = ShiftEstimator::new(&[30.0, 20.0, 20.0, 30.0], 2).unwrap();
    let shift = estimator.estimate(&[0.9, 0.1]).unwrap();
    assert!(shift.weights[1] < 0.0);
    assert_eq!(shift.proportions, [1.0, 0.0]);

    let blind = ShiftEstimator::new(&[25.0; 4], 2).unwrap();
    assert!(matches!(
        blind.estimate(&[0.5, 0.5]),
        Err(Error::Singular { class: 1, .. })
    ));
    assert!(blind.ridge(0.1).estimate(&[0.5, 0.5]).is_ok());
    assert!(ShiftEstimator::new(&[1.0, f64::NAN, 0.0, 1.0], 2).is_err());
    assert!(ShiftEstimator::new(&[0.0; 4], 2).is_err());
    assert!(ShiftEstimator::new(&[1.0; 3], 2).is_err());
    assert!(ShiftEstimator::new(&[1.0], 1).is_err());
    let fine = ShiftEstimator::new(&[1.0, 0.0, 0.0, 1.0], 2).unwrap();
    assert!(fine.estimate(&[1.0]).is_err());
    assert!(fine.ridge(-1.0).estimate(&[1.0, 1.0]).is_err());
}

#[test]
fn the_paper_s_schedules() {
    // ρ_t = (t − 1)/(T − 1) and min(0.8, ·) for t = 1 … T.
    let steps = 1 << 10;
    for t in 1..=steps {
        let linear = (t - 1) as f64 / (steps - 1) as f64;
        assert_eq!(Schedule::linear().at(t - 1, steps), linear);
        assert_eq!(
            Schedule::truncated(0.8).unwrap().at(t - 1, steps),
            linear.min(0.8)
        );
    }
    let cosine = Schedule::cosine(0.2, 0.6).unwrap();
    assert!((cosine.at_progress(0.5) - 0.4).abs() < 1e-15);
    let knots = Schedule::piecewise(vec![(0.25, 0.1), (0.75, 0.9)]).unwrap();
    assert_eq!((knots.at_progress(0.0), knots.at_progress(1.0)), (0.1, 0.9));
    assert!((knots.at_progress(0.5) - 0.5).abs() < 1e-15);
    assert_eq!(Schedule::linear().at(0, 1), 1.0);
    for wrong in [
        vec![],
        vec![(0.5, 0.1), (0.5, 0.2)],
        vec![(0.0, 1.5)],
        vec![(f64::NAN, 0.5)],
    ] {
        assert!(matches!(
            Schedule::piecewise(wrong),
            Err(Error::Knot { .. })
        ));
    }
    assert!(Schedule::truncated(-0.1).is_err() && Schedule::cosine(0.0, f64::NAN).is_err());
    assert!(serde_json::from_str::<Schedule>("{\"constant\":1.5}").is_err());
}

#[test]
fn wrong_bounds_are_refused() {
    assert!(matches!(
        Bounds::given(&[0.5, -0.1]),
        Err(Error::Bound { index: 1, .. })
    ));
    assert!(Bounds::given(&[0.5, f64::NAN]).is_err());
    assert!(Bounds::given(&[0.5, f64::INFINITY]).is_err());
    assert!(Bounds::given(&[1.0]).is_err());
    assert!(matches!(
        Bounds::between(&[0.6, 0.0], &[0.5, 1.0]),
        Err(Error::Crossed { index: 0, .. })
    ));
    assert!(matches!(Bounds::empirical(&[0, 0]), Err(Error::NoCounts)));
    for confidence in [0.0, 1.0, -0.5, f64::NAN] {
        assert!(Bounds::wilson(&[3, 4], confidence).is_err());
    }
    assert!(serde_json::from_str::<Bounds>("{\"lower\":[0,0],\"upper\":[0.5,-1]}").is_err());
    let two = Bounds::none(2);
    assert!(MovingBounds::new(vec![]).is_err());
    assert!(MovingBounds::new(vec![(0.5, two.clone()), (0.5, two.clone())]).is_err());
    assert!(MovingBounds::new(vec![(0.5, two.clone()), (0.7, Bounds::none(3))]).is_err());
    assert!(MovingBounds::new(vec![(1.5, two)]).is_err());
}
