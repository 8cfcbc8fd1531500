//! What a step does, and what a run does when it goes wrong.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use earthmover_ssl::data::{Dataset, SplitMode, digits};
use earthmover_ssl::methods::{MethodName, MethodSpec};
use earthmover_ssl::presets;
use earthmover_ssl::report;
use earthmover_ssl::trainer::{
    Evaluation, Forward, ModelSpec, Recorded, Settings, StepRecord, TrainError, Trainer, Watch,
};

fn data() -> Arc<Dataset> {
    digits::load().unwrap().into()
}

fn small(method: MethodName) -> Settings {
    Settings {
        model: ModelSpec::Cnn(vec![4, 8]),
        method: MethodSpec::of(method),
        steps: 40,
        batch: 8,
        ratio: 3,
        evaluate_every: 20,
        ..Settings::default()
    }
}

#[derive(Default)]
struct Keep {
    steps: Vec<StepRecord>,
    evaluations: Vec<Evaluation>,
}

impl Watch for Keep {
    fn step(&mut self, record: &StepRecord, _: u64) {
        self.steps.push(*record);
    }
    fn evaluation(&mut self, evaluation: &Evaluation) {
        self.evaluations.push(evaluation.clone());
    }
}

fn run(settings: Settings) -> Keep {
    let mut keep = Keep::default();
    let mut trainer = Trainer::new(settings, data(), None).unwrap();
    trainer.run(&AtomicBool::new(false), &mut keep).unwrap();
    keep
}

#[test]
fn every_method_learns_the_labeled_examples() {
    for method in MethodName::ALL {
        for forward in [Forward::Joint, Forward::Separate] {
            let keep = run(Settings {
                forward,
                model: ModelSpec::Mlp(vec![64]),
                learning_rate: 0.1,
                ..small(method)
            });
            assert_eq!(keep.steps.len(), 40);
            let mean = |part: &[StepRecord]| {
                part.iter().map(|r| r.labeled_loss).sum::<f64>() / part.len() as f64
            };
            let (first, last) = (mean(&keep.steps[..5]), mean(&keep.steps[35..]));
            assert!(
                last < 0.7 * first,
                "{method} {forward:?}: {first} to {last}"
            );
        }
    }
}

#[test]
fn allocation_follows_its_schedule() {
    // The constraint is a lower bound n(ρ − μ₊) − 1 on the mass, met to a tolerance of 1% of the total.
    let keep = run(small(MethodName::Sla));
    let n = data().train.len() as f64;
    for record in &keep.steps {
        let rho = record.step as f64 / 39.0;
        assert!(
            record.allocated >= rho - 1.0 / n - 0.025,
            "{record:?} at ρ = {rho}"
        );
    }
}

#[test]
fn the_confusion_matrix_counts_every_test_example() {
    let keep = run(small(MethodName::Supervised));
    let test = data().test.class_counts(10);
    for evaluation in &keep.evaluations {
        for (row, &count) in evaluation.confusion.iter().zip(&test) {
            assert_eq!(row.iter().sum::<u32>() as usize, count);
        }
        let right: u32 = (0..10).map(|i| evaluation.confusion[i][i]).sum();
        let share = f64::from(right) / test.iter().sum::<usize>() as f64;
        assert!((share - evaluation.accuracy).abs() < 1e-12);
    }
    assert_eq!(keep.evaluations.last().unwrap().step, 40);
}

#[test]
fn seeds_decide_everything() {
    let a = run(small(MethodName::Sla));
    let b = run(small(MethodName::Sla));
    let c = run(Settings {
        seed: 2,
        ..small(MethodName::Sla)
    });
    let losses = |k: &Keep| k.steps.iter().map(|r| r.unlabeled_loss).collect::<Vec<_>>();
    assert_eq!(losses(&a), losses(&b));
    assert_ne!(losses(&a), losses(&c));
}

#[test]
fn a_loss_that_is_not_a_number_stops_the_run_and_keeps_the_last_checkpoint() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nan");
    let _ = std::fs::remove_dir_all(&path);
    let good = Settings {
        checkpoint_every: 1,
        ..small(MethodName::Fixmatch)
    };
    let settings = Settings {
        learning_rate: 1e30,
        warm_up: 20,
        ..good
    };
    let mut trainer = Trainer::new(settings, data(), Some(&path)).unwrap();
    let error = trainer.run(&AtomicBool::new(false), &mut ()).unwrap_err();
    let kept = match &error {
        TrainError::NotFinite { checkpoint, .. } | TrainError::BadWeights { checkpoint, .. } => {
            checkpoint
        }
        other => panic!("{other}"),
    };
    assert!(kept.as_ref().unwrap().join("state.json").is_file());
    assert!(
        error.to_string().contains("last good checkpoint"),
        "{error}"
    );
}

