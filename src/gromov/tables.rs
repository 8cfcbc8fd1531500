//! Any relations: tables of them, and the gradient as a table.

use std::sync::OnceLock;

use super::images::{Rough, distance, products, written};
use super::objective::{FoundPlan, Objective, Smooth, Step, exact_under, random_vertex};
use super::{GromovProblem, Loss, Relations, profiles};
use crate::kernel::product::add_product;
use crate::kernel::random::Random;
use crate::kernel::rounding::Sum;
use crate::kernel::tiles::{map_tiles, tile_rows};
use crate::solver::Guard;
use crate::{Dense, Entropic, Entry, Error, Potentials, Problem};

/// The objective over tables.
pub(super) struct Tables<'p> {
    problem: &'p GromovProblem<'p>,
    n: usize,
    m: usize,
    /// h(C) and k(D), times the share of the relations, and their mirror images where they differ.
    rows: Vec<f64>,
    cols: Vec<f64>,
    mirrored: Option<(Vec<f64>, Vec<f64>)>,
    /// The same in single precision, once somebody asks for it.
    rough: OnceLock<Rough>,
    /// φ(C) and ψ(D), symmetrised, where marginals are free to change.
    free: Option<(Vec<f64>, Vec<f64>)>,
    /// (1 − α) M.
    features: Option<Vec<f64>>,
    constant: f64,
    scale: f64,
}

impl<'p> Tables<'p> {
    pub(super) fn new(problem: &'p GromovProblem<'p>) -> Result<Self, Error> {
        let (n, m) = (problem.rows.len(), problem.cols.len());
        if n.checked_mul(m).is_none() {
            return Err(Error::TooLarge { rows: n, cols: m });
        }
        check_loss(problem)?;
        let (loss, share) = (problem.loss, problem.share());
        let symmetric = problem.rows.is_symmetric() && problem.cols.is_symmetric();
        let rows = problem.rows.mapped(|c| share * c);
        let cols = problem.cols.mapped(|d| loss.factor(d));
        let mirrored = (!symmetric).then(|| (transposed(&rows, n), transposed(&cols, m)));
        let parts = (
            quadratic_form(&problem.rows, problem.marginals.rows(), |c| loss.of_rows(c)),
            quadratic_form(&problem.cols, problem.marginals.cols(), |d| loss.of_cols(d)),
        );
        let free = (!problem.is_balanced()).then(|| {
            let f = problem.rows.mapped(|c| share * loss.of_rows(c));
            let g = problem.cols.mapped(|d| share * loss.of_cols(d));
            (symmetrised(&f, n), symmetrised(&g, m))
        });
        let features = problem.features.map(|(costs, share)| {
            costs
                .iter()
                .map(|c| (1.0 - share) * c)
                .collect::<Vec<f64>>()
        });
        let total = problem.marginals.total();
        let dearest = features
            .iter()
            .flatten()
            .fold(0.0, |m: f64, c| m.max(c.abs()));
        Ok(Self {
            problem,
            n,
            m,
            rows,
            cols,
            mirrored,
            rough: OnceLock::new(),
            constant: if free.is_some() {
                0.0
            } else {
                share * (parts.0 + parts.1)
            },
            scale: share * (parts.0.abs() + parts.1.abs()) + dearest * total,
            free,
            features,
        })
    }

    /// The pairs (C, K) of which A(P) is the mean of the C P K.
    fn pairs(&self) -> Vec<(&[f64], &[f64])> {
        match &self.mirrored {
            None => vec![(&self.rows, &self.cols)],
            Some((rows, cols)) => vec![(&self.rows, cols), (rows, &self.cols)],
        }
    }

    /// The gradient at an image, as costs.
    fn gradient(&self, image: &[f64]) -> Vec<f64> {
        match &self.features {
            None => image.iter().map(|a| -2.0 * a).collect(),
            Some(features) => features
                .iter()
                .zip(image)
                .map(|(f, a)| f - 2.0 * a)
                .collect(),
        }
    }

