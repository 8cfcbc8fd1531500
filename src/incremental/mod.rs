//! An entropic problem that changes a few rows at a time and is solved again after each change.

mod frozen_newton;

use crate::entropic::newton::{Limits, Step, descend};
use crate::entropic::outcome::{check_epsilon, check_tolerance};
use crate::entropic::semidual::SemiDual;
use crate::kernel::tiles::MOST_CURVED;
use crate::problem::check;
use crate::solution::start;
use crate::solver::{Watch, options};
use crate::sweep::Backend;
use crate::sweep::active::Active;
use crate::sweep::shared::Shared;
use crate::{Error, Marginals, Potentials, Problem, Real, Side, Slack, Status};
use crate::{Rewritable, Table};
use frozen_newton::{Point, improve};

/// How far potentials may move, in units of ε, before rows are sorted out anew; a re-solve moves them by one or two.
const DRIFT_RADIUS: f64 = 2.0;

/// A problem with few columns whose rows are replaced now and then, with its solution kept up to date.
///
/// What a re-solve costs depends on what has changed: replaced rows are taken out of the column sums and
/// put in again, and where the sums are still within the tolerance no iteration is needed at all.
/// Memory is the table of costs and O(rows + cols²). Where a [team](crate::team) holds the rows
/// ([`Sharded`](crate::cost::Sharded)), each member replaces rows of its own, numbered from its first, and all members make the
/// same calls: a step sends k + 1 numbers, twice.
///
/// # Examples
/// ```
/// use earthmover::{Incremental, Marginals};
/// // Four examples, two classes that take at most three each; at least three examples are placed.
/// let marginals = Marginals::bounded(&[1.0; 4], &[3.0, 3.0], 3.0)?;
/// let mut problem = Incremental::new(vec![0.7f64; 8], marginals, 0.01)?;
/// let first = problem.solve(1e-6)?;
/// assert!(first.status.is_converged());
///
/// problem.replace_rows(&[2], &[0.1, 2.3])?;
/// let again = problem.solve(1e-6)?;
/// assert!(again.status.is_converged() && again.violation <= 1e-6);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Incremental<T, C = Table<T>> {
    active: Active<T, C>,
    marginals: Marginals,
    semidual: SemiDual,
    epsilon: f64,
    /// Column potentials, slack last.
    g: Vec<f64>,
    /// Column sums of the real rows at `g`, kept up to date.
    sums: Vec<f64>,
    /// Whether `sums` belong to `g` and the rows as they are.
    fresh: bool,
    /// The largest of the rows' least costs, in size, that was ever held: an offset that costs digits.
    offset: f64,
    /// Curvature of some earlier solve.
    step: Step,
    max_iterations: usize,
    watch: Watch,
}

/// The largest in size of the least finite costs of some rows.
fn largest_minimum<T: Real>(costs: &[T], cols: usize) -> f64 {
    let least = |row: &[T]| row.iter().copied().fold(T::infinity(), T::min).widen();
    let minima = costs.chunks_exact(cols).map(least);
    minima
        .filter(|m| m.is_finite())
        .fold(0.0, |m, x| m.max(x.abs()))
}

/// All that [`Incremental`] knows beyond its costs and masses: what it needs to go on bit for bit.
///
/// # Examples
/// ```
/// use earthmover::{Incremental, Marginals};
/// let marginals = Marginals::bounded(&[1.0; 4], &[3.0, 3.0], 3.0)?;
/// let mut problem = Incremental::new(vec![0.7f32, 0.5, 0.1, 2.0, 0.3, 0.3, 1.0, 0.2], marginals.clone(), 0.01)?;
/// let _ = problem.solve(1e-6)?;
/// let mut again = Incremental::new(problem.costs().to_vec(), marginals, 0.01)?;
/// again.resume(&problem.checkpoint())?;
/// problem.replace_rows(&[2], &[0.1, 2.3])?;
/// again.replace_rows(&[2], &[0.1, 2.3])?;
/// assert_eq!(problem.solve(1e-9)?, again.solve(1e-9)?);
/// assert_eq!(problem.potentials(), again.potentials());
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Checkpoint {
    /// Column potentials, slack last.
    pub potentials: Vec<f64>,
    /// Column sums of the real rows, slack last; empty where they are not known.
    pub sums: Vec<f64>,
    /// Potentials at which rows were last sorted into those that matter where; empty before the first
    /// solve.
    pub reference: Vec<f64>,
    /// −ln of the share of a row that is left out.
    pub truncation: f64,
    /// Cholesky factor of the last curvature, lower triangle row after row; empty where there is none.
    pub factor: Vec<f64>,
}

