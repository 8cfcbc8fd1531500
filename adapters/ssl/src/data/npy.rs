//! NumPy's `.npy` files.
//!
//! ```text
//! \x93NUMPY | major, minor | header length: u16 (major 1) or u32 (2, 3), little-endian | header | values
//! ```
//!
//! The header is a Python dictionary literal with the keys `descr` (type, such as `<f4`), `fortran_order`
//! and `shape`. Values in Fortran order (first index fastest) are put into C order on reading, so callers
//! meet only one.

use std::path::Path;

use super::error::DataError;
use super::files::{check_length, read_at_most, unpack_at_most};

const LIMIT: u64 = 1 << 34;
const EXPECTED: &str = "a NumPy array";
const HINT: &str = "Write it with numpy.save(path, array).";

/// The values of an array, widened to one of four types.
#[derive(Clone, Debug, PartialEq)]
pub enum NpyValues {
    /// `f4`.
    F32(Vec<f32>),
    /// `f8`.
    F64(Vec<f64>),
    /// `u1`.
    U8(Vec<u8>),
    /// `b1` and every other integer type.
    I64(Vec<i64>),
}

/// An array in C order (last index fastest).
#[derive(Clone, Debug, PartialEq)]
pub struct NpyArray {
    /// Size along each dimension; empty for a scalar.
    pub shape: Vec<usize>,
    /// The values.
    pub values: NpyValues,
}

struct Header {
    descr: String,
    fortran: bool,
    shape: Vec<usize>,
}

/// What follows `'key':` in the dictionary.
fn after<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    ["'", "\""].iter().find_map(|quote| {
        let (_, rest) = header.split_once(&format!("{quote}{key}{quote}"))?;
        Some(rest.trim_start().strip_prefix(':')?.trim_start())
    })
}

fn parse(header: &str) -> Option<Header> {
    let descr = after(header, "descr")?;
    let quote = descr.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let descr = descr[1..].split(quote).next()?.to_owned();
    let order = after(header, "fortran_order")?;
    let fortran = order.starts_with("True");
    if !fortran && !order.starts_with("False") {
        return None;
    }
    let inside = after(header, "shape")?
        .strip_prefix('(')?
        .split(')')
        .next()?;
    let sizes = inside.split(',').map(str::trim).filter(|s| !s.is_empty());
    let shape = sizes
        .map(|s| s.trim_end_matches('L').parse().ok())
        .collect::<Option<Vec<usize>>>()?;
    Some(Header {
        descr,
        fortran,
        shape,
    })
}

fn decode<const N: usize, T>(data: &[u8], big: bool, read: impl Fn([u8; N]) -> T) -> Vec<T> {
    let words = data
        .chunks_exact(N)
        .filter_map(|c| <[u8; N]>::try_from(c).ok());
    words
        .map(|mut b| {
            if big {
                b.reverse();
            }
            read(b)
        })
        .collect()
}

fn values(kind: &str, data: &[u8], big: bool) -> Option<NpyValues> {
    Some(match kind {
        "f4" => NpyValues::F32(decode(data, big, f32::from_le_bytes)),
        "f8" => NpyValues::F64(decode(data, big, f64::from_le_bytes)),
        "u1" => NpyValues::U8(data.to_vec()),
        "b1" => NpyValues::I64(data.iter().map(|&b| i64::from(b != 0)).collect()),
        "i1" => NpyValues::I64(decode(data, big, |b| i64::from(i8::from_le_bytes(b)))),
        "i2" => NpyValues::I64(decode(data, big, |b| i64::from(i16::from_le_bytes(b)))),
        "u2" => NpyValues::I64(decode(data, big, |b| i64::from(u16::from_le_bytes(b)))),
        "i4" => NpyValues::I64(decode(data, big, |b| i64::from(i32::from_le_bytes(b)))),
        "u4" => NpyValues::I64(decode(data, big, |b| i64::from(u32::from_le_bytes(b)))),
        "i8" => NpyValues::I64(decode(data, big, i64::from_le_bytes)),
        "u8" => NpyValues::I64(decode(data, big, |b| {
            i64::try_from(u64::from_le_bytes(b)).unwrap_or(i64::MAX)
        })),
        _ => return None,
    })
}