    /// Adds C P K to a table, of a plan of entries with masses of either sign, through whichever side fewer things of take part.
    fn add_image(&self, plan: &[Entry], rows: &[f64], cols: &[f64], out: &mut [f64]) {
        let (n, m) = (self.n, self.m);
        let (used_rows, used_cols) = (
            used(plan.iter().map(|e| e.row), n),
            used(plan.iter().map(|e| e.col), m),
        );
        if used_rows.0.len() <= used_cols.0.len() {
            // C[:, R] (P K)[R, :]
            let (list, place) = used_rows;
            let mut half = vec![0.0; list.len() * m];
            for e in plan {
                let line = &mut half[place[e.row] * m..][..m];
                let other = &cols[e.col * m..][..m];
                line.iter_mut()
                    .zip(other)
                    .for_each(|(h, c)| *h += e.mass * c);
            }
            let mut left = vec![0.0; n * list.len()];
            for (line, row) in left.chunks_exact_mut(list.len()).zip(rows.chunks_exact(n)) {
                line.iter_mut().zip(&list).for_each(|(l, i)| *l = row[*i]);
            }
            add_product(&left, &half, list.len(), m, out);
        } else {
            // (C P)[:, J] K[J, :]
            let (list, place) = used_cols;
            let width = list.len();
            let mut half = vec![0.0; n * width];
            map_tiles(&mut half, width * tile_rows(n, width), |range, lines| {
                let first = range.start / width;
                for (line, row) in lines
                    .chunks_exact_mut(width)
                    .zip(rows[first * n..].chunks_exact(n))
                {
                    for e in plan {
                        line[place[e.col]] += e.mass * row[e.row];
                    }
                }
            });
            let mut right = vec![0.0; width * m];
            for (line, j) in right.chunks_exact_mut(m).zip(&list) {
                line.copy_from_slice(&cols[j * m..][..m]);
            }
            add_product(&half, &right, width, m, out);
        }
    }

    /// Where marginals are free: what they change, of masses of either sign.
    fn add_free(&self, row_sums: &[f64], col_sums: &[f64], out: &mut [f64]) {
        let Some((f, g)) = &self.free else { return };
        let (u, v) = (times(f, row_sums), times(g, col_sums));
        for (line, u) in out.chunks_exact_mut(self.m).zip(u) {
            line.iter_mut().zip(&v).for_each(|(o, v)| *o -= u + v);
        }
    }

    fn sums(&self, plan: &[Entry]) -> (Vec<f64>, Vec<f64>) {
        let (mut rows, mut cols) = (vec![0.0; self.n], vec![0.0; self.m]);
        for e in plan {
            rows[e.row] += e.mass;
            cols[e.col] += e.mass;
        }
        (rows, cols)
    }

    /// The vertex that is best for a table of costs.
    fn vertex(
        &self,
        costs: &[f64],
        prices: &mut Option<Potentials>,
        guard: &Guard<'_>,
    ) -> Result<Vec<Entry>, Error> {
        let marginals = &self.problem.marginals;
        if self.problem.semi_relaxed {
            let each = costs.chunks_exact(self.m).zip(marginals.rows()).enumerate();
            let best = each.map(|(row, (line, mass))| {
                let least = |best: usize, j: usize| if line[j] < line[best] { j } else { best };
                Entry {
                    row,
                    col: (0..self.m).fold(0, least),
                    mass: *mass,
                }
            });
            return Ok(best.filter(|e| e.mass > 0.0).collect());
        }
        let problem = Problem::new(Dense::new(costs, self.n, self.m)?, marginals.clone())?;
        let exact = exact_under(guard);
        let solution = match prices.take() {
            None => exact.solve(&problem)?,
            Some(start) => exact.solve_from(&problem, &start)?,
        };
        let plan = solution.plan().entries(0.0);
        *prices = Some(solution.potentials().clone());
        Ok(plan)
    }
}

/// KL is for relations that are not negative.
fn check_loss(problem: &GromovProblem<'_>) -> Result<(), Error> {
    if problem.loss != Loss::Kl {
        return Ok(());
    }
    for relations in [&problem.rows, &problem.cols] {
        let n = relations.len();
        for row in 0..n {
            for col in 0..n {
                let value = relations.at(row, col);
                if value < 0.0 {
                    return Err(Error::Matrix {
                        what: "relations",
                        row,
                        col,
                        value,
                        expected: "not negative for the KL loss",
                    });
                }
            }
        }
    }
    Ok(())
}

/// Σ f(C_ii') a_i a_i'.
fn quadratic_form(relations: &Relations<'_>, masses: &[f64], f: impl Fn(f64) -> f64) -> f64 {
    let mut total = Sum::default();
    for (i, a) in masses.iter().enumerate() {
        let line: f64 = masses
            .iter()
            .enumerate()
            .map(|(j, b)| f(relations.at(i, j)) * b)
            .sum();
        total.add(a * line);
    }
    total.value()
}

/// A square table times a vector.
fn times(table: &[f64], x: &[f64]) -> Vec<f64> {
    let dot = |line: &[f64]| line.iter().zip(x).map(|(a, b)| a * b).sum();
    table.chunks_exact(x.len()).map(dot).collect()
}

