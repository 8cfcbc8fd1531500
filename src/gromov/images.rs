//! A(P) of plans that are full: two products of tables.
//!
//! The image is linear in the plan. So where a plan changes from step to step the image follows by the image of the change, and that
//! may be worked out in single precision: it is off by 1e-7 of the *change*, which goes to nothing.

use crate::kernel::product::{add_product, product};
use crate::kernel::tiles::{map_tiles, tile_rows};
use crate::{Cost, Real, Solution};

/// The mean of C P K over pairs of tables (C, K).
pub(super) fn products<T: Real>(pairs: &[(&[T], &[T])], plan: &[T], n: usize, m: usize) -> Vec<T> {
    let (mut half, mut out) = (vec![T::zero(); n * m], vec![T::zero(); n * m]);
    for (rows, cols) in pairs {
        product(plan, cols, m, m, &mut half);
        add_product(rows, &half, n, m, &mut out);
    }
    if pairs.len() > 1 {
        let share = T::one() / T::narrow(pairs.len() as f64);
        out.iter_mut().for_each(|o| *o *= share);
    }
    out
}

/// Tables in single precision, each over its largest entry.
pub(super) struct Rough {
    pairs: Vec<(Vec<f32>, Vec<f32>)>,
    /// The product of the two largest entries.
    size: f64,
}

impl Rough {
    pub(super) fn new(pairs: &[(&[f64], &[f64])]) -> Self {
        let single = |table: &[f64], size: f64| -> Vec<f32> {
            let over = if size > 0.0 { size } else { 1.0 };
            table.iter().map(|c| (c / over) as f32).collect()
        };
        // Mirror images have the same entries.
        let (c, k) = pairs
            .first()
            .map_or((0.0, 0.0), |(c, k)| (largest(c), largest(k)));
        Self {
            pairs: pairs
                .iter()
                .map(|(rows, cols)| (single(rows, c), single(cols, k)))
                .collect(),
            size: c * k,
        }
    }

    /// The image of a plan, from the image of another one.
    pub(super) fn followed(
        &self,
        image: &[f64],
        plan: &[f64],
        before: &[f64],
        n: usize,
        m: usize,
    ) -> Vec<f64> {
        let most = plan
            .iter()
            .zip(before)
            .fold(0.0, |most: f64, (p, q)| most.max((p - q).abs()));
        if !(most > 0.0) {
            return image.to_vec();
        }
        let each = plan.iter().zip(before);
        let change: Vec<f32> = each.map(|(p, q)| ((p - q) / most) as f32).collect();
        let pairs: Vec<(&[f32], &[f32])> =
            self.pairs.iter().map(|(c, k)| (&c[..], &k[..])).collect();
        let moved = products(&pairs, &change, n, m);
        let scale = most * self.size;
        let both = image.iter().zip(moved);
        both.map(|(a, b)| a + scale * f64::from(b)).collect()
    }
}

fn largest(table: &[f64]) -> f64 {
    table.iter().fold(0.0, |m: f64, c| m.max(c.abs()))
}

/// Σ |P − Q|.
pub(super) fn distance(p: &[f64], q: &[f64]) -> f64 {
    p.iter().zip(q).map(|(p, q)| (p - q).abs()).sum()
}

/// The whole plan of an entropic answer, from the costs at hand.
pub(super) fn written<C: Cost<f64>>(solution: &Solution<'_, f64, C>, costs: &[f64]) -> Vec<f64> {
    let (n, m) = (solution.problem().rows(), solution.problem().cols());
    let mut plan = vec![0.0; n * m];
    map_tiles(&mut plan, m * tile_rows(n, m), |range, lines| {
        let rows = lines
            .chunks_exact_mut(m)
            .zip(costs[range.start..].chunks_exact(m));
        for ((line, costs), i) in rows.zip(range.start / m..) {
            solution.plan().write_row_with(i, costs, line);
        }
    });
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::random::Random;

    #[test]
    fn following_a_change_is_the_image_of_it() {
        let (n, m, mut random) = (9, 7, Random::new(71, 0));
        let mut table = |count: usize, size: f64| -> Vec<f64> {
            (0..count).map(|_| size * random.normal()).collect()
        };
        // Sizes that single precision does not have.
        let (c, d) = (table(n * n, 1e60), table(n * n, 1e60));
        let (k, l) = (table(m * m, 1e-50), table(m * m, 1e-50));
        let (p, q) = (table(n * m, 1e-90), table(n * m, 1e-90));
        let pairs = [(&c[..], &k[..]), (&d[..], &l[..])];
        let (one, two) = (products(&pairs, &p, n, m), products(&pairs, &q, n, m));
        let scale = largest(&one);
        // Mirror images have one largest entry; here the first pair's is near enough to the second's.
        let followed = Rough::new(&pairs).followed(&one, &q, &p, n, m);
        assert!(
            followed
                .iter()
                .zip(&two)
                .all(|(f, t)| (f - t).abs() < 1e-5 * scale)
        );
        assert_eq!(Rough::new(&pairs).followed(&one, &p, &p, n, m), one);
    }
}
