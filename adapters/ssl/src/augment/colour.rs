//! Changing pixel values where they are.
//!
//! Half of the operations are a table v ↦ t(v) per channel; the other half move the image x along the line
//! through a plainer image x̄,
//!
//! ```text
//! x ↦ clamp(x̄ + φ (x − x̄)),     φ = 0 plain, 1 unchanged, > 1 exaggerated
//! ```
//!
//! with x̄ black (brightness), the mean grey (contrast), the grey image (colour) or the smoothed image
//! (sharpness). Definitions and roundings are Pillow's, whose `ImageOps` and `ImageEnhance` the published
//! experiments used; a recorded comparison is among the tests.

use super::canvas::Canvas;

/// Truncation toward zero after clamping.
fn blend(plain: u8, value: u8, factor: f32) -> u8 {
    // `as` saturates, which is the clamp.
    (f32::from(plain) + factor * (f32::from(value) - f32::from(plain))) as u8
}

/// Luma by ITU-R 601-2 in 16-bit fixed point.
fn luma(pixel: &[u8]) -> u8 {
    match *pixel {
        [r, g, b] => {
            ((u32::from(r) * 19_595 + u32::from(g) * 38_470 + u32::from(b) * 7_471 + 0x8000) >> 16)
                as u8
        }
        [v, ..] => v,
        [] => 0,
    }
}

fn table(map: impl Fn(u8) -> u8) -> [u8; 256] {
    std::array::from_fn(|v| map(v as u8))
}

impl Canvas {
    fn map_all(&mut self, table: &[u8; 256]) {
        self.pixels
            .iter_mut()
            .for_each(|v| *v = table[usize::from(*v)]);
    }

    /// Gives each channel the table that `make` derives from its histogram, or leaves it as it is.
    fn map_channels(&mut self, make: impl Fn(&[u32; 256]) -> Option<[u8; 256]>) {
        let channels = self.channels;
        let mut histograms = [[0u32; 256]; 3];
        for pixel in self.pixels.chunks_exact(channels) {
            for (h, &v) in histograms.iter_mut().zip(pixel) {
                h[usize::from(v)] += 1;
            }
        }
        for (c, histogram) in histograms.iter().enumerate().take(channels) {
            if let Some(table) = make(histogram) {
                self.pixels
                    .iter_mut()
                    .skip(c)
                    .step_by(channels)
                    .for_each(|v| *v = table[usize::from(*v)]);
            }
        }
    }

    /// Stretches each channel to the full range 0..=255.
    pub fn autocontrast(&mut self) {
        self.map_channels(|histogram| {
            let low = histogram.iter().position(|&h| h > 0)?;
            let high = histogram.iter().rposition(|&h| h > 0)?;
            if high <= low {
                return None;
            }
            let scale = 255.0 / (high - low) as f64;
            let offset = -(low as f64) * scale;
            Some(table(|v| (f64::from(v) * scale + offset) as u8))
        });
    }

    /// Flattens each channel's histogram. The step between output levels is ⌊(pixels − those of the
    /// brightest value)/255⌋; when it is 0, as in any image of fewer than 256 pixels, nothing changes.
    pub fn equalize(&mut self) {
        self.map_channels(|histogram| {
            let brightest = histogram.iter().rev().find(|&&h| h > 0)?;
            let total: u32 = histogram.iter().sum();
            let step = (total - brightest) / 255;
            if step == 0 {
                return None;
            }
            let mut below = step / 2;
            let mut levels = [0; 256];
            for (level, &h) in levels.iter_mut().zip(histogram) {
                *level = (below / step).min(255) as u8;
                below += h;
            }
            Some(levels)
        });
    }

    /// Inverts values at or above the threshold.
    pub fn solarize(&mut self, threshold: f64) {
        self.map_all(&table(
            |v| if f64::from(v) < threshold { v } else { 255 - v },
        ));
    }

    /// Keeps the highest `bits` bits of each value (at most 8).
    pub fn posterize(&mut self, bits: u32) {
        let mask = !(0xff_u32 >> bits.min(8)) as u8;
        self.map_all(&table(|v| v & mask));
    }

    /// Toward black (φ < 1) or away from it.
    pub fn brightness(&mut self, factor: f64) {
        let factor = factor as f32;
        self.map_all(&table(|v| blend(0, v, factor)));
    }

    /// Toward the mean grey (φ < 1) or away from it.
    pub fn contrast(&mut self, factor: f64) {
        let factor = factor as f32;
        let sum: u64 = self
            .pixels
            .chunks_exact(self.channels)
            .map(|p| u64::from(luma(p)))
            .sum();
        let count = (self.pixels.len() / self.channels) as f64;
        let mean = (sum as f64 / count + 0.5) as u8;
        self.map_all(&table(|v| blend(mean, v, factor)));
    }

    /// Toward the grey image (φ < 1) or away from it. A grey image is its own grey image.
    pub fn color(&mut self, factor: f64) {
        if self.channels == 1 {
            return;
        }
        let factor = factor as f32;
        for pixel in self.pixels.chunks_exact_mut(3) {
            let grey = luma(pixel);
            pixel.iter_mut().for_each(|v| *v = blend(grey, *v, factor));
        }
    }

    /// Toward the smoothed image (φ < 1) or away from it. Smoothing weighs the 3 × 3 neighbourhood with
    /// 5/13 in the middle and 1/13 around; pixels at the border are left alone.
    pub fn sharpness(&mut self, factor: f64) {
        let factor = factor as f32;
        let Self {
            height,
            width,
            channels,
            ..
        } = *self;
        if height < 3 || width < 3 {
            return;
        }
        let stride = width * channels;
        let inner = channels..stride - channels;
        self.spare.copy_from_slice(&self.pixels);
        let rows = self.pixels.chunks_exact(stride);
        let above_and_below = rows.clone().zip(rows.clone().skip(1)).zip(rows.skip(2));
        for (((above, row), below), to) in
            above_and_below.zip(self.spare.chunks_exact_mut(stride).skip(1))
        {
            for i in inner.clone() {
                let mut sum = 4 * u32::from(row[i]);
                for line in [above, row, below] {
                    sum += u32::from(line[i - channels])
                        + u32::from(line[i])
                        + u32::from(line[i + channels]);
                }
                to[i] = blend(((2 * sum + 13) / 26) as u8, row[i], factor);
            }
        }
        self.swap();
    }
}
