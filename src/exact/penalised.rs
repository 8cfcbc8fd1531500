//! Penalised masses without entropy.
//!
//! **TV** is slack with costs. A row may keep mass at τ a unit, or give more than it has at τ a unit; what is kept goes to one more
//! column, and a column that is short takes from one more row,
//!
//! ```text
//!           columns                                    rest
//! rows    [  C_ij                          |  min(τ_a, τ_b + min_j C_ij)  ]  = a_i
//! rest    [  min(τ_b, τ_a + min_i C_ij)    |            0                 ]  = Σ b
//!         =   b_j                                      Σ a
//! ```
//!
//! where the second terms are what it costs to overfill the cheapest column, or to make mass at the cheapest row; τ = ∞ where a side
//! is exact. Where no second term is the smaller one, as with equal τ and costs that are not negative, this is the slack row and
//! column that every exact solver knows; else it is written out. An optimal plan of this is one of the penalised problem, and its
//! prices, with those of the rest at zero, are optimal, too.
//!
//! **KL** has no vertex to jump to: the entropic answer is followed down in ε until the proven gap is what was asked for.

use core::ops::Range;

use super::Exact;
use crate::kernel::tiles::{map_ranges, tile_rows};
use crate::problem::check::{self, Survey};
use crate::problem::{Erased, marginals::Slack};
use crate::solution::plan::{Representation, SparseRows};
use crate::solution::start;
use crate::solver::Guard;
use crate::{
    Cost, Entropic, Error, Marginals, Penalty, Potentials, Problem, Progress, Real, Solution,
    Status,
};

impl Exact {
    /// Answers a problem with penalised masses.
    pub(super) fn penalised<'p, 'c, T: Real>(
        &self,
        problem: &'p Erased<'c, T>,
        from: Option<&Potentials>,
    ) -> Result<Solution<'p, T, &'c dyn Cost<T>>, Error> {
        let guard = self.watch.begin()?;
        let marginals = problem.marginals();
        let survey = check::whole(problem)?;
        let is_kl = |p: Penalty| matches!(p, Penalty::Kl(_));
        if is_kl(marginals.row_penalty()) || is_kl(marginals.col_penalty()) {
            let start = from
                .map(|from| start::columns(from, marginals))
                .transpose()?;
            return self.follow(problem, start, &survey, &guard);
        }
        let rest = Rest::new(problem);
        if let Some(slack) = rest.as_slack(marginals) {
            let (rows, cols) = (marginals.rows(), marginals.cols());
            let relabelled = Marginals::with_slack(rows, cols, slack)?;
            let augmented: Erased<'_, T> = Problem::new(*problem.cost(), relabelled)?;
            let found = self.cold_under(&augmented, &guard)?;
            return Ok(read_off(problem, &found, |i, j, mass, entries| {
                entries.push((i, j, mass));
            }));
        }
        rest.written_out(problem, |bordered| self.cold_under(bordered, &guard))
    }

    /// Follows the entropic answer down to where the gap is small enough.
    fn follow<'p, 'c, T: Real>(
        &self,
        problem: &'p Erased<'c, T>,
        start: Option<Vec<f64>>,
        survey: &Survey,
        guard: &Guard<'_>,
    ) -> Result<Solution<'p, T, &'c dyn Cost<T>>, Error> {
        let marginals = problem.marginals();
        let tau = f64::min(
            marginals.row_penalty().strength(),
            marginals.col_penalty().strength(),
        );
        // An ε far above what a unit is worth to anybody blurs everything.
        let range = survey.range().max(survey.least.abs());
        let scale = if range > 0.0 {
            range.min(4.0 * tau)
        } else {
            tau
        };
        let (mut epsilon, floor) = (0.02 * scale, 1e-9 * scale);
        let (mut start, mut iterations, mut first) = (start, 0, None::<f64>);
        loop {
            let mut solver = Entropic::new(epsilon).tolerance((0.01 * self.gap).clamp(1e-12, 1e-4));
            if let Some(most) = self.max_iterations {
                solver = solver.max_iterations(most.saturating_sub(iterations).max(1));
            }
            let found = solver.follow(problem, start, survey, guard)?;
            iterations += found.iterations();
            let proof = *found.certificate();
            let gap = proof.relative_gap();
            if !(proof.violation.is_finite() && proof.objective.is_finite()) {
                return Err(Error::Option {
                    name: "tau of a KL penalty",
                    value: tau,
                    expected: "not so far below the costs that no digit of a mass is left",
                });
            }
            let first = *first.get_or_insert(gap);
            let mut progress = Progress::entropic(iterations, gap, first, self.gap, epsilon);
            progress.gap = found.certificate().gap();
            let status = if gap <= self.gap {
                Some(Status::Converged)
            } else if guard.says_stop(&progress) {
                Some(Status::Stopped)
            } else if self.max_iterations.is_some_and(|most| iterations >= most) {
                Some(Status::IterationLimit)
            } else if epsilon <= floor {
                Some(Status::Stalled)
            } else {
                None
            };
            if let Some(status) = status {
                return Ok(found.with_status(status, iterations));
            }
            start = Some(start::columns(&found.into_columns(), marginals)?);
            // The gap goes with ε; a little further, so as not to come back for the rest.
            epsilon = (epsilon * (0.5 * self.gap / gap).clamp(0.02, 0.5)).max(floor);
        }
    }
}

