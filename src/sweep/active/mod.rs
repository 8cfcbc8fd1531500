//! Sweeps over the entries that matter.
//!
//! At small ε a row's mass sits on one column, or is shared by two or three: every other entry of P(g) is
//! below e⁻¹⁶ and stays so while g moves a little. [`Active`] keeps, per row, only the entries within
//!
//! ```text
//! (g_j − C_ij)/ε  ≥  max_j (g_j − C_ij)/ε  −  (truncation + 2 · drift_radius)
//! ```
//!
//! of the row's best. While no potential has moved more than `drift_radius` (in units of ε, a common shift not
//! counted) from where the lists were made, what is left out weighs less than e^−truncation: the tolerance sets
//! it. A row with one entry left costs nothing at all. When the potentials have moved further the lists are made
//! anew; a row remembers how far behind the entries are that it leaves out, so that hardly any has to be read again.

mod entries;
mod select;

pub(crate) use entries::MOST_LISTED;

use core::ops::Range;

use crate::Rewritable;
use crate::cost::{copy_row, lend_row};
use crate::kernel::interrupt::Interrupt;
use crate::kernel::tiles::{fold, is_curved, is_shared, is_split, leaves, map_tiles};
use crate::problem::penalty::Law;
use crate::sweep::rows::{RowRule, RowState, TileSums, add, padded, sweep_rows};
use crate::sweep::streamed::{largest_finite, log_sums_of, resolution};
use crate::sweep::{Backend, Curvature, DualPoint, diagnose_row};
use crate::{Cost, Error, Real};
use entries::{Filed, Record, Tile, add_records, refile};
use select::classify;

/// How far potentials may move, in units of ε, before the lists are made anew, unless said otherwise.
const DRIFT_RADIUS: f64 = 8.0;

/// Rows touched before the first of them is read.
const ROWS_AHEAD: usize = 32;

/// Whole rows swept together.
const ROWS_TOGETHER: usize = 64;

/// Sweeps over the entries that matter of a cost it owns or borrows.
#[derive(Debug, Clone)]
pub(crate) struct Active<T, C> {
    pub(crate) cost: C,
    masses: Vec<f64>,
    /// The mass of every row, if they are all the same.
    level: Option<f64>,
    tiles: Vec<Tile<T>>,
    /// The first row of each tile.
    starts: Vec<usize>,
    /// −ln of the weight that may be left out.
    truncation: f64,
    /// How far potentials may move, in units of ε, before the lists are made anew.
    drift_radius: f64,
    /// Potentials the lists were made at, slack's logit last; empty before the first sweep.
    reference: Vec<f64>,
    epsilon: f64,
    /// Largest |top| when the lists were made.
    reach: f64,
    shift: f64,
    last: Vec<f64>,
    last_slack: f64,
    resolution: f64,
    interrupt: Interrupt,
}

impl<T: Real, C: Cost<T>> Active<T, C> {
    /// A backend that leaves out what weighs less than `drop_tolerance` of a row altogether.
    pub(crate) fn new(cost: C, masses: Vec<f64>, drop_tolerance: f64) -> Self {
        let (n, k) = (cost.rows(), cost.cols());
        let starts = leaves(n, k);
        let ends = starts.iter().skip(1).chain([&n]);
        let both = starts.iter().zip(ends);
        let tiles = both.map(|(&first, &end)| {
            let own = &masses[first..end];
            Tile::new(own.len(), k).with_level(level_of(own))
        });
        Self {
            tiles: tiles.collect(),
            starts,
            truncation: (k as f64 / drop_tolerance).ln().clamp(12.0, 60.0),
            cost,
            level: level_of(&masses),
            masses,
            drift_radius: DRIFT_RADIUS,
            reference: Vec::new(),
            epsilon: 0.0,
            reach: 0.0,
            shift: 0.0,
            last: Vec::new(),
            last_slack: f64::NEG_INFINITY,
            resolution: 8.0 * T::epsilon().widen(),
            interrupt: Interrupt::default(),
        }
    }

    /// Sweeps with curvature, which take long, may be given up: what they return then is nothing to go by.
    pub(crate) fn give_up(&mut self, interrupt: Interrupt) {
        self.interrupt = interrupt;
    }

