//! Rows in tiles, folded in order: the same bits for any number of threads.
//!
//! Floating-point sums depend on their order. Here the order depends on the *shape* of the problem
//! only: rows are cut into at most [`MOST_TILES`] tiles, each tile is worked on by one thread from its
//! first row to its last, and the tiles' results are folded in tile order by one thread.

use core::ops::Range;

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
