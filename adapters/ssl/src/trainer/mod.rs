//! Training as the paper's Algorithm 2 has it, for every method.
//!
//! One step, in this order:
//!
//! ```text
//! 1  forward over [labeled, weak, strong] in one batch that shares its batch-norm statistics
//! 2  targets for the weak views from the method's state *before* this step
//! 3  L = mean cross-entropy on labeled + λ · mean over the batch of −w Σ_j q_j log p(j | strong)
//! 4  the method takes the batch's predictions in (SLA: rows of C replaced, ρ advanced, re-solved)
//! 5  gradient, optimiser, average, learning rate
//! ```
//!
//! 4 needs nothing from the gradient, so away from the CPU the two go on at the same time; the result is the
//! same. Batches are prepared ahead by [`Prefetch`]. Everything random is a function of (seed, step).

mod batches;
mod checkpoint;
mod error;
mod evaluate;
mod folder;
mod model_spec;
mod records;
mod settings;
mod subset;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use candle_core::{Device, Tensor};

pub use error::TrainError;
use error::panic_message;
pub use folder::Recorded;
pub use model_spec::ModelSpec;
pub use records::{ClassRecord, Evaluation, StepRecord, Summary, Watch};
pub use settings::{Forward, LpCheck, Rate, Settings};
pub use subset::subset;

use crate::augment::{AugmentError, Batcher, Policy, Prefetch};
use crate::data::{Dataset, Shape, Split};
use crate::methods::{Batch, Insight, Labels, Method};
use crate::nn::ops::{cross_entropy, log_softmax, soft_cross_entropy};
use crate::nn::optim::{Ema, LearningRate, Momentum, Schedule, Sgd, clip_gradients};
use crate::nn::{Classifier, Mode};
use batches::{Batches, HostBatch, Stream};
use checkpoint::Checkpoint;
use folder::RunFolder;

/// Batches ready before they are needed.
const AHEAD: usize = 3;
/// Traces of the classes per run.
const TRACES: u64 = 400;

/// How [`Trainer::run`] ended, if it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All steps are done.
    Finished,
    /// It was asked to stop; with a folder, a checkpoint was written.
    Stopped,
}

/// A run: a network on its way.
///
/// # Examples
/// ```
/// use std::sync::atomic::AtomicBool;
/// use earthmover_ssl::data::digits;
/// use earthmover_ssl::trainer::{Ending, Settings, Trainer};
///
/// let settings = Settings { steps: 3, batch: 8, ratio: 2, ..Settings::default() };
/// let mut trainer = Trainer::new(settings, digits::load()?.into(), None)?;
/// let ending = trainer.run(&AtomicBool::new(false), &mut ())?;
/// assert_eq!(ending, Ending::Finished);
/// assert!(trainer.last_evaluation().is_some_and(|e| e.step == 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Trainer {
    settings: Settings,
    dataset: Arc<Dataset>,
    split: Arc<Split>,
    batcher: Batcher,
    device: Device,
    model: Box<dyn Classifier>,
    average: Ema,
    optimiser: Sgd,
    rate: LearningRate,
    method: Box<dyn Method>,
    step: u64,
    seconds: f64,
    step_seconds: f64,
    allocation_seconds: f64,
    last: Option<Evaluation>,
    folder: Option<RunFolder>,
    newest: Option<PathBuf>,
}

impl std::fmt::Debug for Trainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trainer")
            .field("settings", &self.settings)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

/// The network that the settings name, with the weights of their seed.
fn network(settings: &Settings, dataset: &Dataset) -> Result<Box<dyn Classifier>, TrainError> {
    let device = open(settings)?;
    let seed = Stream::Weights.seed(settings.seed);
    let (shape, classes) = (dataset.shape(), dataset.classes.len());
    Ok(settings.model.build(shape, classes, seed, &device)?)
}

