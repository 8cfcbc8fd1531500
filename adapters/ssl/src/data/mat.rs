//! MATLAB version 5 files, as much of them as numeric arrays need.
//!
//! ```text
//! file     128 bytes of header (version 0x0100, then "IM" when little-endian), elements
//! element  type u32, size u32, size bytes, padding to 8   (or size u16 ≪ 16 | type u16 and ≤ 4 bytes)
//! type 15  a zlib stream of one element
//! type 14  an array: flags, dimensions, name, values; values are in column-major order
//! ```
//!
//! MATLAB stores a `double` array in the smallest type that holds its values, so the type of the values is
//! that of their element and not of the array. Structures, cells, text, sparse and complex arrays are
//! passed over.

use std::io::Read;
use std::path::Path;

use flate2::read::ZlibDecoder;

use super::error::DataError;
use super::files::{read_at_most, unpack_at_most};

const LIMIT: u64 = 1 << 33;
const EXPECTED: &str = "a little-endian MATLAB version 5 file";

/// The numbers of an array.
#[derive(Clone, Debug, PartialEq)]
pub enum MatValues {
    /// Unsigned bytes, kept as such.
    Bytes(Vec<u8>),
    /// Any other type.
    Numbers(Vec<f64>),
}

/// A named numeric array in column-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct MatArray {
    /// Its name in the workspace it was saved from.
    pub name: String,
    /// Its size along each dimension.
    pub dims: Vec<usize>,
    /// Its values, first dimension fastest.
    pub values: MatValues,
}

struct Element<'a> {
    kind: u32,
    data: &'a [u8],
    /// Bytes up to the next element.
    span: usize,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

/// The element at the start of `bytes`, or how many bytes it would need.
fn element(bytes: &[u8]) -> Result<Element<'_>, usize> {
    let first = word(bytes, 0).ok_or(8usize)?;
    let (small, kind) = (first >> 16, first & 0xffff);
    if small != 0 {
        let data = bytes.get(4..4 + small as usize).ok_or(8usize)?;
        return Ok(Element {
            kind,
            data,
            span: 8,
        });
    }
    let size = word(bytes, 4).ok_or(8usize)? as usize;
    let data = bytes.get(8..8 + size).ok_or(8 + size)?;
    // Compressed elements are the only ones that are not padded.
    let span = if first == 15 {
        8 + size
    } else {
        8 + size.next_multiple_of(8)
    };
    Ok(Element {
        kind: first,
        data,
        span,
    })
}

fn numbers(element: &Element<'_>) -> Option<MatValues> {
    fn wide<const N: usize>(data: &[u8], read: impl Fn([u8; N]) -> f64) -> MatValues {
        MatValues::Numbers(
            data.chunks_exact(N)
                .filter_map(|c| c.try_into().ok())
                .map(read)
                .collect(),
        )
    }
    let data = element.data;
    Some(match element.kind {
        1 => wide(data, |b: [u8; 1]| f64::from(i8::from_le_bytes(b))),
        2 => MatValues::Bytes(data.to_vec()),
        3 => wide(data, |b| f64::from(i16::from_le_bytes(b))),
        4 => wide(data, |b| f64::from(u16::from_le_bytes(b))),
        5 => wide(data, |b| f64::from(i32::from_le_bytes(b))),
        6 => wide(data, |b| f64::from(u32::from_le_bytes(b))),
        7 => wide(data, |b| f64::from(f32::from_le_bytes(b))),
        9 => wide(data, f64::from_le_bytes),
        12 => wide(data, |b| i64::from_le_bytes(b) as f64),
        13 => wide(data, |b| u64::from_le_bytes(b) as f64),
        _ => return None,
    })
}

