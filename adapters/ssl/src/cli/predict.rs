//! `predict` and `labels`: what a trained network says about new examples, and what a run says about its own.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::Failure;
use super::allocate::{keep_apart, quoted};
use super::output::{emit, say, speak_json};
use crate::data::npy::Writer;
use crate::data::{Part, Samples, Shape, UNLABELED, arrays, csv, folder};
use crate::trainer::{
    LabelRecord, Network, Origin, Recorded, TrainError, labels as run_labels, subset, write_whole,
};

/// Flags of `predict`.
#[derive(Args, Clone, Debug)]
pub(crate) struct PredictFlags {
    /// A run folder
    run: PathBuf,
    /// Images (a file, or a folder of them), a .npy of examples, or a .csv of features
    input: PathBuf,
    /// Where to put the answers: .csv (example, class, probability, and every class's), or .npy of all probabilities [default: predictions.csv in the run]
    #[arg(long, short = 'o')]
    output: Option<PathBuf>,
    /// cpu, cuda:0, metal or auto
    #[arg(long, default_value = "cpu")]
    device: String,
    /// One JSON object in place of text
    #[arg(long)]
    json: bool,
}

/// Flags of `labels`.
#[derive(Args, Clone, Debug)]
pub(crate) struct LabelFlags {
    /// A run folder
    run: PathBuf,
    /// Where to put them: .csv (example, class, origin, weight, probability, price) or .npy of numbers, -1 for abstention [default: labels.csv in the run]
    #[arg(long, short = 'o')]
    output: Option<PathBuf>,
    /// The data of the run, where they have moved
    #[arg(long)]
    data: Option<PathBuf>,
    /// cpu, cuda:0, metal or auto
    #[arg(long, default_value = "cpu")]
    device: String,
    /// One JSON object in place of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Format {
    Csv,
    Npy,
}

fn format_of(path: &Path) -> Result<Format, Failure> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("csv") => Ok(Format::Csv),
        Some("npy") => Ok(Format::Npy),
        _ => Err(Failure::Input(format!(
            "{}: answers are written as .csv or .npy",
            path.display()
        ))),
    }
}

/// The examples of an input, as a network for `shape` wants them.
fn read(input: &Path, network: &Network) -> Result<Part, Failure> {
    let card = network.card();
    let extension = input
        .extension()
        .and_then(|e| e.to_str())
        .unwrap_or_default();
    let part = match (card.shape, extension.to_lowercase().as_str()) {
        (_, "npy") => arrays::read_unlabeled(input)?,
        (Shape::Table { features }, "csv") => {
            let table = csv::read(input, Some(features))?;
            let count = table.classes.len();
            Part::new(
                card.shape,
                Samples::Features(table.features),
                vec![UNLABELED; count],
                input,
            )?
        }
        (Shape::Image { .. }, _) => {
            let files = match input.is_dir() {
                true => folder::images_below(input)?,
                false => vec![input.to_path_buf()],
            };
            if files.is_empty() {
                return Err(Failure::Input(format!(
                    "{}: there is no .png, .jpg or .jpeg in it",
                    input.display()
                )));
            }
            let root = if input.is_dir() {
                input
            } else {
                input.parent().unwrap_or(input)
            };
            folder::for_shape(root, files, card.size, card.shape)?
        }
        (Shape::Table { features }, _) => {
            return Err(Failure::Input(format!(
                "{}: the network takes rows of {features} features, from a .csv or .npy",
                input.display()
            )));
        }
    };
    if part.shape() != card.shape {
        return Err(Failure::Input(format!(
            "{} holds examples of {}, the network takes {}",
            input.display(),
            part.shape(),
            card.shape
        )));
    }
    Ok(part)
}

/// Writes an array whole.
fn write_array(
    path: &Path,
    write: impl FnOnce(&Path) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".part");
    let beside = path.with_file_name(name);
    write(&beside)
        .and_then(|()| std::fs::rename(&beside, path))
        .map_err(|e| Failure::Input(format!("{}: {e}", path.display())))
}

