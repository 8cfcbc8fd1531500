//! A folder of images: class-named folders, and images that nobody has labeled.
//!
//! ```text
//! root/cat/1.png         root/dog/…         root/unlabeled/…        no test part: the labels are all learned from
//! root/cat/1.png         root/dog/…                                 a fifth is held out for testing
//! root/train/cat/1.png   root/train/dog/…   root/unlabeled/…   root/test/cat/…       test and unlabeled if they are there
//! root/labels.csv        root/**/*.png                              lines of `file,class`; images without a line are unlabeled
//! ```
//!
//! Classes are the folder names (or the classes of the list) in alphabetical order, examples the files in alphabetical order,
//! unlabeled ones last, so the same folder is the same set everywhere. PNG and JPEG are decoded on all cores, turned as their camera says;
//! the set is grey when every image is. Without a size all images must have the same; with one they are scaled or cropped to
//! it. A set that would not fit into memory stays on the disk and is decoded by the batch.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use image::imageops::FilterType;
use image::{ColorType, DynamicImage, ImageDecoder, ImageReader};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::csv;
use super::dataset::{Dataset, Part, Samples, Shape, UNLABELED};
use super::error::DataError;
use super::stored::ImageFiles;

const HINT: &str = "Arrange images as root/<class>/*.png and root/unlabeled/*.png, or root/train/<class>/*.png and root/test/<class>/*.png.";

/// Folders of images without labels have one of these names.
const UNLABELED_FOLDERS: [&str; 2] = ["unlabeled", "unlabelled"];
/// A list of labels in place of class-named folders.
const LIST: &str = "labels.csv";

/// What size the images of a folder must have or are given.
///
/// # Examples
/// ```
/// use earthmover_ssl::data::folder::Size;
/// assert_eq!("64".parse(), Ok(Size::Cropped { height: 64, width: 64 }));
/// assert_eq!("scale:48x64".parse(), Ok(Size::Scaled { height: 48, width: 64 }));
/// assert!("0".parse::<Size>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
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
    /// Scaled until it covers this many pixels, aspect ratio kept, what sticks out cut off on both sides.
    Cropped {
        /// Rows of pixels.
        height: u32,
        /// Pixels in a row.
        width: u32,
    },
}

impl FromStr for Size {
    type Err = String;

    /// `stored`, `64`, `48x64` (rows × columns), with `scale:` or `crop:` (the default) before it.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "stored" {
            return Ok(Self::AsStored);
        }
        let wrong = || {
            format!(
                "unknown size `{text}`: choose 64, 48x64 (rows x columns) or scale:48x64; sides from 1 to 32767"
            )
        };
        let (how, sides) = text.split_once(':').unwrap_or(("crop", text));
        let (height, width) = sides.split_once('x').unwrap_or((sides, sides));
        let side = |text: &str| {
            let side = text.parse().ok().filter(|s| (1..=32_767).contains(s));
            side.ok_or_else(wrong)
        };
        let (height, width) = (side(height)?, side(width)?);
        match how {
            "crop" => Ok(Self::Cropped { height, width }),
            "scale" => Ok(Self::Scaled { height, width }),
            _ => Err(wrong()),
        }
    }
}

