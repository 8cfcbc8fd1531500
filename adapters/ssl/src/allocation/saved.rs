//! Saving an allocator and going on from it as if nothing had happened, bit for bit.
//!
//! Two forms of the same state: serde, for whatever format a project already uses, and a compact binary
//! stream of the costs as they are in memory,
//!
//! ```text
//! "EMLA" version | n k | γ tolerance cap ρ | lower upper | row bounds? | β | sums | recent β | costs | check
//! ```
//!
//! little-endian, with a 64-bit FNV-1a sum of all before it at the end, so that a cut or altered file is
//! refused instead of continued from.

use std::io::{Read, Write};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::allocator::{LabelAllocator, Settings, check_shape};
use super::history::WINDOW;
use super::{Bounds, History};
use crate::Error;

const MAGIC: [u8; 4] = *b"EMLA";
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Lent<'a> {
    examples: usize,
    bounds: &'a Bounds,
    row_bounds: Option<&'a [f64]>,
    gamma: f64,
    tolerance: f64,
    max_iterations: usize,
    rho: f64,
    scaling: &'a [f64],
    sums: &'a [f64],
    recent: Vec<&'a [f64]>,
    costs: &'a [f32],
}

#[derive(Deserialize)]
struct Owned {
    examples: usize,
    bounds: Bounds,
    row_bounds: Option<Vec<f64>>,
    gamma: f64,
    tolerance: f64,
    max_iterations: usize,
    rho: f64,
    scaling: Vec<f64>,
    sums: Vec<f64>,
    recent: Vec<Vec<f64>>,
    costs: Vec<f32>,
}

impl Owned {
    fn restore(self) -> Result<LabelAllocator, Error> {
        let k = self.bounds.classes();
        let cells = check_shape(self.examples, k)?;
        let broken = |problem: &str| Error::Saved {
            problem: problem.to_owned(),
        };
        if self.costs.len() != cells || self.scaling.len() != k + 1 || self.sums.len() != k + 1 {
            return Err(broken("its parts have different sizes"));
        }
        if self.costs.iter().any(|c| !(0.0..=f32::MAX).contains(c)) {
            return Err(broken("a cost is negative or not a number"));
        }
        let finite = self.scaling.iter().chain(&self.sums).all(|v| v.is_finite());
        if !finite {
            return Err(broken("a scaling variable is not a number"));
        }
        let history = History::from_parts(k, self.recent)
            .ok_or_else(|| broken("its history does not fit"))?;
        LabelAllocator::assemble(
            self.examples,
            self.bounds,
            self.row_bounds,
            Settings {
                gamma: self.gamma,
                tolerance: self.tolerance,
                max_iterations: self.max_iterations,
            },
            self.rho,
            self.costs,
            self.scaling,
            self.sums,
            history,
        )
    }
}

impl Serialize for LabelAllocator {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.lent().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LabelAllocator {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Owned::deserialize(deserializer)?
            .restore()
            .map_err(serde::de::Error::custom)
    }
}

