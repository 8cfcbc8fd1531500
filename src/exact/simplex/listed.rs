//! Pivots on a short list of pairs, with a look at all pairs in between.
//!
//! ```text
//! pivot on the list until no pair of it has a gain   →   find the pairs that have one, the best few of each row
//!                                                    →   they join the list   →   again, until there are none
//! ```
//!
//! A pivot changes prices a little, and what is attractive afterwards is nearly always on the list already: reading a row of the
//! list is many times cheaper than searching all columns, which is left with proving, on all cores, that nothing was forgotten.
//! Slack is never listed: its one arc a row is looked at anyhow.

use super::augmented_rows::AugmentedRows;
use super::pricing::{Arcs, gain, least_gainful};
use super::tree::Tree;
use crate::exact::lists::Source;
use crate::exact::lists::pairs::Pairs;
use crate::{Cost, Real};

/// Pairs listed for each row and column at first.
const FEW: usize = 8;

/// Lines of which only the listed columns are looked at.
pub(super) struct Listed<'a, 's, T, C> {
    lines: AugmentedRows<'a, T, C>,
    source: &'s mut dyn Source,
    pairs: Pairs<f64>,
}

impl<'a, 's, T: Real, C: Cost<T>> Listed<'a, 's, T, C> {
    /// Lists the pairs that column prices `g` make cheap; none without, where hardly any is expected to have a gain.
    pub(super) fn new(
        lines: AugmentedRows<'a, T, C>,
        source: &'s mut dyn Source,
        g: Option<Vec<f64>>,
    ) -> Self {
        let pairs = g.map(|mut g| {
            g.truncate(lines.real_cols());
            source.short_list(&mut g, FEW)
        });
        Self {
            pairs: Pairs::new(lines.real_rows(), &pairs.unwrap_or_default()),
            lines,
            source,
        }
    }

    /// Pairs that have a gain.
    fn gains(&mut self, tree: &Tree, takes_part: &[bool], tolerance: f64) -> Vec<(u32, u32, f64)> {
        let price = |i: usize| {
            if takes_part[i] {
                least_gainful(tree.f(i), tolerance)
            } else {
                f64::NEG_INFINITY
            }
        };
        let f: Vec<f64> = (0..self.lines.real_rows()).map(price).collect();
        let mut g = tree.prices();
        g.truncate(self.lines.real_cols());
        let mut found = self.source.violated(&f, &g);
        let gains = |i: u32, j: u32, c| gain(tree.f(i as usize), g[j as usize], c, tolerance);
        found.retain(|&(i, j, c)| gains(i, j, c).is_some());
        found
    }

    /// Works the tree's prices out afresh.
    pub(super) fn reprice(&self, tree: &mut Tree) {
        tree.reprice(|i, j| self.lines.at(i, j));
    }
}

impl<T: Real, C: Cost<T>> Arcs for Listed<'_, '_, T, C> {
    fn rows(&self) -> usize {
        self.lines.rows()
    }

    fn cols(&self) -> usize {
        self.lines.cols()
    }

    fn at(&self, row: usize, col: usize) -> f64 {
        self.lines.at(row, col)
    }

    fn replenish(&mut self, tree: &Tree, takes_part: &[bool], tolerance: f64) -> bool {
        let more = self.gains(tree, takes_part, tolerance);
        if more.is_empty() {
            return false;
        }
        let before = self.pairs.len();
        let mut all: Vec<(u32, u32, f64)> = self.pairs.iter().collect();
        all.extend(more);
        self.pairs = Pairs::new(self.lines.real_rows(), &all);
        // What is listed already and has a gain all the same differs in its last digit.
        self.pairs.len() > before
    }

    fn floors(&mut self, h: &[f64], takes_part: &[bool]) -> Vec<f64> {
        let (n, k) = (self.lines.real_rows(), self.lines.real_cols());
        let g: Vec<f64> = h[..k].iter().map(|h| -h).collect();
        let mut floors = self.source.row_prices(&g);
        if let Some(&slack) = h.get(k) {
            for (i, floor) in floors.iter_mut().enumerate() {
                *floor = floor.min(self.lines.at(i, k) + slack);
            }
        }
        if takes_part.len() > n {
            floors.push(self.lines.cheapest(n, h, f64::INFINITY).0);
        }
        floors
    }

    fn cheapest(&mut self, i: usize, h: &[f64], below: f64) -> (f64, usize) {
        let k = self.lines.real_cols();
        if i >= self.lines.real_rows() {
            return self.lines.cheapest(i, h, below);
        }
        let mut best = (below, 0);
        if let Some(&slack) = h.get(k) {
            let r = self.lines.at(i, k) + slack;
            if r < best.0 {
                best = (r, k);
            }
        }
        for at in self.pairs.of_row(i) {
            let j = self.pairs.col(at);
            let r = self.pairs.cost(at) + h[j];
            if r < best.0 {
                best = (r, j);
            }
        }
        best
    }
}
