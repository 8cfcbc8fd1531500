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
mod card;
mod checkpoint;
mod error;
mod evaluate;
mod events;
mod folder;
mod memory;
mod model_spec;
mod network;
mod records;
mod remarks;
mod settings;
mod step;
mod subset;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use candle_core::{Device, DeviceLocation};

pub use card::{DataCard, ModelCard};
pub use error::TrainError;
pub use folder::Recorded;
pub(crate) use folder::write_whole;
pub use model_spec::ModelSpec;
pub use network::{LabelRecord, Network, Origin, labels};
pub use records::{Best, ClassRecord, Evaluation, Judged, Scores, StepRecord, Summary, Watch};
pub use settings::{Forward, LpCheck, OptimiserKind, Rate, Settings};
pub use subset::subset;

use crate::augment::{AugmentError, Batcher, Policy, Prefetch};
use crate::data::{Dataset, Shape, Split};
use crate::methods::Method;
use crate::nn::optim::{AdamW, Ema, LayerDecay, LearningRate, Momentum, Optimiser, Schedule, Sgd};
use crate::nn::{Classifier, load_tensors, tensor_bytes};
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
    optimiser: Optimiser,
    layers: LayerDecay,
    rate: LearningRate,
    method: Box<dyn Method>,
    step: u64,
    seconds: f64,
    step_seconds: f64,
    allocation_seconds: f64,
    last: Option<Evaluation>,
    best: Option<Best>,
    card: DataCard,
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
    if device.is_cpu() {
        memory::check(settings, shape, settings.model.parameters(shape, classes))?;
    }
    Ok(settings.model.build(shape, classes, seed, &device)?)
}

