//! Two clouds, one with strangers in it. Balanced transport must match everybody, and pulls honest points across the picture to do
//! so. With a price on masses that are not kept (`Penalty::Tv`), whoever is further away than the price is left alone.

use std::error::Error;
use std::path::Path;

use earthmover::{Exact, Marginals, Penalty, PointCloud, Problem, SquaredEuclidean};

use crate::noise::Noise;
use crate::picture::Picture;
use crate::plot::Panel;

/// Points of the shape, and strangers beside them.
const COUNT: usize = 150;
const STRANGERS: usize = 30;

/// What it costs not to be matched: nobody goes further than √(2 τ).
const TAU: f64 = 0.25;

const SIDE: usize = 300;
const BLUE: [u8; 3] = [43, 108, 176];
const ORANGE: [u8; 3] = [221, 107, 32];
const GREY: [u8; 3] = [150, 150, 150];

pub(crate) fn draw(file: &Path) -> Result<(), Box<dyn Error>> {
    let mut noise = Noise(7);
    // A wave here, the same wave a little higher there, and strangers above and below it.
    let mut wave = |lift: f64| -> Vec<f64> {
        let points = (0..COUNT).flat_map(|k| {
            let t = 2.0 * k as f64 / COUNT as f64 - 1.0;
            let (u, v) = (noise.normal(), noise.normal());
            [t + 0.02 * u, 0.35 * (4.0 * t).sin() + lift + 0.03 * v]
        });
        points.collect()
    };
    let (here, mut there) = (wave(-0.1), wave(0.1));
    for k in 0..STRANGERS {
        let side = if k % 3 == 0 { -1.0 } else { 1.0 };
        there.extend([
            0.25 * noise.normal() - 0.6 * side,
            side * (1.25 + 0.1 * noise.normal()),
        ]);
    }
    let mut sheet = Picture::new(2 * SIDE + 20, SIDE, [255; 3]);
    let everybody = Marginals::uniform(COUNT, COUNT + STRANGERS)?;
    let price = Penalty::Tv(TAU);
    let (a, b) = (vec![1.0; COUNT], vec![1.0; COUNT + STRANGERS]);
    let robust = Marginals::relaxed(&a, &b, price, price)?;
    for (which, (name, marginals)) in [("balanced", everybody), ("penalised", robust)]
        .into_iter()
        .enumerate()
    {
        let cost = PointCloud::new(&here, &there, 2, SquaredEuclidean)?;
        let problem = Problem::new(cost, marginals)?;
        let solution = Exact::new().solve(&problem)?;
        let (proof, plan) = (solution.certificate(), solution.plan());
        let taken = plan.col_sums();
        let strangers: f64 = taken[COUNT..].iter().sum();
        println!(
            "{name}: {:.1} % of what moves goes to strangers; {:.6} ≤ optimum ≤ {:.6}",
            100.0 * strangers / proof.mass,
            proof.dual,
            proof.primal
        );
        let panel = Panel {
            left: (which * (SIDE + 20)) as f64,
            top: 0.0,
            side: SIDE as f64,
            middle: [0.0, 0.0],
            reach: 1.6,
        };
        for e in plan.entries(0.0) {
            let (x, y) = (&here[2 * e.row..], &there[2 * e.col..]);
            panel.line(&mut sheet, x, y, [90, 90, 90], 0.55);
        }
        for x in here.chunks_exact(2) {
            panel.disc(&mut sheet, x, 2.5, BLUE);
        }
        for (k, y) in there.chunks_exact(2).enumerate() {
            let colour = if taken[k] > 0.0 { ORANGE } else { GREY };
            panel.disc(&mut sheet, y, 2.5, colour);
        }
    }
    sheet.write(file)?;
    println!("{}", file.display());
    Ok(())
}
