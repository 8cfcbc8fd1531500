//! One step: forward, label, loss, backward, update, record.
//!
//! With `accumulate` = a the batch goes through the network in a pieces, one after another, and their gradients add up to that of
//! the mean loss; the method takes all of the predictions in at once, as it does without.

use candle_core::backprop::GradStore;
use candle_core::{Device, Tensor};

use super::batches::HostBatch;
use super::error::{TrainError, panic_message};
use super::records::{ClassRecord, StepRecord};
use super::settings::Forward;
use super::{Trainer, tensor_shape};
use crate::data::UNLABELED;
use crate::methods::{Batch, Insight, Labels, Method};
use crate::nn::ops::{cross_entropy, log_softmax, soft_cross_entropy};
use crate::nn::optim::clip_gradients;
use crate::nn::{Mode, Parameter};

struct Logits {
    labeled: Tensor,
    weak: Option<Tensor>,
    strong: Option<Tensor>,
}

/// A loss and what is known about it.
struct Loss {
    tensor: Tensor,
    value: f64,
    labeled: f64,
    unlabeled: f64,
}

/// What the pieces of a batch have in common, filled as they come.
#[derive(Default)]
struct Seen {
    /// log p of the weak views so far.
    log_probs: Vec<f32>,
    /// w·q of them.
    weighted: Vec<f32>,
    labeled_loss: f64,
    unlabeled_loss: f64,
}

impl Trainer {
    /// One step.
    pub(super) fn take_step(
        &mut self,
        host: &HostBatch,
    ) -> Result<(StepRecord, ClassRecord), TrainError> {
        let pieces = self.settings.accumulate.max(1) as usize;
        let (u, k) = (host.indices.len(), self.model.classes());
        let mut seen = Seen::default();
        let mut sum: Option<GradStore> = None;
        for piece in 0..pieces {
            let part = match pieces {
                1 => None,
                _ => Some(host.piece(piece, pieces, self.dataset.shape().size())),
            };
            let last = piece + 1 == pieces;
            let loss = self.loss_of(part.as_ref().unwrap_or(host), host, &mut seen, pieces)?;
            let gradients = match last && u > 0 {
                true => self.backward_beside_update(&loss, host, &seen)?,
                false => self.backward(&loss)?,
            };
            sum = Some(match sum {
                None => gradients,
                Some(before) => added(before, &gradients, self.model.parameters())?,
            });
        }
        let rate = self.rate.at(self.step);
        if let Some(mut gradients) = sum {
            if let Some(limit) = self.settings.clip {
                clip_gradients(self.model.parameters(), &mut gradients, limit)?;
            }
            let layers = &self.layers;
            let slow = self.settings.layer_decay < 1.0;
            let each = |p: &Parameter| match slow {
                true => rate * layers.factor(p),
                false => rate,
            };
            self.optimiser
                .step(self.model.parameters(), &gradients, &each)?;
            self.average.update(self.model.as_ref())?;
        }
        let insight = match u {
            0 => Insight::default(),
            _ => self.method.insight(),
        };
        let (mass, shares, right) = tally(&seen.weighted, k, &host.truths);
        let record = StepRecord {
            step: self.step,
            rate,
            labeled_loss: seen.labeled_loss,
            unlabeled_loss: seen.unlabeled_loss,
            allocated: insight.allocated.unwrap_or(mass),
            label_accuracy: right,
            iterations: insight.iterations,
            allocation_seconds: insight.seconds,
            seconds: 0.0,
        };
        let classes = ClassRecord {
            step: self.step,
            scaling: insight.scaling,
            shares: insight.shares.unwrap_or(shares),
        };
        Ok((record, classes))
    }

    fn memory(&self, host: &HostBatch) -> impl Fn(candle_core::Error) -> TrainError + use<> {
        let images = host.labels.len() + 2 * host.indices.len();
        let (batch, ratio) = (self.settings.batch, self.settings.ratio);
        move |e| TrainError::of_step(e, images, batch, ratio)
    }

