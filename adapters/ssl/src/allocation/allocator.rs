//! The allocator of a training loop: costs in, soft labels out.
//!
//! A step of training looks at a batch, asks for its soft labels, and hands the batch's predictions over:
//!
//! ```text
//! targets(log p)        q_j = p_jᵞ e^{β_j} / (e^{β_{k+1}} + Σ_j' p_j'ᵞ e^{β_j'})
//! observe(batch, log p) C_i ← −log p_i for i in the batch
//! allocate(ρ)           β ← the solution of the problem for all n rows, from the last β
//! ```
//!
//! `targets` works in the logarithm and takes the largest exponent out, so neither γ = 10⁴ nor p = 0
//! can overflow or give 0/0: the abstention term is always there.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use earthmover::team::{Shard, Team};
use earthmover::{Cost, Real, Status};

use super::engine::{AllocationSolver, Engine, Settings};
use super::masses::Masses;
use super::prices::prices;
use super::share;
use super::storage::{CostStorage, Stored};
use super::{Bounds, History};
use crate::Error;

/// Costs above this count as this: p < e^−1000 is as good as zero, and a finite ceiling keeps the problem
/// solvable even where a model rules classes out altogether.
pub(crate) const COST_CEILING: f32 = 1000.0;

/// How far from one the probabilities of a row may sum; half-precision softmax needs about 2e-3.
const SUM_TOLERANCE: f64 = 5e-3;

/// Settings of a [`LabelAllocator`]; see [`LabelAllocator::options`].
#[derive(Debug, Clone)]
#[must_use]
pub struct AllocatorOptions {
    examples: usize,
    classes: usize,
    bounds: Option<Bounds>,
    row_bounds: Option<Vec<f64>>,
    storage: CostStorage,
    settings: Settings,
    team: Option<Arc<dyn Team>>,
}

impl AllocatorOptions {
    /// Bounds on the classes' shares. Default: none.
    pub fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = Some(bounds);
        self
    }

    /// Upper bounds a_i in [0, 1] on how much label each example may get, for a curriculum. Default: one.
    pub fn row_bounds(mut self, row_bounds: Vec<f64>) -> Self {
        self.row_bounds = Some(row_bounds);
        self
    }

    /// Inverse regularisation γ = 1/ε: larger is closer to the linear programme. Default: 100.
    pub fn gamma(mut self, gamma: f64) -> Self {
        self.settings.gamma = gamma;
        self
    }

    /// Error of the column sums, as a fraction of ‖c‖₁, at which a solve stops. Default: 0.01.
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.settings.tolerance = tolerance;
        self
    }

    /// Cap on the iterations of one solve. Default: 1,000.
    pub fn max_iterations(mut self, max_iterations: usize) -> Self {
        self.settings.max_iterations = max_iterations;
        self
    }

    /// What solves the allocation. Default: Newton's method.
    pub fn solver(mut self, solver: AllocationSolver) -> Self {
        self.settings.solver = solver;
        self
    }

    /// How the costs are kept: n·k of them are all the memory that counts. Default: single precision.
    pub fn storage(mut self, storage: CostStorage) -> Self {
        self.storage = storage;
        self
    }

    /// The team that holds the examples together, each member those of its [`Shard`]: all members make the same allocator and the same
    /// calls. Row bounds are then those of the member's own examples.
    pub fn team(mut self, team: Arc<dyn Team>) -> Self {
        self.team = Some(team);
        self
    }

    /// Checks the settings and makes the allocator: all costs log k, β = 0.
    ///
    /// # Errors
    /// [`Error::Classes`] for fewer than two classes, [`Error::NoExamples`], [`Error::Length`] for bounds
    /// that do not fit, [`Error::LowerBound`] for lower bounds, [`Error::Bound`] for row bounds outside
    /// [0, 1], [`Error::Option`] for a γ that is not from 1e-20 to 1e20 or a tolerance that is not a positive number.
    pub fn build(self) -> Result<LabelAllocator, Error> {
        let (n, k) = (self.examples, self.classes);
        check_shape(n, k)?;
        let bounds = self.bounds.unwrap_or_else(|| Bounds::none(k));
        let shard = self.team.map(|team| Shard::new(team, n, k));
        let own = shard.as_ref().map_or(n, |shard| shard.rows().len());
        let costs = Stored::constant((k as f32).ln(), own * k, k, self.storage).part_of(shard);
        LabelAllocator::assemble(
            bounds,
            self.row_bounds,
            self.settings,
            0.0,
            costs,
            History::new(k),
        )
    }
}

