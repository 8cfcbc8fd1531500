//! CIFAR-10 and CIFAR-100 in their official binary records.
//!
//! ```text
//! CIFAR-10    label | 1024 red, 1024 green, 1024 blue          3,073 bytes
//! CIFAR-100   coarse label | fine label | the same             3,074 bytes
//! ```
//!
//! The three planes are interleaved on reading. CIFAR-100 is read with its hundred fine labels. A whole
//! number of records is required, and every label must be in range: a CIFAR-100 file taken for CIFAR-10
//! fails on both counts.

use std::path::{Path, PathBuf};

use super::cifar100_names::FINE;
use super::dataset::{Dataset, Normalisation, Part, Samples, Shape};
use super::error::DataError;
use super::files::{check_length, locate, read_at_most, unpack_at_most};

const PLANE: usize = 32 * 32;
const IMAGE: usize = 3 * PLANE;
const LIMIT: u64 = 1 << 32;
const SHAPE: Shape = Shape::Image {
    height: 32,
    width: 32,
    channels: 3,
};
const HINT_10: &str = "CIFAR-10 is cifar-10-binary.tar.gz from www.cs.toronto.edu/~kriz/cifar.html: \
    unpack it and name the folder with data_batch_1.bin … data_batch_5.bin and test_batch.bin.";
const HINT_100: &str = "CIFAR-100 is cifar-100-binary.tar.gz from www.cs.toronto.edu/~kriz/cifar.html: \
    unpack it and name the folder with train.bin and test.bin.";
const CLASSES_10: [&str; 10] = [
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
];
const SOURCE: &str = "A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009";
const LICENCE: &str = "no explicit licence; cite the technical report";

/// One of the two record formats.
struct Format {
    /// Label bytes before the image, the last of them the label wanted.
    before: usize,
    classes: usize,
    hint: &'static str,
}

const CIFAR_10: Format = Format {
    before: 1,
    classes: 10,
    hint: HINT_10,
};
const CIFAR_100: Format = Format {
    before: 2,
    classes: 100,
    hint: HINT_100,
};

impl Format {
    fn describe(&self) -> String {
        let before = self.before;
        format!("records of {before} label byte(s) and {IMAGE} planar RGB bytes")
    }

    fn read(&self, path: &Path, records: Option<usize>) -> Result<Part, DataError> {
        let bytes = read_at_most(path, LIMIT, &self.describe(), self.hint)?;
        self.part(&bytes, path, records)
    }

    fn unpack(&self, bytes: &[u8], origin: &Path) -> Result<Part, DataError> {
        let bytes = unpack_at_most(bytes, origin, LIMIT, &self.describe(), self.hint)?;
        self.part(&bytes, origin, None)
    }

    fn part(&self, bytes: &[u8], path: &Path, records: Option<usize>) -> Result<Part, DataError> {
        let &Self {
            before,
            classes,
            hint,
        } = self;
        let record = before + IMAGE;
        let format = self.describe();
        // Without a promised number, the nearest whole number of records at or above what is there.
        let count = records.unwrap_or(bytes.len().div_ceil(record).max(1));
        check_length(
            path,
            bytes.len(),
            (count * record) as u64,
            &format!("{count} {format}"),
            hint,
        )?;
        let mut pixels = vec![0; count * IMAGE];
        let mut labels = Vec::with_capacity(count);
        for (index, (record, image)) in bytes
            .chunks_exact(record)
            .zip(pixels.chunks_exact_mut(IMAGE))
            .enumerate()
        {
            let label = record[before - 1];
            if usize::from(label) >= classes {
                return Err(DataError::Label {
                    path: path.to_path_buf(),
                    index,
                    label: i64::from(label),
                    classes,
                });
            }
            labels.push(u32::from(label));
            let planes = &record[before..];
            for (i, pixel) in image.chunks_exact_mut(3).enumerate() {
                pixel.copy_from_slice(&[planes[i], planes[PLANE + i], planes[2 * PLANE + i]]);
            }
        }
        Part::new(SHAPE, Samples::Pixels(pixels), labels, path)
    }
}

