//! The proof of quality where masses are penalised.
//!
//! ```text
//! Σ_i D*_a(φ_i) + Σ_j D*_b(ψ_j)   ≤   optimum   ≤   ⟨C, P⟩ + D(P1 | a) + D(Pᵀ1 | b)        φ_i + ψ_j ≤ C_ij
//! ```
//!
//! with D*(φ) = min_r D(r) + r φ: a φ where masses are kept, τ a (1 − exp(−φ/τ)) under KL, a min(φ, τ) for φ ≥ −τ under TV.
//!
//! * **Upper bound**: a plan's own sums say what it pays; nothing has to be rounded to feasibility but exact columns, which are
//!   scaled (rows that are exact are so by construction).
//! * **Lower bound**: `φ_i = min_j (C_ij − ψ_j)`, then `ψ_j = min_i (C_ij − φ_i)`, cut to what TV allows, and the best constant moved
//!   from one side to the other, which is closed form; or φ = 0 and `ψ_j = min_i C_ij` where that says more.
//!
//! Both are worked out in `f64` from the costs and moved outwards by what rounding may have done.

use core::ops::Range;

use super::plan::{Plan, Representation};
use crate::kernel::exp::log_sum_exp;
use crate::kernel::rounding::{PENALISED, Sum};
use crate::kernel::tiles::{map_ranges, tile_rows};
use crate::{Certificate, Cost, Marginals, Penalty, Potentials, Problem, Real};

pub(crate) fn certify<T: Real, C: Cost<T>>(
    problem: &Problem<T, C>,
    potentials: &Potentials,
    shape: &Representation,
) -> Certificate {
    let look = Look::new(problem, potentials, shape);
    let (marginals, first) = (problem.marginals(), look.pass(None));
    let factors = exact_columns(marginals, &first);
    let feasible = factors.as_ref().map(|factors| look.pass(Some(factors)));
    let feasible = feasible.as_ref().unwrap_or(&first);
    let (value, size) = feasible.pays(marginals);
    let (bound, prices) = look.dual(&first);
    Certificate {
        primal: value + PENALISED * size,
        dual: bound - PENALISED * prices,
        objective: first.pays(marginals).0,
        violation: look.violation(&first),
        mass: first.row_sums.iter().copied().sum(),
    }
}

/// What one pass over the plan says.
struct Sums {
    cost: Sum,
    size: Sum,
    row_sums: Vec<f64>,
    col_sums: Vec<f64>,
    /// `min_j (C_ij − ψ_j)`, cut.
    phi: Vec<f64>,
    /// `min_i (C_ij − φ_i)`.
    psi: Vec<f64>,
    /// The least cost of each column, and whose it is.
    least: Vec<(f64, usize)>,
}

impl Sums {
    /// Cost and penalties, and how large the terms are that they are made of.
    fn pays(&self, marginals: &Marginals) -> (f64, f64) {
        let (mut value, mut size) = (self.cost, self.size);
        for (penalty, masses, sums) in [
            (marginals.row_penalty(), marginals.rows(), &self.row_sums),
            (marginals.col_penalty(), marginals.cols(), &self.col_sums),
        ] {
            if penalty.is_exact() {
                continue;
            }
            for (&mass, &sum) in masses.iter().zip(sums) {
                let price = penalty.of(mass, sum);
                value.add(price);
                // A sum that is off in its last digit pays for that what another unit would.
                size.add(price + sum * slope(penalty, mass, sum));
            }
        }
        (value.value(), size.value())
    }
}

/// What a unit more or less costs at most.
fn slope(penalty: Penalty, mass: f64, sum: f64) -> f64 {
    match penalty {
        Penalty::Kl(tau) if sum > 0.0 && mass > 0.0 => tau * (sum / mass).ln().abs(),
        Penalty::Tv(tau) => tau,
        _ => 0.0,
    }
}

/// What exact columns have to be scaled by where rows are not exact: `None` for nothing. A column that holds nothing is filled from
/// where it is cheapest, which is said by a NaN.
fn exact_columns(marginals: &Marginals, sums: &Sums) -> Option<Vec<f64>> {
    if !marginals.col_penalty().is_exact() {
        return None;
    }
    let both = marginals.cols().iter().zip(&sums.col_sums);
    Some(
        both.map(|(&b, &s)| match (b > 0.0, s > 0.0) {
            (true, true) => b / s,
            (true, false) => f64::NAN,
            _ => 0.0,
        })
        .collect(),
    )
}

