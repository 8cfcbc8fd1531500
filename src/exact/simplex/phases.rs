//! The course of a solve: feasibility first where it must be, then optimality, then the answer.

use super::NetworkSimplex;
use super::augmented_rows::{AugmentedRows, Phase};
use super::finish;
use super::listed::Listed;
use super::pivot_budget::PivotBudget;
use super::pricing::{Arcs, Outcome, gain, has_gain, least_gainful};
use super::start::{self, Masses};
use super::tree::Tree;

use crate::cost::Room;
use crate::exact::lists::source;
use crate::kernel::rounding::{FRESH_GAIN, GAIN, NOISY_GAP, STRANDED_SHARE, sum};
use crate::kernel::tiles::{map_ranges, map_tiles, tile_rows};
use crate::solution::plan::{Representation, SparseRows};
use crate::solver::Guard;
use crate::{Cost, Error, Potentials, Problem, Real, Solution, Status};

/// Row, column, mass.
type Entries = Vec<(usize, usize, f64)>;

/// Pairs up to which a solve that is stopped still looks for a plan that leaves no mass behind: a second at the very most.
const MOST_PAIRS_AFTER_A_STOP: usize = 1 << 24;

/// Rounds of the last, fine look at most.
const POLISHES: usize = 4;

/// One solve under way.
pub(super) struct Solve<'a, T, C> {
    meter: PivotBudget<'a>,
    lines: AugmentedRows<'a, T, C>,
    masses: Masses,
    takes_part: Vec<bool>,
    /// Whether pivots are made on lists of pairs, and only pairs that could have a gain are looked at.
    listed: bool,
}

