//! What holds of penalised masses beyond what holds of all.

use earthmover::{Cost, Error, Penalty};
use earthmover_testkit::relaxed_plan;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::costs::{Kind, Scalar, with};
use crate::methods::{Method, tolerance};
use crate::problems::Case;
use crate::statements::{allowance, question, steepness};

/// Cost and penalties of a plan.
fn pays<T: Scalar>(cost: &dyn Cost<T>, case: &Case, plan: &[f64]) -> f64 {
    let (n, m) = (case.rows, case.cols);
    let (mut value, mut rows, mut cols) = (0.0, vec![0.0; n], vec![0.0; m]);
    for (at, &p) in plan.iter().enumerate().filter(|(_, p)| **p > 0.0) {
        let (i, j) = (at / m, at % m);
        value += p * cost.at(i, j).widen();
        rows[i] += p;
        cols[j] += p;
    }
    let masses = &case.marginals;
    let sides = [
        (masses.row_penalty(), masses.rows(), rows),
        (masses.col_penalty(), masses.cols(), cols),
    ];
    for (penalty, masses, sums) in sides {
        if penalty != Penalty::Exact {
            let both = masses.iter().zip(sums);
            value += both.map(|(&mass, sum)| penalty.of(mass, sum)).sum::<f64>();
        }
    }
    value
}

/// Entropic plans are those of alternating steps on the whole matrix; exact ones leave no gap.
pub fn the_answer_is_the_textbooks<T: Scalar, M: Method<T>>(
    kind: Kind,
    case: &Case,
) -> TestCaseResult {
    with::<T, _>(kind, case, |cost| {
        let problem = question(cost, case.marginals.clone());
        let solution = M::make().solve(&problem).unwrap();
        let (status, violation) = (solution.status(), solution.violation());
        prop_assert!(status.is_converged(), "{status} at {violation:e}");
        let proof = solution.certificate();
        prop_assert!(proof.dual <= proof.primal, "{proof:?}");
        // Nothing is gained by moving at costs that are not negative.
        prop_assert!(proof.dual >= -1e-9 * case.marginals.total(), "{proof:?}");
        let unit = case.marginals.total();
        if M::is_exact() {
            // Bounds are moved outwards by what rounding may have done to terms of the size of τ.
            let most = 1e-12 * unit * steepness(&case.marginals);
            prop_assert!(proof.gap() <= most, "{proof:?}");
            return Ok(());
        }
        prop_assert!(
            proof.violation <= 1.1 * tolerance::<T>() + 1e-14,
            "{proof:?}"
        );
        let textbook = relaxed_plan(&problem, M::EPSILON);
        prop_assume!(textbook.is_some());
        let allowed = allowance::<T, M>() * unit;
        for (at, (p, q)) in solution
            .plan()
            .to_dense()
            .iter()
            .zip(textbook.unwrap())
            .enumerate()
        {
            prop_assert!(
                (p - q).abs() <= allowed,
                "entry {at}: {p} but the textbook has {q}"
            );
        }
        Ok(())
    })
}

/// What the answer says its plan costs is what cost and penalties come to; forbidden pairs carry nothing; exact sides are exact.
pub fn the_answer_pays_what_it_says<T: Scalar, M: Method<T>>(
    kind: Kind,
    case: &Case,
) -> TestCaseResult {
    with::<T, _>(kind, case, |cost| {
        let problem = question(cost, case.marginals.clone());
        let solution = M::make().solve(&problem).unwrap();
        let plan = solution.plan().to_dense();
        for (at, &p) in plan.iter().enumerate() {
            let open = cost.at(at / case.cols, at % case.cols).is_finite();
            prop_assert!(p >= 0.0 && p.is_finite() && (p == 0.0 || open));
        }
        let (masses, unit) = (&case.marginals, case.marginals.total());
        let paid = pays(cost, case, &plan);
        let (proof, said) = (solution.certificate(), solution.objective());
        let size = 1e-12 * (paid.abs() + unit);
        prop_assert!((said - paid).abs() <= size, "{said} but it costs {paid}");
        prop_assert!((proof.objective - paid).abs() <= size, "{proof:?}");
        prop_assert!((proof.mass - plan.iter().sum::<f64>()).abs() <= 1e-12 * proof.mass);
        // A plan that errs in its exact sums only may cost less than the optimum, by what it errs.
        if !masses.col_penalty().is_exact() {
            prop_assert!(proof.dual <= paid + size, "{proof:?} but {paid}");
        }
        if masses.row_penalty().is_exact() {
            for (sum, &a) in solution.plan().row_sums().iter().zip(masses.rows()) {
                prop_assert!((sum - a).abs() <= 1e-13 * unit, "{sum} of {a}");
            }
        }
        Ok(())
    })
}

/// Solvers that know exact masses only refuse others, with their name.
#[test]
fn exact_masses_only_is_said() {
    let draw = crate::problems::Draw::penalised(Kind::Dense, crate::problems::Penalties::Any);
    crate::random::check(crate::random::cases(16, 1), draw, &|case| {
        with::<f64, _>(Kind::Dense, case, |cost| {
            let problem = question(cost, case.marginals.clone());
            let simplex = earthmover::NetworkSimplex::new().solve(&problem);
            let paths = earthmover::ShortestPaths::new().solve(&problem);
            for answer in [simplex, paths] {
                let refused = matches!(answer, Err(Error::Penalised { .. }));
                prop_assert!(refused);
            }
            Ok(())
        })
    });
}
