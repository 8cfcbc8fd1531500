//! Point clouds coarse to fine: where an entropic solve at small ε begins.
//!
//! Both clouds are clustered ([`Clusters`]), four points to a cluster and again, until a few hundred are left. The clusters' centres
//! and masses are a small problem of the same kind, at an ε that their size resolves. Its row potentials F say what the column
//! potentials of the next level should be, wherever its columns lie:
//!
//! ```text
//! g(y) = ε ln b − ε ln Σ_I exp((F_I − c(x_I, y))/ε)
//! ```
//!
//! half a step of Sinkhorn's with the coarse rows in place of the fine ones (as the columns' penalty makes it, where they have one). Each level so begins close to its answer, and far
//! mass has found its way where sweeps cost next to nothing. Every level goes on until it has reached the tolerance: what is wrong over
//! long distances takes many sweeps to mend, and is mended where they are cheap. The levels are a start and nothing else: what the answer is worth is
//! measured on the points.

use crate::cost::{Clusters, Points};
use crate::entropic::probe::CostProbe;
use crate::entropic::semidual::SemiDual;
use crate::entropic::sinkhorn::{Epsilon, Limits, SINGLE_TOLERANCE, drive};
use crate::solver::Guard;
use crate::sweep::nearby::{Nearby, is_bounded};
use crate::sweep::{Backend, DualPoint};
use crate::{Cost, Marginals, Problem, Real, Status};

/// Pairs from which on it is worth looking for those that matter.
const LEAST_PAIRS: usize = 1 << 18;

/// Share of the pairs that boxes of points may leave to be looked at.
const MOST_NEAR_SHARE: f64 = 0.3;

/// ε of a level in units of how far, on average, a point costs from its cluster's centre.
const RESOLUTION: f64 = 4.0;

/// What may be left out of a sum that is handed down.
const DROP_TOLERANCE: f64 = 1e-6;

/// Most sweeps of a level above the points.
const MOST_SWEEPS: usize = 300;

/// Share of the work that the levels above the points are taken for.
const COARSE_SHARE: f64 = 0.3;

/// Whether rows see so few columns that sweeps should look for them.
pub(crate) fn suits<T: Real, C: Cost<T>>(problem: &Problem<T, C>, epsilon: f64) -> bool {
    let (n, m) = (problem.rows(), problem.cols());
    let Some(points) = problem.cost().points() else {
        return false;
    };
    if n.saturating_mul(m) < LEAST_PAIRS || !is_bounded(&points) {
        return false;
    }
    let seen = CostProbe::new(problem.cost(), epsilon).effective_support / m as f64;
    // Boxes of 24 columns and 6 rows see what any of their points sees.
    let (d, n, m) = (points.dimension as f64, n as f64, m as f64);
    let side = |share: f64| share.min(1.0).powf(1.0 / d);
    let share = (side(seen) + side(24.0 / m) + side(6.0 / n)).powf(d);
    share <= MOST_NEAR_SHARE
}

