//! Wrong questions: each is refused with the numbers that are wrong in it, by every solver, in both scalars.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use earthmover::{
    Contracted, Cost, Dense, Error, FromFn, Marginals, NetworkSimplex, Newton, PointCloud,
    Potentials, Problem, Real, Side, Sinkhorn, Slack, SquaredEuclidean,
};

const INF: f64 = f64::INFINITY;

/// The errors of all solvers, in both scalars, on a dense cost.
fn refusals(cost: &[f64], marginals: &Marginals) -> Vec<Error> {
    fn of<T: Real>(cost: &[f64], marginals: &Marginals) -> Vec<Error> {
        let (n, m) = (marginals.rows().len(), marginals.cols().len());
        let cost: Vec<T> = cost.iter().map(|&c| T::narrow(c)).collect();
        let dense = Problem::new(Dense::new(&cost, n, m).unwrap(), marginals.clone()).unwrap();
        let lazy = FromFn::new(n, m, |i, j| cost[i * m + j]).unwrap();
        let lazy = Problem::new(lazy, marginals.clone()).unwrap();
        vec![
            Sinkhorn::new(0.1).solve(&dense).unwrap_err(),
            Sinkhorn::new(0.1).solve(&lazy).unwrap_err(),
            Newton::new(0.1).solve(&dense).unwrap_err(),
            Newton::new(0.1).solve(&lazy).unwrap_err(),
            NetworkSimplex::new().solve(&dense).unwrap_err(),
            NetworkSimplex::new().solve(&lazy).unwrap_err(),
            Contracted::new().solve(&dense).unwrap_err(),
            Contracted::new().solve(&lazy).unwrap_err(),
        ]
    }
    let mut all = of::<f32>(cost, marginals);
    all.extend(of::<f64>(cost, marginals));
    all
}

fn square(masses: &[f64]) -> Marginals {
    Marginals::balanced(masses, masses).unwrap()
}

/// Asserts that a message holds every one of these words.
fn says(error: &Error, words: &[&str]) {
    let message = error.to_string();
    for word in words {
        assert!(message.contains(word), "{message:?} does not say {word:?}");
    }
}

#[test]
fn nan_costs() {
    for error in refusals(&[0.0, 1.0, f64::NAN, 0.0], &square(&[0.5, 0.5])) {
        assert!(
            matches!(error, Error::Cost { row: 1, col: 0, value } if value.is_nan()),
            "{error:?}"
        );
        says(&error, &["row 1", "column 0", "NaN"]);
    }
}

#[test]
fn costs_of_minus_infinity() {
    for error in refusals(&[0.0, -INF, 1.0, 0.0], &square(&[0.5, 0.5])) {
        assert_eq!(
            error,
            Error::Cost {
                row: 0,
                col: 1,
                value: -INF
            }
        );
        says(&error, &["row 0", "column 1", "-inf"]);
    }
}

#[test]
fn bad_costs_hide_nowhere() {
    // In a large table, in the last tile, in a row that carries next to nothing.
    let n = 150;
    let mut masses = vec![1.0; n];
    masses[n - 1] = 1e-9;
    for poison in [f64::NAN, -INF] {
        let mut cost: Vec<f64> = (0..n * n).map(|at| (at % 17) as f64).collect();
        cost[n * n - 2] = poison;
        for error in refusals(&cost, &square(&masses)) {
            assert!(
                matches!(
                    error,
                    Error::Cost {
                        row: 149,
                        col: 148,
                        ..
                    }
                ),
                "{error:?}"
            );
        }
    }
}

#[test]
fn masses_that_are_no_masses() {
    for (value, word) in [
        (f64::NAN, "NaN"),
        (-0.25, "-0.25"),
        (INF, "inf"),
        (-INF, "-inf"),
    ] {
        let error = Marginals::balanced(&[0.5, value], &[0.5, 0.5]).unwrap_err();
        assert!(matches!(
            error,
            Error::Mass {
                side: Side::Rows,
                index: 1,
                ..
            }
        ));
        says(&error, &["row 1", word]);
        let error = Marginals::balanced(&[0.5, 0.5], &[0.5, 0.25, value]).unwrap_err();
        assert!(matches!(
            error,
            Error::Mass {
                side: Side::Cols,
                index: 2,
                ..
            }
        ));
        says(&error, &["column 2", word]);
        let error = Marginals::bounded(&[value], &[1.0], 0.5).unwrap_err();
        assert!(matches!(
            error,
            Error::Mass {
                side: Side::Rows,
                index: 0,
                ..
            }
        ));
        for slack in [
            Slack {
                row: value,
                ..Slack::NONE
            },
            Slack {
                col: value,
                ..Slack::NONE
            },
        ] {
            let error = Marginals::with_slack(&[0.5], &[0.5], slack).unwrap_err();
            assert!(matches!(
                error,
                Error::Mass {
                    side: Side::SlackRow | Side::SlackCol,
                    ..
                }
            ));
            says(&error, &["slack", word]);
        }
    }
}

