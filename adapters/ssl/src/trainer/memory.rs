//! What a step takes of memory, estimated before it is tried: a system that has promised more than it has ends the process
//! without a word.
//!
//! Backpropagation keeps what every layer put out. Per image that is, in numbers of four bytes,
//!
//! ```text
//! perceptron     Σ 2·widths
//! convolutions   Σ over layers of 2·channels·height·width        (convolution; normalised and rectified)
//! wide ResNet    Σ over blocks of 5·channels·height·width        (two of each, and the sum)
//! ```
//!
//! and, fitted to peaks of two steps (`/usr/bin/time`, images of 32 × 32 × 3, seven views an image of the batch, 2026-11-18),
//!
//! ```text
//! bytes = 35 MB + 4·(1.8·kept·images of a piece + 15·input·images + 8·weights)
//! ```
//!
//! Weights count themselves, gradient, velocity, average and copies to evaluate and save; inputs their batches that wait and
//! what is made of them on the way.
//!
//! | model, batch | measured MB | estimate |
//! | --- | --- | --- |
//! | mlp-2048-2048, 32 / 128 | 414 / 590 | 425 / 588 |
//! | cnn-16-32-32, 16 / 64 | 112 / 333 | 109 / 331 |
//! | cnn-64-128, 16 | 281 | 217 |
//! | wrn-10-1, 8 / 32 | 128 / 334 | 112 / 336 |
//! | wrn-16-2, 16 whole / in four pieces | 500 / 264 | 553 / 197 |
//!
//! Convolutions also take room to unfold one image after another, which is why small batches take more than this says.

use super::error::TrainError;
use super::model_spec::ModelSpec;
use super::settings::Settings;
use crate::data::Shape;
use crate::data::folder::available_memory;

/// Numbers kept for the backward pass of one example.
fn kept(model: &ModelSpec, shape: Shape) -> f64 {
    let pixels = match shape {
        Shape::Image { height, width, .. } => height as f64 * width as f64,
        Shape::Table { .. } => 1.0,
    };
    match model {
        ModelSpec::Mlp(widths) => 2.0 * widths.iter().map(|&w| w as f64).sum::<f64>(),
        ModelSpec::Cnn(widths) => {
            let (mut area, mut sum) = (pixels, 0.0);
            for (i, &width) in widths.iter().enumerate() {
                if i > 0 && width != widths[i - 1] {
                    area = (area / 4.0).ceil();
                }
                sum += 2.0 * width as f64 * area;
            }
            sum
        }
        ModelSpec::WideResNet { depth, width } => {
            let blocks = (depth.saturating_sub(4) / 6).max(1) as f64;
            let groups = [(16.0, 1.0), (32.0, 4.0), (64.0, 16.0)];
            let group =
                |(channels, shrink)| 5.0 * blocks * channels * *width as f64 * pixels / shrink;
            16.0 * pixels + groups.map(group).iter().sum::<f64>()
        }
    }
}

/// Bytes of a step, batches that wait among them.
pub(crate) fn estimate(settings: &Settings, shape: Shape, parameters: u64) -> u64 {
    let images = settings.batch as f64 * (1.0 + 2.0 * settings.ratio as f64);
    let piece = (images / f64::from(settings.accumulate.max(1))).ceil();
    let activations = 1.8 * piece * kept(&settings.model, shape);
    let inputs = 15.0 * images * shape.size() as f64;
    (35e6 + 4.0 * (activations + inputs + 8.0 * parameters as f64)) as u64
}

/// Refuses a step on the processor that would not fit.
pub(crate) fn check(settings: &Settings, shape: Shape, parameters: u64) -> Result<(), TrainError> {
    let needed = estimate(settings, shape, parameters);
    let Some(available) = available_memory().filter(|&a| needed > a) else {
        return Ok(());
    };
    let fits = (settings.batch as u128 * u128::from(available) / u128::from(needed)) as usize;
    Err(TrainError::TooLarge {
        images: settings.batch * (1 + 2 * settings.ratio),
        model: settings.model.to_string(),
        needed,
        available,
        suggestion: fits.clamp(1, settings.batch.max(2) - 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_no_machine_has_room_for_is_refused_with_a_batch_to_try() {
        let shape = Shape::Image {
            height: 32,
            width: 32,
            channels: 3,
        };
        let mut settings = Settings {
            model: ModelSpec::WideResNet {
                depth: 28,
                width: 8,
            },
            batch: 64,
            ratio: 7,
            ..Settings::default()
        };
        let usual = estimate(&settings, shape, 23_000_000);
        assert!(
            (10_000_000_000..100_000_000_000).contains(&usual),
            "{usual}"
        );
        settings.batch = 900_000;
        settings.ratio = 1;
        let refused = check(&settings, shape, 23_000_000);
        let told = refused.map_err(|e| e.to_string());
        assert!(
            told.as_ref().is_err_and(|t| t.contains("--batch")),
            "{told:?}"
        );
        settings.accumulate = 900_000;
        assert!(estimate(&settings, shape, 23_000_000) < usual * 100);
        // Networks too large to be counted in bytes are too large.
        settings.model = ModelSpec::Mlp(vec![usize::MAX, usize::MAX]);
        let parameters = settings.model.parameters(shape, 10);
        assert!(check(&settings, shape, parameters).is_err());
    }

    #[test]
    fn estimates_are_within_a_third_of_what_was_measured() {
        let shape = Shape::Image {
            height: 32,
            width: 32,
            channels: 3,
        };
        let wide = |depth, width| ModelSpec::WideResNet { depth, width };
        for (model, batch, accumulate, measured) in [
            (ModelSpec::Mlp(vec![2048, 2048]), 32, 1, 414.1),
            (ModelSpec::Mlp(vec![2048, 2048]), 128, 1, 589.8),
            (ModelSpec::Cnn(vec![16, 32, 32]), 16, 1, 112.1),
            (ModelSpec::Cnn(vec![16, 32, 32]), 64, 1, 333.2),
            (ModelSpec::Cnn(vec![64, 128]), 16, 1, 281.2),
            (wide(10, 1), 8, 1, 127.7),
            (wide(10, 1), 32, 1, 334.4),
            (wide(16, 2), 16, 1, 500.4),
            (wide(16, 2), 16, 4, 264.0),
        ] {
            let settings = Settings {
                model,
                batch,
                accumulate,
                ratio: 3,
                ..Settings::default()
            };
            let parameters = settings.model.parameters(shape, 10);
            let ratio = estimate(&settings, shape, parameters) as f64 / 1e6 / measured;
            assert!((0.7..1.34).contains(&ratio), "{}: {ratio}", settings.model);
        }
    }

    #[test]
    fn weights_are_counted_as_they_are_built() {
        let shape = Shape::Image {
            height: 8,
            width: 8,
            channels: 3,
        };
        let wide = |depth, width| ModelSpec::WideResNet { depth, width };
        for model in [
            ModelSpec::Mlp(vec![]),
            ModelSpec::Mlp(vec![7, 5]),
            ModelSpec::Cnn(vec![4, 8, 8]),
            wide(10, 1),
            wide(16, 2),
        ] {
            let network = model.build(shape, 6, 0, &candle_core::Device::Cpu);
            let count = network.map(|n| n.parameter_count() as u64);
            assert_eq!(count.ok(), Some(model.parameters(shape, 6)), "{model}");
        }
    }
}
