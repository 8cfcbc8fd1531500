//! The textbook: every step on the whole augmented matrix, entry by entry, in `f64`.
//!
//! Slack is an ordinary last row and column, the entropic answer is alternating log-sum-exps, the exact one is a linear
//! programme handed to a general solver.

use earthmover::{Cost, Marginals, Problem, Real};

use crate::Programme;
use crate::rng::log_sum_exp;

/// The augmented problem as plain numbers: `rows` × `cols` costs, slack included where it has mass.
#[derive(Debug, Clone)]
pub struct Table {
    /// Rows, the slack row included.
    pub rows: usize,
    /// Columns, the slack column included.
    pub cols: usize,
    /// Costs row-major; +∞ forbids.
    pub cost: Vec<f64>,
    /// Masses of the rows.
    pub a: Vec<f64>,
    /// Masses of the columns.
    pub b: Vec<f64>,
}

/// Writes a problem out, slack row and column last; both are there even where they carry nothing.
pub fn augmented<T: Real, C: Cost<T>>(problem: &Problem<T, C>) -> Table {
    let cost = problem.cost();
    table(|i, j| cost.at(i, j).widen(), problem.marginals())
}

/// The same from costs as plain numbers.
pub(crate) fn table(at: impl Fn(usize, usize) -> f64, masses: &Marginals) -> Table {
    let (n, m) = (masses.rows().len(), masses.cols().len());
    let slack = masses.slack();
    let mut cost = Vec::with_capacity((n + 1) * (m + 1));
    for i in 0..n {
        cost.extend((0..m).map(|j| at(i, j)));
        cost.push(slack.col_cost);
    }
    cost.extend(std::iter::repeat_n(slack.row_cost, m));
    cost.push(slack.corner_cost);
    let with = |real: &[f64], last: f64| real.iter().copied().chain([last]).collect();
    Table {
        rows: n + 1,
        cols: m + 1,
        cost,
        a: with(masses.rows(), slack.row),
        b: with(masses.cols(), slack.col),
    }
}

impl Table {
    /// One cost.
    pub fn at(&self, i: usize, j: usize) -> f64 {
        self.cost[i * self.cols + j]
    }

    /// Σ C_ij P_ij; forbidden pairs may carry up to `speck` and cost nothing then.
    pub fn price(&self, plan: &[f64], speck: f64) -> f64 {
        let both = plan.iter().zip(&self.cost);
        let paid = both.filter(|(p, c)| c.is_finite() || p.abs() > speck);
        paid.map(|(p, c)| p * c).sum()
    }

    /// The entropic plan: alternate exact rows and exact columns until both hold to `1e-13`, or give up.
    pub fn sinkhorn(&self, epsilon: f64) -> Option<Vec<f64>> {
        let (n, m) = (self.rows, self.cols);
        let total: f64 = self.a.iter().sum();
        let (mut f, mut g) = (vec![0.0; n], vec![0.0; m]);
        let log_sum =
            |terms: &mut dyn Iterator<Item = f64>| log_sum_exp(&terms.collect::<Vec<_>>());
        let potential = |mass: f64, log: f64| {
            if mass > 0.0 {
                epsilon * (mass.ln() - log)
            } else {
                f64::NEG_INFINITY
            }
        };
        for _ in 0..100_000 {
            for j in 0..m {
                let log = log_sum(&mut (0..n).map(|i| (f[i] - self.at(i, j)) / epsilon));
                g[j] = potential(self.b[j], log);
            }
            for i in 0..n {
                let log = log_sum(&mut (0..m).map(|j| (g[j] - self.at(i, j)) / epsilon));
                f[i] = potential(self.a[i], log);
            }
            let plan: Vec<f64> = (0..n * m)
                .map(|at| ((f[at / m] + g[at % m] - self.cost[at]) / epsilon).exp())
                .collect();
            let column = |j: usize| (0..n).map(|i| plan[i * m + j]).sum::<f64>();
            let error: f64 = (0..m).map(|j| (column(j) - self.b[j]).abs()).sum();
            if error <= 1e-13 * total {
                return Some(plan);
            }
        }
        None
    }

    /// The optimum of the linear programme, by a general solver; `None` where there is no plan, or that solver gives up.
    pub fn optimum(&self) -> Option<f64> {
        let mut programme = Programme::new(&self.cost, f64::INFINITY);
        let (n, m) = (self.rows, self.cols);
        for i in 0..n {
            programme.sum(i * m..(i + 1) * m, self.a[i], self.a[i]);
        }
        // The last column follows from the others; stating it as well would ask the solver to agree with
        // itself to the last bit.
        for j in 0..m - 1 {
            programme.sum((0..n).map(|i| i * m + j), self.b[j], self.b[j]);
        }
        programme.optimum().ok()
    }
}
