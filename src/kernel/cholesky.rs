//! Small symmetric positive definite systems.

use crate::Real;
use crate::kernel::dispatch::dispatch;
use crate::kernel::interrupt::Interrupt;
use crate::kernel::lanes::Lanes;

/// Solves `A x = b` in place for symmetric positive definite `A` of side `m`, given by its lower triangle
/// row-major; `a` becomes its Cholesky factor and `b` the solution. False where `A` is not positive
/// definite, in which case `b` is spoiled.
pub(crate) fn cholesky_solve(a: &mut [f64], m: usize, b: &mut [f64]) -> bool {
    cholesky(a, m) && {
        substitute(a, m, b);
        true
    }
}

/// Overwrites the lower triangle of `a` by its Cholesky factor; false where it is not positive definite.
pub(crate) fn cholesky(a: &mut [f64], m: usize) -> bool {
    cholesky_until(a, m, &Interrupt::default())
}

/// The same; false, too, where it was interrupted.
pub(crate) fn cholesky_until(a: &mut [f64], m: usize, interrupt: &Interrupt) -> bool {
    factor::<f64>(a, m, interrupt)
}

/// Rows factored between two questions whether to go on.
const ROWS_AT_ONCE: usize = 64;

/// Rows and columns of the factor worked out together.
const PANEL_ROWS: usize = 4;
const PANEL_COLUMNS: usize = 2;

dispatch! {
    /// Row by row from the top, each entry `(a_ij − ⟨l_i, l_j⟩) / l_jj`. The products of four rows with two
    /// others are taken together, so that every number loaded is used several times.
    fn factor<T: Real>(a: &mut [T], m: usize, interrupt: &Interrupt) -> bool {
        let mut i = 0;
        while i < m {
            if i > 0 && i % ROWS_AT_ONCE == 0 && interrupt.is_due() {
                return false;
            }
            let rows = PANEL_ROWS.min(m - i);
            let (done, rest) = a.split_at_mut(i * m);
            // Columns left of the diagonal block: all rows above are finished.
            let mut j = 0;
            while rows == PANEL_ROWS && j + PANEL_COLUMNS <= i {
                let above = [&done[j * m..][..j], &done[(j + 1) * m..][..j]];
                let left = [0, 1, 2, 3].map(|r| &rest[r * m..][..j]);
                let products = products(left, above);
                let (d0, off, d1) = (done[j * m + j], done[(j + 1) * m + j], done[(j + 1) * m + j + 1]);
                for (r, product) in products.iter().enumerate() {
                    let first = (rest[r * m + j] - product[0]) / d0;
                    rest[r * m + j] = first;
                    rest[r * m + j + 1] = (rest[r * m + j + 1] - product[1] - first * off) / d1;
                }
                j += PANEL_COLUMNS;
            }
            for r in 0..rows {
                let (before, own) = rest.split_at_mut(r * m);
                let own = &mut own[..=i + r];
                for c in j..i + r {
                    let other = if c < i { &done[c * m..][..=c] } else { &before[(c - i) * m..][..=c] };
                    own[c] = (own[c] - dot(&own[..c], &other[..c])) / other[c];
                }
                let pivot = own[i + r] - dot(&own[..i + r], &own[..i + r]);
                if !(pivot > T::zero() && pivot.is_finite()) {
                    return false;
                }
                own[i + r] = pivot.sqrt();
            }
            i += rows;
        }
        true
    }
}

