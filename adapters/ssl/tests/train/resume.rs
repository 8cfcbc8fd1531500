//! A run that is stopped and gone on with is the run that was never stopped.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use candle_core::{DType, Device, Tensor};
use earthmover_ssl::data::{Dataset, LabeledSplit, digits};
use earthmover_ssl::methods::{MethodName, MethodSpec};
use earthmover_ssl::nn::{Classifier, Init, Linear, Mode, Store};
use earthmover_ssl::rng::Rng;
use earthmover_ssl::trainer::{
    Ending, ModelSpec, Network, Origin, Recorded, Settings, StepRecord, TrainError, Trainer, Watch,
    labels as trainer_labels,
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

    drop(trainer);
    // The checkpoint of step 5 is whole: whatever is wrong with that of step 7, the run goes on from there, and says so.
    let newest = path.join("checkpoints/step-00000007");
    for name in [
        "model.safetensors",
        "average.safetensors",
        "optimiser.safetensors",
        "method.bin",
        "state.json",
    ] {
        let file = newest.join(name);
        let good = std::fs::read(&file).unwrap();
        for bad in [Some(&good[..good.len() - 3]), None] {
            match bad {
                Some(bytes) => std::fs::write(&file, bytes).unwrap(),
                None => std::fs::remove_file(&file).unwrap(),
            }
            let resumed = Trainer::resume(settings.clone(), data(), &path).unwrap();
            assert_eq!(resumed.steps_done(), 5, "{name}");
            let told = resumed.card().remarks.join(" ");
            assert!(told.contains(name), "{told}");
        }
        std::fs::write(&file, &good).unwrap();
    }
    // A state that parses but was changed, and one of another step.
    let file = newest.join("state.json");
    let good = std::fs::read_to_string(&file).unwrap();
    for (from, to) in [
        ("\"seconds\": ", "\"seconds\": 1"),
        ("\"step\": 7", "\"step\": 6"),
    ] {
        std::fs::write(&file, good.replacen(from, to, 1)).unwrap();
        let resumed = Trainer::resume(settings.clone(), data(), &path).unwrap();
        assert_eq!(resumed.steps_done(), 5);
    }
    std::fs::write(&file, &good).unwrap();
    assert_eq!(
        Trainer::resume(settings.clone(), data(), &path)
            .unwrap()
            .steps_done(),
        7
    );
    // None is whole: the newest's fault is told.
    std::fs::write(&file, "{").unwrap();
    std::fs::write(path.join("checkpoints/step-00000005/state.json"), "{").unwrap();
    let refused = Trainer::resume(settings, data(), &path).unwrap_err();
    assert!(refused.to_string().contains("step-00000007"), "{refused}");
}

#[test]
fn a_run_is_not_replaced_shared_or_gone_on_with_on_other_data() {
    let path = folder("guarded");
    let settings = settings(MethodName::Sla);
    let stop = AtomicBool::new(false);
    let mut trainer = Trainer::new(settings.clone(), data(), Some(&path)).unwrap();
    let mut watch = StopAfter {
        step: 6,
        stop: &stop,
    };
    trainer.run(&stop, &mut watch).unwrap();
    // While somebody works on it, nobody else does.
    let busy = Trainer::resume(settings.clone(), data(), &path).unwrap_err();
    assert!(matches!(busy, TrainError::Busy { .. }), "{busy}");
    assert!(matches!(
        Recorded::discard(&path),
        Err(TrainError::Busy { .. })
    ));
    drop(trainer);
    let exists = Trainer::new(settings.clone(), data(), Some(&path)).unwrap_err();
    assert!(matches!(exists, TrainError::RunExists { .. }), "{exists}");
    let mut other = digits::load().unwrap();
    other.classes[0] = "nought".to_owned();
    let refused = Trainer::resume(settings.clone(), other.into(), &path).unwrap_err();
    assert!(matches!(refused, TrainError::OtherData { .. }), "{refused}");
    // What was meant is done, and leaves other files alone.
    std::fs::write(path.join("notes.txt"), "mine").unwrap();
    Recorded::discard(&path).unwrap();
    assert!(!Recorded::is_run(&path) && path.join("notes.txt").exists());
    Trainer::new(settings, data(), Some(&path)).unwrap();
}