/// How [`LabelAllocator::allocate`] went.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Whether the tolerance was met.
    pub status: Status,
    /// L1 error of the column sums over ‖c‖₁; compare with the tolerance.
    pub error: f64,
    /// Iterations used; zero where the last β was still good enough.
    pub iterations: usize,
    /// Mass allocated to each class, in examples.
    pub mass: Vec<f64>,
    /// Mass allocated in all, as a share of the examples' mass.
    pub allocated: f64,
    /// Wall-clock time of the solve.
    pub seconds: f64,
}

/// Allocates labels to n examples of k classes while a model learns.
///
/// # Examples
/// ```
/// use earthmover_ssl::allocation::{Bounds, LabelAllocator};
/// let mut allocator = LabelAllocator::options(4, 2)
///     .bounds(Bounds::given(&[0.5, 0.5])?)
///     .build()?;
/// let p: [f32; 8] = [0.99, 0.01, 0.9, 0.1, 0.8, 0.2, 0.3, 0.7];
/// let log_p = p.map(f32::ln);
/// allocator.observe(&[0, 1, 2, 3], &log_p)?;
/// let report = allocator.allocate(1.0)?;
/// assert!(report.status.is_converged());
///
/// let mut soft = [0.0; 8];
/// allocator.targets(&log_p, &mut soft)?;
/// assert!(soft.chunks(2).all(|q| q[0] + q[1] <= 1.0 + 1e-6));
/// # Ok::<(), earthmover_ssl::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LabelAllocator {
    pub(crate) examples: usize,
    pub(crate) bounds: Bounds,
    pub(crate) rho: f64,
    pub(crate) engine: Engine,
    pub(crate) history: History,
    /// The examples that are held here: all, or those of a member of a team.
    pub(crate) own: Range<usize>,
    /// For each of them the number of the last batch that held it; finds repeats in O(batch).
    stamps: Vec<u32>,
    batch: u32,
    /// Room for a batch's costs.
    costs: Vec<f32>,
}

impl LabelAllocator {
    /// Settings for `examples` examples of `classes` classes.
    pub fn options(examples: usize, classes: usize) -> AllocatorOptions {
        AllocatorOptions {
            examples,
            classes,
            bounds: None,
            row_bounds: None,
            storage: CostStorage::default(),
            team: None,
            settings: Settings {
                solver: AllocationSolver::Newton,
                gamma: 100.0,
                tolerance: 0.01,
                max_iterations: 1000,
            },
        }
    }

    /// The one door for new and for reloaded state.
    pub(crate) fn assemble(
        bounds: Bounds,
        row_bounds: Option<Vec<f64>>,
        settings: Settings,
        rho: f64,
        costs: Stored,
        history: History,
    ) -> Result<Self, Error> {
        let classes = Cost::<f32>::cols(&costs);
        let shard = costs.part().cloned();
        let own = shard.as_ref().map_or(0..costs.len() / classes, Shard::rows);
        let examples = shard.as_ref().map_or(own.len(), Shard::whole);
        check_bounds(&bounds, classes)?;
        let fitting = check_row_bounds(row_bounds.as_deref(), own.len());
        agree(shard.as_ref(), fitting)?;
        check_settings(settings.gamma, settings.tolerance)?;
        share("rho", rho)?;
        let supply = supply(shard.as_ref(), row_bounds.as_deref(), examples)?;
        let masses = Masses::new(&bounds, examples, supply, rho);
        let engine = Engine::new(costs, settings, row_bounds, supply, masses)?;
        Ok(Self {
            examples,
            bounds,
            rho,
            engine,
            history,
            stamps: vec![0; own.len()],
            own,
            batch: 0,
            costs: Vec::new(),
        })
    }

