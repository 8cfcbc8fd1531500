//! Which entries of which rows matter, and what those entries add up to.

use super::select::lead;
use crate::Real;
use crate::kernel::dispatch::dispatch;

/// Entries a record can hold; a row with more is swept whole.
pub(crate) const MOST_LISTED: usize = 4;

/// In place of a record's first column: every entry of the row may matter.
const WHOLE: u32 = u32::MAX;

/// The entries of a row that matter, columns rising, slack's last.
///
/// Places left over hold the *ghost*, a column behind the slack's whose potential is −∞: it takes part in every
/// computation and vanishes, so that rows of one, two or four entries are worked on alike, without a branch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Record<T> {
    /// Costs; for the slack its cost is in the potential and this is zero.
    pub(super) costs: [T; MOST_LISTED],
    pub(super) cols: [u32; MOST_LISTED],
}

impl<T: Real> Record<T> {
    /// A row that carries nothing, for `ghost` the number of columns and one more.
    pub(crate) fn absent(ghost: usize) -> Self {
        Self {
            costs: [T::zero(); MOST_LISTED],
            cols: [ghost as u32; MOST_LISTED],
        }
    }

    /// A row of which every entry may matter.
    pub(super) fn whole(ghost: usize) -> Self {
        let mut record = Self::absent(ghost);
        record.cols[0] = WHOLE;
        record
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.cols[0] == WHOLE
    }

    pub(crate) fn is_absent(&self, ghost: usize) -> bool {
        self.cols[0] == ghost as u32
    }

    fn is_shared(&self, ghost: usize) -> bool {
        self.cols[1] != ghost as u32
    }
}

/// A record, and how far below the best everything is that it leaves out, at least, at the reference potentials.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filed<T> {
    pub(crate) record: Record<T>,
    pub(super) margin: T,
}

impl<T: Real> Filed<T> {
    /// A row that carries nothing.
    pub(crate) fn absent(ghost: usize) -> Self {
        Self {
            record: Record::absent(ghost),
            margin: T::infinity(),
        }
    }

    /// Whether the row has an entry that is allowed and none that is no number.
    pub(crate) fn is_sound(&self) -> bool {
        !self.margin.is_nan()
    }
}

/// What is known of one tile of rows.
#[derive(Debug, Clone)]
pub(crate) struct Tile<T> {
    pub(crate) records: Vec<Record<T>>,
    pub(super) margins: Vec<T>,
    /// Rows with a single entry, by column, then slack and ghost.
    single: Vec<u32>,
    /// One bit a row: those with two entries or more, and those swept whole.
    shared: Vec<u64>,
    whole: Vec<u64>,
    /// The mass of every row, if they are all the same.
    pub(super) level: Option<f64>,
}

impl<T: Real> Tile<T> {
    pub(crate) fn new(rows: usize, cols: usize) -> Self {
        let words = rows.div_ceil(64);
        Self {
            records: vec![Record::absent(cols + 1); rows],
            margins: vec![T::infinity(); rows],
            single: {
                let mut single = vec![0; cols + 2];
                single[cols + 1] = rows as u32;
                single
            },
            shared: vec![0; words],
            whole: vec![0; words],
            level: None,
        }
    }

    /// The same for rows that all have this mass.
    pub(super) fn with_level(self, level: Option<f64>) -> Self {
        Self { level, ..self }
    }

    /// Files a row, numbered within the tile.
    pub(crate) fn put(&mut self, row: usize, filed: Filed<T>) {
        let (word, bit, ghost) = (row / 64, row % 64, self.single.len() - 1);
        let clear = !(1 << bit);
        let Filed { record, margin } = filed;
        let (shared, whole) = (record.is_shared(ghost), record.is_whole());
        if (self.shared[word] | self.whole[word]) >> bit & 1 == 0 {
            self.single[self.records[row].cols[0] as usize] -= 1;
        }
        if !(shared || whole) {
            self.single[record.cols[0] as usize] += 1;
        }
        self.shared[word] = self.shared[word] & clear | u64::from(shared) << bit;
        self.whole[word] = self.whole[word] & clear | u64::from(whole) << bit;
        self.records[row] = record;
        self.margins[row] = margin;
    }

