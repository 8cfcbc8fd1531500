//! Points on a circle: the line, rolled up.
//!
//! ```text
//! W_pᵖ  =  min_α  ∫₀¹ |F⁻¹(t) − G⁻¹(t + α)|ᵖ dt          G⁻¹ goes on past the seam: G⁻¹(t + 1) = G⁻¹(t) + circumference
//! ```
//!
//! Optimal ways on a circle do not cross either, so that only the level α at which the second list is cut open is unknown. The cost is
//! a convex function of α, linear between the levels at which steps of the staircase meet, and its value and both slopes cost one
//! walk. Two tangents meet below the minimum: their meeting point is the next α to try, its height a lower bound. The bounds
//! meet after a few walks; where tangents creep, halving takes over.

use super::power::Power;
use super::staircase::{Cumulative, tie};
use crate::cost::check_points;
use crate::kernel::rounding::Sum;
use crate::kernel::sort::{key, sort, unkey};
use crate::problem::marginals::shares;
use crate::{Entry, Error, Real, Side};

/// Samples on a circle with their weights, sorted once.
///
/// # Examples
/// ```
/// use earthmover::line::CircularSamples;
/// // Hours of a day: 23 and 1 are two hours apart.
/// let (a, b) = (CircularSamples::new(&[23.0, 11.0], 24.0)?, CircularSamples::new(&[1.0, 13.0], 24.0)?);
/// assert!((a.distance(&b, 1.0)? - 2.0).abs() < 1e-12);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CircularSamples {
    positions: Vec<f64>,
    levels: Cumulative,
    origin: Vec<u32>,
    /// Of the caller's samples, those of no weight included.
    count: usize,
    circumference: f64,
}

/// How one distribution on the circle is moved onto another.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CircularTransport {
    /// W_pᵖ: what the plan costs.
    pub cost: f64,
    /// A lower bound of every plan's cost.
    pub dual: f64,
    /// Where the second list is cut open, as a level: mass at level t goes to level t + α.
    pub shift: f64,
    /// The entries of the plan, as the caller numbered rows and columns.
    pub plan: Vec<Entry>,
    /// Derivatives of the cost with respect to the rows' positions.
    pub row_gradient: Vec<f64>,
    /// Derivatives of the cost with respect to the columns' positions.
    pub col_gradient: Vec<f64>,
    order: f64,
}

impl CircularTransport {
    /// W_p: the p-th root of the cost.
    #[must_use]
    pub fn distance(&self) -> f64 {
        self.cost.powf(1.0 / self.order)
    }
}

impl CircularSamples {
    /// Samples of equal weight on a circle of this circumference; positions are taken modulo it.
    ///
    /// # Errors
    /// [`Error::Empty`] for none, [`Error::Point`] for one that is not finite, [`Error::Option`] for a circumference that is not
    /// a number above zero.
    pub fn new<T: Real>(positions: &[T], circumference: f64) -> Result<Self, Error> {
        Self::build(positions, None, circumference)
    }

