//! Wrong questions: each is refused with the numbers that are wrong in it, by every solver, in both scalars.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use earthmover::{
    Barycenter, Cost, Dense, Entropic, Epsilon, Error, Euclidean, Exact, FromFn, Marginals,
    NetworkSimplex, Newton, Penalty, PointCloud, Potentials, Problem, Real, ShortestPaths, Side,
    Sinkhorn, Slack, Solution, SquaredEuclidean, line,
};

const INF: f64 = f64::INFINITY;

type Answer<'p, T> = Result<Solution<'p, T, &'p dyn Cost<T>>, Error>;

/// What every solver says, the two front doors included.
fn everybody<'p, T: Real>(problem: &'p Problem<T, &'p dyn Cost<T>>) -> Vec<Answer<'p, T>> {
    vec![
        Sinkhorn::new(0.1).solve(problem),
        Newton::new(0.1).solve(problem),
        Entropic::new(0.1).solve(problem),
        NetworkSimplex::new().solve(problem),
        ShortestPaths::new().solve(problem),
        Exact::new().solve(problem),
    ]
}

/// The errors of all solvers, in both scalars, on a cost that is stored and one that is not.
fn refusals(cost: &[f64], marginals: &Marginals) -> Vec<Error> {
    fn of<T: Real>(cost: &[f64], marginals: &Marginals) -> Vec<Error> {
        let (n, m) = (marginals.rows().len(), marginals.cols().len());
        let cost: Vec<T> = cost.iter().map(|&c| T::narrow(c)).collect();
        let dense = Dense::new(&cost, n, m).unwrap();
        let lazy = FromFn::new(n, m, |i, j| cost[i * m + j]).unwrap();
        let mut all = Vec::new();
        for cost in [&dense as &dyn Cost<T>, &lazy] {
            let problem = Problem::new(cost, marginals.clone()).unwrap();
            all.extend(everybody(&problem).into_iter().map(|a| a.err().unwrap()));
        }
        all
    }
    let mut all = of::<f32>(cost, marginals);
    all.extend(of::<f64>(cost, marginals));
    all
}

/// Square, tall and wide; those that are solved turned round among them.
const SHAPES: [(usize, usize); 6] = [(6, 6), (4, 80), (80, 4), (3, 300), (300, 3), (60, 50)];

/// Costs without a fault.
fn sound(n: usize, m: usize) -> Vec<f64> {
    (0..n * m).map(|at| (at * 7 % 17) as f64).collect()
}

#[test]
fn entries_that_are_no_costs_are_named_where_they_are() {
    for (n, m) in SHAPES {
        let marginals = Marginals::uniform(n, m).unwrap();
        for (row, col) in [(0, 0), (n - 2, m - 1), (n / 2, m * 2 / 3)] {
            for poison in [f64::NAN, -INF] {
                let mut cost = sound(n, m);
                cost[row * m + col] = poison;
                for error in refusals(&cost, &marginals) {
                    let named =
                        matches!(error, Error::Cost { row: r, col: c, .. } if (r, c) == (row, col));
                    assert!(named, "{n} × {m}, {row}, {col}: {error:?}");
                }
            }
            for large in [1e37, -1e37] {
                // For f32; f64 has room for it.
                let mut cost: Vec<f32> = sound(n, m).iter().map(|&c| c as f32).collect();
                cost[row * m + col] = large;
                let dense = Dense::new(&cost, n, m).unwrap();
                let problem = Problem::new(&dense as &dyn Cost<f32>, marginals.clone()).unwrap();
                for answer in everybody(&problem) {
                    let error = answer.err().unwrap();
                    let named = matches!(error, Error::TooDear { row: r, col: c, .. } if (r, c) == (row, col));
                    assert!(named, "{n} × {m}, {row}, {col}: {error:?}");
                    says(
                        &error,
                        &["1e36", "+inf", &format!("row {row}, column {col}")],
                    );
                }
            }
        }
    }
}

