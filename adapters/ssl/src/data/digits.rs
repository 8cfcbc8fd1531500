//! Handwritten digits in 8 × 8 grey pixels, embedded in the crate: something real to train on at once.
//!
//! 1,797 images by 13 writers: the test part of *Optical Recognition of Handwritten Digits*, E. Alpaydin
//! and C. Kaynak, UCI Machine Learning Repository, <https://doi.org/10.24432/C50P49>, under
//! [CC BY 4.0](https://creativecommons.org/licenses/by/4.0/). Pixels count ink from 0 to 16 and are spread
//! here over 0..=255 as round(255 v / 16), so that the augmentations, defined on bytes, mean the same as
//! elsewhere. The set has no parts of its own: 360 examples are held out for testing, in the proportions
//! of the classes and by a fixed seed, and 1,437 remain to train on.

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;

use super::dataset::{Dataset, Part, Samples, Shape};
use super::error::DataError;
use super::files::check_length;

const BYTES: &[u8] = include_bytes!("../../data/optdigits-8x8.bin.gz");
const COUNT: usize = 1797;
const PIXELS: usize = 64;
/// Examples held out for testing.
const TEST: usize = 360;

/// All 1,797 digits in the order of the original file.
///
/// # Errors
/// Never in a sound build; the embedded bytes are checked like any other file.
pub fn all() -> Result<Part, DataError> {
    let origin = Path::new("embedded digits");
    let mut records = Vec::with_capacity(COUNT * (PIXELS + 1));
    GzDecoder::new(BYTES)
        .read_to_end(&mut records)
        .map_err(|e| DataError::io(origin, e))?;
    let expected = (COUNT * (PIXELS + 1)) as u64;
    check_length(
        origin,
        records.len(),
        expected,
        "1797 records of 64 pixels and a label",
        "",
    )?;
    let mut pixels = Vec::with_capacity(COUNT * PIXELS);
    let mut labels = Vec::with_capacity(COUNT);
    for record in records.chunks_exact(PIXELS + 1) {
        pixels.extend(
            record[..PIXELS]
                .iter()
                .map(|&v| ((u16::from(v.min(16)) * 255 + 8) / 16) as u8),
        );
        labels.push(u32::from(record[PIXELS]));
    }
    Part::new(
        Shape::Image {
            height: 8,
            width: 8,
            channels: 1,
        },
        Samples::Pixels(pixels),
        labels,
        origin,
    )
}

/// The digits with their fixed 1,437 / 360 split.
///
/// # Errors
/// Never in a sound build; see [`all`].
///
/// # Examples
/// ```
/// let digits = earthmover_ssl::data::digits::load()?;
/// assert_eq!((digits.train.len(), digits.test.len()), (1437, 360));
/// # Ok::<(), earthmover_ssl::data::DataError>(())
/// ```
pub fn load() -> Result<Dataset, DataError> {
    let classes = (0..10).map(|d| d.to_string()).collect();
    let set = Dataset::hold_out(
        "digits",
        &all()?,
        TEST,
        classes,
        Path::new("embedded digits"),
    )?;
    Ok(set.with_source(
        "Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, UCI, doi:10.24432/C50P49",
        "CC BY 4.0",
    ))
}
