//! The direction along which two clouds are farthest apart.
//!
//! W_pᵖ(θ·μ, θ·ν) is the least over plans of convex functions of θ, neither convex nor concave itself, so that climbing may
//! end on a local top: it starts from the best of the random directions and from the difference of the means, and steps along the
//! sphere by the gradient θ ↦ Σ P_ij p |θ·(x_i − y_j)|ᵖ⁻¹ sign(·)(x_i − y_j), halving a step that does not climb.

use super::{Buffers, Cloud, MaxSliced, Sliced};
use crate::kernel::tiles::map_ranges;
use crate::line::Power;
use crate::{Error, Real, Side};

/// Directions that are climbed from.
const ASCENT_STARTS: usize = 4;

/// A gradient along the sphere that is this share of the cost is none.
const FLAT_GRADIENT: f64 = 1e-9;

impl Sliced {
    /// max-SW_p: the direction along which the clouds are farthest apart, climbed to from the best of
    /// [`projections`](Self::projections) random ones. Weights are scaled to a total of one; `None` for equal ones.
    ///
    /// # Errors
    /// As [`weighted_distance`](Self::weighted_distance).
    ///
    /// # Examples
    /// ```
    /// use earthmover::Sliced;
    /// let (x, y) = ([0.0, 0.0, 1.0, 5.0], [3.0, 4.0, 4.0, 9.0]); // moved by (3, 4)
    /// let answer = Sliced::new().max(&x, None, &y, None, 2)?;
    /// assert!((answer.value - 5.0).abs() < 1e-6);
    /// assert!((answer.direction[0].abs() - 0.6).abs() < 1e-4);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn max<T: Real>(
        &self,
        rows: &[T],
        row_weights: Option<&[T]>,
        cols: &[T],
        col_weights: Option<&[T]>,
        dimension: usize,
    ) -> Result<MaxSliced, Error> {
        let power = self.check()?;
        let random = self.weighted_distance(rows, row_weights, cols, col_weights, dimension)?;
        let (x, y) = (
            Cloud::new(rows, row_weights, dimension, Side::Rows)?,
            Cloud::new(cols, col_weights, dimension, Side::Cols)?,
        );
        let mut ranks: Vec<usize> = (0..self.projections).collect();
        ranks.sort_by(|a, b| random.costs[*b].total_cmp(&random.costs[*a]));
        let mut starts: Vec<Vec<f64>> = Vec::new();
        starts.extend(unit(
            &x.mean()
                .iter()
                .zip(y.mean())
                .map(|(a, b)| a - b)
                .collect::<Vec<_>>(),
        ));
        for index in ranks.into_iter().take(ASCENT_STARTS) {
            let mut direction = vec![0.0; dimension];
            self.direction(index, &mut direction);
            starts.push(direction);
        }
        let climbs = map_ranges(starts.len(), 1, |range| {
            self.climb(&x, &y, &starts[range.start], power)
        });
        let iterations = climbs.iter().map(|c| c.iterations).sum();
        let best = climbs
            .into_iter()
            .reduce(|best, next| if next.value > best.value { next } else { best });
        match best {
            Some(best) if best.value.is_finite() => Ok(MaxSliced {
                value: power.root(best.value),
                iterations,
                ..best
            }),
            _ => Err(Error::TooFar {
                cost: f64::INFINITY,
                largest: <f64 as Real>::LARGEST_COST,
            }),
        }
    }

    /// Climbs from a direction; the value is W_pᵖ.
    fn climb(&self, x: &Cloud, y: &Cloud, start: &[f64], power: Power) -> MaxSliced {
        let mut buffers = Buffers::default();
        let mut direction = start.to_vec();
        let (mut value, mut slope) = tangent(&mut buffers, x, y, &direction, power);
        let mut step = f64::INFINITY;
        let mut iterations = 0;
        for _ in 0..self.steps {
            let length = norm(&slope);
            if !(length > FLAT_GRADIENT * value.abs()) {
                break;
            }
            iterations += 1;
            // For p = 2 the power method's own step, which lands on the gradient's direction; shorter ones where it overshoots.
            step = (2.0 * step).min(1.0 / (power_of(power) * value / length).max(length * 1e-3));
            let mut climbed = false;
            for _ in 0..30 {
                let moved: Vec<f64> = direction
                    .iter()
                    .zip(&slope)
                    .map(|(u, s)| u + step * s)
                    .collect();
                let Some(next) = unit(&moved) else { break };
                let (there, tangent_there) = tangent(&mut buffers, x, y, &next, power);
                if there > value * (1.0 + 1e-15) {
                    (value, slope, direction, climbed) = (there, tangent_there, next, true);
                    break;
                }
                step *= 0.5;
            }
            if !climbed {
                break;
            }
        }
        MaxSliced {
            stationarity: if value > 0.0 {
                norm(&slope) / value
            } else {
                0.0
            },
            value,
            direction,
            iterations,
        }
    }
}