fn transposed(table: &[f64], n: usize) -> Vec<f64> {
    let pairs = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
    pairs.map(|(i, j)| table[j * n + i]).collect()
}

fn symmetrised(table: &[f64], n: usize) -> Vec<f64> {
    let other = transposed(table, n);
    table
        .iter()
        .zip(other)
        .map(|(a, b)| 0.5 * (a + b))
        .collect()
}

/// The indices that occur, in order, and the place of each among them.
fn used(indices: impl Iterator<Item = usize>, count: usize) -> (Vec<usize>, Vec<usize>) {
    let mut occurs = vec![false; count];
    indices.for_each(|i| occurs[i] = true);
    let list: Vec<usize> = (0..count).filter(|i| occurs[*i]).collect();
    let mut place = vec![0; count];
    list.iter().enumerate().for_each(|(at, i)| place[*i] = at);
    (list, place)
}

/// What one plan has and the other has not; both sorted by row and column.
fn difference(plan: &[Entry], before: &[Entry]) -> Vec<Entry> {
    let mut all: Vec<Entry> = plan.to_vec();
    all.extend(before.iter().map(|e| Entry {
        mass: -e.mass,
        ..*e
    }));
    all.sort_by_key(|e| (e.row, e.col));
    all.dedup_by(|next, kept| {
        let same = (next.row, next.col) == (kept.row, kept.col);
        if same {
            kept.mass += next.mass;
        }
        same
    });
    all.retain(|e| e.mass != 0.0);
    all
}

