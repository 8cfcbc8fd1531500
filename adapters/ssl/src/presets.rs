//! Settings with a name: the paper's tables and ablations, and runs that a laptop finishes.
//!
//! | name | what |
//! | --- | --- |
//! | `digits` | embedded digits, 20 labels, seconds on a CPU |
//! | `fashion-mnist`, `mnist` | a small network on 28 × 28, minutes on a CPU |
//! | `paper-cifar10-{10,20,40,80,250}` | Wide ResNet-28-2, 2²⁰ steps |
//! | `paper-cifar100-{400,800,2500}` | Wide ResNet-28-8, weight decay 10⁻³ |
//! | `paper-svhn-{20,40,80}` | Wide ResNet-28-2, Wilson 80% bounds |
//! | `…-multinomial` | labels drawn at random, at least one each, Wilson 80% bounds |
//! | `…-no-bounds` | b = 1 |
//! | `…-rho1` | no ramp: everything allocated from the first step |
//! | `…-gamma{1,10,100,1000}` | other regularisation |
//! | `…-truncated` | ρ = min(0.8, ramp) |
//!
//! Suffixes combine: `paper-cifar10-40-multinomial-no-bounds`.

use std::path::PathBuf;

use crate::allocation::Schedule;
use crate::data::folder::Size;
use crate::data::{Kind, LabeledSplit, SplitMode};
use crate::methods::{BoundsSpec, MethodName, MethodSpec, SlaSettings};
use crate::trainer::{Forward, ModelSpec, OptimiserKind, Rate, Settings};

/// The published configuration for a data set of the paper; CIFAR-10 stands in for others.
#[must_use]
pub fn paper(dataset: Kind, labels: usize) -> Settings {
    let wide = dataset == Kind::Cifar100;
    let bounds = match dataset {
        Kind::Svhn => BoundsSpec::Wilson { confidence: 0.8 },
        _ => BoundsSpec::Empirical,
    };
    Settings {
        dataset,
        data: PathBuf::from("data").join(dataset.name()),
        train_examples: None,
        test_examples: None,
        split: LabeledSplit::new(labels),
        model: ModelSpec::WideResNet {
            depth: 28,
            width: if wide { 8 } else { 2 },
        },
        method: MethodSpec::Sla(SlaSettings {
            bounds,
            ..SlaSettings::default()
        }),
        augment: None,
        steps: 1 << 20,
        batch: 64,
        ratio: 7,
        lambda: 1.0,
        learning_rate: 0.03,
        rate: Rate::Cosine,
        warm_up: 0,
        momentum: 0.9,
        weight_decay: if wide { 1e-3 } else { 5e-4 },
        clip: None,
        ema: 0.999,
        forward: Forward::Joint,
        seed: 1,
        evaluate_every: 1 << 12,
        checkpoint_every: 1 << 12,
        keep: 2,
        device: "cpu".to_owned(),
        lp: None,
        size: Size::AsStored,
        labeled: None,
        validation: 0.0,
        long_tail: None,
        optimiser: OptimiserKind::Sgd,
        layer_decay: 1.0,
        accumulate: 1,
        init: None,
    }
}

/// The embedded digits with 20 labels, in well under a minute on two cores.
///
/// A perceptron: on 8 × 8 pixels it learns faster than a convolutional network whose average over the pixels
/// forgets where they were.
#[must_use]
pub fn digits() -> Settings {
    Settings {
        split: LabeledSplit::new(20),
        model: ModelSpec::Mlp(vec![256, 256]),
        steps: 3000,
        batch: 32,
        ratio: 4,
        ema: 0.99,
        evaluate_every: 100,
        checkpoint_every: 1000,
        ..paper(Kind::Digits, 20)
    }
}

/// 28 × 28 images with a small network, in minutes on two cores.
#[must_use]
pub fn small_images(dataset: Kind, labels: usize) -> Settings {
    Settings {
        model: ModelSpec::Cnn(vec![16, 32, 32]),
        steps: 1500,
        batch: 32,
        ratio: 4,
        ema: 0.99,
        evaluate_every: 250,
        checkpoint_every: 250,
        ..paper(dataset, labels)
    }
}

/// The names that [`find`] takes, without combinations of suffixes.
#[must_use]
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = ["digits", "mnist", "fashion-mnist"]
        .map(str::to_owned)
        .to_vec();
    for (kind, counts) in TABLES {
        names.extend(counts.iter().map(|n| format!("paper-{kind}-{n}")));
    }
    let ablations = [
        "paper-cifar10-40-multinomial",
        "paper-cifar10-40-multinomial-no-bounds",
        "paper-cifar10-40-no-bounds",
        "paper-cifar10-40-rho1",
        "paper-cifar10-40-gamma1",
        "paper-cifar10-40-gamma10",
        "paper-cifar10-40-gamma100",
        "paper-cifar10-40-gamma1000",
        "paper-cifar100-400-truncated",
    ];
    names.extend(ablations.map(str::to_owned));
    names
}

