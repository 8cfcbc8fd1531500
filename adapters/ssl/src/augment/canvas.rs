//! One image under the brush, with room for a second so that operations need no allocation.

use super::error::AugmentError;
use crate::data::Shape;

/// An image of bytes, height × width × channel, that the operations of this module change in place.
///
/// # Examples
/// ```
/// use earthmover_ssl::augment::Canvas;
///
/// let mut canvas = Canvas::new(2, 2, 1)?;
/// canvas.load(&[10, 20, 30, 40])?;
/// canvas.crop(0, 0, 0, true);
/// assert_eq!(canvas.pixels(), [20, 10, 40, 30]);
/// # Ok::<(), earthmover_ssl::augment::AugmentError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Canvas {
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) channels: usize,
    pub(super) pixels: Vec<u8>,
    pub(super) spare: Vec<u8>,
}

impl Canvas {
    /// A black image.
    ///
    /// # Errors
    /// When a side is zero or longer than 32,767 (the geometry counts in 16.16 fixed point), or the
    /// channels are neither 1 nor 3.
    pub fn new(height: usize, width: usize, channels: usize) -> Result<Self, AugmentError> {
        let side = 1..=32_767;
        if !side.contains(&height) || !side.contains(&width) || !matches!(channels, 1 | 3) {
            return Err(AugmentError::Shape {
                shape: Shape::Image {
                    height,
                    width,
                    channels,
                },
            });
        }
        let size = height * width * channels;
        Ok(Self {
            height,
            width,
            channels,
            pixels: vec![0; size],
            spare: vec![0; size],
        })
    }

    /// Copies an image onto the canvas.
    ///
    /// # Errors
    /// When its size is not the canvas's.
    pub fn load(&mut self, image: &[u8]) -> Result<(), AugmentError> {
        if image.len() != self.pixels.len() {
            return Err(AugmentError::Length {
                expected: self.pixels.len(),
                found: image.len(),
            });
        }
        self.pixels.copy_from_slice(image);
        Ok(())
    }

    /// The image as it stands.
    #[must_use]
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    pub(super) fn swap(&mut self) {
        std::mem::swap(&mut self.pixels, &mut self.spare);
    }
}
