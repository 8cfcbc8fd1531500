//! The folder of a run: settings, logs, checkpoints, summary.
//!
//! ```text
//! settings.json                what was asked for
//! steps.csv                    one line per step
//! classes.jsonl                β and shares per class, now and then
//! evaluations.jsonl            one line per evaluation, with the confusion matrix
//! fidelity.jsonl               the allocation beside the linear programme, where that was asked for
//! checkpoints/step-00000500/   see the checkpoint module
//! summary.json                 once the run has ended
//! ```
//!
//! Going on from a checkpoint first cuts the logs back to its step, so that a log never tells of a step twice.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::TrainError;
use super::records::{ClassRecord, Evaluation, StepRecord, Summary};
use super::settings::Settings;
use crate::methods::Fidelity;

const STEPS: &str = "steps.csv";
const CLASSES: &str = "classes.jsonl";
const EVALUATIONS: &str = "evaluations.jsonl";
const FIDELITY: &str = "fidelity.jsonl";
const SETTINGS: &str = "settings.json";
const SUMMARY: &str = "summary.json";
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
}

impl RunFolder {
    /// Starts a run in `path`; the files of an earlier run there are removed, others are not touched.
    pub(crate) fn create(path: &Path, settings: &Settings) -> Result<Self, TrainError> {
        fs::create_dir_all(path).map_err(TrainError::io(path))?;
        for name in [STEPS, CLASSES, EVALUATIONS, FIDELITY, SETTINGS, SUMMARY] {
            let file = path.join(name);
            if file.exists() {
                fs::remove_file(&file).map_err(TrainError::io(&file))?;
            }
        }
        let checkpoints = path.join(CHECKPOINTS);
        if checkpoints.exists() {
            fs::remove_dir_all(&checkpoints).map_err(TrainError::io(&checkpoints))?;
        }
        write_json(&path.join(SETTINGS), settings)?;
        let steps = path.join(STEPS);
        fs::write(&steps, format!("{HEADER}\n")).map_err(TrainError::io(&steps))?;
        Self::append_to(path)
    }

    /// Goes on with the run in `path` after cutting its logs back to `step` steps.
    pub(crate) fn resume(path: &Path, step: u64) -> Result<Self, TrainError> {
        cut(&path.join(STEPS), |line| {
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
        Self::append_to(path)
    }

    fn append_to(path: &Path) -> Result<Self, TrainError> {
        let open = |name: &str| {
            let file = path.join(name);
            let opened = OpenOptions::new().create(true).append(true).open(&file);
            opened.map(BufWriter::new).map_err(TrainError::io(&file))
        };
        Ok(Self {
            steps: open(STEPS)?,
            classes: open(CLASSES)?,
            evaluations: open(EVALUATIONS)?,
            path: path.to_path_buf(),
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
        line.map_err(TrainError::io(&self.path.join(STEPS)))
    }

    pub(crate) fn classes(&mut self, record: &ClassRecord) -> Result<(), TrainError> {
        line(&mut self.classes, record, &self.path.join(CLASSES))
    }

    pub(crate) fn evaluation(&mut self, evaluation: &Evaluation) -> Result<(), TrainError> {
        let path = self.path.join(EVALUATIONS);
        line(&mut self.evaluations, evaluation, &path)?;
        self.flush()
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
        Ok(())
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
    let beside = path.with_extension("part");
    let write = || {
        let mut file = File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(TrainError::io(path))
}

pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), TrainError> {
    let text = serde_json::to_vec_pretty(value).map_err(|e| TrainError::damaged(path, e))?;
    write_whole(path, &text)
}

pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, TrainError> {
    let bytes = fs::read(path).map_err(TrainError::io(path))?;
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
        })
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

fn read_steps(path: &Path) -> Result<Vec<StepRecord>, TrainError> {
    let text = fs::read_to_string(path).map_err(TrainError::io(path))?;
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
    let text = fs::read_to_string(path).map_err(TrainError::io(path))?;
    let parse = |(number, line): (usize, &str)| {
        serde_json::from_str(line)
            .map_err(|e| TrainError::damaged(path, format!("line {}: {e}", number + 1)))
    };
    text.lines().enumerate().map(parse).collect()
}
