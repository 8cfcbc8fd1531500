//! Many distances at once: one against many, all pairs of a list, every row against every column.
//!
//! Any question of two things serves: a distance on the [line](crate::line), sliced, between Gaussians, or a whole solve. Pairs are shared
//! out among threads and come back in order; the first pair that is refused, in that order, is the error. A list that has been
//! sorted, checked or otherwise prepared once ([`line::Samples`](crate::line::Samples)) is prepared for all its pairs.

use crate::Error;
use crate::kernel::tiles::map_ranges;

/// `measure(one, each)` for each of many.
///
/// # Errors
/// The first that `measure` gives.
///
/// # Examples
/// ```
/// use earthmover::batch;
/// use earthmover::line::Samples;
/// let query = Samples::new(&[0.0, 1.0])?;
/// let many = [Samples::new(&[1.0, 2.0])?, Samples::new(&[5.0, 6.0])?];
/// assert_eq!(batch::one_to_many(&query, &many, |a, b| a.distance(b, 1.0))?, [1.0, 5.0]);
/// # Ok::<(), earthmover::Error>(())
/// ```
pub fn one_to_many<A: Sync, B: Sync, R: Send>(
    one: &A,
    many: &[B],
    measure: impl Fn(&A, &B) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let found = map_ranges(many.len(), 1, |k| measure(one, &many[k.start]));
    found.into_iter().collect()
}

/// `measure(row, col)` for every row and column, row-major.
///
/// # Errors
/// The first that `measure` gives.
///
/// # Examples
/// ```
/// use earthmover::batch;
/// let (rows, cols) = ([vec![0.0], vec![2.0]], [vec![1.0], vec![5.0], vec![9.0]]);
/// let table = batch::every_pair(&rows, &cols, |x, y| earthmover::line::distance(x, y, 1.0))?;
/// assert_eq!(table, [1.0, 5.0, 9.0, 1.0, 3.0, 7.0]);
/// # Ok::<(), earthmover::Error>(())
/// ```
pub fn every_pair<A: Sync, B: Sync, R: Send>(
    rows: &[A],
    cols: &[B],
    measure: impl Fn(&A, &B) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let width = cols.len();
    let pairs = rows.len().checked_mul(width).ok_or(Error::TooLarge {
        rows: rows.len(),
        cols: width,
    })?;
    let one = |k: usize| measure(&rows[k / width], &cols[k % width]);
    let found = map_ranges(pairs, 1, |k| one(k.start));
    found.into_iter().collect()
}

/// The table of a symmetric distance among some things, row-major with zeros on the diagonal: each pair is measured once.
///
/// # Errors
/// The first that `measure` gives.
///
/// # Examples
/// ```
/// use earthmover::{Dense, Exact, Marginals, Problem, batch};
/// let costs = [0.0, 1.0, 2.0, 1.0, 0.0, 1.0, 2.0, 1.0, 0.0];
/// let histograms = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.5, 0.5]];
/// let table = batch::all_pairs(&histograms, |a, b| {
///     let problem = Problem::new(Dense::new(&costs, 3, 3)?, Marginals::balanced(a, b)?)?;
///     Ok(Exact::new().solve(&problem)?.objective())
/// })?;
/// assert_eq!(table[..3], [0.0, 1.0, 1.5]);
/// assert_eq!(table[3], table[1]);
/// # Ok::<(), earthmover::Error>(())
/// ```
pub fn all_pairs<A: Sync>(
    things: &[A],
    measure: impl Fn(&A, &A) -> Result<f64, Error> + Sync,
) -> Result<Vec<f64>, Error> {
    let n = things.len();
    let size = n
        .checked_mul(n)
        .ok_or(Error::TooLarge { rows: n, cols: n })?;
    let pairs: Vec<(usize, usize)> = (0..n)
        .flat_map(|i| (i + 1..n).map(move |j| (i, j)))
        .collect();
    let found = map_ranges(pairs.len(), 1, |k| {
        let (i, j) = pairs[k.start];
        measure(&things[i], &things[j])
    });
    let mut table = vec![0.0; size];
    for ((i, j), distance) in pairs.into_iter().zip(found) {
        let distance = distance?;
        table[i * n + j] = distance;
        table[j * n + i] = distance;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back_in_order_and_refusals_too() {
        let numbers: Vec<f64> = (0..50).map(f64::from).collect();
        let apart = |a: &f64, b: &f64| Ok((a - b).abs());
        let table = all_pairs(&numbers, apart);
        let every = every_pair(&numbers, &numbers, apart);
        assert_eq!(table, every);
        assert_eq!(one_to_many(&3.0, &numbers, apart).map(|d| d[49]), Ok(46.0));
        let refused = all_pairs(&numbers, |a, b| match *b {
            7.0.. => Err(Error::Length {
                what: "pair",
                expected: *a as usize,
                found: *b as usize,
            }),
            _ => Ok(0.0),
        });
        assert!(matches!(
            refused,
            Err(Error::Length {
                expected: 0,
                found: 7,
                ..
            })
        ));
        let none: &[f64] = &[];
        assert_eq!(all_pairs(none, apart), Ok(Vec::new()));
        assert_eq!(every_pair(none, none, apart), Ok(Vec::new()));
    }
}