impl<'a, T: Real, C: Cost<T>> Solve<'a, T, C> {
    pub(super) fn new(
        meter: PivotBudget<'a>,
        lines: AugmentedRows<'a, T, C>,
        masses: Masses,
        listed: bool,
    ) -> Self {
        Self {
            listed,
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
            let phase = core::mem::replace(&mut self.lines.phase, Phase::Feasibility);
            let flat = vec![0.0; g.len()];
            let mut tree = start::build_basis(&arcs, &self.lines, &self.masses, &flat);
            let stranded = self.carried(&tree);
            self.meter.violation = stranded / total;
            let outcome = self.pivot(&mut tree, GAIN, usize::MAX);
            let is_feasible = outcome == Outcome::Optimal || self.seek_feasibility(&mut tree);
            let stranded = self.carried(&tree);
            self.meter.violation = stranded / total;
            if is_feasible && stranded > STRANDED_SHARE * total {
                return Err(Error::Infeasible { stranded, total });
            }
            // Keep what flows on allowed pairs: a forest again, now without forbidden arcs.
            arcs = tree.arcs().filter(|a| a.2 > 0.0).collect();
            arcs.retain(|&(i, j, _)| self.lines.at(i, j) == 0.0);
            self.lines.phase = phase;
            if is_feasible {
                self.meter.violation = 0.0;
            }
            if outcome != Outcome::Optimal {
                let tree = start::build_basis(&arcs, &self.lines, &self.masses, g);
                return Ok((tree, outcome));
            }
        }
        let mut tree = start::build_basis(&arcs, &self.lines, &self.masses, g);
        let mut outcome = self.optimise(&mut tree, near);
        if outcome == Outcome::Optimal && self.gap(&tree) > NOISY_GAP {
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

    /// Goes on to a feasible plan although nobody wants to wait: a plan that leaves mass behind is no answer. The pivots are not
    /// counted; false where the problem is so large that they would be felt.
    fn seek_feasibility(&mut self, tree: &mut Tree) -> bool {
        let pairs = self.lines.rows().checked_mul(self.lines.cols());
        if pairs.is_none_or(|pairs| pairs > MOST_PAIRS_AFTER_A_STOP) {
            return false;
        }
        let (solver, guard) = (NetworkSimplex::new(), Guard::nobody());
        let (lines, takes_part) = (&mut self.lines, &self.takes_part);
        let mut meter = PivotBudget::new(&solver, &guard);
        let outcome = meter.pivot(tree, lines, &self.masses, takes_part, GAIN, usize::MAX);
        outcome == Outcome::Optimal
    }

    /// A feasible plan next to the one given, by the first phase alone; `None` where the problem is too large for that.
    pub(super) fn feasible(&mut self, first: start::Plan, g: &[f64]) -> Option<Entries> {
        if !first.forbidden {
            return Some(first.arcs);
        }
        self.lines.phase = Phase::Feasibility;
        let flat = vec![0.0; g.len()];
        let mut tree = start::build_basis(&first.arcs, &self.lines, &self.masses, &flat);
        self.seek_feasibility(&mut tree).then(|| {
            let arcs = tree.arcs().filter(|a| a.2 > 0.0);
            arcs.filter(|&(i, j, _)| self.lines.at(i, j) == 0.0)
                .collect()
        })
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

    /// Whether no line has a gain at the fine tolerance: a look at every pair that could have one, on all cores.
    fn is_quiet(&self, tree: &Tree) -> bool {
        let (rows, h) = (self.lines.rows(), tree.heights());
        let near = self.listed.then(|| self.lines.boxes(h)).flatten();
        let tile = tile_rows(rows, self.lines.line_length());
        let quiet = map_ranges(rows, tile, |rows| {
            let (mut lines, mut room) = (self.lines.another(), Room::default());
            let mut rows = rows.filter(|&i| self.takes_part[i]);
            !rows.any(|i| match &near {
                Some(near) if i < self.lines.real_rows() => {
                    let (f, mut gains) = (tree.f(i), false);
                    let mut look = |j: usize, c: f64| {
                        gains = gains || gain(f, tree.g(j), c, FRESH_GAIN).is_some();
                        if gains {
                            f64::NEG_INFINITY
                        } else {
                            least_gainful(f, FRESH_GAIN)
                        }
                    };
                    if let Some(slack) = (self.lines.real_cols()..h.len()).next() {
                        look(slack, lines.at(i, slack));
                    }
                    let below = least_gainful(f, FRESH_GAIN);
                    near.search(i, h, below, &mut room, |_, j, c| look(j, c.widen()));
                    gains
                }
                _ => has_gain(tree, &mut lines, i, FRESH_GAIN),
            })
        });
        quiet.into_iter().all(|q| q)
    }

    /// Prices with the columns' mean at zero: the dual value is a difference of two sums, best kept small.
    fn centred(&self, tree: &Tree) -> (Vec<f64>, Vec<f64>) {
        let g = tree.prices();
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
        let (takes_part, masses) = (&self.takes_part, &self.masses);
        let (meter, lines) = (&mut self.meter, &mut self.lines);
        if self.listed && lines.phase == Phase::Optimality {
            let mut source = source(lines.cost());
            // The last, fine look finds next to nothing, and needs no list to begin with.
            let coarse = tolerance > FRESH_GAIN && !meter.is_over();
            let prices = coarse.then(|| tree.prices());
            let mut listed = Listed::new(lines.another(), source.as_mut(), prices);
            return meter.pivot(tree, &mut listed, masses, takes_part, tolerance, most);
        }
        meter.pivot(tree, lines, masses, takes_part, tolerance, most)
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
        let tile = tile_rows(rows.len(), self.lines.line_length());
        // An unfinished tree's prices are too high somewhere; lower them to feasibility.
        let unfinished = outcome != Outcome::Optimal;
        let near = if unfinished {
            self.lines.boxes(&heights)
        } else {
            None
        };
        map_tiles(&mut rows, tile, |range, rows| {
            let (mut lines, mut room) = (self.lines.another(), Room::default());
            for (i, f) in range.zip(rows) {
                if !self.takes_part[i] {
                    *f = f64::NEG_INFINITY;
                } else if unfinished {
                    *f = match &near {
                        Some(near) if i < n => {
                            near.cheapest(i, &heights, lines.slack(i, &heights), &mut room)
                        }
                        _ => lines.cheapest(i, &heights, f64::INFINITY),
                    }
                    .0;
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
