//! Which entries of a row are near its best.
//!
//! ```text
//! z_j = g_j − C_ij        best = max_j z_j        near: z_j ≥ best − window
//! ```
//!
//! Long rows are looked at eight entries at a time. Short ones would leave most of that to waste: they are stood
//! in column blocks, sixteen side by side, and every operation is about one column of all sixteen.

use super::entries::{MOST_LISTED, Record};
use crate::Real;
use crate::kernel::column_block::{BATCH_WIDTH, ColumnBlock, MOST_LINES};
use crate::kernel::dispatch::dispatch;
use crate::kernel::lanes::{LANES, Lanes};

dispatch! {
    /// Records and margins of the rows in `costs`, at the potentials `g` of the columns, padded to whole [`LANES`]:
    /// `slack` is the slack's logit and `window` how far below the best an entry still matters.
    ///
    /// A row in which no entry is allowed, or one is no number, has a margin that is no number and an empty record.
    pub(crate) fn classify<T: Real>(
        costs: &[T],
        k: usize,
        g: &[T],
        slack: T,
        window: T,
        records: &mut [Record<T>],
        margins: &mut [T],
    ) {
        if k < MOST_LINES {
            let mut lines = ColumnBlock::new(T::zero());
            let parts = records.chunks_mut(BATCH_WIDTH).zip(margins.chunks_mut(BATCH_WIDTH));
            for (costs, (records, margins)) in costs.chunks(BATCH_WIDTH * k).zip(parts) {
                sort_short(costs, k, &mut lines, g, slack, window, records, margins);
            }
            return;
        }
        let rows = records.iter_mut().zip(margins);
        for (row, (record, margin)) in costs.chunks_exact(k).zip(rows) {
            (*record, *margin) = sort_long(row, g, slack, window);
        }
    }
}

/// How far the best is ahead of the next entry that is left out, less what rounding, here and at later potentials, may
/// have made of it.
#[inline(always)]
pub(super) fn lead<T: Real>(top: T, next: T) -> T {
    let doubt = T::epsilon() * T::narrow(16.0) * (top.abs() + next.abs());
    if next > T::neg_infinity() {
        top - next - doubt
    } else {
        T::infinity()
    }
}

/// [`classify`] for at most [`BATCH_WIDTH`] rows of fewer entries than [`MOST_LINES`]; behind their lines is the slack's,
/// which is zero.
#[allow(clippy::too_many_arguments)] // what it reads, room to work in, where it writes
#[inline(always)]
fn sort_short<T: Real>(
    costs: &[T],
    k: usize,
    lines: &mut ColumnBlock<T>,
    g: &[T],
    slack: T,
    window: T,
    records: &mut [Record<T>],
    margins: &mut [T],
) {
    lines.transpose_in(costs, k);
    let lines = &lines.lines[..=k];
    let potential = |j: usize| if j < k { g[j] } else { slack };
    let mut top = [T::neg_infinity(); BATCH_WIDTH];
    // A NaN is lost in a maximum.
    let mut odd = [T::zero(); BATCH_WIDTH];
    for (j, line) in lines.iter().enumerate() {
        let p = potential(j);
        for ((top, odd), &c) in top.iter_mut().zip(&mut odd).zip(line) {
            let z = p - c;
            *top = if z > *top { z } else { *top };
            *odd = if z.is_nan() { z } else { *odd };
        }
    }
    let mut below = [T::neg_infinity(); BATCH_WIDTH];
    // One bit a column, as a sum of powers of two: exact, and of the same width as the costs.
    let mut near = [T::zero(); BATCH_WIDTH];
    let mut bit = T::one();
    for (j, line) in lines.iter().enumerate() {
        let p = potential(j);
        for (((below, near), &c), &top) in below.iter_mut().zip(&mut near).zip(line).zip(&top) {
            let z = p - c;
            let inside = z >= top - window;
            let left_out = if inside { T::neg_infinity() } else { z };
            *below = if left_out > *below { left_out } else { *below };
            *near += if inside { bit } else { T::zero() };
        }
        bit += bit;
    }
    let mut ahead = [T::zero(); BATCH_WIDTH];
    for (((ahead, &top), &below), &odd) in ahead.iter_mut().zip(&top).zip(&below).zip(&odd) {
        let sound = !odd.is_nan() && top > T::neg_infinity() && top < T::infinity();
        *ahead = if sound { lead(top, below) } else { T::nan() };
    }
    let ghost = k + 1;
    for (r, (record, margin)) in records.iter_mut().zip(margins).enumerate() {
        *record = Record::absent(ghost);
        *margin = ahead[r];
        if margin.is_nan() {
            continue;
        }
        let mut left = near[r].to_u32().unwrap_or(0);
        for a in 0..MOST_LISTED {
            if left == 0 {
                break;
            }
            let j = left.trailing_zeros() as usize;
            left &= left - 1;
            record.cols[a] = j as u32;
            record.costs[a] = lines[j][r];
        }
        if left != 0 {
            (*record, *margin) = (Record::whole(ghost), T::neg_infinity());
        }
    }
}

