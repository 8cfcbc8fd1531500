//! The dual variables: prices of mass at each row and column.
//!
//! Feasible prices satisfy f_i + g_j ≤ C_ij for every pair, slack pairs included; then
//! `Σ a_i f_i + Σ b_j g_j` (slack included) is a lower bound of every plan's cost. Only sums `f_i + g_j`
//! matter: adding a constant to all of f and taking it from all of g changes nothing, unless masses are penalised.
//!
//! Those of an entropic answer are such that
//!
//! ```text
//! P_ij = exp((f_i + g_j − C_ij)/ε)
//! ```
//!
//! with the masses *inside* f and g. Libraries that write P_ij = a_i b_j exp((φ_i + ψ_j − C_ij)/ε) have φ_i = f_i − ε ln a_i and
//! ψ_j = g_j − ε ln b_j; it is φ and ψ that are derivatives of the value with respect to the masses
//! ([`Solution::gradient_masses`](crate::Solution::gradient_masses)).

use crate::Slack;
use crate::sweep::DualPoint;

/// Dual variables of every row and column.
///
/// Of an entropic answer `P_ij = exp((f_i + g_j − C_ij)/ε)`, the masses being part of f and g: subtract `ε ln a_i` and `ε ln b_j` for
/// the potentials of the convention `P_ij = a_i b_j exp((φ_i + ψ_j − C_ij)/ε)`.
///
/// The column side alone determines an entropic plan, so it is all a warm start or checkpoint needs.
/// −∞ stands for a row or column that carries no mass.
///
/// # Examples
/// ```
/// use earthmover::{Dense, Marginals, Problem, Sinkhorn};
/// let problem = Problem::new(Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2)?, Marginals::uniform(2, 2)?)?;
/// let first = Sinkhorn::new(0.1).solve(&problem)?;
/// let again = Sinkhorn::new(0.1).solve_from(&problem, first.potentials())?;
/// assert_eq!(again.iterations(), 1); // one sweep to see that nothing is left to do
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Potentials {
    /// One per row.
    #[cfg_attr(feature = "serde", serde(with = "crate::kernel::extended::list"))]
    pub rows: Vec<f64>,
    /// One per column.
    #[cfg_attr(feature = "serde", serde(with = "crate::kernel::extended::list"))]
    pub cols: Vec<f64>,
    /// Of the slack row; −∞ where it carries no mass.
    #[cfg_attr(feature = "serde", serde(with = "crate::kernel::extended"))]
    pub slack_row: f64,
    /// Of the slack column; −∞ where it carries no mass.
    #[cfg_attr(feature = "serde", serde(with = "crate::kernel::extended"))]
    pub slack_col: f64,
}

impl Potentials {
    /// Potentials of the rows and of the columns, of a problem without slack.
    #[must_use]
    pub fn new(rows: Vec<f64>, cols: Vec<f64>) -> Self {
        Self {
            rows,
            cols,
            slack_row: f64::NEG_INFINITY,
            slack_col: f64::NEG_INFINITY,
        }
    }

    /// Those of the columns alone, which is all that an entropic solver starts from.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Dense, Marginals, Potentials, Problem, Sinkhorn};
    /// let problem = Problem::new(Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2)?, Marginals::uniform(2, 2)?)?;
    /// let start = Potentials::from_columns(vec![0.0, 0.0]);
    /// assert_eq!(Sinkhorn::new(0.1).solve_from(&problem, &start)?.iterations(), 1);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    #[must_use]
    pub fn from_columns(cols: Vec<f64>) -> Self {
        Self::new(Vec::new(), cols)
    }

    /// The same with potentials of the slack row and column.
    #[must_use]
    pub fn slack(self, slack_row: f64, slack_col: f64) -> Self {
        Self {
            slack_row,
            slack_col,
            ..self
        }
    }

    pub(crate) fn dual_point(&self, epsilon: f64, slack: Slack) -> DualPoint<'_> {
        DualPoint {
            epsilon,
            cols: &self.cols,
            slack: self.slack_col - slack.col_cost,
        }
    }

    /// Rows and columns exchanged.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            slack_row: self.slack_col,
            slack_col: self.slack_row,
        }
    }
}
