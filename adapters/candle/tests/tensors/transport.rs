//! Transport as a loss: gradients against differences, the device's way against the core's.

use candle_core::{DType, Device, Result, Tensor, Var};
use earthmover::Penalty;
use earthmover_candle::{Loss, Transport};

use crate::common::{gap, noise, tensor};

type Way = fn(&Transport, &[Tensor; 4]) -> Result<Loss>;

/// Points of both clouds and their masses.
fn clouds(n: usize, m: usize, dtype: DType) -> [Tensor; 4] {
    let masses = |seed: u64, n: usize| {
        let raw: Vec<f64> = noise(seed, n).iter().map(|x| 1.2 + x).collect();
        let total: f64 = raw.iter().sum();
        let shares: Vec<f64> = raw.iter().map(|x| x / total).collect();
        let shares = Tensor::from_vec(shares, n, &Device::Cpu).unwrap();
        shares.to_dtype(dtype).unwrap()
    };
    [
        tensor(1, &[n, 2], dtype),
        tensor(2, &[m, 2], dtype),
        masses(3, n),
        masses(4, m),
    ]
}

fn variables(tensors: &[Tensor; 4]) -> Vec<Var> {
    let made = tensors.iter().map(Var::from_tensor);
    made.collect::<Result<_>>().unwrap()
}

fn as_arguments(vars: &[Var]) -> [Tensor; 4] {
    [0, 1, 2, 3].map(|k| vars[k].as_tensor().clone())
}

fn number(loss: &Loss) -> f64 {
    let value = loss.value.to_dtype(DType::F64).unwrap();
    value.to_scalar().unwrap()
}

fn costs_of(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let apart = x.unsqueeze(1)?.broadcast_sub(&y.unsqueeze(0)?)?;
    apart.sqr()?.sum(2)
}

/// Every way to a value, its name, and whether it is a divergence.
const WAYS: [(&str, Way); 6] = [
    ("between", |t, [x, y, a, b]| t.between(x, y, a, b)),
    ("between, tensors", |t, [x, y, a, b]| {
        t.between_by_tensor_ops(x, y, a, b)
    }),
    ("divergence", |t, [x, y, a, b]| t.divergence(x, y, a, b)),
    ("divergence, tensors", |t, [x, y, a, b]| {
        t.divergence_by_tensor_ops(x, y, a, b)
    }),
    ("costs", |t, [x, y, a, b]| {
        t.of_costs(&costs_of(x, y)?, a, b)
    }),
    ("costs, tensors", |t, [x, y, a, b]| {
        t.of_costs_by_tensor_ops(&costs_of(x, y)?, a, b)
    }),
];

const PENALTIES: [(Penalty, Penalty); 4] = [
    (Penalty::Exact, Penalty::Exact),
    (Penalty::Kl(0.7), Penalty::Kl(0.7)),
    (Penalty::Exact, Penalty::Kl(0.5)),
    (Penalty::Tv(0.6), Penalty::Kl(2.0)),
];

