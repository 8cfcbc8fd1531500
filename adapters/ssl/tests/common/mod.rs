//! Repeatable tensors and comparisons shared by the tests of the networks.
#![allow(dead_code, unreachable_pub)]

use candle_core::{DType, Device, Tensor};

/// A repeatable stream of numbers in (−1, 1).
pub fn noise(seed: u64, n: usize) -> Vec<f64> {
    let mut s = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..n)
        .map(|_| {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            (s >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        })
        .collect()
}

/// A repeatable tensor with entries in (−1, 1).
pub fn tensor(seed: u64, shape: &[usize], dtype: DType) -> Tensor {
    Tensor::from_vec(noise(seed, shape.iter().product()), shape, &Device::Cpu)
        .unwrap()
        .to_dtype(dtype)
        .unwrap()
}

/// Largest absolute difference.
pub fn gap(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!(a.dims(), b.dims());
    let a = a.to_dtype(DType::F64).unwrap();
    let b = b.to_dtype(DType::F64).unwrap();
    let d = (a - b).unwrap().abs().unwrap().flatten_all().unwrap();
    d.max(0).unwrap().to_scalar::<f64>().unwrap()
}

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
