//! The proof of quality that every answer carries.
//!
//! ```text
//! dual  =  Σ a_i f_i + Σ b_j g_j   ≤   optimum   ≤   ⟨C, P'⟩  =  primal
//! ```
//!
//! * **Upper bound**: the plan is rounded to exact feasibility (Altschuler, Weed and Rigollet, 2017):
//!   columns that hold too much are scaled down, and what is then missing from rows and columns is
//!   filled in proportionally, or along allowed pairs ([`refill`]) where some are forbidden.
//! * **Lower bound**: row potentials are made as large as the column potentials allow, then the columns
//!   as large as those allow: `f_i = min_j (C_ij − g_j)`, `g'_j = min_i (C_ij − f_i) ≥ g_j`.
//!
//! Both are evaluated from the costs in `f64`, independently of how the answer was found. For an exact
//! answer a gap of zero *is* the proof; for an entropic one the gap includes what the entropy costs.

mod refill;

use crate::plan::{Plan, Shape, unplaced};
use crate::tiles::{map_ranges, tile_rows};
use crate::{Cost, Potentials, Problem, Real};

/// Bounds on the optimum and the true error of a plan.
///
/// # Examples
/// ```
/// use earthmover::{Dense, Marginals, Problem, Sinkhorn};
/// let problem = Problem::new(Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2)?, Marginals::uniform(2, 2)?)?;
/// let solution = Sinkhorn::new(0.05).solve(&problem)?;
/// let certificate = solution.certificate();
/// assert!(certificate.dual <= 0.0 && 0.0 <= certificate.primal); // the optimum is 0
/// assert!(certificate.gap() < 1e-6);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Certificate {
    /// Cost of a feasible plan next to this one: an upper bound of the optimum.
    pub primal: f64,
    /// Value of feasible potentials: a lower bound of the optimum.
    pub dual: f64,
    /// Cost of the plan as it is, slack costs included.
    pub objective: f64,
    /// L1 distance of the plan's marginals from the ones asked for, over the total mass.
    pub violation: f64,
    /// Mass moved between real rows and real columns.
    pub mass: f64,
}

impl Certificate {
    /// `primal − dual`: the optimum lies in between.
    #[must_use]
    pub fn gap(&self) -> f64 {
        self.primal - self.dual
    }

    /// The gap relative to the larger of the two bounds' magnitudes.
    #[must_use]
    pub fn relative_gap(&self) -> f64 {
        let scale = self.primal.abs().max(self.dual.abs());
        if scale > 0.0 {
            self.gap() / scale
        } else {
            self.gap()
        }
    }
}

/// What one tile of rows contributes to the second pass.
struct Tally {
    objective: f64,
    scaled: f64,
    fill: f64,
    dual: f64,
    row_error: f64,
    mass: f64,
    /// Mass in each row of the scaled plan, slack row last.
    rows: Vec<f64>,
    /// `min_i (C_ij − f_i)` over the rows that carry mass, slack column last.
    cols: Vec<f64>,
}

impl Tally {
    fn new(cols: usize) -> Self {
        Self {
            objective: 0.0,
            scaled: 0.0,
            fill: 0.0,
            dual: 0.0,
            row_error: 0.0,
            mass: 0.0,
            rows: Vec::new(),
            cols: vec![f64::INFINITY; cols + 1],
        }
    }

    fn add(&mut self, part: Self) {
        self.objective += part.objective;
        self.scaled += part.scaled;
        self.fill += part.fill;
        self.dual += part.dual;
        self.row_error += part.row_error;
        self.mass += part.mass;
        self.rows.extend(part.rows);
        let both = self.cols.iter_mut().zip(part.cols);
        both.for_each(|(g, p)| *g = g.min(p));
    }
}

pub(crate) fn certify<T: Real, C: Cost<T>>(
    problem: &Problem<T, C>,
    potentials: &Potentials,
    shape: &Shape,
) -> Certificate {
    let judge = Judge {
        problem,
        potentials,
        shape,
    };
    judge.certify()
}

struct Judge<'a, T, C> {
    problem: &'a Problem<T, C>,
    potentials: &'a Potentials,
    shape: &'a Shape,
}

