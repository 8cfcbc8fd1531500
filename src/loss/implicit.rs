//! Gradients of functions of a plan, by implicit differentiation.
//!
//! ```text
//! P_ij = exp((f_i + g_j − C_ij)/ε),   P1 = R(f),   Pᵀ1 = S(g)
//!
//! [ A  P ] [x]   [p]        A = diag(r − ε R'),  B = diag(c − ε S')      p_i = Σ_j M_ij P_ij/ε + f̄_i
//! [ Pᵀ B ] [y] = [q]                                                     q_j = Σ_i M_ij P_ij/ε + ḡ_j
//!
//! ∂L/∂C_ij = P_ij (x_i + y_j − M_ij/ε)        ∂L/∂a_i = ε x_i ∂R_i/∂a_i
//! ```
//!
//! where L is the function, M = ∂L/∂P, f̄ = ∂L/∂f and ḡ = ∂L/∂g. R is a where masses are kept (R' = 0) and the law of the penalty where not. Rows
//! are eliminated, and what is left, B − Pᵀ A⁻¹ P, is the semi-dual's own curvature: symmetric, positive (up to the constant, which
//! nothing depends on, where masses are kept), solved by conjugate gradients whose every step is two products with the plan.
//! Derivatives are those at the optimum: the answer should be solved well below the accuracy asked of them.

use crate::loss::gradient::weighted;
use crate::problem::Erased;
use crate::solution::operator::{Operator, check_numbers};
use crate::solution::plan::Representation;
use crate::{Cost, Error, Penalty, Potentials, Real, Reference, Solution};

/// What a function's derivative is with respect to the plan and the potentials; what is left empty is zero.
///
/// # Examples
/// ```
/// use earthmover::loss::Cotangent;
/// let of_potentials = Cotangent { rows: vec![1.0, 0.0], ..Cotangent::default() };
/// assert!(of_potentials.plan.is_none());
/// ```
#[derive(Default)]
pub struct Cotangent<'a> {
    /// ∂L/∂P, a table of the problem's shape, stored or worked out row by row.
    pub plan: Option<&'a dyn Cost<f64>>,
    /// ∂L/∂f of each row potential; empty for zeros.
    pub rows: Vec<f64>,
    /// ∂L/∂g of each column potential; empty for zeros.
    pub cols: Vec<f64>,
}

impl core::fmt::Debug for Cotangent<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Cotangent")
            .field("plan", &self.plan.is_some())
            .field("rows", &self.rows)
            .field("cols", &self.cols)
            .finish()
    }
}

/// Gradients of a function of the plan or the potentials with respect to what they were made of.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PullBack {
    /// Of the masses of rows. With exact masses on both sides only changes that keep the totals equal make sense.
    pub row_masses: Vec<f64>,
    /// Of the masses of columns.
    pub col_masses: Vec<f64>,
    /// Of the row points, point after point; empty where the cost has none or its metric no derivative.
    pub row_points: Vec<f64>,
    /// Of the column points.
    pub col_points: Vec<f64>,
    /// ∂L/∂C_ij = P_ij (`row_part`_i + `col_part`_j − M_ij/ε): the part of the row.
    pub row_part: Vec<f64>,
    /// The part of the column.
    pub col_part: Vec<f64>,
    /// What is left of the linear system, relative to its right-hand side: how far the conjugate gradients got.
    pub residual: f64,
}

impl PullBack {
    /// The gradient with respect to the cost, rows × columns numbers: for problems small enough to be written out.
    ///
    /// # Errors
    /// [`Error::Length`] where the answer is of another shape.
    pub fn cost<T: Real, C: Cost<T>>(
        &self,
        solution: &Solution<'_, T, C>,
        plan: Option<&dyn Cost<f64>>,
    ) -> Result<Vec<f64>, Error> {
        let problem = solution.problem();
        let (n, k) = (problem.rows(), problem.cols());
        check_numbers("row parts", &self.row_part, 1, n)?;
        check_numbers("column parts", &self.col_part, 1, k)?;
        let (epsilon, mut out) = (solution.epsilon(), solution.plan().to_dense());
        for (i, line) in out.chunks_exact_mut(k).enumerate() {
            for (j, p) in line.iter_mut().enumerate() {
                if *p > 0.0 {
                    let m = plan.map_or(0.0, |m| m.at(i, j));
                    *p *= self.row_part[i] + self.col_part[j] - m / epsilon;
                }
            }
        }
        Ok(out)
    }
}

/// Relative residual at which the linear system counts as solved, and most steps it may take.
const SOLVED_RESIDUAL: f64 = 1e-13;
const MOST_STEPS: usize = 2_000;

/// The most entries of a plan that are kept for the linear system, rather than worked out in every step.
const MOST_STORED_ENTRIES: usize = 1 << 23;

