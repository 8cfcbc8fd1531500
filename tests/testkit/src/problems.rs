//! Problems that several tests and benches solve.

use earthmover::{Marginals, Slack};

use crate::Rng;

/// The label-allocation problem: n rows of mass one, k classes of at most 1 + n/k, a share ρ allocated.
pub fn label_allocation(n: usize, k: usize, rho: f64) -> Marginals {
    let (rows, classes) = (n as f64, k as f64);
    let slack = Slack::new(1.0 + classes + rows * (1.0 - rho), 1.0 + rows * (1.0 - rho));
    Marginals::with_slack(&vec![1.0; n], &vec![1.0 + rows / classes; k], slack).unwrap()
}

/// Squared distances between n and m points of the unit square, over the largest possible one.
pub fn distances(rng: &mut Rng, n: usize, m: usize) -> Vec<f64> {
    let (x, y) = (rng.units(2 * n), rng.units(2 * m));
    let between = |p: &[f64], q: &[f64]| {
        let (u, v) = (p[0] - q[0], p[1] - q[1]);
        0.5 * (u * u + v * v)
    };
    let rows = x.chunks_exact(2);
    rows.flat_map(|p| y.chunks_exact(2).map(move |q| between(p, q)))
        .collect()
}