/// Column potentials, slack last, for the points to begin with; `None` where there are too few points for levels.
pub(crate) fn start<T: Real, C: Cost<T>>(
    problem: &Problem<T, C>,
    epsilon: f64,
    tolerance: f64,
    guard: &Guard<'_>,
) -> Option<Vec<f64>> {
    let (points, marginals) = (problem.cost().points()?, problem.marginals());
    let d = points.dimension;
    let sides = [
        Clusters::new(points.rows, marginals.rows(), d),
        Clusters::new(points.cols, marginals.cols(), d),
    ];
    let levels = sides.iter().map(Clusters::levels).max()?;
    let mut above: Option<Level<T>> = None;
    for level in (1..=levels).rev() {
        let share = 0.75 * 0.25f64.powi(level as i32 - 1);
        let part = (COARSE_SHARE * (1.0 - share / 0.75), COARSE_SHARE * share);
        let size = sides.iter().map(|s| s.mean_cost(level, points.metric));
        let resolved = epsilon.max(RESOLUTION * size.fold(0.0, f64::max));
        let [(rows, row_masses), (cols, col_masses)] = sides.each_ref().map(|s| s.clusters(level));
        let masses = if marginals.is_relaxed() {
            let (rows, cols) = (marginals.row_penalty(), marginals.col_penalty());
            let relaxed = Marginals::relaxed(&row_masses, &col_masses, rows, cols).ok()?;
            relaxed.with_reference(marginals.reference())
        } else {
            Marginals::with_slack(&row_masses, &col_masses, marginals.slack()).ok()?
        };
        let clusters = Points {
            rows: &rows,
            cols: &cols,
            ..points
        };
        let tolerance = tolerance.max(SINGLE_TOLERANCE);
        let mut semidual = SemiDual::new(&masses);
        let mut backend = Nearby::<T, f32>::new(clusters, masses.rows(), 0.02 * tolerance)?;
        let (g, stages) = match &above {
            None => (semidual.cold_start(), annealed(clusters, resolved)?),
            Some(above) => (above.hand_down(clusters, &masses)?, vec![resolved]),
        };
        let limits = Limits {
            stages,
            tolerance,
            max_iterations: MOST_SWEEPS,
            memory: 10,
            guard,
            spent: 0,
            part: Some(part),
        };
        let g = semidual.fit(g);
        let outcome = drive(&mut backend, &mut semidual, g, &limits).ok()?;
        let mut f = vec![0.0; masses.rows().len()];
        backend.row_potentials(&mut f).ok()?;
        f.iter_mut().for_each(|f| *f -= semidual.lift());
        let slack_row = semidual.slack_row(resolved, &outcome.g, &mut vec![0.0; outcome.g.len()]);
        let slack_col = outcome.g.last().copied()?;
        let stopped = outcome.status == Status::Stopped;
        above = Some(Level {
            rows,
            f,
            epsilon: outcome.epsilon,
            slack: (slack_row, slack_col),
        });
        if stopped {
            break;
        }
    }
    above?.hand_down(points, marginals)
}

/// What a level hands down.
struct Level<T> {
    rows: Vec<T>,
    f: Vec<f64>,
    epsilon: f64,
    /// Potentials of the slack row and column.
    slack: (f64, f64),
}

impl<T: Real> Level<T> {
    /// Potentials for the columns of a finer level, slack last.
    fn hand_down(&self, below: Points<'_, T>, marginals: &Marginals) -> Option<Vec<f64>> {
        let transposed = Points {
            rows: below.cols,
            cols: &self.rows,
            ..below
        };
        let mut backend = Nearby::<T, f32>::new(transposed, marginals.cols(), DROP_TOLERANCE)?;
        backend.obey(&marginals.col_law());
        let slack = marginals.slack();
        let at = DualPoint {
            epsilon: self.epsilon,
            cols: &self.f,
            slack: if slack.row > 0.0 {
                self.slack.0 - slack.row_cost
            } else {
                f64::NEG_INFINITY
            },
        };
        let k = marginals.cols().len();
        backend.sweep(&at, &mut vec![0.0; self.f.len() + 1]).ok()?;
        let mut g = vec![self.slack.1; k + 1];
        backend.row_potentials(&mut g[..k]).ok()?;
        Some(g)
    }
}

