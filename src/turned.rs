//! The answer to a wide problem, from that to the tall one it is when turned round.
//!
//! Solvers work on the column potentials. Where there are many more columns than rows, the transposed question has
//! far fewer unknowns.

use crate::cost::Transposed;
use crate::sinkhorn::{Outcome, answer};
use crate::sweep::{Backend, Streamed, Target};
use crate::{Cost, Error, Problem, Real, Solution};

/// Turns the entropic answer to the transposed problem back: one sweep the right way round makes the rows exact again,
/// which can only lower the violation.
pub(crate) fn turned_back<'p, T: Real, C: Cost<T>>(
    problem: &'p Problem<T, C>,
    epsilon: f64,
    other: Solution<'_, T, Transposed<&C>>,
) -> Result<Solution<'p, T, C>, Error> {
    let (status, iterations) = (other.status(), other.iterations());
    let found = other.into_potentials().transposed();
    let mut target = Target::new(problem.marginals());
    let g = target.start(&found)?;
    let mut backend = Streamed::new(problem.cost(), problem.marginals().rows());
    let mut sums = vec![0.0; g.len()];
    backend.sweep(&target.scaling(epsilon, &g), &mut sums)?;
    target.add_slack_row(epsilon, &g, &mut sums);
    let violation = target.violation(&sums);
    let outcome = Outcome {
        g,
        epsilon,
        status,
        iterations: iterations + 1,
        violation,
        sums,
    };
    Ok(answer(problem, &target, outcome))
}
