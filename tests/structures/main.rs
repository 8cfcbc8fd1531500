//! Lines, slices, grids, barycentres, Gromov–Wasserstein and Gaussians on problems with known answers, and on odd ones.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::panic)]

mod barycentres;
#[cfg(feature = "nalgebra")]
mod gaussians;
mod grids;
mod gromov;
mod lines;
mod slices;

use earthmover_testkit::Rng;

/// Points of the standard normal distribution.
fn cloud(rng: &mut Rng, n: usize, d: usize) -> Vec<f64> {
    (0..n * d).map(|_| rng.normal()).collect()
}

fn shifted(points: &[f64], by: &[f64]) -> Vec<f64> {
    let each = points.chunks_exact(by.len());
    each.flat_map(|x| x.iter().zip(by).map(|(x, t)| x + t))
        .collect()
}

/// A random order of 0..n.
fn shuffled(rng: &mut Rng, n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    (1..n).for_each(|i| order.swap(i, rng.below(i + 1)));
    order
}

fn near(x: f64, y: f64, tolerance: f64) -> bool {
    (x - y).abs() <= tolerance * x.abs().max(y.abs()).max(1.0)
}