impl Trainer {
    /// Starts a run. With a folder, logs and checkpoints go there and an earlier run's are replaced.
    ///
    /// # Errors
    /// When a setting is out of range, the labels cannot be shared out, or the folder cannot be written.
    pub fn new(
        settings: Settings,
        dataset: Arc<Dataset>,
        folder: Option<&Path>,
    ) -> Result<Self, TrainError> {
        let model = network(&settings, &dataset)?;
        Self::with_model(settings, dataset, model, folder)
    }

    /// [`Trainer::new`] with a network of one's own; `settings.model` is not looked at.
    ///
    /// # Errors
    /// As [`Trainer::new`].
    pub fn with_model(
        settings: Settings,
        dataset: Arc<Dataset>,
        model: Box<dyn Classifier>,
        folder: Option<&Path>,
    ) -> Result<Self, TrainError> {
        let mut trainer = Self::assemble(settings, dataset, model)?;
        if let Some(path) = folder {
            trainer.folder = Some(RunFolder::create(path, &trainer.settings)?);
        }
        Ok(trainer)
    }

    /// Goes on with the run in `folder` from its newest checkpoint, or starts it if there is none.
    ///
    /// # Errors
    /// As [`Trainer::new`]; also when the stored settings differ or the checkpoint is damaged.
    pub fn resume(
        settings: Settings,
        dataset: Arc<Dataset>,
        folder: &Path,
    ) -> Result<Self, TrainError> {
        let model = network(&settings, &dataset)?;
        Self::resume_with_model(settings, dataset, model, folder)
    }

    /// [`Trainer::resume`] with a network of one's own, made as it was at the start of the run: its weights are
    /// replaced by the checkpoint's.
    ///
    /// # Errors
    /// As [`Trainer::resume`]; also when the network's tensors are not those of the checkpoint.
    pub fn resume_with_model(
        settings: Settings,
        dataset: Arc<Dataset>,
        model: Box<dyn Classifier>,
        folder: &Path,
    ) -> Result<Self, TrainError> {
        let device = open(&settings)?;
        let Some(checkpoint) = Checkpoint::newest(folder, &device)? else {
            return Self::with_model(settings, dataset, model, Some(folder));
        };
        if let Some((field, stored, given)) = checkpoint.settings.difference(&settings) {
            return Err(TrainError::OtherSettings {
                path: folder.to_path_buf(),
                field,
                stored,
                given,
            });
        }
        let mut trainer = Self::assemble(settings, dataset, model)?;
        trainer.model.restore(&checkpoint.model)?;
        trainer
            .average
            .restore(trainer.model.as_ref(), &checkpoint.average)?;
        trainer
            .optimiser
            .restore(trainer.model.parameters(), &checkpoint.optimiser)?;
        trainer.method.load(&mut checkpoint.method.as_slice())?;
        trainer.step = checkpoint.step;
        trainer.seconds = checkpoint.seconds;
        trainer.step_seconds = checkpoint.step_seconds;
        trainer.allocation_seconds = checkpoint.allocation_seconds;
        trainer.newest = checkpoint::list(folder)?.pop().map(|(_, path)| path);
        trainer.folder = Some(RunFolder::resume(folder, checkpoint.step)?);
        let recorded = Recorded::read(folder)?;
        trainer.last = recorded.evaluations.into_iter().next_back();
        Ok(trainer)
    }

    fn assemble(
        settings: Settings,
        dataset: Arc<Dataset>,
        model: Box<dyn Classifier>,
    ) -> Result<Self, TrainError> {
        settings.validate()?;
        let device = open(&settings)?;
        let classes = dataset.classes.len();
        let split = settings.split.draw(&dataset.train, classes)?;
        let shape = dataset.shape();
        let policy = settings.augment.clone();
        let policy = policy.unwrap_or_else(|| Policy::preset(settings.dataset, shape));
        let batcher = Batcher::new(shape, &dataset.normalisation, policy)?;
        let schedule = match settings.rate {
            Rate::Cosine => Schedule::Cosine {
                total: settings.steps,
            },
            Rate::Constant => Schedule::Constant,
        };
        let rate = LearningRate::new(settings.learning_rate, schedule).warm_up(settings.warm_up);
        rate.validate()?;
        Ok(Self {
            average: Ema::new(settings.ema, model.as_ref())?,
            optimiser: Sgd::new()
                .momentum(Momentum::Nesterov(settings.momentum))
                .weight_decay(settings.weight_decay),
            method: settings
                .method
                .build(split.unlabeled.len(), &split.counts)?,
            split: Arc::new(split),
            rate,
            batcher,
            device,
            model,
            dataset,
            settings,
            step: 0,
            seconds: 0.0,
            step_seconds: 0.0,
            allocation_seconds: 0.0,
            last: None,
            folder: None,
            newest: None,
        })
    }

