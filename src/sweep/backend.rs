//! What a device must be able to do, and the laws it must keep.

use crate::{Cost, Error, Marginals, Real, Side};

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
/// 4. `row_potentials` gives `f_i = ε (ln a_i − ln Z_i)` of the last sweep, −∞ for rows of no mass;
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
    fn row_potentials(&mut self, out: &mut [f64]) -> Result<(), Error> {
        (**self).row_potentials(out)
    }
    fn resolution(&self) -> f64 {
        (**self).resolution()
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

/// What the drivers steer towards: wanted column sums and the slack row.
#[derive(Debug, Clone)]
pub(crate) struct SemiDual {
    /// Wanted sums, slack column last.
    pub(crate) wanted: Vec<f64>,
    pub(crate) slack: crate::Slack,
    pub(crate) total: f64,
    scratch: Vec<f64>,
}

impl SemiDual {
    pub(crate) fn new(marginals: &Marginals) -> Self {
        let slack = marginals.slack();
        let mut wanted = marginals.cols().to_vec();
        wanted.push(slack.col);
        Self {
            scratch: vec![0.0; marginals.cols().len()],
            wanted,
            slack,
            total: marginals.total(),
        }
    }

    /// The potentials `g` (slack last) as a backend wants them.
    pub(crate) fn dual_point<'a>(&self, epsilon: f64, g: &'a [f64]) -> DualPoint<'a> {
        let k = g.len() - 1;
        DualPoint {
            epsilon,
            cols: &g[..k],
            slack: g[k] - self.slack.col_cost,
        }
    }

    /// Writes the slack row of the plan and returns its potential; the last entry is the corner.
    pub(crate) fn slack_row(&self, epsilon: f64, g: &[f64], out: &mut [f64]) -> f64 {
        let k = g.len() - 1;
        let point = DualPoint {
            epsilon,
            cols: &g[..k],
            slack: g[k] - self.slack.corner_cost,
        };
        let costs = core::iter::repeat_n(self.slack.row_cost, k);
        let (corner, potential) = point.row(self.slack.row, costs, &mut out[..k]);
        out[k] = corner;
        potential
    }

    /// Adds the slack row into the sums of the real rows.
    pub(crate) fn add_slack_row(&mut self, epsilon: f64, g: &[f64], sums: &mut [f64]) {
        self.with_slack_row(epsilon, g, |row| {
            sums.iter_mut().zip(row).for_each(|(s, p)| *s += p)
        });
    }

    /// Takes the slack row out of sums that include it.
    pub(crate) fn take_slack_row(&mut self, epsilon: f64, g: &[f64], sums: &mut [f64]) {
        self.with_slack_row(epsilon, g, |row| {
            sums.iter_mut().zip(row).for_each(|(s, p)| *s -= p)
        });
    }

    fn with_slack_row(&mut self, epsilon: f64, g: &[f64], apply: impl FnOnce(&[f64])) {
        if self.slack.row > 0.0 {
            let mut row = core::mem::take(&mut self.scratch);
            row.resize(g.len(), 0.0);
            self.slack_row(epsilon, g, &mut row);
            apply(&row);
            self.scratch = row;
        }
    }

    /// L1 distance of the sums from the wanted ones over the total mass.
    pub(crate) fn violation(&self, sums: &[f64]) -> f64 {
        sums.iter()
            .zip(&self.wanted)
            .map(|(s, w)| (s - w).abs())
            .sum::<f64>()
            / self.total
    }

    /// Potentials to start from: zero, or −∞ where a column takes nothing.
    pub(crate) fn rest(&self) -> Vec<f64> {
        self.wanted
            .iter()
            .map(|&w| if w > 0.0 { 0.0 } else { f64::NEG_INFINITY })
            .collect()
    }

    /// Potentials (slack last) made to fit: columns of no mass are switched off, others that were off are switched on.
    pub(crate) fn fit(&self, mut g: Vec<f64>) -> Vec<f64> {
        let missing = |(x, w): (&f64, &f64)| *x == f64::NEG_INFINITY && *w > 0.0;
        let middle = if g.iter().zip(&self.wanted).any(missing) {
            middle(&g)
        } else {
            0.0
        };
        for (x, &w) in g.iter_mut().zip(&self.wanted) {
            if w == 0.0 {
                *x = f64::NEG_INFINITY;
            } else if *x == f64::NEG_INFINITY {
                *x = middle;
            }
        }
        g
    }
}

/// What a violation says about a tolerance: the one place where an entropic solver's status is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Within the tolerance, whatever rounding did.
    Met,
    /// Within the tolerance by the numbers, but rounding may have made them up.
    Blurred,
    /// Not yet.
    Missed,
}

/// Rounding of every entry by `resolution` moves the sums by that share of the mass, on both sides of the difference.
pub(crate) const CERTAIN: f64 = 2.0;

/// Judges a violation that was measured with entries of this relative `resolution`. It must stay below the tolerance by
/// `margin` resolutions: [`CERTAIN`], or zero where the number itself is what counts.
pub(crate) fn verdict(violation: f64, resolution: f64, tolerance: f64, margin: f64) -> Verdict {
    let sharp = 2.0 * resolution <= tolerance;
    if sharp && violation + margin * resolution <= tolerance {
        Verdict::Met
    } else if violation <= tolerance && (2.0 + margin) * resolution > tolerance {
        Verdict::Blurred
    } else {
        Verdict::Missed
    }
}

/// The middle one of the finite numbers, by size; zero where there is none.
fn middle(values: &[f64]) -> f64 {
    let mut finite: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
    if finite.is_empty() {
        return 0.0;
    }
    let at = finite.len() / 2;
    *finite.select_nth_unstable_by(at, f64::total_cmp).1
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