impl<T: Real, C: Cost<T>> Solution<'_, T, C> {
    /// The vector–Jacobian product: gradients of a function L of the plan or the potentials with respect to masses, cost and
    /// points, given L's derivatives at this answer.
    ///
    /// # Errors
    /// [`Error::NoGradient`] for an exact answer, whose plan jumps, and for marginals with slack; [`Error::Length`] where a derivative is of another shape.
    ///
    /// # Complexity
    /// Two products with the plan per step of conjugate gradients. A plan of up to eight million entries is kept for them; a larger
    /// one is worked out anew each time, in O(n + m) memory.
    ///
    /// # Examples
    /// ```
    /// use earthmover::loss::Cotangent;
    /// use earthmover::{Dense, Entropic, Marginals, Problem};
    /// let costs = [0.0, 1.0, 2.0, 0.5];
    /// let problem = Problem::new(Dense::new(&costs, 2, 2)?, Marginals::uniform(2, 2)?)?;
    /// let solution = Entropic::new(0.5).tolerance(1e-12).solve(&problem)?;
    /// // L = P_00: how much of it a dearer first pair costs.
    /// let slope = [1.0, 0.0, 0.0, 0.0];
    /// let slope = Dense::new(&slope, 2, 2)?;
    /// let back = solution.pull_back(&Cotangent { plan: Some(&slope), ..Cotangent::default() })?;
    /// let by_cost = back.cost(&solution, Some(&slope))?;
    /// assert!(by_cost[0] < 0.0 && back.residual < 1e-9);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn pull_back(&self, cotangent: &Cotangent<'_>) -> Result<PullBack, Error> {
        let (n, k) = (self.problem().rows(), self.problem().cols());
        if let Some(plan) = cotangent.plan {
            for (what, expected, found) in [
                ("rows of the plan's derivative", n, plan.rows()),
                ("columns of the plan's derivative", k, plan.cols()),
            ] {
                if expected != found {
                    return Err(Error::Length {
                        what,
                        expected,
                        found,
                    });
                }
            }
        }
        for (what, values, expected) in [
            ("derivatives of row potentials", &cotangent.rows, n),
            ("derivatives of column potentials", &cotangent.cols, k),
        ] {
            if !values.is_empty() {
                check_numbers(what, values, 1, expected)?;
            }
        }
        let problem = self.problem().erased();
        T::pull_back(&problem, self.columns(), self.representation(), cotangent)
            .ok_or(Error::NoGradient)
    }
}

/// One side of the system.
struct SideOf {
    /// The diagonal; +∞ for a line that does not move.
    diagonal: Vec<f64>,
    /// ∂R/∂a, and ε/a for a line at its bound, whose potential follows its mass.
    by_mass: Vec<f64>,
}

impl SideOf {
    #[allow(clippy::too_many_arguments)]
    fn new(
        penalty: Penalty,
        reference: Reference,
        epsilon: f64,
        masses: &[f64],
        sums: &[f64],
        phi: &[f64],
    ) -> Self {
        let mut side = Self {
            diagonal: Vec::new(),
            by_mass: Vec::new(),
        };
        for ((&mass, &sum), &phi) in masses.iter().zip(sums).zip(phi) {
            let product = reference == Reference::Product;
            let (diagonal, by_mass) = match penalty {
                _ if mass == 0.0 || !(sum > 0.0) => (f64::INFINITY, 0.0),
                Penalty::Exact => (sum, 1.0),
                Penalty::Kl(tau) => {
                    let more = if product { epsilon / tau } else { 0.0 };
                    (sum * (1.0 + epsilon / tau), (1.0 + more) * sum / mass)
                }
                Penalty::Tv(tau) if phi.abs() >= tau * (1.0 - 1e-12) => {
                    (f64::INFINITY, if product { epsilon / mass } else { 0.0 })
                }
                Penalty::Tv(_) => (sum, 1.0),
            };
            side.diagonal.push(diagonal);
            side.by_mass.push(by_mass);
        }
        side
    }

    /// ∂L/∂a of this side: `own` is its part of the answer, `right` its right side, `other` what the other side pushes into it.
    fn masses(&self, epsilon: f64, own: &[f64], right: &[f64], other: &[f64]) -> Vec<f64> {
        let each = self.by_mass.iter().zip(&self.diagonal).enumerate();
        each.map(|(i, (by, diagonal))| {
            if diagonal.is_finite() {
                epsilon * own[i] * by
            } else {
                by * (right[i] - other[i])
            }
        })
        .collect()
    }
}

/// Products with the plan, kept where that is cheap.
struct Products<'a, T> {
    operator: &'a Operator<'a, T>,
    kept: Option<Vec<f64>>,
    rows: usize,
    cols: usize,
}

