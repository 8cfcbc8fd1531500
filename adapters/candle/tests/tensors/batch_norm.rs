//! The fused normalisation against its tensor twin, candle's autograd and differences.

use candle_core::{DType, Device, Tensor, Var};
use earthmover_candle::ops::{
    Activation, Moments, Normaliser, batch_norm, batch_norm_by_tensor_ops,
};

use crate::common::{gap, tensor};

const EPSILON: f64 = 1e-5;
const LEAKY: Activation = Activation::LeakyRelu { slope: 0.1 };
const SHAPES: &[&[usize]] = &[
    &[2, 1, 1, 1],
    &[5, 3],
    &[4, 5, 3, 3],
    &[3, 2, 9, 7],
    &[20, 4, 8, 8],
];

fn given(channels: usize) -> Normaliser {
    Normaliser::Given(Moments {
        mean: Tensor::from_iter((0..channels).map(|c| 0.1 * c as f64), &Device::Cpu).unwrap(),
        variance: Tensor::from_iter((0..channels).map(|c| 0.5 + c as f64), &Device::Cpu).unwrap(),
        count: 1,
    })
}

type Norm = fn(
    &Tensor,
    &Tensor,
    &Tensor,
    Normaliser,
    f64,
    Activation,
) -> candle_core::Result<(Tensor, Moments)>;

/// The textbook formula, differentiated by candle.
fn native(
    x: &Tensor,
    gamma: &Tensor,
    beta: &Tensor,
    n: Normaliser,
    e: f64,
    a: Activation,
) -> candle_core::Result<(Tensor, Moments)> {
    let shape = x.dims().to_vec();
    let c = shape[1];
    let x = x.reshape((shape[0], c, ()))?;
    let (mean, var) = match &n {
        Normaliser::Batch => {
            let mean = x.mean_keepdim((0, 2))?;
            (
                mean.clone(),
                x.broadcast_sub(&mean)?.sqr()?.mean_keepdim((0, 2))?,
            )
        }
        Normaliser::Given(m) => {
            let t = |v: &Tensor| v.to_dtype(x.dtype())?.reshape((1, c, 1));
            (t(&m.mean)?, t(&m.variance)?)
        }
    };
    let hat = x
        .broadcast_sub(&mean)?
        .broadcast_div(&(&var + e)?.sqrt()?)?;
    let z = hat
        .broadcast_mul(&gamma.reshape((1, c, 1))?)?
        .broadcast_add(&beta.reshape((1, c, 1))?)?;
    let y = match a {
        Activation::Identity => z,
        Activation::LeakyRelu { slope } => {
            let positive = z.gt(0.0)?.to_dtype(z.dtype())?.detach();
            (((positive * (1.0 - slope))? + slope)? * z)?
        }
    };
    let count = x.elem_count() / c;
    Ok((
        y.reshape(shape)?,
        Moments {
            mean: mean.flatten_all()?,
            variance: var.flatten_all()?,
            count,
        },
    ))
}

fn run(norm: Norm, shape: &[usize], n: Normaliser, a: Activation, dtype: DType) -> Vec<Tensor> {
    let c = shape[1];
    let x = Var::from_tensor(&(tensor(1, shape, dtype) + 0.5).unwrap()).unwrap();
    let gamma = Var::from_tensor(&(tensor(2, &[c], dtype) + 1.0).unwrap()).unwrap();
    let beta = Var::from_tensor(&tensor(3, &[c], dtype)).unwrap();
    let (y, moments) = norm(
        x.as_tensor(),
        gamma.as_tensor(),
        beta.as_tensor(),
        n,
        EPSILON,
        a,
    )
    .unwrap();
    let cotangent = tensor(4, shape, dtype);
    let grads = (&y * cotangent)
        .unwrap()
        .sum_all()
        .unwrap()
        .backward()
        .unwrap();
    let mut out = vec![y, moments.mean, moments.variance];
    out.extend([&x, &gamma, &beta].map(|v| grads.get(v).unwrap().clone()));
    out
}

