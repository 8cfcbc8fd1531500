//! Repeatable tensors and comparisons.
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
