//! What is known after a step and after an evaluation.

use serde::{Deserialize, Serialize};

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Which one, counted from zero.
    pub step: u64,
    /// Learning rate.
    pub rate: f64,
    /// Mean cross-entropy of the labeled examples.
    pub labeled_loss: f64,
    /// Mean weighted cross-entropy of the unlabeled ones, without λ.
    pub unlabeled_loss: f64,
    /// Share of the unlabeled examples with a label: of all where the method knows, else of the batch.
    pub allocated: f64,
    /// Of the batch's allocated mass on examples whose class is known, the share on the true one; NaN where there is none. For
    /// the log only.
    pub label_accuracy: f64,
    /// Iterations of the allocation.
    pub iterations: usize,
    /// Seconds of the allocation.
    pub allocation_seconds: f64,
    /// Seconds of the step.
    pub seconds: f64,
}

/// Which examples an evaluation is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judged {
    /// The test examples.
    #[default]
    Test,
    /// The labeled examples held out of training, where there is no test part.
    Validation,
}

impl Judged {
    /// As an adjective.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Validation => "validation",
        }
    }
}

/// How well a network does on some examples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// How many they are.
    pub examples: usize,
    /// Share of right answers.
    pub accuracy: f64,
    /// Mean cross-entropy.
    pub loss: f64,
    /// Mean over the classes of the share of right answers.
    pub balanced_accuracy: f64,
    /// Mean over the classes of 2·right/(there + predicted).
    pub macro_f1: f64,
    /// Share with the true class among the five most likely.
    pub top5: f64,
    /// Expected calibration error: mean |confidence − accuracy| over fifteen bins of confidence, weighted by their examples.
    pub calibration_error: f64,
}

/// One evaluation of the averaged network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Steps done before it.
    pub step: u64,
    /// Share of right answers.
    pub accuracy: f64,
    /// Mean cross-entropy.
    pub loss: f64,
    /// `confusion[truth][prediction]` in examples.
    pub confusion: Vec<Vec<u32>>,
    /// What those three are about.
    #[serde(default)]
    pub on: Judged,
    /// More figures about the same examples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scores: Option<Scores>,
    /// The labeled examples held out of training, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<Scores>,
}

impl Evaluation {
    /// Share of wrong answers.
    #[must_use]
    pub fn error(&self) -> f64 {
        1.0 - self.accuracy
    }
}

/// The weights that did best on the validation examples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Steps done.
    pub step: u64,
    /// Validation accuracy.
    pub validation: f64,
    /// Test accuracy at the same time, where there are test examples.
    pub test: Option<f64>,
}

/// β and share of each class at one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassRecord {
    /// After which step.
    pub step: u64,
    /// Dual variables, abstention last, where the method has them.
    pub scaling: Option<Vec<f64>>,
    /// Allocated mass of each class over the number of examples (of all, or of the batch).
    pub shares: Vec<f64>,
}

/// How a run ended; stored beside its logs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Steps done.
    pub step: u64,
    /// Whether these are all.
    pub finished: bool,
    /// Accuracy of the averaged network at the end, on what it is judged by; `None` where there is nothing to judge it by.
    pub accuracy: Option<f64>,
    /// What that is.
    #[serde(default)]
    pub on: Judged,
    /// The best weights on the way, where there are validation examples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<Best>,
    /// Parameters of the network.
    pub parameters: usize,
    /// Seconds of training, evaluation included.
    pub seconds: f64,
    /// Share of the steps' time spent on allocation.
    pub allocation_share: f64,
}

impl Summary {
    /// Test (or validation) error in percent.
    #[must_use]
    pub fn error_percent(&self) -> Option<f64> {
        self.accuracy.map(|a| 100.0 * (1.0 - a))
    }
}

/// Who is told while a run goes on. All methods do nothing unless written.
pub trait Watch {
    /// After each step.
    fn step(&mut self, record: &StepRecord, steps: u64) {
        let _ = (record, steps);
    }

    /// After each evaluation.
    fn evaluation(&mut self, evaluation: &Evaluation) {
        let _ = evaluation;
    }
}

impl Watch for () {}
