//! Some rows, all columns, brought to optimality: place by price, then move along shortest paths.
//!
//! Invariants, up to rounding, from the first step to the last:
//!
//! * every row's mass is placed, and only in columns where h_iv − Δ_v is least for that row;
//! * hence every arc of the contracted graph has length ≥ 0.
//!
//! A round finds the distances d from all columns that hold too much, raises every price by
//! min(d_v, D) where D is the distance of the farthest column reached that holds too little (the arcs of
//! the forest become tight, none becomes negative), and sends mass down the forest. When no column
//! holds too little the plan is feasible and the invariants are its proof of optimality.

use super::arcs::Arcs;
use super::assignment::Assignment;
use super::budget::Budget;
use super::paths::{LANES, Paths};
use super::table::{NOWHERE, RowMinima, Table};
use crate::kernel::rounding::{SURPLUS, UNPLACED};
use crate::{Cost, Real};

/// Reading a cost and sorting it in takes as long as looking at this many arcs, about.
const ARCS_PER_READ: usize = 4;

/// How a level ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum End {
    /// Optimal.
    Done,
    /// This mass has no way.
    Stranded(f64),
    /// The caller wanted no more rounds.
    Cut,
}

/// How far a level is from its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Excess {
    /// Share of the mass that is where it is not wanted.
    pub(super) share: f64,
    /// How far prices are apart.
    pub(super) spread: f64,
}

#[derive(Debug)]
pub(super) struct Level<'a, T, C> {
    pub(super) table: Table<'a, T, C>,
    pub(super) minima: Vec<RowMinima>,
    pub(super) assignment: Assignment,
    /// Mass that each column asks for, slack column last.
    demands: Vec<f64>,
    /// Mass held less mass wanted.
    surplus: Vec<f64>,
    /// Δ: how far prices have moved from the ones the level started from; padded for the sweeps.
    pub(super) moved: Vec<f64>,
    total: f64,
}

/// Arcs looked at within a round after which to ask whether to go on: some milliseconds.
const ASK_EVERY: usize = 1 << 22;

impl<'a, T: Real, C: Cost<T>> Level<'a, T, C> {
    /// Places every row by price. `mass` has one entry per row and, last, the slack row.
    pub(super) fn new(
        table: Table<'a, T, C>,
        minima: Vec<RowMinima>,
        mass: Vec<f64>,
        demands: &[f64],
    ) -> Self {
        let nodes = table.nodes();
        let total = crate::kernel::rounding::sum(&mass);
        let mut level = Self {
            minima,
            assignment: Assignment::new(mass),
            demands: demands.to_vec(),
            surplus: demands.iter().map(|w| -w).collect(),
            moved: vec![0.0; nodes.next_multiple_of(LANES)],
            total,
            table,
        };
        level.place();
        level
    }

    fn place(&mut self) {
        let (n, nodes) = (self.table.rows(), self.table.nodes());
        let mut carry = vec![0.0; nodes];
        let mut tied = Vec::new();
        for (i, place) in self.minima.iter().enumerate() {
            let mass = self.assignment.mass(i);
            if mass == 0.0 || place.argmin == NOWHERE {
                continue;
            }
            if place.regret == 0.0 {
                tied.push(i);
                continue;
            }
            self.assignment.place(i, place.argmin);
            // Compensated, so that tiny columns are not lost in the rounding of large ones.
            let u = place.argmin as usize;
            let next = self.surplus[u] + mass;
            carry[u] += if self.surplus[u].abs() >= mass {
                (self.surplus[u] - next) + mass
            } else {
                (mass - next) + self.surplus[u]
            };
            self.surplus[u] = next;
        }
        self.surplus
            .iter_mut()
            .zip(carry)
            .for_each(|(s, c)| *s += c);
        // Rows without a preference go where there is most room: where all costs are equal, as at the
        // start of training, this alone is the answer but for a handful of rows.
        let (mut line, mut shifted) = (vec![T::zero(); nodes - 1], vec![0.0; nodes]);
        for i in tied {
            self.table.shifted(i, &mut line, &mut shifted);
            let best = self.minima[i].best;
            let mut argmin = self.minima[i].argmin as usize;
            for v in 0..nodes {
                if shifted[v] == best && self.surplus[v] < self.surplus[argmin] {
                    argmin = v;
                }
            }
            if argmin as u32 != self.minima[i].argmin {
                self.minima[i].next = self.minima[i].argmin;
                self.minima[i].argmin = argmin as u32;
            }
            self.assignment.place(i, argmin as u32);
            self.surplus[argmin] += self.assignment.mass(i);
        }
        // The slack row is split anyway: it fills what room its best columns have.
        let mut left = self.assignment.mass(n);
        if left > 0.0 {
            self.table.shifted(n, &mut line, &mut shifted);
            let best = shifted.iter().copied().fold(f64::INFINITY, f64::min);
            if best == f64::INFINITY {
                return;
            }
            let tie = best + SURPLUS * best.abs();
            let mut shares = Vec::new();
            let mut first = None;
            for v in (0..nodes).filter(|&v| shifted[v] <= tie) {
                let give = left.min(-self.surplus[v]);
                first = first.or(Some(v));
                if give > 0.0 {
                    left -= give;
                    self.surplus[v] += give;
                    shares.push((v as u32, give));
                }
            }
            if let Some(v) = first.filter(|_| left > 0.0) {
                self.surplus[v] += left;
                match shares.iter_mut().find(|s| s.0 == v as u32) {
                    Some(share) => share.1 += left,
                    None => shares.push((v as u32, left)),
                }
            }
            self.assignment.split_over(n, shares);
        }
    }

