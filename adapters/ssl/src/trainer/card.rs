//! What a run was made of and what came out of it, in words that a reader of JSON understands.

use serde::{Deserialize, Serialize};

use super::model_spec::ModelSpec;
use super::records::{Best, Judged, Scores};
use crate::augment::Policy;
use crate::data::folder::Size;
use crate::data::{Dataset, Kind, Normalisation, Shape, Split};

/// The data of a run; `data.json` in its folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataCard {
    /// The set's short name.
    pub name: String,
    /// Names of the classes.
    pub classes: Vec<String>,
    /// What one example looks like.
    pub shape: Shape,
    /// What networks see it through.
    pub normalisation: Normalisation,
    /// Training examples.
    pub train: usize,
    /// Training examples whose labels somebody knows.
    pub known: usize,
    /// Test examples.
    pub test: usize,
    /// Examples learned from without their labels.
    pub unlabeled: usize,
    /// Labeled examples per class.
    pub labeled: Vec<usize>,
    /// Labeled examples held out of training.
    pub validation: usize,
    /// The sum over all of it; see [`Dataset::fingerprint`].
    pub fingerprint: String,
    /// The views used.
    pub views: Policy,
    /// What the reader should know before believing the figures.
    #[serde(default)]
    pub remarks: Vec<String>,
}

impl DataCard {
    pub(crate) fn new(dataset: &Dataset, split: &Split, views: Policy) -> Self {
        Self {
            name: dataset.name.clone(),
            classes: dataset.classes.clone(),
            shape: dataset.shape(),
            normalisation: dataset.normalisation.clone(),
            train: dataset.train.len(),
            known: dataset.train.known(),
            test: dataset.test.len(),
            unlabeled: split.unlabeled.len(),
            labeled: split.counts.clone(),
            validation: split.validation.len(),
            fingerprint: dataset.fingerprint(),
            views,
            remarks: Vec::new(),
        }
    }
}

/// All that it takes to use a network again; `model.json` beside `model.safetensors`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelCard {
    /// The program that wrote it.
    pub made_by: String,
    /// The network.
    pub model: ModelSpec,
    /// Names of the classes, in the order of the outputs.
    pub classes: Vec<String>,
    /// What one input looks like.
    pub shape: Shape,
    /// The size that images are given first.
    #[serde(default)]
    pub size: Size,
    /// What is taken off each channel of pixels in [0, 1] (or feature), and what it is divided by.
    pub normalisation: Normalisation,
    /// Which kind of data it learned from.
    pub dataset: Kind,
    /// That data's sum.
    pub fingerprint: String,
    /// The method.
    pub method: String,
    /// Labeled examples per class.
    pub labeled: Vec<usize>,
    /// Examples without labels.
    pub unlabeled: usize,
    /// Steps of training.
    pub step: u64,
    /// Weights: the average over training, in this file.
    pub weights: String,
    /// What the scores are about.
    pub judged_on: Judged,
    /// How well it does, where that was measured.
    pub scores: Option<Scores>,
    /// The best weights on the way, in `best.safetensors`, where there were validation examples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<Best>,
    /// What the user should know.
    #[serde(default)]
    pub remarks: Vec<String>,
}
