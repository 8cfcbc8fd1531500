//! Lists of pairs between points that are near each other at given prices.

use super::{List, Source, WORST};
use crate::cost::{Find, Priced};
use crate::{Metric, Real};

/// Two clouds, each with its boxes.
pub(super) struct Nearby<'a, T> {
    points: [&'a [T]; 2],
    rows: usize,
    /// Of the rows and of the columns.
    boxes: [Priced<'a, T>; 2],
}

impl<'a, T: Real> Nearby<'a, T> {
    /// `None` where the metric has no bounds or differs from one side to the other.
    pub(super) fn new(
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
            rows: rows.len() / dimension,
            boxes: [
                Priced::new(metric, dimension, rows)?,
                Priced::new(metric, dimension, cols)?,
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
    ) -> Vec<Find<T>> {
        let h: Vec<f64> = prices.iter().map(|p| -p).collect();
        let boxes = &mut self.boxes[1 - side];
        boxes.refresh(&h);
        boxes.find(self.points[side], &h, most, below)
    }
}

impl<T: Real> Source for Nearby<'_, T> {
    fn row_prices(&mut self, g: &[f64]) -> Vec<f64> {
        let mut f = vec![f64::INFINITY; self.rows];
        for (i, r, ..) in self.search(0, g, 1, |_| f64::INFINITY) {
            f[i as usize] = r;
        }
        f
    }

    fn short_list(&mut self, g: &mut [f64], few: usize) -> List {
        let always = |_| f64::INFINITY;
        let f = self.row_prices(g);
        let mut list = List::new();
        g.fill(f64::INFINITY);
        for (j, r, i, c) in self.search(1, &f, few, always) {
            g[j as usize] = g[j as usize].min(r);
            list.push((i, j, c.widen()));
        }
        let by_row = self.search(0, g, few, always);
        list.extend(by_row.iter().map(|&(i, _, j, c)| (i, j, c.widen())));
        list
    }

    fn violated(&mut self, f: &[f64], g: &[f64]) -> List {
        let found = self.search(0, g, WORST, |i| f[i]);
        found
            .iter()
            .map(|&(i, _, j, c)| (i, j, c.widen()))
            .collect()
    }
}
