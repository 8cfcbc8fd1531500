//! Points with squared distances: nothing quadratic is stored.
//!
//! With both clouds centred, s the total mass and N = Xᵀ P Y,
//!
//! ```text
//! GW(P) = constant − 4 s Σ_ij |x_i|² |y_j|² P_ij − 8 ‖N‖²         gradient  −4 s |x_i|² |y_j|² − 16 x_iᵀ N y_j
//! ```
//!
//! and the gradient is, up to terms of a row or a column alone, the squared distance of (2 s |x_i|², 8 Nᵀ x_i) from (|y_j|², y_j): the
//! best plan for it is an exact transport between two clouds. The objective is concave along every way, so that
//! every step goes all of it.

use super::objective::{FoundPlan, Objective, Smooth, Step, exact_under};
use crate::kernel::eigen::eigenvalues;
use crate::kernel::random::Random;
use crate::line::{Power, Samples};
use crate::solver::Guard;
use crate::{Entropic, Entry, Error, Marginals, PointCloud, Potentials, Problem, SquaredEuclidean};

/// A centred cloud.
struct Cloud {
    points: Vec<f64>,
    d: usize,
    /// |x_i|².
    squares: Vec<f64>,
    masses: Vec<f64>,
    /// Σ a_i x_i x_iᵀ.
    moments: Vec<f64>,
    /// Σ a_i |x_i|².
    spread: f64,
    /// 2 s Σ a_i |x_i|⁴ + 2 spread² + 4 ‖moments‖²: Σ a_i a_i' |x_i − x_i'|⁴.
    own: f64,
}

impl Cloud {
    fn new(points: &[f64], d: usize, masses: &[f64]) -> Self {
        let total: f64 = masses.iter().sum();
        let mut mean = vec![0.0; d];
        for (x, a) in points.chunks_exact(d).zip(masses) {
            mean.iter_mut()
                .zip(x)
                .for_each(|(m, x)| *m += a * x / total);
        }
        let mut points = points.to_vec();
        for x in points.chunks_exact_mut(d) {
            x.iter_mut().zip(&mean).for_each(|(x, m)| *x -= m);
        }
        let squares: Vec<f64> = points
            .chunks_exact(d)
            .map(|x| x.iter().map(|c| c * c).sum())
            .collect();
        let mut moments = vec![0.0; d * d];
        for (x, a) in points.chunks_exact(d).zip(masses) {
            for (line, u) in moments.chunks_exact_mut(d).zip(x) {
                line.iter_mut().zip(x).for_each(|(m, v)| *m += a * u * v);
            }
        }
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        let spread = dot(masses, &squares);
        let fourth: f64 = masses.iter().zip(&squares).map(|(a, s)| a * s * s).sum();
        let own = 2.0 * total * fourth + 2.0 * spread * spread + 4.0 * dot(&moments, &moments);
        Self {
            points,
            d,
            squares,
            masses: masses.to_vec(),
            moments,
            spread,
            own,
        }
    }

    /// Numbers that no rotation changes: |x|², x·v, xᵀ S x and x·S v with v = Σ a |x|² x, each over its spread.
    fn invariants(&self) -> Vec<f64> {
        let d = self.d;
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        let times = |x: &[f64]| -> Vec<f64> {
            self.moments
                .chunks_exact(d)
                .map(|line| dot(line, x))
                .collect()
        };
        let mut v = vec![0.0; d];
        for ((x, a), s) in self
            .points
            .chunks_exact(d)
            .zip(&self.masses)
            .zip(&self.squares)
        {
            v.iter_mut().zip(x).for_each(|(v, x)| *v += a * s * x);
        }
        let turned = times(&v);
        let mut out: Vec<f64> = self
            .points
            .chunks_exact(d)
            .zip(&self.squares)
            .flat_map(|(x, s)| [*s, dot(x, &v), dot(x, &times(x)), dot(x, &turned)])
            .collect();
        for k in 0..INVARIANTS {
            let column = || out.iter().skip(k).step_by(INVARIANTS);
            let total: f64 = self.masses.iter().sum();
            let mean = column().zip(&self.masses).map(|(x, a)| a * x).sum::<f64>() / total;
            let square = column()
                .zip(&self.masses)
                .map(|(x, a)| a * (x - mean) * (x - mean));
            let size = (square.sum::<f64>() / total).sqrt();
            let scale = if size > 0.0 { 1.0 / size } else { 0.0 };
            out.iter_mut()
                .skip(k)
                .step_by(INVARIANTS)
                .for_each(|x| *x *= scale);
        }
        out
    }
}

const INVARIANTS: usize = 4;

/// The objective over two clouds.
pub(super) struct Clouds<'p> {
    x: Cloud,
    y: Cloud,
    marginals: &'p Marginals,
    total: f64,
}

impl<'p> Clouds<'p> {
    pub(super) fn new(
        (x, x_dimension): (&[f64], usize),
        (y, y_dimension): (&[f64], usize),
        marginals: &'p Marginals,
    ) -> Self {
        Self {
            x: Cloud::new(x, x_dimension, marginals.rows()),
            y: Cloud::new(y, y_dimension, marginals.cols()),
            marginals,
            total: marginals.total(),
        }
    }

