//! Lists of pairs between points that are near each other at given prices.

use super::index::{Index, Least, Room};
use super::{List, Source};
use crate::kernel::tiles::map_ranges;
use crate::{Metric, Real};

/// Violated pairs of a row that join the list at a time.
pub(super) const WORST: usize = 4;

/// Points that one thread searches for at a time.
const TILE: usize = 512;

/// Two clouds in nested order, each with its boxes.
pub(in crate::exact) struct Nearby<'a, T> {
    points: [&'a [T]; 2],
    dimension: usize,
    /// Of the rows and of the columns.
    index: [Index<'a, T>; 2],
}

/// What a point of one side finds on the other: itself, cost less price, the other, cost.
type Find = (u32, f64, u32, f64);

impl<'a, T: Real> Nearby<'a, T> {
    /// `None` where the metric has no bounds or differs from one side to the other.
    pub(in crate::exact) fn new(
        metric: &'a dyn Metric<T>,
        dimension: usize,
        rows: &'a [T],
        cols: &'a [T],
    ) -> Option<Self> {
        if !metric.is_symmetric() {
            return None;
        }
        Some(Self {
            points: [rows, cols],
            dimension,
            index: [
                Index::new(metric, dimension, rows)?,
                Index::new(metric, dimension, cols)?,
            ],
        })
    }

    /// For each point of `side` the `most` of the other side with the least `C − price` below what it asks.
    fn search(
        &mut self,
        side: usize,
        prices: &[f64],
        most: usize,
        below: impl Fn(usize) -> f64 + Sync,
    ) -> impl Iterator<Item = Find> {
        let h: Vec<f64> = prices.iter().map(|p| -p).collect();
        self.index[1 - side].refresh(&h);
        let (index, d) = (&self.index[1 - side], self.dimension);
        let points = self.points[side];
        let tiles = map_ranges(points.len() / d, TILE, |range| {
            let mut found = Vec::with_capacity(range.len());
            let (mut room, mut least) = (Room::default(), Least::new(most));
            for i in range {
                least.clear();
                let limit = below(i);
                let x = &points[i * d..][..d];
                index.search(x, &h, limit, i, &mut room, |r, j, c| {
                    least.offer(r, j, c).min(limit)
                });
                let of_point = least.list().iter();
                found.extend(of_point.map(|&(r, j, c)| (i as u32, r, j as u32, c.widen())));
            }
            found
        });
        tiles.into_iter().flatten()
    }
}

impl<T: Real> Source for Nearby<'_, T> {
    fn short_list(&mut self, g: &mut [f64], few: usize) -> List {
        let always = |_| f64::INFINITY;
        let mut f = vec![0.0; self.index[0].len()];
        for (i, r, ..) in self.search(0, g, 1, always) {
            f[i as usize] = r;
        }
        let mut list = List::new();
        g.fill(f64::INFINITY);
        for (j, r, i, c) in self.search(1, &f, few, always) {
            g[j as usize] = g[j as usize].min(r);
            list.push((i, j, c));
        }
        let by_row = self.search(0, g, few, always);
        list.extend(by_row.map(|(i, _, j, c)| (i, j, c)));
        list
    }

    fn violated(&mut self, f: &[f64], g: &[f64]) -> List {
        let found = self.search(0, g, WORST, |i| f[i]);
        found.map(|(i, _, j, c)| (i, j, c)).collect()
    }
}
