//! The kernels: a block of rows at a time.
//!
//! A block is a few rows of `g − C`, each padded to a whole number of [`LANES`] with the slack column's
//! logit and then −∞: the exponentials, by far the dearest part, run over the whole block without a
//! scalar tail, and a padded entry is `exp(−∞) = 0` and vanishes. Column sums are collected in the cost's
//! own type over [`FLUSH`] rows and then added in `f64`.

use crate::Real;
use crate::kernel::dispatch::dispatch;
use crate::kernel::lanes::{LANES, Lanes};
use crate::problem::penalty::Law;
use crate::sweep::diagnose_row;
use crate::{Cost, Error};

/// Entries of a block, padding included: small enough for the nearest cache.
const BLOCK: usize = 512;

/// Rows whose column contributions are added up in `T` before they go to `f64`.
const FLUSH: usize = 64;

/// A weight that is invisible in a curvature.
const DROP_TOLERANCE: f64 = 1e-6;

/// What a sweep keeps of each row: its mass, its largest `g_j − C_ij`, and `Z_i` without that factor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowState<T> {
    pub(crate) mass: f64,
    pub(crate) top: T,
    pub(crate) z: T,
}

impl<T: Real> RowState<T> {
    pub(crate) fn new(mass: f64) -> Self {
        Self {
            mass,
            top: T::zero(),
            z: T::one(),
        }
    }

    /// `f_i = ε (ln r_i − ln Z_i)`.
    pub(crate) fn potential(&self, rule: &RowRule) -> f64 {
        if self.mass == 0.0 {
            return f64::NEG_INFINITY;
        }
        if rule.law.is_exact() {
            let log = (self.mass / self.z.widen()).ln();
            return rule.epsilon * log - self.top.widen() - rule.shift;
        }
        rule.law
            .potential(rule.epsilon, self.mass, rule.log_sum(self))
    }
}

/// What makes a row's mass of its sum: the law, ε, and what was taken off all potentials.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowRule {
    pub(crate) law: Law,
    pub(crate) epsilon: f64,
    pub(crate) shift: f64,
}

impl RowRule {
    /// ln Z_i; −∞ where the row has no allowed pair.
    fn log_sum<T: Real>(&self, state: &RowState<T>) -> f64 {
        let z = state.z.widen();
        if z > 0.0 && state.top > T::neg_infinity() {
            z.ln() + (state.top.widen() + self.shift) / self.epsilon
        } else {
            f64::NEG_INFINITY
        }
    }

    /// The row's mass, and how much of it answers to its sum.
    #[inline(always)]
    pub(super) fn mass<T: Real>(&self, state: &RowState<T>) -> (f64, f64) {
        if self.law.is_exact() {
            return (state.mass, 1.0);
        }
        self.relaxed_mass(state)
    }

    #[inline(never)]
    fn relaxed_mass<T: Real>(&self, state: &RowState<T>) -> (f64, f64) {
        let log_sum = self.log_sum(state);
        (
            self.law.mass(self.epsilon, state.mass, log_sum),
            self.law.slope(self.epsilon, state.mass, log_sum),
        )
    }
}

/// Sums of one tile of rows.
#[derive(Debug, Clone)]
pub(crate) struct TileSums<T> {
    /// Entries of a padded row: columns, slack, padding.
    width: usize,
    /// Rows at hand, padded.
    block: Vec<T>,
    /// Column contributions not yet flushed, padded.
    recent: Vec<T>,
    /// Column sums, slack last.
    pub(crate) sums: Vec<f64>,
    /// Largest magnitude of a row's top.
    pub(crate) reach: f64,
    /// First row that is impossible.
    pub(crate) bad: Option<usize>,
    pending: usize,
}

