//! What can be wrong with data on a disk, said so that the reader can mend it.

use std::io;
use std::path::{Path, PathBuf};

use super::dataset::Shape;

/// A data set could not be read, or does not hold together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The file or folder is not there.
    #[error("{} is missing: expected {expected}. {hint}", path.display())]
    Missing {
        /// What was looked for.
        path: PathBuf,
        /// What it should hold.
        expected: String,
        /// How to get it.
        hint: String,
    },
    /// The operating system refused.
    #[error("{} cannot be read: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's own words.
        source: io::Error,
    },
    /// The file ends too early or goes on too long.
    #[error("{} has the wrong length: expected {expected} bytes ({what}), found {found}. {hint}", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// Bytes that should be there, after decompression.
        expected: u64,
        /// Bytes that are there.
        found: u64,
        /// How the expected number comes about, in records.
        what: String,
        /// How to get a whole copy.
        hint: String,
    },
    /// The bytes do not follow the format.
    #[error("{} is corrupt or of another format: expected {expected}, found {found}. {hint}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What the format prescribes.
        expected: String,
        /// What the file has.
        found: String,
        /// How to get a good copy.
        hint: String,
    },
    /// Examples and labels differ in number.
    #[error("{}: {examples} examples but {labels} labels", path.display())]
    Count {
        /// The file or folder of the labels.
        path: PathBuf,
        /// Number of examples.
        examples: usize,
        /// Number of labels.
        labels: usize,
    },
    /// A label is outside the classes.
    #[error("{}: label {label} of example {index} is outside 0..{classes}", path.display())]
    Label {
        /// Where the labels came from.
        path: PathBuf,
        /// Which example.
        index: usize,
        /// Its label.
        label: i64,
        /// Number of classes.
        classes: usize,
    },
    /// The two parts, or two images, differ in shape.
    #[error("{} has shape {found}, expected {expected} as in the rest. {hint}", path.display())]
    Shape {
        /// The odd one.
        path: PathBuf,
        /// The shape of the others.
        expected: Shape,
        /// Its own shape.
        found: Shape,
        /// What to do.
        hint: String,
    },
    /// A feature is NaN or infinite.
    #[error("{}: feature {feature} of example {index} is {value}", path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// Which example.
        index: usize,
        /// Which feature.
        feature: usize,
        /// The value.
        value: f32,
    },
    /// There is nothing to learn from.
    #[error("{}: {what}", path.display())]
    Empty {
        /// The file or folder.
        path: PathBuf,
        /// What there is none of.
        what: String,
    },
    /// A name of a data set that is none.
    #[error("unknown data set `{name}`: choose one of {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
}

/// Longest piece of a file or of its description that a message repeats.
const QUOTED: usize = 200;

/// The beginning of a text, for messages: a damaged file may hold anything, at any length.
pub(crate) fn clip(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text.to_owned(),
    }
}

impl DataError {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io {
            path: path.to_path_buf(),
            source,
        }
    }

    pub(crate) fn corrupt(
        path: &Path,
        expected: impl Into<String>,
        found: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self::Corrupt {
            path: path.to_path_buf(),
            expected: expected.into(),
            found: clip(&found.into()),
            hint: hint.into(),
        }
    }
}
