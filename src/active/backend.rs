//! The backend that sweeps listed entries only.

use super::lists::{Kind, Tile, add_listed, classify};
use crate::sweep::rows::{RowState, TileSums, padded, sweep_rows};
use crate::sweep::streamed::{largest_finite, log_sums_of, resolution};
use crate::sweep::{Backend, Curvature, Scaling, diagnose_row};
use crate::tiles::{map_tiles, tile_rows};
use crate::{Cost, Error, Real};

/// How far potentials may move, in units of ε, before the lists are made anew.
const LEASH: f64 = 8.0;

/// Whole rows swept together.
const TOGETHER: usize = 64;

/// Sweeps over the entries that matter of a cost it owns or borrows.
#[derive(Debug, Clone)]
pub(crate) struct Active<T, C> {
    pub(crate) cost: C,
    pub(crate) masses: Vec<f64>,
    tiles: Vec<Tile<T>>,
    tile_rows: usize,
    /// −ln of the weight that may be left out.
    cut: f64,
    /// Potentials the lists were made at, slack's logit last; empty before the first sweep.
    reference: Vec<f64>,
    epsilon: f64,
    /// Largest |top| when the lists were made.
    reach: f64,
    shift: f64,
    last: Vec<f64>,
    last_slack: f64,
    resolution: f64,
    /// Whether rows were filed anew since the lists were last in order.
    untidy: bool,
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
            masses,
            reference: Vec::new(),
            epsilon: 0.0,
            reach: 0.0,
            shift: 0.0,
            last: Vec::new(),
            last_slack: f64::NEG_INFINITY,
            resolution: 8.0 * T::epsilon().widen(),
            untidy: false,
        }
    }

    /// Puts the lists in the order of the rows, so that sums do not depend on the history of replacements.
    pub(crate) fn tidy(&mut self) {
        if core::mem::take(&mut self.untidy) {
            let per_tile = self.tile_rows;
            for (tile, masses) in self.tiles.iter_mut().zip(self.masses.chunks(per_tile)) {
                tile.tidy(masses);
            }
        }
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
            Some((&slack, cols)) => self.list(&Scaling {
                epsilon,
                cols,
                slack,
            }),
            None => Ok(()),
        }
    }

    /// Forgets the lists; the next sweep makes them anew.
    pub(crate) fn forget(&mut self) {
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
        T::narrow((self.cut + 2.0 * LEASH) * self.epsilon)
    }

    /// Half the range over which potentials have moved since the lists were made, in units of ε.
    fn drift(&self, at: &Scaling<'_>) -> f64 {
        if self.reference.len() != at.cols.len() + 1 || self.epsilon != at.epsilon {
            return f64::INFINITY;
        }
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for (&now, &then) in at.cols.iter().chain([&at.slack]).zip(&self.reference) {
            match (now == f64::NEG_INFINITY, then == f64::NEG_INFINITY) {
                (true, true) => {}
                (false, false) => {
                    low = low.min(now - then);
                    high = high.max(now - then);
                }
                _ => return f64::INFINITY,
            }
        }
        0.5 * (high - low) / at.epsilon
    }

    /// Makes the lists at these potentials.
    fn list(&mut self, at: &Scaling<'_>) -> Result<(), Error> {
        let k = self.cost.cols();
        self.epsilon = at.epsilon;
        self.untidy = false;
        self.reference = at.cols.iter().copied().chain([at.slack]).collect();
        let shift = largest_finite(at);
        let (g, slack) = (potentials::<T>(at, shift), T::narrow(at.slack - shift));
        let (window, per_tile) = (self.window(), self.tile_rows);
        let (cost, masses) = (&self.cost, &self.masses);
        let bad = map_tiles(&mut self.tiles, 1, |t, tile| {
            let tile = &mut tile[0];
            tile.clear();
            let first = t.start * per_tile;
            let (mut line, mut buffer) = (vec![T::neg_infinity(); g.len()], vec![T::zero(); k]);
            let mut bad = None;
            for r in 0..tile.places.len() {
                let i = first + r;
                let row = match cost.block(i..i + 1) {
                    Some(row) => row,
                    None => {
                        cost.fill(i..i + 1, &mut buffer);
                        &buffer
                    }
                };
                let kind = classify(row, &g, slack, window, &mut line);
                if matches!(kind, Kind::Bad) {
                    let spoiled = row.iter().any(|c| c.is_nan() || *c == T::neg_infinity());
                    if (masses[i] > 0.0 || spoiled) && bad.is_none() {
                        bad = Some(i);
                    }
                } else if masses[i] > 0.0 {
                    tile.insert(r, masses[i], kind);
                }
            }
            bad
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
        at: &Scaling<'_>,
        sums: &mut [f64],
        hessian: Option<&mut [f64]>,
    ) -> Result<(), Error> {
        if self.drift(at) > LEASH {
            self.list(at)?;
        }
        let k = self.cost.cols();
        self.shift = largest_finite(at);
        self.last = at.cols.to_vec();
        self.last_slack = at.slack;
        // Lists look potentials up by column, slack's right behind the columns.
        let g = with_slack::<T>(at, self.shift);
        let inverse = T::narrow(1.0 / at.epsilon);
        let (per_tile, cost, masses) = (self.tile_rows, &self.cost, &self.masses);
        let curved = hessian.is_some();
        // A curvature is (k + 1)² numbers: no more of them than the rows are worth.
        let count = self.tiles.len();
        let groups = if curved {
            (masses.len() / (64 * (k + 1))).clamp(1, count)
        } else {
            count
        };
        let per_group = count.div_ceil(groups);
        let parts = map_tiles(&mut self.tiles, per_group, |t, tiles| {
            let mut part = vec![0.0; k + 1];
            let mut outer = curved.then(|| vec![0.0; (k + 1) * (k + 1)]);
            for (t, tile) in t.zip(tiles) {
                sweep_tile(
                    tile,
                    t * per_tile,
                    cost,
                    masses,
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

    /// Column sums of these rows alone, at the potentials of the last sweep.
    pub(crate) fn add_rows(
        &mut self,
        rows: &[usize],
        at: &Scaling<'_>,
        sign: f64,
        sums: &mut [f64],
    ) {
        let k = self.cost.cols();
        let g = with_slack::<T>(at, largest_finite(at));
        let inverse = T::narrow(1.0 / at.epsilon);
        let mut whole = Vec::new();
        for &i in rows {
            let (tile, r) = (&self.tiles[i / self.tile_rows], i % self.tile_rows);
            match tile.places[r] {
                super::lists::Place::Absent => {}
                super::lists::Place::Single(j) => sums[j as usize] += sign * self.masses[i],
                super::lists::Place::Listed(at) => {
                    let row = &tile.listed[at as usize];
                    let (p, count) = super::lists::shares(row, &g, inverse);
                    for (&j, p) in row.cols[..count].iter().zip(&p) {
                        sums[j as usize] += sign * self.masses[i] * p.widen();
                    }
                }
                super::lists::Place::Whole(_) => whole.push(i),
            }
        }
        let part = sweep_whole(&whole, &self.cost, &self.masses, &g, inverse, k, None);
        sums.iter_mut()
            .zip(&part.sums)
            .for_each(|(s, p)| *s += sign * p);
    }

    /// Files these rows anew after their costs have changed. Nothing to do before the first sweep.
    pub(crate) fn relist(&mut self, rows: &[usize]) {
        if self.reference.is_empty() {
            return;
        }
        self.untidy = true;
        let k = self.cost.cols();
        let at = Scaling {
            epsilon: self.epsilon,
            cols: &self.reference[..k],
            slack: self.reference[k],
        };
        let shift = largest_finite(&at);
        let (g, slack) = (potentials::<T>(&at, shift), T::narrow(at.slack - shift));
        let window = self.window();
        let (mut line, mut costs) = (vec![T::neg_infinity(); g.len()], vec![T::zero(); k]);
        for &i in rows {
            self.cost.fill(i..i + 1, &mut costs);
            let kind = classify(&costs, &g, slack, window, &mut line);
            let (tile, r) = (&mut self.tiles[i / self.tile_rows], i % self.tile_rows);
            tile.remove(r, self.masses[i]);
            if self.masses[i] > 0.0 {
                tile.insert(r, self.masses[i], kind);
            }
        }
    }
}

/// Potentials of the columns alone, padded with −∞ to whole lanes.
fn potentials<T: Real>(at: &Scaling<'_>, shift: f64) -> Vec<T> {
    padded(
        at.cols.iter().map(|g| g - shift),
        at.cols.len(),
        T::neg_infinity(),
    )
}

/// Potentials of the columns and behind them the slack's, padded with −∞.
fn with_slack<T: Real>(at: &Scaling<'_>, shift: f64) -> Vec<T> {
    padded(
        at.cols.iter().chain([&at.slack]).map(|g| g - shift),
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
    g: &[T],
    inverse: T,
    sums: &mut [f64],
    outer: Option<&mut Vec<f64>>,
) {
    let k = cost.cols();
    let mut outer = outer;
    for (j, &mass) in tile.fixed.iter().enumerate() {
        sums[j] += mass;
        if let Some(outer) = outer.as_deref_mut() {
            outer[j * (k + 1) + j] += mass;
        }
    }
    add_listed(
        &tile.listed,
        g,
        inverse,
        sums,
        outer.as_deref_mut().map(Vec::as_mut_slice),
    );
    if tile.whole.is_empty() {
        return;
    }
    let rows: Vec<usize> = tile.whole.iter().map(|&r| first + r as usize).collect();
    let part = sweep_whole(&rows, cost, masses, g, inverse, k, outer);
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
            0,
            &mut states,
            &mut part,
            outer.as_deref_mut(),
        );
    }
    part
}

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

    fn sweep(&mut self, at: &Scaling<'_>, sums: &mut [f64]) -> Result<(), Error> {
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
        let k = self.cost.cols();
        let gibbs = crate::gibbs::Gibbs {
            epsilon: self.epsilon,
            cols: &self.last,
            slack: self.last_slack,
        };
        let (cost, masses) = (&self.cost, &self.masses);
        map_tiles(out, self.tile_rows, |rows, out| {
            let (mut costs, mut line) = (vec![T::zero(); k], vec![0.0; k]);
            for (i, f) in rows.zip(out) {
                cost.fill(i..i + 1, &mut costs);
                *f = gibbs
                    .row(masses[i], costs.iter().map(|c| c.widen()), &mut line)
                    .1;
            }
        });
        Ok(())
    }

    fn resolution(&self) -> f64 {
        self.resolution
    }
}

impl<T: Real, C: Cost<T>> Curvature for Active<T, C> {
    fn sweep_with_curvature(
        &mut self,
        at: &Scaling<'_>,
        sums: &mut [f64],
        hessian: &mut [f64],
    ) -> Result<(), Error> {
        hessian.fill(0.0);
        self.run(at, sums, Some(hessian))
    }
}
