//! Repeatable tensors and comparisons shared by the tests of the networks.
#![allow(dead_code, unreachable_pub)]

use candle_core::{Device, Tensor};

/// What the operations' own tests use too.
#[path = "../../../candle/tests/tensors/common.rs"]
mod common;

pub use common::{gap, tensor};

/// `scale · sin(0.7 i + phase)` over the elements i, in f64: the inputs of the recorded figures.
pub fn wave(shape: &[usize], phase: f64, scale: f64) -> Tensor {
    let n: usize = shape.iter().product();
    let values: Vec<f64> = (0..n)
        .map(|i| scale * (0.7 * i as f64 + phase).sin())
        .collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

/// The figures recorded from PyTorch; `fixtures/torch_figures.py` says how.
pub fn figures() -> serde_json::Value {
    serde_json::from_str(include_str!("../fixtures/torch_figures.json")).unwrap()
}

/// All numbers of a (nested) JSON array.
pub fn numbers(value: &serde_json::Value) -> Vec<f64> {
    match value {
        serde_json::Value::Array(items) => items.iter().flat_map(numbers).collect(),
        other => vec![other.as_f64().unwrap()],
    }
}

/// Panics unless the tensor holds these numbers up to `tolerance` relative to 1.
pub fn assert_near(what: &str, found: &Tensor, expected: &[f64], tolerance: f64) {
    let found = found.flatten_all().unwrap().to_vec1::<f64>().unwrap();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!(
            (a - b).abs() <= tolerance * (1.0 + b.abs()),
            "{what}[{i}]: {a} against {b}"
        );
    }
}
