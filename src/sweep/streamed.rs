//! The CPU sweep that stores nothing: costs are read, or computed, tile by tile, anew each time.

use core::ops::Range;

use super::backend::{Backend, Curvature, DualPoint};
use super::rows::{RowRule, RowState, Swept, TileSums, padded, sweep_rows};
use super::short_rows::sweep_short;
use crate::kernel::column_block::MOST_LINES;
use crate::kernel::exp::log_add;
use crate::kernel::interrupt::Interrupt;
use crate::kernel::tiles::{fold, is_curved, is_split};
use crate::problem::penalty::Law;
use crate::{Cost, Error, Real};

/// Entries of a cost computed at one time by one thread: 32 KiB of `f32`.
const BUFFER_ENTRIES: usize = 1 << 13;

/// Sweeps over any [`Cost`] in O(rows + cols) memory, one exponential per entry.
///
/// # Examples
/// ```
/// use earthmover::sweep::{Backend, DualPoint, Streamed};
/// use earthmover::FromFn;
/// let cost = FromFn::new(2, 2, |i, j| if i == j { 0.0 } else { 1.0 })?;
/// let mut backend = Streamed::new(&cost, &[0.5, 0.5]);
/// let mut sums = [0.0; 3];
/// let at = DualPoint { epsilon: 0.1, cols: &[0.0, 0.0], slack: f64::NEG_INFINITY };
/// backend.sweep(&at, &mut sums)?;
/// assert!((sums[0] - 0.5f64).abs() < 1e-12);
/// # Ok::<(), earthmover::Error>(())
/// ```
pub struct Streamed<'a, T> {
    cost: &'a dyn Cost<T>,
    states: Vec<RowState<T>>,
    rule: RowRule,
    last: Vec<f64>,
    resolution: f64,
    interrupt: Interrupt,
}

impl<'a, T: Real> Streamed<'a, T> {
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
            rule: RowRule {
                law: Law::EXACT,
                epsilon: 1.0,
                shift: 0.0,
            },
            last: Vec::new(),
            resolution: 8.0 * T::epsilon().widen(),
            interrupt: Interrupt::default(),
        }
    }

    /// Sweeps with curvature, which take long, may be given up: what they return then is nothing to go by.
    pub(crate) fn until(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = interrupt;
        self
    }

    fn run(
        &mut self,
        at: &DualPoint<'_>,
        sums: &mut [f64],
        hessian: Option<&mut [f64]>,
    ) -> Result<(), Error> {
        let k = self.cost.cols();
        self.rule.shift = largest_finite(at);
        self.rule.epsilon = at.epsilon;
        self.last = at.cols.to_vec();
        let rule = self.rule;
        let logits = at.cols.iter().chain([&at.slack]).map(|g| g - rule.shift);
        let g = padded::<T>(logits, k, T::neg_infinity());
        let inverse = T::narrow(1.0 / at.epsilon);
        let cost = self.cost;
        let (curved, interrupt) = (hessian.is_some(), &self.interrupt);
        let sweep = if k < MOST_LINES {
            sweep_short
        } else {
            sweep_rows
        };
        let swept = |rows: Range<usize>, states: &mut [RowState<T>]| {
            let mut tile = TileSums::new(k);
            if curved && interrupt.is_due() {
                return Swept::new(tile, None);
            }
            let mut outer = curved.then(|| vec![0.0; (k + 1) * (k + 1)]);
            if let Some(block) = cost.block(rows.clone()) {
                sweep(
                    block,
                    &g,
                    inverse,
                    &rule,
                    rows.start,
                    states,
                    &mut tile,
                    outer.as_mut(),
                );
            } else {
                let at_once = (BUFFER_ENTRIES / k).max(1);
                let mut buffer = vec![T::zero(); at_once.min(states.len()) * k];
                for (b, part) in states.chunks_mut(at_once).enumerate() {
                    let first = rows.start + b * at_once;
                    let costs = &mut buffer[..part.len() * k];
                    cost.fill(first..first + part.len(), costs);
                    sweep(
                        costs,
                        &g,
                        inverse,
                        &rule,
                        first,
                        part,
                        &mut tile,
                        outer.as_mut(),
                    );
                }
            }
            Swept::new(tile, outer)
        };
        let is_split = if curved { is_curved } else { is_split };
        let rows = 0..self.states.len();
        let states = &mut self.states[..];
        let found = fold(rows, k, is_split, states, &swept, &Swept::merge);
        let reach = found.write(cost, &self.states, sums, hessian)?;
        self.resolution = resolution::<T>(at, rule.shift, reach);
        Ok(())
    }
}

