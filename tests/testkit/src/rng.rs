//! Random numbers from a seed, the same on every machine.

/// SplitMix64: a counter, well stirred.
///
/// ```
/// use earthmover_testkit::Rng;
/// let (mut one, mut other) = (Rng(7), Rng(7));
/// assert_eq!(one.unit(), other.unit());
/// ```
#[derive(Debug, Clone)]
pub struct Rng(
    /// The seed, and where the stream stands.
    pub u64,
);

impl Rng {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From zero, included, to one, excluded.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number below `n`; zero where there is none.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n.max(1) as u64) as usize
    }

    /// Several random bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.bits() as u8).collect()
    }

    /// Mean zero, variance one.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Whether something of probability `p` happens.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Ten to a power between these.
    pub fn decades(&mut self, from: f64, to: f64) -> f64 {
        10f64.powf(from + (to - from) * self.unit())
    }

    /// Several numbers from zero to one.
    pub fn units(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.unit()).collect()
    }

    /// Masses that sum to one, some of them equal; a quarter of them zero where `zeros` are allowed.
    pub fn masses(&mut self, n: usize, zeros: bool) -> Vec<f64> {
        let mut m: Vec<f64> = (0..n)
            .map(|_| match self.below(4) {
                0 if zeros => 0.0,
                1 => 1.0,
                _ => 0.05 + self.unit(),
            })
            .collect();
        if m.iter().all(|&x| x == 0.0) {
            m[0] = 1.0;
        }
        let total: f64 = m.iter().sum();
        m.iter_mut().for_each(|x| *x /= total);
        m
    }

    /// −log of a softmax of normal logits of standard deviation three: what a classifier might say.
    pub fn surprisals(&mut self, k: usize) -> Vec<f64> {
        let z: Vec<f64> = (0..k).map(|_| 3.0 * self.normal()).collect();
        let log_sum = log_sum_exp(&z);
        z.iter().map(|z| log_sum - z).collect()
    }
}

/// ln Σ e^z, −∞ where all are.
pub(crate) fn log_sum_exp(z: &[f64]) -> f64 {
    let top = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + z.iter().map(|z| (z - top).exp()).sum::<f64>().ln()
}
