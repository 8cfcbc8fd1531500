//! What cannot be augmented.

use crate::data::Shape;

/// A view could not be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AugmentError {
    /// Not an image this module can work on.
    #[error(
        "images of {shape} cannot be augmented: sides from 1 to 32767 and 1 or 3 channels are needed"
    )]
    Shape {
        /// The shape.
        shape: Shape,
    },
    /// A buffer of the wrong length.
    #[error("expected {expected} numbers, found {found}")]
    Length {
        /// How many there should be.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// An index past the end.
    #[error("example {index} was asked for, but there are {examples}")]
    Index {
        /// The index.
        index: usize,
        /// Number of examples.
        examples: usize,
    },
    /// The policy is for the other kind of example.
    #[error("an {policy} policy cannot make views of {shape}")]
    Policy {
        /// `image` or `tabular`.
        policy: &'static str,
        /// What the set holds.
        shape: Shape,
    },
    /// A setting outside its range.
    #[error("{setting} is {value}, but must be {range}")]
    Setting {
        /// Which one.
        setting: &'static str,
        /// Its value.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
    /// Mean and deviation do not fit the examples.
    #[error(
        "normalisation has {means} means and {deviations} positive deviations for {channels} channels"
    )]
    Normalisation {
        /// Channels or features of the set.
        channels: usize,
        /// Means given.
        means: usize,
        /// Deviations given that are positive and finite.
        deviations: usize,
    },
    /// An image that is read when it is needed could not be.
    #[error("{message}")]
    Read {
        /// What is wrong with it.
        message: String,
    },
}
