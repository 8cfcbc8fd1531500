//! The published files themselves, when they are at hand.
//!
//! Set `EARTHMOVER_DATA` to a folder with any of `mnist`, `fashion-mnist`, `cifar10`, `cifar100`, `svhn`
//! in it; what is not there is passed over.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr
)]

use std::path::PathBuf;

use earthmover_ssl::data::{Dataset, Kind, Normalisation, cifar, svhn};

/// The path below `EARTHMOVER_DATA`, if both exist.
fn find(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("EARTHMOVER_DATA")?).join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("{} is not there: passed over", path.display());
    None
}

/// The customary statistics are those of the training images to the digits they are quoted with.
fn check_statistics(set: &Dataset, tolerance: f32) {
    let measured = Normalisation::measure(&set.train);
    let pairs = measured.mean.iter().zip(&set.normalisation.mean);
    for (found, stated) in pairs.chain(measured.std.iter().zip(&set.normalisation.std)) {
        assert!(
            (found - stated).abs() < tolerance,
            "{}: {measured:?}",
            set.name
        );
    }
}

#[test]
fn mnist_and_fashion() {
    if let Some(path) = find("mnist") {
        let set = Kind::Mnist.load(&path).unwrap();
        let counts = set.train.class_counts(10);
        assert_eq!(
            counts,
            [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
        );
        assert_eq!(set.test.len(), 10_000);
        assert_eq!(set.train.labels()[..5], [5, 0, 4, 1, 9]);
        check_statistics(&set, 1e-4);
    }
    if let Some(path) = find("fashion-mnist") {
        let set = Kind::FashionMnist.load(&path).unwrap();
        assert_eq!(set.train.class_counts(10), [6000; 10]);
        assert_eq!(set.test.class_counts(10), [1000; 10]);
        check_statistics(&set, 1e-4);
    }
}

#[test]
fn cifar10() {
    if let Some(path) = find("cifar10") {
        let set = Kind::Cifar10.load(&path).unwrap();
        assert_eq!(set.train.class_counts(10), [5000; 10]);
        assert_eq!(set.test.class_counts(10), [1000; 10]);
        // The first training images are a frog and two trucks, the first test images a cat and two ships.
        assert_eq!(set.train.labels()[..3], [6, 9, 9]);
        assert_eq!(set.test.labels()[..3], [3, 8, 8]);
        check_statistics(&set, 1e-3);
    }
}

#[test]
fn cifar100_test_part() {
    if let Some(path) = find("cifar100/cifar-100-test.bin.gz") {
        let part = cifar::read_cifar100(&path).unwrap();
        assert_eq!(part.class_counts(100), [100; 100]);
        let set = Kind::Cifar100.load(&path).unwrap();
        assert_eq!((set.train.len(), set.test.len()), (8000, 2000));
        check_statistics(&set, 0.01);
    }
}

#[test]
fn svhn_first_test_images() {
    if let Some(path) = find("svhn/svhn-test-6000_32x32.mat") {
        let part = svhn::read(&path).unwrap();
        assert_eq!(part.len(), 6000);
        // The first ten test digits of the official file.
        assert_eq!(part.labels()[..10], [5, 2, 1, 0, 6, 1, 9, 1, 1, 8]);
        let set = Kind::Svhn.load(&path).unwrap();
        check_statistics(&set, 0.05);
    }
}
