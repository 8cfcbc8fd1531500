//! The sweep kernels, each ready to be run again and again, with its first answer already checked.
#![allow(missing_docs, unreachable_pub, dead_code)]

use std::fmt;

use earthmover::sweep::{Backend, DualPoint, Stabilised, Streamed, conformance};
use earthmover::{Cost, Dense, PointCloud, Problem, Real, SquaredEuclidean};

use earthmover_testkit::{Rng, distances, label_allocation};

/// Whoever is handed one run of a kernel, to repeat it as often as he likes.
pub type Measure<'a> = &'a mut dyn FnMut(&mut dyn FnMut());

/// One kernel on one problem.
#[derive(Clone, Copy)]
pub struct Kernel {
    pub name: &'static str,
    /// Entries of the cost that one run reads or works out.
    pub entries: usize,
    run: fn(Measure<'_>),
}

impl Kernel {
    /// Sets the kernel up and hands one run of it to `measure`.
    pub fn with(&self, measure: Measure<'_>) {
        (self.run)(measure);
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const SIDE: usize = 500;
const TALL: (usize, usize) = (20_000, 10);
const EPSILON: f64 = 0.05;

pub const KERNELS: &[Kernel] = &[
    Kernel {
        name: "streamed square f32",
        entries: SIDE * SIDE,
        run: |measure| square::<f32>(false, measure),
    },
    Kernel {
        name: "streamed square f64",
        entries: SIDE * SIDE,
        run: |measure| square::<f64>(false, measure),
    },
    Kernel {
        name: "absorbed square f32",
        entries: SIDE * SIDE,
        run: |measure| square::<f32>(true, measure),
    },
    Kernel {
        name: "absorbed square f64",
        entries: SIDE * SIDE,
        run: |measure| square::<f64>(true, measure),
    },
    Kernel {
        name: "streamed tall f32",
        entries: TALL.0 * TALL.1,
        run: tall::<f32>,
    },
    Kernel {
        name: "streamed tall f64",
        entries: TALL.0 * TALL.1,
        run: tall::<f64>,
    },
    Kernel {
        name: "points d=3 f32",
        entries: SIDE * SIDE,
        run: points::<f32>,
    },
    Kernel {
        name: "points d=3 f64",
        entries: SIDE * SIDE,
        run: points::<f64>,
    },
];

fn narrow<T: Real>(numbers: &[f64]) -> Vec<T> {
    numbers.iter().map(|&x| T::narrow(x)).collect()
}

fn square<T: Real>(absorbed: bool, measure: Measure<'_>) {
    let mut rng = Rng(1);
    let costs = narrow::<T>(&distances(&mut rng, SIDE, SIDE));
    let cost = Dense::new(&costs, SIDE, SIDE).unwrap();
    let marginals = earthmover::Marginals::uniform(SIDE, SIDE).unwrap();
    let problem = Problem::new(cost, marginals).unwrap();
    if absorbed {
        let masses = problem.marginals().rows();
        let mut backend = Stabilised::new(problem.cost(), masses);
        run(&mut backend, &problem, &mut rng, measure);
    } else {
        streamed(&problem, &mut rng, measure);
    }
}

fn tall<T: Real>(measure: Measure<'_>) {
    let mut rng = Rng(2);
    let (n, k) = TALL;
    let costs: Vec<f64> = (0..n).flat_map(|_| rng.surprisals(k)).collect();
    let costs = narrow::<T>(&costs);
    let problem = Problem::new(
        Dense::new(&costs, n, k).unwrap(),
        label_allocation(n, k, 0.5),
    )
    .unwrap();
    streamed(&problem, &mut rng, measure);
}

fn points<T: Real>(measure: Measure<'_>) {
    let mut rng = Rng(3);
    let (x, y) = (rng.units(3 * SIDE), rng.units(3 * SIDE));
    let (x, y) = (narrow::<T>(&x), narrow::<T>(&y));
    let cloud = PointCloud::new(&x, &y, 3, SquaredEuclidean).unwrap();
    let problem = Problem::new(cloud, earthmover::Marginals::uniform(SIDE, SIDE).unwrap()).unwrap();
    streamed(&problem, &mut rng, measure);
}

fn streamed<T: Real, C: Cost<T>>(problem: &Problem<T, C>, rng: &mut Rng, measure: Measure<'_>) {
    let masses = problem.marginals().rows();
    let mut backend = Streamed::new(problem.cost(), masses);
    run(&mut backend, problem, rng, measure);
}

/// Checks one sweep against the definition, then hands sweeps at alternating potentials to `measure`.
fn run<T: Real, C: Cost<T>>(
    backend: &mut dyn Backend,
    problem: &Problem<T, C>,
    rng: &mut Rng,
    measure: Measure<'_>,
) {
    let k = problem.cols();
    let here: Vec<f64> = (0..k).map(|_| 0.1 * rng.unit()).collect();
    let there: Vec<f64> = here
        .iter()
        .map(|g| g + 0.01 * EPSILON * rng.unit())
        .collect();
    let slack = if problem.marginals().slack().col > 0.0 {
        0.0
    } else {
        f64::NEG_INFINITY
    };
    let at = |cols| DualPoint {
        epsilon: EPSILON,
        cols,
        slack,
    };
    let deviation = conformance(backend, problem, &at(&here)).unwrap();
    let allowed = 32.0 * backend.resolution();
    assert!(
        deviation.sums <= allowed && deviation.row_potentials <= allowed,
        "{deviation:?} with {allowed:e} allowed"
    );
    let mut sums = vec![0.0; k + 1];
    let mut turn = false;
    measure(&mut || {
        turn = !turn;
        backend
            .sweep(&at(if turn { &there } else { &here }), &mut sums)
            .unwrap();
    });
    let total: f64 = problem.marginals().rows().iter().sum();
    assert!((sums.iter().sum::<f64>() - total).abs() <= 1e-5 * total);
}
