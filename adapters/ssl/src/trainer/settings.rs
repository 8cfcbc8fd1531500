//! All that decides a run: the same settings give the same run, bit for bit on a CPU.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::TrainError;
use super::model_spec::ModelSpec;
use crate::augment::Policy;
use crate::data::{Kind, LabeledSplit};
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
        ] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(TrainError::Setting {
                    what,
                    value: value.to_string(),
                    rule: "finite and at least 0",
                });
            }
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
            serde_json::to_value(s).unwrap_or_default()
        };
        let (a, b) = (essence(self), essence(other));
        let (a, b) = (a.as_object()?, b.as_object()?);
        a.iter().find_map(|(field, mine)| {
            let theirs = b.get(field)?;
            (mine != theirs).then(|| (field.clone(), mine.to_string(), theirs.to_string()))
        })
    }
}
