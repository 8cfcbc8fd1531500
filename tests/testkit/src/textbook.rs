//! The textbook: every step on the whole augmented matrix, entry by entry, in `f64`.
//!
//! Slack is an ordinary last row and column, the entropic answer is alternating log-sum-exps, the exact one is a linear
//! programme handed to a general solver.

use earthmover::{Cost, Marginals, Penalty, Problem, Real, Reference};

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

    /// Σ C_ij P_ij; forbidden pairs may carry up to `tolerance` and cost nothing then.
    pub fn price(&self, plan: &[f64], tolerance: f64) -> f64 {
        let both = plan.iter().zip(&self.cost);
        let paid = both.filter(|(p, c)| c.is_finite() || p.abs() > tolerance);
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

/// The entropic plan of penalised masses: each side's best potentials in turn, until none moves, or give up.
///
/// ```text
/// P = ρ exp((φ + ψ − C)/ε)      φ* = ε ln a − ε ln Σ_j ρ exp((ψ − C)/ε)      φ = φ*,  τ/(τ+ε) φ*  or  φ* cut to ±τ
/// ```
pub fn relaxed_plan<T: Real, C: Cost<T>>(
    problem: &Problem<T, C>,
    epsilon: f64,
) -> Option<Vec<f64>> {
    let masses = problem.marginals();
    let (a, b) = (masses.rows(), masses.cols());
    let (n, m) = (a.len(), b.len());
    let weigh = |mass: f64| match masses.reference() {
        _ if mass == 0.0 => f64::NEG_INFINITY,
        Reference::Product => mass.ln(),
        Reference::Counting => 0.0,
    };
    let best = |penalty: Penalty, mass: f64, logits: &[f64]| {
        let log = log_sum_exp(logits);
        if mass == 0.0 || log == f64::NEG_INFINITY {
            return 0.0;
        }
        let exact = epsilon * (mass.ln() - weigh(mass) - log);
        match penalty {
            Penalty::Kl(tau) => tau / (tau + epsilon) * exact,
            Penalty::Tv(tau) => exact.clamp(-tau, tau),
            _ => exact,
        }
    };
    let logit = |i: usize, j: usize| {
        let cost = problem.cost().at(i, j).widen();
        if cost == f64::INFINITY {
            f64::NEG_INFINITY
        } else {
            -cost / epsilon
        }
    };
    let (mut phi, mut psi) = (vec![0.0; n], vec![0.0; m]);
    for _ in 0..200_000 {
        let before = (phi.clone(), psi.clone());
        for j in 0..m {
            let logits: Vec<f64> = (0..n)
                .map(|i| weigh(a[i]) + phi[i] / epsilon + logit(i, j))
                .collect();
            psi[j] = best(masses.col_penalty(), b[j], &logits);
        }
        for i in 0..n {
            let logits: Vec<f64> = (0..m)
                .map(|j| weigh(b[j]) + psi[j] / epsilon + logit(i, j))
                .collect();
            phi[i] = best(masses.row_penalty(), a[i], &logits);
        }
        let pairs = phi.iter().zip(&before.0).chain(psi.iter().zip(&before.1));
        let moved = pairs
            .map(|(now, then)| (now - then).abs())
            .fold(0.0, f64::max);
        let largest = phi.iter().chain(&psi).fold(0.0, |m: f64, p| m.max(p.abs()));
        if moved <= 1e-15 * largest + 1e-13 * epsilon * RATE {
            let entry = |at: usize| {
                let (i, j) = (at / m, at % m);
                (weigh(a[i]) + weigh(b[j]) + (phi[i] + psi[j]) / epsilon + logit(i, j)).exp()
            };
            return Some((0..n * m).map(entry).collect());
        }
    }
    None
}

/// How much closer than a step the end has to be: steps under a penalty of 10⁴ ε shrink by that share only.
const RATE: f64 = 1e-4;
