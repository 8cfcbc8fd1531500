//! What a problem is worth.
//!
//! ```text
//! F = max_{φ,ψ}  Σ_i D*(φ_i) + Σ_j D*(ψ_j) − ε Σ_ij ρ_ij (exp((φ_i + ψ_j − C_ij)/ε) − 1)        ρ_ij = a_i b_j
//! ```
//!
//! with D*(φ) = a φ where masses are kept. For the counting measure ρ = 1 and the last one is left out. Potentials that are not
//! quite optimal give a little less than the value, by the square of what they are off.

use super::gradient::{Quadratic, Sides, point_gradients};
use crate::problem::Erased;
use crate::solution::operator::{Operator, Products};
use crate::solution::plan::Representation;
use crate::sweep::streamed::log_sums_of;
use crate::{
    Cost, Error, Euclidean, Exact, Marginals, Metric, PointCloud, Potentials, Problem, Real,
    Reference, Solution, SquaredEuclidean,
};

/// Potentials of every line less what belongs to the reference, what lines give of what they are asked for, and their sums.
#[derive(Debug)]
#[allow(unreachable_pub)]
pub struct Lines {
    /// φ of each row, lines of no mass included.
    pub(crate) rows: Vec<f64>,
    pub(crate) cols: Vec<f64>,
    /// r/a.
    pub(crate) row_ratios: Vec<f64>,
    pub(crate) col_ratios: Vec<f64>,
    pub(crate) row_sums: Vec<f64>,
    pub(crate) col_sums: Vec<f64>,
    /// Gradients of the value with respect to the points, where they were asked for and there are any.
    pub(crate) gradients: Option<(Vec<f64>, Vec<f64>)>,
}

impl Lines {
    /// In one pass over the plan, which gives the gradients of `wanted` points, too.
    pub(crate) fn new<T: Real>(
        problem: &Erased<'_, T>,
        potentials: &Potentials,
        shape: &Representation,
        wanted: Option<Sides>,
    ) -> Self {
        let (n, m) = (problem.rows(), problem.marginals());
        let operator = Operator::new(problem, potentials, shape);
        let points = wanted.and_then(|_| problem.cost().points());
        let clouds = points.and_then(|p| Quadratic::of(&p));
        let (x, y, d) = match &clouds {
            Some(c) if wanted == Some(Sides::Both) => (&c.x[..], Some(&c.y[..]), c.dimension),
            // Sums of the columns with nothing to multiply.
            Some(c) => (&[][..], Some(&c.y[..]), c.dimension),
            None => (&[][..], None, 0),
        };
        let products = operator.products(Some(x), y, d);
        let gradients = match (&clouds, wanted) {
            (Some(clouds), _) => Some(clouds.gradients(&products)),
            (None, Some(sides)) => point_gradients(problem, potentials, shape, sides),
            (None, None) => None,
        };
        let Products {
            row_sums,
            col_sums,
            log_sums,
            ..
        } = products;
        let Representation::Gibbs { epsilon, lift } = *shape else {
            let ratios = |sums: &[f64], masses: &[f64]| -> Vec<f64> {
                sums.iter().zip(masses).map(|(s, m)| s / m).collect()
            };
            return Self {
                rows: potentials.rows.clone(),
                cols: potentials.cols.clone(),
                row_ratios: ratios(&row_sums, m.rows()),
                col_ratios: ratios(&col_sums, m.cols()),
                row_sums,
                col_sums,
                gradients,
            };
        };
        let mut rows = log_sums;
        open_rows(problem, potentials, epsilon, &mut rows);
        let law = m.row_law().lifted(lift);
        let (mut row_ratios, mut row_sums, mut kept) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        for (i, f) in rows.iter_mut().enumerate() {
            let (mass, log_sum) = (m.rows()[i], *f);
            kept[i] = law.potential(epsilon, mass, log_sum);
            (row_ratios[i], *f) = law.ratio_and_bare(epsilon, mass, log_sum);
            row_sums[i] = if mass > 0.0 {
                mass * row_ratios[i]
            } else {
                0.0
            };
        }
        let law = m.col_law().lifted(-lift);
        let mut cols = potentials.cols.clone();
        let mut col_ratios = vec![1.0; cols.len()];
        for (j, g) in cols.iter_mut().enumerate() {
            let mass = m.cols()[j];
            if mass > 0.0 && *g > f64::NEG_INFINITY {
                *g = law.bare(epsilon, mass, *g);
                if !law.is_exact() {
                    col_ratios[j] = col_sums[j] / mass;
                }
            } else {
                // Nobody was asked: what it would be, from the rows.
                let mut log = [0.0];
                let zeros = vec![0.0; m.cols().len()];
                log_sums_of(problem.cost(), epsilon, &kept, &zeros, &[j], &mut log);
                (col_ratios[j], *g) = law.ratio_and_bare(epsilon, mass, log[0]);
            }
        }
        Self {
            rows,
            cols,
            row_ratios,
            col_ratios,
            row_sums,
            col_sums,
            gradients,
        }
    }
}

