//! Gaussians and mixtures, with their closed forms.

use earthmover::{Dense, Error, Exact, Gaussian, Marginals, Mixture, Problem};

use crate::near;

#[test]
fn commuting_covariances_differ_by_their_roots_at_any_scale() {
    for scale in [1e-120, 1e-6, 1.0, 1e6, 1e120] {
        let (s, t) = (scale * scale, scale);
        let a = Gaussian::new(&[t, 0.0], &[4.0 * s, 0.0, 0.0, 9.0 * s]).unwrap();
        let b = Gaussian::new(&[0.0, 0.0], &[s, 0.0, 0.0, 25.0 * s]).unwrap();
        // |m|² + (2 − 1)² + (3 − 5)² = 6.
        let distance = a.distance(&b).unwrap() / t;
        assert!(near(distance, 6.0_f64.sqrt(), 1e-12), "{scale}: {distance}");
        let map = a.map(&b).unwrap();
        let expected = [0.5, 0.0, 0.0, 5.0 / 3.0];
        for (m, e) in map.matrix().iter().zip(expected) {
            assert!((m - e).abs() < 1e-12, "{scale}");
        }
        let both = [a.clone(), b.clone()];
        let found = Gaussian::barycenter(&both, &[0.5, 0.5]).unwrap();
        for (c, e) in found
            .gaussian
            .covariance()
            .iter()
            .zip([2.25, 0.0, 0.0, 16.0])
        {
            assert!((c / s - e).abs() < 1e-9, "{scale}: {c}");
        }
        assert!(near(found.value / s, 6.0 / 4.0, 1e-9));
        let half = a.toward(&b, 0.5).unwrap();
        assert!(found.gaussian.distance(&half).unwrap() / t < 1e-9);
    }
}

#[test]
fn points_are_gaussians_without_spread() {
    let at = |x: f64, y: f64| Gaussian::new(&[x, y], &[0.0; 4]).unwrap();
    let (a, b) = (at(0.0, 0.0), at(3.0, 4.0));
    assert!(near(a.distance(&b).unwrap(), 5.0, 1e-14));
    let found = Gaussian::barycenter(&[a.clone(), b.clone()], &[1.0, 3.0]).unwrap();
    assert!(found.status.is_converged());
    assert_eq!(found.gaussian.mean(), [2.25, 3.0]);
    // Flat ones across each other meet in a disc: S = Σ ½ (S^½ A S^½)^½.
    let flat =
        [[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]].map(|c| Gaussian::new(&[0.0; 2], &c).unwrap());
    let found = Gaussian::barycenter(&flat, &[1.0, 1.0]).unwrap();
    for (c, e) in found
        .gaussian
        .covariance()
        .iter()
        .zip([0.25, 0.0, 0.0, 0.25])
    {
        assert!((c - e).abs() < 1e-9);
    }
    // Mixtures of points are plain transport.
    let (xs, ys) = (
        [[0.0, 0.0], [1.0, 0.0]],
        [[0.0, 1.0], [2.0, 2.0], [5.0, 0.0]],
    );
    let mixture = |points: &[[f64; 2]], w: &[f64]| {
        Mixture::new(points.iter().map(|p| at(p[0], p[1])).collect(), w).unwrap()
    };
    let (p, q) = (mixture(&xs, &[1.0, 2.0]), mixture(&ys, &[1.0, 1.0, 1.0]));
    let costs: Vec<f64> = xs
        .iter()
        .flat_map(|x| ys.map(|y| (x[0] - y[0]).powi(2) + (x[1] - y[1]).powi(2)))
        .collect();
    let marginals = Marginals::normalised(&[1.0, 2.0], &[1.0; 3]).unwrap();
    let total = marginals.total();
    let problem = Problem::new(Dense::new(&costs, 2, 3).unwrap(), marginals).unwrap();
    let exact = Exact::new().solve(&problem).unwrap().objective() / total;
    let found = p.transport(&q).unwrap();
    assert!(near(found.cost, exact, 1e-12) && near(found.dual, exact, 1e-12));
}

#[test]
fn a_turned_covariance_is_as_far_as_the_formula_says() {
    // diag(4, 1) turned by θ: tr (A^½ B A^½)^½ = √(tr AB + 2 √(det A det B)).
    let a = Gaussian::new(&[0.0, 0.0], &[4.0, 0.0, 0.0, 1.0]).unwrap();
    for angle in [0.1f64, 0.7, 1.5] {
        let (c, s) = (angle.cos(), angle.sin());
        let b = [
            4.0 * c * c + s * s,
            3.0 * c * s,
            3.0 * c * s,
            4.0 * s * s + c * c,
        ];
        let with = 4.0 * b[0] + b[3];
        let expected = 10.0 - 2.0 * (with + 2.0 * 4.0).sqrt();
        let b = Gaussian::new(&[0.0, 0.0], &b).unwrap();
        assert!(near(a.distance(&b).unwrap().powi(2), expected, 1e-12));
    }
}

#[test]
fn odd_gaussians_are_refused() {
    assert!(Gaussian::new(&[f64::NAN], &[1.0]).is_err());
    assert!(matches!(
        Gaussian::new(&[0.0], &[f64::INFINITY]),
        Err(Error::Matrix { .. })
    ));
    assert!(Gaussian::new(&[0.0], &[-1.0]).is_err());
    assert!(Gaussian::new(&[0.0], &[1e300]).is_err());
    let one = Gaussian::new(&[0.0], &[1.0]).unwrap();
    let two = Gaussian::new(&[0.0; 2], &[1.0, 0.0, 0.0, 1.0]).unwrap();
    assert!(one.distance(&two).is_err() && one.map(&two).is_err());
    assert!(Gaussian::barycenter(&[one.clone(), two.clone()], &[1.0, 1.0]).is_err());
    assert!(Gaussian::barycenter(std::slice::from_ref(&one), &[0.0]).is_err());
    assert!(Gaussian::barycenter(std::slice::from_ref(&one), &[f64::NAN]).is_err());
    assert!(Mixture::new(vec![], &[]).is_err());
    assert!(Mixture::new(vec![one.clone(), two.clone()], &[1.0, 1.0]).is_err());
    assert!(Gaussian::fit(&[1.0, 2.0], Some(&[0.0, 0.0]), 1).is_err());
    assert!(Gaussian::fit(&[1e200, -1e200], None, 1).is_err());
    let alone = Gaussian::fit(&[7.0, 8.0], None, 2).unwrap();
    assert_eq!(
        (alone.mean(), alone.covariance()),
        (&[7.0, 8.0][..], &[0.0; 4][..])
    );
    assert!(one.map(&one).unwrap().apply(&[f64::NAN]).is_err());
    assert!(one.toward(&one, f64::NAN).is_err());
}
