//! The primal-dual method on a list of pairs: shortest augmenting paths from given prices.
//!
//! ```text
//! f_i + g_j ≤ C_ij   on every pair of the list,      f_i + g_j = C_ij   where mass flows
//! ```
//!
//! Rows put their mass on tight pairs first. Then, in phases, those that have some left look together for the shortest ways,
//! by reduced costs `C_ij − f_i − g_j` forwards and at no cost backwards where mass flows, to columns that have room, until they
//! have seen room for a fifth of it; prices move by the distances, which makes the ways tight, and mass goes along
//! tight pairs as far as it can. With good prices most ways are a few steps long. When no mass is left the flow is optimal among
//! those on the list.
//!
//! Costs are whole numbers, of a unit far below the last digit of all but the smallest of them ([`Unit`]): every sum and difference of prices
//! and costs is exact, so that tight is tight, however often prices have moved.
//!
//! # References
//! L. R. Ford, D. R. Fulkerson, *Flows in Networks*, 1962 (primal-dual method).
//! N. Tomizawa, "On some techniques useful for solution of transportation network problems", Networks 1, 1971.

use core::cmp::Reverse;
use core::ops::ControlFlow;
use std::collections::BinaryHeap;

use super::pairs::Pairs;
use crate::kernel::rounding::REMAINDER;

/// "No such place".
const NONE: u32 = u32::MAX;

/// Bits of the largest cost: six less than a whole number has, for prices that are many times as large.
const BITS: i32 = 57;

/// Prices beyond this are too close to what a whole number holds.
const HIGHEST: i64 = 1 << 60;

/// Share of the unplaced mass that a phase looks for room for.
const SHARE: f64 = 0.2;

/// Columns that the searches of a solve may settle, in multiples of N√N for N rows and columns: mass that is off by noise
/// between neighbours takes a fifth of it.
const TOO_LONG: f64 = 1.0;

/// The power of two that costs and prices are counted in.
#[derive(Debug, Clone, Copy)]
pub(in crate::exact) struct Unit(f64);

impl Unit {
    /// The unit for costs up to `largest` in size.
    pub(in crate::exact) fn new(largest: f64) -> Self {
        let exponent = largest.max(f64::MIN_POSITIVE).log2().ceil() as i32;
        Self(2f64.powi((exponent - BITS).max(-1000)))
    }

    /// A cost in units.
    #[inline]
    pub(in crate::exact) fn count(self, cost: f64) -> i64 {
        (cost / self.0).round_ties_even() as i64
    }

    /// Whether a cost can be counted with room for prices to move.
    pub(in crate::exact) fn holds(self, cost: f64) -> bool {
        cost.abs() < self.value(HIGHEST / 2)
    }

    /// Units as a number.
    #[inline]
    pub(in crate::exact) fn value(self, count: i64) -> f64 {
        count as f64 * self.0
    }
}

/// How a run of paths ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::exact) enum End {
    /// All mass is placed.
    Placed,
    /// So much mass has no way to go on the list, or none at prices that whole numbers hold.
    Stuck(f64),
    /// The searches have seen more columns than was allowed for.
    TooLong,
    /// Somebody wanted to stop.
    Stopped,
}

/// A flow on a list, with its prices.
pub(in crate::exact) struct Flow<'a> {
    masses: (&'a [f64], &'a [f64]),
    pairs: Pairs,
    pub(in crate::exact) f: Vec<i64>,
    pub(in crate::exact) g: Vec<i64>,
    /// Mass of each row that is not placed yet, and of each column that is not taken.
    left: Vec<f64>,
    room: Vec<f64>,
    /// Mass on each pair; those of a column that carry some are chained from `head`.
    mass: Vec<f64>,
    head: Vec<u32>,
    next: Vec<u32>,
    prev: Vec<u32>,
    search: Search,
    /// Columns that searches may still settle.
    allowed: usize,
}

/// What a phase writes down; entries count where their stamp is the phase's.
struct Search {
    stamp: u32,
    /// Per column: distance, and which phase saw it, settled it and had mass sent through it.
    distance: Vec<i64>,
    seen: Vec<u32>,
    settled: Vec<u32>,
    visited: Vec<u32>,
    /// Per row: which phase entered it and had mass sent through it, and the pair it tries next.
    entered: Vec<u32>,
    passed: Vec<u32>,
    trial: Vec<u32>,
    heap: BinaryHeap<Reverse<(i64, u32)>>,
    /// Columns at the distance of the front.
    ready: Vec<u32>,
    rows: Vec<(u32, i64)>,
    cols: Vec<u32>,
    /// The way that mass is sent: pairs forth and back in turn.
    way: Vec<u32>,
}

