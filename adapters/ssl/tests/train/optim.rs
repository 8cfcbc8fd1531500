//! Descent, rates, averages and clipping, step by step against figures recorded from PyTorch.

use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Tensor};
use earthmover_ssl::nn::ops::cross_entropy;
use earthmover_ssl::nn::optim::{
    AdamW, Ema, LearningRate, Momentum, Schedule, Sgd, clip_gradients,
};
use earthmover_ssl::nn::{
    Classifier, Decay, DeviceError, Init, Mode, NnError, Parameter, SmallCnn, Store, load_tensors,
    save_tensors,
};

use crate::tensors::{assert_near, figures, gap, numbers, tensor, wave};

/// Two parameters and nothing to compute: a weight that decays and a bias that does not.
struct Pair(Store);

impl Pair {
    fn new() -> Self {
        let mut store = Store::new(0, DType::F64, &Device::Cpu);
        let zero = Init::Constant(0.0);
        let weight = store
            .parameter("weight", &[2, 3], zero, Decay::Decayed)
            .unwrap();
        let bias = store.parameter("bias", &[3], zero, Decay::Spared).unwrap();
        weight.set(&wave(&[2, 3], 1.0, 1.0)).unwrap();
        bias.set(&wave(&[3], 2.0, 1.0)).unwrap();
        Self(store)
    }

    fn get(&self, name: &str) -> &Parameter {
        self.parameters().iter().find(|p| p.name == name).unwrap()
    }

    /// A gradient store holding exactly these: those of Σ p·g.
    fn gradients(&self, weight: &Tensor, bias: &Tensor) -> GradStore {
        let term = |name: &str, g: &Tensor| {
            (self.get(name).var.as_tensor() * g)
                .unwrap()
                .sum_all()
                .unwrap()
        };
        (term("weight", weight) + term("bias", bias))
            .unwrap()
            .backward()
            .unwrap()
    }
}

impl Classifier for Pair {
    fn forward(&self, x: &Tensor, _: Mode) -> candle_core::Result<Tensor> {
        Ok(x.clone())
    }
    fn store(&self) -> &Store {
        &self.0
    }
    fn classes(&self) -> usize {
        1
    }
}

#[test]
fn descent_rate_and_average_follow_pytorch() {
    let figures = figures();
    for (name, momentum) in [
        ("nesterov", Momentum::Nesterov(0.9)),
        ("heavy", Momentum::Heavy(0.9)),
        ("plain", Momentum::None),
    ] {
        let pair = Pair::new();
        let mut sgd = Sgd::new().momentum(momentum).weight_decay(5e-4);
        let rate = LearningRate::new(0.03, Schedule::Cosine { total: 10 });
        let mut average = Ema::new(0.9, &pair).unwrap();
        for (t, step) in figures[name].as_array().unwrap().iter().enumerate() {
            let eta = rate.at(t as u64);
            assert!(
                (eta - step["rate"].as_f64().unwrap()).abs() < 1e-16,
                "{name} {t}"
            );
            let weight = wave(&[2, 3], 0.3 * t as f64 + 3.0, 2.0);
            let bias = wave(&[3], 0.5 * t as f64 + 4.0, 2.0);
            sgd.step(pair.parameters(), &pair.gradients(&weight, &bias), eta)
                .unwrap();
            average.update(&pair).unwrap();
            for part in ["weight", "bias"] {
                let what = format!("{name} step {t} {part}");
                assert_near(
                    &what,
                    pair.get(part).var.as_tensor(),
                    &numbers(&step[part]),
                    1e-14,
                );
                let expected = numbers(&step[format!("average_{part}")]);
                assert_near(&what, average.get(part).unwrap(), &expected, 1e-14);
            }
        }
    }
}

#[test]
fn warm_up_follows_pytorch_and_the_end_is_safe() {
    let rate = LearningRate::new(0.03, Schedule::Cosine { total: 20 }).warm_up(5);
    for (t, expected) in numbers(&figures()["warm_up"]).into_iter().enumerate() {
        assert!((rate.at(t as u64) - expected).abs() < 1e-16, "{t}");
    }
    assert!((0..1000).all(|t| rate.at(t) >= 0.0));
    assert_eq!(LearningRate::new(0.1, Schedule::Constant).at(12345), 0.1);
    assert!(
        LearningRate::new(f64::NAN, Schedule::Constant)
            .validate()
            .is_err()
    );
}

