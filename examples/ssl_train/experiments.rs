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
//! ```
//!
//! Runs are done in the order of the file. One that has finished is skipped, one that was cut off goes on, one
//! that fails is recorded with its error and the others go on. Afterwards, and after Ctrl-C, `results.csv` has
//! one line per run, `tables.md` the tables, `*.svg` the figures and `report.html` the page.
//!
//! The same command may be started several times at once, say with `RAYON_NUM_THREADS=1` and once per core: a run
//! under way is locked by the process that does it, the others take the next one, and the process that ends last
//! writes the results of all. The system drops the lock of a process that dies.

use std::collections::HashMap;
use std::fs::{self, File as Opened, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use clap::Args;
use earthmover_ssl::data::{Dataset, SplitMode};
use earthmover_ssl::methods::MethodSpec;
use earthmover_ssl::trainer::{Recorded, Settings, Summary, subset};
use serde::Deserialize;

use crate::Failure;
use crate::flags::{Changes, folder_name, per_method, seeded};
use crate::output::say;
use crate::progress::listen;
use crate::session::{announce_device, choose_threads, one};
use crate::tables;

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
    changes: Changes,
}

fn uniform() -> Vec<String> {
    vec![SplitMode::default().name().to_owned()]
}

/// One run of the plan and what became of it.
pub(crate) struct Planned {
    pub(crate) grid: usize,
    pub(crate) settings: Settings,
    pub(crate) folder: PathBuf,
    pub(crate) outcome: Option<Result<Summary, String>>,
}

/// What a run that failed leaves in its folder.
const FAILED: &str = "failed.txt";
/// Held by the process that does the run.
const LOCK: &str = ".lock";

impl Planned {
    /// What the folder tells, for runs that another process did.
    fn stored(&self) -> Option<Result<Summary, String>> {
        if let Ok(message) = fs::read_to_string(self.folder.join(FAILED)) {
            return Some(Err(message));
        }
        if !Recorded::is_run(&self.folder) {
            return None;
        }
        let (_, summary) = Recorded::outcome(&self.folder).ok()?;
        summary.filter(|s| s.finished).map(Ok)
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
    let mut plan = Vec::new();
    for (index, grid) in file.grid.iter().enumerate() {
        expand(index, grid, &file.output, &mut plan).map_err(|e| match e {
            Failure::Input(message) => input(&message),
            other => other,
        })?;
    }
    if let Some(root) = &flags.data {
        for planned in &mut plan {
            planned.settings.data = root.join(planned.settings.dataset.name());
        }
    }
    for (i, planned) in plan.iter().enumerate() {
        if let Some(twin) = plan[..i].iter().find(|p| p.folder == planned.folder)
            && twin.settings != planned.settings
        {
            let message = format!(
                "two different runs would share {}",
                planned.folder.display()
            );
            return Err(input(&message));
        }
    }
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
    listen();
    let stopped = run_all(&mut plan)?;
    for planned in plan.iter_mut().filter(|p| p.outcome.is_none()) {
        planned.outcome = planned.stored();
    }
    tables::write(
        &file,
        &plan,
        flags.results.as_deref().unwrap_or(&file.output),
    )?;
    match stopped {
        true => Err(Failure::Stopped),
        false => Ok(()),
    }
}

fn expand(index: usize, grid: &Grid, root: &Path, plan: &mut Vec<Planned>) -> Result<(), Failure> {
    let methods: Vec<MethodSpec> = grid
        .methods
        .iter()
        .map(|m| m.parse().map_err(Failure::Input))
        .collect::<Result<_, _>>()?;
    for split in &grid.splits {
        let mode: SplitMode = split
            .parse()
            .map_err(|e: earthmover_ssl::data::SplitError| Failure::Input(e.to_string()))?;
        for &labels in &grid.labels {
            let changes = Changes {
                labels: Some(labels),
                split: Some(mode),
                ..grid.changes.clone()
            };
            let base = changes.apply(grid.preset.as_deref())?;
            let place = root
                .join(slug(&grid.title))
                .join(format!("{labels}-{mode}"));
            for settings in per_method(&base, &methods, &changes)? {
                for &seed in &grid.seeds {
                    let settings = seeded(&settings, seed);
                    plan.push(Planned {
                        grid: index,
                        folder: place.join(folder_name(&settings)),
                        settings,
                        outcome: None,
                    });
                }
            }
        }
    }
    Ok(())
}

pub(crate) fn slug(title: &str) -> String {
    let dashed = title
        .to_lowercase()
        .replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    dashed
        .split('-')
        .filter(|p| !p.is_empty())
        .collect::<Vec<_>>()
        .join("-")
}

/// Whether it was stopped.
fn run_all(plan: &mut [Planned]) -> Result<bool, Failure> {
    let mut loaded: HashMap<String, Arc<Dataset>> = HashMap::new();
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
            s.method.title(),
            s.seed
        );
        let key = format!(
            "{} {:?} {:?} {:?}",
            s.dataset, s.data, s.train_examples, s.test_examples
        );
        let data = match loaded.get(&key) {
            Some(data) => Ok(data.clone()),
            None => announce_device(s).and_then(|()| Ok(subset(s)?)),
        };
        let outcome = data.and_then(|data| {
            loaded.entry(key).or_insert_with(|| data.clone());
            one(s, &data, &planned.folder, true, &name)
        });
        if fresh {
            worked += s.steps;
        }
        planned.outcome = Some(match outcome {
            Ok(summary) => {
                let word = if fresh { "" } else { " (done before)" };
                say!(
                    "{name}: test error {:.2}%{word}",
                    100.0 * (1.0 - summary.accuracy)
                );
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
