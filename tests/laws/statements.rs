//! The laws, each as a function of a scalar, a solver, a kind of cost and a problem.

use earthmover::cost::Transposed;
use earthmover::{Cost, Dense, Marginals, Problem, Solution};
use earthmover_testkit::augmented;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::costs::{Kind, Permuted, Scalar, Shifted, with};
use crate::methods::{Method, tolerance};
use crate::problems::Case;

/// A problem over any cost, behind one type: the solvers are compiled once per scalar.
pub fn question<T: Scalar>(cost: &dyn Cost<T>, marginals: Marginals) -> Problem<T, &dyn Cost<T>> {
    Problem::new(cost, marginals).unwrap()
}

/// How far the general LP solver may be from the optimum, per unit of mass.
const LP: f64 = 1e-6;

/// How far two answers to the same question may be apart, per unit of mass.
pub fn allowance<T: Scalar, M: Method<T>>() -> f64 {
    if M::is_exact() {
        1e-12
    } else {
        200.0 * tolerance::<T>()
    }
}

/// What a unit of mass in the wrong place may cost beside what it costs to move: the steeper penalty.
pub fn steepness(marginals: &Marginals) -> f64 {
    let strengths = [marginals.row_penalty(), marginals.col_penalty()].map(|p| p.strength());
    let finite = strengths.into_iter().filter(|tau| tau.is_finite());
    1.0 + finite.fold(0.0, f64::max)
}

/// The plan with its slack column and row, worked out from the real entries and the marginals.
fn whole_plan<T: Scalar, C: Cost<T>>(
    problem: &Problem<T, C>,
    solution: &Solution<'_, T, C>,
) -> Vec<f64> {
    let (n, m) = (problem.rows(), problem.cols());
    let masses = problem.marginals();
    let real = solution.plan().to_dense();
    let mut plan = Vec::new();
    let mut used = vec![0.0; m + 1];
    for i in 0..n {
        let row = &real[i * m..(i + 1) * m];
        plan.extend_from_slice(row);
        plan.push(masses.rows()[i] - row.iter().sum::<f64>());
        used.iter_mut()
            .zip(&plan[i * (m + 1)..])
            .for_each(|(u, p)| *u += p);
    }
    let wanted = masses.cols().iter().copied().chain([masses.slack().col]);
    plan.extend(wanted.zip(&used).map(|(w, u)| w - u));
    plan
}

/// No entry is negative, forbidden pairs carry nothing, rows are exact, columns as exact as claimed.
pub fn the_plan_has_the_marginals<T: Scalar, M: Method<T>>(
    kind: Kind,
    case: &Case,
) -> TestCaseResult {
    with::<T, _>(kind, case, |cost| {
        let problem = question(cost, case.marginals.clone());
        let solution = M::make().solve(&problem).unwrap();
        prop_assert!(solution.status().is_converged(), "{:?}", solution.status());
        let total = case.marginals.total();
        let allowed = if M::is_exact() {
            1e-14
        } else {
            tolerance::<T>()
        };
        prop_assert!(
            solution.violation() <= allowed,
            "{:e}",
            solution.violation()
        );
        prop_assert!(solution.certificate().violation <= 1.1 * allowed + 1e-14);

        let slack = case.marginals.slack();
        let plan = solution.plan();
        let dense = plan.to_dense();
        for (at, &p) in dense.iter().enumerate() {
            let (i, j) = (at / case.cols, at % case.cols);
            prop_assert!(p >= 0.0 && p.is_finite());
            prop_assert!(
                p == 0.0 || cost.at(i, j).is_finite(),
                "mass {p} on a forbidden pair"
            );
        }
        for (i, (&sum, &a)) in plan
            .row_sums()
            .iter()
            .zip(case.marginals.rows())
            .enumerate()
        {
            let least = if slack.col > 0.0 { 0.0 } else { a };
            prop_assert!(
                sum >= least - 1e-13 * total && sum <= a + 1e-13 * total,
                "row {i}: {sum} of {a}"
            );
        }
        let mut error = 0.0;
        for (&sum, &b) in plan.col_sums().iter().zip(case.marginals.cols()) {
            error += if slack.row > 0.0 {
                (sum - b).max(0.0)
            } else {
                (sum - b).abs()
            };
        }
        prop_assert!(
            error <= (1.1 * allowed + 1e-13) * total,
            "columns are off by {error:e}"
        );
        prop_assert!((plan.mass() - dense.iter().sum::<f64>()).abs() <= 1e-13 * total);

        // Every view of the plan tells the same story.
        for i in 0..case.rows {
            prop_assert_eq!(
                &plan.row(i).unwrap()[..],
                &dense[i * case.cols..][..case.cols]
            );
        }
        let listed: f64 = plan.entries(0.0).iter().map(|e| e.mass).sum();
        prop_assert!((listed - plan.mass()).abs() <= 1e-13 * total);
        if M::is_exact() {
            prop_assert!(plan.entries(0.0).len() < case.rows + case.cols + 2);
        }
        Ok(())
    })
}

