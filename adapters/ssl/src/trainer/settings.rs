//! All that decides a run: the same settings give the same run, bit for bit on a CPU.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::TrainError;
use super::model_spec::ModelSpec;
use crate::augment::Policy;
use crate::data::folder::Size;
use crate::data::{Kind, LabeledSplit, LongTail};
use crate::methods::MethodSpec;

/// How labeled, weak and strong views go through the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Forward {
    /// In one batch that shares its batch-norm statistics, as in the published experiments.
    #[default]
    Joint,
    /// Weak views first and without gradient, then labeled and strong ones: a third less work, another
    /// algorithm.
    Separate,
}

/// How the learning rate falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rate {
    /// Along 7/16 of a cosine.
    #[default]
    Cosine,
    /// Not at all.
    Constant,
}

/// What turns gradients into steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptimiserKind {
    /// Stochastic gradient descent with Nesterov momentum, as in the published experiments.
    #[default]
    Sgd,
    /// Adam with decoupled weight decay.
    Adamw,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_one<T: Copy + Into<f64>>(value: &T) -> bool {
    (*value).into() == 1.0
}

fn one() -> f64 {
    1.0
}

fn single() -> u32 {
    1
}

/// How often SLA's allocation is compared with the exact linear programme, for the log only: the run is the same
/// bit for bit. Other methods solve no such programme and log nothing.
///
/// # Examples
/// ```
/// use earthmover_ssl::trainer::{LpCheck, Settings};
/// let settings = Settings { lp: Some(LpCheck { every: 500, ..LpCheck::default() }), ..Settings::default() };
/// assert!(settings.validate().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LpCheck {
    /// Steps between comparisons; there is always one at the end.
    pub every: u64,
    /// Inverse regularisations solved beside the run's own.
    pub gammas: Vec<f64>,
}

impl Default for LpCheck {
    /// Every thousand steps, at the γ of the paper's ablation.
    fn default() -> Self {
        Self {
            every: 1000,
            gammas: vec![1.0, 10.0, 100.0, 1000.0],
        }
    }
}

/// Settings of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Which data set.
    pub dataset: Kind,
    /// Where it is; the embedded digits need nothing.
    pub data: PathBuf,
    /// At most so many training examples, picked once and for all.
    pub train_examples: Option<usize>,
    /// At most so many test examples.
    pub test_examples: Option<usize>,
    /// Which labels may be used.
    pub split: LabeledSplit,
    /// The network.
    pub model: ModelSpec,
    /// How unlabeled examples are labeled.
    pub method: MethodSpec,
    /// The views; `None` for the data set's own.
    pub augment: Option<Policy>,
    /// Steps T.
    pub steps: u64,
    /// Labeled examples per step, B.
    pub batch: usize,
    /// Unlabeled examples per labeled one, μ.
    pub ratio: usize,
    /// Weight λ of the unlabeled loss.
    pub lambda: f64,
    /// Learning rate at the start.
    pub learning_rate: f64,
    /// How it falls.
    pub rate: Rate,
    /// Steps over which it first rises.
    pub warm_up: u64,
    /// Nesterov momentum.
    pub momentum: f64,
    /// Weight decay, on all but biases and batch-norm parameters.
    pub weight_decay: f64,
    /// Largest norm of the gradient; `None` for any.
    pub clip: Option<f64>,
    /// Decay of the average that is evaluated.
    pub ema: f64,
    /// Joint or separate passes.
    pub forward: Forward,
    /// Seed of weights, sampling and augmentation.
    pub seed: u64,
    /// Steps between evaluations; there is always one at the end.
    pub evaluate_every: u64,
    /// Steps between checkpoints; there is always one at the end.
    pub checkpoint_every: u64,
    /// Checkpoints kept.
    pub keep: usize,
    /// `cpu`, `cuda:0`, `metal`.
    pub device: String,
    /// Comparison with the linear programme, if there is to be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lp: Option<LpCheck>,
    /// The size that images of a folder are given.
    #[serde(default, skip_serializing_if = "is_default")]
    pub size: Size,
    /// Training examples that keep their labels, in place of a draw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labeled: Option<Vec<usize>>,
    /// Share of the labels held out of training, by which the best weights are chosen; 0 for none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub validation: f64,
    /// Class sizes that fall off, for experiments with long tails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_tail: Option<LongTail>,
    /// SGD or AdamW.
    #[serde(default, skip_serializing_if = "is_default")]
    pub optimiser: OptimiserKind,
    /// Factor by which each layer learns slower than the one after it; 1 for none.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub layer_decay: f64,
    /// Pieces in which a batch goes through the network, for memory's sake: gradients add up, batch-norm statistics are
    /// those of the pieces.
    #[serde(default = "single", skip_serializing_if = "is_one")]
    pub accumulate: u32,
    /// Weights to start from, in place of drawn ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<PathBuf>,
}

