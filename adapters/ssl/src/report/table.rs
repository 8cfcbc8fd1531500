//! Mean ± standard deviation of the final test error, as the paper's tables have it.

use super::series::{group, label_accuracy};
use crate::trainer::Recorded;

/// Mean and sample standard deviation (n − 1); zero deviation for fewer than two numbers.
///
/// # Examples
/// ```
/// use earthmover_ssl::report::mean_and_deviation;
/// assert_eq!(mean_and_deviation(&[1.0, 3.0]), (2.0, 2f64.sqrt()));
/// ```
#[must_use]
pub fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    if values.is_empty() {
        return (0.0, 0.0);
    }
    let mean = values.iter().sum::<f64>() / n;
    if values.len() == 1 {
        return (mean, 0.0);
    }
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0)).sqrt())
}

/// One line of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Method, and what else tells it apart.
    pub name: String,
    /// Final test errors in percent, one per run, by seed.
    pub errors: Vec<f64>,
    /// Runs that have ended; fewer have an error where there is nothing to measure it on.
    pub finished: usize,
    /// Mean share of the unlabeled examples allocated at the end, in percent: of all of them where the method knows, else of the
    /// batches of the last tenth of training.
    pub allocated: f64,
    /// Mean accuracy of the labels allocated in the last tenth of training, in percent; NaN where no true class is known.
    pub label_accuracy: f64,
    /// Mean seconds of training.
    pub seconds: f64,
    /// Mean share of the time spent on allocation, in percent.
    pub allocation: f64,
}

/// Compares finished runs; those that differ only in their seeds are one row.
#[must_use]
pub fn compare(runs: &[Recorded]) -> Vec<Row> {
    let mean = |values: Vec<f64>| mean_and_deviation(&values).0;
    group(runs)
        .iter()
        .map(|series| {
            let mut done: Vec<&Recorded> = series.runs.to_vec();
            done.retain(|r| r.summary.as_ref().is_some_and(|s| s.finished));
            done.sort_by_key(|r| r.settings.seed);
            let summaries = || done.iter().filter_map(|r| r.summary.as_ref());
            let tail = |r: &&Recorded, value: &dyn Fn(&crate::trainer::StepRecord) -> f64| {
                let part = &r.steps[r.steps.len() - r.steps.len().div_ceil(10)..];
                mean(part.iter().map(value).filter(|v| !v.is_nan()).collect())
            };
            let at_end = |r: &&Recorded| match (r.classes.last(), r.steps.last()) {
                (Some(trace), Some(last)) if trace.scaling.is_some() => last.allocated,
                _ => tail(r, &|s| s.allocated),
            };
            Row {
                name: series.name.clone(),
                errors: summaries().filter_map(|s| s.error_percent()).collect(),
                finished: done.len(),
                allocated: mean(done.iter().map(|r| 100.0 * at_end(r)).collect()),
                label_accuracy: match done
                    .iter()
                    .all(|r| r.steps.iter().all(|s| s.label_accuracy.is_nan()))
                {
                    true => f64::NAN,
                    false => mean(
                        done.iter()
                            .map(|r| 100.0 * tail(r, &label_accuracy))
                            .collect(),
                    ),
                },
                seconds: mean(summaries().map(|s| s.seconds).collect()),
                allocation: mean(summaries().map(|s| 100.0 * s.allocation_share).collect()),
            }
        })
        .collect()
}

impl Row {
    /// Mean ± deviation of the errors, as text.
    #[must_use]
    pub fn error_text(&self) -> String {
        let (mean, deviation) = mean_and_deviation(&self.errors);
        match (self.errors.len(), self.finished) {
            (0, 0) => "not finished".to_owned(),
            (0, _) => "not measured".to_owned(),
            (1, _) => format!("{mean:.2}"),
            _ => format!("{mean:.2} ± {deviation:.2}"),
        }
    }

    /// The accuracy of the labels, as text.
    #[must_use]
    pub fn label_accuracy_text(&self) -> String {
        // Nothing allocated, or no true class known.
        match self.label_accuracy.is_nan() || self.allocated == 0.0 {
            true => "–".to_owned(),
            false => format!("{:.1}", self.label_accuracy),
        }
    }
}

/// The comparison as a Markdown table.
#[must_use]
pub fn markdown(rows: &[Row]) -> String {
    let mut out = String::from(
        "| method | test error % | runs | each | allocated % | label accuracy % | seconds |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        let each: Vec<String> = row.errors.iter().map(|e| format!("{e:.2}")).collect();
        out.push_str(&format!(
            "| {} | {} | {} | {} | {:.1} | {} | {:.1} |\n",
            row.name,
            row.error_text(),
            row.finished,
            each.join(" "),
            row.allocated,
            row.label_accuracy_text(),
            row.seconds
        ));
    }
    out
}
