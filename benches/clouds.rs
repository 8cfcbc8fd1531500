//! Entropic solves of point clouds, by size, dimension and ε: time, sweeps, and the violation it says it has.
//! `cargo bench --bench clouds -- square:4000:2:1e-3:1e-4 normal:10000:3:1e-2:1e-4:f32`.
//!
//! A case is `shape:points:dimension:epsilon:tolerance`, then any of `f32`, `euclid`, `matrix` (the same as a stored matrix),
//! `exact` (the exact solve), `check` (the certificate too), `trace` (every sweep), `newton` and `sinkhorn` (that solver instead of the choice). Shapes: `square` (both uniform in the unit cube), `normal` (x ~ N(0, I),
//! y ~ N(0.5, 0.8² I)), `clustered`, `tails`.
#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::panic
)]

use std::time::Instant;

use earthmover::{
    Cost, Dense, Entropic, Euclidean, Exact, Marginals, Newton, PointCloud, Problem, Real,
    Sinkhorn, Solution, SquaredEuclidean,
};
use earthmover_testkit::Rng;

/// Points of both sides.
fn points(shape: &str, n: usize, d: usize) -> (Vec<f64>, Vec<f64>) {
    let mut rng = Rng(1);
    let mut side = |other: bool| -> Vec<f64> {
        let centres: Vec<f64> = (0..10 * d).map(|_| rng.unit()).collect();
        (0..n * d)
            .map(|at| match shape {
                "square" => rng.unit(),
                "normal" if other => 0.5 + 0.8 * rng.normal(),
                "normal" => rng.normal(),
                "clustered" => centres[at / d % 10 * d + at % d] + 0.02 * rng.normal(),
                "tails" => rng.normal() / rng.unit().max(1e-3),
                other => panic!("no shape {other}"),
            })
            .collect()
    };
    (side(false), side(true))
}

fn tell<T: Real, C: Cost<T> + 'static>(
    case: &str,
    runs: usize,
    check: bool,
    solve: impl Fn() -> Solution<'static, T, C>,
) {
    let (mut best, mut least) = (f64::INFINITY, f64::INFINITY);
    let mut last = None;
    for _ in 0..runs {
        let (from, before) = (Instant::now(), worked());
        let solution = solve();
        best = best.min(from.elapsed().as_secs_f64());
        least = least.min(worked() - before);
        last = Some(solution);
    }
    let solution = last.unwrap();
    print!(
        "{case} {:.1} ms ({:.1} of work), {} after {}, violation {:.2e}",
        1e3 * best,
        1e3 * least,
        solution.status(),
        solution.iterations(),
        solution.violation()
    );
    if check {
        let from = Instant::now();
        let proof = *solution.certificate();
        print!(
            ", certificate {:.1} ms: {:.2e}, {:.6} to {:.6}",
            1e3 * from.elapsed().as_secs_f64(),
            proof.violation,
            proof.dual,
            proof.primal
        );
    }
    println!(", peak {} MB", peak());
}

/// Seconds that the process's threads have worked.
fn worked() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let of = |thread: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(thread.unwrap().path().join("schedstat")).unwrap();
        text.split_whitespace()
            .next()
            .unwrap()
            .parse::<f64>()
            .unwrap()
    };
    threads.map(of).sum::<f64>() / 1e9
}

/// Most memory the process has had, in megabytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM"));
    let kb = line.and_then(|l| l.split_whitespace().nth(1)?.parse::<u64>().ok());
    kb.unwrap_or(0) / 1024
}

fn run<T: Real>(case: &str) {
    let parts: Vec<&str> = case.split(':').collect();
    let has = |what: &str| parts.contains(&what);
    let (n, d) = (parts[1].parse().unwrap(), parts[2].parse().unwrap());
    let (epsilon, tolerance) = (parts[3].parse().unwrap(), parts[4].parse().unwrap());
    let (x, y) = points(parts[0], n, d);
    let leak = |v: Vec<f64>| -> &'static [T] {
        Vec::leak(v.into_iter().map(T::narrow).collect::<Vec<T>>())
    };
    let (x, y) = (leak(x), leak(y));
    let marginals = Marginals::uniform(n, n).unwrap();
    let runs = if n > 20_000 { 1 } else { 3 };
    if has("euclid") {
        let cost = PointCloud::new(x, y, d, Euclidean).unwrap();
        solve(case, runs, cost, marginals, epsilon, tolerance, &has);
    } else if has("matrix") {
        let cloud = PointCloud::new(x, y, d, SquaredEuclidean).unwrap();
        let mut table = vec![T::zero(); n * n];
        cloud.fill(0..n, &mut table);
        let cost = Dense::new(Vec::leak(table), n, n).unwrap();
        solve(case, runs, cost, marginals, epsilon, tolerance, &has);
    } else {
        let cost = PointCloud::new(x, y, d, SquaredEuclidean).unwrap();
        solve(case, runs, cost, marginals, epsilon, tolerance, &has);
    }
}

fn solve<T: Real, C: Cost<T> + 'static>(
    case: &str,
    runs: usize,
    cost: C,
    marginals: Marginals,
    epsilon: f64,
    tolerance: f64,
    has: &dyn Fn(&str) -> bool,
) {
    let problem: &'static Problem<T, C> =
        Box::leak(Box::new(Problem::new(cost, marginals).unwrap()));
    tell(case, runs, has("check"), || {
        if has("exact") {
            Exact::new().solve(problem).unwrap()
        } else if has("newton") {
            let solver = Newton::new(epsilon).tolerance(tolerance);
            solver.solve(problem).unwrap()
        } else if has("sinkhorn") {
            let solver = Sinkhorn::new(epsilon).tolerance(tolerance);
            solver.solve(problem).unwrap()
        } else {
            let mut solver = Entropic::new(epsilon).tolerance(tolerance);
            if has("trace") {
                let (from, before) = (Instant::now(), worked());
                solver = solver.on_progress(move |p| {
                    println!(
                        "  {} {:.2e} at {:.2e}, {:.1} ms, {:.1} of work",
                        p.iteration,
                        p.violation,
                        p.epsilon,
                        1e3 * from.elapsed().as_secs_f64(),
                        1e3 * (worked() - before)
                    );
                    std::ops::ControlFlow::Continue(())
                });
            }
            solver.solve(problem).unwrap()
        }
    });
}

fn main() {
    let cases: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a.contains(':'))
        .collect();
    for case in &cases {
        if case.split(':').any(|p| p == "f32") {
            run::<f32>(case);
        } else {
            run::<f64>(case);
        }
    }
}
