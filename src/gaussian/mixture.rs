//! Mixtures of Gaussians, moved component by component.
//!
//! ```text
//! MW₂²(μ, ν) = min_P Σ_kl P_kl W₂²(μ_k, ν_l)          P with the components' weights as its marginals
//! ```
//!
//! That is W₂² over plans that are mixtures of Gaussians themselves: never less than W₂², and at most a constant of the spreads
//! more (Delon and Desolneux, 2020). A problem of a few rows and columns, solved exactly, with its certificate.

use super::Gaussian;
use crate::problem::marginals::shares;
use crate::{Dense, Entry, Error, Exact, Marginals, Problem, Side, Status};

/// A mixture of Gaussians.
///
/// # Examples
/// ```
/// use earthmover::{Gaussian, Mixture};
/// let at = |x: f64| Gaussian::new(&[x], &[1.0]);
/// let here = Mixture::new(vec![at(0.0)?, at(10.0)?], &[1.0, 1.0])?;
/// let there = Mixture::new(vec![at(11.0)?, at(1.0)?], &[1.0, 1.0])?;
/// let transport = here.transport(&there)?;
/// assert!((transport.distance() - 1.0).abs() < 1e-12); // each moves by one
/// assert_eq!(transport.plan.len(), 2);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    components: Vec<Gaussian>,
    weights: Vec<f64>,
}

/// How one mixture is moved onto another.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MixtureTransport {
    /// MW₂².
    pub cost: f64,
    /// A lower bound of MW₂², equal up to rounding.
    pub dual: f64,
    /// How the exact solver ended.
    pub status: Status,
    /// Which component gives how much to which.
    pub plan: Vec<Entry>,
}

impl MixtureTransport {
    /// MW₂.
    #[must_use]
    pub fn distance(&self) -> f64 {
        self.cost.max(0.0).sqrt()
    }
}

impl Mixture {
    /// A mixture of these components with these weights, which are scaled to a total of one.
    ///
    /// # Errors
    /// [`Error::Empty`] for none, [`Error::Length`] where dimensions differ or the weights are not as many, [`Error::Mass`] or
    /// [`Error::NoMass`] for weights that are none.
    pub fn new(components: Vec<Gaussian>, weights: &[f64]) -> Result<Self, Error> {
        let weights = shares(weights, components.len(), Side::Rows, "weights")?;
        for other in &components {
            components[0].same_space(other)?;
        }
        Ok(Self {
            components,
            weights,
        })
    }

    /// The components.
    #[must_use]
    pub fn components(&self) -> &[Gaussian] {
        &self.components
    }

    /// Their weights, of total one.
    #[must_use]
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The cheapest way to move the components onto those of another mixture.
    ///
    /// # Errors
    /// [`Error::Length`] where the dimensions differ, and whatever the exact solver refuses.
    pub fn transport(&self, other: &Self) -> Result<MixtureTransport, Error> {
        let mut costs = Vec::with_capacity(self.weights.len() * other.weights.len());
        for a in &self.components {
            for b in &other.components {
                costs.push(a.distance(b)?.powi(2));
            }
        }
        let cost = Dense::new(&costs, self.weights.len(), other.weights.len())?;
        let marginals = Marginals::normalised(&self.weights, &other.weights)?;
        let problem = Problem::new(cost, marginals)?;
        let solution = Exact::new().solve(&problem)?;
        let proof = solution.certificate();
        Ok(MixtureTransport {
            cost: proof.primal,
            dual: proof.dual,
            status: solution.status(),
            plan: solution.plan().entries(0.0),
        })
    }
}