#[test]
fn masses_whose_sum_overflows() {
    let huge = [f64::MAX, f64::MAX];
    let error = Marginals::balanced(&huge, &huge).unwrap_err();
    assert!(
        matches!(error, Error::Mass { value, .. } if value == INF),
        "{error:?}"
    );
}

#[test]
fn no_mass_at_all() {
    let error = Marginals::balanced(&[0.0, 0.0], &[0.0]).unwrap_err();
    assert_eq!(error, Error::NoMass { side: Side::Rows });
    says(&error, &["row", "all zero"]);
    assert!(matches!(
        Marginals::balanced(&[1.0], &[0.0]).unwrap_err(),
        Error::NoMass { side: Side::Cols }
    ));
}

#[test]
fn sums_that_differ() {
    let error = Marginals::balanced(&[0.5, 0.75], &[0.5, 0.5]).unwrap_err();
    assert_eq!(
        error,
        Error::Unbalanced {
            rows: 1.25,
            cols: 1.0,
            tolerance: 1.25e-8
        }
    );
    says(&error, &["1.25", "to 1:", "2.5e-1", "1.25e-8"]);
    // Data in f32 is allowed the rounding of f32, and no more.
    assert!(Marginals::balanced(&[0.1f32; 10], &[1.00001f32]).is_ok());
    let error = Marginals::balanced(&[0.1f32; 10], &[1.001f32]).unwrap_err();
    assert!(
        matches!(error, Error::Unbalanced { tolerance, .. } if (tolerance - 1e-4).abs() < 1e-6)
    );
    // Slack counts.
    let slack = Slack {
        row: 1.0,
        ..Slack::NONE
    };
    assert_eq!(
        Marginals::with_slack(&[1.0], &[1.0], slack).unwrap_err(),
        Error::Unbalanced {
            rows: 2.0,
            cols: 1.0,
            tolerance: 2e-8
        }
    );
}

#[test]
fn lengths_that_do_not_fit() {
    let error = Dense::new(&[0.0; 5], 2, 3).unwrap_err();
    assert_eq!(
        error,
        Error::Length {
            what: "dense cost",
            expected: 6,
            found: 5
        }
    );
    says(&error, &["dense cost", "6", "5"]);
    let cost = [0.0; 6];
    let dense = || Dense::new(&cost, 2, 3).unwrap();
    let error = Problem::new(dense(), Marginals::uniform(3, 3).unwrap()).unwrap_err();
    assert_eq!(
        error,
        Error::Length {
            what: "row masses",
            expected: 2,
            found: 3
        }
    );
    let error = Problem::new(dense(), Marginals::uniform(2, 2).unwrap()).unwrap_err();
    assert_eq!(
        error,
        Error::Length {
            what: "column masses",
            expected: 3,
            found: 2
        }
    );
    let error = PointCloud::new(&[0.0; 5], &[0.0; 4], 2, SquaredEuclidean).unwrap_err();
    assert_eq!(
        error,
        Error::Length {
            what: "row points",
            expected: 6,
            found: 5
        }
    );
}

#[test]
fn empty_problems() {
    let none: [f64; 0] = [];
    assert_eq!(
        Dense::new(&none, 0, 3).unwrap_err(),
        Error::Empty { rows: 0, cols: 3 }
    );
    assert_eq!(
        Dense::new(&none, 3, 0).unwrap_err(),
        Error::Empty { rows: 3, cols: 0 }
    );
    says(
        &Dense::new(&none, 3, 0).unwrap_err(),
        &["3 rows", "0 columns"],
    );
    assert_eq!(
        Marginals::uniform(0, 4).unwrap_err(),
        Error::Empty { rows: 0, cols: 4 }
    );
    assert_eq!(
        Marginals::balanced(&none, &[1.0]).unwrap_err(),
        Error::Empty { rows: 0, cols: 1 }
    );
    assert_eq!(
        Marginals::bounded(&[1.0], &none, 0.0).unwrap_err(),
        Error::Empty { rows: 1, cols: 0 }
    );
    assert!(FromFn::new(0, 2, |_, _| 0.0).is_err());
    assert!(matches!(
        PointCloud::new(&none, &[0.0], 1, SquaredEuclidean).unwrap_err(),
        Error::Empty { .. }
    ));
    assert!(matches!(
        PointCloud::new(&[0.0], &[0.0], 0, SquaredEuclidean).unwrap_err(),
        Error::Empty { .. }
    ));
    #[cfg(feature = "nalgebra")]
    {
        let matrix = nalgebra::DMatrix::<f64>::zeros(0, 2);
        let error = Problem::new(matrix, Marginals::uniform(1, 2).unwrap()).unwrap_err();
        assert_eq!(error, Error::Empty { rows: 0, cols: 2 });
    }
}

