//! The averaged network on examples it has not learned from.

use candle_core::{D, Device, Tensor};

use super::error::TrainError;
use super::records::Evaluation;
use super::tensor_shape;
use crate::augment::{Batcher, View};
use crate::data::Part;
use crate::nn::ops::{cross_entropy, log_softmax};
use crate::nn::{Classifier, Mode, explain_memory};

/// Images per forward pass: as many as a training step has at most.
const CHUNK: usize = 500;

/// Plain views of `part` through the network as it is.
pub(crate) fn evaluate(
    model: &dyn Classifier,
    part: &Part,
    batcher: &Batcher,
    step: u64,
    device: &Device,
) -> Result<Evaluation, TrainError> {
    let k = model.classes();
    let mut confusion = vec![vec![0u32; k]; k];
    let (mut right, mut loss) = (0usize, 0.0f64);
    let all: Vec<usize> = (0..part.len()).collect();
    for indices in all.chunks(CHUNK) {
        let inputs = batcher.batch(part, indices, View::Plain, 0, 0)?;
        let truths: Vec<u32> = indices.iter().map(|&i| part.labels()[i]).collect();
        let outcome = || -> candle_core::Result<(Vec<u32>, f32)> {
            let shape = tensor_shape(indices.len(), batcher.shape());
            let x = Tensor::from_vec(inputs, shape, device)?;
            let y = Tensor::from_slice(&truths, truths.len(), device)?;
            let logits = model.forward(&x, Mode::Evaluate)?;
            let total = cross_entropy(&logits, &y)?.sum_all()?.to_scalar()?;
            let predicted = log_softmax(&logits)?.argmax(D::Minus1)?.to_vec1()?;
            Ok((predicted, total))
        };
        let (predicted, total) = outcome().map_err(|e| explain_memory(e, indices.len()))?;
        loss += f64::from(total);
        for (&truth, &class) in truths.iter().zip(&predicted) {
            right += usize::from(truth == class);
            confusion[truth as usize][class as usize] += 1;
        }
    }
    let n = part.len().max(1) as f64;
    Ok(Evaluation {
        step,
        accuracy: right as f64 / n,
        loss: loss / n,
        confusion,
    })
}
