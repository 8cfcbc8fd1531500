//! How cost grows: time and memory of a solve against the size of the problem, with the fitted exponent.
//!
//! `cargo bench --bench growth` prints the record's table; `-- quick` leaves the largest sizes out, `-- structures` measures lines,
//! slices, grids and Gromov–Wasserstein instead. Time is
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
    Cost, Dense, Entropic, Exact, Grid, GromovProblem, GromovWasserstein, Marginals, PointCloud,
    Problem, Real, Relations, Sinkhorn, Sliced, Solver, SquaredEuclidean, line,
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
    if std::env::args().any(|a| a == "structures") {
        return structures(up_to);
    }
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

/// What has a way of its own. Of a grid n is the number of cells.
fn structures(up_to: impl Fn(usize, &[usize]) -> Vec<usize>) {
    let samples = up_to(100_000, &[10_000, 100_000, 1_000_000, 4_000_000]);
    row("line, W₂ of n + n samples", &samples, |n| {
        let mut rng = Rng(5);
        let (x, y) = (rng.units(n), rng.units(n));
        measure(|| assert!(line::distance(&x, &y, 2.0).unwrap() < 0.1))
    });
    let points = up_to(10_000, &[1_000, 10_000, 100_000]);
    row("sliced, d = 10, 100 projections", &points, |n| {
        let mut rng = Rng(6);
        let (x, y) = (rng.units(10 * n), rng.units(10 * n));
        measure(|| assert!(Sliced::new().distance(&x, &y, 10).unwrap().value < 0.1))
    });
    let squares = up_to(16_384, &[4_096, 16_384, 65_536, 262_144]);
    let side = |n: usize, d: f64| (n as f64).powf(1.0 / d).round() as usize;
    row("image of n cells, ε = 0.01, 1e-4", &squares, |n| {
        on_grid(
            &[side(n, 2.0); 2],
            &Sinkhorn::new(0.01).tolerance(1e-4),
            true,
        )
    });
    row("image of n cells, ε = 1e-6, 20 sweeps", &squares, |n| {
        on_grid(
            &[side(n, 2.0); 2],
            &Sinkhorn::new(1e-6).max_iterations(20),
            false,
        )
    });
    let cubes = up_to(32_768, &[4_096, 32_768, 262_144]);
    row("cube of n cells, ε = 0.01, 1e-4", &cubes, |n| {
        on_grid(
            &[side(n, 3.0); 3],
            &Sinkhorn::new(0.01).tolerance(1e-4),
            true,
        )
    });
    let clouds = up_to(1_000, &[250, 500, 1_000, 2_000, 4_000, 8_000]);
    row(
        "Gromov–Wasserstein, points d = 3, no tables",
        &clouds,
        |n| {
            let (x, y) = turned(n);
            let problem = GromovProblem::new(
                Relations::points(&x, 3).unwrap(),
                Relations::points(&y, 3).unwrap(),
                Marginals::uniform(n, n).unwrap(),
            );
            let problem = problem.unwrap();
            measure(|| {
                let solution = GromovWasserstein::new().solve(&problem).unwrap();
                assert!(solution.status().is_converged() && solution.value() < 1.0);
            })
        },
    );
}

/// A cloud, and the same turned and shaken.
fn turned(n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut rng = Rng(7);
    let x: Vec<f64> = (0..3 * n).map(|_| rng.normal()).collect();
    let turn = |p: &[f64]| [0.6 * p[0] - 0.8 * p[1], 0.8 * p[0] + 0.6 * p[1], p[2]];
    let y = x.chunks_exact(3).flat_map(turn);
    let y = y.map(|v| v + 0.05 * rng.normal()).collect();
    (x, y)
}

/// Two blobs on a grid of the unit square or cube.
fn on_grid(sides: &[usize], solver: &Sinkhorn, to_the_end: bool) -> Taken {
    let cells: usize = sides.iter().product();
    let blob = |middle: f64| -> Vec<f64> {
        let place = |cell: usize| {
            let mut rest = cell;
            let square = |&side: &usize| {
                let x = (rest % side) as f64 / side as f64 - middle;
                rest /= side;
                x * x
            };
            (-20.0 * sides.iter().map(square).sum::<f64>()).exp()
        };
        (0..cells).map(place).collect()
    };
    let marginals = Marginals::normalised(&blob(0.35), &blob(0.6)).unwrap();
    let problem = Problem::new(Grid::unit(sides).unwrap(), marginals).unwrap();
    measure(|| {
        let solution = solver.solve(&problem).unwrap();
        assert!(solution.status().is_converged() || !to_the_end);
        let proof = solution.certificate();
        assert!(proof.dual <= proof.primal && proof.primal < 3.0);
    })
}

/// Best of three, once where that takes more than a second, and the peak of the memory one allocates.
fn measure(work: impl Fn()) -> Taken {
    let (mut seconds, mut bytes) = (f64::INFINITY, 0);
    for _ in 0..3 {
        let start = Instant::now();
        bytes = peak(&work);
        seconds = seconds.min(start.elapsed().as_secs_f64());
        if seconds > 1.0 {
            break;
        }
    }
    Taken {
        seconds,
        bytes: bytes as f64,
    }
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
