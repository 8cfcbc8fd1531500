//! Whole files into memory, decompressed if they are gzipped, never more bytes than the format allows. Bytes that
//! are in memory already go the same way.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::error::{DataError, clip};

/// The first of several spellings of a file name that exists in `folder`, each also tried with `.gz`.
pub(super) fn locate(
    folder: &Path,
    names: &[&str],
    expected: &str,
    hint: &str,
) -> Result<PathBuf, DataError> {
    for name in names {
        for candidate in [folder.join(name), folder.join(format!("{name}.gz"))] {
            if candidate.is_file() {
                return Ok(candidate);
            }
        }
    }
    Err(DataError::Missing {
        path: folder.join(names.first().copied().unwrap_or_default()),
        expected: format!("{expected} (plain or .gz)"),
        hint: hint.to_owned(),
    })
}

/// Reads at most `limit` bytes of the file's decompressed content (and one more, to tell an excess).
pub(super) fn read_at_most(
    path: &Path,
    limit: u64,
    expected: &str,
    hint: &str,
) -> Result<Vec<u8>, DataError> {
    let file = File::open(path).map_err(|source| match source.kind() {
        ErrorKind::NotFound => DataError::Missing {
            path: path.to_path_buf(),
            expected: expected.to_owned(),
            hint: hint.to_owned(),
        },
        _ => DataError::io(path, source),
    })?;
    unpack_at_most(file, path, limit, expected, hint)
}

/// The same from any source; `path` is what errors call it.
pub(super) fn unpack_at_most(
    mut source: impl Read,
    path: &Path,
    limit: u64,
    expected: &str,
    hint: &str,
) -> Result<Vec<u8>, DataError> {
    let mut magic = Vec::with_capacity(2);
    source
        .by_ref()
        .take(2)
        .read_to_end(&mut magic)
        .map_err(|e| DataError::io(path, e))?;
    let gzipped = magic == [0x1f, 0x8b];
    let whole = magic.as_slice().chain(source);
    let limit = limit.saturating_add(1);
    let mut bytes = Vec::new();
    if gzipped {
        MultiGzDecoder::new(whole)
            .take(limit)
            .read_to_end(&mut bytes)
            .map_err(|e| {
                let found = format!("{} bytes, then: {e}", bytes.len());
                DataError::corrupt(path, format!("{expected} in one gzip stream"), found, hint)
            })?;
    } else {
        whole
            .take(limit)
            .read_to_end(&mut bytes)
            .map_err(|e| DataError::io(path, e))?;
    }
    Ok(bytes)
}

/// Refuses content that is not exactly `expected` bytes long.
pub(super) fn check_length(
    path: &Path,
    found: usize,
    expected: u64,
    what: &str,
    hint: &str,
) -> Result<(), DataError> {
    if found as u64 == expected {
        return Ok(());
    }
    Err(DataError::Length {
        path: path.to_path_buf(),
        expected,
        found: found as u64,
        what: clip(what),
        hint: hint.to_owned(),
    })
}