/// What a node of the tree over the rows adds up to.
#[derive(Debug)]
pub(crate) struct Swept {
    /// Column sums, slack last.
    pub(crate) sums: Vec<f64>,
    /// Lower triangle of the curvature, where it is asked for.
    pub(crate) outer: Option<Vec<f64>>,
    /// Largest magnitude of a row's top.
    pub(crate) reach: f64,
    /// First row that is impossible.
    pub(crate) bad: Option<usize>,
}

impl Swept {
    pub(crate) fn new<T>(tile: TileSums<T>, outer: Option<Vec<f64>>) -> Self {
        Self {
            sums: tile.sums,
            outer,
            reach: tile.reach,
            bad: tile.bad,
        }
    }

    /// Adds the rows behind these.
    pub(crate) fn merge(&mut self, other: Self) {
        add(&mut self.sums, &other.sums);
        if let (Some(outer), Some(more)) = (self.outer.as_deref_mut(), &other.outer) {
            add(outer, more);
        }
        self.reach = self.reach.max(other.reach);
        self.bad = self.bad.or(other.bad);
    }

    /// Writes the sums, and the curvature where there is one, and returns the reach; says what is wrong where a row was impossible.
    pub(crate) fn write<T: Real>(
        self,
        cost: &dyn Cost<T>,
        states: &[RowState<T>],
        sums: &mut [f64],
        hessian: Option<&mut [f64]>,
    ) -> Result<f64, Error> {
        if let Some(row) = self.bad {
            return Err(diagnose_row(cost, row, states[row].mass));
        }
        sums.copy_from_slice(&self.sums);
        if let (Some(hessian), Some(outer)) = (hessian, &self.outer) {
            hessian.copy_from_slice(outer);
        }
        Ok(self.reach)
    }
}

/// Adds numbers to others, one by one.
pub(crate) fn add(sums: &mut [f64], more: &[f64]) {
    sums.iter_mut().zip(more).for_each(|(s, m)| *s += m);
}

impl<T: Real> TileSums<T> {
    pub(crate) fn new(cols: usize) -> Self {
        let width = padded_width(cols);
        Self {
            block: vec![T::neg_infinity(); (BLOCK / width).max(1) * width],
            ..Self::scaled(cols)
        }
    }

    /// For rows of an absorbed kernel, which need no block.
    pub(crate) fn scaled(cols: usize) -> Self {
        let width = padded_width(cols);
        Self {
            width,
            block: Vec::new(),
            recent: vec![T::zero(); width],
            sums: vec![0.0; cols + 1],
            reach: 0.0,
            bad: None,
            pending: 0,
        }
    }

    /// Moves the recent contributions to the sums, each times its column's weight where given.
    #[inline(always)]
    fn flush(&mut self, weights: Option<&[T]>) {
        match weights {
            None => {
                for (s, r) in self.sums.iter_mut().zip(&self.recent) {
                    *s += r.widen();
                }
            }
            Some(weights) => {
                for ((s, r), w) in self.sums.iter_mut().zip(&self.recent).zip(weights) {
                    *s += r.widen() * w.widen();
                }
            }
        }
        self.recent.fill(T::zero());
        self.pending = 0;
    }

    /// Notes an impossible row: one with mass but no way to give it, or with a cost that is no cost.
    pub(super) fn reject(&mut self, law: &Law, row: usize, mass: f64, costs: &[T]) {
        let spoiled = costs.iter().any(|c| c.is_nan() || *c == T::neg_infinity());
        let stuck = mass > 0.0 && law.is_exact();
        if (stuck || spoiled) && self.bad.is_none() {
            self.bad = Some(row);
        }
    }
}

/// Columns and slack, rounded up to whole lanes.
fn padded_width(cols: usize) -> usize {
    (cols + 1).next_multiple_of(LANES)
}

/// Numbers of every column and then the slack, in the cost's own type, padded.
pub(crate) fn padded<T: Real>(values: impl Iterator<Item = f64>, cols: usize, pad: T) -> Vec<T> {
    let mut out = vec![pad; padded_width(cols)];
    out.iter_mut()
        .zip(values)
        .for_each(|(o, v)| *o = T::narrow(v));
    out
}

