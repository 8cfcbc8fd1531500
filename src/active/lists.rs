//! Which entries of which rows matter.

use crate::Real;
use crate::lanes::{LANES, Lanes};
use crate::simd::dispatch;

/// Entries a listed row can have; a row with more is swept whole.
pub(crate) const MOST: usize = 4;

/// Where a row stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// All its mass goes to one column (or the slack, the last).
    Single(u32),
    /// Listed at this position.
    Listed(u32),
    /// Swept whole, at this position of the list of whole rows.
    Whole(u32),
    /// Carries no mass.
    Absent,
}

/// A row with two to [`MOST`] entries that matter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listed<T> {
    pub(crate) mass: f64,
    pub(crate) count: u32,
    pub(crate) cols: [u32; MOST],
    /// Costs; for the slack its cost is in the potential and this is zero.
    pub(crate) costs: [T; MOST],
}

/// What is known of one tile of rows.
#[derive(Debug, Clone)]
pub(crate) struct Tile<T> {
    /// Mass of rows with a single entry, by column, slack last.
    pub(crate) fixed: Vec<f64>,
    pub(crate) listed: Vec<Listed<T>>,
    /// Rows (numbered within the tile) of `listed`, and places there that are free again.
    free: Vec<u32>,
    /// Rows swept whole, numbered within the tile.
    pub(crate) whole: Vec<u32>,
    pub(crate) places: Vec<Place>,
}

/// What a row's entries look like from the reference potentials.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind<T> {
    Single(u32),
    Listed(Listed<T>),
    Whole,
    /// No entry at all is allowed, or one is no number.
    Bad,
}

impl<T: Real> Tile<T> {
    pub(crate) fn new(rows: usize, cols: usize) -> Self {
        Self {
            fixed: vec![0.0; cols + 1],
            listed: Vec::new(),
            free: Vec::new(),
            whole: Vec::new(),
            places: vec![Place::Absent; rows],
        }
    }

    /// Forgets all rows, keeping the memory.
    pub(crate) fn clear(&mut self) {
        self.fixed.fill(0.0);
        self.listed.clear();
        self.free.clear();
        self.whole.clear();
        self.places.fill(Place::Absent);
    }

    /// Files a row under what it looks like.
    pub(crate) fn insert(&mut self, row: usize, mass: f64, kind: Kind<T>) {
        self.places[row] = match kind {
            Kind::Bad => Place::Absent,
            Kind::Single(j) => {
                self.fixed[j as usize] += mass;
                Place::Single(j)
            }
            Kind::Listed(listed) => {
                let listed = Listed { mass, ..listed };
                let at = match self.free.pop() {
                    Some(at) => {
                        self.listed[at as usize] = listed;
                        at
                    }
                    None => {
                        self.listed.push(listed);
                        (self.listed.len() - 1) as u32
                    }
                };
                Place::Listed(at)
            }
            Kind::Whole => {
                self.whole.push(row as u32);
                Place::Whole((self.whole.len() - 1) as u32)
            }
        };
    }

    /// Puts the rows in order, as if they had all just been filed: what a sweep adds up must not depend on which
    /// rows were replaced when. `masses` are those of the tile's rows.
    pub(crate) fn tidy(&mut self, masses: &[f64]) {
        self.fixed.fill(0.0);
        self.whole.clear();
        self.free.clear();
        let before = core::mem::take(&mut self.listed);
        self.listed.reserve(before.len());
        for (row, place) in self.places.iter_mut().enumerate() {
            match place {
                Place::Absent => {}
                Place::Single(j) => self.fixed[*j as usize] += masses[row],
                Place::Listed(at) => {
                    self.listed.push(before[*at as usize]);
                    *at = (self.listed.len() - 1) as u32;
                }
                Place::Whole(at) => {
                    self.whole.push(row as u32);
                    *at = (self.whole.len() - 1) as u32;
                }
            }
        }
    }

    /// Takes a row out again.
    pub(crate) fn remove(&mut self, row: usize, mass: f64) {
        match core::mem::replace(&mut self.places[row], Place::Absent) {
            Place::Absent => {}
            Place::Single(j) => self.fixed[j as usize] -= mass,
            Place::Listed(at) => {
                self.listed[at as usize].count = 0;
                self.free.push(at);
            }
            Place::Whole(at) => {
                self.whole.swap_remove(at as usize);
                if let Some(&moved) = self.whole.get(at as usize) {
                    self.places[moved as usize] = Place::Whole(at);
                }
            }
        }
    }
}

