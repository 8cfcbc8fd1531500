//! Gaussians: the case with closed forms.
//!
//! ```text
//! W₂²(N(m, A), N(n, B)) = |m − n|² + tr A + tr B − 2 tr (A^½ B A^½)^½          (Bures, 1969; Gelbrich, 1990)
//! T(x) = n + A^−½ (A^½ B A^½)^½ A^−½ (x − m)                                  the optimal map
//! S = Σ_k w_k (S^½ A_k S^½)^½                                                   covariance of the barycentre
//! ```
//!
//! The covariance part is the least ‖A^½ − B^½ Q‖² over rotations Q, and is worked out as that: nothing cancels where
//! the two are nearly the same. Covariances may be singular. Mixtures are moved component by component, exactly
//! ([`Mixture`]).
//!
//! # References
//! Álvarez-Esteban, del Barrio, Cuesta-Albertos and Matrán, *A fixed-point approach to barycenters in Wasserstein space*, 2016.
//! Delon and Desolneux, *A Wasserstein-type distance in the space of Gaussian mixture models*, 2020.

mod barycenter;
mod mixture;

pub use barycenter::GaussianBarycenter;
pub use mixture::{Mixture, MixtureTransport};

use nalgebra::{DMatrix, DVector};

use crate::cost::check_points;
use crate::problem::marginals::shares;
use crate::{Error, Real, Side};

/// A normal distribution; its covariance may be singular.
///
/// # Examples
/// ```
/// use earthmover::Gaussian;
/// let round = Gaussian::new(&[0.0, 0.0], &[1.0, 0.0, 0.0, 1.0])?;
/// let long = Gaussian::new(&[3.0, 0.0], &[9.0, 0.0, 0.0, 1.0])?;
/// // 3² for the means and (3 − 1)² for the spreads.
/// assert!((round.distance(&long)? - 13f64.sqrt()).abs() < 1e-12);
/// let map = round.map(&long)?;
/// assert!((map.apply(&[1.0, 1.0])?[0] - 6.0).abs() < 1e-12);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Gaussian {
    mean: DVector<f64>,
    covariance: DMatrix<f64>,
    /// A^½.
    root: DMatrix<f64>,
}

/// An affine map x ↦ b + M x with a symmetric matrix: the optimal one between two Gaussians.
#[derive(Debug, Clone, PartialEq)]
pub struct AffineMap {
    matrix: DMatrix<f64>,
    offset: DVector<f64>,
}

/// Entries that should be equal may differ by this share of the largest, and eigenvalues be as far below zero.
const ASYMMETRY: f64 = 1e-9;

/// Eigenvalues below this share of the largest are what rounding leaves of zero.
const RANK: f64 = 1e-13;

impl Gaussian {
    /// The Gaussian with this mean and covariance, row-major.
    ///
    /// # Errors
    /// [`Error::Empty`] without a coordinate, [`Error::Length`] for a covariance of another size, [`Error::Matrix`] for entries that are
    /// not finite or not symmetric, [`Error::Option`] for a negative eigenvalue.
    pub fn new(mean: &[f64], covariance: &[f64]) -> Result<Self, Error> {
        let d = mean.len();
        check_points(mean, d, Side::Rows)?;
        if covariance.len() != d * d {
            return Err(Error::Length {
                what: "covariance",
                expected: d * d,
                found: covariance.len(),
            });
        }
        let matrix = DMatrix::from_row_slice(d, d, covariance);
        check_symmetric(&matrix)?;
        Self::of(DVector::from_column_slice(mean), matrix)
    }

    /// The Gaussian with the mean and covariance of some points, row-major, with weights (scaled to a total of one) or, where
    /// `None`, equal ones. The covariance is that of the points themselves, divided by n.
    ///
    /// # Errors
    /// [`Error::Empty`], [`Error::Length`] or [`Error::Point`] for points that are none, [`Error::Mass`] or [`Error::NoMass`] for
    /// weights that are none.
    ///
    /// # Examples
    /// ```
    /// use earthmover::Gaussian;
    /// let fitted = Gaussian::fit(&[0.0, 0.0, 2.0, 2.0], None, 2)?;
    /// assert_eq!(fitted.mean(), [1.0, 1.0]);
    /// assert!(fitted.covariance().iter().all(|c| (c - 1.0).abs() < 1e-12));
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn fit<T: Real>(
        points: &[T],
        weights: Option<&[T]>,
        dimension: usize,
    ) -> Result<Self, Error> {
        check_points(points, dimension, Side::Rows)?;
        let count = points.len() / dimension;
        let shares = match weights {
            Some(weights) => shares(weights, count, Side::Rows, "weights")?,
            None => vec![1.0 / count as f64; count],
        };
        let points = DMatrix::from_iterator(dimension, count, points.iter().map(|x| x.widen()));
        let mean = &points * DVector::from_vec(shares.clone());
        let mut scaled = points;
        for (mut column, share) in scaled.column_iter_mut().zip(shares) {
            column -= &mean;
            column *= share.sqrt();
        }
        let covariance = &scaled * scaled.transpose();
        Self::of(mean, covariance)
    }