/// Says what a network makes of new examples.
pub(crate) fn predict(flags: &PredictFlags) -> Result<(), Failure> {
    if flags.json {
        speak_json();
    }
    let output = flags
        .output
        .clone()
        .unwrap_or_else(|| flags.run.join("predictions.csv"));
    let format = format_of(&output)?;
    keep_apart(&[&flags.input], &[&output])?;
    let network = Network::open(&flags.run, &flags.device)?;
    let part = read(&flags.input, &network)?;
    let classes = &network.card().classes;
    let k = classes.len();
    let mut text = String::from("example,class,probability");
    classes.iter().for_each(|c| {
        let _ = write!(text, ",{}", quoted(c));
    });
    text.push('\n');
    let mut all: Vec<f32> = Vec::new();
    let mut counts = vec![0usize; k];
    let indices: Vec<usize> = (0..part.len()).collect();
    network.log_probs(&part, &indices, |indices, rows| {
        for (&index, row) in indices.iter().zip(rows.chunks_exact(k)) {
            let p: Vec<f32> = row.iter().map(|l| l.exp()).collect();
            let best = (0..k).fold(0, |b, j| if p[j] > p[b] { j } else { b });
            counts[best] += 1;
            match format {
                Format::Npy => all.extend(p),
                Format::Csv => {
                    let _ = write!(
                        text,
                        "{},{},{:.6}",
                        quoted(&part.name(index)),
                        quoted(&classes[best]),
                        p[best]
                    );
                    p.iter().for_each(|p| {
                        let _ = write!(text, ",{p:.6}");
                    });
                    text.push('\n');
                }
            }
        }
        Ok(())
    })?;
    match format {
        Format::Csv => write_whole(&output, text.as_bytes())?,
        Format::Npy => write_array(&output, |path| {
            let mut writer = Writer::create(path, "<f4", &[part.len(), k])?;
            writer.values(&all)?;
            writer.finish()
        })?,
    }
    for (class, count) in classes.iter().zip(&counts).filter(|(_, c)| **c > 0) {
        say!("{count:>8}  {class}");
    }
    say!("wrote {} ({} examples)", output.display(), part.len());
    let counted: serde_json::Map<String, serde_json::Value> = classes
        .iter()
        .zip(&counts)
        .map(|(class, count)| (class.clone(), (*count).into()))
        .collect();
    emit(
        &serde_json::json!({"event": "predictions", "file": output, "examples": part.len(), "classes": counted}),
    );
    Ok(())
}

/// Says what a run makes of the examples it learned from.
pub(crate) fn labels(flags: &LabelFlags) -> Result<(), Failure> {
    if flags.json {
        speak_json();
    }
    let output = flags
        .output
        .clone()
        .unwrap_or_else(|| flags.run.join("labels.csv"));
    let format = format_of(&output)?;
    if !Recorded::is_run(&flags.run) {
        return Err(TrainError::Damaged {
            path: flags.run.clone(),
            problem: "there is no run in it (no settings.json)".to_owned(),
        }
        .into());
    }
    let (mut settings, _) = Recorded::outcome(&flags.run)?;
    if let Some(data) = &flags.data {
        settings.data.clone_from(data);
    }
    let is_lost = !settings.data.as_os_str().is_empty() && !settings.data.exists();
    let dataset = subset(&settings).map_err(|e| match is_lost {
        true => Failure::Input(format!("{e} Say where the run's data are now with --data.")),
        false => e.into(),
    })?;
    let records = run_labels(&flags.run, &dataset, &flags.device)?;
    match format {
        Format::Csv => {
            let mut text = String::from("example,class,origin,weight,probability,price\n");
            for r in &records {
                let price = r.price.map_or(String::new(), |p| format!("{p:.6}"));
                let _ = writeln!(
                    text,
                    "{},{},{},{:.6},{:.6},{price}",
                    quoted(&dataset.train.name(r.index)),
                    quoted(&dataset.classes[r.label]),
                    r.origin.name(),
                    r.weight,
                    r.probability
                );
            }
            write_whole(&output, text.as_bytes())?;
        }
        Format::Npy => {
            let mut numbers = vec![-1i64; dataset.train.len()];
            for r in records.iter().filter(|r| r.origin != Origin::Abstained) {
                numbers[r.index] = r.label as i64;
            }
            write_array(&output, |path| {
                let mut writer = Writer::create(path, "<i8", &[numbers.len()])?;
                writer.integers(&numbers)?;
                writer.finish()
            })?;
        }
    }
    let count = |origin| records.iter().filter(|r| r.origin == origin).count();
    say!(
        "{} examples: {} labels were given, {} allocated, {} abstained (the class is then the network's guess)",
        records.len(),
        count(Origin::Given),
        count(Origin::Allocated),
        count(Origin::Abstained)
    );
    tell_accuracy(&records, &dataset.train);
    say!("wrote {}", output.display());
    emit(&serde_json::json!({
        "event": "labels",
        "file": output,
        "examples": records.len(),
        "given": count(Origin::Given),
        "allocated": count(Origin::Allocated),
        "abstained": count(Origin::Abstained),
    }));
    Ok(())
}

/// Where the truth is known after all, how many are right.
fn tell_accuracy(records: &[LabelRecord], train: &Part) {
    let judged: Vec<&LabelRecord> = records
        .iter()
        .filter(|r| r.origin == Origin::Allocated && train.label(r.index).is_some())
        .collect();
    let right = judged
        .iter()
        .filter(|r| train.label(r.index) == Some(r.label as u32))
        .count();
    if !judged.is_empty() {
        say!(
            "of {} allocated labels whose truth is in the data, {:.2}% are right",
            judged.len(),
            100.0 * right as f64 / judged.len() as f64
        );
    }
}
