//! The semi-dual: what is left of the dual when every row potential is the best for the column potentials g.
//!
//! ```text
//! maximise  Σ_j b_j g_j − ε Σ_i a_i ln Σ_j exp((g_j − C_ij)/ε) + const        gradient: b − colsum(g)
//! ```
//!
//! smooth and concave in k + 1 numbers, slack column last. The sweeps do the real rows; the slack row is O(k) work on g
//! alone and is done here, as is the judgement of a violation.

use crate::kernel::exp::log_sum_exp;
use crate::problem::penalty::Law;
use crate::sweep::{Backend, DualPoint};
use crate::{Error, Marginals, Penalty, Side};

/// What the drivers steer towards: demanded column sums and the slack row.
///
/// Where masses are penalised, what is demanded of a column depends on its potential: `demands` is then what is demanded at the point
/// last looked at. A constant t added to all potentials of columns multiplies all sums by the same factor and all that is demanded
/// by another, so that the best t is known without a sweep; it is kept apart, as the laws' lift.
#[derive(Debug, Clone)]
pub(crate) struct SemiDual {
    /// Demanded sums, slack column last.
    pub(crate) demands: Vec<f64>,
    pub(crate) slack: crate::Slack,
    pub(crate) total: f64,
    /// Masses asked for, slack column last; columns without any way to them are closed, with none. Empty where masses are kept.
    masses: Vec<f64>,
    /// Masses of the rows where their potentials are bounded.
    row_masses: Vec<f64>,
    rows: Law,
    cols: Law,
    scratch: Vec<f64>,
}

impl SemiDual {
    pub(crate) fn new(marginals: &Marginals) -> Self {
        let slack = marginals.slack();
        let mut demands = marginals.cols().to_vec();
        demands.push(slack.col);
        Self {
            scratch: vec![0.0; marginals.cols().len()],
            masses: if marginals.is_relaxed() {
                demands.clone()
            } else {
                Vec::new()
            },
            row_masses: match marginals.row_penalty() {
                Penalty::Tv(_) => marginals.rows().to_vec(),
                _ => Vec::new(),
            },
            demands,
            slack,
            total: marginals.total(),
            rows: marginals.row_law(),
            cols: marginals.col_law(),
        }
    }

    /// Whether masses are penalised.
    pub(crate) fn is_relaxed(&self) -> bool {
        !self.masses.is_empty()
    }

    /// What rows follow.
    pub(crate) fn row_law(&self) -> &Law {
        &self.rows
    }

    /// By how much column potentials are to be taken higher, and row potentials lower, than they are kept.
    pub(crate) fn lift(&self) -> f64 {
        self.rows.lift
    }

    /// Takes potentials up from elsewhere.
    pub(crate) fn set_lift(&mut self, lift: f64) {
        self.rows.lift = lift;
        self.cols.lift = -lift;
    }

    /// Whether a common shift of the potentials is found without sweeps.
    pub(crate) fn is_translated(&self) -> bool {
        let both = self.rows.growth(1.0).zip(self.cols.growth(1.0));
        both.is_some_and(|(a, b)| a + b > 0.0)
    }

    /// Potentials cut to what their penalty allows.
    pub(crate) fn clip(&self, epsilon: f64, g: &mut [f64]) {
        for (g, &mass) in g.iter_mut().zip(&self.masses) {
            if mass > 0.0 {
                *g = self.cols.clip(epsilon, mass, *g);
            }
        }
    }

    /// Puts potentials that came by another way onto the bound that rounding has kept them from: there what is demanded is what there is,
    /// and next to it is not.
    pub(crate) fn snap(&self, epsilon: f64, g: &mut [f64]) {
        for (g, &mass) in g.iter_mut().zip(&self.masses) {
            let (low, high) = self.cols.bounds(epsilon, mass);
            if mass > 0.0 && g.is_finite() && high.is_finite() {
                let near = BOUND_ROUNDING * (g.abs() + low.abs() + high.abs());
                if (*g - high).abs() <= near {
                    *g = high;
                } else if (*g - low).abs() <= near {
                    *g = low;
                }
            }
        }
    }