    /// Takes note of records and margins that [`classify`](super::select::classify) has all written anew; rows without
    /// mass carry nothing. Returns the rows in which no entry was sound.
    pub(crate) fn settle(&mut self, masses: &[f64]) -> Vec<usize> {
        let ghost = self.single.len() - 1;
        let mut unsound = Vec::new();
        self.single.fill(0);
        let words = self.shared.iter_mut().zip(&mut self.whole);
        let rows = self.records.chunks_mut(64).zip(self.margins.chunks_mut(64));
        for (word, ((shared, whole), ((records, margins), masses))) in
            words.zip(rows.zip(masses.chunks(64))).enumerate()
        {
            (*shared, *whole) = (0, 0);
            let rows = records.iter_mut().zip(margins).zip(masses);
            for (bit, ((record, margin), mass)) in rows.enumerate() {
                if margin.is_nan() || !(*mass > 0.0) {
                    if margin.is_nan() {
                        unsound.push(word * 64 + bit);
                    }
                    let absent = Filed::absent(ghost);
                    (*record, *margin) = (absent.record, absent.margin);
                }
                let (s, w) = (record.is_shared(ghost), record.is_whole());
                *shared |= u64::from(s) << bit;
                *whole |= u64::from(w) << bit;
                if !(s || w) {
                    self.single[record.cols[0] as usize] += 1;
                }
            }
        }
        unsound
    }

    /// Mass of the rows with a single entry, by column, then slack and ghost; `masses` are those of the tile's rows.
    ///
    /// What a sweep gives must not depend on which rows were replaced when, so this is never brought up to date by
    /// adding and subtracting, except for the numbers of rows, which are whole.
    pub(crate) fn fixed(&self, masses: &[f64]) -> Vec<f64> {
        if let Some(level) = self.level {
            return self.single.iter().map(|n| f64::from(*n) * level).collect();
        }
        let mut fixed = vec![0.0; self.single.len()];
        for (word, (shared, whole)) in self.shared.iter().zip(&self.whole).enumerate() {
            let rest = self.records.len() - word * 64;
            let all = if rest < 64 { (1 << rest) - 1 } else { u64::MAX };
            for row in bits(!(shared | whole) & all, word) {
                fixed[self.records[row].cols[0] as usize] += masses[row];
            }
        }
        fixed
    }

    /// Rows with two entries or more, numbered within the tile.
    pub(crate) fn shared(&self) -> Vec<usize> {
        listed(&self.shared)
    }

    /// Rows swept whole, numbered within the tile.
    pub(crate) fn whole(&self) -> Vec<usize> {
        listed(&self.whole)
    }
}

fn listed(words: &[u64]) -> Vec<usize> {
    let count = words.iter().map(|w| w.count_ones() as usize).sum();
    let mut rows = Vec::with_capacity(count);
    for (word, &set) in words.iter().enumerate() {
        rows.extend(bits(set, word));
    }
    rows
}

/// Positions of the bits set in word number `word`.
fn bits(set: u64, word: usize) -> impl Iterator<Item = usize> {
    let mut set = set;
    core::iter::from_fn(move || {
        (set != 0).then(|| {
            let bit = set.trailing_zeros() as usize;
            set &= set - 1;
            word * 64 + bit
        })
    })
}

dispatch! {
    /// Files all rows of a tile as [`classify`] would at other potentials `g` (columns, slack, ghost), from their
    /// records alone. Returns the rows of which an entry that is left out may matter there, or all of them did.
    ///
    /// `eroded` is how much closer to the best an entry can have come from the old potentials to these, `least` the
    /// smallest margin that leaves no doubt.
    pub(crate) fn refile<T: Real>(
        tile: &mut Tile<T>,
        g: &[T],
        window: T,
        eroded: T,
        least: T,
    ) -> Vec<usize> {
        for margin in &mut tile.margins {
            *margin -= eroded;
        }
        // An entry can fall behind only where there is more than one.
        for row in tile.shared() {
            if tile.margins[row] >= least {
                thin(tile, row, g, window);
            }
        }
        let unsure = tile.margins.iter().enumerate().filter(|(_, m)| !(**m >= least));
        unsure.map(|(row, _)| row).collect()
    }
}

/// Takes the entries out of a row's record that are further than `window` below the best.
#[inline(always)]
fn thin<T: Real>(tile: &mut Tile<T>, row: usize, g: &[T], window: T) {
    let record = &tile.records[row];
    let z = [0, 1, 2, 3].map(|a| g[record.cols[a] as usize] - record.costs[a]);
    let larger = |a: T, b: T| if b > a { b } else { a };
    let top = larger(larger(z[0], z[1]), larger(z[2], z[3]));
    let bar = top - window;
    let mut kept = Filed {
        margin: tile.margins[row],
        ..Filed::absent(g.len() - 1)
    };
    let mut count = 0;
    for a in 0..MOST_LISTED {
        if z[a] >= bar {
            kept.record.cols[count] = record.cols[a];
            kept.record.costs[count] = record.costs[a];
            count += 1;
        } else if top - z[a] < kept.margin {
            kept.margin = lead(top, z[a]);
        }
    }
    if kept.record != *record {
        tile.put(row, kept);
    }
}

/// Rows worked on together.
const ROWS_TOGETHER: usize = 16;

