//! Sweeps over the pairs that a cost names: what is not named carries nothing and is not looked at.
//!
//! A row's potentials are gathered, its entries worked out as those of any row ([`GibbsRows`]), always in `f64` and less the row's least
//! cost, and scattered into the sums.

use super::backend::{Backend, DualPoint};
use super::gibbs::{GibbsRows, RowSum};
use super::streamed::{log_sum_of, resolution};
use crate::cost::Pairs;
use crate::kernel::tiles::{map_tiles, tile_rows};
use crate::problem::penalty::Law;
use crate::{Error, Real, Side};

/// Sweeps over the allowed pairs of a cost.
pub(crate) struct PairSweeps<'a, T> {
    pairs: Pairs<'a, T>,
    masses: Vec<f64>,
    cols: usize,
    law: Law,
    epsilon: f64,
    /// Column potentials of the last sweep.
    last: Vec<f64>,
    /// What each row added up to at the last sweep.
    row_sums: Vec<RowSum>,
    resolution: f64,
}

/// What rows make of a sweep.
struct Tile {
    sums: Vec<f64>,
    /// The size of exponents that entries are differences of, times ε.
    reach: f64,
    /// A row that has mass and no way, or whose costs are no numbers.
    bad: Option<usize>,
}

impl<'a, T: Real> PairSweeps<'a, T> {
    pub(crate) fn new(pairs: Pairs<'a, T>, cols: usize, masses: &[f64]) -> Self {
        Self {
            pairs,
            masses: masses.to_vec(),
            cols,
            law: Law::EXACT,
            epsilon: 1.0,
            last: Vec::new(),
            row_sums: vec![RowSum::NOTHING; masses.len()],
            resolution: 8.0 * f64::EPSILON,
        }
    }

    /// What is wrong with a row.
    fn diagnose(&self, row: usize) -> Error {
        let (cols, costs) = self.pairs.row(row);
        let wrong = cols.iter().zip(costs).map(|(&j, c)| (j, c.widen()));
        match wrong.into_iter().find(|(_, c)| !(*c > f64::NEG_INFINITY)) {
            Some((col, value)) => Error::Cost {
                row,
                col: col as usize,
                value,
            },
            None => Error::Blocked {
                side: Side::Rows,
                index: row,
                mass: self.masses[row],
            },
        }
    }
}

impl<T: Real> Backend for PairSweeps<'_, T> {
    fn name(&self) -> &'static str {
        "pairs"
    }

    fn rows(&self) -> usize {
        self.masses.len()
    }

    fn cols(&self) -> usize {
        self.cols
    }

    fn sweep(&mut self, at: &DualPoint<'_>, sums: &mut [f64]) -> Result<(), Error> {
        let (pairs, masses, cols) = (self.pairs, &self.masses, self.cols);
        let gibbs = GibbsRows::new(at, self.law);
        let tile = tile_rows(masses.len(), pairs.per_row());
        let tiles = map_tiles(&mut self.row_sums, tile, |rows, row_sums| {
            let mut tile = Tile {
                sums: vec![0.0; cols + 1],
                reach: 0.0,
                bad: None,
            };
            let (mut g, mut entries) = (Vec::new(), Vec::new());
            for (i, sum) in rows.zip(row_sums) {
                let row = gibbs.write_listed(masses[i], pairs.row(i), &mut g, &mut entries);
                *sum = row.sum;
                if masses[i] == 0.0 {
                    continue;
                }
                // A row without a way carries nothing where its law lets it, and is an error where not.
                if row.sum.is_nan() || (row.sum.is_nothing() && gibbs.law().is_exact()) {
                    tile.bad = tile.bad.or(Some(i));
                    continue;
                }
                tile.reach = tile.reach.max(row.reach);
                for (&j, p) in pairs.row(i).0.iter().zip(&entries) {
                    tile.sums[j as usize] += p;
                }
                tile.sums[cols] += row.kept;
            }
            tile
        });
        sums.fill(0.0);
        let mut reach = 0.0f64;
        for tile in tiles {
            if let Some(row) = tile.bad {
                return Err(self.diagnose(row));
            }
            reach = reach.max(tile.reach);
            sums.iter_mut().zip(tile.sums).for_each(|(s, t)| *s += t);
        }
        self.resolution = resolution::<f64>(at, gibbs.shift(), reach);
        (self.epsilon, self.last) = (at.epsilon, at.cols.to_vec());
        Ok(())
    }

    fn log_sums(&mut self, cols: &[usize], out: &mut [f64]) -> Result<(), Error> {
        let epsilon = self.epsilon;
        let potential = |i: usize| self.row_sums[i].potential(&self.law, epsilon, self.masses[i]);
        for (&j, log_sum) in cols.iter().zip(out) {
            let (rows, costs) = self.pairs.col(j);
            let each = rows.iter().zip(costs);
            let logits = each.map(|(&i, c)| potential(i as usize) + (self.last[j] - c.widen()));
            *log_sum = log_sum_of(logits, epsilon);
        }
        Ok(())
    }

    fn row_potentials(&mut self, out: &mut [f64]) -> Result<(), Error> {
        for ((f, &mass), sum) in out.iter_mut().zip(&self.masses).zip(&self.row_sums) {
            *f = sum.potential(&self.law, self.epsilon, mass);
        }
        Ok(())
    }

    fn resolution(&self) -> f64 {
        self.resolution
    }

    fn obey(&mut self, law: &Law) -> bool {
        self.law = *law;
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::random::Random;
    use crate::sweep::conformance;
    use crate::{Cost, Marginals, Problem, Sparse};

    #[test]
    fn sweeps_keep_the_laws_of_a_table_with_forbidden_pairs() {
        let mut random = Random::new(71, 0);
        let (n, k) = (40, 23);
        let named = |random: &mut Random, offset: f64| {
            let mut pairs = Vec::new();
            for i in 0..n {
                for j in 0..k {
                    if (i + j) % k == 0 || random.unit() < 0.2 {
                        pairs.push((i, j, random.unit() + offset));
                    }
                }
            }
            Sparse::from_pairs(n, k, pairs).unwrap()
        };
        for offset in [0.0, 1e9] {
            let cost = named(&mut random, offset);
            let mut masses: Vec<f64> = (0..n).map(|_| random.unit()).collect();
            masses[n / 2] = 0.0;
            let total: f64 = masses.iter().sum();
            let marginals = Marginals::balanced(&masses, &vec![total / k as f64; k]).unwrap();
            let problem = Problem::new(&cost, marginals).unwrap();
            for epsilon in [1.0, 0.05, 1e-4] {
                let cols: Vec<f64> = (0..k).map(|_| random.unit()).collect();
                for slack in [f64::NEG_INFINITY, 0.3 - offset] {
                    let point = DualPoint {
                        epsilon,
                        cols: &cols,
                        slack,
                    };
                    let mut backend = PairSweeps::new(cost.pairs().unwrap(), k, &masses);
                    let off = conformance(&mut backend, &problem, &point).unwrap();
                    let tolerance = if offset == 0.0 { 1e-9 } else { 1e-2 };
                    assert!(off.sums < tolerance, "{offset} {epsilon}: {off:?}");
                }
            }
        }
    }
}