const TABLES: [(Kind, &[usize]); 3] = [
    (Kind::Cifar10, &[10, 20, 40, 80, 250]),
    (Kind::Cifar100, &[400, 800, 2500]),
    (Kind::Svhn, &[20, 40, 80]),
];

/// A preset by name.
///
/// # Errors
/// A sentence with the known names, for a name that is none of them.
///
/// # Examples
/// ```
/// use earthmover_ssl::presets;
/// let settings = presets::find("paper-cifar10-40")?;
/// assert_eq!((settings.steps, settings.split.labels), (1 << 20, 40));
/// assert!(presets::find("paper-cifar10-41").is_err());
/// # Ok::<(), String>(())
/// ```
pub fn find(name: &str) -> Result<Settings, String> {
    let unknown = || {
        format!(
            "unknown preset `{name}`: choose one of {}",
            names().join(", ")
        )
    };
    match name {
        "digits" => return Ok(digits()),
        "mnist" => return Ok(small_images(Kind::Mnist, 40)),
        "fashion-mnist" => return Ok(small_images(Kind::FashionMnist, 40)),
        _ => {}
    }
    let rest = name.strip_prefix("paper-").ok_or_else(unknown)?;
    if rest.ends_with('-') {
        return Err(unknown());
    }
    let (kind, rest) = rest.split_once('-').ok_or_else(unknown)?;
    let (labels, mut rest) = rest.split_once('-').unwrap_or((rest, ""));
    let found = TABLES.iter().find(|(k, _)| k.name() == kind);
    let (kind, counts) = found.ok_or_else(unknown)?;
    let labels = labels.parse().map_err(|_| unknown())?;
    if !counts.contains(&labels) {
        return Err(unknown());
    }
    let mut settings = paper(*kind, labels);
    let mut sla = match &settings.method {
        MethodSpec::Sla(sla) => sla.clone(),
        _ => SlaSettings::default(),
    };
    while !rest.is_empty() {
        rest = if let Some(rest) = rest.strip_prefix("multinomial") {
            settings.split.mode = SplitMode::MultinomialMin1;
            sla.bounds = BoundsSpec::Wilson { confidence: 0.8 };
            rest
        } else if let Some(rest) = rest.strip_prefix("no-bounds") {
            sla.bounds = BoundsSpec::None;
            rest
        } else if let Some(rest) = rest.strip_prefix("rho1") {
            sla.schedule = Schedule::constant(1.0).map_err(|e| e.to_string())?;
            rest
        } else if let Some(rest) = rest.strip_prefix("truncated") {
            sla.schedule = Schedule::truncated(0.8).map_err(|e| e.to_string())?;
            rest
        } else if let Some(rest) = rest.strip_prefix("gamma") {
            let (value, rest) = rest.split_at(rest.find('-').unwrap_or(rest.len()));
            sla.gamma = value.parse().map_err(|_| unknown())?;
            rest
        } else {
            return Err(unknown());
        };
        // What follows a suffix is another one, or nothing.
        rest = match rest.strip_prefix('-') {
            Some(next) => next,
            None if rest.is_empty() => rest,
            None => return Err(unknown()),
        };
    }
    settings.method = MethodSpec::Sla(sla);
    Ok(settings)
}

/// The settings of a preset with another method; SLA keeps what the preset says about it.
#[must_use]
pub fn with_method(mut settings: Settings, method: MethodName) -> Settings {
    if settings.method.name() != method {
        settings.method = MethodSpec::of(method);
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_valid() {
        for name in names() {
            let settings = find(&name);
            assert!(
                settings.as_ref().is_ok_and(|s| s.validate().is_ok()),
                "{name}"
            );
        }
    }

    #[test]
    fn suffixes_combine() {
        let settings = find("paper-cifar10-40-multinomial-no-bounds-gamma10");
        let Ok(Settings {
            split,
            method: MethodSpec::Sla(sla),
            ..
        }) = settings
        else {
            unreachable!()
        };
        assert_eq!(split.mode, SplitMode::MultinomialMin1);
        assert_eq!((sla.bounds, sla.gamma), (BoundsSpec::None, 10.0));
        for wrong in [
            "paper-cifar10-40-",
            "paper-cifar10-40-rho1x",
            "paper-mnist-40",
            "paper",
        ] {
            assert!(find(wrong).is_err(), "{wrong}");
        }
    }
}
