//! Batches of views, on all cores.
//!
//! Row i of the batch of step t is made with the generator (seed, t, view, i) and with nothing shared, so the
//! batch is the same bit for bit on one thread and on many. It is keyed by the row and not by the
//! example: an example that is drawn twice gets two different views.

use rayon::prelude::*;

use super::canvas::Canvas;
use super::error::AugmentError;
use super::policy::{ImagePolicy, Policy, View};
use super::tabular::TabularPolicy;
use crate::data::{Normalisation, Part, Shape};
use crate::rng::Rng;

/// Images per task: enough to hide what a task costs, few enough to share out a small batch.
const GRAIN: usize = 8;

/// Makes normalised batches: channel × height × width per image, features per row.
///
/// # Examples
/// ```
/// use earthmover_ssl::augment::{Batcher, ImagePolicy, Policy, View};
/// use earthmover_ssl::data::digits;
///
/// let digits = digits::load()?;
/// let policy = Policy::Image(ImagePolicy::digits());
/// let batcher = Batcher::new(digits.shape(), &digits.normalisation, policy)?;
/// let (seed, step) = (1, 500);
/// let batch = batcher.batch(&digits.train, &[3, 1, 3], View::Strong, seed, step)?;
/// assert_eq!(batch.len(), 3 * 64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Batcher {
    shape: Shape,
    kind: Prepared,
}

#[derive(Clone, Debug)]
enum Prepared {
    Image {
        policy: ImagePolicy,
        /// The normalised value of each byte, per channel.
        tables: Vec<[f32; 256]>,
        canvas: Canvas,
    },
    Table {
        policy: TabularPolicy,
        /// (μ, 1/σ) per feature.
        scale: Vec<(f32, f32)>,
    },
}

impl Batcher {
    /// Prepares views of examples of one shape.
    ///
    /// # Errors
    /// When policy or normalisation do not fit the shape, or a setting is out of range.
    pub fn new(
        shape: Shape,
        normalisation: &Normalisation,
        policy: Policy,
    ) -> Result<Self, AugmentError> {
        let channels = shape.channels();
        let Normalisation { mean, std } = normalisation;
        let positive = std.iter().filter(|s| s.is_finite() && **s > 0.0).count();
        if mean.len() != channels || std.len() != channels || positive != channels {
            return Err(AugmentError::Normalisation {
                channels,
                means: mean.len(),
                deviations: positive,
            });
        }
        let kind = match (policy, shape) {
            (
                Policy::Image(policy),
                Shape::Image {
                    height,
                    width,
                    channels,
                },
            ) => {
                policy.validate()?;
                let table =
                    |(&m, &s): (&f32, &f32)| std::array::from_fn(|v| (v as f32 / 255.0 - m) / s);
                Prepared::Image {
                    policy,
                    tables: mean.iter().zip(std).map(table).collect(),
                    canvas: Canvas::new(height, width, channels)?,
                }
            }
            (Policy::Tabular(policy), Shape::Table { .. }) => {
                policy.validate()?;
                Prepared::Table {
                    policy,
                    scale: mean.iter().zip(std).map(|(&m, &s)| (m, 1.0 / s)).collect(),
                }
            }
            (Policy::Image(_), _) => {
                return Err(AugmentError::Policy {
                    policy: "image",
                    shape,
                });
            }
            (Policy::Tabular(_), _) => {
                return Err(AugmentError::Policy {
                    policy: "tabular",
                    shape,
                });
            }
        };
        Ok(Self { shape, kind })
    }

    /// The shape of the examples.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The batch of views of `part`'s examples at `indices`. Give batches of one step that must not share
    /// their randomness (labeled and unlabeled ones) different seeds.
    ///
    /// # Errors
    /// When the part has another shape or an index is past its end.
    pub fn batch(
        &self,
        part: &Part,
        indices: &[usize],
        view: View,
        seed: u64,
        step: u64,
    ) -> Result<Vec<f32>, AugmentError> {
        let mut out = vec![0.0; indices.len() * self.shape.size()];
        self.fill(part, indices, view, seed, step, &mut out)?;
        Ok(out)
    }