    /// Prices of the columns now, slack column last.
    pub(super) fn prices(&self) -> Vec<f64> {
        let start = self.table.prices().iter();
        start.zip(&self.moved).map(|(g, d)| g + d).collect()
    }

    /// Prices at which the columns that hold too much would lose just that, if all others kept theirs:
    /// each price falls to the regret at which enough of the column's mass goes elsewhere. Far from the
    /// optimum, where whole crowds have to move, this is worth hundreds of rounds; near it, where every
    /// row that leaves lands in a neighbour that has moved too, it is worth nothing.
    pub(super) fn lowered(&self) -> Vec<f64> {
        let mut prices = self.prices();
        let mut leavers: Vec<(u32, f64, f64)> = Vec::new();
        for (i, place) in self.minima.iter().enumerate() {
            let crowded = |&u: &u32| u != NOWHERE && self.surplus[u as usize] > 0.0;
            if let Some(u) = self.assignment.whole(i).filter(crowded)
                && place.regret < f64::INFINITY
            {
                leavers.push((u, place.regret, self.assignment.mass(i)));
            }
        }
        leavers.sort_unstable_by(|a, b| {
            let by_key = a.0.cmp(&b.0).then(a.1.total_cmp(&b.1));
            by_key.then(a.2.total_cmp(&b.2))
        });
        for leavers in leavers.chunk_by(|a, b| a.0 == b.0) {
            let u = leavers[0].0 as usize;
            let mut gone = 0.0;
            let mut drop = 0.0;
            for &(_, regret, mass) in leavers {
                if gone >= self.surplus[u] {
                    break;
                }
                gone += mass;
                drop = regret;
            }
            prices[u] -= drop;
        }
        // Only differences of prices matter: where most mass is they had better have few digits.
        let heaviest = (0..prices.len()).filter(|&v| prices[v].is_finite());
        let heaviest = heaviest.max_by(|&u, &v| self.demands[u].total_cmp(&self.demands[v]));
        let centre = heaviest.map_or(0.0, |v| prices[v]);
        prices.iter_mut().for_each(|g| *g -= centre);
        prices
    }

    /// Mass that is not where it should be.
    pub(super) fn excess(&self) -> f64 {
        let (mut over, mut under) = (0.0, 0.0);
        for s in &self.surplus {
            over += s.max(0.0);
            under -= s.min(0.0);
        }
        over.max(under)
    }

    pub(super) fn total(&self) -> f64 {
        self.total
    }

