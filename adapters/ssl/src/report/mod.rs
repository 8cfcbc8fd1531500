//! One self-contained HTML page about one run or many: open it in a browser, send it to a colleague.
//!
//! Runs that differ only in their seeds are one series: its curve is the mean over the seeds, the band
//! around it ± one standard deviation. The plots are the paper's two figures on training dynamics (allocated share,
//! test error, one against the other; β and allocation per class), the confusion matrices and the settings, and, where
//! it was asked for, how far the allocation is from the linear programme. [`figures`] has some of them as SVG files.

mod axis;
mod chart;
mod classes;
mod dynamics;
mod fidelity;
pub mod figures;
mod page;
mod series;
mod settings;
mod table;

use std::path::{Path, PathBuf};

pub use table::{Row, compare, markdown, mean_and_deviation};

use crate::trainer::{Recorded, TrainError, write_whole};

/// Finds the run folders among `paths`, in their order, and, where one is none, below it.
///
/// # Errors
/// When a folder cannot be read or holds no run.
pub fn find_runs(paths: &[PathBuf]) -> Result<Vec<PathBuf>, TrainError> {
    let mut found = Vec::new();
    for path in paths {
        let before = found.len();
        collect(path, 4, &mut found)?;
        if found.len() == before {
            return Err(TrainError::Damaged {
                path: path.clone(),
                problem: "there is no run in it (no settings.json in it or below)".to_owned(),
            });
        }
    }
    Ok(found)
}

fn collect(path: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), TrainError> {
    if Recorded::is_run(path) {
        found.push(path.to_path_buf());
        return Ok(());
    }
    if depth == 0 {
        return Ok(());
    }
    let mut below = Vec::new();
    for entry in std::fs::read_dir(path).map_err(TrainError::io(path))? {
        below.push(entry.map_err(TrainError::io(path))?.path());
    }
    below.sort();
    below
        .iter()
        .filter(|p| p.is_dir())
        .try_for_each(|p| collect(p, depth - 1, found))
}

/// The page about some runs.
#[must_use]
pub fn html(title: &str, runs: &[Recorded]) -> String {
    page::page(title, runs, None)
}

/// [`html`] that loads itself anew every so many seconds, for watching runs that go on.
#[must_use]
pub fn live_html(title: &str, runs: &[Recorded], seconds: u32) -> String {
    page::page(title, runs, Some(seconds))
}

/// Reads the runs in and below some folders.
///
/// # Errors
/// When there is none, or one cannot be read.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Recorded>, TrainError> {
    let folders = find_runs(paths)?;
    folders.iter().map(|path| Recorded::read(path)).collect()
}

/// Reads runs and writes their page, whole or not at all.
///
/// # Errors
/// When a run cannot be read or the page not written.
pub fn write(title: &str, paths: &[PathBuf], to: &Path) -> Result<(), TrainError> {
    let runs = read(paths)?;
    if let Some(parent) = to.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(TrainError::io(parent))?;
    }
    write_whole(to, html(title, &runs).as_bytes())
}
