//! A sorted list of samples with their weights, and how one is moved onto another.

use super::power::Power;
use super::staircase::{Cumulative, walk};
use crate::cost::check_points;
use crate::kernel::rounding::Sum;
use crate::kernel::sort::{key, sort, sort_by_halves, unkey};
use crate::kernel::tiles::map_ranges;
use crate::problem::marginals::shares;
use crate::{Entry, Error, Real, Side};

/// Steps of a walk that one thread takes at a time.
const TILE: usize = 1 << 15;

/// Sums of powers up to this may have lost terms to underflow.
const LEAST_COST: f64 = 1e-280;

/// Samples on a line with their weights, sorted once.
///
/// # Examples
/// ```
/// use earthmover::line::Samples;
/// let (a, b) = (Samples::new(&[0.0, 2.0])?, Samples::weighted(&[1.0, 5.0], &[3.0, 1.0])?);
/// let transport = a.transport(&b, 1.0)?;
/// assert!((transport.cost - 1.5).abs() < 1e-15); // ½·1 + ¼·1 + ¼·3
/// assert_eq!(transport.plan.len(), 3);
/// assert!((transport.dual - transport.cost).abs() < 1e-14); // proven optimal
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    pub(super) positions: Vec<f64>,
    pub(super) levels: Cumulative,
    /// Which of the caller's samples each one is; empty where nobody will ask.
    origin: Vec<u32>,
}

/// How one distribution on the line is moved onto another.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Transport {
    /// W_pᵖ: what the plan costs.
    pub cost: f64,
    /// The value of feasible prices: a lower bound of every plan's cost, and equal to it up to rounding.
    pub dual: f64,
    /// The entries of the plan, at most n + m − 1, in the order of the line; rows and columns as the caller numbered them.
    pub plan: Vec<Entry>,
    /// Prices of the rows: what a little more mass there costs, up to a constant.
    pub row_potentials: Vec<f64>,
    /// Prices of the columns.
    pub col_potentials: Vec<f64>,
    order: f64,
}

impl Transport {
    /// W_p: the p-th root of the cost.
    #[must_use]
    pub fn distance(&self) -> f64 {
        self.cost.powf(1.0 / self.order)
    }
}

impl Samples {
    /// Samples of equal weight.
    ///
    /// # Errors
    /// [`Error::Empty`] for none, [`Error::Point`] for one that is not finite.
    pub fn new<T: Real>(positions: &[T]) -> Result<Self, Error> {
        Self::build(positions, None, Side::Rows, true)
    }

