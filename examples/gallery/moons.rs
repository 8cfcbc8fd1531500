//! Two moons with labels, and other moons, turned and moved, without any. A classifier of the first (the nearest labelled point)
//! fails on the second; when the first are moved to where transport sends them, it does not.

use std::error::Error;
use std::path::Path;

use earthmover::{Entropic, Marginals, PointCloud, Problem, SquaredEuclidean};

use crate::noise::Noise;
use crate::picture::Picture;
use crate::plot::Panel;

const COUNT: usize = 300;
const SIDE: usize = 230;
const COLOURS: [[u8; 3]; 2] = [[43, 108, 176], [221, 107, 32]];

/// Two interleaved half circles; the first half of the points is the upper one.
fn moons(noise: &mut Noise) -> Vec<f64> {
    let mut points = Vec::with_capacity(2 * COUNT);
    for k in 0..COUNT {
        let t = std::f64::consts::PI * noise.unit();
        let (x, y) = if k < COUNT / 2 {
            (t.cos() - 0.5, t.sin() - 0.25)
        } else {
            (0.5 - t.cos(), 0.25 - t.sin())
        };
        points.extend([x + 0.06 * noise.normal(), y + 0.06 * noise.normal()]);
    }
    points
}

fn label(k: usize) -> usize {
    usize::from(k >= COUNT / 2)
}

/// The label of the nearest of some labelled points.
fn nearest(points: &[f64], y: &[f64]) -> usize {
    let mut best = (f64::INFINITY, 0);
    for (k, x) in points.chunks_exact(2).enumerate() {
        let apart = (x[0] - y[0]).hypot(x[1] - y[1]);
        if apart < best.0 {
            best = (apart, label(k));
        }
    }
    best.1
}

pub(crate) fn draw(file: &Path) -> Result<(), Box<dyn Error>> {
    let mut noise = Noise(3);
    let source = moons(&mut noise);
    let (s, c) = 15f64.to_radians().sin_cos();
    let target: Vec<f64> = moons(&mut noise)
        .chunks_exact(2)
        .flat_map(|p| [c * p[0] - s * p[1] + 0.6, s * p[0] + c * p[1] - 0.4])
        .collect();
    let cost = PointCloud::new(&source, &target, 2, SquaredEuclidean)?;
    let problem = Problem::new(cost, Marginals::uniform(COUNT, COUNT)?)?;
    let solution = Entropic::new(0.01).solve(&problem)?;
    let proof = solution.certificate();
    let moved = solution.plan().barycentric(&target, 2)?;
    println!(
        "{}: {:.4} ≤ W₂² ≤ {:.4}",
        solution.status(),
        proof.dual,
        proof.primal
    );
    let mut sheet = Picture::new(3 * SIDE + 20, SIDE, [255; 3]);
    let panels = [0, 1, 2].map(|k| Panel {
        left: (k * (SIDE + 10)) as f64,
        top: 0.0,
        side: SIDE as f64,
        middle: [0.3, -0.2],
        reach: 2.1,
    });
    // The labelled moons over the others; the others as the nearest of those says, before and after they were moved.
    for y in target.chunks_exact(2) {
        panels[0].disc(&mut sheet, y, 2.2, [205, 205, 205]);
    }
    for (k, x) in source.chunks_exact(2).enumerate() {
        panels[0].disc(&mut sheet, x, 2.2, COLOURS[label(k)]);
    }
    for (panel, name, labelled) in [(1, "as they are", &source), (2, "transported", &moved)] {
        let mut right = 0;
        for (k, y) in target.chunks_exact(2).enumerate() {
            let said = nearest(labelled, y);
            right += usize::from(said == label(k));
            panels[panel].disc(&mut sheet, y, 2.2, COLOURS[said]);
        }
        println!(
            "labelled points {name}: {:.1} % of the other moons are labelled right",
            100.0 * right as f64 / COUNT as f64
        );
    }
    sheet.write(file)?;
    println!("{}", file.display());
    Ok(())
}
