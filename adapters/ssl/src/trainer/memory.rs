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
//! and about half as much again in gradients and temporaries; weights count six times (themselves, gradient, velocity, average, a
//! copy to evaluate or save, one more of Adam's). It is an
//! estimate: nobody has compared it with many measured peaks.

use super::error::TrainError;
use super::model_spec::ModelSpec;
use super::settings::Settings;
use crate::data::Shape;
use crate::data::folder::available_memory;

/// Numbers kept for the backward pass of one example.
fn kept(model: &ModelSpec, shape: Shape) -> u64 {
    let (height, width) = match shape {
        Shape::Image { height, width, .. } => (height as u64, width as u64),
        Shape::Table { .. } => (1, 1),
    };
    let pixels = height * width;
    match model {
        ModelSpec::Mlp(widths) => 2 * widths.iter().map(|&w| w as u64).sum::<u64>(),
        ModelSpec::Cnn(widths) => {
            let (mut area, mut sum) = (pixels, 0);
            for (i, &width) in widths.iter().enumerate() {
                if i > 0 && width != widths[i - 1] {
                    area = area.div_ceil(4);
                }
                sum += 2 * width as u64 * area;
            }
            sum
        }
        ModelSpec::WideResNet { depth, width } => {
            let blocks = (depth.saturating_sub(4) / 6).max(1) as u64;
            let groups = [(16, 1), (32, 4), (64, 16)];
            let group = |(channels, shrink): (u64, u64)| {
                5 * blocks * channels * *width as u64 * pixels.div_ceil(shrink)
            };
            16 * pixels + groups.map(group).iter().sum::<u64>()
        }
    }
}

/// Bytes of a step, batches that wait among them.
pub(crate) fn estimate(settings: &Settings, shape: Shape, parameters: usize) -> u64 {
    let images = settings.batch as u64 * (1 + 2 * settings.ratio as u64);
    let pieces = u64::from(settings.accumulate.max(1));
    let activations = images.div_ceil(pieces) * kept(&settings.model, shape) * 3 / 2;
    let waiting = 5 * images * shape.size() as u64;
    4 * (activations + waiting + 6 * parameters as u64)
}

/// Refuses a step on the processor that would not fit.
pub(crate) fn check(
    settings: &Settings,
    shape: Shape,
    parameters: usize,
) -> Result<(), TrainError> {
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
    }
}
