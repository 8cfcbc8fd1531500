//! An entropic problem that changes a few rows at a time and is solved again after each change.

use super::backend::Active;
use super::table::Table;
use crate::newton::{Limits, descend};
use crate::sinkhorn::{check_epsilon, check_tolerance};
use crate::sweep::{Backend, Target};
use crate::{Dense, Error, Marginals, Potentials, Problem, Real, Status};

/// A problem with few columns whose rows are replaced now and then, with its solution kept up to date.
///
/// What a re-solve costs depends on what has changed: replaced rows are taken out of the column sums and
/// put in again, and where the sums are still within the tolerance no iteration is needed at all.
/// Memory is the table of costs and O(rows + cols²).
///
/// # Examples
/// ```
/// use earthmover::{Incremental, Marginals};
/// // Four examples, two classes that take at most three each; at least three examples are placed.
/// let marginals = Marginals::bounded(&[1.0; 4], &[3.0, 3.0], 3.0)?;
/// let mut problem = Incremental::new(vec![0.7f32; 8], marginals, 0.01)?;
/// let first = problem.solve(1e-6)?;
/// assert!(first.status.is_converged());
///
/// problem.replace_rows(&[2], &[0.1, 2.3])?;
/// let again = problem.solve(1e-6)?;
/// assert!(again.status.is_converged() && again.violation <= 1e-6);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug)]
pub struct Incremental<T> {
    active: Active<T, Table<T>>,
    marginals: Marginals,
    target: Target,
    epsilon: f64,
    /// Column potentials, slack last.
    g: Vec<f64>,
    /// Column sums of the real rows at `g`, kept up to date.
    sums: Vec<f64>,
    /// Whether `sums` belong to `g` and the rows as they are.
    fresh: bool,
    max_iterations: usize,
}

/// How a re-solve went.
#[derive(Debug, Clone, Copy, PartialEq)]
#[must_use = "look at `status` before trusting the answer"]
pub struct Resolve {
    /// How it ended.
    pub status: Status,
    /// L1 error of the column sums over the total mass.
    pub violation: f64,
    /// Sweeps used; zero where nothing had to be done.
    pub iterations: usize,
}

impl<T: Real> Incremental<T> {
    /// Takes over a row-major table of costs, one row per row mass of the marginals.
    ///
    /// # Errors
    /// [`Error::Length`] where the table does not fit the marginals, [`Error::Cost`] for a NaN or −∞ in
    /// it, [`Error::Option`] for an ε outside its range.
    pub fn new(costs: Vec<T>, marginals: Marginals, epsilon: f64) -> Result<Self, Error> {
        check_epsilon(epsilon)?;
        let (rows, cols) = (marginals.rows().len(), marginals.cols().len());
        let expected = rows
            .checked_mul(cols)
            .ok_or(Error::TooLarge { rows, cols })?;
        if costs.len() != expected {
            return Err(Error::Length {
                what: "cost table",
                expected,
                found: costs.len(),
            });
        }
        check_costs(&costs, cols)?;
        let target = Target::new(&marginals);
        let table = Table {
            entries: costs,
            cols,
        };
        Ok(Self {
            active: Active::new(table, marginals.rows().to_vec(), 1e-4),
            g: target.rest(),
            sums: vec![0.0; cols + 1],
            target,
            marginals,
            epsilon,
            fresh: false,
            max_iterations: 1_000,
        })
    }

    /// Most sweeps of one [`solve`](Self::solve). Default 1,000.
    #[must_use]
    pub fn max_iterations(mut self, sweeps: usize) -> Self {
        self.max_iterations = sweeps;
        self
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.marginals.rows().len()
    }

