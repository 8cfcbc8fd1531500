//! Labeled examples only: the floor that every method must beat.

use super::{Batch, Labels, Method};
use crate::Error;

/// No target for any unlabeled example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Supervised;

impl Method for Supervised {
    fn uses_unlabeled(&self) -> bool {
        false
    }

    fn label(&mut self, batch: &Batch<'_>) -> Result<Labels, Error> {
        batch.check()?;
        Ok(Labels::none(batch.indices.len(), batch.classes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand;
    use super::*;

    #[test]
    fn labels_nothing() {
        let labels = hand::label(&mut Supervised, &[0.9, 0.1, 0.5, 0.5], 2);
        assert_eq!(labels, Labels::none(2, 2));
        assert!(!Supervised.uses_unlabeled());
    }
}
