//! What it costs a side to give or take another mass than the one it is asked for.
//!
//! ```text
//! minimise  ⟨C, P⟩ + D(P1 | a) + D(Pᵀ1 | b)   (+ ε Ω(P))        r = P1: what a row gives
//!
//! exact    D = 0 where r = a, +∞ elsewhere
//! KL(τ)    D = τ Σ (r ln(r/a) − r + a)
//! TV(τ)    D = τ Σ |r − a|
//! ```
//!
//! For column potentials g the best potential of a row is closed form under each of them. With Z_i = Σ_j exp((g_j − C_ij)/ε), φ the
//! potential less what belongs to the reference Ω (ε ln a for the product of the masses, nothing for the counting measure) and
//! φ* the one that makes the row exact,
//!
//! ```text
//! exact    φ = φ*                 r = a
//! KL(τ)    φ = τ/(τ+ε) φ*         r = a exp(−φ*/(τ+ε))
//! TV(τ)    φ = φ* cut to ±τ       r = a exp((φ − φ*)/ε)
//! ```
//!
//! so that a row's mass is a function of its sum and a sweep stays one pass. The same holds for a column and its sum. A line of no
//! mass carries none, whatever the penalty.
//!
//! Under large τ both sides' potentials may be as large as τ, of opposite signs, and would cost every sum f + g its digits. So the
//! common part is kept apart: a [`Law`] knows by how much the potentials of the other side are *lifted*.

use crate::Error;

/// What a side of a problem pays for masses other than the ones it is asked for.
///
/// # Examples
/// ```
/// use earthmover::{Entropic, FromFn, Marginals, Penalty, Problem};
/// // Two piles and two holes; one hole is far from everything.
/// let cost = FromFn::new(2, 2, |i, j| if j == 1 { 9.0 } else { 0.1 * i as f64 })?;
/// let marginals = Marginals::relaxed(&[1.0, 1.0], &[2.0, 1.0], Penalty::Kl(1.0), Penalty::Kl(1.0))?;
/// let problem = Problem::new(cost, marginals)?;
/// let solution = Entropic::new(0.01).solve(&problem)?;
/// assert!(solution.plan().col_sums()[1] < 0.02); // not worth the way
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Penalty {
    /// Masses are kept.
    #[default]
    Exact,
    /// τ Σ (r ln(r/a) − r + a): relative deviations cost, none is ruled out. τ is in the units of the cost.
    Kl(f64),
    /// τ Σ |r − a|: every unit that is not moved, or too much, costs τ.
    Tv(f64),
}

/// What the entropy of a plan is measured against. With exact marginals the plan is the same; with penalised ones it is not.
///
/// # Examples
/// ```
/// use earthmover::{Marginals, Penalty, Reference};
/// let kl = Penalty::Kl(1.0);
/// let marginals = Marginals::relaxed(&[1.0], &[2.0], kl, kl)?.with_reference(Reference::Counting);
/// assert_eq!(marginals.reference(), Reference::Counting);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Reference {
    /// Ω = Σ (P_ij ln(P_ij / a_i b_j) − P_ij + a_i b_j): relative to the product of the masses.
    #[default]
    Product,
    /// Ω = Σ P_ij (ln P_ij − 1): every pair weighs the same.
    Counting,
}

impl Penalty {
    /// Whether masses are kept.
    #[must_use]
    pub fn is_exact(self) -> bool {
        self == Self::Exact
    }

    /// The price τ; +∞ where masses are kept.
    #[must_use]
    pub fn strength(self) -> f64 {
        match self {
            Self::Exact => f64::INFINITY,
            Self::Kl(tau) | Self::Tv(tau) => tau,
        }
    }

