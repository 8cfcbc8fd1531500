//! Costs without what all of a row, or all of a column, have in common.
//!
//! ```text
//! C'_ij = C_ij − m_i − w_j        m_i = min_j C_ij        w_j = min_i (C_ij − m_i)        f = f' + m,   g = g' + w
//! ```
//!
//! No plan is better or worse for an offset, but a solver that compares sums of costs spends its digits on it: at 10¹⁵ every
//! difference below one is lost, and a plan is called optimal that is not. Where a look at a few rows finds offsets that are
//! large beside what is left without them, the problem is solved without them, in `f64`. With slack, or prices for missing a mass, a
//! constant does matter, and stays.

use crate::cost::lend_row;
use crate::problem::Erased;
use crate::problem::check::survey;
use crate::solution::Answer;
use crate::{Cost, Dense, Error, Potentials, Problem, Real};

/// Rows looked at before it is known whether there is anything to take off.
const SAMPLED_ROWS: usize = 64;

/// Offsets of so many times what is left without them cost more digits than a solver has to spare.
const LARGE_OFFSET: f64 = 1e4;

/// What the copy without offsets may take at most.
const MOST_BYTES: usize = 1 << 28;

/// A cost and its offsets apart.
pub(crate) struct Offsets {
    entries: Vec<f64>,
    rows: Vec<f64>,
    cols: Vec<f64>,
}

impl Offsets {
    /// The offsets of a problem's costs, where they are large; `None` where they are not, or matter, or the copy would.
    pub(crate) fn of<T: Real>(problem: &Erased<'_, T>) -> Option<Self> {
        let (marginals, cost) = (problem.marginals(), *problem.cost());
        let (n, k) = (cost.rows(), cost.cols());
        let slack = marginals.slack();
        let matter = slack.row > 0.0 || slack.col > 0.0 || marginals.is_relaxed();
        let bytes = n.checked_mul(k)?.checked_mul(size_of::<f64>())?;
        if matter || bytes > MOST_BYTES || cost.points().is_some() {
            return None;
        }
        let sampled = n.min(SAMPLED_ROWS);
        let few = Self::apart(cost, (0..sampled).map(|r| r * n / sampled));
        // What is no cost is for the solver to find, in the costs as they were given.
        (few.is_large() && survey(cost, marginals).is_ok()).then(|| Self::apart(cost, 0..n))
    }

    fn apart<T: Real>(cost: &dyn Cost<T>, chosen: impl Iterator<Item = usize>) -> Self {
        let k = cost.cols();
        let finite_or_zero = |x: f64| if x.is_finite() { x } else { 0.0 };
        let mut room = vec![T::zero(); k];
        let (mut entries, mut rows) = (Vec::new(), Vec::new());
        for i in chosen {
            let line = lend_row(cost, i, &mut room).iter().map(|c| c.widen());
            let least = finite_or_zero(line.clone().fold(f64::INFINITY, f64::min));
            entries.extend(line.map(|c| c - least));
            rows.push(least);
        }
        let mut cols = vec![f64::INFINITY; k];
        for line in entries.chunks_exact(k) {
            cols.iter_mut().zip(line).for_each(|(w, c)| *w = w.min(*c));
        }
        cols.iter_mut().for_each(|w| *w = finite_or_zero(*w));
        for line in entries.chunks_exact_mut(k) {
            line.iter_mut().zip(&cols).for_each(|(c, w)| *c -= w);
        }
        Self {
            entries,
            rows,
            cols,
        }
    }

    /// Whether the offsets are large beside half of what is left without them: a few pairs that are as good as forbidden say nothing.
    fn is_large(&self) -> bool {
        let largest = |offsets: &[f64]| offsets.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        let offset = largest(&self.rows).max(largest(&self.cols));
        let left = self.entries.iter().copied();
        let mut left: Vec<f64> = left.filter(|c| *c > 0.0 && c.is_finite()).collect();
        let middle = left.len() / 2;
        let typical = match left.is_empty() {
            true => 0.0,
            false => *left.select_nth_unstable_by(middle, f64::total_cmp).1,
        };
        offset > LARGE_OFFSET * typical
    }

    /// The answer of the problem from that of the problem without offsets.
    pub(crate) fn answer<T: Real>(
        &self,
        problem: &Erased<'_, T>,
        start: Option<&Potentials>,
        solve: impl FnOnce(&Erased<'_, f64>, Option<&Potentials>) -> Result<Answer, Error>,
    ) -> Result<Answer, Error> {
        let (n, k) = (problem.rows(), problem.cols());
        let start = start.map(|start| {
            let mut start = start.clone();
            start
                .cols
                .iter_mut()
                .zip(&self.cols)
                .for_each(|(g, w)| *g -= w);
            start
        });
        let cost = Dense::new(&self.entries, n, k)?;
        let reduced = Problem::new(cost, problem.marginals().clone())?;
        Ok(solve(&reduced.erased(), start.as_ref())?.raised(&self.rows, &self.cols))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Exact, Marginals, NetworkSimplex, ShortestPaths};

    /// Costs that are whole numbers below a hundred; offsets that are whole, so that nothing is rounded on the way.
    fn shifted(n: usize, k: usize, rows: f64, cols: f64) -> (Vec<f64>, Vec<f64>) {
        let plain = |i: usize, j: usize| ((i * 37 + j * 53 + i * j * 11) % 97) as f64;
        let offset = |i: usize, j: usize| rows * (i % 5) as f64 + cols * (1 + j % 3) as f64;
        let pairs = || (0..n * k).map(|at| (at / k, at % k));
        let moved = pairs().map(|(i, j)| plain(i, j) + offset(i, j));
        (pairs().map(|(i, j)| plain(i, j)).collect(), moved.collect())
    }

    #[test]
    fn offsets_change_no_plan() {
        for (n, k) in [(2, 2), (5, 20), (20, 5), (12, 12)] {
            for (rows, cols) in [(1e15, 0.0), (0.0, 1e15), (1e14, 3e14), (-1e13, 1e12)] {
                let (plain, moved) = shifted(n, k, rows, cols);
                let masses = Marginals::uniform(n, k).unwrap();
                let worth =
                    |plan: Vec<f64>| -> f64 { plan.iter().zip(&plain).map(|(p, c)| p * c).sum() };
                let plainly =
                    Problem::new(Dense::new(&plain, n, k).unwrap(), masses.clone()).unwrap();
                let best = Exact::new().solve(&plainly).unwrap().objective();
                let problem = Problem::new(Dense::new(&moved, n, k).unwrap(), masses).unwrap();
                let answers = [
                    Exact::new().solve(&problem).unwrap(),
                    NetworkSimplex::new().solve(&problem).unwrap(),
                    ShortestPaths::new().solve(&problem).unwrap(),
                ];
                for answer in answers {
                    assert!(answer.status().is_converged());
                    let found = worth(answer.plan().to_dense());
                    assert!(
                        (found - best).abs() <= 1e-9,
                        "{n} x {k}: {found} for {best}"
                    );
                    let start = answer.potentials();
                    let again = NetworkSimplex::new().solve_from(&problem, start).unwrap();
                    assert!((worth(again.plan().to_dense()) - best).abs() <= 1e-9);
                }
            }
        }
    }
}
