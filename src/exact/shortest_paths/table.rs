//! The costs a level sees: some rows of the problem, and the slack row as one row more.
//!
//! ```text
//! h_iv = C_iv − g⁰_v        v = 0 … k − 1 the columns, v = k the slack column
//! ```
//!
//! Everything in this module's siblings works on these shifted costs: they are small where the starting
//! potentials g⁰ are good, so that their differences keep more digits than those of the costs.

use super::paths::LANES;
use crate::cost::{copy_row, lend_row};
use crate::kernel::column_block::{BATCH_WIDTH, ColumnBlock, MOST_LINES};
use crate::kernel::dispatch::dispatch;
use crate::kernel::tiles;
use crate::{Cost, Real, Slack};

/// Marks a row that has no column.
pub(super) const NOWHERE: u32 = u32::MAX;

/// Where a row goes if prices alone decide, and what the next best column would cost more.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowMinima {
    /// The least shifted cost h_iu.
    pub(super) best: f64,
    /// How much more the second best column costs; +∞ where there is none.
    pub(super) regret: f64,
    /// How much more the third best column costs.
    pub(super) third: f64,
    /// The column u; [`NOWHERE`] where all pairs are forbidden.
    pub(super) argmin: u32,
    /// The second best column, if there is one.
    pub(super) next: u32,
}

impl RowMinima {
    const NONE: Self = Self {
        best: f64::INFINITY,
        regret: f64::INFINITY,
        third: f64::INFINITY,
        argmin: NOWHERE,
        next: NOWHERE,
    };
}

/// The rows of a level and the prices it started from.
#[derive(Debug)]
pub(super) struct Table<'a, T, C> {
    cost: &'a C,
    slack: Slack,
    /// Rows of the problem that take part; all of them where `None`.
    chosen: Option<Vec<u32>>,
    /// g⁰ of the columns and, last, of the slack column; −∞ where a column takes no mass.
    prices: Vec<f64>,
    scalar: core::marker::PhantomData<fn() -> T>,
}

impl<'a, T: Real, C: Cost<T>> Table<'a, T, C> {
    pub(super) fn new(
        cost: &'a C,
        slack: Slack,
        chosen: Option<Vec<u32>>,
        prices: Vec<f64>,
    ) -> Self {
        Self {
            cost,
            slack,
            chosen,
            prices,
            scalar: core::marker::PhantomData,
        }
    }

    /// Rows, slack row not counted; its index is this number.
    pub(super) fn rows(&self) -> usize {
        self.chosen.as_ref().map_or(self.cost.rows(), Vec::len)
    }

    /// Columns, slack column counted.
    pub(super) fn nodes(&self) -> usize {
        self.prices.len()
    }

    pub(super) fn prices(&self) -> &[f64] {
        &self.prices
    }

    fn row_of(&self, i: usize) -> usize {
        self.chosen.as_ref().map_or(i, |c| c[i] as usize)
    }

    /// Writes h_iv for every v; `line` is room for one row of costs.
    pub(super) fn shifted(&self, i: usize, line: &mut [T], out: &mut [f64]) {
        let k = self.cost.cols();
        if i == self.rows() {
            out[..k].fill(self.slack.row_cost);
            out[k] = self.slack.corner_cost;
        } else {
            let costs = lend_row(self.cost, self.row_of(i), line);
            for (h, c) in out.iter_mut().zip(costs) {
                *h = c.widen();
            }
            out[k] = self.slack.col_cost;
        }
        for (h, g) in out.iter_mut().zip(&self.prices) {
            *h -= g;
        }
    }

