//! What can be wrong with what a training loop hands over, with the numbers that are wrong in it.

use std::{fmt, io};

/// A number as a person would write it: 0.25 and 1e300, not three hundred digits.
#[derive(Clone, Copy)]
struct Num(f64);

impl fmt::Display for Num {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        if size != 0.0 && size.is_finite() && !(1e-6..1e15).contains(&size) {
            write!(f, "{:e}", self.0)
        } else {
            write!(f, "{}", self.0)
        }
    }
}

/// Why a request to the label-allocation side of this crate was refused.
///
/// A refused call changes nothing: the object it was made on is as it was before.
///
/// # Examples
/// ```
/// use earthmover_ssl::{Error, allocation::LabelAllocator};
/// let wrong = LabelAllocator::options(100, 1).build().unwrap_err();
/// assert!(matches!(wrong, Error::Classes { found: 1 }));
/// ```
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nothing to choose with fewer than two classes.
    #[error("{found} classes: allocation needs at least two")]
    Classes {
        /// Number of classes given.
        found: usize,
    },
    /// There are no examples.
    #[error("there are no examples to allocate labels to")]
    NoExamples,
    /// A slice does not have the length its place asks for.
    #[error("{what}: expected {expected} values, found {found}")]
    Length {
        /// Which slice.
        what: &'static str,
        /// Length asked for.
        expected: usize,
        /// Length given.
        found: usize,
    },
    /// An option or argument is outside its range.
    #[error("{name} is {}; it must be {expected}", Num(*value))]
    Option {
        /// Which one.
        name: &'static str,
        /// Value given.
        value: f64,
        /// What it must be.
        expected: &'static str,
    },
    /// A log-probability is NaN, +∞ or clearly above zero.
    #[error(
        "row {row}, class {class}: log-probability {} is not the logarithm of a probability",
        Num(*value)
    )]
    LogProbability {
        /// Row within the batch.
        row: usize,
        /// Class.
        class: usize,
        /// The value found.
        value: f64,
    },
    /// A logit is NaN or +∞, or a row rules every class out.
    #[error("row {row}, class {class}: {} is no logit a class can be chosen by", Num(*value))]
    Logit {
        /// Row of the matrix.
        row: usize,
        /// Class.
        class: usize,
        /// The value found.
        value: f64,
    },
    /// The probabilities of a row do not sum to one.
    #[error(
        "row {row}: probabilities sum to {}, not to one (logits in place of log-probabilities?)",
        Num(*sum)
    )]
    NotNormalised {
        /// Row within the batch.
        row: usize,
        /// Their sum.
        sum: f64,
    },
    /// An example index is not below the number of examples.
    #[error("index {index} (position {position}) is out of range: there are {examples} examples")]
    Index {
        /// Position within the batch.
        position: usize,
        /// The index.
        index: usize,
        /// Number of examples.
        examples: usize,
    },
    /// An example occurs twice in one batch, so that it is unclear which row counts.
    #[error("example {index} occurs twice in one batch (again at position {position})")]
    Repeated {
        /// Position of the second occurrence.
        position: usize,
        /// The index.
        index: usize,
    },
    /// A bound is NaN, infinite or negative.
    #[error("the {what} bound of {index} is {}; bounds must be finite and not negative", Num(*value))]
    Bound {
        /// Which kind of bound.
        what: &'static str,
        /// Class, group or example it belongs to.
        index: usize,
        /// The value found.
        value: f64,
    },
    /// A lower bound lies above the matching upper bound.
    #[error("{what} {index}: the lower bound {} is above the upper bound {}", Num(*lower), Num(*upper))]
    Crossed {
        /// What is bounded.
        what: &'static str,
        /// Class, group or example.
        index: usize,
        /// Lower bound.
        lower: f64,
        /// Upper bound.
        upper: f64,
    },
    /// The bounds contradict each other: no allocation satisfies them.
    #[error(
        "infeasible: {what} ask for a mass of {} where at most {} is possible",
        Num(*required), Num(*available)
    )]
    Infeasible {
        /// Which bounds.
        what: &'static str,
        /// Mass asked for.
        required: f64,
        /// Mass that can be had.
        available: f64,
    },
    /// The allocator's transport problem has upper bounds only.
    #[error(
        "class {class} has a lower bound of {}: the transport form takes upper bounds only, \
         use `ConstrainedAllocation` for lower bounds",
        Num(*lower)
    )]
    LowerBound {
        /// First class with a lower bound.
        class: usize,
        /// Its lower bound.
        lower: f64,
    },
    /// Groups of classes overlap without one containing the other.
    #[error("groups {first} and {second} overlap but neither contains the other")]
    NotLaminar {
        /// One group.
        first: usize,
        /// The other.
        second: usize,
    },
    /// A class was never drawn, so that its share cannot be estimated.
    #[error("there are no counts to estimate class proportions from")]
    NoCounts,
    /// The confusion matrix does not tell the classes apart.
    #[error(
        "the confusion matrix is singular to working precision (pivot ratio {pivot:e} at class {class}): \
         add a ridge or merge classes"
    )]
    Singular {
        /// Class at which elimination broke down.
        class: usize,
        /// Pivot over the largest pivot.
        pivot: f64,
    },
    /// A schedule's knots are not usable.
    #[error("knot {index} of the schedule, ({}, {}), is {problem}", Num(*at), Num(*value))]
    Knot {
        /// Which knot.
        index: usize,
        /// Its place.
        at: f64,
        /// Its value.
        value: f64,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Saved state that cannot be read back.
    #[error("the saved state is not usable: {problem}")]
    Saved {
        /// What is wrong.
        problem: String,
    },
    /// Reading or writing failed.
    #[error("{kind}: {message}")]
    Io {
        /// Kind of failure.
        kind: io::ErrorKind,
        /// What the system said.
        message: String,
    },
    /// A solver of the core refused the problem.
    #[error(transparent)]
    Transport(#[from] earthmover::Error),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io {
            kind: error.kind(),
            message: error.to_string(),
        }
    }
}