    /// Number of columns, slack not counted.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.marginals.cols().len()
    }

    /// The masses in force.
    #[must_use]
    pub fn marginals(&self) -> &Marginals {
        &self.marginals
    }

    /// The regularisation.
    #[must_use]
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// The costs of a row.
    #[must_use]
    pub fn cost_row(&self, row: usize) -> Option<&[T]> {
        (row < self.rows()).then(|| self.active.cost.row(row))
    }

    /// All costs, row-major.
    #[must_use]
    pub fn costs(&self) -> &[T] {
        &self.active.cost.entries
    }

    /// The question as it stands, for any solver or certificate.
    ///
    /// # Errors
    /// None that a valid table could cause.
    pub fn problem(&self) -> Result<Problem<T, Dense<'_, T>>, Error> {
        let cost = Dense::new(&self.active.cost.entries, self.rows(), self.cols())?;
        Problem::new(cost, self.marginals.clone())
    }

    /// Potentials of the columns, and of the slack column behind them (−∞ where it has no mass).
    #[must_use]
    pub fn potentials(&self) -> &[f64] {
        &self.g
    }

    /// Sets the column potentials (slack last), to go on from a checkpoint.
    ///
    /// # Errors
    /// [`Error::Length`] or [`Error::Start`] for potentials that do not fit.
    pub fn set_potentials(&mut self, g: &[f64]) -> Result<(), Error> {
        let k = self.cols();
        if g.len() != k + 1 {
            return Err(Error::Length {
                what: "potentials",
                expected: k + 1,
                found: g.len(),
            });
        }
        let from = Potentials {
            cols: g[..k].to_vec(),
            slack_col: g[k],
            ..Potentials::default()
        };
        self.g = self.target.start(&from)?;
        self.fresh = false;
        Ok(())
    }

    /// Mass that each column receives from the real rows, slack column last, at the last solve.
    #[must_use]
    pub fn col_sums(&self) -> &[f64] {
        &self.sums
    }

    /// Replaces rows of the table: `costs` holds one row after the other, in the order of `rows`.
    ///
    /// # Errors
    /// [`Error::Length`] for the wrong number of costs, [`Error::Index`] for a row out of range, [`Error::Cost`] for a
    /// NaN or −∞ (its row being the position in `rows`), [`Error::Repeated`] for a row named twice. Nothing
    /// has changed then.
    pub fn replace_rows(&mut self, rows: &[usize], costs: &[T]) -> Result<(), Error> {
        let k = self.cols();
        let expected = rows.len() * k;
        if costs.len() != expected {
            return Err(Error::Length {
                what: "replaced rows",
                expected,
                found: costs.len(),
            });
        }
        check_costs(costs, k)?;
        let mut sorted = rows.to_vec();
        sorted.sort_unstable();
        if let Some(&index) = sorted.iter().find(|i| **i >= self.rows()) {
            return Err(Error::Index {
                what: "row",
                index,
                len: self.rows(),
            });
        }
        if let Some(pair) = sorted.windows(2).find(|w| w[0] == w[1]) {
            return Err(Error::Repeated { index: pair[0] });
        }
        let at = self.target.scaling(self.epsilon, &self.g);
        if self.fresh {
            self.active.add_rows(rows, &at, -1.0, &mut self.sums);
        }
        for (&i, row) in rows.iter().zip(costs.chunks_exact(k)) {
            self.active.cost.entries[i * k..][..k].copy_from_slice(row);
        }
        self.active.relist(rows);
        if self.fresh {
            self.active.add_rows(rows, &at, 1.0, &mut self.sums);
        }
        Ok(())
    }

    /// Changes masses: of the columns and the slack at no cost, of the rows at the price of a full sweep.
    ///
    /// # Errors
    /// [`Error::Length`] where the number of rows or columns differs. Nothing has changed then.
    pub fn set_marginals(&mut self, marginals: Marginals) -> Result<(), Error> {
        for (what, expected, found) in [
            ("row masses", self.rows(), marginals.rows().len()),
            ("column masses", self.cols(), marginals.cols().len()),
        ] {
            if expected != found {
                return Err(Error::Length {
                    what,
                    expected,
                    found,
                });
            }
        }
        let target = Target::new(&marginals);
        let k = self.cols();
        let from = Potentials {
            cols: self.g[..k].to_vec(),
            slack_col: self.g[k],
            ..Potentials::default()
        };
        let g = target.start(&from)?;
        if g != self.g {
            self.fresh = false;
        }
        if marginals.rows() != self.marginals.rows() {
            self.active.masses = marginals.rows().to_vec();
            self.active.forget();
            self.fresh = false;
        }
        (self.g, self.target, self.marginals) = (g, target, marginals);
        Ok(())
    }

    /// L1 error of the column sums over the total mass, as the maintained sums have it.
    fn violation(&mut self) -> f64 {
        let mut sums = self.sums.clone();
        self.target.add_slack_row(self.epsilon, &self.g, &mut sums);
        self.target.violation(&sums)
    }

    /// Brings the potentials to where the column sums are within `tolerance` of the total mass.
    ///
    /// # Errors
    /// [`Error::Option`] for a tolerance that is not positive, [`Error::Blocked`] where forbidden pairs
    /// leave a row or column no way.
    pub fn solve(&mut self, tolerance: f64) -> Result<Resolve, Error> {
        check_tolerance(tolerance)?;
        self.active.set_faint(0.01 * tolerance);
        if self.fresh {
            let violation = self.violation();
            if violation <= tolerance {
                return Ok(Resolve {
                    status: Status::Converged,
                    violation,
                    iterations: 0,
                });
            }
        }
        let limits = Limits {
            tolerance,
            max_iterations: self.max_iterations,
            observer: None,
        };
        let outcome = descend(
            &mut self.active,
            &mut self.target,
            self.g.clone(),
            self.epsilon,
            0,
            &limits,
        )?;
        self.g = outcome.g;
        let at = self.target.scaling(self.epsilon, &self.g);
        self.active.sweep(&at, &mut self.sums)?;
        self.fresh = true;
        Ok(Resolve {
            status: outcome.status,
            violation: outcome.violation,
            iterations: outcome.iterations,
        })
    }
}

fn check_costs<T: Real>(costs: &[T], cols: usize) -> Result<(), Error> {
    match costs
        .iter()
        .position(|c| c.is_nan() || *c == T::neg_infinity())
    {
        Some(at) => Err(Error::Cost {
            row: at / cols,
            col: at % cols,
            value: costs[at].widen(),
        }),
        None => Ok(()),
    }
}
