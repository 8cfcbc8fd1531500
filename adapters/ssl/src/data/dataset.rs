//! Examples, labels and what is known about them.
//!
//! A set has n training and m test examples x ∈ X with labels y ∈ {0, …, k − 1}. X is one of two things:
//! images, u8 in height × width × channel order as files and screens have them, or rows of d real
//! features. Networks see (x/255 − μ_c)/σ_c per channel for images and (x − μ_j)/σ_j per feature for rows;
//! μ and σ travel with the set. Pixels stay bytes until the last moment: a quarter of the memory, and the
//! augmentations are defined on bytes.
//!
//! A training example may have no label ([`UNLABELED`]): it is learned from all the same. A set may have no test part. Sets
//! larger than memory stay on the disk ([`Samples::Files`], [`Samples::Mapped`]) and are read by the batch.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::apportion::apportion;
use super::error::DataError;
use super::stored::{ImageFiles, ImageMap};
use crate::fingerprint::Fingerprint;
use crate::rng::Rng;

/// In place of the label of an example that has none.
pub const UNLABELED: u32 = u32::MAX;

/// The shape of one example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Shape {
    /// An image, stored row by row with its channels side by side.
    Image {
        /// Rows of pixels.
        height: usize,
        /// Pixels in a row.
        width: usize,
        /// 1 for grey, 3 for red, green, blue.
        channels: usize,
    },
    /// A row of real features.
    Table {
        /// How many there are.
        features: usize,
    },
}

impl Shape {
    /// Numbers in one example.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::Image {
                height,
                width,
                channels,
            } => height * width * channels,
            Self::Table { features } => features,
        }
    }

    /// Numbers that share one mean and one deviation have the same index here: channels, or features.
    #[must_use]
    pub fn channels(self) -> usize {
        match self {
            Self::Image { channels, .. } => channels,
            Self::Table { features } => features,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image {
                height,
                width,
                channels,
            } => write!(f, "{height}×{width}×{channels}"),
            Self::Table { features } => write!(f, "{features} features"),
        }
    }
}

/// The examples themselves, one after another.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Samples {
    /// Bytes of images in n × height × width × channel order.
    Pixels(Vec<u8>),
    /// Features in n × d order.
    Features(Vec<f32>),
    /// Images on the disk, decoded when they are needed.
    Files(ImageFiles),
    /// Bytes of images in a file that is mapped into memory and not read before they are needed.
    Mapped(ImageMap),
}

impl Samples {
    /// Numbers, given how many an example has.
    fn len(&self, size: usize) -> usize {
        match self {
            Self::Pixels(p) => p.len(),
            Self::Features(f) => f.len(),
            Self::Files(files) => files.len() * size,
            Self::Mapped(map) => map.len() * size,
        }
    }
}

/// The training or the test part of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    shape: Shape,
    samples: Samples,
    labels: Vec<u32>,
    /// What the examples are called where they come from; their numbers if nothing.
    names: Option<Arc<[String]>>,
}

impl Part {
    /// Examples of one shape with their labels; `origin` is named in errors.
    ///
    /// # Errors
    /// When the kinds or counts do not fit, an example is empty, or a feature is not finite.
    pub fn new(
        shape: Shape,
        samples: Samples,
        labels: Vec<u32>,
        origin: &Path,
    ) -> Result<Self, DataError> {
        let size = shape.size();
        let fits = matches!(
            (&samples, shape),
            (
                Samples::Pixels(_) | Samples::Files(_) | Samples::Mapped(_),
                Shape::Image {
                    channels: 1 | 3,
                    ..
                }
            ) | (Samples::Features(_), Shape::Table { .. })
        );
        if size == 0 || !fits {
            return Err(DataError::corrupt(
                origin,
                "bytes of grey or RGB images, or rows of features",
                format!("{} numbers as {shape}", samples.len(size)),
                "",
            ));
        }
        if samples.len(size) != size * labels.len() {
            return Err(DataError::Count {
                path: origin.to_path_buf(),
                examples: samples.len(size) / size,
                labels: labels.len(),
            });
        }
        if let Samples::Features(x) = &samples
            && let Some((at, &value)) = x.iter().enumerate().find(|(_, v)| !v.is_finite())
        {
            return Err(DataError::NotFinite {
                path: origin.to_path_buf(),
                index: at / size,
                feature: at % size,
                value,
            });
        }
        Ok(Self {
            shape,
            samples,
            labels,
            names: None,
        })
    }