/// [`classify`] for a row of at least [`LANES`] entries: the last eight are looked at together even if some of them
/// were looked at before.
#[inline(always)]
fn sort_long<T: Real>(row: &[T], g: &[T], slack: T, window: T) -> (Record<T>, T) {
    let (k, ghost) = (row.len(), row.len() + 1);
    let (costs, over) = row.as_chunks::<LANES>();
    let potentials = g.as_chunks::<LANES>().0;
    let last = if over.is_empty() {
        None
    } else {
        row.last_chunk().zip(g[..k].last_chunk())
    };
    let mut tops = Lanes::splat(slack);
    // A NaN is lost in a maximum.
    let mut odd = [0u32; LANES];
    for (c, p) in costs.iter().zip(potentials).chain(last) {
        let z = Lanes::of(p).zip(Lanes::of(c), |p, c| p - c);
        tops = tops.max(z);
        for (odd, z) in odd.iter_mut().zip(&z.0) {
            *odd |= u32::from(z.is_nan());
        }
    }
    let top = tops.largest();
    let sound = odd.iter().sum::<u32>() == 0 && top > T::neg_infinity() && top < T::infinity();
    if !sound {
        return (Record::absent(ghost), T::nan());
    }
    let bar = top - window;
    let mut record = Record::absent(ghost);
    let mut below = Lanes::splat(T::neg_infinity());
    let mut count = 0;
    for (at, (c, p)) in costs.iter().zip(potentials).chain(last).enumerate() {
        let start = (at * LANES).min(k - LANES);
        let z = Lanes::of(p).zip(Lanes::of(c), |p, c| p - c);
        below = below.zip(z, |a, z| if z < bar && z > a { z } else { a });
        let mut flags = [0u32; LANES];
        for (l, (flag, z)) in flags.iter_mut().zip(&z.0).enumerate() {
            *flag = u32::from(*z >= bar) << l;
        }
        let mut near = flags.iter().sum::<u32>();
        // What the chunk before has seen is not seen again.
        near &= u32::MAX << (at * LANES - start);
        while near != 0 {
            let l = near.trailing_zeros() as usize;
            near &= near - 1;
            if count < MOST_LISTED {
                record.cols[count] = (start + l) as u32;
                record.costs[count] = c[l];
            }
            count += 1;
        }
    }
    let mut next = below.largest();
    if slack >= bar {
        if count < MOST_LISTED {
            record.cols[count] = k as u32;
        }
        count += 1;
    } else if slack > next {
        next = slack;
    }
    if count > MOST_LISTED {
        return (Record::whole(ghost), T::neg_infinity());
    }
    (record, lead(top, next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::dispatch::plainly;
    use proptest::prelude::*;

    /// One row by the definition; the margin without doubt.
    fn by_hand(row: &[f64], g: &[f64], slack: f64, window: f64) -> Option<(Vec<usize>, f64)> {
        let mut z: Vec<f64> = row.iter().zip(g).map(|(c, g)| g - c).collect();
        z.push(slack);
        let top = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if z.iter().any(|z| z.is_nan()) || !top.is_finite() {
            return None;
        }
        let near = (0..z.len()).filter(|&j| z[j] >= top - window).collect();
        let left_out = z.iter().copied().filter(|z| *z < top - window);
        Some((near, top - left_out.fold(f64::NEG_INFINITY, f64::max)))
    }

    fn all<T: Real>(
        costs: &[f64],
        k: usize,
        g: &[f64],
        slack: f64,
        window: f64,
    ) -> Vec<(Record<T>, T)> {
        let costs: Vec<T> = costs.iter().map(|&c| T::narrow(c)).collect();
        let mut padded = vec![T::neg_infinity(); (k + 1).next_multiple_of(LANES)];
        for (p, &g) in padded.iter_mut().zip(g) {
            *p = T::narrow(g);
        }
        let rows = costs.len() / k;
        let mut records = vec![Record::absent(k + 1); rows];
        let mut margins = vec![T::zero(); rows];
        let (slack, window) = (T::narrow(slack), T::narrow(window));
        classify(
            &costs,
            k,
            &padded,
            slack,
            window,
            &mut records,
            &mut margins,
        );
        records.into_iter().zip(margins).collect()
    }

    /// Costs on a coarse grid, so that ties and bars that are met exactly occur; some forbidden, a few no numbers.
    fn costs() -> impl Strategy<Value = Vec<f64>> {
        let cost = prop_oneof![
            40 => (0u32..24).prop_map(|c| f64::from(c) / 8.0),
            8 => Just(f64::INFINITY),
            1 => prop_oneof![Just(f64::NAN), Just(f64::NEG_INFINITY)],
        ];
        prop::collection::vec(cost, 900)
    }

    proptest! {
        #[test]
        fn every_row_is_filed_as_defined(
            k in 1usize..28,
            costs in costs(),
            g in prop::collection::vec((-8i32..8).prop_map(|g| f64::from(g) / 8.0), 28),
            slack in prop_oneof![Just(f64::NEG_INFINITY), (-30i32..0).prop_map(|s| f64::from(s) / 8.0)],
            window in (0u32..12).prop_map(|w| f64::from(w) / 8.0),
        ) {
            let (g, costs) = (&g[..k], &costs[..costs.len() / k * k]);
            let found = all::<f64>(costs, k, g, slack, window);
            for (row, (record, margin)) in costs.chunks(k).zip(&found) {
                let Some((near, lead)) = by_hand(row, g, slack, window) else {
                    prop_assert!(margin.is_nan() && record.is_absent(k + 1));
                    continue;
                };
                if near.len() > MOST_LISTED {
                    prop_assert!(record.is_whole() && *margin == f64::NEG_INFINITY);
                    continue;
                }
                let mut cols = [k as u32 + 1; MOST_LISTED];
                let mut own = [0.0; MOST_LISTED];
                for (a, &j) in near.iter().enumerate() {
                    cols[a] = j as u32;
                    own[a] = if j < k { row[j] } else { 0.0 };
                }
                prop_assert_eq!(record.cols, cols);
                prop_assert_eq!(record.costs, own);
                prop_assert!(*margin <= lead && *margin >= lead - 1e-13 || *margin == lead);
            }
        }

        #[test]
        fn wide_vectors_file_alike(
            k in 1usize..28,
            costs in costs(),
            g in prop::collection::vec(-1.0f64..1.0, 28),
            slack in -3.0f64..0.0,
            window in 0.0f64..1.0,
        ) {
            let (g, costs) = (&g[..k], &costs[..costs.len() / k * k]);
            let wide = all::<f32>(costs, k, g, slack, window);
            let plain = plainly(|| all::<f32>(costs, k, g, slack, window));
            for ((record, margin), (twin, other)) in wide.iter().zip(&plain) {
                prop_assert_eq!(record, twin);
                prop_assert_eq!(margin.to_bits(), other.to_bits());
            }
        }
    }
}
