//! Groups, lower bounds, row bounds, multi-label: the entropic answer, the exact one, and their proofs.

use earthmover_ssl::Error;
use earthmover_ssl::allocation::{
    Acceleration, Bounds, ConstrainedAllocation, ConstrainedSolution, LabelAllocator, MovingBounds,
};
use earthmover_testkit::Rng;
use proptest::prelude::*;

use crate::paper::predictions;

/// What every answer to every question must satisfy, checked from the plan alone.
struct Laws<'a> {
    rows: &'a [f64],
    lower: &'a [f64],
    upper: &'a [f64],
    groups: &'a [(Vec<usize>, f64, f64)],
    cap: f64,
    least: f64,
}

impl Laws<'_> {
    /// The largest violation of any bound, in examples.
    fn worst(&self, plan: &[f64]) -> f64 {
        let k = self.lower.len();
        let n = self.rows.len() as f64;
        let mut worst = 0.0f64;
        let mut sums = vec![0.0; k];
        for (row, cap) in plan.chunks(k).zip(self.rows) {
            worst = worst.max(row.iter().sum::<f64>() - cap);
            for (j, q) in row.iter().enumerate() {
                worst = worst.max(-q).max(q - self.cap);
                sums[j] += q;
            }
        }
        for j in 0..k {
            worst = worst
                .max(n * self.lower[j] - sums[j])
                .max(sums[j] - n * self.upper[j]);
        }
        for (set, lower, upper) in self.groups {
            let sum: f64 = set.iter().map(|&j| sums[j]).sum();
            worst = worst.max(n * lower - sum).max(sum - n * upper);
        }
        worst.max(self.least - sums.iter().sum::<f64>())
    }
}

fn cost(plan: &[f64], log_p: &[f32]) -> f64 {
    plan.iter()
        .zip(log_p)
        .map(|(q, l)| -q * f64::from(*l))
        .sum()
}

/// The two answers against each other and against the laws.
fn check(
    question: &ConstrainedAllocation,
    laws: &Laws<'_>,
    log_p: &[f32],
) -> Result<(ConstrainedSolution, ConstrainedSolution), TestCaseError> {
    let exact = question.solve_exact(log_p).unwrap();
    let soft = question.solve(log_p).unwrap();
    let n = laws.rows.len() as f64;
    prop_assert!(exact.status().is_converged());
    prop_assert!(
        laws.worst(exact.plan()) <= 1e-9 * n,
        "exact {}",
        laws.worst(exact.plan())
    );
    let optimum = cost(exact.plan(), log_p);
    let proof = exact.certificate();
    prop_assert!((proof.objective - optimum).abs() <= 1e-9 * (1.0 + optimum));
    prop_assert!(
        proof.gap().abs() <= 1e-7 * (1.0 + optimum),
        "exact gap {}",
        proof.gap()
    );

    prop_assert!(
        soft.status().is_converged(),
        "{} {:?}",
        soft.iterations(),
        soft.certificate()
    );
    prop_assert!(
        laws.worst(soft.plan()) <= 2e-6 * n,
        "soft {}",
        laws.worst(soft.plan())
    );
    let proof = soft.certificate();
    prop_assert!(
        proof.dual <= optimum + 1e-7 * (1.0 + optimum),
        "dual {} > {optimum}",
        proof.dual
    );
    prop_assert!(
        proof.primal >= optimum - 1e-7 * (1.0 + optimum),
        "primal {} < {optimum}",
        proof.primal
    );
    prop_assert!(proof.violation <= 2e-6, "violation {}", proof.violation);
    // The entropy of a row over k + 1 choices is at most ln(k + 1), at weight ε = 1/γ.
    let bias =
        laws.rows.len() as f64 * (2.0 + laws.rows.iter().copied().fold(0.0, f64::max)) / 100.0;
    prop_assert!(
        (proof.objective - optimum).abs() <= bias,
        "{} {optimum}",
        proof.objective
    );
    Ok((soft, exact))
}

