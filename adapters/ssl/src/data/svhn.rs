//! Street View House Numbers, the cropped 32 × 32 format.
//!
//! A file has `X` of 32 × 32 × 3 × N bytes and `y` of N labels. MATLAB's first index runs fastest, so pixel
//! (row h, column w, channel c) of image n is at h + 32 (w + 32 (c + 3 n)); it moves to
//! c + 3 (w + 32 (h + 32 n)) here. The digit 0 is stored as label 10 and becomes 0.

use std::path::Path;

use super::dataset::{Dataset, Normalisation, Part, Samples, Shape};
use super::error::DataError;
use super::files::locate;
use super::mat::{self, MatArray, MatValues};

const SIDE: usize = 32;
const HINT: &str = "SVHN is train_32x32.mat and test_32x32.mat (format 2, cropped digits) from \
    ufldl.stanford.edu/housenumbers; for non-commercial use.";

fn named<'a>(arrays: &'a [MatArray], name: &str, path: &Path) -> Result<&'a MatArray, DataError> {
    arrays.iter().find(|a| a.name == name).ok_or_else(|| {
        let found: Vec<&str> = arrays.iter().map(|a| a.name.as_str()).collect();
        DataError::corrupt(
            path,
            format!("an array named {name}"),
            format!("arrays {found:?}"),
            HINT,
        )
    })
}

/// One `.mat` file of cropped digits.
///
/// # Errors
/// When the file is missing, truncated, of another format, or a label is not in 1..=10.
pub fn read(path: &Path) -> Result<Part, DataError> {
    part(&mat::read(path, HINT)?, path)
}

/// The same from a file's content; `origin` is what errors call it.
///
/// # Errors
/// As [`read`], but for a missing file.
pub fn from_bytes(bytes: &[u8], origin: &Path) -> Result<Part, DataError> {
    part(&mat::from_bytes(bytes, origin, HINT)?, origin)
}

fn part(arrays: &[MatArray], path: &Path) -> Result<Part, DataError> {
    let x = named(arrays, "X", path)?;
    let (MatValues::Bytes(bytes), [SIDE, SIDE, 3, count]) = (&x.values, &x.dims[..]) else {
        let found = format!("X of dimensions {:?}", x.dims);
        return Err(DataError::corrupt(
            path,
            "X of 32×32×3×N unsigned bytes",
            found,
            HINT,
        ));
    };
    let y = match &named(arrays, "y", path)?.values {
        MatValues::Bytes(b) => b.iter().map(|&v| f64::from(v)).collect(),
        MatValues::Numbers(n) => n.clone(),
    };
    if y.len() != *count {
        return Err(DataError::Count {
            path: path.to_path_buf(),
            examples: *count,
            labels: y.len(),
        });
    }
    let mut labels = Vec::with_capacity(y.len());
    for (index, &v) in y.iter().enumerate() {
        // Some redistributions already store the digit 0 as 0.
        if v.fract() != 0.0 || !(0.0..=10.0).contains(&v) {
            return Err(DataError::Label {
                path: path.to_path_buf(),
                index,
                label: v as i64,
                classes: 10,
            });
        }
        labels.push(v as u32 % 10);
    }
    let mut pixels = vec![0; bytes.len()];
    let size = SIDE * SIDE * 3;
    for (from, to) in bytes.chunks_exact(size).zip(pixels.chunks_exact_mut(size)) {
        for (i, pixel) in to.chunks_exact_mut(3).enumerate() {
            let at = i / SIDE + SIDE * (i % SIDE);
            pixel.copy_from_slice(&[from[at], from[at + SIDE * SIDE], from[at + 2 * SIDE * SIDE]]);
        }
    }
    Part::new(
        Shape::Image {
            height: SIDE,
            width: SIDE,
            channels: 3,
        },
        Samples::Pixels(pixels),
        labels,
        path,
    )
}

/// SVHN from the folder of `train_32x32.mat` and `test_32x32.mat`.
///
/// # Errors
/// When a file is missing, truncated or of another format.
pub fn load(folder: &Path) -> Result<Dataset, DataError> {
    let part = |name: &str| {
        read(&locate(
            folder,
            &[name],
            "a MATLAB file of cropped digits",
            HINT,
        )?)
    };
    let set = Dataset::new(
        "svhn",
        part("train_32x32.mat")?,
        part("test_32x32.mat")?,
        classes(),
        folder,
    )?;
    Ok(set.with_normalisation(normalisation()).with_source(
        "The Street View House Numbers, Y. Netzer, T. Wang, A. Coates, A. Bissacco, B. Wu and A. Ng, 2011",
        "non-commercial use only",
    ))
}

/// The ten digits.
#[must_use]
pub fn classes() -> Vec<String> {
    (0..10).map(|d| d.to_string()).collect()
}

/// Channel statistics as the paper's experiments use them.
#[must_use]
pub fn normalisation() -> Normalisation {
    Normalisation::new(&[0.4377, 0.4438, 0.4728], &[0.1980, 0.2010, 0.1970])
}
