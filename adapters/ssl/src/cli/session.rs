//! Runs some settings one after another and compares what comes out.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;

use super::Failure;
use super::flags::{
    Seeds, TrainFlags, folder_name, labeled_list, per_method, refuse_shared, seeded,
};
use super::output::{emit, remark, say, speak_json};
use super::progress::Bar;
use super::signal::{STOP, listen};
use crate::data::{Dataset, Kind, SplitMode};
use crate::methods::{MethodName, MethodSpec};
use crate::report::{self, Row, compare};
use crate::trainer::{
    DataCard, Ending, ModelSpec, Recorded, Settings, Summary, TrainError, Trainer, subset,
};

/// The methods compared on the digits when none is named.
const TRIO: [MethodName; 3] = [
    MethodName::Supervised,
    MethodName::Fixmatch,
    MethodName::Sla,
];

/// One run to do.
struct Planned {
    settings: Settings,
    folder: PathBuf,
    name: String,
}

/// Trains as the flags say.
pub(crate) fn train(flags: &TrainFlags) -> Result<(), Failure> {
    let flags = flags.clone().configured()?;
    if flags.json {
        speak_json();
    }
    let mut base = flags.changes.apply(flags.preset.as_deref())?;
    let methods = match (flags.method.as_slice(), base.dataset) {
        ([], Kind::Digits) => TRIO.map(MethodSpec::of).to_vec(),
        ([], _) => vec![base.method.clone()],
        (given, _) => given.to_vec(),
    };
    choose_threads([&base].into_iter());
    let dataset = subset(&base)?;
    choose_labels(&flags, &mut base, &dataset)?;
    let root = flags.output.clone().unwrap_or_else(|| {
        let name = flags.preset.clone();
        PathBuf::from("runs").join(
            name.filter(|n| n.starts_with("paper"))
                .unwrap_or_else(|| format!("{}-{}", base.dataset, base.split.labels)),
        )
    });
    let seeds = flags.seeds.clone().unwrap_or(Seeds(vec![1])).0;
    let mut plan = Vec::new();
    for settings in per_method(&base, &methods, &flags.changes)? {
        for &seed in &seeds {
            let settings = seeded(&settings, seed);
            plan.push(Planned {
                folder: root.join(folder_name(&settings)),
                name: format!("{:<16} seed {seed}", settings.method.title()),
                settings,
            });
        }
    }
    refuse_shared(plan.iter().map(|p| (&p.settings, p.folder.as_path())))?;
    let card = check_all(&plan, &dataset)?;
    say!(
        "{}: {} training examples, {} with a label that may be used, {} test, {} validation; {}, {} steps of {} labeled + {} unlabeled",
        dataset.name,
        card.unlabeled,
        card.labeled.iter().sum::<usize>(),
        card.test,
        card.validation,
        base.model,
        base.steps,
        base.batch,
        base.batch * base.ratio
    );
    make_room(&plan, &flags)?;
    if flags.dry_run {
        for p in &plan {
            say!("would run {}: {}", p.name, p.folder.display());
            emit(
                &json!({"event": "planned", "run": p.name, "folder": p.folder, "settings": p.settings}),
            );
        }
        return Ok(());
    }
    listen();
    run_all(&plan, &dataset, flags.resume)?;
    finish(&plan, &root, &dataset, &base)
}

/// Which labels may be used, where the data decide: all where some have none, or those of a list.
fn choose_labels(
    flags: &TrainFlags,
    base: &mut Settings,
    dataset: &Dataset,
) -> Result<(), Failure> {
    let changes = &flags.changes;
    if let Some(path) = &changes.labeled {
        let listed = labeled_list(path, &dataset.train)?;
        base.split.labels = listed.len();
        base.labeled = Some(listed);
    } else if dataset.is_partly_unlabeled() && changes.labels.is_none() && changes.split.is_none() {
        base.split.mode = SplitMode::All;
    }
    if base.split.mode == SplitMode::All && base.labeled.is_none() {
        base.split.labels = dataset.train.known();
    }
    Ok(())
}

/// Checks every run before the first, and says what a reader should know. The card of the first.
fn check_all(plan: &[Planned], dataset: &Arc<Dataset>) -> Result<DataCard, Failure> {
    let mut first = None;
    let mut said: Vec<(String, Vec<String>)> = Vec::new();
    for p in plan {
        let card = Trainer::check(&p.settings, dataset)?;
        for text in &card.remarks {
            match said.iter_mut().find(|(t, _)| t == text) {
                Some((_, names)) => names.push(p.name.clone()),
                None => said.push((text.clone(), vec![p.name.clone()])),
            }
        }
        first.get_or_insert(card);
    }
    for (text, names) in said {
        match names.len() == plan.len() {
            true => remark!("note: {text}"),
            false => remark!("note: {}: {text}", names[0]),
        }
        emit(&json!({"event": "note", "text": text, "runs": names}));
    }
    first.ok_or_else(|| Failure::Input("there is nothing to run".to_owned()))
}