/// ln Z of rows of no mass, which are not part of the plan, and of rows whose entries were listed, by the definition.
fn open_rows<T: Real>(
    problem: &Erased<'_, T>,
    potentials: &Potentials,
    epsilon: f64,
    log_sums: &mut [f64],
) {
    let (k, m) = (problem.cols(), problem.marginals());
    let point = potentials.dual_point(epsilon, m.slack());
    let (mut costs, mut line) = (vec![T::zero(); k], vec![0.0; k]);
    for (i, log_sum) in log_sums.iter_mut().enumerate() {
        if m.rows()[i] == 0.0 || log_sum.is_nan() {
            problem.cost().fill(i..i + 1, &mut costs);
            let (_, f) = point.row(1.0, costs.iter().map(|c| c.widen()), &mut line);
            *log_sum = -f / epsilon;
        }
    }
}

impl<T: Real, C: Cost<T>> Solution<'_, T, C> {
    pub(crate) fn lines(&self) -> Lines {
        self.lines_with(None)
    }

    /// The same with the gradients of points.
    pub(crate) fn lines_with(&self, wanted: Option<Sides>) -> Lines {
        T::lines(
            &self.problem().erased(),
            self.columns(),
            self.representation(),
            wanted,
        )
    }

    /// The value of the regularised problem: ⟨C, P⟩ + ε Ω(P), slack costs and penalties included, with the entropy Ω relative to the
    /// product of the masses ([`Reference::Product`], KL(P | a ⊗ b), what most people call the entropic cost) or to the
    /// counting measure ([`Reference::Counting`], Σ P (ln P − 1)). A dual value: never above the optimum but for rounding, and
    /// closer to it than the plan is. The [`objective`](Self::objective) of an exact answer.
    ///
    /// Of penalised masses, whose plan depends on the reference, the other one is what the same plan has by that.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, Entropic, Marginals, Problem, Reference};
    /// let problem = Problem::new(Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2)?, Marginals::uniform(2, 2)?)?;
    /// let solution = Entropic::new(1.0).tolerance(1e-12).solve(&problem)?;
    /// let (cost, entropy) = (solution.transport_cost(), solution.regularised(Reference::Product));
    /// let p = solution.plan().to_dense();
    /// let kl: f64 = p.iter().map(|p| p * (p / 0.25).ln()).sum();
    /// assert!((entropy - (cost + kl)).abs() < 1e-9);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    #[must_use]
    pub fn regularised(&self, reference: Reference) -> f64 {
        if self.epsilon() == 0.0 {
            return self.objective();
        }
        self.value_of(&self.lines(), reference)
    }

    pub(crate) fn value_of(&self, lines: &Lines, reference: Reference) -> f64 {
        let (epsilon, m) = (self.epsilon(), self.problem().marginals());
        let (slack, own) = (m.slack(), m.reference());
        let mut value = crate::kernel::rounding::Sum::default();
        for (penalty, masses, prices) in [
            (m.row_penalty(), m.rows(), &lines.rows),
            (m.col_penalty(), m.cols(), &lines.cols),
        ] {
            let carrying = masses.iter().zip(prices).filter(|(m, _)| **m > 0.0);
            carrying.for_each(|(&mass, &price)| value.add(penalty.conjugate(mass, price)));
        }
        let found = self.columns();
        for (mass, price) in [(slack.row, found.slack_row), (slack.col, found.slack_col)] {
            if mass > 0.0 {
                let offset = match own {
                    Reference::Product => epsilon * mass.ln(),
                    Reference::Counting => 0.0,
                };
                value.add(mass * (price - offset));
            }
        }
        let (supply, demand) = (total(m.rows()) + slack.row, total(m.cols()) + slack.col);
        let moved = total(&lines.row_sums) + slack.row;
        value.add(-epsilon * moved);
        if own == Reference::Product {
            value.add(epsilon * supply * demand);
        }
        if own != reference {
            // Σ P (ln P − 1) = KL(P | a ⊗ b) + Σ r ln a + Σ c ln b − Σ a Σ b
            let logs = |masses: &[f64], sums: &[f64]| -> f64 {
                let each = masses.iter().zip(sums).filter(|(m, _)| **m > 0.0);
                each.map(|(m, s)| s * m.ln()).sum()
            };
            let ends = [slack.row, slack.col].into_iter().filter(|s| *s > 0.0);
            let more = logs(m.rows(), &lines.row_sums)
                + logs(m.cols(), &lines.col_sums_asked(m))
                + ends.map(|s| s * s.ln()).sum::<f64>()
                - supply * demand;
            let sign = if reference == Reference::Counting {
                1.0
            } else {
                -1.0
            };
            value.add(sign * epsilon * more);
        }
        value.value()
    }

    /// ⟨C, P⟩ of the plan as it is, slack costs included and penalties not.
    #[must_use]
    pub fn transport_cost(&self) -> f64 {
        let m = self.problem().marginals();
        if !m.is_relaxed() {
            return self.objective();
        }
        let lines = self.lines();
        let mut penalties = 0.0;
        for (penalty, masses, sums) in [
            (m.row_penalty(), m.rows(), &lines.row_sums),
            (m.col_penalty(), m.cols(), &lines.col_sums),
        ] {
            if !penalty.is_exact() {
                let both = masses.iter().zip(sums);
                penalties += both.map(|(&m, &s)| penalty.of(m, s)).sum::<f64>();
            }
        }
        self.objective() - penalties
    }
}

