//! The allocation beside the linear programme: what is logged is right, and the run does not notice.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use earthmover_ssl::allocation::{Bounds, LabelAllocator, Schedule};
use earthmover_ssl::data::{Dataset, digits};
use earthmover_ssl::methods::{Batch, Method, MethodName, MethodSpec, Sla, Source};
use earthmover_ssl::report::{self, figures};
use earthmover_ssl::rng::Rng;
use earthmover_ssl::trainer::{
    LpCheck, ModelSpec, Recorded, Settings, StepRecord, TrainError, Trainer, Watch,
};

fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("fidelity")
        .join(name);
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn data() -> Arc<Dataset> {
    digits::load().unwrap().into()
}

fn settings(method: MethodName, lp: Option<LpCheck>) -> Settings {
    Settings {
        model: ModelSpec::Mlp(vec![32]),
        method: MethodSpec::of(method),
        steps: 24,
        batch: 16,
        ratio: 4,
        evaluate_every: 12,
        checkpoint_every: 5,
        learning_rate: 0.1,
        lp,
        ..Settings::default()
    }
}

fn every(steps: u64) -> Option<LpCheck> {
    Some(LpCheck {
        every: steps,
        ..LpCheck::default()
    })
}

fn train(settings: &Settings, path: &Path) -> (Trainer, Recorded) {
    let mut trainer = Trainer::new(settings.clone(), data(), Some(path)).unwrap();
    trainer.run(&AtomicBool::new(false), &mut ()).unwrap();
    (trainer, Recorded::read(path).unwrap())
}

/// Weights, steps without the clock, evaluations, β.
fn fingerprint(trainer: &Trainer, recorded: &Recorded) -> String {
    let mut all = String::new();
    for (name, tensor) in trainer.model().snapshot().unwrap() {
        let values = tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let bits: Vec<u32> = values.iter().map(|v| v.to_bits()).collect();
        all += &format!("{name} {bits:x?}\n");
    }
    for mut step in recorded.steps.clone() {
        (step.seconds, step.allocation_seconds) = (0.0, 0.0);
        all += &format!("{step:?}\n");
    }
    all + &format!("{:?}\n{:?}", recorded.evaluations, recorded.classes)
}

#[test]
fn a_run_with_comparisons_is_the_run_without() {
    let (a, plain) = train(&settings(MethodName::Sla, None), &folder("without"));
    let (b, compared) = train(&settings(MethodName::Sla, every(1)), &folder("with"));
    assert!(plain.fidelity.is_empty());
    assert_eq!(compared.fidelity.len(), 24 * 5);
    assert_eq!(fingerprint(&a, &plain), fingerprint(&b, &compared));
}

#[test]
fn bounds_hold_and_larger_gammas_come_closer() {
    let (_, run) = train(&settings(MethodName::Sla, every(10)), &folder("bounds"));
    let mut steps: Vec<u64> = run.fidelity.iter().map(|r| r.step).collect();
    steps.dedup();
    assert_eq!(steps, [9, 19, 23]); // and one at the end
    for &step in &steps {
        let now: Vec<_> = run.fidelity.iter().filter(|r| r.step == step).collect();
        let gammas: Vec<f64> = now.iter().map(|r| r.gamma).collect();
        assert_eq!(gammas, [100.0, 1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(now[0].source, Source::Run);
        for r in &now {
            let rounding = 1e-6 * (1.0 + r.optimum.abs());
            assert!(r.lower <= r.optimum + rounding, "{r:?}");
            assert!(r.optimum <= r.upper + rounding, "{r:?}");
            assert_eq!(r.optimum, now[0].optimum);
            assert!((r.rho - step as f64 / 23.0).abs() < 1e-12, "{r:?}");
            assert!((0.0..=1.0).contains(&r.agreement.unwrap()), "{r:?}");
        }
        // The converged plans: entropy's price falls with γ.
        for pair in now[1..].windows(2) {
            assert!(pair[1].gap() <= pair[0].gap() + 1e-6, "{pair:?}");
        }
        assert!(now[4].agreement.unwrap() > 0.97, "{:?}", now[4]);
        // The run's own plan is off by its tolerance, which is 1% of the mass.
        assert!(now[0].violation <= 0.0101, "{:?}", now[0]);
        assert!(now[1..].iter().all(|r| r.violation < 1e-5));
    }
}

#[test]
fn without_bounds_the_programme_takes_the_most_confident() {
    // b = 1 and ρ = 1: at least n − 1 labels, each example's cheapest, all but the dearest of them.
    let (n, k) = (60, 3);
    let mut rng = Rng::new(7);
    let mut log_probs = Vec::new();
    for _ in 0..n {
        let logits: Vec<f64> = (0..k).map(|_| 3.0 * rng.normal()).collect();
        let sum: f64 = logits.iter().map(|l| l.exp()).sum();
        log_probs.extend(logits.iter().map(|l| (l - sum.ln()) as f32));
    }
    let allocator = LabelAllocator::options(n, k)
        .bounds(Bounds::none(k))
        .build()
        .unwrap();
    let mut method = Sla::new(allocator, Schedule::constant(1.0).unwrap());
    let indices: Vec<usize> = (0..n).collect();
    let batch = Batch {
        log_probs: &log_probs,
        labeled: &[],
        indices: &indices,
        classes: k,
        step: 0,
        steps: 2,
    };
    method.update(&batch).unwrap();
    let before = method.allocator().scaling();
    let records = method.fidelity(5, &[1000.0]).unwrap();
    assert_eq!(method.allocator().scaling(), before);

    let mut cheapest: Vec<f64> = log_probs
        .chunks(k)
        .map(|row| -f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max)))
        .collect();
    cheapest.sort_by(f64::total_cmp);
    let expected: f64 = cheapest[..n - 1].iter().sum();
    for r in &records {
        assert!((r.optimum - expected).abs() < 1e-5, "{r:?} {expected}");
        assert!((r.optimum_mass - (n - 1) as f64).abs() < 1e-6);
        assert_eq!((r.step, r.examples), (5, n));
    }
    assert!(records[1].agreement.unwrap() > 0.95);
    assert!(method.fidelity(0, &[-1.0]).is_err());
}