impl Search {
    fn new(rows: usize, cols: usize) -> Self {
        Self {
            stamp: 0,
            distance: vec![0; cols],
            seen: vec![0; cols],
            settled: vec![0; cols],
            visited: vec![0; cols],
            entered: vec![0; rows],
            passed: vec![0; rows],
            trial: vec![0; rows],
            heap: BinaryHeap::new(),
            ready: Vec::new(),
            rows: Vec::new(),
            cols: Vec::new(),
            way: Vec::new(),
        }
    }

    fn restart(&mut self) {
        if self.stamp == u32::MAX {
            self.stamp = 0;
            let cols = [&mut self.seen, &mut self.settled, &mut self.visited];
            let rows = [&mut self.entered, &mut self.passed];
            cols.into_iter().chain(rows).for_each(|s| s.fill(0));
        }
        self.stamp += 1;
        self.heap.clear();
        self.ready.clear();
        self.rows.clear();
        self.cols.clear();
    }
}

impl<'a> Flow<'a> {
    /// No flow yet, at prices `g` of the columns.
    pub(in crate::exact) fn new(pairs: Pairs, masses: (&'a [f64], &'a [f64]), g: Vec<i64>) -> Self {
        let (rows, cols) = (masses.0.len(), masses.1.len());
        let count = pairs.len();
        Self {
            f: vec![i64::MAX; rows],
            g,
            left: masses.0.to_vec(),
            room: masses.1.to_vec(),
            mass: vec![0.0; count],
            head: vec![NONE; cols],
            next: vec![NONE; count],
            prev: vec![NONE; count],
            search: Search::new(rows, cols),
            pairs,
            masses,
            allowed: (TOO_LONG * (rows + cols) as f64 * ((rows + cols) as f64).sqrt()) as usize,
        }
    }

    /// Adds pairs to the list.
    pub(in crate::exact) fn extend(&mut self, more: &[(u32, u32, i64)]) {
        let mut all: Vec<(u32, u32, i64)> = self.pairs.iter().collect();
        all.extend_from_slice(more);
        let pairs = Pairs::new(self.f.len(), &all);
        let old = core::mem::replace(&mut self.pairs, pairs);
        let carried = core::mem::take(&mut self.mass);
        let count = self.pairs.len();
        self.mass = vec![0.0; count];
        self.next = vec![NONE; count];
        self.prev = vec![NONE; count];
        self.head.fill(NONE);
        for (at, mass) in carried.into_iter().enumerate().filter(|e| e.1 > 0.0) {
            if let Some(place) = self.pairs.place(old.row(at), old.col(at)) {
                self.chain(place);
                self.mass[place] = mass;
            }
        }
    }