    /// Makes the lists anew sooner or later than usual: a short radius leaves fewer entries to sweep, and suits
    /// potentials that move little at a time.
    pub(crate) fn with_drift_radius(mut self, drift_radius: f64) -> Self {
        self.drift_radius = drift_radius;
        self
    }

    /// Where the lists were made (slack's logit last, empty if nowhere) and how much they leave out.
    pub(crate) fn made_at(&self) -> (&[f64], f64) {
        (&self.reference, self.truncation)
    }

    /// Makes the lists where and as coarse as they were made before a checkpoint.
    pub(crate) fn make_at(
        &mut self,
        reference: &[f64],
        truncation: f64,
        epsilon: f64,
    ) -> Result<(), Error> {
        self.truncation = truncation.clamp(12.0, 60.0);
        self.reference.clear();
        match reference.split_last() {
            Some((&slack, cols)) => self.list(&DualPoint {
                epsilon,
                cols,
                slack,
            }),
            None => Ok(()),
        }
    }

    /// Changes the masses of the rows; the next sweep makes the lists anew.
    pub(crate) fn set_masses(&mut self, masses: &[f64]) {
        self.masses.copy_from_slice(masses);
        self.level = level_of(masses);
        for (tile, &first) in self.tiles.iter_mut().zip(&self.starts) {
            tile.level = level_of(&masses[first..first + tile.records.len()]);
        }
        self.reference.clear();
    }

    /// Asks for another share that may be left out; lists made for a coarser one are dropped.
    pub(crate) fn set_drop_tolerance(&mut self, drop_tolerance: f64) {
        let truncation = (self.cost.cols() as f64 / drop_tolerance)
            .ln()
            .clamp(12.0, 60.0);
        if truncation > self.truncation {
            self.reference.clear();
        }
        self.truncation = truncation;
    }

    fn window(&self) -> T {
        T::narrow((self.truncation + 2.0 * self.drift_radius) * self.epsilon)
    }

    /// How much closer to each other two potentials can have come since the lists were made.
    fn drift(&self, at: &DualPoint<'_>) -> f64 {
        match at.moved_from(&self.reference, self.epsilon) {
            Some((low, high)) => (high - low).max(0.0),
            None => f64::INFINITY,
        }
    }

    /// Makes the lists at these potentials: from the lists of before where those leave no doubt, else from
    /// the costs.
    fn list(&mut self, at: &DualPoint<'_>) -> Result<(), Error> {
        let k = self.cost.cols();
        let drift = self.drift(at);
        self.epsilon = at.epsilon;
        self.reference = at.cols.iter().copied().chain([at.slack]).collect();
        let shift = largest_finite(at);
        let (g, slack) = (potentials::<T>(at, shift), T::narrow(at.slack - shift));
        let lookup = Lookup::<T>::new(at, shift);
        let (window, starts) = (self.window(), &self.starts);
        let (eroded, least) = (
            T::narrow(drift * (1.0 + 1e-6)),
            window + T::narrow(0.1 * at.epsilon),
        );
        let (cost, masses) = (&self.cost, &self.masses);
        let bad = map_tiles(&mut self.tiles, 1, |t, tile| {
            let tile = &mut tile[0];
            let first = starts[t.start];
            let unsound = if drift < f64::INFINITY {
                let unsure = refile(tile, &lookup.listed, window, eroded, least);
                let rows: Vec<usize> = unsure.iter().map(|r| first + r).collect();
                let filed = classify_some(cost, &rows, &g, slack, window);
                for (&r, &filed) in unsure.iter().zip(&filed) {
                    let carries = masses[first + r] > 0.0 && filed.is_sound();
                    tile.put(r, if carries { filed } else { Filed::absent(k + 1) });
                }
                let unsound = unsure
                    .iter()
                    .zip(&filed)
                    .filter(|(_, filed)| !filed.is_sound());
                unsound.map(|(&r, _)| r).collect()
            } else {
                classify_all(cost, first, &g, slack, window, tile);
                tile.settle(&masses[first..])
            };
            // Rows without mass may have nowhere to go, but no cost that is none.
            let mut buffer = vec![T::zero(); k];
            unsound.into_iter().map(|r| first + r).find(|&i| {
                let mut costs = lend_row(cost, i, &mut buffer).iter();
                masses[i] > 0.0 || costs.any(|c| c.is_nan() || *c == T::neg_infinity())
            })
        });
        if let Some(row) = bad.into_iter().flatten().next() {
            self.reference.clear();
            return Err(diagnose_row(&self.cost, row, self.masses[row]));
        }
        self.reach = g
            .iter()
            .filter(|g| g.is_finite())
            .fold(0.0, |m, g| m.max(g.widen().abs()));
        Ok(())
    }

