//! Exact solves of many shapes, by every way.
//!
//! ```text
//! cargo bench --bench exact -- [--way auto,contracted,simplex,row-minimum,multiscale] [--repeat 3] [--threads N] SHAPE…
//! cargo bench --bench exact -- --write DIR SHAPE      the problem as NumPy files, for peers
//! ```
//!
//! A line per shape and way: milliseconds of the fastest solve, iterations, relative gap of the certificate, cost.
//! Every answer is asserted to be optimal by its own certificate. `benches/peers/exact.py` sets the same
//! problems to POT.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

#[path = "../../examples/solve/npy.rs"]
#[allow(dead_code)]
mod npy;
mod shapes;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use earthmover::{
    Algorithm, Cost, Dense, Exact, NetworkSimplex, PointCloud, Problem, SquaredEuclidean, Start,
};
use shapes::{Case, Costs};

/// Time exact solves.
#[derive(Parser)]
struct Settings {
    /// auto, contracted, simplex, row-minimum, multiscale.
    #[arg(long, value_delimiter = ',', default_value = "auto")]
    way: Vec<String>,
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Threads; all cores where left out.
    #[arg(long)]
    threads: Option<usize>,
    /// Writes cost.npy, rows.npy and cols.npy, slack included, instead of solving.
    #[arg(long)]
    write: Option<PathBuf>,
    /// What cargo passes to every bench.
    #[arg(long, hide = true)]
    bench: bool,
    /// Shapes by name; a few of each kind where none is given.
    shapes: Vec<String>,
}

const SOME: &[&str] = &[
    "labels:10000:10:0.5",
    "labels:10000:10:1:8",
    "labels:5000:300:0.9",
    "random:4000:60",
    "dense:1000:1000:2:heavy",
    "points:2000:2000:3:random",
];

fn main() {
    let mut settings = Settings::parse();
    if settings.shapes.is_empty() {
        settings.shapes = SOME.iter().map(|s| (*s).to_string()).collect();
    }
    #[cfg(feature = "rayon")]
    if let Some(threads) = settings.threads {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build_global()
            .unwrap();
    }
    for name in &settings.shapes {
        let case: Case = name.parse().unwrap();
        if let Some(folder) = &settings.write {
            write(&case, folder);
            continue;
        }
        for way in &settings.way {
            let (rows, cols) = (case.rows, case.cols);
            match &case.costs {
                Costs::Matrix(c) => time(
                    name,
                    way,
                    &settings,
                    &case,
                    Dense::new(c, rows, cols).unwrap(),
                ),
                Costs::Points {
                    rows,
                    cols,
                    dimension,
                } => {
                    let cost = PointCloud::new(rows, cols, *dimension, SquaredEuclidean).unwrap();
                    time(name, way, &settings, &case, cost);
                }
            }
        }
    }
}

fn time<C: Cost<f64>>(name: &str, way: &str, settings: &Settings, case: &Case, cost: C) {
    let problem = Problem::new(cost, case.marginals.clone()).unwrap();
    let solve = || match way {
        "auto" => Exact::new().solve(&problem),
        "contracted" => Exact::new()
            .algorithm(Algorithm::ShortestPaths)
            .solve(&problem),
        "simplex" => Exact::new()
            .algorithm(Algorithm::NetworkSimplex)
            .solve(&problem),
        "row-minimum" => NetworkSimplex::new()
            .start(Start::RowMinimum)
            .solve(&problem),
        "multiscale" => NetworkSimplex::new()
            .start(Start::Multiscale)
            .solve(&problem),
        _ => panic!("{way}: not a way"),
    };
    let mut best = f64::INFINITY;
    for left in (0..settings.repeat.max(1)).rev() {
        let start = Instant::now();
        let solution = solve().unwrap();
        best = best.min(1e3 * start.elapsed().as_secs_f64());
        if left == 0 || best > 1e4 {
            let certificate = solution.certificate();
            let gap = certificate.relative_gap();
            assert!(gap.abs() <= 1e-12 && solution.violation() <= 1e-12);
            let iterations = solution.iterations();
            let value = certificate.primal;
            println!(
                "{name:<36} {way:<12} {best:>10.2} ms {iterations:>8}  {gap:.1e} {value:.12e}"
            );
            break;
        }
    }
}

fn write(case: &Case, folder: &Path) {
    let slack = case.marginals.slack();
    let (mut a, mut b) = (
        case.marginals.rows().to_vec(),
        case.marginals.cols().to_vec(),
    );
    let mut cost = case.matrix();
    if slack.row > 0.0 || slack.col > 0.0 {
        a.push(slack.row);
        b.push(slack.col);
        let lines = cost.chunks(case.cols);
        cost = lines
            .flat_map(|line| line.iter().copied().chain([0.0]))
            .collect();
        cost.extend(vec![0.0; case.cols + 1]);
    }
    for (name, entries, rows, cols) in [
        ("cost.npy", &cost, a.len(), b.len()),
        ("rows.npy", &a, 1, a.len()),
        ("cols.npy", &b, 1, b.len()),
    ] {
        npy::write(&folder.join(name), entries, rows, cols).unwrap();
    }
}
