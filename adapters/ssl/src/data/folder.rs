//! A folder of class-named folders of images.
//!
//! ```text
//! root/train/cat/1.png   root/train/dog/…   root/test/cat/…        or
//! root/cat/1.png         root/dog/…                                (a fifth is held out for testing)
//! ```
//!
//! Classes are the folder names in alphabetical order, examples the files in alphabetical order, so the
//! same folder is the same set everywhere. PNG and JPEG are decoded on all cores; the set is grey when
//! every image is. Without a size all images must have the same; with one they are scaled to it.

use std::fs;
use std::path::{Path, PathBuf};

use image::imageops::FilterType;
use image::{ColorType, DynamicImage};
use rayon::prelude::*;

use super::dataset::{Dataset, Part, Samples, Shape};
use super::error::DataError;

const HINT: &str = "Arrange images as root/train/<class>/*.png and root/test/<class>/*.png, or root/<class>/*.png.";

/// What size the images of a folder must have or are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Size {
    /// The same for all, as stored.
    #[default]
    AsStored,
    /// Scaled to this many pixels, aspect ratio not kept.
    Scaled {
        /// Rows of pixels.
        height: u32,
        /// Pixels in a row.
        width: u32,
    },
}

fn entries(folder: &Path, keep: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>, DataError> {
    if !folder.is_dir() {
        return Err(DataError::Missing {
            path: folder.to_path_buf(),
            expected: "a folder".to_owned(),
            hint: HINT.to_owned(),
        });
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| DataError::io(folder, e))? {
        let path = entry.map_err(|e| DataError::io(folder, e))?.path();
        let hidden = path
            .file_name()
            .is_none_or(|n| n.to_string_lossy().starts_with('.'));
        if !hidden && keep(&path) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn is_image(path: &Path) -> bool {
    let extension = path.extension().map(|e| e.to_string_lossy().to_lowercase());
    path.is_file() && matches!(extension.as_deref(), Some("png" | "jpg" | "jpeg"))
}

fn class_names(root: &Path) -> Result<Vec<String>, DataError> {
    let folders = entries(root, Path::is_dir)?;
    Ok(folders
        .iter()
        .filter_map(|p| p.file_name())
        .map(|n| n.to_string_lossy().into_owned())
        .collect())
}

fn decode(path: &Path, size: Size) -> Result<DynamicImage, DataError> {
    let bytes = fs::read(path).map_err(|e| DataError::io(path, e))?;
    let image = image::load_from_memory(&bytes).map_err(|e| {
        DataError::corrupt(
            path,
            "a PNG or JPEG image",
            e.to_string(),
            "Replace or remove the file.",
        )
    })?;
    Ok(match size {
        Size::AsStored => image,
        Size::Scaled { height, width } => {
            image.resize_exact(width.max(1), height.max(1), FilterType::Triangle)
        }
    })
}

fn read_part(root: &Path, classes: &[String], size: Size) -> Result<Part, DataError> {
    let mut files = Vec::new();
    for (label, class) in classes.iter().enumerate() {
        let folder = root.join(class);
        // A class may be absent from one part; it must then be absent as a folder too.
        if folder.is_dir() {
            files.extend(
                entries(&folder, is_image)?
                    .into_iter()
                    .map(|path| (path, label as u32)),
            );
        }
    }
    let Some((first, _)) = files.first() else {
        return Err(DataError::Empty {
            path: root.to_path_buf(),
            what: format!("no .png, .jpg or .jpeg file in any class folder. {HINT}"),
        });
    };
    let first = decode(first, size)?;
    let images: Vec<DynamicImage> = files
        .par_iter()
        .map(|(path, _)| decode(path, size))
        .collect::<Result<_, _>>()?;
    let grey = images.iter().all(|i| {
        matches!(
            i.color(),
            ColorType::L8 | ColorType::L16 | ColorType::La8 | ColorType::La16
        )
    });
    let shape_of = |image: &DynamicImage| Shape::Image {
        height: image.height() as usize,
        width: image.width() as usize,
        channels: if grey { 1 } else { 3 },
    };
    let shape = shape_of(&first);
    let mut pixels = Vec::with_capacity(shape.size() * images.len());
    for (image, (path, _)) in images.into_iter().zip(&files) {
        let found = shape_of(&image);
        if found != shape {
            return Err(DataError::Shape {
                path: path.clone(),
                expected: shape,
                found,
                hint: "Give a size to scale all images to.".to_owned(),
            });
        }
        pixels.extend(if grey {
            image.into_luma8().into_raw()
        } else {
            image.into_rgb8().into_raw()
        });
    }
    Part::new(
        shape,
        Samples::Pixels(pixels),
        files.iter().map(|&(_, label)| label).collect(),
        root,
    )
}

/// Reads every image below `root`.
///
/// # Errors
/// When a folder is missing or empty, an image cannot be decoded, or sizes differ.
pub fn load(root: &Path, size: Size) -> Result<Dataset, DataError> {
    let (train, test) = (root.join("train"), root.join("test"));
    let set = if train.is_dir() && test.is_dir() {
        let classes = class_names(&train)?;
        if let Some(stray) = class_names(&test)?
            .into_iter()
            .find(|c| !classes.contains(c))
        {
            return Err(DataError::Missing {
                path: train.join(stray),
                expected: "a training folder for a class that has a test folder".to_owned(),
                hint: HINT.to_owned(),
            });
        }
        let (train, test) = (
            read_part(&train, &classes, size)?,
            read_part(&test, &classes, size)?,
        );
        Dataset::new("folder", train, test, classes, root)?
    } else {
        let classes = class_names(root)?;
        let all = read_part(root, &classes, size)?;
        Dataset::hold_out("folder", &all, all.len().div_ceil(5), classes, root)?
    };
    Ok(set.with_source("images of the user", "the user's own"))
}