    /// Number of examples n.
    #[must_use]
    pub fn examples(&self) -> usize {
        self.examples
    }

    /// The examples that are held here: all of them, or those of this member of a team.
    #[must_use]
    pub fn held(&self) -> Range<usize> {
        self.own.clone()
    }

    /// Number of classes k.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.bounds.classes()
    }

    /// The inverse regularisation γ.
    #[must_use]
    pub fn gamma(&self) -> f64 {
        self.engine.settings().gamma
    }

    /// The share asked for by the last [`allocate`](Self::allocate); zero before the first.
    #[must_use]
    pub fn rho(&self) -> f64 {
        self.rho
    }

    /// The class bounds in force.
    #[must_use]
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// The costs −log p, row-major, one row per example that is [held](Self::held) here; unpacked into new memory unless they are kept in single
    /// precision.
    #[must_use]
    pub fn costs(&self) -> Cow<'_, [f32]> {
        let stored = self.engine.costs();
        match stored.single() {
            Some(costs) => Cow::Borrowed(costs),
            None => {
                let mut costs = vec![0.0; stored.len()];
                stored.read(0..stored.len(), &mut costs);
                Cow::Owned(costs)
            }
        }
    }

    /// Changes the class bounds from the next [`allocate`](Self::allocate) on, for bounds that vary in
    /// time.
    ///
    /// # Errors
    /// [`Error::Length`] for another number of classes, [`Error::LowerBound`] for lower bounds.
    pub fn set_bounds(&mut self, bounds: Bounds) -> Result<(), Error> {
        check_bounds(&bounds, self.classes())?;
        self.bounds = bounds;
        Ok(())
    }

    /// Changes the examples' row bounds from the next [`allocate`](Self::allocate) on; `None` for one each.
    ///
    /// # Errors
    /// [`Error::Length`], and [`Error::Bound`] for a value outside [0, 1] or where all are zero.
    pub fn set_row_bounds(&mut self, row_bounds: Option<Vec<f64>>) -> Result<(), Error> {
        let shard = self.engine.costs().part();
        agree(
            shard,
            check_row_bounds(row_bounds.as_deref(), self.own.len()),
        )?;
        let supply = supply(shard, row_bounds.as_deref(), self.examples)?;
        let masses = Masses::new(&self.bounds, self.examples, supply, self.rho);
        Ok(self.engine.set_row_masses(row_bounds, supply, masses)?)
    }

    /// Takes over the predictions for some examples: row r of `log_probs` is log p(· | example
    /// `indices[r]`). Probabilities may be zero (log-probability −∞). Members of a team each hand over some, or none, of any examples:
    /// what counts is all of them, those of the first member first.
    ///
    /// # Errors
    /// [`Error::Length`] where `log_probs` is not k values per index, [`Error::Index`] for an index out of
    /// range, [`Error::Repeated`] for one that occurs twice, [`Error::LogProbability`] for a NaN or
    /// positive value, [`Error::NotNormalised`] for probabilities that do not sum to one. Nothing changes then.
    pub fn observe(&mut self, indices: &[usize], log_probs: &[f32]) -> Result<(), Error> {
        let shard = self.engine.costs().part().cloned();
        let fine = self.check_batch(indices, log_probs);
        let Some(shard) = shard else {
            fine?;
            self.check_repeats(indices)?;
            return self.take_over(indices, log_probs);
        };
        agree(Some(&shard), fine)?;
        // Everybody hears of the whole batch and keeps what is its own.
        let k = self.classes();
        let mut mine: Vec<f64> = indices.iter().map(|&i| i as f64).collect();
        mine.extend(log_probs.iter().map(|l| f64::from(*l)));
        let all = shard.team().gather(&mine)?;
        let (mut batch, mut values) = (Vec::new(), Vec::new());
        for numbers in all {
            let count = numbers.len() / (k + 1);
            batch.extend(numbers[..count].iter().map(|i| *i as usize));
            values.extend(numbers[count..].iter().map(|l| *l as f32));
        }
        let mut sorted: Vec<usize> = (0..batch.len()).collect();
        sorted.sort_by_key(|&r| batch[r]);
        if let Some(pair) = sorted.windows(2).find(|w| batch[w[0]] == batch[w[1]]) {
            let (position, index) = (pair[1], batch[pair[1]]);
            return Err(Error::Repeated { position, index });
        }
        let own: Vec<usize> = (0..batch.len())
            .filter(|&r| self.own.contains(&batch[r]))
            .collect();
        let rows: Vec<usize> = own.iter().map(|&r| batch[r]).collect();
        let values: Vec<f32> = own
            .iter()
            .flat_map(|&r| &values[r * k..][..k])
            .copied()
            .collect();
        self.take_over(&rows, &values)
    }

    /// Whether some predictions are some, for examples that there are.
    fn check_batch(&self, indices: &[usize], log_probs: &[f32]) -> Result<(), Error> {
        let k = self.classes();
        check_length(
            "log-probabilities",
            indices.len().saturating_mul(k),
            log_probs.len(),
        )?;
        self.check_range(indices)?;
        for (row, log_p) in log_probs.chunks_exact(k).enumerate() {
            check_row(row, log_p)?;
        }
        Ok(())
    }

    /// Predictions for examples that are held here.
    fn take_over(&mut self, indices: &[usize], log_probs: &[f32]) -> Result<(), Error> {
        self.costs.clear();
        let costs = log_probs.iter().map(|l| (-l).clamp(0.0, COST_CEILING));
        self.costs.extend(costs);
        let first = self.own.start;
        if first == 0 {
            return Ok(self.engine.replace_rows(indices, &self.costs)?);
        }
        let rows: Vec<usize> = indices.iter().map(|i| i - first).collect();
        Ok(self.engine.replace_rows(&rows, &self.costs)?)
    }

    /// Re-solves the allocation for the share `rho`, starting from the last solution.
    ///
    /// # Errors
    /// [`Error::Option`] for a share outside [0, 1]. Missing the tolerance is not an error but a
    /// [`Report::status`].
    pub fn allocate(&mut self, rho: f64) -> Result<Report, Error> {
        share("rho", rho)?;
        let started = Instant::now();
        let supply = self.engine.supply();
        let masses = Masses::new(&self.bounds, self.examples, supply, rho);
        let outcome = self.engine.solve(masses)?;
        self.rho = rho;
        let mass = self.engine.sums()[..self.classes()].to_vec();
        self.history.push(&self.scaling());
        Ok(Report {
            status: outcome.status,
            error: outcome.error,
            iterations: outcome.iterations,
            allocated: mass.iter().sum::<f64>() / supply,
            mass,
            seconds: started.elapsed().as_secs_f64(),
        })
    }

    /// Soft labels for any examples, in the set or not, from their log-probabilities: k values per row in
    /// and out. Rows sum to at most one; what is missing is abstention.
    ///
    /// # Errors
    /// [`Error::Length`] where the slices differ or do not hold whole rows, [`Error::LogProbability`] for a
    /// NaN or positive value, [`Error::NotNormalised`] for probabilities that do not sum to one. `out` is untouched then.
    pub fn targets(&self, log_probs: &[f32], out: &mut [f32]) -> Result<(), Error> {
        let k = self.classes();
        check_length(
            "log-probabilities",
            log_probs.len().next_multiple_of(k),
            log_probs.len(),
        )?;
        check_length("targets", log_probs.len(), out.len())?;
        for (row, log_p) in log_probs.chunks_exact(k).enumerate() {
            check_row(row, log_p)?;
        }
        let mut weights = vec![0.0; k];
        for (log_p, q) in log_probs.chunks_exact(k).zip(out.chunks_exact_mut(k)) {
            let costs = log_p.iter().map(|l| (-l).clamp(0.0, COST_CEILING));
            rescale(self.engine.scaling(), self.gamma(), costs, &mut weights);
            for (q, weight) in q.iter_mut().zip(&weights) {
                *q = *weight as f32;
            }
        }
        Ok(())
    }

    /// Rows of the allocation Q for examples that are held here, at the costs last observed.
    ///
    /// # Errors
    /// [`Error::Length`] where `out` is not k values per index, [`Error::Index`] for an index out of range.
    pub fn plan_rows(&self, indices: &[usize], out: &mut [f32]) -> Result<(), Error> {
        let k = self.classes();
        check_length("plan rows", indices.len().saturating_mul(k), out.len())?;
        self.check_held(indices)?;
        let (mut costs, mut weights) = (vec![0.0; k], vec![0.0; k]);
        let rows = indices.iter().map(|index| index - self.own.start);
        for (index, q) in rows.zip(out.chunks_exact_mut(k)) {
            self.cost_row(index, &mut costs);
            self.plan_row(index, &costs, &mut weights);
            for (q, weight) in q.iter_mut().zip(&weights) {
                *q = *weight as f32;
            }
        }
        Ok(())
    }

    /// The class with the largest share for every example held here, or `None` where abstaining weighs more than each
    /// class. As γ → ∞ this is the linear programme's allocation.
    #[must_use]
    pub fn hard_labels(&self) -> Vec<Option<usize>> {
        let (classes, slack) = self.engine.scaling().split_at(self.classes());
        let mut costs = vec![0.0; self.classes()];
        (0..self.own.len())
            .map(|index| {
                if self.engine.row_mass(index) == 0.0 {
                    return None;
                }
                let (mut label, mut top) = (None, slack[0]);
                self.cost_row(index, &mut costs);
                for (j, (scaling, cost)) in classes.iter().zip(&costs).enumerate() {
                    let logit = scaling - self.gamma() * f64::from(*cost);
                    if logit > top {
                        (label, top) = (Some(j), logit);
                    }
                }
                label
            })
            .collect()
    }

    /// The scaling variables β of the paper, k + 1 of them with the abstention's last, in its gauge: the mean
    /// over the classes is zero.
    #[must_use]
    pub fn scaling(&self) -> Vec<f64> {
        let raw = self.engine.scaling();
        let mean = raw[..self.classes()].iter().sum::<f64>() / self.classes() as f64;
        raw.iter().map(|beta| beta - mean).collect()
    }

    /// Shadow prices in nats as of the last solve: what one more place in each class would save, and what the last label costs,
    /// last. An example takes the class where −log p plus its price is least, and abstains where even that is more than the last.
    ///
    /// # Examples
    /// ```
    /// use earthmover_ssl::allocation::{Bounds, LabelAllocator};
    /// // Both examples look like class 0, which may have next to nothing.
    /// let mut allocator = LabelAllocator::options(2, 2).bounds(Bounds::given(&[0.0, 1.0])?).build()?;
    /// allocator.observe(&[0, 1], &[0.9f32.ln(), 0.1f32.ln(), 0.9f32.ln(), 0.1f32.ln()])?;
    /// allocator.allocate(1.0)?;
    /// let prices = allocator.prices();
    /// assert!(prices.len() == 3 && prices[0] >= prices[1]);
    /// # Ok::<(), earthmover_ssl::Error>(())
    /// ```
    #[must_use]
    pub fn prices(&self) -> Vec<f64> {
        let slack = self.engine.masses().slack_row;
        prices(self.engine.scaling(), slack, self.gamma())
    }

    /// Costs of an example, counted from the first that is held here.
    pub(crate) fn cost_row(&self, index: usize, out: &mut [f32]) {
        Cost::<f32>::fill(self.engine.costs(), index..index + 1, out);
    }

    /// Row of Q for an example of these costs.
    pub(crate) fn plan_row(&self, index: usize, costs: &[f32], out: &mut [f64]) {
        rescale(
            self.engine.scaling(),
            self.gamma(),
            costs.iter().copied(),
            out,
        );
        let mass = self.engine.row_mass(index);
        out.iter_mut().for_each(|q| *q *= mass);
    }

    fn check_range(&self, indices: &[usize]) -> Result<(), Error> {
        self.check_within(indices, 0..self.examples)
    }

    fn check_held(&self, indices: &[usize]) -> Result<(), Error> {
        self.check_within(indices, self.own.clone())
    }

    fn check_within(&self, indices: &[usize], range: Range<usize>) -> Result<(), Error> {
        let wrong = indices.iter().position(|index| !range.contains(index));
        wrong.map_or(Ok(()), |position| {
            Err(Error::Index {
                position,
                index: indices[position],
                examples: self.examples,
            })
        })
    }

    /// Whether no example, of those that are all held here, is named twice.
    fn check_repeats(&mut self, indices: &[usize]) -> Result<(), Error> {
        if self.batch == u32::MAX {
            self.stamps.fill(0);
            self.batch = 0;
        }
        self.batch += 1;
        for (position, &index) in indices.iter().enumerate() {
            if self.stamps[index] == self.batch {
                return Err(Error::Repeated { position, index });
            }
            self.stamps[index] = self.batch;
        }
        Ok(())
    }
}

