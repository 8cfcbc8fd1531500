//! `allocate`: labels from a matrix of logits, without training and without a deep-learning framework.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Args;
use earthmover::{Progress, Status};
use serde_json::json;

use super::Failure;
use super::output::{emit, remark, say, speak_json};
use super::signal::{STOP, listen};
use crate::allocation::{Bounds, BulkAllocation, BulkLabel, ClassTotals};
use crate::data::npy::{self, MappedArray, NpyValues, Writer};

/// Classes named on the console; files have all.
const SHOWN: usize = 20;

/// Flags of `allocate`.
#[derive(Args, Clone, Debug)]
pub(crate) struct AllocateFlags {
    /// The logits (or log-probabilities), n × k, .npy of f2, f4 or f8; it is mapped into memory, not read
    #[arg(long)]
    logits: PathBuf,
    /// Most that each class may get: none, empirical:y.npy, wilson:0.8:y.npy (y: labels that are known, -1 for others), or shares 0.1,0.2,…
    #[arg(long, default_value = "none")]
    bounds: String,
    /// Share of the examples to label
    #[arg(long, default_value_t = 1.0)]
    rho: f64,
    /// Inverse regularisation: larger is closer to the linear programme
    #[arg(long, default_value_t = 100.0)]
    gamma: f64,
    /// Error of the class masses, over the examples, at which to stop
    #[arg(long, default_value_t = 1e-3)]
    tolerance: f64,
    /// Most sweeps over the matrix
    #[arg(long)]
    max_iterations: Option<usize>,
    /// Soft labels, n × k, as .npy
    #[arg(long)]
    out: Option<PathBuf>,
    /// A label for each example: .csv (example, label, weight, probability, price), or .npy of numbers with -1 for abstention
    #[arg(long)]
    labels: Option<PathBuf>,
    /// The table of classes as .csv
    #[arg(long)]
    table: Option<PathBuf>,
    /// Names of the classes, one a line
    #[arg(long)]
    classes: Option<PathBuf>,
    /// One JSON object in place of text
    #[arg(long)]
    json: bool,
}

/// Reads, solves, writes.
pub(crate) fn allocate(flags: &AllocateFlags) -> Result<(), Failure> {
    if flags.json {
        speak_json();
    }
    let logits = MappedArray::open(&flags.logits)?;
    let &[examples, k] = logits.shape() else {
        return Err(Failure::Input(format!(
            "{} has shape {:?}; expected examples × classes",
            flags.logits.display(),
            logits.shape()
        )));
    };
    let names = names(flags.classes.as_deref(), k)?;
    let counted = flags.bounds.rsplit_once(':').map(|(_, path)| path.into());
    let read = [
        Some(&flags.logits),
        flags.classes.as_ref(),
        counted.as_ref(),
    ];
    let written = [&flags.out, &flags.labels, &flags.table].map(Option::as_ref);
    keep_apart(
        &read.into_iter().flatten().collect::<Vec<_>>(),
        &written.into_iter().flatten().collect::<Vec<_>>(),
    )?;
    if are_probabilities(&logits, examples, k) {
        remark!(
            "note: the rows of {} are between 0 and 1 and sum to one: probabilities? Give their logarithms",
            flags.logits.display()
        );
    }
    let options = BulkAllocation::options(bounds(&flags.bounds, k)?)
        .rho(flags.rho)
        .gamma(flags.gamma)
        .tolerance(flags.tolerance)
        .on_progress(watch);
    let options = match flags.max_iterations {
        Some(sweeps) => options.max_iterations(sweeps),
        None => options,
    };
    let mut outputs = Outputs::open(flags, examples, k)?;
    listen();
    let answer = options.solve(&logits, examples)?;
    let mut totals = answer.empty_totals();
    let mut failed = None;
    let mut said = Instant::now();
    answer.rows(&logits, 0..examples, |first, shares, labels| {
        if said.elapsed().as_secs() >= BETWEEN {
            said = Instant::now();
            remark!("{:>8}  labels of {first} of {examples} examples", "");
        }
        if failed.is_none() {
            failed = outputs.rows(first, shares, labels, &names, &answer).err();
        }
        answer.add_rows(&mut totals, shares, labels)
    })?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    outputs.finish()?;
    if let Some(path) = &flags.table {
        write_table(path, &names, &totals)?;
    }
    tell(&answer, &names, &totals);
    match answer.status {
        Status::Converged => Ok(()),
        Status::Stopped => Err(Failure::Run(
            "stopped: what was written is the allocation so far".to_owned(),
        )),
        status => {
            let much = match answer.violation <= flags.tolerance {
                true => format!(
                    "a tolerance of {:.1e} is finer than rounding lets anybody tell",
                    flags.tolerance
                ),
                false => format!(
                    "the class masses are off by {:.1e} of the examples, and {:.1e} was asked for",
                    answer.violation, flags.tolerance
                ),
            };
            Err(Failure::Run(format!(
                "not converged ({status:?}): {much}; what was written is the best found. Try a larger --tolerance or a smaller --gamma"
            )))
        }
    }
}