/// Dot products of each of four rows with each of two others.
#[inline(always)]
fn products<T: Real>(
    left: [&[T]; PANEL_ROWS],
    above: [&[T]; PANEL_COLUMNS],
) -> [[T; PANEL_COLUMNS]; PANEL_ROWS] {
    const STEP: usize = 4;
    let mut chains = [[[T::zero(); STEP]; PANEL_COLUMNS]; PANEL_ROWS];
    let length = above[0].len();
    let whole = length - length % STEP;
    let mut at = 0;
    while at < whole {
        for w in 0..PANEL_COLUMNS {
            let b = &above[w][at..][..STEP];
            for t in 0..PANEL_ROWS {
                let a = &left[t][at..][..STEP];
                for l in 0..STEP {
                    chains[t][w][l] += a[l] * b[l];
                }
            }
        }
        at += STEP;
    }
    let mut out = [[T::zero(); PANEL_COLUMNS]; PANEL_ROWS];
    for t in 0..PANEL_ROWS {
        for w in 0..PANEL_COLUMNS {
            let c = chains[t][w];
            let mut total = (c[0] + c[2]) + (c[1] + c[3]);
            for l in whole..length {
                total += left[t][l] * above[w][l];
            }
            out[t][w] = total;
        }
    }
    out
}

/// Solves `L Lᵀ x = b` in place.
pub(crate) fn substitute(factor: &[f64], m: usize, b: &mut [f64]) {
    for i in 0..m {
        let row = &factor[i * m..=i * m + i];
        b[i] = (b[i] - dot(&row[..i], &b[..i])) / row[i];
    }
    for i in (0..m).rev() {
        let row = &factor[i * m..=i * m + i];
        b[i] /= row[i];
        let x = b[i];
        for (b, l) in b[..i].iter_mut().zip(row) {
            *b -= l * x;
        }
    }
}

/// A dot product in eight chains of fixed order, which vectorises.
#[inline(always)]
fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    let mut chains = Lanes::splat(T::zero());
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks(), b.as_chunks());
    for (a, b) in a.iter().zip(b) {
        chains = chains.zip(Lanes::of(a).zip(Lanes::of(b), |a, b| a * b), |s, p| s + p);
    }
    let mut total = chains.sum();
    for (&a, &b) in a_rest.iter().zip(b_rest) {
        total += a * b;
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A well-conditioned matrix of any side: a decaying ramp and a diagonal.
    fn matrix(m: usize) -> Vec<f64> {
        let entry = |i: usize, j: usize| {
            1.0 / (1.0 + i.abs_diff(j) as f64) + if i == j { 2.0 + i as f64 * 0.01 } else { 0.0 }
        };
        (0..m * m).map(|t| entry(t / m, t % m)).collect()
    }

    #[test]
    fn solves_systems_of_any_side() {
        for m in [1, 2, 3, 4, 5, 7, 8, 9, 12, 31, 64, 101] {
            let a = matrix(m);
            let x: Vec<f64> = (0..m).map(|i| (i as f64 * 0.7).sin() - 0.3).collect();
            let mut b: Vec<f64> = (0..m)
                .map(|i| (0..m).map(|j| a[i * m + j] * x[j]).sum())
                .collect();
            assert!(cholesky_solve(&mut a.clone(), m, &mut b));
            assert!(
                b.iter().zip(&x).all(|(b, x)| (b - x).abs() < 1e-12),
                "side {m}"
            );
        }
        assert!(!cholesky_solve(
            &mut [0.0, 0.0, 1.0, 0.0],
            2,
            &mut [1.0, 1.0]
        ));
        let mut indefinite = matrix(9);
        indefinite[7 * 9 + 7] = -1.0;
        assert!(!cholesky_solve(&mut indefinite, 9, &mut [1.0; 9]));
    }

    #[test]
    fn long_factorisations_can_be_given_up() {
        let (never, at_once) = (Interrupt::default(), Interrupt::by(|| true));
        assert!(cholesky_until(&mut matrix(200), 200, &never));
        assert!(!cholesky_until(&mut matrix(200), 200, &at_once));
    }

    #[test]
    fn wide_vectors_factor_to_the_same_bits() {
        let (mut wide, mut plain) = (matrix(53), matrix(53));
        assert!(cholesky(&mut wide, 53));
        assert!(crate::kernel::dispatch::plainly(|| cholesky(
            &mut plain, 53
        )));
        assert_eq!(wide, plain);
    }
}
