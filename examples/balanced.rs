//! Bakeries and cafés: who delivers how much bread where, at the least distance.
//!
//! `cargo run --release --example balanced`
#![allow(missing_docs, clippy::print_stdout)]

use earthmover::{Dense, Error, Exact, Marginals, Problem};

const BAKERIES: [&str; 3] = ["North", "Centre", "Harbour"];
const CAFES: [&str; 4] = ["Anna", "Boris", "Clara", "Dmitri"];

fn main() -> Result<(), Error> {
    let minutes = [
        4.0, 9.0, 12.0, 7.0, //
        6.0, 3.0, 5.0, 8.0, //
        11.0, 6.0, 2.0, 9.0,
    ];
    let baked = [60.0, 80.0, 40.0];
    let ordered = [45.0, 50.0, 55.0, 30.0];

    let problem = Problem::new(
        Dense::new(&minutes, 3, 4)?,
        Marginals::balanced(&baked, &ordered)?,
    )?;
    let solution = Exact::new().solve(&problem)?;

    for entry in solution.plan().entries(0.0) {
        println!(
            "{:>8} → {:<7} {:3} loaves",
            BAKERIES[entry.row], CAFES[entry.col], entry.mass
        );
    }
    let proof = solution.certificate();
    println!(
        "\n{} loaf-minutes; no plan can do better than {}.",
        proof.primal, proof.dual
    );

    // Potentials are prices: what one more loaf ordered would add, up to a common constant.
    let prices = &solution.potentials().cols;
    let (dear, cheap) = extremes(prices);
    println!(
        "An order moved from {} to {} saves {} minutes a loaf.",
        CAFES[dear],
        CAFES[cheap],
        prices[dear] - prices[cheap]
    );
    Ok(())
}

/// Where the values are largest and smallest.
fn extremes(values: &[f64]) -> (usize, usize) {
    let order = |i: &usize, j: &usize| values[*i].total_cmp(&values[*j]);
    let all = 0..values.len();
    (
        all.clone().max_by(order).unwrap_or(0),
        all.min_by(order).unwrap_or(0),
    )
}
