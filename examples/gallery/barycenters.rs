//! Four shapes in the corners, and between them the barycentres with bilinear weights.

use std::error::Error;
use std::path::Path;

use earthmover::{Barycenter, Grid};

use crate::picture::Picture;

const SIDE: usize = 64;
const STEPS: usize = 5;

/// A shape: whether a point of the square from −1 to 1 belongs to it.
type Shape = fn(f64, f64) -> bool;

const SHAPES: [Shape; 4] = [
    // A ring, a cross, a heart and two discs.
    |x, y| (0.45..0.75).contains(&x.hypot(y)),
    |x, y| (x.abs() < 0.2 || y.abs() < 0.2) && x.abs().max(y.abs()) < 0.75,
    |x, y| {
        let (x, y) = (1.5 * x, -1.5 * y + 0.1);
        (x * x + y * y - 1.0).powi(3) - x * x * y.powi(3) < 0.0
    },
    |x, y| (x - 0.4).hypot(y - 0.4) < 0.32 || (x + 0.4).hypot(y + 0.4) < 0.32,
];

pub(crate) fn draw(file: &Path) -> Result<(), Box<dyn Error>> {
    let grid = Grid::unit(&[SIDE, SIDE])?;
    let place = |k: usize| 2.0 * (k as f64 + 0.5) / SIDE as f64 - 1.0;
    let mut shapes = Vec::with_capacity(4 * SIDE * SIDE);
    for shape in SHAPES {
        for k in 0..SIDE * SIDE {
            let inside = shape(place(k % SIDE), place(k / SIDE));
            shapes.push(if inside { 1.0 } else { 0.0 });
        }
    }
    let solver = Barycenter::new(2e-3).debiased().tolerance(1e-3);
    let mut sheet = Picture::new(STEPS * SIDE, STEPS * SIDE, [255; 3]);
    for down in 0..STEPS {
        for right in 0..STEPS {
            let (s, t) = (
                right as f64 / (STEPS - 1) as f64,
                down as f64 / (STEPS - 1) as f64,
            );
            let weights = [(1.0 - s) * (1.0 - t), s * (1.0 - t), (1.0 - s) * t, s * t];
            let found = solver.solve(&grid, &shapes, &weights)?;
            let top = found.weights().iter().copied().fold(0.0, f64::max);
            for (k, b) in found.weights().iter().enumerate() {
                let ink = (b / top).sqrt();
                let shade = |c: f64| (255.0 * (1.0 - ink * (1.0 - c))) as u8;
                let colour = [shade(0.10 + 0.75 * s), shade(0.30), shade(0.75 - 0.55 * t)];
                sheet.set(right * SIDE + k % SIDE, down * SIDE + k / SIDE, colour);
            }
            println!(
                "{right} {down}: {} after {} iterations, violation {:.1e}",
                found.status(),
                found.iterations(),
                found.violation()
            );
        }
    }
    sheet.write(file)?;
    println!("{}", file.display());
    Ok(())
}