/// The paper's rescaling equation: shares of the classes at costs −log p, given β (abstention last).
pub(crate) fn rescale(
    scaling: &[f64],
    gamma: f64,
    costs: impl Iterator<Item = f32>,
    out: &mut [f64],
) {
    let (classes, slack) = scaling.split_at(out.len());
    let mut top = slack[0];
    for ((logit, scaling), cost) in out.iter_mut().zip(classes).zip(costs) {
        *logit = scaling - gamma * f64::from(cost);
        top = top.max(*logit);
    }
    let mut sum = (slack[0] - top).exp();
    for weight in out.iter_mut() {
        *weight = (*weight - top).quick_exp();
        sum += *weight;
    }
    out.iter_mut().for_each(|weight| *weight /= sum);
}

/// Number of cells of an n×k matrix, if such an allocator can exist.
pub(crate) fn check_shape(examples: usize, classes: usize) -> Result<usize, Error> {
    if classes < 2 {
        return Err(Error::Classes { found: classes });
    }
    if examples == 0 {
        return Err(Error::NoExamples);
    }
    examples
        .checked_mul(classes)
        .filter(|cells| *cells <= isize::MAX as usize / 8)
        .ok_or(Error::Transport(earthmover::Error::TooLarge {
            rows: examples,
            cols: classes,
        }))
}

