//! One-to-one: shortest augmenting paths on a table of costs.
//!
//! ```text
//! f_i + g_j ≤ C_ij   for all pairs,      f_i + g_j = C_ij   for partners,      g_j = 0   for columns that stay alone
//! ```
//!
//! Prices that allow this prove the partners to be the best. They are found in three steps:
//!
//! * **Columns** ask for what they cost at least, and take the row that pays it if it is still free (only where all columns get a
//!   row).
//! * **Rows** that are free bid in turn: each takes its best column and lowers its price to where the second best is as good; whoever
//!   had the column bids next.
//! * **Paths**: for each row still free the shortest way, by reduced costs, to a free column, Dijkstra's way on the whole table; prices move by the
//!   distances, and along the way everybody changes partners.
//!
//! A step of any of them is one pass over a row, on wide vectors: columns that a search is done with are priced at −∞, so that
//! the pass has no branch, and who came by which row is written down as a number beside the distance.
//!
//! With costs that have little to do with each other nearly all rows find a partner by bidding. Between points they do not, paths
//! are long, and the simplex is faster by far: then this ends early and says so.
//!
//! # References
//! R. Jonker, A. Volgenant, *A shortest augmenting path algorithm for dense and sparse linear assignment problems*, Computing 38 (1987).

use crate::kernel::dispatch::dispatch;
use crate::kernel::rounding::{NOISY_GAP, sum};
use crate::kernel::tiles::{map_tiles, tile_rows};
use crate::solver::Guard;
use crate::{Cost, Real};

/// "Nobody".
const NONE: usize = usize::MAX;

/// Rounds of bids.
const ROUNDS: usize = 4;

/// Bids of a round, for each row that was free at its beginning: chains of small steps are cheaper as paths.
const BIDS: usize = 4;

/// Shares of rows that are free after the bids, and rows scanned for each row after that, from which on the simplex is sooner done. Measured,
/// n = 2,000: 4% free and 7 scans with independent costs, 26% and 80 with points in ten dimensions, 37% and 300 in two.
const MOST_FREE: f64 = 0.1;
const MOST_SCANS: usize = 40;

/// Up to so many rows nothing is worth giving up for.
const FEW_ROWS: usize = 64;

/// Partners and the prices that prove them.
#[derive(Debug, Clone)]
pub(super) struct Matching {
    /// The column of each row.
    pub(super) partners: Vec<usize>,
    /// f of the rows, the most that g allows.
    pub(super) rows: Vec<f64>,
    /// g of the columns; zero for those that stay alone.
    pub(super) cols: Vec<f64>,
    /// Rows looked at.
    pub(super) scans: usize,
}

/// The cheapest partners of all rows of a table that lends its rows and has at least as many columns. `None` where it does not, where
/// forbidden pairs leave a row alone, where paths are so long that other ways are faster, where rounding blurs the prices, or where time is up.
pub(super) fn matching<T: Real>(cost: &dyn Cost<T>, guard: &Guard<'_>) -> Option<Matching> {
    let (n, m) = (cost.rows(), cost.cols());
    let table = cost.block(0..n).filter(|_| n <= m)?;
    let mut state = State {
        table,
        m,
        g: vec![0.0; m],
        col_of: vec![NONE; n],
        row_of: vec![NONE; m],
        scans: 0,
    };
    if n == m {
        state.reduce_columns()?;
    }
    let mut free = state.free_rows();
    for _ in 0..ROUNDS {
        if guard.is_over() {
            return None;
        }
        state.bid(&free);
        free = state.free_rows();
    }
    if n > FEW_ROWS && free.len() as f64 > MOST_FREE * n as f64 {
        return None;
    }
    state.augment(&free, guard)?;
    let (g, mut rows) = (&state.g, vec![0.0; n]);
    map_tiles(&mut rows, tile_rows(n, m), |range, rows| {
        for (i, f) in range.zip(rows) {
            *f = two_least(&table[i * m..][..m], g).0;
        }
    });
    let paid = state.col_of.iter().enumerate();
    let paid: Vec<f64> = paid.map(|(i, &j)| table[i * m + j].widen()).collect();
    let (value, bound) = (sum(&paid), sum(&rows) + sum(&state.g));
    // Costs of very different magnitudes may have blurred the prices: then they prove nothing.
    if value != bound && !((value - bound).abs() <= NOISY_GAP * value.abs()) {
        return None;
    }
    Some(Matching {
        partners: state.col_of,
        rows,
        cols: state.g,
        scans: state.scans,
    })
}

