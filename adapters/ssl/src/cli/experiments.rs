//! Tables from a declarative file: every combination of labels, splits, methods and seeds.
//!
//! ```toml
//! name = "Digits with few labels"
//! output = "runs/experiments/digits"
//!
//! [[grid]]
//! title = "Label counts"
//! preset = "digits"
//! labels = [10, 20, 40]
//! splits = ["label_dist_min1", "multinomial_min1"]
//! methods = ["supervised", "fixmatch", "sla", "sla bounds=none"]
//! seeds = [1, 2, 3, 4, 5]
//! changes = { steps = 600 }        # anything that has a flag
//! sweep = { learning-rate = [0.01, 0.03], gamma = [10, 100] }     # every combination of these, too
//! ```
//!
//! Every run is checked before the first is started. Runs are done in the order of the file. One that has finished is
//! skipped, one that was cut off goes on, one that fails is recorded with its error and the others go on; the exit code is 1
//! then. Afterwards, and after Ctrl-C, `results.csv` has one line per run, `tables.md` the tables, `*.svg` the figures and
//! `report.html` the page; a result that is there is not replaced by a failure.
//!
//! The same command may be started several times at once, say with `RAYON_NUM_THREADS=1` and once per core: a run
//! under way is locked by the process that does it, the others take the next one, and the process that ends last
//! writes the results of all. The system drops the lock of a process that dies.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File as Opened, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::data::{Dataset, SplitMode};
use crate::methods::MethodSpec;
use crate::trainer::{Recorded, Settings, Summary, Trainer, subset};
use clap::Args;
use serde::Deserialize;

use super::Failure;
use super::flags::{Changes, distinct, folder_name, per_method, refuse_shared, seeded};
use super::output::say;
use super::session::{choose_threads, one};
use super::signal::listen;
use super::tables;

/// Flags of `experiments`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExperimentFlags {
    /// The file
    file: PathBuf,
    /// Only say what would be run
    #[arg(long)]
    dry_run: bool,
    /// The folder that holds the data sets, each in a folder of its name [default: data, or as the file says]
    #[arg(long)]
    data: Option<PathBuf>,
    /// Where to put CSV, tables and figures [default: the output folder of the file]
    #[arg(long)]
    results: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) output: PathBuf,
    pub(crate) grid: Vec<Grid>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Grid {
    pub(crate) title: String,
    preset: Option<String>,
    pub(crate) labels: Vec<usize>,
    #[serde(default = "uniform")]
    pub(crate) splits: Vec<String>,
    methods: Vec<String>,
    pub(crate) seeds: Vec<u64>,
    #[serde(default)]
    changes: toml::Table,
    #[serde(default)]
    sweep: BTreeMap<String, Vec<toml::Value>>,
}

impl Grid {
    /// Every combination of the swept settings: what it is called, and the changes it comes to.
    fn variants(&self) -> Result<Vec<(String, Changes)>, String> {
        let mut all = vec![(String::new(), self.changes.clone())];
        for (key, values) in &self.sweep {
            if values.is_empty() {
                return Err(format!("sweep over {key}: there is no value"));
            }
            let mut next = Vec::with_capacity(all.len() * values.len());
            for (name, changes) in &all {
                for value in values {
                    let text = value
                        .as_str()
                        .map_or_else(|| value.to_string(), str::to_owned);
                    let mut changes = changes.clone();
                    if changes.insert(key.clone(), value.clone()).is_some() {
                        return Err(format!("{key} is both changed and swept over"));
                    }
                    let comma = if name.is_empty() { "" } else { ", " };
                    next.push((format!("{name}{comma}{key} {text}"), changes));
                }
            }
            all = next;
        }
        all.into_iter()
            .map(|(name, changes)| Ok((name, changes.try_into().map_err(|e| format!("{e}"))?)))
            .collect()
    }
}

fn uniform() -> Vec<String> {
    vec![SplitMode::default().name().to_owned()]
}

/// One run of the plan and what became of it.
pub(crate) struct Planned {
    pub(crate) grid: usize,
    /// Values of the swept settings.
    pub(crate) variant: String,
    pub(crate) settings: Settings,
    pub(crate) folder: PathBuf,
    pub(crate) outcome: Option<Result<Summary, String>>,
}

/// What a run that failed leaves in its folder.
const FAILED: &str = "failed.txt";
/// Held by the process that does the run.
const LOCK: &str = ".lock";

impl Planned {
    /// The name of its row in the tables.
    pub(crate) fn row(&self) -> String {
        let title = self.settings.method.title();
        match self.variant.as_str() {
            "" => title,
            variant => format!("{title}, {variant}"),
        }
    }

