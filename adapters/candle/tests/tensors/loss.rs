//! Losses at their edges.

use candle_core::{DType, Device, Tensor, Var};
use earthmover_candle::ops::{cross_entropy, log_softmax, log_sum_exp, soft_cross_entropy};

use crate::common::{gap, tensor};

const LOW: f64 = f64::NEG_INFINITY;

#[test]
fn rows_of_minus_infinity_stay_so() {
    let z = Tensor::new(
        &[[LOW, LOW, LOW], [1.0, LOW, 1.0], [1e3, -1e3, 0.0]],
        &Device::Cpu,
    )
    .unwrap();
    let sums = log_sum_exp(&z)
        .unwrap()
        .flatten_all()
        .unwrap()
        .to_vec1::<f64>()
        .unwrap();
    assert_eq!(sums[0], LOW);
    assert!((sums[1] - (1.0 + 2f64.ln())).abs() < 1e-15);
    assert_eq!(sums[2], 1e3);
    let p = log_softmax(&z).unwrap().to_vec2::<f64>().unwrap();
    assert_eq!(p[0], [LOW; 3]);
    assert_eq!(p[1][1], LOW);
}

#[test]
fn soft_targets_on_one_class_are_hard_targets() {
    let z = Var::from_tensor(&tensor(1, &[4, 3], DType::F64)).unwrap();
    let classes = Tensor::new(&[2u32, 0, 1, 1], &Device::Cpu).unwrap();
    let one_hot = Tensor::new(
        &[[0., 0., 1.], [1., 0., 0.], [0., 1., 0.], [0., 1., 0.]],
        &Device::Cpu,
    )
    .unwrap();
    let hard = cross_entropy(z.as_tensor(), &classes).unwrap();
    let soft = soft_cross_entropy(z.as_tensor(), &one_hot).unwrap();
    assert!(gap(&hard, &soft) < 1e-15);
    let grad = |l: &Tensor| {
        l.sum_all()
            .unwrap()
            .backward()
            .unwrap()
            .get(&z)
            .unwrap()
            .clone()
    };
    assert!(gap(&grad(&hard), &grad(&soft)) < 1e-15);
    // d/dz = softmax − target.
    let expected =
        (log_softmax(&z.as_detached_tensor()).unwrap().exp().unwrap() - one_hot).unwrap();
    assert!(gap(&grad(&hard), &expected) < 1e-15);
}

#[test]
fn a_row_of_weight_w_pulls_with_weight_w_and_targets_get_no_gradient() {
    let z = Var::from_tensor(&tensor(1, &[2, 3], DType::F64)).unwrap();
    let q =
        Var::from_tensor(&Tensor::new(&[[0.2, 0.1, 0.0], [0.0, 0.0, 0.0]], &Device::Cpu).unwrap())
            .unwrap();
    let loss = soft_cross_entropy(z.as_tensor(), q.as_tensor())
        .unwrap()
        .sum_all()
        .unwrap();
    let grads = loss.backward().unwrap();
    assert!(grads.get(&q).is_none());
    let p = log_softmax(&z.as_detached_tensor()).unwrap().exp().unwrap();
    let mass = Tensor::new(&[[0.3], [0.0]], &Device::Cpu).unwrap();
    let expected = (p.broadcast_mul(&mass).unwrap() - q.as_detached_tensor()).unwrap();
    assert!(gap(grads.get(&z).unwrap(), &expected) < 1e-15);
}

#[test]
fn an_impossible_class_that_nobody_asks_for_costs_nothing() {
    let z = Var::from_tensor(&Tensor::new(&[[0.0, LOW, 0.0]], &Device::Cpu).unwrap()).unwrap();
    let q = Tensor::new(&[[0.5, 0.0, 0.5]], &Device::Cpu).unwrap();
    let loss = soft_cross_entropy(z.as_tensor(), &q).unwrap();
    assert!((loss.to_vec1::<f64>().unwrap()[0] - 2f64.ln()).abs() < 1e-15);
    let g = loss
        .sum_all()
        .unwrap()
        .backward()
        .unwrap()
        .get(&z)
        .unwrap()
        .to_vec2::<f64>()
        .unwrap();
    assert!(g[0].iter().all(|g| g.abs() < 1e-15), "{g:?}");
}

#[test]
fn wrong_shapes_are_refused() {
    let z = tensor(1, &[2, 3], DType::F64);
    assert!(cross_entropy(&z, &Tensor::new(&[0u32], &Device::Cpu).unwrap()).is_err());
    assert!(cross_entropy(&z, &Tensor::new(&[0u32, 3], &Device::Cpu).unwrap()).is_err());
    assert!(soft_cross_entropy(&z, &tensor(1, &[3, 2], DType::F64)).is_err());
}
