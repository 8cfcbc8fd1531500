//! Flags, and how they change the settings of a preset. A table of an experiments file has the same names.

use std::path::PathBuf;

use clap::Args;
use earthmover_ssl::augment::{ImagePolicy, Policy};
use earthmover_ssl::data::{Kind, SplitMode};
use earthmover_ssl::methods::{MethodName, MethodSpec};
use earthmover_ssl::presets;
use earthmover_ssl::trainer::{Forward, LpCheck, ModelSpec, Rate, Settings};
use serde::Deserialize;

use crate::Failure;

/// Training flags.
#[derive(Args, Clone, Debug)]
pub(crate) struct TrainFlags {
    /// Start from a preset (see the `presets` command)
    #[arg(long)]
    pub(crate) preset: Option<String>,
    /// Methods to run, several with commas: supervised, pseudo-label, fixmatch, fixmatch-da, flexmatch,
    /// freematch, softmatch, sla, or with settings: "sla gamma=10 bounds=none"
    #[arg(long, value_delimiter = ',')]
    pub(crate) method: Vec<MethodSpec>,
    /// One run per seed; a seed decides split, weights, sampling and augmentation
    #[arg(long, value_delimiter = ',', default_value = "1")]
    pub(crate) seeds: Vec<u64>,
    /// Where to put the run folders [default: runs/<dataset>-<labels> or runs/<preset>]
    #[arg(long)]
    pub(crate) output: Option<PathBuf>,
    /// Go on from the last checkpoints; finished runs are not repeated
    #[arg(long)]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) changes: Changes,
}

fn parse_name<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(serde_json::Value::String(text.to_owned())).map_err(|e| e.to_string())
}

/// What differs from the preset.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Changes {
    /// digits, mnist, fashion-mnist, cifar10, cifar100, svhn, folder or arrays
    #[arg(long)]
    pub(crate) dataset: Option<Kind>,
    /// Where the data set is
    #[arg(long)]
    pub(crate) data: Option<PathBuf>,
    /// At most so many training examples
    #[arg(long)]
    pub(crate) train_examples: Option<usize>,
    /// At most so many test examples
    #[arg(long)]
    pub(crate) test_examples: Option<usize>,
    /// Labeled examples
    #[arg(long)]
    pub(crate) labels: Option<usize>,
    /// label_dist_min1, multinomial_min1, equal, label_dist or multinomial
    #[arg(long)]
    pub(crate) split: Option<SplitMode>,
    /// mlp-128-128, cnn-16-32, wrn-28-2, …
    #[arg(long)]
    pub(crate) model: Option<ModelSpec>,
    /// Training steps
    #[arg(long)]
    pub(crate) steps: Option<u64>,
    /// Labeled examples per step
    #[arg(long)]
    pub(crate) batch: Option<usize>,
    /// Unlabeled examples per labeled one
    #[arg(long)]
    pub(crate) ratio: Option<usize>,
    /// Weight of the unlabeled loss
    #[arg(long)]
    pub(crate) lambda: Option<f64>,
    /// Learning rate
    #[arg(long)]
    pub(crate) learning_rate: Option<f64>,
    /// cosine or constant
    #[arg(long, value_parser = parse_name::<Rate>)]
    pub(crate) rate: Option<Rate>,
    /// Steps over which the learning rate first rises
    #[arg(long)]
    pub(crate) warm_up: Option<u64>,
    /// Nesterov momentum
    #[arg(long)]
    pub(crate) momentum: Option<f64>,
    /// Weight decay
    #[arg(long)]
    pub(crate) weight_decay: Option<f64>,
    /// Largest norm of the gradient
    #[arg(long)]
    pub(crate) clip: Option<f64>,
    /// Decay of the averaged weights
    #[arg(long)]
    pub(crate) ema: Option<f64>,
    /// joint or separate
    #[arg(long, value_parser = parse_name::<Forward>)]
    pub(crate) forward: Option<Forward>,
    /// Steps between evaluations
    #[arg(long)]
    pub(crate) evaluate_every: Option<u64>,
    /// Steps between checkpoints
    #[arg(long)]
    pub(crate) checkpoint_every: Option<u64>,
    /// Checkpoints kept
    #[arg(long)]
    pub(crate) keep: Option<usize>,
    /// cpu, cuda:0 or metal
    #[arg(long)]
    pub(crate) device: Option<String>,
    /// SLA: inverse regularisation
    #[arg(long)]
    pub(crate) gamma: Option<f64>,
    /// SLA: error at which a solve stops, over the mass
    #[arg(long)]
    pub(crate) tolerance: Option<f64>,
    /// SLA: linear, constant:1, truncated:0.8 or cosine:0:1
    #[arg(long)]
    pub(crate) schedule: Option<String>,
    /// SLA: none, empirical, wilson:0.8 or shares 0.1,0.2,…
    #[arg(long)]
    pub(crate) bounds: Option<String>,
    /// SLA: solve the exact linear programme every so many steps and log how far the allocation is from it
    #[arg(long)]
    pub(crate) lp_every: Option<u64>,
    /// SLA: other γ to solve beside it [default: 1,10,100,1000]
    #[arg(long, value_delimiter = ',', requires = "lp_every")]
    pub(crate) lp_gammas: Option<Vec<f64>>,
    /// FixMatch, FixMatch + DA, FlexMatch: confidence asked for
    #[arg(long)]
    pub(crate) threshold: Option<f64>,
    /// Views: pixels of padding of the random crop
    #[arg(long)]
    pub(crate) padding: Option<usize>,
    /// Views: probability of a flip
    #[arg(long)]
    pub(crate) flip: Option<f64>,
    /// Views: side of the hole in the strong ones
    #[arg(long)]
    pub(crate) cutout: Option<usize>,
    /// Views: operations drawn for the strong ones
    #[arg(long)]
    pub(crate) draws: Option<usize>,
    /// Views: highest level of those, of 10
    #[arg(long)]
    pub(crate) level: Option<u32>,
}

