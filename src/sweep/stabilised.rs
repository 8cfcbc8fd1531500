//! The CPU sweep that keeps the exponentials, for costs that are stored anyway.
//!
//! ```text
//! K_ij = exp((g⁰_j − C_ij − top_i)/ε)      Z_i = Σ_j K_ij v_j      v_j = exp((g_j − g⁰_j)/ε)
//! ```
//!
//! The kernel K is built at reference potentials g⁰; a sweep then needs one multiply-add per entry for
//! the rows and one for the columns, both from a single read of the row, and no exponential. When the
//! potentials have drifted too far from the reference for the scalings to be safe, the kernel is built
//! anew: what an entry can have lost by underflowing is then still far below any tolerance. There is no
//! ε at which this breaks: nothing ever needs `exp(−C/ε)` itself.

use core::ops::Range;

use super::backend::{Backend, DualPoint, diagnose_row};
use super::rows::{RowRule, RowState, Swept, TileSums, absorb_rows, padded, scale_rows};
use super::streamed::{largest_finite, log_sums_of, resolution};
use crate::kernel::tiles::{Lines, fold, is_split};
use crate::problem::penalty::Law;
use crate::{Cost, Error, Real};

/// Sweeps over a stored cost near the speed of memory; as much memory again as the cost itself.
///
/// # Examples
/// ```
/// use earthmover::sweep::{Stabilised, Backend, DualPoint};
/// use earthmover::Dense;
/// let cost = Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2)?;
/// let mut backend = Stabilised::new(&cost, &[0.5, 0.5]);
/// let mut sums = [0.0; 3];
/// let at = DualPoint { epsilon: 0.1, cols: &[0.0, 0.0], slack: f64::NEG_INFINITY };
/// backend.sweep(&at, &mut sums)?;
/// assert!((sums[0] - 0.5f64).abs() < 1e-12);
/// # Ok::<(), earthmover::Error>(())
/// ```
pub struct Stabilised<'a, T> {
    cost: &'a dyn Cost<T>,
    states: Vec<RowState<T>>,
    kernel: Vec<T>,
    /// Potentials at which the kernel was built, slack last; empty before the first sweep.
    reference: Vec<f64>,
    reference_shift: f64,
    reach: f64,
    rule: RowRule,
    last: Vec<f64>,
    resolution: f64,
}

impl<'a, T: Real> Stabilised<'a, T> {
    /// A backend for `cost` with these row masses. Rows beyond the shorter of the two are left out.
    #[must_use]
    pub fn new<C: Cost<T>>(cost: &'a C, masses: &[f64]) -> Self {
        Self::over(cost, masses)
    }

    pub(crate) fn over(cost: &'a dyn Cost<T>, masses: &[f64]) -> Self {
        Self {
            cost,
            states: masses
                .iter()
                .take(cost.rows())
                .map(|&m| RowState::new(m))
                .collect(),
            kernel: Vec::new(),
            reference: Vec::new(),
            reference_shift: 0.0,
            reach: 0.0,
            rule: RowRule {
                law: Law::EXACT,
                epsilon: 0.0,
                shift: 0.0,
            },
            last: Vec::new(),
            resolution: 8.0 * T::epsilon().widen(),
        }
    }

    /// How far, in units of ε, potentials may drift from the reference: a quarter of the exponents that
    /// the scalar has, so that neither a scaling nor its product with a kernel entry can overflow and
    /// what underflowed at the reference is still invisible.
    fn drift_radius() -> f64 {
        T::max_value().widen().ln() / 4.0
    }

    /// Largest drift of any potential from the reference, the best common shift taken out; that shift.
    fn drift(&self, at: &DualPoint<'_>) -> (f64, f64) {
        let Some((low, high)) = at.moved_from(&self.reference, self.rule.epsilon) else {
            return (f64::INFINITY, 0.0);
        };
        let middle = 0.5 * (low + high);
        (
            0.5 * (high - low) / at.epsilon,
            if middle.is_finite() { middle } else { 0.0 },
        )
    }

