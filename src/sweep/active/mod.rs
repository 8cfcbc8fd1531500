//! Sweeps over the entries that matter.
//!
//! At small ε a row's mass sits on one column, or is shared by two or three: every other entry of P(g) is
//! below e⁻¹⁶ and stays so while g moves a little. [`Active`] keeps, per row, only the entries within
//!
//! ```text
//! (g_j − C_ij)/ε  ≥  max_j (g_j − C_ij)/ε  −  (cut + 2 · drift_radius)
//! ```
//!
//! of the row's best. While no potential has moved more than `drift_radius` (in units of ε, a common shift not
//! counted) from where the lists were made, what is left out weighs less than e^−cut: the tolerance sets
//! the cut. A row with one entry left costs nothing at all. When the potentials have moved further the lists are made
//! anew; a row remembers how far behind the entries are that it leaves out, so that hardly any has to be read again.

mod entries;
mod select;

pub(crate) use entries::MOST;

use crate::Rewritable;
use crate::cost::{copy_row, lend_row};
use crate::kernel::tiles::{map_tiles, tile_rows};
use crate::problem::penalty::Law;
use crate::sweep::rows::{RowRule, RowState, TileSums, padded, sweep_rows};
use crate::sweep::streamed::{largest_finite, log_sums_of, resolution};
use crate::sweep::{Backend, Curvature, DualPoint, diagnose_row};
use crate::{Cost, Error, Real};
use entries::{Filed, Record, Tile, add_records, refile};
use select::classify;

/// How far potentials may move, in units of ε, before the lists are made anew, unless said otherwise.
const DRIFT_RADIUS: f64 = 8.0;

/// Rows touched before the first of them is read.
const AHEAD: usize = 32;

/// Whole rows swept together.
const TOGETHER: usize = 64;

/// Sweeps over the entries that matter of a cost it owns or borrows.
#[derive(Debug, Clone)]
pub(crate) struct Active<T, C> {
    pub(crate) cost: C,
    masses: Vec<f64>,
    /// The mass of every row, if they are all the same.
    level: Option<f64>,
    tiles: Vec<Tile<T>>,
    tile_rows: usize,
    /// −ln of the weight that may be left out.
    cut: f64,
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
}

impl<T: Real, C: Cost<T>> Active<T, C> {
    /// A backend that leaves out what weighs less than `faint` of a row altogether.
    pub(crate) fn new(cost: C, masses: Vec<f64>, faint: f64) -> Self {
        let (n, k) = (cost.rows(), cost.cols());
        let per_tile = tile_rows(n, k);
        let tiles = (0..n.div_ceil(per_tile))
            .map(|t| Tile::new(per_tile.min(n - t * per_tile), k))
            .collect();
        Self {
            tiles,
            tile_rows: per_tile,
            cut: (k as f64 / faint).ln().clamp(12.0, 60.0),
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
        }
    }

    /// Makes the lists anew sooner or later than usual: a short radius leaves fewer entries to sweep, and suits
    /// potentials that move little at a time.
    pub(crate) fn with_drift_radius(mut self, drift_radius: f64) -> Self {
        self.drift_radius = drift_radius;
        self
    }

    /// Where the lists were made (slack's logit last, empty if nowhere) and how much they leave out.
    pub(crate) fn made_at(&self) -> (&[f64], f64) {
        (&self.reference, self.cut)
    }

    /// Makes the lists where and as coarse as they were made before a checkpoint.
    pub(crate) fn make_at(
        &mut self,
        reference: &[f64],
        cut: f64,
        epsilon: f64,
    ) -> Result<(), Error> {
        self.cut = cut.clamp(12.0, 60.0);
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
        self.reference.clear();
    }

    /// Asks for another share that may be left out; lists made for a coarser one are dropped.
    pub(crate) fn set_faint(&mut self, faint: f64) {
        let cut = (self.cost.cols() as f64 / faint).ln().clamp(12.0, 60.0);
        if cut > self.cut {
            self.reference.clear();
        }
        self.cut = cut;
    }