impl Changes {
    /// The settings of a preset (or of the data set) with these changes.
    pub(crate) fn apply(&self, preset: Option<&str>) -> Result<Settings, Failure> {
        let mut s = match (preset, self.dataset) {
            (Some(name), _) => presets::find(name).map_err(Failure::Input)?,
            (None, None | Some(Kind::Digits)) => presets::digits(),
            (None, Some(kind @ (Kind::Mnist | Kind::FashionMnist))) => {
                presets::small_images(kind, 40)
            }
            (None, Some(kind @ (Kind::Folder | Kind::Arrays))) => presets::small_images(kind, 40),
            (None, Some(kind)) => {
                presets::paper(kind, if kind == Kind::Cifar100 { 400 } else { 40 })
            }
        };
        macro_rules! set {
            ($($field:ident),*) => {$(
                if let Some(value) = &self.$field {
                    s.$field = value.clone();
                }
            )*};
        }
        set!(
            dataset,
            data,
            model,
            steps,
            batch,
            ratio,
            lambda,
            learning_rate,
            rate,
            warm_up,
            momentum,
            weight_decay,
            ema,
            forward,
            evaluate_every,
            checkpoint_every,
            keep,
            device
        );
        s.train_examples = self.train_examples.or(s.train_examples);
        s.test_examples = self.test_examples.or(s.test_examples);
        s.clip = self.clip.or(s.clip);
        s.split.labels = self.labels.unwrap_or(s.split.labels);
        s.split.mode = self.split.unwrap_or(s.split.mode);
        s.evaluate_every = s.evaluate_every.min(s.steps.max(1));
        s.lp = match (self.lp_every, &self.lp_gammas) {
            (None, None) => s.lp,
            (None, Some(_)) => {
                let message = "lp-gammas needs lp-every: how often to solve";
                return Err(Failure::Input(message.to_owned()));
            }
            (Some(every), gammas) => Some(LpCheck {
                every,
                gammas: gammas.clone().unwrap_or(LpCheck::default().gammas),
            }),
        };
        if s.dataset == Kind::Arrays && self.model.is_none() {
            s.model = ModelSpec::Mlp(vec![128, 128]);
        }
        s.augment = self.views(&s)?.or(s.augment);
        Ok(s)
    }

