//! A set from NumPy arrays: features of anything, or images of one's own.
//!
//! The folder holds `x_train.npy`, `y_train.npy`, `x_test.npy` and `y_test.npy`, or only `x.npy` and
//! `y.npy`, of which a fifth is then held out for testing. `x` is n × d numbers (a table) or bytes of
//! images: n × h × w, n × h × w × c or n × c × h × w with c ∈ {1, 3}, channels last when both readings
//! fit. `y` is n integers from 0, with −1 for examples that have no label; `x_unlabeled.npy` holds more of those. Where
//! there are any, and for `x_train.npy` without `x_test.npy`, there is no test part. Images of more than half of the free memory,
//! channels last, stay in their file.

use std::path::Path;

use super::dataset::{Dataset, Part, Samples, Shape, UNLABELED};
use super::error::DataError;
use super::files::locate;
use super::folder::available_memory;
use super::npy::{self, MappedArray, NpyArray, NpyValues};
use super::stored::ImageMap;

const HINT: &str = "Write x_train.npy, y_train.npy, x_test.npy and y_test.npy (or x.npy and y.npy) with numpy.save.";

/// More classes than this only where their labels really occur.
const FEW_CLASSES: usize = 1000;

fn samples(array: NpyArray, path: &Path) -> Result<(Shape, Samples), DataError> {
    match (&array.shape[..], array.values) {
        (&[_, features], NpyValues::F32(v)) => {
            Ok((Shape::Table { features }, Samples::Features(v)))
        }
        (&[_, features], NpyValues::F64(v)) => Ok((
            Shape::Table { features },
            Samples::Features(v.iter().map(|&x| x as f32).collect()),
        )),
        (&[_, features], NpyValues::U8(v)) => Ok((
            Shape::Table { features },
            Samples::Features(v.iter().map(|&x| f32::from(x)).collect()),
        )),
        (&[_, features], NpyValues::I64(v)) => Ok((
            Shape::Table { features },
            Samples::Features(v.iter().map(|&x| x as f32).collect()),
        )),
        (&[_, height, width], NpyValues::U8(v)) => Ok((
            Shape::Image {
                height,
                width,
                channels: 1,
            },
            Samples::Pixels(v),
        )),
        (&[_, height, width, channels @ (1 | 3)], NpyValues::U8(v)) => Ok((
            Shape::Image {
                height,
                width,
                channels,
            },
            Samples::Pixels(v),
        )),
        (&[_, channels @ (1 | 3), height, width], NpyValues::U8(v)) => {
            let plane = height * width;
            let mut pixels = Vec::with_capacity(v.len());
            for image in v.chunks_exact((plane * channels).max(1)) {
                pixels.extend(
                    (0..plane * channels).map(|i| image[i % channels * plane + i / channels]),
                );
            }
            Ok((
                Shape::Image {
                    height,
                    width,
                    channels,
                },
                Samples::Pixels(pixels),
            ))
        }
        (shape, values) => {
            let kind = match values {
                NpyValues::F32(_) => "f4",
                NpyValues::F64(_) => "f8",
                NpyValues::U8(_) => "u1",
                NpyValues::I64(_) => "integers",
            };
            Err(DataError::corrupt(
                path,
                "n×d numbers, or u1 images of n×h×w, n×h×w×c or n×c×h×w with 1 or 3 channels",
                format!("{kind} of shape {shape:?}"),
                "Scale images of floats to 0..=255 and store them as uint8.",
            ))
        }
    }
}

fn labels(array: NpyArray, path: &Path) -> Result<Vec<u32>, DataError> {
    let corrupt = |found: String| {
        DataError::corrupt(
            path,
            "n integer labels",
            found,
            "Store labels as int64 or uint8.",
        )
    };
    let flat = array.shape.iter().filter(|&&s| s != 1).count() <= 1;
    match array.values {
        _ if !flat => Err(corrupt(format!("shape {:?}", array.shape))),
        NpyValues::U8(v) => Ok(v.into_iter().map(u32::from).collect()),
        NpyValues::I64(v) => v
            .iter()
            .enumerate()
            .map(|(index, &label)| {
                // A million classes is no classification: taken for a column that is not labels.
                let known = u32::try_from(label).ok().filter(|&l| l < 1 << 20);
                known
                    .or((label == -1).then_some(UNLABELED))
                    .ok_or(DataError::Label {
                        path: path.to_path_buf(),
                        index,
                        label,
                        classes: 1 << 20,
                    })
            })
            .collect::<Result<_, _>>()
            .and_then(|labels| without_gaps(labels, path)),
        NpyValues::F32(_) | NpyValues::F64(_) => Err(corrupt("floating-point numbers".to_owned())),
    }
}