    /// The penalty itself, `D(sum | mass)` of one line; +∞ where it is ruled out.
    ///
    /// # Examples
    /// ```
    /// use earthmover::Penalty;
    /// assert_eq!(Penalty::Tv(2.0).of(1.0, 0.25), 1.5);
    /// assert_eq!(Penalty::Kl(2.0).of(1.0, 0.0), 2.0); // all of it destroyed
    /// assert_eq!(Penalty::Kl(2.0).of(3.0, 3.0), 0.0);
    /// ```
    #[must_use]
    pub fn of(self, mass: f64, sum: f64) -> f64 {
        match self {
            _ if sum == mass => 0.0,
            Self::Exact => f64::INFINITY,
            _ if mass == 0.0 => f64::INFINITY,
            Self::Tv(tau) => tau * (sum - mass).abs(),
            Self::Kl(tau) if sum == 0.0 => tau * mass,
            Self::Kl(tau) => {
                // With x = r/a − 1 small, x ln would lose the square that is left: (1 + x) ln(1 + x) − x.
                let x = (sum - mass) / mass;
                let each = if x.abs() < 1e-3 {
                    x * x * (0.5 - x * (1.0 / 6.0 - x * (1.0 / 12.0 - x * 0.05)))
                } else {
                    (1.0 + x) * (sum / mass).ln() - x
                };
                tau * mass * each
            }
        }
    }

    /// The concave conjugate: the least of `D(r | mass) + r φ` over r, which is what a line adds to a dual value at potential
    /// φ. −∞ where there is no least.
    ///
    /// # Examples
    /// ```
    /// use earthmover::Penalty;
    /// assert_eq!(Penalty::Exact.conjugate(2.0, 3.0), 6.0);
    /// assert_eq!(Penalty::Tv(1.0).conjugate(2.0, 3.0), 2.0);
    /// assert!((Penalty::Kl(1e9).conjugate(2.0, 3.0) - 6.0).abs() < 1e-7);
    /// ```
    #[must_use]
    pub fn conjugate(self, mass: f64, potential: f64) -> f64 {
        match self {
            _ if mass == 0.0 => 0.0,
            Self::Exact => mass * potential,
            Self::Kl(tau) => -tau * mass * (-potential / tau).exp_m1(),
            Self::Tv(tau) if potential < -tau * (1.0 + 4.0 * f64::EPSILON) => f64::NEG_INFINITY,
            Self::Tv(tau) => mass * potential.min(tau),
        }
    }

    /// The potential of a line that gives nothing at all.
    fn strength_of_nothing(self) -> f64 {
        match self {
            Self::Tv(tau) => tau,
            _ => f64::INFINITY,
        }
    }

    /// The same, or exact where τ is +∞.
    pub(crate) fn checked(self, name: &'static str) -> Result<Self, Error> {
        match self {
            Self::Exact => Ok(self),
            Self::Kl(tau) | Self::Tv(tau) if tau == f64::INFINITY => Ok(Self::Exact),
            Self::Kl(tau) | Self::Tv(tau) if (1e-150..=1e150).contains(&tau) => Ok(self),
            Self::Kl(value) | Self::Tv(value) => Err(Error::Option {
                name,
                value,
                expected: "a number from 1e-150 to 1e150, or +inf for exact masses",
            }),
        }
    }
}

/// How the lines of one side behave: their penalty, the reference of the entropy, and by how much potentials are lifted.
///
/// A backend that can keep laws other than the exact one ([`Backend::obey`](crate::sweep::Backend::obey)) asks it for the
/// [`mass`](Self::mass) of a row once its sum is known.
///
/// # Examples
/// ```
/// use earthmover::sweep::Law;
/// assert_eq!(Law::EXACT.mass(0.1, 2.0, -3.0), 2.0); // whatever the sum
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Law {
    pub(crate) penalty: Penalty,
    pub(crate) reference: Reference,
    /// Potentials of this side are kept with this much added.
    pub(crate) lift: f64,
}

impl Law {
    /// Masses are kept.
    pub const EXACT: Self = Self {
        penalty: Penalty::Exact,
        reference: Reference::Product,
        lift: 0.0,
    };

    pub(crate) fn new(penalty: Penalty, reference: Reference) -> Self {
        Self {
            penalty,
            reference,
            lift: 0.0,
        }
    }

    /// The same with potentials kept with `lift` added.
    pub(crate) fn lifted(self, lift: f64) -> Self {
        Self { lift, ..self }
    }

