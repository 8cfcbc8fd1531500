//! The sweep for short rows: sixteen at a time, in column blocks.
//!
//! The same question and answer as [`sweep_rows`](super::rows::sweep_rows). Sums are collected lane by lane in the
//! cost's own type, over [`FLUSH`] groups of rows, and then added in `f64`; so are all products of two columns where a
//! curvature is asked for: with few columns that is less work than to find out which of them can be seen.

use super::rows::{RowRule, RowState, TileSums};
use crate::Real;
use crate::kernel::column_block::{BATCH_WIDTH, ColumnBlock, MOST_LINES};
use crate::kernel::dispatch::dispatch;
use crate::problem::penalty::Law;

/// Groups of rows whose contributions are added up in `T` before they go to `f64`.
const FLUSH: usize = 64;

dispatch! {
    /// Sweeps rows of fewer entries than [`MOST_LINES`] in the log domain; arguments as for
    /// [`sweep_rows`](super::rows::sweep_rows).
    pub(crate) fn sweep_short<T: Real>(
        costs: &[T],
        g: &[T],
        inverse: T,
        rule: &RowRule,
        first: usize,
        states: &mut [RowState<T>],
        tile: &mut TileSums<T>,
        outer: Option<&mut Vec<f64>>,
    ) {
        let k = tile.sums.len() - 1;
        let mut outer = outer;
        let mut block = ColumnBlock::new(T::zero());
        let mut collected = Collected::new(k + 1, outer.is_some());
        let groups = states.chunks_mut(BATCH_WIDTH).zip(costs.chunks(BATCH_WIDTH * k));
        for (group, (states, costs)) in groups.enumerate() {
            block.transpose_in(costs, k);
            let lines = &mut block.lines[..=k];
            lines[k] = [T::zero(); BATCH_WIDTH];
            let (top, mut z) = exponentiate(lines, g, inverse);
            let (mut masses, mut slopes) = ([0.0; BATCH_WIDTH], [1.0; BATCH_WIDTH]);
            for (state, ((&top, &z), mass)) in states.iter_mut().zip(top.iter().zip(&z).zip(&mut masses)) {
                (state.top, state.z) = (top, z);
                *mass = state.mass;
            }
            // Asked once for sixteen rows: where masses are exact there is nothing more to find out about them.
            if !rule.law.is_exact() {
                for (state, (mass, slope)) in states.iter().zip(masses.iter_mut().zip(&mut slopes)) {
                    (*mass, *slope) = rule.mass(state);
                }
            }
            let fine = |(top, z): (&T, &T)| z.is_finite() & (*top > T::neg_infinity());
            if states.len() == BATCH_WIDTH && top.iter().zip(&z).fold(true, |all, r| all & fine(r)) {
                let farthest = top.iter().fold(T::zero(), |m, t| if t.abs() > m { t.abs() } else { m });
                tile.reach = tile.reach.max(farthest.widen());
            } else {
                let first = first + group * BATCH_WIDTH;
                set_aside(&rule.law, first, states, costs, lines, &mut z, &mut masses, tile);
            }
            collected.add(lines, &z, &masses, &slopes);
            if group % FLUSH == FLUSH - 1 {
                collected.flush(&mut tile.sums, outer.as_deref_mut());
            }
        }
        collected.flush(&mut tile.sums, outer);
    }
}

/// Takes rows that are impossible or missing out of a group: nothing of nothing.
#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn set_aside<T: Real>(
    law: &Law,
    first: usize,
    states: &[RowState<T>],
    costs: &[T],
    lines: &mut [[T; BATCH_WIDTH]],
    z: &mut [T; BATCH_WIDTH],
    masses: &mut [f64; BATCH_WIDTH],
    tile: &mut TileSums<T>,
) {
    let k = tile.sums.len() - 1;
    for r in 0..BATCH_WIDTH {
        let state = states.get(r);
        match state.filter(|s| s.z.is_finite() && s.top > T::neg_infinity()) {
            Some(state) => tile.reach = tile.reach.max(state.top.widen().abs()),
            None => {
                (masses[r], z[r]) = (0.0, T::one());
                lines.iter_mut().for_each(|line| line[r] = T::zero());
                if let Some(state) = state {
                    tile.reject(law, first + r, state.mass, &costs[r * k..][..k]);
                }
            }
        }
    }
}

