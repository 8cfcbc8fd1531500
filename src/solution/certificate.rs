//! The proof of quality that every answer carries.
//!
//! ```text
//! dual  =  Σ a_i f_i + Σ b_j g_j   ≤   optimum   ≤   ⟨C, P'⟩  =  primal
//! ```
//!
//! * **Upper bound**: the plan is rounded to exact feasibility (Altschuler, Weed and Rigollet, 2017):
//!   columns that hold too much are scaled down, and what is then missing from rows and columns is
//!   filled in proportionally, or along allowed pairs (`exact::repair`) where some are forbidden.
//! * **Lower bound**: row potentials are made as large as the column potentials allow, then the columns
//!   as large as those allow: `f_i = min_j (C_ij − g_j)`, `g'_j = min_i (C_ij − f_i) ≥ g_j`.
//!
//! Penalised masses have bounds of their own: [`penalised`](super::penalised).
//!
//! Both are evaluated from the costs in `f64`, independently of how the answer was found. For an exact
//! answer a gap of zero *is* the proof; for an entropic one the gap includes what the entropy costs.
//!
//! Bounds are sound in floating-point arithmetic, too: sums are compensated, potentials are centred first and made feasible with
//! twice the digits, and what rounding may have added ([`crate::kernel::rounding`]) is taken off the lower bound and put onto the
//! upper one. The optimum itself is known no better than the masses are: to their last digit, at the price of a pair. Where the
//! potentials are so large that nothing is left of the lower bound then, as at an ε far above the costs, potentials of zero
//! give a better one.

use core::ops::Range;

use crate::cost::{Pairs, whole_rows};
use crate::kernel::rounding::{
    BOUND, DEFICIT, Double, FORBIDDEN_DUAL, LOOSE, PRIMAL, REPAIRED, SUBNORMAL, Sum, sum,
};
use crate::kernel::tiles::{fold, is_split};
use crate::problem::check::line_length;
use crate::problem::whole::Whole;
use crate::solution::nearby::Nearby;
use crate::solution::penalised;
use crate::solution::plan::{Plan, Representation, SparseRows, unplaced};
use crate::sweep::DualPoint;
use crate::{Cost, Error, Potentials, Problem, Real};

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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Certificate {
    /// Cost of a feasible plan next to this one, rounded up: an upper bound of the optimum.
    #[cfg_attr(feature = "serde", serde(with = "crate::kernel::extended"))]
    pub primal: f64,
    /// Value of feasible potentials, rounded down: a lower bound of the optimum.
    #[cfg_attr(feature = "serde", serde(with = "crate::kernel::extended"))]
    pub dual: f64,
    /// Cost of the plan as it is, slack costs and penalties included.
    #[cfg_attr(feature = "serde", serde(with = "crate::kernel::extended"))]
    pub objective: f64,
    /// L1 distance of the plan's marginals from the ones asked for, over the total mass; where masses are penalised, from those that
    /// the potentials ask for, over the mass moved.
    #[cfg_attr(feature = "serde", serde(with = "crate::kernel::extended"))]
    pub violation: f64,
    /// Mass moved between real rows and real columns.
    #[cfg_attr(feature = "serde", serde(with = "crate::kernel::extended"))]
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

/// A plan with sums that are at most the marginals: what it costs and how much it puts where.
#[derive(Debug)]
#[allow(unreachable_pub)]
pub struct Deficient<'a> {
    pub(crate) price: f64,
    /// Mass in each row, slack row last.
    pub(crate) rows: &'a [f64],
    /// Mass in each column, slack column last.
    pub(crate) cols: &'a [f64],
    /// Its entries as (row, column, mass), where the cost names its pairs and there is no slack; empty for others.
    pub(crate) entries: Vec<(usize, usize, f64)>,
}

/// A feasible plan next to a deficient one.
#[derive(Debug, Clone, Copy)]
#[allow(unreachable_pub)]
pub struct Repaired {
    /// What it costs.
    pub(crate) price: f64,
    /// The largest cost in size that what was filled in pays.
    pub(crate) dearest: f64,
}

/// A row of costs, slack last: all of them, or those of the columns that it may use.
#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    cols: Option<&'a [usize]>,
    costs: &'a [f64],
}

impl<'a> Line<'a> {
    /// All costs of a row.
    fn whole(costs: &'a [f64]) -> Self {
        Self { cols: None, costs }
    }

