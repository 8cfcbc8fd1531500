//! The allocator against the paper's algorithm, and its manners.

use earthmover_ssl::Error;
use earthmover_ssl::allocation::{
    AllocationSolver, Bounds, ConstrainedAllocation, CostStorage, LabelAllocator,
};
use earthmover_testkit::Rng;

use crate::paper::{paper_sinkhorn, predictions};

fn all(n: usize) -> Vec<usize> {
    (0..n).collect()
}

#[test]
fn starts_at_the_uniform_prediction() {
    let allocator = LabelAllocator::options(5, 4).build().unwrap();
    assert!(allocator.costs().iter().all(|c| *c == 4f32.ln()));
    assert!(allocator.scaling().iter().all(|b| *b == 0.0));
}

#[test]
fn algorithm_1_reports_what_it_allocates() {
    let (n, k) = (120, 4);
    let (log_p, _) = predictions(n, &[0.4, 0.3, 0.2, 0.1], 2.0, 7);
    let solved = |solver| {
        let mut allocator = LabelAllocator::options(n, k)
            .bounds(Bounds::given(&[0.25; 4]).unwrap())
            .gamma(20.0)
            .tolerance(1e-8)
            .max_iterations(200_000)
            .solver(solver)
            .build()
            .unwrap();
        allocator.observe(&all(n), &log_p).unwrap();
        (allocator.allocate(0.7).unwrap(), allocator.prices())
    };
    let (newton, prices) = solved(AllocationSolver::Newton);
    let (sinkhorn, other) = solved(AllocationSolver::Sinkhorn);
    assert!((newton.allocated - sinkhorn.allocated).abs() < 1e-6);
    for (a, b) in newton.mass.iter().zip(&sinkhorn.mass) {
        assert!((a - b).abs() < 1e-4, "{a} {b}");
    }
    for (a, b) in prices.iter().zip(&other) {
        assert!((a - b).abs() < 1e-4, "{a} {b}");
    }
}

#[test]
fn agrees_with_the_paper_s_algorithm() {
    let (n, k) = (120, 4);
    for (upper, rho, gamma) in [
        (vec![1.0; 4], 0.3, 20.0),
        (vec![0.25; 4], 0.9, 20.0),
        (vec![0.4, 0.3, 0.2, 0.3], 0.6, 5.0),
        (vec![0.1, 0.2, 0.3, 0.1], 1.0, 10.0),
        (vec![0.3; 4], 0.0, 10.0),
    ] {
        let (log_p, _) = predictions(n, &[0.4, 0.3, 0.2, 0.1], 2.0, 7);
        let (beta, plan) = paper_sinkhorn(&log_p, &upper, rho, gamma, 1e-11, 200_000);
        let mut allocator = LabelAllocator::options(n, k)
            .bounds(Bounds::given(&upper).unwrap())
            .gamma(gamma)
            .tolerance(1e-10)
            .max_iterations(200_000)
            .build()
            .unwrap();
        allocator.observe(&all(n), &log_p).unwrap();
        let report = allocator.allocate(rho).unwrap();
        assert!(report.status.is_converged() && report.error <= 1e-10);
        for (ours, theirs) in allocator.scaling().iter().zip(&beta) {
            assert!((ours - theirs).abs() < 1e-5 * gamma, "{ours} {theirs}");
        }
        let mut rows = vec![0.0; n * k];
        allocator.plan_rows(&all(n), &mut rows).unwrap();
        let mut soft = vec![0.0; n * k];
        allocator.targets(&log_p, &mut soft).unwrap();
        assert_eq!(
            rows, soft,
            "the plan's rows are the targets of its own examples"
        );
        let mut mass = vec![0.0; k];
        for i in 0..n {
            for j in 0..k {
                let theirs = plan[i * (k + 1) + j];
                assert!((f64::from(rows[i * k + j]) - theirs).abs() < 1e-5);
                mass[j] += theirs;
            }
        }
        for (ours, theirs) in report.mass.iter().zip(&mass) {
            assert!((ours - theirs).abs() < 1e-4, "{ours} {theirs}");
        }
        let total: f64 = mass.iter().sum();
        assert!((report.allocated * n as f64 - total).abs() < 1e-3);
    }
}

