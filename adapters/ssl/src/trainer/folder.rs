//! The folder of a run: settings, logs, checkpoints, summary.
//!
//! ```text
//! settings.json                what was asked for
//! data.json                    classes, counts, normalisation and the sum of the data
//! steps.csv                    one line per step
//! classes.jsonl                β and shares per class, now and then
//! evaluations.jsonl            one line per evaluation, with the confusion matrix
//! fidelity.jsonl               the allocation beside the linear programme, where that was asked for
//! checkpoints/step-00000500/   see the checkpoint module
//! model.safetensors, model.json  the averaged weights and how to use them, once the run has ended
//! best.safetensors             those that did best on the validation examples, if there are any
//! summary.json                 once the run has ended
//! ```
//!
//! A run that is there is never replaced unless somebody means it ([`Recorded::discard`]), and a folder belongs to one process at
//! a time: the system drops the lock of one that dies.
//!
//! Going on from a checkpoint first cuts the logs back to its step, so that a log never tells of a step twice.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::card::{DataCard, ModelCard};
use super::error::TrainError;
use super::events::Events;
use super::records::{ClassRecord, Evaluation, StepRecord, Summary};
use super::settings::Settings;
use crate::methods::Fidelity;

const STEPS: &str = "steps.csv";
const CLASSES: &str = "classes.jsonl";
const EVALUATIONS: &str = "evaluations.jsonl";
const FIDELITY: &str = "fidelity.jsonl";
const SETTINGS: &str = "settings.json";
const SUMMARY: &str = "summary.json";
const DATA: &str = "data.json";
const MODEL: &str = "model.json";
const WEIGHTS: &str = "model.safetensors";
const BEST: &str = "best.safetensors";
/// Held by the process that trains.
const LOCK: &str = ".running";
/// Where checkpoints lie.
pub(crate) const CHECKPOINTS: &str = "checkpoints";

const HEADER: &str = "step,rate,labeled_loss,unlabeled_loss,allocated,label_accuracy,iterations,allocation_seconds,seconds";

/// An open run folder.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
    steps: BufWriter<File>,
    classes: BufWriter<File>,
    evaluations: BufWriter<File>,
    events: Events,
    _lock: File,
}

/// Takes the folder for this process until the file is dropped.
fn lock(path: &Path) -> Result<File, TrainError> {
    let place = path.join(LOCK);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&place);
    let file = file.map_err(TrainError::io(&place))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(TrainError::Busy {
            path: path.to_path_buf(),
        }),
        // A file system without locks: then there is nobody to share it with.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

impl RunFolder {
    /// Starts a run in `path`, where there must be none; other files are not touched.
    pub(crate) fn create(
        path: &Path,
        settings: &Settings,
        card: &DataCard,
    ) -> Result<Self, TrainError> {
        fs::create_dir_all(path).map_err(TrainError::io(path))?;
        let lock = lock(path)?;
        if Recorded::is_run(path) {
            return Err(TrainError::RunExists {
                path: path.to_path_buf(),
            });
        }
        write_json(&path.join(DATA), card)?;
        let steps = path.join(STEPS);
        write_whole(&steps, format!("{HEADER}\n").as_bytes())?;
        write_json(&path.join(SETTINGS), settings)?;
        Self::append_to(path, lock, 0, settings.steps)
    }