struct State<'a, T> {
    table: &'a [T],
    m: usize,
    g: Vec<f64>,
    /// Partners of rows and of columns.
    col_of: Vec<usize>,
    row_of: Vec<usize>,
    scans: usize,
}

impl<T: Real> State<'_, T> {
    fn row(&self, i: usize) -> &[T] {
        &self.table[i * self.m..][..self.m]
    }

    fn free_rows(&self) -> Vec<usize> {
        let rows = 0..self.col_of.len();
        rows.filter(|&i| self.col_of[i] == NONE).collect()
    }

    /// Every column's price is its least cost; `None` where it has none.
    fn reduce_columns(&mut self) -> Option<()> {
        let n = self.col_of.len();
        let (mut low, mut at) = (vec![f64::INFINITY; self.m], vec![0.0; self.m]);
        for i in 0..n {
            lower(self.row(i), i as f64, &mut low, &mut at);
        }
        if low.contains(&f64::INFINITY) {
            return None;
        }
        self.g = low;
        let mut wanted = vec![0usize; n];
        for j in (0..self.m).rev() {
            let i = at[j] as usize;
            wanted[i] += 1;
            if self.col_of[i] == NONE {
                (self.col_of[i], self.row_of[j]) = (j, i);
            }
        }
        // A row that one column alone has chosen lets it have what the row's second best leaves.
        for i in (0..n).filter(|&i| wanted[i] == 1) {
            let j = self.col_of[i];
            let own = core::mem::replace(&mut self.g[j], f64::NEG_INFINITY);
            let (second, ..) = two_least(self.row(i), &self.g);
            self.g[j] = if second < f64::INFINITY {
                own - second
            } else {
                own
            };
        }
        self.scans += n;
        Some(())
    }

    /// A round of bids by the rows that are free.
    fn bid(&mut self, free: &[usize]) {
        let mut left = BIDS * free.len();
        for &first in free {
            let mut i = first;
            while left > 0 {
                left -= 1;
                self.scans += 1;
                let (best, mut j, second) = two_least(self.row(i), &self.g);
                if second == f64::INFINITY {
                    break; // no second best to bid against
                }
                let rises = best < second;
                if rises {
                    self.g[j] -= second - best;
                } else if self.row_of[j] != NONE {
                    // Of columns that are as good one that is free is better.
                    j = self.as_good(i, j, best);
                }
                let before = core::mem::replace(&mut self.row_of[j], i);
                self.col_of[i] = j;
                if before == NONE {
                    break;
                }
                self.col_of[before] = NONE;
                if !rises {
                    break;
                }
                i = before;
            }
        }
    }

    /// Of the columns from `from` on that cost row `i` just `best` the first that is free, or else the second, whose row may find
    /// another in the next round.
    fn as_good(&self, i: usize, from: usize, best: f64) -> usize {
        let each = self.row(i).iter().zip(&self.g).zip(&self.row_of);
        let mut tied = each.enumerate().skip(from + 1);
        let mut second = NONE;
        let free = tied.find(|(j, ((c, g), row))| {
            let good = c.widen() - *g == best;
            if good && second == NONE {
                second = *j;
            }
            good && **row == NONE
        });
        free.map_or(if second == NONE { from } else { second }, |(j, _)| j)
    }

    /// Shortest paths from each of these rows; `None` where there is none, they are too long, or time is up.
    fn augment(&mut self, free: &[usize], guard: &Guard<'_>) -> Option<()> {
        let n = self.col_of.len();
        let most = self.scans + MOST_SCANS * n.max(FEW_ROWS);
        let mut open: Vec<usize> = (0..self.m).filter(|&j| self.row_of[j] == NONE).collect();
        // Prices with −∞ for columns that are done with, distances with +∞ for them, and the rows that distances came by.
        let mut g = self.g.clone();
        let (mut distances, mut by) = (vec![0.0; self.m], vec![0.0; self.m]);
        let mut done: Vec<(usize, f64)> = Vec::new();
        for &source in free {
            if guard.is_over() {
                return None;
            }
            distances.fill(f64::INFINITY);
            done.clear();
            // f of the row at hand less how far it is.
            let (mut i, mut base) = (source, 0.0);
            let (end, length) = loop {
                if n > FEW_ROWS && self.scans > most {
                    return None;
                }
                self.scans += 1;
                let least = relax(self.row(i), &g, base, i as f64, &mut distances, &mut by);
                if least == f64::INFINITY {
                    return None;
                }
                if let Some(at) = open.iter().position(|&j| distances[j] == least) {
                    break (open.swap_remove(at), least);
                }
                let j = first_at(&distances, least);
                done.push((j, least));
                (distances[j], g[j]) = (f64::INFINITY, f64::NEG_INFINITY);
                i = self.row_of[j];
                base = (self.row(i)[j].widen() - self.g[j]) - least;
            };
            for &(j, distance) in &done {
                self.g[j] += distance - length;
                g[j] = self.g[j];
            }
            let mut j = end;
            loop {
                let i = by[j] as usize;
                self.row_of[j] = i;
                let next = core::mem::replace(&mut self.col_of[i], j);
                if i == source {
                    break;
                }
                j = next;
            }
        }
        Some(())
    }
}

