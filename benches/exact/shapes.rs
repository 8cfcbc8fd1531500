//! Problems by name, the same on every machine.
//!
//! ```text
//! labels:N:K:RHO[:SKEW]                  label allocation, slack included; SKEW tilts the classes
//! points:N:M:D[:WEIGHTS[:CLOUD]]         squared distances of points in the unit cube, from the points
//! dense:N:M:D[:WEIGHTS[:CLOUD]]          the same numbers as a matrix
//! random:N:M[:WEIGHTS]                   a matrix of independent uniform numbers
//! WEIGHTS  uniform | random | heavy      heavy has a tail of exponent 1.2
//! CLOUD    spread | clustered | twins | displaced | tails
//!          twins are ten copies of every row's point; displaced: rows ~ N(0, I), columns ~ N(0.5, 0.8² I)
//! ```

use std::str::FromStr;

use earthmover::{Marginals, Slack};

use earthmover_testkit::Rng;

/// How masses are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weights {
    Uniform,
    Random,
    Heavy,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cloud {
    Spread,
    Clustered,
    Twins,
    Displaced,
    Tails,
}

/// What the costs are.
#[derive(Clone, Debug)]
pub enum Costs {
    Matrix(Vec<f64>),
    Points {
        rows: Vec<f64>,
        cols: Vec<f64>,
        dimension: usize,
    },
}

/// A problem to be timed.
#[derive(Debug)]
pub struct Case {
    pub rows: usize,
    pub cols: usize,
    pub costs: Costs,
    pub marginals: Marginals,
}

impl Case {
    /// The matrix of costs.
    pub fn matrix(&self) -> Vec<f64> {
        match &self.costs {
            Costs::Matrix(c) => c.clone(),
            Costs::Points {
                rows,
                cols,
                dimension,
            } => squared(rows, cols, *dimension),
        }
    }
}

fn squared(rows: &[f64], cols: &[f64], dimension: usize) -> Vec<f64> {
    let distance = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(a, b)| (a - b) * (a - b)).sum();
    rows.chunks(dimension)
        .flat_map(|x| cols.chunks(dimension).map(move |y| distance(x, y)))
        .collect()
}

/// Draws shapes.
pub struct Draw(Rng);

impl Draw {
    /// Uniform in (0, 1).
    fn uniform(&mut self) -> f64 {
        ((self.0.bits() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (core::f64::consts::TAU * self.uniform()).cos()
    }

    fn masses(&mut self, count: usize, weights: Weights) -> Vec<f64> {
        let mut masses: Vec<f64> = (0..count)
            .map(|_| match weights {
                Weights::Uniform => 1.0,
                Weights::Random => self.uniform() + 0.05,
                Weights::Heavy => self.uniform().powf(-1.0 / 1.2) - 1.0 + 1e-3,
            })
            .collect();
        let sum: f64 = masses.iter().sum();
        masses.iter_mut().for_each(|m| *m /= sum);
        masses
    }

    fn points(&mut self, count: usize, dimension: usize, cloud: Cloud, copies: usize) -> Vec<f64> {
        let mut points = Vec::with_capacity(count * dimension);
        for at in 0..count {
            let start = points.len();
            if cloud == Cloud::Twins && at % copies != 0 {
                points.extend_from_within(start - dimension..);
                continue;
            }
            let centre = (3.0 * self.uniform()).floor();
            for _ in 0..dimension {
                points.push(match cloud {
                    Cloud::Clustered => centre + 0.1 * self.normal(),
                    Cloud::Displaced if copies == 1 => 0.5 + 0.8 * self.normal(),
                    Cloud::Displaced => self.normal(),
                    Cloud::Tails => self.normal() / self.uniform().max(1e-3),
                    _ => self.uniform(),
                });
            }
        }
        points
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let wrong = || format!("{name}: not a shape");
        let mut words = name.split(':');
        let kind = words.next().ok_or_else(wrong)?;
        let mut rng = Draw(Rng(2026));
        let mut number = |name: &str| -> Result<f64, String> {
            let word = words.next().ok_or_else(|| format!("no {name} given"))?;
            word.parse().map_err(|e| format!("{name}: {e}"))
        };
        let n = number("rows")? as usize;
        let m = number("columns")? as usize;
        if kind == "labels" {
            let rho = number("rho")?;
            let skew = number("skew").unwrap_or(0.0);
            return labels(&mut rng, n, m, rho, skew);
        }
        let dimension = match kind {
            "random" => 0,
            _ => number("dimension")? as usize,
        };
        let weights = match words.next() {
            None | Some("uniform") => Weights::Uniform,
            Some("random") => Weights::Random,
            Some("heavy") => Weights::Heavy,
            _ => return Err(wrong()),
        };
        let cloud = match words.next() {
            None | Some("spread") => Cloud::Spread,
            Some("clustered") => Cloud::Clustered,
            Some("twins") => Cloud::Twins,
            Some("displaced") => Cloud::Displaced,
            Some("tails") => Cloud::Tails,
            _ => return Err(wrong()),
        };
        let (a, b) = (rng.masses(n, weights), rng.masses(m, weights));
        let marginals = Marginals::balanced(&a, &b).map_err(|e| e.to_string())?;
        let costs = if kind == "random" {
            Costs::Matrix((0..n * m).map(|_| rng.uniform()).collect())
        } else {
            let rows = rng.points(n, dimension, cloud, 10);
            let cols = rng.points(m, dimension, cloud, 1);
            match kind {
                "points" => Costs::Points {
                    rows,
                    cols,
                    dimension,
                },
                "dense" => Costs::Matrix(squared(&rows, &cols, dimension)),
                _ => return Err(wrong()),
            }
        };
        Ok(Self {
            rows: n,
            cols: m,
            costs,
            marginals,
        })
    }
}

/// The cost −log p of random class probabilities; every class may take 1 + n/k examples and a share ρ of
/// all of them is placed.
fn labels(rng: &mut Draw, n: usize, k: usize, rho: f64, skew: f64) -> Result<Case, String> {
    let mut cost = Vec::with_capacity(n * k);
    for _ in 0..n {
        let tilt = |j: usize| skew * (2.0 * j as f64 / (k.max(2) - 1) as f64 - 1.0);
        let z: Vec<f64> = (0..k).map(|j| 3.0 * rng.normal() + tilt(j)).collect();
        let top = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum = z.iter().map(|z| (z - top).exp()).sum::<f64>().ln();
        cost.extend(z.iter().map(|z| top + sum - z));
    }
    let (rows, cols) = (vec![1.0; n], vec![1.0 + n as f64 / k as f64; k]);
    let left = n as f64 * (1.0 - rho);
    let slack = Slack::new(1.0 + k as f64 + left, 1.0 + left);
    Ok(Case {
        rows: n,
        cols: k,
        costs: Costs::Matrix(cost),
        marginals: Marginals::with_slack(&rows, &cols, slack).map_err(|e| e.to_string())?,
    })
}
