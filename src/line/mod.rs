//! Points on a line, and on a circle: sorting is solving.
//!
//! ```text
//! W_p(μ, ν)ᵖ  =  min_P Σ_ij |x_i − y_j|ᵖ P_ij  =  ∫₀¹ |F⁻¹(t) − G⁻¹(t)|ᵖ dt          p ≥ 1
//! ```
//!
//! For a convex cost of x − y no two ways of an optimal plan cross, so that mass at the level t of one distribution goes to
//! level t of the other: the plan is a staircase through both sorted lists, n + m − 1 entries, found in
//! O((n + m) log (n + m)). Along it the prices follow from one another, f_i + g_j = |x_i − y_j|ᵖ on every step, and they are
//! feasible everywhere (the cost is a Monge array); so the answer comes with its proof.
//!
//! * [`distance`] and [`weighted_distance`]: W_p of two lists of samples.
//! * [`Samples`]: a list sorted once, for many distances, quantiles, plans and gradients.
//! * [`CircularSamples`]: the same on a circle.
//!
//! Weights are scaled to a total of one: distances here are between probability distributions.
//!
//! # References
//! Santambrogio, *Optimal Transport for Applied Mathematicians*, chapter 2. On the circle: Delon, Salomon and Sobolevski,
//! *Fast transport optimization for Monge costs on the circle*, 2010.

mod circle;
mod power;
mod quantiles;
mod samples;
mod staircase;

pub use circle::{CircularSamples, CircularTransport};
pub use samples::{Samples, Transport};

pub(crate) use power::Power;
pub(crate) use samples::{distance_cost, position_gradients};
pub(crate) use staircase::{Cumulative, walk};

use crate::kernel::tiles::both;
use crate::{Error, Real, Side};

/// W_p between two lists of samples of equal weight, of any lengths.
///
/// # Errors
/// [`Error::Empty`] for an empty list, [`Error::Point`] for a sample that is not finite, [`Error::Option`] for an order below
/// one, [`Error::TooFar`] where the p-th power of a distance overflows.
///
/// # Complexity
/// Two sorts, in parallel, and one walk through both lists.
///
/// # Examples
/// ```
/// use earthmover::line;
/// let (x, y) = ([3.0, 1.0, 2.0], [2.5, 4.5, 3.5]);
/// assert!((line::distance(&x, &y, 2.0)? - 1.5).abs() < 1e-15); // a translation by 1.5
/// # Ok::<(), earthmover::Error>(())
/// ```
pub fn distance<T: Real>(x: &[T], y: &[T], order: f64) -> Result<f64, Error> {
    weighted_distance(x, None, y, None, order)
}

/// W_p between two lists of samples with weights; `None` for equal ones. Weights are scaled to a total of one.
///
/// # Errors
/// As [`distance`], and [`Error::Mass`], [`Error::NoMass`] or [`Error::Length`] for weights that are none.
///
/// # Examples
/// ```
/// use earthmover::line;
/// // A quarter of the mass has to move by 4.
/// let w = line::weighted_distance(&[0.0, 4.0], Some(&[3.0, 1.0]), &[0.0, 4.0], Some(&[1.0, 1.0]), 1.0)?;
/// assert!((w - 1.0).abs() < 1e-15);
/// # Ok::<(), earthmover::Error>(())
/// ```
pub fn weighted_distance<T: Real>(
    x: &[T],
    x_weights: Option<&[T]>,
    y: &[T],
    y_weights: Option<&[T]>,
    order: f64,
) -> Result<f64, Error> {
    let power = Power::new(order)?;
    if x.is_empty() || y.is_empty() {
        let (rows, cols) = (x.len(), y.len());
        return Err(Error::Empty { rows, cols });
    }
    let (a, b) = both(
        || Samples::without_origin(x, x_weights, Side::Rows),
        || Samples::without_origin(y, y_weights, Side::Cols),
    );
    a?.root_cost(&b?, power)
}
