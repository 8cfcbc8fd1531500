//! From class bounds and the share ρ to the masses of a transport problem.
//!
//! With n examples of row bound a_i (one unless a curriculum says less), A = Σ a_i, and upper bounds b:
//!
//! ```text
//! minimise ⟨Q, C⟩   subject to   Q ≥ 0,   Q1 ≤ a,   Qᵀ1 ≤ 1 + n b,   ΣQ ≥ m,
//! m = A ρ − (A − n Σb)₊ − 1.
//! ```
//!
//! For a = 1 that is the paper's problem: (A − nΣb)₊ = n μ₊ with μ = 1 − Σb. Slack variables turn it into
//! transport with one more row and column of masses
//!
//! ```text
//! slack row  Σ(1 + n b) − m = 1 + k + n(1 − ρ − μ₋),     slack column  A − m = 1 + n(1 − ρ + μ₊).
//! ```
//!
//! Both are at least one, so that for bounds that are not negative the problem is never infeasible: the ones
//! added to the caps and taken from m are what keeps it strictly feasible.

use super::Bounds;

/// Masses of the augmented transport problem.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Masses {
    /// Caps of the classes, 1 + n b.
    pub(crate) caps: Vec<f64>,
    /// Mass of the slack row.
    pub(crate) slack_row: f64,
    /// Mass of the slack column.
    pub(crate) slack_col: f64,
}

impl Masses {
    /// `supply` is A, the sum of the row bounds.
    pub(crate) fn new(bounds: &Bounds, examples: usize, supply: f64, rho: f64) -> Self {
        let n = examples as f64;
        let caps: Vec<f64> = bounds.upper().iter().map(|b| 1.0 + n * b).collect();
        let room = n * bounds.upper().iter().sum::<f64>();
        let least = supply * rho - (supply - room).max(0.0) - 1.0;
        Self {
            slack_row: caps.iter().sum::<f64>() - least,
            slack_col: supply - least,
            caps,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn both_sides_carry_the_mass_of_the_paper() {
        for (upper, rho) in [
            (vec![1.0; 4], 0.0),
            (vec![0.25; 4], 1.0),
            (vec![0.1, 0.2, 0.3, 0.05], 0.7),
            (vec![0.0; 4], 0.3),
        ] {
            let (n, k) = (1000.0, 4.0);
            let mu: f64 = 1.0 - upper.iter().sum::<f64>();
            let masses = Masses::new(&Bounds::given(&upper).unwrap(), 1000, n, rho);
            let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
            close(masses.slack_row, 1.0 + k + n * (1.0 - rho - mu.min(0.0)));
            close(masses.slack_col, 1.0 + n * (1.0 - rho + mu.max(0.0)));
            close(
                n + masses.slack_row,
                masses.caps.iter().sum::<f64>() + masses.slack_col,
            );
        }
    }
}
