//! The last few β, for telling a settled allocation from an oscillating one.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// How many solves are remembered.
pub(crate) const WINDOW: usize = 32;

/// Recent scaling variables, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct History {
    classes: usize,
    recent: VecDeque<Vec<f64>>,
}

impl History {
    pub(crate) fn new(classes: usize) -> Self {
        Self {
            classes,
            recent: VecDeque::new(),
        }
    }

    /// From stored vectors; `None` where they do not fit.
    pub(crate) fn from_parts(classes: usize, recent: Vec<Vec<f64>>) -> Option<Self> {
        let fits = recent.len() <= WINDOW && recent.iter().all(|beta| beta.len() == classes + 1);
        fits.then(|| Self {
            classes,
            recent: recent.into(),
        })
    }

    pub(crate) fn push(&mut self, scaling: &[f64]) {
        let mut slot = if self.recent.len() >= WINDOW {
            self.recent.pop_front().unwrap_or_default()
        } else {
            Vec::new()
        };
        slot.clear();
        slot.extend_from_slice(scaling);
        self.recent.push_back(slot);
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.recent.iter().map(Vec::as_slice)
    }
}
