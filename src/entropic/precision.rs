//! How many digits a sweep over a cost has, and where to get more.
//!
//! An entry of an entropic plan is `exp((g_j − C_ij)/ε)` up to a factor: rounding `C_ij` to one unit in the last place moves it
//! by `u |C_ij| / ε`. Where that is more than the tolerance allows, the cost is read in `f64` and less its row minima
//! ([`Reduced`]), which changes nothing but the potentials of the rows.

use crate::cost::Reduced;
use crate::problem::check::Survey;
use crate::{Cost, Error, Marginals, Real};

/// ε and masses that `f32` can calculate with, and their inverses.
const SINGLE_RANGE: core::ops::Range<f64> = 1e-25..1e25;

/// Whether `T` is wide enough by itself: its sums of a few terms, ε and the masses.
fn is_wide_enough<T: Real>(marginals: &Marginals, epsilon: f64, tolerance: f64) -> bool {
    is_double::<T>()
        || (8.0 * T::epsilon().widen() <= tolerance
            && SINGLE_RANGE.contains(&epsilon)
            && SINGLE_RANGE.contains(&marginals.total()))
}

/// Refuses an ε that sums in `T` alone cannot calculate with.
pub(crate) fn check_epsilon<T: Real>(epsilon: f64) -> Result<(), Error> {
    if is_double::<T>() || SINGLE_RANGE.contains(&epsilon) {
        return Ok(());
    }
    Err(Error::Option {
        name: "epsilon",
        value: epsilon,
        expected: "a number from 1e-25 to 1e25 where costs are f32",
    })
}

/// Whether the scalar is `f64`.
pub(crate) fn is_double<T: Real>() -> bool {
    T::epsilon().widen() < 1e-12
}

/// The cost as it must be read from the start, where reading it as it is would not do.
pub(crate) fn needed<'a, T: Real, C: Cost<T> + ?Sized>(
    cost: &'a C,
    marginals: &Marginals,
    survey: &Survey,
    epsilon: f64,
    tolerance: f64,
) -> Option<Reduced<'a, T, C>> {
    let slack = marginals.has_anchored_rows();
    if !is_wide_enough::<T>(marginals, epsilon, tolerance) {
        return Some(Reduced::new(cost, slack));
    }
    if slack || !survey.is_coarse::<T>(epsilon, tolerance) {
        return None;
    }
    let reduced = Reduced::new(cost, false);
    let minima = Survey {
        least: 0.0,
        greatest: reduced.largest_minimum(),
        ..*survey
    };
    minima.is_coarse::<T>(epsilon, tolerance).then_some(reduced)
}

/// The cost as it is worth reading once more after a solver has run out of digits.
pub(crate) fn worthwhile<'a, T: Real, C: Cost<T> + ?Sized>(
    cost: &'a C,
    marginals: &Marginals,
    epsilon: f64,
    tolerance: f64,
) -> Option<Reduced<'a, T, C>> {
    let slack = marginals.has_anchored_rows();
    if !is_double::<T>() {
        return Some(Reduced::new(cost, slack));
    }
    if slack {
        return None;
    }
    let reduced = Reduced::new(cost, false);
    let blur = T::epsilon().widen() * reduced.largest_minimum() / epsilon;
    (blur > 0.01 * tolerance).then_some(reduced)
}