#[test]
fn costs_near_overflow_are_refused_in_words() {
    for (n, m) in SHAPES {
        for large in [2e250, -2e250, f64::MAX, f64::MIN] {
            let mut cost = sound(n, m);
            cost[m] = large;
            let dense = Dense::new(&cost, n, m).unwrap();
            let marginals = Marginals::uniform(n, m).unwrap();
            let problem = Problem::new(&dense as &dyn Cost<f64>, marginals).unwrap();
            for answer in everybody(&problem) {
                let error = answer.err().unwrap();
                says(&error, &["row 1, column 0", "1e250", "+inf"]);
                assert!(error.to_string().len() < 200, "{error}");
            }
        }
    }
    for far in [1e130, 1e160, 1e300] {
        let error = PointCloud::new(&[far, 0.0], &[0.0, -far], 1, SquaredEuclidean).unwrap_err();
        assert!(matches!(error, Error::TooFar { .. }), "{error:?}");
        says(&error, &["apart", "1e250", "scale"]);
        // Distances are what is named, not the squares that overflow on the way to them.
        let error = PointCloud::new(&[far], &[-far], 1, Euclidean).unwrap_err();
        let Error::TooFar { cost, largest } = error else {
            panic!("{error:?}");
        };
        assert!((cost / far - 2.0).abs() < 1e-12 && (largest / 1e125 - 1.0).abs() < 1e-12);
    }
    let near = PointCloud::new(&[1e120, 0.0], &[0.0, 1e120], 1, SquaredEuclidean).unwrap();
    let problem = Problem::new(near, Marginals::uniform(2, 2).unwrap()).unwrap();
    assert_eq!(Exact::new().solve(&problem).unwrap().objective(), 0.0);
}

#[test]
fn rows_and_columns_without_a_way_on_every_shape() {
    for (n, m) in SHAPES {
        let marginals = Marginals::uniform(n, m).unwrap();
        let mut cost = sound(n, m);
        cost[(n - 1) * m..].fill(INF);
        for error in refusals(&cost, &marginals) {
            let named =
                matches!(error, Error::Blocked { side: Side::Rows, index, .. } if index == n - 1);
            assert!(named, "{n} × {m}: {error:?}");
        }
        let mut cost = sound(n, m);
        cost.iter_mut()
            .skip(m / 2)
            .step_by(m)
            .for_each(|c| *c = INF);
        for error in refusals(&cost, &marginals) {
            let named =
                matches!(error, Error::Blocked { side: Side::Cols, index, .. } if index == m / 2);
            assert!(named, "{n} × {m}: {error:?}");
        }
    }
}

#[test]
fn stranded_mass_is_an_error_with_its_amount_for_all() {
    for (n, m) in SHAPES {
        // All rows but the last may use the first column alone, whose mass is 1 / m.
        let mut cost = sound(n, m);
        for line in cost.chunks_exact_mut(m).take(n - 1) {
            line[1..].fill(INF);
        }
        let expected = (n - 1) as f64 / n as f64 - 1.0 / m as f64;
        for error in refusals(&cost, &Marginals::uniform(n, m).unwrap()) {
            let Error::Infeasible { stranded, total } = error else {
                panic!("{n} × {m}: {error:?}");
            };
            assert!((stranded - expected).abs() < 1e-9 && (total - 1.0).abs() < 1e-12);
        }
        // With room to stay behind there is a way.
        let slack = Slack::new(1.0, 1.0);
        let (a, b) = (vec![1.0 / n as f64; n], vec![1.0 / m as f64; m]);
        let marginals = Marginals::with_slack(&a, &b, slack).unwrap();
        let dense = Dense::new(&cost, n, m).unwrap();
        let problem = Problem::new(&dense as &dyn Cost<f64>, marginals).unwrap();
        assert!(everybody(&problem).iter().all(Result::is_ok));
    }
}

#[test]
fn rows_of_the_plan_that_are_not_there() {
    let problem = plain();
    let solution = Exact::new().solve(&problem).unwrap();
    let error = solution.plan().row(99).unwrap_err();
    let rows = problem.rows();
    assert!(matches!(error, Error::Index { index: 99, len, .. } if len == rows));
    // Nothing is less than NaN: a threshold that is none hides nothing.
    let plan = solution.plan();
    assert_eq!(plan.entries(f64::NAN), plan.entries(0.0));
    let soft = Sinkhorn::new(0.1).solve(&problem).unwrap();
    assert_eq!(soft.plan().entries(f64::NAN), soft.plan().entries(0.0));
}

#[test]
fn no_sweep_is_no_iteration() {
    let problem = plain();
    for answer in [
        Sinkhorn::new(0.1)
            .max_iterations(0)
            .solve(&problem)
            .unwrap(),
        Newton::new(0.1).max_iterations(0).solve(&problem).unwrap(),
        Entropic::new(0.1)
            .max_iterations(0)
            .solve(&problem)
            .unwrap(),
    ] {
        assert_eq!(answer.iterations(), 0);
        assert_eq!(answer.status(), earthmover::Status::IterationLimit);
        assert_eq!(answer.violation(), answer.certificate().violation);
        let told = answer.converged().unwrap_err().to_string();
        assert!(told.contains("iteration limit after 0"), "{told}");
    }
}

