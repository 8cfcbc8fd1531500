//! Presets tried out: the real files and the real network, a few steps of a few images.
//!
//! ```text
//! cargo run --release --example ssl_train -- presets --check --data data
//! cargo run --release --example ssl_train -- cost --data data
//! ```
//!
//! A check goes all the way of a run: it loads all of the data set, draws the split, makes the views, trains, allocates
//! labels to all unlabeled examples with ρ going its whole way, and evaluates. Only batches, steps and
//! the number of test images are cut. `cost` measures what allocation takes of a step at the paper's sizes.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crate::data::{Dataset, Kind};
use crate::methods::MethodSpec;
use crate::presets;
use crate::trainer::{ModelSpec, Settings, StepRecord, Summary, Trainer, Watch, subset};
use clap::Args;

use super::Failure;
use super::output::say;
use super::signal::{STOP, listen};

/// Flags of `presets`.
#[derive(Args, Clone, Debug)]
pub(crate) struct PresetFlags {
    /// Only those whose name contains this
    #[arg(default_value = "")]
    filter: String,
    /// Train each for a few steps on a few images and say what came of it
    #[arg(long)]
    check: bool,
    /// The folder that holds cifar10, cifar100, svhn, mnist and fashion-mnist
    #[arg(long, default_value = "data")]
    data: std::path::PathBuf,
    /// Steps of a check
    #[arg(long, default_value_t = 3)]
    steps: u64,
    /// Labeled images per step of a check; there are twice as many unlabeled ones
    #[arg(long, default_value_t = 2)]
    batch: usize,
}

/// Flags of `cost`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CostFlags {
    /// The folder that holds cifar10 and cifar100
    #[arg(long, default_value = "data")]
    data: std::path::PathBuf,
    /// Presets to measure
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "paper-cifar10-40,paper-cifar100-400"
    )]
    presets: Vec<String>,
    /// Steps measured, after a first one whose solve starts from nothing and is told apart
    #[arg(long, default_value_t = 5)]
    steps: u64,
    /// The share to allocate: where the paper's ramp is then, from one step to the next it moves by a millionth
    #[arg(long, default_value_t = 0.5)]
    rho: f64,
    /// Labeled images per step
    #[arg(long, default_value_t = 64)]
    batch: usize,
    /// Unlabeled images per labeled one
    #[arg(long, default_value_t = 7)]
    ratio: usize,
    /// The network for all of them; `preset` for each preset's own
    #[arg(long, default_value = "wrn-28-2")]
    model: String,
}

/// Lists or checks presets.
pub(crate) fn presets(flags: &PresetFlags) -> Result<(), Failure> {
    let names: Vec<String> = presets::names()
        .into_iter()
        .filter(|n| n.contains(&flags.filter))
        .collect();
    if names.is_empty() {
        return Err(Failure::Input(format!(
            "no preset has `{}` in its name",
            flags.filter
        )));
    }
    if !flags.check {
        names.iter().for_each(|name| say!("{name}"));
        return Ok(());
    }
    listen();
    say!(
        "{:<40} {:>9} {:>6}  {:<9} {:>10}  {:<34} {:>9} {:>7} {:>7}  outcome",
        "preset",
        "examples",
        "labels",
        "network",
        "parameters",
        "method",
        "allocated",
        "loss",
        "s"
    );
    let mut loaded = Loaded::default();
    let mut failed = 0;
    for name in &names {
        let outcome = presets::find(name)
            .map_err(Failure::Input)
            .and_then(|s| check(&s, flags, &mut loaded));
        match outcome {
            Ok(line) => say!("{name:<40} {line}  ok"),
            Err(Failure::Stopped) => return Err(Failure::Stopped),
            Err(Failure::Input(message) | Failure::Run(message)) => {
                failed += 1;
                say!("{name:<40} FAILED: {message}");
            }
        }
    }
    say!(
        "\n{} of {} presets are fine",
        names.len() - failed,
        names.len()
    );
    match failed {
        0 => Ok(()),
        n => Err(Failure::Run(format!("{n} presets failed"))),
    }
}

/// Data sets are read once.
#[derive(Default)]
struct Loaded(HashMap<Kind, Arc<Dataset>>);

impl Loaded {
    fn get(&mut self, settings: &Settings) -> Result<Arc<Dataset>, Failure> {
        if let Some(dataset) = self.0.get(&settings.dataset) {
            return Ok(dataset.clone());
        }
        // One at a time: presets of a data set follow one another, and CIFAR-100 need not wait for CIFAR-10's memory.
        self.0.clear();
        let dataset = subset(settings)?;
        self.0.insert(settings.dataset, dataset.clone());
        Ok(dataset)
    }
}

/// The first and last step of a run that must not be stopped by anything but Ctrl-C.
#[derive(Default)]
struct Steps(Vec<StepRecord>);

