//! A progress bar per run, and Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use earthmover_ssl::trainer::{Evaluation, StepRecord, Watch};
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::remark;

/// Set by Ctrl-C; runs look at it between steps.
pub(crate) static STOP: AtomicBool = AtomicBool::new(false);

/// The first Ctrl-C asks for a clean stop, the second ends at once.
pub(crate) fn listen() {
    let handler = || {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        remark!("\nstopping after this step; once more to end at once");
    };
    // Not being able to listen is no reason not to train.
    let _ = ctrlc::set_handler(handler);
}

/// Shows a run.
pub(crate) struct Bar {
    bar: ProgressBar,
    accuracy: Option<f64>,
    step_seconds: f64,
}

impl Bar {
    pub(crate) fn new(title: &str, done: u64, steps: u64) -> Self {
        let bar = ProgressBar::new(steps);
        let template = "{prefix} {wide_bar:.cyan/dim} {pos}/{len} {eta} left | {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.set_prefix(title.to_owned());
        bar.set_position(done);
        bar.enable_steady_tick(Duration::from_millis(250));
        Self {
            bar,
            accuracy: None,
            step_seconds: 0.0,
        }
    }

    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

impl Watch for Bar {
    fn step(&mut self, r: &StepRecord, _steps: u64) {
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
    }

    fn evaluation(&mut self, evaluation: &Evaluation) {
        self.accuracy = Some(evaluation.accuracy);
    }
}
