//! Padded copies of one image, split by phase so that a strided product reads unit strides.
//!
//! With u = i·s + kh the padded coordinate that output row i and kernel row kh meet at, write
//! u = s·q + a. All pixels of phase a form a plane of their own in which tap kh reads row
//! i + ⌊kh / s⌋: a convolution of any stride becomes a stride-one correlation over s² planes. Its
//! input gradient is, phase by phase, a stride-one correlation over the padded output gradient:
//!
//! ```text
//! dX[c, s·q + a − pad] = Σ_{o,t} W[o, c, a + s·t] · dY[o, q − t]
//! ```
//!
//! so stride 2 costs no multiplications by inserted zeros. (Columns alike.)

use super::element::Element;
use super::tile::{Grid, Tiles};

/// Sizes of a square-stride convolution, groups = 1, all checked to be consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) batch: usize,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) image: (usize, usize),
    pub(super) kernel: (usize, usize),
    pub(super) out: (usize, usize),
    pub(super) stride: usize,
    pub(super) padding: usize,
}

impl Shape {
    pub(super) fn taps(&self) -> usize {
        self.inputs * self.kernel.0 * self.kernel.1
    }
    pub(super) fn in_pixels(&self) -> usize {
        self.image.0 * self.image.1
    }
    pub(super) fn out_pixels(&self) -> usize {
        self.out.0 * self.out.1
    }
}

/// The source planes of the forward product (and of the weight gradient).
#[derive(Debug)]
pub(super) struct Forward {
    shape: Shape,
    phases: (usize, usize),
    plane: (usize, usize),
    /// One offset per (channel, kernel row, kernel column).
    pub(super) offsets: Vec<u32>,
}

impl Forward {
    pub(super) fn new(shape: Shape) -> Self {
        let (kh, kw) = shape.kernel;
        let s = shape.stride;
        let phases = (s.min(kh), s.min(kw));
        let plane = (shape.out.0 + (kh - 1) / s, shape.out.1 + (kw - 1) / s);
        let mut offsets = Vec::with_capacity(shape.taps());
        for c in 0..shape.inputs {
            for y in 0..kh {
                for x in 0..kw {
                    let phase = (y % s) * phases.1 + x % s;
                    let row = (phase * shape.inputs + c) * plane.0 + y / s;
                    offsets.push((row * plane.1 + x / s) as u32);
                }
            }
        }
        Self {
            shape,
            phases,
            plane,
            offsets,
        }
    }

    pub(super) fn grid(&self) -> Grid {
        Grid {
            rows: self.shape.out.0,
            cols: self.shape.out.1,
            pitch: self.plane.1,
            origin: 0,
        }
    }

    /// Elements of scratch that [`Forward::fill`] needs, the spare vector at the end included.
    pub(super) fn len<T: Tiles>(&self) -> usize {
        self.phases.0 * self.phases.1 * self.shape.inputs * self.plane.0 * self.plane.1 + T::LANES
    }

    /// Writes every element of the planes of one image.
    pub(super) fn fill<T: Element>(&self, image: &[T], planes: &mut [T]) {
        let (h, w) = self.shape.image;
        let (s, pad) = (self.shape.stride, self.shape.padding);
        let lines = planes.chunks_exact_mut(self.plane.1);
        for (line, index) in lines.zip(0..) {
            let q = index % self.plane.0;
            let c = index / self.plane.0 % self.shape.inputs;
            let phase = index / (self.plane.0 * self.shape.inputs);
            if phase >= self.phases.0 * self.phases.1 {
                line.fill(T::zero());
                continue;
            }
            let (a, b) = (phase / self.phases.1, phase % self.phases.1);
            let u = s * q + a;
            if u < pad || u - pad >= h {
                line.fill(T::zero());
                continue;
            }
            let row = &image[(c * h + u - pad) * w..][..w];
            // r runs over the columns with pad ≤ s·r + b < pad + w.
            let low = pad.saturating_sub(b).div_ceil(s).min(line.len());
            let high = (pad + w)
                .saturating_sub(b)
                .div_ceil(s)
                .clamp(low, line.len());
            line[..low].fill(T::zero());
            line[high..].fill(T::zero());
            let inner = &mut line[low..high];
            let from = s * low + b - pad.min(s * low + b);
            if s == 1 {
                inner.copy_from_slice(&row[from..from + inner.len()]);
            } else {
                for (slot, &x) in inner.iter_mut().zip(row[from..].iter().step_by(s)) {
                    *slot = x;
                }
            }
        }
    }
}