    /// Two clouds whose squared distances are the gradient, but for terms of a row or a column alone. Each coordinate may be stretched in
    /// one and shrunk in the other: they are made to spread alike.
    fn lifted(&self, image: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (dx, dy) = (self.x.d, self.y.d);
        let row = |(x, s): (&[f64], &f64)| {
            let mut z = vec![2.0 * self.total * s];
            let along = |k: usize| 8.0 * (0..dx).map(|l| image[l * dy + k] * x[l]).sum::<f64>();
            z.extend((0..dy).map(along));
            z
        };
        let mut z: Vec<f64> = self
            .x
            .points
            .chunks_exact(dx)
            .zip(&self.x.squares)
            .flat_map(row)
            .collect();
        let col = |(y, s): (&[f64], &f64)| {
            core::iter::once(*s)
                .chain(y.iter().copied())
                .collect::<Vec<f64>>()
        };
        let mut w: Vec<f64> = self
            .y
            .points
            .chunks_exact(dy)
            .zip(&self.y.squares)
            .flat_map(col)
            .collect();
        let size = |z: &[f64], part: core::ops::Range<usize>| -> f64 {
            let each = z.chunks_exact(dy + 1).flat_map(|z| &z[part.clone()]);
            (each.map(|c| c * c).sum::<f64>() / z.len() as f64).sqrt()
        };
        for part in [0..1, 1..dy + 1] {
            let (u, v) = (size(&z, part.clone()), size(&w, part.clone()));
            if u > 0.0 && v > 0.0 {
                let stretch = (v / u).sqrt();
                for z in z.chunks_exact_mut(dy + 1) {
                    z[part.clone()].iter_mut().for_each(|c| *c *= stretch);
                }
                for w in w.chunks_exact_mut(dy + 1) {
                    w[part.clone()].iter_mut().for_each(|c| *c /= stretch);
                }
            } else {
                // It costs nothing either way: nobody need look.
                for w in w.chunks_exact_mut(dy + 1) {
                    w[part.clone()].fill(0.0);
                }
            }
        }
        (z, w)
    }

    /// The best plan between points that stand for the two sides.
    fn matched(
        &self,
        x: &[f64],
        y: &[f64],
        dimension: usize,
        guard: &Guard<'_>,
    ) -> Result<Vec<Entry>, Error> {
        let cost = PointCloud::new(x, y, dimension, SquaredEuclidean)?;
        let problem = Problem::new(cost, self.marginals.clone())?;
        Ok(exact_under(guard).solve(&problem)?.plan().entries(0.0))
    }

    fn add(&self, e: &Entry, out: &mut [f64]) {
        let (dx, dy) = (self.x.d, self.y.d);
        let (x, y) = (
            &self.x.points[e.row * dx..][..dx],
            &self.y.points[e.col * dy..][..dy],
        );
        for (line, u) in out.chunks_exact_mut(dy).zip(x) {
            line.iter_mut()
                .zip(y)
                .for_each(|(o, v)| *o += e.mass * u * v);
        }
    }

    /// A lower bound that knows the clouds' moments only: Σ P |x|²|y|² is at most that of the sorted lists, ‖N‖² at most Σ λ_k μ_k of the
    /// eigenvalues of both second moments (von Neumann).
    pub(super) fn moment_bound(&self) -> Result<f64, Error> {
        let (a, b) = (
            Samples::weighted(&self.x.squares, &self.x.masses)?,
            Samples::weighted(&self.y.squares, &self.y.masses)?,
        );
        let fourth = |c: &Cloud| {
            c.masses
                .iter()
                .zip(&c.squares)
                .map(|(a, s)| a * s * s)
                .sum::<f64>()
        };
        let apart = a.cost(&b, Power::Two)? * self.total;
        // 2 Σ P s t = Σ P s² + Σ P t² − Σ P (s − t)².
        let aligned = 0.5 * (fourth(&self.x) + fourth(&self.y) - apart);
        let values = |c: &Cloud| eigenvalues(c.moments.clone(), c.d);
        let (u, v) = (values(&self.x), values(&self.y));
        let turned: f64 = u.iter().zip(&v).map(|(u, v)| u.max(0.0) * v.max(0.0)).sum();
        Ok(self.constant() - 4.0 * self.total * aligned - 8.0 * turned)
    }
}