#[test]
fn targets_are_safe_at_every_strength() {
    let (n, k) = (60, 5);
    let (mut log_p, _) = predictions(n, &[1.0; 5], 3.0, 3);
    // A model that is certain, and one that rules a class out.
    log_p[..5].copy_from_slice(&[0.0, f32::NEG_INFINITY, f32::NEG_INFINITY, -200.0, -1e30]);
    log_p[5..10].copy_from_slice(&[
        f32::NEG_INFINITY,
        0.25f32.ln(),
        0.25f32.ln(),
        0.25f32.ln(),
        0.25f32.ln(),
    ]);
    for gamma in [1.0, 10.0, 100.0, 1e3, 1e4] {
        for rho in [0.0, 0.5, 1.0] {
            let mut allocator = LabelAllocator::options(n, k)
                .bounds(Bounds::given(&[0.25; 5]).unwrap())
                .gamma(gamma)
                .max_iterations(3000)
                .build()
                .unwrap();
            allocator.observe(&all(n), &log_p).unwrap();
            let report = allocator.allocate(rho).unwrap();
            assert!(report.error.is_finite());
            let mut soft = vec![f32::NAN; n * k];
            allocator.targets(&log_p, &mut soft).unwrap();
            for row in soft.chunks(k) {
                assert!(
                    row.iter().all(|q| (0.0..=1.0).contains(q)),
                    "{gamma} {row:?}"
                );
                assert!(row.iter().sum::<f32>() <= 1.0 + 1e-6);
            }
            assert!(soft[1] == 0.0 && soft[2] == 0.0 && soft[5] == 0.0);
        }
    }
}

#[test]
fn a_solved_problem_needs_no_iteration() {
    let (n, k) = (200, 3);
    let (log_p, _) = predictions(n, &[0.5, 0.3, 0.2], 2.0, 11);
    let mut allocator = LabelAllocator::options(n, k)
        .bounds(Bounds::given(&[0.4; 3]).unwrap())
        .build()
        .unwrap();
    allocator.observe(&all(n), &log_p).unwrap();
    assert!(allocator.allocate(0.7).unwrap().iterations > 0);
    assert_eq!(allocator.allocate(0.7).unwrap().iterations, 0);
}

#[test]
fn row_bounds_limit_each_example() {
    let (n, k) = (90, 3);
    let (log_p, _) = predictions(n, &[1.0; 3], 2.0, 5);
    let bounds: Vec<f64> = (0..n).map(|i| [0.0, 0.5, 1.0][i % 3]).collect();
    let mut allocator = LabelAllocator::options(n, k)
        .row_bounds(bounds.clone())
        .tolerance(1e-8)
        .max_iterations(100_000)
        .build()
        .unwrap();
    allocator.observe(&all(n), &log_p).unwrap();
    let report = allocator.allocate(0.8).unwrap();
    assert!(report.status.is_converged());
    // ρ counts the mass the examples may carry: m = 0.8 · 45 − 1.
    assert!(report.mass.iter().sum::<f64>() >= 0.8 * 45.0 - 1.0 - 1e-4);
    let mut rows = vec![0.0; n * k];
    allocator.plan_rows(&all(n), &mut rows).unwrap();
    for (row, bound) in rows.chunks(k).zip(&bounds) {
        assert!(f64::from(row.iter().sum::<f32>()) <= bound + 1e-6);
    }
    assert!(
        allocator
            .hard_labels()
            .iter()
            .step_by(3)
            .all(Option::is_none)
    );
    allocator.set_row_bounds(None).unwrap();
    let free = allocator.allocate(0.8).unwrap();
    assert!(free.mass.iter().sum::<f64>() >= 0.8 * 90.0 - 1.0 - 1e-4);
}