/// Seconds between two lines about a long solve.
const BETWEEN: u64 = 10;

/// A line now and then, and an ear for Ctrl-C.
fn watch(progress: &Progress) -> ControlFlow<()> {
    static STARTED: OnceLock<Instant> = OnceLock::new();
    static SAID: AtomicU64 = AtomicU64::new(0);
    let seconds = STARTED.get_or_init(Instant::now).elapsed().as_secs();
    if seconds >= SAID.load(Ordering::Relaxed) + BETWEEN {
        SAID.store(seconds, Ordering::Relaxed);
        remark!(
            "{seconds:>6} s  sweep {}, off by {:.1e} of all mass",
            progress.iteration,
            progress.violation
        );
    }
    match STOP.load(Ordering::Relaxed) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

/// Refuses files that would be written over each other, or over what is read.
pub(crate) fn keep_apart(read: &[&PathBuf], written: &[&PathBuf]) -> Result<(), Failure> {
    // A file that is not there yet is known by its folder.
    let whole = |path: &PathBuf| {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize();
        path.canonicalize().unwrap_or_else(|_| {
            let name = path.file_name().unwrap_or_default();
            folder.map_or_else(|_| path.clone(), |f| f.join(name))
        })
    };
    let mut taken: Vec<PathBuf> = read.iter().map(|p| whole(p)).collect();
    for path in written {
        let place = whole(path);
        if taken.contains(&place) {
            return Err(Failure::Input(format!(
                "{} would be written over another file of this command",
                path.display()
            )));
        }
        taken.push(place);
    }
    Ok(())
}

/// Whether the first rows look like probabilities rather than their logarithms.
fn are_probabilities(logits: &MappedArray, examples: usize, k: usize) -> bool {
    const LOOKED_AT: usize = 100;
    let mut rows = vec![0.0f32; LOOKED_AT.min(examples) * k];
    logits.read(0, &mut rows);
    !rows.is_empty()
        && rows.chunks_exact(k).all(|row| {
            let sum: f32 = row.iter().sum();
            row.iter().all(|p| (0.0..=1.0).contains(p)) && (sum - 1.0).abs() < 0.01
        })
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> Failure + '_ {
    move |e| Failure::Input(format!("{}: {e}", path.display()))
}

fn names(path: Option<&Path>, k: usize) -> Result<Vec<String>, Failure> {
    let Some(path) = path else {
        return Ok((0..k).map(|j| j.to_string()).collect());
    };
    let text = std::fs::read_to_string(path).map_err(io(path))?;
    let names: Vec<String> = text.lines().map(|l| l.trim().to_owned()).collect();
    match names.len() == k {
        true => Ok(names),
        false => Err(Failure::Input(format!(
            "{} has {} lines for {k} classes",
            path.display(),
            names.len()
        ))),
    }
}

/// Labels per class in an array of numbers, -1 for none.
fn counts(path: &str, k: usize) -> Result<Vec<usize>, Failure> {
    let path = Path::new(path);
    let labels: Vec<i64> = match npy::read(path)?.values {
        NpyValues::I64(v) => v,
        NpyValues::U8(v) => v.into_iter().map(i64::from).collect(),
        NpyValues::F32(_) | NpyValues::F64(_) => {
            return Err(Failure::Input(format!(
                "{}: expected whole numbers, labels from 0 to {}",
                path.display(),
                k - 1
            )));
        }
    };
    let mut counts = vec![0; k];
    for (at, label) in labels.into_iter().enumerate().filter(|(_, l)| *l != -1) {
        let count = usize::try_from(label).ok().and_then(|l| counts.get_mut(l));
        *count.ok_or_else(|| {
            Failure::Input(format!(
                "{}: label {label} of example {at} is outside 0..{k} (-1 stands for none)",
                path.display()
            ))
        })? += 1;
    }
    Ok(counts)
}

fn bounds(text: &str, k: usize) -> Result<Bounds, Failure> {
    let wrong = || {
        Failure::Input(format!(
            "unknown bounds `{text}`: none, empirical:y.npy, wilson:0.8:y.npy or {k} shares 0.1,0.2,…"
        ))
    };
    match text.split_once(':').unwrap_or((text, "")) {
        ("none", "") => Ok(Bounds::none(k)),
        ("empirical", path) if !path.is_empty() => Ok(Bounds::empirical(&counts(path, k)?)?),
        ("wilson", rest) => {
            let (level, path) = rest.split_once(':').unwrap_or(("0.8", rest));
            if path.is_empty() || path.parse::<f64>().is_ok() {
                return Err(Failure::Input(
                    "wilson bounds need labels to count: wilson:0.8:y.npy".to_owned(),
                ));
            }
            let level = level.parse().map_err(|_| wrong())?;
            Ok(Bounds::wilson(&counts(path, k)?, level)?)
        }
        _ => {
            let shares: Vec<f64> = text
                .split(',')
                .map(|s| s.trim().parse().map_err(|_| wrong()))
                .collect::<Result<_, _>>()?;
            if shares.len() != k {
                return Err(Failure::Input(format!(
                    "{} shares for {k} classes",
                    shares.len()
                )));
            }
            Ok(Bounds::given(&shares)?)
        }
    }
}

/// Files that grow row by row, under other names until they are whole.
struct Outputs {
    soft: Option<(PathBuf, Writer)>,
    numbers: Option<(PathBuf, Writer)>,
    text: Option<(PathBuf, BufWriter<File>)>,
    _unfinished: Unfinished,
}

/// Files under other names, removed unless they get their own.
#[derive(Default)]
struct Unfinished(Vec<PathBuf>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        for path in &self.0 {
            // What cannot be removed is left behind: the failure that led here is what is told.
            let _ = std::fs::remove_file(beside(path));
        }
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".part");
    path.with_file_name(name)
}

