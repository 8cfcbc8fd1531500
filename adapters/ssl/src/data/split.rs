//! Which training examples keep their labels.
//!
//! With N examples of which N_j are of class j, a split of n labels gives class j the count n_j, Σ n_j = n,
//! and then picks n_j of its N_j examples without replacement:
//!
//! ```text
//! equal             n_j = n / k
//! label-dist        n_j = ⌊n N_j / N⌋, the rest one at a time to the class furthest below its share
//! label-dist-min1   the same with n_j ≥ 1
//! multinomial       n ~ Multinomial(n, N_j / N)
//! multinomial-min1  one each, and Multinomial(n − k, N_j / N) more
//! ```
//!
//! The split is a function of (labels, mode, n, seed) and of nothing else, so every method of a comparison
//! sees the same one. The unlabeled set is *all* N examples, the labeled ones among them, as in the
//! published experiments: the allocation needs them to see the class proportions it is bounded by.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::apportion::apportion;
use super::dataset::Part;
use crate::rng::Rng;

/// How the labels are shared out among the classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SplitMode {
    /// In the proportions of the classes, at least one each.
    #[default]
    LabelDistMin1,
    /// One each and the rest at random in those proportions.
    MultinomialMin1,
    /// The same number for all.
    Equal,
    /// In the proportions of the classes.
    LabelDist,
    /// At random in those proportions.
    Multinomial,
}

impl SplitMode {
    /// All five.
    pub const ALL: [Self; 5] = [
        Self::LabelDistMin1,
        Self::MultinomialMin1,
        Self::Equal,
        Self::LabelDist,
        Self::Multinomial,
    ];

    /// The name in settings and on command lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LabelDistMin1 => "label_dist_min1",
            Self::MultinomialMin1 => "multinomial_min1",
            Self::Equal => "equal",
            Self::LabelDist => "label_dist",
            Self::Multinomial => "multinomial",
        }
    }
}

impl fmt::Display for SplitMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SplitMode {
    type Err = SplitError;

    fn from_str(text: &str) -> Result<Self, SplitError> {
        let wanted = text.replace('-', "_");
        Self::ALL
            .into_iter()
            .find(|m| m.name() == wanted)
            .ok_or(SplitError::UnknownMode {
                name: text.to_owned(),
            })
    }
}

/// The labels cannot be shared out as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// Not one label per class.
    #[error("{labels} labels are too few for {classes} classes: {mode} needs at least {classes}")]
    TooFewLabels {
        /// Labels asked for.
        labels: usize,
        /// Number of classes.
        classes: usize,
        /// The mode that needs more.
        mode: SplitMode,
    },
    /// More labels than examples.
    #[error("{labels} labels were asked for, but there are only {examples} training examples")]
    TooManyLabels {
        /// Labels asked for.
        labels: usize,
        /// Training examples.
        examples: usize,
    },
    /// `equal` cannot share them out.
    #[error(
        "{labels} labels cannot be shared equally among {classes} classes: take {below} or {above}"
    )]
    NotDivisible {
        /// Labels asked for.
        labels: usize,
        /// Number of classes.
        classes: usize,
        /// The next possible number below.
        below: usize,
        /// The next possible number above.
        above: usize,
    },
    /// A class has not enough examples for its share.
    #[error("class {class} has {available} examples, but its share is {wanted} labels")]
    ClassTooSmall {
        /// Which class.
        class: usize,
        /// Its training examples.
        available: usize,
        /// Its share.
        wanted: usize,
    },
    /// A label is outside the classes.
    #[error("example {index} has label {label}, outside 0..{classes}")]
    Label {
        /// Which example.
        index: usize,
        /// Its label.
        label: u32,
        /// Number of classes.
        classes: usize,
    },
    /// No such mode.
    #[error(
        "unknown split mode `{name}`: choose label_dist_min1, multinomial_min1, equal, label_dist or multinomial"
    )]
    UnknownMode {
        /// What was asked for.
        name: String,
    },
}

/// A recipe for a split: small enough to store with every run.
///
/// # Examples
/// ```
/// use earthmover_ssl::data::{LabeledSplit, SplitMode, digits};
///
/// let digits = digits::load()?;
/// let split = LabeledSplit::new(20).mode(SplitMode::Equal).seed(1).draw(&digits.train, 10)?;
/// assert_eq!(split.counts, [2; 10]);
/// assert_eq!(split.unlabeled.len(), digits.train.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabeledSplit {
    /// How the labels are shared out.
    pub mode: SplitMode,
    /// How many there are.
    pub labels: usize,
    /// Which split of its kind.
    pub seed: u64,
}