    /// Goes on with the run in `path` after cutting its logs back to `step` steps.
    pub(crate) fn resume(path: &Path, step: u64, settings: &Settings) -> Result<Self, TrainError> {
        let lock = lock(path)?;
        write_json(&path.join(SETTINGS), settings)?;
        let steps = path.join(STEPS);
        if !steps.exists() {
            // A log that is lost is no reason to lose the weights.
            write_whole(&steps, format!("{HEADER}\n").as_bytes())?;
        }
        cut(&steps, |line| {
            let first = line.split(',').next().unwrap_or_default();
            first == "step" || first.parse::<u64>().is_ok_and(|s| s < step)
        })?;
        let keep = |most: u64| {
            move |line: &str| {
                let value: Option<serde_json::Value> = serde_json::from_str(line).ok();
                let at = value.as_ref().and_then(|v| v.get("step")?.as_u64());
                at.is_some_and(|s| s <= most)
            }
        };
        cut(&path.join(EVALUATIONS), keep(step))?;
        if step > 0 {
            cut(&path.join(CLASSES), keep(step - 1))?;
            cut(&path.join(FIDELITY), keep(step - 1))?;
        }
        let summary = path.join(SUMMARY);
        if summary.exists() {
            fs::remove_file(&summary).map_err(TrainError::io(&summary))?;
        }
        Self::append_to(path, lock, step, settings.steps)
    }

    fn append_to(path: &Path, lock: File, step: u64, steps: u64) -> Result<Self, TrainError> {
        let open = |name: &str| {
            let file = path.join(name);
            let opened = OpenOptions::new().create(true).append(true).open(&file);
            opened.map(BufWriter::new).map_err(TrainError::io(&file))
        };
        Ok(Self {
            steps: open(STEPS)?,
            classes: open(CLASSES)?,
            evaluations: open(EVALUATIONS)?,
            events: Events::open(path, step, steps)?,
            path: path.to_path_buf(),
            _lock: lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn step(&mut self, r: &StepRecord) -> Result<(), TrainError> {
        let line = writeln!(
            self.steps,
            "{},{},{},{},{},{},{},{},{}",
            r.step,
            r.rate,
            r.labeled_loss,
            r.unlabeled_loss,
            r.allocated,
            r.label_accuracy,
            r.iterations,
            r.allocation_seconds,
            r.seconds
        );
        line.map_err(TrainError::io(&self.path.join(STEPS)))?;
        self.events.step(r)
    }

    pub(crate) fn classes(&mut self, record: &ClassRecord) -> Result<(), TrainError> {
        line(&mut self.classes, record, &self.path.join(CLASSES))
    }

    pub(crate) fn evaluation(&mut self, evaluation: &Evaluation) -> Result<(), TrainError> {
        let path = self.path.join(EVALUATIONS);
        line(&mut self.evaluations, evaluation, &path)?;
        self.events.evaluation(evaluation)?;
        self.flush()
    }

    /// An evaluation that is in the log already, for readers of event files: they forget what was said of the step that a run
    /// goes on from.
    pub(crate) fn repeat(&mut self, evaluation: &Evaluation) -> Result<(), TrainError> {
        self.events.evaluation(evaluation)
    }

    /// The averaged weights and how to use them.
    pub(crate) fn model(&self, weights: &[u8], card: &ModelCard) -> Result<(), TrainError> {
        write_whole(&self.path.join(WEIGHTS), weights)?;
        write_json(&self.path.join(MODEL), card)
    }

    /// The best weights so far.
    pub(crate) fn best(&self, weights: &[u8]) -> Result<(), TrainError> {
        write_whole(&self.path.join(BEST), weights)
    }

    /// Appends to a file of its own, which runs that ask for no comparison do not have.
    pub(crate) fn fidelity(&mut self, records: &[Fidelity]) -> Result<(), TrainError> {
        let path = self.path.join(FIDELITY);
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        let mut writer = BufWriter::new(opened.map_err(TrainError::io(&path))?);
        for record in records {
            line(&mut writer, record, &path)?;
        }
        writer.flush().map_err(TrainError::io(&path))
    }

    pub(crate) fn flush(&mut self) -> Result<(), TrainError> {
        for writer in [&mut self.steps, &mut self.classes, &mut self.evaluations] {
            writer.flush().map_err(TrainError::io(&self.path))?;
        }
        self.events.flush()
    }

    pub(crate) fn summary(&mut self, summary: &Summary) -> Result<(), TrainError> {
        self.flush()?;
        write_json(&self.path.join(SUMMARY), summary)
    }
}

fn line(writer: &mut impl Write, value: &impl Serialize, path: &Path) -> Result<(), TrainError> {
    let text = serde_json::to_string(value).map_err(|e| TrainError::damaged(path, e))?;
    writeln!(writer, "{text}").map_err(TrainError::io(path))
}

/// Keeps the lines that pass; whole file or nothing.
fn cut(path: &Path, keep: impl Fn(&str) -> bool) -> Result<(), TrainError> {
    if !path.exists() {
        return Ok(());
    }
    let file = File::open(path).map_err(TrainError::io(path))?;
    let mut kept = String::new();
    for line in BufReader::new(file).lines() {
        let line = line.map_err(TrainError::io(path))?;
        if keep(&line) {
            kept.push_str(&line);
            kept.push('\n');
        }
    }
    write_whole(path, kept.as_bytes())
}

/// Writes a file under another name first: whoever looks sees the old one or the new one, never half of it.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".part");
    let beside = path.with_file_name(name);
    let write = || {
        let mut file = File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        // The name, too, must outlast a power failure; not every file system can say so.
        if let Some(Ok(folder)) = path.parent().map(File::open) {
            let _ = folder.sync_all();
        }
        Ok(())
    };
    write().map_err(|e| {
        // A full disk: what was there before stays, and nothing half lies beside it.
        let _ = fs::remove_file(&beside);
        TrainError::io(path)(e)
    })
}

pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), TrainError> {
    let text = serde_json::to_vec_pretty(value).map_err(|e| TrainError::damaged(path, e))?;
    write_whole(path, &text)
}

pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, TrainError> {
    let bytes = fs::read(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => TrainError::damaged(path, "the file is missing"),
        _ => TrainError::io(path)(e),
    })?;
    serde_json::from_slice(&bytes).map_err(|e| TrainError::damaged(path, e))
}

