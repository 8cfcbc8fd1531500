//! The tensor backend keeps the laws of a backend, on the CPU device, in both precisions.

use candle_core::{DType, Device, Tensor};
use earthmover::sweep::{Backend, DualPoint, Streamed, conformance};
use earthmover::{Dense, Error, Marginals, Penalty, Problem, Sinkhorn};
use earthmover_candle::TensorBackend;

use crate::common::noise;

const INF: f64 = f64::INFINITY;

struct Case {
    cost: Vec<f64>,
    masses: Vec<f64>,
    cols: Vec<f64>,
    k: usize,
}

fn case(n: usize, k: usize, seed: u64) -> Case {
    let drawn = |stream: u64, n: usize, low: f64, high: f64| -> Vec<f64> {
        let unit = noise(10 * seed + stream, n).into_iter();
        unit.map(|x| low + (high - low) * (x + 1.0) / 2.0).collect()
    };
    let mut cost = drawn(0, n * k, 0.0, 3.0);
    let mut masses = drawn(1, n, 0.1, 1.0);
    let forbidden = drawn(2, n, 0.0, k as f64);
    // Forbidden pairs, a forbidden row without mass, another row without mass.
    for i in 2..n {
        cost[i * k + forbidden[i] as usize] = INF;
    }
    cost[..k].fill(INF);
    masses[0] = 0.0;
    masses[n / 2] = 0.0;
    let cols = drawn(3, k, -2.0, 2.0);
    Case {
        cost,
        masses,
        cols,
        k,
    }
}

fn tensor(case: &Case, dtype: DType) -> Tensor {
    let shape = (case.masses.len(), case.k);
    let cost = Tensor::from_slice(&case.cost, shape, &Device::Cpu).unwrap();
    cost.to_dtype(dtype).unwrap()
}

#[test]
fn keeps_the_laws() {
    // 3,000 rows are two tiles and a rest.
    for (n, k, seed) in [(4, 2, 1), (40, 7, 2), (3000, 10, 3)] {
        for (dtype, small) in [(DType::F64, 1e-11), (DType::F32, 2e-4)] {
            for slack in [f64::NEG_INFINITY, -0.4, 2.0] {
                for epsilon in [1.0, 0.05] {
                    let mut case = case(n, k, seed);
                    let mut backend =
                        TensorBackend::new(tensor(&case, dtype), &case.masses).unwrap();
                    if n > 4 {
                        case.cols[1] = f64::NEG_INFINITY;
                    }
                    let total: f64 = case.masses.iter().sum();
                    let cost = Dense::new(&case.cost, n, k).unwrap();
                    let even = vec![total / k as f64; k];
                    let marginals = Marginals::balanced(&case.masses, &even).unwrap();
                    let problem = Problem::new(cost, marginals).unwrap();
                    let at = DualPoint {
                        epsilon,
                        cols: &case.cols,
                        slack,
                    };
                    let off = conformance(&mut backend, &problem, &at).unwrap();
                    assert!(off.sums < small, "{off:?} {n} {dtype:?} {slack} {epsilon}");
                    assert!(off.log_sums < small.max(1e-9), "{off:?}");
                    assert!(off.row_potentials < small.max(1e-9), "{off:?}");
                    assert!(
                        off.sums < backend.resolution(),
                        "{off:?} {}",
                        backend.resolution()
                    );
                }
            }
        }
    }
}

/// Masses that follow from the rows' sums, rows without any way out among them.
#[test]
fn keeps_the_laws_of_penalised_rows() {
    for (penalty, epsilon) in [
        (Penalty::Kl(0.8), 0.05),
        (Penalty::Kl(50.0), 1.0),
        (Penalty::Tv(1.5), 1.0),
    ] {
        for (dtype, small) in [(DType::F64, 1e-10), (DType::F32, 2e-3)] {
            let (n, k) = (60, 7);
            let mut case = case(n, k, 5);
            case.cost[3 * k..4 * k].fill(INF);
            let mut backend = TensorBackend::new(tensor(&case, dtype), &case.masses).unwrap();
            let cost = Dense::new(&case.cost, n, k).unwrap();
            let ones = vec![1.0; k];
            let marginals = Marginals::relaxed(&case.masses, &ones, penalty, penalty).unwrap();
            let problem = Problem::new(cost, marginals).unwrap();
            let at = DualPoint {
                epsilon,
                cols: &case.cols,
                slack: f64::NEG_INFINITY,
            };
            let off = conformance(&mut backend, &problem, &at).unwrap();
            let all = off.sums.max(off.log_sums).max(off.row_potentials);
            assert!(all < small, "{off:?} {penalty:?} {dtype:?}");
        }
    }
}

