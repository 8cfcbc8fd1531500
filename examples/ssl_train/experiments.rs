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
//! one line per run, `tables.md` the tables and `report.html` the page.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use earthmover_ssl::data::{Dataset, SplitMode};
use earthmover_ssl::methods::MethodSpec;
use earthmover_ssl::report::{self, mean_and_deviation};
use earthmover_ssl::trainer::{Recorded, Settings, Summary, subset};
use serde::Deserialize;

use crate::Failure;
use crate::flags::{Changes, folder_name, per_method, seeded};
use crate::progress::listen;
use crate::session::{announce_device, choose_threads, one};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    output: PathBuf,
    grid: Vec<Grid>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Grid {
    title: String,
    preset: Option<String>,
    labels: Vec<usize>,
    #[serde(default = "uniform")]
    splits: Vec<String>,
    methods: Vec<String>,
    seeds: Vec<u64>,
    #[serde(default)]
    changes: Changes,
}

fn uniform() -> Vec<String> {
    vec![SplitMode::default().name().to_owned()]
}

/// One run of the plan and what became of it.
struct Planned {
    grid: usize,
    settings: Settings,
    folder: PathBuf,
    outcome: Option<Result<Summary, String>>,
}

/// Runs a file.
pub(crate) fn run(path: &Path, dry_run: bool) -> Result<(), Failure> {
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
    println!(
        "{}: {} runs into {}",
        file.name,
        plan.len(),
        file.output.display()
    );
    if dry_run {
        for planned in &plan {
            println!("{}", planned.folder.display());
        }
        return Ok(());
    }
    choose_threads(plan.iter().map(|p| &p.settings));
    listen();
    let stopped = run_all(&mut plan)?;
    write_results(&file, &plan)?;
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

fn slug(title: &str) -> String {
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
    let (started, total) = (Instant::now(), plan.len());
    // Steps stand for time: exact for one model, good enough for a few.
    let done_before = |p: &Planned| {
        Recorded::is_run(&p.folder)
            && Recorded::outcome(&p.folder).is_ok_and(|(_, s)| s.is_some_and(|s| s.finished))
    };
    let mut left: u64 = plan
        .iter()
        .filter(|p| !done_before(p))
        .map(|p| p.settings.steps)
        .sum();
    let mut worked = 0u64;
    for index in 0..total {
        let planned = &mut plan[index];
        let s = &planned.settings;
        let fresh = !done_before(planned);
        let remaining = match worked {
            0 => String::new(),
            w => {
                let seconds = started.elapsed().as_secs_f64() * left as f64 / w as f64;
                format!(", {} left", clock(seconds))
            }
        };
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
            left = left.saturating_sub(s.steps);
        }
        planned.outcome = Some(match outcome {
            Ok(summary) => {
                let word = if fresh { "" } else { " (done before)" };
                println!(
                    "{name}: test error {:.2}%{word}",
                    100.0 * (1.0 - summary.accuracy)
                );
                Ok(summary)
            }
            Err(Failure::Stopped) => return Ok(true),
            Err(Failure::Input(message) | Failure::Run(message)) => {
                println!("{name}: FAILED: {message}");
                Err(message)
            }
        });
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

fn write_results(file: &File, plan: &[Planned]) -> Result<(), Failure> {
    let put = |name: &str, text: &str| {
        let path = file.output.join(name);
        std::fs::create_dir_all(&file.output)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|e| Failure::Input(format!("{}: {e}", path.display())))?;
        println!("wrote {}", path.display());
        Ok::<(), Failure>(())
    };
    put("results.csv", &csv(file, plan))?;
    put("tables.md", &tables(file, plan))?;
    let folders: Vec<PathBuf> = plan
        .iter()
        .filter(|p| matches!(p.outcome, Some(Ok(_))))
        .map(|p| p.folder.clone())
        .collect();
    if let Some(first) = plan.iter().find(|p| matches!(p.outcome, Some(Ok(_)))) {
        let classes = subset(&first.settings)?.classes.clone();
        let page = file.output.join("report.html");
        report::write(&file.name, &folders, &classes, &page)?;
        println!("wrote {}", page.display());
    }
    Ok(())
}

fn csv(file: &File, plan: &[Planned]) -> String {
    let mut out = String::from(
        "table,dataset,labels,split,method,seed,model,steps,batch,ratio,status,test_error_percent,seconds,allocation_share,error\n",
    );
    for p in plan {
        let s = &p.settings;
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let (status, error, seconds, share, message) = match &p.outcome {
            Some(Ok(m)) => (
                "finished",
                format!("{:.4}", 100.0 * (1.0 - m.accuracy)),
                format!("{:.1}", m.seconds),
                format!("{:.4}", m.allocation_share),
                String::new(),
            ),
            Some(Err(message)) => (
                "failed",
                String::new(),
                String::new(),
                String::new(),
                quoted(message),
            ),
            None => (
                "not run",
                String::new(),
                String::new(),
                String::new(),
                String::new(),
            ),
        };
        let _ = writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{status},{error},{seconds},{share},{message}",
            quoted(&file.grid[p.grid].title),
            s.dataset,
            s.split.labels,
            s.split.mode,
            quoted(&s.method.title()),
            s.seed,
            s.model,
            s.steps,
            s.batch,
            s.ratio
        );
    }
    out
}

/// A table per grid and split: methods down, label counts across.
fn tables(file: &File, plan: &[Planned]) -> String {
    let mut out = format!("# {}\n", file.name);
    for (index, grid) in file.grid.iter().enumerate() {
        let Some(any) = plan.iter().find(|p| p.grid == index) else {
            continue;
        };
        let s = &any.settings;
        let _ = write!(
            out,
            "\n## {}\n\n{}, {}, {} steps of {} labeled + {} unlabeled examples, {} seeds. Test error in percent of \
             the averaged network at the end, mean ± standard deviation over the seeds.\n",
            grid.title,
            s.dataset,
            s.model,
            s.steps,
            s.batch,
            s.batch * s.ratio,
            grid.seeds.len()
        );
        for split in &grid.splits {
            let mine = |p: &&Planned| {
                p.grid == index && p.settings.split.mode.name() == split.replace('-', "_")
            };
            let _ = write!(out, "\nSplit `{split}`:\n\n| method |");
            grid.labels.iter().for_each(|l| {
                let _ = write!(out, " {l} labels |");
            });
            let _ = write!(out, "\n| --- |{}\n", " --- |".repeat(grid.labels.len()));
            let mut titles: Vec<String> = Vec::new();
            for p in plan.iter().filter(mine) {
                let title = p.settings.method.title();
                if !titles.contains(&title) {
                    titles.push(title);
                }
            }
            for title in titles {
                let _ = write!(out, "| {title} |");
                for &labels in &grid.labels {
                    let cell = plan.iter().filter(mine).filter(|p| {
                        p.settings.method.title() == title && p.settings.split.labels == labels
                    });
                    let errors: Vec<f64> = cell
                        .clone()
                        .filter_map(|p| p.outcome.as_ref()?.as_ref().ok())
                        .map(|m| 100.0 * (1.0 - m.accuracy))
                        .collect();
                    let missing = cell.count() - errors.len();
                    let (mean, deviation) = mean_and_deviation(&errors);
                    let _ = match (errors.len(), missing) {
                        (0, _) => write!(out, " – |"),
                        (_, 0) => write!(out, " {mean:.2} ± {deviation:.2} |"),
                        (n, _) => write!(out, " {mean:.2} ± {deviation:.2} ({n} runs) |"),
                    };
                }
                out.push('\n');
            }
        }
    }
    out
}