    #[inline]
    fn col(&self, at: usize) -> usize {
        self.cols.map_or(at, |cols| cols[at])
    }

    /// Columns and costs.
    #[inline]
    fn entries(&self) -> impl Iterator<Item = (usize, f64)> + use<'a> {
        let line = *self;
        let each = self.costs.iter().enumerate();
        each.map(move |(at, &c)| (line.col(at), c))
    }
}

/// What one look says about the columns of a plan, slack last: how they must be scaled, and what they lack then.
struct Columns {
    /// Mass asked for.
    demands: Vec<f64>,
    /// Mass in each less what is asked for, to the last digit.
    off: Vec<f64>,
    /// At most one: what brings too full a column down to its mass.
    scale: Vec<f64>,
    missing: Vec<f64>,
    /// How many columns lack something.
    lacking: usize,
    /// Sum of what is missing.
    short: f64,
    /// Sum of what is too much or too little by rounding, and is left so.
    loose: f64,
    /// Whether the plan has few entries, so that their products may cost something.
    few: bool,
}

impl Columns {
    fn new(sums: Vec<Sum>, demands: Vec<f64>, few: bool) -> Self {
        let less = |(mut s, w): (Sum, &f64)| {
            s.add(-w);
            s.value()
        };
        let off: Vec<f64> = sums.into_iter().zip(&demands).map(less).collect();
        let each = || off.iter().zip(&demands);
        let scale = each().map(|(o, w)| if *o > DEFICIT * w { w / (w + o) } else { 1.0 });
        let missing = each().map(|(o, w)| if -o > DEFICIT * w { -o } else { 0.0 });
        let left = each().filter(|(o, w)| o.abs() <= DEFICIT * **w);
        let loose = left.map(|(o, _)| o.abs()).sum();
        let (scale, missing): (Vec<f64>, Vec<f64>) = (scale.collect(), missing.collect());
        Self {
            short: sum(&missing),
            lacking: missing.iter().filter(|m| **m > 0.0).count(),
            demands,
            off,
            scale,
            missing,
            loose,
            few,
        }
    }

    fn violation(&self) -> f64 {
        self.off.iter().map(|o| o.abs()).sum()
    }

    /// Mass in each once those that are too full have been scaled down.
    fn scaled(&self) -> Vec<f64> {
        let both = self.off.iter().zip(&self.demands).zip(&self.scale);
        both.map(|((o, w), scale)| (w + o) * scale).collect()
    }

    /// Whether any column had to be changed by more than rounding.
    fn are_off(&self) -> bool {
        self.short > 0.0 || self.scale.iter().any(|s| *s < 1.0)
    }
}

/// The value of feasible potentials, and how large the terms are that it is made of.
#[derive(Debug, Clone, Copy)]
struct Dual {
    value: f64,
    size: f64,
    /// How much heavier one side is than the other: a common shift of the prices is worth that much of it.
    tilt: f64,
    /// Whether pairs are forbidden: then parts of either side have to agree among themselves, and do so up to rounding only.
    forbidden: bool,
    /// How many prices there are.
    terms: f64,
    /// The largest price in size of a row or column that carries mass.
    highest: f64,
}

impl Dual {
    /// A bound whatever rounding did; −∞ where there is none.
    fn bound(self) -> f64 {
        // 0 · ∞ is nothing here.
        let tilted = if self.tilt > 0.0 {
            self.tilt * self.highest
        } else {
            0.0
        };
        let digits = if self.forbidden {
            FORBIDDEN_DUAL
        } else {
            self.terms * f64::EPSILON * f64::EPSILON
        };
        // Below the normal numbers rounding is no share of anything.
        let least = if self.size > 0.0 {
            self.terms * SUBNORMAL
        } else {
            0.0
        };
        let bound = self.value - (BOUND * self.value.abs() + digits * self.size + tilted + least);
        if bound.is_nan() {
            f64::NEG_INFINITY
        } else {
            bound
        }
    }
}

/// Potentials made feasible, row by row: `f_i = min_j (C_ij − g_j)` and then `min_i (C_ij − f_i)` for each column. Each is kept
/// to twice the digits, so that the bound loses none to prices that are far larger than their sums.
#[derive(Debug, Clone)]
struct Transform {
    value: Sum,
    size: Sum,
    /// Mass of the rows less that of the columns.
    tilt: Sum,
    forbidden: bool,
    terms: f64,
    highest: f64,
    /// `min_i (C_ij − f_i)` over the rows that carry mass, slack column last.
    cols: Vec<Double>,
}

