//! The averaged network on examples: how well it does, and what it says.

use candle_core::{Device, Tensor};

use super::error::TrainError;
use super::records::{Evaluation, Judged, Scores};
use super::tensor_shape;
use crate::augment::{Batcher, View};
use crate::data::Part;
use crate::nn::ops::log_softmax;
use crate::nn::{Classifier, Mode, explain_memory};

/// Images per forward pass: as many as a training step has at most.
const CHUNK: usize = 500;
/// Bins of the calibration error.
const BINS: usize = 15;

/// Log-probabilities of the plain views of `indices`, handed over chunk by chunk.
pub(crate) fn predict(
    model: &dyn Classifier,
    part: &Part,
    indices: &[usize],
    batcher: &Batcher,
    device: &Device,
    mut take: impl FnMut(&[usize], &[f32]) -> Result<(), TrainError>,
) -> Result<(), TrainError> {
    for indices in indices.chunks(CHUNK) {
        let inputs = batcher.batch(part, indices, View::Plain, 0, 0)?;
        let outcome = || -> candle_core::Result<Vec<f32>> {
            let shape = tensor_shape(indices.len(), batcher.shape());
            let x = Tensor::from_vec(inputs, shape, device)?;
            let logits = model.forward(&x, Mode::Evaluate)?;
            log_softmax(&logits)?.flatten_all()?.to_vec1()
        };
        let log_probs = outcome().map_err(|e| explain_memory(e, indices.len()))?;
        take(indices, &log_probs)?;
    }
    Ok(())
}

/// Index and value of the largest; the first of equals.
pub(super) fn top(row: &[f32]) -> (usize, f32) {
    let first = (0, row.first().copied().unwrap_or(f32::NEG_INFINITY));
    row.iter().enumerate().fold(
        first,
        |best, (j, &v)| if v > best.1 { (j, v) } else { best },
    )
}

/// Counts that the scores are made of.
struct Tally {
    confusion: Vec<Vec<u32>>,
    loss: f64,
    top5: usize,
    /// (examples, right ones, sum of confidences) per bin.
    bins: [(usize, usize, f64); BINS],
}

impl Tally {
    fn new(classes: usize) -> Self {
        Self {
            confusion: vec![vec![0; classes]; classes],
            loss: 0.0,
            top5: 0,
            bins: [(0, 0, 0.0); BINS],
        }
    }

    fn add(&mut self, truth: usize, row: &[f32]) {
        let (class, value) = top(row);
        self.confusion[truth][class] += 1;
        self.loss -= f64::from(row[truth]);
        let above = row.iter().filter(|&&v| v > row[truth]).count();
        self.top5 += usize::from(above < 5);
        let confidence = f64::from(value.exp()).clamp(0.0, 1.0);
        let bin = ((confidence * BINS as f64) as usize).min(BINS - 1);
        self.bins[bin].0 += 1;
        self.bins[bin].1 += usize::from(class == truth);
        self.bins[bin].2 += confidence;
    }

    fn scores(&self) -> Scores {
        let k = self.confusion.len();
        let examples: u32 = self.confusion.iter().flatten().sum();
        let n = f64::from(examples.max(1));
        let right = |j: usize| f64::from(self.confusion[j][j]);
        let there = |j: usize| f64::from(self.confusion[j].iter().sum::<u32>());
        let predicted = |j: usize| f64::from(self.confusion.iter().map(|row| row[j]).sum::<u32>());
        // Classes without an example have no say.
        let classes: Vec<usize> = (0..k).filter(|&j| there(j) > 0.0).collect();
        let mean = |value: &dyn Fn(usize) -> f64| {
            classes.iter().map(|&j| value(j)).sum::<f64>() / classes.len().max(1) as f64
        };
        let off = self
            .bins
            .iter()
            .map(|(_, right, sum)| (*right as f64 - sum).abs());
        Scores {
            examples: examples as usize,
            accuracy: (0..k).map(right).sum::<f64>() / n,
            loss: self.loss / n,
            balanced_accuracy: mean(&|j| right(j) / there(j)),
            macro_f1: mean(&|j| 2.0 * right(j) / (there(j) + predicted(j))),
            top5: self.top5 as f64 / n,
            calibration_error: off.sum::<f64>() / n,
        }
    }
}

fn judge(
    model: &dyn Classifier,
    part: &Part,
    indices: &[usize],
    batcher: &Batcher,
    device: &Device,
) -> Result<Tally, TrainError> {
    let k = model.classes();
    let mut tally = Tally::new(k);
    predict(model, part, indices, batcher, device, |indices, rows| {
        for (&index, row) in indices.iter().zip(rows.chunks_exact(k)) {
            if let Some(truth) = part.label(index) {
                tally.add(truth as usize, row);
            }
        }
        Ok(())
    })?;
    Ok(tally)
}

/// The network as it is on the test examples and on those of `train` held out for validation; `None` where there are neither.
pub(crate) fn evaluate(
    model: &dyn Classifier,
    (test, train, validation): (&Part, &Part, &[usize]),
    batcher: &Batcher,
    step: u64,
    device: &Device,
) -> Result<Option<Evaluation>, TrainError> {
    let held = match validation {
        [] => None,
        _ => Some(judge(model, train, validation, batcher, device)?),
    };
    let all: Vec<usize> = (0..test.len()).collect();
    let tested = match all.as_slice() {
        [] => None,
        _ => Some(judge(model, test, &all, batcher, device)?),
    };
    let on = match tested {
        Some(_) => Judged::Test,
        None => Judged::Validation,
    };
    let validation = held.as_ref().map(Tally::scores);
    let Some(tally) = tested.or(held) else {
        return Ok(None);
    };
    let scores = tally.scores();
    Ok(Some(Evaluation {
        step,
        accuracy: scores.accuracy,
        loss: scores.loss,
        confusion: tally.confusion,
        on,
        scores: Some(scores),
        validation,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_by_hand() {
        let mut tally = Tally::new(3);
        let row = |p: [f32; 3]| p.map(f32::ln);
        tally.add(0, &row([0.8, 0.1, 0.1]));
        tally.add(0, &row([0.3, 0.6, 0.1]));
        tally.add(1, &row([0.1, 0.8, 0.1]));
        let scores = tally.scores();
        assert_eq!(scores.examples, 3);
        assert!((scores.accuracy - 2.0 / 3.0).abs() < 1e-12);
        // Class 0 half right, class 1 all, class 2 absent.
        assert!((scores.balanced_accuracy - 0.75).abs() < 1e-12);
        // F1 of both: 2·1/(2 + 1) and 2·1/(1 + 2).
        assert!((scores.macro_f1 - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(scores.top5, 1.0);
        // Two at 0.8, both right; one at 0.6, wrong.
        assert!((scores.calibration_error - (0.4 + 0.6) / 3.0).abs() < 1e-6);
        assert!((scores.loss + (0.8f64.ln() * 2.0 + 0.3f64.ln()) / 3.0).abs() < 1e-6);
    }
}