pub(crate) fn check_length(what: &'static str, expected: usize, found: usize) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    Err(Error::Length {
        what,
        expected,
        found,
    })
}

fn check_bounds(bounds: &Bounds, classes: usize) -> Result<(), Error> {
    check_length("class bounds", classes, bounds.classes())?;
    match bounds.lower().iter().position(|lower| *lower > 0.0) {
        None => Ok(()),
        Some(class) => Err(Error::LowerBound {
            class,
            lower: bounds.lower()[class],
        }),
    }
}

fn check_row_bounds(row_bounds: Option<&[f64]>, examples: usize) -> Result<(), Error> {
    let Some(values) = row_bounds else {
        return Ok(());
    };
    check_length("row bounds", examples, values.len())?;
    let what = "row";
    if let Some(index) = values.iter().position(|v| !(0.0..=1.0).contains(v)) {
        let value = values[index];
        return Err(Error::Bound { what, index, value });
    }
    if examples > 0 && values.iter().all(|v| *v == 0.0) {
        return Err(Error::NoExamples);
    }
    Ok(())
}

/// γ, whose inverse is the core's ε, and the tolerance.
pub(crate) fn check_settings(gamma: f64, tolerance: f64) -> Result<(), Error> {
    let refused = |name, value, expected| {
        Err(Error::Option {
            name,
            value,
            expected,
        })
    };
    if !(1e-20..=1e20).contains(&gamma) {
        return refused("gamma", gamma, "a number from 1e-20 to 1e20");
    }
    if !(tolerance.is_finite() && tolerance > 0.0) {
        return refused("tolerance", tolerance, "a positive number");
    }
    Ok(())
}

