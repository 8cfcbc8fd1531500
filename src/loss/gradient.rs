//! Gradients of the value, streamed.
//!
//! ```text
//! ∂F/∂C_ij = P_ij        ∂F/∂x_i = Σ_j P_ij ∂c(x_i, y_j)/∂x_i        ∂F/∂y_j = Σ_i P_ij ∂c(x_i, y_j)/∂y_j
//!
//! ∂F/∂a_i = φ_i − ε (r_i/a_i − Σ b)              masses kept, entropy relative to the product
//!         = τ (1 − exp(−φ_i/τ)) − ε (r_i/a_i − Σ b)    under KL(τ); TV: φ_i ≤ τ in the place of φ_i
//! ```
//!
//! (without the second term for the counting measure). By the envelope theorem: at the optimum the plan need not be differentiated. For
//! squared distances the sum is a product with the plan, 2 (r_i x_i − (P·Y)_i), with the clouds' centre taken off first.

use crate::cost::Points;
use crate::problem::Erased;
use crate::solution::operator::{Operator, Products};
use crate::solution::plan::Representation;
use crate::{Cost, Error, Potentials, Real, Reference, Solution};

/// Which clouds' gradients are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(unreachable_pub)]
pub enum Sides {
    Rows,
    Both,
}

pub(crate) fn point_gradients<T: Real>(
    problem: &Erased<'_, T>,
    potentials: &Potentials,
    shape: &Representation,
    sides: Sides,
) -> Option<(Vec<f64>, Vec<f64>)> {
    let points = problem.cost().points()?;
    let (d, metric) = (points.dimension, points.metric);
    let operator = Operator::new(problem, potentials, shape);
    let both = sides == Sides::Both;
    if let Some(clouds) = Quadratic::of(&points) {
        let x = both.then_some(&clouds.x[..]);
        return Some(clouds.gradients(&operator.products(x, Some(&clouds.y), d)));
    }
    let probe = &mut vec![0.0; d];
    let (x, y) = (&points.rows[..d], &points.cols[..d]);
    if !metric.gradient(x, y, probe) || (both && !metric.gradient_of_second(x, y, probe)) {
        return None;
    }
    let weights = |_: usize, _: usize, p: f64| p;
    weighted(&operator, problem, weights, both)
}

/// Clouds of squared distances, less their common centre.
pub(crate) struct Quadratic {
    pub(crate) x: Vec<f64>,
    pub(crate) y: Vec<f64>,
    pub(crate) dimension: usize,
}

impl Quadratic {
    pub(crate) fn of<T: Real>(points: &Points<'_, T>) -> Option<Self> {
        if !points.metric.is_quadratic() {
            return None;
        }
        let d = points.dimension;
        let centre = centre(points.rows, d);
        let centred = |points: &[T]| -> Vec<f64> {
            let each = points.chunks_exact(d);
            each.flat_map(|p| p.iter().zip(&centre).map(|(x, c)| x.widen() - c))
                .collect()
        };
        Some(Self {
            x: centred(points.rows),
            y: centred(points.cols),
            dimension: d,
        })
    }

    /// 2 (r x − P·Y), and the same of the columns where Pᵀ·X is there.
    pub(crate) fn gradients(&self, products: &Products) -> (Vec<f64>, Vec<f64>) {
        let d = self.dimension;
        let twice = |points: &[f64], product: &[f64], sums: &[f64]| -> Vec<f64> {
            let lines = points.chunks_exact(d).zip(product.chunks_exact(d));
            let each = lines.zip(sums).flat_map(|((x, p), sum)| {
                let both = x.iter().zip(p);
                both.map(move |(x, p)| 2.0 * (sum * x - p))
            });
            each.collect()
        };
        (
            twice(&self.x, &products.rows, &products.row_sums),
            twice(&self.y, &products.cols, &products.col_sums),
        )
    }
}

/// `Σ_j w_ij ∂c/∂x_i` and, where asked for, `Σ_i w_ij ∂c/∂y_j`, with weights made of the entries of a plan.
pub(crate) fn weighted<T: Real>(
    operator: &Operator<'_, T>,
    problem: &Erased<'_, T>,
    weights: impl Fn(usize, usize, f64) -> f64 + Sync,
    both: bool,
) -> Option<(Vec<f64>, Vec<f64>)> {
    let points = problem.cost().points()?;
    let (d, metric) = (points.dimension, points.metric);
    let (n, k) = (problem.rows(), problem.cols());
    let begin = || {
        let cols = vec![0.0; if both { k * d } else { 0 }];
        (Vec::<(usize, Vec<f64>)>::new(), cols, vec![0.0; d])
    };
    let tiles = operator.map_rows(begin, |(rows, cols, slope), i, line| {
        let x = &points.rows[i * d..][..d];
        let mut sum = vec![0.0; d];
        for (j, &p) in line.iter().enumerate().filter(|(_, p)| **p > 0.0) {
            let (y, w) = (&points.cols[j * d..][..d], weights(i, j, p));
            metric.gradient(x, y, slope);
            sum.iter_mut().zip(&*slope).for_each(|(s, g)| *s += w * g);
            if both {
                metric.gradient_of_second(x, y, slope);
                let out = cols[j * d..][..d].iter_mut();
                out.zip(&*slope).for_each(|(s, g)| *s += w * g);
            }
        }
        rows.push((i, sum));
    });
    let (mut rows, mut cols) = (vec![0.0; n * d], vec![0.0; if both { k * d } else { 0 }]);
    for (lines, part, _) in tiles {
        for (i, line) in lines {
            rows[i * d..][..d].copy_from_slice(&line);
        }
        cols.iter_mut().zip(part).for_each(|(c, p)| *c += p);
    }
    Some((rows, cols))
}

