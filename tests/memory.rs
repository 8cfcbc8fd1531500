//! Costs computed on the fly stay on the fly: no solver allocates rows × columns numbers for them, unless its budget allows.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::sync::Mutex;

use earthmover::{
    Barycenter, Cost, Entropic, FromFn, Grid, GromovProblem, GromovWasserstein, Marginals,
    NetworkSimplex, Newton, PointCloud, Problem, Relations, Sinkhorn, Solver, SquaredEuclidean,
};

use earthmover_testkit::{Counting, peak};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The counters are the process's, so the tests take turns.
static TURN: Mutex<()> = Mutex::new(());

const ROWS: usize = 1500;
const COLS: usize = 1000;

fn stays_small<C: Cost<f32>>(problem: &Problem<f32, C>, solver: &impl Solver<f32>, what: &str) {
    let used = peak(|| {
        let solution = solver.solve(problem).unwrap();
        assert!(solution.certificate().gap().is_finite());
        assert!(solution.plan().mass() > 0.0);
    });
    // Up to 32 tiles hold one vector of column sums each, and the sweeps a few buffers of 32 KiB per
    // thread; a table of f32 would be 6 MB.
    let allowed = 800 * (ROWS + COLS);
    assert!(allowed < ROWS * COLS * size_of::<f32>() / 2);
    assert!(
        used < allowed,
        "{what}: {used} bytes for {ROWS} + {COLS} rows and columns, allowed {allowed}"
    );
}

fn every_solver<C: Cost<f32>>(cost: C) {
    let _turn = TURN.lock();
    let problem = Problem::new(cost, Marginals::uniform(ROWS, COLS).unwrap()).unwrap();
    let sinkhorn = Sinkhorn::new(0.1).tolerance(1e-3);
    stays_small(&problem, &sinkhorn.clone().memory_budget(0), "sinkhorn");
    let used = peak(|| drop(sinkhorn.solve(&problem).unwrap()));
    // The costs once and their exponentials.
    let table = ROWS * COLS * size_of::<f32>();
    assert!(
        used > 2 * table && used < 2 * table + 800 * (ROWS + COLS),
        "{used}"
    );
    stays_small(
        &problem,
        &NetworkSimplex::new().max_iterations(3_000),
        "simplex",
    );
}

#[test]
fn point_clouds_are_never_tables() {
    let step = |i: usize, by: f32| (i as f32 * by).fract();
    let here: Vec<f32> = (0..3 * ROWS).map(|i| step(i, 0.618_034)).collect();
    let there: Vec<f32> = (0..3 * COLS).map(|i| step(i, 0.754_878)).collect();
    every_solver(PointCloud::new(&here, &there, 3, SquaredEuclidean).unwrap());
}

#[test]
fn closures_are_never_tables() {
    let price = |i: usize, j: usize| ((i * 7 + j * 13) % 101) as f32 / 101.0;
    every_solver(FromFn::new(ROWS, COLS, price).unwrap());
}

#[test]
fn clouds_of_which_rows_see_little_take_no_more_than_their_points() {
    let _turn = TURN.lock();
    let step = |i: usize, by: f32| (i as f32 * by).fract();
    let n = 6_000;
    let here: Vec<f32> = (0..2 * n).map(|i| step(i, 0.618_034)).collect();
    let there: Vec<f32> = (0..2 * n).map(|i| step(i, 0.754_878)).collect();
    let cloud = PointCloud::new(&here, &there, 2, SquaredEuclidean).unwrap();
    let problem = Problem::new(cloud, Marginals::uniform(n, n).unwrap()).unwrap();
    let used = peak(|| {
        let solution = Entropic::new(1e-3).tolerance(1e-3).solve(&problem).unwrap();
        assert!(solution.status().is_converged());
    });
    // Points in order, boxes around them, and 32 tiles of column sums.
    let allowed = 800 * (n + n);
    assert!(used < allowed, "{used} bytes, allowed {allowed}");
}

#[test]
fn newton_keeps_one_small_square() {
    let _turn = TURN.lock();
    let cols = 10;
    let rows = 100_000;
    let price = |i: usize, j: usize| ((i * 7 + j * 13) % 101) as f32 / 101.0;
    let cost = FromFn::new(rows, cols, price).unwrap();
    let problem = Problem::new(cost, Marginals::uniform(rows, cols).unwrap()).unwrap();
    let used = peak(|| {
        let newton = Newton::new(0.01).memory_budget(0);
        let solution = newton.solve(&problem).unwrap();
        assert!(solution.status().is_converged());
    });
    // A row's record holds up to four entries, where they are and how long that stays true: O(1) a row
    // however many columns there are.
    // Beside it curvatures, and 32 KiB of costs at a time for every thread.
    let allowed = 72 * rows + 32 * 8 * (cols + 1) * (cols + 1) * 4 + (1 << 17);
    assert!(used < allowed, "{used} bytes, allowed {allowed}");
}

#[test]
fn grids_take_the_memory_of_their_cells() {
    let _turn = TURN.lock();
    for (sides, epsilon) in [
        (&[128, 128][..], 0.01),
        (&[128, 128], 1e-6),
        (&[25, 26, 27], 0.01),
    ] {
        let cells: usize = sides.iter().product();
        let mass = |k: usize| 1.0 + (k as f64 * 0.618_034).fract();
        let a: Vec<f64> = (0..cells).map(mass).collect();
        let b: Vec<f64> = (0..cells).map(|k| mass(3 * k)).collect();
        let grid = Grid::unit(sides).unwrap();
        let problem = Problem::new(&grid, Marginals::normalised(&a, &b).unwrap()).unwrap();
        let used = peak(|| {
            let solution = Sinkhorn::new(epsilon).max_iterations(30).solve(&problem);
            let proof = *solution.unwrap().certificate();
            assert!(proof.dual <= proof.primal && proof.primal.is_finite());
        });
        // Some dozens of images, Anderson's memory among them, where a table would be `cells` of them.
        assert!(
            used < 100 * 8 * cells,
            "{sides:?} {epsilon}: {used} bytes for {cells} cells"
        );
        let both = [a, b].concat();
        let used = peak(|| {
            let solver = Barycenter::new(epsilon.max(1e-3)).max_iterations(20);
            let found = solver.solve(&grid, &both, &[1.0, 1.0]).unwrap();
            assert!(found.certificate().lower <= found.certificate().upper);
        });
        assert!(
            used < 200 * 8 * cells,
            "{sides:?} {epsilon}: {used} bytes for {cells} cells"
        );
    }
}

#[test]
fn clouds_are_matched_without_tables() {
    let _turn = TURN.lock();
    let n = 1_500;
    let x: Vec<f64> = (0..2 * n)
        .map(|k| (k as f64 * 0.618_034).fract() * (k % 2 + 1) as f64)
        .collect();
    let y: Vec<f64> = x.chunks_exact(2).flat_map(|p| [-p[1], p[0]]).collect();
    let problem = GromovProblem::new(
        Relations::points(&x, 2).unwrap(),
        Relations::points(&y, 2).unwrap(),
        Marginals::uniform(n, n).unwrap(),
    )
    .unwrap();
    let used = peak(|| {
        let found = GromovWasserstein::new().solve(&problem).unwrap();
        assert!(found.value() >= 0.0 && !found.entries(0.0).is_empty());
    });
    assert!(used < n * n * 8 / 4, "{used} bytes");
}
