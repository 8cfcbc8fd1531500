//! The answer, with what can be proven of it.

use std::sync::OnceLock;

use super::GromovProblem;
use super::bounds::lower_bound;
use super::objective::{Found, FoundPlan};
use crate::{Entry, Status};

/// What is known of a Gromov–Wasserstein value: the least one lies between the bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct GromovCertificate {
    /// No plan does better: from the distributions of relations, which every plan has to rearrange; where columns are free from the best
    /// that each relation can find; zero where only a part is moved (and features' own optimum beside all of them).
    pub lower: f64,
    /// The value of the plan found.
    pub upper: f64,
    /// How fast the objective still descends to first order: ⟨gradient, P − best P'⟩; for an entropic answer the L1 change of the plan in
    /// the last iteration.
    pub stationarity: f64,
}

impl GromovCertificate {
    /// `upper − lower`: zero proves that no plan is better.
    #[must_use]
    pub fn gap(&self) -> f64 {
        self.upper - self.lower
    }
}

/// A matching of two sides, and how good it is.
#[derive(Debug)]
#[must_use = "look at `status` before trusting the answer"]
pub struct GromovSolution<'p> {
    problem: &'p GromovProblem<'p>,
    found: Found,
    epsilon: Option<f64>,
    certificate: OnceLock<GromovCertificate>,
}

impl<'p> GromovSolution<'p> {
    pub(super) fn new(problem: &'p GromovProblem<'p>, found: Found, epsilon: Option<f64>) -> Self {
        Self {
            problem,
            found,
            epsilon,
            certificate: OnceLock::new(),
        }
    }

    /// How the best start ended.
    pub fn status(&self) -> Status {
        self.found.status
    }

    /// The objective at the plan: GW, or the fused sum; without the entropy.
    #[must_use]
    pub fn value(&self) -> f64 {
        self.found.value
    }

    /// The square root of the value: the Gromov–Wasserstein distance for the square loss, of masses that sum to one.
    #[must_use]
    pub fn distance(&self) -> f64 {
        self.found.value.max(0.0).sqrt()
    }

    /// Steps taken, from all starts together.
    #[must_use]
    pub fn iterations(&self) -> usize {
        self.found.iterations
    }

    /// The regularisation; zero for a plan that is not entropic.
    #[must_use]
    pub fn epsilon(&self) -> f64 {
        self.epsilon.unwrap_or(0.0)
    }

    /// Bounds on the least value. The lower one is worked out when first asked for: it sorts all relations, or, for points of
    /// which no table is made, uses their moments.
    #[must_use]
    pub fn certificate(&self) -> &GromovCertificate {
        self.certificate.get_or_init(|| GromovCertificate {
            lower: lower_bound(self.problem).min(self.found.value),
            upper: self.found.value,
            stationarity: self.found.stationarity,
        })
    }

    /// All entries that carry more than `threshold`, by row and column.
    #[must_use]
    pub fn entries(&self, threshold: f64) -> Vec<Entry> {
        let shown = |mass: f64| mass > 0.0 && !(mass <= threshold);
        if let FoundPlan::Sparse {
            background,
            entries,
        } = &self.found.plan
            && *background == 0.0
        {
            let mut entries: Vec<Entry> =
                entries.iter().copied().filter(|e| shown(e.mass)).collect();
            entries.sort_by_key(|e| (e.row, e.col));
            return entries;
        }
        let cols = self.problem.marginals.cols().len();
        let dense = self.to_dense();
        let each = dense.iter().enumerate().filter(|(_, mass)| shown(**mass));
        each.map(|(at, &mass)| Entry {
            row: at / cols,
            col: at % cols,
            mass,
        })
        .collect()
    }

    /// The whole plan, row-major.
    #[must_use]
    pub fn to_dense(&self) -> Vec<f64> {
        let (a, b) = (self.problem.marginals.rows(), self.problem.marginals.cols());
        match &self.found.plan {
            FoundPlan::Dense(plan) => plan.clone(),
            FoundPlan::Sparse {
                background,
                entries,
            } => {
                let mut plan = match background {
                    0.0 => vec![0.0; a.len() * b.len()],
                    _ => a
                        .iter()
                        .flat_map(|a| b.iter().map(move |b| background * a * b))
                        .collect(),
                };
                for e in entries {
                    plan[e.row * b.len() + e.col] += e.mass;
                }
                plan
            }
        }
    }

    /// For each row the column that receives most of its mass; `None` for a row that gives none.
    #[must_use]
    pub fn argmax(&self) -> Vec<Option<usize>> {
        let mut best: Vec<(Option<usize>, f64)> =
            vec![(None, 0.0); self.problem.marginals.rows().len()];
        for e in self.entries(0.0) {
            if e.mass > best[e.row].1 {
                best[e.row] = (Some(e.col), e.mass);
            }
        }
        best.into_iter().map(|b| b.0).collect()
    }
}

/// L1 distance of two lists of entries, each sorted by row and column.
pub(super) fn l1(p: &[Entry], q: &[Entry]) -> f64 {
    let place = |e: &Entry| (e.row, e.col);
    let (mut i, mut j, mut total) = (0, 0, 0.0);
    while i < p.len() || j < q.len() {
        let order = match (p.get(i), q.get(j)) {
            (Some(a), Some(b)) => place(a).cmp(&place(b)),
            (Some(_), None) => core::cmp::Ordering::Less,
            _ => core::cmp::Ordering::Greater,
        };
        total += match order {
            core::cmp::Ordering::Less => p[i].mass,
            core::cmp::Ordering::Greater => q[j].mass,
            core::cmp::Ordering::Equal => (p[i].mass - q[j].mass).abs(),
        };
        i += usize::from(order.is_le());
        j += usize::from(order.is_ge());
    }
    total
}