/// Few by default, as each solves a linear programme; PROPTEST_CASES asks for more.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn every_kind_of_bound_at_once(seed in any::<u64>(), n in 12usize..40, multi in any::<bool>(), rho in 0.2f64..0.95) {
        let k = 5;
        let mut rng = Rng(seed);
        let (log_p, _) = predictions(n, &[0.5, 0.2, 0.1, 0.1, 0.1], 2.0, seed);
        let labels = if multi { 2.0 } else { 1.0 };
        let cap = if multi { 1.0 } else { f64::INFINITY };
        let rows: Vec<f64> = (0..n).map(|_| labels * (0.5 + 0.5 * rng.unit())).collect();
        let supply: f64 = rows.iter().sum();
        let least = rho * supply;
        // Upper bounds with room to spare for what is asked, lower bounds that take a part of it.
        let share = supply / n as f64 / k as f64;
        let upper: Vec<f64> = (0..k).map(|_| (share * (1.1 + rng.unit())).min(1.0)).collect();
        let lower: Vec<f64> = (0..k).map(|_| 0.6 * share * rng.unit() * rho).collect();
        let groups = vec![
            (vec![0, 1, 2], 0.0, share * 3.3),
            (vec![3, 4], share * 1.3 * rho, f64::INFINITY),
            (vec![0, 1], 0.0, share * 2.5),
        ];
        let mut question = ConstrainedAllocation::new(k)
            .row_bounds(rows.clone())
            .bounds(Bounds::between(&lower, &upper).unwrap())
            .entry_cap(cap)
            .rho(rho)
            .tolerance(1e-6)
            .max_iterations(2_000);
        for (set, low, high) in &groups {
            question = question.group(set.iter().copied(), *low, *high);
        }
        let laws = Laws { rows: &rows, lower: &lower, upper: &upper, groups: &groups, cap, least };
        match question.solve_exact(&log_p) {
            Err(Error::Infeasible { .. } | Error::Transport(_)) => return Ok(()),
            other => drop(other.unwrap()),
        }
        let _ = check(&question, &laws, &log_p)?;
    }

    #[test]
    fn newton_ends_where_cycles_end(seed in any::<u64>(), n in 12usize..40, multi in any::<bool>(), rho in 0.2f64..0.95) {
        let k = 5;
        let mut rng = Rng(seed);
        let (log_p, _) = predictions(n, &[0.5, 0.2, 0.1, 0.1, 0.1], 2.0, seed);
        let labels = if multi { 2.0 } else { 1.0 };
        let share = labels / k as f64;
        let upper: Vec<f64> = (0..k).map(|_| (share * (1.1 + rng.unit())).min(1.0)).collect();
        let lower: Vec<f64> = (0..k).map(|_| 0.6 * share * rng.unit() * rho).collect();
        // Soft enough for the plain cycles to finish.
        let fast = ConstrainedAllocation::new(k)
            .labels_per_example(labels)
            .bounds(Bounds::between(&lower, &upper).unwrap())
            .group([0, 1, 2], 0.0, share * 3.3)
            .group([3, 4], share * 1.3 * rho, f64::INFINITY)
            .entry_cap(if multi { 1.0 } else { f64::INFINITY })
            .rho(rho)
            .gamma(10.0)
            .tolerance(1e-9)
            .max_iterations(100_000);
        let plain = fast.clone().acceleration(Acceleration::None);
        let (fast, plain) = match (fast.solve(&log_p), plain.solve(&log_p)) {
            (Err(Error::Infeasible { .. }), Err(Error::Infeasible { .. })) => return Ok(()),
            (fast, plain) => (fast.unwrap(), plain.unwrap()),
        };
        prop_assert!(fast.status().is_converged() && plain.status().is_converged());
        prop_assert!(fast.iterations() <= plain.iterations().max(200));
        for (ours, theirs) in fast.plan().iter().zip(plain.plan()) {
            prop_assert!((ours - theirs).abs() <= 1e-6, "{ours} {theirs}");
        }
        for (ours, theirs) in fast.class_mass().iter().zip(plain.class_mass()) {
            prop_assert!((ours - theirs).abs() <= 1e-6 * n as f64, "{ours} {theirs}");
        }
    }
}

#[test]
fn a_group_bound_moves_mass_out_of_the_group() {
    let (n, k) = (60, 4);
    let (log_p, _) = predictions(n, &[0.4, 0.4, 0.1, 0.1], 2.0, 2);
    let free = ConstrainedAllocation::new(k);
    let bound = free.clone().group([0, 1], 0.0, 0.5);
    let (free, bound) = (
        free.solve_exact(&log_p).unwrap(),
        bound.solve(&log_p).unwrap(),
    );
    let pair = |s: &ConstrainedSolution| s.class_mass()[0] + s.class_mass()[1];
    assert!(pair(&free) > 36.0);
    assert!((pair(&bound) - 30.0).abs() < 1e-3, "{}", pair(&bound));
    assert!(bound.group_prices()[0] < 0.0);
    assert!(bound.class_prices().iter().all(|p| *p == 0.0));
}

