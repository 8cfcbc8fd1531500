//! Random numbers that do not depend on who asks first.
//!
//! A generator is a key κ ∈ {0,1}¹²⁸ and a position t ∈ ℕ. Word t of its stream is
//!
//! ```text
//! x_t = Philox_κ(⌊t/4⌋ + 1, 0, 0, 0)[t mod 4]
//! ```
//!
//! where `Philox_κ` is the ten-round 4×64 bijection of Salmon, Moraes, Dror and Shaw (*Parallel random
//! numbers: as easy as 1, 2, 3*, 2011). Nothing is carried from one word to the next, so
//!
//! * the state is the three integers (κ, t): it is saved and restored exactly;
//! * [`Rng::fork`] makes the key of stream `s` by enciphering `s` itself, under a counter that no draw
//!   ever uses. It reads κ and never t. `Rng::new(seed).fork(step).fork(index)` is therefore the same
//!   generator on any thread, in any order, however much was drawn elsewhere.
//!
//! Training uses one seed for the split, the initial weights, the sampling and the augmentation, each on
//! its own fork, so changing one does not shift the others.

use serde::{Deserialize, Serialize};

const MULTIPLIERS: [u64; 2] = [0xD2E7_470E_E14C_6C93, 0xCA5A_8263_9512_1157];
const WEYL: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xBB67_AE85_84CA_A73B];
/// Draws keep the last counter word at zero; forks set it to this, so the two never share a block.
const FORK: u64 = 0x666F_726B;
/// Likewise for turning a 64-bit seed into a key.
const SEED: u64 = 0x7365_6564;

fn philox(mut counter: [u64; 4], mut key: [u64; 2]) -> [u64; 4] {
    for _ in 0..10 {
        let a = u128::from(MULTIPLIERS[0]) * u128::from(counter[0]);
        let b = u128::from(MULTIPLIERS[1]) * u128::from(counter[2]);
        counter = [
            (b >> 64) as u64 ^ counter[1] ^ key[0],
            b as u64,
            (a >> 64) as u64 ^ counter[3] ^ key[1],
            a as u64,
        ];
        key[0] = key[0].wrapping_add(WEYL[0]);
        key[1] = key[1].wrapping_add(WEYL[1]);
    }
    counter
}

/// What has to be saved to continue a stream exactly where it stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RngState {
    /// The key κ.
    pub key: [u64; 2],
    /// How many words have been drawn.
    pub position: u64,
}

/// A seeded, splittable, counter-based generator.
///
/// # Examples
/// ```
/// use earthmover_ssl::rng::Rng;
///
/// let root = Rng::new(7);
/// let mut image = root.fork(120).fork(3); // step 120, third image
/// let angle = image.uniform() * 30.0;
/// assert_eq!(root.fork(120).fork(3).uniform() * 30.0, angle);
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "RngState", into = "RngState")]
pub struct Rng {
    key: [u64; 2],
    position: u64,
    /// The block that holds word `position`, when `position` is not at a block's start.
    block: [u64; 4],
}

impl PartialEq for Rng {
    fn eq(&self, other: &Self) -> bool {
        self.state() == other.state()
    }
}

impl Eq for Rng {}

impl From<RngState> for Rng {
    fn from(state: RngState) -> Self {
        let mut rng = Self::with_key(state.key);
        rng.position = state.position;
        if !state.position.is_multiple_of(4) {
            rng.block = rng.block_at(state.position / 4);
        }
        rng
    }
}

impl From<Rng> for RngState {
    fn from(rng: Rng) -> Self {
        rng.state()
    }
}

impl Rng {
    /// The generator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let [a, b, ..] = philox([seed, 0, 0, SEED], [0, 0]);
        Self::with_key([a, b])
    }

    /// The generator with this very key, at its start.
    #[must_use]
    pub fn with_key(key: [u64; 2]) -> Self {
        Self {
            key,
            position: 0,
            block: [0; 4],
        }
    }

    /// Key and position: all there is to save.
    #[must_use]
    pub fn state(&self) -> RngState {
        RngState {
            key: self.key,
            position: self.position,
        }
    }

    /// The independent generator of a numbered stream. Depends on the key and `stream` only, not on what
    /// has been drawn.
    #[must_use]
    pub fn fork(&self, stream: u64) -> Self {
        let [a, b, ..] = philox([stream, 0, 0, FORK], self.key);
        Self::with_key([a, b])
    }

    fn block_at(&self, index: u64) -> [u64; 4] {
        philox([index.wrapping_add(1), 0, 0, 0], self.key)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let lane = (self.position % 4) as usize;
        if lane == 0 {
            self.block = self.block_at(self.position / 4);
        }
        self.position = self.position.wrapping_add(1);
        self.block[lane]
    }

    /// Uniform on [0, 1), a multiple of 2⁻⁵³.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform on [low, high).
    pub fn uniform_in(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// Uniform on {0, …, n − 1} without bias; 0 when `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        let n = n as u64;
        if n == 0 {
            return 0;
        }
        // The high half of x·n is uniform once the few low halves that are over-represented are refused.
        let refuse = n.wrapping_neg() % n;
        loop {
            let wide = u128::from(self.next_u64()) * u128::from(n);
            if wide as u64 >= refuse {
                return (wide >> 64) as usize;
            }
        }
    }

    /// Uniform on {low, …, high}, both ends included; `low` when the range is empty.
    pub fn range(&mut self, low: i64, high: i64) -> i64 {
        if high <= low {
            return low;
        }
        low.wrapping_add(self.below((high.wrapping_sub(low) as usize).saturating_add(1)) as i64)
    }

    /// Standard normal, by Box and Muller. The second variate is thrown away so that the position alone
    /// remains the whole state.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Puts a slice in uniformly random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }

    /// `count` different numbers of {0, …, n − 1}, in random order; all `n` of them when `count` ≥ n.
    ///
    /// # Examples
    /// ```
    /// let mut rng = earthmover_ssl::rng::Rng::new(1);
    /// let mut picked = rng.choose(10, 4);
    /// picked.sort_unstable();
    /// picked.dedup();
    /// assert_eq!(picked.len(), 4);
    /// ```
    pub fn choose(&mut self, n: usize, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..n).collect();
        let count = count.min(n);
        for i in 0..count {
            let j = i + self.below(n - i);
            all.swap(i, j);
        }
        all.truncate(count);
        all
    }

    /// How often each outcome occurs in `trials` independent draws with probabilities proportional to
    /// `weights`. Weights that are negative or not finite count as zero; when all are zero, so is the answer.
    pub fn multinomial(&mut self, trials: usize, weights: &[f64]) -> Vec<usize> {
        let mut counts = vec![0; weights.len()];
        let mut total = 0.0;
        let cumulative: Vec<f64> = weights
            .iter()
            .map(|&w| {
                total += if w.is_finite() && w > 0.0 { w } else { 0.0 };
                total
            })
            .collect();
        if total.is_nan() || total <= 0.0 {
            return counts;
        }
        for _ in 0..trials {
            let x = self.uniform() * total;
            // The first outcome whose cumulative weight exceeds x: never one of weight zero.
            let j = cumulative.partition_point(|&c| c <= x);
            if let Some(count) = counts.get_mut(j) {
                *count += 1;
            }
        }
        counts
    }
}
