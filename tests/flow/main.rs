//! Minimum-cost flow and bounded transport against an independent LP solver and their own proofs.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod bounded;
mod entropic;
mod honesty;
mod networks;

use earthmover_testkit::Rng;

/// From −`scale` to `scale`; an integer half of the time, for ties and degeneracy.
fn number(rng: &mut Rng, scale: f64) -> f64 {
    let x = (2.0 * rng.unit() - 1.0) * scale;
    if rng.below(2) == 0 { x.round() } else { x }
}
