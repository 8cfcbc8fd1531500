//! Saving an allocator and going on from it as if nothing had happened, bit for bit.
//!
//! Two forms of the same state: serde, for whatever format a project already uses, and a compact binary
//! stream of the costs as they are in memory,
//!
//! ```text
//! "EMLA" version | n k … | γ tolerance ρ cut | lower upper | row bounds? | g | sums? | reference? | factor? | recent β | storage costs | check
//! ```
//!
//! little-endian, with a 64-bit FNV-1a sum of all before it at the end, so that a cut or altered file is
//! refused instead of continued from.

use std::borrow::Cow;
use std::io::{Read, Write};

use earthmover::Checkpoint;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::allocator::{COST_CEILING, LabelAllocator, check_shape};
use super::engine::{AllocationSolver, Settings};
use super::history::WINDOW;
use super::storage::{CostStorage, Stored};
use super::{Bounds, History};
use crate::Error;

const MAGIC: [u8; 4] = *b"EMLA";
const VERSION: u32 = 2;

#[derive(Serialize)]
struct Lent<'a> {
    examples: usize,
    bounds: &'a Bounds,
    row_bounds: Option<&'a [f64]>,
    gamma: f64,
    tolerance: f64,
    max_iterations: usize,
    rho: f64,
    potentials: Vec<f64>,
    sums: Vec<f64>,
    reference: Vec<f64>,
    cut: f64,
    factor: Vec<f64>,
    recent: Vec<&'a [f64]>,
    storage: CostStorage,
    costs: Cow<'a, [f32]>,
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
    potentials: Vec<f64>,
    sums: Vec<f64>,
    reference: Vec<f64>,
    cut: f64,
    factor: Vec<f64>,
    recent: Vec<Vec<f64>>,
    storage: CostStorage,
    costs: Vec<f32>,
}

impl Owned {
    /// The allocator of this state, with costs that were read apart from it.
    fn restore(self, costs: Stored) -> Result<LabelAllocator, Error> {
        let k = self.bounds.classes();
        let broken = |problem: &str| Error::Saved {
            problem: problem.to_owned(),
        };
        if costs.len() != check_shape(self.examples, k)? {
            return Err(broken("its parts have different sizes"));
        }
        let history = History::from_parts(k, self.recent)
            .ok_or_else(|| broken("its history does not fit"))?;
        let settings = Settings {
            // Not part of the state: whoever goes on says how.
            solver: AllocationSolver::Newton,
            gamma: self.gamma,
            tolerance: self.tolerance,
            max_iterations: self.max_iterations,
        };
        let (bounds, rows, rho) = (self.bounds, self.row_bounds, self.rho);
        let mut allocator = LabelAllocator::assemble(bounds, rows, settings, rho, costs, history)?;
        let checkpoint = Checkpoint {
            potentials: self.potentials,
            sums: self.sums,
            reference: self.reference,
            cut: self.cut,
            factor: self.factor,
        };
        allocator.engine.resume(&checkpoint)?;
        // What the solver had to mend, no solver has written.
        if allocator.engine.checkpoint() != checkpoint {
            return Err(broken("its solver was never in such a state"));
        }
        Ok(allocator)
    }
}

/// Rejects what no allocator can have stored.
fn check_costs(costs: &[f32]) -> Result<(), Error> {
    if costs.iter().all(|c| (0.0..=COST_CEILING).contains(c)) {
        return Ok(());
    }
    Err(Error::Saved {
        problem: "a cost is out of range".to_owned(),
    })
}