    /// Changed views start from the data set's own.
    fn views(&self, s: &Settings) -> Result<Option<Policy>, Failure> {
        let wanted = self.padding.is_some()
            || self.flip.is_some()
            || self.cutout.is_some()
            || self.draws.is_some()
            || self.level.is_some();
        if !wanted {
            return Ok(None);
        }
        let mut policy = match (&s.augment, s.dataset) {
            (Some(Policy::Image(policy)), _) => policy.clone(),
            (_, Kind::Digits) => ImagePolicy::digits(),
            (_, Kind::Mnist) => ImagePolicy::mnist(),
            (_, Kind::FashionMnist) => ImagePolicy::fashion_mnist(),
            (_, Kind::Svhn) => ImagePolicy::svhn(),
            (_, Kind::Cifar10 | Kind::Cifar100 | Kind::Folder) => ImagePolicy::cifar(),
            (_, Kind::Arrays) => {
                return Err(Failure::Input(
                    "--padding, --flip, --cutout, --draws and --level are for images".to_owned(),
                ));
            }
        };
        policy.weak.padding = self.padding.unwrap_or(policy.weak.padding);
        policy.weak.flip = self.flip.unwrap_or(policy.weak.flip);
        policy.cutout.size = self.cutout.unwrap_or(policy.cutout.size);
        policy.rand_augment.draws = self.draws.unwrap_or(policy.rand_augment.draws);
        policy.rand_augment.highest = self.level.unwrap_or(policy.rand_augment.highest);
        policy
            .validate()
            .map_err(|e| Failure::Input(e.to_string()))?;
        Ok(Some(Policy::Image(policy)))
    }

    /// Puts the flags about methods into a method; those it does not have are not for it.
    pub(crate) fn apply_to_method(&self, method: &mut MethodSpec) -> Result<(), Failure> {
        let name = method.name();
        let number = |x: Option<f64>| x.map(|x| x.to_string());
        for (key, value, sla) in [
            ("gamma", number(self.gamma), true),
            ("tolerance", number(self.tolerance), true),
            ("schedule", self.schedule.clone(), true),
            ("bounds", self.bounds.clone(), true),
            ("threshold", number(self.threshold), false),
        ] {
            let fits = match name {
                MethodName::Sla => sla,
                MethodName::Fixmatch | MethodName::FixmatchDa | MethodName::Flexmatch => !sla,
                _ => false,
            };
            if let Some(value) = value.filter(|_| fits) {
                method.set(key, &value).map_err(Failure::Input)?;
            }
        }
        Ok(())
    }
}

/// The settings of each method, without seeds. A method that the preset is about keeps what it says of it.
pub(crate) fn per_method(
    base: &Settings,
    methods: &[MethodSpec],
    changes: &Changes,
) -> Result<Vec<Settings>, Failure> {
    methods
        .iter()
        .map(|method| {
            let mut s = base.clone();
            if *method != MethodSpec::of(method.name()) || s.method.name() != method.name() {
                s.method = method.clone();
            }
            changes.apply_to_method(&mut s.method)?;
            Ok(s)
        })
        .collect()
}

/// Settings with a seed for everything.
pub(crate) fn seeded(settings: &Settings, seed: u64) -> Settings {
    let mut s = settings.clone();
    s.seed = seed;
    s.split.seed = seed;
    s
}

/// A folder name for a run.
pub(crate) fn folder_name(s: &Settings) -> String {
    let title = s.method.title();
    let plain = title
        .replace('γ', "gamma")
        .replace('ρ', "rho")
        .replace('τ', "tau");
    let mut name = String::new();
    for c in plain.chars() {
        if c.is_ascii_alphanumeric() || c == '.' {
            name.push(c.to_ascii_lowercase());
        } else if !name.ends_with('-') {
            name.push('-');
        }
    }
    format!("{}-seed{}", name.trim_matches('-'), s.seed)
}
