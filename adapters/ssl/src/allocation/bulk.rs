//! Labels for a fixed matrix of logits, all at once: no training loop, no framework.
//!
//! Any classifier's logits l (or log-probabilities) of n examples and k classes are costs
//!
//! ```text
//! C_ij = log Σ_j' exp l_ij' − l_ij
//! ```
//!
//! of the allocation problem of this [module](crate::allocation). They are read by the tile, from a slice or from a file that is mapped
//! into memory, so that a matrix larger than memory is labeled with n + k numbers beside it. What comes back is k + 1 prices that label
//! any example, the masses they lead to, and a certificate: an upper and a lower bound of the best cost there is under these
//! bounds.

use std::ops::{ControlFlow, Range};
use std::time::Instant;

use earthmover::{
    Certificate, Cost, Entropic, Marginals, Problem, Progress, Real, Sinkhorn, Slack, Status,
};

use super::Bounds;
use super::allocator::{COST_CEILING, check_length, check_settings, check_shape, rescale};
use super::masses::Masses;
use super::share;
use crate::Error;

/// A matrix of logits, row by row.
pub trait Logits: Sync {
    /// Copies values `start .. start + out.len()` of the matrix in row-major order.
    fn read(&self, start: usize, out: &mut [f32]);
}

impl Logits for [f32] {
    fn read(&self, start: usize, out: &mut [f32]) {
        out.copy_from_slice(&self[start..start + out.len()]);
    }
}

impl Logits for Vec<f32> {
    fn read(&self, start: usize, out: &mut [f32]) {
        self.as_slice().read(start, out);
    }
}

#[cfg(feature = "data")]
impl Logits for crate::data::npy::MappedArray {
    fn read(&self, start: usize, out: &mut [f32]) {
        Self::read(self, start, out);
    }
}

/// Logits seen as costs.
struct LogitCost<'a, L: ?Sized> {
    logits: &'a L,
    /// log Σ exp of each row.
    totals: Vec<f32>,
    classes: usize,
}

/// log Σ exp of a row; an error for a NaN, +∞ or a row of −∞ alone.
fn total(row: usize, logits: &[f32]) -> Result<f32, Error> {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let wrong = logits
        .iter()
        .position(|l| l.is_nan() || *l == f32::INFINITY);
    if let Some(class) = wrong.or((top == f32::NEG_INFINITY).then_some(0)) {
        return Err(Error::Logit {
            row,
            class,
            value: f64::from(logits[class]),
        });
    }
    let sum: f64 = logits.iter().map(|l| f64::from(*l - top).exp()).sum();
    Ok((f64::from(top) + sum.ln()) as f32)
}

/// Multiplications of one curvature n k² beyond which passes over the matrix alone are the better bargain.
const MOST_CURVATURE: f64 = 2e10;

/// Rows read at a time where they are looked at once.
const ROWS: usize = 1024;

/// Rows `range` of n × k in chunks: index of the first, logits.
fn chunks<L: Logits + ?Sized>(
    logits: &L,
    rows: Range<usize>,
    k: usize,
    mut take: impl FnMut(usize, &[f32]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut buffer = vec![0.0; ROWS * k];
    for start in rows.clone().step_by(ROWS) {
        let count = ROWS.min(rows.end - start);
        logits.read(start * k, &mut buffer[..count * k]);
        take(start, &buffer[..count * k])?;
    }
    Ok(())
}

impl<'a, L: Logits + ?Sized> LogitCost<'a, L> {
    fn new(logits: &'a L, examples: usize, classes: usize) -> Result<Self, Error> {
        let mut totals = Vec::with_capacity(examples);
        chunks(logits, 0..examples, classes, |first, values| {
            for (at, row) in values.chunks_exact(classes).enumerate() {
                totals.push(total(first + at, row)?);
            }
            Ok(())
        })?;
        Ok(Self {
            logits,
            totals,
            classes,
        })
    }

    fn costs(&self, rows: Range<usize>, out: &mut [f32]) {
        self.logits.read(rows.start * self.classes, out);
        for (row, total) in out.chunks_exact_mut(self.classes).zip(&self.totals[rows]) {
            row.iter_mut()
                .for_each(|c| *c = (total - *c).clamp(0.0, COST_CEILING));
        }
    }
}

impl<L: Logits + ?Sized> Cost<f32> for LogitCost<'_, L> {
    fn rows(&self) -> usize {
        self.totals.len()
    }

    fn cols(&self) -> usize {
        self.classes
    }

    fn at(&self, row: usize, col: usize) -> f32 {
        let mut logit = [0.0];
        self.logits.read(row * self.classes + col, &mut logit);
        (self.totals[row] - logit[0]).clamp(0.0, COST_CEILING)
    }

    fn fill(&self, rows: Range<usize>, out: &mut [f32]) {
        self.costs(rows, out);
    }
}