#[test]
fn continues_bit_for_bit() {
    let (n, k) = (80, 4);
    let build = || {
        LabelAllocator::options(n, k)
            .bounds(Bounds::wilson(&[3, 5, 2, 6], 0.8).unwrap())
            .row_bounds((0..n).map(|i| 1.0 - i as f64 / 100.0).collect())
            .tolerance(1e-3)
            .build()
            .unwrap()
    };
    let run = |allocator: &mut LabelAllocator, steps: std::ops::Range<u64>| {
        let mut trace = Vec::new();
        for step in steps {
            let mut rng = Rng(step);
            let start = rng.below(n - 20);
            let (log_p, _) = predictions(20, &[1.0; 4], 2.0, step);
            allocator
                .observe(&(start..start + 20).collect::<Vec<_>>(), &log_p)
                .unwrap();
            let report = allocator.allocate(step as f64 / 20.0).unwrap();
            trace.push((report.error.to_bits(), report.iterations));
            trace.extend(allocator.scaling().iter().map(|b| (b.to_bits(), 0)));
            trace.extend(report.mass.iter().map(|m| (m.to_bits(), 0)));
        }
        trace
    };
    let mut straight = build();
    run(&mut straight, 0..10);
    let mut bytes = Vec::new();
    straight.save(&mut bytes).unwrap();
    let json = serde_json::to_string(&straight).unwrap();
    let mut binary = LabelAllocator::load(bytes.as_slice()).unwrap();
    let mut text: LabelAllocator = serde_json::from_str(&json).unwrap();
    let expected = run(&mut straight, 10..20);
    assert_eq!(run(&mut binary, 10..20), expected);
    assert_eq!(run(&mut text, 10..20), expected);
    assert_eq!(binary.diagnose(), straight.diagnose());

    for at in [0, 5, 30, bytes.len() / 2, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x40;
        assert!(
            LabelAllocator::load(damaged.as_slice()).is_err(),
            "byte {at}"
        );
        assert!(LabelAllocator::load(&bytes[..at]).is_err(), "cut at {at}");
    }
}

/// The stream with another sum at its end: whole, whatever it says.
fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len() - 8);
    bytes.extend(earthmover_testkit::fnv1a(&bytes).to_le_bytes());
    bytes
}

#[test]
fn what_is_loaded_is_what_was_saved() {
    let options = LabelAllocator::options(6, 3).storage(CostStorage::Half);
    let mut allocator = options.build().unwrap();
    allocator.allocate(0.5).unwrap();
    let mut bytes = Vec::new();
    allocator.save(&mut bytes).unwrap();
    assert!(LabelAllocator::load(summed(bytes.clone()).as_slice()).is_ok());
    // Magic, version and four counts; then γ, tolerance, ρ, the solver's cut; then two bounds per class.
    let (cut, mark) = (40 + 24, 40 + 32 + 48);
    let mut other = bytes.clone();
    assert_eq!(other[mark], 0);
    other[mark] = 2;
    assert!(LabelAllocator::load(summed(other).as_slice()).is_err());
    for value in [1e-300, 1e300, f64::NAN] {
        let mut other = bytes.clone();
        other[cut..cut + 8].copy_from_slice(&value.to_le_bytes());
        assert!(
            LabelAllocator::load(summed(other).as_slice()).is_err(),
            "{value}"
        );
    }
    let last = bytes.len() - 12;
    bytes[last] ^= 1;
    assert!(LabelAllocator::load(summed(bytes).as_slice()).is_err());
}

