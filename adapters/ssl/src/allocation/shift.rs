//! Class proportions under label shift, from a classifier's confusion matrix.
//!
//! Suppose the unlabeled examples have other class shares q than the labeled ones, p, while what a class
//! looks like is the same (label shift). Let C_ij be the share of held-out *labeled* examples that are
//! predicted i and are of class j, and μ_i the share of *unlabeled* examples predicted i. Then
//!
//! ```text
//! C w = μ,     w_j = q_j / p_j,     p_j = Σ_i C_ij,
//! ```
//!
//! whatever the classifier, as long as C is invertible (black-box shift estimation). Noise in μ is blown up by
//! C⁻¹, so a ridge may pull the weights towards one, "no shift":
//! minimise ‖C w − μ‖² + λ‖w − 1‖². The proportions are then taken to the nearest point of the simplex.
//!
//! # References
//! Lipton, Wang and Smola, "Detecting and correcting for label shift with black box predictors" (2018);
//! Azizzadenesheli et al., "Regularized learning for domain adaptation under label shifts" (2019).

use crate::Error;

/// Estimates the class shares of unlabeled data from a confusion matrix.
///
/// # Examples
/// ```
/// use earthmover_ssl::allocation::ShiftEstimator;
/// // 100 held-out examples, rows: predicted class, columns: true class. The classifier errs 1 in 5 times.
/// let estimator = ShiftEstimator::new(&[40.0, 10.0, 10.0, 40.0], 2)?;
/// // The unlabeled set is 90% class 0, so 0.9·0.8 + 0.1·0.2 = 74% are predicted 0.
/// let shift = estimator.estimate(&[740.0, 260.0])?;
/// assert!((shift.proportions[0] - 0.9).abs() < 1e-12);
/// # Ok::<(), earthmover_ssl::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ShiftEstimator {
    classes: usize,
    /// Joint shares C_ij, row-major, predicted by true.
    joint: Vec<f64>,
    ridge: f64,
}

/// What [`ShiftEstimator::estimate`] found.
#[derive(Debug, Clone, PartialEq)]
pub struct Shift {
    /// Class shares q of the unlabeled data: not negative, summing to one.
    pub proportions: Vec<f64>,
    /// Importance weights w_j = q_j/p_j as solved for, before the shares were taken to the simplex.
    pub weights: Vec<f64>,
    /// Total variation distance between the labeled and the unlabeled shares.
    pub distance: f64,
}

impl ShiftEstimator {
    /// From a confusion matrix of counts or shares, row-major, one row per *predicted* class and one column
    /// per *true* class, measured on labeled examples the classifier was not trained on.
    ///
    /// # Errors
    /// [`Error::Classes`] for fewer than two classes, [`Error::Length`] for a wrong size, [`Error::Bound`]
    /// for a NaN, infinite or negative entry, [`Error::NoCounts`] where all are zero.
    pub fn new(confusion: &[f64], classes: usize) -> Result<Self, Error> {
        if classes < 2 {
            return Err(Error::Classes { found: classes });
        }
        let joint = shares("confusion matrix", confusion, classes * classes)?;
        Ok(Self {
            classes,
            joint,
            ridge: 0.0,
        })
    }

    /// Weight λ of the pull towards "no shift". Default 0: solve C w = μ itself.
    #[must_use]
    pub fn ridge(mut self, ridge: f64) -> Self {
        self.ridge = ridge;
        self
    }