    /// Steps done.
    #[must_use]
    pub fn steps_done(&self) -> u64 {
        self.step
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The labeled examples.
    #[must_use]
    pub fn split(&self) -> &Split {
        &self.split
    }

    /// The network, with its own weights rather than their average.
    #[must_use]
    pub fn model(&self) -> &dyn Classifier {
        self.model.as_ref()
    }

    /// The average that is evaluated.
    #[must_use]
    pub fn average(&self) -> &Ema {
        &self.average
    }

    /// The last evaluation.
    #[must_use]
    pub fn last_evaluation(&self) -> Option<&Evaluation> {
        self.last.as_ref()
    }

    /// Trains until the last step, or until `stop` is set (by Ctrl-C, say), then saves.
    ///
    /// # Errors
    /// [`TrainError::NotFinite`] when the loss is not a number; others when the device, a file or a method
    /// fails. The last good checkpoint stays.
    pub fn run(&mut self, stop: &AtomicBool, watch: &mut dyn Watch) -> Result<Ending, TrainError> {
        let unlabeled = match self.method.uses_unlabeled() {
            true => self.settings.batch * self.settings.ratio,
            false => 0,
        };
        let batches = Batches::new(
            self.dataset.clone(),
            self.split.clone(),
            self.batcher.clone(),
            self.settings.batch,
            unlabeled,
            self.settings.seed,
        );
        let produce = move |step| Some(batches.make(step));
        let failed = |message: String| TrainError::Prefetch { message };
        let mut ahead: Prefetch<Result<HostBatch, AugmentError>> =
            Prefetch::spawn(self.step, AHEAD, produce).map_err(|e| failed(e.to_string()))?;
        let steps = self.settings.steps;
        while self.step < steps {
            if stop.load(Ordering::Relaxed) {
                self.save()?;
                self.summarise()?;
                return Ok(Ending::Stopped);
            }
            let started = Instant::now();
            let batch = ahead
                .next()
                .ok_or_else(|| failed("it ended early".to_owned()))??;
            let (mut record, classes) = self.one(&batch)?;
            record.seconds = started.elapsed().as_secs_f64();
            self.allocation_seconds += record.allocation_seconds;
            let traced = self.step.is_multiple_of(steps.div_ceil(TRACES)) || self.step + 1 == steps;
            if let Some(folder) = &mut self.folder {
                folder.step(&record)?;
                if traced {
                    folder.classes(&classes)?;
                }
            }
            self.step += 1;
            self.step_seconds += record.seconds;
            watch.step(&record, steps);
            let ended = self.step == steps;
            let aside = Instant::now();
            self.compare_with_programme(ended)?;
            let aside = aside.elapsed().as_secs_f64();
            if ended || self.step.is_multiple_of(self.settings.evaluate_every) {
                let evaluation = self.evaluate()?;
                watch.evaluation(&evaluation);
                if let Some(folder) = &mut self.folder {
                    folder.evaluation(&evaluation)?;
                }
                self.last = Some(evaluation);
            }
            self.seconds += started.elapsed().as_secs_f64() - aside;
            if ended || self.step.is_multiple_of(self.settings.checkpoint_every) {
                self.save()?;
            }
        }
        self.summarise()?;
        Ok(Ending::Finished)
    }

    /// Logs how far the allocation is from the linear programme, if it is time to; reads the method only.
    fn compare_with_programme(&mut self, ended: bool) -> Result<(), TrainError> {
        let Some(check) = &self.settings.lp else {
            return Ok(());
        };
        if let Some(folder) = &mut self.folder
            && (ended || self.step.is_multiple_of(check.every))
        {
            let records = self.method.fidelity(self.step - 1, &check.gammas)?;
            if !records.is_empty() {
                folder.fidelity(&records)?;
            }
        }
        Ok(())
    }

    /// The averaged network on the test examples, now.
    ///
    /// # Errors
    /// When the device fails.
    pub fn evaluate(&self) -> Result<Evaluation, TrainError> {
        self.average.applied(self.model.as_ref(), |model| {
            Ok(evaluate::evaluate(
                model,
                &self.dataset.test,
                &self.batcher,
                self.step,
                &self.device,
            ))
        })?
    }

    /// How the run stands.
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary {
            step: self.step,
            finished: self.step == self.settings.steps,
            accuracy: self.last.as_ref().map_or(0.0, |e| e.accuracy),
            parameters: self.model.parameter_count(),
            seconds: self.seconds,
            allocation_share: self.allocation_seconds / self.step_seconds.max(f64::MIN_POSITIVE),
        }
    }

