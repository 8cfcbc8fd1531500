//! The kernel exp(−C/ε) as an operator on logarithms.
//!
//! ```text
//! soft:  ln Σ_j exp(v_j − C_ij/ε)          hard:  min_j (C_ij − g_j)          and both from the columns' side
//! ```
//!
//! With the largest v taken out a soft transform is a product with a table of exponentials. Where that underflows, and the largest
//! terms with it, the entry is worked out again term by term: safe at every ε. The hard transform is its limit, and what
//! lower bounds are made of.

use crate::kernel::exp::log_sum_exp;
use crate::kernel::product::product;
use crate::kernel::tiles::{map_ranges, map_tiles, tile_rows};
use crate::{Cost, Real};

/// Sums below this may have lost terms to underflow that count.
pub(crate) const UNDERFLOW: f64 = 1e-280;

/// Which side a transform gives values to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Onto {
    Rows,
    Cols,
}

/// A kernel at one ε.
pub(crate) trait LogKernel: Sync {
    /// The soft transforms of several vectors of logarithms at once.
    fn soft(&self, onto: Onto, vectors: &[Vec<f64>]) -> Vec<Vec<f64>>;

    /// The hard transform of potentials; −∞ is left out.
    fn hard(&self, onto: Onto, potentials: &[f64]) -> Vec<f64>;
}

/// The kernel of any cost: a table of exponentials where the cost is stored, and else read anew each time.
pub(crate) struct AnyKernel<'a, T> {
    cost: &'a dyn Cost<T>,
    epsilon: f64,
    /// Taken off all costs, so that no exponential overflows.
    least: f64,
    table: Option<Vec<f64>>,
    /// The columns' side, where it is another.
    transposed: Option<Vec<f64>>,
}

impl<'a, T: Real> AnyKernel<'a, T> {
    pub(crate) fn new(cost: &'a dyn Cost<T>, epsilon: f64, least: f64) -> Self {
        let mut kernel = Self {
            least: if least.is_finite() { least } else { 0.0 },
            ..Self::reading(cost, epsilon)
        };
        if cost.is_stored() {
            let (n, m) = (cost.rows(), cost.cols());
            let mut table = vec![0.0; n * m];
            kernel.lines(Onto::Rows, &mut table);
            let symmetric =
                n == m && (0..n).all(|i| (0..i).all(|j| table[i * n + j] == table[j * n + i]));
            if !symmetric {
                let mut other = vec![0.0; n * m];
                kernel.lines(Onto::Cols, &mut other);
                kernel.transposed = Some(other);
            }
            kernel.table = Some(table);
        }
        kernel
    }

    /// The kernel without a table: for hard transforms.
    pub(crate) fn reading(cost: &'a dyn Cost<T>, epsilon: f64) -> Self {
        Self {
            cost,
            epsilon,
            least: 0.0,
            table: None,
            transposed: None,
        }
    }

    /// Writes the exponentials of all rows, or all columns, one after the other.
    fn lines(&self, onto: Onto, out: &mut [f64]) {
        let (count, length) = self.shape(onto);
        map_tiles(out, length * tile_rows(count, length), |range, lines| {
            let mut costs = vec![T::zero(); length];
            for (line, k) in lines.chunks_exact_mut(length).zip(range.start / length..) {
                self.read(onto, k, &mut costs);
                for (o, c) in line.iter_mut().zip(&costs) {
                    *o = ((self.least - c.widen()) / self.epsilon).quick_exp();
                }
            }
        });
    }

    /// How many values a transform gives, and of how many terms each is made.
    fn shape(&self, onto: Onto) -> (usize, usize) {
        match onto {
            Onto::Rows => (self.cost.rows(), self.cost.cols()),
            Onto::Cols => (self.cost.cols(), self.cost.rows()),
        }
    }

    fn read(&self, onto: Onto, k: usize, out: &mut [T]) {
        match onto {
            Onto::Rows => self.cost.fill(k..k + 1, out),
            Onto::Cols => self.cost.fill_cols(k..k + 1, out),
        }
    }

    fn term_by_term(&self, costs: &[T], v: &[f64]) -> f64 {
        let terms = v
            .iter()
            .zip(costs)
            .map(|(v, c)| v - c.widen() / self.epsilon);
        log_sum_exp(terms)
    }
}