    fn window(&self) -> T {
        T::narrow((self.cut + 2.0 * self.drift_radius) * self.epsilon)
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
        let (window, per_tile) = (self.window(), self.tile_rows);
        let (eroded, least) = (
            T::narrow(drift * (1.0 + 1e-6)),
            window + T::narrow(0.1 * at.epsilon),
        );
        let (cost, masses) = (&self.cost, &self.masses);
        let bad = map_tiles(&mut self.tiles, 1, |t, tile| {
            let tile = &mut tile[0];
            let first = t.start * per_tile;
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
        let (per_tile, cost, masses) = (self.tile_rows, &self.cost, &self.masses);
        let (curved, level) = (hessian.is_some(), self.level);
        // A curvature is (k + 1)² numbers: no more of them than the rows are worth, nor more than a few numbers for
        // each row, so that beyond the costs memory grows with the rows alone.
        let count = self.tiles.len();
        let groups = if curved {
            let (rows, cols) = (masses.len(), k + 1);
            let room = (4 * rows / cols) / cols;
            (rows / (64 * cols)).min(room).clamp(1, count)
        } else {
            count
        };
        let per_group = count.div_ceil(groups);
        let parts = map_tiles(&mut self.tiles, per_group, |t, tiles| {
            let mut part = vec![0.0; k + 2];
            let mut outer = curved.then(|| vec![0.0; (k + 1) * (k + 1)]);
            for (t, tile) in t.zip(tiles) {
                sweep_tile(
                    tile,
                    t * per_tile,
                    cost,
                    masses,
                    level,
                    &g,
                    inverse,
                    &mut part,
                    outer.as_mut(),
                );
            }
            (part, outer)
        });
        sums.fill(0.0);
        let mut hessian = hessian;
        for (part, outer) in parts {
            sums.iter_mut().zip(&part).for_each(|(s, p)| *s += p);
            if let (Some(h), Some(o)) = (hessian.as_deref_mut(), outer) {
                h.iter_mut().zip(&o).for_each(|(h, o)| *h += o);
            }
        }
        self.resolution = resolution::<T>(at, self.shift, self.reach);
        Ok(())
    }

    /// Replaces rows, files them anew, and where potentials are given brings `sums`, which belong to them, up to
    /// date. The rows are different and in range.
    pub(crate) fn replace(
        &mut self,
        rows: &[usize],
        costs: &[T],
        at: Option<&DualPoint<'_>>,
        sums: &mut [f64],
    ) where
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
            return;
        }
        let per_tile = self.tile_rows;
        touch(&self.cost, rows.iter().copied());
        let masses: Vec<f64> = match self.level {
            Some(level) => vec![level; rows.len()],
            None => rows.iter().map(|&i| self.masses[i]).collect(),
        };
        let of = |&i: &usize| self.tiles[i / per_tile].records[i % per_tile];
        let before: Vec<Record<T>> = rows.iter().map(of).collect();
        if let Some(at) = at {
            self.add(rows, &before, &masses, at, -1.0, sums);
        }
        write(&mut self.cost);
        let after = self.file(rows, &masses);
        if let Some(at) = at {
            self.add(rows, &after, &masses, at, 1.0, sums);
        }
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
            self.tiles[i / self.tile_rows].put(i % self.tile_rows, *filed);
        }
        filed.iter().map(|filed| filed.record).collect()
    }

    /// Adds `sign` times what these rows, whose records and masses are given, send to each column.
    fn add(
        &self,
        rows: &[usize],
        records: &[Record<T>],
        masses: &[f64],
        at: &DualPoint<'_>,
        sign: f64,
        sums: &mut [f64],
    ) {
        let k = self.cost.cols();
        let g = Lookup::<T>::new(at, largest_finite(at));
        let inverse = T::narrow(1.0 / at.epsilon);
        let (mut picks, mut whole) = (Vec::with_capacity(rows.len()), Vec::new());
        for (r, record) in records.iter().enumerate() {
            if record.is_whole() {
                whole.push(rows[r]);
            } else if !record.is_absent(k + 1) {
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
            part.iter_mut().zip(&more.sums).for_each(|(s, p)| *s += p);
        }
        sums.iter_mut().zip(&part).for_each(|(s, p)| *s += sign * p);
    }
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
const BUFFER: usize = 1 << 12;

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
    let at_once = (BUFFER / k).clamp(1, count);
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
    let mut buffer = vec![T::zero(); AHEAD.min(rows.len()) * k];
    let mut records = [Record::absent(k + 1); AHEAD];
    let mut margins = [T::zero(); AHEAD];
    let mut filed = Vec::with_capacity(rows.len());
    for rows in rows.chunks(AHEAD) {
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
    level: Option<f64>,
    g: &Lookup<T>,
    inverse: T,
    sums: &mut [f64],
    outer: Option<&mut Vec<f64>>,
) {
    let k = cost.cols();
    let mut outer = outer;
    let own = &masses[first..first + tile.records.len()];
    for (j, &mass) in tile.fixed(own, level)[..=k].iter().enumerate() {
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
    let mut buffer = vec![T::zero(); TOGETHER.min(rows.len()) * k];
    let mut states = Vec::with_capacity(TOGETHER);
    for rows in rows.chunks(TOGETHER) {
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