    /// Entries that carry mass, as (row, column, mass).
    pub(in crate::exact) fn entries(&self) -> impl Iterator<Item = (usize, usize, f64)> + '_ {
        let carrying = self.mass.iter().enumerate().filter(|e| *e.1 > 0.0);
        carrying.map(|(at, &mass)| (self.pairs.row(at), self.pairs.col(at), mass))
    }

    /// What a pair costs a row beyond the column's price.
    #[inline]
    fn above(&self, at: usize) -> i64 {
        self.pairs.cost(at) - self.g[self.pairs.col(at)]
    }

    /// Makes the prices feasible on the list again: rows whose cheapest pair is cheaper than they thought take their mass
    /// back from pairs that are no longer tight. Then whatever can go on tight pairs does.
    pub(in crate::exact) fn settle(&mut self) {
        for i in 0..self.f.len() {
            let places = self.pairs.of_row(i);
            let best = places.clone().map(|at| self.above(at)).min();
            let Some(best) = best.filter(|&best| best < self.f[i]) else {
                continue;
            };
            self.f[i] = best;
            for at in places {
                if self.mass[at] > 0.0 && self.above(at) > best {
                    self.withdraw(at);
                }
            }
        }
        for i in 0..self.f.len() {
            for at in self.pairs.of_row(i) {
                if self.left[i] == 0.0 {
                    break;
                }
                let j = self.pairs.col(at);
                if self.room[j] > 0.0 && self.above(at) == self.f[i] {
                    let moved = self.left[i].min(self.room[j]);
                    self.add(at, moved);
                    self.take(i, j, moved);
                }
            }
        }
    }

    /// Phases until all mass is placed or `before` one, told how much is not, says to stop.
    pub(in crate::exact) fn run(&mut self, mut before: impl FnMut(f64) -> ControlFlow<()>) -> End {
        let mut sources: Vec<u32> = (0..self.f.len() as u32).collect();
        loop {
            sources.retain(|&s| self.left[s as usize] > 0.0);
            if sources.is_empty() {
                return End::Placed;
            }
            let unplaced = sources.iter().map(|&s| self.left[s as usize]).sum();
            if before(unplaced).is_break() {
                return End::Stopped;
            }
            let Some(length) = self.shortest_ways(&sources, SHARE * unplaced) else {
                return End::Stuck(unplaced);
            };
            if !self.move_prices(length) {
                return End::Stuck(unplaced);
            }
            let settled = self.search.cols.len();
            let Some(allowed) = self.allowed.checked_sub(settled) else {
                return End::TooLong;
            };
            self.allowed = allowed;
            for &s in &sources {
                while self.left[s as usize] > 0.0 && self.send(s as usize) {}
            }
        }
    }

    /// Dijkstra from all sources at once, until columns with so much room are reached, or else all; how far the last of those is.
    fn shortest_ways(&mut self, sources: &[u32], wanted: f64) -> Option<i64> {
        self.search.restart();
        let stamp = self.search.stamp;
        let (mut front, mut found, mut last) = (0, 0.0, None);
        for &s in sources {
            self.enter(s as usize, front);
        }
        loop {
            let j = match self.search.ready.pop() {
                Some(j) => j as usize,
                None => {
                    if found >= wanted {
                        return last;
                    }
                    let Some(Reverse((distance, j))) = self.search.heap.pop() else {
                        return last;
                    };
                    if distance > self.search.distance[j as usize] {
                        continue;
                    }
                    if distance > HIGHEST {
                        return last;
                    }
                    front = distance;
                    j as usize
                }
            };
            if core::mem::replace(&mut self.search.settled[j], stamp) == stamp {
                continue;
            }
            self.search.cols.push(j as u32);
            if self.room[j] > 0.0 {
                found += self.room[j];
                last = Some(front);
            }
            let mut at = self.head[j];
            while at != NONE {
                self.enter(self.pairs.row(at as usize), front);
                at = self.next[at as usize];
            }
        }
    }

    /// Looks at the pairs of row `i`, reached at `front`, unless it has been reached before.
    #[inline]
    fn enter(&mut self, i: usize, front: i64) {
        let search = &mut self.search;
        let stamp = search.stamp;
        if core::mem::replace(&mut search.entered[i], stamp) == stamp {
            return;
        }
        search.rows.push((i as u32, front));
        let base = front - self.f[i];
        for at in self.pairs.of_row(i) {
            let j = self.pairs.col(at);
            let distance = base + (self.pairs.cost(at) - self.g[j]);
            if search.seen[j] == stamp && search.distance[j] <= distance {
                continue;
            }
            search.seen[j] = stamp;
            search.distance[j] = distance;
            if distance > front {
                search.heap.push(Reverse((distance, j as u32)));
            } else {
                search.ready.push(j as u32);
            }
        }
    }

    /// Moves prices so that all ways up to this length are tight; false where they get too large.
    fn move_prices(&mut self, length: i64) -> bool {
        let mut highest = 0;
        for &(i, distance) in &self.search.rows {
            let f = &mut self.f[i as usize];
            *f += (length - distance).max(0);
            highest = highest.max(f.abs());
        }
        for &j in &self.search.cols {
            let distance = self.search.distance[j as usize];
            let g = &mut self.g[j as usize];
            *g -= (length - distance).max(0);
            highest = highest.max(g.abs());
        }
        highest < HIGHEST
    }

    /// Sends mass from row `s` along tight pairs to the first column with room that is found depth first. Rows and columns that lead
    /// nowhere are not tried again in this phase.
    fn send(&mut self, s: usize) -> bool {
        let stamp = self.search.stamp;
        self.search.way.clear();
        let mut i = s;
        loop {
            if core::mem::replace(&mut self.search.passed[i], stamp) != stamp {
                self.search.trial[i] = self.pairs.of_row(i).start as u32;
            }
            let end = self.pairs.of_row(i).end as u32;
            let mut forth = self.search.trial[i];
            while forth < end {
                let j = self.pairs.col(forth as usize);
                if self.search.visited[j] != stamp && self.above(forth as usize) == self.f[i] {
                    break;
                }
                forth += 1;
            }
            self.search.trial[i] = forth;
            let row = if forth < end {
                let j = self.pairs.col(forth as usize);
                self.search.visited[j] = stamp;
                self.search.way.push(forth);
                if self.room[j] > 0.0 {
                    self.augment(s, j);
                    return true;
                }
                self.onward(j)
            } else {
                None
            };
            // On, or back to the last column that has another row to offer.
            i = match row {
                Some(row) => row,
                None if forth < end => {
                    self.search.way.pop();
                    i
                }
                None => match self.search.way.pop() {
                    None => return false,
                    Some(back) => {
                        let j = self.pairs.col(back as usize);
                        match self.onward(j) {
                            Some(row) => row,
                            None => {
                                let forth = self.search.way.pop().unwrap_or(back);
                                self.pairs.row(forth as usize)
                            }
                        }
                    }
                },
            };
        }
    }

    /// The next row with mass in column `j` that was not passed yet; the way goes on by it.
    fn onward(&mut self, j: usize) -> Option<usize> {
        let stamp = self.search.stamp;
        let mut at = self.head[j];
        while at != NONE {
            let i = self.pairs.row(at as usize);
            if self.search.passed[i] != stamp {
                self.search.way.push(at);
                return Some(i);
            }
            at = self.next[at as usize];
        }
        None
    }

    /// Sends what fits from row `s` along the way to `column`, whose rows and columns may then be tried again.
    fn augment(&mut self, s: usize, column: usize) {
        let way = core::mem::take(&mut self.search.way);
        let moved = self.left[s].min(self.room[column]);
        let back = way.iter().skip(1).step_by(2);
        let moved = back.fold(moved, |m, &at| m.min(self.mass[at as usize]));
        for (step, &at) in way.iter().enumerate() {
            let at = at as usize;
            if step % 2 == 0 {
                self.add(at, moved);
                self.search.visited[self.pairs.col(at)] = 0;
            } else {
                self.remove(at, moved);
                self.search.passed[self.pairs.row(at)] = 0;
            }
        }
        self.take(s, column, moved);
        self.search.way = way;
    }

    /// Books `moved` on both ends; what rounding leaves is nothing.
    fn take(&mut self, i: usize, j: usize, moved: f64) {
        let dust = REMAINDER * self.masses.0[i].max(self.masses.1[j]);
        for rest in [&mut self.left[i], &mut self.room[j]] {
            *rest -= moved;
            if *rest <= dust {
                *rest = 0.0;
            }
        }
    }

    fn add(&mut self, at: usize, mass: f64) {
        if self.mass[at] == 0.0 {
            self.chain(at);
        }
        self.mass[at] += mass;
    }

    fn remove(&mut self, at: usize, mass: f64) {
        let (i, j) = (self.pairs.row(at), self.pairs.col(at));
        let rest = self.mass[at] - mass;
        if rest <= REMAINDER * self.masses.0[i].max(self.masses.1[j]) {
            self.unchain(at);
        } else {
            self.mass[at] = rest;
        }
    }

    fn withdraw(&mut self, at: usize) {
        let (i, j) = (self.pairs.row(at), self.pairs.col(at));
        self.left[i] += self.mass[at];
        self.room[j] += self.mass[at];
        self.unchain(at);
    }

    fn chain(&mut self, at: usize) {
        let j = self.pairs.col(at);
        let first = self.head[j];
        self.next[at] = first;
        self.prev[at] = NONE;
        if first != NONE {
            self.prev[first as usize] = at as u32;
        }
        self.head[j] = at as u32;
    }

    fn unchain(&mut self, at: usize) {
        self.mass[at] = 0.0;
        let (prev, next) = (self.prev[at], self.next[at]);
        if prev == NONE {
            self.head[self.pairs.col(at)] = next;
        } else {
            self.next[prev as usize] = next;
        }
        if next != NONE {
            self.prev[next as usize] = prev;
        }
    }
}
