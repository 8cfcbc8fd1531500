//! How unlabeled examples get their targets.
//!
//! With p_i the model's distribution for the weak view of example i, a method answers with a target row q_i
//! and a weight w_i, and the trainer minimises
//!
//! ```text
//! L = mean_labeled −log p(y | x)  +  λ · mean_i −w_i Σ_j q_ij log p(j | strong view of i)
//! ```
//!
//! [`FreeMatch`] may add a [`Penalty`] on the strong views' mean prediction.
//!
//! | method | target q | weight w |
//! | --- | --- | --- |
//! | [`Sla`] | p^γ e^β, rescaled against abstention | 1 (rows sum to at most one) |
//! | [`FixMatch`] | argmax p | max p ≥ τ |
//! | [`Aligned`] | argmax p·(labeled share / predicted share) | its maximum ≥ τ |
//! | [`FlexMatch`] | argmax p | max p ≥ τ scaled by how far its class has come |
//! | [`FreeMatch`] | argmax p | max p ≥ a moving average, per class |
//! | [`Uda`] | p^(1/T), normalised | max p ≥ τ |
//! | [`AdaMatch`] | argmax p·(mean labeled prediction / mean unlabeled one) | its maximum ≥ τ · labeled confidence |
//! | [`SoftMatch`] | argmax p | Gaussian in the distance below the mean confidence |
//! | [`PseudoLabel`] | argmax p | a ramp in time |
//! | [`Supervised`] | none | 0 |
//!
//! Everything is slices on the host: a batch is a few hundred rows of k numbers. Adding a method is one file
//! that implements [`Method`] and one arm in [`MethodSpec::build`].

mod adamatch;
mod aligned;
mod fidelity;
mod fixmatch;
mod flexmatch;
mod freematch;
mod pseudo_label;
mod sla;
mod softmatch;
mod spec;
mod supervised;
mod uda;

use std::io::{Read, Write};

pub use adamatch::AdaMatch;
pub use aligned::Aligned;
pub use fidelity::{Fidelity, Source};
pub use fixmatch::FixMatch;
pub use flexmatch::FlexMatch;
pub use freematch::FreeMatch;
pub use pseudo_label::PseudoLabel;
pub use sla::Sla;
pub use softmatch::SoftMatch;
pub use spec::{BoundsSpec, MethodName, MethodSpec, SlaSettings};
pub use supervised::Supervised;
pub use uda::Uda;

use crate::Error;

/// What a method sees of one step.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// log p of the weak views, one row per example.
    pub log_probs: &'a [f32],
    /// log p of the step's labeled examples, one row each; empty unless the method [asks](Method::uses_labeled) for them.
    pub labeled: &'a [f32],
    /// Which unlabeled example each row is; an example may occur twice.
    pub indices: &'a [usize],
    /// Number of classes k.
    pub classes: usize,
    /// This step, counted from zero.
    pub step: u64,
    /// Steps in all.
    pub steps: u64,
}

impl Batch<'_> {
    fn check(&self) -> Result<(), Error> {
        let expected = self.indices.len().saturating_mul(self.classes);
        if self.classes == 0 || self.log_probs.len() != expected {
            return Err(Error::Length {
                what: "log-probabilities",
                expected,
                found: self.log_probs.len(),
            });
        }
        Ok(())
    }

    fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.log_probs.chunks_exact(self.classes.max(1))
    }
}

/// Targets and weights of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels {
    /// k numbers per example.
    pub targets: Vec<f32>,
    /// One number per example.
    pub weights: Vec<f32>,
}

impl Labels {
    /// No label for any of `rows` examples.
    #[must_use]
    pub fn none(rows: usize, classes: usize) -> Self {
        Self {
            targets: vec![0.0; rows * classes],
            weights: vec![0.0; rows],
        }
    }

    /// w_i·q_i, the rows the loss needs.
    #[must_use]
    pub fn weighted(&self) -> Vec<f32> {
        let classes = self.targets.len().checked_div(self.weights.len());
        let rows = self.targets.chunks(classes.unwrap_or(1).max(1));
        rows.zip(&self.weights)
            .flat_map(|(row, w)| row.iter().map(move |q| q * w))
            .collect()
    }

    fn set(&mut self, row: usize, classes: usize, class: usize, weight: f32) {
        self.targets[row * classes + class] = 1.0;
        self.weights[row] = weight;
    }
}

/// A further term of the loss, a function of the model's probabilities P for the strong views.
#[derive(Clone, Debug, PartialEq)]
pub struct Penalty {
    /// Its value.
    pub value: f64,
    /// Its derivative by each entry of P: k numbers per example.
    pub gradient: Vec<f32>,
}

/// What a method tells about itself for the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Insight {
    /// Share of the unlabeled examples that have a label, where the method knows it for all of them.
    pub allocated: Option<f64>,
    /// Dual variables β of the classes, abstention last, where there are any.
    pub scaling: Option<Vec<f64>>,
    /// Shadow prices in nats: of a place in each class, and of a label last, where there are any.
    pub prices: Option<Vec<f64>>,
    /// Mass of each class as a share of the examples, where the method knows it for all of them.
    pub shares: Option<Vec<f64>>,
    /// Iterations of the last solve.
    pub iterations: usize,
    /// Seconds the method took in the last step: labels, update and solve.
    pub seconds: f64,
}

