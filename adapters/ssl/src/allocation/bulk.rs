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

use earthmover::{Certificate, Cost, Entropic, Marginals, Problem, Progress, Real, Slack, Status};

use rayon::prelude::*;

use super::Bounds;
use super::allocator::{COST_CEILING, check_length, check_settings, check_shape, rescale};
use super::masses::Masses;
use super::prices::prices;
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

/// Sums that run beside each other, so that a processor adds several terms at a time.
const CHAINS: usize = 8;

/// log Σ exp of a row; an error for a NaN, +∞ or a row of −∞ alone.
fn total(row: usize, logits: &[f32]) -> Result<f32, Error> {
    let (chunks, rest) = logits.as_chunks::<CHAINS>();
    let mut tops = [f32::NEG_INFINITY; CHAINS];
    for chunk in chunks {
        for (top, l) in tops.iter_mut().zip(chunk) {
            *top = if *l > *top { *l } else { *top };
        }
    }
    let top = tops
        .iter()
        .chain(rest)
        .copied()
        .fold(f32::NEG_INFINITY, f32::max);
    let mut sums = [0.0f64; CHAINS];
    for chunk in chunks {
        for (sum, l) in sums.iter_mut().zip(chunk) {
            *sum += f64::from((l - top).quick_exp());
        }
    }
    let tail: f64 = rest.iter().map(|l| f64::from((l - top).quick_exp())).sum();
    let sum = sums.iter().sum::<f64>() + tail;
    // Whatever is wrong with a row is in its sum.
    if !sum.is_finite() {
        let is_wrong = |l: &f32| l.is_nan() || *l == f32::INFINITY;
        let class = logits.iter().position(is_wrong).unwrap_or(0);
        return Err(Error::Logit {
            row,
            class,
            value: f64::from(logits[class]),
        });
    }
    Ok((f64::from(top) + sum.ln()) as f32)
}

/// Index and value of the largest, the first of several.
fn largest(values: impl Iterator<Item = f64>) -> (usize, f64) {
    let mut best = (0, f64::NEG_INFINITY);
    for (j, v) in values.enumerate() {
        if v > best.1 {
            best = (j, v);
        }
    }
    best
}

/// Values that one thread works on at a time.
const VALUES: usize = 1 << 18;

/// Rows that are looked at together: a piece for every thread, and some, so that none waits long for another.
fn stretch(k: usize) -> (usize, usize) {
    let piece = (VALUES / k).max(1);
    (piece, piece * 4 * rayon::current_num_threads())
}

impl<'a, L: Logits + ?Sized> LogitCost<'a, L> {
    fn new(logits: &'a L, examples: usize, classes: usize) -> Result<Self, Error> {
        let mut totals = vec![0.0; examples];
        let (piece, _) = stretch(classes);
        let pieces: Vec<Result<(), Error>> = totals
            .par_chunks_mut(piece)
            .enumerate()
            .map_init(Vec::new, |values, (at, totals)| {
                let first = at * piece;
                values.resize(totals.len() * classes, 0.0);
                logits.read(first * classes, values);
                for (i, row) in values.chunks_exact(classes).enumerate() {
                    totals[i] = total(first + i, row)?;
                }
                Ok(())
            })
            .collect();
        // The first row that is wrong, whoever was first to see one.
        pieces.into_iter().collect::<Result<(), Error>>()?;
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

    /// Error of the masses of the classes, over the examples, at which to stop. Default: 0.001.
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
        // The solver measures against all the mass there is, and loose caps are worth many times the examples.
        let examples_of_all = examples as f64 / (examples as f64 + masses.slack_row);
        let tolerance = self.tolerance * examples_of_all;
        // As in training: single precision unless the tolerance is finer than it can be. It rounds what examples hold, not slack.
        let mut answer = match self.tolerance >= 1e-5 * self.gamma {
            true => self.solve_in::<f32, _>(&cost, &masses, tolerance)?,
            false => self.solve_in::<f64, _>(&cost, &masses, tolerance)?,
        };
        answer.violation = answer.certificate.violation / examples_of_all;
        answer.seconds = started.elapsed().as_secs_f64();
        Ok(answer)
    }