impl Transform {
    fn new(cols: usize) -> Self {
        Self {
            value: Sum::default(),
            size: Sum::default(),
            tilt: Sum::default(),
            forbidden: false,
            terms: 0.0,
            highest: 0.0,
            cols: vec![Double::from(f64::INFINITY); cols],
        }
    }

    /// A row of this mass, with its costs and the columns' prices, slack last.
    fn row(&mut self, mass: f64, line: &Line<'_>, prices: &[f64]) {
        if mass == 0.0 {
            return;
        }
        let above = line
            .entries()
            .map(|(j, c)| Double::difference(c, prices[j]));
        let best = above.fold(Double::from(f64::INFINITY), Double::min);
        self.add(mass, best);
        self.tilt.add(mass);
        self.forbidden |= line.cols.is_some_and(|cols| cols.len() < prices.len());
        for (j, c) in line.entries() {
            self.forbidden |= c == f64::INFINITY;
            let g = &mut self.cols[j];
            *g = g.min(Double::difference(c, best.high).less(best.low));
        }
    }

    /// All rows of these masses at once, over points; slack goes to a last column at `slack_cost`. `None` where boxes say nothing.
    fn of_points<T: Real>(
        near: &Nearby<'_, T>,
        masses: &[f64],
        prices: &[f64],
        slack_cost: f64,
    ) -> Option<Self> {
        let k = prices.len() - 1;
        let real: Vec<Double> = prices[..k].iter().map(|&g| Double::from(g)).collect();
        let mut f = near.row_prices(&real)?;
        let mut all = Self::new(0);
        let (slack, mut last) = (
            Double::difference(slack_cost, prices[k]),
            Double::from(f64::INFINITY),
        );
        for (f, &mass) in f.iter_mut().zip(masses) {
            if mass == 0.0 {
                *f = Double::from(f64::NEG_INFINITY);
                continue;
            }
            *f = f.min(slack);
            all.add(mass, *f);
            all.tilt.add(mass);
            last = last.min(Double::difference(slack_cost, f.high).less(f.low));
        }
        all.forbidden = slack_cost == f64::INFINITY;
        all.cols = near.col_prices(&f)?;
        all.cols.push(last);
        Some(all)
    }

    fn add(&mut self, mass: f64, price: Double) {
        let size = price.high.abs();
        self.value.add_product(mass, price.high);
        self.value.add(mass * price.low);
        self.size.add(mass * size);
        self.terms += 1.0;
        self.highest = self.highest.max(size);
    }

    /// What another machine needs to go on with it.
    fn to_numbers(&self) -> Vec<f64> {
        let sums = [self.value, self.size, self.tilt];
        let sums = sums.into_iter().flat_map(Sum::to_numbers);
        let rest = [
            f64::from(u8::from(self.forbidden)),
            self.terms,
            self.highest,
        ];
        let cols = self.cols.iter().flat_map(|g| [g.high, g.low]);
        sums.chain(rest).chain(cols).collect()
    }

    fn from_numbers(numbers: &[f64]) -> Self {
        let (own, cols) = numbers.split_at(numbers.len().min(9));
        let at = |i: usize| own.get(i).copied().unwrap_or(f64::NAN);
        let sum = |i: usize| Sum::from_numbers(&own[i.min(own.len())..]);
        let (pairs, _) = cols.as_chunks::<2>();
        Self {
            value: sum(0),
            size: sum(2),
            tilt: sum(4),
            forbidden: at(6) > 0.0,
            terms: at(7),
            highest: at(8),
            cols: pairs
                .iter()
                .map(|&[high, low]| Double { high, low })
                .collect(),
        }
    }

    fn merge(&mut self, part: Self) {
        self.value.merge(part.value);
        self.size.merge(part.size);
        self.tilt.merge(part.tilt);
        self.forbidden |= part.forbidden;
        self.terms += part.terms;
        self.highest = self.highest.max(part.highest);
        let both = self.cols.iter_mut().zip(part.cols);
        both.for_each(|(g, p)| *g = g.min(p));
    }

    fn finish(mut self, demands: &[f64]) -> Dual {
        let cols = core::mem::take(&mut self.cols);
        for (&w, g) in demands.iter().zip(cols).filter(|(w, _)| **w > 0.0) {
            self.add(w, g);
            self.tilt.add(-w);
        }
        Dual {
            tilt: self.tilt.value().abs(),
            forbidden: self.forbidden,
            terms: self.terms,
            value: self.value.value(),
            size: self.size.value(),
            highest: self.highest,
        }
    }
}

