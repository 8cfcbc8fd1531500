//! Newton's step on the prices of a tree of bounds, everything else eliminated.
//!
//! With the rows and the caps solved exactly, the dual is a concave function of one multiplier m_v per
//! node of the tree. Its gradient is bound minus sum, its curvature
//!
//! ```text
//! H_vw = Σ_{j below v} Σ_{l below w} G_jl,   G = Σ_i diag(q) − q qᵀ / Σq   (q: entries of row i below the cap;
//!                                                        without the second term where the row is slack)
//! ```
//!
//! and a kink at m_v = 0 where lower and upper bound differ. Coordinate ascent, which is what cyclic projections are,
//! crawls where nodes share rows, because H is far from diagonal there; Newton's step does not care. The kinks
//! are a matter of guessing which bounds hold: the guess is corrected until the model
//! `sums + H d` agrees with it, each time by one solve of the equations
//!
//! ```text
//! (H d)_v = bound_v − sum_v  where a bound holds,     d_v = −m_v  where none does.
//! ```
//!
//! H is singular where bounds repeat each other (a group full of full columns) and where all rows are taken, so its
//! diagonal is raised by a share that goes to zero with the error (Levenberg–Marquardt).

use super::laminar::Tree;
use crate::flow::Bounds;
use crate::kernel::cholesky::cholesky_solve;

/// Which bound of a node is taken to hold.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Holds {
    Lower,
    Upper,
    /// Both are one, and the multiplier may have either sign.
    Both,
    Neither,
}

/// Where Newton's step leads.
#[derive(Debug)]
pub(super) struct Step {
    from: Vec<f64>,
    change: Vec<f64>,
    holds: Vec<Holds>,
}

/// Corrections of the guess; what has not settled by then is left to the check of the step.
const MOST_CORRECTIONS: usize = 20;

impl Step {
    /// The step from `multipliers`, at which the nodes' sums are `sums` and the curvature between
    /// columns is `curvature` (k × k).
    pub(super) fn new(
        tree: &Tree,
        curvature: &[f64],
        multipliers: &[f64],
        sums: &[f64],
        damping: f64,
    ) -> Option<Self> {
        let nodes = multipliers.len();
        let hessian = between_nodes(tree, curvature);
        let mass = sums[tree.root()].max(f64::MIN_POSITIVE);
        let mut holds: Vec<Holds> = (0..nodes)
            .map(|v| match (tree.bounds[v], multipliers[v]) {
                (bounds, _) if bounds.lower == bounds.upper => Holds::Both,
                (_, m) if m < 0.0 => Holds::Upper,
                (_, m) if m > 0.0 => Holds::Lower,
                (bounds, _) => beyond(bounds, sums[v], 0.0),
            })
            .collect();
        let mut change = Vec::new();
        for _ in 0..MOST_CORRECTIONS {
            change = multipliers.iter().map(|m| -m).collect();
            let tight: Vec<usize> = (0..nodes).filter(|&v| holds[v] != Holds::Neither).collect();
            let mut system = Vec::with_capacity(tight.len() * tight.len());
            let mut lacks = Vec::with_capacity(tight.len());
            for &v in &tight {
                let row = &hessian[v * nodes..][..nodes];
                let bounds = tree.bounds[v];
                let target = if holds[v] == Holds::Upper {
                    bounds.upper
                } else {
                    bounds.lower
                };
                let freed: f64 = (0..nodes)
                    .filter(|&w| holds[w] == Holds::Neither)
                    .map(|w| row[w] * change[w])
                    .sum();
                lacks.push(target - sums[v] - freed);
                system.extend(tight.iter().map(|&w| {
                    let raised = damping * row[v] + 1e-14 * mass;
                    if v == w { row[v] + raised } else { row[w] }
                }));
            }
            if !cholesky_solve(&mut system, tight.len(), &mut lacks) {
                return None;
            }
            for (&v, d) in tight.iter().zip(&lacks) {
                change[v] = *d;
            }
            let next: Vec<Holds> = (0..nodes)
                .map(|v| {
                    let bounds = tree.bounds[v];
                    match (holds[v], multipliers[v] + change[v]) {
                        (Holds::Upper, m) if m > 0.0 => Holds::Neither,
                        (Holds::Lower, m) if m < 0.0 => Holds::Neither,
                        (Holds::Neither, _) => {
                            let row = &hessian[v * nodes..][..nodes];
                            let moved: f64 = row.iter().zip(&change).map(|(h, d)| h * d).sum();
                            beyond(bounds, sums[v] + moved, 1e-12 * mass)
                        }
                        (same, _) => same,
                    }
                })
                .collect();
            if next == holds {
                break;
            }
            holds = next;
        }
        change.iter().all(|d| d.is_finite()).then(|| Self {
            from: multipliers.to_vec(),
            change,
            holds,
        })
    }

    /// The share of the step that moves no multiplier by more than `reach`, at most all of it.
    pub(super) fn within(&self, reach: f64) -> f64 {
        (reach / self.length(1.0)).min(1.0)
    }

    /// The most that any multiplier moves in a share of the step.
    pub(super) fn length(&self, share: f64) -> f64 {
        share * self.change.iter().fold(0.0f64, |top, d| top.max(d.abs()))
    }

    /// The multipliers after a share of the step; no price changes sign on the way, it stops at zero.
    pub(super) fn at(&self, share: f64) -> Vec<f64> {
        let moves = self.from.iter().zip(&self.change).zip(&self.holds);
        moves
            .map(|((m, d), holds)| match holds {
                Holds::Both => m + share * d,
                Holds::Upper => (m + share * d).min(0.0),
                Holds::Lower => (m + share * d).max(0.0),
                Holds::Neither => (1.0 - share) * m,
            })
            .collect()
    }
}

/// The bound that a sum is beyond.
fn beyond(bounds: Bounds, sum: f64, slip: f64) -> Holds {
    if sum > bounds.upper + slip {
        Holds::Upper
    } else if sum < bounds.lower - slip {
        Holds::Lower
    } else {
        Holds::Neither
    }
}

/// From the curvature between columns to that between nodes: summed over what is below, on both sides.
fn between_nodes(tree: &Tree, curvature: &[f64]) -> Vec<f64> {
    let nodes = tree.bounds.len();
    let wide: Vec<f64> = curvature
        .chunks_exact(tree.cols)
        .flat_map(|row| tree.sums(row))
        .collect();
    (0..nodes)
        .flat_map(|w| {
            let column: Vec<f64> = wide.iter().skip(w).step_by(nodes).copied().collect();
            tree.sums(&column)
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_step_finds_which_bounds_hold_on_a_diagonal_model() {
        let bounds = |lower, upper| Bounds { lower, upper };
        // Too full, too empty, priced though within its bounds.
        let cols = [bounds(0.0, 1.0), bounds(2.0, 9.0), bounds(0.0, 9.0)];
        let tree = Tree::new(&cols, &[], &[], bounds(0.0, 99.0)).unwrap();
        let curvature = [2.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 3.0];
        let sums = [2.0, 1.0, 3.0, 6.0];
        let step = Step::new(&tree, &curvature, &[0.0, 0.0, -0.5, 0.0], &sums, 0.0).unwrap();
        assert_eq!(step.within(10.0), 1.0);
        assert!((step.length(0.5) - 0.5).abs() < 1e-9);
        for (m, expected) in step.at(1.0).iter().zip([-0.5, 1.0, 0.0, 0.0]) {
            assert!((m - expected).abs() < 1e-9);
        }
    }
}
