//! Where to start from: how each thing relates to all others, as quantiles. Two things that match have these in common.
//!
//! ```text
//! cost_ij = ∫₀¹ (quantiles of C_i· − quantiles of D_j·)² dt        (Mémoli's third lower bound is the optimum of this)
//! ```

use super::Relations;
use crate::kernel::product::product;
use crate::kernel::sort::{key, unkey};
use crate::kernel::tiles::{map_tiles, tile_rows};
use crate::line::{Cumulative, walk};

/// Equal stretches of the quantiles that are compared, each by its mean.
const STRETCHES: usize = 64;

/// The costs between the profiles of two sides with these masses.
pub(super) fn costs(rows: (&Relations<'_>, &[f64]), cols: (&Relations<'_>, &[f64])) -> Vec<f64> {
    let k = STRETCHES;
    let (x, y) = (profiles(rows.0, rows.1), profiles(cols.0, cols.1));
    let (n, m) = (rows.1.len(), cols.1.len());
    let norms = |f: &[f64]| -> Vec<f64> {
        f.chunks_exact(k)
            .map(|f| f.iter().map(|v| v * v).sum())
            .collect()
    };
    let (u, v) = (norms(&x), norms(&y));
    let mut flipped = vec![0.0; k * m];
    for (j, profile) in y.chunks_exact(k).enumerate() {
        for (q, value) in profile.iter().enumerate() {
            flipped[q * m + j] = -2.0 * value;
        }
    }
    let mut costs = vec![0.0; n * m];
    product(&x, &flipped, k, m, &mut costs);
    for (line, u) in costs.chunks_exact_mut(m).zip(u) {
        line.iter_mut()
            .zip(&v)
            .for_each(|(c, v)| *c = (*c + u + v) / k as f64);
    }
    costs
}

/// The profile of each thing, one after the other.
fn profiles(relations: &Relations<'_>, masses: &[f64]) -> Vec<f64> {
    let (n, k) = (relations.len(), STRETCHES);
    let even = Cumulative::Uniform(k);
    let mut out = vec![0.0; n * k];
    let uniform = masses.iter().all(|m| *m == masses[0]);
    map_tiles(&mut out, k * tile_rows(n, n), |range, lines| {
        let mut sorted: Vec<(u64, u32)> = Vec::with_capacity(n);
        for (line, i) in lines.chunks_exact_mut(k).zip(range.start / k..) {
            sorted.clear();
            sorted.extend((0..n as u32).map(|j| (key(relations.at(i, j as usize)), j)));
            sorted.sort_unstable();
            let levels = if uniform {
                Cumulative::Uniform(n)
            } else {
                let total: f64 = masses.iter().sum();
                let shares = sorted.iter().map(|s| masses[s.1 as usize] / total);
                Cumulative::of_shares(shares)
            };
            walk(&levels, &even, 0..n, |at, stretch, mass| {
                line[stretch] += mass * k as f64 * unkey(sorted[at].0);
            });
        }
    });
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_sorted_rows() {
        let n = STRETCHES;
        let table: Vec<f64> = (0..n * n).map(|k| ((k * 7919) % 1009) as f64).collect();
        let relations = Relations::table(&table, n).unwrap();
        for masses in [
            vec![0.5; n],
            (0..n).map(|i| 1.0 + 1e-9 * i as f64).collect(),
        ] {
            let found = profiles(&relations, &masses);
            for (row, profile) in table.chunks_exact(n).zip(found.chunks_exact(n)) {
                let mut row = row.to_vec();
                row.sort_by(f64::total_cmp);
                assert!(row.iter().zip(profile).all(|(r, p)| (r - p).abs() < 1e-3));
            }
        }
        let same = costs((&relations, &vec![1.0; n]), (&relations, &vec![1.0; n]));
        assert!((0..n).all(|i| same[i * n + i].abs() < 1e-6));
    }
}
