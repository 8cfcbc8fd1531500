//! Runs some settings one after another and compares what comes out.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use earthmover_ssl::data::{Dataset, Kind};
use earthmover_ssl::methods::{MethodName, MethodSpec};
use earthmover_ssl::nn::DeviceName;
use earthmover_ssl::report::{self, Row, compare, mean_and_deviation};
use earthmover_ssl::trainer::{
    Ending, ModelSpec, Recorded, Settings, Summary, TrainError, Trainer, subset,
};

use crate::Failure;
use crate::flags::{TrainFlags, folder_name, per_method, seeded};
use crate::output::{remark, say};
use crate::progress::{Bar, STOP, listen};

/// The methods compared on the digits when none is named.
const TRIO: [MethodName; 3] = [
    MethodName::Supervised,
    MethodName::Fixmatch,
    MethodName::Sla,
];

/// Trains as the flags say.
pub(crate) fn train(flags: &TrainFlags) -> Result<(), Failure> {
    let base = flags.changes.apply(flags.preset.as_deref())?;
    let methods = match (flags.method.as_slice(), base.dataset) {
        ([], Kind::Digits) => TRIO.map(MethodSpec::of).to_vec(),
        ([], _) => vec![base.method.clone()],
        (given, _) => given.to_vec(),
    };
    choose_threads([&base].into_iter());
    announce_device(&base)?;
    let dataset = subset(&base)?;
    let root = flags.output.clone().unwrap_or_else(|| {
        let name = flags.preset.clone();
        PathBuf::from("runs").join(
            name.filter(|n| n.starts_with("paper"))
                .unwrap_or_else(|| format!("{}-{}", base.dataset, base.split.labels)),
        )
    });
    say!(
        "{}: {} training and {} test examples, {} labels ({}), {}, {} steps of {} labeled + {} unlabeled",
        dataset.name,
        dataset.train.len(),
        dataset.test.len(),
        base.split.labels,
        base.split.mode,
        base.model,
        base.steps,
        base.batch,
        base.batch * base.ratio
    );
    listen();
    let started = Instant::now();
    let mut folders = Vec::new();
    for settings in per_method(&base, &methods, &flags.changes)? {
        for &seed in &flags.seeds {
            let settings = seeded(&settings, seed);
            let folder = root.join(folder_name(&settings));
            let name = format!("{:<16} seed {seed}", settings.method.title());
            let summary = one(&settings, &dataset, &folder, flags.resume, &name)?;
            say!(
                "{name}: test error {:5.2}% after {:.1} s",
                100.0 * (1.0 - summary.accuracy),
                summary.seconds
            );
            folders.push(folder);
        }
    }
    let runs: Vec<Recorded> = folders
        .iter()
        .map(|f| Recorded::read(f))
        .collect::<Result<_, _>>()?;
    say!("");
    print_table(&compare(&runs));
    let page = root.join("report.html");
    let title = format!("{} with {} labels", dataset.name, base.split.labels);
    report::write(&title, &folders, &dataset.classes, &page)?;
    say!(
        "\nreport: {}   ({:.0} s in all)",
        page.display(),
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

/// One run, shown by a bar. A finished one is not repeated when resuming.
pub(crate) fn one(
    settings: &Settings,
    dataset: &Arc<Dataset>,
    folder: &Path,
    resume: bool,
    name: &str,
) -> Result<Summary, Failure> {
    if resume && Recorded::is_run(folder) {
        let (stored, summary) = Recorded::outcome(folder)?;
        if let Some((field, stored, given)) = stored.difference(settings) {
            return Err(Failure::Input(
                TrainError::OtherSettings {
                    path: folder.to_path_buf(),
                    field,
                    stored,
                    given,
                }
                .to_string(),
            ));
        }
        if let Some(summary) = summary.filter(|s| s.finished) {
            return Ok(summary);
        }
    }
    let mut trainer = match resume {
        true => Trainer::resume(settings.clone(), dataset.clone(), folder)?,
        false => Trainer::new(settings.clone(), dataset.clone(), Some(folder))?,
    };
    let mut bar = Bar::new(name, trainer.steps_done(), settings.steps);
    let ending = trainer.run(&STOP, &mut bar);
    bar.finish();
    match ending? {
        Ending::Finished => Ok(trainer.summary()),
        Ending::Stopped => Err(Failure::Stopped),
    }
}

/// One thread for matrices this small, unless `RAYON_NUM_THREADS` says otherwise: a perceptron's products take
/// microseconds, and waking a second thread for each costs more than it saves (five times the time on a busy
/// machine). Batches are still made on another thread. The results are the same either way.
pub(crate) fn choose_threads<'a>(mut runs: impl Iterator<Item = &'a Settings>) {
    const VARIABLE: &str = "RAYON_NUM_THREADS";
    if std::env::var_os(VARIABLE).is_none() && runs.all(|s| matches!(s.model, ModelSpec::Mlp(_))) {
        // SAFETY: called from main before this program starts its first thread.
        unsafe { std::env::set_var(VARIABLE, "1") };
    }
}

/// Says so where the device asked for is not to be had.
pub(crate) fn announce_device(settings: &Settings) -> Result<(), Failure> {
    let name: DeviceName = settings
        .device
        .parse()
        .map_err(|e: earthmover_ssl::nn::DeviceError| Failure::Input(e.to_string()))?;
    if let Some(fallback) = name.open().fallback {
        remark!("note: {fallback}");
    }
    Ok(())
}

/// The comparison, for people.
pub(crate) fn print_table(rows: &[Row]) {
    let width = rows.iter().map(|r| r.name.chars().count()).max();
    let width = width.unwrap_or(6).max(6);
    say!(
        "{:<width$}   test error %     allocated   labels right   seconds   allocation",
        "method"
    );
    for row in rows {
        let (mean, deviation) = mean_and_deviation(&row.errors);
        let error = match row.errors.len() {
            0 => "not finished".to_owned(),
            1 => format!("{mean:5.2}"),
            _ => format!("{mean:5.2} ± {deviation:.2}"),
        };
        // Padded by hand: ± is one character of two bytes.
        let pad = " ".repeat(16usize.saturating_sub(error.chars().count()));
        let name = format!(
            "{}{}",
            row.name,
            " ".repeat(width - row.name.chars().count())
        );
        say!(
            "{name}   {error}{pad} {:8.1}%  {:12.1}%  {:8.1}  {:9.2}%",
            row.allocated,
            row.label_accuracy,
            row.seconds,
            row.allocation
        );
    }
    if rows.iter().any(|r| r.errors.len() > 1) {
        say!("\nerrors of each seed:");
        for row in rows {
            let each: Vec<String> = row.errors.iter().map(|e| format!("{e:.2}")).collect();
            say!("  {:<width$}  {}", row.name, each.join("  "));
        }
    }
}