impl<L: Logits + ?Sized> Cost<f64> for LogitCost<'_, L> {
    fn rows(&self) -> usize {
        self.totals.len()
    }

    fn cols(&self) -> usize {
        self.classes
    }

    fn at(&self, row: usize, col: usize) -> f64 {
        f64::from(<Self as Cost<f32>>::at(self, row, col))
    }

    fn fill(&self, rows: Range<usize>, out: &mut [f64]) {
        let mut narrow = vec![0.0; out.len()];
        self.costs(rows, &mut narrow);
        out.iter_mut()
            .zip(&narrow)
            .for_each(|(out, c)| *out = f64::from(*c));
    }
}

/// What an allocation of fixed logits asks for.
///
/// # Examples
/// ```
/// use earthmover_ssl::allocation::{Bounds, BulkAllocation};
/// // Four examples that a classifier all takes for class 0, two of each class wanted.
/// let logits: Vec<f32> = vec![5.0, 0.0, 4.0, 0.0, 1.0, 0.0, 0.5, 0.0];
/// let answer = BulkAllocation::options(Bounds::given(&[0.25, 0.25])?)
///     .rho(1.0)
///     .solve(&logits, 4)?;
/// assert!(answer.status.is_converged());
/// assert!(answer.certificate.dual <= answer.certificate.primal);
/// let labels: Vec<_> = answer.labels(&logits)?.iter().map(|l| l.label).collect();
/// assert_eq!(labels[0], Some(0));
/// # Ok::<(), earthmover_ssl::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct BulkOptions {
    bounds: Bounds,
    rho: f64,
    gamma: f64,
    tolerance: f64,
    max_iterations: Option<usize>,
    watch: Option<fn(&Progress) -> ControlFlow<()>>,
}

impl BulkOptions {
    /// Share of the examples to label. Default: 1.
    pub fn rho(mut self, rho: f64) -> Self {
        self.rho = rho;
        self
    }

    /// Inverse regularisation γ: larger is closer to the linear programme. Default: 100.
    pub fn gamma(mut self, gamma: f64) -> Self {
        self.gamma = gamma;
        self
    }

    /// Error of the column sums over the total mass at which to stop. Default: 0.001.
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Most sweeps over the matrix. Default: the solver's own.
    pub fn max_iterations(mut self, sweeps: usize) -> Self {
        self.max_iterations = Some(sweeps);
        self
    }

