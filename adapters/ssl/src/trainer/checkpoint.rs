//! Checkpoints: all that a run needs to go on as if it had never stopped.
//!
//! ```text
//! step-00000500/model.safetensors       parameters and running statistics
//!               average.safetensors     their moving average
//!               optimiser.safetensors   velocities
//!               method.bin              the method's state (for SLA the whole allocator)
//!               state.json              step, settings, seconds; length and FNV-1a sum of each file, and its own
//! ```
//!
//! Sampling and augmentation are functions of (seed, step), so their state is the step. A checkpoint is
//! written beside its place and renamed once it is whole: there is never half of one. Older ones are removed
//! only after that. Where the newest is damaged all the same, a run goes on from the one before.

use std::fs;
use std::path::{Path, PathBuf};

use candle_core::Device;
use serde::{Deserialize, Serialize};

use super::error::TrainError;
use super::folder::{CHECKPOINTS, read_json, write_json, write_whole};
use super::settings::Settings;
use crate::fingerprint::Fingerprint;
use crate::nn::{Tensors, load_tensors, tensor_bytes};

const VERSION: u32 = 1;
const FILES: [&str; 4] = [
    "model.safetensors",
    "average.safetensors",
    "optimiser.safetensors",
    "method.bin",
];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct State {
    version: u32,
    step: u64,
    seconds: f64,
    #[serde(default)]
    step_seconds: f64,
    allocation_seconds: f64,
    settings: Settings,
    files: Vec<Sum>,
    /// FNV-1a of all that is above; checkpoints of older versions have none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    own: String,
}

impl State {
    fn sum(&self) -> Result<String, serde_json::Error> {
        let bare = Self {
            own: String::new(),
            ..self.clone()
        };
        Ok(Fingerprint::of(&serde_json::to_vec(&bare)?).finish())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Sum {
    name: String,
    bytes: u64,
    fnv1a: String,
}

/// A run between two steps.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    pub(crate) step: u64,
    pub(crate) seconds: f64,
    pub(crate) step_seconds: f64,
    pub(crate) allocation_seconds: f64,
    pub(crate) settings: Settings,
    pub(crate) model: Tensors,
    pub(crate) average: Tensors,
    pub(crate) optimiser: Tensors,
    pub(crate) method: Vec<u8>,
}

/// A checkpoint that was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) path: PathBuf,
    /// Why newer ones were passed over.
    pub(crate) damaged: Vec<TrainError>,
}

impl Checkpoint {
    /// Writes into a run's folder, then removes all but the newest `keep`.
    pub(crate) fn write(&self, run: &Path, keep: usize) -> Result<PathBuf, TrainError> {
        let root = run.join(CHECKPOINTS);
        let place = root.join(format!("step-{:08}", self.step));
        let beside = root.join(format!(".step-{:08}", self.step));
        if beside.exists() {
            fs::remove_dir_all(&beside).map_err(TrainError::io(&beside))?;
        }
        fs::create_dir_all(&beside).map_err(TrainError::io(&beside))?;
        let mut contents = Vec::with_capacity(FILES.len());
        for tensors in [&self.model, &self.average, &self.optimiser] {
            contents.push(tensor_bytes(tensors)?);
        }
        contents.push(self.method.clone());
        let mut files = Vec::new();
        for (name, bytes) in FILES.into_iter().zip(&contents) {
            write_whole(&beside.join(name), bytes)?;
            files.push(Sum {
                name: name.to_owned(),
                bytes: bytes.len() as u64,
                fnv1a: Fingerprint::of(bytes).finish(),
            });
        }
        let mut state = State {
            version: VERSION,
            step: self.step,
            seconds: self.seconds,
            step_seconds: self.step_seconds,
            allocation_seconds: self.allocation_seconds,
            settings: self.settings.clone(),
            files,
            own: String::new(),
        };
        state.own = state.sum().map_err(|e| TrainError::damaged(&beside, e))?;
        write_json(&beside.join("state.json"), &state)?;
        if place.exists() {
            fs::remove_dir_all(&place).map_err(TrainError::io(&place))?;
        }
        fs::rename(&beside, &place).map_err(TrainError::io(&place))?;
        let mut all = list(run)?;
        let old = all.len().saturating_sub(keep);
        for (_, path) in all.drain(..old) {
            fs::remove_dir_all(&path).map_err(TrainError::io(&path))?;
        }
        Ok(place)
    }