impl Trainer {
    /// Starts a run. With a folder, logs and checkpoints go there.
    ///
    /// # Errors
    /// When a setting is out of range, the labels cannot be shared out, the folder cannot be written or holds a run already
    /// ([`Recorded::discard`] makes room), or a step would not fit into memory.
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
        if let Some(weights) = trainer.settings.init.clone() {
            trainer.start_from(&weights)?;
        }
        if let Some(path) = folder {
            let folder = RunFolder::create(path, &trainer.settings, &trainer.card)?;
            trainer.folder = Some(folder);
        }
        Ok(trainer)
    }

    /// Takes the weights of a file that fit the network by name and shape, and says which did not.
    fn start_from(&mut self, weights: &Path) -> Result<(), TrainError> {
        let tensors =
            load_tensors(weights, &self.device).map_err(|e| TrainError::damaged(weights, e))?;
        let mut own = self.model.snapshot()?;
        let (mut taken, mut left) = (0, Vec::new());
        for (name, tensor) in &mut own {
            match tensors.get(name).filter(|t| t.dims() == tensor.dims()) {
                Some(found) => {
                    *tensor = found.to_dtype(tensor.dtype())?;
                    taken += 1;
                }
                None => left.push(name.as_str()),
            }
        }
        if taken == 0 {
            let problem = "no tensor in it has the name and shape of one of the network's";
            return Err(TrainError::damaged(weights, problem));
        }
        if !left.is_empty() {
            let (some, all) = (left.join(", "), taken + left.len());
            self.card.remarks.push(format!(
                "{taken} of {all} tensors start from {}; drawn at random: {some}",
                weights.display()
            ));
        }
        self.model.restore(&own)?;
        self.average = Ema::new(self.settings.ema, self.model.as_ref())?;
        Ok(())
    }

    /// Goes on with the run in `folder` from its newest checkpoint that is whole, or starts it if there is none. With more
    /// steps than it was started with it goes on beyond its old end, learning rate and ρ as they would be there in a run of
    /// the new length.
    ///
    /// # Errors
    /// As [`Trainer::new`]; also when the stored settings or the data differ, or no checkpoint is whole.
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
        let Some(found) = Checkpoint::newest(folder, &device)? else {
            // A run that was cut off before its first checkpoint has nothing to go on from.
            if Recorded::is_run(folder) {
                Self::check_data(folder, &dataset)?;
                Recorded::discard(folder)?;
            }
            return Self::with_model(settings, dataset, model, Some(folder));
        };
        let checkpoint = found.checkpoint;
        let mut stored = checkpoint.settings.clone();
        if settings.steps > stored.steps {
            (stored.steps, stored.evaluate_every) = (settings.steps, settings.evaluate_every);
        }
        if let Some((field, stored, given)) = stored.difference(&settings) {
            return Err(TrainError::OtherSettings {
                path: folder.to_path_buf(),
                field,
                stored,
                given,
            });
        }
        Self::check_data(folder, &dataset)?;
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
        trainer.newest = Some(found.path);
        for error in &found.damaged {
            trainer.card.remarks.push(format!(
                "a damaged checkpoint was passed over, and its steps are done again: {error}"
            ));
        }
        trainer.folder = Some(RunFolder::resume(
            folder,
            checkpoint.step,
            &trainer.settings,
        )?);
        let evaluations = Recorded::read(folder)?.evaluations;
        for evaluation in &evaluations {
            trainer.better(evaluation);
        }
        trainer.last = evaluations.into_iter().next_back();
        if let (Some(folder), Some(last)) = (&mut trainer.folder, &trainer.last)
            && last.step == checkpoint.step
        {
            folder.repeat(last)?;
        }
        Ok(trainer)
    }

    /// Refuses data that are not those of the stored run.
    fn check_data(folder: &Path, dataset: &Dataset) -> Result<(), TrainError> {
        let given = dataset.fingerprint();
        match Recorded::data(folder)? {
            Some(card) if card.fingerprint != given => Err(TrainError::OtherData {
                path: folder.to_path_buf(),
                stored: card.fingerprint,
                given,
            }),
            _ => Ok(()),
        }
    }

    /// The labeled, unlabeled and validation examples that the settings choose.
    fn draw(settings: &Settings, dataset: &Dataset) -> Result<Split, TrainError> {
        let (train, classes) = (&dataset.train, dataset.classes.len());
        let recipe = &settings.split;
        let split = match (&settings.labeled, settings.long_tail) {
            (Some(indices), _) => Split::listed(train.labels(), indices, classes)?,
            (None, Some(tail)) => tail.draw(train, classes, recipe.labels, recipe.seed)?,
            (None, None) => recipe.draw(train, classes)?,
        };
        Ok(split.hold_out(train.labels(), settings.validation, recipe.seed)?)
    }

    /// Checks settings against data as a run would, without starting one: range, split, views, network, memory.
    ///
    /// # Errors
    /// What [`Trainer::new`] would fail with.
    pub fn check(settings: &Settings, dataset: &Arc<Dataset>) -> Result<DataCard, TrainError> {
        Ok(Self::new(settings.clone(), dataset.clone(), None)?.card)
    }

    fn assemble(
        settings: Settings,
        dataset: Arc<Dataset>,
        model: Box<dyn Classifier>,
    ) -> Result<Self, TrainError> {
        settings.validate()?;
        let device = open(&settings)?;
        // What is recorded is where it was computed.
        let mut settings = settings;
        if settings.device == "auto" {
            settings.device = match device.location() {
                DeviceLocation::Cpu => "cpu".to_owned(),
                DeviceLocation::Cuda { gpu_id } => format!("cuda:{gpu_id}"),
                DeviceLocation::Metal { gpu_id } => format!("metal:{gpu_id}"),
            };
        }
        let split = Self::draw(&settings, &dataset)?;
        let shape = dataset.shape();
        let policy = settings.augment.clone();
        let policy = policy.unwrap_or_else(|| Policy::preset(settings.dataset, shape));
        let mut card = DataCard::new(&dataset, &split, policy.clone());
        card.remarks = remarks::remarks(&settings, &dataset, &split, &policy);
        let batcher = Batcher::new(shape, &dataset.normalisation, policy)?;
        let population = split.population(dataset.train.labels(), dataset.classes.len());
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
            optimiser: match settings.optimiser {
                OptimiserKind::Sgd => Optimiser::Sgd(
                    Sgd::new()
                        .momentum(Momentum::Nesterov(settings.momentum))
                        .weight_decay(settings.weight_decay),
                ),
                OptimiserKind::Adamw => {
                    Optimiser::AdamW(AdamW::new().weight_decay(settings.weight_decay))
                }
            },
            layers: LayerDecay::new(settings.layer_decay, model.parameters()),
            method: settings.method.build_knowing(
                split.unlabeled.len(),
                &split.counts,
                population.as_deref(),
            )?,
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
            best: None,
            card,
            folder: None,
            newest: None,
        })
    }

    /// What the run is about, and what a reader should know about it.
    #[must_use]
    pub fn card(&self) -> &DataCard {
        &self.card
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
        if self.step == 0 {
            self.look(watch)?;
        }
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
            let (mut record, classes) = self.take_step(&batch)?;
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
                self.look(watch)?;
            }
            self.seconds += started.elapsed().as_secs_f64() - aside;
            if ended || self.step.is_multiple_of(self.settings.checkpoint_every) {
                self.save()?;
            }
        }
        self.summarise()?;
        Ok(Ending::Finished)
    }

    /// Evaluates, tells and logs it, and keeps the weights if they are the best so far.
    fn look(&mut self, watch: &mut dyn Watch) -> Result<(), TrainError> {
        let Some(evaluation) = self.evaluate()? else {
            return Ok(());
        };
        watch.evaluation(&evaluation);
        if let Some(folder) = &mut self.folder {
            folder.evaluation(&evaluation)?;
        }
        if self.better(&evaluation)
            && let Some(folder) = &self.folder
        {
            folder.best(&tensor_bytes(self.average.tensors())?)?;
        }
        self.last = Some(evaluation);
        Ok(())
    }

    /// Whether an evaluation is the best on the validation examples; the later of equals, which has seen more.
    fn better(&mut self, evaluation: &Evaluation) -> bool {
        let Some(scores) = &evaluation.validation else {
            return false;
        };
        let better = self
            .best
            .as_ref()
            .is_none_or(|b| scores.accuracy >= b.validation);
        if better {
            self.best = Some(Best {
                step: evaluation.step,
                validation: scores.accuracy,
                test: (evaluation.on == Judged::Test).then_some(evaluation.accuracy),
            });
        }
        better
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

    /// The averaged network on the test and validation examples, now; `None` where there are neither.
    ///
    /// # Errors
    /// When the device fails.
    pub fn evaluate(&self) -> Result<Option<Evaluation>, TrainError> {
        self.average.applied(self.model.as_ref(), |model| {
            Ok(evaluate::evaluate(
                model,
                (
                    &self.dataset.test,
                    &self.dataset.train,
                    &self.split.validation,
                ),
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
            accuracy: self.last.as_ref().map(|e| e.accuracy),
            on: self.last.as_ref().map(|e| e.on).unwrap_or_default(),
            best: self.best.clone(),
            parameters: self.model.parameter_count(),
            seconds: self.seconds,
            allocation_share: self.allocation_seconds / self.step_seconds.max(f64::MIN_POSITIVE),
        }
    }

    fn summarise(&mut self) -> Result<(), TrainError> {
        let summary = self.summary();
        let Some(folder) = &mut self.folder else {
            return Ok(());
        };
        let (settings, card) = (&self.settings, &self.card);
        let model = ModelCard {
            made_by: concat!("earthmover-ssl ", env!("CARGO_PKG_VERSION")).to_owned(),
            model: settings.model.clone(),
            classes: card.classes.clone(),
            shape: card.shape,
            size: settings.size,
            normalisation: card.normalisation.clone(),
            dataset: settings.dataset,
            fingerprint: card.fingerprint.clone(),
            method: settings.method.title(),
            labeled: card.labeled.clone(),
            unlabeled: card.unlabeled,
            step: self.step,
            weights: "model.safetensors".to_owned(),
            judged_on: summary.on,
            scores: self.last.as_ref().and_then(|e| e.scores.clone()),
            best: self.best.clone(),
            remarks: card.remarks.clone(),
        };
        folder.model(&tensor_bytes(self.average.tensors())?, &model)?;
        folder.summary(&summary)
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
            optimiser: self.optimiser.snapshot()?,
            method,
        };
        self.newest = Some(checkpoint.write(folder.path(), self.settings.keep)?);
        Ok(())
    }
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
    use crate::nn::DeviceName;
    if settings.device == "auto" {
        let tried = [DeviceName::Cuda(0), DeviceName::Metal(0)].map(DeviceName::open);
        let found = tried.into_iter().find(|c| c.fallback.is_none());
        return Ok(found.map_or(Device::Cpu, |c| c.device));
    }
    let chosen = settings.device.parse::<DeviceName>()?.open();
    match chosen.fallback {
        None => Ok(chosen.device),
        Some(fallback) => Err(TrainError::Device {
            fallback: fallback.to_string().replace("; computing on the cpu", ""),
        }),
    }
}
