//! Anderson acceleration of a fixed point.
//!
//! ```text
//! min_γ ‖ r_t − Σ_s γ_s (r_{s+1} − r_s) ‖²      x_{t+1} = x_t + r_t − Σ_s γ_s (Δx_s + Δr_s)
//! ```
//!
//! `x` are the log-scalings g/ε and `r` the plain step. The least-squares problem has as many unknowns as
//! remembered steps; it is solved by its normal equations, slightly regularised.

use std::collections::VecDeque;

use crate::kernel::cholesky::cholesky_solve;

/// Longest accelerated step, in multiples of the plain one.
const LONGEST_RATIO: f64 = 100.0;

/// Longest accelerated step, in units of ε.
const LONGEST_STEP: f64 = 30.0;

#[derive(Debug)]
pub(crate) struct Anderson {
    memory: usize,
    /// Differences of successive points and plain steps, oldest first.
    steps: VecDeque<(Vec<f64>, Vec<f64>)>,
    /// ⟨Δr_s, Δr_t⟩ for s ≥ t, in the same order.
    products: VecDeque<Vec<f64>>,
    last: Option<(Vec<f64>, Vec<f64>)>,
    normal: Vec<f64>,
    gamma: Vec<f64>,
}

impl Anderson {
    pub(crate) fn new(memory: usize) -> Self {
        Self {
            memory,
            steps: VecDeque::new(),
            products: VecDeque::new(),
            last: None,
            normal: Vec::new(),
            gamma: Vec::new(),
        }
    }

    pub(crate) fn forget(&mut self) {
        self.steps.clear();
        self.products.clear();
        self.last = None;
    }

    /// Whether the next proposal would differ from the plain step.
    pub(crate) fn is_warm(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Remembers how the last point and step became these; the oldest memory makes room.
    fn remember(&mut self, x: &[f64], r: &[f64]) {
        let Some((x0, r0)) = &mut self.last else {
            self.last = Some((x.to_vec(), r.to_vec()));
            return;
        };
        let (mut dx, mut dr) = (Vec::new(), Vec::new());
        if self.steps.len() == self.memory {
            (dx, dr) = self.steps.pop_front().unwrap_or_default();
            self.products.pop_front();
            for row in &mut self.products {
                row.remove(0);
            }
        }
        for (difference, now, then) in [(&mut dx, x, x0), (&mut dr, r, r0)] {
            difference.clear();
            difference.extend(now.iter().zip(&*then).map(|(a, b)| a - b));
            then.copy_from_slice(now);
        }
        self.steps.push_back((dx, dr));
        let newest = self.steps.back().map_or(&[][..], |step| &step.1[..]);
        let row = self.steps.iter().map(|step| dot(newest, &step.1));
        self.products.push_back(row.collect());
    }

    /// Notes that the plain step at `x` is `r`, and writes the accelerated next point over `next`.
    pub(crate) fn propose(&mut self, x: &[f64], r: &[f64], next: &mut [f64]) {
        for ((n, &x), &r) in next.iter_mut().zip(x).zip(r) {
            *n = x + r;
        }
        if self.memory == 0 {
            return;
        }
        self.remember(x, r);
        let m = self.steps.len();
        if m == 0 {
            return;
        }
        let (normal, gamma) = (&mut self.normal, &mut self.gamma);
        normal.clear();
        normal.resize(m * m, 0.0);
        gamma.clear();
        gamma.extend(self.steps.iter().map(|step| dot(&step.1, r)));
        let mut trace = 0.0;
        for (i, row) in self.products.iter().enumerate() {
            normal[i * m..][..=i].copy_from_slice(row);
            trace += row[i];
        }
        for i in 0..m {
            normal[i * m + i] += 1e-14 * trace;
        }
        if !cholesky_solve(normal, m, gamma) || gamma.iter().any(|g| !g.is_finite()) {
            return;
        }
        for ((dx, dr), &weight) in self.steps.iter().zip(&*gamma) {
            for ((n, dx), dr) in next.iter_mut().zip(dx).zip(dr) {
                *n -= weight * (dx + dr);
            }
        }
        // On a plateau all steps are alike and their differences mere rounding: however much they promise,
        // go no further than is sensible.
        let largest =
            |values: &mut dyn Iterator<Item = f64>| values.fold(0.0f64, |m, v| m.max(v.abs()));
        let plain = largest(&mut r.iter().copied());
        let length = largest(&mut next.iter().zip(x).map(|(n, x)| n - x));
        let longest = (LONGEST_RATIO * plain).min(LONGEST_STEP);
        if length > longest {
            let shrink = longest / length;
            for (n, &x) in next.iter_mut().zip(x) {
                *n = x + shrink * (*n - x);
            }
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
