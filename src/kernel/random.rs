//! Seeded random numbers, the same on every machine: SplitMix64, a counter that is [well stirred](mix).
//!
//! A stream is a function of its seed and number alone, so that whoever draws in parallel draws the same numbers.

use super::hash::{STEP, mix};

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream of this number of a seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed);
        random.0 = random.bits() ^ stream.wrapping_mul(0xd134_2543_de82_ef95);
        random
    }

    fn bits(&mut self) -> u64 {
        let z = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        z
    }

    /// From zero, included, to one, excluded.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Mean zero, variance one (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (core::f64::consts::TAU * self.unit()).cos()
    }

    /// A direction, uniform on the sphere.
    pub(crate) fn direction(&mut self, out: &mut [f64]) {
        loop {
            out.iter_mut().for_each(|x| *x = self.normal());
            let length = out.iter().map(|x| x * x).sum::<f64>().sqrt();
            if length > 1e-100 {
                out.iter_mut().for_each(|x| *x /= length);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_normal_distribution() {
        let mut random = Random::new(7, 3);
        let n = 200_000;
        let (mut first, mut second, mut fourth) = (0.0, 0.0, 0.0);
        for _ in 0..n {
            let x = random.normal();
            first += x;
            second += x * x;
            fourth += x * x * x * x;
        }
        let n = f64::from(n);
        assert!((first / n).abs() < 0.01);
        assert!((second / n - 1.0).abs() < 0.02);
        assert!((fourth / n - 3.0).abs() < 0.1);
    }

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |stream| Random::new(1, stream).unit();
        assert_eq!(draw(5), draw(5));
        assert_ne!(draw(5), draw(6));
    }
}