#[test]
fn three_ways_agree() {
    for dtype in [DType::F64, DType::F32] {
        let tolerance = if dtype == DType::F64 { 1e-11 } else { 2e-4 };
        for &shape in SHAPES {
            for a in [
                Activation::Identity,
                LEAKY,
                Activation::LeakyRelu { slope: 0.0 },
            ] {
                for n in [Normaliser::Batch, given(shape[1])] {
                    let fast = run(batch_norm, shape, n.clone(), a, dtype);
                    let twin = run(batch_norm_by_tensor_ops, shape, n.clone(), a, dtype);
                    let native = run(native, shape, n.clone(), a, dtype);
                    for (i, name) in ["y", "mean", "variance", "dx", "dγ", "dβ"]
                        .iter()
                        .enumerate()
                    {
                        // One channel of two numbers a rounding apart has a gradient of pure noise.
                        if dtype == DType::F32 && shape[0] * shape[1] == 2 {
                            continue;
                        }
                        let (d, e) = (gap(&fast[i], &twin[i]), gap(&fast[i], &native[i]));
                        assert!(
                            d < tolerance && e < tolerance,
                            "{name} {shape:?} {n:?} {a:?} {dtype:?}: {d:e} {e:e}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn gradient_is_the_difference_of_the_loss() {
    let shape = [3, 2, 2, 3];
    let x0 = tensor(1, &shape, DType::F64);
    let gamma = (tensor(2, &[2], DType::F64) + 1.0).unwrap();
    let beta = tensor(3, &[2], DType::F64);
    let loss = |x: &Tensor| {
        let (y, _) = batch_norm(x, &gamma, &beta, Normaliser::Batch, EPSILON, LEAKY).unwrap();
        (&y * y.sqr().unwrap()).unwrap().sum_all().unwrap()
    };
    let x = Var::from_tensor(&x0).unwrap();
    let exact = loss(x.as_tensor())
        .backward()
        .unwrap()
        .get(&x)
        .unwrap()
        .flatten_all()
        .unwrap()
        .to_vec1::<f64>()
        .unwrap();
    let values = x0.flatten_all().unwrap().to_vec1::<f64>().unwrap();
    for i in 0..values.len() {
        let at = |d: f64| {
            let mut v = values.clone();
            v[i] += d;
            loss(&Tensor::from_vec(v, &shape, &Device::Cpu).unwrap())
                .to_scalar::<f64>()
                .unwrap()
        };
        let numeric = (at(1e-6) - at(-1e-6)) / 2e-6;
        assert!(
            (numeric - exact[i]).abs() < 1e-6 * (1.0 + numeric.abs()),
            "{numeric} {}",
            exact[i]
        );
    }
}

#[test]
fn a_far_mean_does_not_spoil_the_variance() {
    // Values 1000 + {−1, 1}: E[x²] − E[x]² in f32 would be noise.
    let x: Vec<f32> = (0..2 * 64)
        .map(|i| 1000.0 + if i % 2 == 0 { 1.0 } else { -1.0 })
        .collect();
    let x = Tensor::from_vec(x, (2, 1, 8, 8), &Device::Cpu).unwrap();
    let one = Tensor::new(&[1f32], &Device::Cpu).unwrap();
    let zero = Tensor::new(&[0f32], &Device::Cpu).unwrap();
    let (_, m) = batch_norm(&x, &one, &zero, Normaliser::Batch, EPSILON, LEAKY).unwrap();
    let host = |t: &Tensor| t.to_vec1::<f32>().unwrap();
    assert_eq!(
        (host(&m.mean), host(&m.variance), m.count),
        (vec![1000.0], vec![1.0], 128)
    );
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let bits = |threads: usize| -> Vec<u32> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            run(
                batch_norm,
                &[19, 3, 5, 7],
                Normaliser::Batch,
                LEAKY,
                DType::F32,
            )
        })
        .iter()
        .flat_map(|t| {
            t.to_dtype(DType::F32)
                .unwrap()
                .flatten_all()
                .unwrap()
                .to_vec1::<f32>()
                .unwrap()
        })
        .map(f32::to_bits)
        .collect()
    };
    assert_eq!(bits(1), bits(3));
}

#[test]
fn a_batch_too_small_is_named() {
    let x = tensor(1, &[1, 3], DType::F32);
    let p = tensor(2, &[3], DType::F32);
    let said = batch_norm(&x, &p, &p, Normaliser::Batch, EPSILON, LEAKY)
        .unwrap_err()
        .to_string();
    assert!(said.contains("needs 2"), "{said}");
}
