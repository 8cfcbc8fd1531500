//! Points on a line: sorting is solving.
//!
//! ```text
//! c(x, y) = φ(x − y), φ convex:     x ≤ x', y ≤ y'   ⟹   c(x, y) + c(x', y')  ≤  c(x, y') + c(x', y)
//! ```
//!
//! So no two ways of an optimal plan need cross: both sides sorted, mass goes from the first of the rows to the first of the
//! columns, and on to the next of whichever is used up. That is a staircase of at most n + m − 1 entries, and the prices that make its
//! steps tight, f_i + g_j = C_ij, are feasible everywhere. From step to step they change by a difference of two costs; these are
//! added up with what rounding takes, so that the last price is as good as the first.
//!
//! In single precision the rounding of the costs themselves is enough to make another plan the better one by their last digit: there
//! the simplex goes its way.

use crate::cost::Points;
use crate::kernel::rounding::{REMAINDER, Sum};
use crate::kernel::tiles::both;
use crate::problem::Erased;
use crate::solution::plan::{Representation, SparseRows};
use crate::solver::Guard;
use crate::{Cost, Error, Potentials, Progress, Real, Solution, Status};

/// The answer for points on a line, where the costs are of that kind; `None` otherwise.
pub(super) fn solve<'p, 'c, T: Real>(
    problem: &'p Erased<'c, T>,
    guard: &Guard<'_>,
) -> Result<Option<Solution<'p, T, &'c dyn Cost<T>>>, Error> {
    let (marginals, slack) = (problem.marginals(), problem.marginals().slack());
    let exact = slack.row == 0.0 && slack.col == 0.0 && T::epsilon().widen() <= f64::EPSILON;
    let Some(points) = problem.cost().points() else {
        return Ok(None);
    };
    if !(exact && points.dimension == 1 && points.metric.is_convex_on_a_line()) {
        return Ok(None);
    }
    crate::problem::check::entries(problem)?;
    let found = Staircase::walk(points, marginals.rows(), marginals.cols());
    let now = Progress {
        iteration: 0,
        violation: 0.0,
        epsilon: 0.0,
        done: 1.0,
        gap: 0.0,
    };
    let status = if guard.says_stop(&now) {
        Status::Stopped
    } else {
        Status::Converged
    };
    let mut off = found.left;
    for (j, &b) in marginals.cols().iter().enumerate() {
        off += (found.taken[j] - b).abs();
    }
    let potentials = Potentials {
        rows: found.f,
        cols: found.g,
        slack_row: f64::NEG_INFINITY,
        slack_col: f64::NEG_INFINITY,
    };
    let plan = SparseRows::new(problem.rows(), found.arcs);
    Ok(Some(Solution::new(
        problem,
        potentials,
        Representation::Sparse(plan),
        status,
        0,
        Some(off / marginals.total()),
    )))
}

/// The plan along both sorted sides, with its prices; −∞ where there is no mass.
struct Staircase {
    arcs: Vec<(usize, usize, f64)>,
    f: Vec<f64>,
    g: Vec<f64>,
    /// What rows could not place, by rounding of the totals, and what each column has.
    left: f64,
    taken: Vec<f64>,
}