/// What it costs not to be matched.
struct Rest {
    /// For each row: what keeping a unit costs, and the column that it overfills if that is cheaper.
    rows: Vec<(f64, Option<usize>)>,
    /// For each column: what a missing unit costs, and the row that makes it if that is cheaper.
    cols: Vec<(f64, Option<usize>)>,
}

impl Rest {
    fn new<T: Real>(problem: &Erased<'_, T>) -> Self {
        let (n, k) = (problem.rows(), problem.cols());
        let m = problem.marginals();
        let (by_row, by_col) = (m.row_penalty().strength(), m.col_penalty().strength());
        let none = (f64::INFINITY, 0usize);
        let tiles = map_ranges(n, tile_rows(n, k), |rows| {
            let mut line = vec![T::zero(); k];
            let (mut cheapest, mut least) = (Vec::new(), vec![none; k]);
            for i in rows {
                problem.cost().fill(i..i + 1, &mut line);
                let mut best = none;
                for (j, c) in line.iter().map(|c| c.widen()).enumerate() {
                    if m.cols()[j] > 0.0 && c < best.0 {
                        best = (c, j);
                    }
                    if m.rows()[i] > 0.0 && c < least[j].0 {
                        least[j] = (c, i);
                    }
                }
                cheapest.push(best);
            }
            (cheapest, least)
        });
        let (mut cheapest, mut least) = (Vec::with_capacity(n), vec![none; k]);
        for (rows, cols) in tiles {
            cheapest.extend(rows);
            for (all, part) in least.iter_mut().zip(cols) {
                if part.0 < all.0 {
                    *all = part;
                }
            }
        }
        let price = |own: f64, other: f64, (cost, at): (f64, usize)| {
            if other + cost < own {
                (other + cost, Some(at))
            } else {
                (own, None)
            }
        };
        let rows = cheapest.into_iter().map(|c| price(by_row, by_col, c));
        let cols = least.into_iter().map(|c| price(by_col, by_row, c));
        Self {
            rows: rows.collect(),
            cols: cols.collect(),
        }
    }

    /// As slack of one price a side, where nothing is made and nothing overfilled.
    fn as_slack(&self, marginals: &Marginals) -> Option<Slack> {
        let plain = |lines: &[(f64, Option<usize>)], masses: &[f64]| {
            let mut carrying = lines.iter().zip(masses).filter(|(_, m)| **m > 0.0);
            carrying.all(|((cost, at), _)| at.is_none() && cost.is_finite())
        };
        if !(plain(&self.rows, marginals.rows()) && plain(&self.cols, marginals.cols())) {
            return None;
        }
        Some(Slack {
            row: marginals.cols().iter().sum(),
            col: marginals.rows().iter().sum(),
            row_cost: marginals.col_penalty().strength(),
            col_cost: marginals.row_penalty().strength(),
            corner_cost: 0.0,
        })
    }

