//! The laws of transport, stamped on every kind of cost, both scalars and every solver.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod backends;
mod costs;
mod edges;
mod honesty;
mod label_allocation;
mod methods;
mod penalties;
mod problems;
mod random;
mod statements;
mod threads;

use costs::{KINDS, Kind};
use methods::Method;
use problems::{Draw, Penalties};

/// One module per kind of cost, one per scalar in it, one per solver in that, one test per law.
macro_rules! stamp {
    ($($name:ident = $kind:ident $(if $feature:literal)?),* $(,)?) => {$(
        $(#[cfg(feature = $feature)])?
        mod $name {
            use super::*;
            stamp!(@scalars $kind, f32, f64);
        }
    )*};
    (@scalars $kind:ident, $($scalar:ident),*) => {$(
        mod $scalar {
            use super::*;
            stamp!(@solvers $kind, $scalar,
                sinkhorn = Sinkhorn, stored = Stored, annealed = Annealed, newton = Newton,
                entropic = Entropic, simplex = NetworkSimplex, contracted = ShortestPaths, exact = Exact);
        }
    )*};
    (@solvers $kind:ident, $scalar:ident, $($name:ident = $solver:ident),*) => {$(
        mod $name {
            use super::*;
            stamp!(@laws $kind, $scalar, $solver,
                the_plan_has_the_marginals,
                bounds_enclose_the_optimum,
                the_answer_is_the_textbooks,
                order_does_not_matter,
                neither_do_the_names_of_the_sides,
                prices_move_only_potentials,
                slack_is_one_more_row_and_column,
                an_answer_is_its_own_warm_start,
                new_rows_are_labelled_like_old_ones,
            );
            stamp!(@penalised $kind, $scalar, $solver);
        }
    )*};
    // Two solvers know exact masses only, and say so.
    (@penalised $kind:ident, $scalar:ident, NetworkSimplex) => {};
    (@penalised $kind:ident, $scalar:ident, ShortestPaths) => {};
    (@penalised $kind:ident, $scalar:ident, $solver:ident) => {
        mod penalised {
            use super::*;
            stamp!(@penalised_laws $kind, $scalar, $solver,
                penalties::the_answer_is_the_textbooks,
                penalties::the_answer_pays_what_it_says,
                statements::order_does_not_matter,
                statements::neither_do_the_names_of_the_sides,
                statements::an_answer_is_its_own_warm_start,
            );
        }
    };
    (@penalised_laws $kind:ident, $scalar:ident, $solver:ident, $($room:ident::$law:ident,)*) => {
        $(#[test]
        fn $law() {
            let exact = <methods::$solver as Method<$scalar>>::is_exact();
            let penalties = if exact { Penalties::Tv } else { Penalties::Any };
            let draw = Draw::penalised(Kind::$kind, penalties);
            random::check(random::cases(4, KINDS), draw, &|case| {
                $room::$law::<$scalar, methods::$solver>(Kind::$kind, case)
            });
        })*
    };
    (@laws $kind:ident, $scalar:ident, $solver:ident, $($law:ident,)*) => {
        $(#[test]
        fn $law() {
            random::check(random::cases(6, KINDS), Draw::small(Kind::$kind), &|case| {
                statements::$law::<$scalar, methods::$solver>(Kind::$kind, case)
            });
        })*
    };
}

stamp!(
    dense = Dense,
    matrix = Matrix if "nalgebra",
    view = View if "nalgebra",
    closure = Closure,
    own = Own,
    turned = Turned,
    sparse = Sparse,
    sparse_turned = SparseTurned,
    squared_euclidean = SquaredEuclidean,
    euclidean = Euclidean,
    manhattan = Manhattan,
    cosine = Cosine,
    own_metric = OwnMetric,
);