    /// Samples with weights, which are scaled to a total of one. Those of no weight are left out.
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`Error::Length`], [`Error::Mass`] or [`Error::NoMass`] for weights that are none.
    pub fn weighted<T: Real>(
        positions: &[T],
        weights: &[T],
        circumference: f64,
    ) -> Result<Self, Error> {
        Self::build(positions, Some(weights), circumference)
    }

    fn build<T: Real>(
        positions: &[T],
        weights: Option<&[T]>,
        circumference: f64,
    ) -> Result<Self, Error> {
        let n = positions.len();
        if !(circumference > 0.0 && circumference.is_finite()) {
            return Err(Error::Option {
                name: "circumference",
                value: circumference,
                expected: "a number above zero",
            });
        }
        check_points(positions, 1, Side::Rows)?;
        if u32::try_from(n).is_err() {
            return Err(Error::TooLarge { rows: n, cols: 1 });
        }
        let shares = weights
            .map(|w| shares(w, n, Side::Rows, "weights"))
            .transpose()?;
        let mut pairs: Vec<(u64, u32)> = positions
            .iter()
            .zip(0u32..)
            .filter(|(_, i)| shares.as_ref().is_none_or(|s| s[*i as usize] > 0.0))
            .map(|(x, i)| {
                let x = x.widen().rem_euclid(circumference);
                // The remainder of a tiny negative number rounds up to the circumference itself.
                (key(if x < circumference { x } else { 0.0 }), i)
            })
            .collect();
        sort(&mut pairs);
        let origin: Vec<u32> = pairs.iter().map(|p| p.1).collect();
        let levels = match &shares {
            None => Cumulative::Uniform(n),
            Some(shares) => Cumulative::of_shares(origin.iter().map(|i| shares[*i as usize])),
        };
        Ok(Self {
            positions: pairs.into_iter().map(|p| unkey(p.0)).collect(),
            levels,
            origin,
            count: n,
            circumference,
        })
    }

    /// W_p to another distribution on the same circle, distances measured along the shorter way.
    ///
    /// # Errors
    /// [`Error::Option`] for an order below one or another circumference, [`Error::TooFar`] where the cost overflows.
    ///
    /// # Complexity
    /// Some tens of walks through both lists.
    pub fn distance(&self, other: &Self, order: f64) -> Result<f64, Error> {
        let power = Power::new(order)?;
        Ok(power.root(self.cut(other, power)?.0.cost))
    }

    /// The optimal plan, with a lower bound that proves it.
    ///
    /// # Errors
    /// As [`distance`](Self::distance).
    ///
    /// # Examples
    /// ```
    /// use earthmover::line::CircularSamples;
    /// let a = CircularSamples::new(&[0.0, 0.5], 1.0)?;
    /// let b = CircularSamples::new(&[0.4, 0.9], 1.0)?;
    /// let transport = a.transport(&b, 2.0)?;
    /// assert!((transport.cost - 0.01).abs() < 1e-15 && transport.dual > 0.01 - 1e-12);
    /// assert_eq!((transport.plan[0].row, transport.plan[0].col), (0, 1)); // backwards over the seam
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn transport(&self, other: &Self, order: f64) -> Result<CircularTransport, Error> {
        let power = Power::new(order)?;
        let (at, dual) = self.cut(other, power)?;
        let (mut rows, mut cols) = (vec![0.0; self.count], vec![0.0; other.count]);
        let mut plan: Vec<Entry> = Vec::with_capacity(self.origin.len() + other.origin.len());
        self.walk(other, at.shift, |i, j, mass, step| {
            if mass > 0.0 {
                let (row, col) = (self.origin[i] as usize, other.origin[j] as usize);
                let pull = mass * power.slope(step.offset);
                rows[row] += pull;
                cols[col] -= pull;
                plan.push(Entry { row, col, mass });
            }
        });
        Ok(CircularTransport {
            cost: at.cost,
            dual,
            shift: at.shift,
            plan,
            row_gradient: rows,
            col_gradient: cols,
            order,
        })
    }

    /// The best place to cut, and a lower bound of what any costs.
    fn cut(&self, other: &Self, power: Power) -> Result<(Cut, f64), Error> {
        if self.circumference != other.circumference {
            return Err(Error::Option {
                name: "circumference",
                value: other.circumference,
                expected: "the same for both",
            });
        }
        // A whole turn in either direction is never worth it.
        let (mut low, mut high) = (
            self.evaluate(other, -1.0, power),
            self.evaluate(other, 1.0, power),
        );
        let largest = <f64 as Real>::LARGEST_COST;
        if let Some(cost) = [low.cost, high.cost].into_iter().find(|c| !c.is_finite()) {
            return Err(Error::TooFar { cost, largest });
        }
        let mut best = if low.cost <= high.cost { low } else { high };
        let mut bound = f64::NEG_INFINITY;
        for round in 0..MOST_WALKS {
            if low.right >= 0.0 || high.left <= 0.0 {
                // An end of the interval is the minimum itself.
                let end = if low.right >= 0.0 { low } else { high };
                return Ok((end, end.cost));
            }
            let width = high.shift - low.shift;
            let step = (low.cost - high.cost + high.left * width) / (high.left - low.right);
            let meeting = low.cost + low.right * step;
            bound = bound.max(meeting);
            if !(best.cost - bound > CLOSE_SHARE * best.cost) || width <= f64::EPSILON {
                break;
            }
            let inside = low.shift + step.clamp(0.0, width);
            let middle = if round % 3 == 2 || inside <= low.shift || inside >= high.shift {
                low.shift + 0.5 * width
            } else {
                inside
            };
            let at = self.evaluate(other, middle, power);
            if at.cost < best.cost {
                best = at;
            }
            if at.right >= 0.0 && at.left <= 0.0 {
                return Ok((at, at.cost));
            }
            if at.right < 0.0 {
                low = at;
            } else {
                high = at;
            }
        }
        Ok((best, bound.clamp(0.0, best.cost)))
    }

    /// Cost and slopes at a cut.
    fn evaluate(&self, other: &Self, shift: f64, power: Power) -> Cut {
        let (mut cost, mut left, mut right) = (Sum::default(), Sum::default(), Sum::default());
        self.walk(other, shift, |_, _, mass, step| {
            cost.add(mass * power.of(step.offset));
            if let Some((from, onto)) = step.crossing {
                // The column's end is reached while the row goes on, or together with it: a cut a little further hands the mass
                // before to the next column, a cut a little less the mass after to this one.
                right.add(power.of(from.0 - onto) - power.of(from.0 - step.here));
                left.add(power.of(from.1 - onto) - power.of(from.1 - step.here));
            }
        });
        Cut {
            shift,
            cost: cost.value(),
            left: left.value(),
            right: right.value(),
        }
    }

    /// Visits the steps of the staircase once round the circle, from the first row's.
    fn walk(&self, other: &Self, shift: f64, mut visit: impl FnMut(usize, usize, f64, Step)) {
        let (n, m) = (self.positions.len(), other.positions.len());
        let turn = shift.floor();
        let within = shift - turn;
        // The column at whose level the walk begins, and how often it has gone round.
        let (mut j, mut round) = (other.levels.above(within), turn);
        if tie(other.levels.at(j), within) {
            (j, round) = if j + 1 < m {
                (j + 1, round)
            } else {
                (0, round + 1.0)
            };
        }
        let place = |j: usize, round: f64| other.positions[j] + round * self.circumference;
        let (mut i, mut t) = (0, 0.0f64);
        while i < n {
            let (a, b) = (self.levels.at(i), other.levels.at(j) + round - shift);
            let next = a.min(b);
            let here = place(j, round);
            let (next_j, next_round) = if j + 1 < m {
                (j + 1, round)
            } else {
                (0, round + 1.0)
            };
            let x = self.positions[i];
            let level = tie(a, b);
            let ends = level || b < a;
            let after = if i + 1 < n {
                self.positions[i + 1]
            } else {
                self.positions[0] + self.circumference
            };
            let step = Step {
                offset: x - here,
                here,
                crossing: ends.then(|| {
                    (
                        (x, if level { after } else { x }),
                        place(next_j, next_round),
                    )
                }),
            };
            visit(i, j, (next - t).max(0.0), step);
            t = t.max(next);
            if ends {
                (j, round) = (next_j, next_round);
            }
            i += usize::from(level || a < b);
        }
    }
}

