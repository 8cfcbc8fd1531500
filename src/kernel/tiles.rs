//! Rows in tiles, folded in order: the same bits for any number of threads, and of machines.
//!
//! Floating-point sums depend on their order. Here the order depends on the *shape* of the problem only. What is added up over
//! rows is added up along a tree:
//!
//! ```text
//! S(rows) = S(first half) + S(second half)      while a half is worth it;  else from the first row to the last
//! ```
//!
//! Whether a half is worth it says its own shape alone, so that the tree over some rows of a problem that are one of its nodes
//! *is* that part of the whole's tree. Whoever holds a node, a thread or a [member of a team](crate::team), adds up what the
//! whole would have added up there, without knowing of it.
//!
//! Where results are not added but listed, rows are cut into at most [`MOST_TILES`] tiles of the same size.

use core::ops::Range;

/// Fewer entries than this are not halved: a half would not be worth a thread's attention.
const HALVED_ENTRIES: usize = 1 << 15;

/// Columns up to which curvatures are added up along the tree of shards.
pub(crate) const MOST_CURVED: usize = 1024;

/// Whether a node of so many rows is halved where column sums are added up. A node holds one sum a column: halves of few rows would
/// spend their time on adding those up.
pub(crate) fn is_split(rows: usize, cols: usize) -> bool {
    rows >= 32 + cols / 64 && rows.saturating_mul(cols) >= HALVED_ENTRIES
}

/// Whether a node may be halved between members of a team, and is where curvatures are added up: those are the square of the columns,
/// and want as many rows as make up for it.
pub(crate) fn is_shared(rows: usize, cols: usize) -> bool {
    is_split(rows, cols) && (cols > MOST_CURVED || rows / 32 > cols)
}

/// Whether a node is halved where curvatures are added up. Beyond [`MOST_CURVED`] columns nobody shares them.
pub(crate) fn is_curved(rows: usize, cols: usize) -> bool {
    is_shared(rows, cols) && rows / 32 > cols
}

/// Something with a part for each row.
pub(crate) trait Halves: Sized + Send {
    /// What belongs to the first so many rows, and the rest.
    fn halves(self, rows: usize) -> (Self, Self);
}

impl Halves for () {
    fn halves(self, _: usize) -> (Self, Self) {
        ((), ())
    }
}

impl<S: Send> Halves for &mut [S] {
    fn halves(self, rows: usize) -> (Self, Self) {
        self.split_at_mut(rows)
    }
}

/// So many numbers for each row.
pub(crate) struct Lines<'a, S> {
    pub(crate) entries: &'a mut [S],
    pub(crate) width: usize,
}

impl<S: Send> Halves for Lines<'_, S> {
    fn halves(self, rows: usize) -> (Self, Self) {
        let width = self.width;
        let (first, rest) = self.entries.split_at_mut(rows * width);
        let lines = |entries| Self { entries, width };
        (lines(first), lines(rest))
    }
}

impl<A: Halves, B: Halves> Halves for (A, B) {
    fn halves(self, rows: usize) -> (Self, Self) {
        let ((a, c), (b, d)) = (self.0.halves(rows), self.1.halves(rows));
        ((a, b), (c, d))
    }
}

/// Runs `work` on the leaves of the tree over `rows`, with their parts of `state`, and merges the results along it.
pub(crate) fn fold<P: Halves, R: Send>(
    rows: Range<usize>,
    cols: usize,
    is_split: fn(usize, usize) -> bool,
    state: P,
    work: &(impl Fn(Range<usize>, P) -> R + Sync),
    merge: &(impl Fn(&mut R, R) + Sync),
) -> R {
    let Range { start, end } = rows;
    if !is_split(end - start, cols) {
        return work(rows, state);
    }
    let half = (end - start) / 2;
    let (first, second) = state.halves(half);
    let (mut sum, other) = both(
        || fold(start..start + half, cols, is_split, first, work, merge),
        || fold(start + half..end, cols, is_split, second, work, merge),
    );
    merge(&mut sum, other);
    sum
}

/// The first row of each leaf.
pub(crate) fn leaves(rows: usize, cols: usize) -> Vec<usize> {
    let first = |rows: Range<usize>, ()| vec![rows.start];
    fold(0..rows, cols, is_split, (), &first, &|all, more| {
        all.extend(more)
    })
}

