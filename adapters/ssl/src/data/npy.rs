//! NumPy's `.npy` files.
//!
//! ```text
//! \x93NUMPY | major, minor | header length: u16 (major 1) or u32 (2, 3), little-endian | header | values
//! ```
//!
//! The header is a Python dictionary literal with the keys `descr` (type, such as `<f4`), `fortran_order`
//! and `shape`. Values in Fortran order (first index fastest) are put into C order on reading, so callers
//! meet only one.

#[cfg(feature = "cli")]
use std::fs::File;
#[cfg(feature = "cli")]
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

use super::error::DataError;
use super::files::{check_length, read_at_most, unpack_at_most};
use super::stored::map;
use crate::allocation::half_to_single;

const LIMIT: u64 = 1 << 34;
const EXPECTED: &str = "a NumPy array";
const HINT: &str = "Write it with numpy.save(path, array).";

/// The values of an array, widened to one of four types.
#[derive(Clone, Debug, PartialEq)]
pub enum NpyValues {
    /// `f4` and `f2`.
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
        "f2" => NpyValues::F32(decode(data, big, |b| half_to_single(u16::from_le_bytes(b)))),
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

/// What a header says, and where the values begin.
struct Layout {
    kind: String,
    big_endian: bool,
    fortran: bool,
    shape: Vec<usize>,
    data_at: usize,
}

fn layout(bytes: &[u8], path: &Path) -> Result<Layout, DataError> {
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
    let (order, kind) = match descr.chars().next() {
        Some(c @ ('<' | '>' | '|' | '=')) => (c, &descr[1..]),
        _ => ('<', descr.as_str()),
    };
    let width: u64 = match kind.get(1..).map(str::parse) {
        Some(Ok(w)) if values(kind, &[], false).is_some() => w,
        _ => return Err(wrong(TYPES, format!("`{descr}`"))),
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
    Ok(Layout {
        kind: kind.to_owned(),
        big_endian: order == '>',
        fortran: fortran && shape.len() > 1,
        shape,
        data_at,
    })
}

const TYPES: &str = "a type among b1, i1…i8, u1…u8, f2, f4, f8";

fn array(bytes: &[u8], path: &Path) -> Result<NpyArray, DataError> {
    let Layout {
        kind,
        big_endian,
        fortran,
        shape,
        data_at,
    } = layout(bytes, path)?;
    let values = values(&kind, &bytes[data_at..], big_endian)
        .ok_or_else(|| DataError::corrupt(path, TYPES, kind.clone(), HINT))?;
    let values = if fortran {
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

/// An array that stays in its file: mapped into memory, read where it is looked at. C order, `f2`, `f4`, `f8` or `u1`, the byte
/// order of this machine; the file must stay as it is while it is in use.
#[derive(Clone, Debug)]
pub struct MappedArray {
    map: Arc<Mmap>,
    layout: Arc<MappedLayout>,
}

#[derive(Debug)]
struct MappedLayout {
    kind: Element,
    shape: Vec<usize>,
    data_at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    Half,
    Single,
    Double,
    Byte,
}

impl MappedArray {
    /// Maps an array.
    ///
    /// # Errors
    /// When the file is missing, gzipped, truncated, in Fortran order, of the other byte order or of another type.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let map = map(path)?;
        let layout = layout(&map, path)?;
        let kind = match layout.kind.as_str() {
            "f2" => Element::Half,
            "f4" => Element::Single,
            "f8" => Element::Double,
            "u1" => Element::Byte,
            other => {
                let expected = "f2, f4 or f8 numbers (u1 for images)";
                let hint = "Write it with numpy.save(path, array.astype('float32')).";
                return Err(DataError::corrupt(path, expected, other, hint));
            }
        };
        if layout.fortran || layout.big_endian {
            return Err(DataError::corrupt(
                path,
                "an array in C order and in the byte order of this machine",
                if layout.fortran {
                    "Fortran order"
                } else {
                    "the other byte order"
                },
                "Write it with numpy.save(path, numpy.ascontiguousarray(array)).",
            ));
        }
        Ok(Self {
            map: Arc::new(map),
            layout: Arc::new(MappedLayout {
                kind,
                shape: layout.shape,
                data_at: layout.data_at,
            }),
        })
    }

    /// Size along each dimension.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.layout.shape
    }

    /// The file and where its bytes begin, where it holds bytes.
    pub(super) fn bytes(&self) -> Option<(Arc<Mmap>, usize)> {
        let is_bytes = self.layout.kind == Element::Byte;
        is_bytes.then(|| (self.map.clone(), self.layout.data_at))
    }

    /// Reads values `start .. start + out.len()` in C order as single precision; values past the end are left as they are.
    pub fn read(&self, start: usize, out: &mut [f32]) {
        let data = &self.map[self.layout.data_at..];
        match self.layout.kind {
            Element::Half => spread(data, start, out, |b| half_to_single(u16::from_le_bytes(b))),
            Element::Single => spread(data, start, out, f32::from_le_bytes),
            Element::Double => spread(data, start, out, |b| f64::from_le_bytes(b) as f32),
            Element::Byte => spread(data, start, out, |[b]: [u8; 1]| f32::from(b)),
        }
    }
}

fn spread<const N: usize>(
    data: &[u8],
    start: usize,
    out: &mut [f32],
    read: impl Fn([u8; N]) -> f32,
) {
    let from = start.saturating_mul(N).min(data.len());
    let (words, _) = data[from..].as_chunks::<N>();
    for (out, word) in out.iter_mut().zip(words) {
        *out = read(*word);
    }
}

/// Writes an array row by row.
#[cfg(feature = "cli")]
pub(crate) struct Writer {
    file: BufWriter<File>,
}

#[cfg(feature = "cli")]
impl Writer {
    /// An array of this shape, whose values follow by [`Writer::values`].
    pub(crate) fn create(path: &Path, kind: &str, shape: &[usize]) -> io::Result<Self> {
        let mut file = BufWriter::new(File::create(path)?);
        let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
        let comma = if shape.len() == 1 { "," } else { "" };
        let mut header = format!(
            "{{'descr': '{kind}', 'fortran_order': False, 'shape': ({}{comma}), }}",
            sizes.join(", ")
        );
        // The values begin at a multiple of 64 bytes, the header ends with a line break.
        while !(10 + header.len() + 1).is_multiple_of(64) {
            header.push(' ');
        }
        header.push('\n');
        file.write_all(b"\x93NUMPY\x01\x00")?;
        file.write_all(&(header.len() as u16).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        Ok(Self { file })
    }

    pub(crate) fn values(&mut self, values: &[f32]) -> io::Result<()> {
        values
            .iter()
            .try_for_each(|v| self.file.write_all(&v.to_le_bytes()))
    }

    pub(crate) fn integers(&mut self, values: &[i64]) -> io::Result<()> {
        values
            .iter()
            .try_for_each(|v| self.file.write_all(&v.to_le_bytes()))
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()
    }
}