    /// Solved with one more row and column, each with costs of its own, in `f64`: sums of a cost and a penalty need not be numbers of
    /// the cost's scalar.
    fn written_out<'p, 'c, T: Real>(
        self,
        problem: &'p Erased<'c, T>,
        solve: impl for<'a> Fn(
            &'a Erased<'a, f64>,
        ) -> Result<Solution<'a, f64, &'a dyn Cost<f64>>, Error>,
    ) -> Result<Solution<'p, T, &'c dyn Cost<T>>, Error> {
        let (n, k) = (problem.rows(), problem.cols());
        let m = problem.marginals();
        let prices = |lines: &[(f64, Option<usize>)]| lines.iter().map(|(cost, _)| *cost).collect();
        let bordered = Bordered {
            cost: *problem.cost(),
            col: prices(&self.rows),
            row: prices(&self.cols),
        };
        let (mut rows, mut cols) = (m.rows().to_vec(), m.cols().to_vec());
        rows.push(m.cols().iter().sum());
        cols.push(m.rows().iter().sum());
        let view: &dyn Cost<f64> = &bordered;
        let augmented: Erased<'_, f64> = Problem::new(view, Marginals::balanced(&rows, &cols)?)?;
        let found = solve(&augmented)?;
        Ok(read_off(problem, &found, |i, j, mass, entries| {
            match (i < n, j < k) {
                (true, true) => entries.push((i, j, mass)),
                (true, false) => {
                    entries.extend(self.rows[i].1.map(|col| (i, col, mass)));
                }
                (false, true) => entries.extend(self.cols[j].1.map(|row| (row, j, mass))),
                (false, false) => {}
            }
        }))
    }
}

/// A cost with one more row and column; their corner is free.
struct Bordered<'c, T> {
    cost: &'c dyn Cost<T>,
    /// The last column.
    col: Vec<f64>,
    /// The last row, without the corner.
    row: Vec<f64>,
}

impl<T: Real> Cost<f64> for Bordered<'_, T> {
    fn rows(&self) -> usize {
        self.col.len() + 1
    }

    fn cols(&self) -> usize {
        self.row.len() + 1
    }

    fn at(&self, row: usize, col: usize) -> f64 {
        match (row < self.col.len(), col < self.row.len()) {
            (true, true) => self.cost.at(row, col).widen(),
            (true, false) => self.col[row],
            (false, true) => self.row[col],
            (false, false) => 0.0,
        }
    }

    fn fill(&self, rows: Range<usize>, out: &mut [f64]) {
        let k = self.row.len();
        let mut costs = vec![T::zero(); k];
        for (i, line) in rows.zip(out.chunks_exact_mut(k + 1)) {
            match self.col.get(i) {
                Some(&last) => {
                    self.cost.fill(i..i + 1, &mut costs);
                    let both = line.iter_mut().zip(&costs);
                    both.for_each(|(o, c)| *o = c.widen());
                    line[k] = last;
                }
                None => {
                    line[..k].copy_from_slice(&self.row);
                    line[k] = 0.0;
                }
            }
        }
    }
}

/// The answer to the penalised problem that an exact one of the augmented problem is: real entries, made of all by `place`, and
/// prices with those of the rest at zero.
fn read_off<'p, 'c, T: Real, S: Real>(
    problem: &'p Erased<'c, T>,
    found: &Solution<'_, S, &dyn Cost<S>>,
    place: impl Fn(usize, usize, f64, &mut Vec<(usize, usize, f64)>),
) -> Solution<'p, T, &'c dyn Cost<T>> {
    let (n, k) = (problem.rows(), problem.cols());
    let mut entries = Vec::new();
    for e in found.plan().entries(0.0) {
        place(e.row, e.col, e.mass, &mut entries);
    }
    entries.sort_unstable_by_key(|e| (e.0, e.1));
    entries.dedup_by(|next, kept| {
        let same = (next.0, next.1) == (kept.0, kept.1);
        if same {
            kept.2 += next.2;
        }
        same
    });
    let prices = found.potentials();
    let written = prices.cols.len() > k;
    let (last_row, last_col) = if written {
        (prices.rows[n], prices.cols[k])
    } else {
        (prices.slack_row, prices.slack_col)
    };
    let potentials = Potentials {
        rows: prices.rows[..n].iter().map(|f| f + last_col).collect(),
        cols: prices.cols[..k].iter().map(|g| g + last_row).collect(),
        slack_row: f64::NEG_INFINITY,
        slack_col: f64::NEG_INFINITY,
    };
    Solution::new(
        problem,
        potentials,
        Representation::Sparse(SparseRows::new(n, entries)),
        found.status(),
        found.iterations(),
        Some(found.violation()),
    )
}