#[test]
fn clipping_follows_pytorch() {
    let figures = figures();
    for (name, limit) in [("clipped", 1.5), ("not_clipped", 100.0)] {
        let pair = Pair::new();
        let mut gradients = pair.gradients(&wave(&[2, 3], 3.0, 2.0), &wave(&[3], 4.0, 2.0));
        let norm = clip_gradients(pair.parameters(), &mut gradients, limit).unwrap();
        assert!((norm - figures[name]["norm"].as_f64().unwrap()).abs() < 1e-14);
        for part in ["weight", "bias"] {
            let g = gradients.get(pair.get(part).var.as_tensor()).unwrap();
            assert_near(name, g, &numbers(&figures[name][part]), 1e-14);
        }
        assert!(clip_gradients(pair.parameters(), &mut gradients, 0.0).is_err());
    }
}

#[test]
fn settings_out_of_range_are_named() {
    let pair = Pair::new();
    let gradients = pair.gradients(&wave(&[2, 3], 3.0, 2.0), &wave(&[3], 4.0, 2.0));
    let mut wild = Sgd::new().momentum(Momentum::Nesterov(1.5));
    let said = wild
        .step(pair.parameters(), &gradients, 0.1)
        .unwrap_err()
        .to_string();
    assert!(said.contains("momentum is 1.5"), "{said}");
    assert!(
        Sgd::new()
            .weight_decay(-1.0)
            .step(pair.parameters(), &gradients, 0.1)
            .is_err()
    );
    assert!(matches!(
        Ema::new(1.1, &pair),
        Err(NnError::Setting { value: 1.1, .. })
    ));
}

fn train(model: &SmallCnn, sgd: &mut Sgd, average: &mut Ema, steps: std::ops::Range<u64>) {
    let rate = LearningRate::new(0.05, Schedule::Cosine { total: 10 });
    for t in steps {
        let x = tensor(t + 1, &[6, 1, 8, 8], DType::F32);
        let classes = Tensor::new(&[0u32, 1, 2, 0, 1, 2], &Device::Cpu).unwrap();
        let logits = model.forward(&x, Mode::Train).unwrap();
        let loss = cross_entropy(&logits, &classes)
            .unwrap()
            .mean_all()
            .unwrap();
        sgd.step(model.parameters(), &loss.backward().unwrap(), rate.at(t))
            .unwrap();
        average.update(model).unwrap();
    }
}

