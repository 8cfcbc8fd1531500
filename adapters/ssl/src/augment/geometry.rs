//! Moving pixels about.
//!
//! An affine operation reads pixel (x, y) of the result from
//!
//! ```text
//! (⌊a(x+½) + b(y+½) + c⌋, ⌊d(x+½) + e(y+½) + f⌋)
//! ```
//!
//! of the source, black where that lies outside: nearest-neighbour, as the published experiments have it
//! through Pillow's default. The sums run in 16.16 fixed point as Pillow's do, so the results are the same
//! to the last pixel. Positive shears and translations therefore move the *sampling grid* right or down,
//! and the picture left or up; as signs are drawn at random this never matters in training.

use super::canvas::Canvas;

fn fixed(value: f64) -> i64 {
    (value * 65536.0 + 0.5).floor() as i64
}

fn rows<const C: usize>(from: &[u8], to: &mut [u8], width: usize, height: usize, matrix: [f64; 6]) {
    let [a, b, c, d, e, f] = matrix;
    let (step_x, step_y) = (fixed(a), fixed(d));
    let (mut row_x, mut row_y) = (fixed(c + a * 0.5 + b * 0.5), fixed(f + d * 0.5 + e * 0.5));
    for row in to.chunks_exact_mut(width * C) {
        let (mut at_x, mut at_y) = (row_x, row_y);
        for pixel in row.chunks_exact_mut(C) {
            // Negative coordinates wrap to huge ones: one comparison tests both ends.
            let (x, y) = ((at_x >> 16) as usize, (at_y >> 16) as usize);
            if x < width && y < height {
                let at = (y * width + x) * C;
                pixel.copy_from_slice(&from[at..at + C]);
            } else {
                pixel.fill(0);
            }
            at_x += step_x;
            at_y += step_y;
        }
        row_x += fixed(b);
        row_y += fixed(e);
    }
}

/// Index into 0..n of a position at most n − 1 past either end, mirrored without repeating the edge.
fn reflect(position: isize, n: usize) -> usize {
    let period = 2 * n.saturating_sub(1).max(1) as isize;
    let p = position.rem_euclid(period) as usize;
    if p < n { p } else { (period as usize - p) % n }
}

impl Canvas {
    /// Reads every pixel from where the matrix [a b c; d e f] sends it.
    pub fn affine(&mut self, matrix: [f64; 6]) {
        // Nothing past 2²⁴ pixels away can be seen, and sums in fixed point stay far from overflow.
        let matrix = matrix.map(|m| {
            if m.is_finite() {
                m.clamp(-16_777_216.0, 16_777_216.0)
            } else {
                0.0
            }
        });
        let (from, to) = (&self.pixels, &mut self.spare);
        match self.channels {
            1 => rows::<1>(from, to, self.width, self.height, matrix),
            _ => rows::<3>(from, to, self.width, self.height, matrix),
        }
        self.swap();
    }

    /// Turns counter-clockwise about the centre.
    pub fn rotate(&mut self, degrees: f64) {
        let angle = -degrees.to_radians();
        let (sin, cos) = angle.sin_cos();
        let (x, y) = (self.width as f64 / 2.0, self.height as f64 / 2.0);
        self.affine([
            cos,
            sin,
            x - cos * x - sin * y,
            -sin,
            cos,
            y + sin * x - cos * y,
        ]);
    }

    /// Slants rows: x reads from x + `factor` · y.
    pub fn shear_x(&mut self, factor: f64) {
        self.affine([1.0, factor, 0.0, 0.0, 1.0, 0.0]);
    }

    /// Slants columns: y reads from y + `factor` · x.
    pub fn shear_y(&mut self, factor: f64) {
        self.affine([1.0, 0.0, 0.0, factor, 1.0, 0.0]);
    }

    /// x reads from x + `pixels`.
    pub fn translate_x(&mut self, pixels: f64) {
        self.affine([1.0, 0.0, pixels, 0.0, 1.0, 0.0]);
    }

    /// y reads from y + `pixels`.
    pub fn translate_y(&mut self, pixels: f64) {
        self.affine([1.0, 0.0, 0.0, 0.0, 1.0, pixels]);
    }

    /// The window of the image's own size at (`top`, `left`) of the image padded by `padding` mirrored
    /// pixels on every side, then turned left to right if `flip`. Both offsets run from 0 to 2 · `padding`.
    pub fn crop(&mut self, padding: usize, top: usize, left: usize, flip: bool) {
        let Self {
            height,
            width,
            channels,
            ..
        } = *self;
        let (down, right) = (
            top as isize - padding as isize,
            left as isize - padding as isize,
        );
        for y in 0..height {
            let from = &self.pixels[reflect(y as isize + down, height) * width * channels..]
                [..width * channels];
            let to = &mut self.spare[y * width * channels..][..width * channels];
            // The stretch of the row that needs no mirroring is copied whole.
            let first = (-right).clamp(0, width as isize) as usize;
            let last = (width as isize - right).clamp(first as isize, width as isize) as usize;
            if first < last {
                let start = (first as isize + right) as usize * channels;
                to[first * channels..last * channels]
                    .copy_from_slice(&from[start..start + (last - first) * channels]);
            }
            for x in (0..first).chain(last..width) {
                let at = reflect(x as isize + right, width) * channels;
                to[x * channels..(x + 1) * channels].copy_from_slice(&from[at..at + channels]);
            }
            if flip {
                mirror(to, channels);
            }
        }
        self.swap();
    }
}

fn mirror(row: &mut [u8], channels: usize) {
    row.reverse();
    if channels == 3 {
        row.chunks_exact_mut(3).for_each(|pixel| pixel.swap(0, 2));
    }
}

#[cfg(test)]
mod tests {
    use super::reflect;

    #[test]
    fn mirrors_without_repeating_the_edge() {
        let read = |from: isize, n| (from..from + 9).map(|p| reflect(p, n)).collect::<Vec<_>>();
        assert_eq!(read(-3, 4), [3, 2, 1, 0, 1, 2, 3, 2, 1]);
        assert_eq!(read(-4, 2), [0, 1, 0, 1, 0, 1, 0, 1, 0]);
        assert_eq!(read(-4, 1), [0; 9]);
    }
}