dispatch! {
    /// Sorts a row into its kind: `g` is padded with −∞ behind the columns, `slack` is the slack's logit
    /// and `window` how far below the best an entry still matters.
    pub(crate) fn classify<T: Real>(row: &[T], g: &[T], slack: T, window: T, line: &mut [T]) -> Kind<T> {
        let k = row.len();
        for ((z, &c), &p) in line.iter_mut().zip(row).zip(g) {
            *z = p - c;
        }
        let mut tops = Lanes::splat(slack);
        // A NaN is lost in a maximum but not in a sum; infinities of both signs make one.
        let mut poison = Lanes::splat(T::zero());
        for chunk in line.as_chunks().0 {
            let z = Lanes::of(chunk);
            tops = tops.max(z);
            poison = poison.zip(z, |a, z| if z.is_nan() { z } else { a });
        }
        let top = tops.largest();
        let sound = poison.sum() == T::zero() && top > T::neg_infinity() && top < T::infinity();
        if !sound {
            return Kind::Bad;
        }
        let bar = top - window;
        let mut listed = Listed { mass: 0.0, count: 0, cols: [0; MOST], costs: [T::zero(); MOST] };
        let mut count = 0;
        for (c, chunk) in line.as_chunks::<LANES>().0.iter().enumerate() {
            if Lanes::of(chunk).largest() < bar {
                continue;
            }
            for (l, &z) in chunk.iter().enumerate() {
                if z >= bar && z > T::neg_infinity() {
                    if count == MOST {
                        return Kind::Whole;
                    }
                    let j = c * LANES + l;
                    listed.cols[count] = j as u32;
                    listed.costs[count] = row[j];
                    count += 1;
                }
            }
        }
        if slack >= bar && slack > T::neg_infinity() {
            if count == MOST {
                return Kind::Whole;
            }
            listed.cols[count] = k as u32;
            count += 1;
        }
        if count == 1 {
            return Kind::Single(listed.cols[0]);
        }
        listed.count = count as u32;
        Kind::Listed(listed)
    }
}

dispatch! {
    /// Adds the listed rows at potentials `g` (slack's logit last) into `sums`, and their outer products
    /// into the lower triangle of `outer` where given.
    pub(crate) fn add_listed<T: Real>(
        listed: &[Listed<T>],
        g: &[T],
        inverse: T,
        sums: &mut [f64],
        outer: Option<&mut [f64]>,
    ) {
        let mut outer = outer;
        for row in listed {
            let (p, count) = shares(row, g, inverse);
            for (&j, &p) in row.cols[..count].iter().zip(&p) {
                sums[j as usize] += row.mass * p.widen();
            }
            if let Some(outer) = outer.as_deref_mut() {
                let side = sums.len();
                for a in 0..count {
                    for b in 0..=a {
                        // Columns are listed in rising order, so this is the lower triangle.
                        let at = row.cols[a] as usize * side + row.cols[b] as usize;
                        outer[at] += row.mass * (p[a] * p[b]).widen();
                    }
                }
            }
        }
    }
}

/// The shares of a listed row's entries at potentials `g`, and how many there are.
#[inline(always)]
pub(crate) fn shares<T: Real>(row: &Listed<T>, g: &[T], inverse: T) -> ([T; MOST], usize) {
    let count = row.count as usize;
    let mut z = [T::zero(); MOST];
    if count == 2 {
        // One exponential: the smaller of the two relative to the larger.
        let (a, b) = (row.cols[0] as usize, row.cols[1] as usize);
        let ahead = (g[a] - row.costs[0]) - (g[b] - row.costs[1]);
        let e = (-ahead.abs() * inverse).quick_exp();
        let large = T::one() / (T::one() + e);
        let small = e * large;
        (z[0], z[1]) = if ahead >= T::zero() {
            (large, small)
        } else {
            (small, large)
        };
        return (z, count);
    }
    let mut top = T::neg_infinity();
    for a in 0..count {
        z[a] = g[row.cols[a] as usize] - row.costs[a];
        top = if z[a] > top { z[a] } else { top };
    }
    let mut total = T::zero();
    for z in &mut z[..count] {
        *z = ((*z - top) * inverse).quick_exp();
        total += *z;
    }
    for z in &mut z[..count] {
        *z /= total;
    }
    (z, count)
}
