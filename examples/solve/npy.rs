//! NumPy's `.npy` format, versions 1 and 2, for real arrays of one or two dimensions.
//!
//! ```text
//! \x93NUMPY  major minor  header length (u16 or u32, little-endian)
//! {'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }  padding  \n
//! entries
//! ```

use std::path::Path;

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// An array in row-major order, whatever the order in the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Array {
    /// Lengths of the dimensions, outermost first.
    pub(crate) shape: Vec<usize>,
    /// The entries, row after row.
    pub(crate) entries: Vec<f64>,
}

/// Reads a file; the message of an error begins with its path.
pub(crate) fn read(path: &Path) -> Result<Array, String> {
    std::fs::read(path)
        .map_err(|e| e.to_string())
        .and_then(|bytes| parse(&bytes))
        .map_err(|e| format!("{}: {e}", path.display()))
}

/// Writes a matrix as version 1, `<f8`, C order.
pub(crate) fn write(path: &Path, entries: &[f64], rows: usize, cols: usize) -> Result<(), String> {
    std::fs::write(path, format(entries, rows, cols))
        .map_err(|e| format!("{}: {e}", path.display()))
}

fn format(entries: &[f64], rows: usize, cols: usize) -> Vec<u8> {
    let mut header =
        format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, {cols}), }}");
    // NumPy aligns the entries to 64 bytes.
    while !(MAGIC.len() + 4 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&[1, 0]);
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend(entries.iter().flat_map(|x| x.to_le_bytes()));
    bytes
}

fn parse(bytes: &[u8]) -> Result<Array, String> {
    if !bytes.starts_with(MAGIC) {
        return Err("not an npy file".into());
    }
    let (start, length) = match bytes.get(6..12) {
        Some(&[1, _, a, b, ..]) => (10, usize::from(u16::from_le_bytes([a, b]))),
        Some(&[2, _, a, b, c, d]) => (12, u32::from_le_bytes([a, b, c, d]) as usize),
        Some(&[major, ..]) => return Err(format!("npy version {major} is neither 1 nor 2")),
        _ => return Err("cut short within the header".into()),
    };
    let header = bytes
        .get(start..start + length)
        .and_then(|h| std::str::from_utf8(h).ok())
        .ok_or("cut short within the header")?;
    let descr = field(header, "descr")?.trim_matches(|c| c == '\'' || c == '"');
    let fortran = field(header, "fortran_order")?.starts_with("True");
    let shape = shape(field(header, "shape")?)?;
    let count = shape
        .iter()
        .try_fold(1usize, |all, &length| all.checked_mul(length))
        .ok_or_else(|| format!("shape {shape:?} is too large"))?;

    let data = &bytes[start + length..];
    let width = match descr {
        "<f4" => 4,
        "<f8" => 8,
        other => return Err(format!("entries of type {other}; expected <f4 or <f8")),
    };
    if count.checked_mul(width) != Some(data.len()) {
        let found = data.len() / width;
        return Err(format!(
            "shape {shape:?} asks for {count} entries, found {found}"
        ));
    }
    let number = |b: &[u8]| match *b {
        [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => f64::NAN,
    };
    let mut entries: Vec<f64> = data.chunks_exact(width).map(number).collect();
    if let (true, &[rows, cols]) = (fortran, &shape[..]) {
        entries = (0..count)
            .map(|at| entries[at % cols * rows + at / cols])
            .collect();
    }
    Ok(Array { shape, entries })
}

/// The text after `'name':` in the header, which is a Python dictionary of known form.
fn field<'h>(header: &'h str, name: &str) -> Result<&'h str, String> {
    let missing = || format!("the header has no {name}");
    let at = header.find(&format!("'{name}'")).ok_or_else(missing)?;
    let (_, value) = header[at..].split_once(':').ok_or_else(missing)?;
    let value = value.trim_start();
    let end = if value.starts_with('(') {
        value.find(')').map(|at| at + 1)
    } else {
        value.find([',', '}'])
    };
    end.map(|end| value[..end].trim()).ok_or_else(missing)
}

fn shape(text: &str) -> Result<Vec<usize>, String> {
    let lengths = text.trim_matches(['(', ')']).split(',').map(str::trim);
    let shape: Result<Vec<usize>, _> = lengths.filter(|l| !l.is_empty()).map(str::parse).collect();
    match shape {
        Ok(shape) if matches!(shape.len(), 1 | 2) => Ok(shape),
        _ => Err(format!("shape {text} is neither a vector nor a matrix")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&[version, 0]);
        if version == 1 {
            bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
        } else {
            bytes.extend_from_slice(&(header.len() as u32).to_le_bytes());
        }
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    fn doubles(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let entries = [1.0, -2.5, f64::INFINITY, 0.0, 1e-300, 7.0];
        let bytes = format(&entries, 2, 3);
        assert_eq!(bytes.len() % 64, (entries.len() * 8) % 64);
        let array = parse(&bytes).unwrap();
        assert_eq!(array.shape, [2, 3]);
        assert_eq!(array.entries, entries);
    }

    #[test]
    fn columns_first_becomes_rows_first() {
        let header = "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }\n";
        let data = doubles(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        for version in [1, 2] {
            let array = parse(&file(version, header, &data)).unwrap();
            assert_eq!(array.entries, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        }
    }

    #[test]
    fn single_precision_vectors_are_widened() {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
        let data: Vec<u8> = [0.5f32, 0.25]
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect();
        let array = parse(&file(1, header, &data)).unwrap();
        assert_eq!((array.shape, array.entries), (vec![2], vec![0.5, 0.25]));
    }

    #[test]
    fn every_defect_has_its_message() {
        let good = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n";
        let cases = [
            (b"PK\x03\x04".to_vec(), "not an npy file"),
            (MAGIC.to_vec(), "cut short"),
            (file(3, good, &[]), "version 3"),
            (
                file(1, good, &doubles(&[1.0])),
                "asks for 2 entries, found 1",
            ),
            (file(1, &good.replace("<f8", "<i8"), &[]), "type <i8"),
            (
                file(1, &good.replace("(2,)", "(2, 2, 2)"), &[]),
                "neither a vector",
            ),
            (file(1, &good.replace("descr", "other"), &[]), "no descr"),
        ];
        for (bytes, message) in cases {
            let error = parse(&bytes).unwrap_err();
            assert!(error.contains(message), "{error:?} lacks {message:?}");
        }
    }
}