    /// The shares of the unlabeled data given how often each class was predicted on it (counts or shares).
    ///
    /// # Errors
    /// As [`new`](Self::new) for the counts, [`Error::Option`] for a negative or NaN ridge,
    /// [`Error::Singular`] where the classifier does not tell the classes apart.
    pub fn estimate(&self, predicted: &[f64]) -> Result<Shift, Error> {
        if !(self.ridge.is_finite() && self.ridge >= 0.0) {
            return Err(Error::Option {
                name: "ridge",
                value: self.ridge,
                expected: "finite and not negative",
            });
        }
        let k = self.classes;
        let mu = shares("predicted counts", predicted, k)?;
        let (mut matrix, mut weights) = if self.ridge == 0.0 {
            (self.joint.clone(), mu)
        } else {
            self.normal_equations(&mu)
        };
        solve(&mut matrix, &mut weights, k)?;
        let labeled: Vec<f64> = (0..k)
            .map(|j| self.joint[j..].iter().step_by(k).sum())
            .collect();
        let mut proportions: Vec<f64> = weights.iter().zip(&labeled).map(|(w, p)| w * p).collect();
        project_to_simplex(&mut proportions);
        let gaps = proportions.iter().zip(&labeled).map(|(q, p)| (q - p).abs());
        let distance = 0.5 * gaps.sum::<f64>();
        Ok(Shift {
            proportions,
            weights,
            distance,
        })
    }

    /// CᵀC + λI and Cᵀμ + λ1.
    fn normal_equations(&self, mu: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (k, c) = (self.classes, &self.joint);
        let mut matrix = vec![0.0; k * k];
        let mut right = vec![self.ridge; k];
        for i in 0..k {
            let row = &c[i * k..][..k];
            for a in 0..k {
                right[a] += row[a] * mu[i];
                for b in 0..k {
                    matrix[a * k + b] += row[a] * row[b];
                }
            }
        }
        for a in 0..k {
            matrix[a * k + a] += self.ridge;
        }
        (matrix, right)
    }
}

/// Non-negative values scaled to sum to one.
fn shares(what: &'static str, values: &[f64], expected: usize) -> Result<Vec<f64>, Error> {
    if values.len() != expected {
        return Err(Error::Length {
            what,
            expected,
            found: values.len(),
        });
    }
    if let Some(index) = values.iter().position(|v| !(v.is_finite() && *v >= 0.0)) {
        let value = values[index];
        return Err(Error::Bound { what, index, value });
    }
    let total: f64 = values.iter().sum();
    if total <= 0.0 {
        return Err(Error::NoCounts);
    }
    Ok(values.iter().map(|v| v / total).collect())
}

/// Gaussian elimination with partial pivoting; the solution replaces the right-hand side.
fn solve(matrix: &mut [f64], right: &mut [f64], k: usize) -> Result<(), Error> {
    let mut largest = 0.0f64;
    for col in 0..k {
        let mut best = col;
        for row in col + 1..k {
            if matrix[row * k + col].abs() > matrix[best * k + col].abs() {
                best = row;
            }
        }
        let pivot = matrix[best * k + col];
        largest = largest.max(pivot.abs());
        let ratio = pivot.abs() / largest;
        if ratio.is_nan() || ratio <= 1e-12 {
            return Err(Error::Singular {
                class: col,
                pivot: ratio,
            });
        }
        if best != col {
            for j in 0..k {
                matrix.swap(best * k + j, col * k + j);
            }
            right.swap(best, col);
        }
        for row in col + 1..k {
            let factor = matrix[row * k + col] / pivot;
            if factor != 0.0 {
                for j in col..k {
                    matrix[row * k + j] -= factor * matrix[col * k + j];
                }
                right[row] -= factor * right[col];
            }
        }
    }
    for row in (0..k).rev() {
        let known: f64 = (row + 1..k).map(|j| matrix[row * k + j] * right[j]).sum();
        right[row] = (right[row] - known) / matrix[row * k + row];
    }
    Ok(())
}

/// Moves `x` to the nearest point (Euclid) of the probability simplex: max(x − θ, 0) with θ such that the
/// sum is one.
fn project_to_simplex(x: &mut [f64]) {
    let mut sorted = x.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut sum, mut theta) = (0.0, 0.0);
    for (index, value) in sorted.iter().enumerate() {
        sum += value;
        let candidate = (sum - 1.0) / (index + 1) as f64;
        if *value > candidate {
            theta = candidate;
        }
    }
    for value in x {
        *value = (*value - theta).max(0.0);
    }
}
