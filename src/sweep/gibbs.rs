//! One row of a plan at the speed of a sweep, for whatever a plan is multiplied with.
//!
//! The fast twin of [`DualPoint::row_under`]: in `f64` throughout, the row's least cost and the largest potential taken off first, with
//! the vector exponential.

use crate::Real;
use crate::kernel::dispatch::dispatch;
use crate::kernel::lanes::{LANES, Lanes};
use crate::problem::penalty::Law;
use crate::sweep::DualPoint;
use crate::sweep::streamed::largest_finite;

/// Rows of a plan at one point.
pub(crate) struct GibbsRows {
    /// Potentials less the largest, slack not among them.
    g: Vec<f64>,
    slack: f64,
    shift: f64,
    epsilon: f64,
    law: Law,
}

impl GibbsRows {
    pub(crate) fn new(at: &DualPoint<'_>, law: Law) -> Self {
        let shift = largest_finite(at);
        Self {
            g: at.cols.iter().map(|g| g - shift).collect(),
            slack: at.slack - shift,
            shift,
            epsilon: at.epsilon,
            law,
        }
    }

    /// Writes the row asked for `mass` with these costs; returns its `ln Z`, −∞ for a row that carries nothing.
    pub(crate) fn write<T: Real>(&self, mass: f64, costs: &[T], out: &mut [f64]) -> f64 {
        if mass == 0.0 {
            out.fill(0.0);
            return f64::NEG_INFINITY;
        }
        let (least, top, z) = shares(costs, &self.g, self.slack, 1.0 / self.epsilon, out);
        if !(z > 0.0) {
            out.fill(0.0);
            return f64::NEG_INFINITY;
        }
        let log_sum = z.ln() + (top - least + self.shift) / self.epsilon;
        let scale = self.law.mass(self.epsilon, mass, log_sum) / z;
        scale_row(out, scale);
        log_sum
    }
}

/// What a row's shares add up to, `ln Z = ln z + top/ε`, in two parts so that no ε is too small.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RowSum {
    /// `ln z`; −∞ for a row that carries nothing.
    log: f64,
    top: f64,
}

impl RowSum {
    pub(crate) const NOTHING: Self = Self {
        log: f64::NEG_INFINITY,
        top: 0.0,
    };

    /// Whether there is no way for the row, or it has no mass.
    pub(crate) fn is_nothing(&self) -> bool {
        self.log == f64::NEG_INFINITY
    }

    /// Whether a cost was none.
    pub(crate) fn is_nan(&self) -> bool {
        self.log.is_nan() || self.top.is_nan()
    }

    /// The potential of a row of this mass that follows a law.
    pub(crate) fn potential(&self, law: &Law, epsilon: f64, mass: f64) -> f64 {
        if mass == 0.0 || (self.is_nothing() && !law.is_exact()) {
            f64::NEG_INFINITY
        } else if law.is_exact() {
            epsilon * (mass.ln() - self.log) - self.top
        } else {
            law.potential(epsilon, mass, self.log + self.top / epsilon)
        }
    }
}

/// A row's sum, what of its mass goes to the slack column, and the size of the numbers that exponents are differences of, times ε.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListedRow {
    pub(crate) sum: RowSum,
    pub(crate) kept: f64,
    pub(crate) reach: f64,
}

impl GibbsRows {
    pub(crate) fn law(&self) -> &Law {
        &self.law
    }

    /// What was taken off all potentials.
    pub(crate) fn shift(&self) -> f64 {
        self.shift
    }

