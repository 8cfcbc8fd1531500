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
use std::ops::Range;
use std::sync::Arc;

use earthmover::Checkpoint;
use earthmover::team::{Shard, Team};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::allocator::{COST_CEILING, LabelAllocator, check_shape};
use super::engine::{AllocationSolver, Settings};
use super::history::WINDOW;
use super::storage::{CostStorage, Stored};
use super::{Bounds, History};
use crate::Error;
use crate::fingerprint::Fingerprint;

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
    truncation: f64,
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
    truncation: f64,
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
        check_shape(self.examples, k)?;
        let held = costs.part().map_or(self.examples, |part| part.rows().len());
        if costs.len() != held * k {
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
        let mut checkpoint = Checkpoint::default();
        checkpoint.potentials = self.potentials;
        checkpoint.sums = self.sums;
        checkpoint.reference = self.reference;
        checkpoint.truncation = self.truncation;
        checkpoint.factor = self.factor;
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
            truncation: checkpoint.truncation,
            factor: checkpoint.factor,
            recent: self.history.iter().collect(),
            storage: self.engine.costs().storage(),
            costs: Cow::Borrowed(&[]),
        }
    }

    /// Writes the whole state in the compact binary form. Wrap files in a `BufWriter`. Members of a team all call it, and each writes the
    /// same as one machine would: all but one may write to [`std::io::sink`].
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
        out.put_f64(&[state.gamma, state.tolerance, state.rho, state.truncation])?;
        out.put_f64(state.bounds.lower())?;
        out.put_f64(state.bounds.upper())?;
        let costs = self.engine.costs();
        out.put(&[u8::from(state.row_bounds.is_some())])?;
        match (state.row_bounds, costs.part()) {
            (Some(own), Some(shard)) => out.put_f64(&shard.team().gather(own)?.concat())?,
            (own, _) => out.put_f64(own.unwrap_or_default())?,
        }
        out.put_f64(&state.potentials)?;
        for part in [&state.sums, &state.reference, &state.factor] {
            out.put(&[u8::from(!part.is_empty())])?;
            out.put_f64(part)?;
        }
        for beta in state.recent {
            out.put_f64(beta)?;
        }
        out.put(&[match costs.storage() {
            CostStorage::Single => 0,
            CostStorage::Half => 1,
            CostStorage::Bfloat => 2,
        }])?;
        // Single precision holds the other two exactly.
        let mut part = vec![0.0f32; CHUNK];
        let mut write = |range: Range<usize>, out: &mut Summed<_>| {
            let part = &mut part[..range.len()];
            costs.read(range, part);
            out.put_f32(part)
        };
        match costs.part() {
            None => {
                for start in (0..costs.len()).step_by(CHUNK) {
                    write(start..costs.len().min(start + CHUNK), &mut out)?;
                }
            }
            Some(shard) => {
                // One member after the other says what it has.
                let k = self.classes();
                let members = shard.team().size();
                for (rank, rows) in Shard::split(shard.whole(), k, members).iter().enumerate() {
                    for start in (0..rows.len() * k).step_by(ROUND) {
                        let range = start..(rows.len() * k).min(start + ROUND);
                        let mut mine = Vec::new();
                        if rank == shard.team().rank() {
                            let mut own = vec![0.0f32; range.len()];
                            costs.read(range, &mut own);
                            mine = own.iter().map(|c| f64::from(*c)).collect();
                        }
                        let said = shard.team().gather(&mine)?.concat();
                        out.put_f32(&said.iter().map(|c| *c as f32).collect::<Vec<_>>())?;
                    }
                }
            }
        }
        let check = out.check.value();
        out.put(&check.to_le_bytes())?;
        Ok(out.inner.flush()?)
    }

    /// Reads what [`save`](Self::save) wrote.
    ///
    /// # Errors
    /// [`Error::Io`] where reading fails or the stream ends early, [`Error::Saved`] for another format, a
    /// damaged stream or values that make no allocator.
    pub fn load(reader: impl Read) -> Result<Self, Error> {
        Self::load_part(reader, None)
    }

    /// The same for a member of a team, of any size: each reads all of the stream and keeps its own examples. All members call it.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_over(reader: impl Read, team: Arc<dyn Team>) -> Result<Self, Error> {
        Self::load_part(reader, Some(team))
    }

    fn load_part(reader: impl Read, team: Option<Arc<dyn Team>>) -> Result<Self, Error> {
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
        let shard = team.map(|team| Shard::new(team, examples, k));
        let own = shard.as_ref().map_or(0..examples, Shard::rows);
        let row_bounds = source
            .take_optional(examples)?
            .map(|a| a[own.clone()].to_vec());
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
        let mut costs = Stored::empty(k, storage).part_of(shard);
        let (mut at, own) = (0, own.start * k..own.end * k);
        while at < cells {
            let part = source.take_f32((cells - at).min(CHUNK))?;
            check_costs(&part)?;
            let mut rounded = Stored::empty(k, storage);
            rounded.extend(&part);
            let mut kept = vec![0.0; part.len()];
            rounded.read(0..part.len(), &mut kept);
            if kept != part {
                return Err(broken("a cost is finer than its storage".to_owned()));
            }
            let (from, to) = (own.start.max(at), own.end.min(at + part.len()));
            if from < to {
                costs.extend(&part[from - at..to - at]);
            }
            at += part.len();
        }
        let check = source.check.value();
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
            truncation: numbers[3],
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

/// Values that a member of a team says at a time.
const ROUND: usize = 1 << 20;

/// Values handled at a time, so that buffers stay small however large the costs are.
const CHUNK: usize = 1 << 14;

/// A stream that sums what passes through it.
struct Summed<S> {
    inner: S,
    check: Fingerprint,
}

impl<S> Summed<S> {
    fn new(inner: S) -> Self {
        Self {
            inner,
            check: Fingerprint::default(),
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.check.bytes(bytes);
    }
}

impl<W: Write> Summed<W> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.add(bytes);
        Ok(self.inner.write_all(bytes)?)
    }

    fn put_f32(&mut self, values: &[f32]) -> Result<(), Error> {
        for part in values.chunks(CHUNK) {
            let bytes: Vec<u8> = part.iter().flat_map(|v| v.to_le_bytes()).collect();
            self.put(&bytes)?;
        }
        Ok(())
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