impl Lines {
    /// What the columns hold, slack row's share included: their masses where those are kept.
    fn col_sums_asked(&self, marginals: &Marginals) -> Vec<f64> {
        if marginals.col_penalty().is_exact() {
            marginals.cols().to_vec()
        } else {
            self.col_sums.clone()
        }
    }
}

fn total(values: &[f64]) -> f64 {
    crate::kernel::rounding::sum(values)
}

/// The earth mover's distance W₁ of two weighted clouds of points with `dimension` coordinates: the least mean Euclidean distance,
/// exactly. Both totals are taken to be one where they are equal.
///
/// # Errors
/// As [`PointCloud::new`], [`Problem::new`] and [`Exact::solve`]; [`Error::Penalised`] for masses that need not be kept.
///
/// # Examples
/// ```
/// use earthmover::{Marginals, loss::wasserstein_1};
/// let d = wasserstein_1(&[0.0, 1.0], &[5.0, 8.0], 1, &Marginals::uniform(2, 2)?)?;
/// assert!((d - 6.0).abs() < 1e-12);
/// # Ok::<(), earthmover::Error>(())
/// ```
pub fn wasserstein_1<T: Real>(
    rows: &[T],
    cols: &[T],
    dimension: usize,
    marginals: &Marginals,
) -> Result<f64, Error> {
    mean_cost(rows, cols, dimension, marginals, Euclidean)
}

/// The 2-Wasserstein distance W₂: the root of the least mean squared distance, exactly.
///
/// # Errors
/// As [`wasserstein_1`].
///
/// # Examples
/// ```
/// use earthmover::{Marginals, loss::wasserstein_2};
/// let d = wasserstein_2(&[0.0, 1.0], &[3.0, 4.0], 1, &Marginals::uniform(2, 2)?)?;
/// assert!((d - 3.0).abs() < 1e-12);
/// # Ok::<(), earthmover::Error>(())
/// ```
pub fn wasserstein_2<T: Real>(
    rows: &[T],
    cols: &[T],
    dimension: usize,
    marginals: &Marginals,
) -> Result<f64, Error> {
    let mean = mean_cost(rows, cols, dimension, marginals, SquaredEuclidean)?;
    Ok(mean.max(0.0).sqrt())
}

fn mean_cost<T: Real, M: Metric<T>>(
    rows: &[T],
    cols: &[T],
    dimension: usize,
    marginals: &Marginals,
    metric: M,
) -> Result<f64, Error> {
    if marginals.is_relaxed() {
        return Err(Error::Penalised {
            solver: "a Wasserstein distance",
        });
    }
    let cost = PointCloud::new(rows, cols, dimension, metric)?;
    let problem = Problem::new(cost, marginals.clone())?;
    Ok(Exact::new().solve(&problem)?.objective() / marginals.total())
}