/// dual ≤ optimum ≤ primal, the optimum being a general LP solver's; equal for exact solvers.
pub fn bounds_enclose_the_optimum<T: Scalar, M: Method<T>>(
    kind: Kind,
    case: &Case,
) -> TestCaseResult {
    with::<T, _>(kind, case, |cost| {
        let problem = question(cost, case.marginals.clone());
        let solution = M::make().solve(&problem).unwrap();
        let proof = solution.certificate();
        let unit = case.marginals.total();
        prop_assert!(proof.dual <= proof.primal + 1e-12 * unit, "{proof:?}");
        prop_assert!(
            proof.primal.is_finite() && proof.dual.is_finite(),
            "{proof:?}"
        );
        if M::is_exact() {
            prop_assert!(proof.gap().abs() <= 1e-12 * unit, "{proof:?}");
        }
        let optimum = augmented(&problem).optimum();
        prop_assume!(optimum.is_some());
        let optimum = optimum.unwrap();
        prop_assert!(
            proof.dual <= optimum + LP * unit,
            "{proof:?} but the optimum is {optimum}"
        );
        prop_assert!(
            proof.primal >= optimum - LP * unit,
            "{proof:?} but the optimum is {optimum}"
        );
        // An entropic plan costs at most ε times its entropy more than the best.
        let pairs = ((case.rows + 1) * (case.cols + 1)) as f64;
        let bias = M::EPSILON * unit * pairs.ln() + allowance::<T, M>() * unit;
        prop_assert!(solution.objective() <= optimum + bias + LP * unit);
        Ok(())
    })
}

/// Entropic plans are those of alternating log-sum-exps on the whole augmented matrix; what the answer
/// says its plan costs is what the plan costs.
pub fn the_answer_is_the_textbooks<T: Scalar, M: Method<T>>(
    kind: Kind,
    case: &Case,
) -> TestCaseResult {
    with::<T, _>(kind, case, |cost| {
        let problem = question(cost, case.marginals.clone());
        let solution = M::make().solve(&problem).unwrap();
        let table = augmented(&problem);
        let plan = whole_plan(&problem, &solution);
        let unit = case.marginals.total();
        let price = table.price(&plan, allowance::<T, M>() * unit);
        let allowed = allowance::<T, M>() * unit;
        prop_assert!(
            (solution.objective() - price).abs() <= allowed,
            "{} or {price}",
            solution.objective()
        );
        if M::is_exact() {
            return Ok(());
        }
        let naive = table.sinkhorn(M::EPSILON);
        prop_assume!(naive.is_some());
        for (at, (p, q)) in plan.iter().zip(&naive.unwrap()).enumerate() {
            prop_assert!(
                (p - q).abs() <= allowed,
                "entry {at}: {p} but the textbook has {q}"
            );
        }
        Ok(())
    })
}