impl Serialize for LabelAllocator {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let costs = self.costs();
        Lent {
            costs,
            ..self.lent()
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LabelAllocator {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut state = Owned::deserialize(deserializer)?;
        let costs = std::mem::take(&mut state.costs);
        check_costs(&costs).map_err(serde::de::Error::custom)?;
        let mut stored = Stored::empty(state.bounds.classes(), state.storage);
        stored.extend(&costs);
        state.restore(stored).map_err(serde::de::Error::custom)
    }
}

impl LabelAllocator {
    fn lent(&self) -> Lent<'_> {
        let (checkpoint, settings) = (self.engine.checkpoint(), self.engine.settings());
        Lent {
            examples: self.examples,
            bounds: &self.bounds,
            row_bounds: self.engine.row_masses(),
            gamma: settings.gamma,
            tolerance: settings.tolerance,
            max_iterations: settings.max_iterations,
            rho: self.rho,
            potentials: checkpoint.potentials,
            sums: checkpoint.sums,
            reference: checkpoint.reference,
            cut: checkpoint.cut,
            factor: checkpoint.factor,
            recent: self.history.iter().collect(),
            storage: self.engine.costs().storage(),
            costs: Cow::Borrowed(&[]),
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
        out.put_f64(&[state.gamma, state.tolerance, state.rho, state.cut])?;
        out.put_f64(state.bounds.lower())?;
        out.put_f64(state.bounds.upper())?;
        out.put(&[u8::from(state.row_bounds.is_some())])?;
        out.put_f64(state.row_bounds.unwrap_or_default())?;
        out.put_f64(&state.potentials)?;
        for part in [&state.sums, &state.reference, &state.factor] {
            out.put(&[u8::from(!part.is_empty())])?;
            out.put_f64(part)?;
        }
        for beta in state.recent {
            out.put_f64(beta)?;
        }
        let costs = self.engine.costs();
        out.put(&[match costs.storage() {
            CostStorage::Single => 0,
            CostStorage::Half => 1,
            CostStorage::Bfloat => 2,
        }])?;
        // Single precision holds the other two exactly.
        let mut part = vec![0.0f32; CHUNK];
        for start in (0..costs.len()).step_by(CHUNK) {
            let range = start..costs.len().min(start + CHUNK);
            let part = &mut part[..range.len()];
            costs.read(range, part);
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
        let numbers = source.take_f64(4)?;
        let (lower, upper) = (source.take_f64(k)?, source.take_f64(k)?);
        let row_bounds = source.take_optional(examples)?;
        let potentials = source.take_f64(k + 1)?;
        let sums = source.take_optional(k + 1)?.unwrap_or_default();
        let reference = source.take_optional(k + 1)?.unwrap_or_default();
        let triangle = (k + 1).saturating_mul(k + 2) / 2;
        let factor = source.take_optional(triangle)?.unwrap_or_default();
        let recent: Vec<Vec<f64>> = (0..recent)
            .map(|_| source.take_f64(k + 1))
            .collect::<Result<_, _>>()?;
        let storage = match source.take::<1>()? {
            [0] => CostStorage::Single,
            [1] => CostStorage::Half,
            [2] => CostStorage::Bfloat,
            [other] => return Err(broken(format!("cost storage {other}"))),
        };
        let mut costs = Stored::empty(k, storage);
        while costs.len() < cells {
            let part = source.take_f32((cells - costs.len()).min(CHUNK))?;
            check_costs(&part)?;
            let start = costs.len();
            costs.extend(&part);
            let mut kept = vec![0.0; part.len()];
            costs.read(start..costs.len(), &mut kept);
            if kept != part {
                return Err(broken("a cost is finer than its storage".to_owned()));
            }
        }
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
            cut: numbers[3],
            potentials,
            sums,
            reference,
            factor,
            recent,
            storage,
            costs: Vec::new(),
        }
        .restore(costs)
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

    /// Values that may be absent.
    fn take_optional(&mut self, count: usize) -> Result<Option<Vec<f64>>, Error> {
        match self.take::<1>()? {
            [0] => Ok(None),
            [1] => self.take_f64(count).map(Some),
            [other] => Err(Error::Saved {
                problem: format!("a mark of {other} where something is there (1) or not (0)"),
            }),
        }
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