    /// Samples with weights, which are scaled to a total of one.
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`Error::Length`], [`Error::Mass`] or [`Error::NoMass`] for weights that are none.
    pub fn weighted<T: Real>(positions: &[T], weights: &[T]) -> Result<Self, Error> {
        Self::build(positions, Some(weights), Side::Rows, true)
    }

    /// For distances only.
    pub(crate) fn without_origin<T: Real>(
        positions: &[T],
        weights: Option<&[T]>,
        side: Side,
    ) -> Result<Self, Error> {
        Self::build(positions, weights, side, false)
    }

    fn build<T: Real>(
        positions: &[T],
        weights: Option<&[T]>,
        side: Side,
        origin: bool,
    ) -> Result<Self, Error> {
        let n = positions.len();
        check_points(positions, 1, side)?;
        if u32::try_from(n).is_err() {
            return Err(Error::TooLarge { rows: n, cols: 1 });
        }
        let Some(weights) = weights else {
            if !origin {
                let mut keys: Vec<u64> = positions.iter().map(|x| key(x.widen())).collect();
                sort(&mut keys);
                return Ok(Self {
                    positions: keys.into_iter().map(unkey).collect(),
                    levels: Cumulative::Uniform(n),
                    origin: Vec::new(),
                });
            }
            let (positions, origin) = sorted(positions);
            return Ok(Self {
                positions,
                levels: Cumulative::Uniform(n),
                origin,
            });
        };
        let shares = shares(weights, n, side, "weights")?;
        if !origin {
            let pairs = positions.iter().zip(&shares);
            let pairs = pairs.map(|(x, w)| (key(x.widen()), w.to_bits()));
            let pairs = sort_by_halves(pairs.collect());
            let shares = pairs.iter().map(|p| f64::from_bits(p.1));
            return Ok(Self {
                levels: Cumulative::of_shares(shares),
                positions: pairs.iter().map(|p| unkey(p.0)).collect(),
                origin: Vec::new(),
            });
        }
        let (positions, origin) = sorted(positions);
        let levels = Cumulative::of_shares(origin.iter().map(|i| shares[*i as usize]));
        Ok(Self {
            positions,
            levels,
            origin,
        })
    }

    /// How many there are.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // There is always one.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// The samples, least first.
    #[must_use]
    pub fn positions(&self) -> &[f64] {
        &self.positions
    }

    /// W_p to another distribution.
    ///
    /// # Errors
    /// [`Error::Option`] for an order below one, [`Error::TooFar`] where the cost overflows.
    ///
    /// # Examples
    /// ```
    /// use earthmover::line::Samples;
    /// let (a, b) = (Samples::new(&[0.0, 1.0, 2.0])?, Samples::new(&[5.0, 6.0, 7.0])?);
    /// assert_eq!(a.distance(&b, 1.0)?, 5.0);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn distance(&self, other: &Self, order: f64) -> Result<f64, Error> {
        self.root_cost(other, Power::new(order)?)
    }

    /// W_p. Powers that would be lost below the least number are taken of distances in units of the largest.
    pub(crate) fn root_cost(&self, other: &Self, power: Power) -> Result<f64, Error> {
        let cost = self.cost(other, power)?;
        let ends = |s: &Self| {
            s.positions
                .first()
                .copied()
                .zip(s.positions.last().copied())
        };
        let (Some(x), Some(y)) = (ends(self), ends(other)) else {
            return Ok(power.root(cost));
        };
        let unit = (x.1 - y.0).abs().max((y.1 - x.0).abs());
        if cost > LEAST_COST || unit == 0.0 {
            return Ok(power.root(cost));
        }
        let scaled = |s: &Self| s.positions.iter().map(|x| x / unit).collect::<Vec<_>>();
        let (x, y) = (scaled(self), scaled(other));
        let cost = distance_cost((&x, &self.levels), (&y, &other.levels), power);
        Ok(unit * power.root(finite(cost)?))
    }

    /// W_pᵖ.
    pub(crate) fn cost(&self, other: &Self, power: Power) -> Result<f64, Error> {
        let cost = distance_cost(
            (&self.positions, &self.levels),
            (&other.positions, &other.levels),
            power,
        );
        finite(cost)
    }

    /// The optimal plan, its cost, prices that prove it and what they are gradients of.
    ///
    /// # Errors
    /// As [`distance`](Self::distance).
    pub fn transport(&self, other: &Self, order: f64) -> Result<Transport, Error> {
        let power = Power::new(order)?;
        let (n, m) = (self.len(), other.len());
        let between = |i: usize, j: usize| power.of(self.positions[i] - other.positions[j]);
        let (mut f, mut g) = (vec![0.0; n], vec![0.0; m]);
        let (mut cost, mut dual) = (Sum::default(), Sum::default());
        let mut plan = Vec::with_capacity(n + m);
        let mut last: Option<(usize, usize)> = None;
        walk(&self.levels, &other.levels, 0..n, |i, j, mass| {
            match last {
                Some((before, _)) if before == i => g[j] = between(i, j) - f[i],
                Some((_, before)) if before == j => f[i] = between(i, j) - g[j],
                // Both moved on: the step between them, of no mass, ties their prices together.
                Some((before, _)) => {
                    g[j] = between(before, j) - f[before];
                    f[i] = between(i, j) - g[j];
                }
                None => g[j] = between(i, j) - f[i],
            }
            last = Some((i, j));
            if mass > 0.0 {
                cost.add_product(mass, between(i, j));
                plan.push(Entry {
                    row: self.origin[i] as usize,
                    col: other.origin[j] as usize,
                    mass,
                });
            }
        });
        let share = |levels: &Cumulative, i: usize| levels.at(i) - levels.before(i);
        (0..n).for_each(|i| dual.add_product(share(&self.levels, i), f[i]));
        (0..m).for_each(|j| dual.add_product(share(&other.levels, j), g[j]));
        Ok(Transport {
            cost: finite(cost.value())?,
            dual: dual.value(),
            plan,
            row_potentials: scattered(&f, &self.origin),
            col_potentials: scattered(&g, &other.origin),
            order,
        })
    }

    /// The derivatives of W_pᵖ with respect to the positions of the samples on either side, in the caller's order: each sample pulls
    /// and is pulled by those it exchanges mass with. Where p = 1 and two samples meet the kink counts as zero.
    ///
    /// # Errors
    /// As [`distance`](Self::distance).
    ///
    /// # Examples
    /// ```
    /// use earthmover::line::Samples;
    /// let (a, b) = (Samples::new(&[0.0, 1.0])?, Samples::new(&[3.0, 0.0])?);
    /// let (rows, cols) = a.gradients(&b, 2.0)?; // ½ (0 − 0)² + ½ (1 − 3)²
    /// assert_eq!((rows, cols), (vec![0.0, -2.0], vec![2.0, 0.0]));
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn gradients(&self, other: &Self, order: f64) -> Result<(Vec<f64>, Vec<f64>), Error> {
        let power = Power::new(order)?;
        let (x, y) = position_gradients(
            (&self.positions, &self.levels),
            (&other.positions, &other.levels),
            power,
        );
        if let Some(bad) = x.iter().chain(&y).find(|d| !d.is_finite()) {
            return Err(Error::TooFar {
                cost: *bad,
                largest: <f64 as Real>::LARGEST_COST,
            });
        }
        Ok((scattered(&x, &self.origin), scattered(&y, &other.origin)))
    }
}

