//! The fast convolution against candle's, against its own tensor twin and against differences.

use candle_core::{DType, Device, Tensor, Var};
use earthmover_candle::ops::{Conv2dParams, conv2d, conv2d_by_tensor_ops};

use crate::common::{gap, tensor};

type Conv = fn(&Tensor, &Tensor, Conv2dParams) -> candle_core::Result<Tensor>;

/// Response and both gradients of Σ y · cotangent.
fn run(conv: Conv, x: &Var, w: &Var, p: Conv2dParams) -> [Tensor; 3] {
    let y = conv(x.as_tensor(), w.as_tensor(), p).unwrap();
    let cotangent = tensor(99, y.dims(), y.dtype());
    let grads = (&y * cotangent)
        .unwrap()
        .sum_all()
        .unwrap()
        .backward()
        .unwrap();
    [
        y,
        grads.get(x).unwrap().clone(),
        grads.get(w).unwrap().clone(),
    ]
}

/// (N, C, H, W, O, KH, KW, stride, padding)
const CASES: &[[usize; 9]] = &[
    [1, 1, 1, 1, 1, 1, 1, 1, 0],
    [2, 3, 8, 8, 5, 3, 3, 1, 1],
    [3, 4, 8, 9, 7, 3, 3, 2, 1],
    [2, 2, 9, 7, 6, 3, 3, 2, 1],
    [2, 5, 16, 16, 33, 3, 3, 1, 1],
    [20, 6, 5, 6, 4, 1, 1, 2, 0],
    [2, 3, 7, 11, 4, 2, 5, 3, 2],
    [1, 2, 6, 6, 3, 3, 3, 1, 0],
    [2, 2, 5, 5, 3, 1, 1, 1, 2],
    [2, 3, 4, 4, 2, 3, 3, 2, 4],
    [17, 3, 12, 28, 16, 3, 3, 1, 1],
    [2, 2, 3, 3, 2, 2, 2, 5, 3],
];

#[test]
fn agrees_with_the_tensor_version_in_f64() {
    for &[n, c, h, w, o, kh, kw, s, p] in CASES {
        let x = Var::from_tensor(&tensor(1, &[n, c, h, w], DType::F64)).unwrap();
        let k = Var::from_tensor(&tensor(2, &[o, c, kh, kw], DType::F64)).unwrap();
        let params = Conv2dParams::new().stride(s).padding(p);
        let fast = run(conv2d, &x, &k, params);
        let slow = run(conv2d_by_tensor_ops, &x, &k, params);
        for (what, (a, b)) in ["y", "dx", "dw"].iter().zip(fast.iter().zip(&slow)) {
            let d = gap(a, b);
            assert!(
                d < 1e-12 * (n * h * w) as f64,
                "{what} differs by {d:e} in {n} {c} {h} {w} {o} {kh} {kw} {s} {p}"
            );
        }
    }
}

#[test]
fn agrees_with_candle_in_f32() {
    for &[n, c, h, w, o, kh, kw, s, p] in CASES {
        // Candle's own backward pass refuses sizes that the stride does not divide exactly.
        let fits = (h + 2 * p - kh) % s == 0 && (w + 2 * p - kw) % s == 0;
        let x = Var::from_tensor(&tensor(1, &[n, c, h, w], DType::F32)).unwrap();
        let k = Var::from_tensor(&tensor(2, &[o, c, kh, kw], DType::F32)).unwrap();
        let params = Conv2dParams::new().stride(s).padding(p);
        let native: Conv = |x, w, p| x.conv2d(w, p.padding, p.stride, 1, 1);
        let fast = run(conv2d, &x, &k, params);
        if fits {
            let slow = run(native, &x, &k, params);
            for (what, (a, b)) in ["y", "dx", "dw"].iter().zip(fast.iter().zip(&slow)) {
                let d = gap(a, b);
                assert!(d < 2e-4, "{what} differs by {d:e}");
            }
        } else {
            let y = native(x.as_tensor(), k.as_tensor(), params).unwrap();
            assert!(gap(&fast[0], &y) < 2e-5);
        }
    }
}

