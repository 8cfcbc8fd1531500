//! Anderson acceleration of a fixed point.
//!
//! ```text
//! min_γ ‖ r_t − Σ_s γ_s (r_{s+1} − r_s) ‖²      x_{t+1} = x_t + r_t − Σ_s γ_s (Δx_s + Δr_s)
//! ```
//!
//! `x` are the log-scalings g/ε and `r` the plain step. The least-squares problem has as many unknowns as
//! remembered steps; it is solved by its normal equations, slightly regularised.

use crate::kernel::cholesky::cholesky_solve;

/// Longest accelerated step, in multiples of the plain one.
const LONGEST_RATIO: f64 = 100.0;

/// Longest accelerated step, in units of ε.
const LONGEST: f64 = 30.0;

#[derive(Debug)]
pub(crate) struct Anderson {
    memory: usize,
    steps: Vec<(Vec<f64>, Vec<f64>)>,
    last: Option<(Vec<f64>, Vec<f64>)>,
}

impl Anderson {
    pub(crate) fn new(memory: usize) -> Self {
        Self {
            memory,
            steps: Vec::new(),
            last: None,
        }
    }

    pub(crate) fn forget(&mut self) {
        self.steps.clear();
        self.last = None;
    }

    /// Whether the next proposal would differ from the plain step.
    pub(crate) fn is_warm(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Notes that the plain step at `x` is `r`, and writes the accelerated next point over `next`.
    pub(crate) fn propose(&mut self, x: &[f64], r: &[f64], next: &mut [f64]) {
        for ((n, &x), &r) in next.iter_mut().zip(x).zip(r) {
            *n = x + r;
        }
        if self.memory == 0 {
            return;
        }
        let difference =
            |now: &[f64], then: &[f64]| now.iter().zip(then).map(|(a, b)| a - b).collect();
        if let Some((x0, r0)) = &self.last {
            if self.steps.len() == self.memory {
                self.steps.remove(0);
            }
            self.steps.push((difference(x, x0), difference(r, r0)));
        }
        self.last = Some((x.to_vec(), r.to_vec()));
        let m = self.steps.len();
        if m == 0 {
            return;
        }
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut normal = vec![0.0; m * m];
        let mut gamma = vec![0.0; m];
        let mut trace = 0.0;
        for i in 0..m {
            for j in 0..=i {
                normal[i * m + j] = dot(&self.steps[i].1, &self.steps[j].1);
            }
            trace += normal[i * m + i];
            gamma[i] = dot(&self.steps[i].1, r);
        }
        for i in 0..m {
            normal[i * m + i] += 1e-14 * trace;
        }
        if !cholesky_solve(&mut normal, m, &mut gamma) || gamma.iter().any(|g| !g.is_finite()) {
            return;
        }
        for ((dx, dr), &weight) in self.steps.iter().zip(&gamma) {
            for ((n, dx), dr) in next.iter_mut().zip(dx).zip(dr) {
                *n -= weight * (dx + dr);
            }
        }
        // On a plateau all steps are alike and their differences mere rounding: however much they promise,
        // go no further than is sensible.
        let largest =
            |values: &mut dyn Iterator<Item = f64>| values.fold(0.0f64, |m, v| m.max(v.abs()));
        let plain = largest(&mut r.iter().copied());
        let stride = largest(&mut next.iter().zip(x).map(|(n, x)| n - x));
        let longest = (LONGEST_RATIO * plain).min(LONGEST);
        if stride > longest {
            let shrink = longest / stride;
            for (n, &x) in next.iter_mut().zip(x) {
                *n = x + shrink * (*n - x);
            }
        }
    }
}