/// What rows contribute to the bounds.
struct PartialSums {
    objective: Sum,
    /// Cost of the plan with its columns scaled down, and of what is filled in.
    feasible: Sum,
    /// Cost of the scaled plan alone.
    scaled: Sum,
    /// Sizes of the terms of the scaled plan, and of what is filled in.
    scaled_size: Sum,
    filled_size: Sum,
    /// Mass filled in, and mass that rows hold too much or too little of by rounding.
    filled: Sum,
    loose: Sum,
    /// The largest cost in size that a visible share of a row pays, and that a unit filled in does.
    dearest: f64,
    dearest_filled: f64,
    row_error: f64,
    mass: Sum,
    /// Mass in each row of the scaled plan, slack row last.
    rows: Vec<f64>,
    dual: Transform,
}

impl PartialSums {
    fn new(cols: usize) -> Self {
        Self {
            objective: Sum::default(),
            feasible: Sum::default(),
            scaled: Sum::default(),
            scaled_size: Sum::default(),
            filled_size: Sum::default(),
            filled: Sum::default(),
            loose: Sum::default(),
            dearest: 0.0,
            dearest_filled: 0.0,
            row_error: 0.0,
            mass: Sum::default(),
            rows: Vec::new(),
            dual: Transform::new(cols),
        }
    }

    /// A row of this mass: its costs and its plan, slack column last.
    fn row(&mut self, mass: f64, line: &Line<'_>, plan: &[f64], columns: &Columns, prices: &[f64]) {
        self.entries(mass, line, plan, columns);
        self.dual.row(mass, line, prices);
    }

    /// What a row adds to the bounds from above: its plan in the columns of a line, which has all that carry its mass or lack some.
    fn entries(&mut self, mass: f64, line: &Line<'_>, plan: &[f64], columns: &Columns) {
        let (mut given, mut moved) = (Sum::default(), Sum::default());
        for (&p, (j, c)) in plan.iter().zip(line.entries()) {
            if p > 0.0 {
                let scale = columns.scale[j];
                let price = p * scale * c;
                if columns.few {
                    self.objective.add_product(p, c);
                    self.scaled.add_product(p * scale, c);
                    self.feasible.add_product(p * scale, c);
                } else {
                    self.objective.add(p * c);
                    self.scaled.add(price);
                    self.feasible.add(price);
                }
                self.scaled_size.add(price.abs());
                moved.add(p * scale);
                given.add(p);
                // What rounding may have put there counts in proportion.
                if c.is_finite() {
                    let share = (p / (DEFICIT * mass)).min(1.0);
                    self.dearest = self.dearest.max(share * c.abs());
                }
            }
        }
        given.add(-mass);
        moved.add(-mass);
        self.row_error += given.value().abs();
        let left = -moved.value();
        if left > DEFICIT * mass && columns.short > 0.0 {
            let mut price = Sum::default();
            let lacking = line.entries().map(|(j, c)| (columns.missing[j], c));
            let mut open = 0;
            for (missing, c) in lacking.filter(|(m, _)| *m > 0.0) {
                price.add(missing * c);
                open += 1;
            }
            // What is missing in a column that the row may not use has no price.
            let unit = if open < columns.lacking {
                f64::INFINITY
            } else {
                price.value() / columns.short
            };
            if unit.is_finite() {
                self.dearest_filled = self.dearest_filled.max(unit.abs());
            }
            let price = left * unit;
            self.feasible.add(price);
            self.filled_size.add(price.abs());
            self.filled.add(left);
        } else {
            self.loose.add(left.abs());
        }
        self.rows.push(mass - left.max(0.0));
    }

    /// What another machine needs to go on with it; rows stay where they are.
    fn to_numbers(&self) -> Vec<f64> {
        let sums = [
            self.objective,
            self.feasible,
            self.scaled,
            self.scaled_size,
            self.filled_size,
            self.filled,
            self.loose,
            self.mass,
        ];
        let sums = sums.into_iter().flat_map(Sum::to_numbers);
        let rest = [self.dearest, self.dearest_filled, self.row_error];
        sums.chain(rest).chain(self.dual.to_numbers()).collect()
    }

