//! Shapes, ties, ranges and patterns at the edge of what can be asked.

use earthmover::{Marginals, Problem, Real, Slack, Status};
use earthmover_testkit::{Rng, augmented};

use crate::costs::{Kind, Scalar, with};
use crate::methods::{Annealed, Method, NetworkSimplex, Newton, ShortestPaths, Sinkhorn, Stored};
use crate::problems::Case;

/// Runs a check for every solver and scalar.
macro_rules! every_method {
    ($check:ident $(, $argument:expr)*) => {
        $check::<f32, Sinkhorn>($($argument),*);
        $check::<f64, Sinkhorn>($($argument),*);
        $check::<f32, Stored>($($argument),*);
        $check::<f64, Stored>($($argument),*);
        $check::<f32, Annealed>($($argument),*);
        $check::<f64, Annealed>($($argument),*);
        $check::<f32, Newton>($($argument),*);
        $check::<f64, Newton>($($argument),*);
        $check::<f32, ShortestPaths>($($argument),*);
        $check::<f64, ShortestPaths>($($argument),*);
        $check::<f32, NetworkSimplex>($($argument),*);
        $check::<f64, NetworkSimplex>($($argument),*);
    };
}

fn dense(rows: usize, cols: usize, table: Vec<f64>, marginals: Marginals) -> Case {
    Case {
        rows,
        cols,
        table,
        here: vec![0.0; rows],
        there: vec![0.0; cols],
        dimension: 1,
        marginals,
        noise: Vec::new(),
    }
}

/// The bounds hold the given optimum and the plan is the only one possible, where one is given.
fn answers<T: Scalar, M: Method<T>>(case: &Case, optimum: f64, plan: Option<&[f64]>) {
    with::<T, _>(Kind::Dense, case, |cost| {
        let problem = Problem::new(cost, case.marginals.clone()).unwrap();
        let solution = M::make().solve(&problem).unwrap();
        assert_eq!(solution.status(), Status::Converged);
        let proof = solution.certificate();
        let tolerance = 1e-12 * case.marginals.total().max(optimum.abs());
        assert!(
            proof.dual <= optimum + tolerance && optimum <= proof.primal + tolerance,
            "{proof:?} {optimum}"
        );
        if M::is_exact() {
            assert!(proof.gap().abs() <= tolerance, "{proof:?}");
        }
        if let Some(plan) = plan {
            for (p, q) in solution.plan().to_dense().iter().zip(plan) {
                assert!((p - q).abs() <= 1e-4, "{p} {q}");
            }
        }
    });
}

#[test]
fn one_pair() {
    let case = dense(
        1,
        1,
        vec![3.0],
        Marginals::balanced(&[2.0], &[2.0]).unwrap(),
    );
    every_method!(answers, &case, 6.0, Some(&[2.0]));
}

#[test]
fn one_column_and_one_row() {
    let masses = [0.5, 0.0, 0.25, 0.25];
    let costs = vec![1.0, 7.0, 0.0, 2.0];
    let tall = dense(
        4,
        1,
        costs.clone(),
        Marginals::balanced(&masses, &[1.0]).unwrap(),
    );
    let wide = dense(1, 4, costs, Marginals::balanced(&[1.0], &masses).unwrap());
    every_method!(answers, &tall, 1.0, Some(&masses));
    every_method!(answers, &wide, 1.0, Some(&masses));
}

#[test]
fn everything_the_same() {
    let case = dense(20, 20, vec![0.5; 400], Marginals::uniform(20, 20).unwrap());
    every_method!(answers, &case, 0.5, None);
}

#[test]
fn ties_everywhere() {
    // A ring of equal masses: many best assignments, all of cost one step each.
    let n = 24;
    let ring = |at: usize| {
        if (at % n + n - at / n) % n % 3 == 1 {
            0.25
        } else {
            1.0
        }
    };
    let case = dense(
        n,
        n,
        (0..n * n).map(ring).collect(),
        Marginals::uniform(n, n).unwrap(),
    );
    every_method!(answers, &case, 0.25, None);
}

#[test]
fn only_one_plan_is_allowed() {
    let n = 7;
    let forced = |at: usize| at % n == (3 * (at / n) + 2) % n;
    let cost = (0..n * n).map(|at| if forced(at) { 1.0 } else { f64::INFINITY });
    let plan: Vec<f64> = (0..n * n)
        .map(|at| if forced(at) { 1.0 } else { 0.0 })
        .collect();
    let ones = [1.0; 7];
    let case = dense(
        n,
        n,
        cost.collect(),
        Marginals::balanced(&ones, &ones).unwrap(),
    );
    every_method!(answers, &case, 7.0, Some(&plan));
}

#[test]
fn massless_rows_and_columns_may_be_forbidden_altogether() {
    let inf = f64::INFINITY;
    let cost = vec![0.0, inf, 1.0, inf, inf, inf, 1.0, inf, 0.0];
    let masses = [0.5, 0.0, 0.5];
    let case = dense(3, 3, cost, Marginals::balanced(&masses, &masses).unwrap());
    every_method!(answers, &case, 0.0, None);
}

#[test]
fn negative_costs_fill_the_corner_only_where_it_is_worth_it() {
    // Bounded asks for at least one unit and takes two, since moving earns; partial moves one and no more.
    let (rows, caps) = ([1.0, 1.0], [1.0, 1.0]);
    let cost = vec![-1.0, 0.0, 0.0, -1.0];
    let free = dense(
        2,
        2,
        cost.clone(),
        Marginals::bounded(&rows, &caps, 1.0).unwrap(),
    );
    every_method!(answers, &free, -2.0, None);
    let fixed = dense(2, 2, cost, Marginals::partial(&rows, &caps, 1.0).unwrap());
    every_method!(answers, &fixed, -1.0, None);
}

