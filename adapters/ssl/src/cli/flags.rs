//! Flags, and how they change the settings of a preset. A configuration file and a table of an experiments file have the same
//! names; names in brackets are those of USB, whose users know them.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;

use super::Failure;
use crate::allocation::AllocationSolver;
use crate::augment::{ImagePolicy, Policy};
use crate::data::folder::Size;
use crate::data::{Kind, LongTail, SplitMode};
use crate::methods::{MethodName, MethodSpec};
use crate::presets;
use crate::trainer::{Forward, LpCheck, ModelSpec, OptimiserKind, Rate, Settings};

/// Training flags.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TrainFlags {
    /// A TOML file with any of these flags by name; flags on the command line win
    #[arg(long, short = 'c')]
    pub(crate) config: Option<PathBuf>,
    /// Start from a preset (see the `presets` command)
    #[arg(long)]
    pub(crate) preset: Option<String>,
    /// Methods to run, several with commas: supervised, pseudo-label, fixmatch, fixmatch-da, flexmatch,
    /// freematch, softmatch, uda, adamatch, sla, or with settings: "sla gamma=10 bounds=none" [algorithm]
    #[arg(long, value_delimiter = ',', alias = "algorithm", alias = "alg")]
    pub(crate) method: Vec<MethodSpec>,
    /// One run per seed, 1,2,3 or 1..5; a seed decides split, weights, sampling and augmentation [default: 1]
    #[arg(long, alias = "seed", value_parser = parse_seeds)]
    pub(crate) seeds: Option<Seeds>,
    /// Where to put the run folders [default: runs/<dataset>-<labels> or runs/<preset>] [save_dir]
    #[arg(long, alias = "save_dir")]
    pub(crate) output: Option<PathBuf>,
    /// Go on from the last checkpoints; finished runs are not repeated, with more --steps they go on beyond their end
    #[arg(long, conflicts_with = "overwrite")]
    pub(crate) resume: bool,
    /// Replace runs that are there
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Check everything and say what would be run
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// One JSON object a line in place of text
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) changes: Changes,
}

/// Seeds without repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seeds(pub(crate) Vec<u64>);

/// `1`, `1,2,3`, `1..5` (5 among them), or a mixture.
pub(crate) fn parse_seeds(text: &str) -> Result<Seeds, String> {
    let mut seeds = Vec::new();
    let number = |part: &str| {
        let parsed = part.trim().parse::<u64>();
        parsed.map_err(|_| format!("`{text}` is no list of seeds: write 1,2,3 or 1..5"))
    };
    for part in text.split(',') {
        match part.split_once("..") {
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
                if first > last || last - first >= 10_000 {
                    return Err(format!(
                        "seeds {part}: write the lower first, at most 10,000 of them"
                    ));
                }
                seeds.extend(first..=last);
            }
            None => seeds.push(number(part)?),
        }
    }
    distinct(&seeds)?;
    Ok(Seeds(seeds))
}

/// The same seed twice is the same run twice, not a second sample.
pub(crate) fn distinct(seeds: &[u64]) -> Result<(), String> {
    let mut sorted = seeds.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!(
            "seed {} is given twice: it would be the same run",
            pair[0]
        )),
        None => Ok(()),
    }
}

fn parse_name<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(serde_json::Value::String(text.to_owned())).map_err(|e| e.to_string())
}