    fn from_numbers(numbers: &[f64]) -> Self {
        let (own, dual) = numbers.split_at(numbers.len().min(19));
        let at = |i: usize| own.get(i).copied().unwrap_or(f64::NAN);
        let sum = |i: usize| Sum::from_numbers(&own[(2 * i).min(own.len())..]);
        Self {
            objective: sum(0),
            feasible: sum(1),
            scaled: sum(2),
            scaled_size: sum(3),
            filled_size: sum(4),
            filled: sum(5),
            loose: sum(6),
            mass: sum(7),
            dearest: at(16),
            dearest_filled: at(17),
            row_error: at(18),
            rows: Vec::new(),
            dual: Transform::from_numbers(dual),
        }
    }

    fn merge(&mut self, part: Self) {
        self.objective.merge(part.objective);
        self.feasible.merge(part.feasible);
        self.scaled.merge(part.scaled);
        self.scaled_size.merge(part.scaled_size);
        self.filled_size.merge(part.filled_size);
        self.filled.merge(part.filled);
        self.loose.merge(part.loose);
        self.dearest = self.dearest.max(part.dearest);
        self.dearest_filled = self.dearest_filled.max(part.dearest_filled);
        self.row_error += part.row_error;
        self.mass.merge(part.mass);
        self.rows.extend(part.rows);
        self.dual.merge(part.dual);
    }
}

pub(crate) fn certify<T: Real, C: Cost<T>>(
    problem: &Problem<T, C>,
    potentials: &Potentials,
    shape: &Representation,
) -> Certificate {
    if problem.marginals().is_relaxed() {
        return penalised::certify(problem, potentials, shape);
    }
    let slack = problem.marginals().slack();
    if let (Some(grid), Representation::Gibbs { epsilon, .. }) = (problem.cost().grid(), shape)
        && slack.row == 0.0
        && slack.col == 0.0
    {
        return super::grid::certify(grid, problem.marginals(), &potentials.cols, *epsilon);
    }
    let evaluator = Evaluator {
        problem,
        potentials,
        shape,
    };
    // Without its team a member knows nothing of the whole.
    evaluator.certify().unwrap_or(Certificate {
        primal: f64::INFINITY,
        dual: f64::NEG_INFINITY,
        objective: f64::NAN,
        violation: f64::NAN,
        mass: f64::NAN,
    })
}

struct Evaluator<'a, T, C> {
    problem: &'a Problem<T, C>,
    potentials: &'a Potentials,
    shape: &'a Representation,
}

