//! Eigenvalues of small symmetric matrices, by Jacobi's rotations: each makes one pair of entries vanish, until none is left.

/// The eigenvalues of a symmetric matrix, row-major, largest first.
pub(crate) fn eigenvalues(mut a: Vec<f64>, n: usize) -> Vec<f64> {
    for _ in 0..64 {
        let off: f64 = (0..n)
            .flat_map(|i| (0..i).map(move |j| (i, j)))
            .map(|(i, j)| a[i * n + j] * a[i * n + j])
            .sum();
        let on: f64 = (0..n).map(|i| a[i * n + i] * a[i * n + i]).sum();
        if !(off > 1e-32 * on) {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                rotate(&mut a, n, p, q);
            }
        }
    }
    let mut values: Vec<f64> = (0..n).map(|i| a[i * n + i]).collect();
    values.sort_by(|a, b| b.total_cmp(a));
    values
}

fn rotate(a: &mut [f64], n: usize, p: usize, q: usize) {
    let off = a[p * n + q];
    if off == 0.0 {
        return;
    }
    let theta = (a[q * n + q] - a[p * n + p]) / (2.0 * off);
    let t = 1.0f64.copysign(theta) / (theta.abs() + theta.hypot(1.0));
    let c = 1.0 / t.hypot(1.0);
    let s = t * c;
    for k in 0..n {
        let (x, y) = (a[k * n + p], a[k * n + q]);
        (a[k * n + p], a[k * n + q]) = (c * x - s * y, s * x + c * y);
    }
    for k in 0..n {
        let (x, y) = (a[p * n + k], a[q * n + k]);
        (a[p * n + k], a[q * n + k]) = (c * x - s * y, s * x + c * y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::random::Random;

    #[test]
    fn traces_of_powers_are_sums_of_powers() {
        let (n, mut random) = (7, Random::new(2, 2));
        let mut a = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                let x = random.normal();
                (a[i * n + j], a[j * n + i]) = (x, x);
            }
        }
        let values = eigenvalues(a.clone(), n);
        let trace: f64 = (0..n).map(|i| a[i * n + i]).sum();
        let square: f64 = a.iter().map(|x| x * x).sum();
        assert!((values.iter().sum::<f64>() - trace).abs() < 1e-12);
        assert!((values.iter().map(|v| v * v).sum::<f64>() - square).abs() < 1e-12);
        assert!(values.windows(2).all(|w| w[0] >= w[1]));
        assert!((eigenvalues(vec![2.0, 1.0, 1.0, 2.0], 2)[0] - 3.0).abs() < 1e-14);
    }
}