/// The indices a split has chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Training examples whose labels may be used, in ascending order.
    pub labeled: Vec<usize>,
    /// Training examples used without their labels: all of them.
    pub unlabeled: Vec<usize>,
    /// Labeled examples per class.
    pub counts: Vec<usize>,
}

impl LabeledSplit {
    /// `labels` labels in the proportions of the classes, at least one each, seed 0.
    #[must_use]
    pub fn new(labels: usize) -> Self {
        Self {
            mode: SplitMode::default(),
            labels,
            seed: 0,
        }
    }

    /// Another way to share out the labels.
    #[must_use]
    pub fn mode(mut self, mode: SplitMode) -> Self {
        self.mode = mode;
        self
    }

    /// Another split of the same kind.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    fn counts(&self, sizes: &[usize], rng: &mut Rng) -> Result<Vec<usize>, SplitError> {
        let (n, k) = (self.labels, sizes.len());
        let total: usize = sizes.iter().sum();
        if n > total {
            return Err(SplitError::TooManyLabels {
                labels: n,
                examples: total,
            });
        }
        let shares: Vec<f64> = sizes
            .iter()
            .map(|&s| s as f64 / total.max(1) as f64)
            .collect();
        let one_each = matches!(
            self.mode,
            SplitMode::LabelDistMin1 | SplitMode::MultinomialMin1 | SplitMode::Equal
        );
        if k == 0 || n == 0 || (one_each && n < k) {
            return Err(SplitError::TooFewLabels {
                labels: n,
                classes: k,
                mode: self.mode,
            });
        }
        Ok(match self.mode {
            SplitMode::Equal if !n.is_multiple_of(k) => {
                let below = n / k * k;
                return Err(SplitError::NotDivisible {
                    labels: n,
                    classes: k,
                    below,
                    above: below + k,
                });
            }
            SplitMode::Equal => vec![n / k; k],
            SplitMode::LabelDist => apportion(n, &shares, 0),
            SplitMode::LabelDistMin1 => apportion(n, &shares, 1),
            SplitMode::Multinomial => rng.multinomial(n, &shares),
            SplitMode::MultinomialMin1 => rng
                .multinomial(n - k, &shares)
                .iter()
                .map(|c| c + 1)
                .collect(),
        })
    }

    /// Chooses the labeled examples of a training part with `classes` classes.
    ///
    /// # Errors
    /// When there are too few labels for the classes, too many for the examples, or a class has fewer
    /// examples than its share.
    pub fn draw(&self, train: &Part, classes: usize) -> Result<Split, SplitError> {
        self.draw_from_labels(train.labels(), classes)
    }

    /// [`LabeledSplit::draw`] from bare labels.
    ///
    /// # Errors
    /// As [`LabeledSplit::draw`].
    pub fn draw_from_labels(&self, labels: &[u32], classes: usize) -> Result<Split, SplitError> {
        let mut members = vec![Vec::new(); classes];
        for (index, &label) in labels.iter().enumerate() {
            match members.get_mut(label as usize) {
                Some(class) => class.push(index),
                None => {
                    return Err(SplitError::Label {
                        index,
                        label,
                        classes,
                    });
                }
            }
        }
        let root = Rng::new(self.seed);
        let sizes: Vec<usize> = members.iter().map(Vec::len).collect();
        let counts = self.counts(&sizes, &mut root.fork(0))?;
        let mut labeled = Vec::with_capacity(self.labels);
        for (class, (members, &wanted)) in members.iter().zip(&counts).enumerate() {
            if members.len() < wanted {
                return Err(SplitError::ClassTooSmall {
                    class,
                    available: members.len(),
                    wanted,
                });
            }
            let chosen = root.fork(1 + class as u64).choose(members.len(), wanted);
            labeled.extend(chosen.into_iter().map(|at| members[at]));
        }
        labeled.sort_unstable();
        Ok(Split {
            labeled,
            unlabeled: (0..labels.len()).collect(),
            counts,
        })
    }
}