/// Positions least first, and where each came from.
fn sorted<T: Real>(positions: &[T]) -> (Vec<f64>, Vec<u32>) {
    let mut pairs: Vec<(u64, u32)> = positions
        .iter()
        .zip(0..)
        .map(|(x, i)| (key(x.widen()), i))
        .collect();
    sort(&mut pairs);
    let origin = pairs.iter().map(|p| p.1).collect();
    (pairs.into_iter().map(|p| unkey(p.0)).collect(), origin)
}

fn scattered(sorted: &[f64], origin: &[u32]) -> Vec<f64> {
    let mut out = vec![0.0; sorted.len()];
    for (value, i) in sorted.iter().zip(origin) {
        out[*i as usize] = *value;
    }
    out
}

fn finite(cost: f64) -> Result<f64, Error> {
    if cost.is_finite() {
        return Ok(cost);
    }
    Err(Error::TooFar {
        cost,
        largest: <f64 as Real>::LARGEST_COST,
    })
}

/// W_pᵖ of two sorted lists with their levels.
pub(crate) fn distance_cost(
    (x, x_levels): (&[f64], &Cumulative),
    (y, y_levels): (&[f64], &Cumulative),
    power: Power,
) -> f64 {
    let n = x.len();
    let parts = match (x_levels, y_levels) {
        (Cumulative::Uniform(_), Cumulative::Uniform(m)) if n == *m => {
            let parts = map_ranges(n, TILE, |rows| {
                let pairs = x[rows.clone()].iter().zip(&y[rows]);
                let mut part = Sum::default();
                pairs.for_each(|(x, y)| part.add(power.of(x - y)));
                part
            });
            return total(parts) / n as f64;
        }
        _ => map_ranges(n, TILE, |rows| {
            let mut part = Sum::default();
            walk(x_levels, y_levels, rows, |i, j, mass| {
                part.add(mass * power.of(x[i] - y[j]));
            });
            part
        }),
    };
    total(parts)
}

fn total(parts: Vec<Sum>) -> f64 {
    let mut total = Sum::default();
    parts.into_iter().for_each(|part| total.merge(part));
    total.value()
}

