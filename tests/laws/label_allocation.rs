//! The label-allocation programme of semi-supervised learning, stated as its authors do:
//!
//! ```text
//! minimise Σ C_ij Q_ij   subject to   Q ≥ 0,   Σ_j Q_ij ≤ 1,   Σ_i Q_ij ≤ 1 + n b_j,   Σ Q ≥ n (ρ − μ₊) − 1
//! ```
//!
//! with C = −log p the cost of a label, b upper bounds on the class frequencies, μ = 1 − Σ b and ρ the share
//! of examples to be labelled. The programme is handed to a general LP solver as it stands; the library's
//! answers at falling ε must come down to its optimum and keep every constraint.

use earthmover::{Cost, Dense, Marginals, Newton, Problem, Sinkhorn, Solver};
use earthmover_testkit::Programme;

use crate::methods::NetworkSimplex;

struct Allocation {
    n: usize,
    k: usize,
    cost: Vec<f64>,
    caps: Vec<f64>,
    least: f64,
}

impl Allocation {
    fn new(n: usize, k: usize, rho: f64, room: f64) -> Self {
        // Logits from a fixed quasi-random sequence, strongly in favour of the first classes.
        let logit = |i: usize, j: usize| {
            let u = ((i * k + j) as f64 * 0.754_877_666_246_69).fract();
            6.0 * u - 0.5 * j as f64
        };
        let mut cost = Vec::with_capacity(n * k);
        for i in 0..n {
            let z: f64 = (0..k).map(|j| logit(i, j).exp()).sum();
            cost.extend((0..k).map(|j| z.ln() - logit(i, j)));
        }
        let b = room / k as f64;
        let mu = 1.0 - room;
        Self {
            n,
            k,
            cost,
            caps: vec![1.0 + n as f64 * b; k],
            least: n as f64 * (rho - mu.max(0.0)) - 1.0,
        }
    }

    fn optimum(&self) -> f64 {
        let mut programme = Programme::new(&self.cost, f64::INFINITY);
        let (n, k) = (self.n, self.k);
        for i in 0..n {
            programme.sum(i * k..(i + 1) * k, 0.0, 1.0);
        }
        for j in 0..k {
            programme.sum((0..n).map(|i| i * k + j), 0.0, self.caps[j]);
        }
        programme.sum(0..n * k, self.least, f64::INFINITY);
        programme.optimum().unwrap()
    }

    /// The objective of a solver's answer, every constraint of the programme checked.
    fn objective(&self, solver: &impl Solver<f64>) -> f64 {
        let marginals = Marginals::bounded(&vec![1.0; self.n], &self.caps, self.least).unwrap();
        let total = marginals.total();
        let dense = Dense::new(&self.cost, self.n, self.k).unwrap();
        let cost: &dyn Cost<f64> = &dense;
        let problem = Problem::new(cost, marginals).unwrap();
        let solution = solver.solve(&problem).unwrap().converged().unwrap();
        let plan = solution.plan();
        let tolerance = 2.0 * solution.violation() * total + 1e-12 * total;
        assert!(plan.to_dense().iter().all(|&q| q >= 0.0));
        assert!(plan.row_sums().iter().all(|&sum| sum <= 1.0 + 1e-12));
        for (sum, cap) in plan.col_sums().iter().zip(&self.caps) {
            assert!(*sum <= cap + tolerance, "{sum} labels for {cap} places");
        }
        assert!(
            plan.mass() >= self.least - tolerance,
            "{} of {}",
            plan.mass(),
            self.least
        );
        assert!((solution.certificate().mass - plan.mass()).abs() <= 1e-12 * total);
        solution.objective()
    }
}

/// Descends ε and checks that objectives fall to the optimum, never below, at the promised pace.
fn comes_down<S: Solver<f64>>(allocation: &Allocation, stages: &[f64], solver: impl Fn(f64) -> S) {
    let optimum = allocation.optimum();
    let (n, k) = (allocation.n as f64, allocation.k as f64);
    // Both marginals of the augmented problem, and the entropy a plan of that mass can have.
    let total = n + allocation.caps.iter().sum::<f64>() - allocation.least;
    let entropy = total * ((n + 1.0) * (k + 1.0)).ln();
    let mut last = f64::INFINITY;
    for &epsilon in stages {
        let objective = allocation.objective(&solver(epsilon));
        assert!(
            objective >= optimum - 1e-7 * n,
            "below the optimum: {objective} < {optimum}"
        );
        assert!(
            objective <= last + 1e-7 * n,
            "rose from {last} to {objective} at {epsilon}"
        );
        assert!(objective <= optimum + epsilon * entropy + 1e-7 * n);
        last = objective;
    }
    assert!(
        last - optimum <= 1e-2 * optimum,
        "{last} is not near {optimum}"
    );
}

fn allocations() -> impl Iterator<Item = Allocation> {
    // Bounds that add up to one, to more (loose) and to less (some examples must stay unlabelled).
    let cases = [(0.3, 1.0), (0.8, 1.0), (1.0, 1.0), (0.9, 1.3), (0.9, 0.8)];
    cases
        .into_iter()
        .map(|(rho, room)| Allocation::new(60, 5, rho, room))
}

#[test]
fn newton_comes_down_to_the_optimum() {
    for allocation in allocations() {
        comes_down(
            &allocation,
            &[1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001],
            |epsilon| Newton::new(epsilon).tolerance(1e-10),
        );
    }
}

#[test]
fn sinkhorn_comes_down_to_the_optimum() {
    for allocation in allocations() {
        comes_down(&allocation, &[1.0, 0.3, 0.1, 0.03, 0.01], |epsilon| {
            Sinkhorn::new(epsilon)
                .tolerance(1e-9)
                .max_iterations(200_000)
        });
    }
}

#[test]
fn the_simplex_is_there_at_once() {
    for allocation in allocations() {
        let optimum = allocation.optimum();
        let objective = allocation.objective(&NetworkSimplex::new());
        assert!(
            (objective - optimum).abs() <= 1e-9 * optimum,
            "{objective} {optimum}"
        );
    }
}