struct Look<'a, T, C> {
    problem: &'a Problem<T, C>,
    potentials: &'a Potentials,
    shape: &'a Representation,
    /// Column prices to begin with, cut to what the penalty allows.
    psi: Vec<f64>,
}

impl<'a, T: Real, C: Cost<T>> Look<'a, T, C> {
    fn new(
        problem: &'a Problem<T, C>,
        potentials: &'a Potentials,
        shape: &'a Representation,
    ) -> Self {
        let marginals = problem.marginals();
        let mut psi = potentials.cols.clone();
        if let Representation::Gibbs { epsilon, lift } = shape {
            let law = marginals.col_law().lifted(-lift);
            for (g, &b) in psi.iter_mut().zip(marginals.cols()) {
                if b > 0.0 && *g > f64::NEG_INFINITY {
                    *g = law.bare(*epsilon, b, *g);
                }
            }
        }
        for (g, &b) in psi.iter_mut().zip(marginals.cols()) {
            if let (Penalty::Tv(tau), true) = (marginals.col_penalty(), b > 0.0) {
                *g = g.clamp(-tau, tau);
            }
        }
        Self {
            problem,
            potentials,
            shape,
            psi,
        }
    }

    fn pass(&self, factors: Option<&[f64]>) -> Sums {
        let (n, k) = (self.problem.rows(), self.problem.cols());
        let tiles = map_ranges(n, tile_rows(n, k), |rows| self.tile(rows, factors));
        let mut all = self.nothing();
        for tile in tiles {
            all.cost.merge(tile.cost);
            all.size.merge(tile.size);
            all.row_sums.extend(tile.row_sums);
            all.phi.extend(tile.phi);
            for j in 0..k {
                all.col_sums[j] += tile.col_sums[j];
                all.psi[j] = all.psi[j].min(tile.psi[j]);
                if tile.least[j].0 < all.least[j].0 {
                    all.least[j] = tile.least[j];
                }
            }
        }
        for (j, _) in factors
            .unwrap_or_default()
            .iter()
            .enumerate()
            .filter(|(_, f)| f.is_nan())
        {
            let (mass, (least, row)) = (self.problem.marginals().cols()[j], all.least[j]);
            all.cost.add(mass * least);
            all.size.add((mass * least).abs());
            all.row_sums[row] += mass;
            all.col_sums[j] = mass;
        }
        all
    }

    fn nothing(&self) -> Sums {
        let k = self.problem.cols();
        Sums {
            cost: Sum::default(),
            size: Sum::default(),
            row_sums: Vec::new(),
            col_sums: vec![0.0; k],
            phi: Vec::new(),
            psi: vec![f64::INFINITY; k],
            least: vec![(f64::INFINITY, 0); k],
        }
    }

    fn tile(&self, rows: Range<usize>, factors: Option<&[f64]>) -> Sums {
        let (k, marginals) = (self.problem.cols(), self.problem.marginals());
        let plan = Plan::new(self.problem, self.potentials, self.shape);
        let (mut costs, mut row) = (vec![T::zero(); k], vec![0.0; k]);
        let mut sums = self.nothing();
        let mut col_sums = vec![Sum::default(); k];
        let floor = match marginals.row_penalty() {
            Penalty::Tv(tau) => -tau,
            _ => f64::NEG_INFINITY,
        };
        for i in rows {
            self.problem.cost().fill(i..i + 1, &mut costs);
            plan.write_row_with(i, &costs, &mut row);
            let carries = marginals.rows()[i] > 0.0;
            let (mut given, mut phi) = (Sum::default(), f64::INFINITY);
            for (j, (&c, p)) in costs.iter().zip(&mut row).enumerate() {
                let c = c.widen();
                if let Some(factors) = factors {
                    *p = if factors[j].is_nan() {
                        0.0
                    } else {
                        *p * factors[j]
                    };
                }
                if *p > 0.0 {
                    given.add(*p);
                    col_sums[j].add(*p);
                    sums.cost.add(*p * c);
                    sums.size.add((*p * c).abs());
                }
                if carries && c < sums.least[j].0 {
                    sums.least[j] = (c, i);
                }
                if marginals.cols()[j] > 0.0 {
                    phi = phi.min(c - self.psi[j]);
                }
            }
            sums.row_sums.push(given.value());
            let phi = phi.max(floor);
            sums.phi.push(phi);
            if carries {
                for (psi, &c) in sums.psi.iter_mut().zip(&costs) {
                    *psi = psi.min(c.widen() - phi);
                }
            }
        }
        for (s, sum) in sums.col_sums.iter_mut().zip(&col_sums) {
            *s = sum.value();
        }
        sums
    }

