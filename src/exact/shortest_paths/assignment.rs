//! Which columns hold the mass of each row.
//!
//! Almost every row is whole: all its mass is in one column. The few that are split (at most one per
//! column in a vertex, and the slack row) have their shares in a side table.

use super::table::NOWHERE;

/// Set in a row's entry where the rest of the bits is its index in the side table.
const SPLIT: u32 = 1 << 31;

#[derive(Debug)]
pub(super) struct Assignment {
    /// Mass of each row, the slack row last.
    mass: Vec<f64>,
    /// Column of each whole row, or the place of its shares.
    column: Vec<u32>,
    shares: Vec<Vec<(u32, f64)>>,
}

impl Assignment {
    /// Nothing is placed yet.
    pub(super) fn new(mass: Vec<f64>) -> Self {
        Self {
            column: vec![NOWHERE; mass.len()],
            mass,
            shares: Vec::new(),
        }
    }

    pub(super) fn mass(&self, row: usize) -> f64 {
        self.mass[row]
    }

    /// Puts the whole row into `col`.
    pub(super) fn place(&mut self, row: usize, col: u32) {
        self.column[row] = col;
    }

    /// Splits the row over several columns.
    pub(super) fn split_over(&mut self, row: usize, shares: Vec<(u32, f64)>) {
        self.column[row] = SPLIT | self.shares.len() as u32;
        self.shares.push(shares);
    }

    /// The column of a whole row; `None` where it is split or nowhere.
    pub(super) fn whole(&self, row: usize) -> Option<u32> {
        Some(self.column[row]).filter(|h| h & SPLIT == 0)
    }

    /// The columns that hold mass of the row, with the mass.
    pub(super) fn of(&self, row: usize) -> impl Iterator<Item = (u32, f64)> + '_ {
        let column = self.column[row];
        let (whole, split) = if column == NOWHERE {
            (None, &[][..])
        } else if column & SPLIT == 0 {
            (Some((column, self.mass[row])), &[][..])
        } else {
            (None, &self.shares[(column ^ SPLIT) as usize][..])
        };
        whole.into_iter().chain(split.iter().copied())
    }

    /// Mass of the row in one column.
    pub(super) fn held(&self, row: usize, col: u32) -> f64 {
        self.of(row).find(|s| s.0 == col).map_or(0.0, |s| s.1)
    }

    /// Rows that are split, with their shares.
    pub(super) fn split(&self) -> impl Iterator<Item = (usize, &[(u32, f64)])> + '_ {
        (0..self.column.len())
            .filter(|&i| self.column[i] & SPLIT != 0 && self.column[i] != NOWHERE)
            .map(|i| (i, &self.shares[(self.column[i] ^ SPLIT) as usize][..]))
    }

    /// Moves `amount` of the row from one column to another. Returns whether the row has left the
    /// first and whether it is new in the second.
    pub(super) fn shift(&mut self, row: usize, from: u32, to: u32, amount: f64) -> (bool, bool) {
        let column = self.column[row];
        if column & SPLIT == 0 {
            if amount >= self.mass[row] {
                self.column[row] = to;
                return (true, true);
            }
            self.split_over(row, vec![(from, self.mass[row] - amount), (to, amount)]);
            return (false, true);
        }
        let shares = &mut self.shares[(column ^ SPLIT) as usize];
        let mut left = false;
        if let Some(at) = shares.iter().position(|s| s.0 == from) {
            shares[at].1 -= amount;
            left = shares[at].1 <= 0.0;
            if left {
                shares.swap_remove(at);
            }
        }
        match shares.iter_mut().find(|s| s.0 == to) {
            Some(share) => {
                share.1 += amount;
                (left, false)
            }
            None => {
                shares.push((to, amount));
                (left, true)
            }
        }
    }
}