/// The official archives hold their files one folder down; accept either level.
fn inner(folder: &Path, sub: &str) -> PathBuf {
    let nested = folder.join(sub);
    if nested.is_dir() {
        nested
    } else {
        folder.to_path_buf()
    }
}

/// One CIFAR-10 batch file of any number of records, plain or gzipped.
///
/// # Errors
/// When the file is missing, not a whole number of records, or has a label above 9.
pub fn read_cifar10(path: &Path) -> Result<Part, DataError> {
    CIFAR_10.read(path, None)
}

/// The same from a file's content; `origin` is what errors call it.
///
/// # Errors
/// As [`read_cifar10`], but for a missing file.
pub fn cifar10_from_bytes(bytes: &[u8], origin: &Path) -> Result<Part, DataError> {
    CIFAR_10.unpack(bytes, origin)
}

/// One CIFAR-100 file of any number of records, with fine labels, plain or gzipped.
///
/// # Errors
/// When the file is missing, not a whole number of records, or has a fine label above 99.
pub fn read_cifar100(path: &Path) -> Result<Part, DataError> {
    CIFAR_100.read(path, None)
}

/// The same from a file's content; `origin` is what errors call it.
///
/// # Errors
/// As [`read_cifar100`], but for a missing file.
pub fn cifar100_from_bytes(bytes: &[u8], origin: &Path) -> Result<Part, DataError> {
    CIFAR_100.unpack(bytes, origin)
}

/// Names of the ten classes of CIFAR-10.
#[must_use]
pub fn cifar10_classes() -> Vec<String> {
    CLASSES_10.map(str::to_owned).to_vec()
}

/// Names of the hundred fine classes of CIFAR-100.
#[must_use]
pub fn cifar100_classes() -> Vec<String> {
    FINE.map(str::to_owned).to_vec()
}

/// CIFAR-10 from the folder of its six batches of 10,000.
///
/// # Errors
/// When a batch is missing, has not exactly 10,000 records, or holds a label above 9.
pub fn cifar10(folder: &Path) -> Result<Dataset, DataError> {
    let folder = inner(folder, "cifar-10-batches-bin");
    let batch = |name: &str| {
        let path = locate(&folder, &[name], "10,000 records of 3,073 bytes", HINT_10)?;
        CIFAR_10.read(&path, Some(10_000))
    };
    let mut train = batch("data_batch_1.bin")?;
    for i in 2..=5 {
        train.append(batch(&format!("data_batch_{i}.bin"))?, &folder)?;
    }
    let set = Dataset::new(
        "cifar10",
        train,
        batch("test_batch.bin")?,
        cifar10_classes(),
        &folder,
    )?;
    Ok(set
        .with_normalisation(cifar10_normalisation())
        .with_source(SOURCE, LICENCE))
}

/// CIFAR-100 from the folder of `train.bin` (50,000 records) and `test.bin` (10,000).
///
/// # Errors
/// When a file is missing, has not exactly that many records, or holds a fine label above 99.
pub fn cifar100(folder: &Path) -> Result<Dataset, DataError> {
    let folder = inner(folder, "cifar-100-binary");
    let part = |names: &[&str], records: usize| {
        let path = locate(
            &folder,
            names,
            &format!("{records} records of 3,074 bytes"),
            HINT_100,
        )?;
        CIFAR_100.read(&path, Some(records))
    };
    let train = part(&["train.bin", "cifar-100-train.bin"], 50_000)?;
    let test = part(&["test.bin", "cifar-100-test.bin"], 10_000)?;
    let set = Dataset::new("cifar100", train, test, cifar100_classes(), &folder)?;
    Ok(set
        .with_normalisation(cifar100_normalisation())
        .with_source(SOURCE, LICENCE))
}

/// Channel statistics of CIFAR-10 as the paper's experiments use them.
#[must_use]
pub fn cifar10_normalisation() -> Normalisation {
    Normalisation::new(&[0.4914, 0.4822, 0.4465], &[0.2471, 0.2435, 0.2616])
}

/// Channel statistics of CIFAR-100 as the paper's experiments use them.
#[must_use]
pub fn cifar100_normalisation() -> Normalisation {
    Normalisation::new(&[0.5071, 0.4867, 0.4408], &[0.2675, 0.2565, 0.2761])
}
