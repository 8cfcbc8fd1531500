//! What a few rows say about a problem before it is solved.

use crate::cost::{fetch, whole_rows};
use crate::kernel::column_block::MOST_LINES;
use crate::kernel::interrupt::Interrupt;
use crate::sweep::active::{Active, MOST_LISTED};
use crate::sweep::shared::Shared;
use crate::sweep::{Curvature, Streamed};
use crate::{Cost, Marginals, Real};

/// Rows looked at.
const PROBED_ROWS: usize = 64;

/// Below `e^-SUPPORT_DEPTH` of a row's best an entry is not seen.
const SUPPORT_DEPTH: f64 = 14.0;

/// How costs and ε compare in a typical row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CostProbe {
    /// Half the distance between a row's smallest and largest cost, prohibitive ones left out.
    pub(crate) spread: f64,
    /// Entries close enough to the row's best to carry visible mass.
    pub(crate) effective_support: f64,
}

impl CostProbe {
    pub(crate) fn new<T: Real>(cost: &dyn Cost<T>, epsilon: f64) -> Self {
        let (n, k) = (whole_rows(cost), cost.cols());
        let rows = n.clamp(1, PROBED_ROWS);
        let probed: Vec<usize> = (0..rows).map(|r| r * n / rows).collect();
        // A team that is gone shows at the first sweep.
        let lines = fetch(cost, &probed).unwrap_or_else(|_| vec![T::zero(); rows * k]);
        // What stands in for "forbidden" says nothing about the costs that are paid: it is as good as forbidden.
        let lows: Vec<f64> = lines.chunks_exact(k).map(least).collect();
        let dear = prohibitive(&lines, &lows, k);
        let mut paid: Vec<f64> = Vec::with_capacity(rows * k);
        for (line, &low) in lines.chunks_exact(k).zip(&lows) {
            let wide = line.iter().map(|c| c.widen());
            paid.extend(wide.map(|c| if c - low <= dear { c } else { f64::INFINITY }));
        }
        // Potentials make up for what a column is dearer than others to all rows alike: entries that are far
        // from the row's best now may not be so in the end.
        let (mut centres, mut counts) = (vec![0.0; k], vec![0.0f64; k]);
        for line in paid.chunks_exact(k) {
            for ((sum, count), &c) in centres.iter_mut().zip(&mut counts).zip(line) {
                let is_paid = c < f64::INFINITY;
                *sum += if is_paid { c } else { 0.0 };
                *count += if is_paid { 1.0 } else { 0.0 };
            }
        }
        let both = centres.iter_mut().zip(&counts);
        both.for_each(|(sum, count)| *sum /= count.max(1.0));
        let (mut spread, mut uncentred, mut centred) = (0.0, 0.0, 0.0);
        for (line, &low) in paid.chunks_exact_mut(k).zip(&lows) {
            let finite = |c: f64| {
                if c < f64::INFINITY {
                    c
                } else {
                    f64::NEG_INFINITY
                }
            };
            let high = line
                .iter()
                .fold(f64::NEG_INFINITY, |m, &c| larger(m, finite(c)));
            if high > low {
                spread += high - low;
            }
            uncentred += effective_support(line, epsilon);
            line.iter_mut().zip(&centres).for_each(|(c, m)| *c -= m);
            centred += effective_support(line, epsilon);
        }
        Self {
            spread: 0.5 * spread / rows as f64,
            effective_support: f64::max(uncentred, centred) / rows as f64,
        }
    }

    /// Whether the entries of most rows that matter are few enough for a list.
    pub(crate) fn is_near_deterministic(&self) -> bool {
        self.effective_support <= MOST_LISTED as f64
    }

    /// The backend for such rows: lists of the entries that matter, which may leave out what weighs less than `drop_tolerance`,
    /// unless most rows would be too long for a list and short enough to be swept whole at little cost, or their masses are
    /// not given.
    pub(crate) fn backend<'a, T: Real>(
        self,
        cost: &'a dyn Cost<T>,
        marginals: &Marginals,
        masses: &[f64],
        drop_tolerance: f64,
        interrupt: Interrupt,
    ) -> Box<dyn Curvature + 'a> {
        let short = !self.is_near_deterministic() && cost.cols() < MOST_LINES;
        if short || !marginals.row_penalty().is_exact() {
            let streamed = Streamed::over(cost, masses).until(interrupt);
            Box::new(Shared::new(streamed, cost.shard()))
        } else {
            let mut active = Active::new(cost, masses.to_vec(), drop_tolerance);
            active.give_up(interrupt);
            Box::new(Shared::new(active, cost.shard()))
        }
    }
}

