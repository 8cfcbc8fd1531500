//! As much mass as goes along allowed pairs at once: blocking flows, level by level.
//!
//! ```text
//! maximise  Σ P_ij     subject to   P ≥ 0 on allowed pairs,   Σ_j P_ij ≤ a_i,   Σ_i P_ij ≤ b_j
//! ```
//!
//! Rows that have mass left look for columns that have room: forth along pairs, and back along pairs that carry mass, which may
//! give way. Each phase finds the shortest such ways by levels and sends mass along as many of them as there are, so that the next are longer;
//! a handful of phases do where a first plan leaves little over. What is left then is the mass that forbidden pairs strand, and no plan
//! strands less.
//!
//! # References
//! E. A. Dinic, *Algorithm for solution of a problem of maximum flow in networks with power estimation*, Soviet Mathematics Doklady 11 (1970).

use crate::Real;
use crate::cost::Pairs;
use crate::kernel::rounding::REMAINDER;
use crate::solver::Guard;

/// "Not reached".
const UNSEEN: u32 = u32::MAX;

/// A flow along the pairs of a cost.
pub(super) struct MaxFlow<'a, T> {
    pairs: Pairs<'a, T>,
    masses: (&'a [f64], &'a [f64]),
    /// Mass that rows have left, and room that columns have.
    left: Vec<f64>,
    room: Vec<f64>,
    /// Mass of each pair, by row.
    mass: Vec<f64>,
    /// Where a pair, counted by column, stands by row.
    place: Vec<u32>,
    levels: (Vec<u32>, Vec<u32>),
    /// The pair of each row, and of each column, that is tried next.
    next: (Vec<usize>, Vec<usize>),
}

/// A step of a way: forth by a pair to a column, and back by another to a row.
struct Step {
    forth: usize,
    col: usize,
    back: usize,
    row: usize,
}

impl<'a, T: Real> MaxFlow<'a, T> {
    /// Starts from a plan whose sums are at most the masses; what it has beyond them or elsewhere than on pairs is dropped.
    pub(super) fn new(
        pairs: Pairs<'a, T>,
        masses: (&'a [f64], &'a [f64]),
        plan: impl Iterator<Item = (usize, usize, f64)>,
    ) -> Self {
        let (n, m) = (masses.0.len(), masses.1.len());
        let mut free: Vec<usize> = (0..m).map(|j| pairs.col_start(j)).collect();
        let mut place = vec![0; pairs.len()];
        for i in 0..n {
            for (at, &j) in pairs.row(i).0.iter().enumerate() {
                place[free[j as usize]] = (pairs.row_start(i) + at) as u32;
                free[j as usize] += 1;
            }
        }
        let mut flow = Self {
            pairs,
            masses,
            left: masses.0.to_vec(),
            room: masses.1.to_vec(),
            mass: vec![0.0; pairs.len()],
            place,
            levels: (vec![UNSEEN; n], vec![UNSEEN; m]),
            next: (vec![0; n], vec![0; m]),
        };
        for (i, j, mass) in plan {
            if let Ok(at) = pairs.row(i).0.binary_search(&(j as u32)) {
                let moved = mass.min(flow.left[i]).min(flow.room[j]);
                flow.mass[pairs.row_start(i) + at] += moved;
                flow.take(i, j, moved);
            }
        }
        flow
    }

    /// Sends what can be sent; returns what is left over, or `None` where time is up.
    pub(super) fn run(&mut self, guard: &Guard<'_>) -> Option<f64> {
        while self.find_levels() {
            if guard.is_over() {
                return None;
            }
            for i in 0..self.left.len() {
                while self.left[i] > 0.0 && self.send(i) {}
            }
        }
        Some(self.left.iter().sum())
    }

