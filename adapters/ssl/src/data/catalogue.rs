//! The sets by name, for command lines and stored settings.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::dataset::{Dataset, Part};
use super::error::DataError;
use super::folder::{Keep, Size};
use super::{arrays, cifar, csv, digits, folder, idx, svhn};

/// Every kind of set that can be loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The embedded 8 × 8 digits.
    #[default]
    Digits,
    /// Handwritten digits, 28 × 28 grey.
    Mnist,
    /// Clothes, 28 × 28 grey.
    FashionMnist,
    /// Ten classes of small colour photographs.
    Cifar10,
    /// A hundred classes of the same.
    Cifar100,
    /// House numbers.
    Svhn,
    /// A folder of class-named image folders.
    Folder,
    /// A folder of NumPy arrays.
    Arrays,
    /// A table with commas, or a folder of them.
    Csv,
}

/// How sets of one's own are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// The size that images of a folder are given.
    pub size: Size,
    /// Where they are kept.
    pub keep: Keep,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Digits,
        Self::Mnist,
        Self::FashionMnist,
        Self::Cifar10,
        Self::Cifar100,
        Self::Svhn,
        Self::Folder,
        Self::Arrays,
        Self::Csv,
    ];

    /// The name in settings and on command lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Digits => "digits",
            Self::Mnist => "mnist",
            Self::FashionMnist => "fashion-mnist",
            Self::Cifar10 => "cifar10",
            Self::Cifar100 => "cifar100",
            Self::Svhn => "svhn",
            Self::Folder => "folder",
            Self::Arrays => "arrays",
            Self::Csv => "csv",
        }
    }

    /// Loads the set from `path`, which digits ignore. For CIFAR and SVHN `path` may also be a single
    /// file of examples, of which a fifth is then held out for testing.
    ///
    /// # Errors
    /// When a file is missing, truncated or of another format; the message says how to get a good one.
    pub fn load(self, path: &Path) -> Result<Dataset, DataError> {
        self.load_with(path, LoadOptions::default())
    }

    /// [`Kind::load`] for folders of images whose size is to be changed, or that are to stay on the disk.
    ///
    /// # Errors
    /// As [`Kind::load`].
    pub fn load_with(self, path: &Path, options: LoadOptions) -> Result<Dataset, DataError> {
        let single = |part: Part, classes, normalisation| {
            let held = part.len().div_ceil(5);
            Ok(Dataset::hold_out(self.name(), &part, held, classes, path)?
                .with_normalisation(normalisation))
        };
        match self {
            Self::Digits => digits::load(),
            Self::Mnist => idx::mnist(path),
            Self::FashionMnist => idx::fashion_mnist(path),
            Self::Cifar10 if path.is_file() => single(
                cifar::read_cifar10(path)?,
                cifar::cifar10_classes(),
                cifar::cifar10_normalisation(),
            ),
            Self::Cifar10 => cifar::cifar10(path),
            Self::Cifar100 if path.is_file() => single(
                cifar::read_cifar100(path)?,
                cifar::cifar100_classes(),
                cifar::cifar100_normalisation(),
            ),
            Self::Cifar100 => cifar::cifar100(path),
            Self::Svhn if path.is_file() => {
                single(svhn::read(path)?, svhn::classes(), svhn::normalisation())
            }
            Self::Svhn => svhn::load(path),
            Self::Folder => folder::load_kept(path, options.size, options.keep),
            Self::Arrays => arrays::load(path),
            Self::Csv => csv::load(path),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        let wanted = text.to_lowercase().replace('_', "-");
        Self::ALL
            .into_iter()
            .find(|k| k.name() == wanted)
            .ok_or_else(|| DataError::Unknown {
                name: text.to_owned(),
                known: Self::ALL.map(Self::name).join(", "),
            })
    }
}