#[test]
fn agrees_with_the_streamed_backend() {
    let case = case(500, 5, 9);
    let at = DualPoint {
        epsilon: 0.1,
        cols: &case.cols,
        slack: 0.3,
    };
    let cost = Dense::new(&case.cost, 500, 5).unwrap();
    let (mut a, mut b) = ([0.0; 6], [0.0; 6]);
    Streamed::new(&cost, &case.masses)
        .sweep(&at, &mut a)
        .unwrap();
    let mut backend = TensorBackend::new(tensor(&case, DType::F64), &case.masses).unwrap();
    backend.sweep(&at, &mut b).unwrap();
    for (x, y) in a.iter().zip(&b) {
        assert!((x - y).abs() < 1e-11 * (1.0 + x), "{a:?} {b:?}");
    }
    let mut again = [0.0; 6];
    backend.sweep(&at, &mut again).unwrap();
    assert_eq!(b, again);
}

#[test]
fn sums_that_underflow_have_logarithms() {
    let cost = Tensor::new(&[[0f32, 1.0], [0.0, 1.0]], &Device::Cpu).unwrap();
    let mut backend = TensorBackend::new(cost, &[1.0, 1.0]).unwrap();
    let at = DualPoint {
        epsilon: 1e-3,
        cols: &[0.0, 0.0],
        slack: f64::NEG_INFINITY,
    };
    let (mut sums, mut logs) = ([0.0; 3], [0.0; 2]);
    backend.sweep(&at, &mut sums).unwrap();
    assert_eq!(sums, [2.0, 0.0, 0.0]);
    backend.log_sums(&[1, 0], &mut logs).unwrap();
    assert!((logs[0] - (2f64.ln() - 1000.0)).abs() < 1e-3 && (logs[1] - 2f64.ln()).abs() < 1e-6);
}

#[test]
fn solves_as_the_cpu_does() {
    let cost: Vec<f64> = noise(5, 60 * 6).iter().map(|x| x.abs()).collect();
    let matrix = Dense::new(&cost, 60, 6).unwrap();
    let problem = Problem::new(matrix, Marginals::uniform(60, 6).unwrap()).unwrap();
    let solver = Sinkhorn::new(0.05).tolerance(1e-9);
    let expected = solver.solve(&problem).unwrap();
    let tensor = Tensor::from_slice(&cost, (60, 6), &Device::Cpu).unwrap();
    let mut backend = TensorBackend::new(tensor, problem.marginals().rows()).unwrap();
    let found = solver.solve_on(&problem, &mut backend).unwrap();
    for (a, b) in found
        .potentials()
        .cols
        .iter()
        .zip(&expected.potentials().cols)
    {
        assert!((a - b).abs() < 1e-7, "{a} {b}");
    }
}

#[test]
fn refuses_what_is_no_cost_and_rows_without_a_way() {
    let new = |rows: &[[f64; 2]], masses: &[f64]| {
        let tensor = Tensor::from_slice(&rows.concat(), (rows.len(), 2), &Device::Cpu).unwrap();
        TensorBackend::new(tensor, masses)
    };
    let nan = new(&[[0.0, 1.0], [0.0, f64::NAN]], &[1.0, 1.0]).unwrap_err();
    assert!(matches!(nan, Error::Cost { row: 1, col: 1, .. }));
    let low = new(&[[0.0, -INF], [0.0, 1.0]], &[1.0, 1.0]).unwrap_err();
    assert!(matches!(low, Error::Cost { row: 0, col: 1, .. }));
    assert!(matches!(
        new(&[[0.0, 1.0]], &[-1.0]),
        Err(Error::Mass { index: 0, .. })
    ));
    assert!(matches!(
        new(&[[0.0, 1.0]], &[1.0, 1.0]),
        Err(Error::Length { .. })
    ));

    let mut blocked = new(&[[0.0, 1.0], [INF, INF]], &[1.0, 1.0]).unwrap();
    let at = |slack| DualPoint {
        epsilon: 0.1,
        cols: &[0.0, 0.0],
        slack,
    };
    let refused = blocked
        .sweep(&at(f64::NEG_INFINITY), &mut [0.0; 3])
        .unwrap_err();
    assert!(matches!(refused, Error::Blocked { index: 1, .. }));
    let mut sums = [0.0; 3];
    blocked.sweep(&at(0.0), &mut sums).unwrap();
    assert!(
        (sums[2] - 1.0 - (1.0 / (2.0 + (-10f64).exp()))).abs() < 1e-9,
        "{sums:?}"
    );
    assert!(blocked.sweep(&at(0.0), &mut [0.0; 2]).is_err());
}
