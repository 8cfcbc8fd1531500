//! The oracle of the allocation tests: the paper's algorithm as printed, on materialised arrays, and
//! reproducible predictions to feed it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use earthmover_testkit::Rng;

/// Log-softmax, row by row.
pub fn log_softmax(logits: &[f64], k: usize) -> Vec<f32> {
    logits
        .chunks_exact(k)
        .flat_map(|row| {
            let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let lse = top + row.iter().map(|l| (l - top).exp()).sum::<f64>().ln();
            row.iter()
                .map(move |l| (l - lse) as f32)
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Predictions of a model that is right more often than not: `sharpness` on the true class plus noise.
/// True classes are drawn with the given shares and returned too.
pub fn predictions(n: usize, shares: &[f64], sharpness: f64, seed: u64) -> (Vec<f32>, Vec<usize>) {
    let (k, mut rng) = (shares.len(), Rng(seed));
    let total: f64 = shares.iter().sum();
    let mut logits = Vec::with_capacity(n * k);
    let mut truth = Vec::with_capacity(n);
    for _ in 0..n {
        let mut draw = rng.unit() * total;
        let mut class = 0;
        while class + 1 < k && draw >= shares[class] {
            draw -= shares[class];
            class += 1;
        }
        truth.push(class);
        for j in 0..k {
            logits.push(rng.normal() + if j == class { sharpness } else { 0.0 });
        }
    }
    (log_softmax(&logits, k), truth)
}

/// The paper's r and c.
pub fn paper_marginals(n: usize, b: &[f64], rho: f64) -> (Vec<f64>, Vec<f64>) {
    let (nf, k) = (n as f64, b.len());
    let mu = 1.0 - b.iter().sum::<f64>();
    let mut r = vec![1.0; n];
    r.push(1.0 + k as f64 + nf * (1.0 - rho - mu.min(0.0)));
    let mut c: Vec<f64> = b.iter().map(|b| 1.0 + nf * b).collect();
    c.push(1.0 + nf * (1.0 - rho + mu.max(0.0)));
    (r, c)
}

fn log_sum_exp(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let top = values.clone().fold(f64::NEG_INFINITY, f64::max);
    top + values.map(|v| (v - top).exp()).sum::<f64>().ln()
}

/// Algorithm 1 of the paper (with the scaled stopping test), every array materialised. Returns β in the
/// paper's gauge and the (n+1)×(k+1) plan.
pub fn paper_sinkhorn(
    log_p: &[f32],
    b: &[f64],
    rho: f64,
    gamma: f64,
    tolerance: f64,
    cap: usize,
) -> (Vec<f64>, Vec<f64>) {
    let k = b.len();
    let n = log_p.len() / k;
    let (r, c) = paper_marginals(n, b, rho);
    assert!((r.iter().sum::<f64>() - c.iter().sum::<f64>()).abs() < 1e-6);
    let m = |i: usize, j: usize| {
        if i < n && j < k {
            gamma * f64::from(log_p[i * k + j])
        } else {
            0.0
        }
    };
    let mut alpha = vec![0.0; n + 1];
    let mut beta = vec![0.0; k + 1];
    for _ in 0..cap {
        for i in 0..=n {
            alpha[i] = r[i].ln() - log_sum_exp((0..=k).map(|j| m(i, j) + beta[j]));
        }
        let log_cols: Vec<f64> = (0..=k)
            .map(|j| beta[j] + log_sum_exp((0..=n).map(|i| alpha[i] + m(i, j))))
            .collect();
        let error: f64 = (0..=k).map(|j| (c[j] - log_cols[j].exp()).abs()).sum();
        if error <= tolerance * c.iter().sum::<f64>() {
            break;
        }
        for j in 0..=k {
            beta[j] += c[j].ln() - log_cols[j];
        }
    }
    let mean = beta[..k].iter().sum::<f64>() / k as f64;
    let plan = (0..=n)
        .flat_map(|i| (0..=k).map(move |j| (i, j)))
        .map(|(i, j)| (alpha[i] + m(i, j) + beta[j]).exp())
        .collect();
    (beta.iter().map(|b| b - mean).collect(), plan)
}
