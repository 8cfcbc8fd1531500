//! The semi-dual: what is left of the dual when every row potential is the best for the column potentials g.
//!
//! ```text
//! maximise  Σ_j b_j g_j − ε Σ_i a_i ln Σ_j exp((g_j − C_ij)/ε) + const        gradient: b − colsum(g)
//! ```
//!
//! smooth and concave in k + 1 numbers, slack column last. The sweeps do the real rows; the slack row is O(k) work on g
//! alone and is done here, as is the judgement of a violation.

use crate::Marginals;
use crate::sweep::DualPoint;

/// What the drivers steer towards: demanded column sums and the slack row.
#[derive(Debug, Clone)]
pub(crate) struct SemiDual {
    /// Demanded sums, slack column last.
    pub(crate) demands: Vec<f64>,
    pub(crate) slack: crate::Slack,
    pub(crate) total: f64,
    scratch: Vec<f64>,
}

impl SemiDual {
    pub(crate) fn new(marginals: &Marginals) -> Self {
        let slack = marginals.slack();
        let mut demands = marginals.cols().to_vec();
        demands.push(slack.col);
        Self {
            scratch: vec![0.0; marginals.cols().len()],
            demands,
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

    /// L1 distance of the sums from the demands over the total mass.
    pub(crate) fn violation(&self, sums: &[f64]) -> f64 {
        sums.iter()
            .zip(&self.demands)
            .map(|(s, w)| (s - w).abs())
            .sum::<f64>()
            / self.total
    }

    /// Potentials to start from: zero, or −∞ where a column takes nothing.
    pub(crate) fn cold_start(&self) -> Vec<f64> {
        self.demands
            .iter()
            .map(|&w| if w > 0.0 { 0.0 } else { f64::NEG_INFINITY })
            .collect()
    }

    /// Potentials (slack last) made to fit: columns of no mass are switched off, others that were off are switched on.
    pub(crate) fn fit(&self, mut g: Vec<f64>) -> Vec<f64> {
        let missing = |(x, w): (&f64, &f64)| *x == f64::NEG_INFINITY && *w > 0.0;
        let middle = if g.iter().zip(&self.demands).any(missing) {
            middle(&g)
        } else {
            0.0
        };
        for (x, &w) in g.iter_mut().zip(&self.demands) {
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
