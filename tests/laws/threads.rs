//! The same bits for any number of threads.
#![cfg(feature = "rayon")]

use earthmover::{
    Cost, Dense, Marginals, Penalty, PointCloud, Problem, Slack, Solver, SquaredEuclidean,
};

use crate::methods::{
    Annealed, Entropic, Method, NetworkSimplex, Newton, ShortestPaths, Sinkhorn, Stored,
};

/// Any cost behind one type, so that the solvers are compiled once.
type Question<'a> = Problem<f32, &'a dyn Cost<f32>>;

/// Everything an answer says, bit by bit.
fn fingerprint(problem: &Question<'_>, solver: &impl Solver<f32>) -> Vec<u64> {
    let solution = solver.solve(problem).unwrap();
    let proof = solution.certificate();
    let mut bits = vec![solution.iterations() as u64, solution.violation().to_bits()];
    bits.extend(
        [
            proof.primal,
            proof.dual,
            proof.objective,
            proof.violation,
            proof.mass,
        ]
        .map(f64::to_bits),
    );
    bits.extend(solution.potentials().cols.iter().map(|g| g.to_bits()));
    bits.extend(solution.potentials().rows.iter().map(|f| f.to_bits()));
    bits.extend(solution.plan().row(17).unwrap().iter().map(|p| p.to_bits()));
    bits
}

fn same_bits<M: Method<f32> + Sync>(problem: &Question<'_>) {
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| fingerprint(problem, &M::make()))
    };
    let alone = with(1);
    for threads in [2, 3, 7] {
        assert!(with(threads) == alone, "{threads} threads differ from one");
    }
}

/// Wide enough for a dozen tiles; not a multiple of anything.
const ROWS: usize = 701;
const COLS: usize = 157;

fn points(count: usize, step: f64) -> Vec<f32> {
    (0..2 * count)
        .map(|i| (i as f64 * step).fract() as f32)
        .collect()
}

fn marginals() -> Marginals {
    let a: Vec<f64> = (0..ROWS).map(|i| 1.0 + (i % 5) as f64).collect();
    let b: Vec<f64> = (0..COLS).map(|j| 10.0 + (j % 3) as f64).collect();
    let (supply, demand): (f64, f64) = (a.iter().sum(), b.iter().sum());
    let slack = Slack::new(demand - 500.0, supply - 500.0);
    Marginals::with_slack(&a, &b, slack).unwrap()
}

fn penalised(cols: Penalty) -> Marginals {
    let kept = marginals();
    Marginals::relaxed(kept.rows(), kept.cols(), Penalty::Kl(0.5), cols).unwrap()
}

fn every_solver(cost: &dyn Cost<f32>) {
    let problem = &Problem::new(cost, marginals()).unwrap();
    same_bits::<Sinkhorn>(problem);
    same_bits::<Stored>(problem);
    same_bits::<Annealed>(problem);
    same_bits::<Newton>(problem);
    same_bits::<NetworkSimplex>(problem);
    same_bits::<ShortestPaths>(problem);
    for cols in [Penalty::Kl(0.7), Penalty::Tv(0.2)] {
        let problem = &Problem::new(cost, penalised(cols)).unwrap();
        same_bits::<Sinkhorn>(problem);
        same_bits::<Stored>(problem);
        same_bits::<Annealed>(problem);
        same_bits::<Newton>(problem);
    }
}

#[test]
fn dense_costs() {
    let (x, y) = (points(ROWS, 0.618_034), points(COLS, 0.754_878));
    let cloud = PointCloud::new(&x, &y, 2, SquaredEuclidean).unwrap();
    let table: Vec<f32> = (0..ROWS * COLS)
        .map(|at| cloud.at(at / COLS, at % COLS))
        .collect();
    every_solver(&Dense::new(&table, ROWS, COLS).unwrap());
}

#[test]
fn point_clouds() {
    let (x, y) = (points(ROWS, 0.618_034), points(COLS, 0.754_878));
    let cloud = PointCloud::new(&x, &y, 2, SquaredEuclidean).unwrap();
    every_solver(&cloud);
}

/// Large enough to be solved coarse to fine.
#[test]
fn clouds_of_which_rows_see_little() {
    let (n, m) = (801, 599);
    let scattered = |count: usize, seed: u32| -> Vec<f32> {
        let unit = |at: u32| (at.wrapping_mul(0x9e37_79b1) ^ seed).wrapping_mul(0x85eb_ca6b) >> 8;
        let mixed = (0..2 * count as u32).map(|at| unit(unit(at)));
        mixed.map(|x| x as f32 / (1u32 << 24) as f32).collect()
    };
    let (x, y) = (scattered(n, 1), scattered(m, 99));
    let cloud = PointCloud::new(&x, &y, 2, SquaredEuclidean).unwrap();
    let kl = Penalty::Kl(0.1);
    let penalised = Marginals::relaxed(&vec![1.0; n], &vec![2.0; m], kl, kl);
    for marginals in [Marginals::uniform(n, m), penalised] {
        let problem = Problem::new(&cloud as &dyn Cost<f32>, marginals.unwrap()).unwrap();
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let solver = Entropic::new(1e-3).tolerance(1e-4);
            pool.build()
                .unwrap()
                .install(|| fingerprint(&problem, &solver))
        };
        let alone = with(1);
        assert!([2, 3, 7].into_iter().all(|threads| with(threads) == alone));
    }
}