impl Watch for Steps {
    fn step(&mut self, record: &StepRecord, _: u64) {
        self.0.push(*record);
    }
}

fn run(settings: Settings, dataset: Arc<Dataset>) -> Result<(Steps, Summary), Failure> {
    let mut trainer = Trainer::new(settings, dataset, None)?;
    let mut steps = Steps::default();
    let stop: &AtomicBool = &STOP;
    match trainer.run(stop, &mut steps)? {
        crate::trainer::Ending::Stopped => Err(Failure::Stopped),
        crate::trainer::Ending::Finished => Ok((steps, trainer.summary())),
    }
}

/// Where a data set lies below a folder of them.
fn place(root: &Path, kind: Kind) -> std::path::PathBuf {
    root.join(kind.name())
}

fn check(preset: &Settings, flags: &PresetFlags, loaded: &mut Loaded) -> Result<String, Failure> {
    let settings = Settings {
        data: place(&flags.data, preset.dataset),
        test_examples: Some(20),
        steps: flags.steps,
        batch: flags.batch,
        ratio: 2,
        evaluate_every: flags.steps.max(1),
        ..preset.clone()
    };
    let dataset = loaded.get(&settings)?;
    let started = Instant::now();
    let (steps, summary) = run(settings.clone(), dataset.clone())?;
    let last = steps.0.last();
    let loss = last.map_or(f64::NAN, |r| r.labeled_loss + r.unlabeled_loss);
    let allocated = last.map_or(0.0, |r| r.allocated);
    // What the last step asks for: everything but the part that bounds below one in sum leave out.
    if let MethodSpec::Sla(sla) = &settings.method {
        let asked = sla.schedule.at_progress(1.0);
        if allocated < asked - 0.05 {
            return Err(Failure::Run(format!(
                "{:.1}% of the examples are allocated where {:.0}% were asked for",
                100.0 * allocated,
                100.0 * asked
            )));
        }
    }
    Ok(format!(
        "{:>9} {:>6}  {:<9} {:>10}  {:<34} {:>8.1}% {loss:>7.3} {:>7.1}",
        dataset.train.len(),
        settings.split.labels,
        settings.model.to_string(),
        summary.parameters,
        format!("{}, {}", settings.method.title(), short(&settings)),
        100.0 * allocated,
        started.elapsed().as_secs_f64(),
    ))
}

fn short(settings: &Settings) -> &'static str {
    match settings.split.mode.name() {
        "multinomial_min1" => "multinomial",
        _ => "uniform",
    }
}

/// Measures what allocation costs.
pub(crate) fn cost(flags: &CostFlags) -> Result<(), Failure> {
    listen();
    say!(
        "{:<24} {:>8} {:>5}  {:<9} {:>7} {:>10} {:>15} {:>15} {:>8}",
        "preset",
        "examples",
        "k",
        "network",
        "images",
        "step ms",
        "allocation ms",
        "first solve ms",
        "share"
    );
    for name in &flags.presets {
        let preset = presets::find(name).map_err(Failure::Input)?;
        let model = match flags.model.as_str() {
            "preset" => preset.model.clone(),
            text => text.parse::<ModelSpec>().map_err(Failure::Input)?,
        };
        let mut method = preset.method.clone();
        method
            .set("schedule", &format!("constant:{}", flags.rho))
            .map_err(Failure::Input)?;
        let settings = Settings {
            data: place(&flags.data, preset.dataset),
            test_examples: Some(1),
            method,
            steps: flags.steps + 1,
            batch: flags.batch,
            ratio: flags.ratio,
            model,
            evaluate_every: flags.steps + 1,
            ..preset
        };
        let dataset = subset(&settings)?;
        let (examples, k) = (dataset.train.len(), dataset.classes.len());
        let (steps, _) = run(settings.clone(), dataset)?;
        let first = steps.0.first().map_or(0.0, |r| r.allocation_seconds);
        let steady = steps.0.get(1..).unwrap_or_default();
        let total: f64 = steady.iter().map(|r| r.seconds).sum();
        let allocation: f64 = steady.iter().map(|r| r.allocation_seconds).sum();
        let mean = |seconds: f64| 1e3 * seconds / steady.len().max(1) as f64;
        say!(
            "{name:<24} {examples:>8} {k:>5}  {:<9} {:>7} {:>10.0} {:>15.2} {:>15.2} {:>7.3}%",
            settings.model.to_string(),
            settings.batch * (1 + 2 * settings.ratio),
            mean(total),
            mean(allocation),
            1e3 * first,
            100.0 * allocation / total.max(f64::MIN_POSITIVE)
        );
    }
    say!(
        "\nMeans over {} steps at ρ = {}; allocation is soft labels, new rows and solve. The paper: 21%.",
        flags.steps,
        flags.rho
    );
    Ok(())
}