#[test]
fn lower_bounds_revive_a_class_the_model_never_picks() {
    let (n, k) = (50, 3);
    let (mut log_p, _) = predictions(n, &[1.0, 1.0, 0.0], 3.0, 4);
    for row in log_p.chunks_mut(3) {
        let p: Vec<f32> = vec![
            row[0].exp() * 0.99,
            row[1].exp() * 0.99,
            row[2].exp() * 0.01,
        ];
        let sum: f32 = p.iter().sum();
        row.copy_from_slice(&p.iter().map(|p| (p / sum).ln()).collect::<Vec<_>>());
    }
    let question = ConstrainedAllocation::new(k).rho(0.5);
    assert!(question.solve(&log_p).unwrap().class_mass()[2] < 1e-6);
    let least = question.bounds(Bounds::between(&[0.0, 0.0, 0.1], &[1.0; 3]).unwrap());
    for answer in [
        least.solve(&log_p).unwrap(),
        least.solve_exact(&log_p).unwrap(),
    ] {
        assert!((answer.class_mass()[2] - 5.0).abs() < 1e-3);
        assert!(answer.class_prices()[2] > 0.0);
        let gap = answer.certificate().gap();
        assert!((-1e-9..5.0).contains(&gap));
    }
}

#[test]
fn multi_label_takes_the_most_likely_of_each_example() {
    let (n, k, labels) = (40, 6, 2);
    let (log_p, _) = predictions(n, &[1.0; 6], 1.0, 8);
    let question = ConstrainedAllocation::new(k)
        .labels_per_example(labels as f64)
        .entry_cap(1.0)
        .gamma(2000.0);
    let exact = question.solve_exact(&log_p).unwrap();
    let soft = question.solve(&log_p).unwrap();
    let mut targets = vec![0.0; n * k];
    soft.targets(&log_p, &mut targets).unwrap();
    for (i, row) in log_p.chunks(k).enumerate() {
        let mut order: Vec<usize> = (0..k).collect();
        order.sort_by(|a, b| row[*b].total_cmp(&row[*a]));
        for (rank, &j) in order.iter().enumerate() {
            let expected = if rank < labels { 1.0 } else { 0.0 };
            assert!((exact.plan()[i * k + j] - expected).abs() < 1e-9);
            if (row[order[1]] - row[order[2]]).abs() > 0.02 {
                assert!((soft.plan()[i * k + j] - expected).abs() < 1e-3);
                assert!((f64::from(targets[i * k + j]) - expected).abs() < 1e-3);
            }
        }
    }
}

#[test]
fn without_extensions_it_is_the_allocator() {
    // Q1 ≤ 1, Qᵀ1 ≤ n b with n b one larger stands for the paper's caps; the total one less.
    let (n, k, rho, gamma) = (80, 4, 0.7, 30.0);
    let (log_p, _) = predictions(n, &[0.4, 0.3, 0.2, 0.1], 2.0, 13);
    let b = [0.2, 0.3, 0.3, 0.3];
    let mut allocator = LabelAllocator::options(n, k)
        .bounds(Bounds::given(&b).unwrap())
        .gamma(1e3)
        .tolerance(1e-8)
        .max_iterations(1_000_000)
        .build()
        .unwrap();
    allocator
        .observe(&(0..n).collect::<Vec<_>>(), &log_p)
        .unwrap();
    let report = allocator.allocate(rho).unwrap();
    assert!(report.status.is_converged());
    let slack = b.map(|b| b + 1.0 / n as f64);
    let exact = ConstrainedAllocation::new(k)
        .bounds(Bounds::given(&slack).unwrap())
        .rho(rho - 1.0 / n as f64)
        .gamma(gamma)
        .solve_exact(&log_p)
        .unwrap();
    for (ours, theirs) in report.mass.iter().zip(exact.class_mass()) {
        assert!(
            (ours - theirs).abs() < 1.0,
            "{:?} {:?}",
            report.mass,
            exact.class_mass()
        );
    }
    // Shadow prices of the two formulations are the same numbers.
    let diagnosis = allocator.diagnose();
    for (class, price) in diagnosis.classes.iter().zip(exact.class_prices()) {
        assert!(
            (class.price + price).abs() < 0.05,
            "{} {price}",
            class.price
        );
    }
    assert!((diagnosis.mass_price - exact.mass_price()).abs() < 0.05);
}