#[test]
fn settings_out_of_range_are_refused_before_anything_runs() {
    let refuse = |settings: Settings, word: &str| {
        let error = Trainer::new(settings, data(), None)
            .unwrap_err()
            .to_string();
        assert!(error.contains(word), "{error}");
    };
    let good = || small(MethodName::Sla);
    refuse(Settings { steps: 0, ..good() }, "steps");
    refuse(Settings { batch: 0, ..good() }, "batch");
    refuse(
        Settings {
            lambda: f64::NAN,
            ..good()
        },
        "unlabeled loss",
    );
    refuse(
        Settings {
            learning_rate: -1.0,
            ..good()
        },
        "learning rate",
    );
    refuse(Settings { ema: 1.5, ..good() }, "average");
    refuse(
        Settings {
            device: "tpu".to_owned(),
            ..good()
        },
        "tpu",
    );
    refuse(
        Settings {
            model: ModelSpec::WideResNet {
                depth: 27,
                width: 2,
            },
            ..good()
        },
        "depth",
    );
    let mut few = good();
    few.split.labels = 3;
    refuse(few, "3 labels");
    let mut odd = good();
    odd.split.labels = 25;
    odd.split.mode = SplitMode::Equal;
    refuse(odd, "25 labels");
}

#[test]
fn stored_settings_are_those_given() {
    for name in presets::names() {
        let settings = presets::find(&name).unwrap();
        let text = serde_json::to_string(&settings).unwrap();
        assert_eq!(
            serde_json::from_str::<Settings>(&text).unwrap(),
            settings,
            "{name}"
        );
    }
}

#[test]
fn the_report_shows_every_series_and_nothing_from_outside() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    let _ = std::fs::remove_dir_all(&root);
    for method in [MethodName::Sla, MethodName::Supervised] {
        for seed in [1, 2] {
            let settings = Settings {
                seed,
                ..small(method)
            };
            let folder = root.join(format!("{method}-{seed}"));
            let mut trainer = Trainer::new(settings, data(), Some(&folder)).unwrap();
            trainer.run(&AtomicBool::new(false), &mut ()).unwrap();
        }
    }
    let page = root.join("report.html");
    report::write("Two <methods>", std::slice::from_ref(&root), &page).unwrap();
    let html = std::fs::read_to_string(&page).unwrap();
    for text in [
        "Two &lt;methods&gt;",
        "supervised only",
        "SLA",
        "Dual variables",
        "predicted class",
        "±",
    ] {
        assert!(html.contains(text), "{text}");
    }
    assert!(!html.contains("http") && !html.contains("<script") && !html.contains("NaN"));
    let runs: Vec<Recorded> = report::find_runs(std::slice::from_ref(&root))
        .unwrap()
        .iter()
        .map(|p| Recorded::read(p).unwrap())
        .collect();
    let rows = report::compare(&runs);
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|r| r.errors.len() == 2));

    assert!(report::find_runs(&[root.join("sla-1/checkpoints")]).is_err());
    std::fs::write(root.join("sla-1/steps.csv"), "step,loss\n").unwrap();
    let error = report::write("", std::slice::from_ref(&root), &page).unwrap_err();
    assert!(error.to_string().contains("steps.csv"), "{error}");
}

#[test]
fn a_penalty_changes_the_run_and_only_when_it_is_asked_for() {
    let with = |text: &str| {
        run(Settings {
            method: text.parse().unwrap(),
            model: ModelSpec::Mlp(vec![32]),
            ..small(MethodName::Freematch)
        })
    };
    let losses = |k: &Keep| k.steps.iter().map(|r| r.labeled_loss).collect::<Vec<_>>();
    let (off, zero, on) = (
        with("freematch momentum=0.9"),
        with("freematch momentum=0.9 fairness=0"),
        with("freematch momentum=0.9 fairness=0.05"),
    );
    assert_eq!(losses(&off), losses(&zero));
    // The first step's losses are from before any gradient; later ones are not.
    assert_eq!(losses(&off)[0], losses(&on)[0]);
    assert_ne!(losses(&off)[5..], losses(&on)[5..]);
    assert!(losses(&on).iter().all(|l| l.is_finite()));
}