    /// Whether masses are kept.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.penalty.is_exact()
    }

    /// What of a line's potential belongs to the reference.
    pub(crate) fn offset(&self, epsilon: f64, mass: f64) -> f64 {
        match self.reference {
            Reference::Product => epsilon * mass.ln(),
            Reference::Counting => 0.0,
        }
    }

    /// φ* as it is kept: what the potential less its offset would be if masses were kept.
    fn exact(&self, epsilon: f64, mass: f64, log_sum: f64) -> f64 {
        let target = match self.reference {
            Reference::Product => 0.0,
            Reference::Counting => epsilon * mass.ln(),
        };
        target - epsilon * log_sum
    }

    /// φ − φ*, over ε, given φ* as it is kept. Bounds are lifted rather than potentials lowered: it is the bounds that are large.
    fn pull(&self, epsilon: f64, exact: f64) -> f64 {
        match self.penalty {
            Penalty::Exact => 0.0,
            Penalty::Kl(tau) => (self.lift - exact) / (tau + epsilon),
            Penalty::Tv(tau) => {
                let clipped = exact.max(self.lift - tau).min(self.lift + tau);
                (clipped - exact) / epsilon
            }
        }
    }

    /// Least and largest potential of a line, as they are kept.
    pub(crate) fn bounds(&self, epsilon: f64, mass: f64) -> (f64, f64) {
        let offset = self.offset(epsilon, mass);
        match self.penalty {
            Penalty::Tv(tau) => (offset + (self.lift - tau), offset + (self.lift + tau)),
            _ => (f64::NEG_INFINITY, f64::INFINITY),
        }
    }

    /// The mass of a line asked for `mass` whose other side offers `log_sum = ln Σ exp((g − C)/ε)`.
    #[must_use]
    pub fn mass(&self, epsilon: f64, mass: f64, log_sum: f64) -> f64 {
        if self.is_exact() || mass == 0.0 {
            return mass;
        }
        if log_sum == f64::NEG_INFINITY {
            return 0.0;
        }
        mass * self.pull(epsilon, self.exact(epsilon, mass, log_sum)).exp()
    }

    /// The same of a line whose potential would be `exact` if masses were kept.
    pub(crate) fn mass_at(&self, epsilon: f64, mass: f64, exact: f64) -> f64 {
        if mass == 0.0 {
            return 0.0;
        }
        let exact = exact - self.offset(epsilon, mass);
        mass * self.pull(epsilon, exact).exp()
    }

    /// r/a of a line, and φ, from its sum; of lines of no mass, too, where the reference gives them a limit.
    pub(crate) fn ratio_and_bare(&self, epsilon: f64, mass: f64, log_sum: f64) -> (f64, f64) {
        if log_sum == f64::NEG_INFINITY && !self.is_exact() {
            return (0.0, self.penalty.strength_of_nothing());
        }
        let exact = self.exact(epsilon, mass, log_sum);
        let pull = self.pull(epsilon, exact);
        (pull.exp(), exact - self.lift + epsilon * pull)
    }

    /// The potential of such a line, `f = ε (ln r − log_sum)`; −∞ where it carries no mass.
    #[must_use]
    pub fn potential(&self, epsilon: f64, mass: f64, log_sum: f64) -> f64 {
        if mass == 0.0 {
            return f64::NEG_INFINITY;
        }
        let exact = epsilon * (mass.ln() - log_sum);
        if self.is_exact() {
            return exact;
        }
        if log_sum == f64::NEG_INFINITY {
            return f64::NEG_INFINITY;
        }
        exact + epsilon * self.pull(epsilon, self.exact(epsilon, mass, log_sum))
    }

    /// dφ/dφ*: one where masses are kept, zero where a potential is at its bound.
    #[must_use]
    pub fn slope(&self, epsilon: f64, mass: f64, log_sum: f64) -> f64 {
        match self.penalty {
            Penalty::Exact => 1.0,
            Penalty::Kl(tau) => tau / (tau + epsilon),
            Penalty::Tv(tau) => {
                let free = (self.exact(epsilon, mass, log_sum) - self.lift).abs() <= tau;
                f64::from(u8::from(free))
            }
        }
    }

    /// φ of a line of potential `f` as it is kept.
    pub(crate) fn bare(&self, epsilon: f64, mass: f64, potential: f64) -> f64 {
        potential - self.lift - self.offset(epsilon, mass)
    }

    /// ln of the mass that a line of this potential would ask for. TV asks for its mass, and at a bound for whatever it has if that
    /// errs on the right side.
    pub(crate) fn log_demand(&self, epsilon: f64, mass: f64, potential: f64, log_sum: f64) -> f64 {
        let target = mass.ln();
        match self.penalty {
            Penalty::Exact => target,
            Penalty::Kl(tau) => target - self.bare(epsilon, mass, potential) / tau,
            Penalty::Tv(_) => {
                let (low, high) = self.bounds(epsilon, mass);
                if potential >= high {
                    target.min(log_sum)
                } else if potential <= low {
                    target.max(log_sum)
                } else {
                    target
                }
            }
        }
    }

    /// The step, over ε, to the best potential of a line that has this one and holds `exp(log_sum)`.
    pub(crate) fn step(&self, epsilon: f64, mass: f64, potential: f64, log_sum: f64) -> f64 {
        match self.penalty {
            Penalty::Exact => mass.ln() - log_sum,
            Penalty::Kl(tau) => {
                let lacking = self.log_demand(epsilon, mass, potential, log_sum) - log_sum;
                tau / (tau + epsilon) * lacking
            }
            Penalty::Tv(_) => {
                let next = potential + epsilon * (mass.ln() - log_sum);
                (self.clip(epsilon, mass, next) - potential) / epsilon
            }
        }
    }

    /// Potentials of this side cut to what the penalty allows.
    pub(crate) fn clip(&self, epsilon: f64, mass: f64, potential: f64) -> f64 {
        if potential == f64::NEG_INFINITY {
            return potential;
        }
        let (low, high) = self.bounds(epsilon, mass);
        potential.max(low).min(high)
    }

    /// How fast all masses of this side grow, in logarithm, as the other side's potentials are lifted: `None` where lines differ.
    pub(crate) fn growth(&self, epsilon: f64) -> Option<f64> {
        match self.penalty {
            Penalty::Exact => Some(0.0),
            Penalty::Kl(tau) => Some(1.0 / (tau + epsilon)),
            Penalty::Tv(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PENALTIES: [Penalty; 5] = [
        Penalty::Exact,
        Penalty::Kl(0.3),
        Penalty::Kl(1e4),
        Penalty::Tv(0.2),
        Penalty::Tv(50.0),
    ];

    /// D(r) + ε (r ln(r/s) − r), with s the offer, is least at the law's mass.
    #[test]
    fn masses_minimise_what_a_line_pays() {
        for penalty in PENALTIES {
            for reference in [Reference::Product, Reference::Counting] {
                for (mass, log_sum, epsilon) in
                    [(0.7, -0.4, 0.1), (3.0, 1.5, 0.5), (1e-3, 0.1, 2.0)]
                {
                    let law = Law::new(penalty, reference);
                    let scale: f64 = match reference {
                        Reference::Product => mass,
                        Reference::Counting => 1.0,
                    };
                    let offer = scale.ln() + log_sum;
                    let pays = |r: f64| penalty.of(mass, r) + epsilon * r * (r.ln() - offer - 1.0);
                    // A product's potentials hold ε ln a of the other side only.
                    let best = law.mass(epsilon, mass, log_sum);
                    if !penalty.is_exact() {
                        for other in [0.99, 0.9999, 1.0001, 1.01] {
                            assert!(pays(best) <= pays(best * other) + 1e-15, "{law:?} {mass}");
                        }
                    }
                    let f = law.potential(epsilon, mass, log_sum);
                    assert!((best.ln() - f / epsilon - log_sum).abs() < 1e-9);
                    // A lift of the other side is the same as potentials that much higher.
                    let lifted = law.lifted(0.25);
                    let high = law.mass(epsilon, mass, log_sum + 0.25 / epsilon);
                    assert!((lifted.mass(epsilon, mass, log_sum) - high).abs() < 1e-12 * high);
                }
            }
        }
    }

    #[test]
    fn conjugates_are_the_least_of_penalty_and_potential() {
        for penalty in PENALTIES {
            for (mass, phi) in [(0.7, 0.15), (2.0, -0.1), (1e-3, 0.2)] {
                let value = penalty.conjugate(mass, phi);
                for r in [0.0, 0.3 * mass, mass, 1.1 * mass, 4.0 * mass] {
                    assert!(value <= penalty.of(mass, r) + r * phi + 1e-15);
                }
            }
        }
    }

    #[test]
    fn small_deviations_keep_their_digits() {
        for x in [1e-9, 1e-5, 0.9e-3, 1.1e-3] {
            let found = Penalty::Kl(1.0).of(1.0, 1.0 + x);
            let expected = x * x / 2.0 - x * x * x / 6.0 + x.powi(4) / 12.0;
            assert!(
                (found / expected - 1.0).abs() < 1e-6,
                "{x} {found} {expected}"
            );
        }
    }
}
