//! A cost less its row minima, in `f64`.
//!
//! ```text
//! C'_ij = C_ij − m_i        m_i = min_j C_ij        f'_i = f_i − m_i        g' = g
//! ```
//!
//! A constant added to a row moves that row's potential and nothing else, but it costs every sum `g_j − C_ij` the digits
//! that the constant has. Taken off first, by a subtraction that is exact where the entry is within a factor of two of
//! the minimum and rounds once elsewhere, an offset of 10¹⁵ costs none.
//!
//! With a slack column a constant does matter: it is what a row's mass saves by staying behind. Then nothing is taken off.

use core::ops::Range;

use super::widen_lines;
use crate::kernel::tiles::{map_tiles, tile_rows};
use crate::team::Shard;
use crate::{Cost, Real};

/// A view of a cost without its row minima.
#[derive(Debug, Clone)]
pub(crate) struct Reduced<'a, T, C: ?Sized> {
    cost: &'a C,
    /// The least finite cost of each row; zero where there is none; empty where nothing is taken off.
    minima: Vec<f64>,
    scalar: core::marker::PhantomData<fn() -> T>,
}

impl<'a, T: Real, C: Cost<T> + ?Sized> Reduced<'a, T, C> {
    /// One pass over the cost, or none where there is a slack column to compare it with.
    pub(crate) fn new(cost: &'a C, slack: bool) -> Self {
        let (n, k) = (cost.rows(), cost.cols());
        let mut minima = vec![0.0; if slack { 0 } else { n }];
        map_tiles(&mut minima, tile_rows(n, k), |rows, out| {
            let mut room = vec![T::zero(); k];
            for (i, least) in rows.zip(out) {
                let line = super::lend_row(cost, i, &mut room);
                let low = line.iter().copied().fold(T::infinity(), T::min).widen();
                *least = if low.is_finite() { low } else { 0.0 };
            }
        });
        Self {
            cost,
            minima,
            scalar: core::marker::PhantomData,
        }
    }

    /// What was taken off each row; empty for nothing.
    pub(crate) fn minima(&self) -> &[f64] {
        &self.minima
    }

    /// The largest of them in size, of all rows of a team.
    pub(crate) fn largest_minimum(&self) -> f64 {
        let own = self.minima.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        // A team that is gone shows at the next sweep.
        let shard = self.cost.shard();
        shard.map_or(own, |shard| shard.largest(own).unwrap_or(own))
    }
}

impl<T: Real, C: Cost<T> + ?Sized> Cost<f64> for Reduced<'_, T, C> {
    fn rows(&self) -> usize {
        self.cost.rows()
    }

    fn cols(&self) -> usize {
        self.cost.cols()
    }

    fn at(&self, row: usize, col: usize) -> f64 {
        self.cost.at(row, col).widen() - self.minima.get(row).unwrap_or(&0.0)
    }

    fn fill(&self, rows: Range<usize>, out: &mut [f64]) {
        let fill = |rows, out: &mut [T]| self.cost.fill(rows, out);
        widen_lines(rows.clone(), self.cost.cols(), fill, out);
        let minima = self.minima.get(rows).unwrap_or_default();
        for (least, line) in minima
            .iter()
            .zip(out.chunks_exact_mut(self.cost.cols().max(1)))
        {
            line.iter_mut().for_each(|c| *c -= least);
        }
    }

    fn fill_cols(&self, cols: Range<usize>, out: &mut [f64]) {
        let fill = |cols, out: &mut [T]| self.cost.fill_cols(cols, out);
        widen_lines(cols, self.cost.rows(), fill, out);
        for line in out.chunks_exact_mut(self.cost.rows().max(1)) {
            let both = line.iter_mut().zip(&self.minima);
            both.for_each(|(c, least)| *c -= least);
        }
    }

    fn is_stored(&self) -> bool {
        self.cost.is_stored()
    }

    fn shard(&self) -> Option<&Shard> {
        self.cost.shard()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Dense;

    #[test]
    fn offsets_leave_no_trace() {
        let inf = f64::INFINITY;
        let plain = [3.0, 0.5, inf, 0.25, 2.0, 0.75, inf, inf, inf];
        let offsets = [1e15, -1e12, 7.0];
        let shifted: Vec<f64> = (0..9).map(|at| plain[at] + offsets[at / 3]).collect();
        let shifted = Dense::new(&shifted, 3, 3).unwrap();
        let plain = Dense::new(&plain, 3, 3).unwrap();
        let (with, without) = (Reduced::new(&shifted, false), Reduced::new(&plain, false));
        assert_eq!(Reduced::new(&shifted, true).at(0, 1), 1e15 + 0.5);
        assert_eq!(with.minima(), [1e15 + 0.5, -1e12 + 0.25, 0.0]);
        assert_eq!(with.largest_minimum(), 1e15 + 0.5);
        let (mut rows, mut cols) = (vec![0.0; 9], vec![0.0; 9]);
        with.fill(0..3, &mut rows);
        with.fill_cols(0..3, &mut cols);
        for (at, &c) in rows.iter().enumerate() {
            assert_eq!(c, without.at(at / 3, at % 3));
            assert_eq!(c, with.at(at / 3, at % 3));
            assert_eq!(c, cols[at % 3 * 3 + at / 3]);
        }
    }
}