    fn run(
        &mut self,
        at: &DualPoint<'_>,
        sums: &mut [f64],
        hessian: Option<&mut [f64]>,
    ) -> Result<(), Error> {
        if self.drift(at) > 2.0 * self.drift_radius * at.epsilon {
            self.list(at)?;
        }
        let k = self.cost.cols();
        self.shift = largest_finite(at);
        self.last = at.cols.to_vec();
        self.last_slack = at.slack;
        let g = Lookup::<T>::new(at, self.shift);
        let inverse = T::narrow(1.0 / at.epsilon);
        let (cost, masses) = (&self.cost, &self.masses);
        let (curved, interrupt) = (hessian.is_some(), &self.interrupt);
        // A curvature is (k + 1)² numbers: a leaf has as many rows as are worth it, many tiles.
        let is_split = if curved { is_curved } else { is_split };
        let swept = |rows: Range<usize>, ()| {
            let mut sums = vec![0.0; k + 2];
            let mut outer = curved.then(|| vec![0.0; (k + 1) * (k + 1)]);
            let tiles = self.tiles.iter().zip(&self.starts);
            let own = tiles.skip(self.tile_of(rows.start));
            for (tile, &first) in own.take_while(|(_, first)| **first < rows.end) {
                if curved && interrupt.is_due() {
                    break;
                }
                sweep_tile(
                    tile,
                    first,
                    cost,
                    masses,
                    &g,
                    inverse,
                    &mut sums,
                    outer.as_mut(),
                );
            }
            (sums, outer)
        };
        let merge = |all: &mut (Vec<f64>, Option<Vec<f64>>), more: (Vec<f64>, Option<Vec<f64>>)| {
            add(&mut all.0, &more.0);
            if let (Some(all), Some(more)) = (all.1.as_deref_mut(), &more.1) {
                add(all, more);
            }
        };
        let (found, outer) = fold(0..masses.len(), k, is_split, (), &swept, &merge);
        sums.copy_from_slice(&found[..=k]);
        if let (Some(hessian), Some(outer)) = (hessian, &outer) {
            hessian.copy_from_slice(outer);
        }
        self.resolution = resolution::<T>(at, self.shift, self.reach);
        Ok(())
    }

    /// The tile that a row lies in.
    fn tile_of(&self, row: usize) -> usize {
        // Tiles are of about the same size.
        let mut tile = row * self.starts.len() / self.masses.len().max(1);
        while self.starts.get(tile).is_none_or(|first| *first > row) && tile > 0 {
            tile -= 1;
        }
        while self.starts.get(tile + 1).is_some_and(|first| *first <= row) {
            tile += 1;
        }
        tile
    }

    /// Replaces rows and files them anew. Where potentials are given, returns what the rows sent to each column before, and what they
    /// send now. The rows are different and in range.
    pub(crate) fn replace(
        &mut self,
        rows: &[usize],
        costs: &[T],
        at: Option<&DualPoint<'_>>,
    ) -> [Vec<f64>; 2]
    where
        C: Rewritable<T>,
    {
        let k = self.cost.cols();
        let write = |cost: &mut C| {
            for (&i, row) in rows.iter().zip(costs.chunks_exact(k)) {
                cost.write_row(i, row);
            }
        };
        if self.reference.is_empty() {
            write(&mut self.cost);
            return [vec![0.0; k + 1], vec![0.0; k + 1]];
        }
        touch(&self.cost, rows.iter().copied());
        let masses: Vec<f64> = match self.level {
            Some(level) => vec![level; rows.len()],
            None => rows.iter().map(|&i| self.masses[i]).collect(),
        };
        let of = |&i: &usize| {
            let tile = self.tile_of(i);
            self.tiles[tile].records[i - self.starts[tile]]
        };
        let before: Vec<Record<T>> = rows.iter().map(of).collect();
        let before = at.map(|at| self.sent(rows, &before, &masses, at));
        write(&mut self.cost);
        let after = self.file(rows, &masses);
        let after = at.map(|at| self.sent(rows, &after, &masses, at));
        [before, after].map(|sums| sums.unwrap_or_else(|| vec![0.0; k + 1]))
    }