impl<'a, T: Real> Products<'a, T> {
    fn new(operator: &'a Operator<'a, T>, rows: usize, cols: usize) -> Self {
        let kept = (rows * cols <= MOST_STORED_ENTRIES).then(|| {
            let mut dense = vec![0.0; rows * cols];
            let tiles = operator.map_rows(Vec::new, |made: &mut Vec<(usize, Vec<f64>)>, i, row| {
                made.push((i, row.to_vec()));
            });
            for (i, row) in tiles.into_iter().flatten() {
                dense[i * cols..][..cols].copy_from_slice(&row);
            }
            dense
        });
        Self {
            operator,
            kept,
            rows,
            cols,
        }
    }

    fn times(&self, y: &[f64]) -> Vec<f64> {
        match &self.kept {
            Some(dense) => {
                let rows = dense.chunks_exact(self.cols);
                rows.map(|row| row.iter().zip(y).map(|(p, y)| p * y).sum())
                    .collect()
            }
            None => self.operator.times(y, 1).0,
        }
    }

    fn transposed_times(&self, x: &[f64]) -> Vec<f64> {
        match &self.kept {
            Some(dense) => {
                let mut out = vec![0.0; self.cols];
                for (row, &x) in dense.chunks_exact(self.cols).zip(x).take(self.rows) {
                    out.iter_mut().zip(row).for_each(|(o, p)| *o += p * x);
                }
                out
            }
            None => self.operator.transposed_times(x, 1).0,
        }
    }
}

pub(crate) fn pull_back<T: Real>(
    problem: &Erased<'_, T>,
    potentials: &Potentials,
    shape: &Representation,
    cotangent: &Cotangent<'_>,
) -> Option<PullBack> {
    let Representation::Gibbs { epsilon, .. } = *shape else {
        return None;
    };
    let (n, k, m) = (problem.rows(), problem.cols(), problem.marginals());
    // A slack row or column would have a potential of its own that moves, too.
    if m.slack().row > 0.0 || m.slack().col > 0.0 {
        return None;
    }
    let lines = super::value::Lines::new(problem, potentials, shape, None);
    let operator = Operator::new(problem, potentials, shape);
    let row_sums = match m.row_penalty() {
        Penalty::Exact => m.rows(),
        _ => &lines.row_sums[..],
    };
    let side = |penalty, masses, sums, phi| {
        SideOf::new(penalty, m.reference(), epsilon, masses, sums, phi)
    };
    let system = System {
        rows: side(m.row_penalty(), m.rows(), row_sums, &lines.rows),
        cols: side(m.col_penalty(), m.cols(), &lines.col_sums, &lines.cols),
        products: Products::new(&operator, n, k),
        singular: !m.is_relaxed(),
    };
    let (p, q) = right_side(&operator, cotangent, epsilon, n, k);
    let found = system.solve(&p, &q);
    let (x, y) = (found.x, found.y);
    let row_masses = system.rows.masses(epsilon, &x, &p, &found.push);
    let col_masses = system.cols.masses(epsilon, &y, &q, &found.pull);
    let weights = |i: usize, j: usize, p: f64| {
        let slope = cotangent.plan.map_or(0.0, |t| t.at(i, j));
        p * (x[i] + y[j] - slope / epsilon)
    };
    let points = moves(problem).then(|| weighted(&operator, problem, weights, true));
    let (row_points, col_points) = points.flatten().unwrap_or_default();
    Some(PullBack {
        row_masses,
        col_masses,
        row_points,
        col_points,
        row_part: x,
        col_part: y,
        residual: found.residual,
    })
}

/// p and q: the function's derivative with respect to the plan, weighted by the plan in one pass, and to the potentials.
fn right_side<T: Real>(
    operator: &Operator<'_, T>,
    cotangent: &Cotangent<'_>,
    epsilon: f64,
    n: usize,
    k: usize,
) -> (Vec<f64>, Vec<f64>) {
    let or_zeros = |values: &[f64], count: usize| match values.is_empty() {
        true => vec![0.0; count],
        false => values.to_vec(),
    };
    let (mut p, mut q) = (or_zeros(&cotangent.rows, n), or_zeros(&cotangent.cols, k));
    let Some(table) = cotangent.plan else {
        return (p, q);
    };
    let begin = || (Vec::<(usize, f64)>::new(), vec![0.0; k], vec![0.0; k]);
    let tiles = operator.map_rows(begin, |(rows, cols, slopes), i, line| {
        table.fill(i..i + 1, slopes);
        let mut sum = 0.0;
        for ((c, &p), &s) in cols.iter_mut().zip(line).zip(&*slopes) {
            if p > 0.0 {
                let weight = p * s / epsilon;
                sum += weight;
                *c += weight;
            }
        }
        rows.push((i, sum));
    });
    for (rows, cols, _) in tiles {
        rows.into_iter().for_each(|(i, v)| p[i] += v);
        q.iter_mut().zip(cols).for_each(|(q, c)| *q += c);
    }
    (p, q)
}