/// Makes costs into `exp((g − C − top)/ε)`; returns the tops and the sums of what is left. A row with nothing allowed
/// has a top of −∞ and a sum that is no number.
#[inline(always)]
fn exponentiate<T: Real>(
    lines: &mut [[T; BATCH_WIDTH]],
    g: &[T],
    inverse: T,
) -> ([T; BATCH_WIDTH], [T; BATCH_WIDTH]) {
    let mut top = [T::neg_infinity(); BATCH_WIDTH];
    for (line, &p) in lines.iter_mut().zip(g) {
        for (z, top) in line.iter_mut().zip(&mut top) {
            *z = p - *z;
            *top = if *z > *top { *z } else { *top };
        }
    }
    let mut sum = [T::zero(); BATCH_WIDTH];
    for line in lines {
        for ((z, &top), sum) in line.iter_mut().zip(&top).zip(&mut sum) {
            *z = ((*z - top) * inverse).quick_exp();
            *sum += *z;
        }
    }
    (top, sum)
}

/// What was not yet added in `f64`, lane by lane.
struct Collected<T> {
    sums: [[T; BATCH_WIDTH]; MOST_LINES],
    /// Lower triangle of the products, row after row; empty where nobody asks for them.
    products: Vec<[T; BATCH_WIDTH]>,
    side: usize,
}

impl<T: Real> Collected<T> {
    fn new(side: usize, curved: bool) -> Self {
        let pairs = if curved { side * (side + 1) / 2 } else { 0 };
        Self {
            sums: [[T::zero(); BATCH_WIDTH]; MOST_LINES],
            products: vec![[T::zero(); BATCH_WIDTH]; pairs],
            side,
        }
    }

    /// Adds rows of these exponentials, sums of exponentials and masses; `slopes` say how much of a mass answers to its sum.
    #[inline(always)]
    fn add(
        &mut self,
        lines: &mut [[T; BATCH_WIDTH]],
        z: &[T; BATCH_WIDTH],
        masses: &[f64; BATCH_WIDTH],
        slopes: &[f64; BATCH_WIDTH],
    ) {
        let mut factor = [T::zero(); BATCH_WIDTH];
        for ((factor, &z), &mass) in factor.iter_mut().zip(z).zip(masses) {
            *factor = T::narrow(mass / z.widen());
        }
        for (sum, line) in self.sums.iter_mut().zip(&*lines) {
            for ((sum, &e), &factor) in sum.iter_mut().zip(line).zip(&factor) {
                *sum += e * factor;
            }
        }
        if self.products.is_empty() {
            return;
        }
        let mut inverse = [T::zero(); BATCH_WIDTH];
        for ((inverse, &z), &slope) in inverse.iter_mut().zip(z).zip(slopes) {
            *inverse = T::narrow(slope) / z;
        }
        let mut products = self.products.iter_mut();
        for i in 0..lines.len() {
            let mut weight = lines[i];
            for ((w, &factor), &inverse) in weight.iter_mut().zip(&factor).zip(&inverse) {
                *w *= factor * inverse;
            }
            for (line, product) in lines[..=i].iter().zip(&mut products) {
                for ((product, &w), &e) in product.iter_mut().zip(&weight).zip(line) {
                    *product += w * e;
                }
            }
        }
    }

