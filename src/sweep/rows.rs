//! The kernels: one row at a time, whole vectors within a row.
//!
//! Rows are padded to a whole number of [`LANES`] with potentials of −∞, so that the exponentials, by
//! far the dearest part, run without a scalar tail. Sums run in `LANES` independent chains of fixed
//! order. Column sums are collected in the cost's own type over [`FLUSH`] rows and then added in `f64`.

use crate::Real;
use crate::simd::dispatch;

/// Independent chains of a sum; also what rows are padded to.
pub(crate) const LANES: usize = 8;

/// Rows whose column contributions are added up in `T` before they go to `f64`.
const FLUSH: usize = 64;

/// A weight that is invisible in a curvature.
const FAINT: f64 = 1e-8;

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

    /// `f_i = ε (ln a_i − ln Z_i)`.
    pub(crate) fn potential(&self, epsilon: f64) -> f64 {
        if self.mass == 0.0 {
            return f64::NEG_INFINITY;
        }
        epsilon * (self.mass / self.z.widen()).ln() - self.top.widen()
    }
}

/// Sums of one tile of rows.
#[derive(Debug, Clone)]
pub(crate) struct TileSums<T> {
    /// Row of the plan at hand, padded.
    line: Vec<T>,
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

impl<T: Real> TileSums<T> {
    pub(crate) fn new(cols: usize) -> Self {
        let padded = cols.next_multiple_of(LANES);
        Self {
            line: vec![T::neg_infinity(); padded],
            recent: vec![T::zero(); padded],
            sums: vec![0.0; cols + 1],
            reach: 0.0,
            bad: None,
            pending: 0,
        }
    }