impl Outputs {
    /// Opens everything first: a folder that is not there is found before the work.
    fn open(flags: &AllocateFlags, n: usize, k: usize) -> Result<Self, Failure> {
        let mut unfinished = Unfinished::default();
        let mut array = |path: &PathBuf, kind: &str, shape: &[usize]| {
            unfinished.0.push(path.clone());
            let writer = Writer::create(&beside(path), kind, shape).map_err(io(path))?;
            Ok::<_, Failure>((path.clone(), writer))
        };
        let soft = flags
            .out
            .as_ref()
            .map(|p| array(p, "<f4", &[n, k]))
            .transpose()?;
        let (mut numbers, mut text) = (None, None);
        if let Some(path) = &flags.labels {
            match path.extension().and_then(|e| e.to_str()) {
                Some("npy") => numbers = Some(array(path, "<i8", &[n])?),
                Some("csv") => {
                    unfinished.0.push(path.clone());
                    let mut file = BufWriter::new(File::create(beside(path)).map_err(io(path))?);
                    writeln!(file, "example,label,weight,probability,price").map_err(io(path))?;
                    text = Some((path.clone(), file));
                }
                _ => {
                    return Err(Failure::Input(format!(
                        "{}: labels are written as .csv or .npy",
                        path.display()
                    )));
                }
            }
        }
        Ok(Self {
            soft,
            numbers,
            text,
            _unfinished: unfinished,
        })
    }

    fn rows(
        &mut self,
        first: usize,
        shares: &[f32],
        labels: &[BulkLabel],
        names: &[String],
        answer: &BulkAllocation,
    ) -> Result<(), Failure> {
        if let Some((path, writer)) = &mut self.soft {
            writer.values(shares).map_err(io(path))?;
        }
        if let Some((path, writer)) = &mut self.numbers {
            let number = |l: &BulkLabel| l.label.map_or(-1, |j| j as i64);
            let numbers: Vec<i64> = labels.iter().map(number).collect();
            writer.integers(&numbers).map_err(io(path))?;
        }
        if let Some((path, file)) = &mut self.text {
            for (at, l) in labels.iter().enumerate() {
                let name = l.label.map_or("", |j| names[j].as_str());
                let price = answer.price(l.label.unwrap_or(l.guess)).unwrap_or(0.0);
                writeln!(
                    file,
                    "{},{},{:.6},{:.6},{price:.6}",
                    first + at,
                    quoted(name),
                    l.weight,
                    l.probability
                )
                .map_err(io(path))?;
            }
        }
        Ok(())
    }