/// Refuses to touch runs that are there unless that is meant.
fn make_room(plan: &[Planned], flags: &TrainFlags) -> Result<(), Failure> {
    for p in plan.iter().filter(|p| Recorded::is_run(&p.folder)) {
        if flags.overwrite && !flags.dry_run {
            Recorded::discard(&p.folder)?;
        } else if !flags.resume && !flags.overwrite {
            let path = p.folder.clone();
            return Err(TrainError::RunExists { path }.into());
        }
    }
    Ok(())
}

fn run_all(plan: &[Planned], dataset: &Arc<Dataset>, resume: bool) -> Result<(), Failure> {
    for p in plan {
        let summary = one(&p.settings, dataset, &p.folder, resume, &p.name)?;
        match summary.error_percent() {
            Some(error) => say!(
                "{}: {} error {error:5.2}% after {:.1} s",
                p.name,
                summary.on.name(),
                summary.seconds
            ),
            None => say!(
                "{}: done after {:.1} s; there is nothing to measure its error on",
                p.name,
                summary.seconds
            ),
        }
        if let Some(best) = &summary.best {
            say!(
                "{}: best on the validation examples after step {}: {:.2}% wrong{}",
                p.name,
                best.step,
                100.0 * (1.0 - best.validation),
                best.test.map_or(String::new(), |t| format!(
                    " ({:.2}% of the test examples)",
                    100.0 * (1.0 - t)
                ))
            );
        }
        emit(&json!({"event": "run", "run": p.name, "folder": p.folder, "summary": summary}));
    }
    Ok(())
}

/// The comparison and the page.
fn finish(
    plan: &[Planned],
    root: &Path,
    dataset: &Dataset,
    base: &Settings,
) -> Result<(), Failure> {
    let folders: Vec<PathBuf> = plan.iter().map(|p| p.folder.clone()).collect();
    let runs = report::read(&folders)?;
    say!("");
    print_table(&compare(&runs));
    let page = root.join("report.html");
    let title = format!("{} with {} labels", dataset.name, base.split.labels);
    report::write(&title, &folders, &page)?;
    let seconds: f64 = runs
        .iter()
        .filter_map(|r| Some(r.summary.as_ref()?.seconds))
        .sum();
    say!(
        "\nreport: {}   ({seconds:.0} s of training in all)",
        page.display()
    );
    emit(&json!({"event": "report", "page": page}));
    if dataset.is_partly_unlabeled()
        && let Some(last) = folders.last()
    {
        say!("labels: earthmover-ssl labels {}", last.display());
    }
    Ok(())
}

/// One run, shown by a bar. A finished one is not repeated when resuming, unless it is to have more steps.
pub(crate) fn one(
    settings: &Settings,
    dataset: &Arc<Dataset>,
    folder: &Path,
    resume: bool,
    name: &str,
) -> Result<Summary, Failure> {
    if resume && Recorded::is_run(folder) {
        let (mut stored, summary) = Recorded::outcome(folder)?;
        let longer = settings.steps > stored.steps;
        if longer {
            (stored.steps, stored.evaluate_every) = (settings.steps, settings.evaluate_every);
        }
        if let Some((field, stored, given)) = stored.difference(settings) {
            return Err(TrainError::OtherSettings {
                path: folder.to_path_buf(),
                field,
                stored,
                given,
            }
            .into());
        }
        if let Some(summary) = summary.filter(|s| s.finished && !longer) {
            return Ok(summary);
        }
    }
    let mut trainer = match resume {
        true => Trainer::resume(settings.clone(), dataset.clone(), folder)?,
        false => Trainer::new(settings.clone(), dataset.clone(), Some(folder))?,
    };
    for text in trainer
        .card()
        .remarks
        .iter()
        .filter(|t| t.contains("checkpoint"))
    {
        remark!("note: {}: {text}", name.trim_end());
    }
    let started = Instant::now();
    let is_judged = trainer.card().test + trainer.card().validation > 0;
    let every = (!is_judged).then_some(settings.evaluate_every);
    let mut bar = Bar::new(name, trainer.steps_done(), settings.steps, every);
    let ending = trainer.run(&STOP, &mut bar);
    bar.finish();
    match ending? {
        Ending::Finished => Ok(trainer.summary()),
        Ending::Stopped => {
            emit(
                &json!({"event": "stopped", "run": name, "seconds": started.elapsed().as_secs_f64()}),
            );
            Err(Failure::Stopped)
        }
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

/// The comparison, for people.
fn print_table(rows: &[Row]) {
    let width = rows.iter().map(|r| r.name.chars().count()).max();
    let width = width.unwrap_or(6).max(6);
    say!(
        "{:<width$}   error %          allocated   labels right   seconds   allocation",
        "method"
    );
    for row in rows {
        let error = row.error_text();
        // Padded by hand: ± is one character of two bytes.
        let pad = " ".repeat(16usize.saturating_sub(error.chars().count()));
        let name = format!(
            "{}{}",
            row.name,
            " ".repeat(width - row.name.chars().count())
        );
        say!(
            "{name}   {error}{pad} {:8.1}%  {:>13}  {:8.1}  {:9.2}%",
            row.allocated,
            match row.label_accuracy_text().as_str() {
                "–" => "–".to_owned(),
                percent => format!("{percent}%"),
            },
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
