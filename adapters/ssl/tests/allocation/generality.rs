//! The paper's "Generality" paragraph as theorems: which heuristics the linear programme contains, by the exact
//! solver, and that the allocator tends to the linear programme as γ grows.

use earthmover::{Dense, Exact, Marginals, Problem, Slack};
use earthmover_ssl::allocation::{Bounds, LabelAllocator};

use crate::paper::{paper_marginals, predictions};

/// Costs −log p as the allocator stores them.
fn costs(log_p: &[f32]) -> Vec<f32> {
    log_p.iter().map(|l| -l).collect()
}

fn argmax(row: &[f32]) -> usize {
    (0..row.len())
        .max_by(|a, b| row[*a].total_cmp(&row[*b]))
        .unwrap()
}

/// Labels of min ⟨C, Q⟩, Q1 ≤ 1, Qᵀ1 ≤ caps, ΣQ ≥ mass.
fn bounded(log_p: &[f32], caps: &[f64], mass: f64) -> Vec<Option<usize>> {
    let k = caps.len();
    let n = log_p.len() / k;
    let costs = costs(log_p);
    let marginals = Marginals::bounded(&vec![1.0; n], caps, mass).unwrap();
    let problem = Problem::new(Dense::new(&costs, n, k).unwrap(), marginals).unwrap();
    let solution = Exact::new().solve(&problem).unwrap();
    assert!(solution.status().is_converged());
    assert!(solution.certificate().relative_gap() < 1e-6);
    solution.plan().argmax()
}

#[test]
fn no_bounds_and_full_mass_is_pseudo_labelling() {
    let (n, k) = (300, 5);
    let (log_p, _) = predictions(n, &[0.4, 0.3, 0.1, 0.1, 0.1], 1.0, 3);
    let expected: Vec<usize> = log_p.chunks(k).map(argmax).collect();
    let exact = bounded(&log_p, &[n as f64; 5], n as f64);
    for (label, expected) in exact.iter().zip(&expected) {
        assert_eq!(*label, Some(*expected));
    }
    // The allocator asks for n − 1, so the least confident example may go without.
    let mut allocator = LabelAllocator::options(n, k).gamma(1000.0).build().unwrap();
    allocator
        .observe(&(0..n).collect::<Vec<_>>(), &log_p)
        .unwrap();
    assert!(allocator.allocate(1.0).unwrap().status.is_converged());
    let labels = allocator.hard_labels();
    assert!(labels.iter().filter(|l| l.is_none()).count() <= 1 + n / 50);
    for (label, expected) in labels.iter().zip(&expected) {
        assert!(label.is_none_or(|l| l == *expected));
    }
}

#[test]
fn a_tenth_of_the_mass_is_the_most_confident_tenth() {
    let (n, k) = (400, 6);
    let (log_p, _) = predictions(n, &[1.0; 6], 1.5, 5);
    let confidence: Vec<f32> = log_p.chunks(k).map(|row| row[argmax(row)]).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| confidence[*b].total_cmp(&confidence[*a]));
    let exact = bounded(&log_p, &[n as f64; 6], 0.1 * n as f64);
    for (rank, &i) in order.iter().enumerate() {
        let expected = (rank < n / 10).then(|| argmax(&log_p[i * k..][..k]));
        assert_eq!(exact[i], expected, "rank {rank}");
    }
}

#[test]
fn class_caps_are_class_balancing() {
    // Two classes at half each: class 0 gets the half with the larger log-odds, a ranking anybody can do.
    let n = 200;
    let (log_p, _) = predictions(n, &[0.8, 0.2], 1.5, 9);
    let odds: Vec<f32> = log_p.chunks(2).map(|row| row[0] - row[1]).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| odds[*b].total_cmp(&odds[*a]));
    let exact = bounded(&log_p, &[100.0, 100.0], 200.0);
    for (rank, &i) in order.iter().enumerate() {
        assert_eq!(exact[i], Some(usize::from(rank >= 100)));
    }
    // Many classes: equal counts, though the model prefers one of them.
    let k = 5;
    let (log_p, _) = predictions(n, &[0.6, 0.1, 0.1, 0.1, 0.1], 1.5, 10);
    let exact = bounded(&log_p, &[40.0; 5], 200.0);
    let mut counts = vec![0; k];
    exact.iter().for_each(|l| counts[l.unwrap()] += 1);
    assert_eq!(counts, [40; 5]);
}

/// At large γ the allocator's labels are those of the exact solution of the paper's problem, except where the
/// exact solution itself is indifferent: two of a row's choices cost the same up to a few ε.
fn tends_to_the_linear_programme(log_p: &[f32], b: &[f64], rho: f64, gamma: f64) {
    let k = b.len();
    let n = log_p.len() / k;
    let mut allocator = LabelAllocator::options(n, k)
        .bounds(Bounds::given(b).unwrap())
        .gamma(gamma)
        .tolerance(1e-5)
        .max_iterations(50_000)
        .build()
        .unwrap();
    allocator
        .observe(&(0..n).collect::<Vec<_>>(), log_p)
        .unwrap();
    let report = allocator.allocate(rho).unwrap();
    assert!(report.status.is_converged(), "{rho} {report:?}");

    let (r, c) = paper_marginals(n, b, rho);
    let slack = Slack::new(r[n], c[k]);
    let marginals = Marginals::with_slack(&r[..n], &c[..k], slack).unwrap();
    let costs = allocator.costs();
    let problem = Problem::new(Dense::new(&costs, n, k).unwrap(), marginals).unwrap();
    let solution = Exact::new().solve(&problem).unwrap();
    let g = solution.potentials();
    let (exact, ours) = (solution.plan().argmax(), allocator.hard_labels());
    let mut differing = 0;
    for i in 0..n {
        if exact[i] == ours[i] {
            continue;
        }
        differing += 1;
        let reduced = |label: Option<usize>| match label {
            Some(j) => f64::from(costs[i * k + j]) - g.cols[j],
            None => -g.slack_col,
        };
        let gap = (reduced(exact[i]) - reduced(ours[i])).abs();
        assert!(
            gap <= 40.0 / gamma,
            "example {i}: {:?} and {:?} differ by {gap}",
            exact[i],
            ours[i]
        );
    }
    assert!(
        differing <= 2 * k + n / 50,
        "{differing} of {n} labels differ"
    );
}

#[test]
fn large_gamma_gives_the_exact_labels_on_random_predictions() {
    for (seed, rho) in [(1, 0.1), (2, 0.5), (3, 0.9), (4, 1.0)] {
        let (log_p, _) = predictions(500, &[0.4, 0.3, 0.2, 0.1], 2.0, seed);
        tends_to_the_linear_programme(&log_p, &[0.25; 4], rho, 5000.0);
        tends_to_the_linear_programme(&log_p, &[1.0; 4], rho, 5000.0);
        tends_to_the_linear_programme(&log_p, &[0.2, 0.1, 0.3, 0.2], rho, 5000.0);
    }
}

#[cfg(feature = "data")]
#[path = "../../../../examples/label_allocation/softmax.rs"]
mod softmax;

#[cfg(feature = "data")]
#[test]
fn large_gamma_gives_the_exact_labels_on_real_predictions() {
    let (log_p, counts, _) = softmax::digit_predictions(60, 7);
    let b = Bounds::empirical(&counts).unwrap();
    for rho in [0.3, 0.8, 1.0] {
        tends_to_the_linear_programme(&log_p, b.upper(), rho, 5000.0);
    }
}
