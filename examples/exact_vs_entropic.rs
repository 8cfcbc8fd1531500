//! What regularisation costs: ε against objective, proven gap and time, and the plans as a picture.
//!
//! Two histograms on a line, one mound against two; the cost is the squared distance. A large ε blurs the
//! plan and is found at once; a small one is sharp and takes longer; the exact solver draws the curve itself.
//!
//! `cargo run --release --example exact_vs_entropic [picture.svg]`
#![allow(missing_docs, clippy::print_stdout)]

use std::fmt::Write as _;
use std::time::Instant;

use earthmover::{Dense, Entropic, Exact, Marginals, Problem, Solution};

const PLACES: usize = 400;

type Line<'a> = Problem<f64, Dense<'a, f64>>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = |i: usize| (i as f64 + 0.5) / PLACES as f64;
    let cost: Vec<f64> = (0..PLACES * PLACES)
        .map(|at| (place(at / PLACES) - place(at % PLACES)).powi(2))
        .collect();
    let mound = |x: f64, at: f64, width: f64| (-((x - at) / width).powi(2)).exp();
    let from = histogram(|i| mound(place(i), 0.5, 0.2));
    let to = histogram(|i| mound(place(i), 0.2, 0.06) + 0.6 * mound(place(i), 0.75, 0.09));
    let problem: Line<'_> = Problem::new(
        Dense::new(&cost, PLACES, PLACES)?,
        Marginals::balanced(&from, &to)?,
    )?;

    let start = Instant::now();
    let exact = Exact::new().solve(&problem)?;
    let (seconds, optimum) = (start.elapsed().as_secs_f64(), exact.objective());
    println!("       ε   objective   above optimum    proven gap   iterations        ms");
    row("exact", &exact, optimum, seconds);

    let mut panels = vec![panel("exact", &exact)];
    for epsilon in [0.0003, 0.001, 0.003, 0.01, 0.03, 0.1] {
        let start = Instant::now();
        let solution = Entropic::new(epsilon).tolerance(1e-8).solve(&problem)?;
        let seconds = start.elapsed().as_secs_f64();
        row(&epsilon.to_string(), &solution, optimum, seconds);
        if [0.001, 0.01, 0.1].contains(&epsilon) {
            panels.push(panel(&format!("ε = {epsilon}"), &solution));
        }
    }

    let path = std::env::args().nth(1);
    let path = path.unwrap_or_else(|| "target/exact_vs_entropic.svg".into());
    if let Some(folder) = std::path::Path::new(&path).parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&path, picture(&panels))?;
    println!("\nThe plans are drawn in {path}.");
    Ok(())
}

fn histogram(height: impl Fn(usize) -> f64) -> Vec<f64> {
    let total: f64 = (0..PLACES).map(&height).sum();
    (0..PLACES).map(|i| height(i) / total).collect()
}

fn row(name: &str, solution: &Solution<'_, f64, Dense<'_, f64>>, optimum: f64, seconds: f64) {
    let proof = solution.certificate();
    println!(
        "{name:>8}  {:>10.7}  {:>12.3} %  {:>12.1e}  {:>11}  {:>8.1}",
        proof.objective,
        100.0 * (proof.objective / optimum - 1.0),
        proof.gap(),
        solution.iterations(),
        1e3 * seconds,
    );
}

/// A plan, coarse enough to draw: the mass in each square of a grid, and a title.
struct Panel {
    title: String,
    grid: Vec<f64>,
}

const GRID: usize = 80;
const PIXEL: usize = 3;

fn panel(title: &str, solution: &Solution<'_, f64, Dense<'_, f64>>) -> Panel {
    let mut grid = vec![0.0; GRID * GRID];
    for entry in solution.plan().entries(0.0) {
        let (i, j) = (entry.row * GRID / PLACES, entry.col * GRID / PLACES);
        grid[i * GRID + j] += entry.mass;
    }
    Panel {
        title: title.into(),
        grid,
    }
}

/// Panels side by side; darker is more mass, on a logarithmic scale of three decades.
fn picture(panels: &[Panel]) -> String {
    let side = GRID * PIXEL;
    let (step, top) = (side + 20, 30);
    let (width, height) = (panels.len() * step + 20, side + top + 20);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"14\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (at, panel) in panels.iter().enumerate() {
        let left = 20 + at * step;
        let _ = writeln!(
            svg,
            "<text x=\"{left}\" y=\"20\">{}</text>\n<rect x=\"{left}\" y=\"{top}\" width=\"{side}\" \
             height=\"{side}\" fill=\"none\" stroke=\"#bbb\"/>",
            panel.title
        );
        let most = panel.grid.iter().copied().fold(0.0, f64::max);
        for (square, &mass) in panel.grid.iter().enumerate() {
            let ink = 1.0 + (mass / most).log10() / 3.0;
            if ink > 0.0 {
                let (x, y) = (left + square % GRID * PIXEL, top + square / GRID * PIXEL);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{PIXEL}\" height=\"{PIXEL}\" fill=\"#123a6b\" \
                     fill-opacity=\"{ink:.2}\"/>"
                );
            }
        }
    }
    svg + "</svg>\n"
}