/// A step of the walk.
struct Step {
    /// Row less column, along the line that the circle was unrolled to.
    offset: f64,
    /// Where the column is on that line.
    here: f64,
    /// Where a column ends: the rows just before and after, and the next column.
    crossing: Option<((f64, f64), f64)>,
}

/// What a cut costs, and how that changes to the left and to the right of it.
#[derive(Debug, Clone, Copy)]
struct Cut {
    shift: f64,
    cost: f64,
    left: f64,
    right: f64,
}

/// Halving alone would be done after some fifty walks.
const MOST_WALKS: usize = 200;

/// Bounds that agree to this share are one number.
const CLOSE_SHARE: f64 = 1e-14;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::random::Random;
    use crate::{Exact, FromFn, Marginals, Problem};

    #[test]
    fn costs_are_those_of_the_exact_solver() {
        let mut random = Random::new(11, 0);
        for case in 0..80 {
            let (n, m) = (1 + case % 6, 1 + (case * 3) % 8);
            let around = [1.0, 24.0][case % 2];
            let mut draw = |n: usize| {
                let round = case % 3 == 0;
                let x = (0..n).map(|_| {
                    let x = random.unit();
                    around * if round { (8.0 * x).floor() / 8.0 } else { x }
                });
                let x: Vec<f64> = x.collect();
                let mut a: Vec<f64> = (0..n)
                    .map(|_| {
                        if case % 4 == 0 {
                            1.0
                        } else {
                            (4.0 * random.unit()).floor()
                        }
                    })
                    .collect();
                a[0] += 1.0;
                let total: f64 = a.iter().sum();
                a.iter_mut().for_each(|w| *w /= total);
                (x, a)
            };
            let ((x, a), (y, b)) = (draw(n), draw(m));
            let order = [1.0, 2.0, 1.5][case % 3];
            let cost = FromFn::new(n, m, |i, j| {
                let d = (x[i] - y[j]).abs();
                d.min(around - d).powf(order)
            });
            let marginals = Marginals::balanced(&a, &b).unwrap();
            let problem = Problem::new(cost.unwrap(), marginals).unwrap();
            let optimum = Exact::new().solve(&problem).unwrap().objective();
            let s = CircularSamples::weighted(&x, &a, around).unwrap();
            let t = CircularSamples::weighted(&y, &b, around).unwrap();
            let transport = s.transport(&t, order).unwrap();
            let scale = around.powf(order);
            assert!(
                (transport.cost - optimum).abs() < 1e-12 * scale,
                "case {case}: {} {optimum}",
                transport.cost
            );
            assert!(transport.dual <= optimum + 1e-12 * scale);
            assert!(transport.dual >= optimum - 1e-10 * scale, "case {case}");
            let (mut rows, mut cols) = (vec![0.0; n], vec![0.0; m]);
            for e in &transport.plan {
                rows[e.row] += e.mass;
                cols[e.col] += e.mass;
            }
            let close = |p: &[f64], q: &[f64]| p.iter().zip(q).all(|(p, q)| (p - q).abs() < 1e-13);
            assert!(close(&rows, &a) && close(&cols, &b), "case {case}");
        }
    }

    #[test]
    fn rotations_cost_what_they_are() {
        let mut random = Random::new(12, 0);
        // On an arc: all round, mass would rather stay and let its neighbours move.
        let x: Vec<f64> = (0..1000).map(|_| 0.3 * random.unit()).collect();
        let y: Vec<f64> = x.iter().map(|x| x + 0.01 - 3.0).collect();
        let s = CircularSamples::new(&x, 1.0).unwrap();
        let t = CircularSamples::new(&y, 1.0).unwrap();
        let transport = s.transport(&t, 2.0).unwrap();
        assert!((transport.distance() - 0.01).abs() < 1e-12);
        let pulls = transport.row_gradient.iter().sum::<f64>();
        assert!((pulls + 0.02).abs() < 1e-10);
        assert!(CircularSamples::new(&x, 0.0).is_err());
        assert!(
            s.distance(&CircularSamples::new(&y, 2.0).unwrap(), 1.0)
                .is_err()
        );
    }
}
