//! One Newton step on the semi-dual, damped.
//!
//! ```text
//! gradient   d = b − colsum            curvature   A = diag(colsum) − Σ_i P_i P_iᵀ / a_i    (times 1/ε)
//! step       (A + diag(m − colsum)₊ + λ diag(m)) Δ = ε d
//! ```
//!
//! `m` is the logarithmic mean of demands and present sums, (b − s)/(ln b − ln s): with it alone the step
//! would be Sinkhorn's own, ε (ln b − ln s), which is right for a column that holds almost nothing and
//! where a pure Newton step would overshoot exponentially. Near the solution m → s and the step is
//! Newton's. λ is Levenberg's damping; it also fixes the gauge, since A does not see a common shift.

use crate::kernel::cholesky::{cholesky_until, substitute};
use crate::kernel::interrupt::Interrupt;

/// Workspace of a Newton step for `size` columns, slack included.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    size: usize,
    /// `Σ_i P_i P_iᵀ / a_i`, lower triangle.
    pub(crate) outer: Vec<f64>,
    /// What penalties add to the curvature of each column; nothing where masses are kept.
    pub(crate) stiffness: Vec<f64>,
    /// The matrix of the step, then its Cholesky factor.
    matrix: Vec<f64>,
    factored: bool,
    /// The step itself.
    pub(crate) delta: Vec<f64>,
    /// Who may give a factorisation up: then there is no step.
    pub(crate) interrupt: Interrupt,
}

impl Step {
    pub(crate) fn new(size: usize) -> Self {
        Self {
            size,
            outer: vec![0.0; size * size],
            stiffness: vec![0.0; size],
            matrix: vec![0.0; size * size],
            factored: false,
            delta: vec![0.0; size],
            interrupt: Interrupt::default(),
        }
    }

    /// The same, with factorisations that may be given up.
    pub(crate) fn until(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = interrupt;
        self
    }

    /// Adds the slack row's `p pᵀ / mass`.
    pub(crate) fn add_row(&mut self, p: &[f64], mass: f64) {
        if mass > 0.0 {
            for i in 0..self.size {
                let row = &mut self.outer[i * self.size..];
                for (h, q) in row.iter_mut().zip(&p[..=i]) {
                    *h += p[i] * q / mass;
                }
            }
        }
    }

    /// Solves for the step at damping `lambda`; its longest entry is at most `longest`. False where the
    /// matrix is not positive definite even so.
    pub(crate) fn solve(
        &mut self,
        demands: &[f64],
        sums: &[f64],
        epsilon: f64,
        lambda: f64,
        longest: f64,
    ) -> bool {
        self.factorise(demands, sums, lambda) && self.direct(demands, sums, epsilon, longest)
    }

    /// Factorises the matrix of the step at damping `lambda`.
    pub(crate) fn factorise(&mut self, demands: &[f64], sums: &[f64], lambda: f64) -> bool {
        let m = self.size;
        for i in 0..m {
            let (b, s) = (demands[i], sums[i]);
            let from = &self.outer[i * m..=i * m + i];
            let to = &mut self.matrix[i * m..=i * m + i];
            if b > 0.0 {
                let mean = logarithmic_mean(b, s);
                for (t, f) in to.iter_mut().zip(from) {
                    *t = -f;
                }
                to[i] += s.max(mean) + lambda * mean + self.stiffness[i];
            } else {
                // A column that takes nothing does not move.
                to.fill(0.0);
                to[i] = 1.0;
            }
        }
        self.factored = cholesky_until(&mut self.matrix, m, &self.interrupt);
        self.factored
    }

    /// The step that the last factor gives for these sums.
    pub(crate) fn direct(
        &mut self,
        demands: &[f64],
        sums: &[f64],
        epsilon: f64,
        longest: f64,
    ) -> bool {
        // Where ε times a mass may be no number, ε comes last.
        let usual = (1e-100..1e100).contains(&epsilon);
        let (before, after) = if usual {
            (epsilon, 1.0)
        } else {
            (1.0, epsilon)
        };
        for (d, (&b, s)) in self.delta.iter_mut().zip(demands.iter().zip(sums)) {
            *d = if b > 0.0 { before * (b - s) } else { 0.0 };
        }
        substitute(&self.matrix, self.size, &mut self.delta);
        if !usual {
            self.delta.iter_mut().for_each(|d| *d *= after);
        }
        let length = self.delta.iter().fold(0.0f64, |a, d| a.max(d.abs()));
        if !length.is_finite() {
            return false;
        }
        if length > longest {
            let shrink = longest / length;
            self.delta.iter_mut().for_each(|d| *d *= shrink);
        }
        true
    }

    /// Whether there is a factor to step with.
    pub(crate) fn is_factored(&self) -> bool {
        self.factored
    }

    /// Drops the factor.
    pub(crate) fn forget(&mut self) {
        self.factored = false;
    }

    /// The factor's lower triangle, row after row; empty where there is none.
    pub(crate) fn packed(&self) -> Vec<f64> {
        let rows = if self.factored { self.size } else { 0 };
        (0..rows)
            .flat_map(|i| &self.matrix[i * self.size..=i * self.size + i])
            .copied()
            .collect()
    }

    /// Takes a factor over that [`packed`](Self::packed) gave.
    pub(crate) fn unpack(&mut self, packed: &[f64]) {
        self.factored = !packed.is_empty();
        let mut rest = packed;
        for i in 0..self.size {
            let Some((row, after)) = rest.split_at_checked(i + 1) else {
                return;
            };
            self.matrix[i * self.size..=i * self.size + i].copy_from_slice(row);
            rest = after;
        }
    }
}

/// (x − y)/(ln x − ln y), between the geometric and the arithmetic mean; x where they are equal. A `y` of
/// zero is taken to be a very small number, as it is where a sum underflowed.
fn logarithmic_mean(x: f64, y: f64) -> f64 {
    let y = y.max(1e-300 * x).max(f64::MIN_POSITIVE);
    let t = (y - x) / x;
    if t.abs() < 1e-4 {
        return x * (1.0 + 0.5 * t);
    }
    (x - y) / (x / y).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_coupling_the_step_is_sinkhorns() {
        let mut step = Step::new(2);
        let (demands, sums) = ([1.0, 0.5], [1e-9, 0.5]);
        assert!(step.solve(&demands, &sums, 0.1, 1e-12, 1e9));
        assert!((step.delta[0] - 0.1 * 1e9f64.ln()).abs() < 1e-6);
        assert!(step.delta[1].abs() < 1e-12);
    }

    #[test]
    fn logarithmic_means_lie_between() {
        for (x, y) in [
            (1.0f64, 2.0f64),
            (1.0, 1.0 + 1e-6),
            (3.0, 1e-12),
            (1e-9, 5.0),
        ] {
            let m = logarithmic_mean(x, y);
            assert!(
                m >= (x * y).sqrt() * (1.0 - 1e-9) && m <= 0.5 * (x + y) * (1.0 + 1e-9),
                "{x} {y} {m}"
            );
        }
    }
}
