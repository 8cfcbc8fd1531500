//! Partial transport: riders and drivers, where not everybody needs to be matched.
//!
//! Rows give at most what they have, columns take at most what they can, and at least so much moves in
//! all. As more is asked for, the cheapest pairs come first and the price of the next one rises.
//!
//! `cargo run --release --example bounded`
#![allow(missing_docs, clippy::print_stdout)]

use earthmover::{Error, Exact, FromFn, Marginals, Problem};

fn main() -> Result<(), Error> {
    // Twelve riders along a street, five drivers with three seats each; kilometres between them.
    let riders = [0.1, 0.4, 0.5, 1.2, 1.3, 1.9, 4.0, 4.4, 6.1, 6.2, 8.8, 9.5];
    let drivers = [0.0, 1.0, 2.5, 6.0, 7.5];
    let kilometres = FromFn::new(riders.len(), drivers.len(), |i, j| {
        f64::abs(riders[i] - drivers[j])
    })?;

    println!("asked  taken  kilometres  for the next  left at the kerb");
    let mut before = 0.0;
    for asked in 1..=riders.len() {
        let seats = [3.0; 5];
        let marginals = Marginals::bounded(&[1.0; 12], &seats, asked as f64)?;
        let problem = Problem::new(&kilometres, marginals)?;
        let solution = Exact::new().solve(&problem)?;
        let proof = solution.certificate();
        let waiting: Vec<String> = solution
            .plan()
            .argmax()
            .iter()
            .zip(&riders)
            .filter(|(driver, _)| driver.is_none())
            .map(|(_, place)| format!("{place}"))
            .collect();
        println!(
            "{asked:>5}  {:>5}  {:>10.2}  {:>12.2}  {}",
            proof.mass,
            proof.primal,
            proof.primal - before,
            waiting.join(" ")
        );
        before = proof.primal;
    }
    Ok(())
}