/// The least finite entry of a line; +∞ where there is none.
fn least<T: Real>(line: &[T]) -> f64 {
    line.iter().copied().fold(T::infinity(), T::min).widen()
}

/// Binades without a single cost that set prohibitive ones apart: a factor of a thousand.
const EMPTY_BINADES: usize = 10;

/// How far above its row's least cost an entry may lie and still be paid. Many people write a large number for pairs that
/// are not allowed; above an empty stretch of three orders of magnitude nothing is taken for a price. +∞ where there
/// is no such stretch, or nothing below it.
fn prohibitive<T: Real>(lines: &[T], lows: &[f64], k: usize) -> f64 {
    let mut seen = Binades::new();
    for (line, low) in lines.chunks_exact(k).zip(lows) {
        line.iter().for_each(|c| seen.note(c.widen() - low));
    }
    seen.gap(EMPTY_BINADES)
        .map_or(f64::INFINITY, |(highest, _)| highest)
}

/// Which binades some positive numbers lie in: one mark for each exponent of `f64`, whatever their unit.
pub(crate) struct Binades {
    seen: [bool; 2048],
    first: usize,
    last: usize,
}

impl Binades {
    pub(crate) fn new() -> Self {
        Self {
            seen: [false; 2048],
            first: 2048,
            last: 0,
        }
    }

    /// Marks where a number lies; one that is not positive and finite lies nowhere.
    pub(crate) fn note(&mut self, x: f64) {
        if x > 0.0 && x < f64::INFINITY {
            let exponent = (x.to_bits() >> 52) as usize;
            self.seen[exponent] = true;
            (self.first, self.last) = (self.first.min(exponent), self.last.max(exponent));
        }
    }

    /// The uppermost stretch of at least so many empty binades: the last number below it and the first one above.
    pub(crate) fn gap(&self, empty: usize) -> Option<(f64, f64)> {
        let mut above = self.last;
        for exponent in (self.first..self.last).rev().filter(|e| self.seen[*e]) {
            if above - exponent > empty {
                let end = f64::from_bits(((exponent as u64) << 52) | ((1 << 52) - 1));
                return Some((end, f64::from_bits((above as u64) << 52)));
            }
            above = exponent;
        }
        None
    }
}

/// The larger of two numbers, as a comparison, which vectorises.
fn larger(a: f64, b: f64) -> f64 {
    if b > a { b } else { a }
}

/// How many entries are within sight of the least; +∞ is none.
fn effective_support(costs: &[f64], epsilon: f64) -> f64 {
    let low = -costs.iter().fold(f64::NEG_INFINITY, |m, &c| larger(m, -c));
    let within = costs.iter().filter(|c| **c - low < SUPPORT_DEPTH * epsilon);
    within.count() as f64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Dense;

    #[test]
    fn forbidden_pairs_span_nothing() {
        let inf = f64::INFINITY;
        let costs = [0.0, inf, 3.0, 1.0, 2.0, inf, inf, inf, inf];
        let probe = CostProbe::new(&Dense::new(&costs, 3, 3).unwrap(), 0.01);
        assert_eq!(probe.spread, 0.5 * (3.0 + 1.0) / 3.0);
    }

    #[test]
    fn what_columns_cost_all_rows_alike_hides_nothing() {
        let (n, k) = (20, 8);
        let tilted: Vec<f64> = (0..n * k).map(|at| (at % k) as f64).collect();
        let probe = CostProbe::new(&Dense::new(&tilted, n, k).unwrap(), 0.01);
        assert_eq!(probe.effective_support, k as f64);
        assert_eq!(probe.spread, 3.5);

        // A large number for every other pair changes nothing of that; nor does it where all but the best are large.
        for large in [1e5, 1e20, 1e200] {
            let patched: Vec<f64> = (0..n * k)
                .map(|at| if at % 2 == 1 { large } else { tilted[at] })
                .collect();
            let probe = CostProbe::new(&Dense::new(&patched, n, k).unwrap(), 0.01);
            assert_eq!((probe.effective_support, probe.spread), (4.0, 3.0));
        }

        let diagonal: Vec<f64> = (0..n * k)
            .map(|at| f64::from(u8::from(at % k != at / k % k)))
            .collect();
        let probe = CostProbe::new(&Dense::new(&diagonal, n, k).unwrap(), 0.01);
        assert_eq!(probe.effective_support, 1.0);
    }
}