    /// Called after every sweep; breaking stops and keeps what there is.
    pub fn on_progress(mut self, watch: fn(&Progress) -> ControlFlow<()>) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Solves for `examples` rows of logits.
    ///
    /// # Errors
    /// [`Error::Classes`], [`Error::NoExamples`], [`Error::Option`] for a setting out of its range, [`Error::LowerBound`],
    /// [`Error::Logit`] for a NaN, +∞ or a row that rules every class out. Missing the tolerance is not an error but a
    /// [`BulkAllocation::status`].
    pub fn solve<L: Logits + ?Sized>(
        &self,
        logits: &L,
        examples: usize,
    ) -> Result<BulkAllocation, Error> {
        let started = Instant::now();
        let k = self.bounds.classes();
        check_shape(examples, k)?;
        check_settings(self.gamma, self.tolerance)?;
        share("rho", self.rho)?;
        if let Some(class) = self.bounds.lower().iter().position(|l| *l > 0.0) {
            let lower = self.bounds.lower()[class];
            return Err(Error::LowerBound { class, lower });
        }
        let cost = LogitCost::new(logits, examples, k)?;
        let masses = Masses::new(&self.bounds, examples, examples as f64, self.rho);
        // As in training: single precision unless the tolerance is finer than it can be.
        let mut answer = match self.tolerance >= 1e-5 * self.gamma {
            true => self.solve_in::<f32, _>(&cost, &masses)?,
            false => self.solve_in::<f64, _>(&cost, &masses)?,
        };
        answer.seconds = started.elapsed().as_secs_f64();
        Ok(answer)
    }

    fn solve_in<T: Real, C: Cost<T>>(
        &self,
        cost: &C,
        masses: &Masses,
    ) -> Result<BulkAllocation, Error> {
        let slack = Slack {
            row: masses.slack_row,
            col: masses.slack_col,
            ..Slack::NONE
        };
        let (n, k) = (cost.rows(), cost.cols());
        let marginals = Marginals::with_slack(&vec![1.0; n], &masses.caps, slack)?;
        let problem = Problem::new(cost, marginals)?;
        // Both have the same builders, but no type in common.
        macro_rules! solved {
            ($solver:expr) => {{
                let mut solver = $solver.tolerance(self.tolerance);
                if let Some(sweeps) = self.max_iterations {
                    solver = solver.max_iterations(sweeps);
                }
                if let Some(watch) = self.watch {
                    solver = solver.on_progress(watch);
                }
                solver.solve(&problem)?
            }};
        }
        let curvature = n as f64 * (k * k) as f64;
        let solution = match curvature > MOST_CURVATURE {
            true => solved!(Sinkhorn::new(1.0 / self.gamma)),
            false => solved!(Entropic::new(1.0 / self.gamma)),
        };
        let found = solution.potentials();
        let mut scaling: Vec<f64> = found.cols.iter().map(|g| g * self.gamma).collect();
        scaling.push(found.slack_col * self.gamma);
        Ok(BulkAllocation {
            status: solution.status(),
            iterations: solution.iterations(),
            certificate: *solution.certificate(),
            seconds: 0.0,
            examples: n,
            classes: k,
            gamma: self.gamma,
            caps: masses.caps.clone(),
            scaling,
        })
    }
}

/// An allocation of fixed logits.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BulkAllocation {
    /// Whether the tolerance was met.
    pub status: Status,
    /// Sweeps over the matrix.
    pub iterations: usize,
    /// Bounds of the best cost there is; costs are sums of −log p over the examples.
    pub certificate: Certificate,
    /// Wall-clock time.
    pub seconds: f64,
    /// n.
    pub examples: usize,
    /// k.
    pub classes: usize,
    gamma: f64,
    /// Caps 1 + n b.
    caps: Vec<f64>,
    /// γ·g, abstention last.
    scaling: Vec<f64>,
}

/// What one example gets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BulkLabel {
    /// The class with the largest share, unless abstention has a larger one.
    pub label: Option<usize>,
    /// The classifier's own choice.
    pub guess: usize,
    /// The share of the label (of the guess where there is none).
    pub weight: f32,
    /// The classifier's probability of it.
    pub probability: f32,
}

/// What one class gets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassTotals {
    /// Mass allocated to it, in examples.
    pub mass: f64,
    /// The most it may get.
    pub cap: f64,
    /// What one more of its places would save, in nats: next to 0 for a class with room.
    pub price: f64,
    /// Examples whose label it is.
    pub labeled: usize,
    /// Examples that the classifier takes for it and the allocation leaves without a label.
    pub abstained: usize,
}