#[test]
fn bounds_over_time_introduce_a_class() {
    let (n, k) = (60, 3);
    let (log_p, _) = predictions(n, &[1.0; 3], 3.0, 6);
    let moving = MovingBounds::new(vec![
        (0.0, Bounds::given(&[0.5, 0.5, 0.0]).unwrap()),
        (1.0, Bounds::given(&[0.4, 0.4, 0.4]).unwrap()),
    ])
    .unwrap();
    let mut last = -1.0;
    for progress in [0.0, 0.5, 1.0] {
        let question = ConstrainedAllocation::new(k)
            .bounds(moving.at(progress))
            .rho(0.9);
        let (soft, exact) = (
            question.solve(&log_p).unwrap(),
            question.solve_exact(&log_p).unwrap(),
        );
        assert!((soft.class_mass()[2] - exact.class_mass()[2]).abs() < 0.7);
        assert!(soft.class_mass()[2] > last);
        last = soft.class_mass()[2];
    }
    assert!(last > 10.0);
}

#[test]
fn contradictions_are_named() {
    let (log_p, _) = predictions(10, &[1.0; 3], 1.0, 1);
    let question = || ConstrainedAllocation::new(3);
    let both = |q: ConstrainedAllocation| {
        (
            q.solve(&log_p).unwrap_err(),
            q.solve_exact(&log_p).unwrap_err(),
        )
    };
    let narrow = Bounds::given(&[0.2; 3]).unwrap();
    assert!(matches!(
        both(question().bounds(narrow)).0,
        Error::Infeasible { .. }
    ));
    let greedy = Bounds::between(&[0.5; 3], &[1.0; 3]).unwrap();
    assert!(matches!(
        both(question().bounds(greedy)).1,
        Error::Infeasible { .. }
    ));
    assert!(matches!(
        both(question().group([0, 1], 0.9, 0.3)).0,
        Error::Crossed { .. }
    ));
    assert!(matches!(
        both(question().group([0, 1], 0.0, 0.1).group([1, 2], 0.0, 0.9)).0,
        Error::NotLaminar { .. }
    ));
    assert!(matches!(
        both(question().group([0, 7], 0.0, 0.1)).0,
        Error::Option { .. }
    ));
    assert!(matches!(
        both(question().group([0], f64::NAN, 0.1)).0,
        Error::Bound { .. }
    ));
    assert!(matches!(
        both(question().labels_per_example(4.0).entry_cap(1.0)).0,
        Error::Infeasible { .. }
    ));
    assert!(matches!(
        both(question().labels_per_example(-1.0)).0,
        Error::Bound { .. }
    ));
    assert!(matches!(
        both(question().entry_cap(0.0)).0,
        Error::Option { .. }
    ));
    assert!(matches!(both(question().rho(1.5)).0, Error::Option { .. }));
    assert!(question().gamma(0.0).solve(&log_p).is_err());
    assert!(question().solve(&[0.0; 3]).is_err());
    assert!(question().solve(&log_p[1..]).is_err());
    assert!(ConstrainedAllocation::new(1).solve(&[0.0]).is_err());
    assert!(ConstrainedAllocation::new(0).solve(&[]).is_err());
}

#[test]
fn a_time_limit_is_a_status() {
    let log_p = vec![0.5f32.ln(); 40];
    let skewed = Bounds::between(&[0.0, 0.7], &[0.3, 1.0]).unwrap();
    let question = ConstrainedAllocation::new(2).bounds(skewed);
    assert!(question.solve(&log_p).unwrap().status().is_converged());
    let hurried = question.time_limit(std::time::Duration::ZERO);
    let found = hurried.solve(&log_p).unwrap();
    assert_eq!(found.status(), earthmover::Status::Stopped);
    assert!(found.plan().iter().all(|q| q.is_finite() && *q >= 0.0));
}
