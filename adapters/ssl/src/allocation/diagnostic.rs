//! Do the class bounds fit the data? The allocation's dual variables tell.
//!
//! The slack row's flow v_j = exp((f_s + g_j)/ε) is what class j leaves unused of its cap, and
//!
//! ```text
//! λ_j = −(f_s + g_j) = −ε ln v_j     price of class j's bound: what one more unit of cap would save,
//! θ   = −(f_s + g_s) = −ε ln τ       price of the total: what the last unit of mass costs.
//! ```
//!
//! In the linear programme λ, θ ≥ 0 and an example is labeled j only if C_ij + λ_j is its least and at
//! most θ: an example of an unbound class needs p ≥ e^−θ. A price is a number of nats the model's opinion
//! is discounted by, so it means the same at every γ.
//!
//! The paper reports that infeasible or nearly infeasible bounds make the scaling variables oscillate. Three
//! signs are looked at, each in nats:
//!
//! - **regret**: Σ Q_ij (C_ij − min_j' C_ij') / ΣQ, the likelihood given up per label to satisfy the bounds;
//! - **saturation**: the largest λ_j: a bound that needs e^−10 against the model is all but infeasible;
//! - **oscillation**: back-and-forth movement of the β_j/γ per solve over the last solves, (Σ|Δ| − |ΣΔ|)/solves for
//!   the worst class: a drifting model moves prices one way, a contradiction throws them about.
//!
//! A wrong prior shows in the first two however calm the model; the third needs a model that reacts. No sign is a
//! proof: a badly biased model under a right prior pays regret too, which is what the bounds are for.
//! It is regret that *stays* as the model learns that points at the prior.

use super::LabelAllocator;

/// One class's bound and what it costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassDiagnosis {
    /// Cap of the class, in examples: 1 + n b.
    pub cap: f64,
    /// Mass allocated to it.
    pub mass: f64,
    /// Whether the bound is in force: less than the one unit of slack is left.
    pub binding: bool,
    /// Shadow price λ of the bound, in nats; zero where it does not bind.
    pub price: f64,
}

/// How much the bounds and the model disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Warning {
    /// Nothing unusual.
    Calm,
    /// The bounds change a visible part of the labels; look again later.
    Strained,
    /// The bounds overrule the model, or the prices do not settle: the prior is likely wrong.
    Misspecified,
}

/// The misspecification signal; see [`LabelAllocator::diagnose`].
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosis {
    /// Per class.
    pub classes: Vec<ClassDiagnosis>,
    /// Shadow price θ of the total mass, in nats; e^−θ is the confidence an example needs.
    pub mass_price: f64,
    /// Share of the allocated mass that went to another class than the example's most likely one.
    pub forced: f64,
    /// Nats of likelihood given up per label.
    pub regret: f64,
    /// Largest class price, in nats.
    pub saturation: f64,
    /// Back-and-forth movement of the prices per solve, in nats.
    pub oscillation: f64,
    /// The verdict.
    pub warning: Warning,
}

/// Levels (strained, misspecified) of regret, saturation and oscillation, in nats.
const REGRET: (f64, f64) = (0.05, 0.5);
const SATURATION: (f64, f64) = (3.0, 10.0);
const OSCILLATION: (f64, f64) = (0.05, 0.5);

impl LabelAllocator {
    /// Judges how the class bounds sit with the model's predictions, as of the last solve. One pass over
    /// the costs: once in a while, not every step.
    ///
    /// # Examples
    /// ```
    /// use earthmover_ssl::allocation::{Bounds, LabelAllocator, Warning};
    /// // All ten examples look like class 0, with p = 0.999, but the prior allows it only half of them.
    /// let mut allocator = LabelAllocator::options(10, 2).bounds(Bounds::given(&[0.5, 0.5])?).build()?;
    /// let log_p: Vec<f32> = [0.999f32.ln(), 0.001f32.ln()].repeat(10);
    /// allocator.observe(&(0..10).collect::<Vec<_>>(), &log_p)?;
    /// allocator.allocate(1.0)?;
    /// let diagnosis = allocator.diagnose();
    /// assert!(diagnosis.classes[0].binding && !diagnosis.classes[1].binding);
    /// assert_eq!(diagnosis.warning, Warning::Misspecified);
    /// # Ok::<(), earthmover_ssl::Error>(())
    /// ```
    #[must_use]
    pub fn diagnose(&self) -> Diagnosis {
        let k = self.classes();
        let masses = self.engine.masses();
        let prices = self.prices();
        let classes: Vec<ClassDiagnosis> = (0..k)
            .map(|j| {
                let price = prices[j];
                ClassDiagnosis {
                    cap: masses.caps[j],
                    mass: self.engine.sums()[j],
                    binding: price > 0.0,
                    price,
                }
            })
            .collect();
        let (forced, regret) = self.overruled();
        let saturation = classes.iter().map(|c| c.price).fold(0.0, f64::max);
        let oscillation = self.oscillation();
        let level = |value: f64, (strained, misspecified): (f64, f64)| {
            if value >= misspecified {
                Warning::Misspecified
            } else if value >= strained {
                Warning::Strained
            } else {
                Warning::Calm
            }
        };
        let warning = level(regret, REGRET)
            .max(level(saturation, SATURATION))
            .max(level(oscillation, OSCILLATION));
        Diagnosis {
            classes,
            mass_price: prices[k],
            forced,
            regret,
            saturation,
            oscillation,
            warning,
        }
    }

    /// Share of mass away from the argmax, and nats given up per unit of mass.
    fn overruled(&self) -> (f64, f64) {
        let (mut costs, mut row) = (vec![0.0; self.classes()], vec![0.0; self.classes()]);
        let (mut mass, mut moved, mut regret) = (0.0, 0.0, 0.0);
        for index in 0..self.held().len() {
            self.cost_row(index, &mut costs);
            self.plan_row(index, &costs, &mut row);
            let least = costs.iter().copied().fold(f32::INFINITY, f32::min);
            for (q, cost) in row.iter().zip(&costs) {
                let excess = f64::from(cost - least);
                mass += q;
                regret += q * excess;
                if excess > 0.0 {
                    moved += q;
                }
            }
        }
        if mass > 0.0 {
            (moved / mass, regret / mass)
        } else {
            (0.0, 0.0)
        }
    }

    fn oscillation(&self) -> f64 {
        let solves = self.history.iter().len();
        if solves < 3 {
            return 0.0;
        }
        (0..self.classes())
            .map(|j| {
                let mut path = self.history.iter().map(|beta| beta[j]);
                let first = path.next().unwrap_or_default();
                let (mut last, mut travelled) = (first, 0.0);
                for beta in path {
                    travelled += (beta - last).abs();
                    last = beta;
                }
                (travelled - (last - first).abs()) / self.gamma() / (solves - 1) as f64
            })
            .fold(0.0, f64::max)
    }
}
