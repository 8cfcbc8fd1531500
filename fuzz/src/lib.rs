//! What is fuzzed: one function of bytes per target, which panics where a promise is broken.
//!
//! The same functions run under libFuzzer (`fuzz_targets/`) and under the stand-in `replay`, which needs nothing
//! but a stable compiler. [`TARGETS`] is the list; `seeds` makes the first inputs, `mutate` the next ones.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod allocator;
pub mod files;
pub mod mutate;
pub mod seeds;
pub mod solver;
#[cfg(feature = "train")]
pub mod training;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// One thing to fuzz.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, and that of its folder of inputs.
    pub name: &'static str,
    /// Panics where a promise is broken.
    pub run: fn(&[u8]),
    /// Valid inputs to start from, by file name.
    pub seeds: fn() -> Vec<(String, Vec<u8>)>,
    /// Bytes that no single allocation may exceed: a lying header is refused before memory is asked for.
    pub largest_allocation: usize,
}

const SMALL: usize = 64 << 20;

/// All targets of this build.
pub const TARGETS: &[Target] = &[
    target("npy", files::npy, seeds::npy),
    target("arrays", files::arrays, seeds::arrays),
    target("mat", files::mat, seeds::mat),
    target("svhn", files::svhn, seeds::svhn),
    target("idx", files::idx, seeds::idx),
    target("cifar", files::cifar, seeds::cifar),
    Target {
        // The decoders' own limit is 512 MB.
        largest_allocation: 1 << 30,
        ..target("images", files::images, seeds::images)
    },
    target("allocator", allocator::run, seeds::allocator),
    target("allocator_json", allocator::json, seeds::allocator_json),
    target("solver", solver::run, seeds::solver),
    #[cfg(feature = "train")]
    target(
        "checkpoint",
        training::checkpoint,
        training::checkpoint_seeds,
    ),
    #[cfg(feature = "train")]
    target(
        "run_folder",
        training::run_folder,
        training::run_folder_seeds,
    ),
];

const fn target(
    name: &'static str,
    run: fn(&[u8]),
    seeds: fn() -> Vec<(String, Vec<u8>)>,
) -> Target {
    Target {
        name,
        run,
        seeds,
        largest_allocation: SMALL,
    }
}

/// Longest input taken: everything of interest is in headers.
pub const LONGEST: usize = 1 << 16;

/// Several files in one input: each but the last behind its length as two bytes.
#[must_use]
pub fn unbundle<const N: usize>(mut data: &[u8]) -> [&[u8]; N] {
    let mut parts = [&data[..0]; N];
    for (index, part) in parts.iter_mut().enumerate() {
        let length = match *data {
            [a, b, ..] if index + 1 < N => {
                data = &data[2..];
                usize::from(u16::from_le_bytes([a, b]))
            }
            _ => data.len(),
        };
        (*part, data) = data.split_at(length.min(data.len()));
    }
    parts
}

/// The inverse of [`unbundle`].
#[must_use]
pub fn bundle(parts: &[&[u8]]) -> Vec<u8> {
    let mut all = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        if index + 1 < parts.len() {
            let length = u16::try_from(part.len()).expect("parts of seeds are small");
            all.extend(length.to_le_bytes());
        }
        all.extend(*part);
    }
    all
}

/// A folder of this process, for readers that take nothing but a path.
#[must_use]
pub fn scratch(name: &str) -> PathBuf {
    scratch_root().join(name)
}

/// Removes what [`scratch`] left.
pub fn clean() {
    let _ = std::fs::remove_dir_all(scratch_root());
}

fn scratch_root() -> PathBuf {
    // Memory where there is a file system of it: thousands of files a second are written.
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() {
        memory.to_path_buf()
    } else {
        std::env::temp_dir()
    };
    root.join(format!("earthmover-fuzz-{}", std::process::id()))
}

/// A sum of what the last input came to, numbers aside: what the stand-in has in place of coverage.
pub static OUTCOME: AtomicU64 = AtomicU64::new(0);

/// Adds to [`OUTCOME`].
fn came_to(what: &str) {
    let words = what.bytes().filter(|b| !b.is_ascii_digit());
    let sum = words.fold(OUTCOME.load(Ordering::Relaxed), |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    OUTCOME.store(sum, Ordering::Relaxed);
}

/// Errors are for people: one line or a few, whatever the input.
fn readable(error: &dyn std::fmt::Display, most: usize) {
    let text = error.to_string();
    came_to(&text);
    assert!(
        text.chars().count() < most,
        "{} characters: {text}",
        text.chars().count()
    );
    assert!(!text.is_empty());
}
