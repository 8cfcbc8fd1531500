//! The networks: sizes, initial weights, modes, and one step of a wide ResNet against PyTorch.

use candle_core::{DType, Device, Tensor};
use earthmover_ssl::nn::ops::{cross_entropy, soft_cross_entropy};
use earthmover_ssl::nn::{Classifier, Decay, Mlp, Mode, NnError, SmallCnn, WideResNet};

use crate::tensors::{assert_near, figures, gap, numbers, tensor, wave};

fn wide(depth: usize, width: usize, classes: usize) -> WideResNet {
    WideResNet::new(depth, width, 3, classes, 7, DType::F32, &Device::Cpu).unwrap()
}

/// Counted by hand from the description: convolutions, two numbers per normalised channel, the head.
fn count(depth: usize, width: usize, classes: usize) -> usize {
    let n = (depth - 4) / 6;
    let (mut total, mut inputs) = (3 * 16 * 9, 16);
    for group in 0..3 {
        let w = (16 * width) << group;
        for index in 0..n {
            total += 9 * inputs * w + 9 * w * w + 2 * inputs + 2 * w;
            if index == 0 && inputs != w {
                total += inputs * w;
            }
            inputs = w;
        }
    }
    total + 2 * inputs + inputs * classes + classes
}

#[test]
fn parameters_are_as_many_as_published() {
    let small = wide(28, 2, 10).parameter_count();
    assert_eq!(small, count(28, 2, 10));
    assert_eq!((small as f64 / 1e4).round() / 100.0, 1.47);
    let large = wide(28, 8, 100).parameter_count();
    assert_eq!(large, count(28, 8, 100));
    assert_eq!((large as f64 / 1e5).round() / 10.0, 23.4);
}

#[test]
fn one_step_of_a_wide_resnet_follows_pytorch() {
    let expected = &figures()["network"];
    let model = WideResNet::new(10, 1, 3, 4, 0, DType::F64, &Device::Cpu).unwrap();
    let names: Vec<&str> = model.parameters().iter().map(|p| p.name.as_str()).collect();
    let recorded: Vec<&String> = expected["gradients"].as_object().unwrap().keys().collect();
    assert_eq!(names, recorded);
    for (k, p) in model.parameters().iter().enumerate() {
        let offset = f64::from(p.name.contains("norm") && p.name.ends_with("weight"));
        let value = (wave(p.var.dims(), k as f64, 0.3) + offset).unwrap();
        p.var.set(&value).unwrap();
    }
    let x = wave(&[5, 3, 8, 8], 0.5, 1.0);
    let logits = model.forward(&x, Mode::Train).unwrap();
    assert_near("logits", &logits, &numbers(&expected["logits"]), 1e-10);

    let classes = Tensor::new(&[1u32, 3], &Device::Cpu).unwrap();
    let targets = Tensor::new(
        &[
            [0.5, 0.1, 0.0, 0.2],
            [0.0, 0.0, 0.0, 0.0],
            [0.0, 1.0, 0.0, 0.0],
        ],
        &Device::Cpu,
    )
    .unwrap();
    let hard = cross_entropy(&logits.narrow(0, 0, 2).unwrap(), &classes).unwrap();
    let hard = hard.mean_all().unwrap();
    let soft = soft_cross_entropy(&logits.narrow(0, 2, 3).unwrap(), &targets).unwrap();
    let soft = soft.mean_all().unwrap();
    assert_near("hard", &hard, &numbers(&expected["hard"]), 1e-10);
    assert_near("soft", &soft, &numbers(&expected["soft"]), 1e-10);

    let gradients = (hard + (soft * 0.7).unwrap()).unwrap().backward().unwrap();
    for p in model.parameters() {
        let g = gradients.get(p.var.as_tensor()).unwrap();
        let probe = (g * wave(p.var.dims(), 0.9, 1.0))
            .unwrap()
            .sum_all()
            .unwrap();
        let size = g.abs().unwrap().sum_all().unwrap();
        let found = Tensor::stack(&[probe, size], 0).unwrap();
        assert_near(
            &p.name,
            &found,
            &numbers(&expected["gradients"][&p.name]),
            1e-9,
        );
    }
    for b in model.buffers() {
        let probe = (b.var.as_tensor() * wave(b.var.dims(), 0.9, 1.0)).unwrap();
        let found = probe.sum_all().unwrap();
        assert_near(
            &b.name,
            &found,
            &numbers(&expected["buffers"][&b.name]),
            1e-12,
        );
    }
    let evaluated = model.forward(&x, Mode::Evaluate).unwrap();
    assert_near(
        "evaluated",
        &evaluated,
        &numbers(&expected["evaluated"]),
        1e-10,
    );
}