    /// [`Batcher::batch`] into a buffer that is already there.
    ///
    /// # Errors
    /// As [`Batcher::batch`], and when the buffer has another length.
    pub fn fill(
        &self,
        part: &Part,
        indices: &[usize],
        view: View,
        seed: u64,
        step: u64,
        out: &mut [f32],
    ) -> Result<(), AugmentError> {
        let size = self.shape.size();
        if part.shape() != self.shape {
            return Err(AugmentError::Length {
                expected: size,
                found: part.shape().size(),
            });
        }
        if let Some(&index) = indices.iter().find(|&&i| i >= part.len()) {
            return Err(AugmentError::Index {
                index,
                examples: part.len(),
            });
        }
        if out.len() != indices.len() * size {
            return Err(AugmentError::Length {
                expected: indices.len() * size,
                found: out.len(),
            });
        }
        let root = Rng::new(seed).fork(step).fork(view as u64);
        let tasks = out
            .par_chunks_mut(size * GRAIN)
            .zip(indices.par_chunks(GRAIN))
            .enumerate();
        tasks.try_for_each_init(
            || self.scratch(),
            |scratch, (task, (rows, indices))| {
                for (i, (row, &index)) in rows.chunks_exact_mut(size).zip(indices).enumerate() {
                    let mut rng = root.fork((task * GRAIN + i) as u64);
                    self.one(part, index, view, &mut rng, scratch.as_mut(), row)?;
                }
                Ok(())
            },
        )
    }

    fn scratch(&self) -> Option<Canvas> {
        match &self.kind {
            Prepared::Image { canvas, .. } => Some(canvas.clone()),
            Prepared::Table { .. } => None,
        }
    }

    fn one(
        &self,
        part: &Part,
        index: usize,
        view: View,
        rng: &mut Rng,
        canvas: Option<&mut Canvas>,
        out: &mut [f32],
    ) -> Result<(), AugmentError> {
        let past_end = AugmentError::Index {
            index,
            examples: part.len(),
        };
        match &self.kind {
            Prepared::Image { policy, tables, .. } => {
                let Some(canvas) = canvas else {
                    return Err(past_end);
                };
                let image = part.read_image(index).map_err(|e| AugmentError::Read {
                    message: e.to_string(),
                })?;
                canvas.load(&image)?;
                if view != View::Plain {
                    policy.weak.apply(canvas, rng);
                }
                if view == View::Strong {
                    policy.rand_augment.apply(canvas, rng);
                }
                planes(canvas, tables, out);
                if view == View::Strong {
                    policy.cutout.apply(out, canvas.height, canvas.width, rng);
                }
            }
            Prepared::Table { policy, scale } => {
                let Some(row) = part.row(index) else {
                    return Err(past_end);
                };
                for ((to, &x), &(mean, inverse)) in out.iter_mut().zip(row).zip(scale) {
                    *to = (x - mean) * inverse;
                }
                match view {
                    View::Plain => {}
                    View::Weak => policy.weak.apply(out, rng),
                    View::Strong => policy.strong.apply(out, rng),
                }
            }
        }
        Ok(())
    }
}

/// Interleaved bytes to normalised planes.
fn planes(canvas: &Canvas, tables: &[[f32; 256]], out: &mut [f32]) {
    let plane = canvas.height * canvas.width;
    match tables {
        [r, g, b] => {
            let (red, rest) = out.split_at_mut(plane);
            let (green, blue) = rest.split_at_mut(plane);
            let pixels = canvas.pixels.chunks_exact(3);
            for (((pixel, x), y), z) in pixels.zip(red).zip(green).zip(blue) {
                *x = r[usize::from(pixel[0])];
                *y = g[usize::from(pixel[1])];
                *z = b[usize::from(pixel[2])];
            }
        }
        [grey, ..] => {
            for (&v, x) in canvas.pixels.iter().zip(out) {
                *x = grey[usize::from(v)];
            }
        }
        [] => {}
    }
}