/// What a run folder tells, read back.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The folder.
    pub path: PathBuf,
    /// What was asked for.
    pub settings: Settings,
    /// Every step.
    pub steps: Vec<StepRecord>,
    /// Every trace of the classes.
    pub classes: Vec<ClassRecord>,
    /// Every evaluation.
    pub evaluations: Vec<Evaluation>,
    /// The allocation beside the linear programme, where that was asked for.
    pub fidelity: Vec<Fidelity>,
    /// How it ended, if it has.
    pub summary: Option<Summary>,
    /// What it was about; runs of older versions do not say.
    pub data: Option<DataCard>,
}

impl Recorded {
    /// Whether `path` holds a run.
    #[must_use]
    pub fn is_run(path: &Path) -> bool {
        path.join(SETTINGS).is_file()
    }

    /// Reads a run folder.
    ///
    /// # Errors
    /// When a file is missing or does not parse; the message names it and the line.
    pub fn read(path: &Path) -> Result<Self, TrainError> {
        let summary = path.join(SUMMARY);
        Ok(Self {
            path: path.to_path_buf(),
            settings: read_json(&path.join(SETTINGS))?,
            steps: read_steps(&path.join(STEPS))?,
            classes: read_lines(&path.join(CLASSES))?,
            evaluations: read_lines(&path.join(EVALUATIONS))?,
            fidelity: match path.join(FIDELITY) {
                file if file.exists() => read_lines(&file)?,
                _ => Vec::new(),
            },
            summary: if summary.exists() {
                Some(read_json(&summary)?)
            } else {
                None
            },
            data: Self::data(path)?,
        })
    }

    /// What a run is about, if it says.
    ///
    /// # Errors
    /// When the file is there but does not parse.
    pub fn data(path: &Path) -> Result<Option<DataCard>, TrainError> {
        match path.join(DATA) {
            file if file.exists() => read_json(&file).map(Some),
            _ => Ok(None),
        }
    }