fn power_of(power: Power) -> f64 {
    match power {
        Power::One => 1.0,
        Power::Two => 2.0,
        Power::Any(p) => p,
    }
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The vector's direction, where it has one.
fn unit(x: &[f64]) -> Option<Vec<f64>> {
    let length = norm(x);
    (length > 0.0 && length.is_finite()).then(|| x.iter().map(|x| x / length).collect())
}

/// W_pᵖ along a direction, and its gradient along the sphere.
fn tangent(
    buffers: &mut Buffers,
    x: &Cloud,
    y: &Cloud,
    direction: &[f64],
    power: Power,
) -> (f64, Vec<f64>) {
    let (cost, dx, dy) = buffers.gradients(x, y, direction, power);
    let mut slope = vec![0.0; direction.len()];
    for (cloud, pulls, pairs) in [(x, &dx, &buffers.row_pairs), (y, &dy, &buffers.col_pairs)] {
        for (s, line) in slope
            .iter_mut()
            .zip(cloud.by_coordinate.chunks_exact(cloud.count))
        {
            let along = pulls.iter().zip(pairs).map(|(f, p)| f * line[p.1 as usize]);
            *s += along.sum::<f64>();
        }
    }
    let outward: f64 = slope.iter().zip(direction).map(|(s, u)| s * u).sum();
    slope
        .iter_mut()
        .zip(direction)
        .for_each(|(s, u)| *s -= outward * u);
    (cost, slope)
}

impl Cloud {
    fn mean(&self) -> Vec<f64> {
        let weight = |i: usize| {
            self.weights
                .as_ref()
                .map_or(1.0 / self.count as f64, |w| w[i])
        };
        let mean = |line: &[f64]| line.iter().enumerate().map(|(i, x)| weight(i) * x).sum();
        self.by_coordinate
            .chunks_exact(self.count)
            .map(mean)
            .collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::random::Random;

    #[test]
    fn no_direction_of_a_fine_fan_is_better() {
        let mut random = Random::new(21, 0);
        let x: Vec<f64> = (0..120).map(|_| random.normal()).collect();
        let y: Vec<f64> = (0..90)
            .flat_map(|_| [3.0 * random.normal() + 0.3, 0.5 * random.normal()])
            .collect();
        for order in [1.0, 2.0, 3.0] {
            let sliced = Sliced::new().order(order).projections(30);
            let found = sliced.max(&x, None, &y, None, 2).unwrap();
            let fan = (0..2000).map(|k| {
                let angle = core::f64::consts::PI * f64::from(k) / 2000.0;
                let shadow = |points: &[f64]| -> Vec<f64> {
                    let dot = |p: &[f64]| p[0] * angle.cos() + p[1] * angle.sin();
                    points.chunks_exact(2).map(dot).collect()
                };
                crate::line::distance(&shadow(&x), &shadow(&y), order).unwrap()
            });
            let best = fan.fold(0.0, f64::max);
            assert!(
                found.value >= best * (1.0 - 1e-4),
                "{order}: {} {best}",
                found.value
            );
            assert!((norm(&found.direction) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn equal_clouds_are_nowhere_apart() {
        let x = [0.0, 1.0, 2.0, 3.0];
        let found = Sliced::new().max(&x, None, &x, None, 2).unwrap();
        assert_eq!((found.value, found.stationarity), (0.0, 0.0));
    }
}