    /// Files these rows anew and returns their records.
    fn file(&mut self, rows: &[usize], masses: &[f64]) -> Vec<Record<T>> {
        let k = self.cost.cols();
        let at = DualPoint {
            epsilon: self.epsilon,
            cols: &self.reference[..k],
            slack: self.reference[k],
        };
        let shift = largest_finite(&at);
        let (g, slack) = (potentials::<T>(&at, shift), T::narrow(at.slack - shift));
        let window = self.window();
        // First all, then put them down: what was just written in small pieces is slow to read in large ones.
        let mut filed = classify_some(&self.cost, rows, &g, slack, window);
        for (filed, &mass) in filed.iter_mut().zip(masses) {
            if !(filed.is_sound() && mass > 0.0) {
                *filed = Filed::absent(k + 1);
            }
        }
        for (&i, filed) in rows.iter().zip(&filed) {
            let tile = self.tile_of(i);
            self.tiles[tile].put(i - self.starts[tile], *filed);
        }
        filed.iter().map(|filed| filed.record).collect()
    }

    /// What these rows, whose records and masses are given, send to each column, slack last.
    fn sent(
        &self,
        rows: &[usize],
        records: &[Record<T>],
        masses: &[f64],
        at: &DualPoint<'_>,
    ) -> Vec<f64> {
        let k = self.cost.cols();
        let g = Lookup::<T>::new(at, largest_finite(at));
        let inverse = T::narrow(1.0 / at.epsilon);
        let leaf = |picked: &[usize]| {
            let (mut picks, mut whole) = (Vec::with_capacity(picked.len()), Vec::new());
            for &r in picked {
                if records[r].is_whole() {
                    whole.push(rows[r]);
                } else if !records[r].is_absent(k + 1) {
                    picks.push(r);
                }
            }
            let mut part = vec![0.0; k + 2];
            add_records(
                records, masses, &picks, &g.listed, inverse, 1.0, &mut part, None,
            );
            if !whole.is_empty() {
                let (cost, masses) = (&self.cost, &self.masses);
                let more = sweep_whole(&whole, cost, masses, &g.padded, inverse, k, None);
                add(&mut part, &more.sums);
            }
            part
        };
        let all: Vec<usize> = (0..rows.len()).collect();
        let mut sums = along(0..self.masses.len(), k, rows, all, &leaf);
        sums.truncate(k + 1);
        sums.resize(k + 1, 0.0);
        sums
    }
}

/// Adds up what some rows send along the tree of shards, in the order in which they are picked; parts of the tree without any are
/// left out, and nothing is an empty list.
fn along(
    node: Range<usize>,
    cols: usize,
    rows: &[usize],
    picked: Vec<usize>,
    leaf: &impl Fn(&[usize]) -> Vec<f64>,
) -> Vec<f64> {
    if picked.is_empty() {
        return Vec::new();
    }
    let Range { start, end } = node;
    if !is_shared(end - start, cols) {
        return leaf(&picked);
    }
    let middle = start + (end - start) / 2;
    let (first, second) = picked.into_iter().partition(|&r| rows[r] < middle);
    let mut sums = along(start..middle, cols, rows, first, leaf);
    let more = along(middle..end, cols, rows, second, leaf);
    if sums.is_empty() {
        return more;
    }
    add(&mut sums, &more);
    sums
}

