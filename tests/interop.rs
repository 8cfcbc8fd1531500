//! Solvers chosen by name, answers that outlive their problem, and the doors to other crates.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use core::ops::ControlFlow;
use std::time::Duration;

use earthmover::{
    Cost, Dense, Entropic, Epsilon, Error, Exact, Marginals, Method, OwnedPlan, Problem, Sinkhorn,
    Slack, Solver, Status,
};
use earthmover_testkit::Rng;

const NAMES: [&str; 7] = [
    "exact",
    "network-simplex",
    "shortest-paths",
    "entropic:0.05",
    "newton:0.05",
    "sinkhorn:0.05",
    "sinkhorn:1..0.05/4",
];

fn costs(n: usize, m: usize) -> Vec<f64> {
    Rng(5).units(n * m)
}

fn problem(table: &[f64], n: usize, m: usize) -> Problem<f64, &'static dyn Cost<f64>> {
    let cost: &dyn Cost<f64> =
        Box::leak(Box::new(Dense::new(table.to_vec().leak(), n, m).unwrap()));
    Problem::new(cost, Marginals::uniform(n, m).unwrap()).unwrap()
}

#[test]
fn every_method_is_read_written_and_solves() {
    let problem = problem(&costs(9, 7), 9, 7);
    let optimum = Exact::new().solve(&problem).unwrap().objective();
    for name in NAMES {
        let method: Method = name.parse().unwrap();
        assert_eq!(method.to_string(), name);
        let answer = method.solve(&problem).unwrap();
        assert!(answer.status().is_converged(), "{name}");
        let proof = answer.certificate();
        assert!(
            proof.dual <= optimum && optimum <= proof.primal,
            "{name}: {proof:?}"
        );
        let again = method.solve_from(&problem, answer.potentials()).unwrap();
        assert!(again.status().is_converged(), "{name}");
        let hasty = method.clone().time_limit(Duration::ZERO);
        assert_eq!(
            hasty.solve(&problem).unwrap().status(),
            Status::Stopped,
            "{name}"
        );
        let broken = method.clone().on_progress(|_| ControlFlow::Break(()));
        assert_eq!(
            broken.solve(&problem).unwrap().status(),
            Status::Stopped,
            "{name}"
        );
        // Through the trait, which a generic function asks for.
        fn status(solver: &impl Solver<f64>, problem: &Problem<f64, &dyn Cost<f64>>) -> Status {
            solver.solve(problem).unwrap().status()
        }
        assert_eq!(
            status(&method.max_iterations(0), &problem),
            Status::IterationLimit,
            "{name}"
        );
    }
    let loose = Method::from(Entropic::new(0.05)).tolerance(0.5);
    assert!(loose.solve(&problem).unwrap().iterations() <= 3);
}

#[test]
fn what_names_no_method_is_said() {
    for wrong in [
        "",
        "simplex",
        "exact:0.1",
        "entropic",
        "newton:",
        "sinkhorn:a",
        "sinkhorn:1..2",
        "sinkhorn:1..0.1/x",
    ] {
        let error = wrong.parse::<Method>().unwrap_err();
        assert_eq!(
            error,
            Error::Method {
                given: wrong.to_owned()
            }
        );
        assert!(error.to_string().contains("sinkhorn:0.01"));
    }
    // A number out of range is the solver's to refuse.
    let negative: Method = "newton:-1".parse().unwrap();
    let found = negative.solve(&problem(&[1.0], 1, 1)).map(|a| a.status());
    assert!(matches!(
        found,
        Err(Error::Option {
            name: "epsilon",
            ..
        })
    ));
}

#[test]
fn an_owned_answer_says_what_the_borrowed_one_said() {
    let problem = problem(&costs(8, 5), 8, 5);
    for name in NAMES {
        let method: Method = name.parse().unwrap();
        let answer = method.solve(&problem).unwrap();
        let (dense, rows, cols) = (
            answer.plan().to_dense(),
            answer.plan().row_sums(),
            answer.plan().col_sums(),
        );
        let (proof, potentials) = (*answer.certificate(), answer.potentials().clone());
        let (violation, epsilon) = (answer.violation(), answer.epsilon());
        let owned = answer.into_owned();
        assert_eq!((owned.plan.rows(), owned.plan.cols()), (8, 5));
        assert_eq!(
            (
                owned.plan.to_dense(),
                owned.plan.row_sums(),
                owned.plan.col_sums()
            ),
            (dense.clone(), rows, cols)
        );
        assert_eq!((owned.certificate, &owned.potentials), (proof, &potentials));
        assert_eq!((owned.violation, owned.epsilon), (violation, epsilon));
        assert_eq!(
            matches!(owned.plan, OwnedPlan::Sparse { .. }),
            epsilon == 0.0
        );
        let few = method.solve(&problem).unwrap().into_owned_above(0.01);
        let expected = dense.iter().filter(|p| **p > 0.01).count();
        assert_eq!(few.plan.entries(0.0).len(), expected, "{name}");
    }
    // Nothing borrowed: it may cross threads.
    let answer = std::thread::spawn(|| {
        let table = [0.0, 1.0, 1.0, 0.0];
        let problem = Problem::new(
            Dense::new(&table, 2, 2).unwrap(),
            Marginals::uniform(2, 2).unwrap(),
        );
        Sinkhorn::new(Epsilon::Fixed(0.1))
            .solve(&problem.unwrap())
            .unwrap()
            .into_owned()
    });
    assert!((answer.join().unwrap().plan.mass() - 1.0).abs() < 1e-12);
    assert_eq!(Slack::default(), Slack::NONE);
}