    fn summarise(&mut self) -> Result<(), TrainError> {
        let summary = self.summary();
        match &mut self.folder {
            Some(folder) => folder.summary(&summary),
            None => Ok(()),
        }
    }

    /// Writes a checkpoint now, if the run has a folder.
    ///
    /// # Errors
    /// When a weight is not finite, or the folder cannot be written.
    pub fn save(&mut self) -> Result<(), TrainError> {
        let Some(folder) = &mut self.folder else {
            return Ok(());
        };
        folder.flush()?;
        let model = self.model.snapshot()?;
        for (name, tensor) in &model {
            if !tensor.sum_all()?.to_scalar::<f32>()?.is_finite() {
                return Err(TrainError::BadWeights {
                    step: self.step,
                    name: name.clone(),
                    checkpoint: self.newest.clone(),
                });
            }
        }
        let mut method = Vec::new();
        self.method.save(&mut method)?;
        let checkpoint = Checkpoint {
            step: self.step,
            seconds: self.seconds,
            step_seconds: self.step_seconds,
            allocation_seconds: self.allocation_seconds,
            settings: self.settings.clone(),
            model,
            average: self.average.tensors().clone(),
            optimiser: self.optimiser.snapshot(),
            method,
        };
        self.newest = Some(checkpoint.write(folder.path(), self.settings.keep)?);
        Ok(())
    }

