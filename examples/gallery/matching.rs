//! A cloud and the same cloud turned, mirrored and shaken: Gromov–Wasserstein sees distances within each only, and finds who is who.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use earthmover::{GromovProblem, GromovWasserstein, Marginals, Relations};

const COUNT: usize = 160;

/// A spiral with a tail, and some noise that is the same on every machine.
fn spiral() -> Vec<f64> {
    let noise = |k: usize| ((k as f64 * 0.754_877_666_2).fract() - 0.5) * 0.12;
    (0..COUNT)
        .flat_map(|k| {
            let t = k as f64 / COUNT as f64;
            let (angle, radius) = (7.0 * t, 0.15 + 0.9 * t);
            [
                radius * angle.cos() + noise(2 * k),
                radius * angle.sin() + noise(2 * k + 1),
            ]
        })
        .collect()
}

pub(crate) fn draw(file: &Path) -> Result<(), Box<dyn Error>> {
    let here = spiral();
    let (s, c) = 2.2f64.sin_cos();
    let shake = |k: usize| ((k as f64 * 0.569_840_291).fract() - 0.5) * 0.04;
    let there: Vec<f64> = here
        .chunks_exact(2)
        .enumerate()
        .flat_map(|(k, p)| {
            let (x, y) = (-p[0], p[1]); // mirrored, then turned
            [c * x - s * y + shake(k), s * x + c * y + shake(k + 7)]
        })
        .collect();
    let problem = GromovProblem::new(
        Relations::points(&here, 2)?,
        Relations::points(&there, 2)?,
        Marginals::uniform(COUNT, COUNT)?,
    )?;
    let solution = GromovWasserstein::new().starts(8).solve(&problem)?;
    let proof = solution.certificate();
    let matched = solution.argmax();
    let right = matched
        .iter()
        .enumerate()
        .filter(|(i, j)| **j == Some(*i))
        .count();
    println!(
        "{}: {right} of {COUNT} points are matched to themselves; {:.2e} ≤ GW ≤ {:.2e}",
        solution.status(),
        proof.lower,
        proof.upper
    );
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 300\" width=\"640\" height=\"300\">\n<rect width=\"640\" height=\"300\" fill=\"white\"/>\n",
    );
    let place = |p: &[f64], middle: f64| (middle + 115.0 * p[0], 150.0 - 115.0 * p[1]);
    let colour = |k: usize| format!("hsl({},70%,45%)", 300 * k / COUNT);
    for (k, col) in matched.iter().enumerate() {
        let Some(col) = col else { continue };
        let (x, y) = place(&here[2 * k..], 150.0);
        let (u, v) = place(&there[2 * col..], 490.0);
        writeln!(
            svg,
            "<path d=\"M{x:.1} {y:.1}L{u:.1} {v:.1}\" stroke=\"{}\" stroke-width=\"0.5\" opacity=\"0.35\"/>",
            colour(k)
        )?;
        for (x, y) in [(x, y), (u, v)] {
            writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{}\"/>",
                colour(k)
            )?;
        }
    }
    svg.push_str("</svg>\n");
    std::fs::write(file, svg)?;
    println!("{}", file.display());
    Ok(())
}