#[test]
fn other_methods_log_nothing_and_wrong_settings_are_refused() {
    let path = folder("fixmatch");
    let (_, run) = train(&settings(MethodName::Fixmatch, every(2)), &path);
    assert!(run.fidelity.is_empty() && !path.join("fidelity.jsonl").exists());
    for lp in [
        LpCheck {
            every: 0,
            ..LpCheck::default()
        },
        LpCheck {
            gammas: vec![f64::NAN],
            ..LpCheck::default()
        },
    ] {
        let refused = Trainer::new(settings(MethodName::Sla, Some(lp)), data(), None);
        assert!(matches!(refused, Err(TrainError::Setting { .. })));
    }
}

/// Asks for a stop after 13 steps.
struct Stop<'a>(&'a AtomicBool);

impl Watch for Stop<'_> {
    fn step(&mut self, record: &StepRecord, _: u64) {
        self.0.store(record.step >= 12, Ordering::Relaxed);
    }
}

#[test]
fn comparisons_of_a_resumed_run_do_not_repeat() {
    let settings = settings(MethodName::Sla, every(6));
    let (_, whole) = train(&settings, &folder("whole"));
    let path = folder("parts");
    let stop = AtomicBool::new(false);
    let mut part = Trainer::new(settings.clone(), data(), Some(&path)).unwrap();
    part.run(&stop, &mut Stop(&stop)).unwrap();
    drop(part);
    // As if killed after step 13 with the checkpoint of step 10: the comparison of step 12 is made again.
    std::fs::remove_dir_all(path.join("checkpoints/step-00000013")).unwrap();
    let mut rest = Trainer::resume(settings, data(), &path).unwrap();
    assert_eq!(rest.steps_done(), 10);
    rest.run(&AtomicBool::new(false), &mut ()).unwrap();
    let untimed = |run: &Recorded| {
        let mut records = run.fidelity.clone();
        records.iter_mut().for_each(|r| r.exact_seconds = 0.0);
        records
    };
    assert_eq!(untimed(&Recorded::read(&path).unwrap()), untimed(&whole));
}

#[test]
fn page_and_figures_show_the_comparison() {
    let (_, run) = train(&settings(MethodName::Sla, every(4)), &folder("page"));
    let (_, bare) = train(&settings(MethodName::Sla, None), &folder("bare"));
    let names = data().classes.clone();
    let html = report::html("", std::slice::from_ref(&run));
    for text in [
        "Linear programme",
        "Gap against γ",
        "Label agreement over training",
        "as the run used it",
    ] {
        assert!(html.contains(text), "{text}");
    }
    assert!(!html.contains("NaN"));
    assert!(!report::html("", std::slice::from_ref(&bare)).contains("Linear programme"));

    assert!(figures::fidelity("", &bare).is_none());
    let programme = figures::fidelity("A & B", &run).unwrap();
    let dynamics = figures::dynamics("One run", &run, &names);
    for svg in [&programme, &dynamics] {
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert!(svg.len() < 120_000, "{} bytes", svg.len());
    }
    assert!(programme.contains("A &amp; B") && programme.contains("nats per example"));
    for text in [
        "Test error",
        "Dual variables",
        "Allocation per class",
        "abstain",
    ] {
        assert!(dynamics.contains(text), "{text}");
    }
}