    fn of(mean: DVector<f64>, covariance: DMatrix<f64>) -> Result<Self, Error> {
        near_enough(covariance.amax())?;
        let covariance = (&covariance + covariance.transpose()) * 0.5;
        let root = root(&covariance)?;
        Ok(Self {
            mean,
            covariance,
            root,
        })
    }

    /// Number of coordinates.
    #[must_use]
    pub fn dimension(&self) -> usize {
        self.mean.len()
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> &[f64] {
        self.mean.as_slice()
    }

    /// The covariance; symmetric, so that rows and columns need not be told apart.
    #[must_use]
    pub fn covariance(&self) -> &[f64] {
        self.covariance.as_slice()
    }

    /// W₂ to another Gaussian.
    ///
    /// # Errors
    /// [`Error::Length`] where the dimensions differ.
    pub fn distance(&self, other: &Self) -> Result<f64, Error> {
        let means = (&self.mean - self.same_space(other)?).norm();
        near_enough(means.hypot(self.bures(other)?))
    }

    /// The Bures distance of the covariances: W₂ with the means put on top of each other.
    ///
    /// # Errors
    /// [`Error::Length`] where the dimensions differ.
    ///
    /// # Examples
    /// ```
    /// use earthmover::Gaussian;
    /// let (a, b) = (Gaussian::new(&[0.0], &[4.0])?, Gaussian::new(&[7.0], &[9.0])?);
    /// assert!((a.bures(&b)? - 1.0).abs() < 1e-15); // |2 − 3|
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn bures(&self, other: &Self) -> Result<f64, Error> {
        self.same_space(other)?;
        // Neither's size changes which rotation is the best.
        let svd = (over_largest(&other.root).0 * over_largest(&self.root).0).svd(true, true);
        let (Some(u), Some(v)) = (svd.u, svd.v_t) else {
            return Ok(f64::NAN); // Both were asked for.
        };
        Ok((&self.root - &other.root * (u * v)).norm())
    }

    /// The optimal map to another Gaussian.
    ///
    /// # Errors
    /// [`Error::Length`] where the dimensions differ, [`Error::Option`] where this one is flat in a direction in which the other is not:
    /// then mass has to split, and there is no map.
    pub fn map(&self, other: &Self) -> Result<AffineMap, Error> {
        self.same_space(other)?;
        // Of covariances over their largest entries, so that no product leaves the range of numbers.
        let ((own, size), (theirs, other_size)) = (
            over_largest(&self.covariance),
            over_largest(&other.covariance),
        );
        let half = root(&own)?;
        let (inverse, least) = pseudo_inverse(&half);
        let middle = root(&(&half * &theirs * &half))?;
        let matrix = &inverse * middle * &inverse;
        let matrix = (&matrix + matrix.transpose()) * 0.5;
        let reached = &matrix * &own * &matrix;
        if (reached - &theirs).norm() > 1e-6 * theirs.norm() {
            return Err(Error::Option {
                name: "least eigenvalue of the covariance",
                value: least * least * size,
                expected: "above zero wherever the other's is: otherwise there is no map",
            });
        }
        let matrix = matrix * (other_size / size).sqrt();
        let offset = &other.mean - &matrix * &self.mean;
        Ok(AffineMap { matrix, offset })
    }

    /// The Gaussian a share `t` of the way along the geodesic to another.
    ///
    /// # Errors
    /// As [`map`](Self::map), and [`Error::Option`] for a share outside 0 to 1.
    ///
    /// # Examples
    /// ```
    /// use earthmover::Gaussian;
    /// let (a, b) = (Gaussian::new(&[0.0], &[1.0])?, Gaussian::new(&[4.0], &[9.0])?);
    /// let middle = a.toward(&b, 0.5)?;
    /// assert_eq!((middle.mean(), middle.covariance()), (&[2.0][..], &[4.0][..]));
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn toward(&self, other: &Self, t: f64) -> Result<Self, Error> {
        if !(0.0..=1.0).contains(&t) {
            return Err(Error::Option {
                name: "share of the way",
                value: t,
                expected: "a number from 0 to 1",
            });
        }
        let d = self.dimension();
        let step = DMatrix::identity(d, d) * (1.0 - t) + self.map(other)?.matrix * t;
        let mean = &self.mean * (1.0 - t) + &other.mean * t;
        Self::of(mean, &step * &self.covariance * &step)
    }

    /// The other's mean, if it lives in the same space.
    fn same_space<'a>(&self, other: &'a Self) -> Result<&'a DVector<f64>, Error> {
        let (expected, found) = (self.dimension(), other.dimension());
        if expected == found {
            return Ok(&other.mean);
        }
        Err(Error::Length {
            what: "dimensions of a Gaussian",
            expected,
            found,
        })
    }
}