#[test]
fn more_pairs_than_can_be_counted() {
    #[derive(Debug)]
    struct Endless;
    impl Cost<f64> for Endless {
        fn rows(&self) -> usize {
            usize::MAX / 2
        }
        fn cols(&self) -> usize {
            3
        }
        fn at(&self, _: usize, _: usize) -> f64 {
            0.0
        }
    }
    let error = Problem::new(Endless, Marginals::uniform(1, 1).unwrap()).unwrap_err();
    assert_eq!(
        error,
        Error::TooLarge {
            rows: usize::MAX / 2,
            cols: 3
        }
    );
    says(&error, &[&(usize::MAX / 2).to_string(), "3 columns"]);
    let error = Dense::new(&[0.0], usize::MAX, 2).unwrap_err();
    assert_eq!(
        error,
        Error::TooLarge {
            rows: usize::MAX,
            cols: 2
        }
    );
}

/// A problem with nothing wrong in it.
fn plain() -> Problem<f64, Dense<'static, f64>> {
    static COST: [f64; 4] = [0.0, 1.0, 1.0, 0.0];
    Problem::new(
        Dense::new(&COST, 2, 2).unwrap(),
        Marginals::uniform(2, 2).unwrap(),
    )
    .unwrap()
}

#[test]
fn regularisation_that_is_none() {
    for epsilon in [0.0, -1.0, f64::NAN, INF, f64::MIN_POSITIVE / 2.0, 1e-320] {
        for error in [
            Sinkhorn::new(epsilon).solve(&plain()).unwrap_err(),
            Newton::new(epsilon).solve(&plain()).unwrap_err(),
        ] {
            assert!(
                matches!(
                    error,
                    Error::Option {
                        name: "epsilon",
                        ..
                    }
                ),
                "{error:?}"
            );
            says(&error, &["epsilon", &epsilon.to_string()]);
        }
    }
    let annealed =
        |from, to, factor| Sinkhorn::new(earthmover::Epsilon::Annealed { from, to, factor });
    assert!(annealed(1.0, 0.0, 2.0).solve(&plain()).is_err());
    assert!(annealed(f64::NAN, 0.1, 2.0).solve(&plain()).is_err());
    for factor in [1.0, 0.5, f64::NAN, INF] {
        let error = annealed(1.0, 0.1, factor).solve(&plain()).unwrap_err();
        says(&error, &["annealing factor", &factor.to_string()]);
    }
}

#[test]
fn tolerances_that_are_none() {
    for tolerance in [0.0, -1e-6, f64::NAN, INF] {
        for error in [
            Sinkhorn::new(0.1)
                .tolerance(tolerance)
                .solve(&plain())
                .unwrap_err(),
            Newton::new(0.1)
                .tolerance(tolerance)
                .solve(&plain())
                .unwrap_err(),
        ] {
            assert!(
                matches!(
                    error,
                    Error::Option {
                        name: "tolerance",
                        ..
                    }
                ),
                "{error:?}"
            );
            says(&error, &["tolerance", &tolerance.to_string()]);
        }
    }
}

#[test]
fn more_mass_than_there_is() {
    let error = Marginals::bounded(&[1.0, 1.0], &[0.5, 0.75], 1.5).unwrap_err();
    assert_eq!(
        error,
        Error::MinMass {
            required: 1.5,
            available: 1.25
        }
    );
    says(&error, &["1.5", "1.25"]);
    for wrong in [f64::NAN, INF, -0.5] {
        assert!(matches!(
            Marginals::bounded(&[1.0], &[1.0], wrong).unwrap_err(),
            Error::MinMass { .. }
        ));
        assert!(matches!(
            Marginals::partial(&[1.0], &[1.0], wrong).unwrap_err(),
            Error::MinMass { .. }
        ));
    }
}

#[test]
fn rows_with_nowhere_to_go() {
    for error in refusals(&[0.0, 1.0, INF, INF], &square(&[0.75, 0.25])) {
        assert_eq!(
            error,
            Error::Blocked {
                side: Side::Rows,
                index: 1,
                mass: 0.25
            }
        );
        says(&error, &["row 1", "0.25", "forbidden"]);
    }
}