impl Objective for Tables<'_> {
    type Image = Vec<f64>;

    fn constant(&self) -> f64 {
        self.constant
    }

    fn scale(&self) -> f64 {
        self.scale
    }

    fn product(&self) -> (f64, Self::Image, f64, f64) {
        let marginals = &self.problem.marginals;
        let (a, b) = (marginals.rows(), marginals.cols());
        let (supply, demand): (f64, f64) = (a.iter().sum(), b.iter().sum());
        // What is moved in all: less than either side has where there is slack.
        let moved = match self.problem.semi_relaxed {
            true => supply,
            false => supply - marginals.slack().col,
        };
        let background = moved / (supply * demand);
        let mut image = vec![0.0; self.n * self.m];
        let mut outer = |u: Vec<f64>, v: Vec<f64>, share: f64| {
            for (line, u) in image.chunks_exact_mut(self.m).zip(u) {
                line.iter_mut()
                    .zip(&v)
                    .for_each(|(o, v)| *o += share * u * v);
            }
        };
        // K is read by its columns: (P K')_ij with K' the mirror image.
        match &self.mirrored {
            None => outer(times(&self.rows, a), times(&self.cols, b), background),
            Some((rows, cols)) => {
                outer(times(&self.rows, a), times(&self.cols, b), 0.5 * background);
                outer(times(rows, a), times(cols, b), 0.5 * background);
            }
        }
        let scaled = |x: &[f64], share: f64| x.iter().map(|x| share * x).collect::<Vec<f64>>();
        let (rows, cols) = (
            scaled(a, background * demand),
            scaled(b, background * supply),
        );
        self.add_free(&rows, &cols, &mut image);
        let with_product = |table: &[f64]| -> f64 {
            let lines = table.chunks_exact(self.m).zip(a);
            let line = |line: &[f64]| line.iter().zip(b).map(|(x, b)| x * b).sum::<f64>();
            background * lines.map(|(l, a)| a * line(l)).sum::<f64>()
        };
        let linear = self.features.as_deref().map_or(0.0, with_product);
        let quadratic = with_product(&image);
        (background, image, linear, quadratic)
    }

    fn image(&self, plan: &[Entry], before: Option<(&[Entry], &Self::Image)>) -> Self::Image {
        let (mut image, changes) = match before {
            Some((old, image)) => (image.clone(), difference(plan, old)),
            None => (vec![0.0; self.n * self.m], plan.to_vec()),
        };
        let pairs = self.pairs();
        let share = 1.0 / pairs.len() as f64;
        let shares = changes.iter().map(|e| Entry {
            mass: share * e.mass,
            ..*e
        });
        let shares: Vec<Entry> = shares.collect();
        for (rows, cols) in pairs {
            self.add_image(&shares, rows, cols, &mut image);
        }
        if self.free.is_some() {
            let (rows, cols) = self.sums(&changes);
            self.add_free(&rows, &cols, &mut image);
        }
        image
    }

    fn linear(&self, plan: &[Entry]) -> f64 {
        let Some(features) = &self.features else {
            return 0.0;
        };
        plan.iter()
            .map(|e| e.mass * features[e.row * self.m + e.col])
            .sum()
    }

    fn inner(&self, image: &Self::Image, plan: &[Entry]) -> f64 {
        plan.iter()
            .map(|e| e.mass * image[e.row * self.m + e.col])
            .sum()
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
        prices: &mut Option<Potentials>,
        guard: &Guard<'_>,
    ) -> Result<Vec<Entry>, Error> {
        self.vertex(&self.gradient(image), prices, guard)
    }

    fn start(
        &self,
        index: usize,
        seed: u64,
        guard: &Guard<'_>,
    ) -> Result<Option<Vec<Entry>>, Error> {
        let balanced = self.problem.is_balanced();
        match index {
            0 if balanced => {
                let mut costs = profiles::costs(
                    (&self.problem.rows, self.problem.marginals.rows()),
                    (&self.problem.cols, self.problem.marginals.cols()),
                );
                if let Some(features) = &self.features {
                    let share = self.problem.share();
                    let both = costs.iter_mut().zip(features);
                    both.for_each(|(c, f)| *c = share * *c + f);
                }
                self.vertex(&costs, &mut None, guard).map(Some)
            }
            0 => Ok(None),
            1 if balanced => Ok(None),
            _ if balanced => Ok(Some(random_vertex(&self.problem.marginals, seed, index))),
            _ => {
                let mut random = Random::new(seed, index as u64);
                let costs: Vec<f64> = (0..self.n * self.m).map(|_| random.unit()).collect();
                self.vertex(&costs, &mut None, guard).map(Some)
            }
        }
    }

    fn direct(&self, plan: &[Entry]) -> Option<f64> {
        if plan.len().checked_mul(plan.len())? > 16 * self.n * self.m {
            return None;
        }
        let (loss, share) = (self.problem.loss, self.problem.share());
        let mut total = Sum::default();
        for e in plan {
            let line: f64 = plan
                .iter()
                .map(|o| {
                    let (c, d) = (
                        self.problem.rows.at(e.row, o.row),
                        self.problem.cols.at(e.col, o.col),
                    );
                    o.mass * loss.between(c, d)
                })
                .sum();
            total.add(share * e.mass * line);
        }
        total.add(self.linear(plan));
        Some(total.value())
    }

    fn spread(&self, image: &Self::Image) -> f64 {
        let gradient = self.gradient(image);
        let (low, high) = gradient
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), g| {
                (l.min(*g), h.max(*g))
            });
        high - low
    }

    fn smooth(
        &self,
        image: &Self::Image,
        step: &Step<'_>,
        before: Option<&Smooth<Self>>,
    ) -> Result<Smooth<Self>, Error> {
        let costs = self.gradient(image);
        let problem = Problem::new(
            Dense::new(&costs, self.n, self.m)?,
            self.problem.marginals.clone(),
        )?;
        let mut solver = Entropic::new(step.epsilon).tolerance(step.tolerance);
        if let Some(left) = step.guard.time_left() {
            solver = solver.time_limit(left);
        }
        let solution = match before {
            None => solver.solve(&problem)?,
            Some(before) => solver.solve_from(&problem, &before.potentials)?,
        };
        let plan = written(&solution, &costs);
        let last = before.and_then(|b| match &b.plan {
            FoundPlan::Dense(plan) => Some((plan, &b.image)),
            FoundPlan::Sparse { .. } => None,
        });
        let change = last.map_or(1.0, |(old, _)| {
            distance(&plan, old) / self.problem.marginals.total()
        });
        let next = match (step.roughly, last) {
            (false, _) => products(&self.pairs(), &plan, self.n, self.m),
            (true, last) => {
                let rough = self.rough.get_or_init(|| Rough::new(&self.pairs()));
                let nothing = vec![0.0; if last.is_none() { plan.len() } else { 0 }];
                let (old, image) = last.unwrap_or((&nothing, &nothing));
                rough.followed(image, &plan, old, self.n, self.m)
            }
        };
        let m = self.m;
        let dot = |x: &[f64], y: &[f64]| -> f64 {
            let lines = x.chunks(m).zip(y.chunks(m));
            lines
                .map(|(x, y)| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>())
                .sum()
        };
        Ok(Smooth {
            linear: self.features.as_ref().map_or(0.0, |f| dot(f, &plan)),
            quadratic: dot(&next, &plan),
            image: next,
            plan: FoundPlan::Dense(plan),
            potentials: solution.potentials().clone(),
            status: solution.status(),
            change,
        })
    }
}