/// One phase of the input gradient: which taps reach it, and the pixels it covers.
#[derive(Debug)]
pub(super) struct Phase {
    pub(super) a: usize,
    pub(super) b: usize,
    /// First image row and column of the phase.
    pub(super) start: (usize, usize),
    pub(super) grid: Grid,
    /// One offset per (output channel, t, v); empty where no tap reaches the phase.
    pub(super) offsets: Vec<u32>,
    pub(super) taps: (usize, usize),
}

/// The source planes of the input gradient: the output gradient with a frame of zeros.
#[derive(Debug)]
pub(super) struct Backward {
    shape: Shape,
    lead: (usize, usize),
    plane: (usize, usize),
    pub(super) phases: Vec<Phase>,
}

impl Backward {
    pub(super) fn new(shape: Shape) -> Self {
        let (s, pad) = (shape.stride, shape.padding);
        let lead = (
            shape.kernel.0.div_ceil(s) - 1,
            shape.kernel.1.div_ceil(s) - 1,
        );
        let plane = (
            lead.0 + (pad + shape.image.0 - 1) / s + 1,
            lead.1 + (pad + shape.image.1 - 1) / s + 1,
        );
        let plane = (
            plane.0.max(lead.0 + shape.out.0),
            plane.1.max(lead.1 + shape.out.1),
        );
        let mut phases = Vec::with_capacity(s * s);
        for a in 0..s {
            for b in 0..s {
                let along = |phase: usize, size: usize| {
                    let first = pad.saturating_sub(phase).div_ceil(s);
                    let start = s * first + phase - pad;
                    (first, start, size.saturating_sub(start).div_ceil(s))
                };
                let (q, top, rows) = along(a, shape.image.0);
                let (r, left, cols) = along(b, shape.image.1);
                let taps = (
                    shape.kernel.0.saturating_sub(a).div_ceil(s),
                    shape.kernel.1.saturating_sub(b).div_ceil(s),
                );
                let mut offsets = Vec::with_capacity(shape.outputs * taps.0 * taps.1);
                for o in 0..shape.outputs {
                    for t in 0..taps.0 {
                        for v in 0..taps.1 {
                            let row = o * plane.0 + lead.0 - t;
                            offsets.push((row * plane.1 + lead.1 - v) as u32);
                        }
                    }
                }
                phases.push(Phase {
                    a,
                    b,
                    start: (top, left),
                    grid: Grid {
                        rows,
                        cols,
                        pitch: plane.1,
                        origin: q * plane.1 + r,
                    },
                    offsets,
                    taps,
                });
            }
        }
        Self {
            shape,
            lead,
            plane,
            phases,
        }
    }

    /// Elements of scratch that [`Backward::fill`] needs, the spare vector at the end included.
    pub(super) fn len<T: Tiles>(&self) -> usize {
        self.shape.outputs * self.plane.0 * self.plane.1 + T::LANES
    }

    /// Writes every element of the planes of one image's output gradient.
    pub(super) fn fill<T: Element>(&self, gradient: &[T], planes: &mut [T]) {
        let (h, w) = self.shape.out;
        for (line, index) in planes.chunks_exact_mut(self.plane.1).zip(0..) {
            let (o, q) = (index / self.plane.0, index % self.plane.0);
            if o >= self.shape.outputs || q < self.lead.0 || q - self.lead.0 >= h {
                line.fill(T::zero());
                continue;
            }
            let row = &gradient[(o * h + q - self.lead.0) * w..][..w];
            line[..self.lead.1].fill(T::zero());
            line[self.lead.1..self.lead.1 + w].copy_from_slice(row);
            line[self.lead.1 + w..].fill(T::zero());
        }
    }
}