    /// The value of the best prices at hand, and how large its terms are.
    fn dual(&self, sums: &Sums) -> (f64, f64) {
        let found = self.worth(&sums.phi, &sums.psi, self.best_shift(sums));
        // Where ε is far above τ, hard prices are many τ from soft ones: then free rows and the least costs of columns say more.
        let least: Vec<f64> = sums.least.iter().map(|(cost, _)| *cost).collect();
        let idle = self.worth(&vec![0.0; sums.phi.len()], &least, 0.0);
        let bound = |(value, size): (f64, f64)| value - PENALISED * size;
        if bound(found) >= bound(idle) {
            found
        } else {
            idle
        }
    }

    /// The value of feasible prices with a constant moved from the columns to the rows, and how large its terms are.
    fn worth(&self, phi: &[f64], psi: &[f64], shift: f64) -> (f64, f64) {
        let marginals = self.problem.marginals();
        let (mut value, mut size) = (Sum::default(), Sum::default());
        for (penalty, masses, prices, shift) in [
            (marginals.row_penalty(), marginals.rows(), phi, shift),
            (marginals.col_penalty(), marginals.cols(), psi, -shift),
        ] {
            for (&mass, &price) in masses.iter().zip(prices).filter(|(m, _)| **m > 0.0) {
                let price = price + shift;
                let term = penalty.conjugate(mass, price);
                value.add(term);
                let unit = match penalty {
                    Penalty::Kl(tau) => (-price / tau).exp(),
                    _ => 1.0,
                };
                if price.is_finite() {
                    let at = (price - shift).abs() + shift.abs();
                    size.add(term.abs() + mass * unit * at);
                }
            }
        }
        (value.value(), size.value())
    }

    /// The constant to add to the rows' prices and take from the columns'.
    fn best_shift(&self, sums: &Sums) -> f64 {
        let marginals = self.problem.marginals();
        if marginals.has_bounded_potentials() {
            return 0.0;
        }
        let mass = |penalty: Penalty, masses: &[f64], prices: &[f64]| {
            let log = |m: f64, p: f64| match penalty {
                Penalty::Kl(tau) => m.ln() - p / tau,
                _ => m.ln(),
            };
            let each = masses.iter().zip(prices).filter(|(m, _)| **m > 0.0);
            log_sum_exp(each.map(|(&m, &p)| log(m, p)))
        };
        let rows = mass(marginals.row_penalty(), marginals.rows(), &sums.phi);
        let cols = mass(marginals.col_penalty(), marginals.cols(), &sums.psi);
        let stiff =
            1.0 / marginals.row_penalty().strength() + 1.0 / marginals.col_penalty().strength();
        let shift = (rows - cols) / stiff;
        if shift.is_finite() { shift } else { 0.0 }
    }

    /// How far the columns are from what their potentials ask for; of the mass there or asked for.
    fn violation(&self, sums: &Sums) -> f64 {
        let Representation::Gibbs { epsilon, lift } = self.shape else {
            return 0.0;
        };
        let marginals = self.problem.marginals();
        let law = marginals.col_law().lifted(-lift);
        let (mut off, mut scale) = (Sum::default(), Sum::default());
        let columns = marginals.cols().iter().zip(&self.potentials.cols);
        for ((&b, &g), &s) in columns.zip(&sums.col_sums) {
            if b > 0.0 && g > f64::NEG_INFINITY {
                let log = s.ln();
                let demand = law.log_demand(*epsilon, b, g, log);
                let demand = if demand == log { s } else { demand.exp() };
                off.add((s - demand).abs());
                scale.add(s.max(demand));
            }
        }
        if off.value() == 0.0 {
            0.0
        } else {
            off.value() / scale.value()
        }
    }
}
