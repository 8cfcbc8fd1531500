//! A backend's laws, checked against the definition: for whoever brings a device.

use super::backend::{Backend, DualPoint};
use crate::kernel::exp::log_sum_exp;
use crate::{Cost, Error, Problem, Real};

/// How far a backend is from the definition of a sweep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deviation {
    /// Law 1 and 2: L1 error of the column sums over the mass of the plan.
    pub sums: f64,
    /// Law 3: largest error of a column's log-sum.
    pub log_sums: f64,
    /// Law 4: largest error of a row potential, in units of ε.
    pub row_potentials: f64,
}

/// Runs one sweep of `backend` and compares it with the definition, evaluated in `f64` entry by entry, with the masses of rows as the
/// problem's penalty makes them. How small the numbers must be depends on the device's arithmetic.
///
/// # Errors
/// What the backend's own methods return; [`Error::Penalised`] where it cannot keep the rows' law.
///
/// # Examples
/// ```
/// use earthmover::sweep::{conformance, DualPoint, Streamed};
/// use earthmover::{Dense, Marginals, Problem};
/// let problem = Problem::new(Dense::new(&[0.0, 1.0, 2.0, 0.0], 2, 2)?, Marginals::uniform(2, 2)?)?;
/// let mut mine = Streamed::new(problem.cost(), problem.marginals().rows());
/// let at = DualPoint { epsilon: 0.01, cols: &[0.3, -0.1], slack: f64::NEG_INFINITY };
/// let deviation = conformance(&mut mine, &problem, &at)?;
/// assert!(deviation.sums < 1e-14 && deviation.row_potentials < 1e-12);
/// # Ok::<(), earthmover::Error>(())
/// ```
pub fn conformance<T: Real, C: Cost<T>, B: Backend + ?Sized>(
    backend: &mut B,
    problem: &Problem<T, C>,
    at: &DualPoint<'_>,
) -> Result<Deviation, Error> {
    let (n, k) = (problem.rows(), problem.cols());
    let (masses, law) = (problem.marginals().rows(), problem.marginals().row_law());
    if !backend.obey(&law) {
        let solver = backend.name();
        return Err(Error::Penalised { solver });
    }
    let (mut sums, mut f) = (vec![0.0; k + 1], vec![0.0; n]);
    let mut log_terms = vec![Vec::with_capacity(n); k];
    let mut row = vec![0.0; k];
    for i in 0..n {
        let costs = (0..k).map(|j| problem.cost().at(i, j).widen());
        let (kept, potential) = at.row_under(&law, masses[i], costs.clone(), &mut row);
        f[i] = potential;
        sums.iter_mut().zip(&row).for_each(|(s, p)| *s += p);
        sums[k] += kept;
        for (j, c) in costs.enumerate() {
            log_terms[j].push((potential + (at.cols[j] - c)) / at.epsilon);
        }
    }
    let mass: f64 = sums.iter().sum();
    let mut found = vec![0.0; k + 1];
    backend.sweep(at, &mut found)?;
    let error: f64 = sums.iter().zip(&found).map(|(a, b)| (a - b).abs()).sum();
    let mut f_found = vec![0.0; n];
    backend.row_potentials(&mut f_found)?;
    let all: Vec<usize> = (0..k).collect();
    let mut logs = vec![0.0; k];
    backend.log_sums(&all, &mut logs)?;
    let same = |a: f64, b: f64| if a == b { 0.0 } else { (a - b).abs() };
    let log_error =
        |(terms, found): (&Vec<f64>, &f64)| same(log_sum_exp(terms.iter().copied()), *found);
    Ok(Deviation {
        sums: if mass > 0.0 { error / mass } else { error },
        log_sums: log_terms
            .iter()
            .zip(&logs)
            .map(log_error)
            .fold(0.0, f64::max),
        row_potentials: f
            .iter()
            .zip(&f_found)
            .map(|(a, b)| same(*a, *b) / at.epsilon)
            .fold(0.0, f64::max),
    })
}
