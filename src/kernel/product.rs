//! Products of tables: `C = A B`, row-major, four rows and 64 bytes of columns at a time.
//!
//! Columns of `B` are packed in strips of that width, so that the innermost loop reads both factors in order; rows are shared out among
//! threads, and every entry is summed in the order of the inner index by one thread: the same bits for any number of them.

use super::dispatch::dispatch;
use super::tiles::map_tiles;
use crate::Real;

const ROWS: usize = 4;

/// Columns of a strip: 64 bytes of them.
const fn strip<T>() -> usize {
    64 / size_of::<T>()
}

/// The widest strip there is, of `f32`.
const WIDEST: usize = strip::<f32>();

/// Inner indices that are summed at a time: a strip of so many lines stays in the nearest cache.
const DEPTH: usize = 256;

/// Writes the product of `a` (rows × inner) and `b` (inner × cols) over `out`.
pub(crate) fn product<T: Real>(a: &[T], b: &[T], inner: usize, cols: usize, out: &mut [T]) {
    out.fill(T::zero());
    add_product(a, b, inner, cols, out);
}

/// Adds the product of `a` (rows × inner) and `b` (inner × cols) to `out`.
pub(crate) fn add_product<T: Real>(a: &[T], b: &[T], inner: usize, cols: usize, out: &mut [T]) {
    if inner == 0 || cols == 0 || out.is_empty() {
        return;
    }
    let packed = packed(b, inner, cols);
    let rows = out.len() / cols;
    let tile = rows.div_ceil(32).next_multiple_of(ROWS);
    map_tiles(out, tile * cols, |range, out| {
        let first = range.start / cols;
        tile_product(&a[first * inner..], &packed, inner, cols, out);
    });
}

/// Strips of columns, one after the other, the last filled up with zeros.
fn packed<T: Real>(b: &[T], inner: usize, cols: usize) -> Vec<T> {
    let width = strip::<T>();
    let mut packed = vec![T::zero(); cols.div_ceil(width) * inner * width];
    for (s, strip) in packed.chunks_exact_mut(inner * width).enumerate() {
        let (from, to) = (s * width, (s * width + width).min(cols));
        for (line, row) in strip.chunks_exact_mut(width).zip(b.chunks_exact(cols)) {
            line[..to - from].copy_from_slice(&row[from..to]);
        }
    }
    packed
}

dispatch! {
    fn tile_product<T: Real>(a: &[T], packed: &[T], inner: usize, cols: usize, out: &mut [T]) {
        let rows = out.len() / cols;
        let full = const { strip::<T>() };
        for start in (0..inner).step_by(DEPTH) {
            let depth = DEPTH.min(inner - start);
            for (s, strip) in packed.chunks_exact(inner * full).enumerate() {
                let strip = &strip[start * full..][..depth * full];
                let width = full.min(cols - s * full);
                let mut i = 0;
                while i < rows {
                    let mut sums = [[T::zero(); WIDEST]; ROWS];
                    // Past the end the last row is worked on again, and not written.
                    let line = |r: usize| &a[(i + r).min(rows - 1) * inner + start..][..depth];
                    let (a0, a1, a2, a3) = (line(0), line(1), line(2), line(3));
                    for (k, b) in strip.chunks_exact(full).enumerate() {
                        let x = [a0[k], a1[k], a2[k], a3[k]];
                        for r in 0..ROWS {
                            for c in 0..full {
                                sums[r][c] += x[r] * b[c];
                            }
                        }
                    }
                    for r in 0..ROWS.min(rows - i) {
                        let place = &mut out[(i + r) * cols + s * full..][..width];
                        place.iter_mut().zip(&sums[r]).for_each(|(o, s)| *o += *s);
                    }
                    i += ROWS;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::dispatch::plainly;
    use crate::kernel::random::Random;

    #[test]
    fn narrow_products_are_wide_ones_rounded() {
        let mut random = Random::new(2, 1);
        let (n, k, m) = (23, 300, 37);
        let a: Vec<f32> = (0..n * k).map(|_| random.normal() as f32).collect();
        let b: Vec<f32> = (0..k * m).map(|_| random.normal() as f32).collect();
        let mut fast = vec![0.0; n * m];
        product(&a, &b, k, m, &mut fast);
        for i in 0..n {
            for j in 0..m {
                let terms = (0..k).map(|l| f64::from(a[i * k + l]) * f64::from(b[l * m + j]));
                assert!((f64::from(fast[i * m + j]) - terms.sum::<f64>()).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn products_are_sums_of_products() {
        let mut random = Random::new(1, 1);
        for (n, k, m) in [(1, 1, 1), (3, 5, 7), (13, 300, 9), (70, 17, 41), (5, 2, 8)] {
            let a: Vec<f64> = (0..n * k).map(|_| random.normal()).collect();
            let b: Vec<f64> = (0..k * m).map(|_| random.normal()).collect();
            let mut fast = vec![9.0; n * m];
            product(&a, &b, k, m, &mut fast);
            let mut plain = vec![0.0; n * m];
            plainly(|| product(&a, &b, k, m, &mut plain));
            for i in 0..n {
                for j in 0..m {
                    let slow: f64 = (0..k).map(|l| a[i * k + l] * b[l * m + j]).sum();
                    assert!((fast[i * m + j] - slow).abs() < 1e-12);
                }
            }
            // Threads have kernels of their own choice; one thread's are compared.
            if n <= 4 {
                assert_eq!(fast, plain);
            }
        }
    }
}