    /// Adds everything in `f64` and starts again.
    #[inline(always)]
    fn flush(&mut self, sums: &mut [f64], outer: Option<&mut Vec<f64>>) {
        let total = |lanes: &mut [T; BATCH_WIDTH]| {
            let sum: f64 = lanes.iter().map(|x| x.widen()).sum();
            lanes.fill(T::zero());
            sum
        };
        for (sum, lanes) in sums.iter_mut().zip(&mut self.sums) {
            *sum += total(lanes);
        }
        if let Some(outer) = outer {
            let mut products = self.products.iter_mut();
            for i in 0..self.side {
                let row = &mut outer[i * self.side..=i * self.side + i];
                for (h, lanes) in row.iter_mut().zip(&mut products) {
                    *h += total(lanes);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::{padded, sweep_rows};
    use super::*;
    use crate::kernel::dispatch::plainly;
    use proptest::prelude::*;

    /// Sums, curvature, tops, sums of exponentials, reach and first impossible row.
    type Everything<T> = (Vec<f64>, Vec<f64>, Vec<(T, T)>, f64, Option<usize>);

    fn everything<T: Real>(
        short: bool,
        costs: &[f64],
        k: usize,
        g: &[f64],
        slack: f64,
        inverse: f64,
    ) -> Everything<T> {
        let costs: Vec<T> = costs.iter().map(|&c| T::narrow(c)).collect();
        let mass = |i: usize| {
            if i % 7 == 3 {
                0.0
            } else {
                0.5 + (i % 5) as f64
            }
        };
        let mut states: Vec<_> = (0..costs.len() / k)
            .map(|i| RowState::new(mass(i)))
            .collect();
        let g = padded::<T>(g.iter().copied().chain([slack]), k, T::neg_infinity());
        let mut tile = TileSums::new(k);
        let mut outer = vec![0.0; (k + 1) * (k + 1)];
        let sweep = if short { sweep_short } else { sweep_rows };
        let rule = RowRule {
            law: Law::EXACT,
            epsilon: 1.0 / inverse,
            shift: 0.0,
        };
        let inverse = T::narrow(inverse);
        sweep(
            &costs,
            &g,
            inverse,
            &rule,
            40,
            &mut states,
            &mut tile,
            Some(&mut outer),
        );
        let rows = states.iter().map(|s| (s.top, s.z)).collect();
        (tile.sums, outer, rows, tile.reach, tile.bad)
    }

    fn costs(spoiled: u32) -> impl Strategy<Value = Vec<f64>> {
        let cost = prop_oneof![
            200 => 0.0f64..3.0,
            20 => Just(f64::INFINITY),
            spoiled => prop_oneof![Just(f64::NAN), Just(f64::NEG_INFINITY)],
        ];
        prop::collection::vec(cost, 1500)
    }

    proptest! {
        /// The sweep of long rows is the simple twin.
        #[test]
        fn short_rows_sum_up_as_long_ones_do(
            k in 1usize..MOST_LINES,
            costs in costs(0),
            g in prop::collection::vec(-1.0f64..1.0, MOST_LINES),
            slack in prop_oneof![Just(f64::NEG_INFINITY), -2.0f64..2.0],
            sharp in 0.1f64..200.0,
        ) {
            let (g, costs) = (&g[..k], &costs[..costs.len() / k * k]);
            let short = everything::<f64>(true, costs, k, g, slack, sharp);
            let long = everything::<f64>(false, costs, k, g, slack, sharp);
            let close = |a: &[f64], b: &[f64], room: f64| {
                a.iter().zip(b).all(|(a, b)| (a - b).abs() <= room * costs.len() as f64)
            };
            prop_assert!(close(&short.0, &long.0, 1e-14), "{:?} {:?}", short.0, long.0);
            // The twin leaves out what is below a millionth of a row.
            prop_assert!(close(&short.1, &long.1, 1e-5));
            for (a, b) in short.2.iter().zip(&long.2) {
                let same = a.1.is_nan() && b.1.is_nan() || (a.1 - b.1).abs() <= 1e-14 * b.1;
                prop_assert!(a.0 == b.0 && same);
            }
            prop_assert_eq!((short.3, short.4), (long.3, long.4));
        }

        #[test]
        fn wide_vectors_compute_the_same_bits(
            k in 1usize..MOST_LINES,
            costs in costs(1),
            g in prop::collection::vec(-1.0f64..1.0, MOST_LINES),
            slack in -2.0f64..2.0,
            sharp in 0.1f64..200.0,
        ) {
            let (g, costs) = (&g[..k], &costs[..costs.len() / k * k]);
            let bits = |e: Everything<f32>| {
                let numbers = e.0.iter().chain(&e.1).chain([&e.3]);
                let z = |z: f32| if z.is_nan() { 0 } else { z.to_bits() };
                let rows = e.2.iter().map(|r| (r.0.to_bits(), z(r.1)));
                (numbers.map(|x| x.to_bits()).collect::<Vec<_>>(), rows.collect::<Vec<_>>(), e.4)
            };
            prop_assert_eq!(
                bits(everything(true, costs, k, g, slack, sharp)),
                bits(plainly(|| everything(true, costs, k, g, slack, sharp)))
            );
        }
    }
}
