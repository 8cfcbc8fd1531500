//! Costs that stay in their file: larger than memory, read at the speed of the disk.
//!
//! A `.npy` file of rows × columns numbers (`f2`, `f4` or `f8`, little-endian, C order) is mapped into memory. A sweep reads each row once,
//! in order, and nothing is kept: the system reads ahead and forgets what it needs the room for. What a solver takes beside
//! it is O(rows + columns²).

use core::ops::Range;
use std::fs::File;
use std::io;
use std::path::Path;

use memmap2::Mmap;

use super::Cost;

/// A `.npy` file as a cost, in `f32` or `f64` whatever the file holds. The file must stay as it is while it is in use.
///
/// # Examples
/// ```
/// use earthmover::cost::Mapped;
/// use earthmover::{Entropic, Marginals, Problem};
/// # let path = std::env::temp_dir().join(format!("earthmover-mapped-{}.npy", std::process::id()));
/// # let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";
/// # let mut file = b"\x93NUMPY\x01\x00".to_vec();
/// # file.extend([header.len() as u8, 0]);
/// # file.extend(header.bytes().chain([0.0f32, 1.0, 1.0, 0.0].iter().flat_map(|c| c.to_le_bytes())));
/// # std::fs::write(&path, file)?;
/// let cost = Mapped::open(&path)?; // numpy.save("costs.npy", costs)
/// let problem = Problem::<f32, _>::new(cost, Marginals::uniform(2, 2)?)?;
/// assert!(Entropic::new(0.01).solve(&problem)?.objective() < 1e-9);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Mapped {
    map: Mmap,
    /// Where the numbers begin.
    start: usize,
    rows: usize,
    cols: usize,
    element: Element,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    Half,
    Single,
    Double,
}

impl Element {
    fn bytes(self) -> usize {
        match self {
            Self::Half => 2,
            Self::Single => 4,
            Self::Double => 8,
        }
    }
}

impl Mapped {
    /// Maps a file.
    ///
    /// # Errors
    /// Where it is missing, cut short, or no table of such numbers: says which.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = File::open(path)?;
        // SAFETY: the mapping is only read. A file that is changed by others while it is mapped changes numbers, as documented; one
        // that is cut short ends the process, as it would for any reader of mapped files.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file)? };
        #[cfg(unix)]
        let _ = map.advise(memmap2::Advice::Sequential);
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let (start, header) =
            header(&map).ok_or_else(|| wrong("not a .npy file of version 1, 2 or 3"))?;
        let element = match value(header, "descr") {
            Some("<f2") => Element::Half,
            Some("<f4") => Element::Single,
            Some("<f8") => Element::Double,
            _ => return Err(wrong("costs must be <f2, <f4 or <f8 numbers")),
        };
        if value(header, "fortran_order") != Some("False") {
            return Err(wrong("costs must be in C order"));
        }
        let (rows, cols) = shape(header).ok_or_else(|| wrong("costs must be rows by columns"))?;
        let bytes = rows
            .checked_mul(cols)
            .and_then(|n| n.checked_mul(element.bytes()));
        let whole = bytes.and_then(|bytes| bytes.checked_add(start));
        if whole.is_none_or(|whole| whole > map.len()) {
            return Err(wrong("the file ends before its last row"));
        }
        Ok(Self {
            map,
            start,
            rows,
            cols,
            element,
        })
    }

    /// Rows and columns.
    #[must_use]
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// The bytes of some entries.
    fn bytes(&self, entries: Range<usize>) -> &[u8] {
        let width = self.element.bytes();
        &self.map[self.start + entries.start * width..self.start + entries.end * width]
    }

    /// Some entries, one after the other.
    fn read<T>(&self, from: usize, out: &mut [T], single: fn(f32) -> T, double: fn(f64) -> T) {
        let bytes = self.bytes(from..from + out.len());
        match self.element {
            Element::Half => {
                let words = bytes.as_chunks::<2>().0.iter().zip(out);
                words.for_each(|(b, c)| *c = single(from_half(u16::from_le_bytes(*b))));
            }
            Element::Single => {
                let words = bytes.as_chunks::<4>().0.iter().zip(out);
                words.for_each(|(b, c)| *c = single(f32::from_le_bytes(*b)));
            }
            Element::Double => {
                let words = bytes.as_chunks::<8>().0.iter().zip(out);
                words.for_each(|(b, c)| *c = double(f64::from_le_bytes(*b)));
            }
        }
    }
}