/// What differs from the preset.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Changes {
    /// digits, mnist, fashion-mnist, cifar10, cifar100, svhn, folder, arrays or csv
    #[arg(long)]
    pub(crate) dataset: Option<Kind>,
    /// Where the data set is [data_dir]
    #[arg(long, alias = "data_dir")]
    #[serde(alias = "data_dir")]
    pub(crate) data: Option<PathBuf>,
    /// Images of a folder: 64 or 48x64 pixels (rows x columns) cropped to that shape, scale:64 squeezed into it [img_size]
    #[arg(long, alias = "img_size")]
    #[serde(alias = "img_size")]
    pub(crate) size: Option<Size>,
    /// At most so many training examples
    #[arg(long)]
    pub(crate) train_examples: Option<usize>,
    /// At most so many test examples
    #[arg(long)]
    pub(crate) test_examples: Option<usize>,
    /// Labeled examples [default: all where some examples have no label] [num_labels]
    #[arg(long, alias = "num_labels")]
    #[serde(alias = "num_labels")]
    pub(crate) labels: Option<usize>,
    /// label_dist_min1, multinomial_min1, equal, label_dist, multinomial or all
    #[arg(long)]
    pub(crate) split: Option<SplitMode>,
    /// The labeled examples: a file of numbers or names, one a line, or a .npy of numbers
    #[arg(long)]
    pub(crate) labeled: Option<PathBuf>,
    /// Share of the labels held out of training, to choose the best weights by
    #[arg(long)]
    pub(crate) validation: Option<f64>,
    /// Long tail: ratio of the largest class to the smallest among the labeled examples [lb_imb_ratio]
    #[arg(long, alias = "lb_imb_ratio")]
    #[serde(alias = "lb_imb_ratio")]
    pub(crate) labeled_ratio: Option<f64>,
    /// Long tail: the same among the unlabeled examples [default: that of the labeled ones] [ulb_imb_ratio]
    #[arg(long, alias = "ulb_imb_ratio")]
    #[serde(alias = "ulb_imb_ratio")]
    pub(crate) unlabeled_ratio: Option<f64>,
    /// mlp-128-128, cnn-16-32, wrn-28-2, … [net]
    #[arg(long, alias = "net")]
    #[serde(alias = "net")]
    pub(crate) model: Option<ModelSpec>,
    /// Weights to start from: model.safetensors of a run, or any whose tensors have the same names and shapes
    #[arg(long)]
    pub(crate) init: Option<PathBuf>,
    /// Training steps [num_train_iter]
    #[arg(long, alias = "num_train_iter")]
    #[serde(alias = "num_train_iter")]
    pub(crate) steps: Option<u64>,
    /// Labeled examples per step [batch_size]
    #[arg(long, alias = "batch_size")]
    #[serde(alias = "batch_size")]
    pub(crate) batch: Option<usize>,
    /// Unlabeled examples per labeled one [uratio]
    #[arg(long, alias = "uratio")]
    #[serde(alias = "uratio")]
    pub(crate) ratio: Option<usize>,
    /// Pieces in which a batch goes through the network, for memory's sake
    #[arg(long)]
    pub(crate) accumulate: Option<u32>,
    /// Weight of the unlabeled loss [ulb_loss_ratio]
    #[arg(long, alias = "ulb_loss_ratio")]
    #[serde(alias = "ulb_loss_ratio")]
    pub(crate) lambda: Option<f64>,
    /// sgd or adamw [optim]
    #[arg(long, alias = "optim", value_parser = parse_name::<OptimiserKind>)]
    #[serde(alias = "optim")]
    pub(crate) optimiser: Option<OptimiserKind>,
    /// Learning rate [lr]
    #[arg(long, alias = "lr")]
    #[serde(alias = "lr")]
    pub(crate) learning_rate: Option<f64>,
    /// cosine or constant
    #[arg(long, value_parser = parse_name::<Rate>)]
    pub(crate) rate: Option<Rate>,
    /// Steps over which the learning rate first rises [num_warmup_iter]
    #[arg(long, alias = "num_warmup_iter")]
    #[serde(alias = "num_warmup_iter")]
    pub(crate) warm_up: Option<u64>,
    /// Nesterov momentum of SGD
    #[arg(long)]
    pub(crate) momentum: Option<f64>,
    /// Weight decay [weight_decay]
    #[arg(long, alias = "weight_decay")]
    #[serde(alias = "weight_decay")]
    pub(crate) weight_decay: Option<f64>,
    /// Each layer learns so much slower than the next, at most 1 [layer_decay]
    #[arg(long, alias = "layer_decay")]
    #[serde(alias = "layer_decay")]
    pub(crate) layer_decay: Option<f64>,
    /// Largest norm of the gradient [clip_grad]
    #[arg(long, alias = "clip_grad")]
    #[serde(alias = "clip_grad")]
    pub(crate) clip: Option<f64>,
    /// Decay of the averaged weights [ema_m]
    #[arg(long, alias = "ema_m")]
    #[serde(alias = "ema_m")]
    pub(crate) ema: Option<f64>,
    /// joint or separate
    #[arg(long, value_parser = parse_name::<Forward>)]
    pub(crate) forward: Option<Forward>,
    /// Steps between evaluations [num_eval_iter]
    #[arg(long, alias = "num_eval_iter")]
    #[serde(alias = "num_eval_iter")]
    pub(crate) evaluate_every: Option<u64>,
    /// Steps between checkpoints
    #[arg(long)]
    pub(crate) checkpoint_every: Option<u64>,
    /// Checkpoints kept
    #[arg(long)]
    pub(crate) keep: Option<usize>,
    /// cpu, cuda:0, metal, or auto for whichever is there
    #[arg(long)]
    pub(crate) device: Option<String>,
    /// SLA: inverse regularisation
    #[arg(long)]
    pub(crate) gamma: Option<f64>,
    /// SLA: error at which a solve stops, over the mass
    #[arg(long)]
    pub(crate) tolerance: Option<f64>,
    /// SLA: linear, constant:1, truncated:0.8, cosine:0:1 or piecewise:0:1:0.5:1:1:0.85 (knots of progress and share)
    #[arg(long)]
    pub(crate) schedule: Option<String>,
    /// SLA: none, empirical, wilson:0.8, known or shares 0.1,0.2,…
    #[arg(long)]
    pub(crate) bounds: Option<String>,
    /// SLA: newton, or sinkhorn for the paper's Algorithm 1
    #[arg(long)]
    pub(crate) solver: Option<AllocationSolver>,
    /// SLA: solve the exact linear programme every so many steps and log how far the allocation is from it
    #[arg(long)]
    pub(crate) lp_every: Option<u64>,
    /// SLA: other γ to solve beside it [default: 1,10,100,1000]
    #[arg(long, value_delimiter = ',', requires = "lp_every")]
    pub(crate) lp_gammas: Option<Vec<f64>>,
    /// FixMatch, FixMatch + DA, FlexMatch, UDA, AdaMatch: confidence asked for [p_cutoff]
    #[arg(long, alias = "p_cutoff")]
    #[serde(alias = "p_cutoff")]
    pub(crate) threshold: Option<f64>,
    /// UDA: temperature [T]
    #[arg(long, alias = "T")]
    #[serde(alias = "T")]
    pub(crate) temperature: Option<f64>,
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
    /// These changes, and those of `base` where these say nothing.
    fn over(self, base: Self) -> Self {
        macro_rules! either {
            ($($field:ident),* $(,)?) => {
                Self { $($field: self.$field.or(base.$field)),* }
            };
        }
        either!(
            dataset,
            data,
            size,
            train_examples,
            test_examples,
            labels,
            split,
            labeled,
            validation,
            labeled_ratio,
            unlabeled_ratio,
            model,
            init,
            steps,
            batch,
            ratio,
            accumulate,
            lambda,
            optimiser,
            learning_rate,
            rate,
            warm_up,
            momentum,
            weight_decay,
            layer_decay,
            clip,
            ema,
            forward,
            evaluate_every,
            checkpoint_every,
            keep,
            device,
            gamma,
            tolerance,
            schedule,
            bounds,
            solver,
            lp_every,
            lp_gammas,
            threshold,
            temperature,
            padding,
            flip,
            cutout,
            draws,
            level,
        )
    }

    /// The settings of a preset (or of the data set) with these changes.
    pub(crate) fn apply(&self, preset: Option<&str>) -> Result<Settings, Failure> {
        let mut s = match (preset, self.dataset) {
            (Some(name), _) => presets::find(name).map_err(Failure::Input)?,
            (None, None | Some(Kind::Digits)) => presets::digits(),
            (None, Some(kind @ (Kind::Mnist | Kind::FashionMnist))) => {
                presets::small_images(kind, 40)
            }
            (None, Some(kind @ (Kind::Folder | Kind::Arrays | Kind::Csv))) => {
                presets::small_images(kind, 40)
            }
            (None, Some(kind)) => {
                presets::paper(kind, if kind == Kind::Cifar100 { 400 } else { 40 })
            }
        };
        macro_rules! set {
            ($($field:ident),* $(,)?) => {$(
                if let Some(value) = &self.$field {
                    s.$field = value.clone();
                }
            )*};
        }
        set!(
            dataset,
            data,
            size,
            validation,
            model,
            steps,
            batch,
            ratio,
            accumulate,
            lambda,
            optimiser,
            learning_rate,
            rate,
            warm_up,
            momentum,
            weight_decay,
            layer_decay,
            ema,
            forward,
            evaluate_every,
            checkpoint_every,
            keep,
            device,
        );
        if self.optimiser == Some(OptimiserKind::Adamw) && self.learning_rate.is_none() {
            s.learning_rate = 1e-3;
        }
        s.train_examples = self.train_examples.or(s.train_examples);
        s.test_examples = self.test_examples.or(s.test_examples);
        s.clip = self.clip.or(s.clip);
        s.init = self.init.clone().or(s.init);
        s.split.labels = self.labels.unwrap_or(s.split.labels);
        s.split.mode = self.split.unwrap_or(s.split.mode);
        s.evaluate_every = s.evaluate_every.min(s.steps.max(1));
        s.long_tail = match (self.labeled_ratio, self.unlabeled_ratio) {
            (None, None) => s.long_tail,
            (labeled, unlabeled) => Some(LongTail {
                labeled: labeled.unwrap_or(1.0),
                unlabeled: unlabeled.or(labeled).unwrap_or(1.0),
            }),
        };
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
        if matches!(s.dataset, Kind::Arrays | Kind::Csv) && self.model.is_none() {
            s.model = ModelSpec::Mlp(vec![128, 128]);
        }
        if self.size.is_some() && s.dataset != Kind::Folder {
            return Err(Failure::Input(format!(
                "--size is for folders of images; {} has a size of its own",
                s.dataset
            )));
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
            (_, Kind::Folder) => match s.size {
                Size::AsStored => ImagePolicy::cifar(),
                Size::Scaled { height, width } | Size::Cropped { height, width } => {
                    ImagePolicy::sized(height.min(width) as usize)
                }
            },
            (_, Kind::Cifar10 | Kind::Cifar100) => ImagePolicy::cifar(),
            (_, Kind::Arrays | Kind::Csv) => {
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

    /// The flags about methods, as a method takes them.
    fn about_methods(&self) -> Vec<(&'static str, String)> {
        let number = |x: Option<f64>| x.map(|x| x.to_string());
        [
            ("gamma", number(self.gamma)),
            ("tolerance", number(self.tolerance)),
            ("schedule", self.schedule.clone()),
            ("bounds", self.bounds.clone()),
            ("solver", self.solver.map(|s| s.to_string())),
            ("threshold", number(self.threshold)),
            ("temperature", number(self.temperature)),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
        .collect()
    }

    /// Refuses flags that none of the methods has.
    fn check_methods(&self, methods: &[MethodName]) -> Result<(), Failure> {
        let listed = |names: &[MethodName]| {
            let names: Vec<&str> = names.iter().map(|m| m.name()).collect();
            names.join(", ")
        };
        let has = |key: &'static str| move |m: &MethodName| m.settings().contains(&key);
        let mut flags: Vec<&'static str> = self.about_methods().iter().map(|(k, _)| *k).collect();
        if self.lp_every.is_some() {
            flags.push("lp-every");
        }
        for key in flags {
            let known = if key == "lp-every" { "gamma" } else { key };
            if !methods.iter().any(has(known)) {
                let owners: Vec<MethodName> =
                    MethodName::ALL.into_iter().filter(has(known)).collect();
                return Err(Failure::Input(format!(
                    "--{key} is a setting of {}, and only {} was to run",
                    listed(&owners),
                    listed(methods)
                )));
            }
        }
        Ok(())
    }

    /// Puts the flags about methods into a method; those it does not have are not for it.
    fn apply_to_method(&self, method: &mut MethodSpec) -> Result<(), Failure> {
        for (key, value) in self.about_methods() {
            if method.name().settings().contains(&key) {
                method.set(key, &value).map_err(Failure::Input)?;
            }
        }
        Ok(())
    }
}

impl TrainFlags {
    /// These flags, with those of the configuration file where the command line says nothing.
    pub(crate) fn configured(mut self) -> Result<Self, Failure> {
        let Some(path) = self.config.take() else {
            return Ok(self);
        };
        let wrong = |e: &dyn std::fmt::Display| Failure::Input(format!("{}: {e}", path.display()));
        let text = std::fs::read_to_string(&path).map_err(|e| wrong(&e))?;
        let mut table: toml::Table = text.parse().map_err(|e: toml::de::Error| wrong(&e))?;
        let strings = |value: toml::Value| match value {
            toml::Value::Array(values) => values.iter().map(plain).collect(),
            value => vec![plain(&value)],
        };
        if let Some(value) = table.remove("preset") {
            self.preset = self.preset.or(Some(plain(&value)));
        }
        if let Some(value) = table.remove("output") {
            self.output = self.output.or(Some(plain(&value).into()));
        }
        for name in ["method", "methods", "algorithm"] {
            if let Some(value) = table.remove(name)
                && self.method.is_empty()
            {
                self.method = strings(value)
                    .iter()
                    .map(|m| m.parse().map_err(|e: String| wrong(&e)))
                    .collect::<Result<_, _>>()?;
            }
        }
        for name in ["seeds", "seed"] {
            if let Some(value) = table.remove(name)
                && self.seeds.is_none()
            {
                let text = strings(value).join(",");
                self.seeds = Some(parse_seeds(&text).map_err(|e| wrong(&e))?);
            }
        }
        let changes: Changes = table.try_into().map_err(|e| wrong(&e))?;
        self.changes = self.changes.over(changes);
        Ok(self)
    }
}

fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Reads a list of labeled examples: numbers, or names of examples that have them.
pub(crate) fn labeled_list(path: &Path, train: &crate::data::Part) -> Result<Vec<usize>, Failure> {
    let wrong = |e: &dyn std::fmt::Display| Failure::Input(format!("{}: {e}", path.display()));
    if path.extension().is_some_and(|e| e == "npy") {
        use crate::data::npy::{self, NpyValues};
        let NpyValues::I64(values) = npy::read(path)?.values else {
            return Err(wrong(&"expected an array of integers"));
        };
        let index = |v: &i64| usize::try_from(*v).map_err(|_| wrong(&format!("{v} is no index")));
        return values.iter().map(index).collect();
    }
    let text = std::fs::read_to_string(path).map_err(|e| wrong(&e))?;
    let places: std::collections::HashMap<String, usize> = match train.is_named() {
        true => (0..train.len()).map(|i| (train.name(i), i)).collect(),
        false => Default::default(),
    };
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, l)| !l.is_empty() && !l.starts_with('#'));
    lines
        .map(|(at, line)| match (places.get(line), line.parse()) {
            (Some(&index), _) => Ok(index),
            (None, Ok(index)) => Ok(index),
            (None, Err(_)) => Err(wrong(&format!(
                "line {}: `{line}` is neither a number nor the name of a training example",
                at + 1
            ))),
        })
        .collect()
}

/// The settings of each method, without seeds. A method that the preset is about keeps what it says of it.
pub(crate) fn per_method(
    base: &Settings,
    methods: &[MethodSpec],
    changes: &Changes,
) -> Result<Vec<Settings>, Failure> {
    let names: Vec<MethodName> = methods.iter().map(MethodSpec::name).collect();
    changes.check_methods(&names)?;
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

/// A folder name for a run: one for each method and seed.
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
    let mut name = name.trim_matches('-').to_owned();
    // Bounds of a hundred classes would be longer than names may be.
    if name.len() > 100 {
        let sum = crate::fingerprint::Fingerprint::of(title.as_bytes()).finish();
        name = format!("{}-{}", &name[..80], &sum[..8]);
    }
    format!("{name}-seed{}", s.seed)
}

/// Refuses a plan in which two different runs have one folder.
pub(crate) fn refuse_shared<'a>(
    runs: impl Iterator<Item = (&'a Settings, &'a Path)> + Clone,
) -> Result<(), Failure> {
    let mut seen: std::collections::HashMap<&Path, &Settings> = Default::default();
    for (settings, folder) in runs {
        match seen.insert(folder, settings) {
            Some(other) if other != settings => {
                return Err(Failure::Input(format!(
                    "two different runs would share {}",
                    folder.display()
                )));
            }
            Some(_) => {
                return Err(Failure::Input(format!(
                    "{} would be run twice: a method is named twice",
                    folder.display()
                )));
            }
            None => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_lists_and_ranges_without_repeats() {
        assert_eq!(parse_seeds("1..3,7"), Ok(Seeds(vec![1, 2, 3, 7])));
        assert_eq!(parse_seeds("4"), Ok(Seeds(vec![4])));
        for wrong in ["1,1", "3..1", "a", "", "1..4,2"] {
            assert!(parse_seeds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn settings_of_no_chosen_method_are_refused() {
        let changes = Changes {
            gamma: Some(10.0),
            ..Changes::default()
        };
        let base = presets::digits();
        let fix = [MethodSpec::of(MethodName::Fixmatch)];
        assert!(per_method(&base, &fix, &changes).is_err());
        let both = [
            MethodSpec::of(MethodName::Fixmatch),
            MethodSpec::of(MethodName::Sla),
        ];
        assert!(per_method(&base, &both, &changes).is_ok_and(|s| s.len() == 2));
    }

    #[test]
    fn folders_tell_methods_apart() {
        let name = |text: &str| {
            let method: MethodSpec = text.parse().unwrap_or(MethodSpec::Supervised);
            folder_name(&Settings {
                method,
                ..presets::digits()
            })
        };
        assert_ne!(name("sla tolerance=0.9"), name("sla tolerance=0.001"));
        assert_eq!(name("sla"), "sla-seed1");
        let many = vec!["0.1234567"; 100].join(",");
        assert!(name(&format!("sla bounds={many}")).len() < 120);
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let path = std::env::temp_dir().join(format!("earthmover-config-{}", std::process::id()));
        let text = "steps = 7\nlr = 0.5\nmethods = [\"sla\", \"fixmatch\"]\nseeds = \"1..3\"\n";
        assert!(std::fs::write(&path, text).is_ok());
        let flags = TrainFlags {
            config: Some(path.clone()),
            changes: Changes {
                steps: Some(9),
                ..Changes::default()
            },
            ..TrainFlags::default()
        };
        let Ok(flags) = flags.clone().configured() else {
            unreachable!()
        };
        assert_eq!(
            (flags.changes.steps, flags.changes.learning_rate),
            (Some(9), Some(0.5))
        );
        assert_eq!(
            (flags.method.len(), flags.seeds),
            (2, Some(Seeds(vec![1, 2, 3])))
        );
        assert!(std::fs::write(&path, "stepz = 1\n").is_ok());
        let wrong = TrainFlags {
            config: Some(path.clone()),
            ..TrainFlags::default()
        };
        assert!(wrong.configured().is_err());
        let _ = std::fs::remove_file(path);
    }
}
