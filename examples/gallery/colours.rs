//! Two paintings as histograms over a grid of colours; the first repainted with the colours of the second.

use std::error::Error;
use std::path::Path;

use earthmover::{Entropic, Grid, Marginals, Problem};

use crate::picture::Picture;

const SIZE: usize = 120;

/// Shades of each colour that are told apart.
const SHADES: usize = 16;

fn sunset(x: f64, y: f64) -> [f64; 3] {
    let sun = (x - 0.62).hypot(y - 0.55);
    if sun < 0.13 {
        return [1.0, 0.93, 0.55];
    }
    if y > 0.72 {
        let wave = 0.5 + 0.5 * (40.0 * y + 6.0 * (9.0 * x).sin()).sin();
        return [0.25 + 0.35 * wave, 0.10 + 0.15 * wave, 0.25 + 0.1 * wave];
    }
    let glow = (-3.0 * sun).exp();
    [
        0.45 + 0.55 * glow + 0.2 * y,
        0.15 + 0.5 * glow + 0.2 * y,
        0.35 - 0.15 * y,
    ]
}

fn forest(x: f64, y: f64) -> [f64; 3] {
    let hill = 0.45 + 0.12 * (5.0 * x).sin() + 0.05 * (13.0 * x + 1.0).sin();
    if y < hill {
        let haze = (y / hill).powi(2);
        return [0.55 + 0.3 * haze, 0.75 + 0.15 * haze, 0.92];
    }
    let leaf = 0.5 + 0.5 * ((31.0 * x).sin() * (29.0 * y + 4.0 * x).cos());
    [0.08 + 0.25 * leaf, 0.25 + 0.4 * leaf, 0.10 + 0.12 * leaf]
}

fn cell(colour: [f64; 3]) -> usize {
    let shade = |c: f64| ((c.clamp(0.0, 1.0) * (SHADES - 1) as f64).round()) as usize;
    colour.iter().fold(0, |at, c| at * SHADES + shade(*c))
}

fn colour_of(cell: usize) -> [f64; 3] {
    let last = (SHADES - 1) as f64;
    [
        cell / SHADES / SHADES,
        cell / SHADES % SHADES,
        cell % SHADES,
    ]
    .map(|k| k as f64 / last)
}

pub(crate) fn draw(file: &Path) -> Result<(), Box<dyn Error>> {
    let paint = |f: fn(f64, f64) -> [f64; 3]| -> Vec<[f64; 3]> {
        let at = |k: usize| {
            (
                (k % SIZE) as f64 / SIZE as f64,
                (k / SIZE) as f64 / SIZE as f64,
            )
        };
        (0..SIZE * SIZE).map(|k| f(at(k).0, at(k).1)).collect()
    };
    let (first, second) = (paint(sunset), paint(forest));
    let histogram = |picture: &[[f64; 3]]| -> Vec<f64> {
        let mut counts = vec![0.0; SHADES.pow(3)];
        picture.iter().for_each(|c| counts[cell(*c)] += 1.0);
        counts
    };
    let grid = Grid::unit(&[SHADES; 3])?;
    let marginals = Marginals::normalised(&histogram(&first), &histogram(&second))?;
    let problem = Problem::new(grid, marginals)?;
    let solution = Entropic::new(2e-3).solve(&problem)?;
    let proof = solution.certificate();
    println!(
        "{}: {:.4} ≤ W₂² of the colours ≤ {:.4}",
        solution.status(),
        proof.dual,
        proof.primal
    );
    // Each colour of the first goes to the mean of those it is sent to.
    let plan = solution.plan();
    let mut means: Vec<Option<[f64; 3]>> = vec![None; SHADES.pow(3)];
    let mut sheet = Picture::new(3 * SIZE + 20, SIZE, [255; 3]);
    for (k, (a, b)) in first.iter().zip(&second).enumerate() {
        let from = cell(*a);
        if means[from].is_none() {
            let (mut mean, mut mass) = ([0.0; 3], 0.0);
            for (to, p) in plan
                .row(from)?
                .iter()
                .enumerate()
                .filter(|(_, p)| **p > 0.0)
            {
                let colour = colour_of(to);
                (0..3).for_each(|c| mean[c] += p * colour[c]);
                mass += p;
            }
            means[from] = Some(mean.map(|m| m / mass));
        }
        // What a cell is too coarse to say is kept.
        let (to, middle) = (means[from].unwrap_or_default(), colour_of(from));
        let new = [0, 1, 2].map(|c| to[c] + 0.5 * (a[c] - middle[c]));
        for (offset, colour) in [(0, *a), (SIZE + 10, *b), (2 * SIZE + 20, new)] {
            let bytes = colour.map(|c| (255.0 * c.clamp(0.0, 1.0)) as u8);
            sheet.set(offset + k % SIZE, k / SIZE, bytes);
        }
    }
    sheet.write(file)?;
    println!("{}", file.display());
    Ok(())
}