#[test]
fn masses_that_were_rounded_to_f32() {
    let seventh = f64::from(1.0f32 / 7.0);
    let marginals = Marginals::balanced(&[seventh; 7], &[0.5, 0.5]).unwrap();
    assert!((marginals.cols().iter().sum::<f64>() - 7.0 * seventh).abs() < 1e-15);
    assert!(Marginals::balanced(&[0.5, 0.5], &[0.5, 0.500_000_02]).is_err());
    assert!(Marginals::balanced(&[0.5, 0.5], &[0.5, 0.500_001]).is_err());
    assert!(Marginals::balanced_within(&[0.5, 0.5], &[0.5, 0.500_001], 1e-5).is_ok());
    for tolerance in [-0.1, 1.0, f64::NAN, INF] {
        let error = Marginals::balanced_within(&[1.0], &[1.0], tolerance).unwrap_err();
        assert!(matches!(error, Error::Option { .. }), "{error:?}");
    }
    let error = Marginals::normalised(&[0.0, 0.0], &[1.0]).unwrap_err();
    assert_eq!(error, Error::NoMass { side: Side::Rows });
    assert!(Marginals::normalised::<f64>(&[], &[1.0]).is_err());
    assert!(Marginals::normalised(&[1.0, -1.0], &[1.0]).is_err());
}

#[test]
fn masses_that_cannot_be_related() {
    for (rows, cols) in [
        (vec![1.0, 1e-200], vec![1.0, 0.0]),
        (vec![1e-160], vec![1e-160]),
        (vec![1e160], vec![1e160]),
    ] {
        let error = Marginals::balanced(&rows, &cols).unwrap_err();
        assert!(matches!(error, Error::MassRange { .. }), "{error:?}");
        says(&error, &["1e-150", "total"]);
    }
    assert!(Marginals::balanced(&[1e100, 1e-40], &[1e100, 0.0]).is_ok());
}