    /// The plain step of a column, over ε.
    pub(crate) fn step(&self, epsilon: f64, col: usize, g: f64, log_sum: f64) -> f64 {
        match self.masses[col] {
            0.0 => 0.0,
            mass => self.cols.step(epsilon, mass, g, log_sum),
        }
    }

    /// What a Newton step must add to the curvature of each column, over 1/ε: the penalties' own.
    pub(crate) fn stiffness(&self, epsilon: f64, g: &[f64], sums: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for (j, &mass) in self.masses.iter().enumerate().filter(|(_, m)| **m > 0.0) {
            out[j] = match self.cols.penalty {
                Penalty::Kl(tau) => epsilon / tau * self.demands[j].max(sums[j]),
                // Held at a bound by what it has.
                Penalty::Tv(_) => {
                    let (low, high) = self.cols.bounds(epsilon, mass);
                    let held = (g[j] <= low || g[j] >= high) && self.demands[j] == sums[j];
                    f64::from(u8::from(held)) * HELD_CURVATURE * self.demands[j].max(mass)
                }
                Penalty::Exact => 0.0,
            };
        }
    }

    /// What penalised columns make of a sweep at `g` (slack last) of a backend that obeys the rows' law: logarithms of sums, where
    /// they underflowed or overflowed, too; columns that nobody can reach are closed; potentials are lifted to where
    /// they are best; `demands` is what is demanded there. Returns the factor of all sums.
    pub(crate) fn respond(
        &mut self,
        backend: &mut dyn Backend,
        epsilon: f64,
        g: &mut [f64],
        sums: &mut [f64],
        logs: &mut [f64],
    ) -> Result<f64, Error> {
        let k = g.len() - 1;
        let narrow = backend.resolution() > 1e-12;
        let mut underflowed = Vec::new();
        for j in 0..k {
            logs[j] = sums[j].ln();
            let mass = self.masses[j];
            if mass > 0.0 {
                let demand = self.cols.log_demand(epsilon, mass, g[j], logs[j]);
                let low = if narrow { mass.ln() } else { demand };
                // Sums this far below may have lost terms to underflow.
                if !(logs[j] >= low - 69.0 && logs[j] >= -640.0 && logs[j] < 690.0) {
                    underflowed.push(j);
                }
            }
        }
        logs[k] = f64::NEG_INFINITY;
        if !underflowed.is_empty() {
            let mut found = vec![0.0; underflowed.len()];
            backend.log_sums(&underflowed, &mut found)?;
            for (&j, &log) in underflowed.iter().zip(&found) {
                if log == f64::NEG_INFINITY || log.is_nan() {
                    if self.cols.is_exact() {
                        return Err(Error::Blocked {
                            side: Side::Cols,
                            index: j,
                            mass: self.masses[j],
                        });
                    }
                    (self.masses[j], self.demands[j]) = (0.0, 0.0);
                    (g[j], sums[j]) = (f64::NEG_INFINITY, 0.0);
                }
                logs[j] = log;
                sums[j] = log.exp();
            }
        }
        let factor = match self.is_bounded() {
            false => self.translate(epsilon, g, sums, logs),
            true => self.slide(backend, epsilon, g, sums, logs)?,
        };
        for j in 0..k {
            if self.masses[j] > 0.0 {
                let log = self.cols.log_demand(epsilon, self.masses[j], g[j], logs[j]);
                // At a bound what is demanded is what there is, to the last bit.
                self.demands[j] = if log == logs[j] { sums[j] } else { log.exp() };
            }
        }
        Ok(factor)
    }

    /// Whether potentials of a side are bounded.
    fn is_bounded(&self) -> bool {
        let bounded = |law: &Law| matches!(law.penalty, Penalty::Tv(_));
        bounded(&self.rows) || bounded(&self.cols)
    }