impl BulkAllocation {
    /// Bounds and the defaults of everything else.
    pub fn options(bounds: Bounds) -> BulkOptions {
        BulkOptions {
            bounds,
            rho: 1.0,
            gamma: 100.0,
            tolerance: 1e-3,
            max_iterations: None,
            watch: None,
        }
    }

    /// Price of a class in nats, relative to abstention: β over γ. An example prefers a class by its log-probability plus this.
    #[must_use]
    pub fn price(&self, class: usize) -> Option<f64> {
        let (last, classes) = self.scaling.split_last()?;
        Some((classes.get(class)? - last) / self.gamma)
    }

    /// Rows of the allocation for the matrix it was made from, or for any other of as many classes: first row, k shares for each of some rows,
    /// and their labels.
    ///
    /// # Errors
    /// [`Error::Logit`] as [`BulkOptions::solve`], and those of `take`.
    pub fn rows<L: Logits + ?Sized>(
        &self,
        logits: &L,
        rows: Range<usize>,
        mut take: impl FnMut(usize, &[f32], &[BulkLabel]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let k = self.classes;
        let mut shares = vec![0.0f64; k];
        let (mut out, mut labels) = (Vec::new(), Vec::new());
        chunks(logits, rows, k, |first, values| {
            out.clear();
            labels.clear();
            for (at, row) in values.chunks_exact(k).enumerate() {
                let total = total(first + at, row)?;
                let costs = row.iter().map(|l| (total - l).clamp(0.0, COST_CEILING));
                rescale(&self.scaling, self.gamma, costs, &mut shares);
                let best = |values: &mut dyn Iterator<Item = f64>| {
                    let mut best = (0, f64::NEG_INFINITY);
                    for (j, v) in values.enumerate() {
                        if v > best.1 {
                            best = (j, v);
                        }
                    }
                    best
                };
                let (class, most) = best(&mut shares.iter().copied());
                let guess = best(&mut row.iter().map(|l| f64::from(*l))).0;
                let abstention = 1.0 - shares.iter().sum::<f64>();
                let label = (most > abstention).then_some(class);
                let shown = label.unwrap_or(guess);
                labels.push(BulkLabel {
                    label,
                    guess,
                    weight: shares[shown] as f32,
                    probability: (row[shown] - total).exp(),
                });
                out.extend(shares.iter().map(|q| *q as f32));
            }
            take(first, &out, &labels)
        })
    }

    /// The label of every example.
    ///
    /// # Errors
    /// As [`BulkAllocation::rows`].
    pub fn labels<L: Logits + ?Sized>(&self, logits: &L) -> Result<Vec<BulkLabel>, Error> {
        let mut all = Vec::with_capacity(self.examples);
        self.rows(logits, 0..self.examples, |_, _, labels| {
            all.extend_from_slice(labels);
            Ok(())
        })?;
        Ok(all)
    }

    /// Starts a count of what the classes get; see [`ClassTotals`].
    #[must_use]
    pub fn empty_totals(&self) -> Vec<ClassTotals> {
        let highest = self.scaling[..self.classes]
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max);
        let class = |j: usize| ClassTotals {
            mass: 0.0,
            cap: self.caps[j],
            // Prices rise from the class that is easiest to have.
            price: (highest - self.scaling[j]) / self.gamma,
            labeled: 0,
            abstained: 0,
        };
        (0..self.classes).map(class).collect()
    }