/// The mean of some points.
fn centre<T: Real>(points: &[T], d: usize) -> Vec<f64> {
    let mut sum = vec![0.0; d];
    for point in points.chunks_exact(d) {
        sum.iter_mut().zip(point).for_each(|(s, x)| *s += x.widen());
    }
    let count = (points.len() / d) as f64;
    sum.iter().map(|s| s / count).collect()
}

impl<T: Real, C: Cost<T>> Solution<'_, T, C> {
    /// The gradient of the value with respect to the points of both clouds, row points first, each point after point.
    ///
    /// Of the [regularised](Self::regularised) value of an entropic answer; of the optimum of an exact one, where it has a gradient.
    ///
    /// # Errors
    /// [`Error::NoGradient`] where the cost is not made of points, or its metric has no
    /// [derivative](crate::Metric::gradient).
    ///
    /// # Complexity
    /// Two passes over the cost, in parallel; O((n + m) d) memory.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Entropic, Marginals, PointCloud, Problem, SquaredEuclidean};
    /// let (here, there) = ([0.0, 1.0], [3.0]);
    /// let cost = PointCloud::new(&here, &there, 1, SquaredEuclidean)?;
    /// let problem = Problem::new(cost, Marginals::uniform(2, 1)?)?;
    /// let (x, y) = Entropic::new(0.1).solve(&problem)?.gradient_points()?;
    /// assert!((x[0] + 3.0).abs() < 1e-12 && (x[1] + 2.0).abs() < 1e-12); // half of 2 (x − y) each
    /// assert!((y[0] - 5.0).abs() < 1e-12);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn gradient_points(&self) -> Result<(Vec<f64>, Vec<f64>), Error> {
        self.point_gradients(Sides::Both)
    }

    pub(crate) fn point_gradients(&self, sides: Sides) -> Result<(Vec<f64>, Vec<f64>), Error> {
        let problem = self.problem().erased();
        T::point_gradients(&problem, self.columns(), self.representation(), sides)
            .ok_or(Error::NoGradient)
    }

    /// The gradient of the value with respect to the masses of rows and columns, lines of no mass included.
    ///
    /// With exact masses only changes that keep both totals equal make sense, and a constant may be moved from one side to the other;
    /// it is chosen so that both sides' mean, weighted by mass, is the same. The value is the [regularised](Self::regularised) one
    /// with the [reference](crate::Marginals::reference) of the marginals: ε ln a is *not* part of it by default.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, Entropic, Marginals, Problem};
    /// let problem = Problem::new(Dense::new(&[0.0, 1.0, 3.0, 0.0], 2, 2)?, Marginals::uniform(2, 2)?)?;
    /// let (rows, cols) = Entropic::new(0.1).solve(&problem)?.gradient_masses();
    /// assert!(rows[1] + cols[0] > rows[0] + cols[0]); // the second row has the longer way to the first column
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    #[must_use]
    pub fn gradient_masses(&self) -> (Vec<f64>, Vec<f64>) {
        self.mass_gradients(&self.lines())
    }

    pub(crate) fn mass_gradients(&self, lines: &super::value::Lines) -> (Vec<f64>, Vec<f64>) {
        let (m, epsilon) = (self.problem().marginals(), self.epsilon());
        let slack = m.slack();
        let (supply, demand) = (
            m.rows().iter().sum::<f64>() + slack.row,
            m.cols().iter().sum::<f64>() + slack.col,
        );
        let of =
            |penalty: crate::Penalty, prices: &[f64], ratios: &[f64], other: f64| -> Vec<f64> {
                let each = prices.iter().zip(ratios);
                each.map(|(&price, ratio)| {
                    let entropy = match m.reference() {
                        Reference::Product if epsilon > 0.0 => epsilon * (ratio - other),
                        _ => 0.0,
                    };
                    penalty.conjugate(1.0, price) - entropy
                })
                .collect()
            };
        let mut rows = of(m.row_penalty(), &lines.rows, &lines.row_ratios, demand);
        let mut cols = of(m.col_penalty(), &lines.cols, &lines.col_ratios, supply);
        if !m.is_relaxed() && slack.row == 0.0 && slack.col == 0.0 {
            let mean = |values: &[f64], masses: &[f64], total: f64| -> f64 {
                let carrying = values.iter().zip(masses).filter(|(_, m)| **m > 0.0);
                carrying.map(|(v, m)| v * (m / total)).sum()
            };
            let apart = mean(&cols, m.cols(), demand) - mean(&rows, m.rows(), supply);
            if apart.is_finite() {
                rows.iter_mut().for_each(|f| *f += 0.5 * apart);
                cols.iter_mut().for_each(|g| *g -= 0.5 * apart);
            }
        }
        (rows, cols)
    }
}