/// How a re-solve went.
#[derive(Debug, Clone, Copy, PartialEq)]
#[must_use = "look at `status` before trusting the answer"]
#[non_exhaustive]
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
    /// [`Error::Length`] where the table does not fit the marginals, [`Error::Cost`] or [`Error::TooDear`] for an entry
    /// that is no cost, [`Error::Option`] for an ε outside its range.
    pub fn new(costs: Vec<T>, marginals: Marginals, epsilon: f64) -> Result<Self, Error> {
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
        let table = Table {
            entries: costs,
            cols,
        };
        Self::over(table, marginals, epsilon)
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
}

impl<T: Real, C: Rewritable<T>> Incremental<T, C> {
    /// Takes over costs kept in a form of the caller's.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn over(cost: C, marginals: Marginals, epsilon: f64) -> Result<Self, Error> {
        check_epsilon(epsilon)?;
        crate::entropic::precision::check_epsilon::<T>(epsilon)?;
        if marginals.is_relaxed() {
            return Err(Error::Penalised {
                solver: "Incremental",
            });
        }
        let (rows, cols) = (marginals.rows().len(), marginals.cols().len());
        for (what, expected, found) in [
            ("rows of the costs", rows, cost.rows()),
            ("columns of the costs", cols, cost.cols()),
        ] {
            if expected != found {
                return Err(Error::Length {
                    what,
                    expected,
                    found,
                });
            }
        }
        let looked = || {
            let (mut line, mut offset) = (vec![T::zero(); cols], 0.0f64);
            for row in 0..rows {
                cost.fill(row..row + 1, &mut line);
                check::rows(&line, cols, row)?;
                offset = offset.max(largest_minimum(&line, cols));
            }
            Ok(offset)
        };
        let offset = match cost.shard() {
            None => looked()?,
            Some(_) if cols > MOST_CURVED => {
                return Err(Error::Option {
                    name: "columns",
                    value: cols as f64,
                    expected: "at most 1024 where a team adds up curvatures",
                });
            }
            Some(shard) => shard.largest(shard.agree(looked())?)?,
        };
        let semidual = SemiDual::new(&marginals);
        Ok(Self {
            active: Active::new(cost, marginals.rows().to_vec(), 1e-4)
                .with_drift_radius(DRIFT_RADIUS),
            g: semidual.cold_start(),
            sums: vec![0.0; cols + 1],
            semidual,
            marginals,
            epsilon,
            fresh: false,
            offset,
            step: Step::new(cols + 1),
            max_iterations: 1_000,
            watch: Watch::default(),
        })
    }

    options! {
        /// Most sweeps of one [`solve`](Self::solve). Default 1,000.
        max_iterations: usize,
    }

    /// Ends a [`solve`](Self::solve), with [`Status::Stopped`] and the potentials so far, when it has taken this much time;
    /// obeyed within a few sweeps. Default: never.
    #[must_use]
    pub fn time_limit(mut self, limit: core::time::Duration) -> Self {
        self.watch.limit(limit);
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

    /// The costs.
    #[must_use]
    pub fn cost(&self) -> &C {
        &self.active.cost
    }

    /// The question as it stands, for any solver or certificate.
    ///
    /// # Errors
    /// None that valid costs could cause.
    pub fn problem(&self) -> Result<Problem<T, &C>, Error> {
        Problem::new(&self.active.cost, self.marginals.clone())
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
        let from = self.as_potentials(g)?;
        self.g = self.semidual.fit(start::columns(&from, &self.marginals)?);
        self.fresh = false;
        Ok(())
    }

    fn as_potentials(&self, g: &[f64]) -> Result<Potentials, Error> {
        let k = self.cols();
        if g.len() != k + 1 {
            return Err(Error::Length {
                what: "potentials",
                expected: k + 1,
                found: g.len(),
            });
        }
        Ok(Potentials {
            cols: g[..k].to_vec(),
            slack_col: g[k],
            ..Potentials::default()
        })
    }

    /// What a later [`resume`](Self::resume) on the same costs and masses needs.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        let (reference, truncation) = self.active.made_at();
        Checkpoint {
            potentials: self.g.clone(),
            sums: if self.fresh {
                self.sums.clone()
            } else {
                Vec::new()
            },
            reference: reference.to_vec(),
            truncation,
            factor: self.step.packed(),
        }
    }

    /// Goes on from a checkpoint as if nothing had happened in between.
    ///
    /// # Errors
    /// As [`set_potentials`](Self::set_potentials), for each of the checkpoint's parts.
    pub fn resume(&mut self, from: &Checkpoint) -> Result<(), Error> {
        let expected = self.cols() + 1;
        for (what, part) in [("sums", &from.sums), ("reference", &from.reference)] {
            if !(part.is_empty() || part.len() == expected) {
                return Err(Error::Length {
                    what,
                    expected,
                    found: part.len(),
                });
            }
            if let Some(index) = part.iter().position(|x| x.is_nan() || *x == f64::INFINITY) {
                return Err(Error::Start {
                    side: Side::Cols,
                    index,
                    value: part[index],
                });
            }
        }
        let entries = expected * (expected + 1) / 2;
        if !(from.factor.is_empty() || from.factor.len() == entries) {
            return Err(Error::Length {
                what: "factor",
                expected: entries,
                found: from.factor.len(),
            });
        }
        // As they were: what all have in common is in the lists' reference, too, and in the last digits of all to come.
        let potentials = self.as_potentials(&from.potentials)?;
        let potentials = start::columns_as_given(&potentials, &self.marginals)?;
        self.g = self.semidual.fit(potentials);
        self.fresh = false;
        self.step.unpack(&from.factor);
        let made = self
            .active
            .make_at(&from.reference, from.truncation, self.epsilon);
        match self.active.cost.shard() {
            None => made?,
            Some(shard) => shard.agree(made)?,
        }
        if !from.sums.is_empty() {
            self.sums.copy_from_slice(&from.sums);
            self.fresh = true;
        }
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
        let shard = self.active.cost.shard().cloned();
        let fine = self.check_rows(rows, costs);
        match &shard {
            None => fine?,
            Some(shard) => shard.agree(fine)?,
        }
        let offset = largest_minimum(costs, self.cols());
        let at = self.semidual.dual_point(self.epsilon, &self.g);
        let at = self.fresh.then_some(&at);
        let [before, after] = self.active.replace(rows, costs, at);
        let mut changes = [before, after, vec![offset]].concat();
        if let Some(shard) = &shard {
            changes = shard.sum(Ok(changes), &|all, more| {
                let last = all.len() - 1;
                let offset = all[last].max(more[last]);
                all.iter_mut().zip(&more).for_each(|(a, b)| *a += b);
                all[last] = offset;
            })?;
        }
        let (before, rest) = changes.split_at(self.sums.len());
        let (after, offset) = rest.split_at(self.sums.len());
        if self.fresh {
            let sums = self.sums.iter_mut().zip(before.iter().zip(after));
            sums.for_each(|(s, (b, a))| *s = (*s - b) + a);
        }
        self.offset = offset.iter().copied().fold(self.offset, f64::max);
        Ok(())
    }

    /// Whether these rows can be replaced by these costs.
    fn check_rows(&self, rows: &[usize], costs: &[T]) -> Result<(), Error> {
        let k = self.cols();
        let expected = rows.len() * k;
        if costs.len() != expected {
            return Err(Error::Length {
                what: "replaced rows",
                expected,
                found: costs.len(),
            });
        }
        check::rows(costs, k, 0)?;
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
        let other = marginals.rows() != self.marginals.rows();
        let other = match self.active.cost.shard() {
            None => other,
            Some(shard) => shard.largest(f64::from(u8::from(other)))? > 0.0,
        };
        if other {
            self.active.set_masses(marginals.rows());
            self.step.forget();
            self.fresh = false;
        }
        self.marginals = marginals;
        self.retarget();
        Ok(())
    }

    /// Changes the masses of the columns and the slack alone, in O(columns).
    ///
    /// # Errors
    /// [`Error::Length`] where the number of columns differs, and as
    /// [`Marginals::with_slack`]. Nothing has changed then.
    pub fn set_columns(&mut self, cols: &[f64], slack: Slack) -> Result<(), Error> {
        if cols.len() != self.cols() {
            return Err(Error::Length {
                what: "column masses",
                expected: self.cols(),
                found: cols.len(),
            });
        }
        let set = self.marginals.set_columns(cols, slack);
        match self.active.cost.shard() {
            None => set?,
            Some(shard) => shard.agree(set)?,
        }
        self.retarget();
        Ok(())
    }

    /// Takes new masses of the columns to heart.
    fn retarget(&mut self) {
        self.semidual = SemiDual::new(&self.marginals);
        let g = self.semidual.fit(self.g.clone());
        if g != self.g {
            self.g = g;
            self.fresh = false;
            self.step.forget();
        }
    }

    /// What a violation within the tolerance is worth: nothing where the costs' offset has taken the digits it is made of.
    fn met(&self, tolerance: f64) -> Status {
        if T::epsilon().widen() * self.offset / self.epsilon > 0.5 * tolerance {
            Status::Stalled
        } else {
            Status::Converged
        }
    }

    /// L1 error of the column sums over the total mass, as the maintained sums have it.
    fn violation(&mut self) -> f64 {
        let mut sums = self.sums.clone();
        self.semidual
            .add_slack_row(self.epsilon, &self.g, &mut sums);
        self.semidual.violation(&sums)
    }

    /// Brings the potentials to where the column sums are within `tolerance` of the total mass.
    ///
    /// Rows change all the time, so forbidden pairs that strand mass together are looked for only where the sums could not be
    /// brought to the tolerance.
    ///
    /// # Errors
    /// [`Error::Option`] for a tolerance that is not positive, [`Error::Blocked`] where forbidden pairs
    /// leave a row or column no way, [`Error::Infeasible`] where they leave none for some mass.
    pub fn solve(&mut self, tolerance: f64) -> Result<Resolve, Error> {
        check_tolerance(tolerance)?;
        let watch = self.watch.clone();
        let shard = self.active.cost.shard().cloned();
        let shard = shard.as_ref();
        let guard = watch.begin_over(shard)?;
        self.active.give_up(guard.interrupt());
        self.step.interrupt = guard.interrupt();
        self.active.set_drop_tolerance(0.01 * tolerance);
        if self.fresh {
            let violation = self.violation();
            if violation <= tolerance {
                return Ok(Resolve {
                    status: self.met(tolerance),
                    violation,
                    iterations: 0,
                });
            }
        }
        let mut spent = 0;
        if self.fresh && self.max_iterations > 1 {
            self.semidual
                .add_slack_row(self.epsilon, &self.g, &mut self.sums);
            let point = Point {
                g: &mut self.g,
                sums: &mut self.sums,
            };
            let found = improve(
                &mut Shared::new(&mut self.active, shard),
                &self.semidual,
                &mut self.step,
                self.epsilon,
                tolerance,
                point,
            );
            self.fresh = found.is_ok();
            let (sweeps, violation) = found?;
            if violation <= tolerance && 2.0 * self.active.resolution() <= tolerance {
                self.semidual
                    .take_slack_row(self.epsilon, &self.g, &mut self.sums);
                return Ok(Resolve {
                    status: self.met(tolerance),
                    violation,
                    iterations: sweeps,
                });
            }
            spent = sweeps;
        }
        self.step.forget();
        let limits = Limits {
            tolerance,
            max_iterations: self.max_iterations,
            // Re-solved again and again: the measured number is what counts.
            margin: 0.0,
            ceiling: f64::INFINITY,
            guard: &guard,
        };
        let outcome = descend(
            &mut Shared::new(&mut self.active, shard),
            &mut self.semidual,
            self.g.clone(),
            self.epsilon,
            spent,
            &limits,
        )?;
        self.g = outcome.g;
        self.sums = outcome.sums;
        self.semidual
            .take_slack_row(self.epsilon, &self.g, &mut self.sums);
        self.fresh = true;
        if matches!(outcome.status, Status::IterationLimit | Status::Stalled) {
            check::whole(&self.problem()?)?;
        }
        Ok(Resolve {
            status: match outcome.status {
                Status::Converged => self.met(tolerance),
                other => other,
            },
            violation: outcome.violation,
            iterations: outcome.iterations,
        })
    }
}