    /// Adds some rows, as [`BulkAllocation::rows`] hands them over.
    ///
    /// # Errors
    /// [`Error::Length`] where the slices do not fit.
    pub fn add_rows(
        &self,
        totals: &mut [ClassTotals],
        shares: &[f32],
        labels: &[BulkLabel],
    ) -> Result<(), Error> {
        check_length("shares", labels.len() * self.classes, shares.len())?;
        check_length("class totals", self.classes, totals.len())?;
        for (row, label) in shares.chunks_exact(self.classes).zip(labels) {
            for (total, q) in totals.iter_mut().zip(row) {
                total.mass += f64::from(*q);
            }
            match label.label {
                Some(class) => totals[class].labeled += 1,
                None => totals[label.guess].abstained += 1,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::allocation::LabelAllocator;

    fn logits(n: usize, k: usize) -> Vec<f32> {
        let mut state = 7u64;
        (0..n * k)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                ((state >> 40) as f32 / (1u64 << 24) as f32 - 0.5) * 6.0
            })
            .collect()
    }

    #[test]
    fn is_the_allocator_of_a_training_loop_with_all_rows_observed() {
        let (n, k) = (400, 5);
        let l = logits(n, k);
        let bounds = Bounds::given(&[0.1, 0.2, 0.3, 0.3, 0.3]).unwrap();
        let answer = BulkAllocation::options(bounds.clone())
            .rho(0.8)
            .tolerance(1e-7)
            .solve(&l, n)
            .unwrap();
        assert!(answer.status.is_converged());
        let mut loop_ = LabelAllocator::options(n, k)
            .bounds(bounds)
            .tolerance(1e-7)
            .build()
            .unwrap();
        let log_p: Vec<f32> = l
            .chunks(k)
            .enumerate()
            .flat_map(|(i, row)| {
                let t = total(i, row).unwrap();
                row.iter().map(move |l| l - t).collect::<Vec<_>>()
            })
            .collect();
        let all: Vec<usize> = (0..n).collect();
        loop_.observe(&all, &log_p).unwrap();
        loop_.allocate(0.8).unwrap();
        let mut rows = vec![0.0; n * k];
        loop_.plan_rows(&all, &mut rows).unwrap();
        let mut totals = answer.empty_totals();
        answer
            .rows(&l, 0..n, |first, shares, labels| {
                for (a, b) in shares.iter().zip(&rows[first * k..]) {
                    assert!((a - b).abs() < 1e-3, "{a} {b}");
                }
                answer.add_rows(&mut totals, shares, labels)
            })
            .unwrap();
        let hard: Vec<Option<usize>> = answer.labels(&l).unwrap().iter().map(|l| l.label).collect();
        let same = hard
            .iter()
            .zip(loop_.hard_labels())
            .filter(|(a, b)| **a == *b)
            .count();
        assert!(same > n - 3, "{same}");
        for t in &totals {
            assert!(t.mass <= t.cap + 1e-3 * n as f64 && t.price >= 0.0);
        }
        let c = answer.certificate;
        assert!(c.dual <= c.primal && c.violation <= 1e-6, "{c:?}");
        let counted: usize = totals.iter().map(|t| t.labeled + t.abstained).sum();
        assert_eq!(counted, n);
    }

    #[test]
    fn what_are_no_logits_is_refused_with_its_place() {
        let bounds = || BulkAllocation::options(Bounds::none(2));
        for (value, row) in [(f32::NAN, 1), (f32::INFINITY, 1)] {
            let refused = bounds().solve(&vec![0.0, 1.0, 2.0, value], 2);
            assert!(matches!(refused, Err(Error::Logit { row: r, class: 1, .. }) if r == row));
        }
        let ruled_out = vec![f32::NEG_INFINITY; 4];
        assert!(matches!(
            bounds().solve(&ruled_out, 2),
            Err(Error::Logit { row: 0, .. })
        ));
        // One class ruled out is fine.
        assert!(
            bounds()
                .solve(&vec![0.0, f32::NEG_INFINITY, 1.0, 2.0], 2)
                .is_ok()
        );
        assert!(bounds().rho(1.5).solve(&vec![0.0; 4], 2).is_err());
        assert!(bounds().solve(&vec![0.0; 4], 0).is_err());
    }
}