/// Fortran order to C order: walk the C indices and keep the Fortran offset in step.
fn reorder<T: Copy>(from: &[T], shape: &[usize]) -> Vec<T> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = 1;
    for &size in shape {
        strides.push(stride);
        stride *= size;
    }
    let mut index = vec![0; shape.len()];
    let mut at = 0;
    let mut to = Vec::with_capacity(from.len());
    for _ in 0..from.len() {
        to.push(from[at]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            at += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            at -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
    to
}

/// Reads an array of real numbers of version 1, 2 or 3, of either byte order, plain or gzipped.
///
/// # Errors
/// When the file is missing, truncated, not an array, or of a type other than numbers.
pub fn read(path: &Path) -> Result<NpyArray, DataError> {
    array(&read_at_most(path, LIMIT, EXPECTED, HINT)?, path)
}

/// The same from a file's content; `origin` is what errors call it.
///
/// # Errors
/// As [`read`], but for a missing file.
///
/// # Examples
/// ```
/// use std::path::Path;
/// use earthmover_ssl::data::npy::{self, NpyValues};
/// let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}";
/// let mut file = b"\x93NUMPY\x01\x00".to_vec();
/// file.extend([header.len() as u8, 0]);
/// file.extend(header.bytes().chain([7, 9]));
/// let array = npy::from_bytes(&file, Path::new("in memory"))?;
/// assert_eq!(array.values, NpyValues::U8(vec![7, 9]));
/// # Ok::<(), earthmover_ssl::data::DataError>(())
/// ```
pub fn from_bytes(bytes: &[u8], origin: &Path) -> Result<NpyArray, DataError> {
    array(
        &unpack_at_most(bytes, origin, LIMIT, EXPECTED, HINT)?,
        origin,
    )
}

fn array(bytes: &[u8], path: &Path) -> Result<NpyArray, DataError> {
    let wrong = |expected: &str, found: String| DataError::corrupt(path, expected, found, HINT);
    let start = &bytes[..bytes.len().min(8)];
    let (header_at, length) = match *bytes {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => {
            (10, u32::from_le_bytes([a, b, 0, 0]))
        }
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _, a, b, c, d, ..] => {
            (12, u32::from_le_bytes([a, b, c, d]))
        }
        _ => {
            return Err(wrong(
                "the bytes \\x93NUMPY and a version from 1 to 3",
                format!("{start:?}"),
            ));
        }
    };
    let data_at = header_at + length as usize;
    let Some(header) = bytes.get(header_at..data_at) else {
        return check_length(
            path,
            bytes.len(),
            data_at as u64,
            "at least the header",
            HINT,
        )
        .and(Err(wrong("a header", String::new())));
    };
    let text = String::from_utf8_lossy(header);
    let Header {
        descr,
        fortran,
        shape,
    } = parse(&text).ok_or_else(|| {
        wrong(
            "a header with descr, fortran_order and shape",
            text.trim().to_owned(),
        )
    })?;
    let types = "a type among b1, i1…i8, u1…u8, f4, f8";
    let (order, kind) = match descr.chars().next() {
        Some(c @ ('<' | '>' | '|' | '=')) => (c, &descr[1..]),
        _ => ('<', descr.as_str()),
    };
    let width: u64 = match kind.get(1..).map(str::parse) {
        Some(Ok(w)) if values(kind, &[], false).is_some() => w,
        _ => return Err(wrong(types, format!("`{descr}`"))),
    };
    let count = shape.iter().fold(1u64, |n, &s| n.saturating_mul(s as u64));
    let what = format!("{data_at} of header and {shape:?} values of {width} bytes");
    let expected = count.saturating_mul(width).saturating_add(data_at as u64);
    check_length(path, bytes.len(), expected, &what, HINT)?;
    // Without its zeros: an empty array has strides and examples with sizes, which must be numbers too.
    let sizes = shape.iter().filter(|&&s| s != 0);
    if sizes
        .copied()
        .try_fold(1usize, usize::checked_mul)
        .is_none()
    {
        let found = format!("{shape:?}");
        return Err(wrong("a shape that fits into memory", found));
    }
    let values =
        values(kind, &bytes[data_at..], order == '>').ok_or_else(|| wrong(types, descr.clone()))?;
    let values = if fortran && shape.len() > 1 {
        match values {
            NpyValues::F32(v) => NpyValues::F32(reorder(&v, &shape)),
            NpyValues::F64(v) => NpyValues::F64(reorder(&v, &shape)),
            NpyValues::U8(v) => NpyValues::U8(reorder(&v, &shape)),
            NpyValues::I64(v) => NpyValues::I64(reorder(&v, &shape)),
        }
    } else {
        values
    };
    Ok(NpyArray { shape, values })
}