/// Permuting rows and columns permutes the answer.
pub fn order_does_not_matter<T: Scalar, M: Method<T>>(kind: Kind, case: &Case) -> TestCaseResult {
    let order = |from: usize, count: usize| {
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|&i, &j| case.noise[from + i].total_cmp(&case.noise[from + j]));
        order
    };
    let (rows, cols) = (order(0, case.rows), order(case.rows, case.cols));
    with::<T, _>(kind, case, |cost| {
        let masses = &case.marginals;
        let pick =
            |from: &[f64], order: &[usize]| order.iter().map(|&i| from[i]).collect::<Vec<_>>();
        let (a, b) = (pick(masses.rows(), &rows), pick(masses.cols(), &cols));
        let moved = Permuted {
            cost,
            rows: rows.clone(),
            cols: cols.clone(),
        };
        let problem = question(cost, masses.clone());
        let permuted = if masses.is_relaxed() {
            let (rows, cols) = (masses.row_penalty(), masses.col_penalty());
            let relaxed = Marginals::relaxed(&a, &b, rows, cols).unwrap();
            relaxed.with_reference(masses.reference())
        } else {
            Marginals::with_slack(&a, &b, masses.slack()).unwrap()
        };
        let permuted = question(&moved, permuted);
        let (one, other) = (
            M::make().solve(&problem).unwrap(),
            M::make().solve(&permuted).unwrap(),
        );
        let allowed = allowance::<T, M>() * masses.total();
        let apart = (one.objective() - other.objective()).abs();
        prop_assert!(apart <= allowed * steepness(masses), "{apart:e}");
        if !M::is_exact() {
            let (p, q) = (one.plan().to_dense(), other.plan().to_dense());
            for (at, q) in q.iter().enumerate() {
                let (i, j) = (rows[at / case.cols], cols[at % case.cols]);
                prop_assert!((p[i * case.cols + j] - q).abs() <= allowed);
            }
        }
        Ok(())
    })
}

/// Exchanging rows and columns transposes the answer.
pub fn neither_do_the_names_of_the_sides<T: Scalar, M: Method<T>>(
    kind: Kind,
    case: &Case,
) -> TestCaseResult {
    with::<T, _>(kind, case, |cost| {
        let problem = question(cost, case.marginals.clone());
        let swapped = Transposed(cost);
        let turned = question(&swapped, case.marginals.transposed());
        let (one, other) = (
            M::make().solve(&problem).unwrap(),
            M::make().solve(&turned).unwrap(),
        );
        let allowed = allowance::<T, M>() * case.marginals.total();
        let apart = (one.objective() - other.objective()).abs();
        prop_assert!(apart <= allowed * steepness(&case.marginals), "{apart:e}");
        if !M::is_exact() {
            let (p, q) = (one.plan().to_dense(), other.plan().to_dense());
            for (at, q) in q.iter().enumerate() {
                let (j, i) = (at / case.rows, at % case.rows);
                prop_assert!((p[i * case.cols + j] - q).abs() <= allowed);
            }
        }
        Ok(())
    })
}

/// C + u ⊕ v costs Σ a u + Σ b v more and changes nothing else. Slack prices are one number each, so
/// where there is slack only constants can be added.
pub fn prices_move_only_potentials<T: Scalar, M: Method<T> + Method<f64>>(
    kind: Kind,
    case: &Case,
) -> TestCaseResult {
    with::<T, _>(kind, case, |cost| {
        let masses = &case.marginals;
        let slack = masses.slack();
        let shift = |from: usize, count: usize, scalar: bool| -> Vec<f64> {
            (0..count)
                .map(|i| case.noise[from + if scalar { 0 } else { i }])
                .collect()
        };
        let u = shift(0, case.rows, slack.col > 0.0);
        let v = shift(case.rows, case.cols, slack.row > 0.0);
        let moved_slack = slack
            .row_cost(slack.row_cost + v[0])
            .col_cost(slack.col_cost + u[0]);
        let paid = |m: &[f64], u: &[f64]| m.iter().zip(u).map(|(m, u)| m * u).sum::<f64>();
        let difference = paid(masses.rows(), &u) + paid(masses.cols(), &v);
        let shifted = Shifted { cost, u, v };
        let marginals = Marginals::with_slack(masses.rows(), masses.cols(), moved_slack).unwrap();
        let problem = question(cost, masses.clone());
        let moved = question(&shifted, marginals);
        let one = <M as Method<T>>::make().solve(&problem).unwrap();
        let other = <M as Method<f64>>::make().solve(&moved).unwrap();
        let allowed = allowance::<T, M>() * masses.total();
        let (before, after) = (one.objective() + difference, other.objective());
        prop_assert!(
            (before - after).abs() <= 4.0 * allowed,
            "{before} or {after}"
        );
        if !<M as Method<T>>::is_exact() {
            for (p, q) in one.plan().to_dense().iter().zip(other.plan().to_dense()) {
                prop_assert!((p - q).abs() <= allowed);
            }
        }
        Ok(())
    })
}