/// Values of ε for the coarsest level, which starts from nothing.
fn annealed<T: Real>(clusters: Points<'_, T>, epsilon: f64) -> Option<Vec<f64>> {
    let cost = crate::PointCloud::new(
        clusters.rows,
        clusters.cols,
        clusters.dimension,
        clusters.metric,
    )
    .ok()?;
    let from = CostProbe::new(&cost, epsilon).spread / super::DIRECT_CONTRAST;
    let epsilon = if from > epsilon && from <= 1e300 {
        Epsilon::Annealed {
            from,
            to: epsilon,
            factor: 8.0,
        }
    } else {
        Epsilon::Fixed(epsilon)
    };
    epsilon.stages().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::random::Random;
    use crate::{
        Dense, Entropic, Euclidean, Manhattan, Metric, Penalty, PointCloud, SquaredEuclidean,
    };

    /// What becomes of masses that are not equal.
    #[derive(Clone, Copy, PartialEq)]
    enum Kind {
        Balanced,
        Slack,
        Penalised(Penalty, Penalty),
    }

    /// Points scattered over the unit cube, some of them over a slightly larger one.
    fn points(count: usize, d: usize, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed, 0);
        let far = |at: usize| if at / d % 97 == 5 { 1.3 } else { 1.0 };
        (0..count * d).map(|at| far(at) * random.unit()).collect()
    }

    fn agrees<M: Metric<f64>>(metric: M, d: usize, epsilon: f64, kind: Kind) {
        let (n, m) = (640, 520);
        let (x, y) = (points(n, d, 1), points(m, d, 1 << 40));
        let cloud = PointCloud::new(&x, &y, d, metric).unwrap();
        let mut a: Vec<f64> = (0..n).map(|i| 1.0 + (i % 3) as f64).collect();
        a[7] = 0.0;
        let mut b: Vec<f64> = (0..m).map(|j| 1.0 + (j % 4) as f64).collect();
        b[9] = 0.0;
        let marginals = match kind {
            Kind::Slack => Marginals::bounded(&a, &b, 1000.0).unwrap(),
            Kind::Balanced => Marginals::normalised(&a, &b).unwrap(),
            Kind::Penalised(rows, cols) => Marginals::relaxed(&a, &b, rows, cols).unwrap(),
        };
        let table: Vec<f64> = (0..n * m).map(|at| cloud.at(at / m, at % m)).collect();
        let stored = Problem::new(Dense::new(&table, n, m).unwrap(), marginals.clone()).unwrap();
        let problem = Problem::new(cloud, marginals).unwrap();
        assert!(suits(&problem, epsilon));
        // Beyond what single precision resolves, and within.
        let tight = if kind == Kind::Slack { 1e-4 } else { 1e-6 };
        for tolerance in [1e-4, tight] {
            let solver = Entropic::new(epsilon).tolerance(tolerance);
            let (near, all) = (
                solver.solve(&problem).unwrap(),
                solver.solve(&stored).unwrap(),
            );
            assert!(
                near.status().is_converged(),
                "{} after {}",
                near.status(),
                near.iterations()
            );
            let (proof, other) = (near.certificate(), all.certificate());
            assert!(proof.violation <= tolerance, "{proof:?}");
            assert!((proof.violation - near.violation()).abs() <= 0.1 * tolerance);
            // Both are within the tolerance of the same plan.
            let scale = 20.0 * tolerance * problem.marginals().total();
            assert!(
                (proof.objective - other.objective).abs() <= scale,
                "{proof:?} {other:?}"
            );
        }
    }

    #[test]
    fn clouds_say_what_their_matrices_say() {
        agrees(SquaredEuclidean, 2, 5e-4, Kind::Balanced);
        agrees(SquaredEuclidean, 2, 5e-4, Kind::Slack);
        agrees(Euclidean, 2, 5e-3, Kind::Balanced);
        agrees(Manhattan, 2, 5e-3, Kind::Slack);
        let (kl, tv, exact) = (Penalty::Kl(0.3), Penalty::Tv(0.05), Penalty::Exact);
        for (rows, cols) in [(kl, kl), (tv, kl), (exact, kl), (tv, exact)] {
            agrees(SquaredEuclidean, 2, 5e-4, Kind::Penalised(rows, cols));
        }
    }

    #[test]
    fn what_cannot_be_pruned_is_left_alone() {
        let (x, y) = (points(600, 2, 1), points(600, 2, 1 << 40));
        let uniform = || Marginals::uniform(600, 600).unwrap();
        let cloud = PointCloud::new(&x, &y, 2, SquaredEuclidean).unwrap();
        let wide = Problem::new(&cloud, uniform()).unwrap();
        assert!(suits(&wide, 5e-4) && !suits(&wide, 1.0));
        let cosine = PointCloud::new(&x, &y, 2, crate::Cosine).unwrap();
        assert!(!suits(&Problem::new(cosine, uniform()).unwrap(), 5e-4));
    }
}