/// Whether costs are those of points with a metric that brings its derivative.
fn moves<T: Real>(problem: &Erased<'_, T>) -> bool {
    problem.cost().points().is_some_and(|points| {
        let d = points.dimension;
        let (x, y) = (&points.rows[..d], &points.cols[..d]);
        points.metric.gradient(x, y, &mut vec![0.0; d])
    })
}

/// The system of both sides.
struct System<'a, T> {
    rows: SideOf,
    cols: SideOf,
    products: Products<'a, T>,
    /// Whether a constant can go from one side's answer to the other's.
    singular: bool,
}

/// The answer of a [`System`], with what it was multiplied to on the way.
struct Solved {
    x: Vec<f64>,
    y: Vec<f64>,
    /// P y.
    push: Vec<f64>,
    /// Pᵀ x.
    pull: Vec<f64>,
    residual: f64,
}

impl<T: Real> System<'_, T> {
    /// Solves for y with the rows eliminated; x follows.
    fn solve(&self, p: &[f64], q: &[f64]) -> Solved {
        let (rows, cols, products) = (&self.rows.diagonal, &self.cols.diagonal, &self.products);
        let over =
            |values: &[f64]| -> Vec<f64> { values.iter().zip(rows).map(|(v, a)| v / a).collect() };
        let curvature = |y: &[f64]| -> Vec<f64> {
            let back = products.transposed_times(&over(&products.times(y)));
            let each = y.iter().zip(cols).zip(&back);
            each.map(|((y, b), p)| if b.is_finite() { b * y - p } else { 0.0 })
                .collect()
        };
        let pushed = products.transposed_times(&over(p));
        let right: Vec<f64> = (q.iter().zip(&pushed).zip(cols))
            .map(|((q, p), b)| if b.is_finite() { q - p } else { 0.0 })
            .collect();
        let (y, residual) = conjugate_gradients(curvature, &right, cols, self.singular);
        let push = products.times(&y);
        let x: Vec<f64> = (p.iter().zip(&push).zip(rows))
            .map(|((p, t), a)| (p - t) / a)
            .collect();
        let pull = products.transposed_times(&x);
        Solved {
            x,
            y,
            push,
            pull,
            residual,
        }
    }
}

/// Solves a symmetric positive system, singular along the constant where said, with its diagonal's inverse beforehand. Lines of
/// infinite diagonal stay at zero.
fn conjugate_gradients(
    matrix: impl Fn(&[f64]) -> Vec<f64>,
    right: &[f64],
    diagonal: &[f64],
    singular: bool,
) -> (Vec<f64>, f64) {
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let open: Vec<bool> = diagonal.iter().map(|d| d.is_finite()).collect();
    let count = open.iter().filter(|o| **o).count().max(1) as f64;
    // What the constant would have to answer for has no answer; nothing that makes sense asks for it.
    let project = |v: &mut Vec<f64>| {
        if singular {
            let mean = v.iter().sum::<f64>() / count;
            v.iter_mut()
                .zip(&open)
                .filter(|(_, o)| **o)
                .for_each(|(v, _)| *v -= mean);
        }
    };
    let mut residual = right.to_vec();
    project(&mut residual);
    let scale = dot(&residual, &residual).sqrt();
    let mut y = vec![0.0; right.len()];
    if scale == 0.0 {
        return (y, 0.0);
    }
    let ready = |r: &[f64]| -> Vec<f64> { r.iter().zip(diagonal).map(|(r, d)| r / d).collect() };
    let mut z = ready(&residual);
    let mut direction = z.clone();
    let mut along = dot(&residual, &z);
    let (mut best, mut best_y) = (scale, y.clone());
    for _ in 0..MOST_STEPS {
        let pushed = matrix(&direction);
        let bend = dot(&direction, &pushed);
        if !(bend > 0.0) {
            break;
        }
        let step = along / bend;
        y.iter_mut()
            .zip(&direction)
            .for_each(|(y, d)| *y += step * d);
        residual
            .iter_mut()
            .zip(&pushed)
            .for_each(|(r, p)| *r -= step * p);
        project(&mut residual);
        let left = dot(&residual, &residual).sqrt();
        if left < best {
            best = left;
            best_y.copy_from_slice(&y);
        }
        if left <= SOLVED_RESIDUAL * scale {
            break;
        }
        z = ready(&residual);
        let next = dot(&residual, &z);
        let keep = next / along;
        along = next;
        direction
            .iter_mut()
            .zip(&z)
            .for_each(|(d, z)| *d = z + keep * *d);
    }
    (best_y, best / scale)
}
