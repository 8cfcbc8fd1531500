//! Why a run did not start, or stopped.

use std::io;
use std::path::{Path, PathBuf};

use crate::augment::AugmentError;
use crate::data::{DataError, SplitError};
use crate::nn::{DeviceError, NnError, explain_memory};

/// An error of a training run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A network, its optimisation or its device failed.
    #[error(transparent)]
    Network(#[from] NnError),
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The labels cannot be shared out.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// A view cannot be made.
    #[error(transparent)]
    Augment(#[from] AugmentError),
    /// A method refused its input or settings.
    #[error(transparent)]
    Method(#[from] crate::Error),
    /// A setting is out of its range.
    #[error("{what} is {value}; it must be {rule}")]
    Setting {
        /// Which one.
        what: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        rule: &'static str,
    },
    /// The loss is NaN or infinite.
    #[error(
        "the loss became {loss} at step {step} (labeled {labeled}, unlabeled {unlabeled}): try a smaller \
         learning rate or gradient clipping; {}",
        kept(checkpoint.as_deref())
    )]
    NotFinite {
        /// The step at which it happened; its update was not made.
        step: u64,
        /// The whole loss.
        loss: f64,
        /// Its labeled part.
        labeled: f64,
        /// Its unlabeled part.
        unlabeled: f64,
        /// The last good checkpoint, if one was written.
        checkpoint: Option<PathBuf>,
    },
    /// A weight is NaN or infinite, so that no checkpoint may be written.
    #[error(
        "tensor {name:?} has values that are not finite after step {step}: try a smaller learning rate or \
         gradient clipping; {}",
        kept(checkpoint.as_deref())
    )]
    BadWeights {
        /// Steps done.
        step: u64,
        /// Which tensor.
        name: String,
        /// The last good checkpoint, if one was written.
        checkpoint: Option<PathBuf>,
    },
    /// The device ran out of memory in a training step.
    #[error(
        "out of memory in a step of {images} images (a batch of {batch} labeled examples, {ratio} unlabeled ones in \
         two views for each): try a batch of {suggestion}{} (the device said: {message})",
        if *suggestion == 1 { ", a smaller ratio or a smaller network" } else { "" }
    )]
    OutOfMemory {
        /// Images of the step.
        images: usize,
        /// Labeled examples per step.
        batch: usize,
        /// Unlabeled examples per labeled one.
        ratio: usize,
        /// A batch likely to fit.
        suggestion: usize,
        /// The device's own words.
        message: String,
    },
    /// A file of a run cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's own words.
        source: io::Error,
    },
    /// A file of a run does not hold what it should.
    #[error("{} is damaged or not of this program: {problem}", path.display())]
    Damaged {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A stored run has other settings than the one asked for.
    #[error(
        "{} was made with {field} = {stored}, not {given}: resume with the same settings, or choose another folder",
        path.display()
    )]
    OtherSettings {
        /// The run's folder.
        path: PathBuf,
        /// First setting that differs.
        field: String,
        /// Its stored value.
        stored: String,
        /// The value asked for.
        given: String,
    },
    /// There is a run where a new one was to start.
    #[error(
        "{} holds a run already: go on with it (--resume), replace it (--overwrite), or choose another folder (--output)",
        path.display()
    )]
    RunExists {
        /// The folder.
        path: PathBuf,
    },
    /// Another process trains in the same folder.
    #[error("{} is in use by another process", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// The data of a run are not those it was started with.
    #[error(
        "{} was made with other data (sum {stored}, now {given}): put the old data back, or start anew with --overwrite",
        path.display()
    )]
    OtherData {
        /// The run's folder.
        path: PathBuf,
        /// Sum of the data at its start.
        stored: String,
        /// Sum of the data now.
        given: String,
    },
    /// The device asked for is not to be had.
    #[error("{fallback}: ask for `cpu`, or for `auto` to take what is there")]
    Device {
        /// Why.
        fallback: String,
    },
    /// A step would not fit into memory.
    #[error(
        "a step of {images} images through {model} needs about {} of memory and {} are free: try --batch {suggestion}, \
         --accumulate, a smaller --ratio or a smaller --model",
        gigabytes(*needed), gigabytes(*available)
    )]
    TooLarge {
        /// Images of the step.
        images: usize,
        /// The network.
        model: String,
        /// Bytes it would take, by estimate.
        needed: u64,
        /// Bytes there are.
        available: u64,
        /// A batch likely to fit.
        suggestion: usize,
    },
    /// A thread could not be started or ended early.
    #[error("the thread that prepares batches failed: {message}")]
    Prefetch {
        /// What is known about it.
        message: String,
    },
    /// The thread in which a method updates its labels panicked: a fault of the method, not of the data.
    #[error("the thread that updates the labels panicked at step {step}: {message}")]
    Labels {
        /// The step.
        step: u64,
        /// What it panicked with.
        message: String,
    },
}

/// What a thread panicked with, in words.
pub(super) fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

fn kept(checkpoint: Option<&Path>) -> String {
    checkpoint.map_or_else(
        || "no checkpoint had been written yet".to_owned(),
        |path| format!("the last good checkpoint is {}", path.display()),
    )
}

impl TrainError {
    /// An error of a step; one of memory in terms of the settings that decide it.
    pub(crate) fn of_step(
        error: candle_core::Error,
        images: usize,
        batch: usize,
        ratio: usize,
    ) -> Self {
        match explain_memory(error, images) {
            DeviceError::OutOfMemory {
                suggestion,
                message,
                ..
            } => Self::OutOfMemory {
                images,
                batch,
                ratio,
                // The same share of the batch as of the images, and less than it was.
                suggestion: (batch * suggestion / images.max(1)).clamp(1, batch.max(2) - 1),
                message,
            },
            other => Self::Network(other.into()),
        }
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            path: path.to_path_buf(),
            source,
        }
    }

    pub(crate) fn damaged(path: &Path, problem: impl std::fmt::Display) -> Self {
        Self::Damaged {
            path: path.to_path_buf(),
            problem: problem.to_string(),
        }
    }
}

impl From<candle_core::Error> for TrainError {
    fn from(error: candle_core::Error) -> Self {
        Self::Network(error.into())
    }
}

impl From<DeviceError> for TrainError {
    fn from(error: DeviceError) -> Self {
        Self::Network(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_errors_name_a_batch_to_try() {
        let said = || candle_core::Error::Msg("DriverError(CUDA_ERROR_OUT_OF_MEMORY)".into());
        // 64 + 2·448 = 960 images: 512 of them would do, which is a batch of 34.
        let error = TrainError::of_step(said(), 960, 64, 7);
        assert!(matches!(
            error,
            TrainError::OutOfMemory { suggestion: 34, .. }
        ));
        assert!(error.to_string().contains("try a batch of 34"), "{error}");
        let error = TrainError::of_step(said(), 15, 1, 7).to_string();
        assert!(error.contains("smaller network"), "{error}");
        let other = candle_core::Error::Msg("shape mismatch".into());
        assert!(matches!(
            TrainError::of_step(other, 960, 64, 7),
            TrainError::Network(NnError::Candle(_))
        ));
    }
}