/// Refuses labels far beyond the number of different ones: columns that are not labels.
fn without_gaps(labels: Vec<u32>, path: &Path) -> Result<Vec<u32>, DataError> {
    let mut known: Vec<u32> = labels.iter().copied().filter(|&l| l != UNLABELED).collect();
    known.sort_unstable();
    known.dedup();
    match known.last() {
        Some(&last) if last as usize >= FEW_CLASSES.max(4 * known.len()) => {
            Err(DataError::corrupt(
                path,
                "labels from 0 to the number of classes − 1",
                format!(
                    "label {last}, though only {} different ones occur",
                    known.len()
                ),
                "Number the classes 0, 1, 2, … (numpy.unique(y, return_inverse=True)[1]).",
            ))
        }
        _ => Ok(labels),
    }
}

/// Examples from one array and labels from another.
///
/// # Errors
/// When a file is missing, truncated, of another format or shape, or the two differ in number.
pub fn read(x: &Path, y: &Path) -> Result<Part, DataError> {
    let labels = labels(npy::read(y)?, y)?;
    let (shape, samples) = examples(x)?;
    Part::new(shape, samples, labels, x)
}

/// Examples without labels.
///
/// # Errors
/// As [`read`].
pub fn read_unlabeled(x: &Path) -> Result<Part, DataError> {
    let (shape, samples) = examples(x)?;
    let count = match &samples {
        Samples::Pixels(p) => p.len() / shape.size().max(1),
        Samples::Features(f) => f.len() / shape.size().max(1),
        Samples::Mapped(map) => map.len(),
        Samples::Files(files) => files.len(),
    };
    Part::new(shape, samples, vec![UNLABELED; count], x)
}

/// The examples of an array, in memory if it is small enough.
fn examples(x: &Path) -> Result<(Shape, Samples), DataError> {
    let bytes = std::fs::metadata(x).map_or(0, |m| m.len());
    let large = available_memory().is_some_and(|free| bytes > free / 2);
    match large.then(|| mapped(x)) {
        Some(Ok(Some(found))) => Ok(found),
        _ => samples(npy::read(x)?, x),
    }
}

/// Bytes of images, channels last, where they lie in the file; `None` for anything else.
fn mapped(x: &Path) -> Result<Option<(Shape, Samples)>, DataError> {
    let array = MappedArray::open(x)?;
    let (images, height, width, channels) = match *array.shape() {
        [n, h, w] => (n, h, w, 1),
        [n, h, w, c @ (1 | 3)] => (n, h, w, c),
        _ => return Ok(None),
    };
    let shape = Shape::Image {
        height,
        width,
        channels,
    };
    let map = array.bytes();
    Ok(map.map(|(map, start)| (shape, Samples::Mapped(ImageMap::new(map, start, images)))))
}

/// The same from the content of the two files; `origins` is what errors call them.
///
/// # Errors
/// As [`read`], but for a missing file.
pub fn from_bytes(x: &[u8], y: &[u8], origins: [&Path; 2]) -> Result<Part, DataError> {
    let (at_x, at_y) = (origins[0], origins[1]);
    part(
        npy::from_bytes(x, at_x)?,
        npy::from_bytes(y, at_y)?,
        origins,
    )
}

fn part(x: NpyArray, y: NpyArray, [at_x, at_y]: [&Path; 2]) -> Result<Part, DataError> {
    let (shape, samples) = samples(x, at_x)?;
    Part::new(shape, samples, labels(y, at_y)?, at_y)
}

/// A set from a folder of arrays.
///
/// # Errors
/// When a file is missing, truncated, or does not fit the others.
pub fn load(folder: &Path) -> Result<Dataset, DataError> {
    let find = |name: &str, what: &str| locate(folder, &[name], what, HINT);
    let pair = |x: &str, y: &str| read(&find(x, "the examples")?, &find(y, "their labels")?);
    let classes = |parts: &[&Part]| {
        let labels = parts.iter().flat_map(|p| p.labels());
        let known = labels.filter(|&&l| l != UNLABELED);
        (0..known.max().map_or(0, |&m| m + 1))
            .map(|c| c.to_string())
            .collect::<Vec<_>>()
    };
    let with_more = |mut part: Part| match find("x_unlabeled.npy", "more examples") {
        Ok(path) => {
            part.append(read_unlabeled(&path)?, &path)?;
            Ok::<_, DataError>(part)
        }
        Err(_) => Ok(part),
    };
    let single = find("x_train.npy", "the training examples").is_err()
        && find("x.npy", "the examples").is_ok();
    let train = match single {
        true => with_more(pair("x.npy", "y.npy")?)?,
        false => with_more(pair("x_train.npy", "y_train.npy")?)?,
    };
    let set = if !single && find("x_test.npy", "the test examples").is_ok() {
        let test = pair("x_test.npy", "y_test.npy")?;
        let classes = classes(&[&train, &test]);
        Dataset::new("arrays", train, test, classes, folder)?
    } else if single && train.known() == train.len() {
        let (held, classes) = (train.len().div_ceil(5), classes(&[&train]));
        Dataset::hold_out("arrays", &train, held, classes, folder)?
    } else {
        let (none, classes) = (Part::none(train.shape()), classes(&[&train]));
        Dataset::new("arrays", train, none, classes, folder)?
    };
    Ok(set.with_source("NumPy arrays of the user", "the user's own"))
}
