//! Fits one cloud to another by gradient descent on tensors: `cargo run --release -p earthmover-candle --example fit -- [file]`.
//!
//! The points of a ring are variables of candle; the loss is the Sinkhorn divergence to a star, whose backward pass says where each
//! point is to go. Five frames side by side. Printed for each: the loss as candle sees it, and the same from the core with the error
//! that is proven.
#![allow(missing_docs, clippy::print_stdout)]

#[path = "../gallery/noise.rs"]
mod noise;
#[path = "../gallery/picture.rs"]
mod picture;
#[allow(dead_code)] // the gallery draws lines, too
#[path = "../gallery/plot.rs"]
mod plot;

use std::error::Error;
use std::path::PathBuf;

use candle_core::{Device, Tensor, Var};
use earthmover::SquaredEuclidean;
use earthmover::loss::Divergence;
use earthmover_candle::Transport;
use noise::Noise;
use picture::Picture;
use plot::Panel;

const COUNT: usize = 400;
const SIDE: usize = 190;
const EPSILON: f64 = 0.01;

/// Steps at which a frame is drawn.
const FRAMES: [usize; 5] = [0, 3, 8, 20, 60];

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).map(PathBuf::from);
    let file = file.unwrap_or_else(|| PathBuf::from("fit.png"));
    let mut noise = Noise(5);
    let ring: Vec<f32> = (0..COUNT)
        .flat_map(|_| {
            let angle = std::f64::consts::TAU * noise.unit();
            let radius = 0.35 + 0.05 * noise.normal();
            [radius * angle.cos() - 0.4, radius * angle.sin() + 0.3].map(|x| x as f32)
        })
        .collect();
    let star: Vec<f32> = (0..COUNT)
        .flat_map(|_| {
            let angle = std::f64::consts::TAU * noise.unit();
            let edge = 0.75 + 0.35 * (5.0 * angle).cos();
            let radius = edge * noise.unit().sqrt();
            [radius * angle.sin(), radius * angle.cos()].map(|x| x as f32)
        })
        .collect();
    let device = Device::Cpu;
    let x = Var::from_tensor(&Tensor::from_vec(ring, (COUNT, 2), &device)?)?;
    let y = Tensor::from_slice(&star, (COUNT, 2), &device)?;
    let masses = Tensor::full(1.0 / COUNT as f32, COUNT, &device)?;
    let transport = Transport::new(EPSILON).tolerance(1e-5);
    let mut sheet = Picture::new(FRAMES.len() * (SIDE + 10) - 10, SIDE, [255; 3]);
    for step in 0..=FRAMES[FRAMES.len() - 1] {
        let loss = transport.divergence(&x, &y, &masses, &masses)?;
        if let Some(frame) = FRAMES.iter().position(|f| *f == step) {
            let points = x.flatten_all()?.to_vec1::<f32>()?;
            let uniform = vec![1.0 / COUNT as f64; COUNT];
            let proof = Divergence::new(EPSILON).between(
                &points,
                &star,
                2,
                SquaredEuclidean,
                &uniform,
                &uniform,
            )?;
            println!(
                "step {step}: loss {:.6} ({}), proven {:.6} ± {:.1e}",
                loss.value.to_scalar::<f32>()?,
                loss.status,
                proof.value,
                proof.error
            );
            draw(&mut sheet, frame, &points, &star);
        }
        // A point's gradient is its mass times twice what it is off: a tenth of the way.
        let gradients = loss.value.backward()?;
        let slope = gradients.get(&x).ok_or("no gradient")?;
        x.set(&(x.as_tensor() - (slope * (0.05 * COUNT as f64))?)?)?;
    }
    sheet.write(&file)?;
    println!("{}", file.display());
    Ok(())
}

fn draw(sheet: &mut Picture, frame: usize, points: &[f32], star: &[f32]) {
    let panel = Panel {
        left: (frame * (SIDE + 10)) as f64,
        top: 0.0,
        side: SIDE as f64,
        middle: [0.0, 0.0],
        reach: 1.2,
    };
    for (cloud, radius, colour) in [(star, 1.5, [212, 212, 212]), (points, 1.8, [43, 108, 176])] {
        for p in cloud.chunks_exact(2) {
            let p = [f64::from(p[0]), f64::from(p[1])];
            panel.disc(sheet, &p, radius, colour);
        }
    }
}