    /// The card of a run's network and its weights' file: the best where there are validation examples, else the last.
    ///
    /// # Errors
    /// When the run has not ended or a file is damaged.
    pub fn network(path: &Path) -> Result<(ModelCard, PathBuf), TrainError> {
        let file = path.join(MODEL);
        if !file.is_file() {
            let problem = "there is no network in it: only runs that ended, or were stopped by Ctrl-C, have one (model.json)";
            return Err(TrainError::damaged(path, problem));
        }
        let card: ModelCard = read_json(&file)?;
        let best = path.join(BEST);
        let weights = match card.best.is_some() && best.is_file() {
            true => best,
            false => path.join(WEIGHTS),
        };
        Ok((card, weights))
    }

    /// Removes the run in `path`, if there is one, and nothing else: its logs, checkpoints and network.
    ///
    /// # Errors
    /// [`TrainError::Busy`] while another process works on it; when a file cannot be removed.
    pub fn discard(path: &Path) -> Result<(), TrainError> {
        if !Self::is_run(path) {
            return Ok(());
        }
        let _lock = lock(path)?;
        // The settings last: a run half removed is still one.
        for name in [
            STEPS,
            CLASSES,
            EVALUATIONS,
            FIDELITY,
            SUMMARY,
            DATA,
            MODEL,
            WEIGHTS,
            BEST,
        ] {
            remove(&path.join(name))?;
        }
        Events::discard(path)?;
        let checkpoints = path.join(CHECKPOINTS);
        if checkpoints.exists() {
            fs::remove_dir_all(&checkpoints).map_err(TrainError::io(&checkpoints))?;
        }
        remove(&path.join(SETTINGS))
    }

    /// Settings and summary only, without the logs.
    ///
    /// # Errors
    /// As [`Recorded::read`].
    pub fn outcome(path: &Path) -> Result<(Settings, Option<Summary>), TrainError> {
        let summary = path.join(SUMMARY);
        let settings = read_json(&path.join(SETTINGS))?;
        Ok((
            settings,
            if summary.exists() {
                Some(read_json(&summary)?)
            } else {
                None
            },
        ))
    }
}

fn remove(file: &Path) -> Result<(), TrainError> {
    match file.exists() {
        true => fs::remove_file(file).map_err(TrainError::io(file)),
        false => Ok(()),
    }
}

/// The whole lines of a log: of a run that goes on, the last may be half written.
fn whole_lines(path: &Path) -> Result<String, TrainError> {
    let mut text = fs::read_to_string(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => TrainError::damaged(path, "it is missing"),
        _ => TrainError::io(path)(e),
    })?;
    text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
    Ok(text)
}

fn read_steps(path: &Path) -> Result<Vec<StepRecord>, TrainError> {
    let text = whole_lines(path)?;
    let mut lines = text.lines().enumerate();
    if lines.next().map(|(_, l)| l) != Some(HEADER) {
        return Err(TrainError::damaged(path, "its header is another"));
    }
    lines
        .map(|(number, line)| {
            parse_step(line).ok_or_else(|| {
                TrainError::damaged(path, format!("line {} is not a step", number + 1))
            })
        })
        .collect()
}

fn parse_step(line: &str) -> Option<StepRecord> {
    let fields: Vec<&str> = line.split(',').collect();
    let &[
        step,
        rate,
        labeled,
        unlabeled,
        allocated,
        accuracy,
        iterations,
        allocation,
        seconds,
    ] = fields.as_slice()
    else {
        return None;
    };
    Some(StepRecord {
        step: step.parse().ok()?,
        rate: rate.parse().ok()?,
        labeled_loss: labeled.parse().ok()?,
        unlabeled_loss: unlabeled.parse().ok()?,
        allocated: allocated.parse().ok()?,
        label_accuracy: accuracy.parse().ok()?,
        iterations: iterations.parse().ok()?,
        allocation_seconds: allocation.parse().ok()?,
        seconds: seconds.parse().ok()?,
    })
}

fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, TrainError> {
    let text = whole_lines(path)?;
    let parse = |(number, line): (usize, &str)| {
        serde_json::from_str(line)
            .map_err(|e| TrainError::damaged(path, format!("line {}: {e}", number + 1)))
    };
    text.lines().enumerate().map(parse).collect()
}