dispatch! {
    /// Adds `sign` times the rows `picks` of `records` at the potentials `g` (columns, slack, ghost) into
    /// `sums`, which are as long as `g`, and their outer products into the lower triangle of `outer`, of side
    /// one less than that, where given. `masses` belong to the records.
    ///
    /// Sixteen rows lie side by side, entry by entry, so that exponentials, sums and quotients are vectors.
    pub(crate) fn add_records<T: Real>(
        records: &[Record<T>],
        masses: &[f64],
        picks: &[usize],
        g: &[T],
        inverse: T,
        sign: f64,
        sums: &mut [f64],
        outer: Option<&mut [f64]>,
    ) {
        let mut outer = outer;
        let ghost = g.len() - 1;
        // A row of the ghost alone would be 0/0: the places of a last, incomplete group stay at zero.
        let mut z = [[T::zero(); ROWS_TOGETHER]; MOST_LISTED];
        for picks in picks.chunks(ROWS_TOGETHER) {
            for (r, &row) in picks.iter().enumerate() {
                let record = &records[row];
                for a in 0..MOST_LISTED {
                    z[a][r] = g[record.cols[a] as usize] - record.costs[a];
                }
            }
            let mut top = z[0];
            for line in &z[1..] {
                for (t, &z) in top.iter_mut().zip(line) {
                    *t = if z > *t { z } else { *t };
                }
            }
            let mut total = [T::zero(); ROWS_TOGETHER];
            for line in &mut z {
                for ((z, &t), total) in line.iter_mut().zip(&top).zip(&mut total) {
                    *z = ((*z - t) * inverse).quick_exp();
                    *total += *z;
                }
            }
            for line in &mut z {
                for (z, &total) in line.iter_mut().zip(&total) {
                    *z /= total;
                }
            }
            for (r, &row) in picks.iter().enumerate() {
                let (record, mass) = (&records[row], sign * masses[row]);
                for a in 0..MOST_LISTED {
                    let j = record.cols[a] as usize;
                    if j == ghost {
                        break;
                    }
                    sums[j] += mass * z[a][r].widen();
                }
                if let Some(outer) = outer.as_deref_mut() {
                    for a in 0..MOST_LISTED {
                        let i = record.cols[a] as usize;
                        if i == ghost {
                            break;
                        }
                        let weight = mass * z[a][r].widen();
                        // Columns are listed in rising order, so this is the lower triangle.
                        for b in 0..=a {
                            outer[i * ghost + record.cols[b] as usize] += weight * z[b][r].widen();
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::select::classify;
    use super::*;
    use crate::kernel::dispatch::plainly;
    use crate::kernel::lanes::LANES;
    use crate::kernel::random::Random;

    fn table(rows: usize, k: usize) -> Vec<f32> {
        let mut random = Random::new(1, 0);
        (0..rows * k).map(|_| random.unit() as f32).collect()
    }

    /// Records of a few random rows at flat potentials, and their masses.
    fn records(rows: usize, k: usize, window: f32) -> (Vec<Record<f32>>, Vec<f64>) {
        let mut g = vec![f32::NEG_INFINITY; (k + 1).next_multiple_of(LANES)];
        g[..k].fill(0.0);
        let mut records = vec![Record::absent(k + 1); rows];
        let mut margins = vec![0.0; rows];
        classify(
            &table(rows, k),
            k,
            &g,
            -0.2,
            window,
            &mut records,
            &mut margins,
        );
        (records, (1..=rows).map(|i| i as f64).collect())
    }

    #[test]
    fn a_record_holds_what_is_near_the_best() {
        let (rows, k, window) = (200, 13, 0.15);
        let (records, _) = records(rows, k, window);
        let mut seen = [0; 3];
        for (row, record) in table(rows, k).chunks(k).zip(&records) {
            let best = row.iter().map(|c| -c).fold(-0.2f32, f32::max);
            let mut near: Vec<u32> = (0..k)
                .filter(|&j| -row[j] >= best - window)
                .map(|j| j as u32)
                .collect();
            if -0.2 >= best - window {
                near.push(k as u32);
            }
            if near.len() > MOST_LISTED {
                assert!(record.is_whole());
                seen[2] += 1;
                continue;
            }
            seen[usize::from(near.len() > 1)] += 1;
            assert_eq!(near, record.cols[..near.len()]);
            assert_eq!(record.is_shared(k + 1), near.len() > 1);
            assert!(record.cols[near.len()..].iter().all(|c| *c == k as u32 + 1));
        }
        assert!(seen.iter().all(|s| *s > 0), "{seen:?}");
    }

    #[test]
    fn many_rows_at_once_are_each_row_by_the_definition() {
        let (rows, k) = (200, 13);
        let (records, masses) = records(rows, k, 0.15);
        let picks: Vec<usize> = (0..rows)
            .filter(|i| !records[*i].is_whole() && i % 3 != 1)
            .collect();
        let mut g: Vec<f32> = (0..k + 2).map(|j| 0.01 * j as f32).collect();
        g[k + 1] = f32::NEG_INFINITY;
        let run = |outer: Option<&mut [f64]>| {
            let mut sums = vec![0.0; k + 2];
            add_records(&records, &masses, &picks, &g, 20.0, -1.0, &mut sums, outer);
            sums
        };
        let mut outer = vec![0.0; (k + 1) * (k + 1)];
        let sums = run(Some(&mut outer));
        assert_eq!(sums, plainly(|| run(None)));
        let (mut wanted, mut products) = (vec![0.0; k + 2], vec![0.0; (k + 1) * (k + 1)]);
        for &i in &picks {
            let own = |a: usize| records[i].cols[a] as usize;
            let weight = |a: usize| (20.0 * f64::from(g[own(a)] - records[i].costs[a])).exp();
            let z: f64 = (0..MOST_LISTED).map(weight).sum();
            for a in 0..MOST_LISTED {
                wanted[own(a)] -= masses[i] * weight(a) / z;
                for b in (0..=a).filter(|_| own(a) <= k) {
                    products[own(a) * (k + 1) + own(b)] -=
                        masses[i] * weight(a) * weight(b) / (z * z);
                }
            }
        }
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-2);
        assert!(close(&sums, &wanted), "{sums:?} {wanted:?}");
        assert!(close(&outer, &products));
    }

    #[test]
    fn filed_from_records_as_from_the_rows() {
        for k in [3, 8, 13, 40] {
            let (rows, window) = (400, 0.06f32);
            let costs = table(rows, k);
            let flat = |g: &[f32]| {
                let mut padded = g[..k].to_vec();
                padded.resize((k + 1).next_multiple_of(LANES), f32::NEG_INFINITY);
                padded
            };
            let mut g = vec![0.0f32; k + 2];
            (g[k], g[k + 1]) = (-0.2, f32::NEG_INFINITY);
            let all = |g: &[f32]| {
                let mut tile = Tile::new(rows, k);
                let (records, margins) = (&mut tile.records, &mut tile.margins);
                classify(&costs, k, &flat(g), g[k], window, records, margins);
                assert!(tile.settle(&vec![1.0; rows]).is_empty());
                tile
            };
            let mut tile = all(&g);
            let mut skipped = 0;
            for turn in 0..6 {
                // Every potential moves by up to 0.02 either way.
                for (j, g) in g[..=k].iter_mut().enumerate() {
                    *g += 0.01 * ((turn * 31 + j * 7) % 5) as f32 - 0.02;
                }
                let unsure = refile(&mut tile, &g, window, 0.0401, window + 1e-4);
                skipped += rows - unsure.len();
                let wanted = all(&g);
                for i in unsure {
                    let (record, margin) = (wanted.records[i], wanted.margins[i]);
                    tile.put(i, Filed { record, margin });
                }
                for i in 0..rows {
                    assert_eq!(tile.records[i], wanted.records[i], "row {i} of {k}");
                    assert!(tile.margins[i] <= wanted.margins[i] + 1e-5);
                }
                assert_eq!(tile.single, wanted.single);
                assert_eq!(
                    (tile.shared(), tile.whole()),
                    (wanted.shared(), wanted.whole())
                );
            }
            assert!(skipped > rows / 10, "{skipped} of {k}");
        }
    }

    #[test]
    fn single_rows_add_up_in_their_own_order() {
        let (rows, k) = (130, 5);
        let (records, masses) = records(rows, k, 0.05);
        let mut tile = Tile::new(rows, k);
        // Filed backwards and some twice.
        for i in (0..rows).chain((0..rows).rev()) {
            let (record, margin) = (records[i], 0.0);
            tile.put(i, Filed { record, margin });
        }
        let (shared, whole) = (tile.shared(), tile.whole());
        let mut fixed = vec![0.0; k + 2];
        for i in (0..rows).filter(|i| !shared.contains(i) && !whole.contains(i)) {
            fixed[records[i].cols[0] as usize] += masses[i];
        }
        assert_eq!(tile.fixed(&masses), fixed);
        let level = vec![0.7; rows];
        let added = tile.fixed(&level);
        let counted = tile.with_level(Some(0.7)).fixed(&level);
        assert!(
            counted
                .iter()
                .zip(&added)
                .all(|(a, b)| (a - b).abs() < 1e-12)
        );
        assert!(shared.iter().all(|i| records[*i].is_shared(k + 1)));
        assert!(whole.iter().all(|i| records[*i].is_whole()));
    }
}