/// The array in a matrix element's bytes; `Ok(None)` for kinds that are not numeric arrays.
fn array(bytes: &[u8]) -> Result<Option<MatArray>, String> {
    let mut rest = bytes;
    let mut next = |what: &str| -> Result<Element<'_>, String> {
        let e = element(rest)
            .map_err(|need| format!("{} bytes where {what} needs {need}", rest.len()))?;
        rest = rest.get(e.span..).unwrap_or_default();
        Ok(e)
    };
    let flags = word(next("the array's flags")?.data, 0).ok_or("empty flags")?;
    // Classes 6 to 15 are double, single and the integers; bit 11 marks complex values.
    if !(6..=15).contains(&(flags & 0xff)) || flags & 0x800 != 0 {
        return Ok(None);
    }
    let dims = next("the dimensions")?.data;
    let dims: Vec<usize> = (0..dims.len() / 4)
        .filter_map(|i| word(dims, 4 * i))
        .map(|d| d as usize)
        .collect();
    let name = String::from_utf8_lossy(next("the name")?.data).into_owned();
    let values = next("the values")?;
    let kind = values.kind;
    let values =
        numbers(&values).ok_or_else(|| format!("values of unknown type {kind} in `{name}`"))?;
    let found = match &values {
        MatValues::Bytes(b) => b.len(),
        MatValues::Numbers(n) => n.len(),
    };
    let expected = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    if expected != Some(found) {
        return Err(format!("{found} values in `{name}` of dimensions {dims:?}"));
    }
    Ok(Some(MatArray { name, dims, values }))
}

/// Inflates one element. Its inner tag says how long it is, so a stream cannot swell without bound.
fn inflate(data: &[u8]) -> Result<Vec<u8>, String> {
    let mut decoder = ZlibDecoder::new(data);
    let mut bytes = vec![0; 8];
    decoder
        .read_exact(&mut bytes)
        .map_err(|e| format!("a compressed array that fails at its start: {e}"))?;
    let size = u64::from(word(&bytes, 4).unwrap_or(0));
    decoder
        .take(size.next_multiple_of(8))
        .read_to_end(&mut bytes)
        .map_err(|e| {
            format!(
                "a compressed array that fails after {} of {} bytes: {e}",
                bytes.len(),
                size + 8
            )
        })?;
    if (bytes.len() as u64) < size + 8 {
        return Err(format!(
            "a compressed array of {} bytes that should have {}",
            bytes.len(),
            size + 8
        ));
    }
    Ok(bytes)
}

/// Every numeric array of a MATLAB version 5 file. `hint` ends every error message.
///
/// # Errors
/// When the file is missing, is of another version or byte order, or ends inside an array.
pub fn read(path: &Path, hint: &str) -> Result<Vec<MatArray>, DataError> {
    arrays(&read_at_most(path, LIMIT, EXPECTED, hint)?, path, hint)
}

/// The same from a file's content; `origin` is what errors call it.
///
/// # Errors
/// As [`read`], but for a missing file.
pub fn from_bytes(bytes: &[u8], origin: &Path, hint: &str) -> Result<Vec<MatArray>, DataError> {
    let bytes = unpack_at_most(bytes, origin, LIMIT, EXPECTED, hint)?;
    arrays(&bytes, origin, hint)
}

fn arrays(bytes: &[u8], path: &Path, hint: &str) -> Result<Vec<MatArray>, DataError> {
    let wrong = |found: String| DataError::corrupt(path, EXPECTED, found, hint);
    match bytes.get(124..128) {
        None => {
            return Err(wrong(format!(
                "{} bytes, less than the header of 128",
                bytes.len()
            )));
        }
        Some([_, 1, b'I', b'M']) => {}
        Some(other) => return Err(wrong(format!("version and byte order {other:?}"))),
    }
    let mut arrays = Vec::new();
    let mut at = 128;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let e = element(rest).map_err(|need| DataError::Length {
            path: path.to_path_buf(),
            expected: (at + need) as u64,
            found: bytes.len() as u64,
            what: format!(
                "element {} starts at byte {at} and needs {need} more",
                arrays.len() + 1
            ),
            hint: hint.to_owned(),
        })?;
        at += e.span;
        let found = if e.kind == 15 {
            let inner = inflate(e.data).map_err(&wrong)?;
            let e = element(&inner)
                .map_err(|need| wrong(format!("{} of {need} bytes", inner.len())))?;
            if e.kind == 14 {
                array(e.data).map_err(&wrong)?
            } else {
                None
            }
        } else if e.kind == 14 {
            array(e.data).map_err(&wrong)?
        } else {
            None
        };
        arrays.extend(found);
    }
    Ok(arrays)
}