#[cfg(feature = "ndarray")]
mod ndarray_views {
    use ndarray::{Array2, ShapeBuilder, s};

    use super::*;

    /// A cost against the same numbers in a slice: entries, rows, columns, blocks, and the answer.
    fn assert_same(cost: &dyn Cost<f64>, table: &[f64], n: usize, m: usize) {
        assert_eq!((cost.rows(), cost.cols()), (n, m));
        let mut rows = vec![0.0; 2 * m];
        cost.fill(1..3, &mut rows);
        assert_eq!(rows, table[m..3 * m]);
        let mut cols = vec![0.0; 2 * n];
        cost.fill_cols(1..3, &mut cols);
        for i in 0..n {
            assert_eq!((cols[i], cols[n + i]), (table[i * m + 1], table[i * m + 2]));
            assert_eq!(cost.at(i, 0), table[i * m]);
        }
        if let Some(block) = cost.block(1..n) {
            assert_eq!(block, &table[m..]);
        }
        let ours = Problem::new(cost, Marginals::uniform(n, m).unwrap()).unwrap();
        let plain = problem(table, n, m);
        for name in NAMES {
            let method: Method = name.parse().unwrap();
            let (ours, plain) = (method.solve(&ours).unwrap(), method.solve(&plain).unwrap());
            assert_eq!(ours.plan().to_dense(), plain.plan().to_dense(), "{name}");
        }
    }

    #[test]
    fn any_layout_is_a_cost() {
        let (n, m) = (6, 4);
        let table = costs(n, m);
        let at = |(i, j): (usize, usize)| table[i * m + j];
        let standard = Array2::from_shape_fn((n, m), at);
        assert!(standard.block(0..n).is_some());
        assert_same(&standard, &table, n, m);
        assert_same(&standard.view(), &table, n, m);
        let columns = Array2::from_shape_fn((n, m).f(), at);
        assert!(Cost::<f64>::block(&columns, 0..n).is_none());
        assert_same(&columns, &table, n, m);
        let turned = Array2::from_shape_fn((m, n), |(j, i)| at((i, j)));
        assert_same(&turned.t(), &table, n, m);
        let wide = Array2::from_shape_fn((2 * n, m + 3), |(i, j)| {
            let inside = i % 2 == 1 && (1..=m).contains(&j);
            if inside { at((i / 2, j - 1)) } else { f64::NAN }
        });
        assert_same(&wide.slice(s![1..;2, 1..=m]), &table, n, m);
        let upside_down = Array2::from_shape_fn((n, m), |(i, j)| at((n - 1 - i, m - 1 - j)));
        assert_same(&upside_down.slice(s![..;-1, ..;-1]), &table, n, m);
    }

    #[test]
    fn single_precision_too() {
        let table = Array2::from_shape_vec((2, 2), vec![0.0f32, 1.0, 1.0, 0.0]).unwrap();
        let problem = Problem::new(&table, Marginals::uniform(2, 2).unwrap()).unwrap();
        assert_eq!(Exact::new().solve(&problem).unwrap().objective(), 0.0);
    }
}

#[cfg(feature = "serde")]
mod json {
    use earthmover::bounded::{Acceleration, Bounds, BregmanProjections};
    use earthmover::flow::MinCostFlow;
    use earthmover::{
        Algorithm, Certificate, NetworkSimplex, Newton, OwnedSolution, Penalty, Potentials,
        Reference, ShortestPaths,
    };
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    use super::*;

    fn again<T: Serialize + DeserializeOwned>(value: &T) -> T {
        serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
    }