/// Writes `exp((g − C − top)/ε)` of a block of rows over `block`, notes each row's top and `Z`. A row with
/// nothing allowed has a top of −∞ and a `Z` that is no number.
#[inline(always)]
fn exponentiate<T: Real>(
    costs: &[T],
    k: usize,
    g: &[T],
    inverse: T,
    states: &mut [RowState<T>],
    block: &mut [T],
) {
    let width = g.len();
    for ((state, row), line) in states
        .iter_mut()
        .zip(costs.chunks_exact(k))
        .zip(block.chunks_exact_mut(width))
    {
        for ((z, &c), &p) in line.iter_mut().zip(row).zip(g) {
            *z = p - c;
        }
        line[k..].copy_from_slice(&g[k..]);
        let mut tops = Lanes::splat(T::neg_infinity());
        for chunk in line.as_chunks().0 {
            tops = tops.max(Lanes::of(chunk));
        }
        let top = tops.largest();
        state.top = top;
        line.iter_mut().for_each(|z| *z -= top);
    }
    for z in block.iter_mut() {
        *z = (*z * inverse).quick_exp();
    }
    for (state, line) in states.iter_mut().zip(block.chunks_exact(width)) {
        let mut chains = Lanes::splat(T::zero());
        for chunk in line.as_chunks().0 {
            chains = chains.zip(Lanes::of(chunk), |a, b| a + b);
        }
        state.z = chains.sum();
    }
}

dispatch! {
    /// Sweeps rows in the log domain: `costs` holds `states.len()` rows; `g` is padded, slack behind the
    /// columns. Where `outer` is given, the outer products of each row's visible entries are added to it.
    pub(crate) fn sweep_rows<T: Real>(
        costs: &[T],
        g: &[T],
        inverse: T,
        rule: &RowRule,
        first: usize,
        states: &mut [RowState<T>],
        tile: &mut TileSums<T>,
        outer: Option<&mut Vec<f64>>,
    ) {
        let mut outer = outer;
        let (k, width) = (tile.sums.len() - 1, tile.width);
        let at_once = tile.block.len() / width;
        let mut block = core::mem::take(&mut tile.block);
        for (b, (states, costs)) in
            states.chunks_mut(at_once).zip(costs.chunks(at_once * k)).enumerate()
        {
            let block = &mut block[..states.len() * width];
            exponentiate(costs, k, g, inverse, states, block);
            for (r, (state, line)) in states.iter().zip(block.chunks_exact(width)).enumerate() {
                if !(state.z.is_finite() && state.top > T::neg_infinity()) {
                    tile.reject(&rule.law, first + b * at_once + r, state.mass, &costs[r * k..][..k]);
                    continue;
                }
                tile.reach = tile.reach.max(state.top.widen().abs());
                let (mass, slope) = rule.mass(state);
                let factor = T::narrow(mass / state.z.widen());
                for (s, e) in tile.recent.as_chunks_mut().0.iter_mut().zip(line.as_chunks().0) {
                    *s = Lanes::of(s).zip(Lanes::of(e), |s, e| s + e * factor).0;
                }
                if let Some(outer) = outer.as_deref_mut() {
                    add_outer(line, k + 1, state.z, slope * mass, outer);
                }
                tile.pending += 1;
                if tile.pending == FLUSH {
                    tile.flush(None);
                }
            }
        }
        tile.block = block;
        tile.flush(None);
    }
}