#[test]
fn columns_nobody_may_reach() {
    for error in refusals(&[0.0, INF, 1.0, INF], &square(&[0.75, 0.25])) {
        assert_eq!(
            error,
            Error::Blocked {
                side: Side::Cols,
                index: 1,
                mass: 0.25
            }
        );
        says(&error, &["column 1", "0.25", "forbidden"]);
    }
}

#[test]
fn mass_stranded_by_a_pattern() {
    // Rows 0 and 1 may only use column 0, which takes half of what they have.
    let cost = [0.0, INF, 0.0, INF, 0.0, 0.0];
    let marginals = Marginals::balanced(&[0.5, 0.5, 1.0], &[0.5, 1.5]).unwrap();
    let dense = Problem::new(Dense::new(&cost, 3, 2).unwrap(), marginals).unwrap();
    let error = NetworkSimplex::new().solve(&dense).unwrap_err();
    let Error::Infeasible { stranded, total } = error else {
        panic!("{error:?}");
    };
    assert!((stranded - 0.5).abs() < 1e-12 && total == 2.0);
    says(&error, &["0.5", "2"]);
    // An entropic solver cannot prove it, but never calls such an answer converged.
    let wide = Sinkhorn::new(0.1)
        .max_iterations(2_000)
        .solve(&dense)
        .unwrap();
    assert!(!wide.status().is_converged() && wide.violation() > 0.1);
    assert!(wide.converged().is_err());
    match Newton::new(0.1).solve(&dense) {
        Ok(solution) => assert!(!solution.status().is_converged()),
        Err(error) => assert!(matches!(
            error,
            Error::Infeasible { .. } | Error::Blocked { .. }
        )),
    }
}

#[test]
fn slack_prices_that_are_none() {
    for value in [f64::NAN, -INF] {
        for slack in [
            Slack {
                row: 1.0,
                row_cost: value,
                ..Slack::NONE
            },
            Slack {
                row: 1.0,
                col_cost: value,
                ..Slack::NONE
            },
            Slack {
                row: 1.0,
                corner_cost: value,
                ..Slack::NONE
            },
        ] {
            let error = Marginals::with_slack(&[1.0], &[2.0], slack).unwrap_err();
            assert!(matches!(error, Error::SlackCost { .. }), "{error:?}");
            says(&error, &["slack", &value.to_string()]);
        }
    }
}

#[test]
fn points_that_are_nowhere() {
    for value in [f64::NAN, INF] {
        let error =
            PointCloud::new(&[0.0, 1.0, 2.0, value], &[0.0, 0.0], 2, SquaredEuclidean).unwrap_err();
        assert!(matches!(
            error,
            Error::Point {
                side: Side::Rows,
                index: 1,
                coordinate: 1,
                ..
            }
        ));
        says(&error, &["coordinate 1", "row point 1", &value.to_string()]);
    }
}

#[test]
fn starts_that_do_not_fit() {
    let start = |cols: &[f64]| Potentials {
        cols: cols.to_vec(),
        slack_col: -INF,
        ..Potentials::default()
    };
    let problem = plain();
    for (cols, poisoned) in [
        (&[0.0][..], false),
        (&[0.0, f64::NAN], true),
        (&[INF, 0.0], true),
    ] {
        for error in [
            Sinkhorn::new(0.1)
                .solve_from(&problem, &start(cols))
                .unwrap_err(),
            Newton::new(0.1)
                .solve_from(&problem, &start(cols))
                .unwrap_err(),
            NetworkSimplex::new()
                .solve_from(&problem, &start(cols))
                .unwrap_err(),
        ] {
            if poisoned {
                assert!(
                    matches!(
                        error,
                        Error::Start {
                            side: Side::Cols,
                            ..
                        }
                    ),
                    "{error:?}"
                );
            } else {
                assert!(
                    matches!(
                        error,
                        Error::Length {
                            expected: 2,
                            found: 1,
                            ..
                        }
                    ),
                    "{error:?}"
                );
            }
        }
    }
}

#[test]
fn rows_that_cannot_be_labelled() {
    let problem = plain();
    let solution = Sinkhorn::new(0.1).solve(&problem).unwrap();
    assert_eq!(
        solution.conditional(&[0.0]).unwrap_err(),
        Error::Length {
            what: "cost row",
            expected: 2,
            found: 1
        }
    );
    assert!(matches!(
        solution.conditional(&[0.0, f64::NAN]).unwrap_err(),
        Error::Cost { row: 0, col: 1, .. }
    ));
    assert!(matches!(
        solution.conditional(&[INF, INF]).unwrap_err(),
        Error::Blocked { .. }
    ));
}
