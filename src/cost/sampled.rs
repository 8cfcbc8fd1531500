//! A few rows that stand for all: where a cold start begins.
//!
//! Column potentials are k + 1 numbers; a few thousand rows determine them to within a few per cent at a
//! small fraction of the cost of a full sweep. One row is drawn from each of `count` equal stretches, by a
//! fixed hash, so that neither sorted nor periodic data mislead it and the draw is the same every time.

use core::ops::Range;

use crate::kernel::hash::mix;
use crate::{Cost, Real};

/// Some rows of a cost, as a cost.
#[derive(Debug)]
pub(crate) struct Sampled<'a, C: ?Sized> {
    cost: &'a C,
    rows: Vec<usize>,
}

impl<'a, C: ?Sized> Sampled<'a, C> {
    pub(crate) fn new<T: Real>(cost: &'a C, count: usize) -> Self
    where
        C: Cost<T>,
    {
        let n = cost.rows();
        let rows = (0..count)
            .map(|t| {
                let (from, to) = (t * n / count, ((t + 1) * n / count).max(t * n / count + 1));
                from + (mix(t as u64) % (to - from) as u64) as usize
            })
            .collect();
        Self { cost, rows }
    }

    /// Masses of the sampled rows out of those of `all`, scaled up to their sum.
    pub(crate) fn masses(&self, all: &[f64], sum: f64) -> Vec<f64> {
        let mut masses: Vec<f64> = self.rows.iter().map(|&i| all[i]).collect();
        let part = crate::kernel::rounding::sum(&masses);
        let scale = if part > 0.0 { sum / part } else { 0.0 };
        masses.iter_mut().for_each(|m| *m *= scale);
        masses
    }
}

impl<T: Real, C: Cost<T> + ?Sized> Cost<T> for Sampled<'_, C> {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn cols(&self) -> usize {
        self.cost.cols()
    }

    fn at(&self, row: usize, col: usize) -> T {
        self.cost.at(self.rows[row], col)
    }

    fn fill(&self, rows: Range<usize>, out: &mut [T]) {
        for (r, line) in rows.zip(out.chunks_exact_mut(self.cost.cols())) {
            crate::cost::copy_row(self.cost, self.rows[r], line);
        }
    }
}