#[test]
fn a_run_saved_and_resumed_is_the_same_run() {
    let make = |seed| SmallCnn::new(&[4, 6], 1, 3, seed, DType::F32, &Device::Cpu).unwrap();
    let optimiser = || Sgd::new().weight_decay(5e-4);

    let whole = make(1);
    let (mut sgd, mut average) = (optimiser(), Ema::new(0.9, &whole).unwrap());
    train(&whole, &mut sgd, &mut average, 0..6);

    let first = make(1);
    let (mut sgd1, mut average1) = (optimiser(), Ema::new(0.9, &first).unwrap());
    train(&first, &mut sgd1, &mut average1, 0..3);
    let folder = std::env::temp_dir().join(format!("nn_optim_{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let files = ["model", "sgd", "ema"].map(|f| folder.join(f));
    save_tensors(&first.snapshot().unwrap(), &files[0]).unwrap();
    save_tensors(&sgd1.snapshot(), &files[1]).unwrap();
    save_tensors(average1.tensors(), &files[2]).unwrap();

    let second = make(2); // other initial weights: all must come from the files
    let (mut sgd2, mut average2) = (optimiser(), Ema::new(0.9, &second).unwrap());
    let load = |i: usize| load_tensors(&files[i], &Device::Cpu).unwrap();
    average2.restore(&second, &load(2)).unwrap();
    second.restore(&load(0)).unwrap();
    sgd2.restore(second.parameters(), &load(1)).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    train(&second, &mut sgd2, &mut average2, 3..6);

    let (a, b) = (whole.snapshot().unwrap(), second.snapshot().unwrap());
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    for (name, t) in &a {
        assert_eq!(gap(t, &b[name]), 0.0, "{name}");
        assert_eq!(
            gap(&average.tensors()[name], &average2.tensors()[name]),
            0.0,
            "{name}"
        );
    }
    for (name, v) in sgd.snapshot() {
        assert_eq!(gap(&v, &sgd2.snapshot()[&name]), 0.0, "{name}");
    }
}

#[test]
fn the_average_is_lent_and_taken_back() {
    let model = SmallCnn::new(&[4], 1, 3, 1, DType::F32, &Device::Cpu).unwrap();
    let mut average = Ema::new(0.5, &model).unwrap();
    train(&model, &mut Sgd::new(), &mut average, 0..2);
    let before = model.snapshot().unwrap();
    let x = tensor(9, &[4, 1, 8, 8], DType::F32);
    let own = model.forward(&x, Mode::Evaluate).unwrap();
    let lent = average
        .applied(&model, |m| Ok(m.forward(&x, Mode::Evaluate)?))
        .unwrap();
    assert!(gap(&own, &lent) > 0.0);
    let failed: Result<(), NnError> = average.applied(&model, |_| {
        Err(DeviceError::UnknownDevice { name: "x".into() }.into())
    });
    assert!(failed.is_err());
    for (name, t) in model.snapshot().unwrap() {
        assert_eq!(gap(&t, &before[&name]), 0.0, "{name}");
    }
    // Statistics are those of the last update, copied and not averaged.
    for b in model.buffers() {
        assert_eq!(gap(average.get(&b.name).unwrap(), b.var.as_tensor()), 0.0);
    }
}

#[test]
fn a_checkpoint_that_does_not_fit_is_named() {
    let model = SmallCnn::new(&[4], 1, 3, 1, DType::F32, &Device::Cpu).unwrap();
    let wider = SmallCnn::new(&[5], 1, 3, 1, DType::F32, &Device::Cpu).unwrap();
    let error = model.restore(&wider.snapshot().unwrap()).unwrap_err();
    assert!(matches!(error, NnError::TensorMismatch { .. }), "{error}");
    let mut partial = model.snapshot().unwrap();
    partial.remove("norm1.running_var");
    let said = model.restore(&partial).unwrap_err().to_string();
    assert!(said.contains("norm1.running_var"), "{said}");
}

#[test]
fn adam_follows_its_formula_and_goes_on_after_a_pause() {
    let (g1, g2) = (wave(&[2, 3], 0.3, 2.0), wave(&[2, 3], 1.3, 0.5));
    let still = wave(&[3], 0.0, 0.0);
    let (rate, decay, pair) = (0.01, 0.1, Pair::new());
    let start = pair.get("weight").var.as_detached_tensor();
    let mut expected = start.flatten_all().unwrap().to_vec1::<f64>().unwrap();
    let (mut m, mut v) = (vec![0.0; 6], vec![0.0; 6]);
    let mut adam = AdamW::new().weight_decay(decay);
    for (t, g) in [&g1, &g2, &g1].into_iter().enumerate() {
        let g_values = g.flatten_all().unwrap().to_vec1::<f64>().unwrap();
        for i in 0..6 {
            m[i] = 0.9 * m[i] + 0.1 * g_values[i];
            v[i] = 0.999 * v[i] + 0.001 * g_values[i] * g_values[i];
            let (a, b) = (
                m[i] / (1.0 - 0.9f64.powi(t as i32 + 1)),
                v[i] / (1.0 - 0.999f64.powi(t as i32 + 1)),
            );
            expected[i] -= rate * decay * expected[i];
            expected[i] -= rate * a / (b.sqrt() + 1e-8);
        }
        let gradients = pair.gradients(g, &still);
        adam.step(pair.parameters(), &gradients, &|_| rate).unwrap();
        // Saved and restored between any two steps.
        let saved = adam.snapshot().unwrap();
        adam = AdamW::new().weight_decay(decay);
        adam.restore(pair.parameters(), &saved).unwrap();
    }
    assert_near(
        "weight",
        pair.get("weight").var.as_tensor(),
        &expected,
        1e-12,
    );
    let refused = AdamW::new().weight_decay(-1.0).step(
        pair.parameters(),
        &pair.gradients(&g1, &still),
        &|_| rate,
    );
    assert!(refused.is_err());
}
