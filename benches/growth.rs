//! How cost grows: time and memory of a solve against the size of the problem, with the fitted exponent.
//!
//! `cargo bench --bench growth` prints the record's table; `-- quick` leaves the largest sizes out. Time is
//! the best of three, memory the peak of what the solve allocates beside the cost it was given. Answers are
//! held against their certificates.
#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::print_stdout
)]

use std::time::Instant;

use earthmover::{
    Cost, Dense, Entropic, Exact, Marginals, PointCloud, Problem, Real, Solver, SquaredEuclidean,
};

use earthmover_testkit::{Counting, Rng, distances, label_allocation, peak};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What one solve took.
#[derive(Clone, Copy)]
struct Taken {
    seconds: f64,
    bytes: f64,
}

fn main() {
    let quick = std::env::args().any(|a| a == "quick");
    let up_to = |most: usize, sizes: &[usize]| -> Vec<usize> {
        let kept = sizes.iter().copied();
        kept.filter(|&n| !quick || n <= most).collect()
    };
    let tall = up_to(100_000, &[1_000, 10_000, 100_000, 1_000_000]);
    let square = up_to(2_000, &[500, 1_000, 2_000, 4_000, 8_000]);
    row("label allocation k = 10, entropic, 1e-2, f32", &tall, |n| {
        let costs = predictions::<f32>(n, 10);
        let problem = Problem::new(
            Dense::new(&costs, n, 10).unwrap(),
            label_allocation(n, 10, 0.5),
        );
        solve(&problem.unwrap(), &Entropic::new(0.01).tolerance(1e-2), 1.0)
    });
    row("label allocation k = 10, entropic, 1e-6, f64", &tall, |n| {
        let costs = predictions::<f64>(n, 10);
        let problem = Problem::new(
            Dense::new(&costs, n, 10).unwrap(),
            label_allocation(n, 10, 0.5),
        );
        solve(
            &problem.unwrap(),
            &Entropic::new(0.01).tolerance(1e-6),
            0.05,
        )
    });
    row("label allocation k = 10, exact, f64", &tall, |n| {
        let costs = predictions::<f64>(n, 10);
        let problem = Problem::new(
            Dense::new(&costs, n, 10).unwrap(),
            label_allocation(n, 10, 0.5),
        );
        solve(&problem.unwrap(), &Exact::new(), 1e-12)
    });
    row("square, entropic, ε = 0.05, 1e-6, f64", &square, |n| {
        let costs = distances(&mut Rng(1), n, n);
        let problem = Problem::new(
            Dense::new(&costs, n, n).unwrap(),
            Marginals::uniform(n, n).unwrap(),
        );
        solve(&problem.unwrap(), &Entropic::new(0.05).tolerance(1e-6), 0.2)
    });
    row("square, exact, f64", &square, |n| {
        let costs = distances(&mut Rng(1), n, n);
        let problem = Problem::new(
            Dense::new(&costs, n, n).unwrap(),
            Marginals::uniform(n, n).unwrap(),
        );
        solve(&problem.unwrap(), &Exact::new(), 1e-12)
    });
    row(
        "points d = 3, entropic, ε = 0.05, 1e-4, f32",
        &square,
        |n| {
            let mut rng = Rng(3);
            let (x, y) = (
                narrow::<f32>(&rng.units(3 * n)),
                narrow::<f32>(&rng.units(3 * n)),
            );
            let cloud = PointCloud::new(&x, &y, 3, SquaredEuclidean).unwrap();
            let problem = Problem::new(cloud, Marginals::uniform(n, n).unwrap());
            solve(&problem.unwrap(), &Entropic::new(0.05).tolerance(1e-4), 1.0)
        },
    );
    row("points d = 2, exact, f64", &square, |n| {
        let mut rng = Rng(4);
        let (x, y) = (rng.units(2 * n), rng.units(2 * n));
        let cloud = PointCloud::new(&x, &y, 2, SquaredEuclidean).unwrap();
        let problem = Problem::new(cloud, Marginals::uniform(n, n).unwrap());
        solve(&problem.unwrap(), &Exact::new(), 1e-12)
    });
}

fn narrow<T: Real>(numbers: &[f64]) -> Vec<T> {
    numbers.iter().map(|&x| T::narrow(x)).collect()
}

fn predictions<T: Real>(n: usize, k: usize) -> Vec<T> {
    let mut rng = Rng(2);
    (0..n)
        .flat_map(|_| narrow::<T>(&rng.surprisals(k)))
        .collect()
}

/// Best of three solves, and the peak of the memory one allocates; `gap` per unit of mass is allowed.
fn solve<T: Real, C: Cost<T>>(problem: &Problem<T, C>, solver: &impl Solver<T>, gap: f64) -> Taken {
    let mut seconds = f64::INFINITY;
    let mut bytes = 0;
    for _ in 0..3 {
        let start = Instant::now();
        let mut solution = None;
        bytes = peak(|| solution = Some(solver.solve(problem).unwrap()));
        seconds = seconds.min(start.elapsed().as_secs_f64());
        let solution = solution.unwrap();
        assert!(solution.status().is_converged(), "{}", solution.status());
        let proof = solution.certificate();
        assert!(
            proof.gap() <= gap * problem.marginals().total(),
            "{proof:?}"
        );
    }
    Taken {
        seconds,
        bytes: bytes as f64,
    }
}

/// Prints one row: every size, then the exponents of time and memory over all sizes.
fn row(name: &str, sizes: &[usize], take: impl Fn(usize) -> Taken) {
    let taken: Vec<Taken> = sizes.iter().map(|&n| take(n)).collect();
    let cells: Vec<String> = sizes
        .iter()
        .zip(&taken)
        .map(|(n, t)| format!("{n}: {} {}", time(t.seconds), memory(t.bytes)))
        .collect();
    let slope = |of: &dyn Fn(&Taken) -> f64| {
        exponent(sizes.iter().zip(&taken).map(|(&n, t)| (n as f64, of(t))))
    };
    println!(
        "| {name} | {} | n^{:.2} | n^{:.2} |",
        cells.join(" | "),
        slope(&|t| t.seconds),
        slope(&|t| t.bytes)
    );
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.3} ms", 1e3 * s),
        s => format!("{s:.2} s"),
    }
}

fn memory(bytes: f64) -> String {
    format!("{:.2} MB", bytes / 1e6)
}

/// The slope of a straight line through the logarithms.
fn exponent(points: impl Iterator<Item = (f64, f64)>) -> f64 {
    let logs: Vec<(f64, f64)> = points.map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(&|p| p.0), mean(&|p| p.1));
    let over: f64 = logs.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    over / logs.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>()
}
