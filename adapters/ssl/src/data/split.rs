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
//! all               n_j = N_j: every label there is
//! ```
//!
//! Examples without a label ([`UNLABELED`]) have no part in this. A list of indices ([`Split::listed`]) takes the place of a
//! draw, and [`Split::hold_out`] sets some of the labeled examples aside for validation.
//!
//! The split is a function of (labels, mode, n, seed) and of nothing else, so every method of a comparison
//! sees the same one. The unlabeled set is *all* N examples, the labeled ones among them, as in the
//! published experiments: the allocation needs them to see the class proportions it is bounded by.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::apportion::apportion;
use super::dataset::{Part, UNLABELED};
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
    /// Every example that has a label keeps it, however many are asked for.
    All,
}

impl SplitMode {
    /// Each of them.
    pub const ALL: [Self; 6] = [
        Self::LabelDistMin1,
        Self::MultinomialMin1,
        Self::Equal,
        Self::LabelDist,
        Self::Multinomial,
        Self::All,
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
            Self::All => "all",
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
    #[error(
        "{labels} labels were asked for, but there are only {examples} training examples with a label"
    )]
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
        "unknown split mode `{name}`: choose label_dist_min1, multinomial_min1, equal, label_dist, multinomial or all"
    )]
    UnknownMode {
        /// What was asked for.
        name: String,
    },
    /// A list of labeled examples names one that cannot be used.
    #[error("labeled example {index} (line {line} of the list) {problem}")]
    Listed {
        /// Place in the list, counted from one.
        line: usize,
        /// The index given.
        index: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A share that is none.
    #[error("the {what} is {value}; it must be {rule}")]
    Share {
        /// Which one.
        what: &'static str,
        /// Its value, as written.
        value: String,
        /// What it must be.
        rule: &'static str,
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
    /// Training examples used without their labels: all but those held out for validation.
    pub unlabeled: Vec<usize>,
    /// Labeled examples per class.
    pub counts: Vec<usize>,
    /// Examples with labels that nothing is learned from.
    #[serde(default)]
    pub validation: Vec<usize>,
}

impl Split {
    /// The split whose labeled examples are these, in any order: published splits, or what somebody labeled by hand.
    ///
    /// # Errors
    /// [`SplitError::Listed`] for an index past the end, given twice, or of an example without a label.
    ///
    /// # Examples
    /// ```
    /// use earthmover_ssl::data::{Split, UNLABELED};
    /// let split = Split::listed(&[0, 1, UNLABELED, 1], &[3, 0], 2)?;
    /// assert_eq!((split.labeled, split.counts), (vec![0, 3], vec![1, 1]));
    /// assert!(Split::listed(&[0, UNLABELED], &[1], 2).is_err());
    /// # Ok::<(), earthmover_ssl::data::SplitError>(())
    /// ```
    pub fn listed(labels: &[u32], indices: &[usize], classes: usize) -> Result<Self, SplitError> {
        let mut counts = vec![0; classes];
        let mut seen = vec![false; labels.len()];
        for (at, &index) in indices.iter().enumerate() {
            let wrong = |problem| SplitError::Listed {
                line: at + 1,
                index,
                problem,
            };
            let label = *labels.get(index).ok_or_else(|| wrong("does not exist"))?;
            if label == UNLABELED {
                return Err(wrong("has no label"));
            }
            if std::mem::replace(&mut seen[index], true) {
                return Err(wrong("is named twice"));
            }
            *counts.get_mut(label as usize).ok_or(SplitError::Label {
                index,
                label,
                classes,
            })? += 1;
        }
        if indices.is_empty() {
            return Err(SplitError::TooFewLabels {
                labels: 0,
                classes,
                mode: SplitMode::All,
            });
        }
        let mut labeled = indices.to_vec();
        labeled.sort_unstable();
        Ok(Self {
            labeled,
            unlabeled: (0..labels.len()).collect(),
            counts,
            validation: Vec::new(),
        })
    }

    /// Examples of each class among the unlabeled ones; `None` where some of their labels are not known to anybody.
    #[must_use]
    pub fn population(&self, labels: &[u32], classes: usize) -> Option<Vec<usize>> {
        let mut counts = vec![0; classes];
        for &index in &self.unlabeled {
            *counts.get_mut(*labels.get(index)? as usize)? += 1;
        }
        Some(counts)
    }

    /// Takes a share of the labeled examples of each class (rounded down, never the last one) out of training, for choosing
    /// between checkpoints or settings.
    ///
    /// # Errors
    /// [`SplitError::Share`] for a share outside [0, 1), or one so small that no example is held out.
    pub fn hold_out(mut self, labels: &[u32], share: f64, seed: u64) -> Result<Self, SplitError> {
        let wrong = |rule| SplitError::Share {
            what: "share of labels for validation",
            value: share.to_string(),
            rule,
        };
        if !(0.0..1.0).contains(&share) {
            return Err(wrong("at least 0 and below 1"));
        }
        if share == 0.0 {
            return Ok(self);
        }
        let root = Rng::new(seed).fork(VALIDATION);
        for (class, count) in self.counts.iter_mut().enumerate() {
            let members: Vec<usize> = self
                .labeled
                .iter()
                .copied()
                .filter(|&i| labels.get(i).is_some_and(|&l| l as usize == class))
                .collect();
            let held = ((share * members.len() as f64 + 1e-9) as usize)
                .min(members.len().saturating_sub(1));
            let chosen = root.fork(class as u64).choose(members.len(), held);
            self.validation
                .extend(chosen.into_iter().map(|at| members[at]));
            *count -= held;
        }
        if self.validation.is_empty() {
            return Err(wrong(
                "large enough to hold out one of the labels of some class, which keeps at least one",
            ));
        }
        self.validation.sort_unstable();
        let kept = |i: &usize| self.validation.binary_search(i).is_err();
        self.labeled.retain(kept);
        self.unlabeled.retain(kept);
        Ok(self)
    }
}

/// Stream of a split's seed that validation examples are drawn from.
const VALIDATION: u64 = 1 << 40;

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
        if self.mode == SplitMode::All && total > 0 {
            return Ok(sizes.to_vec());
        }
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
            SplitMode::All => sizes.to_vec(),
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
                None if label == UNLABELED => {}
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
            validation: Vec::new(),
        })
    }
}