    /// What the folder tells, for runs that another process did: a result before a failure.
    fn stored(&self) -> Option<Result<Summary, String>> {
        let finished = Recorded::is_run(&self.folder)
            .then(|| Recorded::outcome(&self.folder).ok())
            .flatten()
            .filter(|(settings, _)| settings.difference(&self.settings).is_none())
            .and_then(|(_, summary)| summary.filter(|s| s.finished));
        match finished {
            Some(summary) => Some(Ok(summary)),
            None => fs::read_to_string(self.folder.join(FAILED)).ok().map(Err),
        }
    }

    fn is_finished(&self) -> bool {
        matches!(self.stored(), Some(Ok(_)))
    }

    fn failed_since(&self, moment: SystemTime) -> bool {
        let written = fs::metadata(self.folder.join(FAILED)).and_then(|m| m.modified());
        written.is_ok_and(|at| at >= moment)
    }

    /// Takes the run for this process until the file is dropped; `None` where another one has it.
    fn claim(&self) -> Result<Option<Opened>, Failure> {
        let path = self.folder.join(LOCK);
        let failed = |e: std::io::Error| Failure::Input(format!("{}: {e}", path.display()));
        fs::create_dir_all(&self.folder).map_err(failed)?;
        let file = Opened::create(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            // A file system without locks: then there is nobody to share it with.
            Err(TryLockError::Error(_)) => Ok(Some(file)),
        }
    }
}

/// Runs a file.
pub(crate) fn run(flags: &ExperimentFlags) -> Result<(), Failure> {
    let path = &flags.file;
    let input = |e: &dyn std::fmt::Display| Failure::Input(format!("{}: {e}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| input(&e))?;
    let file: File = toml::from_str(&text).map_err(|e| input(&e))?;
    let named = |e: Failure| match e {
        Failure::Input(message) => input(&message),
        other => other,
    };
    let mut plan = Vec::new();
    for (index, grid) in file.grid.iter().enumerate() {
        expand(index, grid, &file.output, &mut plan).map_err(named)?;
    }
    if let Some(root) = &flags.data {
        for planned in &mut plan {
            planned.settings.data = root.join(planned.settings.dataset.name());
        }
    }
    refuse_shared(plan.iter().map(|p| (&p.settings, p.folder.as_path()))).map_err(named)?;
    let place = flags.results.as_deref().unwrap_or(&file.output);
    say!(
        "{}: {} runs into {}",
        file.name,
        plan.len(),
        file.output.display()
    );
    if flags.dry_run {
        for planned in &plan {
            say!("{}", planned.folder.display());
        }
        return Ok(());
    }
    choose_threads(plan.iter().map(|p| &p.settings));
    for folder in [place, file.output.as_path()] {
        writable(folder)?;
    }
    let mut loaded = Loaded::default();
    check_all(&plan, &mut loaded)?;
    listen();
    let stopped = run_all(&mut plan, &mut loaded)?;
    for planned in &mut plan {
        if !matches!(planned.outcome, Some(Ok(_))) {
            planned.outcome = planned.stored().or(planned.outcome.take());
        }
    }
    let failed = plan
        .iter()
        .filter(|p| matches!(p.outcome, Some(Err(_))))
        .count();
    tables::write(&file, &mut plan, place)?;
    match (stopped, failed) {
        (true, _) => Err(Failure::Stopped),
        (false, 0) => Ok(()),
        (false, n) => Err(Failure::Run(format!("{n} of {} runs failed", plan.len()))),
    }
}

/// Finds out now, and not after hours, that nothing can be written there.
fn writable(folder: &Path) -> Result<(), Failure> {
    let probe = folder.join(format!(".probe-{}", std::process::id()));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&probe, "probe"))
        .and_then(|()| fs::remove_file(&probe))
        .map_err(|e| Failure::Input(format!("{} cannot be written to: {e}", folder.display())))
}

/// Data sets, each read once.
#[derive(Default)]
struct Loaded(HashMap<String, Arc<Dataset>>);

impl Loaded {
    fn get(&mut self, s: &Settings) -> Result<Arc<Dataset>, Failure> {
        let key = format!(
            "{} {:?} {:?} {:?} {:?}",
            s.dataset, s.data, s.train_examples, s.test_examples, s.size
        );
        if let Some(data) = self.0.get(&key) {
            return Ok(data.clone());
        }
        let data = subset(s)?;
        self.0.insert(key, data.clone());
        Ok(data)
    }
}

