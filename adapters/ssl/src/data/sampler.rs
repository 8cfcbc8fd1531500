//! Which examples a step sees: i.i.d. uniform with replacement, as in the published experiments.
//!
//! The batch of step t is a function of (seed, t, pool), so a run resumed at step t draws what the
//! uninterrupted one would have, with nothing to save.

use crate::rng::Rng;

/// Draws batches of indices from a pool.
///
/// # Examples
/// ```
/// use earthmover_ssl::data::Sampler;
///
/// let sampler = Sampler::new(7, vec![2, 3, 5]);
/// assert_eq!(sampler.batch(41, 64), sampler.batch(41, 64));
/// assert!(sampler.batch(0, 64).iter().all(|i| [2, 3, 5].contains(i)));
/// ```
#[derive(Clone, Debug)]
pub struct Sampler {
    rng: Rng,
    pool: Vec<usize>,
}

impl Sampler {
    /// Draws from `pool` with the numbers of `seed`. Give labeled and unlabeled pools different seeds.
    #[must_use]
    pub fn new(seed: u64, pool: Vec<usize>) -> Self {
        Self {
            rng: Rng::new(seed),
            pool,
        }
    }

    /// What it draws from.
    #[must_use]
    pub fn pool(&self) -> &[usize] {
        &self.pool
    }

    /// The batch of a step; empty when the pool is.
    #[must_use]
    pub fn batch(&self, step: u64, size: usize) -> Vec<usize> {
        if self.pool.is_empty() {
            return Vec::new();
        }
        let mut rng = self.rng.fork(step);
        (0..size)
            .map(|_| self.pool[rng.below(self.pool.len())])
            .collect()
    }
}