    /// The same where potentials are bounded: as far as no column leaves its bounds, to where totals agree. Rows that are bounded
    /// themselves do not grow alike, and are swept again.
    fn slide(
        &mut self,
        backend: &mut dyn Backend,
        epsilon: f64,
        g: &[f64],
        sums: &mut [f64],
        logs: &mut [f64],
    ) -> Result<f64, Error> {
        let open: Vec<usize> = (0..g.len()).filter(|&j| self.masses[j] > 0.0).collect();
        let (mut low, mut high) = (-1e300, 1e300);
        for &j in &open {
            let (least, largest) = self.cols.bounds(epsilon, self.masses[j]);
            low = f64::max(low, least - g[j]);
            high = f64::min(high, largest - g[j]);
        }
        let demands = |j: &usize| {
            self.cols
                .log_demand(epsilon, self.masses[*j], g[*j], logs[*j])
        };
        let missing: f64 = open
            .iter()
            .map(|j| (demands(j).exp() - sums[*j]).abs())
            .sum();
        let rows = match self.rows.penalty {
            Penalty::Tv(_) => {
                let mut exact = vec![0.0; backend.rows()];
                backend.obey(&Law::EXACT);
                backend.row_potentials(&mut exact)?;
                backend.obey(&self.rows);
                exact
            }
            _ => Vec::new(),
        };
        let there: f64 = open.iter().map(|&j| sums[j]).sum();
        let growth = self.rows.growth(epsilon).unwrap_or(0.0);
        let supply = |t: f64| {
            if rows.is_empty() {
                return there * (growth * t).exp();
            }
            let law = self.rows.lifted(self.rows.lift + t);
            let each = rows.iter().zip(&self.row_masses);
            each.map(|(&f, &a)| law.mass_at(epsilon, a, f)).sum()
        };
        let demand = |t: f64| -> f64 {
            let each = |j: &usize| match self.cols.penalty {
                Penalty::Kl(tau) => (demands(j) - t / tau).exp(),
                _ => self.masses[*j],
            };
            open.iter().map(each).sum()
        };
        let excess = |t: f64| supply(t) - demand(t);
        let first = excess(0.0);
        if !(first.abs() > 0.1 * missing) || !(low < high) {
            return Ok(1.0);
        }
        let shift = root(excess, first, epsilon, low, high);
        if !(shift.is_finite() && shift.abs() > 1e-9 * epsilon) {
            return Ok(1.0);
        }
        self.set_lift(self.lift() + shift);
        if rows.is_empty() {
            let factor = (growth * shift).exp();
            for (s, log) in sums.iter_mut().zip(logs) {
                *s *= factor;
                *log += growth * shift;
            }
            return Ok(factor);
        }
        backend.obey(&self.rows);
        backend.sweep(&self.dual_point(epsilon, g), sums)?;
        for (s, log) in sums.iter().zip(logs) {
            *log = s.ln();
        }
        Ok(1.0)
    }

    /// What all potentials have in common goes to the lift, where it costs no digits.
    pub(crate) fn centred(&mut self, mut g: Vec<f64>) -> Vec<f64> {
        let top = g.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if self.is_relaxed() && top.is_finite() {
            g.iter_mut().for_each(|g| *g -= top);
            self.set_lift(self.lift() + top);
        }
        g
    }

