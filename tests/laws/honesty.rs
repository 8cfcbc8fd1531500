//! No false word, however strange the question: offsets up to 10¹⁵, large numbers for forbidden pairs, ε from 10⁻³⁰⁰ to
//! 10³⁰⁰, masses over many decades, wide, tall and square, stopped at any moment.
//!
//! Of every answer: bounds hold the optimum, `Converged` means that the plan itself is within the tolerance, a plan
//! that was cut short is what it says it is, and no potential is NaN.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use earthmover::{
    Cost, Dense, Entropic, Epsilon, Error, Exact, Marginals, Method, NetworkSimplex, Newton,
    PointCloud, Problem, Progress, Real, ShortestPaths, Sinkhorn, Slack, Solution,
    SquaredEuclidean, Status,
};
use earthmover_testkit::Rng;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};

use crate::random::cases;

/// A strange question, as plain numbers.
#[derive(Debug)]
struct Strange {
    rows: usize,
    cols: usize,
    table: Vec<f64>,
    marginals: Marginals,
    epsilon: f64,
    tolerance: f64,
    max_iterations: usize,
    /// The call of the progress callback that breaks.
    stop: Option<usize>,
    forbidden: bool,
    /// What is written for pairs that nobody should use.
    large: Option<f64>,
}

fn strange(seed: u64, scalar: f64) -> Strange {
    let mut draw = Rng(seed);
    let (rows, cols) = match draw.below(4) {
        0 => (1 + draw.below(5), 16 + draw.below(60)),
        1 => (16 + draw.below(60), 1 + draw.below(5)),
        2 => (1 + draw.below(12), 1 + draw.below(12)),
        _ => (20 + draw.below(20), 20 + draw.below(20)),
    };
    let unit = if draw.chance(0.7) {
        1.0
    } else {
        draw.decades(-6.0, 6.0)
    };
    let mut table: Vec<f64> = (0..rows * cols).map(|_| unit * draw.unit()).collect();
    if draw.chance(0.3) {
        table
            .iter_mut()
            .for_each(|c| *c = (*c / unit * 4.0).floor() * unit);
    }
    let largest = if scalar > 1e-10 { 6.0 } else { 15.0 };
    match draw.below(4) {
        0 => {
            let all = draw.decades(0.0, largest) * if draw.chance(0.5) { 1.0 } else { -1.0 };
            table.iter_mut().for_each(|c| *c += all);
        }
        1 => {
            for line in table.chunks_exact_mut(cols) {
                let one = draw.decades(0.0, largest) * if draw.chance(0.5) { 1.0 } else { -1.0 };
                line.iter_mut().for_each(|c| *c += one);
            }
        }
        _ => {}
    }
    let large = match draw.below(4) {
        0 => Some(draw.decades(3.0, 30.0) * unit),
        1 => Some(f64::INFINITY),
        _ => None,
    };
    if let Some(large) = large {
        let share = 0.9 * draw.unit();
        for at in 0..table.len() {
            // Somebody has to be allowed: a stretched diagonal.
            let (i, j) = (at / cols, at % cols);
            let kept = i * cols / rows == j || j * rows / cols == i;
            if !kept && draw.chance(share) {
                table[at] = large;
            }
        }
    }
    let side = |draw: &mut Rng, count: usize| -> Vec<f64> {
        match draw.below(4) {
            0 => (0..count).map(|_| draw.decades(-12.0, 0.0)).collect(),
            1 => (0..count)
                .map(|i| {
                    if i > 0 && draw.chance(0.3) {
                        0.0
                    } else {
                        draw.unit() + 0.1
                    }
                })
                .collect(),
            2 => vec![1.0; count],
            _ => (0..count).map(|_| draw.unit() + 0.05).collect(),
        }
    };
    let (a, b) = (side(&mut draw, rows), side(&mut draw, cols));
    let marginals = if draw.chance(0.3) {
        let most = a.iter().sum::<f64>().min(b.iter().sum());
        Marginals::bounded(&a, &b, most * draw.unit()).unwrap()
    } else if draw.chance(0.1) {
        let slack = Slack::new(b.iter().sum::<f64>(), a.iter().sum::<f64>())
            .row_cost(draw.unit())
            .col_cost(draw.unit())
            .corner_cost(if draw.chance(0.5) { 0.0 } else { f64::INFINITY });
        Marginals::with_slack(&a, &b, slack).unwrap()
    } else {
        Marginals::normalised(&a, &b).unwrap()
    };
    let epsilon = if draw.chance(0.2) {
        draw.decades(-300.0, 300.0)
    } else {
        unit * draw.decades(-4.0, 1.0)
    };
    Strange {
        rows,
        cols,
        forbidden: large == Some(f64::INFINITY),
        large,
        table,
        marginals,
        epsilon,
        tolerance: draw.decades(-9.0, -2.0),
        max_iterations: if draw.chance(0.3) {
            draw.below(20)
        } else {
            400
        },
        stop: draw.chance(0.4).then(|| draw.below(12)),
    }
}

