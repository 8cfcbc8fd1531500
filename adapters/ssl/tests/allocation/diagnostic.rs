//! The misspecification signal on a prior that fits and on one that does not.

use earthmover_ssl::allocation::{Bounds, LabelAllocator, Warning};
use earthmover_testkit::Rng;

use crate::paper::{log_softmax, predictions};

fn allocated(bounds: Bounds, rho: f64, sharpness: f64) -> LabelAllocator {
    let (n, shares) = (1500, [0.4, 0.3, 0.2, 0.1]);
    let (log_p, _) = predictions(n, &shares, sharpness, 21);
    let mut allocator = LabelAllocator::options(n, 4)
        .bounds(bounds)
        .tolerance(1e-6)
        .max_iterations(20_000)
        .build()
        .unwrap();
    allocator
        .observe(&(0..n).collect::<Vec<_>>(), &log_p)
        .unwrap();
    assert!(allocator.allocate(rho).unwrap().status.is_converged());
    allocator
}

#[test]
fn a_fitting_prior_is_calm() {
    for bounds in [
        Bounds::none(4),
        Bounds::wilson(&[40, 30, 20, 10], 0.95).unwrap(),
    ] {
        let diagnosis = allocated(bounds, 1.0, 8.0).diagnose();
        assert_eq!(diagnosis.warning, Warning::Calm, "{diagnosis:?}");
        assert!(diagnosis.forced < 0.02 && diagnosis.regret < 0.05);
        assert!(
            diagnosis
                .classes
                .iter()
                .all(|c| !c.binding && c.mass < c.cap)
        );
    }
}

#[test]
fn a_wrong_prior_is_reported_with_the_classes_it_hurts() {
    // The largest class is thought to be the smallest and the other way round.
    let wrong = Bounds::given(&[0.1, 0.3, 0.2, 0.4]).unwrap();
    let diagnosis = allocated(wrong, 1.0, 8.0).diagnose();
    assert_eq!(diagnosis.warning, Warning::Misspecified, "{diagnosis:?}");
    // 30% of the examples must be something they do not look like.
    assert!(
        (diagnosis.forced - 0.3).abs() < 0.03,
        "{}",
        diagnosis.forced
    );
    assert!(diagnosis.classes[0].binding);
    let largest = diagnosis
        .classes
        .iter()
        .map(|c| c.price)
        .fold(0.0, f64::max);
    assert_eq!(diagnosis.classes[0].price, largest);
    assert!(!diagnosis.classes[3].binding);
    assert_eq!(diagnosis.saturation, largest);
}

#[test]
fn annealing_hides_a_wrong_prior_until_it_binds() {
    let wrong = || Bounds::given(&[0.1, 0.3, 0.2, 0.4]).unwrap();
    let early = allocated(wrong(), 0.1, 8.0).diagnose();
    let late = allocated(wrong(), 1.0, 8.0).diagnose();
    assert!(early.warning < late.warning && early.regret < late.regret);
    assert!(early.mass_price < late.mass_price);
}

#[test]
fn the_shadow_price_is_what_one_more_unit_saves() {
    // Raise class 0's cap by δ and compare ⟨Q, C⟩ of the two allocations at a large γ.
    let cost = |allocator: &LabelAllocator| {
        let n = allocator.examples();
        let mut rows = vec![0.0; n * 4];
        allocator
            .plan_rows(&(0..n).collect::<Vec<_>>(), &mut rows)
            .unwrap();
        let costs = allocator.costs();
        let pairs = rows.iter().zip(costs.iter());
        pairs
            .map(|(q, c)| f64::from(*q) * f64::from(*c))
            .sum::<f64>()
    };
    let delta = 15.0 / 1500.0;
    let before = allocated(Bounds::given(&[0.25, 0.4, 0.4, 0.4]).unwrap(), 1.0, 3.0);
    let after = allocated(
        Bounds::given(&[0.25 + delta, 0.4, 0.4, 0.4]).unwrap(),
        1.0,
        3.0,
    );
    let (high, low) = (
        before.diagnose().classes[0].price,
        after.diagnose().classes[0].price,
    );
    let saved = (cost(&before) - cost(&after)) / 15.0;
    assert!(
        low < high && low - 0.05 < saved && saved < high + 0.05,
        "{low} {saved} {high}"
    );
}

#[test]
fn a_model_thrown_about_oscillates() {
    let (n, k) = (300, 3);
    let mut allocator = LabelAllocator::options(n, k)
        .bounds(Bounds::given(&[0.34; 3]).unwrap())
        .max_iterations(20_000)
        .build()
        .unwrap();
    let run = |allocator: &mut LabelAllocator, swing: f64| {
        for step in 0..24 {
            let mut rng = Rng(9);
            let tilt = if step % 2 == 0 { swing } else { -swing };
            let logits: Vec<f64> = (0..n * k)
                .map(|cell| rng.normal() + if cell % k == 0 { tilt } else { 0.0 })
                .collect();
            let log_p = log_softmax(&logits, k);
            allocator
                .observe(&(0..n).collect::<Vec<_>>(), &log_p)
                .unwrap();
            allocator.allocate(0.9).unwrap();
        }
        allocator.diagnose()
    };
    let steady = run(&mut allocator.clone(), 0.0);
    let thrown = run(&mut allocator, 3.0);
    assert!(steady.oscillation < 0.01, "{}", steady.oscillation);
    assert!(thrown.oscillation > 1.0, "{}", thrown.oscillation);
    assert_eq!(thrown.warning, Warning::Misspecified);
}
