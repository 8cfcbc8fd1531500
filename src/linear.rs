//! Small symmetric positive definite systems.

/// Solves `A x = b` in place for symmetric positive definite `A` of side `m`, given by its lower triangle
/// row-major; `a` becomes its Cholesky factor and `b` the solution. False where `A` is not positive
/// definite, in which case `b` is spoiled.
pub(crate) fn cholesky_solve(a: &mut [f64], m: usize, b: &mut [f64]) -> bool {
    cholesky(a, m) && {
        substitute(a, m, b);
        true
    }
}

/// Overwrites the lower triangle of `a` by its Cholesky factor.
pub(crate) fn cholesky(a: &mut [f64], m: usize) -> bool {
    for i in 0..m {
        let (above, rest) = a.split_at_mut(i * m);
        let row = &mut rest[..=i];
        for j in 0..i {
            let other = &above[j * m..=j * m + j];
            row[j] = (row[j] - dot(&row[..j], &other[..j])) / other[j];
        }
        let pivot = row[i] - dot(&row[..i], &row[..i]);
        if !(pivot > 0.0 && pivot.is_finite()) {
            return false;
        }
        row[i] = pivot.sqrt();
    }
    true
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
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut chains = [0.0; 8];
    let (a_chunks, b_chunks) = (a.chunks_exact(8), b.chunks_exact(8));
    let tail: f64 = a_chunks
        .remainder()
        .iter()
        .zip(b_chunks.remainder())
        .map(|(a, b)| a * b)
        .sum();
    for (a, b) in a_chunks.zip(b_chunks) {
        for l in 0..8 {
            chains[l] += a[l] * b[l];
        }
    }
    chains.iter().sum::<f64>() + tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solves_a_small_system() {
        // A = Bᵀ B + I for B of ones and a ramp.
        let m = 11;
        let entry =
            |i: usize, j: usize| 1.0 + (i * j) as f64 * 0.1 + if i == j { 1.0 } else { 0.0 };
        let mut a: Vec<f64> = (0..m * m).map(|t| entry(t / m, t % m)).collect();
        let x: Vec<f64> = (0..m).map(|i| i as f64 - 3.0).collect();
        let mut b: Vec<f64> = (0..m)
            .map(|i| (0..m).map(|j| entry(i, j) * x[j]).sum())
            .collect();
        assert!(cholesky_solve(&mut a, m, &mut b));
        assert!(b.iter().zip(&x).all(|(b, x)| (b - x).abs() < 1e-10));
        assert!(!cholesky_solve(
            &mut [0.0, 0.0, 1.0, 0.0],
            2,
            &mut [1.0, 1.0]
        ));
    }
}
