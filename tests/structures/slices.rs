//! Sliced distances.

use earthmover::{Error, Sliced, line};
use earthmover_testkit::Rng;

use crate::{cloud, near, shifted};

#[test]
fn translations_are_seen_as_their_shadows() {
    let mut rng = Rng(11);
    for d in [2, 3, 10] {
        let x = cloud(&mut rng, 30, d);
        let by: Vec<f64> = (0..d).map(|k| 1.0 + k as f64 / 4.0).collect();
        let length = by.iter().map(|t| t * t).sum::<f64>().sqrt();
        let y = shifted(&x, &by);
        let sliced = Sliced::new().projections(2_000).seed(5);
        let found = sliced.distance(&x, &y, d).unwrap();
        let expected = length / (d as f64).sqrt();
        assert!((found.value - expected).abs() < 5.0 * found.standard_error);
        assert!(found.standard_error < 0.05 * found.value);
        let most = sliced.projections(50).max(&x, None, &y, None, d).unwrap();
        assert!(near(most.value, length, 1e-6), "{} {length}", most.value);
    }
}

#[test]
fn the_error_is_what_draws_scatter_by() {
    let mut rng = Rng(12);
    let (x, y) = (cloud(&mut rng, 20, 3), cloud(&mut rng, 25, 3));
    let many = Sliced::new().projections(20_000).seed(99);
    let truth = many.distance(&x, &y, 3).unwrap().value;
    let draws: Vec<(f64, f64)> = (0..60)
        .map(|seed| {
            let few = Sliced::new().projections(50).seed(seed);
            let found = few.distance(&x, &y, 3).unwrap();
            (found.value - truth, found.standard_error)
        })
        .collect();
    let scatter = (draws.iter().map(|d| d.0 * d.0).sum::<f64>() / 60.0).sqrt();
    let said = draws.iter().map(|d| d.1).sum::<f64>() / 60.0;
    assert!(
        scatter < 1.5 * said && said < 1.5 * scatter,
        "{scatter} {said}"
    );
}

#[test]
fn odd_clouds_are_answered_or_refused() {
    let sliced = Sliced::new().projections(16);
    let (x, y) = ([1.0, 2.0, 3.0], [4.0, 0.0, 9.0]);
    let flat = sliced.distance(&x, &y, 1).unwrap();
    assert!(near(
        flat.value,
        line::distance(&x, &y, 2.0).unwrap(),
        1e-12
    ));
    assert_eq!(flat.standard_error, 0.0);
    assert_eq!(sliced.distance(&x, &x, 3).unwrap().value, 0.0);
    let still = sliced.max(&x, None, &x, None, 3).unwrap();
    assert_eq!(still.value, 0.0);
    assert!(still.direction.iter().all(|c| c.is_finite()));
    for bad in [f64::NAN, f64::INFINITY] {
        assert!(matches!(
            sliced.distance(&[bad, 0.0], &[0.0, 0.0], 2),
            Err(Error::Point { .. })
        ));
        assert!(sliced.max(&[bad], None, &[0.0], None, 1).is_err());
    }
    assert!(sliced.distance(&x, &y, 2).is_err() && sliced.distance(&x, &y, 0).is_err());
    assert!(sliced.clone().projections(0).distance(&x, &y, 1).is_err());
    assert!(matches!(
        sliced.distance(&[1e200, 0.0], &[-1e200, 0.0], 2),
        Err(Error::TooFar { .. })
    ));
    assert!(
        sliced
            .gradients(&[1e200, 0.0], None, &[-1e200, 0.0], None, 2)
            .is_err()
    );
    assert!(
        sliced
            .max(&[1e200, 0.0], None, &[-1e200, 0.0], None, 2)
            .is_err()
    );
}
