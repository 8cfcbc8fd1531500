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
mod networks;
#[path = "../common/rng.rs"]
mod rng;

use rng::Rng;

/// From −`scale` to `scale`; an integer half of the time, for ties and degeneracy.
fn number(rng: &mut Rng, scale: f64) -> f64 {
    let x = (2.0 * rng.unit() - 1.0) * scale;
    if rng.below(2) == 0 { x.round() } else { x }
}

fn optimum(lp: &microlp::Problem) -> Result<f64, microlp::Error> {
    match lp.solve()? {
        microlp::SolveOutcome::Solution(solution) => Ok(solution.objective()),
        microlp::SolveOutcome::Interrupted(_) => panic!("no limit was set"),
    }
}
