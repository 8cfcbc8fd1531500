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
    /// Of the batch's allocated mass, the share on the true class. For the log only.
    pub label_accuracy: f64,
    /// Iterations of the allocation.
    pub iterations: usize,
    /// Seconds of the allocation.
    pub allocation_seconds: f64,
    /// Seconds of the step.
    pub seconds: f64,
}

/// One evaluation of the averaged network on the test examples.
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
}

impl Evaluation {
    /// Share of wrong answers.
    #[must_use]
    pub fn error(&self) -> f64 {
        1.0 - self.accuracy
    }
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
    /// Test accuracy of the averaged network at the end.
    pub accuracy: f64,
    /// Parameters of the network.
    pub parameters: usize,
    /// Seconds of training, evaluation included.
    pub seconds: f64,
    /// Share of the steps' time spent on allocation.
    pub allocation_share: f64,
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