    /// No examples of a shape.
    #[must_use]
    pub fn none(shape: Shape) -> Self {
        let samples = match shape {
            Shape::Image { .. } => Samples::Pixels(Vec::new()),
            Shape::Table { .. } => Samples::Features(Vec::new()),
        };
        Self {
            shape,
            samples,
            labels: Vec::new(),
            names: None,
        }
    }

    /// Names for the examples, as in tables of labels; ignored unless there is one for each.
    #[must_use]
    pub fn with_names(mut self, names: Vec<String>) -> Self {
        if names.len() == self.len() {
            self.names = Some(names.into());
        }
        self
    }

    /// What example `index` is called: the file it came from, or its number.
    ///
    /// # Examples
    /// ```
    /// let digits = earthmover_ssl::data::digits::load()?;
    /// assert_eq!(digits.train.name(3), "3");
    /// # Ok::<(), earthmover_ssl::data::DataError>(())
    /// ```
    #[must_use]
    pub fn name(&self, index: usize) -> String {
        let named = self.names.as_ref().and_then(|n| n.get(index));
        named.cloned().unwrap_or_else(|| index.to_string())
    }

    /// Whether the examples have names of their own.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.names.is_some()
    }

    /// The same examples with other labels.
    ///
    /// # Errors
    /// [`DataError::Count`] unless there is one for each.
    pub fn relabeled(mut self, labels: Vec<u32>, origin: &Path) -> Result<Self, DataError> {
        if labels.len() != self.len() {
            return Err(DataError::Count {
                path: origin.to_path_buf(),
                examples: self.len(),
                labels: labels.len(),
            });
        }
        self.labels = labels;
        Ok(self)
    }

    /// The label of an example, if it has one.
    #[must_use]
    pub fn label(&self, index: usize) -> Option<u32> {
        let label = self.labels.get(index).copied();
        label.filter(|&l| l != UNLABELED)
    }

    /// Number of examples that have a label.
    #[must_use]
    pub fn known(&self) -> usize {
        self.labels.iter().filter(|&&l| l != UNLABELED).count()
    }

    /// Number of examples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The shape of every example.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// All examples.
    #[must_use]
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// One label per example; [`UNLABELED`] for those that have none.
    #[must_use]
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// The bytes of image `index` where they lie in memory; `None` past the end, for rows of features, and for
    /// images that are decoded when needed ([`Part::read_image`]).
    #[must_use]
    pub fn image(&self, index: usize) -> Option<&[u8]> {
        let size = self.shape.size();
        match &self.samples {
            Samples::Pixels(p) => {
                p.get(index.checked_mul(size)?..index.checked_add(1)?.checked_mul(size)?)
            }
            Samples::Mapped(map) => map.image(index, size),
            Samples::Features(_) | Samples::Files(_) => None,
        }
    }

    /// The bytes of image `index`, wherever they are.
    ///
    /// # Errors
    /// When its file cannot be read any more or has changed its shape; past the end and for rows of features.
    pub fn read_image(&self, index: usize) -> Result<std::borrow::Cow<'_, [u8]>, DataError> {
        if let Some(bytes) = self.image(index) {
            return Ok(bytes.into());
        }
        match &self.samples {
            Samples::Files(files) => files.read(index, self.shape).map(Into::into),
            _ => Err(DataError::Empty {
                path: std::path::PathBuf::new(),
                what: format!("there is no image {index}"),
            }),
        }
    }

    /// The features of row `index`; `None` past the end or for images.
    #[must_use]
    pub fn row(&self, index: usize) -> Option<&[f32]> {
        let size = self.shape.size();
        match &self.samples {
            Samples::Features(f) => {
                f.get(index.checked_mul(size)?..index.checked_add(1)?.checked_mul(size)?)
            }
            _ => None,
        }
    }

    /// How many examples each of `classes` classes has.
    #[must_use]
    pub fn class_counts(&self, classes: usize) -> Vec<usize> {
        let mut counts = vec![0; classes];
        for &label in &self.labels {
            if let Some(count) = counts.get_mut(label as usize) {
                *count += 1;
            }
        }
        counts
    }

    /// The examples at `indices`, in that order; those past the end are left out.
    #[must_use]
    pub fn select(&self, indices: &[usize]) -> Self {
        let kept = indices.iter().filter(|&&i| i < self.len());
        let samples = match &self.samples {
            Samples::Pixels(_) => Samples::Pixels(
                kept.clone()
                    .filter_map(|&i| self.image(i))
                    .flatten()
                    .copied()
                    .collect(),
            ),
            Samples::Features(_) => Samples::Features(
                kept.clone()
                    .filter_map(|&i| self.row(i))
                    .flatten()
                    .copied()
                    .collect(),
            ),
            Samples::Files(files) => Samples::Files(files.select(indices)),
            Samples::Mapped(map) => Samples::Mapped(map.select(indices)),
        };
        let names = self.names.as_ref().map(|names| {
            let chosen = kept.clone().filter_map(|&i| names.get(i).cloned());
            chosen.collect::<Vec<_>>().into()
        });
        let labels = kept.filter_map(|&i| self.labels.get(i).copied()).collect();
        Self {
            shape: self.shape,
            samples,
            labels,
            names,
        }
    }

    /// One part after the other.
    pub(super) fn append(&mut self, other: Self, origin: &Path) -> Result<(), DataError> {
        if self.names.is_some() || other.names.is_some() {
            let mine = (0..self.len()).map(|i| self.name(i));
            let theirs = (0..other.len()).map(|i| other.name(i));
            self.names = Some(mine.chain(theirs).collect::<Vec<_>>().into());
        }
        match (&mut self.samples, other.samples) {
            (Samples::Pixels(a), Samples::Pixels(b)) if self.shape == other.shape => {
                a.extend_from_slice(&b)
            }
            (Samples::Features(a), Samples::Features(b)) if self.shape == other.shape => {
                a.extend_from_slice(&b)
            }
            (Samples::Files(a), Samples::Files(b)) if self.shape == other.shape => a.append(b),
            _ => {
                return Err(DataError::Shape {
                    path: origin.to_path_buf(),
                    expected: self.shape,
                    found: other.shape,
                    hint: String::new(),
                });
            }
        }
        self.labels.extend_from_slice(&other.labels);
        Ok(())
    }

    /// Feeds examples (or what stands for them on the disk) and labels to a sum.
    fn feed(&self, sum: &mut Fingerprint) {
        sum.text(&self.shape.to_string());
        match &self.samples {
            Samples::Pixels(p) => sum.bytes(p),
            Samples::Features(f) => f.iter().for_each(|x| sum.bytes(&x.to_le_bytes())),
            Samples::Files(files) => files.feed(sum),
            Samples::Mapped(map) => map.feed(sum, self.shape.size()),
        }
        self.labels.iter().for_each(|l| sum.bytes(&l.to_le_bytes()));
    }
}