    fn absorb(&mut self, at: &DualPoint<'_>) -> Result<(), Error> {
        let k = self.cost.cols();
        self.rule.epsilon = at.epsilon;
        self.reference = at.cols.to_vec();
        self.reference.push(at.slack);
        self.reference_shift = largest_finite(at);
        self.kernel.resize(self.states.len() * k, T::zero());
        let logits = at
            .cols
            .iter()
            .chain([&at.slack])
            .map(|g| g - self.reference_shift);
        let g = padded::<T>(logits, k, T::neg_infinity());
        let inverse = T::narrow(1.0 / at.epsilon);
        let (cost, law) = (self.cost, self.rule.law);
        let found = self.fold(|rows, states, kernel| {
            let mut tile = TileSums::new(k);
            if let Some(block) = cost.block(rows.clone()) {
                absorb_rows(
                    block, &g, inverse, &law, rows.start, states, kernel, &mut tile,
                );
            } else {
                let mut line = vec![T::zero(); k];
                let each = states.chunks_mut(1).zip(kernel.chunks_exact_mut(k));
                for (i, (state, out)) in rows.zip(each) {
                    cost.fill(i..i + 1, &mut line);
                    absorb_rows(&line, &g, inverse, &law, i, state, out, &mut tile);
                }
            }
            Swept::new(tile, None)
        });
        self.reach = found.reach;
        if let Some(row) = found.bad {
            self.reference.clear();
            return Err(diagnose_row(self.cost, row, self.states[row].mass));
        }
        Ok(())
    }

    /// Runs `work` on the leaves of the tree over the rows, with their part of the kernel, and adds up what it finds.
    fn fold(
        &mut self,
        work: impl Fn(Range<usize>, &mut [RowState<T>], &mut [T]) -> Swept + Sync,
    ) -> Swept {
        let (k, rows) = (self.cost.cols(), 0..self.states.len());
        let kernel = Lines {
            entries: &mut self.kernel,
            width: k,
        };
        let leaf = |rows, (states, kernel): (&mut [RowState<T>], Lines<'_, T>)| {
            work(rows, states, kernel.entries)
        };
        let state = (&mut self.states[..], kernel);
        fold(rows, k, is_split, state, &leaf, &Swept::merge)
    }
}

impl<T> core::fmt::Debug for Stabilised<'_, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Stabilised")
            .field("rows", &self.states.len())
            .finish_non_exhaustive()
    }
}

impl<T: Real> Backend for Stabilised<'_, T> {
    fn name(&self) -> &'static str {
        "absorbed"
    }

    fn rows(&self) -> usize {
        self.states.len()
    }

    fn cols(&self) -> usize {
        self.cost.cols()
    }

    fn sweep(&mut self, at: &DualPoint<'_>, sums: &mut [f64]) -> Result<(), Error> {
        let k = self.cost.cols();
        let (mut drift, mut middle) = self.drift(at);
        if drift > Self::drift_radius() {
            self.absorb(at)?;
            (drift, middle) = (0.0, 0.0);
        }
        self.rule.shift = self.reference_shift + middle;
        self.last.clear();
        self.last.extend_from_slice(at.cols);
        let moved = at.cols.iter().zip(&self.reference);
        let weights = moved.map(|(&now, &then)| {
            let on = now > f64::NEG_INFINITY;
            if on {
                ((now - then - middle) / at.epsilon).exp()
            } else {
                0.0
            }
        });
        let weights = padded::<T>(weights, k, T::zero());
        let rule = self.rule;
        let slack = T::narrow(at.slack - rule.shift);
        let inverse = T::narrow(1.0 / at.epsilon);
        let found = self.fold(|_, states, kernel| {
            let mut tile = TileSums::scaled(k);
            scale_rows(kernel, &weights, slack, inverse, &rule, states, &mut tile);
            Swept::new(tile, None)
        });
        sums.copy_from_slice(&found.sums);
        self.resolution = resolution::<T>(at, rule.shift, self.reach + drift * at.epsilon);
        Ok(())
    }

    fn log_sums(&mut self, cols: &[usize], out: &mut [f64]) -> Result<(), Error> {
        let mut f = vec![0.0; self.states.len()];
        self.row_potentials(&mut f)?;
        log_sums_of(self.cost, self.rule.epsilon, &f, &self.last, cols, out);
        Ok(())
    }

    fn row_potentials(&mut self, out: &mut [f64]) -> Result<(), Error> {
        for (f, state) in out.iter_mut().zip(&self.states) {
            *f = state.potential(&self.rule);
        }
        Ok(())
    }

    fn resolution(&self) -> f64 {
        self.resolution
    }

    fn obey(&mut self, law: &Law) -> bool {
        self.rule.law = *law;
        true
    }
}