#[test]
fn slack_costs_are_paid() {
    // Leaving a unit behind costs 0.1 on either side, moving it 1.
    let slack = Slack::new(2.0, 2.0).row_cost(0.1).col_cost(0.1);
    let marginals = Marginals::with_slack(&[1.0, 1.0], &[1.0, 1.0], slack).unwrap();
    let case = dense(2, 2, vec![1.0; 4], marginals);
    every_method!(answers, &case, 0.4, None);
}

#[test]
fn acceleration_does_not_bounce_between_plateaus() {
    // One pair of rows can trade, the rest is forced: too long a step saturates either side, and from there
    // the next seems to have to go as far back.
    let inf = f64::INFINITY;
    let cost = vec![
        0.0,
        inf,
        f64::from(0.770_362_5_f32),
        0.0,
        0.0,
        inf,
        inf,
        0.25,
    ];
    let rows = [0.5, 1.867_531_939_560_652_7, 0.624_621_158_683_872, 0.25];
    let cols = [1.992_153_098_244_524_6, 1.25];
    let case = dense(4, 2, cost, Marginals::balanced(&rows, &cols).unwrap());
    let moved = with::<f64, _>(Kind::Dense, &case, |cost| {
        augmented(&Problem::new(cost, case.marginals.clone()).unwrap())
            .optimum()
            .unwrap()
    });
    every_method!(answers, &case, moved, None);
}

/// At γ·C far beyond what `exp` can hold, in either scalar: no NaN, and bounds that hold the optimum.
fn honest_at<T: Scalar>(epsilon: f64, case: &Case, optimum: f64) {
    let tolerance = 1e-4;
    with::<T, _>(Kind::Dense, case, |cost| {
        let problem = Problem::new(cost, case.marginals.clone()).unwrap();
        let total = case.marginals.total();
        let sinkhorn = earthmover::Sinkhorn::new(earthmover::Epsilon::Annealed {
            from: 0.1,
            to: epsilon,
            factor: 4.0,
        });
        let sinkhorn = sinkhorn.tolerance(tolerance).max_iterations(3_000);
        let newton = earthmover::Newton::new(epsilon)
            .tolerance(tolerance)
            .max_iterations(300);
        for solution in [
            sinkhorn.solve(&problem).unwrap(),
            newton.solve(&problem).unwrap(),
        ] {
            let proof = *solution.certificate();
            assert!(solution.violation().is_finite());
            assert!(solution.potentials().cols.iter().all(|g| !g.is_nan()));
            assert!(
                proof.dual <= optimum + 1e-9 * total && optimum <= proof.primal + 1e-9 * total,
                "{proof:?} {optimum}"
            );
            if solution.status().is_converged() {
                // The certificate looks again in f64: what was claimed in f32 must hold there.
                assert!(
                    proof.violation <= 2.0 * tolerance,
                    "claimed {:e}, is {:e}",
                    solution.violation(),
                    proof.violation
                );
            }
        }
    });
}

#[test]
fn tiny_regularisation_neither_underflows_nor_lies() {
    let n = 30;
    let mut draw = Rng(7);
    // Costs that f32 holds, so that both scalars answer the same question.
    let table: Vec<f64> = (0..n * n).map(|_| f64::from(draw.unit() as f32)).collect();
    let masses: Vec<f64> = (0..n).map(|_| 0.1 + draw.unit()).collect();
    let total: f64 = masses.iter().sum();
    let masses: Vec<f64> = masses.iter().map(|m| m / total).collect();
    let case = dense(
        n,
        n,
        table,
        Marginals::balanced(&masses, &vec![1.0 / n as f64; n]).unwrap(),
    );
    let optimum = with::<f64, _>(Kind::Dense, &case, |cost| {
        augmented(&Problem::new(cost, case.marginals.clone()).unwrap())
            .optimum()
            .unwrap()
    });
    for gamma in [1e3, 1e4, 1e5, 1e6] {
        honest_at::<f32>(1.0 / gamma, &case, optimum);
        honest_at::<f64>(1.0 / gamma, &case, optimum);
    }
}

#[test]
fn costs_of_any_range_are_solved_exactly() {
    let n = 30;
    let mut draw = Rng(11);
    for spread in [1e-12, 1.0, 1e6, 1e12, 1e30] {
        // Many orders of magnitude in one table, some pairs forbidden.
        let table: Vec<f64> = (0..n * n)
            .map(|at| {
                let c = f64::from((spread * 10f64.powf(-6.0 * draw.unit())) as f32);
                if at % 7 == 3 && at / n != at % n {
                    f64::INFINITY
                } else {
                    c
                }
            })
            .collect();
        let case = dense(n, n, table, Marginals::uniform(n, n).unwrap());
        fn check<T: Scalar + Real>(case: &Case) {
            with::<T, _>(Kind::Dense, case, |cost| {
                let problem = Problem::new(cost, case.marginals.clone()).unwrap();
                let solution = NetworkSimplex::new().solve(&problem).unwrap();
                let proof = solution.certificate();
                assert_eq!(solution.status(), Status::Converged);
                assert!(proof.relative_gap().abs() <= 1e-12, "{proof:?}");
            });
        }
        check::<f64>(&case);
        check::<f32>(&case);
    }
}