#[test]
fn gradients_are_the_differences_of_the_loss() {
    let params = Conv2dParams::new().stride(2).padding(1);
    let (x0, k0) = (
        tensor(5, &[2, 2, 5, 6], DType::F64),
        tensor(6, &[3, 2, 3, 3], DType::F64),
    );
    let x = Var::from_tensor(&x0).unwrap();
    let k = Var::from_tensor(&k0).unwrap();
    // A loss that is not linear in y, so that the incoming gradient varies.
    let loss = |x: &Tensor, k: &Tensor| {
        conv2d(x, k, params)
            .unwrap()
            .sqr()
            .unwrap()
            .sum_all()
            .unwrap()
    };
    let grads = loss(x.as_tensor(), k.as_tensor()).backward().unwrap();
    let step = 1e-5;
    for (var, base, other_is_kernel) in [(&x, &x0, true), (&k, &k0, false)] {
        let exact = grads
            .get(var)
            .unwrap()
            .flatten_all()
            .unwrap()
            .to_vec1::<f64>()
            .unwrap();
        let values = base.flatten_all().unwrap().to_vec1::<f64>().unwrap();
        for i in (0..values.len()).step_by(5) {
            let at = |delta: f64| {
                let mut v = values.clone();
                v[i] += delta;
                let t = Tensor::from_vec(v, base.shape(), &Device::Cpu).unwrap();
                let l = if other_is_kernel {
                    loss(&t, &k0)
                } else {
                    loss(&x0, &t)
                };
                l.to_scalar::<f64>().unwrap()
            };
            let numeric = (at(step) - at(-step)) / (2.0 * step);
            assert!(
                (numeric - exact[i]).abs() < 1e-7 * (1.0 + numeric.abs()),
                "{numeric} against {}",
                exact[i]
            );
        }
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let x = Var::from_tensor(&tensor(1, &[37, 3, 9, 9], DType::F32)).unwrap();
    let k = Var::from_tensor(&tensor(2, &[10, 3, 3, 3], DType::F32)).unwrap();
    let params = Conv2dParams::new().padding(1);
    let bits = |threads: usize| -> Vec<u32> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let tensors = pool.install(|| run(conv2d, &x, &k, params));
        tensors
            .iter()
            .flat_map(|t| t.flatten_all().unwrap().to_vec1::<f32>().unwrap())
            .map(f32::to_bits)
            .collect()
    };
    let one = bits(1);
    assert_eq!(one, bits(2));
    assert_eq!(one, bits(5));
}

#[test]
fn views_are_as_good_as_copies() {
    let x = tensor(1, &[2, 8, 8, 3], DType::F32)
        .permute((0, 3, 1, 2))
        .unwrap();
    let k = tensor(2, &[4, 3, 3, 3], DType::F32);
    let a = conv2d(&x, &k, Conv2dParams::new()).unwrap();
    let b = conv2d(&x.copy().unwrap(), &k, Conv2dParams::new()).unwrap();
    assert_eq!(gap(&a, &b), 0.0);
}

#[test]
fn wrong_shapes_are_named() {
    let x = tensor(1, &[2, 3, 4, 4], DType::F32);
    let k = tensor(2, &[4, 2, 3, 3], DType::F32);
    let said = conv2d(&x, &k, Conv2dParams::new()).unwrap_err().to_string();
    assert!(
        said.contains("3 channels") && said.contains("kernel 2"),
        "{said}"
    );
    let k = tensor(2, &[4, 3, 5, 5], DType::F32);
    assert!(conv2d(&x, &k, Conv2dParams::new()).is_err());
    assert!(conv2d(&x, &k, Conv2dParams::new().padding(1).stride(0)).is_err());
    assert!(conv2d(&x, &k, Conv2dParams::new().padding(1)).is_ok());
}