    /// Lifts the potentials to where the total that is demanded is the one that is there; sums follow, by the factor returned.
    fn translate(&mut self, epsilon: f64, g: &[f64], sums: &mut [f64], logs: &mut [f64]) -> f64 {
        let slope = match self.cols.penalty {
            Penalty::Exact => Some(0.0),
            Penalty::Kl(tau) => Some(1.0 / tau),
            Penalty::Tv(_) => None,
        };
        let Some((growth, slope)) = self.rows.growth(epsilon).zip(slope) else {
            return 1.0;
        };
        if growth + slope == 0.0 {
            return 1.0;
        }
        let open = || (0..g.len()).filter(|&j| self.masses[j] > 0.0);
        let there = log_sum_exp(open().map(|j| logs[j]));
        let demand = |j: usize| self.cols.log_demand(epsilon, self.masses[j], g[j], logs[j]);
        let shift = (log_sum_exp(open().map(demand)) - there) / (growth + slope);
        if !shift.is_finite() {
            return 1.0;
        }
        self.set_lift(self.lift() + shift);
        let factor = (growth * shift).exp();
        for (s, log) in sums.iter_mut().zip(logs) {
            *log += growth * shift;
            *s = if *s > 0.0 && s.is_finite() && factor.is_finite() {
                *s * factor
            } else {
                log.exp()
            };
        }
        factor
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

    /// L1 distance of the sums from the demanded ones over the total mass; where masses are penalised, over the mass that is there
    /// or demanded.
    pub(crate) fn violation(&self, sums: &[f64]) -> f64 {
        let both = || sums.iter().zip(&self.demands);
        let off = both().map(|(s, w)| (s - w).abs()).sum::<f64>();
        if !self.is_relaxed() {
            return off / self.total;
        }
        let scale: f64 = both().map(|(s, w)| s.max(*w)).sum();
        if off == 0.0 { 0.0 } else { off / scale }
    }

    /// Potentials to start from: zero, or −∞ where a column takes nothing.
    pub(crate) fn cold_start(&self) -> Vec<f64> {
        self.asked()
            .iter()
            .map(|&w| if w > 0.0 { 0.0 } else { f64::NEG_INFINITY })
            .collect()
    }

    /// Masses asked for, slack column last; zero for columns that take none.
    pub(crate) fn asked(&self) -> &[f64] {
        if self.is_relaxed() {
            &self.masses
        } else {
            &self.demands
        }
    }

    /// Potentials (slack last) made to fit: columns of no mass are switched off, others that were off are switched on.
    pub(crate) fn fit(&self, mut g: Vec<f64>) -> Vec<f64> {
        let missing = |(x, w): (&f64, &f64)| *x == f64::NEG_INFINITY && *w > 0.0;
        let middle = if g.iter().zip(self.asked()).any(missing) {
            middle(&g)
        } else {
            0.0
        };
        for (x, &w) in g.iter_mut().zip(self.asked()) {
            if w == 0.0 {
                *x = f64::NEG_INFINITY;
            } else if *x == f64::NEG_INFINITY {
                *x = middle;
            }
        }
        g
    }
}

/// What a potential may be off its bound by, relative to both: a few sums, and costs read the other way round.
const BOUND_ROUNDING: f64 = 64.0 * f64::EPSILON;

/// Times its mass: the curvature of a column that does not move.
const HELD_CURVATURE: f64 = 1e8;

/// Where an increasing function that is `first` at zero vanishes, between `low` and `high`; the nearer end where it does not.
fn root(excess: impl Fn(f64) -> f64, first: f64, unit: f64, low: f64, high: f64) -> f64 {
    let end = if first < 0.0 { high } else { low };
    let (mut near, mut step) = (0.0, unit);
    let mut far = loop {
        let next = if first < 0.0 {
            near + step
        } else {
            near - step
        };
        let next = next.clamp(low, high);
        let value = excess(next);
        if value == 0.0 || (value < 0.0) != (first < 0.0) {
            break next;
        }
        if next == end || !value.is_finite() {
            return next;
        }
        (near, step) = (next, 4.0 * step);
    };
    for _ in 0..60 {
        let middle = 0.5 * (near + far);
        if (excess(middle) < 0.0) == (first < 0.0) {
            near = middle;
        } else {
            far = middle;
        }
        if (far - near).abs() <= 1e-12 * far.abs().max(unit) {
            break;
        }
    }
    near
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
pub(crate) const ROUNDING_SIDES: f64 = 2.0;

/// Judges a violation that was measured with entries of this relative `resolution`. It must stay below the tolerance by
/// `margin` resolutions: [`ROUNDING_SIDES`], or zero where the number itself is what counts.
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
