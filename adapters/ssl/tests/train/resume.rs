//! A run that is stopped and gone on with is the run that was never stopped.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use candle_core::{DType, Device, Tensor};
use earthmover_ssl::data::{Dataset, digits};
use earthmover_ssl::methods::{MethodName, MethodSpec};
use earthmover_ssl::nn::{Classifier, Init, Linear, Mode, Store};
use earthmover_ssl::rng::Rng;
use earthmover_ssl::trainer::{
    Ending, ModelSpec, Recorded, Settings, StepRecord, TrainError, Trainer, Watch,
};

const STEPS: u64 = 24;

fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn settings(method: MethodName) -> Settings {
    Settings {
        model: ModelSpec::Cnn(vec![4, 8]),
        method: MethodSpec::of(method),
        steps: STEPS,
        batch: 8,
        ratio: 3,
        evaluate_every: 8,
        checkpoint_every: 5,
        ..Settings::default()
    }
}

fn data() -> Arc<Dataset> {
    digits::load().unwrap().into()
}

/// Asks for a stop after some step.
struct StopAfter<'a> {
    step: u64,
    stop: &'a AtomicBool,
}

impl Watch for StopAfter<'_> {
    fn step(&mut self, record: &StepRecord, _: u64) {
        if record.step + 1 == self.step {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Weights, average and logs (without the clock's columns) as text.
fn fingerprint(trainer: &Trainer, folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let own = trainer.model().snapshot().unwrap();
    for (name, tensor) in own.iter().chain(trainer.average().tensors()) {
        let values = tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let bits: Vec<u32> = values.iter().map(|v| v.to_bits()).collect();
        all.push(format!("{name} {bits:x?}"));
    }
    let recorded = Recorded::read(folder).unwrap();
    for mut step in recorded.steps {
        step.seconds = 0.0;
        step.allocation_seconds = 0.0;
        all.push(format!("{step:?}"));
    }
    all.extend(recorded.evaluations.iter().map(|e| format!("{e:?}")));
    all.extend(recorded.classes.iter().map(|c| format!("{c:?}")));
    all
}

#[test]
fn resumed_runs_are_the_same_bit_for_bit() {
    let data = data();
    let mut rng = Rng::new(42);
    for method in MethodName::ALL {
        let settings = settings(method);
        let whole = folder(&format!("whole-{method}"));
        let mut a = Trainer::new(settings.clone(), data.clone(), Some(&whole)).unwrap();
        let never = AtomicBool::new(false);
        assert_eq!(a.run(&never, &mut ()).unwrap(), Ending::Finished);

        let parts = folder(&format!("parts-{method}"));
        let mut b = Trainer::new(settings.clone(), data.clone(), Some(&parts)).unwrap();
        let at = 1 + rng.below(STEPS as usize - 2) as u64;
        let stop = AtomicBool::new(false);
        let mut watch = StopAfter {
            step: at,
            stop: &stop,
        };
        assert_eq!(b.run(&stop, &mut watch).unwrap(), Ending::Stopped);
        assert_eq!(b.steps_done(), at);
        drop(b);
        let mut b = Trainer::resume(settings, data.clone(), &parts).unwrap();
        assert_eq!(b.steps_done(), at);
        assert_eq!(b.run(&never, &mut ()).unwrap(), Ending::Finished);
        assert_eq!(
            fingerprint(&a, &whole),
            fingerprint(&b, &parts),
            "{method}, cut at {at}"
        );
    }
}

#[test]
fn a_killed_run_goes_on_from_its_last_checkpoint_and_its_logs_do_not_repeat() {
    // As SIGKILL leaves it: logs of step 13, newest checkpoint of step 10, half of another one.
    let data = data();
    let settings = settings(MethodName::Sla);
    let whole = folder("kill-whole");
    let never = AtomicBool::new(false);
    let mut a = Trainer::new(settings.clone(), data.clone(), Some(&whole)).unwrap();
    a.run(&never, &mut ()).unwrap();

    let parts = folder("kill-parts");
    let mut b = Trainer::new(settings.clone(), data.clone(), Some(&parts)).unwrap();
    let stop = AtomicBool::new(false);
    b.run(
        &stop,
        &mut StopAfter {
            step: 13,
            stop: &stop,
        },
    )
    .unwrap();
    drop(b);
    std::fs::remove_dir_all(parts.join("checkpoints/step-00000013")).unwrap();
    std::fs::create_dir(parts.join("checkpoints/.step-00000015")).unwrap();
    std::fs::write(
        parts.join("checkpoints/.step-00000015/model.safetensors"),
        b"half",
    )
    .unwrap();
    let mut b = Trainer::resume(settings, data, &parts).unwrap();
    assert_eq!(b.steps_done(), 10);
    b.run(&never, &mut ()).unwrap();
    assert_eq!(fingerprint(&a, &whole), fingerprint(&b, &parts));
}

#[test]
fn only_the_newest_checkpoints_stay() {
    let path = folder("keep");
    let mut trainer = Trainer::new(settings(MethodName::Fixmatch), data(), Some(&path)).unwrap();
    trainer.run(&AtomicBool::new(false), &mut ()).unwrap();
    let mut names: Vec<String> = std::fs::read_dir(path.join("checkpoints"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["step-00000020", "step-00000024"]);
}

#[test]
fn damaged_checkpoints_and_other_settings_are_refused() {
    let path = folder("damaged");
    let settings = settings(MethodName::Sla);
    let mut trainer = Trainer::new(settings.clone(), data(), Some(&path)).unwrap();
    let stop = AtomicBool::new(false);
    trainer
        .run(
            &stop,
            &mut StopAfter {
                step: 7,
                stop: &stop,
            },
        )
        .unwrap();

    let other = Settings {
        learning_rate: 0.5,
        ..settings.clone()
    };
    let refused = Trainer::resume(other, data(), &path).unwrap_err();
    assert!(
        matches!(&refused, TrainError::OtherSettings { field, .. } if field == "learning_rate")
    );

    for name in [
        "model.safetensors",
        "average.safetensors",
        "optimiser.safetensors",
        "method.bin",
    ] {
        let file = path.join("checkpoints/step-00000007").join(name);
        let good = std::fs::read(&file).unwrap();
        std::fs::write(&file, &good[..good.len() - 3]).unwrap();
        let refused = Trainer::resume(settings.clone(), data(), &path).unwrap_err();
        assert!(matches!(refused, TrainError::Damaged { .. }), "{refused}");
        assert!(refused.to_string().contains(name), "{refused}");
        std::fs::write(&file, &good).unwrap();
    }
    std::fs::write(path.join("checkpoints/step-00000007/state.json"), "{").unwrap();
    let refused = Trainer::resume(settings, data(), &path).unwrap_err();
    assert!(refused.to_string().contains("state.json"), "{refused}");
}

/// A network of a user's own: one linear map of the pixels.
struct Logistic {
    store: Store,
    map: Linear,
}

impl Logistic {
    fn boxed(seed: u64) -> Box<dyn Classifier> {
        let mut store = Store::new(seed, DType::F32, &Device::Cpu);
        let map = Linear::new(&mut store, "map", 64, 10, Init::linear(64, 10)).unwrap();
        Box::new(Self { store, map })
    }
}

impl Classifier for Logistic {
    fn forward(&self, x: &Tensor, _: Mode) -> candle_core::Result<Tensor> {
        self.map.forward(&x.flatten_from(1)?)
    }
    fn store(&self) -> &Store {
        &self.store
    }
    fn classes(&self) -> usize {
        10
    }
}

#[test]
fn a_network_of_ones_own_resumes_too() {
    let settings = settings(MethodName::Sla);
    let (whole, parts) = (folder("own-whole"), folder("own-parts"));
    let never = AtomicBool::new(false);
    let mut a =
        Trainer::with_model(settings.clone(), data(), Logistic::boxed(3), Some(&whole)).unwrap();
    a.run(&never, &mut ()).unwrap();

    let stop = AtomicBool::new(false);
    // There is no checkpoint yet: it starts.
    let mut b =
        Trainer::resume_with_model(settings.clone(), data(), Logistic::boxed(3), &parts).unwrap();
    let mut watch = StopAfter {
        step: 11,
        stop: &stop,
    };
    assert_eq!(b.run(&stop, &mut watch).unwrap(), Ending::Stopped);
    drop(b);
    // Other weights at first: the checkpoint's replace them.
    let mut b =
        Trainer::resume_with_model(settings.clone(), data(), Logistic::boxed(9), &parts).unwrap();
    assert_eq!(b.steps_done(), 11);
    b.run(&never, &mut ()).unwrap();
    assert_eq!(fingerprint(&a, &whole), fingerprint(&b, &parts));
    // The network of the settings is another one, and the error names a tensor it lacks.
    let refused = Trainer::resume(settings, data(), &parts).unwrap_err();
    assert!(refused.to_string().contains("no tensor"), "{refused}");
}
