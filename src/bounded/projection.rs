//! Projections in the Kullback–Leibler sense onto bounds on one sum, in the logarithm.
//!
//! ```text
//! min { Σ q_j (ln q_j − l_j − 1) : lower ≤ Σ q_j ≤ upper, q_j ≤ cap }:     q_j = min(cap, e^{x + l_j})
//! ```
//!
//! with x = 0 where that keeps the bounds already, and otherwise such that the bound overstepped holds.

use crate::flow::Bounds;
use crate::kernel::exp::log_sum_exp;

/// The multiplier of a sum that must be zero, in place of −∞: large, and finite to keep the arithmetic honest.
pub(super) const CLOSED: f64 = -1e9;

/// What is left of a sum of entries at their caps up to this share of it is rounding.
const FILLED: f64 = 1e-12;

/// Projects a row: the x nearest to zero for which Σ min(cap, e^{x + l}) is within the bounds, and the row itself in
/// place of l.
pub(super) fn project_row(logits: &mut [f64], bounds: Bounds, cap: f64) -> f64 {
    let mut shift = level(logits.iter().copied(), bounds.upper, cap).min(0.0);
    if shift == 0.0 && bounds.lower > 0.0 {
        shift = level(logits.iter().copied(), bounds.lower, cap).max(0.0);
    }
    let ceiling = cap.ln();
    for logit in logits {
        *logit = if *logit + shift >= ceiling {
            cap
        } else {
            (*logit + shift).exp()
        };
    }
    shift
}

/// The x with Σ min(cap, e^{x + l}) = target; +∞ where even all at the cap fall short.
pub(super) fn level(logits: impl Iterator<Item = f64> + Clone, target: f64, cap: f64) -> f64 {
    if target == f64::INFINITY {
        return target;
    }
    let ceiling = cap.ln();
    // Ignoring the caps overestimates the sum, so this x is too small and the capped set too.
    let mut x = target.ln() - log_sum_exp(logits.clone());
    let mut capped = 0usize;
    loop {
        if x == f64::NEG_INFINITY {
            return x;
        }
        let now = logits.clone().filter(|l| l + x >= ceiling).count();
        if now == capped {
            return x;
        }
        capped = now;
        let left = target - cap * capped as f64;
        let free = log_sum_exp(logits.clone().filter(|l| l + x < ceiling));
        if free == f64::NEG_INFINITY {
            // Only a rounding error may be left over.
            return if left > FILLED * target {
                f64::INFINITY
            } else {
                x
            };
        }
        let next = left.max(0.0).ln() - free;
        if next <= x {
            return x;
        }
        x = next;
    }
}

/// The multiplier that takes a sum (given by its logarithm, without it) into its bounds.
pub(super) fn corrected(log_sum: f64, bounds: Bounds) -> f64 {
    if log_sum == f64::NEG_INFINITY {
        return 0.0;
    }
    let (low, high) = (bounds.lower.ln(), bounds.upper.ln());
    if log_sum > high {
        // An upper bound of zero has the price +∞; a large finite one keeps the arithmetic honest.
        (high - log_sum).max(CLOSED)
    } else if log_sum < low {
        low - log_sum
    } else {
        0.0
    }
}
