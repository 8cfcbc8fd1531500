//! Readers of data files: no bytes make them panic or ask for memory that the bytes do not warrant, and what they
//! accept holds together.

use std::fs;
use std::path::Path;

use earthmover_ssl::data::folder::{self, Size};
use earthmover_ssl::data::mat::MatValues;
use earthmover_ssl::data::npy::NpyValues;
use earthmover_ssl::data::{self, DataError, Part, Samples, UNLABELED};

use crate::{LONGEST, readable, scratch, unbundle};

/// Longest error message: the readers quote little of what they did not understand.
const MESSAGE: usize = 1000;

fn origin() -> &'static Path {
    Path::new("input")
}

fn product(sizes: &[usize]) -> Option<usize> {
    sizes.iter().try_fold(1usize, |n, &s| n.checked_mul(s))
}

fn holds_together(part: Result<Part, DataError>, classes: u32) {
    let part = match part {
        Ok(part) => part,
        Err(error) => return readable(&error, MESSAGE),
    };
    let size = part.shape().size();
    let found = match part.samples() {
        Samples::Pixels(pixels) => pixels.len(),
        Samples::Features(features) => {
            assert!(features.iter().all(|x| x.is_finite()));
            features.len()
        }
        // Kept on the disk, and decoded when they are asked for.
        _ => size * part.len(),
    };
    assert_eq!(Some(found), size.checked_mul(part.len()));
    assert_eq!(part.labels().len(), part.len());
    let known = |label: u32| label < classes || label == UNLABELED;
    assert!(part.labels().iter().all(|&label| known(label)));
    assert!(part.image(part.len()).is_none() && part.row(part.len()).is_none());
}

/// `data::npy`.
pub fn npy(data: &[u8]) {
    if data.len() > LONGEST {
        return;
    }
    match data::npy::from_bytes(data, origin()) {
        Ok(array) => {
            let found = match &array.values {
                NpyValues::F32(v) => v.len(),
                NpyValues::F64(v) => v.len(),
                NpyValues::U8(v) => v.len(),
                NpyValues::I64(v) => v.len(),
            };
            assert_eq!(product(&array.shape), Some(found), "{:?}", array.shape);
        }
        Err(error) => readable(&error, MESSAGE),
    }
}

/// `data::arrays`: examples and labels.
pub fn arrays(data: &[u8]) {
    if data.len() > LONGEST {
        return;
    }
    let [x, y] = unbundle(data);
    holds_together(data::arrays::from_bytes(x, y, [origin(); 2]), 1 << 20);
}

/// `data::mat`.
pub fn mat(data: &[u8]) {
    if data.len() > LONGEST {
        return;
    }
    match data::mat::from_bytes(data, origin(), "") {
        Ok(arrays) => {
            for array in arrays {
                let found = match &array.values {
                    MatValues::Bytes(v) => v.len(),
                    MatValues::Numbers(v) => v.len(),
                };
                assert_eq!(product(&array.dims), Some(found), "{:?}", array.dims);
            }
        }
        Err(error) => readable(&error, MESSAGE),
    }
}

/// `data::svhn`.
pub fn svhn(data: &[u8]) {
    if data.len() <= LONGEST {
        holds_together(data::svhn::from_bytes(data, origin()), 10);
    }
}

/// `data::idx`: images and labels.
pub fn idx(data: &[u8]) {
    if data.len() > LONGEST {
        return;
    }
    let [images, labels] = unbundle(data);
    holds_together(
        data::idx::from_bytes(images, labels, [origin(); 2], ""),
        256,
    );
}

/// `data::cifar`, both formats.
pub fn cifar(data: &[u8]) {
    if data.len() <= LONGEST {
        holds_together(data::cifar::cifar10_from_bytes(data, origin()), 10);
        holds_together(data::cifar::cifar100_from_bytes(data, origin()), 100);
    }
}

/// `data::folder`: two images of one class, decoded as stored and scaled.
pub fn images(data: &[u8]) {
    if data.len() > LONGEST {
        return;
    }
    let root = scratch("images");
    let class = root.join("class");
    fs::create_dir_all(&class).expect("a folder");
    let parts: [_; 2] = unbundle(data);
    for (name, bytes) in ["a.png", "b.jpg"].iter().zip(parts) {
        fs::write(class.join(name), bytes).expect("a file");
    }
    let (height, width) = (3, 5);
    for size in [Size::AsStored, Size::Scaled { height, width }] {
        match folder::load(&root, size) {
            Ok(set) => [set.train, set.test]
                .into_iter()
                .for_each(|part| holds_together(Ok(part), 1)),
            Err(error) => readable(&error, MESSAGE),
        }
    }
}
