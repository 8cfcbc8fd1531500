//! A few rows that stand for all: where a cold start begins.
//!
//! Column potentials are k + 1 numbers; a few thousand rows determine them to within a few per cent at a
//! small fraction of the cost of a full sweep. One row is drawn from each of `count` equal stretches, by a
//! fixed hash, so that neither sorted nor periodic data mislead it and the draw is the same every time.

use core::ops::Range;

use crate::kernel::hash::mix;
use crate::{Cost, Error, Real};

/// Some rows of a cost, as a cost.
#[derive(Debug)]
pub(crate) struct Sampled<'a, T, C: ?Sized> {
    cost: &'a C,
    rows: Vec<usize>,
    /// The rows themselves, where a team holds the cost: every member has all of them.
    table: Option<Vec<T>>,
}

impl<'a, T: Real, C: Cost<T> + ?Sized> Sampled<'a, T, C> {
    pub(crate) fn new(cost: &'a C, count: usize) -> Result<Self, Error> {
        let n = super::whole_rows(cost);
        let rows: Vec<usize> = (0..count)
            .map(|t| {
                let (from, to) = (t * n / count, ((t + 1) * n / count).max(t * n / count + 1));
                from + (mix(t as u64) % (to - from) as u64) as usize
            })
            .collect();
        let table = match cost.shard() {
            None => None,
            Some(_) => Some(super::fetch(cost, &rows)?),
        };
        Ok(Self { cost, rows, table })
    }

    /// Masses of the sampled rows out of those of `own` (a member's, or all), scaled up to a sum.
    pub(crate) fn masses(&self, own: &[f64], sum: f64) -> Result<Vec<f64>, Error> {
        let mut masses: Vec<f64> = match self.cost.shard() {
            None => self.rows.iter().map(|&i| own[i]).collect(),
            Some(shard) => {
                let here = self.rows.iter().filter(|i| shard.rows().contains(i));
                let mine = here.map(|i| own[i - shard.rows().start]).collect();
                shard.gather(Ok(mine))?.concat()
            }
        };
        let part = crate::kernel::rounding::sum(&masses);
        let scale = if part > 0.0 { sum / part } else { 0.0 };
        masses.iter_mut().for_each(|m| *m *= scale);
        Ok(masses)
    }
}

impl<T: Real, C: Cost<T> + ?Sized> Cost<T> for Sampled<'_, T, C> {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn cols(&self) -> usize {
        self.cost.cols()
    }

    fn at(&self, row: usize, col: usize) -> T {
        match &self.table {
            None => self.cost.at(self.rows[row], col),
            Some(table) => table[row * self.cols() + col],
        }
    }

    fn fill(&self, rows: Range<usize>, out: &mut [T]) {
        let k = self.cost.cols();
        if let Some(table) = &self.table {
            return out.copy_from_slice(&table[rows.start * k..rows.end * k]);
        }
        for (r, line) in rows.zip(out.chunks_exact_mut(k)) {
            crate::cost::copy_row(self.cost, self.rows[r], line);
        }
    }
}