impl Default for Settings {
    /// [`crate::presets::digits`].
    fn default() -> Self {
        crate::presets::digits()
    }
}

impl Settings {
    /// Checks what nobody else checks.
    ///
    /// # Errors
    /// [`TrainError::Setting`] for a number out of its range.
    pub fn validate(&self) -> Result<(), TrainError> {
        let counts = [
            ("the number of steps", self.steps),
            ("the batch", self.batch as u64),
            ("the unlabeled ratio", self.ratio as u64),
            (
                "the number of steps between evaluations",
                self.evaluate_every,
            ),
            (
                "the number of steps between checkpoints",
                self.checkpoint_every,
            ),
            ("the number of checkpoints kept", self.keep as u64),
            (
                "the number of pieces of a batch",
                u64::from(self.accumulate),
            ),
            (
                "the number of steps between exact solves",
                self.lp.as_ref().map_or(1, |lp| lp.every),
            ),
        ];
        for (what, value) in counts {
            if value == 0 {
                return Err(TrainError::Setting {
                    what,
                    value: "0".to_owned(),
                    rule: "at least 1",
                });
            }
        }
        let too_large = |what, value: usize| {
            Err(TrainError::Setting {
                what,
                value: value.to_string(),
                rule: "at most 1,000,000",
            })
        };
        if self.batch.saturating_mul(self.ratio) > 1_000_000 {
            return too_large("the unlabeled batch", self.batch.saturating_mul(self.ratio));
        }
        for (what, value) in [
            ("the unlabeled loss weight", self.lambda),
            ("the learning rate", self.learning_rate),
            ("the weight decay", self.weight_decay),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(TrainError::Setting {
                    what,
                    value: value.to_string(),
                    rule: "finite and at least 0",
                });
            }
        }
        if !(self.momentum >= 0.0 && self.momentum < 1.0) {
            return Err(TrainError::Setting {
                what: "the momentum",
                value: self.momentum.to_string(),
                rule: "at least 0 and below 1",
            });
        }
        if let Some(clip) = self.clip.filter(|c| !(c.is_finite() && *c > 0.0)) {
            return Err(TrainError::Setting {
                what: "the largest norm of the gradient",
                value: clip.to_string(),
                rule: "above 0",
            });
        }
        if !(self.layer_decay > 0.0 && self.layer_decay <= 1.0) {
            return Err(TrainError::Setting {
                what: "the layer-wise decay of the learning rate",
                value: self.layer_decay.to_string(),
                rule: "above 0 and at most 1",
            });
        }
        if !self.batch.is_multiple_of(self.accumulate as usize) {
            return Err(TrainError::Setting {
                what: "the number of pieces of a batch",
                value: self.accumulate.to_string(),
                rule: "a divisor of the batch",
            });
        }
        for &gamma in self.lp.iter().flat_map(|lp| &lp.gammas) {
            if !(gamma.is_finite() && gamma > 0.0) {
                return Err(TrainError::Setting {
                    what: "a γ to compare with the linear programme",
                    value: gamma.to_string(),
                    rule: "a positive number",
                });
            }
        }
        Ok(())
    }

    /// The first setting in which two runs differ, with both values; where files are kept, how often, on
    /// which device a run is computed and what else is logged do not count.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<(String, String, String)> {
        let essence = |s: &Self| {
            let mut s = s.clone();
            s.data = PathBuf::new();
            s.device = String::new();
            s.keep = 1;
            s.checkpoint_every = 1;
            s.lp = None;
            s.init = None;
            serde_json::to_value(s).unwrap_or_default()
        };
        let (a, b) = (essence(self), essence(other));
        let (a, b) = (a.as_object()?, b.as_object()?);
        // Settings at their default are not written: either side may lack one.
        let plain = |value: Option<&serde_json::Value>| {
            value.map_or("its default".to_owned(), ToString::to_string)
        };
        a.keys().chain(b.keys()).find_map(|field| {
            let (mine, theirs) = (a.get(field), b.get(field));
            (mine != theirs).then(|| (field.clone(), plain(mine), plain(theirs)))
        })
    }
}