/// A = Σ a_i, from the first to the last whoever holds them.
fn supply(
    shard: Option<&Shard>,
    row_bounds: Option<&[f64]>,
    examples: usize,
) -> Result<f64, Error> {
    match (row_bounds, shard) {
        (None, _) => Ok(examples as f64),
        (Some(a), None) => Ok(a.iter().sum()),
        (Some(a), Some(shard)) => Ok(shard.team().gather(a)?.iter().flatten().sum()),
    }
}

/// The same outcome for all members of a team: one's complaint, in words, is everybody's.
fn agree(shard: Option<&Shard>, mine: Result<(), Error>) -> Result<(), Error> {
    let Some(shard) = shard else {
        return mine;
    };
    let word = mine.as_ref().map_err(|error| earthmover::Error::Backend {
        backend: "team",
        message: error.to_string(),
    });
    let all = shard.agree(word.copied());
    mine?;
    Ok(all?)
}

/// Rejects what is not the logarithm of a number in [0, 1], up to rounding.
fn check_values(row: usize, log_p: &[f32]) -> Result<(), Error> {
    let fine = |l: &f32| *l <= SUM_TOLERANCE as f32; // false for NaN
    // Without an early way out, so that it vectorises.
    if log_p.iter().fold(true, |all, l| all & fine(l)) {
        return Ok(());
    }
    match log_p.iter().position(|l| !fine(l)) {
        None => Ok(()),
        Some(class) => Err(Error::LogProbability {
            row,
            class,
            value: f64::from(log_p[class]),
        }),
    }
}

