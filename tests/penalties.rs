//! Penalised masses: every combination of penalties, over the whole range of τ, ε and masses, proven by duality.
#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::panic
)]

use earthmover::{
    Cost, Dense, Entropic, Error, Exact, Kernel, Marginals, NetworkSimplex, Newton, Penalty,
    Problem, Reference, ShortestPaths, Sinkhorn, Slack, Solution, Solver,
};
use earthmover_testkit::{Rng, distances};

const INF: f64 = f64::INFINITY;

fn penalty_of(p: Penalty, mass: f64, sum: f64) -> f64 {
    if p.is_exact() { 0.0 } else { p.of(mass, sum) }
}

/// Regularised primal and dual values of an answer, from its plan and potentials alone.
fn values<C: Cost<f64>>(
    problem: &Problem<f64, C>,
    solution: &Solution<'_, f64, C>,
) -> (f64, f64, f64) {
    let (n, m) = (problem.rows(), problem.cols());
    let masses = problem.marginals();
    let epsilon = solution.epsilon();
    let (a, b) = (masses.rows(), masses.cols());
    let plan = solution.plan().to_dense();
    let (mut primal, mut size) = (0.0, 0.0);
    let (mut r, mut c) = (vec![0.0; n], vec![0.0; m]);
    let mut reference = 0.0;
    for i in 0..n {
        for j in 0..m {
            let p = plan[i * m + j];
            r[i] += p;
            c[j] += p;
            let against = match masses.reference() {
                Reference::Product => a[i] * b[j],
                Reference::Counting => 1.0,
            };
            if masses.reference() == Reference::Product {
                reference += against;
            }
            if p > 0.0 {
                let cost = problem.cost().at(i, j);
                primal += p * cost + epsilon * p * ((p / against).ln() - 1.0);
                size += p * cost.abs() + epsilon * p * (1.0 + (p / against).ln().abs());
            }
        }
    }
    primal += epsilon * reference;
    let potentials = solution.potentials();
    let mut dual = -epsilon * (plan.iter().sum::<f64>() - reference);
    let offset = |mass: f64| match masses.reference() {
        Reference::Product => epsilon * mass.ln(),
        Reference::Counting => 0.0,
    };
    for (p, masses, sums, prices) in [
        (masses.row_penalty(), a, &r, &potentials.rows),
        (masses.col_penalty(), b, &c, &potentials.cols),
    ] {
        for ((&mass, &sum), &price) in masses.iter().zip(sums).zip(prices) {
            primal += penalty_of(p, mass, sum);
            size += penalty_of(p, mass, sum);
            if mass > 0.0 {
                let term = p.conjugate(mass, price - offset(mass));
                dual += term;
                size += term.abs();
            }
        }
    }
    (primal, dual, size)
}

/// Whether an answer has converged and is proven optimal by duality.
fn proven<C: Cost<f64>>(
    problem: &Problem<f64, C>,
    solver: &impl Solver<f64>,
    what: &str,
) -> Result<(), String> {
    let solution = solver.solve(problem).map_err(|e| format!("{what}: {e}"))?;
    let (primal, dual, size) = values(problem, &solution);
    let proof = solution.certificate();
    let (status, violation) = (solution.status(), solution.violation());
    if !status.is_converged() || !(proof.violation <= 2e-9) {
        return Err(format!("{what}: {status}, {violation:e}, {proof:?}"));
    }
    // What columns are still off by pays the penalty, too.
    let masses = problem.marginals();
    let strengths = [masses.row_penalty(), masses.col_penalty()].map(Penalty::strength);
    let steep = strengths.into_iter().filter(|tau| tau.is_finite());
    let unpaid = proof.violation * proof.mass * steep.fold(0.0, f64::max);
    if !((primal - dual).abs() <= 1e-7 * size + 2.0 * unpaid) || !(proof.dual <= proof.primal) {
        return Err(format!("{what}: {primal} {dual} of {size}, {proof:?}"));
    }
    Ok(())
}

fn combinations(tau: f64) -> [(Penalty, Penalty); 8] {
    let (kl, tv, exact) = (Penalty::Kl(tau), Penalty::Tv(tau), Penalty::Exact);
    [
        (kl, kl),
        (kl, exact),
        (exact, kl),
        (tv, tv),
        (kl, tv),
        (tv, kl),
        (tv, exact),
        (exact, tv),
    ]
}