#[test]
fn a_finished_run_goes_on_beyond_its_end() {
    let path = folder("longer");
    let short = settings(MethodName::Sla);
    let never = AtomicBool::new(false);
    let mut trainer = Trainer::new(short.clone(), data(), Some(&path)).unwrap();
    trainer.run(&never, &mut ()).unwrap();
    drop(trainer);
    let longer = Settings {
        steps: STEPS + 8,
        ..short.clone()
    };
    let mut trainer = Trainer::resume(longer.clone(), data(), &path).unwrap();
    assert_eq!(trainer.steps_done(), STEPS);
    assert_eq!(trainer.run(&never, &mut ()).unwrap(), Ending::Finished);
    drop(trainer);
    let recorded = Recorded::read(&path).unwrap();
    assert_eq!(recorded.settings, longer);
    assert_eq!(recorded.steps.len() as u64, STEPS + 8);
    // Shorter is another run.
    assert!(Trainer::resume(short, data(), &path).is_err());
}

#[test]
fn weights_are_readable_by_all_who_may_read_and_tell_how_to_use_them() {
    let path = folder("network");
    let settings = Settings {
        validation: 0.5,
        split: LabeledSplit::new(40),
        ..settings(MethodName::Sla)
    };
    let mut trainer = Trainer::new(settings, data(), Some(&path)).unwrap();
    trainer.run(&AtomicBool::new(false), &mut ()).unwrap();
    assert!(trainer.summary().best.is_some());
    drop(trainer);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let plain = path.join("probe");
        std::fs::write(&plain, "").unwrap();
        let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode();
        assert_eq!(mode(&path.join("model.safetensors")), mode(&plain));
        let checkpoint = path.join("checkpoints/step-00000024/model.safetensors");
        assert_eq!(mode(&checkpoint), mode(&plain));
    }
    let network = Network::open(&path, "cpu").unwrap();
    assert_eq!(network.card().classes.len(), 10);
    assert_eq!(network.card().labeled.iter().sum::<usize>(), 20);
    let digits = data();
    let mut rows = 0;
    network
        .log_probs(&digits.test, &[0, 5, 9], |indices, p| {
            rows += indices.len();
            for row in p.chunks(10) {
                let sum: f32 = row.iter().map(|l| l.exp()).sum();
                assert!((sum - 1.0).abs() < 1e-4);
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(rows, 3);
    let labels = trainer_labels(&path, &digits, "cpu").unwrap();
    assert_eq!(labels.len(), digits.train.len() - 20);
    let given = labels.iter().filter(|l| l.origin == Origin::Given).count();
    assert_eq!(given, 20);
    assert!(
        labels
            .iter()
            .all(|l| l.price.is_some() && (0.0..=1.0).contains(&l.weight))
    );
    // Weights of one run start another, and a network they do not fit is told.
    let weights = path.join("model.safetensors");
    let next = Settings {
        init: Some(weights.clone()),
        ..self::settings(MethodName::Supervised)
    };
    let started = Trainer::new(next.clone(), data(), None).unwrap();
    assert!(started.evaluate().unwrap().is_some());
    let other = Settings {
        model: ModelSpec::Mlp(vec![4]),
        ..next
    };
    // Only the bias of the last layer has the same name and shape.
    let told = Trainer::new(other, data(), None).unwrap();
    let told = told.card().remarks.join(" ");
    assert!(told.contains("1 of 4 tensors start from"), "{told}");
    let missing = Settings {
        init: Some(path.join("nothing.safetensors")),
        ..self::settings(MethodName::Supervised)
    };
    assert!(Trainer::new(missing, data(), None).is_err());
}

#[test]
fn a_device_that_is_not_there_is_refused_and_auto_takes_what_is() {
    let with = |device: &str| {
        let settings = Settings {
            device: device.to_owned(),
            ..settings(MethodName::Supervised)
        };
        Trainer::new(settings, data(), None)
    };
    if !candle_core::utils::cuda_is_available() {
        assert!(matches!(with("cuda:0"), Err(TrainError::Device { .. })));
    }
    assert!(with("auto").is_ok());
    assert!(with("gpu").is_err());
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
