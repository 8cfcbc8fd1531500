//! Images that stay on the disk: files that are decoded by the batch, and arrays that are mapped into memory.
//!
//! A batch reads its own images and forgets them; the system keeps what fits of the files in its cache. What a set takes in memory
//! is then its list of names.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;

use super::dataset::Shape;
use super::error::DataError;
use super::folder::{Size, decode, pixels, shape_of};
use crate::fingerprint::Fingerprint;

/// Image files and how they are decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFiles {
    paths: Vec<PathBuf>,
    size: Size,
    grey: bool,
}

impl ImageFiles {
    /// These files, given this size, as grey or colour.
    pub(super) fn new(paths: Vec<PathBuf>, size: Size, grey: bool) -> Self {
        Self { paths, size, grey }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Where they are.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    pub(super) fn select(&self, indices: &[usize]) -> Self {
        let chosen = indices.iter().filter_map(|&i| self.paths.get(i).cloned());
        Self::new(chosen.collect(), self.size, self.grey)
    }

    pub(super) fn append(&mut self, other: Self) {
        self.paths.extend(other.paths);
    }

    /// Decodes image `index`, which must still have the shape it had.
    pub(super) fn read(&self, index: usize, expected: Shape) -> Result<Vec<u8>, DataError> {
        let Some(path) = self.paths.get(index) else {
            return Err(DataError::Empty {
                path: PathBuf::new(),
                what: format!("there is no image {index}"),
            });
        };
        let image = decode(path, self.size)?;
        let found = shape_of(&image, self.grey);
        if found != expected {
            return Err(DataError::Shape {
                path: path.clone(),
                expected,
                found,
                hint: "Give a size (--size) to scale all images to.".to_owned(),
            });
        }
        Ok(pixels(image, self.grey))
    }

    pub(super) fn feed(&self, sum: &mut Fingerprint) {
        for path in &self.paths {
            sum.text(&path.file_name().unwrap_or_default().to_string_lossy());
            let length = fs::metadata(path).map_or(0, |m| m.len());
            sum.bytes(&length.to_le_bytes());
        }
    }
}

/// Bytes of images in a file that is mapped into memory.
#[derive(Clone, Debug)]
pub struct ImageMap {
    map: Arc<Mmap>,
    /// Where the first image begins.
    start: usize,
    /// Which image of the file each one is.
    order: Vec<usize>,
}

impl PartialEq for ImageMap {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.map, &other.map)
            && (self.start, &self.order) == (other.start, &other.order)
    }
}

impl ImageMap {
    /// `images` images from byte `start` of a mapped file on.
    pub(super) fn new(map: Arc<Mmap>, start: usize, images: usize) -> Self {
        Self {
            map,
            start,
            order: (0..images).collect(),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn image(&self, index: usize, size: usize) -> Option<&[u8]> {
        let at = self.start + self.order.get(index)?.checked_mul(size)?;
        self.map.get(at..at.checked_add(size)?)
    }

    pub(super) fn select(&self, indices: &[usize]) -> Self {
        let order = indices.iter().filter_map(|&i| self.order.get(i).copied());
        Self {
            map: self.map.clone(),
            start: self.start,
            order: order.collect(),
        }
    }

    /// The first and last byte of every image: all of a file larger than memory would take minutes.
    pub(super) fn feed(&self, sum: &mut Fingerprint, size: usize) {
        for index in 0..self.len() {
            if let Some([first, .., last]) = self.image(index, size) {
                sum.bytes(&[*first, *last]);
            }
        }
    }
}

/// Maps a file that must not be changed while it is in use.
///
/// # Errors
/// When it is missing or the system refuses.
pub(crate) fn map(path: &Path) -> Result<Mmap, DataError> {
    let file = File::open(path).map_err(|e| DataError::io(path, e))?;
    // SAFETY: the map is read-only and lives in this module's types alone. Another process that cuts the file short while it
    // is in use would end this one by a signal; one that writes into it changes the numbers that are read, which are checked
    // where they are used. There is no way to map a file that rules this out; the documentation of those who call asks for
    // files that stay as they are.
    unsafe { Mmap::map(&file) }.map_err(|e| DataError::io(path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_images_of_a_map_are_the_right_ones() {
        let path = std::env::temp_dir().join(format!("earthmover-map-{}", std::process::id()));
        assert!(fs::write(&path, [9, 0, 1, 10, 11, 20, 21]).is_ok());
        let Ok(mapped) = map(&path) else {
            unreachable!()
        };
        let images = ImageMap::new(Arc::new(mapped), 1, 3);
        assert_eq!(images.image(1, 2), Some(&[10, 11][..]));
        let chosen = images.select(&[2, 0, 7]);
        assert_eq!((chosen.len(), chosen.image(0, 2)), (2, Some(&[20, 21][..])));
        assert_eq!(images.image(3, 2), None);
        let _ = fs::remove_file(&path);
    }
}
