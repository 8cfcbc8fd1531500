//! A square hole.
//!
//! The centre (x, y) is uniform over the pixels; the square of side s reaches from x − ⌊s/2⌋ to
//! x − ⌊s/2⌋ + s, what lies outside the image being cut off. It is zeroed *after* normalisation, which
//! makes it the mean colour: a hole tells the network nothing.

use serde::{Deserialize, Serialize};

use crate::rng::Rng;

/// Zeroes a square at a random place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cutout {
    /// Side of the square in pixels; 0 for none.
    pub size: usize,
}

impl Cutout {
    /// Zeroes the square in every plane of a channel × height × width image.
    pub fn apply(self, planes: &mut [f32], height: usize, width: usize, rng: &mut Rng) {
        if self.size == 0 || height == 0 || width == 0 {
            return;
        }
        let span = |centre: usize, n: usize| {
            let start = centre.saturating_sub(self.size / 2);
            let end = (centre + self.size).saturating_sub(self.size / 2).min(n);
            start..end
        };
        let rows = span(rng.below(height), height);
        let columns = span(rng.below(width), width);
        for plane in planes.chunks_exact_mut(height * width) {
            for row in plane
                .chunks_exact_mut(width)
                .take(rows.end)
                .skip(rows.start)
            {
                row[columns.clone()].fill(0.0);
            }
        }
    }
}