    /// Each is whole or gone, whatever happens to the next.
    fn finish(self) -> Result<(), Failure> {
        let settle = |path: &Path| std::fs::rename(beside(path), path).map_err(io(path));
        for (path, writer) in [self.soft, self.numbers].into_iter().flatten() {
            writer.finish().map_err(io(&path))?;
            settle(&path)?;
            say!("wrote {}", path.display());
        }
        if let Some((path, mut file)) = self.text {
            file.flush()
                .and_then(|()| file.get_ref().sync_all())
                .map_err(io(&path))?;
            settle(&path)?;
            say!("wrote {}", path.display());
        }
        Ok(())
    }
}

/// A field of a table with commas.
pub(crate) fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn write_table(path: &Path, names: &[String], totals: &[ClassTotals]) -> Result<(), Failure> {
    let mut text = String::from("class,mass,cap,price,labeled,abstained\n");
    for (name, t) in names.iter().zip(totals) {
        text.push_str(&format!(
            "{},{:.4},{:.4},{:.6},{},{}\n",
            quoted(name),
            t.mass,
            t.cap,
            t.price,
            t.labeled,
            t.abstained
        ));
    }
    std::fs::write(beside(path), text)
        .and_then(|()| std::fs::rename(beside(path), path))
        .map_err(io(path))?;
    say!("wrote {}", path.display());
    Ok(())
}

fn tell(answer: &BulkAllocation, names: &[String], totals: &[ClassTotals]) {
    let n = answer.examples as f64;
    let labeled: usize = totals.iter().map(|t| t.labeled).sum();
    let c = &answer.certificate;
    let width = names
        .iter()
        .map(|n| n.chars().count())
        .max()
        .unwrap_or(5)
        .clamp(5, 24);
    say!(
        "{:<width$} {:>12} {:>12} {:>9} {:>10} {:>10}",
        "class",
        "mass",
        "cap",
        "price",
        "labeled",
        "abstained"
    );
    // Of many classes those that pay most: what the bounds are about.
    let mut order: Vec<usize> = (0..totals.len()).collect();
    if order.len() > SHOWN {
        order.sort_by(|&a, &b| totals[b].price.total_cmp(&totals[a].price));
        order.truncate(SHOWN);
    }
    for j in order {
        let (name, t) = (&names[j], &totals[j]);
        say!(
            "{name:<width$} {:>12.1} {:>12.1} {:>9.4} {:>10} {:>10}",
            t.mass,
            t.cap,
            t.price,
            t.labeled,
            t.abstained
        );
    }
    if totals.len() > SHOWN {
        say!("… {} more; --table writes all", totals.len() - SHOWN);
    }
    say!(
        "\n{labeled} of {} examples get a label ({:.2}%), {} abstain; {} sweeps, {:.1} s",
        answer.examples,
        100.0 * labeled as f64 / n,
        answer.examples - labeled,
        answer.iterations,
        answer.seconds
    );
    say!(
        "a label costs −log p and its class's price, and an example abstains where that is more than {:.4} nats (p below {:.2e} where the price is 0)",
        answer.mass_price(),
        (-answer.mass_price()).exp()
    );
    say!(
        "certificate: no allocation within these bounds costs less than {:.6} nats an example, the one next to this costs {:.6}; \
         class masses are off by {:.1e} of the examples ({:?})",
        c.dual / n,
        c.primal / n,
        answer.violation,
        answer.status
    );
    let class = |(name, t): (&String, &ClassTotals)| json!({"class": name, "mass": t.mass, "cap": t.cap, "price": t.price, "labeled": t.labeled, "abstained": t.abstained});
    emit(&json!({
        "status": format!("{:?}", answer.status),
        "examples": answer.examples,
        "labeled": labeled,
        "sweeps": answer.iterations,
        "seconds": answer.seconds,
        "violation": answer.violation,
        "mass_price": answer.mass_price(),
        "certificate": {"dual": c.dual, "primal": c.primal, "objective": c.objective, "violation": c.violation, "mass": c.mass},
        "classes": names.iter().zip(totals).map(class).collect::<Vec<_>>(),
    }));
    if totals.iter().all(|t| t.price < 1e-9) {
        remark!(
            "note: no bound is felt: every class has room, and labels are the classifier's own"
        );
    }
}
