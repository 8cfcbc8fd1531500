//! Barycentres of Gaussians, which are Gaussian.
//!
//! The mean is the mean of the means. The covariance solves S = Σ w_k (S^½ A_k S^½)^½; the iteration
//! S ← S^−½ (Σ w_k (S^½ A_k S^½)^½)² S^−½ climbs to it from any full start, a fixed share of the way each time.

use nalgebra::DMatrix;

use super::{Gaussian, pseudo_inverse, root};
use crate::problem::marginals::shares;
use crate::{Error, Side, Status};

/// A barycentre of Gaussians and how near it is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GaussianBarycenter {
    /// The barycentre.
    pub gaussian: Gaussian,
    /// Whether the residual met its tolerance of 1e-12, or rounding leaves no more.
    pub status: Status,
    /// How often the covariance was improved.
    pub iterations: usize,
    /// ‖S − Σ w_k (S^½ A_k S^½)^½‖ as a share of ‖S‖: zero at the barycentre, and only there.
    pub residual: f64,
    /// Σ w_k W₂²(barycentre, k).
    pub value: f64,
}

const TOLERANCE: f64 = 1e-12;
const MOST_ITERATIONS: usize = 10_000;

impl Gaussian {
    /// The 2-Wasserstein barycentre of some Gaussians with these weights, which are scaled to a total of one.
    ///
    /// # Errors
    /// [`Error::Empty`] where there is none, [`Error::Length`] where dimensions differ or the weights are not as many,
    /// [`Error::Mass`] or [`Error::NoMass`] for weights that are none.
    ///
    /// # Examples
    /// ```
    /// use earthmover::Gaussian;
    /// let (a, b) = (Gaussian::new(&[0.0], &[1.0])?, Gaussian::new(&[4.0], &[9.0])?);
    /// let middle = Gaussian::barycenter(&[a, b], &[1.0, 1.0])?;
    /// assert!(middle.status.is_converged());
    /// assert!((middle.gaussian.covariance()[0] - 4.0).abs() < 1e-9); // spreads 1 and 3
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn barycenter(gaussians: &[Self], weights: &[f64]) -> Result<GaussianBarycenter, Error> {
        let shares = shares(weights, gaussians.len(), Side::Rows, "weights")?;
        for other in gaussians {
            gaussians[0].same_space(other)?;
        }
        let d = gaussians[0].dimension();
        // Over the largest entry of all, so that no product leaves the range of numbers.
        let largest = gaussians.iter().map(|g| g.covariance.amax());
        let largest = largest.fold(0.0, f64::max);
        let scale = if largest > 0.0 { largest } else { 1.0 };
        let covariances: Vec<DMatrix<f64>> =
            gaussians.iter().map(|g| &g.covariance / scale).collect();
        let mut mean = nalgebra::DVector::zeros(d);
        let mut covariance = DMatrix::zeros(d, d);
        for ((g, c), w) in gaussians.iter().zip(&covariances).zip(&shares) {
            mean += &g.mean * *w;
            covariance += c * *w;
        }
        let (mut residual, mut iterations) = (f64::INFINITY, 0);
        let status = loop {
            let half = root(&covariance)?;
            let mut sum = DMatrix::zeros(d, d);
            for (c, w) in covariances.iter().zip(&shares) {
                sum += root(&(&half * c * &half))? * *w;
            }
            let size = covariance.norm();
            let now = if size > 0.0 {
                (&sum - &covariance).norm() / size
            } else {
                0.0
            };
            let stuck = iterations > 3 && !(now < residual);
            residual = now.min(residual);
            if residual <= TOLERANCE {
                break Status::Converged;
            }
            if stuck {
                break Status::Stalled;
            }
            if iterations == MOST_ITERATIONS {
                break Status::IterationLimit;
            }
            iterations += 1;
            let (inverse, _) = pseudo_inverse(&half);
            covariance = &inverse * &sum * &sum * &inverse;
            covariance = (&covariance + covariance.transpose()) * 0.5;
        };
        let gaussian = Self::of(mean, covariance * scale)?;
        let mut value = 0.0;
        for (g, w) in gaussians.iter().zip(&shares) {
            value += w * gaussian.distance(g)?.powi(2);
        }
        Ok(GaussianBarycenter {
            gaussian,
            status,
            iterations,
            residual,
            value,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::tests::random_gaussian;
    use super::*;
    use crate::kernel::random::Random;

    #[test]
    fn maps_from_the_barycentre_average_to_nothing() {
        let mut random = Random::new(32, 0);
        let all: Vec<Gaussian> = (0..4).map(|_| random_gaussian(&mut random, 3)).collect();
        let weights = [1.0, 2.0, 0.5, 0.5];
        let found = Gaussian::barycenter(&all, &weights).unwrap();
        assert!(found.residual < 1e-10);
        let mut mean = DMatrix::zeros(3, 3);
        for (g, w) in all.iter().zip(weights) {
            mean += found.gaussian.map(g).unwrap().matrix * (w / 4.0);
        }
        assert!((mean - DMatrix::identity(3, 3)).norm() < 1e-8);
        // Nobody nearby is better.
        for step in [-1e-3, 1e-3] {
            let other = found.gaussian.toward(&all[0], 1e-3 + step).unwrap();
            let value = |g: &Gaussian| -> f64 {
                let each = all.iter().zip(weights);
                each.map(|(k, w)| w / 4.0 * g.distance(k).unwrap().powi(2))
                    .sum()
            };
            assert!(value(&other) >= found.value - 1e-12);
        }
    }

    #[test]
    fn two_meet_on_their_geodesic_and_one_is_its_own() {
        let mut random = Random::new(33, 0);
        let (a, b) = (
            random_gaussian(&mut random, 2),
            random_gaussian(&mut random, 2),
        );
        let found = Gaussian::barycenter(&[a.clone(), b.clone()], &[3.0, 1.0]).unwrap();
        let expected = a.toward(&b, 0.25).unwrap();
        assert!(found.gaussian.distance(&expected).unwrap() < 1e-8);
        let alone = Gaussian::barycenter(std::slice::from_ref(&a), &[1.0]).unwrap();
        assert!(alone.gaussian.distance(&a).unwrap() < 1e-9);
        assert!(Gaussian::barycenter(&[], &[]).is_err());
        assert!(Gaussian::barycenter(&[a, b], &[1.0]).is_err());
    }
}