    /// One pass over the costs: where each row goes if prices alone decide.
    pub(super) fn minima(&self) -> Vec<RowMinima> {
        let (n, k) = (self.rows(), self.cost.cols());
        let mut minima = vec![RowMinima::NONE; n];
        let kept_back = self.slack.col_cost - self.prices[k];
        // Few enough rows to stay in the first-level cache where they must be written first.
        let few = (2048 / k).max(1);
        tiles::map_tiles(&mut minima, tiles::tile_rows(n, k), |rows, out| {
            let mut written = vec![T::zero(); few * k];
            let mut room = vec![f64::INFINITY; (k + 1).next_multiple_of(LANES)];
            let mut start = rows.start;
            for part in out.chunks_mut(few) {
                let end = start + part.len();
                let lent = match &self.chosen {
                    None => self.cost.block(start..end),
                    Some(_) => None,
                };
                let costs = lent.unwrap_or_else(|| {
                    let written = &mut written[..part.len() * k];
                    match &self.chosen {
                        None => self.cost.fill(start..end, written),
                        Some(chosen) => {
                            let lines = written.chunks_exact_mut(k);
                            for (&row, line) in chosen[start..end].iter().zip(lines) {
                                copy_row(self.cost, row as usize, line);
                            }
                        }
                    }
                    written
                });
                minima_of_rows(costs, &self.prices[..k], kept_back, &mut room, part);
                start = end;
            }
        });
        minima
    }
}

#[inline(always)]
fn lesser(a: f64, b: f64) -> f64 {
    if b < a { b } else { a }
}

