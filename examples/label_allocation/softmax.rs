//! A tiny classifier to have real predictions from: softmax regression on the 8×8 digits, by plain gradient
//! descent on a few labeled examples.
#![allow(clippy::unwrap_used, unreachable_pub)]

use earthmover_ssl::data::{LabeledSplit, SplitMode, digits};

const CLASSES: usize = 10;
const PIXELS: usize = 64;

/// Trains on `labels` labeled training digits (drawn at random, so their proportions are off) and predicts all of the
/// training set: log-probabilities row by row, labeled examples per class, and the truth.
pub fn digit_predictions(labels: usize, seed: u64) -> (Vec<f32>, Vec<usize>, Vec<usize>) {
    let train = digits::load().unwrap().train;
    let split = LabeledSplit::new(labels)
        .mode(SplitMode::MultinomialMin1)
        .seed(seed)
        .draw(&train, CLASSES)
        .unwrap();
    let image = |i: usize| -> Vec<f64> {
        let pixels = train.image(i).unwrap();
        pixels.iter().map(|p| f64::from(*p) / 255.0).collect()
    };
    let truth: Vec<usize> = train.labels().iter().map(|l| *l as usize).collect();
    let labeled: Vec<(Vec<f64>, usize)> = split
        .labeled
        .iter()
        .map(|&i| (image(i), truth[i]))
        .collect();
    let weights = fit(&labeled);
    let log_p = (0..train.len())
        .flat_map(|i| {
            let row = log_softmax(&weights, &image(i));
            row.map(|l| l as f32)
        })
        .collect();
    (log_p, split.counts, truth)
}

/// Weights (and a bias) per class: 400 steps on the regularised cross-entropy.
fn fit(examples: &[(Vec<f64>, usize)]) -> Vec<[f64; PIXELS + 1]> {
    let mut weights = vec![[0.0; PIXELS + 1]; CLASSES];
    let scale = 1.0 / examples.len() as f64;
    for _ in 0..400 {
        let mut gradient = weights.clone();
        gradient.iter_mut().flatten().for_each(|g| *g *= 1e-3);
        for (image, label) in examples {
            let log_p = log_softmax(&weights, image);
            for (class, gradient) in gradient.iter_mut().enumerate() {
                let target = if class == *label { 1.0 } else { 0.0 };
                let error = scale * (log_p[class].exp() - target);
                for (g, x) in gradient.iter_mut().zip(image) {
                    *g += error * x;
                }
                gradient[PIXELS] += error;
            }
        }
        for (w, g) in weights.iter_mut().flatten().zip(gradient.iter().flatten()) {
            *w -= 0.5 * g;
        }
    }
    weights
}

fn log_softmax(weights: &[[f64; PIXELS + 1]], image: &[f64]) -> [f64; CLASSES] {
    let mut logits = [0.0; CLASSES];
    for (logit, w) in logits.iter_mut().zip(weights) {
        *logit = w[PIXELS] + w.iter().zip(image).map(|(w, x)| w * x).sum::<f64>();
    }
    let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let lse = top + logits.iter().map(|l| (l - top).exp()).sum::<f64>().ln();
    logits.map(|l| l - lse)
}
