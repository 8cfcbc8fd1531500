//! The pictures of `examples/README.md`: `cargo run --release --example gallery -- <picture> [file]`.
//!
//! `barycenters` a sheet of interpolations between four shapes, `matching` two clouds matched under a rotation by Gromov–Wasserstein,
//! `colours` a painting in the colours of another, `robust` clouds with strangers in them, `flow` a drop that becomes a heart, `moons`
//! labels carried over to other moons.
#![allow(missing_docs, clippy::print_stdout)]

mod barycenters;
mod colours;
mod flow;
mod matching;
mod moons;
mod noise;
mod picture;
mod plot;
mod robust;

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let which = arguments.next().unwrap_or_default();
    let file = arguments.next().map(PathBuf::from);
    let named = |name: &str| file.clone().unwrap_or_else(|| PathBuf::from(name));
    match which.as_str() {
        "barycenters" => barycenters::draw(&named("barycenters.png")),
        "matching" => matching::draw(&named("matching.svg")),
        "colours" => colours::draw(&named("colours.png")),
        "flow" => flow::draw(&named("flow.png")),
        "moons" => moons::draw(&named("moons.png")),
        "robust" => robust::draw(&named("robust.png")),
        _ => {
            println!(
                "cargo run --release --example gallery -- barycenters | matching | colours | robust | flow | moons [file]"
            );
            Ok(())
        }
    }
}