    /// Labels of a piece and its loss, over the number of pieces; `whole` is the batch it is a piece of.
    fn loss_of(
        &mut self,
        host: &HostBatch,
        whole: &HostBatch,
        seen: &mut Seen,
        pieces: usize,
    ) -> Result<Loss, TrainError> {
        let (u, k) = (host.indices.len(), self.model.classes());
        let memory = self.memory(host);
        let logits = self.forward(host).map_err(&memory)?;
        let host_copy = |tensor: &Tensor| {
            log_softmax(&tensor.detach()).and_then(|l| l.flatten_all()?.to_vec1::<f32>())
        };
        let log_probs = match &logits.weak {
            Some(weak) => host_copy(weak).map_err(&memory)?,
            None => Vec::new(),
        };
        if let Some(value) = log_probs.iter().find(|l| l.is_nan()) {
            return Err(self.not_finite(f64::from(*value), f64::NAN, f64::NAN));
        }
        let labeled = match self.method.uses_labeled() {
            true => host_copy(&logits.labeled).map_err(&memory)?,
            false => Vec::new(),
        };
        let batch = Batch {
            log_probs: &log_probs,
            labeled: &labeled,
            indices: &host.indices,
            classes: k,
            step: self.step,
            steps: self.settings.steps,
        };
        let labels = match u {
            0 => Labels::none(0, k),
            _ => self.method.label(&batch)?,
        };
        let weighted = labels.weighted();
        let mut loss = self.loss(&logits, host, &weighted).map_err(&memory)?;
        if let Some(strong) = logits.strong.as_ref().filter(|_| self.method.penalises()) {
            let log_probs = log_softmax(strong).map_err(&memory)?;
            let values = log_probs.flatten_all().and_then(|l| l.to_vec1::<f32>());
            let strong = Batch {
                log_probs: &values.map_err(&memory)?,
                ..batch
            };
            let penalty = self.method.penalty(&strong, &labels)?;
            // Its gradient is that of ⟨G, P⟩ with G held fixed.
            let sum = || {
                let g = Tensor::from_slice(&penalty.gradient, log_probs.dims(), &self.device)?;
                &loss.tensor + (log_probs.exp()? * g)?.sum_all()?
            };
            loss.tensor = sum().map_err(&memory)?;
            loss.value += penalty.value;
        }
        if !loss.value.is_finite() {
            return Err(self.not_finite(loss.value, loss.labeled, loss.unlabeled));
        }
        if pieces > 1 {
            loss.tensor = (loss.tensor / pieces as f64).map_err(&memory)?;
        }
        seen.labeled_loss += loss.labeled / pieces as f64;
        seen.unlabeled_loss += loss.unlabeled / pieces as f64;
        seen.log_probs.reserve(whole.indices.len() * k);
        seen.log_probs.extend(log_probs);
        seen.weighted.extend(weighted);
        Ok(loss)
    }

    fn backward(&self, loss: &Loss) -> Result<GradStore, TrainError> {
        let explained = |e| {
            let images = self.settings.batch * (1 + 2 * self.settings.ratio);
            TrainError::of_step(e, images, self.settings.batch, self.settings.ratio)
        };
        loss.tensor.backward().map_err(explained)
    }

    /// The gradient, and beside it, away from the CPU, the method's update with all of the step's predictions.
    fn backward_beside_update(
        &mut self,
        loss: &Loss,
        host: &HostBatch,
        seen: &Seen,
    ) -> Result<GradStore, TrainError> {
        let memory = self.memory(host);
        let batch = Batch {
            log_probs: &seen.log_probs,
            labeled: &[],
            indices: &host.indices,
            classes: self.model.classes(),
            step: self.step,
            steps: self.settings.steps,
        };
        let on_cpu = matches!(self.device, Device::Cpu);
        let method: &mut dyn Method = self.method.as_mut();
        if on_cpu {
            method.update(&batch)?;
            return loss.tensor.backward().map_err(memory);
        }
        let (updated, gradients) = std::thread::scope(|scope| {
            let beside = scope.spawn(|| method.update(&batch));
            let gradients = loss.tensor.backward();
            (beside.join(), gradients)
        });
        updated.map_err(|payload| TrainError::Labels {
            step: self.step,
            message: panic_message(&*payload),
        })??;
        gradients.map_err(memory)
    }

