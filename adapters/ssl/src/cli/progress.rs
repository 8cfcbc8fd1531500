//! A progress bar per run.

use std::time::Duration;

use crate::trainer::{Evaluation, StepRecord, Watch};
use indicatif::{ProgressBar, ProgressStyle};

use super::output::{emit, is_json, say};

/// Shows a run.
pub(crate) struct Bar {
    title: String,
    /// Steps between lines where nothing is evaluated.
    every: Option<u64>,
    bar: ProgressBar,
    accuracy: Option<f64>,
    last: Option<StepRecord>,
    step_seconds: f64,
}

impl Bar {
    /// `every` so many steps a line says how it goes, where there is nothing to evaluate and no terminal for a bar.
    pub(crate) fn new(title: &str, done: u64, steps: u64, every: Option<u64>) -> Self {
        let bar = match is_json() {
            true => ProgressBar::hidden(),
            false => ProgressBar::new(steps),
        };
        let template = "{prefix} {wide_bar:.cyan/dim} {pos}/{len} {eta} left | {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.set_prefix(title.to_owned());
        bar.set_position(done);
        bar.enable_steady_tick(Duration::from_millis(250));
        Self {
            title: title.trim_end().to_owned(),
            every,
            bar,
            accuracy: None,
            last: None,
            step_seconds: 0.0,
        }
    }

    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// What a step tells in a line.
fn since(r: &StepRecord) -> String {
    format!(
        ", loss {:.3} + {:.3}, allocated {:.0}%",
        r.labeled_loss,
        r.unlabeled_loss,
        100.0 * r.allocated
    )
}

impl Watch for Bar {
    fn step(&mut self, r: &StepRecord, _steps: u64) {
        self.last = Some(*r);
        self.step_seconds = match self.step_seconds {
            0.0 => r.seconds,
            before => 0.95 * before + 0.05 * r.seconds,
        };
        let accuracy = match self.accuracy {
            Some(a) => format!("{:.1}%", 100.0 * a),
            None => "–".to_owned(),
        };
        self.bar.set_message(format!(
            "{:.0} ms  loss {:.3} + {:.3}  allocated {:.0}%  accuracy {accuracy}",
            1e3 * self.step_seconds,
            r.labeled_loss,
            r.unlabeled_loss,
            100.0 * r.allocated
        ));
        self.bar.set_position(r.step + 1);
        let is_due = |every: u64| (r.step + 1).is_multiple_of(every.max(1));
        if self.bar.is_hidden() && self.every.is_some_and(is_due) {
            say!("{}: step {}{}", self.title, r.step + 1, since(r));
            emit(&serde_json::json!({"event": "step", "run": self.title, "record": r}));
        }
    }

    /// A line for those who see no bar.
    fn evaluation(&mut self, evaluation: &Evaluation) {
        self.accuracy = Some(evaluation.accuracy);
        if !self.bar.is_hidden() {
            return;
        }
        let (on, error) = (evaluation.on.name(), 100.0 * evaluation.error());
        let since = self.last.as_ref().map_or(String::new(), since);
        say!(
            "{}: step {}, {on} error {error:.2}%{since}",
            self.title,
            evaluation.step
        );
        let allocated = self.last.map(|r| r.allocated);
        emit(&serde_json::json!({
            "event": "evaluation",
            "run": self.title,
            "step": evaluation.step,
            "on": on,
            "error_percent": error,
            "scores": evaluation.scores,
            "validation": evaluation.validation,
            "allocated": allocated,
        }));
    }
}