pub(crate) fn check_row(row: usize, log_p: &[f32]) -> Result<(), Error> {
    check_values(row, log_p)?;
    let sum = f64::from(rough_sum_of_exponentials(log_p));
    if (sum - 1.0).abs() <= SUM_TOLERANCE {
        return Ok(());
    }
    Err(Error::NotNormalised { row, sum })
}

/// Σ eˣ for x ≤ 0 to about 1e-4, which is all that the check for normalisation needs: branch-free and in eight separate
/// sums, so that it vectorises. 2ʸ = 2ⁿ·2ʳ with n rounded by adding 1.5·2²³ and 2ʳ by its Taylor polynomial.
fn rough_sum_of_exponentials(values: &[f32]) -> f32 {
    use std::f32::consts::{LN_2, LOG2_E};
    const MAGIC: f32 = 12_582_912.0;
    let power = |x: f32| {
        let y = (x * LOG2_E).max(-126.0);
        let shifted = y + MAGIC;
        let r = y - (shifted - MAGIC);
        let scale = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
        scale * (1.0 + r * (LN_2 + r * (0.240_226_5 + r * (0.055_504_1 + r * 0.009_618_1))))
    };
    let mut lanes = [0.0f32; 8];
    let (blocks, rest) = values.as_chunks::<8>();
    for block in blocks {
        for (lane, x) in lanes.iter_mut().zip(block) {
            *lane += power(*x);
        }
    }
    if !rest.is_empty() {
        let mut last = [f32::NEG_INFINITY; 8];
        last[..rest.len()].copy_from_slice(rest);
        for (lane, x) in lanes.iter_mut().zip(&last) {
            *lane += power(*x);
        }
    }
    lanes.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rough_exponentials_are_good_enough() {
        for step in 0..4000 {
            let x = -0.03 * step as f32;
            assert!(
                (rough_sum_of_exponentials(&[x]) - x.exp()).abs() < 1e-4,
                "{x}"
            );
            let many = [x; 19];
            assert!((rough_sum_of_exponentials(&many) - 19.0 * x.exp()).abs() < 2e-3);
        }
        assert!(rough_sum_of_exponentials(&[f32::NEG_INFINITY; 9]) < 1e-6);
    }
}