    #[test]
    fn infinities_survive() {
        let potentials = Potentials::new(
            vec![0.1, f64::NEG_INFINITY],
            vec![f64::NEG_INFINITY, -1e-300, 3.0],
        )
        .slack(f64::NEG_INFINITY, 2.0);
        assert_eq!(again(&potentials), potentials);
        let text = serde_json::to_string(&potentials).unwrap();
        assert!(text.contains(r#""slack_row":"-inf""#), "{text}");
        let slack = Slack::new(1.0, 0.0).corner_cost(f64::INFINITY);
        assert_eq!(again(&slack), slack);
        let bounds = Bounds::from(1.0..);
        assert_eq!(again(&bounds), bounds);
        let whole: Potentials = serde_json::from_str(
            r#"{"rows":[1],"cols":[-2,"-inf"],"slack_row":0,"slack_col":"inf"}"#,
        )
        .unwrap();
        assert_eq!((whole.cols[0], whole.slack_col), (-2.0, f64::INFINITY));
        assert!(serde_json::from_str::<Slack>(r#"{"row_cost":"much"}"#).is_err());
    }

    #[test]
    fn marginals_are_checked_as_they_are_read_and_keep_their_bits() {
        let mut rng = Rng(3);
        for n in 1..60 {
            let (a, b) = (rng.masses(n, false), rng.masses(n + 3, true));
            let marginals = Marginals::normalised(&a, &b).unwrap();
            assert_eq!(again(&marginals), marginals);
        }
        let partial = Marginals::bounded(&[1.0, 0.3], &[0.7, 0.9], 1.1).unwrap();
        assert_eq!(again(&partial), partial);
        let (kl, tv) = (Penalty::Kl(0.3), Penalty::Tv(2.0));
        let relaxed = Marginals::relaxed(&[1.0, 0.3], &[0.7, 9.0], kl, tv).unwrap();
        let relaxed = relaxed.with_reference(Reference::Counting);
        assert_eq!(again(&relaxed), relaxed);
        let read = |text: &str| serde_json::from_str::<Marginals>(text);
        let semi = read(r#"{"rows":[1],"cols":[3],"col_penalty":{"kl":0.5}}"#).unwrap();
        assert!(semi.row_penalty().is_exact() && semi.col_penalty() == Penalty::Kl(0.5));
        let both = r#"{"rows":[1],"cols":[1],"slack":{"row":1,"col":1},"col_penalty":{"kl":0.5}}"#;
        assert!(read(both).unwrap_err().to_string().contains("slack"));
        assert!(read(r#"{"rows":[1],"cols":[0.25,0.75]}"#).is_ok());
        let wrong = read(r#"{"rows":[1],"cols":[0.25,0.5]}"#).unwrap_err();
        assert!(wrong.to_string().contains("0.75"), "{wrong}");
        assert!(read(r#"{"rows":[-1],"cols":[-1]}"#).is_err());
        assert!(read(r#"{"rows":[1],"cols":[1],"more":1}"#).is_err());
    }

    #[test]
    fn options_are_read_with_their_defaults() {
        fn same<S: Serialize + DeserializeOwned + core::fmt::Debug>(solver: &S) {
            assert_eq!(format!("{:?}", again(solver)), format!("{solver:?}"));
        }
        let limit = Duration::from_millis(1500);
        same(
            &Sinkhorn::new(Epsilon::Annealed {
                from: 1.0,
                to: 0.1,
                factor: 2.0,
            })
            .tolerance(1e-9)
            .time_limit(limit),
        );
        same(&Newton::new(0.1).max_iterations(7));
        same(&Entropic::new(0.1).max_iterations(7).time_limit(limit));
        same(&Entropic::new(0.1).tolerance(1e-3));
        same(&Exact::new().algorithm(Algorithm::ShortestPaths));
        same(&NetworkSimplex::new().max_iterations(5));
        same(&ShortestPaths::new().time_limit(limit));
        same(&MinCostFlow::new().max_iterations(5));
        same(&BregmanProjections::new(0.1).acceleration(Acceleration::None));
        let short: Sinkhorn = serde_json::from_str(r#"{"epsilon":{"fixed":0.1}}"#).unwrap();
        assert_eq!(format!("{short:?}"), format!("{:?}", Sinkhorn::new(0.1)));
        let exact: Exact = serde_json::from_str("{}").unwrap();
        assert_eq!(format!("{exact:?}"), format!("{:?}", Exact::new()));
        assert!(serde_json::from_str::<Newton>(r#"{"epsilom":0.1}"#).is_err());
        // ε has no default: reading does without, solving does not.
        let without: Newton = serde_json::from_str("{}").unwrap();
        let found = without.solve(&problem(&[1.0], 1, 1)).map(|a| a.status());
        assert!(matches!(
            found,
            Err(Error::Option {
                name: "epsilon",
                ..
            })
        ));
    }

    #[test]
    fn answers_can_be_kept() {
        let problem = problem(&costs(6, 4), 6, 4);
        for name in NAMES {
            let method: Method = name.parse().unwrap();
            let owned = method.solve(&problem).unwrap().into_owned();
            let read: OwnedSolution = again(&owned);
            assert_eq!(read, owned);
        }
        // Far from optimal, with bounds that are not finite.
        let stopped = Exact::new()
            .time_limit(Duration::ZERO)
            .solve(&problem)
            .unwrap()
            .into_owned();
        assert_eq!(stopped.status, Status::Stopped);
        let proof: Certificate = again(&stopped.certificate);
        assert_eq!(proof, stopped.certificate);
        assert_eq!(
            serde_json::to_string(&Status::IterationLimit).unwrap(),
            r#""iteration-limit""#
        );
    }
}