/// Adds `P_i P_iᵀ / a_i` of one row into the lower triangle of `outer`, visible entries only. Nearly all
/// rows have one or two; a row with more than fit on the stack is not worth hurrying.
#[inline(always)]
fn add_outer<T: Real>(line: &[T], side: usize, z: T, mass: f64, outer: &mut [f64]) {
    const ROOM: usize = 32;
    let drop_below = z * T::narrow(DROP_TOLERANCE);
    let inverse = 1.0 / z.widen();
    let mut seen = [(0usize, 0.0f64); ROOM];
    let mut count = 0;
    for (c, chunk) in line.as_chunks::<LANES>().0.iter().enumerate() {
        // Most chunks hold nothing visible: look at them as a whole first.
        if Lanes::of(chunk).largest() <= drop_below {
            continue;
        }
        for (l, &e) in chunk.iter().enumerate() {
            if e > drop_below {
                if count == ROOM {
                    return add_outer_many(&line[..side], drop_below, inverse, mass, outer);
                }
                seen[count] = (c * LANES + l, e.widen() * inverse);
                count += 1;
            }
        }
    }
    add_products(&seen[..count], side, mass, outer);
}

#[inline(never)]
fn add_outer_many<T: Real>(line: &[T], drop_below: T, inverse: f64, mass: f64, outer: &mut [f64]) {
    let kept = line.iter().enumerate().filter(|(_, e)| **e > drop_below);
    let seen: Vec<(usize, f64)> = kept.map(|(j, e)| (j, e.widen() * inverse)).collect();
    add_products(&seen, line.len(), mass, outer);
}

#[inline(always)]
fn add_products(seen: &[(usize, f64)], side: usize, mass: f64, outer: &mut [f64]) {
    for (at, &(i, p)) in seen.iter().enumerate() {
        let row = &mut outer[i * side..][..side];
        for &(j, q) in &seen[..=at] {
            row[j] += mass * p * q;
        }
    }
}

dispatch! {
    /// Writes the absorbed kernel `exp((g_j − C_ij − top_i)/ε)` of some rows over `kernel` (rows of the
    /// columns alone) and notes each row's top.
    pub(crate) fn absorb_rows<T: Real>(
        costs: &[T],
        g: &[T],
        inverse: T,
        law: &Law,
        first: usize,
        states: &mut [RowState<T>],
        kernel: &mut [T],
        tile: &mut TileSums<T>,
    ) {
        let (k, width) = (tile.sums.len() - 1, tile.width);
        let at_once = tile.block.len() / width;
        let mut block = core::mem::take(&mut tile.block);
        let parts = states.chunks_mut(at_once).zip(costs.chunks(at_once * k));
        for (b, ((states, costs), kernel)) in parts.zip(kernel.chunks_mut(at_once * k)).enumerate() {
            let block = &mut block[..states.len() * width];
            exponentiate(costs, k, g, inverse, states, block);
            let rows = states.iter_mut().zip(block.chunks_exact(width)).zip(kernel.chunks_exact_mut(k));
            for (r, ((state, line), out)) in rows.enumerate() {
                if state.z.is_finite() && state.top > T::neg_infinity() {
                    tile.reach = tile.reach.max(state.top.widen().abs());
                    out.copy_from_slice(&line[..k]);
                } else {
                    tile.reject(law, first + b * at_once + r, state.mass, &costs[r * k..][..k]);
                    state.top = T::zero();
                    out.fill(T::zero());
                }
            }
        }
        tile.block = block;
    }
}

