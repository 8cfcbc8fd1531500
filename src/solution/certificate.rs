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

use crate::kernel::rounding::{
    BOUND, DEFICIT, Double, FORBIDDEN_DUAL, LOOSE, PRIMAL, REPAIRED, SUBNORMAL, Sum, sum,
};
use crate::kernel::tiles::{map_ranges, tile_rows};
use crate::solution::penalised;
use crate::solution::plan::{Plan, Representation, unplaced};
use crate::sweep::DualPoint;
use crate::{Cost, Potentials, Problem, Real};

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

/// What one look says about the columns of a plan, slack last: how they must be scaled, and what they lack then.
struct Columns {
    /// Mass asked for.
    wanted: Vec<f64>,
    /// Mass in each less what is asked for, to the last digit.
    off: Vec<f64>,
    /// At most one: what brings too full a column down to its mass.
    scale: Vec<f64>,
    missing: Vec<f64>,
    /// Sum of what is missing.
    short: f64,
    /// Sum of what is too much or too little by rounding, and is left so.
    loose: f64,
    /// Whether the plan has few entries, so that their products may cost something.
    few: bool,
}

impl Columns {
    fn new(sums: Vec<Sum>, wanted: Vec<f64>, few: bool) -> Self {
        let less = |(mut s, w): (Sum, &f64)| {
            s.add(-w);
            s.value()
        };
        let off: Vec<f64> = sums.into_iter().zip(&wanted).map(less).collect();
        let each = || off.iter().zip(&wanted);
        let scale = each().map(|(o, w)| if *o > DEFICIT * w { w / (w + o) } else { 1.0 });
        let missing = each().map(|(o, w)| if -o > DEFICIT * w { -o } else { 0.0 });
        let left = each().filter(|(o, w)| o.abs() <= DEFICIT * **w);
        let loose = left.map(|(o, _)| o.abs()).sum();
        let (scale, missing): (Vec<f64>, Vec<f64>) = (scale.collect(), missing.collect());
        Self {
            short: sum(&missing),
            wanted,
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
        let both = self.off.iter().zip(&self.wanted).zip(&self.scale);
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
    fn row(&mut self, mass: f64, costs: &[f64], prices: &[f64]) {
        if mass == 0.0 {
            return;
        }
        let above = costs
            .iter()
            .zip(prices)
            .map(|(&c, &g)| Double::difference(c, g));
        let best = above.fold(Double::from(f64::INFINITY), Double::min);
        self.add(mass, best);
        self.tilt.add(mass);
        for (g, &c) in self.cols.iter_mut().zip(costs) {
            self.forbidden |= c == f64::INFINITY;
            *g = g.min(Double::difference(c, best.high).less(best.low));
        }
    }

    fn add(&mut self, mass: f64, price: Double) {
        let size = price.high.abs();
        self.value.add_product(mass, price.high);
        self.value.add(mass * price.low);
        self.size.add(mass * size);
        self.terms += 1.0;
        self.highest = self.highest.max(size);
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

    fn finish(mut self, wanted: &[f64]) -> Dual {
        let cols = core::mem::take(&mut self.cols);
        for (&w, g) in wanted.iter().zip(cols).filter(|(w, _)| **w > 0.0) {
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
    fn row(&mut self, mass: f64, costs: &[f64], plan: &[f64], columns: &Columns, prices: &[f64]) {
        let (mut given, mut moved) = (Sum::default(), Sum::default());
        for ((&p, &c), &scale) in plan.iter().zip(costs).zip(&columns.scale) {
            if p > 0.0 {
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
            let lacking = columns.missing.iter().zip(costs);
            lacking
                .filter(|(m, _)| **m > 0.0)
                .for_each(|(m, c)| price.add(m * c));
            let unit = price.value() / columns.short;
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
        self.dual.row(mass, costs, prices);
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
    evaluator.certify()
}

struct Evaluator<'a, T, C> {
    problem: &'a Problem<T, C>,
    potentials: &'a Potentials,
    shape: &'a Representation,
}

impl<T: Real, C: Cost<T>> Evaluator<'_, T, C> {
    /// Visits rows with their costs and plan, slack column last in both.
    fn visit(&self, rows: Range<usize>, mut each: impl FnMut(usize, &[f64], &[f64])) {
        let k = self.problem.cols();
        let mut narrow = vec![T::zero(); k];
        let (mut costs, mut row) = (vec![0.0; k + 1], vec![0.0; k + 1]);
        costs[k] = self.problem.marginals().slack().col_cost;
        let plan = Plan::new(self.problem, self.potentials, self.shape);
        for i in rows {
            self.problem.cost().fill(i..i + 1, &mut narrow);
            row[k] = plan.write_row_with(i, &narrow, &mut row[..k]);
            for (wide, c) in costs.iter_mut().zip(&narrow) {
                *wide = c.widen();
            }
            each(i, &costs, &row);
        }
    }

    fn certify(&self) -> Certificate {
        let k = self.problem.cols();
        let m = self.problem.marginals();
        let mut slack_row = vec![0.0; k + 1];
        let columns = self.columns(&mut slack_row);
        let prices = self.prices(&columns.wanted);
        let mut t = self.tally(&columns, &prices);
        let slack = m.slack();
        let mut slack_costs = vec![slack.row_cost; k];
        slack_costs.push(slack.corner_cost);
        t.row(slack.row, &slack_costs, &slack_row, &columns, &prices);

        let mut dual = t.dual.clone().finish(&columns.wanted);
        let size = t.scaled_size.value();
        let scale = size.max(dual.value.abs());
        if !(f64::EPSILON * dual.size <= BLIND * scale) {
            let other = self.at_rest(&slack_costs, &columns.wanted);
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
        if !(filled_size <= DEAR * size) {
            let cols = columns.scaled();
            let plan = Deficient {
                price: t.scaled.value(),
                rows: &t.rows,
                cols: &cols,
            };
            if let Some(repaired) = T::repair(&self.problem.erased(), &plan)
                && !(repaired.price >= primal)
            {
                filled_size = (repaired.price - plan.price).abs();
                (primal, loose) = (repaired.price, REPAIRED * m.total());
                dearest = t.dearest.max(repaired.dearest);
            }
        }
        let rounding = if columns.few && filled_size == 0.0 {
            BOUND * primal.abs() + f64::EPSILON * f64::EPSILON * size * (m.rows().len() + k) as f64
        } else {
            PRIMAL * (size + filled_size)
        };
        // What is loose may have to take the place of others to get where it belongs.
        let unit = 2.0 * dearest.max(dual.highest);
        let least = if size > 0.0 {
            SUBNORMAL * (m.rows().len() * k) as f64
        } else {
            0.0
        };
        Certificate {
            primal: primal + (rounding + unit * loose + least),
            dual: dual.bound(),
            objective: t.objective.value(),
            violation: (columns.violation() + t.row_error) / m.total(),
            mass: t.mass.value(),
        }
    }

    /// First pass: column sums, the slack row, which is written out, on top.
    fn columns(&self, slack_row: &mut [f64]) -> Columns {
        let (n, k) = (self.problem.rows(), self.problem.cols());
        let m = self.problem.marginals();
        let mut sums = vec![Sum::default(); k + 1];
        for part in map_ranges(n, tile_rows(n, k), |rows| {
            let mut part = vec![Sum::default(); k + 1];
            self.visit(rows, |_, _, row| {
                part.iter_mut().zip(row).for_each(|(s, &p)| s.add(p));
            });
            part
        }) {
            sums.iter_mut().zip(part).for_each(|(s, p)| s.merge(p));
        }
        let real: Vec<f64> = sums.iter().map(|s| s.value()).collect();
        self.slack_row(&real, slack_row);
        let more = sums.iter_mut().zip(&*slack_row);
        more.for_each(|(s, &p)| s.add(p));
        let mut wanted = m.cols().to_vec();
        wanted.push(m.slack().col);
        Columns::new(
            sums,
            wanted,
            matches!(self.shape, Representation::Sparse(_)),
        )
    }

    /// Column prices, slack last, with their mean at zero: the value is a difference of two sums, best kept small.
    fn prices(&self, wanted: &[f64]) -> Vec<f64> {
        let mut prices = self.potentials.cols.clone();
        prices.push(self.potentials.slack_col);
        let total: f64 = wanted.iter().sum();
        let priced = prices.iter().zip(wanted);
        let priced = priced.filter(|(g, w)| g.is_finite() && **w > 0.0);
        let centre: f64 = priced.map(|(g, w)| g * (w / total)).sum();
        if centre.is_finite() {
            prices.iter_mut().for_each(|g| *g -= centre);
        }
        prices
    }

    /// Second pass: costs of the plan, of its scaled version and of the filling; the potentials made feasible.
    fn tally(&self, columns: &Columns, prices: &[f64]) -> PartialSums {
        let (n, k) = (self.problem.rows(), self.problem.cols());
        let masses = self.problem.marginals().rows();
        let parts = map_ranges(n, tile_rows(n, k), |rows| {
            let mut t = PartialSums::new(k + 1);
            self.visit(rows, |i, costs, row| {
                t.row(masses[i], costs, row, columns, prices);
                row[..k].iter().for_each(|&p| t.mass.add(p));
            });
            t
        });
        let mut t = PartialSums::new(k + 1);
        parts.into_iter().for_each(|part| t.merge(part));
        t
    }

    /// The lower bound at prices of zero.
    fn at_rest(&self, slack_costs: &[f64], wanted: &[f64]) -> Dual {
        let (n, k) = (self.problem.rows(), self.problem.cols());
        let (m, cost) = (self.problem.marginals(), self.problem.cost());
        let price = |w: &f64| if *w > 0.0 { 0.0 } else { f64::NEG_INFINITY };
        let prices: Vec<f64> = wanted.iter().map(price).collect();
        let parts = map_ranges(n, tile_rows(n, k), |rows| {
            let mut part = Transform::new(k + 1);
            let (mut narrow, mut costs) = (vec![T::zero(); k], vec![0.0; k + 1]);
            costs[k] = m.slack().col_cost;
            for i in rows {
                cost.fill(i..i + 1, &mut narrow);
                for (wide, c) in costs.iter_mut().zip(&narrow) {
                    *wide = c.widen();
                }
                part.row(m.rows()[i], &costs, &prices);
            }
            part
        });
        let mut all = Transform::new(k + 1);
        parts.into_iter().for_each(|part| all.merge(part));
        all.row(m.slack().row, slack_costs, &prices);
        all.finish(wanted)
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
const DEAR: f64 = 10.0;

/// A lower bound that rounding may have moved by more than this share of the costs is worth a second look.
const BLIND: f64 = 1e-10;