    /// Entries that carry mass, as (row, column, mass).
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, usize, f64)> + '_ {
        (0..self.left.len()).flat_map(move |i| {
            let first = self.pairs.row_start(i);
            let each = self.pairs.row(i).0.iter().zip(&self.mass[first..]);
            each.filter(|e| *e.1 > 0.0)
                .map(move |(&j, &mass)| (i, j as usize, mass))
        })
    }

    fn take(&mut self, i: usize, j: usize, moved: f64) {
        let dust = REMAINDER * self.masses.0[i].max(self.masses.1[j]);
        for rest in [&mut self.left[i], &mut self.room[j]] {
            *rest -= moved;
            if *rest <= dust {
                *rest = 0.0;
            }
        }
    }

    /// How many steps rows and columns are from mass that is left; whether any room is reached.
    fn find_levels(&mut self) -> bool {
        let (rows, cols) = &mut self.levels;
        rows.fill(UNSEEN);
        cols.fill(UNSEEN);
        let mut front: Vec<usize> = (0..rows.len()).filter(|&i| self.left[i] > 0.0).collect();
        front.iter().for_each(|&i| rows[i] = 0);
        let (mut level, mut found) = (0, false);
        while !front.is_empty() && !found {
            let mut reached = Vec::new();
            for &i in &front {
                for &j in self.pairs.row(i).0 {
                    let j = j as usize;
                    if cols[j] == UNSEEN {
                        cols[j] = level + 1;
                        found |= self.room[j] > 0.0;
                        reached.push(j);
                    }
                }
            }
            front.clear();
            for j in reached {
                let first = self.pairs.col_start(j);
                for (&i, &at) in self.pairs.col(j).0.iter().zip(&self.place[first..]) {
                    let i = i as usize;
                    if rows[i] == UNSEEN && self.mass[at as usize] > 0.0 {
                        rows[i] = level + 2;
                        front.push(i);
                    }
                }
            }
            level += 2;
        }
        for i in 0..self.left.len() {
            self.next.0[i] = self.pairs.row_start(i);
        }
        for j in 0..self.room.len() {
            self.next.1[j] = self.pairs.col_start(j);
        }
        found
    }

    /// Sends mass from row `source` along one way through the levels; false where there is none.
    fn send(&mut self, source: usize) -> bool {
        let mut way: Vec<Step> = Vec::new();
        let mut i = source;
        loop {
            let Some((forth, j)) = self.onward(i) else {
                // Nothing leads on from this row: back to the column before, which tries another.
                let Some(step) = way.pop() else {
                    return false;
                };
                self.next.1[step.col] += 1;
                i = way.last().map_or(source, |last| last.row);
                continue;
            };
            if self.room[j] > 0.0 {
                let narrowest = way.iter().map(|s| self.mass[s.back]);
                let moved = narrowest.fold(self.left[source].min(self.room[j]), f64::min);
                for step in &way {
                    self.mass[step.forth] += moved;
                    self.mass[step.back] -= moved;
                }
                self.mass[forth] += moved;
                self.take(source, j, moved);
                return true;
            }
            match self.giving_way(j) {
                Some((back, row)) => {
                    way.push(Step {
                        forth,
                        col: j,
                        back,
                        row,
                    });
                    i = row;
                }
                None => self.next.0[i] += 1,
            }
        }
    }

    /// The next pair of row `i` that leads a level up, and its column.
    fn onward(&mut self, i: usize) -> Option<(usize, usize)> {
        let first = self.pairs.row_start(i);
        let cols = self.pairs.row(i).0;
        while let Some(&j) = cols.get(self.next.0[i] - first) {
            if self.levels.1[j as usize] == self.levels.0[i] + 1 {
                return Some((self.next.0[i], j as usize));
            }
            self.next.0[i] += 1;
        }
        None
    }

    /// The next pair of column `j` that carries mass and leads a level up, and its row.
    fn giving_way(&mut self, j: usize) -> Option<(usize, usize)> {
        let first = self.pairs.col_start(j);
        let rows = self.pairs.col(j).0;
        while let Some(&i) = rows.get(self.next.1[j] - first) {
            let at = self.place[self.next.1[j]] as usize;
            let higher = self.levels.0[i as usize] == self.levels.1[j].wrapping_add(1);
            if higher && self.mass[at] > 0.0 {
                return Some((at, i as usize));
            }
            self.next.1[j] += 1;
        }
        None
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::random::Random;
    use crate::{Cost, Sparse};

    /// The least that any set of rows has beyond what its columns have room for, turned round: what must be left over.
    fn stranded(cost: &Sparse<f64>, a: &[f64], b: &[f64]) -> f64 {
        let sets = 0..1u32 << a.len();
        let over = sets.map(|set| {
            let inside = |i: &usize| set & (1 << i) != 0;
            let rows = (0..a.len()).filter(inside);
            let mass: f64 = rows.clone().map(|i| a[i]).sum();
            let mut reached: Vec<u32> = rows
                .flat_map(|i| cost.pairs().unwrap().row(i).0.to_vec())
                .collect();
            reached.sort_unstable();
            reached.dedup();
            mass - reached.iter().map(|&j| b[j as usize]).sum::<f64>()
        });
        over.fold(0.0, f64::max)
    }

    #[test]
    fn no_more_is_left_than_must_be() {
        let mut random = Random::new(21, 0);
        for case in 0..300 {
            let (n, m) = (1 + case % 7, 1 + case / 3 % 6);
            let mut pairs = Vec::new();
            for i in 0..n {
                for j in 0..m {
                    if random.unit() < 0.35 {
                        pairs.push((i, j, random.unit()));
                    }
                }
            }
            let cost = Sparse::from_pairs(n, m, pairs.iter().copied()).unwrap();
            let whole = |random: &mut Random| (random.unit() * 4.0).floor();
            let a: Vec<f64> = (0..n).map(|_| whole(&mut random)).collect();
            let b: Vec<f64> = (0..m).map(|_| whole(&mut random)).collect();
            let listed = cost.pairs().unwrap();
            // From nothing, and from a plan that has some of it and too much of it.
            let some = pairs.iter().map(|&(i, j, c)| (i, j, c));
            for start in [Vec::new(), some.collect()] {
                let mut flow = MaxFlow::new(listed, (&a, &b), start.into_iter());
                let left = flow.run(&Guard::nobody()).unwrap();
                assert!((left - stranded(&cost, &a, &b)).abs() < 1e-9, "{case}");
                let (mut rows, mut cols) = (vec![0.0; n], vec![0.0; m]);
                for (i, j, mass) in flow.entries() {
                    assert!(cost.at(i, j) < f64::INFINITY && mass > 0.0);
                    rows[i] += mass;
                    cols[j] += mass;
                }
                assert!(rows.iter().zip(&a).all(|(x, a)| *x <= a + 1e-9));
                assert!(cols.iter().zip(&b).all(|(x, b)| *x <= b + 1e-9));
                assert!((rows.iter().sum::<f64>() + left - a.iter().sum::<f64>()).abs() < 1e-9);
            }
        }
    }
}