impl LabelAllocator {
    fn lent(&self) -> Lent<'_> {
        Lent {
            examples: self.examples,
            bounds: &self.bounds,
            row_bounds: self.engine.row_masses(),
            gamma: self.settings.gamma,
            tolerance: self.settings.tolerance,
            max_iterations: self.settings.max_iterations,
            rho: self.rho,
            scaling: self.engine.scaling(),
            sums: self.engine.sums(),
            recent: self.history.iter().collect(),
            costs: self.engine.costs(),
        }
    }

    /// Writes the whole state in the compact binary form. Wrap files in a `BufWriter`.
    ///
    /// # Errors
    /// [`Error::Io`] where writing fails.
    ///
    /// # Examples
    /// ```
    /// use earthmover_ssl::allocation::LabelAllocator;
    /// let mut allocator = LabelAllocator::options(3, 2).build()?;
    /// let mut bytes = Vec::new();
    /// allocator.save(&mut bytes)?;
    /// let mut again = LabelAllocator::load(bytes.as_slice())?;
    /// let (ours, theirs) = (allocator.allocate(0.5)?, again.allocate(0.5)?);
    /// assert_eq!(ours.mass, theirs.mass);
    /// # Ok::<(), earthmover_ssl::Error>(())
    /// ```
    pub fn save(&self, writer: impl Write) -> Result<(), Error> {
        let state = self.lent();
        let mut out = Summed::new(writer);
        out.put(&MAGIC)?;
        out.put(&VERSION.to_le_bytes())?;
        let cap = state.max_iterations;
        for count in [state.examples, self.classes(), cap, state.recent.len()] {
            out.put(&(count as u64).to_le_bytes())?;
        }
        out.put_f64(&[state.gamma, state.tolerance, state.rho])?;
        out.put_f64(state.bounds.lower())?;
        out.put_f64(state.bounds.upper())?;
        out.put(&[u8::from(state.row_bounds.is_some())])?;
        out.put_f64(state.row_bounds.unwrap_or_default())?;
        out.put_f64(state.scaling)?;
        out.put_f64(state.sums)?;
        for beta in state.recent {
            out.put_f64(beta)?;
        }
        for part in state.costs.chunks(CHUNK) {
            let bytes: Vec<u8> = part.iter().flat_map(|c| c.to_le_bytes()).collect();
            out.put(&bytes)?;
        }
        let check = out.check;
        out.put(&check.to_le_bytes())?;
        Ok(out.inner.flush()?)
    }

    /// Reads what [`save`](Self::save) wrote.
    ///
    /// # Errors
    /// [`Error::Io`] where reading fails or the stream ends early, [`Error::Saved`] for another format, a
    /// damaged stream or values that make no allocator.
    pub fn load(reader: impl Read) -> Result<Self, Error> {
        let broken = |problem: String| Error::Saved { problem };
        let mut source = Summed::new(reader);
        if source.take::<4>()? != MAGIC {
            return Err(broken("it does not start with EMLA".to_owned()));
        }
        let version = u32::from_le_bytes(source.take()?);
        if version != VERSION {
            return Err(broken(format!("version {version}, expected {VERSION}")));
        }
        let mut counts = [0usize; 4];
        for count in &mut counts {
            let wide = u64::from_le_bytes(source.take()?);
            *count = usize::try_from(wide).map_err(|_| broken(format!("a size of {wide}")))?;
        }
        let [examples, k, max_iterations, recent] = counts;
        let cells = check_shape(examples, k)?;
        if recent > WINDOW {
            return Err(broken(format!("a history of {recent} solves")));
        }
        let numbers = source.take_f64(3)?;
        let (lower, upper) = (source.take_f64(k)?, source.take_f64(k)?);
        let row_bounds = match source.take::<1>()? {
            [0] => None,
            _ => Some(source.take_f64(examples)?),
        };
        let (scaling, sums) = (source.take_f64(k + 1)?, source.take_f64(k + 1)?);
        let recent: Vec<Vec<f64>> = (0..recent)
            .map(|_| source.take_f64(k + 1))
            .collect::<Result<_, _>>()?;
        let costs = source.take_f32(cells)?;
        let check = source.check;
        if u64::from_le_bytes(source.take()?) != check {
            return Err(broken("its check sum does not match".to_owned()));
        }
        Owned {
            examples,
            bounds: Bounds::between(&lower, &upper)?,
            row_bounds,
            gamma: numbers[0],
            tolerance: numbers[1],
            max_iterations,
            rho: numbers[2],
            scaling,
            sums,
            recent,
            costs,
        }
        .restore()
    }
}

/// Values handled at a time, so that buffers stay small however large the costs are.
const CHUNK: usize = 1 << 14;

/// A stream that sums what passes through it.
struct Summed<S> {
    inner: S,
    check: u64,
}

impl<S> Summed<S> {
    fn new(inner: S) -> Self {
        Self {
            inner,
            check: 0xcbf2_9ce4_8422_2325,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.check = (self.check ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl<W: Write> Summed<W> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.add(bytes);
        Ok(self.inner.write_all(bytes)?)
    }

    fn put_f64(&mut self, values: &[f64]) -> Result<(), Error> {
        for part in values.chunks(CHUNK) {
            let bytes: Vec<u8> = part.iter().flat_map(|v| v.to_le_bytes()).collect();
            self.put(&bytes)?;
        }
        Ok(())
    }
}

impl<R: Read> Summed<R> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes)?;
        self.add(&bytes);
        Ok(bytes)
    }

    /// `count` values of `width` bytes, read in pieces: a lying header cannot make us reserve memory for
    /// data that is not there.
    fn take_many<T>(
        &mut self,
        count: usize,
        width: usize,
        decode: impl Fn(&[u8]) -> T,
    ) -> Result<Vec<T>, Error> {
        let mut values = Vec::new();
        let mut bytes = vec![0; CHUNK * width];
        while values.len() < count {
            let part = &mut bytes[..(count - values.len()).min(CHUNK) * width];
            self.inner.read_exact(part)?;
            self.add(part);
            values.extend(part.chunks_exact(width).map(&decode));
        }
        Ok(values)
    }

    fn take_f64(&mut self, count: usize) -> Result<Vec<f64>, Error> {
        self.take_many(count, 8, |b| {
            f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])
        })
    }

    fn take_f32(&mut self, count: usize) -> Result<Vec<f32>, Error> {
        self.take_many(count, 4, |b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }
}