    /// Moves the recent contributions to the sums, each times its column's weight where given.
    pub(crate) fn flush(&mut self, weights: Option<&[T]>) {
        match weights {
            None => {
                for (s, r) in self.sums.iter_mut().zip(&mut self.recent) {
                    *s += r.widen();
                    *r = T::zero();
                }
            }
            Some(weights) => {
                for ((s, r), w) in self.sums.iter_mut().zip(&mut self.recent).zip(weights) {
                    *s += r.widen() * w.widen();
                    *r = T::zero();
                }
            }
        }
        self.pending = 0;
    }
}

/// Potentials in the cost's own type, padded with −∞.
pub(crate) fn padded<T: Real>(values: &[f64], shift: f64) -> Vec<T> {
    let mut out = vec![T::neg_infinity(); values.len().next_multiple_of(LANES)];
    out.iter_mut()
        .zip(values)
        .for_each(|(o, v)| *o = T::narrow(v - shift));
    out
}

#[inline(always)]
fn largest<T: Real>(line: &[T], floor: T) -> T {
    let mut top = [floor; LANES];
    for chunk in line.chunks_exact(LANES) {
        for l in 0..LANES {
            top[l] = if chunk[l] > top[l] { chunk[l] } else { top[l] };
        }
    }
    top.iter().fold(floor, |a, &b| if b > a { b } else { a })
}

#[inline(always)]
fn folded<T: Real>(chains: [T; LANES]) -> T {
    ((chains[0] + chains[4]) + (chains[2] + chains[6]))
        + ((chains[1] + chains[5]) + (chains[3] + chains[7]))
}

/// Turns a row of `g − C` in `line` into `exp((g − C − top)/ε)`; returns `(top, Z, slack's share of Z)`.
/// A row with nothing allowed gives `top = −∞`.
#[inline(always)]
fn exponentiate<T: Real>(line: &mut [T], slack: T, inverse: T) -> (T, T, T) {
    let top = largest(line, slack);
    let mut chains = [T::zero(); LANES];
    for chunk in line.chunks_exact_mut(LANES) {
        for l in 0..LANES {
            let e = ((chunk[l] - top) * inverse).exp_nonpositive();
            chunk[l] = e;
            chains[l] += e;
        }
    }
    let kept = ((slack - top) * inverse).exp_nonpositive();
    (top, folded(chains) + kept, kept)
}

dispatch! {
    /// Sweeps rows in the log domain: `costs` holds `states.len()` rows, `g` is padded. Where `visible`
    /// is given, the outer products of each row's visible entries are added to it.
    pub(crate) fn sweep_rows<T: Real>(
        costs: &[T],
        g: &[T],
        slack: T,
        inverse: T,
        first: usize,
        states: &mut [RowState<T>],
        tile: &mut TileSums<T>,
        outer: Option<&mut Vec<f64>>,
    ) {
        let mut outer = outer;
        let k = tile.sums.len() - 1;
        for (r, (state, row)) in states.iter_mut().zip(costs.chunks_exact(k)).enumerate() {
            for ((z, &c), &p) in tile.line.iter_mut().zip(row).zip(g) {
                *z = p - c;
            }
            tile.line[k..].fill(T::neg_infinity());
            let (top, z, kept) = exponentiate(&mut tile.line, slack, inverse);
            state.top = top;
            state.z = z;
            if !(z.is_finite() && top > T::neg_infinity()) {
                let spoiled = row.iter().any(|c| c.is_nan() || *c == T::neg_infinity());
                if (state.mass > 0.0 || spoiled) && tile.bad.is_none() {
                    tile.bad = Some(first + r);
                }
                continue;
            }
            tile.reach = tile.reach.max(top.widen().abs());
            let scale = state.mass / z.widen();
            let factor = T::narrow(scale);
            for (s, &e) in tile.recent.iter_mut().zip(&tile.line) {
                *s += e * factor;
            }
            tile.sums[k] += kept.widen() * scale;
            if let Some(outer) = outer.as_deref_mut() {
                add_outer(&tile.line[..k], kept, z, state.mass, outer);
            }
            tile.pending += 1;
            if tile.pending == FLUSH {
                tile.flush(None);
            }
        }
        tile.flush(None);
    }
}

/// Adds `P_i P_iᵀ / a_i` of one row into the lower triangle of `outer`, visible entries only. Nearly all
/// rows have one or two.
#[inline(always)]
fn add_outer<T: Real>(line: &[T], kept: T, z: T, mass: f64, outer: &mut [f64]) {
    const ROOM: usize = 32;
    let side = line.len() + 1;
    let faint = z * T::narrow(FAINT);
    let inverse = 1.0 / z.widen();
    let mut seen = [(0usize, 0.0f64); ROOM];
    let mut count = 0;
    let flush = |seen: &[(usize, f64)], outer: &mut [f64]| {
        for (at, &(i, p)) in seen.iter().enumerate() {
            let row = &mut outer[i * side..][..side];
            for &(j, q) in &seen[..=at] {
                row[j] += mass * p * q;
            }
        }
    };
    let mut many: Vec<(usize, f64)> = Vec::new();
    for (c, chunk) in line.chunks(LANES).enumerate() {
        // Most chunks hold nothing visible: look at them as a whole first.
        if chunk
            .iter()
            .fold(T::zero(), |a, &b| if b > a { b } else { a })
            <= faint
        {
            continue;
        }
        for (l, &e) in chunk.iter().enumerate() {
            if e > faint {
                let entry = (c * LANES + l, e.widen() * inverse);
                if count < ROOM {
                    seen[count] = entry;
                    count += 1;
                } else {
                    if many.is_empty() {
                        many.extend_from_slice(&seen);
                    }
                    many.push(entry);
                }
            }
        }
    }
    if kept > faint {
        let entry = (line.len(), kept.widen() * inverse);
        if count < ROOM {
            seen[count] = entry;
            count += 1;
        } else {
            if many.is_empty() {
                many.extend_from_slice(&seen);
            }
            many.push(entry);
        }
    }
    if many.is_empty() {
        flush(&seen[..count], outer)
    } else {
        flush(&many, outer)
    }
}

dispatch! {
    /// Writes the absorbed kernel `exp((g_j − C_ij − top_i)/ε)` of some rows over `kernel` and notes each
    /// row's top; `line` is scratch of padded width.
    pub(crate) fn absorb_rows<T: Real>(
        costs: &[T],
        g: &[T],
        slack: T,
        inverse: T,
        first: usize,
        states: &mut [RowState<T>],
        kernel: &mut [T],
        tile: &mut TileSums<T>,
    ) {
        let k = tile.sums.len() - 1;
        let rows = costs.chunks_exact(k).zip(kernel.chunks_exact_mut(k));
        for (r, (state, (row, out))) in states.iter_mut().zip(rows).enumerate() {
            for ((z, &c), &p) in tile.line.iter_mut().zip(row).zip(g) {
                *z = p - c;
            }
            tile.line[k..].fill(T::neg_infinity());
            let (top, z, _) = exponentiate(&mut tile.line, slack, inverse);
            state.top = top;
            if !(z.is_finite() && top > T::neg_infinity()) {
                let spoiled = row.iter().any(|c| c.is_nan() || *c == T::neg_infinity());
                if (state.mass > 0.0 || spoiled) && tile.bad.is_none() {
                    tile.bad = Some(first + r);
                }
                state.top = T::zero();
                out.fill(T::zero());
                continue;
            }
            tile.reach = tile.reach.max(top.widen().abs());
            out.copy_from_slice(&tile.line[..k]);
        }
    }
}

dispatch! {
    /// Sweeps rows of an absorbed kernel: no exponential at all. `weights` are the columns' scalings
    /// since the absorption.
    pub(crate) fn scale_rows<T: Real>(
        kernel: &[T],
        weights: &[T],
        slack: T,
        inverse: T,
        states: &mut [RowState<T>],
        tile: &mut TileSums<T>,
    ) {
        let k = tile.sums.len() - 1;
        let weights = &weights[..k];
        let whole = k - k % LANES;
        let has_slack = slack > T::neg_infinity();
        for (state, row) in states.iter_mut().zip(kernel.chunks_exact(k)) {
            let mut chains = [T::zero(); LANES];
            for (e, w) in row[..whole].chunks_exact(LANES).zip(weights[..whole].chunks_exact(LANES)) {
                for l in 0..LANES {
                    chains[l] += e[l] * w[l];
                }
            }
            for l in whole..k {
                chains[l - whole] += row[l] * weights[l];
            }
            // The slack column is one number a row, not worth storing. Its logit may have drifted above
            // the row's top since the absorption, by no more than the drift the exponential can take.
            let kept = if has_slack { ((slack - state.top) * inverse).exp_nonpositive() } else { T::zero() };
            state.z = folded(chains) + kept;
            if state.mass == 0.0 {
                continue;
            }
            let scale = state.mass / state.z.widen();
            let factor = T::narrow(scale);
            for (s, &e) in tile.recent.iter_mut().zip(row) {
                *s += e * factor;
            }
            tile.sums[k] += kept.widen() * scale;
            tile.pending += 1;
            if tile.pending == FLUSH {
                tile.flush(Some(weights));
            }
        }
        tile.flush(Some(weights));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::plainly;
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
        let g: Vec<T> = padded(g, 0.0);
        let (slack, inverse) = (T::narrow(slack), T::narrow(inverse));
        let mut tile = TileSums::new(k);
        let mut outer = vec![0.0; (k + 1) * (k + 1)];
        sweep_rows(
            &costs,
            &g,
            slack,
            inverse,
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
            slack,
            inverse,
            0,
            &mut states,
            &mut kernel,
            &mut tile,
        );
        let weights = vec![T::narrow(1.5); k];
        scale_rows(&kernel, &weights, slack, inverse, &mut states, &mut tile);
        bits.extend(tile.sums.iter().map(|x| x.to_bits()));
        bits.extend(states.iter().map(|s| s.potential(0.3).to_bits()));
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
