//! A network that has been trained, and what a run says about examples.

use std::path::Path;

use candle_core::Device;
use serde::Serialize;

use super::batches::Stream;
use super::card::ModelCard;
use super::checkpoint::Checkpoint;
use super::error::TrainError;
use super::evaluate::{predict, top};
use super::folder::Recorded;
use super::settings::Settings;
use super::{Trainer, open};
use crate::augment::{Batcher, Policy};
use crate::data::{Dataset, Part};
use crate::methods::Batch;
use crate::nn::{Classifier, load_tensors};

/// A trained network with its card.
pub struct Network {
    card: ModelCard,
    model: Box<dyn Classifier>,
    batcher: Batcher,
    device: Device,
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network")
            .field("card", &self.card)
            .finish_non_exhaustive()
    }
}

impl Network {
    /// The network of a run that has ended or was stopped: its best weights where there are validation examples, else the last.
    ///
    /// # Errors
    /// When there is none, a file is damaged, or the device is not to be had.
    pub fn open(run: &Path, device: &str) -> Result<Self, TrainError> {
        let (card, weights) = Recorded::network(run)?;
        let device = open(&Settings {
            device: device.to_owned(),
            ..Settings::default()
        })?;
        let classes = card.classes.len();
        let seed = Stream::Weights.seed(0);
        let model = card.model.build(card.shape, classes, seed, &device)?;
        let tensors =
            load_tensors(&weights, &device).map_err(|e| TrainError::damaged(&weights, e))?;
        model.restore(&tensors)?;
        let views = Policy::preset(card.dataset, card.shape);
        let batcher = Batcher::new(card.shape, &card.normalisation, views)?;
        Ok(Self {
            card,
            model,
            batcher,
            device,
        })
    }

    /// What it is.
    #[must_use]
    pub fn card(&self) -> &ModelCard {
        &self.card
    }

    /// Log-probabilities of examples, a few hundred rows of k at a time, with their indices.
    ///
    /// # Errors
    /// When an example has another shape than the network's or cannot be read, when the device fails, or when `take` does.
    pub fn log_probs(
        &self,
        part: &Part,
        indices: &[usize],
        take: impl FnMut(&[usize], &[f32]) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        let model = self.model.as_ref();
        predict(model, part, indices, &self.batcher, &self.device, take)
    }
}

/// Where a label comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Somebody gave it, and the network learned from it.
    Given,
    /// The method gave it.
    Allocated,
    /// The method gave none: the network's guess.
    Abstained,
}

impl Origin {
    /// The word in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Allocated => "allocated",
            Self::Abstained => "abstained",
        }
    }
}

/// What a run says about one training example.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabelRecord {
    /// Its place in the training part.
    pub index: usize,
    /// Whose the label is.
    pub origin: Origin,
    /// The class.
    pub label: usize,
    /// How much of a label the method gives it, from 0 to 1; 1 for given ones.
    pub weight: f64,
    /// The network's probability of the class.
    pub probability: f64,
    /// What one more place in the class would save, in nats: 0 for a class with room. `None` for methods without prices.
    pub price: Option<f64>,
}

/// What a run says about every example it learned from, by the network and the method's state at its end.
///
/// # Errors
/// When the data are not the run's, or a file is missing or damaged.
pub fn labels(run: &Path, dataset: &Dataset, device: &str) -> Result<Vec<LabelRecord>, TrainError> {
    let (settings, _) = Recorded::outcome(run)?;
    Trainer::check_data(run, dataset)?;
    let network = Network::open(run, device)?;
    let Some(found) = Checkpoint::newest(run, &network.device)? else {
        return Err(TrainError::damaged(run, "there is no checkpoint in it"));
    };
    let split = Trainer::draw(&settings, dataset)?;
    let k = dataset.classes.len();
    let population = split.population(dataset.train.labels(), k);
    let mut method = settings.method.build_knowing(
        split.unlabeled.len(),
        &split.counts,
        population.as_deref(),
    )?;
    method.load(&mut found.checkpoint.method.as_slice())?;
    let prices = method.insight().prices;
    let price = |class: usize| prices.as_ref()?.get(class).copied();
    let mut records = Vec::with_capacity(split.unlabeled.len());
    let mut place = 0;
    network.log_probs(&dataset.train, &split.unlabeled, |indices, log_probs| {
        let places: Vec<usize> = (place..place + indices.len()).collect();
        place += indices.len();
        let batch = Batch {
            log_probs,
            labeled: &[],
            indices: &places,
            classes: k,
            step: settings.steps.saturating_sub(1),
            steps: settings.steps,
        };
        let weighted = method.label(&batch)?.weighted();
        for ((&index, p), q) in indices
            .iter()
            .zip(log_probs.chunks_exact(k))
            .zip(weighted.chunks_exact(k))
        {
            let given = split.labeled.binary_search(&index).is_ok();
            let (best, most) = top(q);
            let mass: f64 = q.iter().map(|q| f64::from(*q)).sum();
            let (origin, label, weight) = match dataset.train.label(index).filter(|_| given) {
                Some(label) => (Origin::Given, label as usize, 1.0),
                // Abstention is one more class, with what is left of the example.
                None if most > 0.0 && f64::from(most) >= 1.0 - mass => {
                    (Origin::Allocated, best, f64::from(most))
                }
                None => {
                    let guess = top(p).0;
                    (Origin::Abstained, guess, f64::from(q[guess]))
                }
            };
            records.push(LabelRecord {
                index,
                origin,
                label,
                weight,
                probability: f64::from(p[label].exp()),
                price: price(label),
            });
        }
        Ok(())
    })?;
    Ok(records)
}
