//! What a device must be able to do, and the laws it must keep.

use super::streamed::log_sum_over;
use crate::problem::penalty::Law;
use crate::{Cost, Error, Real, Side};

/// Column potentials at which a sweep is asked for.
#[derive(Debug, Clone, Copy)]
pub struct DualPoint<'a> {
    /// The entropic regularisation ε.
    pub epsilon: f64,
    /// One potential per column; −∞ for a column that takes no mass.
    pub cols: &'a [f64],
    /// Potential of the slack column less the cost of using it; −∞ where there is none.
    pub slack: f64,
}

impl DualPoint<'_> {
    /// By how much the potentials have moved from a reference, slack last, at the least and at the most;
    /// `None` where ε, the columns or which of them take mass are not the same.
    pub(crate) fn moved_from(&self, reference: &[f64], epsilon: f64) -> Option<(f64, f64)> {
        if reference.len() != self.cols.len() + 1 || epsilon != self.epsilon {
            return None;
        }
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for (&now, &then) in self.cols.iter().chain([&self.slack]).zip(reference) {
            match (now == f64::NEG_INFINITY, then == f64::NEG_INFINITY) {
                (true, true) => {}
                (false, false) => {
                    low = low.min(now - then);
                    high = high.max(now - then);
                }
                _ => return None,
            }
        }
        Some((low, high))
    }
}

/// Whoever can sweep over a cost: a CPU, a GPU, a cluster.
///
/// A backend holds the costs and masses of the *real* rows and columns. The slack row is O(columns) work
/// on the potentials alone and stays with the drivers; the slack column enters as one extra logit a row.
///
/// # Laws
/// With `P` the plan of [`DualPoint`] whose rows are exact (see the [module page](crate::sweep)):
/// 1. after `sweep`, `sums[j] = Σ_i P_ij` for every column and `sums[cols]` is the slack column's sum;
/// 2. rows of zero mass contribute nothing; a forbidden pair (+∞) carries nothing;
/// 3. `log_sums` gives `ln Σ_i P_ij` even where the sum itself underflows, −∞ only where every pair is
///    forbidden or massless;
/// 4. `row_potentials` gives `f_i = ε (ln r_i − ln Z_i)` of the last sweep, r_i being the row's mass (a_i, unless it obeys
///    another law), −∞ for rows of no mass;
/// 5. the same call gives the same bits, whatever the number of threads;
/// 6. NaN or −∞ costs and rows with mass but no allowed pair are errors, never numbers.
///
/// [`conformance`](crate::sweep::conformance) checks laws 1 to 4 against the definition.
pub trait Backend {
    /// A short name for error messages.
    fn name(&self) -> &'static str;

    /// Number of real rows.
    fn rows(&self) -> usize;

    /// Number of real columns.
    fn cols(&self) -> usize;

    /// Computes the column sums of P(g); `sums` has one entry per column and a last one for the slack.
    ///
    /// # Errors
    /// Where a cost is not allowed (law 6) or the device fails.
    fn sweep(&mut self, at: &DualPoint<'_>, sums: &mut [f64]) -> Result<(), Error>;

    /// Logarithms of the sums of some columns at the last sweep; called only where a sum underflowed.
    ///
    /// # Errors
    /// Where the device fails.
    fn log_sums(&mut self, cols: &[usize], out: &mut [f64]) -> Result<(), Error>;

    /// Logarithm of the slack column's sum at the last sweep, which was at this point; called only where the sum underflowed.
    ///
    /// # Errors
    /// Where the device fails.
    fn log_slack_sum(&mut self, at: &DualPoint<'_>) -> Result<f64, Error> {
        let mut f = vec![0.0; self.rows()];
        self.row_potentials(&mut f)?;
        let logit = |i: usize| f[i] + at.slack;
        Ok(log_sum_over(f.len(), self.cols(), at.epsilon, &logit))
    }

    /// Potentials of the rows at the last sweep.
    ///
    /// # Errors
    /// Where the device fails.
    fn row_potentials(&mut self, out: &mut [f64]) -> Result<(), Error>;

    /// The relative error that rounding alone may have caused in an entry at the last sweep. The drivers
    /// never claim a tolerance below twice this.
    fn resolution(&self) -> f64 {
        8.0 * f64::EPSILON
    }

    /// What the masses of rows follow from the next sweep on: a_i exactly until this is called, [`Law::mass`] of each row's sum
    /// afterwards. Says whether this backend can do that; by default it can keep exact masses only, and is refused for
    /// penalised ones.
    fn obey(&mut self, law: &Law) -> bool {
        law.is_exact()
    }
}

impl<B: Backend + ?Sized> Backend for &mut B {
    fn name(&self) -> &'static str {
        (**self).name()
    }
    fn rows(&self) -> usize {
        (**self).rows()
    }
    fn cols(&self) -> usize {
        (**self).cols()
    }
    fn sweep(&mut self, at: &DualPoint<'_>, sums: &mut [f64]) -> Result<(), Error> {
        (**self).sweep(at, sums)
    }
    fn log_sums(&mut self, cols: &[usize], out: &mut [f64]) -> Result<(), Error> {
        (**self).log_sums(cols, out)
    }
    fn log_slack_sum(&mut self, at: &DualPoint<'_>) -> Result<f64, Error> {
        (**self).log_slack_sum(at)
    }
    fn row_potentials(&mut self, out: &mut [f64]) -> Result<(), Error> {
        (**self).row_potentials(out)
    }
    fn resolution(&self) -> f64 {
        (**self).resolution()
    }
    fn obey(&mut self, law: &Law) -> bool {
        (**self).obey(law)
    }
}

impl<B: Curvature + ?Sized> Curvature for &mut B {
    fn sweep_with_curvature(
        &mut self,
        at: &DualPoint<'_>,
        sums: &mut [f64],
        hessian: &mut [f64],
    ) -> Result<(), Error> {
        (**self).sweep_with_curvature(at, sums, hessian)
    }
}

/// A backend that also gives the curvature of the semi-dual, for Newton's method.
pub trait Curvature: Backend {
    /// As [`sweep`](Backend::sweep), and writes `Σ_i P_i P_iᵀ / a_i` over the lower triangle of `hessian`
    /// (row-major, side `cols + 1`, slack last), whatever was there before. Entries below `1e-6` of their row may be left
    /// out. [`Newton::solve_on`](crate::Newton::solve_on) drives it.
    ///
    /// # Errors
    /// As [`sweep`](Backend::sweep).
    fn sweep_with_curvature(
        &mut self,
        at: &DualPoint<'_>,
        sums: &mut [f64],
        hessian: &mut [f64],
    ) -> Result<(), Error>;
}

/// Says what is wrong with a row whose sum came out impossible.
pub(crate) fn diagnose_row<T: Real, C: Cost<T> + ?Sized>(cost: &C, row: usize, mass: f64) -> Error {
    for col in 0..cost.cols() {
        let value = cost.at(row, col).widen();
        if value.is_nan() || value == f64::NEG_INFINITY {
            return Error::Cost { row, col, value };
        }
    }
    Error::Blocked {
        side: Side::Rows,
        index: row,
        mass,
    }
}