#[test]
fn gradients_are_those_of_differences() {
    let tensors = clouds(5, 4, DType::F64);
    for (rows, cols) in PENALTIES {
        let solver = Transport::new(0.2).tolerance(1e-12).penalties(rows, cols);
        for (name, way) in WAYS {
            let vars = variables(&tensors);
            let loss = way(&solver, &as_arguments(&vars)).unwrap();
            assert!(loss.status.is_converged(), "{name}: {}", loss.status);
            let gradients = loss.value.backward().unwrap();
            for (which, var) in vars.iter().enumerate() {
                let found = gradients.get(var).unwrap().flatten_all().unwrap();
                let found = found.to_vec1::<f64>().unwrap();
                let at = tensors[which].flatten_all().unwrap();
                let at = at.to_vec1::<f64>().unwrap();
                for k in 0..at.len() {
                    // Exact masses are moved from one to the next: totals must agree.
                    let next = (k + 1) % at.len();
                    let is_mass = which > 1;
                    let value = |h: f64| {
                        let mut moved = at.clone();
                        moved[k] += h;
                        if is_mass {
                            moved[next] -= h;
                        }
                        let shape = tensors[which].shape();
                        let mut arguments = tensors.clone();
                        arguments[which] = Tensor::from_vec(moved, shape, &Device::Cpu).unwrap();
                        number(&way(&solver, &arguments).unwrap())
                    };
                    let difference = (value(1e-5) - value(-1e-5)) / 2e-5;
                    let slope = found[k] - if is_mass { found[next] } else { 0.0 };
                    assert!(
                        (difference - slope).abs() < 1e-6,
                        "{name}, {rows:?} {cols:?}, argument {which} at {k}: {slope} but {difference}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_devices_way_is_the_cores() {
    for (dtype, small) in [(DType::F64, 1e-8), (DType::F32, 2e-3)] {
        let tensors = clouds(60, 45, dtype);
        let tolerance = if dtype == DType::F64 { 1e-10 } else { 1e-4 };
        for (rows, cols) in PENALTIES {
            let solver = Transport::new(0.1).tolerance(tolerance);
            let solver = solver.penalties(rows, cols);
            for pair in WAYS.chunks_exact(2) {
                let [one, other] = [pair[0].1, pair[1].1].map(|way| {
                    let vars = variables(&tensors);
                    let loss = way(&solver, &as_arguments(&vars)).unwrap();
                    assert!(loss.status.is_converged(), "{}: {}", pair[0].0, loss.status);
                    let gradients = loss.value.backward().unwrap();
                    let all = vars.iter().map(|v| gradients.get(v).unwrap().clone());
                    (number(&loss), all.collect::<Vec<_>>())
                });
                assert!((one.0 - other.0).abs() < small, "{} {}", one.0, other.0);
                for (p, q) in one.1.iter().zip(&other.1) {
                    assert!(gap(p, q) < small, "{} {rows:?} {cols:?}", pair[0].0);
                }
            }
        }
    }
}

#[test]
fn descent_brings_a_cloud_to_another() {
    let [x, y, a, b] = clouds(40, 40, DType::F32);
    let (a, b) = (a.ones_like().unwrap(), b.ones_like().unwrap());
    let (a, b) = ((a / 40.0).unwrap(), (b / 40.0).unwrap());
    let y = (y + 3.0).unwrap();
    let x = Var::from_tensor(&x).unwrap();
    let solver = Transport::new(0.05).tolerance(1e-4);
    let mut values = Vec::new();
    for _ in 0..60 {
        let loss = solver.divergence(&x, &y, &a, &b).unwrap();
        values.push(number(&loss));
        let gradients = loss.value.backward().unwrap();
        // Half of a Newton step: the gradient of a point is its mass times what it is off, twice.
        let step = (gradients.get(&x).unwrap() * 10.0).unwrap();
        x.set(&(x.as_tensor() - step).unwrap()).unwrap();
    }
    assert!(values[0] > 10.0 && values[59] < 0.01, "{values:?}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let [x, y, a, b] = clouds(5, 4, DType::F64);
    let solver = Transport::new(0.1);
    let narrow = y.narrow(1, 0, 1).unwrap();
    assert!(solver.between(&x, &narrow, &a, &b).is_err());
    assert!(solver.divergence(&x, &y, &b, &a).is_err());
    let heavy = (&b * 2.0).unwrap();
    assert!(solver.between(&x, &y, &a, &heavy).is_err());
    let penalised = solver.clone().penalty(Penalty::Kl(1.0));
    assert!(penalised.between(&x, &y, &a, &heavy).is_ok());
    let error = Transport::new(0.0).between(&x, &y, &a, &b).unwrap_err();
    assert!(error.to_string().contains("epsilon"), "{error}");
}
