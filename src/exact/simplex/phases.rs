//! The course of a solve: feasibility first where it must be, then optimality, then the answer.

use super::augmented_rows::{AugmentedRows, Phase};
use super::finish;
use super::pivot_budget::PivotBudget;
use super::pricing::{Arcs, Outcome, has_gain};
use super::start::{self, Masses};
use super::tree::Tree;

use crate::kernel::rounding::{BLURRED, FRESH_GAIN, GAIN, STRANDED_SHARE, sum};
use crate::kernel::tiles::{map_ranges, map_tiles, tile_rows};
use crate::solution::plan::{Representation, SparseRows};
use crate::{Cost, Error, Potentials, Problem, Real, Solution, Status};

/// Rounds of the last, fine look at most.
const POLISHES: usize = 4;

/// One solve under way.
pub(super) struct Solve<'a, T, C> {
    meter: PivotBudget<'a>,
    lines: AugmentedRows<'a, T, C>,
    masses: Masses,
    takes_part: Vec<bool>,
}

impl<'a, T: Real, C: Cost<T>> Solve<'a, T, C> {
    pub(super) fn new(
        meter: PivotBudget<'a>,
        lines: AugmentedRows<'a, T, C>,
        masses: Masses,
    ) -> Self {
        Self {
            meter,
            takes_part: masses.rows.iter().map(|&a| a > 0.0).collect(),
            masses,
            lines,
        }
    }

    /// Both phases, from a first plan whose arcs form a forest; `near` says that it and its prices are
    /// believed to be optimal.
    pub(super) fn both_phases(
        &mut self,
        first: start::Plan,
        g: &[f64],
        near: bool,
        total: f64,
    ) -> Result<(Tree, Outcome), Error> {
        let mut arcs = first.arcs;
        if first.forbidden {
            self.lines.phase = Phase::Feasibility;
            let flat = vec![0.0; g.len()];
            let mut tree = start::build_basis(&arcs, &self.lines, &self.masses, &flat);
            let stranded = self.carried(&tree);
            self.meter.violation = stranded / total;
            let outcome = self.pivot(&mut tree, GAIN, usize::MAX);
            let stranded = self.carried(&tree);
            self.meter.violation = stranded / total;
            if outcome == Outcome::Optimal && stranded > STRANDED_SHARE * total {
                return Err(Error::Infeasible { stranded, total });
            }
            // Keep what flows on allowed pairs: a forest again, now without forbidden arcs.
            arcs = tree.arcs().filter(|a| a.2 > 0.0).collect();
            arcs.retain(|&(i, j, _)| self.lines.at(i, j) == 0.0);
            self.lines.phase = Phase::Optimality;
            if outcome != Outcome::Optimal {
                let tree = start::build_basis(&arcs, &self.lines, &self.masses, g);
                return Ok((tree, outcome));
            }
            self.meter.violation = 0.0;
        }
        let mut tree = start::build_basis(&arcs, &self.lines, &self.masses, g);
        let mut outcome = self.optimise(&mut tree, near);
        if outcome == Outcome::Optimal && self.gap(&tree) > BLURRED {
            // Arcs without flow may have tied the plan together by costs of another magnitude, whose
            // rounding blurs the prices. The pieces that carry flow, each priced by itself, do not
            // have them, and no arc that costs more than the prices' own size can enter again.
            arcs = tree.arcs().filter(|a| a.2 > 0.0).collect();
            let flat = vec![0.0; g.len()];
            tree = start::build_basis(&arcs, &self.lines, &self.masses, &flat);
            outcome = self.optimise(&mut tree, false);
        }
        Ok((tree, outcome))
    }

    /// Relative difference of the plan's cost and the prices' value.
    fn gap(&self, tree: &Tree) -> f64 {
        let priced = tree.arcs().filter(|a| a.2 > 0.0);
        let primal: Vec<f64> = priced.map(|(i, j, x)| x * self.lines.at(i, j)).collect();
        let (f, g) = self.centred(tree);
        let worth = |mass: &[f64], price: &[f64]| -> Vec<f64> {
            let carried = mass.iter().zip(price).filter(|p| *p.0 > 0.0);
            carried.map(|(m, p)| m * p).collect()
        };
        let mut dual = worth(&self.masses.rows, &f);
        dual.extend(worth(&self.masses.cols, &g));
        let (primal, dual) = (sum(&primal), sum(&dual));
        if primal == dual {
            0.0
        } else {
            (primal - dual).abs() / primal.abs()
        }
    }

