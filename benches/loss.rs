//! Transport as a loss: penalised masses, divergences with their gradients, projections. Time on the clock and of all threads,
//! sweeps, and what the answers prove of themselves.
//!
//! `cargo bench --bench loss -- kl:1000:0.005:1 kl:500:0:1 divergence:2000:2:0.5 divergence:10000:3:0.25:f32 map:20000:2:0.1`
//!
//! | case | work |
//! | --- | --- |
//! | `kl:n:ε:τ`, `tv:n:ε:τ` | n × n squared distances over the largest, masses 1 and 1.3 in all, to 1e-9; ε = 0: to a gap of 1e-3 |
//! | `divergence:n:d:ε` | the Sinkhorn divergence of n + n points with all its gradients |
//! | `map:n:d:ε` | the barycentric projection of n × n points |
//!
//! Clouds are x ~ N(0, I), y ~ N(0.5, 0.8² I).
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::panic)]

use std::time::Instant;

use earthmover::loss::Divergence;
use earthmover::{
    Cost, Dense, Entropic, Exact, Marginals, Penalty, PointCloud, Problem, Real, SquaredEuclidean,
};
use earthmover_testkit::Rng;

/// Best of several runs, on the clock and of all threads together, in milliseconds.
fn best<R>(runs: usize, mut work: impl FnMut() -> R) -> (f64, f64, R) {
    let (mut clock, mut threads, mut last) = (f64::INFINITY, f64::INFINITY, None);
    for _ in 0..runs {
        let (from, before) = (Instant::now(), worked());
        last = Some(work());
        clock = clock.min(1e3 * from.elapsed().as_secs_f64());
        threads = threads.min(1e3 * (worked() - before));
    }
    (clock, threads, last.unwrap())
}

/// Seconds that the process's threads have worked.
fn worked() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let of = |thread: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(thread.unwrap().path().join("schedstat")).unwrap();
        let first = text.split_whitespace().next().unwrap();
        first.parse::<f64>().unwrap()
    };
    threads.map(of).sum::<f64>() / 1e9
}

fn clouds<T: Real>(n: usize, d: usize) -> (Vec<T>, Vec<T>) {
    let mut rng = Rng(1);
    let x = (0..n * d).map(|_| T::narrow(rng.normal())).collect();
    let y = (0..n * d).map(|_| T::narrow(0.5 + 0.8 * rng.normal()));
    (x, y.collect())
}

fn penalised(case: &str, n: usize, epsilon: f64, penalty: Penalty) {
    let (x, y) = clouds::<f64>(n, 2);
    let cloud = PointCloud::new(&x, &y, 2, SquaredEuclidean).unwrap();
    let mut table = vec![0.0; n * n];
    cloud.fill(0..n, &mut table);
    let most = table.iter().copied().fold(0.0, f64::max);
    table.iter_mut().for_each(|c| *c /= most);
    let mut rng = Rng(2);
    let mut masses = |total: f64| -> Vec<f64> {
        let each: Vec<f64> = (0..n).map(|_| rng.unit() + 0.01).collect();
        let sum: f64 = each.iter().sum();
        each.iter().map(|m| m * total / sum).collect()
    };
    let (a, b) = (masses(1.0), masses(1.3));
    let marginals = Marginals::relaxed(&a, &b, penalty, penalty).unwrap();
    let problem = Problem::new(Dense::new(&table, n, n).unwrap(), marginals).unwrap();
    let (clock, threads, solution) = best(5, || {
        if epsilon == 0.0 {
            Exact::new().gap(1e-3).solve(&problem).unwrap()
        } else {
            let solver = Entropic::new(epsilon).tolerance(1e-9);
            solver.solve(&problem).unwrap()
        }
    });
    let (proof, _, certificate) = best(1, || *solution.certificate());
    println!(
        "{case} {clock:.2} ms ({threads:.2} of work), {} after {}, violation {:.1e}; certificate {proof:.1} ms, {:.9} to {:.9}",
        solution.status(),
        solution.iterations(),
        solution.violation(),
        certificate.dual,
        certificate.primal
    );
}

fn divergence<T: Real>(case: &str, n: usize, d: usize, epsilon: f64) {
    let (x, y) = clouds::<T>(n, d);
    let uniform = vec![1.0 / n as f64; n];
    let solver = Divergence::new(epsilon);
    let runs = if n > 5_000 { 1 } else { 5 };
    let (clock, threads, found) = best(runs, || {
        let between = solver.between(&x, &y, d, SquaredEuclidean, &uniform, &uniform);
        between.unwrap()
    });
    println!(
        "{case} {clock:.2} ms ({threads:.2} of work), {} after {}, {:.9} within {:.1e}",
        found.status, found.iterations, found.value, found.error
    );
}

fn map<T: Real>(case: &str, n: usize, d: usize, epsilon: f64) {
    let (x, y) = clouds::<T>(n, d);
    let cost = PointCloud::new(&x, &y, d, SquaredEuclidean).unwrap();
    let problem = Problem::new(cost, Marginals::uniform(n, n).unwrap()).unwrap();
    let solver = Entropic::new(epsilon).tolerance(1e-3);
    let solution = solver.solve(&problem).unwrap();
    let wide: Vec<f64> = y.iter().map(|y| y.widen()).collect();
    let (clock, threads, moved) = best(3, || solution.plan().barycentric(&wide, d).unwrap());
    println!(
        "{case} {clock:.2} ms ({threads:.2} of work), first point to {:.6}",
        moved[0]
    );
}

fn main() {
    for case in std::env::args().skip(1).filter(|a| a.contains(':')) {
        let parts: Vec<&str> = case.split(':').collect();
        let number = |at: usize| parts[at].parse::<f64>().unwrap();
        let (n, single) = (number(1) as usize, parts.contains(&"f32"));
        match (parts[0], single) {
            ("kl", _) => penalised(&case, n, number(2), Penalty::Kl(number(3))),
            ("tv", _) => penalised(&case, n, number(2), Penalty::Tv(number(3))),
            ("divergence", false) => divergence::<f64>(&case, n, number(2) as usize, number(3)),
            ("divergence", true) => divergence::<f32>(&case, n, number(2) as usize, number(3)),
            ("map", false) => map::<f64>(&case, n, number(2) as usize, number(3)),
            ("map", true) => map::<f32>(&case, n, number(2) as usize, number(3)),
            (other, _) => panic!("no case {other}"),
        }
    }
}
