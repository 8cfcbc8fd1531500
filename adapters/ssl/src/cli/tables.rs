//! What a file of experiments leaves behind: one CSV, the tables, the figures and the page.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::methods::MethodName;
use crate::report::{self, figures, mean_and_deviation};
use crate::trainer::{Recorded, Summary};

use super::Failure;
use super::experiments::{File, Planned, slug};
use super::output::say;

/// Writes everything: results into `place`, the page beside the runs. What an earlier table says of a run that has no result now
/// stays.
pub(crate) fn write(file: &File, plan: &mut [Planned], place: &Path) -> Result<(), Failure> {
    keep_results(file, plan, &place.join("results.csv"));
    let plan = &*plan;
    put(place, "results.csv", &csv(file, plan))?;
    put(place, "tables.md", &tables(file, plan))?;
    for (index, grid) in file.grid.iter().enumerate() {
        cost(&grid.title, plan, index);
    }
    // Of a result that an earlier table told of, the run itself may be gone.
    let done = || {
        let done = plan.iter().filter(|p| matches!(p.outcome, Some(Ok(_))));
        done.filter(|p| Recorded::is_run(&p.folder))
    };
    let Some(first) = done().next() else {
        return Ok(());
    };
    let classes = Recorded::data(&first.folder).ok().flatten();
    let classes = classes.map_or(Vec::new(), |card| card.classes);
    draw(file, plan, &classes, place)?;
    let folders: Vec<PathBuf> = done().map(|p| p.folder.clone()).collect();
    let page = file.output.join("report.html");
    report::write(&file.name, &folders, &page)?;
    say!("wrote {}", page.display());
    Ok(())
}

/// Whole or not at all: another process may be writing the same file.
fn put(place: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = place.join(name);
    let beside = place.join(format!(".{name}.{}", std::process::id()));
    fs::create_dir_all(place)
        .and_then(|()| fs::write(&beside, text))
        .and_then(|()| fs::rename(&beside, &path))
        .map_err(|e| Failure::Input(format!("{}: {e}", path.display())))?;
    say!("wrote {}", path.display());
    Ok(())
}

/// Columns that say which run a line is about.
fn key(file: &File, p: &Planned) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let s = &p.settings;
    format!(
        "{},{},{},{},{},{},{},{},{},{}",
        quoted(&file.grid[p.grid].title),
        s.dataset,
        s.split.labels,
        s.split.mode,
        quoted(&p.row()),
        s.seed,
        s.model,
        s.steps,
        s.batch,
        s.ratio
    )
}

/// Takes results from the table that is there for runs that have failed or are missing now.
fn keep_results(file: &File, plan: &mut [Planned], path: &Path) {
    let Ok(text) = fs::read_to_string(path) else {
        return;
    };
    for p in plan
        .iter_mut()
        .filter(|p| !matches!(p.outcome, Some(Ok(_))))
    {
        let start = format!("{},finished,", key(file, p));
        let Some(line) = text.lines().find_map(|l| l.strip_prefix(&start)) else {
            continue;
        };
        let mut fields = line.split(',').map(|f| f.parse::<f64>().ok());
        let mut next = || fields.next().flatten();
        let (error, seconds, share) = (next(), next(), next());
        p.outcome = Some(Ok(Summary {
            step: p.settings.steps,
            finished: true,
            accuracy: error.map(|e| 1.0 - e / 100.0),
            on: Default::default(),
            best: None,
            parameters: 0,
            seconds: seconds.unwrap_or(0.0),
            allocation_share: share.unwrap_or(0.0),
        }));
    }
}

fn csv(file: &File, plan: &[Planned]) -> String {
    let mut out = String::from(
        "table,dataset,labels,split,method,seed,model,steps,batch,ratio,status,test_error_percent,seconds,allocation_share,error\n",
    );
    for p in plan {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let none = String::new;
        let (status, error, seconds, share, message) = match &p.outcome {
            Some(Ok(m)) => (
                "finished",
                m.error_percent().map_or(none(), |e| format!("{e:.4}")),
                format!("{:.1}", m.seconds),
                format!("{:.4}", m.allocation_share),
                none(),
            ),
            Some(Err(message)) => ("failed", none(), none(), none(), quoted(message)),
            None => ("not run", none(), none(), none(), none()),
        };
        let _ = writeln!(
            out,
            "{},{status},{error},{seconds},{share},{message}",
            key(file, p)
        );
    }
    out
}

/// The runs of a grid with one kind of split.
fn of<'a>(
    plan: &'a [Planned],
    grid: usize,
    split: &str,
) -> impl Iterator<Item = &'a Planned> + Clone {
    let split = split.replace('-', "_");
    plan.iter()
        .filter(move |p| p.grid == grid && p.settings.split.mode.name() == split)
}

