//! Data sets, in memory or on the disk, and the labels a learner may see.
//!
//! Each loader is one file about one format; all of them end in a [`Dataset`] of a training and a test
//! [`Part`]. What a loader cannot vouch for (a file missing, cut short, of another format, a label out of
//! range) is a [`DataError`] that names the file, what was expected, what was found and how to get it.
//!
//! | set | function | files |
//! | --- | --- | --- |
//! | digits 8 × 8 | [`digits::load`] | embedded |
//! | MNIST, Fashion-MNIST | [`idx::mnist`], [`idx::fashion_mnist`] | IDX, plain or gzipped |
//! | CIFAR-10, CIFAR-100 | [`cifar::cifar10`], [`cifar::cifar100`] | official binary, plain or gzipped |
//! | SVHN | [`svhn::load`] | MATLAB 5 |
//! | own images | [`folder::load`] | class-named folders of PNG and JPEG, a folder of unlabeled ones, or a list of labels |
//! | own arrays | [`arrays::load`] | NumPy |
//! | own tables | [`csv::load`] | text with commas |

mod apportion;
pub mod arrays;
mod catalogue;
pub mod cifar;
mod cifar100_names;
pub mod csv;
mod dataset;
pub mod digits;
mod error;
mod files;
pub mod folder;
pub mod idx;
mod long_tail;
pub mod mat;
pub mod npy;
mod sampler;
mod split;
mod stored;
pub mod svhn;

pub use catalogue::{Kind, LoadOptions};
pub use dataset::{Dataset, Normalisation, Part, Samples, Shape, UNLABELED};
pub use error::DataError;
pub use long_tail::LongTail;
pub use sampler::Sampler;
pub use split::{LabeledSplit, Split, SplitError, SplitMode};
pub use stored::{ImageFiles, ImageMap};
