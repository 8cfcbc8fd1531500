//! Lists of pairs of any cost, by reading every row and every column: the way where no bound tells which to pass over, and
//! the twin of [`nearby`](super::nearby).

use super::{List, Source, WORST};
use crate::cost::Least;
use crate::cost::Transposed;
use crate::kernel::tiles::{map_ranges, tile_rows};
use crate::{Cost, Real};

/// A cost that is read line by line.
pub(super) struct Scan<'a, T> {
    cost: &'a dyn Cost<T>,
}

impl<'a, T: Real> Scan<'a, T> {
    pub(super) fn new(cost: &'a dyn Cost<T>) -> Self {
        Self { cost }
    }
}

/// For each row of a cost the `most` columns with the least `C − price` below what it asks, as (row, cost less price, column,
/// cost).
fn search<T: Real>(
    cost: &dyn Cost<T>,
    prices: &[f64],
    most: usize,
    below: impl Fn(usize) -> f64 + Sync,
) -> impl Iterator<Item = (u32, f64, u32, f64)> {
    let (n, k) = (cost.rows(), cost.cols());
    let tiles = map_ranges(n, tile_rows(n, k), |range| {
        let mut found = Vec::with_capacity(range.len());
        let (mut line, mut least) = (vec![T::zero(); k], Least::new(most));
        for i in range {
            least.clear();
            let mut limit = below(i);
            cost.fill(i..i + 1, &mut line);
            // Most of a row is not below the limit: a block at a time says so.
            for (at, (costs, prices)) in line.chunks(BLOCK).zip(prices.chunks(BLOCK)).enumerate() {
                let mut low = f64::INFINITY;
                for (c, g) in costs.iter().zip(prices) {
                    let r = c.widen() - g;
                    low = if r < low { r } else { low };
                }
                if !(low < limit) {
                    continue;
                }
                for (j, (&c, g)) in costs.iter().zip(prices).enumerate() {
                    let r = c.widen() - g;
                    if r < limit {
                        limit = least.offer(r, at * BLOCK + j, c).min(limit);
                    }
                }
            }
            let of_row = least.list().iter();
            found.extend(of_row.map(|&(r, j, c)| (i as u32, r, j as u32, c.widen())));
        }
        found
    });
    tiles.into_iter().flatten()
}

/// Columns that are compared at once.
const BLOCK: usize = 64;

impl<T: Real> Source for Scan<'_, T> {
    fn row_prices(&mut self, g: &[f64]) -> Vec<f64> {
        let mut f = vec![f64::INFINITY; self.cost.rows()];
        for (i, r, ..) in search(self.cost, g, 1, |_| f64::INFINITY) {
            f[i as usize] = r;
        }
        f
    }

    fn short_list(&mut self, g: &mut [f64], few: usize) -> List {
        let always = |_| f64::INFINITY;
        let f = self.row_prices(g);
        let mut list = List::new();
        g.fill(f64::INFINITY);
        for (j, r, i, c) in search(&Transposed(self.cost), &f, few, always) {
            g[j as usize] = g[j as usize].min(r);
            list.push((i, j, c));
        }
        let by_row = search(self.cost, g, few, always);
        list.extend(by_row.map(|(i, _, j, c)| (i, j, c)));
        list
    }

    fn violated(&mut self, f: &[f64], g: &[f64]) -> List {
        let found = search(self.cost, g, WORST, |i| f[i]);
        found.map(|(i, _, j, c)| (i, j, c)).collect()
    }
}
