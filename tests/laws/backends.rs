//! The laws of a sweep, on both CPU backends and both scalars, down to ε where γ·C passes a million.

use earthmover::sweep::{Backend, DualPoint, Stabilised, Streamed, conformance};
use earthmover::{Error, Problem};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::costs::{Kind, Scalar, with};
use crate::problems::{Case, Draw};
use crate::random;

fn keeps_its_laws<T: Scalar>(case: &Case, gamma: f64, absorbed: bool) -> TestCaseResult {
    with::<T, _>(Kind::Dense, case, |cost| {
        let problem = Problem::new(cost, case.marginals.clone()).unwrap();
        let masses = problem.marginals();
        let potentials: Vec<f64> = (0..case.cols)
            .map(|j| {
                if masses.cols()[j] > 0.0 {
                    case.noise[1 + j]
                } else {
                    f64::NEG_INFINITY
                }
            })
            .collect();
        let slack = if masses.slack().col > 0.0 {
            case.noise[1 + case.cols]
        } else {
            f64::NEG_INFINITY
        };
        let at = DualPoint {
            epsilon: 1.0 / gamma,
            cols: &potentials,
            slack,
        };
        let mut backend: Box<dyn Backend> = if absorbed {
            Box::new(Stabilised::new(&cost, masses.rows()))
        } else {
            Box::new(Streamed::new(&cost, masses.rows()))
        };
        let found = match conformance(&mut *backend, &problem, &at) {
            Ok(deviation) => deviation,
            // A row may be open to massless columns only as long as the slack column takes it.
            Err(Error::Blocked { index, .. }) => {
                let open = |j: usize| cost.at(index, j).is_finite() && potentials[j].is_finite();
                prop_assert!(slack == f64::NEG_INFINITY && !(0..case.cols).any(open));
                return Ok(());
            }
            Err(other) => panic!("{other}"),
        };
        let allowed = 32.0 * backend.resolution();
        prop_assert!(found.sums <= allowed, "sums {:e} > {allowed:e}", found.sums);
        // Potentials of the rows and what is worked out from them are rounded at the size of the potentials.
        let largest = potentials.iter().chain([&slack]).filter(|g| g.is_finite());
        let largest = largest.fold(1.0f64, |m, g| m.max(g.abs()));
        let allowed = allowed + 8.0 * f64::EPSILON * largest * gamma;
        prop_assert!(
            found.log_sums <= allowed,
            "log-sums {:e} > {allowed:e}",
            found.log_sums
        );
        prop_assert!(
            found.row_potentials <= allowed,
            "rows {:e} > {allowed:e}",
            found.row_potentials
        );
        Ok(())
    })
}

/// Every backend and scalar, at γ from 1 to millions.
macro_rules! stamp {
    ($($name:ident = $scalar:ident, $absorbed:literal;)*) => {$(
        #[test]
        fn $name() {
            random::check(random::cases(256, 1), Draw::SMALL, &|case| {
                let gamma = 10f64.powf(3.0 + 3.5 * case.noise[case.noise.len() - 1]);
                keeps_its_laws::<$scalar>(case, gamma, $absorbed)
            });
        }
    )*};
}

stamp! {
    streamed_f32 = f32, false;
    streamed_f64 = f64, false;
    absorbed_f32 = f32, true;
    absorbed_f64 = f64, true;
}

/// Each way of reading a cost gives the same entries.
fn reads_alike<T: Scalar>(kind: Kind, case: &Case) -> TestCaseResult {
    with::<T, _>(kind, case, |cost| {
        let (n, m) = (cost.rows(), cost.cols());
        prop_assert_eq!((n, m), (case.rows, case.cols));
        let (mut by_row, mut by_col) = (vec![T::zero(); n * m], vec![T::zero(); n * m]);
        cost.fill(0..n, &mut by_row);
        cost.fill_cols(0..m, &mut by_col);
        let near = |a: T, b: T| a == b || (a - b).abs() <= T::narrow(16.0) * T::epsilon();
        for i in 0..n {
            for j in 0..m {
                prop_assert!(near(cost.at(i, j), by_row[i * m + j]));
                prop_assert!(near(cost.at(i, j), by_col[j * n + i]));
            }
        }
        if let Some(block) = cost.block(0..n) {
            prop_assert_eq!(block, &by_row[..]);
        }
        Ok(())
    })
}

#[test]
fn costs_read_alike_by_entry_row_and_column() {
    let kinds = [
        Kind::Dense,
        Kind::Closure,
        Kind::Own,
        Kind::Turned,
        Kind::Sparse,
        Kind::SparseTurned,
        Kind::SquaredEuclidean,
        Kind::Euclidean,
        Kind::Manhattan,
        Kind::Cosine,
        Kind::OwnMetric,
    ];
    #[cfg(feature = "nalgebra")]
    let kinds = [&kinds[..], &[Kind::Matrix, Kind::View]].concat();
    random::check(random::cases(64, 1), Draw::SMALL, &|case| {
        kinds.iter().try_for_each(|&kind| {
            reads_alike::<f32>(kind, case)?;
            reads_alike::<f64>(kind, case)
        })
    });
}
