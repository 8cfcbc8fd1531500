//! One row of an entropic plan, from the column potentials alone.
//!
//! ```text
//! P_ij = a_i · exp((g_j − C_ij)/ε) / Z_i       Z_i = Σ_j exp((g_j − C_ij)/ε) + exp((g_s − C_s)/ε)
//! ```
//!
//! This is the definition, in `f64`, with the row's least cost and the largest potential taken off first (a constant added to a row or to
//! all potentials must not cost digits) and the row maximum taken out; the sweeps are its fast twins.

use crate::cost::Reduced;
use crate::kernel::exp::exp_or_nothing;
use crate::kernel::tiles::{map_tiles, tile_rows};
use crate::problem::penalty::Law;
use crate::sweep::{Backend, DualPoint, Streamed};
use crate::{Cost, Error, Real};

impl DualPoint<'_> {
    /// Writes the row of mass `mass` with the given costs; returns the mass that goes to the slack
    /// column and the row's potential `f_i = ε (ln a_i − ln Z_i)`.
    ///
    /// A row without any allowed pair has `Z = 0`: nothing is written and the potential is +∞. NaN in,
    /// NaN out.
    pub(crate) fn row(
        &self,
        mass: f64,
        costs: impl Iterator<Item = f64> + Clone,
        out: &mut [f64],
    ) -> (f64, f64) {
        self.row_under(&Law::EXACT, mass, costs, out)
    }

    /// The same for a row whose mass follows a law: `f_i = ε (ln r_i − ln Z_i)`. A row of a relaxed law without any allowed pair
    /// carries nothing, and its potential is −∞.
    pub(crate) fn row_under(
        &self,
        law: &Law,
        mass: f64,
        costs: impl Iterator<Item = f64> + Clone,
        out: &mut [f64],
    ) -> (f64, f64) {
        if mass == 0.0 {
            out.fill(0.0);
            return (0.0, f64::NEG_INFINITY);
        }
        // Of columns that take mass: what the others cost says nothing.
        let open = costs.clone().zip(self.cols);
        let open = open.filter(|(_, g)| **g > f64::NEG_INFINITY);
        let least = open.map(|(c, _)| c).fold(f64::INFINITY, f64::min);
        let least = if least.is_finite() { least } else { 0.0 };
        // What all potentials have in common is taken off, too, as the sweeps do.
        let shift = self.cols.iter().copied().fold(self.slack, f64::max);
        let shift = if shift.is_finite() { shift } else { 0.0 };
        let slack = (self.slack - shift) + least;
        let mut top = slack;
        for (p, (c, &g)) in out.iter_mut().zip(costs.zip(self.cols)) {
            *p = (g - shift) - (c - least);
            // Written so that a NaN becomes the maximum and is seen by everybody after.
            if !(*p <= top) {
                top = *p;
            }
        }
        if top == f64::NEG_INFINITY {
            out.fill(0.0);
            let none = if law.is_exact() {
                f64::INFINITY
            } else {
                f64::NEG_INFINITY
            };
            return (0.0, none);
        }
        let kept = ((slack - top) / self.epsilon).exp();
        let mut z = kept;
        for p in out.iter_mut() {
            *p = exp_or_nothing((*p - top) / self.epsilon);
            z += *p;
        }
        if law.is_exact() {
            let scale = mass / z;
            out.iter_mut().for_each(|p| *p *= scale);
            return (
                kept * scale,
                self.epsilon * scale.ln() - top + least - shift,
            );
        }
        let log_sum = z.ln() + (top - least + shift) / self.epsilon;
        let scale = law.mass(self.epsilon, mass, log_sum) / z;
        out.iter_mut().for_each(|p| *p *= scale);
        (kept * scale, law.potential(self.epsilon, mass, log_sum))
    }

    /// The potentials of all rows of a cost: a sweep in `f64`. Where a row is impossible there is no sweep, but what the
    /// definition says of the others.
    pub(crate) fn row_potentials<T: Real, C: Cost<T> + ?Sized>(
        &self,
        cost: &C,
        law: &Law,
        masses: &[f64],
        out: &mut [f64],
    ) {
        let anchored = self.slack > f64::NEG_INFINITY || !law.is_exact();
        let reduced = Reduced::new(cost, anchored);
        let swept = self.reduced_row_potentials(&reduced, law, masses, out);
        if swept.is_err() {
            self.each_row_potential(cost, law, masses, out);
            return;
        }
        let both = out.iter_mut().zip(reduced.minima());
        both.for_each(|(f, least)| *f += least);
    }

    /// The potentials of all rows of a cost less its row minima: `f_i − min_j C_ij`.
    pub(crate) fn reduced_row_potentials<T: Real, C: Cost<T> + ?Sized>(
        &self,
        reduced: &Reduced<'_, T, C>,
        law: &Law,
        masses: &[f64],
        out: &mut [f64],
    ) -> Result<(), Error> {
        let mut backend = Streamed::new(reduced, masses);
        backend.obey(law);
        backend.sweep(self, &mut vec![0.0; self.cols.len() + 1])?;
        backend.row_potentials(out)
    }

    /// The potentials of all rows of a cost, row by row.
    fn each_row_potential<T: Real, C: Cost<T> + ?Sized>(
        &self,
        cost: &C,
        law: &Law,
        masses: &[f64],
        out: &mut [f64],
    ) {
        let (n, k) = (cost.rows(), cost.cols());
        map_tiles(out, tile_rows(n, k), |rows, out| {
            let (mut costs, mut line) = (vec![T::zero(); k], vec![0.0; k]);
            for (i, f) in rows.zip(out) {
                cost.fill(i..i + 1, &mut costs);
                let costs = costs.iter().map(|c| c.widen());
                *f = self.row_under(law, masses[i], costs, &mut line).1;
            }
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_exact_at_any_scale() {
        let costs = [3.0, 0.0, f64::INFINITY];
        for epsilon in [1e-6, 0.3, 1e6] {
            let point = DualPoint {
                epsilon,
                cols: &[1.0, 0.5, 9.0],
                slack: -1.0,
            };
            let mut row = [0.0; 3];
            let (kept, f) = point.row(2.0, costs.into_iter(), &mut row);
            assert!((row.iter().sum::<f64>() + kept - 2.0).abs() < 1e-14);
            assert_eq!(row[2], 0.0);
            assert!((row[1] - ((f + 0.5) / epsilon).exp()).abs() < 1e-9);
        }
    }

    #[test]
    fn a_sweep_gives_the_potentials_of_each_row() {
        for (n, k) in [(50, 3), (50, 40)] {
            let mut costs: Vec<f32> = (0..n * k).map(|e| (e * 7919 % 101) as f32 / 50.0).collect();
            costs[k + 1] = f32::INFINITY;
            let masses: Vec<f64> = (0..n).map(|i| (i % 4) as f64).collect();
            let cols: Vec<f64> = (0..k).map(|j| 300.0 + (j % 3) as f64 / 7.0).collect();
            let point = DualPoint {
                epsilon: 0.02,
                cols: &cols,
                slack: 299.5,
            };
            let both = |costs: &[f32]| {
                let cost = crate::Dense::new(costs, n, k).unwrap();
                let (mut swept, mut each) = (vec![0.0; n], vec![0.0; n]);
                point.row_potentials(&cost, &Law::EXACT, &masses, &mut swept);
                point.each_row_potential(&cost, &Law::EXACT, &masses, &mut each);
                (swept, each)
            };
            let (swept, each) = both(&costs);
            assert_eq!(swept[4], f64::NEG_INFINITY);
            let close = |(a, b): (&f64, &f64)| a == b || (a - b).abs() < 1e-12;
            assert!(swept.iter().zip(&each).all(close));
            costs[3 * k] = f32::NAN;
            let (swept, each) = both(&costs);
            assert!(swept[3].is_nan() && each[3].is_nan() && swept[2] == each[2]);
        }
    }

    #[test]
    fn blocked_and_poisoned_rows_are_told_apart() {
        let point = DualPoint {
            epsilon: 1.0,
            cols: &[0.0, 0.0],
            slack: f64::NEG_INFINITY,
        };
        let mut row = [9.0; 2];
        let blocked = point.row(1.0, [f64::INFINITY; 2].into_iter(), &mut row);
        assert_eq!((blocked.1, row), (f64::INFINITY, [0.0; 2]));
        let poisoned = point.row(1.0, [0.0, f64::NAN].into_iter(), &mut row);
        assert!(poisoned.1.is_nan());
    }
}
