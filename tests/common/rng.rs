//! Seeded numbers and the problems drawn from them: the same on every machine, for tests and benchmarks.

use earthmover::{Marginals, Slack};

/// SplitMix64: a counter, well stirred.
#[derive(Debug, Clone)]
pub struct Rng(pub u64);

impl Rng {
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

    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// Mean zero, variance one.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

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
        let top = z.iter().copied().fold(f64::MIN, f64::max);
        let log_sum = top + z.iter().map(|z| (z - top).exp()).sum::<f64>().ln();
        z.iter().map(|z| log_sum - z).collect()
    }
}

/// The label-allocation problem: n rows of mass one, k classes of at most 1 + n/k, a share ρ allocated.
pub fn label_allocation(n: usize, k: usize, rho: f64) -> Marginals {
    let (rows, classes) = (n as f64, k as f64);
    let slack = Slack {
        row: 1.0 + classes + rows * (1.0 - rho),
        col: 1.0 + rows * (1.0 - rho),
        ..Slack::NONE
    };
    Marginals::with_slack(&vec![1.0; n], &vec![1.0 + rows / classes; k], slack).unwrap()
}

/// Squared distances between n and m points of the unit square, over the largest possible one.
pub fn distances(rng: &mut Rng, n: usize, m: usize) -> Vec<f64> {
    let (x, y) = (rng.units(2 * n), rng.units(2 * m));
    let between = |p: &[f64], q: &[f64]| {
        let (u, v) = (p[0] - q[0], p[1] - q[1]);
        0.5 * (u * u + v * v)
    };
    let rows = x.chunks_exact(2);
    rows.flat_map(|p| y.chunks_exact(2).map(move |q| between(p, q)))
        .collect()
}
