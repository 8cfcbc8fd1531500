//! Points and lines on a picture.

use crate::picture::Picture;

/// A square part of a picture that shows a part of the plane.
pub(crate) struct Panel {
    /// Its upper left corner and its side, in pixels.
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) side: f64,
    /// What of the plane it shows: the middle, and how far to either side.
    pub(crate) middle: [f64; 2],
    pub(crate) reach: f64,
}

impl Panel {
    fn place(&self, p: &[f64]) -> (f64, f64) {
        let scale = 0.5 * self.side / self.reach;
        (
            self.left + 0.5 * self.side + scale * (p[0] - self.middle[0]),
            self.top + 0.5 * self.side - scale * (p[1] - self.middle[1]),
        )
    }

    /// A disc of this radius, in pixels, with smooth edges.
    pub(crate) fn disc(&self, sheet: &mut Picture, p: &[f64], radius: f64, colour: [u8; 3]) {
        let (x, y) = self.place(p);
        self.shade(sheet, (x, y), (x, y), colour, |u, v| {
            radius + 0.5 - (u - x).hypot(v - y)
        });
    }

    /// A thin line from one point to another.
    pub(crate) fn line(
        &self,
        sheet: &mut Picture,
        p: &[f64],
        q: &[f64],
        colour: [u8; 3],
        opacity: f64,
    ) {
        let ((x, y), (u, v)) = (self.place(p), self.place(q));
        let length = (u - x).hypot(v - y).max(1e-9);
        let (c, s) = ((u - x) / length, (v - y) / length);
        self.shade(sheet, (x, y), (u, v), colour, |w, z| {
            let along = (w - x) * c + (z - y) * s;
            let off = ((z - y) * c - (w - x) * s).abs();
            if (0.0..=length).contains(&along) {
                opacity * (1.0 - off).clamp(0.0, 1.0)
            } else {
                0.0
            }
        });
    }

    /// Mixes a colour into the pixels of this panel around two places, by a weight of each.
    fn shade(
        &self,
        sheet: &mut Picture,
        from: (f64, f64),
        to: (f64, f64),
        colour: [u8; 3],
        weight: impl Fn(f64, f64) -> f64,
    ) {
        let margin = 8.0;
        let range = |a: f64, b: f64, low: f64| {
            let first = (a.min(b) - margin).max(low);
            let last = (a.max(b) + margin).min(low + self.side - 1.0);
            first.max(0.0) as usize..=last.max(0.0) as usize
        };
        for j in range(from.1, to.1, self.top) {
            for i in range(from.0, to.0, self.left) {
                let w = weight(i as f64, j as f64).clamp(0.0, 1.0);
                if w > 0.0 && i < sheet.width && j < sheet.height {
                    let at = 3 * (j * sheet.width + i);
                    let old = [0, 1, 2].map(|c| f64::from(sheet.pixels[at + c]));
                    let mixed = |c: usize| old[c] + w * (f64::from(colour[c]) - old[c]);
                    sheet.set(i, j, [0, 1, 2].map(|c| mixed(c) as u8));
                }
            }
        }
    }
}