    /// As [`write`](Self::write) for a row whose entries are those of some columns; `room` is for their potentials.
    pub(crate) fn write_listed<T: Real>(
        &self,
        mass: f64,
        (cols, costs): (&[u32], &[T]),
        room: &mut Vec<f64>,
        out: &mut Vec<f64>,
    ) -> ListedRow {
        out.clear();
        out.resize(cols.len(), 0.0);
        let nothing = ListedRow {
            sum: RowSum::NOTHING,
            kept: 0.0,
            reach: 0.0,
        };
        if mass == 0.0 {
            return nothing;
        }
        room.clear();
        room.extend(cols.iter().map(|&j| self.g[j as usize]));
        let inverse = 1.0 / self.epsilon;
        let (least, top, z) = shares(costs, room, self.slack, inverse, out);
        if z == 0.0 {
            out.fill(0.0);
            return nothing;
        }
        let sum = RowSum {
            log: z.ln(),
            top: top - least + self.shift,
        };
        let mass = match self.law.is_exact() {
            true => mass,
            false => {
                let log_sum = sum.log + sum.top / self.epsilon;
                self.law.mass(self.epsilon, mass, log_sum)
            }
        };
        let scale = mass / z;
        out.iter_mut().for_each(|p| *p *= scale);
        let slack = self.slack + least;
        let kept = ((slack - top) * inverse).quick_exp() * scale;
        let offset = if slack > f64::NEG_INFINITY {
            least.abs()
        } else {
            0.0
        };
        ListedRow {
            sum,
            kept,
            reach: top.abs() + offset,
        }
    }
}

dispatch! {
    /// Writes `exp((g − C − top)/ε)` and returns the least cost, the top of `g − (C − least)` and the sum, slack included; a sum of
    /// zero where nothing is allowed.
    fn shares<T: Real>(costs: &[T], g: &[f64], slack: f64, inverse: f64, out: &mut [f64]) -> (f64, f64, f64) {
        let mut least = f64::INFINITY;
        for (&c, &g) in costs.iter().zip(g) {
            let c = c.widen();
            least = if (g > f64::NEG_INFINITY) & (c < least) { c } else { least };
        }
        let least = if least.is_finite() { least } else { 0.0 };
        let slack = slack + least;
        let mut top = slack;
        for ((p, &c), &g) in out.iter_mut().zip(costs).zip(g) {
            *p = g - (c.widen() - least);
            top = if *p > top { *p } else { top };
        }
        if top == f64::NEG_INFINITY {
            return (least, top, 0.0);
        }
        for p in out.iter_mut() {
            *p = ((*p - top) * inverse).quick_exp();
        }
        let (chunks, rest) = out.as_chunks::<LANES>();
        let mut chains = Lanes::splat(0.0);
        for chunk in chunks {
            chains = chains.zip(Lanes::of(chunk), |a, b| a + b);
        }
        let z = chains.sum() + rest.iter().sum::<f64>() + ((slack - top) * inverse).quick_exp();
        (least, top, z)
    }
}

dispatch! {
    fn scale_row<S: Real>(row: &mut [S], factor: S) {
        for p in row.iter_mut() {
            *p *= factor;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Penalty, Reference};
    use proptest::prelude::*;

    proptest! {
        /// The definition is the simple twin.
        #[test]
        fn rows_are_those_of_the_definition(
            costs in prop::collection::vec(prop_oneof![9 => 0.0f64..3.0, 1 => Just(f64::INFINITY)], 1..40),
            potentials in prop::collection::vec(prop_oneof![9 => -1.0f64..1.0, 1 => Just(f64::NEG_INFINITY)], 40),
            slack in prop_oneof![Just(f64::NEG_INFINITY), -1.0f64..1.0],
            offset in prop_oneof![Just(0.0), Just(1e9)],
            epsilon in 1e-3f64..2.0,
            tau in 0.01f64..10.0,
            relaxed: bool,
        ) {
            let costs: Vec<f64> = costs.iter().map(|c| c + offset).collect();
            let point = DualPoint { epsilon, cols: &potentials[..costs.len()], slack };
            let penalty = if relaxed { Penalty::Kl(tau + offset) } else { Penalty::Exact };
            let law = Law::new(penalty, Reference::Product);
            let (mut slow, mut fast) = (vec![0.0; costs.len()], vec![0.0; costs.len()]);
            point.row_under(&law, 0.7, costs.iter().copied(), &mut slow);
            GibbsRows::new(&point, law).write(0.7, &costs, &mut fast);
            for (a, b) in slow.iter().zip(&fast) {
                prop_assert!((a - b).abs() <= 1e-12 * 0.7, "{a} {b}");
            }
        }
    }
}