const LANES: usize = 8;

dispatch! {
    /// Lowers each column's least cost to that of this row where it is less, and notes the row.
    fn lower<T: Real>(costs: &[T], row: f64, low: &mut [f64], at: &mut [f64]) {
        for ((c, low), at) in costs.iter().zip(low).zip(at) {
            let c = c.widen();
            let less = c < *low;
            *low = if less { c } else { *low };
            *at = if less { row } else { *at };
        }
    }
}

dispatch! {
    /// The least `C_j − g_j`, the first place where it is taken, and the second least.
    fn two_least<T: Real>(costs: &[T], g: &[f64]) -> (f64, usize, f64) {
        let (mut first, mut second) = ([f64::INFINITY; LANES], [f64::INFINITY; LANES]);
        let (c8, c_rest) = costs.as_chunks::<LANES>();
        let (g8, g_rest) = g.as_chunks::<LANES>();
        for (c, g) in c8.iter().zip(g8) {
            for l in 0..LANES {
                let r = c[l].widen() - g[l];
                let more = if r > first[l] { r } else { first[l] };
                second[l] = if more < second[l] { more } else { second[l] };
                first[l] = if r < first[l] { r } else { first[l] };
            }
        }
        for (c, g) in c_rest.iter().zip(g_rest) {
            let r = c.widen() - g;
            second[0] = second[0].min(r.max(first[0]));
            first[0] = first[0].min(r);
        }
        let (mut best, mut next) = (f64::INFINITY, f64::INFINITY);
        for (one, two) in first.into_iter().zip(second) {
            next = next.min(two).min(one.max(best));
            best = best.min(one);
        }
        let mut place = 0;
        for (c, g) in costs.chunks(BLOCK).zip(g.chunks(BLOCK)) {
            let mut hit = false;
            for (c, g) in c.iter().zip(g) {
                hit |= c.widen() - g == best;
            }
            if hit {
                let mut each = c.iter().zip(g);
                place += each.position(|(c, g)| c.widen() - g == best).unwrap_or(0);
                break;
            }
            place += c.len();
        }
        (best, place, next)
    }
}

/// Columns that are looked through at a time for where a number is.
const BLOCK: usize = 64;