type Answer<'p, T> = Result<Solution<'p, T, &'p dyn Cost<T>>, Error>;

/// All solvers on one question, with the names they go by; exact ones last.
fn answers<'p, T: Real>(
    problem: &'p Problem<T, &'p dyn Cost<T>>,
    case: &Strange,
) -> Vec<(&'static str, bool, Answer<'p, T>)> {
    let stop = case.stop;
    let callback = move || {
        let calls = AtomicUsize::new(0);
        move |progress: &Progress| {
            assert!((0.0..=1.0).contains(&progress.done) && progress.gap >= 0.0);
            if Some(calls.fetch_add(1, Ordering::Relaxed)) == stop {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        }
    };
    let (epsilon, tolerance, most) = (case.epsilon, case.tolerance, case.max_iterations);
    macro_rules! entropic {
        ($solver:expr) => {{
            let solver = $solver.tolerance(tolerance).max_iterations(most);
            solver.on_progress(callback()).solve(problem)
        }};
    }
    macro_rules! exact {
        ($solver:expr) => {{
            let solver = $solver.max_iterations(if most < 20 { most } else { usize::MAX });
            solver.on_progress(callback()).solve(problem)
        }};
    }
    vec![
        ("sinkhorn", false, entropic!(Sinkhorn::new(epsilon))),
        ("newton", false, entropic!(Newton::new(epsilon))),
        ("entropic", false, entropic!(Entropic::new(epsilon))),
        ("simplex", true, exact!(NetworkSimplex::new())),
        ("contracted", true, exact!(ShortestPaths::new())),
        ("exact", true, exact!(Exact::new())),
    ]
}

fn says_what_is_so<T: Real>(case: &Strange) -> TestCaseResult {
    let table: Vec<T> = case.table.iter().map(|&c| T::narrow(c)).collect();
    let dense = Dense::new(&table, case.rows, case.cols).unwrap();
    let problem = Problem::new(&dense as &dyn Cost<T>, case.marginals.clone()).unwrap();
    let all = answers(&problem, case);
    let finite = table.iter().map(|c| c.widen()).filter(|c| c.is_finite());
    let reference = NetworkSimplex::new().solve(&problem);

    // One question, one opinion on whether it has an answer.
    for (name, _, answer) in &all {
        match (answer, &reference) {
            (Err(error), Err(_)) => {
                let text = error.to_string();
                prop_assert!(text.len() < 300, "{name}: {text}");
            }
            (Err(error), Ok(_)) => prop_assert!(false, "{name} refuses: {error}"),
            // A solver that was stopped before it could know.
            (Ok(found), Err(error)) => {
                prop_assert!(!found.status().is_converged(), "{name} answers: {error}");
            }
            (Ok(_), Ok(_)) => {}
        }
    }
    let Ok(reference) = reference else {
        return Ok(());
    };
    let best = *reference.certificate();
    let slack = case.marginals.slack();
    let slack_costs = [slack.row_cost, slack.col_cost, slack.corner_cost];
    let finite = finite.chain(slack_costs.into_iter().filter(|c| c.is_finite()));
    // Masses are known to their last digit, so the optimum is to that digit of the mass at the price of a pair.
    let paid = finite
        .clone()
        .filter(|c| Some(*c) != case.large.map(|l| T::narrow(l).widen()));
    let digit = 4.0 * f64::EPSILON * case.marginals.total();
    let digit = digit * paid.fold(0.0, |m: f64, c| m.max(c.abs()));
    let size = finite.fold(0.0, |m: f64, c| m.max(c.abs())) * case.marginals.total();
    prop_assert!(reference.status().is_converged());
    prop_assert!(
        best.dual <= best.primal + digit && best.gap() <= 1e-9 * size.max(1e-300),
        "{best:?}"
    );

    for (name, is_exact, answer) in &all {
        let Ok(found) = answer else { continue };
        let proof = *found.certificate();
        let told = format!("{name} {:?} {proof:?}", found.status());
        prop_assert!(
            proof.dual <= best.primal + digit && best.dual <= proof.primal + digit,
            "{told} {best:?}"
        );
        let potentials = found.potentials();
        let all = potentials.rows.iter().chain(&potentials.cols);
        prop_assert!(all.copied().all(|p| !p.is_nan()), "{told}");
        let measured = found.violation();
        prop_assert!(measured.is_finite() && measured >= 0.0, "{told} {measured}");
        let most = if *is_exact && case.max_iterations >= 20 {
            usize::MAX
        } else {
            case.max_iterations
        };
        if *name != "exact" {
            prop_assert!(
                found.iterations() <= most,
                "{told} after {}",
                found.iterations()
            );
        }
        match (found.status(), is_exact) {
            (Status::Converged, false) => {
                prop_assert!(
                    proof.violation <= case.tolerance,
                    "{told} {}",
                    case.tolerance
                );
                prop_assert!(measured <= case.tolerance, "{told}");
            }
            (Status::Converged, true) => {
                prop_assert!(proof.violation <= 1e-12, "{told}");
                prop_assert!(
                    (measured - proof.violation).abs() <= 1e-12,
                    "{told} {measured}"
                );
                prop_assert!(proof.gap() <= 1e-9 * size.max(1e-300), "{told}");
            }
            // Cut short, and feasible all the same unless forbidden pairs are in the way.
            (Status::Stopped | Status::IterationLimit, true) if !case.forbidden => {
                prop_assert!(proof.violation <= 1e-9, "{told}");
            }
            (Status::Stopped, _) => prop_assert!(case.stop.is_some(), "{told}"),
            _ => {}
        }
        prop_assert_eq!(found.advice().is_none(), found.status().is_converged());
    }
    Ok(())
}

fn holds<T: Real>() {
    let mut runner = TestRunner::new(cases(400, 1));
    let outcome = runner.run(&any::<u64>(), |seed| {
        says_what_is_so::<T>(&strange(seed, T::epsilon().widen()))
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn nothing_false_in_f64() {
    holds::<f64>();
}

#[test]
fn nothing_false_in_f32() {
    holds::<f32>();
}

#[test]
fn sweeps_do_not_depend_on_how_large_a_forbidding_number_is() {
    let n = 30;
    let mut counts = Vec::new();
    for large in [1e4, 1e12, 1e20, 1e30, 1e200] {
        let mut draw = Rng(7);
        let table: Vec<f64> = (0..n * n)
            .map(|at| {
                let c = draw.unit();
                if draw.chance(0.3) && at / n != at % n {
                    large
                } else {
                    c
                }
            })
            .collect();
        let dense = Dense::new(&table, n, n).unwrap();
        let problem = Problem::new(dense, Marginals::uniform(n, n).unwrap()).unwrap();
        let found = [
            Sinkhorn::new(0.05).solve(&problem).unwrap(),
            Newton::new(0.05).solve(&problem).unwrap(),
            Entropic::new(0.05).solve(&problem).unwrap(),
        ];
        assert!(found.iter().all(|s| s.status().is_converged()), "{large:e}");
        assert!(
            found.iter().all(|s| s.certificate().primal < 1.0),
            "{large:e}"
        );
        counts.push(found.map(|s| s.iterations()));
    }
    assert!(counts.windows(2).all(|w| w[0] == w[1]), "{counts:?}");
}

#[test]
fn offsets_cost_no_digits() {
    for (n, m) in [(5, 20), (20, 5), (3, 3), (25, 25)] {
        for offset in [0.0, 1e10, 1e12, 1e15] {
            let mut draw = Rng(3);
            // Multiples of 1/8, which a number of 10¹⁵ still holds.
            let table: Vec<f64> = (0..n * m)
                .map(|_| offset + (80.0 * draw.unit()).floor() / 8.0)
                .collect();
            let dense = Dense::new(&table, n, m).unwrap();
            let problem = Problem::new(dense, Marginals::uniform(n, m).unwrap()).unwrap();
            for found in [
                Newton::new(0.05).tolerance(1e-9).solve(&problem).unwrap(),
                Entropic::new(0.05).tolerance(1e-9).solve(&problem).unwrap(),
            ] {
                assert!(found.status().is_converged(), "{n} × {m} at {offset:e}");
                assert!(found.certificate().violation <= 1e-9);
            }
        }
    }
}

/// Two displaced clouds, large enough to be solved coarse to fine.
fn clouds(n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut draw = Rng(11);
    let here = (0..2 * n).map(|_| draw.unit()).collect();
    let there = (0..2 * n).map(|_| 0.4 + 0.7 * draw.unit()).collect();
    (here, there)
}

#[test]
fn entropic_clouds_stop_at_any_moment_and_say_so() {
    let n = 700;
    let (here, there) = clouds(n);
    let cloud = PointCloud::new(&here, &there, 2, SquaredEuclidean).unwrap();
    let problem =
        Problem::new(&cloud as &dyn Cost<f64>, Marginals::uniform(n, n).unwrap()).unwrap();
    let whole = Entropic::new(1e-3).tolerance(1e-5).solve(&problem).unwrap();
    assert!(whole.status().is_converged() && whole.certificate().violation <= 1e-5);
    for stop in [0, 3, 10, 30, 60] {
        let calls = AtomicUsize::new(0);
        let solver = Entropic::new(1e-3)
            .tolerance(1e-5)
            .on_progress(move |progress| {
                assert!((0.0..=1.0).contains(&progress.done));
                if calls.fetch_add(1, Ordering::Relaxed) == stop {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
        let found = solver.solve(&problem).unwrap();
        assert_eq!(found.status(), Status::Stopped, "{stop}");
        let proof = found.certificate();
        assert!(
            (proof.violation - found.violation()).abs() <= 1e-5,
            "{stop} {proof:?}"
        );
        let best = whole.certificate();
        assert!(proof.dual <= best.primal && best.dual <= proof.primal);
    }
    let late = Entropic::new(1e-3)
        .time_limit(Duration::ZERO)
        .solve(&problem);
    assert_eq!(late.unwrap().status(), Status::Stopped);
    let few = Entropic::new(1e-3)
        .max_iterations(2)
        .solve(&problem)
        .unwrap();
    assert_eq!(
        (few.status(), few.iterations()),
        (Status::IterationLimit, 2)
    );
}

#[test]
fn a_stop_keeps_the_work_that_was_done() {
    let n = 1500;
    let (here, there) = clouds(n);
    let cloud = PointCloud::new(&here, &there, 2, SquaredEuclidean).unwrap();
    let problem =
        Problem::new(&cloud as &dyn Cost<f64>, Marginals::uniform(n, n).unwrap()).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let best = Exact::new().on_progress(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    let best = best.solve(&problem).unwrap();
    let (optimum, calls) = (best.objective(), calls.load(Ordering::Relaxed));
    assert!(calls > 8, "{calls}");
    let mut costs = Vec::new();
    for at in [0, calls / 4, calls / 2, calls - 2] {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        // Breaks once: whoever is asked again would go on.
        let stopped = Exact::new().on_progress(move |_| {
            if count.fetch_add(1, Ordering::Relaxed) == at {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        let stopped = stopped.solve(&problem).unwrap();
        assert_eq!(
            (stopped.status(), asked.load(Ordering::Relaxed)),
            (Status::Stopped, at + 1)
        );
        let proof = stopped.certificate();
        assert!(proof.violation <= 1e-12 && proof.dual <= optimum && optimum <= proof.primal);
        costs.push(stopped.objective());
    }
    // Later is better, and nearly the end is nearly the optimum.
    assert!(costs.windows(2).all(|w| w[1] <= w[0]), "{costs:?}");
    assert!(
        costs[3] <= 1.001 * optimum && costs[0] > 1.1 * optimum,
        "{costs:?} {optimum}"
    );
    let cap = best.iterations() - 50;
    let capped = Exact::new().max_iterations(cap).solve(&problem).unwrap();
    assert_eq!(
        (capped.status(), capped.iterations()),
        (Status::IterationLimit, cap)
    );
    assert!(capped.objective() <= 1.001 * optimum && capped.violation() <= 1e-12);
}

#[test]
fn no_time_is_no_pivot_and_hardly_a_sweep() {
    let n = 700;
    let (here, there) = clouds(n);
    let cloud = PointCloud::new(&here, &there, 2, SquaredEuclidean).unwrap();
    let labels: Vec<f64> = (0..n * 5).map(|at| (at * 31 % 101) as f64 / 50.0).collect();
    let labels = Dense::new(&labels, n, 5).unwrap();
    for cost in [&cloud as &dyn Cost<f64>, &labels] {
        let marginals = Marginals::uniform(n, cost.cols()).unwrap();
        let problem = Problem::new(cost, marginals).unwrap();
        let none = Duration::ZERO;
        for (found, most) in [
            (Sinkhorn::new(1e-4).time_limit(none).solve(&problem), 1),
            (Newton::new(1e-4).time_limit(none).solve(&problem), 2),
            (Entropic::new(1e-4).time_limit(none).solve(&problem), 2),
            (NetworkSimplex::new().time_limit(none).solve(&problem), 0),
            (ShortestPaths::new().time_limit(none).solve(&problem), 0),
            (Exact::new().time_limit(none).solve(&problem), 0),
        ] {
            let found = found.unwrap();
            assert_eq!(found.status(), Status::Stopped);
            assert!(found.iterations() <= most, "{}", found.iterations());
            assert!(found.certificate().dual <= found.certificate().primal);
        }
        // And with time enough nothing is stopped.
        let hour = Duration::from_secs(3600);
        let found = Exact::new().time_limit(hour).solve(&problem).unwrap();
        assert!(found.status().is_converged());
    }
}

#[test]
fn exact_solves_show_how_far_they_are() {
    let n = 1500;
    let (here, there) = clouds(n);
    let cloud = PointCloud::new(&here, &there, 2, SquaredEuclidean).unwrap();
    let marginals = Marginals::uniform(n, n).unwrap();
    let problem = Problem::new(&cloud as &dyn Cost<f64>, marginals).unwrap();
    let optimum = Exact::new().solve(&problem).unwrap().objective();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let solver = NetworkSimplex::new().on_progress(move |p| {
        notes.lock().unwrap().push((p.done, p.gap));
        ControlFlow::Continue(())
    });
    assert!(solver.solve(&problem).unwrap().status().is_converged());
    let seen = seen.lock().unwrap();
    assert!(seen.windows(2).all(|w| w[0].0 <= w[1].0), "{seen:?}");
    let (last, gap) = *seen.last().unwrap();
    assert!(last > 0.99 && gap <= 1e-6 * optimum, "{last} {gap}");
    let known = seen.iter().filter(|s| s.1.is_finite()).count();
    assert!(2 * known > seen.len(), "{known} of {}", seen.len());
}

#[test]
fn a_start_far_away_is_no_answer() {
    let costs = [0.2, 0.9, 0.4, 0.7, 0.6, 0.1, 0.8, 0.3, 0.5, 0.5, 0.9, 0.2];
    let dense = Dense::new(&costs, 3, 4).unwrap();
    let problem = Problem::new(dense, Marginals::uniform(3, 4).unwrap()).unwrap();
    let best = NetworkSimplex::new().solve(&problem).unwrap();
    for (shift, only_first) in [(1e15, false), (1e16, false), (1e17, true), (1e200, true)] {
        let mut start = best.potentials().clone();
        let moved = if only_first { 1 } else { 4 };
        start.cols[..moved].iter_mut().for_each(|g| *g += shift);
        for found in [
            ShortestPaths::new().solve_from(&problem, &start).unwrap(),
            NetworkSimplex::new().solve_from(&problem, &start).unwrap(),
        ] {
            assert!(found.status().is_converged());
            assert!(found.certificate().gap() < 1e-12, "{shift:e}");
        }
        for found in [
            Sinkhorn::new(0.1).solve_from(&problem, &start).unwrap(),
            Newton::new(0.1).solve_from(&problem, &start).unwrap(),
            Entropic::new(0.1).solve_from(&problem, &start).unwrap(),
        ] {
            assert!(found.status().is_converged(), "{shift:e}");
        }
    }
}

#[test]
fn stopped_answers_are_no_worse_than_none() {
    let (n, m) = (200, 150);
    let mut draw = Rng(5);
    let costs: Vec<f64> = (0..n * m).map(|_| draw.unit()).collect();
    let dense = Dense::new(&costs, n, m).unwrap();
    let marginals = Marginals::bounded(&vec![1.0; n], &vec![1.5; m], 150.0).unwrap();
    let problem = Problem::new(&dense as &dyn Cost<f64>, marginals).unwrap();
    let at = |stop: usize| {
        let calls = AtomicUsize::new(0);
        move |_: &Progress| match calls.fetch_add(1, Ordering::Relaxed) < stop {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    let start = ShortestPaths::new()
        .on_progress(at(0))
        .solve(&problem)
        .unwrap();
    let cold = Newton::new(0.01).max_iterations(0).solve(&problem).unwrap();
    for stop in [1, 2, 5, 12, 30] {
        let found = ShortestPaths::new()
            .on_progress(at(stop))
            .solve(&problem)
            .unwrap();
        assert!(found.objective() <= start.objective() + 1e-9, "{stop}");
        let found = Newton::new(0.01)
            .on_progress(at(stop))
            .solve(&problem)
            .unwrap();
        let worst = cold.certificate().violation.max(0.05);
        assert!(found.certificate().violation <= 1.01 * worst, "{stop}");
    }
}

#[test]
fn offsets_of_rows_that_change_are_not_forgotten() {
    let (n, k) = (60, 4);
    for offset in [0.0, 1e6, 1e12, 1e15] {
        let mut draw = Rng(9);
        let costs: Vec<f64> = (0..n * k).map(|_| offset + draw.unit()).collect();
        let marginals = Marginals::uniform(n, k).unwrap();
        let mut kept =
            earthmover::Incremental::new(costs.clone(), marginals.clone(), 0.01).unwrap();
        let resolved = kept.solve(1e-6).unwrap();
        assert_eq!(resolved.status.is_converged(), offset <= 1e6, "{offset:e}");
    }
}

#[test]
fn units_do_not_matter() {
    let costs = [6.0, 6.0, 5.0, 6.0, 8.0, 1.0, 0.0, 2.0, 1.0];
    let (a, b) = ([0.1, 0.01, 1e-4], [0.01, 1e-4, 1e-3]);
    for (unit, mass) in [
        (1.0, 1.0),
        (1e-200, 1.0),
        (1e-250, 1.0),
        (1e200, 1.0),
        (1.0, 1e100),
        (1e-120, 1e-120),
    ] {
        let scaled = costs.map(|c| c * unit);
        let plain = Marginals::normalised(&a, &b).unwrap();
        let masses = |m: &[f64]| m.iter().map(|m| m * mass).collect::<Vec<_>>();
        let marginals = Marginals::balanced(&masses(plain.rows()), &masses(plain.cols())).unwrap();
        let problem = Problem::new(Dense::new(&scaled, 3, 3).unwrap(), marginals).unwrap();
        for found in [
            Newton::new(0.01 * unit).solve(&problem).unwrap(),
            Entropic::new(0.01 * unit).solve(&problem).unwrap(),
            Sinkhorn::new(1.0 * unit).solve(&problem).unwrap(),
        ] {
            assert!(found.status().is_converged(), "{unit:e} {mass:e}");
        }
    }
    let vast = Marginals::balanced(&[3e99, 7e99], &[6e99, 4e99]).unwrap();
    let problem = Problem::new(Dense::new(&[0.0, 3.0, 2.0, 1.0], 2, 2).unwrap(), vast).unwrap();
    assert!(
        Newton::new(1e300)
            .solve(&problem)
            .unwrap()
            .status()
            .is_converged()
    );
}

#[test]
fn a_stopped_answer_is_the_best_so_far() {
    for (seed, n, m, epsilon) in [
        (1, 300, 10, 0.005),
        (2, 60, 60, 0.005),
        (5, 20, 20, 0.001),
        (12, 60, 60, 0.005),
        (7, 60, 30, 0.001),
    ] {
        let mut draw = Rng(seed);
        let costs: Vec<f64> = (0..n * m).map(|_| draw.unit()).collect();
        let mut side = |count| -> Vec<f64> { (0..count).map(|_| draw.unit() + 0.01).collect() };
        let marginals = Marginals::normalised(&side(n), &side(m)).unwrap();
        let problem = Problem::new(Dense::new(&costs, n, m).unwrap(), marginals).unwrap();
        let annealed = Epsilon::Annealed {
            from: 1.0,
            to: epsilon,
            factor: 3.0,
        };
        for solver in [
            Method::from(Sinkhorn::new(epsilon)),
            Method::from(Sinkhorn::new(annealed)),
            Method::from(Newton::new(epsilon)),
            Method::from(Entropic::new(epsilon)),
        ] {
            // Whatever was reported of the whole problem at this ε.
            let log = Arc::new(Mutex::new(Vec::new()));
            let notes = Arc::clone(&log);
            let watched = solver.clone().on_progress(move |p| {
                notes.lock().unwrap().push(*p);
                ControlFlow::Continue(())
            });
            assert!(watched.solve(&problem).unwrap().status().is_converged());
            let log = log.lock().unwrap().clone();
            let is_last = |p: &Progress| p.epsilon == epsilon && p.iteration > 0;
            // The samples that Newton's method begins with count from the beginning, too.
            let whole = log.iter().rposition(|p| !is_last(p)).map_or(0, |at| at + 1);
            let mut best = f64::INFINITY;
            for (at, seen) in log.iter().enumerate().skip(whole) {
                best = best.min(seen.violation);
                let calls = AtomicUsize::new(0);
                let stopped = solver.clone().on_progress(move |_| {
                    match calls.fetch_add(1, Ordering::Relaxed) == at {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    }
                });
                let capped = solver.clone().max_iterations(seen.iteration);
                for found in [stopped.solve(&problem), capped.solve(&problem)] {
                    let found = found.unwrap();
                    let told = format!("{solver:?} {n} × {m}, call {at}: {:?}", found.status());
                    assert!(!found.status().is_converged(), "{told}");
                    for violation in [found.violation(), found.certificate().violation] {
                        assert!(violation <= 1.01 * best + 1e-7, "{told} {violation} {best}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_large_number_forbids_as_infinity_does() {
    let mut compared = 0;
    for seed in 0..60 {
        let mut draw = Rng(seed);
        let shapes = [
            (2, 2),
            (3, 2),
            (2, 3),
            (4, 2),
            (5, 3),
            (3, 8),
            (20, 5),
            (3, 40),
        ];
        let (n, m) = shapes[draw.below(shapes.len())];
        let whole = |draw: &mut Rng, count: usize| -> Vec<f64> {
            let mut masses = vec![1.0; count];
            for _ in count..4 * n.max(m) {
                masses[draw.below(count)] += 1.0;
            }
            masses
        };
        let (a, b) = (whole(&mut draw, n), whole(&mut draw, m));
        let marginals = Marginals::balanced(&a, &b).unwrap();
        let forbidden: Vec<f64> = (0..n * m)
            .map(|_| {
                let price = (draw.unit() * 64.0).round() / 64.0;
                if draw.chance(0.5) {
                    f64::INFINITY
                } else {
                    price
                }
            })
            .collect();
        let epsilon = [1e-4, 1e-2, 1e-1][draw.below(3)];
        let dense = Dense::new(&forbidden, n, m).unwrap();
        let problem = Problem::new(dense, marginals.clone()).unwrap();
        for solver in [
            Method::from(Sinkhorn::new(epsilon)),
            Method::from(Newton::new(epsilon)),
            Method::from(Entropic::new(epsilon)),
        ] {
            let Ok(best) = solver.solve(&problem) else {
                continue;
            };
            if !best.status().is_converged() {
                continue;
            }
            for large in [1e3, 1e6, 1e9, 1e15, 1e30] {
                let priced: Vec<f64> = forbidden.iter().map(|c| c.min(large)).collect();
                let dense = Dense::new(&priced, n, m).unwrap();
                let asked = Problem::new(dense, marginals.clone()).unwrap();
                let found = solver.solve(&asked).unwrap();
                let told = format!(
                    "{solver:?} {n} × {m}, {seed}, {large:e}: {:?}",
                    found.status()
                );
                assert!(found.status().is_converged(), "{told}");
                assert_eq!(found.iterations(), best.iterations(), "{told}");
                assert_eq!(found.plan().to_dense(), best.plan().to_dense(), "{told}");
                compared += 1;
            }
        }
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn newton_given_up_in_the_middle_of_a_step_says_what_it_has() {
    let n = 600;
    let (here, there) = clouds(n);
    let cloud = PointCloud::new(&here, &there, 2, SquaredEuclidean).unwrap();
    let problem =
        Problem::new(&cloud as &dyn Cost<f64>, Marginals::uniform(n, n).unwrap()).unwrap();
    for epsilon in [0.01, 0.1] {
        let cold = Newton::new(epsilon)
            .max_iterations(0)
            .solve(&problem)
            .unwrap();
        for micros in [0, 500, 5_000, 20_000, 60_000, 150_000] {
            let limit = Duration::from_micros(micros);
            let found = Newton::new(epsilon)
                .time_limit(limit)
                .solve(&problem)
                .unwrap();
            let (proof, told) = (found.certificate(), found.status());
            let off = (proof.violation - found.violation()).abs();
            assert!(off <= 1e-6, "{micros} µs: {told:?} {off}");
            // Samples are solved to what they know about the whole.
            let worst = cold.certificate().violation.max(0.25);
            assert!(proof.violation <= 1.01 * worst, "{micros} µs: {told:?}");
        }
    }
}

#[test]
fn upper_bounds_do_not_pay_large_numbers() {
    let n = 6;
    for epsilon in [1e-2, 1e-1, 1.0] {
        let mut bounds = Vec::new();
        for large in [f64::INFINITY, 1e4, 1e6, 1e9, 1e15] {
            let mut draw = Rng(3);
            let costs: Vec<f64> = (0..n * n)
                .map(|at| {
                    let price = draw.unit();
                    let dear = draw.chance(0.5) && at / n != at % n;
                    if dear { large } else { price }
                })
                .collect();
            let dense = Dense::new(&costs, n, n).unwrap();
            let problem = Problem::new(dense, Marginals::uniform(n, n).unwrap()).unwrap();
            let found = Sinkhorn::new(epsilon).solve(&problem).unwrap();
            bounds.push(found.certificate().primal);
        }
        let most = 1.05 * bounds[0];
        assert!(bounds.iter().all(|b| *b <= most), "{epsilon} {bounds:?}");
    }
}