    /// One step.
    fn one(&mut self, host: &HostBatch) -> Result<(StepRecord, ClassRecord), TrainError> {
        let (b, u, k) = (host.labels.len(), host.indices.len(), self.model.classes());
        let images = b + 2 * u;
        let (batch, ratio) = (self.settings.batch, self.settings.ratio);
        let memory = move |e| TrainError::of_step(e, images, batch, ratio);
        let logits = self.forward(host).map_err(memory)?;
        let log_probs = match &logits.weak {
            Some(weak) => log_softmax(&weak.detach())
                .and_then(|l| l.flatten_all()?.to_vec1::<f32>())
                .map_err(memory)?,
            None => Vec::new(),
        };
        if let Some(value) = log_probs.iter().find(|l| l.is_nan()) {
            return Err(self.not_finite(f64::from(*value), f64::NAN, f64::NAN));
        }
        let batch = Batch {
            log_probs: &log_probs,
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
        let (mut loss, parts) = self.loss(&logits, host, &weighted).map_err(memory)?;
        if let Some(strong) = logits.strong.as_ref().filter(|_| self.method.penalises()) {
            let log_probs = log_softmax(strong).map_err(memory)?;
            let values = log_probs.flatten_all().and_then(|l| l.to_vec1::<f32>());
            let strong = Batch {
                log_probs: &values.map_err(memory)?,
                ..batch
            };
            let penalty = self.method.penalty(&strong, &labels)?;
            // Its gradient is that of ⟨G, P⟩ with G held fixed.
            let sum = || {
                let g = Tensor::from_slice(&penalty.gradient, log_probs.dims(), &self.device)?;
                &loss.0 + (log_probs.exp()? * g)?.sum_all()?
            };
            loss = (sum().map_err(memory)?, loss.1 + penalty.value);
        }
        if !loss.1.is_finite() {
            return Err(self.not_finite(loss.1, parts.0, parts.1));
        }
        let mut gradients = {
            let method = &mut self.method;
            let mut update = || if u > 0 { method.update(&batch) } else { Ok(()) };
            if self.device.is_cpu() {
                update()?;
                loss.0.backward().map_err(memory)?
            } else {
                let (updated, gradients) = std::thread::scope(|scope| {
                    let beside = scope.spawn(update);
                    let gradients = loss.0.backward();
                    (beside.join(), gradients)
                });
                updated.map_err(|payload| TrainError::Labels {
                    step: self.step,
                    message: panic_message(&*payload),
                })??;
                gradients.map_err(memory)?
            }
        };
        if let Some(limit) = self.settings.clip {
            clip_gradients(self.model.parameters(), &mut gradients, limit)?;
        }
        let rate = self.rate.at(self.step);
        self.optimiser
            .step(self.model.parameters(), &gradients, rate)?;
        self.average.update(self.model.as_ref())?;

        let insight = match u {
            0 => Insight::default(),
            _ => self.method.insight(),
        };
        let (mass, shares, right) = tally(&weighted, k, &host.truths);
        let record = StepRecord {
            step: self.step,
            rate,
            labeled_loss: parts.0,
            unlabeled_loss: parts.1,
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

    /// The loss with its value, and the values of its two parts.
    #[allow(clippy::type_complexity)] // a tensor and three numbers
    fn loss(
        &self,
        logits: &Logits,
        host: &HostBatch,
        weighted: &[f32],
    ) -> candle_core::Result<((Tensor, f64), (f64, f64))> {
        let y = Tensor::from_slice(&host.labels, host.labels.len(), &self.device)?;
        let labeled = cross_entropy(&logits.labeled, &y)?.mean_all()?;
        let labeled_value = f64::from(labeled.to_scalar::<f32>()?);
        let Some(strong) = &logits.strong else {
            return Ok(((labeled, labeled_value), (labeled_value, 0.0)));
        };
        let q = Tensor::from_slice(weighted, strong.dims(), &self.device)?;
        let unlabeled = soft_cross_entropy(strong, &q)?.mean_all()?;
        let unlabeled_value = f64::from(unlabeled.to_scalar::<f32>()?);
        let lambda = self.settings.lambda;
        let total = (labeled + (unlabeled * lambda)?)?;
        let value = labeled_value + lambda * unlabeled_value;
        Ok(((total, value), (labeled_value, unlabeled_value)))
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

struct Logits {
    labeled: Tensor,
    weak: Option<Tensor>,
    strong: Option<Tensor>,
}

/// Allocated share of a batch, of each class in it, and the part of it on the true class.
fn tally(weighted: &[f32], k: usize, truths: &[u32]) -> (f64, Vec<f64>, f64) {
    let mut shares = vec![0.0; k];
    let mut right = 0.0;
    for (row, &truth) in weighted.chunks_exact(k.max(1)).zip(truths) {
        for (share, q) in shares.iter_mut().zip(row) {
            *share += f64::from(*q);
        }
        right += f64::from(row.get(truth as usize).copied().unwrap_or(0.0));
    }
    let mass: f64 = shares.iter().sum();
    let rows = truths.len().max(1) as f64;
    shares.iter_mut().for_each(|s| *s /= rows);
    let right = if mass > 0.0 { right / mass } else { 0.0 };
    (mass / rows, shares, right)
}

fn tensor_shape(rows: usize, shape: Shape) -> Vec<usize> {
    match shape {
        Shape::Image {
            height,
            width,
            channels,
        } => vec![rows, channels, height, width],
        Shape::Table { features } => vec![rows, features],
    }
}

fn open(settings: &Settings) -> Result<Device, TrainError> {
    let name: crate::nn::DeviceName = settings.device.parse()?;
    Ok(name.open().device)
}
