//! Time of whole solves, each answer held against its own certificate first. `cargo bench --bench solvers`.
#![allow(missing_docs, unreachable_pub, dead_code, clippy::unwrap_used)]

use divan::Bencher;
use earthmover::{
    Cost, Dense, Entropic, Exact, Marginals, NetworkSimplex, PointCloud, Problem, Real, Sinkhorn,
    Solver, SquaredEuclidean,
};

use earthmover_testkit::{Rng, distances, label_allocation};

fn main() {
    divan::main();
}

/// Solves once, proves the answer, then measures. `gap`: how far the bounds may be apart, per unit of mass.
fn measure<T: Real, C: Cost<T>>(
    bencher: Bencher<'_, '_>,
    problem: &Problem<T, C>,
    solver: &impl Solver<T>,
    gap: f64,
) {
    let solution = solver.solve(problem).unwrap();
    assert!(solution.status().is_converged(), "{}", solution.status());
    let proof = solution.certificate();
    assert!(
        proof.gap() <= gap * problem.marginals().total(),
        "{proof:?}"
    );
    bencher.bench_local(|| solver.solve(problem).unwrap().iterations());
}

const SQUARE: &[usize] = &[500, 1000];

#[divan::bench(args = SQUARE, sample_count = 10)]
fn entropic_square(bencher: Bencher<'_, '_>, n: usize) {
    let costs = distances(&mut Rng(1), n, n);
    let problem = square(&costs, n);
    measure(bencher, &problem, &Entropic::new(0.05).tolerance(1e-6), 0.2);
}

#[divan::bench(args = SQUARE, sample_count = 10)]
fn plain_sinkhorn_square(bencher: Bencher<'_, '_>, n: usize) {
    let costs = distances(&mut Rng(1), n, n);
    let problem = square(&costs, n);
    let plain = Sinkhorn::new(0.05).tolerance(1e-6).acceleration(0);
    measure(bencher, &problem, &plain, 0.2);
}

#[divan::bench(args = SQUARE, sample_count = 10)]
fn exact_square(bencher: Bencher<'_, '_>, n: usize) {
    let costs = distances(&mut Rng(1), n, n);
    measure(bencher, &square(&costs, n), &Exact::new(), 1e-12);
}

fn square(costs: &[f64], n: usize) -> Problem<f64, Dense<'_, f64>> {
    let cost = Dense::new(costs, n, n).unwrap();
    Problem::new(cost, Marginals::uniform(n, n).unwrap()).unwrap()
}

/// (rows, classes)
const TALL: &[(usize, usize)] = &[(10_000, 2), (10_000, 10), (50_000, 10), (10_000, 100)];

#[divan::bench(args = TALL, sample_count = 10)]
fn entropic_allocation(bencher: Bencher<'_, '_>, (n, k): (usize, usize)) {
    let costs = predictions(n, k);
    let problem = allocation(&costs, n, k);
    measure(
        bencher,
        &problem,
        &Entropic::new(0.01).tolerance(1e-6),
        0.05,
    );
}

#[divan::bench(args = TALL, sample_count = 10)]
fn exact_allocation(bencher: Bencher<'_, '_>, (n, k): (usize, usize)) {
    let costs = predictions(n, k);
    measure(bencher, &allocation(&costs, n, k), &Exact::new(), 1e-12);
}

fn predictions(n: usize, k: usize) -> Vec<f64> {
    let mut rng = Rng(2);
    (0..n).flat_map(|_| rng.surprisals(k)).collect()
}

fn allocation(costs: &[f64], n: usize, k: usize) -> Problem<f64, Dense<'_, f64>> {
    let cost = Dense::new(costs, n, k).unwrap();
    Problem::new(cost, label_allocation(n, k, 0.5)).unwrap()
}

/// (points a side, dimension)
const CLOUDS: &[(usize, usize)] = &[(1000, 2), (1000, 3), (1000, 10)];

#[divan::bench(args = CLOUDS, sample_count = 10)]
fn entropic_cloud(bencher: Bencher<'_, '_>, (n, d): (usize, usize)) {
    let mut rng = Rng(3);
    let (x, y) = (rng.units(n * d), rng.units(n * d));
    let problem = cloud(&x, &y, d);
    measure(bencher, &problem, &Entropic::new(0.05).tolerance(1e-4), 1.0);
}

#[divan::bench(args = CLOUDS, sample_count = 10)]
fn exact_cloud(bencher: Bencher<'_, '_>, (n, d): (usize, usize)) {
    let mut rng = Rng(3);
    let (x, y) = (rng.units(n * d), rng.units(n * d));
    measure(bencher, &cloud(&x, &y, d), &Exact::new(), 1e-12);
}

#[divan::bench(args = CLOUDS, sample_count = 10)]
fn plain_simplex_cloud(bencher: Bencher<'_, '_>, (n, d): (usize, usize)) {
    let mut rng = Rng(3);
    let (x, y) = (rng.units(n * d), rng.units(n * d));
    measure(bencher, &cloud(&x, &y, d), &NetworkSimplex::new(), 1e-12);
}

fn cloud<'a>(
    x: &'a [f64],
    y: &'a [f64],
    d: usize,
) -> Problem<f64, PointCloud<'a, f64, SquaredEuclidean>> {
    let (n, m) = (x.len() / d, y.len() / d);
    let cloud = PointCloud::new(x, y, d, SquaredEuclidean).unwrap();
    Problem::new(cloud, Marginals::uniform(n, m).unwrap()).unwrap()
}
