//! Noise that is the same on every machine.

/// A repeatable stream of numbers.
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    /// From zero to one.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        ((self.0 ^ (self.0 >> 33)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Mean zero, variance one.
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}