impl<T: Real, C: Cost<T>> Judge<'_, T, C> {
    /// Visits the rows of a range with their costs, plan and mass in the slack column.
    fn visit(&self, rows: core::ops::Range<usize>, mut each: impl FnMut(usize, &[T], &[f64], f64)) {
        let k = self.problem.cols();
        let (mut costs, mut row) = (vec![T::zero(); k], vec![0.0; k]);
        let plan = Plan::new(self.problem, self.potentials, self.shape);
        for i in rows {
            self.problem.cost().fill(i..i + 1, &mut costs);
            let kept = plan.write_row_with(i, &costs, &mut row);
            each(i, &costs, &row, kept);
        }
    }

    fn certify(&self) -> Certificate {
        let (n, k) = (self.problem.rows(), self.problem.cols());
        let m = self.problem.marginals();
        let slack = m.slack();
        let tile = tile_rows(n, k);
        let total = m.total();
        // A deficit below this share is rounding, not something to fill.
        let speck = 8.0 * f64::EPSILON;

        // First pass: column sums; the slack row on top.
        let mut sums = vec![0.0; k + 1];
        for part in map_ranges(n, tile, |rows| {
            let mut part = vec![0.0; k + 1];
            self.visit(rows, |_, _, row, kept| {
                part.iter_mut().zip(row).for_each(|(s, p)| *s += p);
                part[k] += kept;
            });
            part
        }) {
            sums.iter_mut().zip(part).for_each(|(s, p)| *s += p);
        }
        let (slack_row, corner) = self.slack_row(&sums);
        sums.iter_mut().zip(&slack_row).for_each(|(s, p)| *s += p);
        sums[k] += corner;

        let wanted = |j: usize| if j < k { m.cols()[j] } else { slack.col };
        let mut violation = 0.0;
        let mut scale = vec![1.0; k + 1];
        let mut missing = vec![0.0; k + 1];
        for j in 0..=k {
            let c = wanted(j);
            violation += (sums[j] - c).abs();
            if sums[j] > c {
                scale[j] = c / sums[j];
            } else if c - sums[j] > speck * c {
                missing[j] = c - sums[j];
            }
        }
        let short = crate::marginals::sum(&missing);

        // Second pass: costs of the plan, of its scaled version and of the filling; the c-transform.
        let active: Vec<usize> = (0..k).filter(|&j| missing[j] > 0.0).collect();
        let tallies = map_ranges(n, tile, |rows| {
            let mut t = Tally::new(k);
            self.visit(rows, |i, costs, row, kept| {
                let a = m.rows()[i];
                let (mut left, mut given) = (a - kept * scale[k], kept);
                let mut best = slack.col_cost - self.potentials.slack_col;
                for j in 0..k {
                    let (c, p) = (costs[j].widen(), row[j]);
                    if p > 0.0 {
                        t.objective += p * c;
                        t.scaled += p * scale[j] * c;
                        left -= p * scale[j];
                        given += p;
                    }
                    best = best.min(c - self.potentials.cols[j]);
                }
                if kept > 0.0 {
                    t.objective += kept * slack.col_cost;
                    t.scaled += kept * scale[k] * slack.col_cost;
                }
                t.mass += given - kept;
                t.row_error += (given - a).abs();
                if left > speck * a && short > 0.0 {
                    let mut price: f64 =
                        active.iter().map(|&j| missing[j] * costs[j].widen()).sum();
                    if missing[k] > 0.0 {
                        price += missing[k] * slack.col_cost;
                    }
                    t.fill += left * price / short;
                }
                t.rows.push(a - left);
                if a > 0.0 {
                    t.dual += a * best;
                    let both = t.cols.iter_mut().zip(costs);
                    both.for_each(|(g, c)| *g = g.min(c.widen() - best));
                    t.cols[k] = t.cols[k].min(slack.col_cost - best);
                }
            });
            t
        });
        let mut t = Tally::new(k);
        tallies.into_iter().for_each(|part| t.add(part));

        // The slack row, once more with the same steps.
        if slack.row > 0.0 {
            let mut left = slack.row;
            let mut given = 0.0;
            let mut best = f64::INFINITY;
            for j in 0..=k {
                let p = if j < k { slack_row[j] } else { corner };
                let (c, g) = if j < k {
                    (slack.row_cost, self.potentials.cols[j])
                } else {
                    (slack.corner_cost, self.potentials.slack_col)
                };
                if p > 0.0 {
                    t.objective += p * c;
                    t.scaled += p * scale[j] * c;
                    left -= p * scale[j];
                    given += p;
                }
                best = best.min(c - g);
            }
            t.row_error += (given - slack.row).abs();
            if left > speck * slack.row && short > 0.0 {
                let onto: f64 = missing[..k].iter().sum();
                let mut price = if onto > 0.0 {
                    onto * slack.row_cost
                } else {
                    0.0
                };
                if missing[k] > 0.0 {
                    price += missing[k] * slack.corner_cost;
                }
                t.fill += left * price / short;
            }
            t.rows.push(slack.row - left);
            t.dual += slack.row * best;
            for (j, g) in t.cols.iter_mut().enumerate() {
                let c = if j < k {
                    slack.row_cost
                } else {
                    slack.corner_cost
                };
                *g = g.min(c - best);
            }
        } else {
            t.rows.push(0.0);
        }
        let by_columns: f64 = (0..=k)
            .filter(|&j| wanted(j) > 0.0)
            .map(|j| wanted(j) * t.cols[j])
            .sum();
        let mut primal = t.scaled + t.fill;
        if primal == f64::INFINITY {
            let cols: Vec<f64> = (0..=k).map(|j| sums[j] * scale[j]).collect();
            let plan = refill::Underfull {
                price: t.scaled,
                rows: &t.rows,
                cols: &cols,
            };
            primal = refill::refill(self.problem, &plan);
        }
        Certificate {
            primal,
            dual: t.dual + by_columns,
            objective: t.objective,
            violation: (violation + t.row_error) / total,
            mass: t.mass,
        }
    }

    /// The slack row of the plan and its corner. A sparse plan does not store them: they are what
    /// the columns are short of.
    fn slack_row(&self, real: &[f64]) -> (Vec<f64>, f64) {
        let k = self.problem.cols();
        let m = self.problem.marginals();
        let slack = m.slack();
        if slack.row == 0.0 {
            return (vec![0.0; k], 0.0);
        }
        match self.shape {
            Shape::Gibbs { epsilon } => {
                let mut row = vec![0.0; k];
                let gibbs = crate::gibbs::Gibbs {
                    epsilon: *epsilon,
                    cols: &self.potentials.cols,
                    slack: self.potentials.slack_col - slack.corner_cost,
                };
                let costs = core::iter::repeat_n(slack.row_cost, k);
                let (corner, _) = gibbs.row(slack.row, costs, &mut row);
                (row, corner)
            }
            Shape::Sparse(_) => {
                let row = m.cols().iter().zip(real);
                let row = row.map(|(&c, &sum)| unplaced(c, sum, c, slack.row_cost));
                let corner = unplaced(slack.col, real[k], m.total(), slack.corner_cost);
                (row.collect(), corner)
            }
        }
    }
}