#[test]
fn only_matrices_and_kernels_decay() {
    for p in wide(16, 1, 10).parameters() {
        let decays = p.decay == Decay::Decayed;
        assert_eq!(decays, p.var.rank() > 1, "{}", p.name);
    }
}

#[test]
fn initial_weights_have_the_stated_spread_and_the_seed_decides() {
    let model = wide(28, 2, 10);
    let again = wide(28, 2, 10);
    let other = WideResNet::new(28, 2, 3, 10, 8, DType::F32, &Device::Cpu).unwrap();
    for ((p, q), r) in model
        .parameters()
        .iter()
        .zip(again.parameters())
        .zip(other.parameters())
    {
        assert_eq!(gap(p.var.as_tensor(), q.var.as_tensor()), 0.0);
        if p.decay == Decay::Spared {
            continue;
        }
        assert!(gap(p.var.as_tensor(), r.var.as_tensor()) > 0.0);
        let dims = p.var.dims();
        let variance = match dims {
            [o, _, kh, kw] => 2.0 / (o * kh * kw) as f64,
            _ => 2.0 / (dims[0] + dims[1]) as f64,
        };
        let values = p.var.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let n = values.len() as f64;
        let second = values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / n;
        // The second moment of n normal draws has relative deviation √(2/n); five of them.
        assert!(
            (second / variance - 1.0).abs() < 5.0 * (2.0 / n).sqrt(),
            "{}",
            p.name
        );
    }
}

#[test]
fn modes_differ_as_they_say() {
    let model = wide(10, 1, 3);
    let x = tensor(1, &[4, 3, 8, 8], DType::F32);
    let start = model.snapshot().unwrap();
    let kept = model.forward(&x, Mode::TrainKeepingStatistics).unwrap();
    for (name, t) in model.snapshot().unwrap() {
        assert_eq!(gap(&t, &start[&name]), 0.0, "{name}");
    }
    let trained = model.forward(&x, Mode::Train).unwrap();
    assert_eq!(gap(&kept, &trained), 0.0);
    for b in model.buffers() {
        assert!(gap(b.var.as_tensor(), &start[&b.name]) > 0.0, "{}", b.name);
    }
    let evaluated = model.forward(&x, Mode::Evaluate).unwrap();
    assert!(gap(&evaluated, &trained) > 0.0);
    // Evaluation looks at one image at a time: the company does not matter.
    let alone = model
        .forward(&x.narrow(0, 1, 1).unwrap(), Mode::Evaluate)
        .unwrap();
    assert!(gap(&alone, &evaluated.narrow(0, 1, 1).unwrap()) < 1e-5);
}

#[test]
fn small_networks_learn_a_rule() {
    // Which half of the image is brighter.
    let x = tensor(3, &[64, 1, 8, 8], DType::F32);
    let halves = |from| x.narrow(3, from, 4).unwrap().sum((1, 2, 3)).unwrap();
    let classes = halves(0)
        .gt(&halves(4))
        .unwrap()
        .to_dtype(DType::U32)
        .unwrap();
    let networks: [Box<dyn Classifier>; 2] = [
        Box::new(SmallCnn::new(&[8, 8, 16], 1, 2, 0, DType::F32, &Device::Cpu).unwrap()),
        Box::new(Mlp::new(64, &[32], 2, 0, DType::F32, &Device::Cpu).unwrap()),
    ];
    for model in networks {
        let mut sgd = earthmover_ssl::nn::optim::Sgd::new();
        let mut losses = Vec::new();
        for _ in 0..60 {
            let logits = model.forward(&x, Mode::Train).unwrap();
            let loss = cross_entropy(&logits, &classes)
                .unwrap()
                .mean_all()
                .unwrap();
            losses.push(loss.to_scalar::<f32>().unwrap());
            sgd.step(model.parameters(), &loss.backward().unwrap(), 0.05)
                .unwrap();
        }
        assert!(
            losses[59] < 0.5 * losses[0],
            "{} to {}",
            losses[0],
            losses[59]
        );
    }
}

#[test]
fn impossible_networks_are_named() {
    let error = WideResNet::new(27, 2, 3, 10, 0, DType::F32, &Device::Cpu).unwrap_err();
    assert!(
        matches!(error, NnError::Architecture { value: 27, .. }),
        "{error}"
    );
    assert!(WideResNet::new(28, 0, 3, 10, 0, DType::F32, &Device::Cpu).is_err());
    assert!(SmallCnn::new(&[], 1, 10, 0, DType::F32, &Device::Cpu).is_err());
    assert!(SmallCnn::new(&[4, 0], 1, 10, 0, DType::F32, &Device::Cpu).is_err());
    assert!(Mlp::new(0, &[4], 10, 0, DType::F32, &Device::Cpu).is_err());
}
