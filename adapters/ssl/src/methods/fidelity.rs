//! How far the entropic allocation is from the linear programme it stands for.
//!
//! The allocation a training step uses solves a regularised problem, and that only to a tolerance. On the same
//! costs, caps and share ρ the exact solver has
//!
//! ```text
//! L = min ⟨C, Q⟩   subject to   Q ≥ 0,  Q1 ≤ a,  Qᵀ1 ≤ 1 + n b,  ΣQ ≥ m
//! ```
//!
//! and the plan Q_γ is judged beside it: its own cost ⟨C, Q_γ⟩, which may lie on either side of L because its column sums
//! are off by the tolerance; the cost U ≥ L of the feasible plan next to it; the lower bound D ≤ L its potentials
//! prove; and the share of the examples labeled in the programme that get the same class from argmax Q_γ. Examples that
//! no batch has held yet cost log k in every class: their labels are a matter of taste and are not counted.
//!
//! Nothing here changes the allocator: it is read, and what is solved is solved on the side.

use std::time::Instant;

use earthmover::{
    Dense, Entropic, Exact, Marginals, Potentials, Problem, Sinkhorn, Slack, Solution,
};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::allocation::LabelAllocator;

/// Whose plan is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The one the run uses, as its last solve left it.
    Run,
    /// One solved on the side to a tolerance of 10⁻⁶.
    Solved,
}

/// One plan beside the linear programme; costs are sums over the examples, in nats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fidelity {
    /// After which step.
    pub step: u64,
    /// Examples n.
    pub examples: usize,
    /// Share ρ asked for.
    pub rho: f64,
    /// Inverse regularisation of the plan.
    pub gamma: f64,
    /// Whose plan it is.
    pub source: Source,
    /// Optimum L of the linear programme.
    pub optimum: f64,
    /// Mass the programme allocates.
    pub optimum_mass: f64,
    /// Cost of the plan as it is.
    pub objective: f64,
    /// Mass it allocates.
    pub mass: f64,
    /// Cost U of the feasible plan next to it.
    pub upper: f64,
    /// The bound D on the optimum that its potentials prove.
    pub lower: f64,
    /// L1 error of its marginals over the total mass.
    pub violation: f64,
    /// Of the examples that the programme labels and a batch has held, the share with the same label; `None` where there
    /// are none.
    pub agreement: Option<f64>,
    /// Seconds of the exact solve.
    pub exact_seconds: f64,
}

impl Fidelity {
    /// (U − L)/n: nats per example that the plan costs above the optimum once it is made feasible.
    ///
    /// # Examples
    /// ```
    /// use earthmover_ssl::methods::{Fidelity, Source};
    /// let record = Fidelity {
    ///     step: 0, examples: 10, rho: 1.0, gamma: 100.0, source: Source::Run, optimum: 2.0, optimum_mass: 9.0,
    ///     objective: 2.1, mass: 9.0, upper: 2.5, lower: 1.5, violation: 0.0, agreement: Some(1.0), exact_seconds: 0.0,
    /// };
    /// assert_eq!(record.gap(), 0.05);
    /// ```
    #[must_use]
    pub fn gap(&self) -> f64 {
        (self.upper - self.optimum) / self.examples.max(1) as f64
    }
}

/// The linear programme of the allocator's present costs, bounds and share, solved exactly, beside the plan in use
/// and beside those of other `gammas`.
pub(super) fn compare(
    allocator: &LabelAllocator,
    step: u64,
    gammas: &[f64],
) -> Result<Vec<Fidelity>, Error> {
    let (n, k) = (allocator.held().len(), allocator.classes());
    let costs: Vec<f64> = allocator.costs().iter().map(|c| f64::from(*c)).collect();
    let masses = allocator.engine.masses();
    let slack = Slack::new(masses.slack_row, masses.slack_col);
    let rows = match allocator.engine.row_masses() {
        Some(rows) => rows.to_vec(),
        None => vec![1.0; n],
    };
    let marginals = Marginals::with_slack(&rows, &masses.caps, slack)?;
    let problem = Problem::new(Dense::new(&costs, n, k)?, marginals)?;

    let started = Instant::now();
    let exact = Exact::new().solve(&problem)?;
    let exact_seconds = started.elapsed().as_secs_f64();
    let mut labels = exact.plan().argmax();
    for (label, row) in labels.iter_mut().zip(costs.chunks_exact(k)) {
        *label = label.filter(|_| row.iter().any(|c| *c != row[0]));
    }
    let labeled = labels.iter().flatten().count();
    let judge = |gamma: f64, source, solution: &Solution<'_, f64, Dense<'_, f64>>| {
        let certificate = solution.certificate();
        let given = solution.plan().argmax();
        let same = labels
            .iter()
            .zip(&given)
            .filter(|(l, g)| l.is_some() && l == g);
        Fidelity {
            step,
            examples: n,
            rho: allocator.rho(),
            gamma,
            source,
            optimum: exact.objective(),
            optimum_mass: exact.certificate().mass,
            objective: certificate.objective,
            mass: certificate.mass,
            upper: certificate.primal,
            lower: certificate.dual,
            violation: certificate.violation,
            agreement: (labeled > 0).then(|| same.count() as f64 / labeled as f64),
            exact_seconds,
        }
    };

    let gamma = allocator.gamma();
    let scaling = allocator.engine.scaling();
    let used = Potentials::from_columns(scaling[..k].iter().map(|beta| beta / gamma).collect())
        .slack(0.0, scaling[k] / gamma);
    // No iteration: the plan of these potentials as they are.
    let own = Sinkhorn::new(1.0 / gamma)
        .max_iterations(0)
        .solve_from(&problem, &used)?;
    let mut records = vec![judge(gamma, Source::Run, &own)];
    for &gamma in gammas {
        let solved = Entropic::new(1.0 / gamma).tolerance(1e-6).solve(&problem)?;
        records.push(judge(gamma, Source::Solved, &solved));
    }
    Ok(records)
}