/// Checks every run that is still to be done against its data before the first is started.
fn check_all(plan: &[Planned], loaded: &mut Loaded) -> Result<(), Failure> {
    for planned in plan.iter().filter(|p| !p.is_finished()) {
        let named = |e: Failure| match e {
            Failure::Input(m) | Failure::Run(m) => Failure::Input(format!(
                "{}: {m}; nothing was run",
                planned.folder.display()
            )),
            Failure::Stopped => Failure::Stopped,
        };
        let data = loaded.get(&planned.settings).map_err(named)?;
        Trainer::check(&planned.settings, &data).map_err(|e| named(e.into()))?;
    }
    Ok(())
}

fn expand(index: usize, grid: &Grid, root: &Path, plan: &mut Vec<Planned>) -> Result<(), Failure> {
    distinct(&grid.seeds).map_err(Failure::Input)?;
    let variants = grid.variants().map_err(Failure::Input)?;
    let methods: Vec<MethodSpec> = grid
        .methods
        .iter()
        .map(|m| m.parse().map_err(Failure::Input))
        .collect::<Result<_, _>>()?;
    for split in &grid.splits {
        let mode: SplitMode = split
            .parse()
            .map_err(|e: crate::data::SplitError| Failure::Input(e.to_string()))?;
        for &labels in &grid.labels {
            for (variant, changes) in &variants {
                let changes = Changes {
                    labels: Some(labels),
                    split: Some(mode),
                    ..changes.clone()
                };
                let base = changes.apply(grid.preset.as_deref())?;
                let mut place = root
                    .join(slug(&grid.title))
                    .join(format!("{labels}-{mode}"));
                if !variant.is_empty() {
                    place.push(slug(variant));
                }
                for settings in per_method(&base, &methods, &changes)? {
                    for &seed in &grid.seeds {
                        let settings = seeded(&settings, seed);
                        plan.push(Planned {
                            grid: index,
                            variant: variant.clone(),
                            folder: place.join(folder_name(&settings)),
                            settings,
                            outcome: None,
                        });
                    }
                }
            }
        }
    }
    Ok(())
}

pub(crate) fn slug(title: &str) -> String {
    let dashed = title
        .to_lowercase()
        .replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-");
    dashed
        .split('-')
        .filter(|p| !p.is_empty())
        .collect::<Vec<_>>()
        .join("-")
}

/// Whether it was stopped.
fn run_all(plan: &mut [Planned], loaded: &mut Loaded) -> Result<bool, Failure> {
    let (started, began, total) = (Instant::now(), SystemTime::now(), plan.len());
    let mut worked = 0u64;
    for index in 0..total {
        let Some(_lock) = plan[index].claim()? else {
            continue;
        };
        // Another process has just seen it fail: once more would be no better.
        if plan[index].failed_since(began) {
            continue;
        }
        // Steps stand for time: exact for one model, good enough for a few.
        let remaining = match worked {
            0 => String::new(),
            w => {
                let open = plan[index..].iter().filter(|p| !p.is_finished());
                let left: u64 = open.map(|p| p.settings.steps).sum();
                let seconds = started.elapsed().as_secs_f64() * left as f64 / w as f64;
                format!(", {} left", clock(seconds))
            }
        };
        let planned = &mut plan[index];
        let s = &planned.settings;
        let fresh = !planned.is_finished();
        let name = format!(
            "[{}/{total}{remaining}] {} {} labels, {}, seed {}",
            index + 1,
            s.dataset,
            s.split.labels,
            planned.row(),
            s.seed
        );
        let outcome = loaded
            .get(s)
            .and_then(|data| one(s, &data, &planned.folder, true, &name));
        if fresh {
            worked += s.steps;
        }
        planned.outcome = Some(match outcome {
            Ok(summary) => {
                let word = if fresh { "" } else { " (done before)" };
                match summary.error_percent() {
                    Some(error) => say!("{name}: {} error {error:.2}%{word}", summary.on.name()),
                    None => say!("{name}: done{word}"),
                }
                Ok(summary)
            }
            Err(Failure::Stopped) => return Ok(true),
            Err(Failure::Input(message) | Failure::Run(message)) => {
                // Recorded for the other processes; where not even that can be written, this one still knows.
                let _ = fs::write(planned.folder.join(FAILED), &message);
                say!("{name}: FAILED: {message}");
                Err(message)
            }
        });
        if matches!(planned.outcome, Some(Ok(_))) {
            let _ = fs::remove_file(planned.folder.join(FAILED));
        }
    }
    Ok(false)
}

fn clock(seconds: f64) -> String {
    let minutes = (seconds / 60.0).ceil() as u64;
    match minutes {
        0..=99 => format!("{minutes} min"),
        _ => format!("{:.1} h", minutes as f64 / 60.0),
    }
}