    /// Pivots to optimality, then again at prices worked out afresh and a finer tolerance.
    fn optimise(&mut self, tree: &mut Tree, near: bool) -> Outcome {
        let mut outcome = Outcome::Optimal;
        if !near {
            outcome = self.pivot(tree, GAIN, usize::MAX);
        }
        for _ in 0..POLISHES {
            let lines = &self.lines;
            tree.reprice(|i, j| lines.at(i, j));
            if outcome != Outcome::Optimal || self.is_quiet(tree) {
                break;
            }
            // Gains this small may be rounding that no pivot removes, hence the bounds.
            let most = 64 + tree.rows() + tree.cols();
            outcome = self.pivot(tree, FRESH_GAIN, most);
            if outcome == Outcome::Limit && !self.meter.is_spent() {
                outcome = self.pivot(tree, GAIN, usize::MAX);
            }
        }
        outcome
    }

    /// Whether no line has a gain at the fine tolerance: a full look at the cost, on all cores.
    fn is_quiet(&self, tree: &Tree) -> bool {
        let rows = self.lines.rows();
        let tile = tile_rows(rows, self.lines.cols());
        let quiet = map_ranges(rows, tile, |rows| {
            let mut lines = self.lines.another();
            let mut rows = rows.filter(|&i| self.takes_part[i]);
            !rows.any(|i| has_gain(tree, &mut lines, i, FRESH_GAIN))
        });
        quiet.into_iter().all(|q| q)
    }

    /// Prices with the columns' mean at zero: the dual value is a difference of two sums, best kept small.
    fn centred(&self, tree: &Tree) -> (Vec<f64>, Vec<f64>) {
        let g: Vec<f64> = tree.heights().iter().map(|h| -h).collect();
        let weights: f64 = self.masses.cols.iter().sum();
        let open = g.iter().zip(&self.masses.cols).filter(|p| *p.1 > 0.0);
        let centre = open.map(|(g, b)| g * (b / weights)).sum::<f64>();
        let centre = if centre.is_finite() { centre } else { 0.0 };
        (
            (0..tree.rows()).map(|i| tree.f(i) + centre).collect(),
            g.iter().map(|g| g - centre).collect(),
        )
    }

    fn pivot(&mut self, tree: &mut Tree, tolerance: f64, most: usize) -> Outcome {
        let takes_part = &self.takes_part;
        let lines = &mut self.lines;
        let masses = &self.masses;
        self.meter
            .pivot(tree, lines, masses, takes_part, tolerance, most)
    }

    /// Mass on forbidden pairs; read in the feasibility phase.
    fn carried(&self, tree: &Tree) -> f64 {
        let on_forbidden = tree.arcs().filter(|&(i, j, _)| self.lines.at(i, j) > 0.0);
        on_forbidden.map(|a| a.2).sum()
    }

    /// The answer that the tree stands for.
    pub(super) fn answer<'p>(
        self,
        problem: &'p Problem<T, C>,
        tree: Tree,
        outcome: Outcome,
    ) -> Solution<'p, T, C> {
        let (n, k) = (problem.rows(), problem.cols());
        let status = match outcome {
            Outcome::Optimal => Status::Converged,
            Outcome::Limit => Status::IterationLimit,
            Outcome::Stopped => Status::Stopped,
        };
        // Flows follow from the masses only where all mass has a place.
        let entries = if self.meter.violation > 0.0 {
            tree.arcs().filter(|arc| arc.2 > 0.0).collect()
        } else {
            finish::entries(&tree, &self.masses)
        };
        let mut sums = vec![0.0; self.masses.cols.len()];
        for &(_, j, flow) in &entries {
            sums[j] += flow;
        }
        let mut given = vec![0.0; self.masses.rows.len()];
        for &(i, _, flow) in &entries {
            given[i] += flow;
        }
        let off = sums.iter().zip(&self.masses.cols);
        let off = off.chain(given.iter().zip(&self.masses.rows));
        let off: f64 = off.map(|(s, c)| (s - c).abs()).sum();
        let violation = off / problem.marginals().total();
        let (mut rows, mut cols) = self.centred(&tree);
        let heights: Vec<f64> = cols.iter().map(|g| -g).collect();
        let tile = tile_rows(rows.len(), heights.len());
        map_tiles(&mut rows, tile, |range, rows| {
            let mut lines = self.lines.another();
            for (i, f) in range.zip(rows) {
                if !self.takes_part[i] {
                    *f = f64::NEG_INFINITY;
                } else if outcome != Outcome::Optimal {
                    // An unfinished tree's prices are too high somewhere; lower them to feasibility.
                    *f = lines.cheapest(i, &heights, f64::INFINITY).0;
                }
            }
        });
        let slack_row = rows.get(n).copied().unwrap_or(f64::NEG_INFINITY);
        let slack_col = cols.get(k).copied().unwrap_or(f64::NEG_INFINITY);
        rows.truncate(n);
        cols.truncate(k);
        let real = entries.into_iter().filter(|e| e.0 < n && e.1 < k).collect();
        Solution::new(
            problem,
            Potentials {
                rows,
                cols,
                slack_row,
                slack_col,
            },
            Representation::Sparse(SparseRows::new(n, real)),
            status,
            self.meter.pivots,
            Some(violation),
        )
    }
}