/// Images of a set on the disk that its normalisation is measured on.
const MEASURED: usize = 4096;

/// Mean and deviation per channel (of pixels scaled to [0, 1]) or per feature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Normalisation {
    /// μ.
    pub mean: Vec<f32>,
    /// σ, positive.
    pub std: Vec<f32>,
}

impl Normalisation {
    /// The given figures.
    #[must_use]
    pub fn new(mean: &[f32], std: &[f32]) -> Self {
        Self {
            mean: mean.to_vec(),
            std: std.to_vec(),
        }
    }

    /// Measured on a part. A channel that never varies gets σ = 1, so that it becomes zero rather than NaN.
    #[must_use]
    pub fn measure(part: &Part) -> Self {
        let channels = part.shape().channels().max(1);
        let (mut sum, mut squares) = (vec![0.0f64; channels], vec![0.0f64; channels]);
        let count = match part.samples() {
            Samples::Pixels(p) => {
                for pixel in p.chunks_exact(channels) {
                    for (c, &v) in pixel.iter().enumerate() {
                        let v = f64::from(v) / 255.0;
                        sum[c] += v;
                        squares[c] += v * v;
                    }
                }
                p.len() / channels
            }
            Samples::Features(x) => {
                // Two passes: features may sit far from zero, where the one-pass formula cancels.
                let n = (x.len() / channels).max(1) as f64;
                for row in x.chunks_exact(channels) {
                    for (c, &v) in row.iter().enumerate() {
                        sum[c] += f64::from(v);
                    }
                }
                for row in x.chunks_exact(channels) {
                    for (c, &v) in row.iter().enumerate() {
                        squares[c] += (f64::from(v) - sum[c] / n).powi(2);
                    }
                }
                for c in 0..channels {
                    squares[c] += sum[c] * sum[c] / n;
                }
                x.len() / channels
            }
            Samples::Files(_) | Samples::Mapped(_) => {
                return Self::of_sample(part, channels);
            }
        };
        Self::from_sums(&sum, &squares, count)
    }

