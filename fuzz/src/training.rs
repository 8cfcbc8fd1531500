//! Checkpoints and run folders: a run goes on from whole ones, and says what is wrong with others.
//!
//! `state.json` lists length and sum of each file, which no mutation would keep: they are made right first.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use earthmover_ssl::data::Dataset;
use earthmover_ssl::methods::{MethodName, MethodSpec};
use earthmover_ssl::trainer::{ModelSpec, Recorded, Settings, Trainer, subset};
use earthmover_testkit::fnv1a;
use serde_json::Value;

use crate::allocator::summed;
use crate::{LONGEST, bundle, readable, scratch, unbundle};

const MESSAGE: usize = 1500;
const STEPS: u64 = 4;
const METHODS: [MethodName; 4] = [
    MethodName::Sla,
    MethodName::Flexmatch,
    MethodName::Freematch,
    MethodName::Softmatch,
];
/// Of a checkpoint, as they follow each other in an input.
const CHECKPOINT: [&str; 5] = [
    "method.bin",
    "model.safetensors",
    "average.safetensors",
    "optimiser.safetensors",
    "state.json",
];
/// Of a run.
const RUN: [&str; 6] = [
    "settings.json",
    "steps.csv",
    "classes.jsonl",
    "evaluations.jsonl",
    "fidelity.jsonl",
    "summary.json",
];

fn settings(method: u8) -> Settings {
    let defaults = Settings::default();
    Settings {
        model: ModelSpec::Mlp(vec![2]),
        method: MethodSpec::of(METHODS[usize::from(method) % METHODS.len()]),
        train_examples: Some(40),
        test_examples: Some(10),
        steps: STEPS,
        batch: 4,
        ratio: 2,
        evaluate_every: 2,
        checkpoint_every: 2,
        keep: 1,
        ..defaults
    }
}

fn dataset() -> Arc<Dataset> {
    static DATA: OnceLock<Arc<Dataset>> = OnceLock::new();
    let load = || subset(&settings(0)).expect("the embedded digits");
    DATA.get_or_init(load).clone()
}

fn empty(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).expect("a folder");
}

/// `state.json` with the lengths and sums of these files; as it is where it is no such thing.
fn with_sums(state: &[u8], files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice::<Value>(state) else {
        return state.to_vec();
    };
    let listed = value.get_mut("files").and_then(Value::as_array_mut);
    for entry in listed.into_iter().flatten() {
        let name = entry.get("name").and_then(Value::as_str);
        let found = files.iter().find(|(n, _)| Some(*n) == name);
        if let (Some((_, bytes)), Some(entry)) = (found, entry.as_object_mut()) {
            entry.insert("bytes".to_owned(), bytes.len().into());
            entry.insert("fnv1a".to_owned(), format!("{:016x}", fnv1a(bytes)).into());
        }
    }
    serde_json::to_vec(&value).unwrap_or_default()
}

/// `Trainer::resume`, and the rest of the run where it is willing.
pub fn checkpoint(data: &[u8]) {
    let Some((&method, rest)) = data.split_first() else {
        return;
    };
    if data.len() > LONGEST {
        return;
    }
    let parts: [_; CHECKPOINT.len()] = unbundle(rest);
    let folder = scratch("checkpoint");
    let place = folder.join("checkpoints").join("step-00000002");
    empty(&place);
    let mut files = Vec::new();
    for (name, bytes) in CHECKPOINT.into_iter().zip(parts) {
        let bytes = match name {
            "state.json" => with_sums(bytes, &files),
            // An allocator has a sum of its own.
            "method.bin" if bytes.starts_with(b"EMLA") => summed(bytes),
            _ => bytes.to_vec(),
        };
        fs::write(place.join(name), &bytes).expect("a file");
        files.push((name, bytes));
    }
    for (name, bytes) in RUN.iter().zip(records()).take(4) {
        fs::write(folder.join(name), bytes).expect("a file");
    }
    match Trainer::resume(settings(method), dataset(), &folder) {
        Ok(mut trainer) => {
            // Weights of any size may end in numbers that are none; that is an error, not a panic.
            if let Err(error) = trainer.run(&AtomicBool::new(false), &mut ()) {
                readable(&error, MESSAGE);
            }
        }
        Err(error) => readable(&error, MESSAGE),
    }
}

/// `Recorded::read`.
pub fn run_folder(data: &[u8]) {
    if data.len() > LONGEST {
        return;
    }
    let folder = scratch("run");
    empty(&folder);
    let parts: [_; RUN.len()] = unbundle(data);
    for (name, bytes) in RUN.iter().zip(parts) {
        fs::write(folder.join(name), bytes).expect("a file");
    }
    for error in [
        Recorded::read(&folder).err(),
        Recorded::outcome(&folder).err(),
    ]
    .iter()
    .flatten()
    {
        readable(error, MESSAGE);
    }
}

/// A short run of a method, whose folder is left in place.
fn trained(method: u8) -> std::path::PathBuf {
    let folder = scratch("seed");
    empty(&folder);
    let mut trainer =
        Trainer::new(settings(method), dataset(), Some(&folder)).expect("a small run");
    let _ = trainer
        .run(&AtomicBool::new(false), &mut ())
        .expect("a small run");
    folder
}

/// The records of a whole run, for checkpoints to go on with.
fn records() -> &'static [Vec<u8>] {
    static RECORDS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    RECORDS.get_or_init(|| {
        let folder = trained(0);
        let read = |name: &&str| fs::read(folder.join(name)).unwrap_or_default();
        RUN.iter().map(read).collect()
    })
}

/// One checkpoint of each method that has a state.
#[must_use]
pub fn checkpoint_seeds() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for (index, method) in METHODS.iter().enumerate() {
        let folder = trained(index as u8).join(format!("checkpoints/step-{STEPS:08}"));
        let files = CHECKPOINT.map(|name| fs::read(folder.join(name)).expect("a checkpoint"));
        let mut bytes = vec![index as u8];
        bytes.extend(bundle(&files.each_ref().map(Vec::as_slice)));
        all.push((format!("{method:?}").to_lowercase(), bytes));
    }
    all
}

/// One whole run.
#[must_use]
pub fn run_folder_seeds() -> Vec<(String, Vec<u8>)> {
    let files: Vec<&[u8]> = records().iter().map(Vec::as_slice).collect();
    vec![("sla".to_owned(), bundle(&files))]
}
