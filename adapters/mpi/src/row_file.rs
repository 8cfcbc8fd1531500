//! A `.npy` file to which every rank writes its own rows.
//!
//! The first rank writes the header, each rank its rows where they belong, and when all have done so the first rank gives the file its
//! name: under that name there is a whole file or none. Ranks must see the same file system.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use earthmover::team::Shard;

/// A number that a `.npy` file can hold.
pub trait Word: Copy {
    /// Its type in the header.
    const DESCR: &'static str;
    /// Its bytes, little-endian.
    fn put(self, out: &mut Vec<u8>);
}

macro_rules! words {
    ($($word:ty: $descr:literal),*) => {$(
        impl Word for $word {
            const DESCR: &'static str = $descr;
            fn put(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

words!(f32: "<f4", f64: "<f8", i32: "<i4", i64: "<i8");

/// A file that the ranks of a shard's team write together.
#[derive(Debug)]
pub struct RowFile {
    file: File,
    part: PathBuf,
    whole: PathBuf,
    shard: Shard,
    header: u64,
    width: usize,
}

impl RowFile {
    /// Begins a file of one row of `width` numbers for each row of the problem (a vector for a width of zero). All ranks call it.
    ///
    /// # Errors
    /// Where a rank cannot open it, on all of them.
    pub fn create<W: Word>(path: &Path, shard: &Shard, width: usize) -> io::Result<Self> {
        let part = path.with_extension("npy.part");
        let header = header::<W>(shard.whole(), width);
        let begun = match shard.team().rank() {
            0 => File::create(&part).and_then(|file| file.write_all_at(&header, 0)),
            _ => Ok(()),
        };
        agree(shard, begun)?;
        let opened = OpenOptions::new().write(true).open(&part);
        Ok(Self {
            file: agree(shard, opened)?,
            part,
            whole: path.to_owned(),
            shard: shard.clone(),
            header: header.len() as u64,
            width: width.max(1),
        })
    }

    /// Writes some of this rank's rows, from row `first` of its own on.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn write<W: Word>(&self, first: usize, numbers: &[W]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(size_of_val(numbers));
        numbers.iter().for_each(|n| n.put(&mut bytes));
        let row = (self.shard.rows().start + first) as u64;
        let at = self.header + row * (self.width * size_of::<W>()) as u64;
        self.file.write_all_at(&bytes, at)
    }

    /// Ends the file: `written` is how this rank fared. All ranks call it; where one of them failed there is no file.
    ///
    /// # Errors
    /// The first rank's that failed, on all of them.
    pub fn finish(self, written: io::Result<()>) -> io::Result<()> {
        let written = written.and_then(|()| self.file.sync_all());
        let whole = agree(&self.shard, written);
        let first = self.shard.team().rank() == 0;
        let named = match &whole {
            Ok(()) if first => std::fs::rename(&self.part, &self.whole),
            Err(_) if first => std::fs::remove_file(&self.part),
            _ => Ok(()),
        };
        whole?;
        agree(&self.shard, named)
    }
}

/// The same outcome on all ranks.
fn agree<R>(shard: &Shard, mine: io::Result<R>) -> io::Result<R> {
    let word = |error: io::Error| earthmover::Error::Backend {
        backend: "file",
        message: error.to_string(),
    };
    shard.agree(mine.map_err(word)).map_err(io::Error::other)
}

fn header<W: Word>(rows: usize, width: usize) -> Vec<u8> {
    let shape = match width {
        0 => format!("({rows},)"),
        _ => format!("({rows}, {width})"),
    };
    let mut text = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': {shape}, }}",
        W::DESCR
    );
    // Values begin at a multiple of 64.
    while !(10 + text.len() + 1).is_multiple_of(64) {
        text.push(' ');
    }
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}