    /// Measured on images spread evenly over a part that is too large to read.
    fn of_sample(part: &Part, channels: usize) -> Self {
        let (mut sum, mut squares) = (vec![0u64; channels], vec![0u64; channels]);
        let mut count = 0;
        let stride = part.len().div_ceil(MEASURED).max(1);
        for index in (0..part.len()).step_by(stride) {
            // One that cannot be read is found, and told of, by the first batch that holds it.
            let Ok(image) = part.read_image(index) else {
                continue;
            };
            for pixel in image.chunks_exact(channels) {
                for (c, &v) in pixel.iter().enumerate() {
                    sum[c] += u64::from(v);
                    squares[c] += u64::from(v) * u64::from(v);
                }
            }
            count += image.len() / channels;
        }
        let scaled = |sums: &[u64], by: f64| sums.iter().map(|&s| s as f64 / by).collect();
        let (sum, squares): (Vec<f64>, Vec<f64>) =
            (scaled(&sum, 255.0), scaled(&squares, 255.0 * 255.0));
        Self::from_sums(&sum, &squares, count)
    }

    fn from_sums(sum: &[f64], squares: &[f64], count: usize) -> Self {
        let n = count.max(1) as f64;
        let mean: Vec<f64> = sum.iter().map(|s| s / n).collect();
        let std = mean.iter().zip(squares).map(|(m, s)| {
            let deviation = (s / n - m * m).max(0.0).sqrt() as f32;
            if deviation > 1e-6 { deviation } else { 1.0 }
        });
        Self {
            std: std.collect(),
            mean: mean.iter().map(|&m| m as f32).collect(),
        }
    }
}

/// A whole set: two parts, the names of the classes, and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// Short name, as in reports.
    pub name: String,
    /// What is learned from.
    pub train: Part,
    /// What is never learned from.
    pub test: Part,
    /// Name of each class.
    pub classes: Vec<String>,
    /// Mean and deviation of the training part.
    pub normalisation: Normalisation,
    /// Who made it.
    pub source: String,
    /// Under which terms.
    pub licence: String,
    /// What a reader should know about how it was read.
    pub notes: Vec<String>,
}