/// The slack problem is the balanced problem of the augmented matrix, which is otherwise never built.
pub fn slack_is_one_more_row_and_column<T: Scalar, M: Method<T>>(
    kind: Kind,
    case: &Case,
) -> TestCaseResult {
    with::<T, _>(kind, case, |cost| {
        let problem = question(cost, case.marginals.clone());
        let table = augmented(&problem);
        let entries: Vec<T> = table.cost.iter().map(|&c| T::narrow(c)).collect();
        let dense = Dense::new(&entries, table.rows, table.cols).unwrap();
        let written = question(&dense, Marginals::balanced(&table.a, &table.b).unwrap());
        let (lean, full) = (
            M::make().solve(&problem).unwrap(),
            M::make().solve(&written).unwrap(),
        );
        let allowed = allowance::<T, M>() * case.marginals.total();
        prop_assert!((lean.objective() - full.objective()).abs() <= allowed);
        if !M::is_exact() {
            let plan = whole_plan(&problem, &lean);
            for (p, q) in plan.iter().zip(full.plan().to_dense()) {
                prop_assert!((p - q).abs() <= allowed);
            }
        }
        let (p, q) = (lean.certificate(), full.certificate());
        prop_assert!((p.dual - q.dual).abs() <= 100.0 * allowed, "{p:?} {q:?}");
        Ok(())
    })
}

/// Starting from an answer, there is nothing to do.
pub fn an_answer_is_its_own_warm_start<T: Scalar, M: Method<T>>(
    kind: Kind,
    case: &Case,
) -> TestCaseResult {
    with::<T, _>(kind, case, |cost| {
        let problem = question(cost, case.marginals.clone());
        let first = M::make().solve(&problem).unwrap();
        let again = M::make().solve_from(&problem, first.potentials()).unwrap();
        let status = again.status();
        prop_assert!(
            status.is_converged(),
            "{status} after {}: {:e} was {:e}",
            again.iterations(),
            again.violation(),
            first.violation()
        );
        prop_assert!(
            again.iterations() <= M::GLANCE,
            "{} iterations",
            again.iterations()
        );
        let allowed = allowance::<T, M>() * case.marginals.total();
        let apart = (first.objective() - again.objective()).abs();
        prop_assert!(apart <= allowed * steepness(&case.marginals), "{apart:e}");
        Ok(())
    })
}

/// `conditional` gives a row of the problem what the plan gives it; an exact answer sends a row where
/// its reduced cost is least.
pub fn new_rows_are_labelled_like_old_ones<T: Scalar, M: Method<T>>(
    kind: Kind,
    case: &Case,
) -> TestCaseResult {
    with::<T, _>(kind, case, |cost| {
        let problem = question(cost, case.marginals.clone());
        let solution = M::make().solve(&problem).unwrap();
        let potentials = solution.potentials();
        for i in 0..case.rows {
            let mass = case.marginals.rows()[i];
            if mass == 0.0 {
                continue;
            }
            let row: Vec<T> = (0..case.cols).map(|j| cost.at(i, j)).collect();
            let (shares, kept) = solution.conditional(&row).unwrap();
            prop_assert!((shares.iter().sum::<f64>() + kept - 1.0).abs() <= 1e-12);
            if M::is_exact() {
                let reduced = |j: usize| row[j].widen() - potentials.cols[j];
                let least = (0..case.cols).map(reduced).fold(
                    case.marginals.slack().col_cost - potentials.slack_col,
                    f64::min,
                );
                for (j, &share) in shares.iter().enumerate() {
                    prop_assert!(share == 0.0 || reduced(j) <= least + 1e-12);
                }
            } else {
                for (share, p) in shares.iter().zip(solution.plan().row(i).unwrap()) {
                    prop_assert!((mass * share - p).abs() <= 1e-9 * mass);
                }
            }
        }
        Ok(())
    })
}