    /// The newest checkpoint of a run that can be read, its place, and what was wrong with the newer ones.
    ///
    /// # Errors
    /// Where there are checkpoints but none is whole: what is wrong with the newest.
    pub(crate) fn newest(run: &Path, device: &Device) -> Result<Option<Found>, TrainError> {
        let mut damaged = Vec::new();
        for (step, path) in list(run)?.into_iter().rev() {
            match Self::read(&path, step, device) {
                Ok(checkpoint) => {
                    return Ok(Some(Found {
                        checkpoint,
                        path,
                        damaged,
                    }));
                }
                Err(error) => damaged.push(error),
            }
        }
        match damaged.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(None),
        }
    }

    fn read(path: &Path, step: u64, device: &Device) -> Result<Self, TrainError> {
        let place = path.join("state.json");
        let state: State = read_json(&place)?;
        if state.version != VERSION {
            let problem = format!("it has version {}, not {VERSION}", state.version);
            return Err(TrainError::damaged(path, problem));
        }
        if state.step != step {
            let problem = format!("it tells of step {}, not {step}", state.step);
            return Err(TrainError::damaged(&place, problem));
        }
        let sum = state.sum().map_err(|e| TrainError::damaged(&place, e))?;
        if !state.own.is_empty() && state.own != sum {
            let problem = format!("its sum is {sum}, not {}", state.own);
            return Err(TrainError::damaged(&place, problem));
        }
        let mut contents = Vec::new();
        for name in FILES {
            let file = path.join(name);
            let Some(sum) = state.files.iter().find(|s| s.name == name) else {
                return Err(TrainError::damaged(path, format!("{name} is not listed")));
            };
            let bytes = fs::read(&file).map_err(|e| match e.kind() {
                std::io::ErrorKind::NotFound => {
                    TrainError::damaged(&file, "the file is missing from its checkpoint")
                }
                _ => TrainError::io(&file)(e),
            })?;
            let found = Fingerprint::of(&bytes).finish();
            if bytes.len() as u64 != sum.bytes || found != sum.fnv1a {
                let problem = format!(
                    "expected {} bytes with sum {}, found {} with {found}",
                    sum.bytes,
                    sum.fnv1a,
                    bytes.len(),
                );
                return Err(TrainError::damaged(&file, problem));
            }
            contents.push(bytes);
        }
        let tensors = |index: usize| {
            let file = path.join(FILES[index]);
            load_tensors(&file, device).map_err(|e| TrainError::damaged(&file, e))
        };
        Ok(Self {
            step: state.step,
            seconds: state.seconds,
            step_seconds: state.step_seconds,
            allocation_seconds: state.allocation_seconds,
            settings: state.settings,
            model: tensors(0)?,
            average: tensors(1)?,
            optimiser: tensors(2)?,
            method: contents.pop().unwrap_or_default(),
        })
    }
}

/// The checkpoints of a run with their steps, oldest first.
pub(crate) fn list(run: &Path) -> Result<Vec<(u64, PathBuf)>, TrainError> {
    let root = run.join(CHECKPOINTS);
    if !root.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(&root).map_err(TrainError::io(&root))? {
        let path = entry.map_err(TrainError::io(&root))?.path();
        let name = path
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default();
        if let Some(step) = name.strip_prefix("step-").and_then(|s| s.parse().ok()) {
            found.push((step, path));
        }
    }
    found.sort();
    Ok(found)
}
