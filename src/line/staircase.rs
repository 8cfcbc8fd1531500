//! The walk through two sorted lists, from the first of both to the last of both.

use core::ops::Range;

use crate::kernel::rounding::Sum;

/// Levels closer than this are one: sums of weights, scaled to one, that differ in their last digits.
const TIE: f64 = 8.0 * f64::EPSILON;

/// How much mass lies at or before each sample, out of one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cumulative {
    /// So many of equal weight. `(i + 1) / n` is rounded correctly, so that equal levels of two lists are equal numbers.
    Uniform(usize),
    /// The last is one.
    Weighted(Vec<f64>),
}

impl Cumulative {
    /// Of shares, which sum to one, in the order of the samples.
    pub(crate) fn of_shares(shares: impl Iterator<Item = f64>) -> Self {
        let (mut total, mut massive) = (Sum::default(), 0);
        let level = |(rank, share): (usize, f64)| {
            total.add(share);
            if share > 0.0 {
                massive = rank;
            }
            total.value().min(1.0)
        };
        let mut levels: Vec<f64> = shares.enumerate().map(level).collect();
        // The last that carries mass, and all after it, are at the top.
        levels[massive..].fill(1.0);
        Self::Weighted(levels)
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Uniform(n) => *n,
            Self::Weighted(levels) => levels.len(),
        }
    }

    /// Mass at or before the sample of this rank.
    #[inline(always)]
    pub(crate) fn at(&self, rank: usize) -> f64 {
        match self {
            Self::Uniform(n) => (rank + 1) as f64 / *n as f64,
            Self::Weighted(levels) => levels[rank],
        }
    }

    /// Mass before the sample of this rank.
    pub(crate) fn before(&self, rank: usize) -> f64 {
        if rank == 0 { 0.0 } else { self.at(rank - 1) }
    }

    /// The first rank at whose sample the level lies above `t`; the last rank where none does.
    pub(crate) fn above(&self, t: f64) -> usize {
        let last = self.len() - 1;
        match self {
            Self::Uniform(n) => {
                let mut rank = ((t * *n as f64) as usize).min(last);
                while rank > 0 && self.at(rank - 1) > t {
                    rank -= 1;
                }
                while rank < last && self.at(rank) <= t {
                    rank += 1;
                }
                rank
            }
            Self::Weighted(levels) => levels.partition_point(|level| *level <= t).min(last),
        }
    }
}

/// Whether two levels are one.
#[inline(always)]
pub(crate) fn tie(a: f64, b: f64) -> bool {
    (a - b).abs() <= TIE
}

/// Visits the steps of the staircase whose rows lie in `rows`, with the mass on each, which may be none. From one step to the next
/// the row moves on, or the column, or both at once where their levels are the same.
pub(crate) fn walk(
    x: &Cumulative,
    y: &Cumulative,
    rows: Range<usize>,
    mut visit: impl FnMut(usize, usize, f64),
) {
    let (last_row, last_col) = (rows.end - 1, y.len() - 1);
    let to_the_end = rows.end == x.len();
    let mut t = x.before(rows.start);
    let (mut i, mut j) = (rows.start, 0);
    if i > 0 {
        j = y.above(t + TIE);
    }
    loop {
        let (a, b) = (x.at(i), y.at(j));
        let next = a.min(b);
        visit(i, j, (next - t).max(0.0));
        t = t.max(next);
        let level = tie(a, b);
        if i == last_row
            && (if to_the_end {
                j == last_col
            } else {
                a <= b || level
            })
        {
            return;
        }
        let (down, right) = (i < last_row, j < last_col);
        let (row, col) = (level || a < b, level || a >= b);
        // Where a list is at its end only the other can move on.
        let (row, col) = ((row && down) || !right, (col && right) || !down);
        i += usize::from(row && down);
        j += usize::from(col && right);
    }
}
