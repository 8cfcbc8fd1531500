//! What one step needs, made ahead of time on other threads.
//!
//! The batch of step t is a function of (seed, t): which examples (with replacement), which views. The views
//! lie in one array, labeled, weak, strong, ready to go to the device as they are.

use std::sync::Arc;

use crate::augment::{AugmentError, Batcher, View};
use crate::data::{Dataset, Sampler, Split, UNLABELED};
use crate::rng::Rng;

/// Streams of a run's seed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    Weights = 1,
    LabeledDraw,
    UnlabeledDraw,
    LabeledViews,
    UnlabeledViews,
}

impl Stream {
    pub(crate) fn seed(self, run: u64) -> u64 {
        Rng::new(run).fork(self as u64).next_u64()
    }
}

/// One step's inputs on the host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HostBatch {
    /// Labeled views, then weak, then strong ones.
    pub(crate) inputs: Vec<f32>,
    /// Labels of the labeled ones.
    pub(crate) labels: Vec<u32>,
    /// Positions of the unlabeled ones in the unlabeled set.
    pub(crate) indices: Vec<usize>,
    /// Their true labels: for the log only, nothing is learned from them.
    pub(crate) truths: Vec<u32>,
}

impl HostBatch {
    /// Piece `at` of `pieces`: the same share of labeled, weak and strong views; `size` numbers in each.
    pub(crate) fn piece(&self, at: usize, pieces: usize, size: usize) -> Self {
        let range = |n: usize| n * at / pieces..n * (at + 1) / pieces;
        let (b, u) = (self.labels.len(), self.indices.len());
        let (labeled, unlabeled) = (range(b), range(u));
        let views = |start: usize, rows: &std::ops::Range<usize>| {
            self.inputs[(start + rows.start) * size..(start + rows.end) * size].iter()
        };
        let weak_and_strong = views(b, &unlabeled).chain(views(b + u, &unlabeled));
        Self {
            inputs: views(0, &labeled).chain(weak_and_strong).copied().collect(),
            labels: self.labels[labeled].to_vec(),
            indices: self.indices[unlabeled.clone()].to_vec(),
            truths: self.truths[unlabeled].to_vec(),
        }
    }
}

/// Makes [`HostBatch`]es.
#[derive(Clone, Debug)]
pub(crate) struct Batches {
    dataset: Arc<Dataset>,
    split: Arc<Split>,
    batcher: Batcher,
    labeled: Sampler,
    unlabeled: Sampler,
    batch: usize,
    unlabeled_batch: usize,
    seed: u64,
    is_partly: bool,
}

impl Batches {
    pub(crate) fn new(
        dataset: Arc<Dataset>,
        split: Arc<Split>,
        batcher: Batcher,
        batch: usize,
        unlabeled_batch: usize,
        seed: u64,
    ) -> Self {
        let positions = (0..split.unlabeled.len()).collect();
        Self {
            labeled: Sampler::new(Stream::LabeledDraw.seed(seed), split.labeled.clone()),
            unlabeled: Sampler::new(Stream::UnlabeledDraw.seed(seed), positions),
            is_partly: dataset.is_partly_unlabeled(),
            dataset,
            split,
            batcher,
            batch,
            unlabeled_batch,
            seed,
        }
    }

    pub(crate) fn make(&self, step: u64) -> Result<HostBatch, AugmentError> {
        let train = &self.dataset.train;
        let size = self.batcher.shape().size();
        let labeled = self.labeled.batch(step, self.batch);
        let indices = self.unlabeled.batch(step, self.unlabeled_batch);
        let examples: Vec<usize> = indices.iter().map(|&i| self.split.unlabeled[i]).collect();
        let mut inputs = vec![0.0; (labeled.len() + 2 * examples.len()) * size];
        let (first, rest) = inputs.split_at_mut(labeled.len() * size);
        let (weak, strong) = rest.split_at_mut(examples.len() * size);
        let views = Stream::LabeledViews.seed(self.seed);
        self.batcher
            .fill(train, &labeled, View::Weak, views, step, first)?;
        let views = Stream::UnlabeledViews.seed(self.seed);
        for (view, out) in [(View::Weak, weak), (View::Strong, strong)] {
            self.batcher
                .fill(train, &examples, view, views, step, out)?;
        }
        let label = |i: &usize| train.labels()[*i];
        // Where most examples have no label, those that have one are given: getting them right is no achievement.
        let is_given = |i: &usize| self.is_partly && self.split.labeled.binary_search(i).is_ok();
        let truth = |i: &usize| if is_given(i) { UNLABELED } else { label(i) };
        Ok(HostBatch {
            inputs,
            labels: labeled.iter().map(label).collect(),
            truths: examples.iter().map(truth).collect(),
            indices,
        })
    }
}