impl<T: Real, C: Cost<T>> Evaluator<'_, T, C> {
    /// Visits rows with their costs and plan, slack column last in both.
    fn visit(&self, rows: Range<usize>, mut each: impl FnMut(usize, &Line<'_>, &[f64])) {
        let plan = Plan::new(self.problem, self.potentials, self.shape);
        if let Some(pairs) = self.problem.cost().pairs() {
            let (mut room, mut row) = (Vec::new(), Vec::new());
            self.visit_listed(pairs, rows, |i, line| {
                let kept = plan.write_listed(i, pairs.row(i), &mut room, &mut row);
                row.push(kept);
                each(i, line, &row);
            });
            return;
        }
        let k = self.problem.cols();
        let mut narrow = vec![T::zero(); k];
        let (mut costs, mut row) = (vec![0.0; k + 1], vec![0.0; k + 1]);
        costs[k] = self.problem.marginals().slack().col_cost;
        for i in rows {
            self.problem.cost().fill(i..i + 1, &mut narrow);
            row[k] = plan.write_row_with(i, &narrow, &mut row[..k]);
            for (wide, c) in costs.iter_mut().zip(&narrow) {
                *wide = c.widen();
            }
            each(i, &Line::whole(&costs), &row);
        }
    }

    /// Visits the named costs of rows, slack last.
    fn visit_listed(
        &self,
        pairs: Pairs<'_, T>,
        rows: Range<usize>,
        mut each: impl FnMut(usize, &Line<'_>),
    ) {
        let (mut cols, mut costs) = (Vec::new(), Vec::new());
        for i in rows {
            let listed = pairs.row(i);
            cols.clear();
            cols.extend(listed.0.iter().map(|&j| j as usize));
            cols.push(self.problem.cols());
            costs.clear();
            costs.extend(listed.1.iter().map(|c| c.widen()));
            costs.push(self.problem.marginals().slack().col_cost);
            let line = Line {
                cols: Some(&cols),
                costs: &costs,
            };
            each(i, &line);
        }
    }

    /// Adds up what nodes of the tree over the rows come to, those of other members included.
    fn fold<R: Send>(
        &self,
        leaf: impl Fn(Range<usize>) -> R + Sync,
        merge: impl Fn(&mut R, R) + Sync,
        to: impl Fn(&R) -> Vec<f64>,
        from: impl Fn(&[f64]) -> R,
    ) -> Result<(R, Option<R>), Error> {
        let (n, k) = (self.problem.rows(), line_length(self.problem.cost()));
        let leaf = |rows, ()| leaf(rows);
        let own = fold(0..n, k, is_split, (), &leaf, &merge);
        let Some(shard) = self.problem.cost().shard() else {
            return Ok((own, None));
        };
        let all = shard.gather(Ok(to(&own)))?;
        let all = all.iter().map(|numbers| from(numbers)).collect();
        match shard.fold(all, &merge) {
            Some(all) => Ok((all, Some(own))),
            None => Ok((own, None)),
        }
    }

    fn certify(&self) -> Result<Certificate, Error> {
        let k = self.problem.cols();
        let m = self.problem.marginals();
        let mut slack_row = vec![0.0; k + 1];
        let columns = self.columns(&mut slack_row)?;
        let prices = self.prices(&columns.demands);
        let mut t = self.tally(&columns, &prices)?;
        let slack = m.slack();
        let mut slack_costs = vec![slack.row_cost; k];
        slack_costs.push(slack.corner_cost);
        let slack_line = Line::whole(&slack_costs);
        t.row(slack.row, &slack_line, &slack_row, &columns, &prices);

        let mut dual = t.dual.clone().finish(&columns.demands);
        let size = t.scaled_size.value();
        let scale = size.max(dual.value.abs());
        if !(f64::EPSILON * dual.size <= BLIND_SHARE * scale) {
            let other = self.cold_start(&slack_line, &columns.demands)?;
            if other.bound() > dual.bound() {
                dual = other;
            }
        }
        let mut primal = t.feasible.value();
        let mut dearest = t.dearest.max(t.dearest_filled);
        let mut filled_size = t.filled_size.value();
        // Nobody can fill in what is lost in the last digit of a sum, but it has to go somewhere, at a price like others pay.
        let unfilled = (columns.short - t.filled.value()).max(0.0);
        let mut loose = t.loose.value().max(columns.loose + unfilled);
        if columns.are_off() {
            loose += LOOSE * m.total();
        }
        // Filled in where it is forbidden, or where somebody wrote a large number for that.
        let is_dear = t.dearest_filled > DEAR_UNIT * t.dearest && filled_size > DEAR_SHARE * size;
        let is_dear = is_dear || !(filled_size <= DEAR_REPAIR * size);
        // A team repairs what it can send round, and leaves the bound open where it cannot.
        let whole = match is_dear {
            true => Whole::gather(self.problem, "repairing a plan").ok(),
            false => None,
        };
        if let Some(whole) = whole {
            if let Some(shard) = self.problem.cost().shard() {
                let slack = t.rows.pop();
                t.rows = shard.gather(Ok(t.rows))?.concat();
                t.rows.extend(slack);
            }
            let cols = columns.scaled();
            let plan = Deficient {
                price: t.scaled.value(),
                rows: &t.rows,
                cols: &cols,
                entries: self.scaled_entries(&columns.scale),
            };
            let repaired = match &whole {
                None => T::repair(&self.problem.erased(), &plan),
                Some(whole) => T::repair(&whole.problem()?.erased(), &plan),
            };
            if let Some(repaired) = repaired
                && !(repaired.price >= primal)
            {
                filled_size = (repaired.price - plan.price).abs();
                (primal, loose) = (repaired.price, REPAIRED * m.total());
                dearest = t.dearest.max(repaired.dearest);
            }
        }
        let rows = whole_rows(self.problem.cost());
        let rounding = if columns.few && filled_size == 0.0 {
            BOUND * primal.abs() + f64::EPSILON * f64::EPSILON * size * (rows + k) as f64
        } else {
            PRIMAL * (size + filled_size)
        };
        // What is loose may have to take the place of others to get where it belongs.
        let unit = 2.0 * dearest.max(dual.highest);
        let least = if size > 0.0 {
            SUBNORMAL * (rows * k) as f64
        } else {
            0.0
        };
        Ok(Certificate {
            primal: primal + (rounding + unit * loose + least),
            dual: dual.bound(),
            objective: t.objective.value(),
            violation: (columns.violation() + t.row_error) / m.total(),
            mass: t.mass.value(),
        })
    }

    /// Entries of the scaled plan, where they are few and all there is.
    fn scaled_entries(&self, scale: &[f64]) -> Vec<(usize, usize, f64)> {
        let slack = self.problem.marginals().slack();
        if self.problem.cost().pairs().is_none() || slack.row > 0.0 || slack.col > 0.0 {
            return Vec::new();
        }
        let plan = Plan::new(self.problem, self.potentials, self.shape);
        let entries = plan.entries(0.0).into_iter();
        entries
            .map(|e| (e.row, e.col, e.mass * scale[e.col]))
            .collect()
    }

    /// First pass: column sums, the slack row, which is written out, on top.
    fn columns(&self, slack_row: &mut [f64]) -> Result<Columns, Error> {
        let k = self.problem.cols();
        let m = self.problem.marginals();
        let plan = Plan::new(self.problem, self.potentials, self.shape);
        let leaf = |rows: Range<usize>| {
            let mut part = vec![Sum::default(); k + 1];
            if let Representation::Sparse(sparse) = self.shape {
                for i in rows {
                    sparse.row(i).for_each(|(j, p)| part[j].add(p));
                    part[k].add(plan.kept_back(i, sparse.row(i).map(|e| e.1).sum()));
                }
                return part;
            }
            self.visit(rows, |_, line, row| {
                for (at, &p) in row.iter().enumerate() {
                    part[line.col(at)].add(p);
                }
            });
            part
        };
        let merge = |all: &mut Vec<Sum>, more: Vec<Sum>| {
            all.iter_mut().zip(more).for_each(|(s, p)| s.merge(p));
        };
        let to = |sums: &Vec<Sum>| sums.iter().flat_map(|s| s.to_numbers()).collect();
        let from = |numbers: &[f64]| numbers.chunks_exact(2).map(Sum::from_numbers).collect();
        let mut sums = self.fold(leaf, merge, to, from)?.0;
        let real: Vec<f64> = sums.iter().map(|s| s.value()).collect();
        self.slack_row(&real, slack_row);
        let more = sums.iter_mut().zip(&*slack_row);
        more.for_each(|(s, &p)| s.add(p));
        let mut demands = m.cols().to_vec();
        demands.push(m.slack().col);
        Ok(Columns::new(
            sums,
            demands,
            matches!(self.shape, Representation::Sparse(_)),
        ))
    }

    /// Column prices, slack last, with their mean at zero: the value is a difference of two sums, best kept small.
    fn prices(&self, demands: &[f64]) -> Vec<f64> {
        let mut prices = self.potentials.cols.clone();
        prices.push(self.potentials.slack_col);
        let total: f64 = demands.iter().sum();
        let priced = prices.iter().zip(demands);
        let priced = priced.filter(|(g, w)| g.is_finite() && **w > 0.0);
        let centre: f64 = priced.map(|(g, w)| g * (w / total)).sum();
        if centre.is_finite() {
            prices.iter_mut().for_each(|g| *g -= centre);
        }
        prices
    }

    /// The second pass over the entries of a sparse plan between points; `None` where boxes say nothing about these.
    fn tally_points(
        &self,
        sparse: &SparseRows,
        columns: &Columns,
        prices: &[f64],
    ) -> Option<PartialSums> {
        let (k, cost, m) = (
            self.problem.cols(),
            self.problem.cost(),
            self.problem.marginals(),
        );
        let slack_cost = m.slack().col_cost;
        let near = Nearby::new(cost)?;
        let mut t = PartialSums::new(0);
        t.dual = Transform::of_points(&near, m.rows(), prices, slack_cost)?;
        let lacking = (0..k).filter(|&j| columns.missing[j] > 0.0);
        let lacking: Vec<usize> = lacking.collect();
        let plan = Plan::new(self.problem, self.potentials, self.shape);
        let (mut cols, mut costs, mut row) = (Vec::new(), Vec::new(), Vec::new());
        for (i, &mass) in m.rows().iter().enumerate() {
            cols.clear();
            row.clear();
            for (j, p) in sparse.row(i) {
                cols.push(j);
                row.push(p);
                t.mass.add(p);
            }
            let kept = plan.kept_back(i, row.iter().sum());
            let carrying = cols.len();
            for &j in &lacking {
                if !cols[..carrying].contains(&j) {
                    cols.push(j);
                    row.push(0.0);
                }
            }
            costs.clear();
            costs.extend(cols.iter().map(|&j| cost.at(i, j).widen()));
            cols.push(k);
            costs.push(slack_cost);
            row.push(kept);
            let line = Line {
                cols: Some(&cols),
                costs: &costs,
            };
            t.entries(mass, &line, &row, columns);
        }
        Some(t)
    }

    /// Second pass: costs of the plan, of its scaled version and of the filling; the potentials made feasible.
    fn tally(&self, columns: &Columns, prices: &[f64]) -> Result<PartialSums, Error> {
        let k = self.problem.cols();
        if let Representation::Sparse(sparse) = self.shape
            && let Some(t) = self.tally_points(sparse, columns, prices)
        {
            return Ok(t);
        }
        let masses = self.problem.marginals().rows();
        let leaf = |rows| {
            let mut t = PartialSums::new(k + 1);
            self.visit(rows, |i, line, row| {
                t.row(masses[i], line, row, columns, prices);
                let real = &row[..row.len() - 1];
                real.iter().for_each(|&p| t.mass.add(p));
            });
            t
        };
        let (to, from) = (PartialSums::to_numbers, PartialSums::from_numbers);
        let (mut t, own) = self.fold(leaf, PartialSums::merge, to, from)?;
        if let Some(own) = own {
            t.rows = own.rows;
        }
        Ok(t)
    }

    /// The lower bound at prices of zero.
    fn cold_start(&self, slack_line: &Line<'_>, demands: &[f64]) -> Result<Dual, Error> {
        let k = self.problem.cols();
        let (m, cost) = (self.problem.marginals(), self.problem.cost());
        let price = |w: &f64| if *w > 0.0 { 0.0 } else { f64::NEG_INFINITY };
        let prices: Vec<f64> = demands.iter().map(price).collect();
        let leaf = |rows: Range<usize>| {
            let mut part = Transform::new(k + 1);
            if let Some(pairs) = cost.pairs() {
                self.visit_listed(pairs, rows, |i, line| {
                    part.row(m.rows()[i], line, &prices);
                });
                return part;
            }
            let (mut narrow, mut costs) = (vec![T::zero(); k], vec![0.0; k + 1]);
            costs[k] = m.slack().col_cost;
            for i in rows {
                cost.fill(i..i + 1, &mut narrow);
                for (wide, c) in costs.iter_mut().zip(&narrow) {
                    *wide = c.widen();
                }
                part.row(m.rows()[i], &Line::whole(&costs), &prices);
            }
            part
        };
        let (to, from) = (Transform::to_numbers, Transform::from_numbers);
        let mut all = self.fold(leaf, Transform::merge, to, from)?.0;
        all.row(m.slack().row, slack_line, &prices);
        Ok(all.finish(demands))
    }

    /// The slack row of the plan, corner last. A sparse plan does not store it: it is what the columns are short of.
    fn slack_row(&self, real: &[f64], out: &mut [f64]) {
        let k = self.problem.cols();
        let m = self.problem.marginals();
        let slack = m.slack();
        if slack.row == 0.0 {
            return;
        }
        match self.shape {
            Representation::Gibbs { epsilon, .. } => {
                let point = DualPoint {
                    epsilon: *epsilon,
                    cols: &self.potentials.cols,
                    slack: self.potentials.slack_col - slack.corner_cost,
                };
                let costs = core::iter::repeat_n(slack.row_cost, k);
                out[k] = point.row(slack.row, costs, &mut out[..k]).0;
            }
            Representation::Sparse(_) => {
                for ((p, &c), &sum) in out.iter_mut().zip(m.cols()).zip(real) {
                    *p = unplaced(c, sum, c, slack.row_cost);
                }
                out[k] = unplaced(slack.col, real[k], m.total(), slack.corner_cost);
                // Where a solve was cut short the columns may be short of more than there is: what the slack row does not
                // have it cannot give.
                let given = sum(out);
                if given > slack.row {
                    out.iter_mut().for_each(|p| *p *= slack.row / given);
                }
            }
        }
    }
}

/// Filling up that costs more than this many times the whole plan is worth a better way.
const DEAR_REPAIR: f64 = 10.0;

/// So is one at a price a unit this many times what anybody pays, where it is more than this share of the whole.
const DEAR_UNIT: f64 = 1e3;
const DEAR_SHARE: f64 = 1e-3;

/// A lower bound that rounding may have moved by more than this share of the costs is worth a second look.
const BLIND_SHARE: f64 = 1e-10;