impl<T: Real> LogKernel for AnyKernel<'_, T> {
    fn soft(&self, onto: Onto, vectors: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let (count, length) = self.shape(onto);
        let width = vectors.len();
        let table = match (onto, &self.transposed) {
            (Onto::Cols, Some(table)) => Some(table),
            _ => self.table.as_ref(),
        };
        let tops: Vec<f64> = vectors
            .iter()
            .map(|v| v.iter().copied().fold(f64::NEG_INFINITY, f64::max))
            .collect();
        // All vectors side by side.
        let mut sums = vec![0.0; count * width];
        if let Some(table) = table {
            let mut scaled = vec![0.0; length * width];
            for (k, (v, top)) in vectors.iter().zip(&tops).enumerate() {
                let top = if top.is_finite() { *top } else { 0.0 };
                for (place, v) in scaled.iter_mut().skip(k).step_by(width).zip(v) {
                    *place = (v - top).quick_exp();
                }
            }
            product(table, &scaled, length, width, &mut sums);
        }
        map_tiles(
            &mut sums,
            width * tile_rows(count, length),
            |range, lines| {
                let mut costs = vec![T::zero(); length];
                for (line, i) in lines.chunks_exact_mut(width).zip(range.start / width..) {
                    let mut read = false;
                    for ((sum, v), top) in line.iter_mut().zip(vectors).zip(&tops) {
                        if *sum > UNDERFLOW {
                            *sum = sum.ln() + (top - self.least / self.epsilon);
                        } else if *top == f64::NEG_INFINITY {
                            *sum = *top;
                        } else {
                            if !read {
                                self.read(onto, i, &mut costs);
                                read = true;
                            }
                            *sum = self.term_by_term(&costs, v);
                        }
                    }
                }
            },
        );
        (0..width)
            .map(|k| sums.iter().skip(k).step_by(width).copied().collect())
            .collect()
    }

    fn hard(&self, onto: Onto, potentials: &[f64]) -> Vec<f64> {
        let (count, length) = self.shape(onto);
        let parts = map_ranges(count, tile_rows(count, length), |range| {
            let mut costs = vec![T::zero(); length];
            let each = range.map(|k| {
                self.read(onto, k, &mut costs);
                let above = costs.iter().zip(potentials).map(|(c, g)| c.widen() - g);
                above.fold(f64::INFINITY, f64::min)
            });
            each.collect::<Vec<f64>>()
        });
        parts.concat()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::random::Random;
    use crate::{Dense, FromFn};

    #[test]
    fn tables_and_readings_agree_with_the_definition_at_every_scale() {
        let (n, m, mut random) = (7, 5, Random::new(51, 0));
        let costs: Vec<f64> = (0..n * m).map(|_| 4.0 * random.unit() - 1.0).collect();
        let stored = Dense::new(&costs, n, m).unwrap();
        let computed = FromFn::new(n, m, |i, j| costs[i * m + j]).unwrap();
        for epsilon in [10.0, 0.1, 1e-3, 1e-6] {
            let vectors: Vec<Vec<f64>> = (0..3)
                .map(|_| {
                    (0..m)
                        .map(|_| (2.0 * random.unit() - 1.0) / epsilon)
                        .collect()
                })
                .collect();
            let (a, b) = (
                AnyKernel::new(&stored, epsilon, -1.0),
                AnyKernel::new(&computed, epsilon, -1.0),
            );
            let (x, y) = (a.soft(Onto::Rows, &vectors), b.soft(Onto::Rows, &vectors));
            for k in 0..3 {
                for i in 0..n {
                    let slow =
                        log_sum_exp((0..m).map(|j| vectors[k][j] - costs[i * m + j] / epsilon));
                    assert!((x[k][i] - slow).abs() < 1e-12 * (1.0 + slow.abs()));
                    assert!((y[k][i] - slow).abs() < 1e-12 * (1.0 + slow.abs()));
                }
            }
            let back = a.soft(Onto::Cols, &x);
            for j in 0..m {
                let slow = log_sum_exp((0..n).map(|i| x[1][i] - costs[i * m + j] / epsilon));
                assert!((back[1][j] - slow).abs() < 1e-12 * (1.0 + slow.abs()));
            }
        }
        let kernel = AnyKernel::new(&stored, 1.0, -1.0);
        let hard = kernel.hard(Onto::Cols, &vec![0.5; n]);
        let least = (0..n).map(|i| costs[i * m]).fold(f64::INFINITY, f64::min);
        assert_eq!(hard[0], least - 0.5);
        let nothing = kernel.soft(Onto::Rows, &[vec![f64::NEG_INFINITY; m]]);
        assert!(nothing[0].iter().all(|x| *x == f64::NEG_INFINITY));
    }
}