/// A way to label unlabeled examples.
///
/// A step calls [`label`](Self::label), computes the loss, then calls [`update`](Self::update) with the same
/// batch; the latter may run beside the backward pass.
pub trait Method: Send {
    /// Whether unlabeled examples are looked at at all.
    fn uses_unlabeled(&self) -> bool {
        true
    }

    /// Whether [`Batch::labeled`] is looked at.
    fn uses_labeled(&self) -> bool {
        false
    }

    /// Targets and weights of a batch from what is known before this step's update.
    ///
    /// # Errors
    /// Where the slices do not fit or hold what is no log-probability.
    fn label(&mut self, batch: &Batch<'_>) -> Result<Labels, Error>;

    /// Whether the loss has a [`penalty`](Self::penalty) too.
    fn penalises(&self) -> bool {
        false
    }

    /// A term added to the loss, given the log-probabilities of the batch's strong views and the labels it has
    /// got. Called between [`label`](Self::label) and [`update`](Self::update), where [`penalises`](Self::penalises).
    ///
    /// # Errors
    /// As [`label`](Self::label).
    fn penalty(&mut self, strong: &Batch<'_>, labels: &Labels) -> Result<Penalty, Error> {
        let _ = labels;
        Ok(Penalty {
            value: 0.0,
            gradient: vec![0.0; strong.log_probs.len()],
        })
    }

    /// Takes the batch into account for the steps to come.
    ///
    /// # Errors
    /// As [`label`](Self::label).
    fn update(&mut self, batch: &Batch<'_>) -> Result<(), Error> {
        batch.check()
    }

    /// What to log after an update.
    fn insight(&self) -> Insight {
        Insight::default()
    }

    /// The allocation beside the linear programme it stands for, and the allocations of other `gammas` on the
    /// same costs. Nothing where the method solves no such programme.
    ///
    /// # Errors
    /// Where a γ is not a positive number, or a solver fails.
    fn fidelity(&self, step: u64, gammas: &[f64]) -> Result<Vec<Fidelity>, Error> {
        let _ = (step, gammas);
        Ok(Vec::new())
    }

    /// Writes all that changes while training.
    ///
    /// # Errors
    /// Where writing fails.
    fn save(&self, writer: &mut dyn Write) -> Result<(), Error> {
        let _ = writer;
        Ok(())
    }

    /// Takes over what [`save`](Self::save) wrote, exactly.
    ///
    /// # Errors
    /// Where reading fails or the state is of another method or size.
    fn load(&mut self, reader: &mut dyn Read) -> Result<(), Error> {
        let _ = reader;
        Ok(())
    }
}

/// Index and value of the largest entry; the first of equals.
fn top(row: &[f32]) -> (usize, f32) {
    row.iter()
        .enumerate()
        .fold((0, f32::NEG_INFINITY), |best, (j, &value)| {
            if value > best.1 { (j, value) } else { best }
        })
}

/// Σ_i p_i / rows in f64; zeros for an empty batch.
fn mean_prediction(batch: &Batch<'_>) -> Vec<f64> {
    let mut mean = vec![0.0; batch.classes];
    for row in batch.rows() {
        for (m, l) in mean.iter_mut().zip(row) {
            *m += f64::from(l.exp());
        }
    }
    let rows = batch.indices.len().max(1) as f64;
    mean.iter_mut().for_each(|m| *m /= rows);
    mean
}

/// State as JSON, for the methods whose state is small.
fn save_json<T: serde::Serialize>(state: &T, writer: &mut dyn Write) -> Result<(), Error> {
    serde_json::to_writer(writer, state).map_err(unusable)
}

fn load_json<T: serde::de::DeserializeOwned>(reader: &mut dyn Read) -> Result<T, Error> {
    serde_json::from_reader(reader).map_err(unusable)
}

fn unusable(error: impl std::fmt::Display) -> Error {
    Error::Saved {
        problem: error.to_string(),
    }
}

/// Refuses loaded state of another size.
fn same_length(what: &str, expected: usize, found: usize) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    Err(unusable(format!(
        "{what} has {found} entries where {expected} were expected"
    )))
}

#[cfg(test)]
pub(crate) mod hand {
    //! Batches written down by hand.
    use super::{Batch, Labels, Method};

    pub(crate) fn logs(p: &[f32]) -> Vec<f32> {
        p.iter().map(|p| p.ln()).collect()
    }

    /// Labels of a batch of examples 0, 1, … at step 0 of 10.
    pub(crate) fn label(method: &mut dyn Method, p: &[f32], classes: usize) -> Labels {
        let log_probs = logs(p);
        let indices: Vec<usize> = (0..p.len() / classes).collect();
        let batch = Batch {
            log_probs: &log_probs,
            labeled: &[],
            indices: &indices,
            classes,
            step: 0,
            steps: 10,
        };
        let labels = method.label(&batch).unwrap_or_default();
        assert!(method.update(&batch).is_ok());
        labels
    }

    /// Whether a method restored from `a`'s state labels as `a` does from here on.
    pub(crate) fn survives_saving(a: &mut dyn Method, b: &mut dyn Method, p: &[f32], k: usize) {
        label(a, p, k);
        let mut bytes = Vec::new();
        assert!(a.save(&mut bytes).is_ok());
        assert!(b.load(&mut bytes.as_slice()).is_ok());
        let mut again = Vec::new();
        assert!(b.save(&mut again).is_ok());
        assert_eq!(bytes, again);
        assert_eq!(label(a, p, k), label(b, p, k));
    }
}