    fn solve_in<T: Real, C: Cost<T>>(
        &self,
        cost: &C,
        masses: &Masses,
        tolerance: f64,
    ) -> Result<BulkAllocation, Error> {
        let slack = Slack::new(masses.slack_row, masses.slack_col);
        let (n, k) = (cost.rows(), cost.cols());
        let marginals = Marginals::with_slack(&vec![1.0; n], &masses.caps, slack)?;
        let problem = Problem::new(cost, marginals)?;
        let mut solver = Entropic::new(1.0 / self.gamma).tolerance(tolerance);
        if let Some(sweeps) = self.max_iterations {
            solver = solver.max_iterations(sweeps);
        }
        if let Some(watch) = self.watch {
            solver = solver.on_progress(watch);
        }
        let solution = solver.solve(&problem)?;
        let found = solution.potentials();
        let mut scaling: Vec<f64> = found.cols.iter().map(|g| g * self.gamma).collect();
        scaling.push(found.slack_col * self.gamma);
        Ok(BulkAllocation {
            status: solution.status(),
            iterations: solution.iterations(),
            certificate: *solution.certificate(),
            violation: 0.0,
            seconds: 0.0,
            examples: n,
            classes: k,
            gamma: self.gamma,
            caps: masses.caps.clone(),
            prices: prices(&scaling, masses.slack_row, self.gamma),
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
    /// L1 error of the masses of the classes over the examples; compare with the tolerance. (The certificate's own is over all
    /// mass, caps and slack included.)
    pub violation: f64,
    /// Wall-clock time.
    pub seconds: f64,
    /// n.
    pub examples: usize,
    /// k.
    pub classes: usize,
    gamma: f64,
    /// Caps 1 + n b.
    caps: Vec<f64>,
    /// Of every class, and of a label last.
    prices: Vec<f64>,
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
    /// What one more of its places would save, in nats: 0 for a class with room.
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

    /// Price of a class in nats: what one more of its places would save, 0 for a class with room. An example takes the class where
    /// −log p plus this is least, and abstains where even that is more than [`mass_price`](Self::mass_price).
    #[must_use]
    pub fn price(&self, class: usize) -> Option<f64> {
        self.prices[..self.classes].get(class).copied()
    }

    /// Price of the total in nats: what the last label costs.
    #[must_use]
    pub fn mass_price(&self) -> f64 {
        self.prices[self.classes]
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
        let (piece, together) = stretch(k);
        let mut out = vec![0.0; together.min(rows.len()) * k];
        for start in rows.clone().step_by(together) {
            let count = together.min(rows.end - start);
            let labels: Vec<Result<Vec<BulkLabel>, Error>> = out[..count * k]
                .par_chunks_mut(piece * k)
                .enumerate()
                .map(|(at, shares)| self.piece(logits, start + at * piece, shares))
                .collect();
            let labels: Vec<Vec<BulkLabel>> = labels.into_iter().collect::<Result<_, Error>>()?;
            take(start, &out[..count * k], &labels.concat())?;
        }
        Ok(())
    }

    /// Some rows from `first` on: their shares are written, their labels returned.
    fn piece<L: Logits + ?Sized>(
        &self,
        logits: &L,
        first: usize,
        out: &mut [f32],
    ) -> Result<Vec<BulkLabel>, Error> {
        let k = self.classes;
        let mut values = vec![0.0; out.len()];
        logits.read(first * k, &mut values);
        let mut shares = vec![0.0f64; k];
        let mut labels = Vec::with_capacity(out.len() / k);
        for (at, row) in values.chunks_exact(k).enumerate() {
            let total = total(first + at, row)?;
            let costs = row.iter().map(|l| (total - l).clamp(0.0, COST_CEILING));
            rescale(&self.scaling, self.gamma, costs, &mut shares);
            let (class, most) = largest(shares.iter().copied());
            let (guess, _) = largest(row.iter().map(|l| f64::from(*l)));
            let abstention = 1.0 - shares.iter().sum::<f64>();
            let label = (most > abstention).then_some(class);
            let shown = label.unwrap_or(guess);
            labels.push(BulkLabel {
                label,
                guess,
                weight: shares[shown] as f32,
                probability: (row[shown] - total).exp(),
            });
            for (out, share) in out[at * k..].iter_mut().zip(&shares) {
                *out = *share as f32;
            }
        }
        Ok(labels)
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
        let class = |j: usize| ClassTotals {
            mass: 0.0,
            cap: self.caps[j],
            price: self.prices[j],
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
    fn caps_that_nobody_feels_do_not_loosen_the_tolerance() {
        // The caps are worth 200 times the examples: an error of 0.1% of them is a fifth of all labels.
        let (n, k) = (2000, 200);
        let l = logits(n, k);
        for rho in [0.1, 0.5, 0.9] {
            let answer = BulkAllocation::options(Bounds::given(&vec![1.0; k]).unwrap())
                .rho(rho)
                .solve(&l, n)
                .unwrap();
            assert!(answer.status.is_converged() && answer.violation <= 1e-3);
            let labels = answer.labels(&l).unwrap();
            let labeled = labels.iter().filter(|l| l.label.is_some()).count() as f64;
            assert!(
                (labeled / n as f64 - rho).abs() < 0.02,
                "{labeled} at {rho}"
            );
        }
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
        // The prices alone say who gets what.
        let by_price = |row: &[f32]| {
            let total = total(0, row).unwrap();
            let cost = |j: usize| f64::from(total - row[j]) + answer.price(j).unwrap();
            let best = (0..k).fold(0, |b, j| if cost(j) < cost(b) { j } else { b });
            (cost(best) <= answer.mass_price()).then_some(best)
        };
        let agree = l
            .chunks(k)
            .zip(&hard)
            .filter(|(row, h)| by_price(row) == **h);
        assert!(agree.count() > n - n / 20);
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