dispatch! {
    /// Shortens the distances by way of a row, `C_j − g_j − base`, noting where that is, and returns the least of all.
    fn relax<T: Real>(costs: &[T], g: &[f64], base: f64, row: f64, distances: &mut [f64], by: &mut [f64]) -> f64 {
        let mut least = [f64::INFINITY; LANES];
        let (c8, c_rest) = costs.as_chunks::<LANES>();
        let (g8, g_rest) = g.as_chunks::<LANES>();
        let (d8, d_rest) = distances.as_chunks_mut::<LANES>();
        let (b8, b_rest) = by.as_chunks_mut::<LANES>();
        for (((c, g), d), b) in c8.iter().zip(g8).zip(d8).zip(b8) {
            for l in 0..LANES {
                let r = c[l].widen() - g[l] - base;
                let less = r < d[l];
                d[l] = if less { r } else { d[l] };
                b[l] = if less { row } else { b[l] };
                least[l] = if d[l] < least[l] { d[l] } else { least[l] };
            }
        }
        for (((c, g), d), b) in c_rest.iter().zip(g_rest).zip(d_rest).zip(b_rest) {
            let r = c.widen() - g - base;
            if r < *d {
                (*d, *b) = (r, row);
            }
            least[0] = least[0].min(*d);
        }
        least.into_iter().fold(f64::INFINITY, f64::min)
    }
}

/// The first place of a number that is there.
fn first_at(values: &[f64], value: f64) -> usize {
    let mut place = 0;
    for block in values.chunks(BLOCK) {
        let hit = block.iter().fold(false, |hit, v| hit | (*v == value));
        if hit {
            return place + block.iter().position(|v| *v == value).unwrap_or(0);
        }
        place += block.len();
    }
    0
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Dense;
    use crate::kernel::dispatch::plainly;
    use crate::kernel::random::Random;

    /// The best of all ways to give rows columns, by trying them.
    fn tried(table: &[f64], n: usize, m: usize) -> f64 {
        fn from(table: &[f64], m: usize, i: usize, used: u32) -> f64 {
            let Some(row) = table.chunks_exact(m).nth(i) else {
                return 0.0;
            };
            let free = (0..m).filter(|j| used & (1 << j) == 0);
            free.map(|j| row[j] + from(table, m, i + 1, used | (1 << j)))
                .fold(f64::INFINITY, f64::min)
        }
        from(&table[..n * m], m, 0, 0)
    }

    #[test]
    fn partners_are_the_best_of_all_and_prices_prove_it() {
        let mut random = Random::new(9, 0);
        let guard = Guard::nobody();
        let mut alone = 0;
        for case in 0..400 {
            let (n, more) = (1 + case % 6, case / 7 % 3);
            let m = n + more;
            let whole = case % 4 == 0;
            let table: Vec<f64> = (0..n * m)
                .map(|_| {
                    let c = random.unit() * 8.0 - 2.0;
                    let forbidden = case % 3 == 0 && random.unit() < 0.3;
                    match forbidden {
                        true => f64::INFINITY,
                        false if whole => c.floor(),
                        false => c,
                    }
                })
                .collect();
            let cost = Dense::new(&table, n, m).unwrap();
            let best = tried(&table, n, m);
            let Some(found) = matching(&cost, &guard) else {
                assert_eq!(best, f64::INFINITY);
                alone += 1;
                continue;
            };
            let mut taken = vec![false; m];
            let mut value = 0.0;
            for (i, &j) in found.partners.iter().enumerate() {
                assert!(!core::mem::replace(&mut taken[j], true));
                value += table[i * m + j];
                for (c, g) in table[i * m..][..m].iter().zip(&found.cols) {
                    assert!(found.rows[i] + g <= c + 1e-12);
                }
            }
            assert!((value - best).abs() < 1e-12, "{case}: {value} {best}");
            let prices: f64 = found.rows.iter().chain(&found.cols).sum();
            assert!((value - prices).abs() < 1e-11);
            assert!((0..m).all(|j| taken[j] || found.cols[j] == 0.0));
        }
        assert!(alone > 5);
    }

    #[test]
    fn wide_vectors_find_what_plain_ones_find() {
        let mut random = Random::new(10, 0);
        for (n, m) in [(50, 50), (90, 90), (40, 67)] {
            let table: Vec<f32> = (0..n * m).map(|_| random.unit() as f32).collect();
            let cost = Dense::new(&table, n, m).unwrap();
            let guard = Guard::nobody();
            let wide = matching(&cost, &guard).unwrap();
            let plain = plainly(|| matching(&cost, &guard)).unwrap();
            assert_eq!(wide.partners, plain.partners);
            assert_eq!(wide.cols, plain.cols);
        }
    }
}