/// The least of `values`, whose length is a multiple of [`LANES`]; NaN counts as +∞.
#[inline(always)]
fn least(values: &[f64]) -> f64 {
    let mut lanes = [f64::INFINITY; LANES];
    for chunk in values.as_chunks::<LANES>().0 {
        for (m, &x) in lanes.iter_mut().zip(chunk) {
            *m = lesser(*m, x);
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for at in 0..width {
            lanes[at] = lesser(lanes[at], lanes[at + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// The first place of `value` among `values`, which are as for [`least`]; zero where it is not there.
#[inline(always)]
fn position(values: &[f64], value: f64) -> usize {
    for (c, chunk) in values.as_chunks::<LANES>().0.iter().enumerate() {
        if chunk.iter().fold(false, |any, &x| any | (x == value)) {
            return c * LANES + chunk.iter().position(|&x| x == value).unwrap_or(0);
        }
    }
    0
}

/// The three least shifted costs so far of rows side by side, and the columns of the first two. Columns are kept as
/// numbers like any other, so that selecting them is a vector operation too.
struct ThreeSmallest {
    best: [f64; BATCH_WIDTH],
    second: [f64; BATCH_WIDTH],
    third: [f64; BATCH_WIDTH],
    argmin: [f64; BATCH_WIDTH],
    next: [f64; BATCH_WIDTH],
}

impl ThreeSmallest {
    #[inline(always)]
    fn new() -> Self {
        let none = [f64::INFINITY; BATCH_WIDTH];
        Self {
            best: none,
            second: none,
            third: none,
            argmin: [0.0; BATCH_WIDTH],
            next: [0.0; BATCH_WIDTH],
        }
    }

    /// Sifts column `v` through; a NaN, ∞ − ∞ of a column without mass, counts as +∞.
    #[inline(always)]
    fn sift(&mut self, v: u32, shifted: impl Fn(usize) -> f64) {
        let greater = |a: f64, b: f64| if b > a { b } else { a };
        let v = f64::from(v);
        for r in 0..BATCH_WIDTH {
            let h = lesser(f64::INFINITY, shifted(r));
            let (first, better) = (h < self.best[r], h < self.second[r]);
            let next = if better { v } else { self.next[r] };
            self.next[r] = if first { self.argmin[r] } else { next };
            self.argmin[r] = if first { v } else { self.argmin[r] };
            self.third[r] = lesser(self.third[r], greater(self.second[r], h));
            self.second[r] = lesser(self.second[r], greater(self.best[r], h));
            self.best[r] = lesser(self.best[r], h);
        }
    }

    #[inline(always)]
    fn minima(&self, r: usize) -> RowMinima {
        let best = self.best[r];
        if best == f64::INFINITY {
            return RowMinima::NONE;
        }
        RowMinima {
            best,
            regret: self.second[r] - best,
            third: self.third[r] - best,
            argmin: self.argmin[r] as u32,
            next: self.next[r] as u32,
        }
    }
}

/// Places rows of fewer entries than [`MOST_LINES`].
#[inline(always)]
fn minima_short<T: Real>(costs: &[T], prices: &[f64], kept_back: f64, out: &mut [RowMinima]) {
    let k = prices.len();
    let mut block = ColumnBlock::new(T::zero());
    for (costs, out) in costs
        .chunks(BATCH_WIDTH * k)
        .zip(out.chunks_mut(BATCH_WIDTH))
    {
        block.transpose_in(costs, k);
        let mut smallest = ThreeSmallest::new();
        for (v, (line, g)) in (0u32..).zip(block.lines[..k].iter().zip(prices)) {
            smallest.sift(v, |r| line[r].widen() - g);
        }
        smallest.sift(k as u32, |_| kept_back);
        for (r, row) in out.iter_mut().enumerate() {
            *row = smallest.minima(r);
        }
    }
}

dispatch! {
    /// Places each row of `costs` in the column of least shifted cost: short rows side by side, long ones by several
    /// sweeps over one row in the cache (least, where, second least …) rather than one clever one, because each of them is
    /// vector code.
    fn minima_of_rows<T: Real>(
        costs: &[T],
        prices: &[f64],
        kept_back: f64,
        room: &mut [f64],
        out: &mut [RowMinima],
    ) {
        let k = prices.len();
        if k < MOST_LINES {
            return minima_short(costs, prices, kept_back, out);
        }
        for (line, row) in costs.chunks_exact(k).zip(out) {
            for ((h, c), g) in room.iter_mut().zip(line).zip(prices) {
                *h = c.widen() - g;
            }
            room[k] = kept_back;
            let best = least(room);
            if best == f64::INFINITY {
                *row = RowMinima::NONE;
                continue;
            }
            let argmin = position(room, best);
            room[argmin] = f64::INFINITY;
            let second = least(room);
            let next = position(room, second);
            room[next] = f64::INFINITY;
            *row = RowMinima {
                best,
                regret: second - best,
                third: least(room) - best,
                argmin: argmin as u32,
                next: next as u32,
            };
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Dense;
    use crate::kernel::dispatch::plainly;

    /// The definition: sort the shifted costs of a row.
    fn by_sorting(costs: &[f64], prices: &[f64], kept_back: f64) -> (f64, f64, f64) {
        let mut h: Vec<f64> = costs.iter().zip(prices).map(|(c, g)| c - g).collect();
        h.extend([kept_back, f64::INFINITY, f64::INFINITY]);
        h.sort_by(f64::total_cmp);
        (h[0], h[1] - h[0], h[2] - h[0])
    }

    #[test]
    fn minima_are_the_three_least_on_any_machine() {
        for k in [1usize, 2, 7, 8, 9, 31] {
            let n = 40;
            let costs: Vec<f64> = (0..n * k)
                .map(|e| match (e * 7919) % 23 {
                    0 => f64::INFINITY,
                    r => f64::from(r as u32 % 11) * 0.1,
                })
                .collect();
            let mut prices: Vec<f64> = (0..=k).map(|j| 0.01 * j as f64).collect();
            prices[0] = f64::NEG_INFINITY;
            let slack = Slack {
                col_cost: 0.35,
                ..Slack::NONE
            };
            let cost = Dense::new(&costs, n, k).unwrap();
            let table = Table::new(&cost, slack, None, prices.clone());
            let (minima, plain) = (table.minima(), plainly(|| table.minima()));
            for (i, (row, twin)) in minima.iter().zip(&plain).enumerate() {
                let line = &costs[i * k..(i + 1) * k];
                let expected = by_sorting(line, &prices[..k], 0.35 - prices[k]);
                assert_eq!((row.best, row.regret, row.third), expected);
                let mut shifted = vec![0.0; k + 1];
                table.shifted(i, &mut vec![0.0; k], &mut shifted);
                assert_eq!(shifted[row.argmin as usize], row.best);
                if row.regret < f64::INFINITY {
                    assert_ne!(row.argmin, row.next);
                    assert_eq!(shifted[row.next as usize] - row.best, row.regret);
                }
                assert_eq!(
                    (row.argmin, row.next, row.best.to_bits()),
                    (twin.argmin, twin.next, twin.best.to_bits())
                );
            }
        }
    }
}
