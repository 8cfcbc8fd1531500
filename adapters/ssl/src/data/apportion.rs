//! Whole numbers in given proportions.
//!
//! Given shares p ∈ Δ_k and a total n, find integers n_j ≥ m with Σ n_j = n close to n p_j. Start from
//! n_j = max(m, ⌊n p_j⌋), then hand out what remains one at a time to the class with the largest
//! shortfall n p_j − n_j. With m = 0 this is the method of largest remainders. With m > 0 the start may
//! already exceed n (many rare classes); then one at a time is taken from the class furthest above its
//! share among those that still have more than m.

/// The counts; all `minimum` (in total more than `total`) when `total < minimum · k`. Ties go to the
/// lowest class.
pub(super) fn apportion(total: usize, shares: &[f64], minimum: usize) -> Vec<usize> {
    let ideal: Vec<f64> = shares.iter().map(|p| p * total as f64).collect();
    // Products such as 0.1·30 may fall a hair short of the integer they stand for.
    let mut counts: Vec<usize> = ideal
        .iter()
        .map(|x| ((x + 1e-9).floor() as usize).max(minimum))
        .collect();
    let mut sum: usize = counts.iter().sum();
    while sum < total {
        let Some(j) = largest(ideal.iter().zip(&counts).map(|(x, &c)| x - c as f64)) else {
            break;
        };
        counts[j] += 1;
        sum += 1;
    }
    while sum > total {
        let surplus = ideal.iter().zip(&counts).map(|(x, &c)| {
            if c > minimum {
                c as f64 - x
            } else {
                f64::NEG_INFINITY
            }
        });
        let Some(j) = largest(surplus) else { break };
        counts[j] -= 1;
        sum -= 1;
    }
    counts
}

fn largest(values: impl Iterator<Item = f64>) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for (j, value) in values.enumerate() {
        if value > f64::NEG_INFINITY && best.is_none_or(|(_, top)| value > top + 1e-9) {
            best = Some((j, value));
        }
    }
    best.map(|(j, _)| j)
}

#[cfg(test)]
mod tests {
    use super::apportion;

    #[test]
    fn largest_remainders() {
        assert_eq!(apportion(10, &[0.55, 0.25, 0.2], 0), [6, 2, 2]);
        assert_eq!(apportion(7, &[0.5, 0.5], 0), [4, 3]);
        assert_eq!(apportion(0, &[0.5, 0.5], 0), [0, 0]);
        assert!(apportion(5, &[], 0).is_empty());
    }

    #[test]
    fn minimum_is_kept_and_paid_for_by_the_largest() {
        assert_eq!(apportion(10, &[0.9, 0.05, 0.05], 1), [8, 1, 1]);
        assert_eq!(apportion(3, &[0.9, 0.05, 0.05], 1), [1, 1, 1]);
        assert_eq!(apportion(2, &[0.9, 0.05, 0.05], 1), [1, 1, 1]);
    }
}