impl AffineMap {
    /// The linear part; symmetric.
    #[must_use]
    pub fn matrix(&self) -> &[f64] {
        self.matrix.as_slice()
    }

    /// Where the origin goes.
    #[must_use]
    pub fn offset(&self) -> &[f64] {
        self.offset.as_slice()
    }

    /// Where some points, row-major, go.
    ///
    /// # Errors
    /// [`Error::Empty`], [`Error::Length`] or [`Error::Point`] for points that are none.
    pub fn apply<T: Real>(&self, points: &[T]) -> Result<Vec<f64>, Error> {
        let d = self.offset.len();
        check_points(points, d, Side::Rows)?;
        let columns = points.len() / d;
        let points = DMatrix::from_iterator(d, columns, points.iter().map(|x| x.widen()));
        let mut moved = &self.matrix * points;
        moved.column_iter_mut().for_each(|mut x| x += &self.offset);
        Ok(moved.as_slice().to_vec())
    }
}

fn check_symmetric(matrix: &DMatrix<f64>) -> Result<(), Error> {
    let largest = matrix.amax();
    for row in 0..matrix.nrows() {
        for col in 0..matrix.ncols() {
            let value = matrix[(row, col)];
            let expected = if !value.is_finite() {
                "finite"
            } else if (value - matrix[(col, row)]).abs() > ASYMMETRY * largest {
                "the same as its mirror image"
            } else {
                continue;
            };
            return Err(Error::Matrix {
                what: "covariance",
                row,
                col,
                value,
                expected,
            });
        }
    }
    Ok(())
}

/// A matrix over its largest entry, and that entry; one for a matrix of zeros.
fn over_largest(matrix: &DMatrix<f64>) -> (DMatrix<f64>, f64) {
    let largest = matrix.amax();
    let size = if largest > 0.0 { largest } else { 1.0 };
    (matrix / size, size)
}

/// A number, unless it is beyond what can be calculated with.
fn near_enough(x: f64) -> Result<f64, Error> {
    let largest = <f64 as Real>::LARGEST_COST;
    if x <= largest {
        return Ok(x);
    }
    Err(Error::TooFar { cost: x, largest })
}

/// The symmetric root of a covariance.
fn root(covariance: &DMatrix<f64>) -> Result<DMatrix<f64>, Error> {
    let (covariance, size) = over_largest(covariance);
    let eigen = covariance.symmetric_eigen();
    let largest = eigen.eigenvalues.amax();
    let least = eigen.eigenvalues.min();
    if least < -ASYMMETRY * largest {
        return Err(Error::Option {
            name: "least eigenvalue of the covariance",
            value: least * size,
            expected: "not negative",
        });
    }
    let roots = eigen.eigenvalues.map(|x| x.max(0.0).sqrt() * size.sqrt());
    Ok(&eigen.eigenvectors * DMatrix::from_diagonal(&roots) * eigen.eigenvectors.transpose())
}

