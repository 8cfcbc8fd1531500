//! A drop of ink that becomes a heart: points go down the gradient of the Sinkhorn divergence, which is zero where both clouds are
//! the same and nowhere else. The value of each frame is proven to within its `error`.

use std::error::Error;
use std::path::Path;

use earthmover::SquaredEuclidean;
use earthmover::loss::Divergence;

use crate::noise::Noise;
use crate::picture::Picture;
use crate::plot::Panel;

const COUNT: usize = 600;
const SIDE: usize = 190;

/// Steps at which a frame is drawn.
const FRAMES: [usize; 5] = [0, 2, 6, 16, 60];

pub(crate) fn draw(file: &Path) -> Result<(), Box<dyn Error>> {
    let mut noise = Noise(11);
    let mut x: Vec<f64> = (0..COUNT)
        .flat_map(|_| [0.22 * noise.normal() - 0.5, 0.22 * noise.normal() + 0.5])
        .collect();
    // Points of a heart: those of a square that its equation lets through.
    let mut heart = Vec::with_capacity(2 * COUNT);
    while heart.len() < 2 * COUNT {
        let (u, v) = (2.6 * noise.unit() - 1.3, 2.6 * noise.unit() - 1.3);
        let r = u * u + v * v - 1.0;
        if r * r * r <= u * u * v * v * v {
            heart.extend([0.9 * u, 0.9 * v]);
        }
    }
    let uniform = vec![1.0 / COUNT as f64; COUNT];
    let solver = Divergence::new(0.01);
    let mut sheet = Picture::new(FRAMES.len() * (SIDE + 10) - 10, SIDE, [255; 3]);
    let last = FRAMES[FRAMES.len() - 1];
    for step in 0..=last {
        let found = solver.between(&x, &heart, 2, SquaredEuclidean, &uniform, &uniform)?;
        if let Some(frame) = FRAMES.iter().position(|f| *f == step) {
            println!(
                "step {step}: S = {:.6} ± {:.1e} ({})",
                found.value, found.error, found.status
            );
            let panel = Panel {
                left: (frame * (SIDE + 10)) as f64,
                top: 0.0,
                side: SIDE as f64,
                middle: [0.0, 0.0],
                reach: 1.35,
            };
            for y in heart.chunks_exact(2) {
                panel.disc(&mut sheet, y, 1.3, [214, 214, 214]);
            }
            for p in x.chunks_exact(2) {
                panel.disc(&mut sheet, p, 1.6, [190, 30, 60]);
            }
        }
        // A point's gradient is its mass times twice what it is off: a tenth of the way.
        let rate = 0.05 * COUNT as f64;
        let slopes = x.iter_mut().zip(&found.row_points);
        slopes.for_each(|(x, g)| *x -= rate * g);
    }
    sheet.write(file)?;
    println!("{}", file.display());
    Ok(())
}