/// Reads a little of each line of memory that these rows lie in: what is far away comes faster when asked for all at
/// once, than when each row is read or written in its turn.
fn touch<T: Real, C: Cost<T>>(cost: &C, rows: impl Iterator<Item = usize>) {
    let line = 64 / size_of::<T>();
    let mut seen = T::zero();
    for i in rows {
        if let Some(row) = cost.block(i..i + 1) {
            seen = row.iter().step_by(line).fold(seen, |seen, c| seen + *c);
        }
    }
    core::hint::black_box(seen);
}

/// Rows of a cost that is not stored, worked out at one time: so many entries.
const BUFFER_ENTRIES: usize = 1 << 12;

/// Records and margins of all rows of a tile whose first row is `first`.
fn classify_all<T: Real, C: Cost<T>>(
    cost: &C,
    first: usize,
    g: &[T],
    slack: T,
    window: T,
    tile: &mut Tile<T>,
) {
    let (k, count) = (cost.cols(), tile.records.len());
    if let Some(costs) = cost.block(first..first + count) {
        return classify(
            costs,
            k,
            g,
            slack,
            window,
            &mut tile.records,
            &mut tile.margins,
        );
    }
    let at_once = (BUFFER_ENTRIES / k).clamp(1, count);
    let mut buffer = vec![T::zero(); at_once * k];
    let parts = tile
        .records
        .chunks_mut(at_once)
        .zip(tile.margins.chunks_mut(at_once));
    for (p, (records, margins)) in parts.enumerate() {
        let from = first + p * at_once;
        let costs = &mut buffer[..records.len() * k];
        cost.fill(from..from + records.len(), costs);
        classify(costs, k, g, slack, window, records, margins);
    }
}

/// Records and margins of some rows, in their order.
fn classify_some<T: Real, C: Cost<T>>(
    cost: &C,
    rows: &[usize],
    g: &[T],
    slack: T,
    window: T,
) -> Vec<Filed<T>> {
    let k = cost.cols();
    let mut buffer = vec![T::zero(); ROWS_AHEAD.min(rows.len()) * k];
    let mut records = [Record::absent(k + 1); ROWS_AHEAD];
    let mut margins = [T::zero(); ROWS_AHEAD];
    let mut filed = Vec::with_capacity(rows.len());
    for rows in rows.chunks(ROWS_AHEAD) {
        touch(cost, rows.iter().copied());
        for (&i, line) in rows.iter().zip(buffer.chunks_exact_mut(k)) {
            copy_row(cost, i, line);
        }
        let (records, margins) = (&mut records[..rows.len()], &mut margins[..rows.len()]);
        let costs = &buffer[..rows.len() * k];
        classify(costs, k, g, slack, window, records, margins);
        let found = records.iter().zip(&*margins);
        filed.extend(found.map(|(&record, &margin)| Filed { record, margin }));
    }
    filed
}

/// The mass of every row, if they are all the same.
fn level_of(masses: &[f64]) -> Option<f64> {
    let first = masses.first().copied();
    // Without an early way out, so that it vectorises.
    first.filter(|first| masses.iter().fold(true, |all, m| all & (m == first)))
}

/// Potentials of the columns and behind them the slack's, as records and as whole rows look them up.
struct Lookup<T> {
    /// With the ghost's −∞ at the end.
    listed: Vec<T>,
    /// Padded with −∞ to whole lanes.
    padded: Vec<T>,
}

impl<T: Real> Lookup<T> {
    fn new(at: &DualPoint<'_>, shift: f64) -> Self {
        let shifted = || at.cols.iter().chain([&at.slack]).map(|g| g - shift);
        let listed = shifted().chain([f64::NEG_INFINITY]).map(T::narrow);
        Self {
            listed: listed.collect(),
            padded: padded(shifted(), at.cols.len(), T::neg_infinity()),
        }
    }
}

/// Potentials of the columns alone, padded with −∞ to whole lanes.
fn potentials<T: Real>(at: &DualPoint<'_>, shift: f64) -> Vec<T> {
    padded(
        at.cols.iter().map(|g| g - shift),
        at.cols.len(),
        T::neg_infinity(),
    )
}