/// The inverse on the range of a symmetric matrix, zero beside it; and its least eigenvalue.
fn pseudo_inverse(root: &DMatrix<f64>) -> (DMatrix<f64>, f64) {
    let eigen = root.clone().symmetric_eigen();
    // Of a root, whose eigenvalues are roots.
    let least = eigen.eigenvalues.amax() * RANK.sqrt();
    let inverse = eigen
        .eigenvalues
        .map(|x| if x > least { 1.0 / x } else { 0.0 });
    let inverse =
        &eigen.eigenvectors * DMatrix::from_diagonal(&inverse) * eigen.eigenvectors.transpose();
    (inverse, eigen.eigenvalues.min())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::random::Random;

    pub(super) fn random_gaussian(random: &mut Random, d: usize) -> Gaussian {
        let mean: Vec<f64> = (0..d).map(|_| random.normal()).collect();
        let factor = DMatrix::from_fn(d, d, |_, _| random.normal());
        let covariance = &factor * factor.transpose();
        Gaussian::new(&mean, covariance.as_slice()).unwrap()
    }

    #[test]
    fn distances_agree_with_the_formula_and_the_map() {
        let mut random = Random::new(31, 0);
        for d in [1, 2, 5] {
            let (a, b) = (
                random_gaussian(&mut random, d),
                random_gaussian(&mut random, d),
            );
            let middle = root(&(&a.root * &b.covariance * &a.root)).unwrap();
            let formula =
                (&a.mean - &b.mean).norm_squared() + a.covariance.trace() + b.covariance.trace()
                    - 2.0 * middle.trace();
            let distance = a.distance(&b).unwrap();
            assert!((distance * distance - formula).abs() < 1e-9);
            assert!((b.distance(&a).unwrap() - distance).abs() < 1e-9);
            // E|X − T(X)|² is what the map costs.
            let map = a.map(&b).unwrap();
            let id = DMatrix::identity(d, d);
            let moved = (&map.matrix - id) * &a.root;
            let shift = &map.offset + &map.matrix * &a.mean - &a.mean;
            assert!((moved.norm_squared() + shift.norm_squared() - formula).abs() < 1e-9);
            let halfway = a.toward(&b, 0.5).unwrap();
            assert!((a.distance(&halfway).unwrap() - 0.5 * distance).abs() < 1e-9);
        }
    }

    #[test]
    fn nothing_cancels_between_near_twins() {
        let a = Gaussian::new(&[0.0], &[1.0]).unwrap();
        let b = Gaussian::new(&[0.0], &[(1.0 + 1e-12) * (1.0 + 1e-12)]).unwrap();
        assert!((a.distance(&b).unwrap() - 1e-12).abs() < 1e-15);
        let c = Gaussian::new(&[0.0, 0.0], &[2.0, 0.5, 0.5, 1.0]).unwrap();
        assert!(c.distance(&c).unwrap() < 1e-14);
    }

    #[test]
    fn flat_gaussians_have_distances_and_some_have_maps() {
        let flat = Gaussian::new(&[0.0, 0.0], &[1.0, 0.0, 0.0, 0.0]).unwrap();
        let longer = Gaussian::new(&[0.0, 0.0], &[4.0, 0.0, 0.0, 0.0]).unwrap();
        let round = Gaussian::new(&[0.0, 0.0], &[1.0, 0.0, 0.0, 1.0]).unwrap();
        assert!((flat.distance(&round).unwrap() - 1.0).abs() < 1e-12);
        assert!((flat.map(&longer).unwrap().apply(&[3.0, 0.0]).unwrap()[0] - 6.0).abs() < 1e-9);
        assert!(matches!(flat.map(&round), Err(Error::Option { .. })));
        assert!(round.map(&flat).is_ok());
    }

    #[test]
    fn wrong_questions_are_refused() {
        let two = |c: [f64; 4]| Gaussian::new(&[0.0, 0.0], &c);
        assert!(matches!(
            two([1.0, 0.5, 0.4, 1.0]),
            Err(Error::Matrix { .. })
        ));
        assert!(matches!(
            two([1.0, f64::NAN, f64::NAN, 1.0]),
            Err(Error::Matrix { row: 0, col: 1, .. })
        ));
        assert!(matches!(
            two([1.0, 2.0, 2.0, 1.0]),
            Err(Error::Option { .. })
        ));
        assert!(Gaussian::new(&[], &[]).is_err() && Gaussian::new(&[0.0], &[1.0, 2.0]).is_err());
        let one = Gaussian::new(&[0.0], &[1.0]).unwrap();
        assert!(one.distance(&two([1.0, 0.0, 0.0, 1.0]).unwrap()).is_err());
    }
}