impl Dataset {
    /// Checks that two parts make one set and measures its normalisation. The test part may be empty; training examples may
    /// be [`UNLABELED`], but not all of them.
    ///
    /// # Errors
    /// When the parts differ in shape, there is nothing to train on, or a label is outside the classes.
    pub fn new(
        name: &str,
        train: Part,
        test: Part,
        classes: Vec<String>,
        origin: &Path,
    ) -> Result<Self, DataError> {
        if train.shape() != test.shape() {
            return Err(DataError::Shape {
                path: origin.to_path_buf(),
                expected: train.shape(),
                found: test.shape(),
                hint: "Training and test examples must have the same shape.".to_owned(),
            });
        }
        let empty = |what: &str| {
            Err(DataError::Empty {
                path: origin.to_path_buf(),
                what: what.to_owned(),
            })
        };
        if train.is_empty() {
            return empty("there are no training examples");
        }
        if train.known() == 0 {
            return empty("no training example has a label");
        }
        if let Some(index) = test.labels().iter().position(|&y| y == UNLABELED) {
            return empty(&format!("test example {} has no label", test.name(index)));
        }
        for part in [&train, &test] {
            if let Some((index, &label)) = part
                .labels()
                .iter()
                .enumerate()
                .find(|&(_, &y)| y != UNLABELED && y as usize >= classes.len())
            {
                return Err(DataError::Label {
                    path: origin.to_path_buf(),
                    index,
                    label: i64::from(label),
                    classes: classes.len(),
                });
            }
        }
        let normalisation = Normalisation::measure(&train);
        Ok(Self {
            name: name.to_owned(),
            train,
            test,
            classes,
            normalisation,
            source: String::new(),
            licence: String::new(),
            notes: Vec::new(),
        })
    }

    /// Makes a set of a single part: `test` examples are held out, in the proportions of the classes
    /// (largest remainders), picked by a fixed seed. The same part always gives the same two.
    ///
    /// # Errors
    /// As [`Dataset::new`].
    pub fn hold_out(
        name: &str,
        all: &Part,
        test: usize,
        classes: Vec<String>,
        origin: &Path,
    ) -> Result<Self, DataError> {
        let counts = all.class_counts(classes.len());
        let shares: Vec<f64> = counts
            .iter()
            .map(|&c| c as f64 / all.len().max(1) as f64)
            .collect();
        let quota = apportion(test.min(all.len()), &shares, 0);
        let mut held = vec![false; all.len()];
        let root = Rng::new(0);
        for (class, &quota) in quota.iter().enumerate() {
            let members: Vec<usize> = (0..all.len())
                .filter(|&i| all.labels()[i] as usize == class)
                .collect();
            for at in root.fork(class as u64).choose(members.len(), quota) {
                held[members[at]] = true;
            }
        }
        let part = |test: bool| {
            let indices: Vec<usize> = (0..all.len()).filter(|&i| held[i] == test).collect();
            all.select(&indices)
        };
        Self::new(name, part(false), part(true), classes, origin)
    }

    /// The shape of every example.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.train.shape()
    }

    /// Whether the labels of some training examples are not known to anybody.
    #[must_use]
    pub fn is_partly_unlabeled(&self) -> bool {
        self.train.known() < self.train.len()
    }

    /// A sum over examples, labels and class names: another set, or the same after a change, has another one. Of images that
    /// stay on the disk, names and lengths of the files stand for them.
    ///
    /// # Examples
    /// ```
    /// use earthmover_ssl::data::digits;
    /// let mut digits = digits::load()?;
    /// let before = digits.fingerprint();
    /// digits.classes[3] = "drei".to_owned();
    /// assert_ne!(digits.fingerprint(), before);
    /// # Ok::<(), earthmover_ssl::data::DataError>(())
    /// ```
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut sum = Fingerprint::default();
        self.classes.iter().for_each(|c| sum.text(c));
        self.train.feed(&mut sum);
        self.test.feed(&mut sum);
        sum.finish()
    }

    /// States the origin and the terms.
    #[must_use]
    pub fn with_source(mut self, source: &str, licence: &str) -> Self {
        source.clone_into(&mut self.source);
        licence.clone_into(&mut self.licence);
        self
    }

    /// Replaces the measured normalisation by customary figures.
    #[must_use]
    pub fn with_normalisation(mut self, normalisation: Normalisation) -> Self {
        self.normalisation = normalisation;
        self
    }
}