    fn forward(&self, host: &HostBatch) -> candle_core::Result<Logits> {
        let (b, u) = (host.labels.len(), host.indices.len());
        let shape = self.dataset.shape();
        let tensor = |rows: usize, values: &[f32]| {
            Tensor::from_slice(values, tensor_shape(rows, shape), &self.device)
        };
        if u == 0 {
            let labeled = self.model.forward(&tensor(b, &host.inputs)?, Mode::Train)?;
            return Ok(Logits {
                labeled,
                weak: None,
                strong: None,
            });
        }
        let (labeled, weak, strong) = match self.settings.forward {
            Forward::Joint => {
                let x = tensor(b + 2 * u, &host.inputs)?;
                let logits = self.model.forward(&x, Mode::Train)?;
                (
                    logits.narrow(0, 0, b)?,
                    logits.narrow(0, b, u)?,
                    logits.narrow(0, b + u, u)?,
                )
            }
            Forward::Separate => {
                let size = shape.size();
                let (first, rest) = host.inputs.split_at(b * size);
                let (weak, strong) = rest.split_at(u * size);
                let weak = self
                    .model
                    .forward(&tensor(u, weak)?, Mode::TrainKeepingStatistics)?;
                let x = Tensor::cat(&[tensor(b, first)?, tensor(u, strong)?], 0)?;
                let logits = self.model.forward(&x, Mode::Train)?;
                (logits.narrow(0, 0, b)?, weak, logits.narrow(0, b, u)?)
            }
        };
        Ok(Logits {
            labeled,
            weak: Some(weak),
            strong: Some(strong),
        })
    }

    fn loss(
        &self,
        logits: &Logits,
        host: &HostBatch,
        weighted: &[f32],
    ) -> candle_core::Result<Loss> {
        let y = Tensor::from_slice(&host.labels, host.labels.len(), &self.device)?;
        let labeled = cross_entropy(&logits.labeled, &y)?.mean_all()?;
        let labeled_value = f64::from(labeled.to_scalar::<f32>()?);
        let Some(strong) = &logits.strong else {
            return Ok(Loss {
                tensor: labeled,
                value: labeled_value,
                labeled: labeled_value,
                unlabeled: 0.0,
            });
        };
        let q = Tensor::from_slice(weighted, strong.dims(), &self.device)?;
        let unlabeled = soft_cross_entropy(strong, &q)?.mean_all()?;
        let unlabeled_value = f64::from(unlabeled.to_scalar::<f32>()?);
        let lambda = self.settings.lambda;
        Ok(Loss {
            tensor: (labeled + (unlabeled * lambda)?)?,
            value: labeled_value + lambda * unlabeled_value,
            labeled: labeled_value,
            unlabeled: unlabeled_value,
        })
    }

    fn not_finite(&self, loss: f64, labeled: f64, unlabeled: f64) -> TrainError {
        TrainError::NotFinite {
            step: self.step,
            loss,
            labeled,
            unlabeled,
            checkpoint: self.newest.clone(),
        }
    }
}

/// Gradients added up, parameter by parameter.
fn added(
    mut before: GradStore,
    more: &GradStore,
    parameters: &[Parameter],
) -> Result<GradStore, TrainError> {
    for p in parameters {
        let tensor = p.var.as_tensor();
        let sum = match (before.get(tensor), more.get(tensor)) {
            (Some(a), Some(b)) => (a + b)?,
            (None, Some(b)) => b.clone(),
            (_, None) => continue,
        };
        before.insert(tensor, sum);
    }
    Ok(before)
}

/// Allocated share of a batch, of each class in it, and, of the mass on examples whose class is known, the part on the true one.
fn tally(weighted: &[f32], k: usize, truths: &[u32]) -> (f64, Vec<f64>, f64) {
    let mut shares = vec![0.0; k];
    let (mut right, mut known) = (0.0, 0.0);
    for (row, &truth) in weighted.chunks_exact(k.max(1)).zip(truths) {
        for (share, q) in shares.iter_mut().zip(row) {
            *share += f64::from(*q);
        }
        if truth != UNLABELED {
            right += f64::from(row.get(truth as usize).copied().unwrap_or(0.0));
            known += row.iter().map(|q| f64::from(*q)).sum::<f64>();
        }
    }
    let mass: f64 = shares.iter().sum();
    let rows = truths.len().max(1) as f64;
    shares.iter_mut().for_each(|s| *s /= rows);
    let all_unknown = !truths.is_empty() && truths.iter().all(|&t| t == UNLABELED);
    let right = match known > 0.0 {
        true => right / known,
        false if all_unknown => f64::NAN,
        false => 0.0,
    };
    (mass / rows, shares, right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_without_a_class_do_not_count_as_wrong() {
        let weighted = [1.0, 0.0, 0.0, 1.0, 0.5, 0.0];
        let (mass, shares, right) = tally(&weighted, 2, &[0, UNLABELED, 1]);
        assert!((mass - 2.5 / 3.0).abs() < 1e-12);
        assert!((shares[0] - 0.5).abs() < 1e-12);
        assert!((right - 1.0 / 1.5).abs() < 1e-12);
        assert!(tally(&weighted, 2, &[UNLABELED; 3]).2.is_nan());
    }
}