dispatch! {
    /// Sweeps rows of an absorbed kernel: no exponential but the slack's. `weights` are the columns'
    /// scalings since the absorption, padded; `slack` is the slack's logit, −∞ for none.
    pub(crate) fn scale_rows<T: Real>(
        kernel: &[T],
        weights: &[T],
        slack: T,
        inverse: T,
        rule: &RowRule,
        states: &mut [RowState<T>],
        tile: &mut TileSums<T>,
    ) {
        let k = tile.sums.len() - 1;
        let has_slack = slack > T::neg_infinity();
        for (state, row) in states.iter_mut().zip(kernel.chunks_exact(k)) {
            let mut chains = Lanes::splat(T::zero());
            let (chunks, rest) = row.as_chunks();
            for (e, w) in chunks.iter().zip(weights.as_chunks().0) {
                chains = chains.zip(Lanes::of(e).zip(Lanes::of(w), |e, w| e * w), |a, b| a + b);
            }
            let mut z = chains.sum();
            for (&e, &w) in rest.iter().zip(&weights[k - rest.len()..]) {
                z += e * w;
            }
            // The slack column is one number a row, not worth storing. Its logit may have drifted above
            // the row's top since the absorption, by no more than the drift the exponential can take.
            let kept =
                if has_slack { ((slack - state.top) * inverse).quick_exp() } else { T::zero() };
            state.z = z + kept;
            // Without an allowed pair a row may have mass where its law lets it keep that.
            if state.mass == 0.0 || state.z == T::zero() {
                continue;
            }
            let scale = rule.mass(state).0 / state.z.widen();
            let factor = T::narrow(scale);
            for (s, &e) in tile.recent.iter_mut().zip(row) {
                *s += e * factor;
            }
            tile.sums[k] += kept.widen() * scale;
            tile.pending += 1;
            if tile.pending == FLUSH {
                tile.flush(Some(&weights[..k]));
            }
        }
        tile.flush(Some(&weights[..k]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::dispatch::plainly;
    use proptest::prelude::*;

    /// Sweeps and absorbs the same rows; everything a kernel computes, in bits.
    fn everything<T: Real>(
        costs: &[f64],
        k: usize,
        g: &[f64],
        slack: f64,
        inverse: f64,
    ) -> Vec<u64> {
        let costs: Vec<T> = costs.iter().map(|&c| T::narrow(c)).collect();
        let rows = costs.len() / k;
        let mut states = vec![RowState::<T>::new(0.7); rows];
        let g = padded::<T>(g.iter().copied().chain([slack]), k, T::neg_infinity());
        let (slack, inverse) = (T::narrow(slack), T::narrow(inverse));
        let mut tile = TileSums::new(k);
        let mut outer = vec![0.0; (k + 1) * (k + 1)];
        let rule = RowRule {
            law: Law::EXACT,
            epsilon: 0.3,
            shift: 0.0,
        };
        sweep_rows(
            &costs,
            &g,
            inverse,
            &rule,
            0,
            &mut states,
            &mut tile,
            Some(&mut outer),
        );
        let mut bits: Vec<u64> = tile
            .sums
            .iter()
            .chain(&outer)
            .map(|x| x.to_bits())
            .collect();
        let mut kernel = vec![T::zero(); rows * k];
        let mut tile = TileSums::new(k);
        absorb_rows(
            &costs,
            &g,
            inverse,
            &rule.law,
            0,
            &mut states,
            &mut kernel,
            &mut tile,
        );
        let weights = padded::<T>(core::iter::repeat_n(1.5, k), k, T::zero());
        scale_rows(
            &kernel,
            &weights,
            slack,
            inverse,
            &rule,
            &mut states,
            &mut tile,
        );
        bits.extend(tile.sums.iter().map(|x| x.to_bits()));
        bits.extend(states.iter().map(|s| s.potential(&rule).to_bits()));
        bits
    }

    proptest! {
        #[test]
        fn wide_vectors_compute_the_same_bits(
            k in 1usize..40,
            seed in prop::collection::vec(0.0f64..3.0, 400),
            slack in -2.0f64..2.0,
            sharp in 0.1f64..200.0,
        ) {
            let rows = seed.len() / k - 1;
            let (g, costs) = seed.split_at(k);
            let costs = &costs[..rows * k];
            prop_assert_eq!(
                everything::<f32>(costs, k, g, slack, sharp),
                plainly(|| everything::<f32>(costs, k, g, slack, sharp))
            );
            prop_assert_eq!(
                everything::<f64>(costs, k, g, slack, sharp),
                plainly(|| everything::<f64>(costs, k, g, slack, sharp))
            );
        }
    }
}
