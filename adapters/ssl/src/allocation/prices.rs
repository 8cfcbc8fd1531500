//! Shadow prices of an allocation, in nats.
//!
//! ```text
//! λ_j = −(f_s + g_j) = −ε ln v_j     price of class j's bound: what one more of its places would save,
//! θ   = −(f_s + g_s) = −ε ln τ       price of the total: what the last label costs,
//! ```
//!
//! with v_j and τ what the slack row puts into class j and into the slack column; none below zero. An example takes the class
//! where −log p_j + λ_j is least, and abstains where even that is more than θ.

/// λ of every class and θ last, from β = γ g (abstention last) and the mass of the slack row.
pub(crate) fn prices(scaling: &[f64], slack_row: f64, gamma: f64) -> Vec<f64> {
    let top = scaling.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let normaliser = top + scaling.iter().map(|s| (s - top).exp()).sum::<f64>().ln();
    let price = |s: &f64| ((normaliser - s - slack_row.ln()) / gamma).max(0.0);
    scaling.iter().map(price).collect()
}
