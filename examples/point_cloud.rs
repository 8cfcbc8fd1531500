//! The distance between two clouds of points, in memory for the points alone.
//!
//! 20,000 × 20,000 distances would be 3.2 GB; they are computed when needed, and never kept.
//!
//! `cargo run --release --example point_cloud [points]`
#![allow(missing_docs, clippy::print_stdout)]

use std::time::Instant;

use earthmover::{Entropic, Error, Marginals, PointCloud, Problem, SquaredEuclidean};

fn main() -> Result<(), Error> {
    let n: usize = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(20_000);
    // A disc, and the same disc moved by (1.5, 0.5): the squared 2-Wasserstein distance is that of the
    // move, 2.5, whatever the shape.
    let disc = spiral(n);
    let moved: Vec<f32> = disc
        .chunks_exact(2)
        .flat_map(|p| [p[0] + 1.5, p[1] + 0.5])
        .collect();
    let cost = PointCloud::new(&disc, &moved, 2, SquaredEuclidean)?;
    let problem = Problem::new(cost, Marginals::uniform(n, n)?)?;

    println!("{n} points against {n}: optimum 2.5\n");
    println!("     ε    objective   lower bound   error of marginals   sweeps   seconds");
    for epsilon in [1.0, 0.3, 0.1] {
        let start = Instant::now();
        let solution = Entropic::new(epsilon).tolerance(1e-4).solve(&problem)?;
        let seconds = start.elapsed().as_secs_f64();
        let proof = solution.certificate();
        println!(
            "{epsilon:>6}  {:>11.5}  {:>12.5}  {:>19.1e}  {:>7}  {seconds:>8.2}",
            proof.objective,
            proof.dual,
            solution.violation(),
            solution.iterations(),
        );
    }
    Ok(())
}

/// Points spread evenly over the unit disc: Vogel's sunflower.
fn spiral(n: usize) -> Vec<f32> {
    let golden = std::f64::consts::PI * (3.0 - 5f64.sqrt());
    (0..n)
        .flat_map(|i| {
            let radius = ((i as f64 + 0.5) / n as f64).sqrt();
            let (sin, cos) = (golden * i as f64).sin_cos();
            [(radius * cos) as f32, (radius * sin) as f32]
        })
        .collect()
}