impl Staircase {
    fn walk<T: Real>(points: Points<'_, T>, a: &[f64], b: &[f64]) -> Self {
        let (rows, cols) = both(|| sorted(points.rows, a), || sorted(points.cols, b));
        let mut found = Self {
            arcs: Vec::with_capacity(rows.len() + cols.len()),
            f: vec![f64::NEG_INFINITY; a.len()],
            g: vec![f64::NEG_INFINITY; b.len()],
            left: 0.0,
            taken: vec![0.0; b.len()],
        };
        let cost = |s: usize, t: usize| {
            let (x, y) = (rows[s] as usize, cols[t] as usize);
            let c = points
                .metric
                .distance(&points.rows[x..=x], &points.cols[y..=y]);
            c.widen()
        };
        let (mut s, mut t) = (0, 0);
        let mut now = cost(s, t);
        let (mut f, mut g) = (Sum::default(), Sum::default());
        g.add(now);
        let (mut left, mut room) = (a[rows[s] as usize], b[cols[t] as usize]);
        // The middle of the column prices, by mass, is what they are centred at: a sum of two large numbers has fewer digits.
        let (mut centre, total) = (0.0, b.iter().sum::<f64>());
        loop {
            let (i, j) = (rows[s] as usize, cols[t] as usize);
            (found.f[i], found.g[j]) = (f.value(), g.value());
            let moved = left.min(room);
            if moved > 0.0 {
                found.arcs.push((i, j, moved));
                found.taken[j] += moved;
                centre += g.value() * (moved / total);
            }
            let dust = REMAINDER * a[i].max(b[j]);
            left = if left - moved <= dust {
                0.0
            } else {
                left - moved
            };
            room = if room - moved <= dust {
                0.0
            } else {
                room - moved
            };
            let (more_rows, more_cols) = (s + 1 < rows.len(), t + 1 < cols.len());
            // Where both are used up the row goes first: the step between has no mass, and prices all the same.
            if more_rows && (left == 0.0 || !more_cols) {
                found.left += left;
                s += 1;
                left = a[rows[s] as usize];
                let next = cost(s, t);
                f.add(next);
                f.add(-now);
                now = next;
            } else if more_cols {
                t += 1;
                room = b[cols[t] as usize];
                let next = cost(s, t);
                g.add(next);
                g.add(-now);
                now = next;
            } else {
                found.left += left;
                break;
            }
        }
        if centre.is_finite() {
            found.f.iter_mut().for_each(|f| *f += centre);
            found.g.iter_mut().for_each(|g| *g -= centre);
        }
        found
    }
}

/// The points with mass, from left to right.
fn sorted<T: Real>(points: &[T], masses: &[f64]) -> Vec<u32> {
    let carrying = masses.iter().enumerate().filter(|m| *m.1 > 0.0);
    let mut order: Vec<(f64, u32)> = carrying
        .map(|(at, _)| (points[at].widen(), at as u32))
        .collect();
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    order.into_iter().map(|(_, at)| at).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::kernel::random::Random;
    use crate::{
        Algorithm, Cost, Euclidean, Exact, Manhattan, Marginals, Metric, PointCloud, Problem,
        SquaredEuclidean,
    };

    /// |x − y|³, which is convex, and said to be.
    struct Cubed;

    impl Metric<f64> for Cubed {
        fn distance(&self, x: &[f64], y: &[f64]) -> f64 {
            (x[0] - y[0]).abs().powi(3)
        }
        fn is_convex_on_a_line(&self) -> bool {
            true
        }
    }

    fn sorts_like_the_simplex(metric: &dyn Metric<f64>, copies: bool) {
        let (n, m) = (61, 47);
        let mut random = Random::new(3, 0);
        let step = if copies { 8.0 } else { 1e6 };
        let mut side = |count: usize| -> (Vec<f64>, Vec<f64>) {
            let at = (0..count).map(|_| (step * random.normal()).round() / step);
            let at: Vec<f64> = at.collect();
            (at, (0..count).map(|i| (i * 7 % 5) as f64).collect())
        };
        let ((x, a), (y, b)) = (side(n), side(m));
        let cost = PointCloud::new(&x, &y, 1, metric).unwrap();
        let problem = Problem::new(cost, Marginals::normalised(&a, &b).unwrap()).unwrap();
        let found = Exact::new().solve(&problem).unwrap();
        let simplex = Exact::new().algorithm(Algorithm::NetworkSimplex);
        let oracle = simplex.solve(&problem).unwrap();
        assert_eq!(found.iterations(), 0);
        assert!(found.status().is_converged() && found.violation() < 1e-15);
        let (proof, other) = (found.certificate(), oracle.certificate());
        assert!(proof.relative_gap() < 1e-13, "{proof:?}");
        assert!((proof.primal - other.primal).abs() <= 1e-13 * other.primal);
        // Prices are feasible everywhere, not only where mass is.
        let (prices, cost) = (found.potentials(), problem.cost());
        for (i, f) in prices.rows.iter().enumerate() {
            for (j, g) in prices.cols.iter().enumerate() {
                assert!(f + g <= cost.at(i, j) + 1e-12);
            }
        }
    }

    #[test]
    fn sorting_solves_convex_costs() {
        for copies in [false, true] {
            sorts_like_the_simplex(&SquaredEuclidean, copies);
            sorts_like_the_simplex(&Euclidean, copies);
            sorts_like_the_simplex(&Manhattan, copies);
            sorts_like_the_simplex(&Cubed, copies);
        }
    }
}