impl Objective for Clouds<'_> {
    /// N, row-major.
    type Image = Vec<f64>;

    fn constant(&self) -> f64 {
        self.x.own + self.y.own - 4.0 * self.x.spread * self.y.spread
    }

    fn scale(&self) -> f64 {
        self.x.own + self.y.own
    }

    fn product(&self) -> (f64, Self::Image, f64, f64) {
        let linear = -4.0 * self.x.spread * self.y.spread;
        (
            1.0 / self.total,
            vec![0.0; self.x.d * self.y.d],
            linear,
            0.0,
        )
    }

    fn image(&self, plan: &[Entry], _: Option<(&[Entry], &Self::Image)>) -> Self::Image {
        let mut image = vec![0.0; self.x.d * self.y.d];
        plan.iter().for_each(|e| self.add(e, &mut image));
        image
    }

    fn linear(&self, plan: &[Entry]) -> f64 {
        let each = plan
            .iter()
            .map(|e| e.mass * self.x.squares[e.row] * self.y.squares[e.col]);
        -4.0 * self.total * each.sum::<f64>()
    }

    fn inner(&self, image: &Self::Image, plan: &[Entry]) -> f64 {
        let other = self.image(plan, None);
        8.0 * image.iter().zip(other).map(|(a, b)| a * b).sum::<f64>()
    }

    fn mix(&self, image: &mut Self::Image, other: &Self::Image, t: f64) {
        image
            .iter_mut()
            .zip(other)
            .for_each(|(a, b)| *a = (1.0 - t) * *a + t * b);
    }

    fn oracle(
        &self,
        image: &Self::Image,
        _: &mut Option<Potentials>,
        guard: &Guard<'_>,
    ) -> Result<Vec<Entry>, Error> {
        let (z, w) = self.lifted(image);
        self.matched(&z, &w, self.y.d + 1, guard)
    }

    fn start(
        &self,
        index: usize,
        seed: u64,
        guard: &Guard<'_>,
    ) -> Result<Option<Vec<Entry>>, Error> {
        match index {
            0 => {
                let (x, y) = (self.x.invariants(), self.y.invariants());
                self.matched(&x, &y, INVARIANTS, guard).map(Some)
            }
            1 => Ok(None),
            _ => {
                let mut random = Random::new(seed, index as u64);
                let size = (self.x.spread * self.y.spread).sqrt();
                let image: Vec<f64> = (0..self.x.d * self.y.d)
                    .map(|_| size * random.normal())
                    .collect();
                self.oracle(&image, &mut None, guard).map(Some)
            }
        }
    }

    fn direct(&self, plan: &[Entry]) -> Option<f64> {
        // Pairs of entries, where they are few enough not to count.
        if plan.len() > 2_000 {
            return None;
        }
        let squared = |cloud: &Cloud, i: usize, j: usize| -> f64 {
            let d = cloud.d;
            let (x, y) = (&cloud.points[i * d..][..d], &cloud.points[j * d..][..d]);
            x.iter().zip(y).map(|(a, b)| (a - b) * (a - b)).sum()
        };
        let mut total = crate::kernel::rounding::Sum::default();
        for e in plan {
            let line = plan.iter().map(|o| {
                let off = squared(&self.x, e.row, o.row) - squared(&self.y, e.col, o.col);
                o.mass * off * off
            });
            total.add(e.mass * line.sum::<f64>());
        }
        Some(total.value())
    }

    fn spread(&self, image: &Self::Image) -> f64 {
        let (z, w) = self.lifted(image);
        let far = |z: &[f64]| {
            let each = z.chunks_exact(self.y.d + 1);
            each.map(|z| z.iter().map(|c| c * c).sum::<f64>())
                .fold(0.0, f64::max)
                .sqrt()
        };
        let reach = far(&z) + far(&w);
        reach * reach
    }

    fn smooth(
        &self,
        image: &Self::Image,
        step: &Step<'_>,
        before: Option<&Smooth<Self>>,
    ) -> Result<Smooth<Self>, Error> {
        let (z, w) = self.lifted(image);
        let cost = PointCloud::new(&z, &w, self.y.d + 1, SquaredEuclidean)?;
        let problem = Problem::new(cost, self.marginals.clone())?;
        let mut solver = Entropic::new(step.epsilon).tolerance(step.tolerance);
        if let Some(left) = step.guard.time_left() {
            solver = solver.time_limit(left);
        }
        let solution = match before {
            None => solver.solve(&problem)?,
            Some(before) => solver.solve_from(&problem, &before.potentials)?,
        };
        let cols = problem.cols();
        let mut entries = Vec::new();
        solution.plan().for_each_row(|row, line| {
            let least = 1e-9 * self.marginals.rows()[row] / cols as f64;
            let seen = line.iter().enumerate().filter(|(_, p)| **p > least);
            entries.extend(seen.map(|(col, &mass)| Entry { row, col, mass }));
        });
        let next = self.image(&entries, None);
        Ok(Smooth {
            linear: self.linear(&entries),
            quadratic: 8.0 * next.iter().map(|n| n * n).sum::<f64>(),
            image: next,
            potentials: solution.potentials().clone(),
            status: solution.status(),
            change: match before.map(|b| &b.plan) {
                Some(FoundPlan::Sparse { entries: old, .. }) => {
                    super::solution::l1(old, &entries) / self.total
                }
                _ => 1.0,
            },
            plan: FoundPlan::Sparse {
                background: 0.0,
                entries,
            },
        })
    }
}
