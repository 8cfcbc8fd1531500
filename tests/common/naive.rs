//! The textbook: every step on the whole augmented matrix, entry by entry, in `f64`.
//!
//! Nothing here is clever, and nothing here is taken from the library: slack is an ordinary last row and
//! column, the entropic answer is alternating log-sum-exps, the exact one is a linear programme handed to
//! a general solver.

use earthmover::{Cost, Problem, Real};
use microlp::{ComparisonOp, OptimizationDirection};

/// The augmented problem as plain numbers: `rows` × `cols` costs, slack included where it has mass.
#[derive(Debug, Clone)]
pub struct Table {
    pub rows: usize,
    pub cols: usize,
    pub cost: Vec<f64>,
    pub a: Vec<f64>,
    pub b: Vec<f64>,
}

/// Writes a problem out, slack row and column last; both are there even where they carry nothing.
pub fn augmented<T: Real, C: Cost<T>>(problem: &Problem<T, C>) -> Table {
    let (n, m) = (problem.rows(), problem.cols());
    let masses = problem.marginals();
    let slack = masses.slack();
    let mut cost = Vec::with_capacity((n + 1) * (m + 1));
    for i in 0..n {
        cost.extend((0..m).map(|j| problem.cost().at(i, j).widen()));
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
        let log_sum = |terms: &mut dyn Iterator<Item = f64>| {
            let terms: Vec<f64> = terms.collect();
            let top = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if top == f64::NEG_INFINITY {
                return top;
            }
            top + terms.iter().map(|t| (t - top).exp()).sum::<f64>().ln()
        };
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

    /// The optimum of the linear programme, by a general solver; `None` where that solver gives up.
    pub fn optimum(&self) -> Option<f64> {
        let mut lp = microlp::Problem::new(OptimizationDirection::Minimize);
        let variables: Vec<_> = self
            .cost
            .iter()
            .map(|&c| c.is_finite().then(|| lp.add_var(c, (0.0, f64::INFINITY))))
            .collect();
        let sum = |entries: &mut dyn Iterator<Item = usize>| -> Vec<_> {
            entries
                .filter_map(|at| variables[at].map(|v| (v, 1.0)))
                .collect()
        };
        let (n, m) = (self.rows, self.cols);
        for i in 0..n {
            let row = sum(&mut (i * m..(i + 1) * m));
            lp.add_constraint(&row[..], ComparisonOp::Eq, self.a[i]);
        }
        // The last column follows from the others; stating it as well would ask the solver to agree with
        // itself to the last bit.
        for j in 0..m - 1 {
            let col = sum(&mut (0..n).map(|i| i * m + j));
            lp.add_constraint(&col[..], ComparisonOp::Eq, self.b[j]);
        }
        let solution = lp.solve().ok()?.into_solution().ok()?;
        Some(solution.objective())
    }
}