/// The largest potential: taken out before potentials are narrowed, so that `f32` spends its digits on
/// differences.
pub(crate) fn largest_finite(at: &DualPoint<'_>) -> f64 {
    let top = at
        .cols
        .iter()
        .copied()
        .chain([at.slack])
        .fold(f64::NEG_INFINITY, f64::max);
    if top.is_finite() { top } else { 0.0 }
}

/// Rounding in `(g_j − C_ij)/ε` becomes a relative error of the entry.
pub(crate) fn resolution<T: Real>(at: &DualPoint<'_>, shift: f64, reach: f64) -> f64 {
    let span = at
        .cols
        .iter()
        .copied()
        .chain([at.slack])
        .filter(|g| g.is_finite());
    let span = span.fold(reach, |m, g| m.max((g - shift).abs()));
    T::epsilon().widen() * (4.0 + span / at.epsilon)
}

impl<T> core::fmt::Debug for Streamed<'_, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Streamed")
            .field("rows", &self.states.len())
            .finish_non_exhaustive()
    }
}

impl<T: Real> Backend for Streamed<'_, T> {
    fn name(&self) -> &'static str {
        "streamed"
    }

    fn rows(&self) -> usize {
        self.states.len()
    }

    fn cols(&self) -> usize {
        self.cost.cols()
    }

    fn sweep(&mut self, at: &DualPoint<'_>, sums: &mut [f64]) -> Result<(), Error> {
        self.run(at, sums, None)
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

impl<T: Real> Curvature for Streamed<'_, T> {
    fn sweep_with_curvature(
        &mut self,
        at: &DualPoint<'_>,
        sums: &mut [f64],
        hessian: &mut [f64],
    ) -> Result<(), Error> {
        hessian.fill(0.0);
        self.run(at, sums, Some(hessian))
    }
}

/// `logit / epsilon`, kept finite where the logit is: only −∞ says that there is no way at all.
pub(crate) fn exponent(logit: f64, epsilon: f64) -> f64 {
    if logit.is_finite() {
        (logit / epsilon).clamp(-1e300, 1e300)
    } else {
        logit
    }
}

/// Streaming log-sum-exp down single columns, in `f64`, for columns whose plain sum underflowed.
pub(crate) fn log_sums_of<T: Real, C: Cost<T> + ?Sized>(
    cost: &C,
    epsilon: f64,
    f: &[f64],
    g: &[f64],
    cols: &[usize],
    out: &mut [f64],
) {
    let mut column = vec![T::zero(); cost.rows()];
    for (&j, log_sum) in cols.iter().zip(out) {
        cost.fill_cols(j..j + 1, &mut column);
        let logit = |i: usize| f[i] + (g[j] - column[i].widen());
        *log_sum = log_sum_over(f.len(), cost.cols(), epsilon, &logit);
    }
}

/// ln Σ_i exp(logit_i / ε), along the tree over the rows.
pub(crate) fn log_sum_over(
    rows: usize,
    cols: usize,
    epsilon: f64,
    logit: &(impl Fn(usize) -> f64 + Sync),
) -> f64 {
    let leaf = |rows: Range<usize>, ()| log_sum_of(rows.map(logit), epsilon);
    let add = |sum: &mut f64, more: f64| *sum = log_add(*sum, more);
    fold(0..rows, cols, is_split, (), &leaf, &add)
}

/// `ln Σ exp(z/ε)` of logits in the units of the cost.
pub(crate) fn log_sum_of(logits: impl Iterator<Item = f64> + Clone, epsilon: f64) -> f64 {
    let top = logits.clone().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    let sum: f64 = logits.map(|z| ((z - top) / epsilon).exp()).sum();
    exponent(top, epsilon) + sum.ln()
}