#[test]
fn refuses_and_stays_as_it_was() {
    let (n, k) = (10, 3);
    let (log_p, _) = predictions(2, &[1.0; 3], 1.0, 1);
    let mut allocator = LabelAllocator::options(n, k).build().unwrap();
    allocator.observe(&[3, 4], &log_p).unwrap();
    allocator.allocate(0.4).unwrap();
    let mut before = Vec::new();
    allocator.save(&mut before).unwrap();

    let bad = |value: f32| [log_p[..5].to_vec(), vec![value]].concat();
    let halves = [0.5f32.ln(); 6];
    assert!(matches!(
        allocator.observe(&[0, 10], &log_p),
        Err(Error::Index {
            position: 1,
            index: 10,
            examples: 10
        })
    ));
    assert!(matches!(
        allocator.observe(&[7, 7], &log_p),
        Err(Error::Repeated {
            position: 1,
            index: 7
        })
    ));
    assert!(matches!(
        allocator.observe(&[0, 1], &log_p[1..]),
        Err(Error::Length {
            expected: 6,
            found: 5,
            ..
        })
    ));
    assert!(matches!(
        allocator.observe(&[0, 1], &bad(f32::NAN)),
        Err(Error::LogProbability {
            row: 1,
            class: 2,
            ..
        })
    ));
    assert!(matches!(
        allocator.observe(&[0, 1], &bad(0.7)),
        Err(Error::LogProbability { row: 1, .. })
    ));
    assert!(matches!(
        allocator.observe(&[0, 1], &bad(f32::NEG_INFINITY)),
        Err(Error::NotNormalised { row: 1, .. })
    ));
    assert!(matches!(
        allocator.observe(&[0, 1], &halves),
        Err(Error::NotNormalised { row: 0, .. })
    ));
    for rho in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(
            allocator.allocate(rho),
            Err(Error::Option { name: "rho", .. })
        ));
    }
    assert!(allocator.set_bounds(Bounds::none(4)).is_err());
    let lower = Bounds::between(&[0.1, 0.0, 0.0], &[1.0; 3]).unwrap();
    assert!(matches!(
        allocator.set_bounds(lower),
        Err(Error::LowerBound { class: 0, .. })
    ));
    assert!(matches!(
        allocator.set_row_bounds(Some(vec![1.5; 10])),
        Err(Error::Bound { .. })
    ));
    assert!(allocator.set_row_bounds(Some(vec![0.0; 10])).is_err());
    let mut out = vec![9.0; 6];
    assert!(allocator.targets(&bad(f32::NAN), &mut out).is_err());
    assert!(matches!(
        allocator.targets(&[-1.0; 6], &mut out),
        Err(Error::NotNormalised { row: 0, .. })
    ));
    assert!(allocator.targets(&log_p[1..], &mut out[1..]).is_err());
    assert!(allocator.plan_rows(&[0, 11], &mut out).is_err());
    assert_eq!(out, [9.0; 6]);

    let mut after = Vec::new();
    allocator.save(&mut after).unwrap();
    assert_eq!(before, after);

    assert!(matches!(
        LabelAllocator::options(5, 1).build(),
        Err(Error::Classes { found: 1 })
    ));
    assert!(matches!(
        LabelAllocator::options(0, 3).build(),
        Err(Error::NoExamples)
    ));
    assert!(LabelAllocator::options(usize::MAX, 3).build().is_err());
    // By the name that the caller knows it by, not by the core's ε = 1/γ.
    for gamma in [0.0, -1.0, 8.6e-76, 1e21, f64::INFINITY, f64::NAN] {
        assert!(matches!(
            LabelAllocator::options(5, 3).gamma(gamma).build(),
            Err(Error::Option { name: "gamma", .. })
        ));
        assert!(matches!(
            ConstrainedAllocation::new(3).gamma(gamma).solve(&log_p),
            Err(Error::Option { name: "gamma", .. })
        ));
    }
    assert!(
        LabelAllocator::options(5, 3)
            .tolerance(f64::NAN)
            .build()
            .is_err()
    );
    // A repeat after a refused batch is still told from a first occurrence.
    assert!(allocator.observe(&[7, 8], &log_p).is_ok());
}

#[test]
fn fewer_bits_give_nearly_the_same_labels() {
    let (n, k) = (400, 5);
    let (log_p, _) = predictions(n, &[0.3, 0.3, 0.2, 0.1, 0.1], 2.0, 17);
    let solved = |storage| {
        let mut allocator = LabelAllocator::options(n, k)
            .bounds(Bounds::given(&[0.22; 5]).unwrap())
            .storage(storage)
            .tolerance(1e-6)
            .build()
            .unwrap();
        allocator.observe(&all(n), &log_p).unwrap();
        assert!(allocator.allocate(0.8).unwrap().status.is_converged());
        allocator
    };
    let single = solved(CostStorage::Single);
    for (storage, error) in [
        (CostStorage::Half, 1.0 / 2048.0),
        (CostStorage::Bfloat, 1.0 / 256.0),
    ] {
        let packed = solved(storage);
        for (a, b) in single.costs().iter().zip(packed.costs().iter()) {
            assert!((a - b).abs() <= error * a + 1e-7, "{a} {b}");
        }
        let pairs = single.hard_labels().into_iter().zip(packed.hard_labels());
        let differing = pairs.filter(|(a, b)| a != b).count();
        assert!(differing <= n / 20, "{differing} labels differ");

        let mut bytes = Vec::new();
        packed.save(&mut bytes).unwrap();
        let mut again = LabelAllocator::load(bytes.as_slice()).unwrap();
        let text = serde_json::to_string(&packed).unwrap();
        let mut parsed: LabelAllocator = serde_json::from_str(&text).unwrap();
        let mut packed = packed;
        let expected = packed.allocate(0.9).unwrap().mass;
        assert_eq!(again.allocate(0.9).unwrap().mass, expected);
        assert_eq!(parsed.allocate(0.9).unwrap().mass, expected);
        assert_eq!(again.costs(), packed.costs());
    }
}