/// Bounds the memory of per-tile results: at most this many column vectors exist at once.
const MOST_TILES: usize = 32;

/// Tiles smaller than this many entries are not worth a thread's attention.
const LEAST_ENTRIES: usize = 1 << 13;

/// Rows per tile for a problem of this shape.
pub(crate) fn tile_rows(rows: usize, cols: usize) -> usize {
    let least = LEAST_ENTRIES.div_ceil(cols.max(1));
    rows.div_ceil(MOST_TILES).max(least).max(1)
}

/// Cuts `state` (one entry per row) into tiles, runs `work` on each tile with its rows, and returns
/// the tiles' results in order.
pub(crate) fn map_tiles<S, R, W>(state: &mut [S], tile: usize, work: W) -> Vec<R>
where
    S: Send,
    R: Send,
    W: Fn(Range<usize>, &mut [S]) -> R + Sync,
{
    let one = |(t, chunk): (usize, &mut [S])| {
        let start = t * tile;
        work(start..start + chunk.len(), chunk)
    };
    #[cfg(feature = "rayon")]
    if state.len() > tile {
        use rayon::prelude::*;
        return state.par_chunks_mut(tile).enumerate().map(one).collect();
    }
    state.chunks_mut(tile).enumerate().map(one).collect()
}

/// Runs `work` on each tile of `0..rows` and returns the results in order.
pub(crate) fn map_ranges<R, W>(rows: usize, tile: usize, work: W) -> Vec<R>
where
    R: Send,
    W: Fn(Range<usize>) -> R + Sync,
{
    let tiles = rows.div_ceil(tile.max(1));
    let one = |t: usize| work(t * tile..((t + 1) * tile).min(rows));
    #[cfg(feature = "rayon")]
    if tiles > 1 {
        use rayon::prelude::*;
        return (0..tiles).into_par_iter().map(one).collect();
    }
    (0..tiles).map(one).collect()
}

/// Runs `work` on one of the threads that tiles are shared out to. From any other thread every hand-over of tiles is a wait; work that
/// hands over many times goes there once.
pub(crate) fn pooled<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    #[cfg(feature = "rayon")]
    return rayon::scope(|_| work());
    #[cfg(not(feature = "rayon"))]
    work()
}

/// Both, at the same time where there are cores for it.
pub(crate) fn both<A: Send, B: Send>(
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B + Send,
) -> (A, B) {
    #[cfg(feature = "rayon")]
    return rayon::join(a, b);
    #[cfg(not(feature = "rayon"))]
    (a(), b())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_every_row_once_and_are_few() {
        for (rows, cols) in [
            (1, 1),
            (7, 3),
            (50_000, 10),
            (2_000, 2_000),
            (20_000, 20_000),
        ] {
            let tile = tile_rows(rows, cols);
            let ranges = map_ranges(rows, tile, |r| r);
            assert!(ranges.len() <= MOST_TILES);
            assert_eq!(
                ranges.iter().map(ExactSizeIterator::len).sum::<usize>(),
                rows
            );
            assert!(ranges.windows(2).all(|w| w[0].end == w[1].start));
        }
    }

    #[test]
    fn a_node_of_a_tree_is_the_tree_of_its_rows() {
        for (rows, cols) in [
            (50_000, 10),
            (100_001, 3),
            (2_000, 2_000),
            (40_000, 1),
            (7, 9),
        ] {
            let whole = leaves(rows, cols);
            assert!(whole[0] == 0 && whole.is_sorted());
            if is_split(rows, cols) {
                let half = rows / 2;
                let (mut parts, second) = (leaves(half, cols), leaves(rows - half, cols));
                parts.extend(second.iter().map(|first| half + first));
                assert_eq!(whole, parts);
            }
            for rows in 1..3000 {
                let (split, shared) = (is_split(rows, cols), is_shared(rows, cols));
                assert!(split >= shared && shared >= is_curved(rows, cols));
            }
        }
    }

    #[test]
    fn state_is_cut_like_the_rows() {
        let mut state: Vec<usize> = vec![0; 10];
        let starts = map_tiles(&mut state, 4, |rows, chunk| {
            chunk.iter_mut().zip(rows.clone()).for_each(|(s, i)| *s = i);
            rows.start
        });
        assert_eq!(starts, [0, 4, 8]);
        assert_eq!(state, (0..10).collect::<Vec<_>>());
    }
}