#[test]
fn a_start_is_judged_by_one_rule() {
    let problem = plain();
    let wrong = |cols: Vec<f64>| Potentials::from_columns(cols).slack(0.0, 0.0);
    let k = problem.cols();
    for (start, what) in [
        (wrong(vec![0.0; k + 1]), "starting column potentials"),
        (wrong(vec![f64::NAN; k]), "column 0"),
        (wrong(vec![INF; k]), "column 0"),
        (wrong(vec![1e305; k]), "column 0"),
    ] {
        let errors = [
            Sinkhorn::new(0.1).solve_from(&problem, &start).err(),
            Newton::new(0.1).solve_from(&problem, &start).err(),
            Entropic::new(0.1).solve_from(&problem, &start).err(),
            NetworkSimplex::new().solve_from(&problem, &start).err(),
            ShortestPaths::new().solve_from(&problem, &start).err(),
            Exact::new().solve_from(&problem, &start).err(),
        ];
        let first = errors[0].clone().unwrap();
        says(&first, &[what]);
        let same = |e: &Option<Error>| format!("{e:?}") == format!("{:?}", Some(&first));
        assert!(errors.iter().all(same), "{errors:?}");
    }
    // −∞ says nothing, and the rows' side is not read.
    let start = wrong(vec![f64::NEG_INFINITY; k]);
    assert!(ShortestPaths::new().solve_from(&problem, &start).is_ok());
    assert!(Entropic::new(0.1).solve_from(&problem, &start).is_ok());
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
        for slack in [Slack::new(value, 0.0), Slack::new(0.0, value)] {
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
    let slack = Slack::new(1.0, 0.0);
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
            says(&error, &["epsilon", "1e-300"]);
            assert!(error.to_string().len() < 80, "{error}");
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
    for error in refusals(&cost, &marginals) {
        let Error::Infeasible { stranded, total } = error else {
            panic!("{error:?}");
        };
        assert!((stranded - 0.5).abs() < 1e-12 && total == 2.0);
        says(&error, &["0.5", "2"]);
    }
}

#[test]
fn slack_prices_that_are_none() {
    for value in [f64::NAN, -INF] {
        for slack in [
            Slack::new(1.0, 0.0).row_cost(value),
            Slack::new(1.0, 0.0).col_cost(value),
            Slack::new(1.0, 0.0).corner_cost(value),
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

#[test]
fn stages_without_end() {
    for factor in [1.0 + 1e-15, 1.0 + 1e-8, 1.0 + 1e-5] {
        let epsilon = Epsilon::Annealed {
            from: 1.0,
            to: 1e-3,
            factor,
        };
        let problem = Problem::new(
            Dense::new(&[0.0, 1.0], 1, 2).unwrap(),
            Marginals::uniform(1, 2).unwrap(),
        )
        .unwrap();
        let error = Sinkhorn::new(epsilon).solve(&problem).unwrap_err();
        says(&error, &["annealing factor", "stages"]);
    }
}

#[test]
fn networks_beyond_numbers() {
    use earthmover::flow::{MinCostFlow, Network};
    let mut vast = Network::new(3);
    vast.supply(0, 1e308).supply(1, 1e308).supply(2, -1e308);
    vast.arc(0, 2, 1.0, ..);
    vast.arc(1, 2, 1.0, ..);
    says(
        &MinCostFlow::new().solve(&vast).unwrap_err(),
        &["node 0", "1e308"],
    );
    let mut dear = Network::new(2);
    dear.supply(0, 1.0).supply(1, -1.0);
    dear.arc(0, 1, 1e300, ..);
    assert!(MinCostFlow::new().solve(&dear).is_err());
}

#[test]
fn penalties_too_weak_for_digits_are_refused_in_words() {
    let forbid = [1.0, INF];
    let table = [0.0, 1.0, 1.0, 0.5];
    for tau in [1e-150, 1e-100, 1e-50, 1e-20, 1e-10, 1e-6, 1e-3] {
        let kl = Penalty::Kl(tau);
        let relaxed = |a: &[f64], b: &[f64], x, y| Marginals::relaxed(a, b, x, y).unwrap();
        for (costs, rows, marginals) in [
            (
                &forbid[..],
                2,
                relaxed(&[1.0, 2.0], &[3.0], kl, Penalty::Exact),
            ),
            (
                &[1.0, 0.5][..],
                2,
                relaxed(&[1.0, 2.0], &[4.0], kl, Penalty::Exact),
            ),
            (
                &[1.0, 0.5][..],
                2,
                relaxed(&[1.0, 2.0], &[4.0], kl, Penalty::Tv(tau)),
            ),
            (&table[..], 2, relaxed(&[1.0, 2.0], &[4.0, 1.0], kl, kl)),
            (
                &table[..],
                2,
                relaxed(&[1.0, 2.0], &[4.0, 1.0], Penalty::Exact, kl),
            ),
        ] {
            let dense = Dense::new(costs, rows, costs.len() / rows).unwrap();
            let problem = Problem::new(dense, marginals).unwrap();
            for answer in [
                Exact::new().solve(&problem),
                Sinkhorn::new(1.0).solve(&problem),
                Newton::new(0.01).solve(&problem),
                Entropic::new(1.0).solve(&problem),
            ] {
                match answer {
                    Err(error) => {
                        says(&error, &["tau", &format!("{tau:e}")]);
                        assert!(tau < 1e-14, "{tau:e}: {error}");
                    }
                    Ok(found) => {
                        let proof = found.certificate();
                        let numbers = [proof.violation, proof.objective, proof.primal, proof.mass];
                        assert!(numbers.iter().all(|x| x.is_finite()), "{tau:e}: {proof:?}");
                        assert!(
                            proof.dual <= proof.primal * (1.0 + 1e-9),
                            "{tau:e}: {proof:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn small_numbers_on_a_line_do_not_vanish() {
    for (x, y, order) in [(0.0, 1e-200, 2.0), (0.0, 0.5, 2000.0), (1e-310, 0.0, 3.0)] {
        let found = line::distance(&[x], &[y], order).unwrap();
        let far = f64::abs(x - y);
        assert!((found - far).abs() <= 1e-9 * far, "{found:e} {far:e}");
    }
    assert_eq!(line::distance(&[0.5, 1.0], &[0.5, 1.0], 3.0), Ok(0.0));
    let empty = Error::Empty { rows: 0, cols: 1 };
    assert_eq!(line::distance::<f64>(&[], &[1.0], 2.0), Err(empty));
}

#[test]
fn a_barycentre_that_may_not_iterate_has_not() {
    let cost = Dense::new(&[0.0, 1.0, 1.0, 0.0], 2, 2).unwrap();
    let solver = Barycenter::new(0.1).max_iterations(0);
    let found = solver.solve(&cost, &[0.9, 0.1, 0.3, 0.7], &[1.0, 1.0]);
    assert_eq!(found.unwrap().iterations(), 0);
}