/// The derivatives of W_pᵖ with respect to the positions of two sorted lists.
pub(crate) fn position_gradients(
    (x, x_levels): (&[f64], &Cumulative),
    (y, y_levels): (&[f64], &Cumulative),
    power: Power,
) -> (Vec<f64>, Vec<f64>) {
    let (mut rows, mut cols) = (vec![0.0; x.len()], vec![0.0; y.len()]);
    walk(x_levels, y_levels, 0..x.len(), |i, j, mass| {
        let pull = mass * power.slope(x[i] - y[j]);
        rows[i] += pull;
        cols[j] -= pull;
    });
    (rows, cols)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::random::Random;
    use crate::kernel::rounding::sum;
    use crate::{Exact, FromFn, Marginals, Problem};

    fn draw(random: &mut Random, n: usize, ties: bool) -> (Vec<f64>, Vec<f64>) {
        let positions = (0..n).map(|_| {
            let x = random.normal();
            if ties { (2.0 * x).round() / 2.0 } else { x }
        });
        let positions: Vec<f64> = positions.collect();
        let masses = (0..n).map(|_| {
            let w = random.unit();
            if ties && w < 0.3 { 0.0 } else { 0.1 + w }
        });
        let mut masses: Vec<f64> = masses.collect();
        masses[n / 2] = 1.0;
        let total = sum(&masses);
        masses.iter_mut().for_each(|w| *w /= total);
        (positions, masses)
    }

    #[test]
    fn costs_plans_and_prices_are_those_of_the_exact_solver() {
        let mut random = Random::new(3, 0);
        for case in 0..60 {
            let (n, m) = (1 + case % 7, 1 + (case * 5) % 9);
            let ((x, a), (y, b)) = (
                draw(&mut random, n, case % 2 == 0),
                draw(&mut random, m, case % 3 == 0),
            );
            let order = [1.0, 2.0, 1.5, 3.0][case % 4];
            let cost = FromFn::new(n, m, |i, j| (x[i] - y[j]).abs().powf(order)).unwrap();
            let problem = Problem::new(cost, Marginals::balanced(&a, &b).unwrap()).unwrap();
            let optimum = Exact::new().solve(&problem).unwrap().objective();
            let (s, t) = (
                Samples::weighted(&x, &a).unwrap(),
                Samples::weighted(&y, &b).unwrap(),
            );
            let transport = s.transport(&t, order).unwrap();
            assert!((transport.cost - optimum).abs() < 1e-12, "case {case}");
            assert!((transport.dual - optimum).abs() < 1e-12, "case {case}");
            let cost = s.distance(&t, order).unwrap().powf(order);
            assert!((cost - optimum).abs() < 1e-12, "case {case}");
            for i in 0..n {
                for j in 0..m {
                    let price = transport.row_potentials[i] + transport.col_potentials[j];
                    assert!(price <= (x[i] - y[j]).abs().powf(order) + 1e-12);
                }
            }
            let (mut rows, mut cols) = (vec![0.0; n], vec![0.0; m]);
            for e in &transport.plan {
                rows[e.row] += e.mass;
                cols[e.col] += e.mass;
            }
            let close = |p: &[f64], q: &[f64]| p.iter().zip(q).all(|(p, q)| (p - q).abs() < 1e-14);
            assert!(close(&rows, &a) && close(&cols, &b), "case {case}");
        }
    }

    #[test]
    fn long_walks_in_tiles_are_the_short_ones() {
        let mut random = Random::new(4, 0);
        let n = 3 * TILE + 17;
        let (x, a) = draw(&mut random, n, false);
        let (y, b) = draw(&mut random, n / 2, true);
        for (s, t) in [
            (Samples::weighted(&x, &a), Samples::weighted(&y, &b)),
            (Samples::new(&x), Samples::weighted(&y, &b)),
            (Samples::new(&x), Samples::new(&y)),
            (Samples::new(&y), Samples::new(&x)),
        ] {
            let (s, t) = (s.unwrap(), t.unwrap());
            let whole = s.transport(&t, 2.0).unwrap();
            let tiled = s.cost(&t, Power::Two).unwrap();
            assert!((whole.cost - tiled).abs() < 1e-12 * whole.cost);
            assert!((whole.cost - whole.dual).abs() < 1e-9 * whole.cost);
        }
    }

    #[test]
    fn gradients_are_differences() {
        let mut random = Random::new(5, 0);
        let ((x, a), (y, b)) = (draw(&mut random, 6, false), draw(&mut random, 9, false));
        for order in [1.0, 2.0, 2.5] {
            let cost = |x: &[f64], y: &[f64]| {
                let s = Samples::weighted(x, &a).unwrap();
                let t = Samples::weighted(y, &b).unwrap();
                s.cost(&t, Power::new(order).unwrap()).unwrap()
            };
            let s = Samples::weighted(&x, &a).unwrap();
            let t = Samples::weighted(&y, &b).unwrap();
            let (rows, cols) = s.gradients(&t, order).unwrap();
            let h = 1e-6;
            for i in 0..6 {
                let (mut up, mut down) = (x.clone(), x.clone());
                up[i] += h;
                down[i] -= h;
                let slope = (cost(&up, &y) - cost(&down, &y)) / (2.0 * h);
                assert!((rows[i] - slope).abs() < 1e-6);
            }
            for j in 0..9 {
                let (mut up, mut down) = (y.clone(), y.clone());
                up[j] += h;
                down[j] -= h;
                let slope = (cost(&x, &up) - cost(&x, &down)) / (2.0 * h);
                assert!((cols[j] - slope).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn wrong_questions_are_refused() {
        use crate::line::{distance, weighted_distance};
        assert!(matches!(
            distance::<f64>(&[], &[1.0], 1.0),
            Err(Error::Empty { .. })
        ));
        assert!(matches!(
            distance(&[0.0], &[f64::NAN], 1.0),
            Err(Error::Point {
                side: Side::Cols,
                index: 0,
                ..
            })
        ));
        assert!(matches!(
            distance(&[0.0], &[1.0], 0.5),
            Err(Error::Option { name: "order", .. })
        ));
        assert!(matches!(
            distance(&[0.0], &[1e200], 2.0),
            Err(Error::TooFar { .. })
        ));
        let weights = |w: &[f64]| weighted_distance(&[0.0, 1.0], Some(w), &[0.0], None, 1.0);
        assert!(matches!(weights(&[1.0]), Err(Error::Length { .. })));
        assert!(matches!(
            weights(&[1.0, -1.0]),
            Err(Error::Mass { index: 1, .. })
        ));
        assert!(matches!(weights(&[0.0, 0.0]), Err(Error::NoMass { .. })));
    }

    #[test]
    fn quantiles_and_means_of_quantiles() {
        let mut random = Random::new(6, 0);
        let (x, a) = draw(&mut random, 40, true);
        let samples = Samples::weighted(&x, &a).unwrap();
        for k in 0..=20 {
            let level = f64::from(k) / 20.0;
            let q = samples.quantile(level).unwrap();
            let below: f64 = x.iter().zip(&a).filter(|(x, _)| **x < q).map(|p| p.1).sum();
            let within: f64 = x
                .iter()
                .zip(&a)
                .filter(|(x, _)| **x <= q)
                .map(|p| p.1)
                .sum();
            assert!(below <= level + 1e-14 && within >= level - 1e-14);
        }
        assert!(samples.quantile(1.5).is_err() && samples.quantile(f64::NAN).is_err());
        // Halfway along a geodesic.
        let (y, b) = draw(&mut random, 25, false);
        let other = Samples::weighted(&y, &b).unwrap();
        let middle = Samples::barycenter(&[&samples, &other], &[0.25, 0.75]).unwrap();
        let whole = samples.distance(&other, 2.0).unwrap();
        assert!((samples.distance(&middle, 2.0).unwrap() - 0.75 * whole).abs() < 1e-12);
        assert!((other.distance(&middle, 2.0).unwrap() - 0.25 * whole).abs() < 1e-12);
    }
}