impl From<Size> for String {
    fn from(size: Size) -> Self {
        match size {
            Size::AsStored => "stored".to_owned(),
            Size::Scaled { height, width } => format!("scale:{height}x{width}"),
            Size::Cropped { height, width } => format!("crop:{height}x{width}"),
        }
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Where the images of a folder are kept while they are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// In memory where at most half of what is free would hold them, else on the disk.
    #[default]
    Automatically,
    /// In memory.
    InMemory,
    /// On the disk, decoded by the batch.
    OnDisk,
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

/// Every image in a folder and the folders in it, in alphabetical order.
///
/// # Errors
/// When a folder cannot be read.
pub fn images_below(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut found = entries(folder, is_image)?;
    for below in entries(folder, Path::is_dir)? {
        found.extend(images_below(&below)?);
    }
    Ok(found)
}

fn class_names(root: &Path) -> Result<Vec<String>, DataError> {
    let folders = entries(root, Path::is_dir)?;
    Ok(folders
        .iter()
        .filter_map(|p| p.file_name())
        .map(|n| n.to_string_lossy().into_owned())
        .filter(|n| !UNLABELED_FOLDERS.contains(&n.to_lowercase().as_str()))
        .collect())
}

/// Decodes a file, turns it as its camera says and gives it its size.
pub(super) fn decode(path: &Path, size: Size) -> Result<DynamicImage, DataError> {
    let bytes = fs::read(path).map_err(|e| DataError::io(path, e))?;
    let read = || {
        let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format()?;
        let mut decoder = reader.into_decoder()?;
        let turned = decoder.orientation();
        let mut image = DynamicImage::from_decoder(decoder)?;
        if let Ok(turned) = turned {
            image.apply_orientation(turned);
        }
        Ok::<_, image::ImageError>(image)
    };
    let image = read().map_err(|e| {
        DataError::corrupt(
            path,
            "a PNG or JPEG image",
            e.to_string(),
            "Replace or remove the file.",
        )
    })?;
    Ok(match size {
        Size::AsStored => image,
        Size::Scaled { height, width } => image.resize_exact(width, height, FilterType::Triangle),
        Size::Cropped { height, width } => {
            image.resize_to_fill(width, height, FilterType::Triangle)
        }
    })
}

fn is_grey(colour: ColorType) -> bool {
    matches!(
        colour,
        ColorType::L8 | ColorType::L16 | ColorType::La8 | ColorType::La16
    )
}

pub(super) fn shape_of(image: &DynamicImage, grey: bool) -> Shape {
    Shape::Image {
        height: image.height() as usize,
        width: image.width() as usize,
        channels: if grey { 1 } else { 3 },
    }
}

pub(super) fn pixels(image: DynamicImage, grey: bool) -> Vec<u8> {
    match grey {
        true => image.into_luma8().into_raw(),
        false => image.into_rgb8().into_raw(),
    }
}

/// Whether a file's header says that it is grey; a file that does not parse is found when it is decoded.
fn header_is_grey(path: &Path) -> bool {
    let reader = ImageReader::open(path).and_then(ImageReader::with_guessed_format);
    let decoder = reader.ok().and_then(|r| r.into_decoder().ok());
    decoder.is_none_or(|d| is_grey(d.color_type()))
}

/// Images with labels (or [`UNLABELED`]); `grey` where it is known already, else as they are.
fn read_part(
    root: &Path,
    files: Vec<(PathBuf, u32)>,
    size: Size,
    keep: Keep,
    grey: Option<bool>,
) -> Result<Part, DataError> {
    let Some((first, _)) = files.first() else {
        return Err(DataError::Empty {
            path: root.to_path_buf(),
            what: format!("no .png, .jpg or .jpeg file in any class folder. {HINT}"),
        });
    };
    let first = decode(first, size)?;
    let names = files.iter().map(|(path, _)| name_below(root, path));
    let names: Vec<String> = names.collect();
    let labels: Vec<u32> = files.iter().map(|&(_, label)| label).collect();
    let on_disk = match keep {
        Keep::InMemory => false,
        Keep::OnDisk => true,
        Keep::Automatically => {
            let bytes = files.len() as u64 * shape_of(&first, grey == Some(true)).size() as u64;
            available_memory().is_some_and(|free| bytes > free / 2)
        }
    };
    if on_disk {
        let grey = grey.unwrap_or_else(|| files.par_iter().all(|(path, _)| header_is_grey(path)));
        let shape = shape_of(&first, grey);
        let paths = files.into_iter().map(|(path, _)| path).collect();
        let samples = Samples::Files(ImageFiles::new(paths, size, grey));
        return Ok(Part::new(shape, samples, labels, root)?.with_names(names));
    }
    let images: Vec<DynamicImage> = files
        .par_iter()
        .map(|(path, _)| decode(path, size))
        .collect::<Result<_, _>>()?;
    let grey = grey.unwrap_or_else(|| images.iter().all(|i| is_grey(i.color())));
    let shape = shape_of(&first, grey);
    let mut all = Vec::with_capacity(shape.size() * images.len());
    for (image, (path, _)) in images.into_iter().zip(&files) {
        let found = shape_of(&image, grey);
        if found != shape {
            return Err(DataError::Shape {
                path: path.clone(),
                expected: shape,
                found,
                hint: "Give a size (--size 64) to scale all images to.".to_owned(),
            });
        }
        all.extend(pixels(image, grey));
    }
    Ok(Part::new(shape, Samples::Pixels(all), labels, root)?.with_names(names))
}

/// Bytes that the system could give to this process; `None` where it does not say.
pub(crate) fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// The images of the class folders of `root`.
fn labeled_files(root: &Path, classes: &[String]) -> Result<Vec<(PathBuf, u32)>, DataError> {
    let mut files = Vec::new();
    for (label, class) in classes.iter().enumerate() {
        let folder = root.join(class);
        // A class may be absent from one part; it must then be absent as a folder too.
        if folder.is_dir() {
            let images = entries(&folder, is_image)?;
            files.extend(images.into_iter().map(|path| (path, label as u32)));
        }
    }
    Ok(files)
}

/// The images of the folders for unlabeled ones in any of `places`.
fn unlabeled_files(places: &[&Path]) -> Result<Vec<(PathBuf, u32)>, DataError> {
    let mut files = Vec::new();
    for place in places {
        for folder in entries(place, Path::is_dir)? {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            if UNLABELED_FOLDERS.contains(&name.to_lowercase().as_str()) {
                let images = images_below(&folder)?;
                files.extend(images.into_iter().map(|path| (path, UNLABELED)));
            }
        }
    }
    Ok(files)
}

/// Reads every image below `root`; see the [module](self) for what it may look like.
///
/// # Errors
/// When a folder is missing or empty, an image cannot be decoded, or sizes differ.
pub fn load(root: &Path, size: Size) -> Result<Dataset, DataError> {
    load_kept(root, size, Keep::default())
}

/// [`load`], with a say in where the images are kept.
///
/// # Errors
/// As [`load`].
pub fn load_kept(root: &Path, size: Size, keep: Keep) -> Result<Dataset, DataError> {
    let (train, test) = (root.join("train"), root.join("test"));
    let set = if root.join(LIST).is_file() {
        from_list(root, size, keep)?
    } else if train.is_dir() {
        let classes = class_names(&train)?;
        let mut files = labeled_files(&train, &classes)?;
        files.extend(unlabeled_files(&[&train, root])?);
        let train_part = read_part(root, files, size, keep, None)?;
        let test_part = match test.is_dir() {
            true => {
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
                // Grey where the training images are, so that the two parts fit.
                let grey = train_part.shape().channels() == 1;
                let files = labeled_files(&test, &classes)?;
                read_part(root, files, size, keep, Some(grey))?
            }
            false => Part::none(train_part.shape()),
        };
        Dataset::new("folder", train_part, test_part, classes, root)?
    } else {
        let classes = class_names(root)?;
        let mut files = labeled_files(root, &classes)?;
        let unlabeled = unlabeled_files(&[root])?;
        if unlabeled.is_empty() {
            let all = read_part(root, files, size, keep, None)?;
            Dataset::hold_out("folder", &all, all.len().div_ceil(5), classes, root)?
        } else {
            // Labels are few where most examples have none: all of them are learned from.
            files.extend(unlabeled);
            let part = read_part(root, files, size, keep, None)?;
            let none = Part::none(part.shape());
            Dataset::new("folder", part, none, classes, root)?
        }
    };
    let notes = passed_over(root, &set)?.into_iter().collect();
    let set = Dataset { notes, ..set };
    Ok(set.with_source("images of the user", "the user's own"))
}

/// Every file below a folder that is not hidden.
fn files_below(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), DataError> {
    found.extend(entries(folder, Path::is_file)?);
    for below in entries(folder, Path::is_dir)? {
        files_below(&below, found)?;
    }
    Ok(())
}

/// Says which files are no part of the set: pictures of other formats, or deeper than anybody looks.
fn passed_over(root: &Path, set: &Dataset) -> Result<Option<String>, DataError> {
    const NAMED: usize = 5;
    let names = |part: &Part| -> Vec<String> { (0..part.len()).map(|i| part.name(i)).collect() };
    let used: HashSet<String> = [names(&set.train), names(&set.test)]
        .into_iter()
        .flatten()
        .collect();
    let mut all = Vec::new();
    files_below(root, &mut all)?;
    let names = all.iter().map(|path| name_below(root, path));
    let left: Vec<String> = names
        .filter(|name| name != LIST && !used.contains(name))
        .collect();
    if left.is_empty() {
        return Ok(None);
    }
    let more = if left.len() > NAMED { ", …" } else { "" };
    Ok(Some(format!(
        "{} files are not used (images are .png, .jpg or .jpeg directly in the folder of their class): {}{more}",
        left.len(),
        left[..left.len().min(NAMED)].join(", ")
    )))
}

/// What an image is called: its place below `root`.
fn name_below(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    below.to_string_lossy().replace('\\', "/")
}

/// Images below `root` with the labels of a list.
fn from_list(root: &Path, size: Size, keep: Keep) -> Result<Dataset, DataError> {
    let path = root.join(LIST);
    let rows = csv::pairs(&path)?;
    let mut classes: Vec<String> = rows.iter().map(|(_, class)| class.clone()).collect();
    classes.sort();
    classes.dedup();
    let mut labels = HashMap::new();
    for (file, class) in &rows {
        let label = classes.binary_search(class).unwrap_or(0) as u32;
        if labels
            .insert(root.join(file), label)
            .is_some_and(|l| l != label)
        {
            let found = format!("{file} with two different classes");
            return Err(DataError::corrupt(&path, "one class per file", found, ""));
        }
        if !is_image(&root.join(file)) {
            return Err(DataError::Missing {
                path: root.join(file),
                expected: format!("an image that {LIST} names"),
                hint: "File names in the list are relative to its folder.".to_owned(),
            });
        }
    }
    let label = |path: PathBuf| {
        let label = labels.get(&path).copied().unwrap_or(UNLABELED);
        (path, label)
    };
    let files: Vec<(PathBuf, u32)> = images_below(root)?.into_iter().map(label).collect();
    let part = read_part(root, files, size, keep, None)?;
    match part.known() < part.len() {
        true => {
            let none = Part::none(part.shape());
            Dataset::new("folder", part, none, classes, root)
        }
        false => Dataset::hold_out("folder", &part, part.len().div_ceil(5), classes, root),
    }
}

/// Images of anybody's, as a network for examples of `shape` wants them: no labels, named by their place below `root`.
///
/// # Errors
/// As [`load`].
pub fn for_shape(
    root: &Path,
    files: Vec<PathBuf>,
    size: Size,
    shape: Shape,
) -> Result<Part, DataError> {
    let grey = shape.channels() == 1;
    let files = files.into_iter().map(|path| (path, UNLABELED)).collect();
    read_part(root, files, size, Keep::OnDisk, Some(grey))
}