macro_rules! costs {
    ($($scalar:ty: $single:expr, $double:expr);*) => {$(
        impl Cost<$scalar> for Mapped {
            fn rows(&self) -> usize {
                self.rows
            }

            fn cols(&self) -> usize {
                self.cols
            }

            fn at(&self, row: usize, col: usize) -> $scalar {
                let mut entry = [0.0];
                self.read(row * self.cols + col, &mut entry, $single, $double);
                entry[0]
            }

            fn fill(&self, rows: Range<usize>, out: &mut [$scalar]) {
                self.read(rows.start * self.cols, out, $single, $double);
            }
        }
    )*};
}

costs!(f32: |c| c, |c| c as f32; f64: f64::from, |c| c);

/// Where the numbers begin, and the header.
fn header(file: &[u8]) -> Option<(usize, &str)> {
    let (from, length): (usize, usize) = match *file {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => {
            (10, usize::from(u16::from_le_bytes([a, b])))
        }
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _, a, b, c, d, ..] => {
            (12, u32::from_le_bytes([a, b, c, d]) as usize)
        }
        _ => return None,
    };
    let end = from.checked_add(length)?;
    Some((end, core::str::from_utf8(file.get(from..end)?).ok()?))
}

/// What a key of the header's dictionary is, without quotes.
fn value<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = header.split_once(&format!("'{key}':"))?;
    let word = rest.split(',').next()?;
    Some(word.trim().trim_matches('\''))
}

fn shape(header: &str) -> Option<(usize, usize)> {
    let (_, rest) = header.split_once("'shape':")?;
    let inside = rest.trim_start().strip_prefix('(')?.split(')').next()?;
    let sizes = inside.split(',').map(str::trim).filter(|s| !s.is_empty());
    let sizes: Vec<usize> = sizes.map(|s| s.parse().ok()).collect::<Option<_>>()?;
    match sizes[..] {
        [rows, cols] => Some((rows, cols)),
        _ => None,
    }
}

/// A number of half precision: 1 bit of sign, 5 of exponent, 10 of fraction.
fn from_half(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (bits >> 15, bits >> 10 & 31, f32::from(bits & 1023));
    let size = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        e => (1024.0 + fraction) * 2f32.powi(i32::from(e) - 25),
    };
    if sign == 1 { -size } else { size }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::cost::Cost;

    fn file(descr: &str, shape: &str, values: &[u8]) -> std::path::PathBuf {
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.bytes().chain(values.iter().copied()));
        let name = format!(
            "earthmover-{}-{}-{shape}-{}.npy",
            std::process::id(),
            &descr[1..],
            values.len()
        );
        let path = std::env::temp_dir().join(name.replace(['(', ')', ' ', ','], "_"));
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn all_widths_are_read_and_wrong_files_refused() {
        let numbers = [0.5f64, -2.0, 1024.0, 0.0, 65504.0, 6.103_515_625e-5];
        let halves: Vec<u8> = [0x3800u16, 0xc000, 0x6400, 0, 0x7bff, 0x0400]
            .iter()
            .flat_map(|h| h.to_le_bytes())
            .collect();
        let singles: Vec<u8> = numbers
            .iter()
            .flat_map(|c| (*c as f32).to_le_bytes())
            .collect();
        let doubles: Vec<u8> = numbers.iter().flat_map(|c| c.to_le_bytes()).collect();
        for (descr, bytes) in [("<f2", &halves), ("<f4", &singles), ("<f8", &doubles)] {
            let path = file(descr, "(3, 2)", bytes);
            let cost = Mapped::open(&path).unwrap();
            let (mut wide, mut narrow) = ([0.0f64; 6], [0.0f32; 4]);
            cost.fill(0..3, &mut wide);
            cost.fill(1..3, &mut narrow);
            assert_eq!(wide, numbers);
            assert_eq!(narrow.map(f64::from), numbers[2..]);
            assert_eq!(Cost::<f64>::at(&cost, 2, 0), 65504.0);
            std::fs::remove_file(&path).unwrap();
        }
        assert!(from_half(0x7e00).is_nan() && from_half(0xfc00) == f32::NEG_INFINITY);
        for (descr, shape) in [
            ("<i4", "(3, 2)"),
            (">f8", "(3, 2)"),
            ("<f8", "(3,)"),
            ("<f8", "(4, 2)"),
        ] {
            let path = file(descr, shape, &doubles);
            assert!(Mapped::open(&path).is_err(), "{descr} {shape}");
            std::fs::remove_file(&path).unwrap();
        }
    }
}