#[allow(clippy::too_many_arguments)] // one tile's share of a sweep: what it reads, where it writes
fn sweep_tile<T: Real, C: Cost<T>>(
    tile: &Tile<T>,
    first: usize,
    cost: &C,
    masses: &[f64],
    g: &Lookup<T>,
    inverse: T,
    sums: &mut [f64],
    outer: Option<&mut Vec<f64>>,
) {
    let k = cost.cols();
    let mut outer = outer;
    let own = &masses[first..first + tile.records.len()];
    for (j, &mass) in tile.fixed(own)[..=k].iter().enumerate() {
        sums[j] += mass;
        if let Some(outer) = outer.as_deref_mut() {
            outer[j * (k + 1) + j] += mass;
        }
    }
    let curvature = outer.as_deref_mut().map(Vec::as_mut_slice);
    let shared = tile.shared();
    add_records(
        &tile.records,
        own,
        &shared,
        &g.listed,
        inverse,
        1.0,
        sums,
        curvature,
    );
    let mut rows = tile.whole();
    if rows.is_empty() {
        return;
    }
    rows.iter_mut().for_each(|r| *r += first);
    let part = sweep_whole(&rows, cost, masses, &g.padded, inverse, k, outer);
    sums.iter_mut().zip(&part.sums).for_each(|(s, p)| *s += p);
}

/// Column sums of rows in which every entry may matter.
fn sweep_whole<T: Real, C: Cost<T>>(
    rows: &[usize],
    cost: &C,
    masses: &[f64],
    g: &[T],
    inverse: T,
    k: usize,
    outer: Option<&mut Vec<f64>>,
) -> TileSums<T> {
    let mut outer = outer;
    let mut part = TileSums::new(k);
    let mut buffer = vec![T::zero(); ROWS_TOGETHER.min(rows.len()) * k];
    let mut states = Vec::with_capacity(ROWS_TOGETHER);
    for rows in rows.chunks(ROWS_TOGETHER) {
        states.clear();
        for (&i, line) in rows.iter().zip(buffer.chunks_exact_mut(k)) {
            cost.fill(i..i + 1, line);
            states.push(RowState::new(masses[i]));
        }
        sweep_rows(
            &buffer[..rows.len() * k],
            g,
            inverse,
            &EXACT,
            0,
            &mut states,
            &mut part,
            outer.as_deref_mut(),
        );
    }
    part
}

/// Lists are kept for rows of given mass: neither ε nor a shift matters to those.
const EXACT: RowRule = RowRule {
    law: Law::EXACT,
    epsilon: 1.0,
    shift: 0.0,
};

impl<T: Real, C: Cost<T>> Backend for Active<T, C> {
    fn name(&self) -> &'static str {
        "active"
    }

    fn rows(&self) -> usize {
        self.masses.len()
    }

    fn cols(&self) -> usize {
        self.cost.cols()
    }

    fn sweep(&mut self, at: &DualPoint<'_>, sums: &mut [f64]) -> Result<(), Error> {
        self.run(at, sums, None)
    }

    fn log_sums(&mut self, cols: &[usize], out: &mut [f64]) -> Result<(), Error> {
        let mut f = vec![0.0; self.masses.len()];
        self.row_potentials(&mut f)?;
        log_sums_of(&self.cost, self.epsilon, &f, &self.last, cols, out);
        Ok(())
    }

    fn row_potentials(&mut self, out: &mut [f64]) -> Result<(), Error> {
        // Whole rows, from the definition: asked for once, at the end.
        let point = DualPoint {
            epsilon: self.epsilon,
            cols: &self.last,
            slack: self.last_slack,
        };
        point.row_potentials(&self.cost, &Law::EXACT, &self.masses, out);
        Ok(())
    }

    fn resolution(&self) -> f64 {
        self.resolution
    }
}

impl<T: Real, C: Cost<T>> Curvature for Active<T, C> {
    fn sweep_with_curvature(
        &mut self,
        at: &DualPoint<'_>,
        sums: &mut [f64],
        hessian: &mut [f64],
    ) -> Result<(), Error> {
        hessian.fill(0.0);
        self.run(at, sums, Some(hessian))
    }
}