#[test]
fn every_penalty_at_every_scale() {
    let mut rng = Rng(5);
    let (n, m) = (20, 30);
    let costs = distances(&mut rng, n, m);
    let cost = Dense::new(&costs, n, m).unwrap();
    let mut wrong = Vec::new();
    for decades in [0.0, 12.0] {
        let mut masses = |count: usize| -> Vec<f64> {
            let each = |_| 10f64.powf(-decades * rng.unit()) * (0.5 + rng.unit());
            (0..count).map(each).collect()
        };
        let (a, b) = (masses(n), masses(m));
        for tau in [1e-3, 0.1, 1.0, 30.0, 1e3, 1e6] {
            for (rows, cols) in combinations(tau) {
                for reference in [Reference::Product, Reference::Counting] {
                    let marginals = Marginals::relaxed(&a, &b, rows, cols).unwrap();
                    let problem = Problem::new(cost, marginals.with_reference(reference)).unwrap();
                    for epsilon in [1e-4, 1e-2, 1.0, 10.0] {
                        let what = format!(
                            "{decades} decades, {rows:?} {cols:?} {reference:?} ε {epsilon}"
                        );
                        let solver = Entropic::new(epsilon).tolerance(1e-9);
                        wrong.extend(proven(&problem, &solver, &what).err());
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
}

#[test]
fn every_entropic_solver_keeps_every_law() {
    let mut rng = Rng(9);
    for (n, m) in [(7, 5), (6, 21), (40, 3)] {
        let mut costs = rng.units(n * m);
        costs[1] = INF;
        let cost = Dense::new(&costs, n, m).unwrap();
        let (mut a, b) = (rng.masses(n, true), rng.masses(m, true));
        a.iter_mut().for_each(|a| *a *= 1.7);
        for (rows, cols) in combinations(0.4) {
            let marginals = Marginals::relaxed(&a, &b, rows, cols).unwrap();
            let problem = Problem::new(cost, marginals).unwrap();
            let what = format!("{n} × {m} {rows:?} {cols:?}");
            let sinkhorn = Sinkhorn::new(0.05).tolerance(1e-9);
            proven(&problem, &sinkhorn.clone().kernel(Kernel::Stored), &what).unwrap();
            proven(&problem, &sinkhorn.clone().kernel(Kernel::Streamed), &what).unwrap();
            proven(&problem, &sinkhorn.clone().acceleration(0), &what).unwrap();
            proven(&problem, &Newton::new(0.05).tolerance(1e-9), &what).unwrap();
            proven(&problem.transposed(), &sinkhorn, &what).unwrap();
            // One plan, whichever way it is looked at; an answer is its own warm start.
            let here = sinkhorn.solve(&problem).unwrap();
            let turned = problem.transposed();
            let there = sinkhorn.solve(&turned).unwrap();
            let (p, q) = (here.plan().to_dense(), there.plan().to_dense());
            for i in 0..n {
                for j in 0..m {
                    assert!((p[i * m + j] - q[j * n + i]).abs() < 1e-7, "{what}");
                }
            }
            let again = sinkhorn.solve_from(&problem, here.potentials()).unwrap();
            assert!(again.iterations() <= 3, "{what}: {}", again.iterations());
        }
    }
}

/// Wide problems are turned round, solved and turned back; small sides are where Newton's method is chosen, and masses over twelve decades
/// under unequal penalties are where its parabola is far from them.
#[test]
fn wide_and_lopsided_problems_are_solved_too() {
    let mut rng = Rng(17);
    let mut wrong = Vec::new();
    for case in 0..120 {
        let (n, m) = [(1, 36), (2, 40), (3, 50), (12, 31), (36, 7)][case % 5];
        let costs = distances(&mut rng, n, m);
        let cost = Dense::new(&costs, n, m).unwrap();
        let decades = [0.0, 3.0, 12.0][case % 3];
        let mut masses = |count: usize| -> Vec<f64> {
            let each = |_| 10f64.powf(-decades * rng.unit()) * (0.5 + rng.unit());
            (0..count).map(each).collect()
        };
        let (a, b) = (masses(n), masses(m));
        let mut penalty = || match rng.below(3) {
            0 => Penalty::Tv(rng.decades(-3.0, 6.0)),
            _ => Penalty::Kl(rng.decades(-3.0, 6.0)),
        };
        let (rows, cols) = match case % 7 {
            0 => (Penalty::Exact, penalty()),
            1 => (penalty(), Penalty::Exact),
            _ => (penalty(), penalty()),
        };
        let epsilon = rng.decades(-3.0, 1.0);
        let problem = Problem::new(cost, Marginals::relaxed(&a, &b, rows, cols).unwrap()).unwrap();
        let what = format!("{case}: {n} × {m}, {decades}, {rows:?} {cols:?} ε {epsilon}");
        let entropic = Entropic::new(epsilon).tolerance(1e-9);
        wrong.extend(proven(&problem, &entropic, &what).err());
        let newton = Newton::new(epsilon).tolerance(1e-9).max_iterations(10_000);
        wrong.extend(proven(&problem, &newton, &what).err());
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
}

#[test]
fn single_precision_finds_the_same_plan() {
    let mut rng = Rng(3);
    let (n, m) = (30, 24);
    let costs = rng.units(n * m);
    let narrow: Vec<f32> = costs.iter().map(|&c| c as f32).collect();
    let wide: Vec<f64> = narrow.iter().map(|&c| f64::from(c)).collect();
    for (rows, cols) in combinations(0.3) {
        let (a, b) = (rng.masses(n, false), rng.masses(m, false));
        let marginals = || Marginals::relaxed(&a, &b, rows, cols).unwrap();
        let solver = Entropic::new(0.05).tolerance(1e-5);
        let one = Problem::new(Dense::new(&narrow, n, m).unwrap(), marginals()).unwrap();
        let two = Problem::new(Dense::new(&wide, n, m).unwrap(), marginals()).unwrap();
        let (one, two) = (solver.solve(&one).unwrap(), solver.solve(&two).unwrap());
        assert!(one.status().is_converged() && two.status().is_converged());
        let pairs = one.plan().to_dense().into_iter().zip(two.plan().to_dense());
        let apart: f64 = pairs.map(|(p, q)| (p - q).abs()).sum();
        assert!(apart < 2e-4, "{rows:?} {cols:?}: {apart}");
    }
}

#[test]
fn hard_penalties_are_exact_masses_and_tv_is_slack() {
    let mut rng = Rng(11);
    let (n, m) = (40, 35);
    let costs = distances(&mut rng, n, m);
    let cost = Dense::new(&costs, n, m).unwrap();
    let (a, b) = (rng.masses(n, false), rng.masses(m, false));
    let balanced = Problem::new(cost, Marginals::balanced(&a, &b).unwrap()).unwrap();
    let solver = Entropic::new(0.02).tolerance(1e-11);
    let plan = solver.solve(&balanced).unwrap().plan().to_dense();
    for penalty in [Penalty::Kl(1e6), Penalty::Tv(1e3), Penalty::Kl(INF)] {
        let marginals = Marginals::relaxed(&a, &b, penalty, penalty).unwrap();
        let problem = Problem::new(cost, marginals).unwrap();
        let relaxed = solver.solve(&problem).unwrap().plan().to_dense();
        let apart: f64 = plan.iter().zip(&relaxed).map(|(p, q)| (p - q).abs()).sum();
        assert!(apart < 1e-6, "{penalty:?}: {apart}");
    }
    // TV without entropy: what stays behind costs τ a unit on either side.
    let tau = 0.003;
    let (tv, heavy) = (
        Penalty::Tv(tau),
        b.iter().map(|b| 1.4 * b).collect::<Vec<_>>(),
    );
    let slack = Slack::new(1.4, 1.0).row_cost(tau).col_cost(tau);
    let slack = Marginals::with_slack(&a, &heavy, slack).unwrap();
    let slack = Problem::new(cost, slack).unwrap();
    let slack = Exact::new().solve(&slack).unwrap().objective();
    let problem = Problem::new(cost, Marginals::relaxed(&a, &heavy, tv, tv).unwrap()).unwrap();
    let solution = Exact::new().solve(&problem).unwrap();
    assert!((solution.objective() - slack).abs() < 1e-12 * slack.max(1.0));
    assert!(solution.certificate().gap() < 1e-12 && solution.status().is_converged());
    assert!(solution.certificate().mass < 0.9);
    let entropic = Entropic::new(1e-5).solve(&problem).unwrap();
    assert!((entropic.objective() - slack).abs() < 1e-3 * slack);
}

#[test]
fn tv_of_any_kind_is_solved_to_the_optimum() {
    let mut rng = Rng(21);
    for case in 0..60 {
        let (n, m) = (2 + rng.below(9), 2 + rng.below(9));
        let mut costs: Vec<f64> = rng.units(n * m).iter().map(|c| c - 0.2).collect();
        if case % 3 == 0 {
            costs[n * m - 1] = INF;
        }
        let (a, mut b) = (rng.masses(n, true), rng.masses(m, true));
        b.iter_mut().for_each(|b| *b *= 0.5 + rng.unit());
        let exact = Penalty::Exact;
        let (strong, weak) = (Penalty::Tv(0.1 + rng.unit()), Penalty::Tv(0.15));
        for (rows, cols) in [
            (strong, weak),
            (weak, strong),
            (strong, exact),
            (exact, weak),
        ] {
            let cost = Dense::new(&costs, n, m).unwrap();
            let problem =
                Problem::new(cost, Marginals::relaxed(&a, &b, rows, cols).unwrap()).unwrap();
            let solution = match Exact::new().solve(&problem) {
                Ok(solution) => solution,
                // The corner may be all that a line of mass has.
                Err(Error::Blocked { .. }) => continue,
                Err(other) => panic!("{other}"),
            };
            let proof = solution.certificate();
            assert!(
                proof.gap().abs() < 1e-11,
                "{case} {rows:?} {cols:?} {proof:?}"
            );
            let sums = solution.plan().row_sums();
            if rows.is_exact() {
                assert!(sums.iter().zip(&a).all(|(s, a)| (s - a).abs() < 1e-12));
            }
        }
    }
}

#[test]
fn kl_without_entropy_ends_at_the_gap_asked_for() {
    let mut rng = Rng(31);
    let (n, m) = (60, 50);
    let costs = distances(&mut rng, n, m);
    let (a, b) = (rng.masses(n, false), rng.masses(m, false));
    for (tau, gap) in [(1.0, 1e-3), (0.05, 1e-4), (20.0, 1e-3)] {
        let kl = Penalty::Kl(tau);
        for (rows, cols) in [(kl, kl), (kl, Penalty::Exact), (Penalty::Tv(0.5), kl)] {
            let cost = Dense::new(&costs, n, m).unwrap();
            let problem =
                Problem::new(cost, Marginals::relaxed(&a, &b, rows, cols).unwrap()).unwrap();
            let solution = Exact::new().gap(gap).solve(&problem).unwrap();
            let proof = solution.certificate();
            assert!(solution.status().is_converged(), "{tau} {rows:?} {proof:?}");
            assert!(proof.relative_gap() <= gap && proof.dual <= proof.primal);
        }
    }
}

#[test]
fn lines_without_a_way_are_left_alone_and_wrong_questions_refused() {
    let costs = [INF, INF, 0.1, INF, 0.2, INF];
    let cost = Dense::new(&costs, 2, 3).unwrap();
    let (a, b, kl) = ([1.0, 2.0], [1.0, 1.0, 1.0], Penalty::Kl(0.5));
    let problem =
        |rows, cols| Problem::new(cost, Marginals::relaxed(&a, &b, rows, cols).unwrap()).unwrap();
    let open = Dense::new(&[INF, INF, INF, 0.3, 0.2, INF], 2, 3).unwrap();
    let alone = Problem::new(open, Marginals::relaxed(&a, &b, kl, kl).unwrap()).unwrap();
    let solution = Entropic::new(0.1).tolerance(1e-9).solve(&alone).unwrap();
    assert!(solution.status().is_converged());
    assert_eq!(solution.plan().row_sums()[0], 0.0);
    assert_eq!(solution.plan().col_sums()[2], 0.0);
    assert!(solution.certificate().gap() < 0.5 && solution.certificate().gap() >= 0.0);
    let stuck = Problem::new(
        open,
        Marginals::relaxed(&a, &b, Penalty::Exact, kl).unwrap(),
    )
    .unwrap();
    let error = Entropic::new(0.1).solve(&stuck).unwrap_err();
    assert!(matches!(error, Error::Blocked { index: 0, .. }), "{error}");
    let penalised = problem(kl, kl);
    for error in [
        NetworkSimplex::new().solve(&penalised).unwrap_err(),
        ShortestPaths::new().solve(&penalised).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Penalised { .. }), "{error}");
    }
    for tau in [0.0, -1.0, f64::NAN] {
        let error = Marginals::relaxed(&a, &b, Penalty::Kl(tau), kl).unwrap_err();
        assert!(matches!(
            error,
            Error::Option {
                name: "row penalty",
                ..
            }
        ));
    }
    let paid = Dense::new(&[-3.0], 1, 1).unwrap();
    let tv = Penalty::Tv(1.0);
    let paid = Problem::new(paid, Marginals::relaxed(&[1.0], &[1.0], tv, tv).unwrap()).unwrap();
    for error in
        [Entropic::new(0.1).solve(&paid), Exact::new().solve(&paid)].map(Result::unwrap_err)
    {
        assert!(
            matches!(error, Error::Gainful { least, .. } if least == -2.0),
            "{error}"
        );
    }
}
