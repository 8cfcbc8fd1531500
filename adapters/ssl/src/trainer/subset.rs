//! A part of a data set, for machines that cannot take the whole.

use std::sync::Arc;

use super::error::TrainError;
use super::settings::Settings;
use crate::data::{Dataset, LoadOptions, Part};
use crate::rng::Rng;

/// Loads the data of a run and keeps at most as many examples as its settings say: the same ones for every
/// seed and method.
///
/// # Errors
/// When the data cannot be read.
///
/// # Examples
/// ```
/// use earthmover_ssl::trainer::{Settings, subset};
/// let settings = Settings { train_examples: Some(300), ..Settings::default() };
/// assert_eq!(subset(&settings)?.train.len(), 300);
/// # Ok::<(), earthmover_ssl::trainer::TrainError>(())
/// ```
pub fn subset(settings: &Settings) -> Result<Arc<Dataset>, TrainError> {
    let options = LoadOptions {
        size: settings.size,
        ..LoadOptions::default()
    };
    let mut dataset = settings.dataset.load_with(&settings.data, options)?;
    let some = |part: &Part, most: Option<usize>, stream: u64| match most {
        Some(most) if most < part.len() => {
            let mut chosen = Rng::new(0).fork(stream).choose(part.len(), most);
            chosen.sort_unstable();
            Some(part.select(&chosen))
        }
        _ => None,
    };
    if let Some(train) = some(&dataset.train, settings.train_examples, 0) {
        dataset.train = train;
    }
    if let Some(test) = some(&dataset.test, settings.test_examples, 1) {
        dataset.test = test;
    }
    if dataset.train.is_empty() {
        return Err(TrainError::Setting {
            what: "the number of training examples",
            value: "0".to_owned(),
            rule: "at least 1",
        });
    }
    Ok(Arc::new(dataset))
}