    /// How far the prices of columns that want something are apart.
    fn price_spread(&self) -> f64 {
        let prices = self.prices();
        let open = prices.iter().zip(&self.demands).filter(|p| *p.1 > 0.0);
        let ends = open.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (g, _)| {
            (low.min(*g), high.max(*g))
        });
        (ends.1 - ends.0).max(0.0)
    }

    pub(super) fn demands(&self) -> &[f64] {
        &self.demands
    }

    /// Moves mass until every column has what it wants. `go_on` is asked before each round, with the [`Excess`]
    /// and what the level has cost so far: arcs looked at, and [`ARCS_PER_READ`] for each cost read. A round that takes
    /// very long is cut short where the budget does not allow it, and `go_on` is asked in the middle of it, too: its last argument
    /// says whether this is a round of its own.
    pub(super) fn run(
        &mut self,
        budget: &mut Budget,
        mut go_on: impl FnMut(&mut Budget, Excess, f64, bool) -> bool,
    ) -> End {
        let (n, nodes) = (self.table.rows(), self.table.nodes());
        let mut paths = Paths::new(nodes);
        let mut lacking: Vec<bool> = vec![false; nodes];
        let mut limits = vec![0.0; nodes];
        let mut enough = nodes;
        let mut looked_at = 0;
        let mut arcs: Option<Arcs<T>> = None;
        loop {
            let mut lacks = 0;
            let mut spares = 0;
            for u in 0..nodes {
                let tolerance = SURPLUS * self.demands[u];
                lacking[u] = self.surplus[u] < -tolerance;
                lacks += usize::from(lacking[u]);
                spares += usize::from(self.surplus[u] > tolerance);
            }
            if lacks == 0 || spares == 0 {
                return self.stuck();
            }
            let read = arcs.as_ref().map_or(0, |arcs| arcs.read);
            let excess = Excess {
                share: self.excess() / self.total,
                spread: self.price_spread(),
            };
            let share = excess.share;
            let work = (looked_at + ARCS_PER_READ * read * nodes) as f64;
            if !go_on(budget, excess, work, true) {
                return End::Cut;
            }
            let enough_work = work + budget.one_round();
            let arcs = arcs.get_or_insert_with(|| self.arcs(n));

            let spare = |u: &usize| self.surplus[*u] > SURPLUS * self.demands[*u];
            paths.restart((0..nodes).filter(spare), &lacking, &self.moved);
            let (mut reached, mut horizon) = (0, 0.0);
            let mut unasked = 0;
            while reached < lacks.min(enough) {
                let Some(v) = paths.nearest() else { break };
                unasked += nodes;
                if unasked > ASK_EVERY {
                    unasked = 0;
                    if !go_on(budget, excess, work, false) {
                        return End::Cut;
                    }
                }
                if let Some(u) = paths.parent(v).filter(|&u| !arcs.is_known(u, v)) {
                    arcs.list(&self.table, &self.minima, &self.assignment, u, 0);
                    looked_at += paths.revise(u, |w| arcs.keys(w), &self.moved);
                    let work = (looked_at + ARCS_PER_READ * arcs.read * nodes) as f64;
                    if work > enough_work && !budget.allows(share, work) {
                        return End::Cut;
                    }
                    continue;
                }
                paths.settle(v, arcs.keys(v), &self.moved);
                if lacking[v] {
                    reached += 1;
                    horizon = paths.distance(v);
                }
            }
            looked_at += paths.settled().len() * nodes;
            if reached == 0 {
                return self.stuck();
            }
            for v in 0..nodes {
                self.moved[v] += paths.distance(v).min(horizon);
            }
            // The arcs of the forest are tight now; their keys say what may travel along them.
            for &v in paths.settled() {
                limits[v] = paths.parent(v).map_or(0.0, |u| arcs.keys(u)[v]);
            }
            // Paths share arcs, and the first to come empties them: seeking many more columns than
            // were served last time is wasted.
            enough = 2;
            for &v in paths.settled().iter().filter(|&&v| lacking[v]) {
                enough += 2 * usize::from(self.send(arcs, &paths, &limits, v));
            }
        }
    }

    /// No path is left. What rounding alone has left over is nobody's fault.
    fn stuck(&self) -> End {
        let excess = self.excess();
        if excess <= UNPLACED * self.total {
            End::Done
        } else {
            End::Stranded(excess)
        }
    }

    fn arcs(&self, n: usize) -> Arcs<T> {
        let nodes = self.table.nodes();
        let mut arcs = Arcs::new(nodes, &self.minima, &self.assignment);
        for (u, _) in self.assignment.of(n) {
            arcs.arrive(&self.table, &self.assignment, n as u32, u as usize);
        }
        let typical = (self.total - self.assignment.mass(n)) / n as f64;
        for u in 0..nodes {
            // Twice the rows that must come or go, by their mean mass.
            let rows = 2.0 * self.surplus[u].abs() / typical.max(f64::MIN_POSITIVE);
            let rows = (rows as usize).min(n).min(64);
            arcs.list(&self.table, &self.minima, &self.assignment, u, rows);
        }
        arcs
    }

    /// Sends what it can from the root of `sink`'s tree down to `sink`, on each arc into `v` by rows of
    /// keys up to `limits[v]`. Returns whether anything could go.
    fn send(&mut self, arcs: &mut Arcs<T>, paths: &Paths, limits: &[f64], sink: usize) -> bool {
        let mut hops = Vec::new();
        let mut v = sink;
        while let Some(u) = paths.parent(v) {
            hops.push((u, v));
            v = u;
        }
        let source = v;
        let mut amount = self.surplus[source].min(-self.surplus[sink]);
        if amount <= 0.0 {
            return false;
        }
        let mut taken: Vec<Vec<(u32, f64, f64)>> = Vec::with_capacity(hops.len());
        for &(u, v) in &hops {
            let mut rows = Vec::new();
            let sum = arcs.take(&self.assignment, u, v, limits[v], amount, &mut rows);
            amount = amount.min(sum);
            taken.push(rows);
        }
        for (&(u, v), rows) in hops.iter().zip(&taken) {
            let mut left = amount;
            let mut gone = 0;
            for &(row, _, mass) in rows {
                if left <= 0.0 {
                    break;
                }
                let part = left.min(mass);
                left -= part;
                let (has_left, is_new) =
                    self.assignment
                        .shift(row as usize, u as u32, v as u32, part);
                if has_left {
                    gone += 1;
                    arcs.leave(&self.assignment, row, u);
                }
                if is_new {
                    arcs.arrive(&self.table, &self.assignment, row, v);
                }
            }
            arcs.give_back(&self.assignment, u, v, &rows[gone..]);
        }
        self.surplus[source] -= amount;
        self.surplus[sink] += amount;
        amount > 0.0
    }
}