/// Titles of the methods in order of first appearance.
fn titles<'a>(runs: impl Iterator<Item = &'a Planned>) -> Vec<String> {
    let mut titles: Vec<String> = Vec::new();
    for p in runs {
        let title = p.row();
        if !titles.contains(&title) {
            titles.push(title);
        }
    }
    titles
}

/// Test errors in percent of a cell of a table, and how many of its runs are missing.
fn errors<'a>(
    runs: impl Iterator<Item = &'a Planned>,
    title: &str,
    labels: usize,
) -> (Vec<f64>, usize) {
    let cell: Vec<&Planned> = runs
        .filter(|p| p.row() == title && p.settings.split.labels == labels)
        .collect();
    let errors: Vec<f64> = cell
        .iter()
        .filter_map(|p| p.outcome.as_ref()?.as_ref().ok()?.error_percent())
        .collect();
    let missing = cell.len() - errors.len();
    (errors, missing)
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
            let mine = of(plan, index, split);
            let _ = write!(out, "\nSplit `{split}`:\n\n| method |");
            grid.labels.iter().for_each(|l| {
                let _ = write!(out, " {l} labels |");
            });
            let _ = write!(out, "\n| --- |{}\n", " --- |".repeat(grid.labels.len()));
            for title in titles(mine.clone()) {
                let _ = write!(out, "| {title} |");
                for &labels in &grid.labels {
                    let (errors, missing) = errors(mine.clone(), &title, labels);
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

/// What the runs of a grid took, and allocation of that: of this machine, so it is said and not put into the tables.
fn cost(title: &str, plan: &[Planned], grid: usize) {
    let mine = plan.iter().filter(|p| p.grid == grid);
    let done: Vec<_> = mine
        .filter_map(|p| Some((p, p.outcome.as_ref()?.as_ref().ok()?)))
        .collect();
    let seconds: f64 = done.iter().map(|(_, m)| m.seconds).sum();
    let shares: Vec<f64> = done
        .iter()
        .filter(|(p, _)| p.settings.method.name() == MethodName::Sla)
        .map(|(_, m)| 100.0 * m.allocation_share)
        .collect();
    if done.is_empty() {
        return;
    }
    let allocation = match shares.is_empty() {
        true => String::new(),
        false => format!(
            "; allocation took {:.1}% of the time of SLA's steps",
            mean_and_deviation(&shares).0
        ),
    };
    say!(
        "{title}: {} runs took {seconds:.0} s in all{allocation}",
        done.len()
    );
}

/// Bars for every table, dynamics of the first SLA run, and how far it is from the linear programme.
fn draw(file: &File, plan: &[Planned], classes: &[String], place: &Path) -> Result<(), Failure> {
    for (index, grid) in file.grid.iter().enumerate() {
        for split in &grid.splits {
            let mine = of(plan, index, split);
            let names = titles(mine.clone());
            let bars = |labels: usize| figures::Bars {
                name: labels.to_string(),
                methods: names
                    .iter()
                    .map(|name| (name.clone(), errors(mine.clone(), name, labels).0))
                    .collect(),
            };
            let groups: Vec<figures::Bars> = grid.labels.iter().map(|&l| bars(l)).collect();
            if groups
                .iter()
                .all(|g| g.methods.iter().all(|m| m.1.is_empty()))
            {
                continue;
            }
            let name = match grid.splits.len() {
                1 => format!("errors-{}.svg", slug(&grid.title)),
                _ => format!("errors-{}-{}.svg", slug(&grid.title), slug(split)),
            };
            let svg = figures::errors(&grid.title, "labeled examples", &groups);
            put(place, &name, &svg)?;
        }
    }
    let done = |p: &&Planned| {
        matches!(p.outcome, Some(Ok(_)))
            && p.settings.method.name() == MethodName::Sla
            && Recorded::is_run(&p.folder)
    };
    let sla: Vec<&Planned> = plan.iter().filter(done).collect();
    let title = |p: &Planned| {
        let s = &p.settings;
        format!(
            "{}, {} labels, {}, seed {}",
            s.dataset,
            s.split.labels,
            p.row(),
            s.seed
        )
    };
    if let Some(p) = sla.first() {
        let run = Recorded::read(&p.folder)?;
        put(
            place,
            "dynamics.svg",
            &figures::dynamics(&title(p), &run, classes),
        )?;
    }
    for p in sla.iter().filter(|p| p.settings.lp.is_some()) {
        let run = Recorded::read(&p.folder)?;
        if let Some(svg) = figures::fidelity(&title(p), &run) {
            return put(place, "linear-programme.svg", &svg);
        }
    }
    Ok(())
}
