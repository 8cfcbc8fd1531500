//! Register tiles: the two inner loops all three products of a convolution come down to.
//!
//! * [`Tiles::correlate`]: `out[m, p] = Σₖ A[m, k] · src[off(k) + base(p)]`, vectors along pixels p;
//! * [`Tiles::outer`]: `out[k, m] += Σₚ B[p, m] · src[off(k) + base(p)]`, vectors along channels m.
//!
//! Both read the source through a table of offsets, so the matrix that im2col would write never
//! exists: a 3 × 3 convolution loads each pixel nine times from the first-level cache rather than
//! storing it nine times. Twelve vector accumulators live in registers over the whole of k (or p);
//! that is what the machine's two multiply-add pipes need to stay busy.
//!
//! The loops are safe Rust over fixed-size arrays, compiled twice: for any target, and on x86-64 for
//! AVX2 with fused multiply-add, picked at run time. A sum is always taken in the same order, so a
//! result depends on the machine's instruction set but never on the number of threads.

use super::dispatch::dispatch;
use super::element::Element;

/// A dense grid of output pixels and where it lies in the source: pixel (i, j) reads at
/// `origin + i · pitch + j`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) pitch: usize,
    pub(super) origin: usize,
}

impl Grid {
    pub(super) fn len(&self) -> usize {
        self.rows * self.cols
    }
}

/// How many rows of A one register tile holds; each is two vectors wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Height {
    Four,
    Six,
}

impl Height {
    pub(super) fn rows(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Six => 6,
        }
    }

    /// The height that wastes fewer lanes on `m` rows; the taller where they tie, since it loads less.
    pub(super) fn fitting(m: usize) -> Self {
        let four = m.next_multiple_of(4);
        let six = m.next_multiple_of(6);
        if four < six { Self::Four } else { Self::Six }
    }
}

/// Rows of A (m × k, element (m, k) given by a function), cut in tiles and stored k-major within a
/// tile so that the inner loop reads them in order. The last tile is filled up with zeros.
#[derive(Debug)]
pub(super) struct Packed<T> {
    pub(super) height: Height,
    pub(super) rows: usize,
    pub(super) depth: usize,
    data: Vec<T>,
}

impl<T: Element> Packed<T> {
    pub(super) fn new(
        height: Height,
        rows: usize,
        depth: usize,
        at: impl Fn(usize, usize) -> T,
    ) -> Self {
        let tall = height.rows();
        let mut data = vec![T::zero(); rows.div_ceil(tall) * tall * depth];
        for m in 0..rows {
            let (tile, lane) = (m / tall, m % tall);
            let start = tile * tall * depth;
            for (k, slot) in data[start..]
                .iter_mut()
                .skip(lane)
                .step_by(tall)
                .take(depth)
                .enumerate()
            {
                *slot = at(m, k);
            }
        }
        Self {
            height,
            rows,
            depth,
            data,
        }
    }
}

/// The two products, for one float type.
pub(super) trait Tiles: Element {
    /// Elements in a vector.
    const LANES: usize;
    /// Columns per strip of the operand B of [`Tiles::outer`]: two vectors.
    const STRIP: usize = 2 * Self::LANES;

    /// `out[m · P + p] = Σₖ a[m, k] · src[off[k] + base(p)]` for the P pixels of the grid. The source
    /// must have [`Tiles::LANES`] elements to spare behind the last one used.
    fn correlate(a: &Packed<Self>, src: &[Self], off: &[u32], grid: Grid, out: &mut [Self]);

    /// `out[k · width + m] += Σₚ b[p, m] · src[off[k] + base(p)]`, where `width` is the number of
    /// columns rounded up to whole strips and `b` is stored strip by strip, pixel-major within.
    fn outer(b: &[Self], width: usize, src: &[Self], off: &[u32], grid: Grid, out: &mut [Self]);
}

macro_rules! tiles {
    ($float:ty, $lanes:literal) => {
        impl Tiles for $float {
            const LANES: usize = $lanes;

            fn correlate(
                a: &Packed<Self>,
                src: &[Self],
                off: &[u32],
                grid: Grid,
                out: &mut [Self],
            ) {
                dispatch!("avx2", "fma"; correlate::<$float, $lanes, NATIVE_FUSED>, correlate::<$float, $lanes, true>;
                    (a: &Packed<$float>, src: &[$float], off: &[u32], grid: Grid, out: &mut [$float]))
            }

            fn outer(
                b: &[Self],
                width: usize,
                src: &[Self],
                off: &[u32],
                grid: Grid,
                out: &mut [Self],
            ) {
                dispatch!("avx2", "fma"; outer::<$float, $lanes, NATIVE_FUSED>, outer::<$float, $lanes, true>;
                    (b: &[$float], width: usize, src: &[$float], off: &[u32], grid: Grid, out: &mut [$float]))
            }
        }
    };
}

tiles!(f32, 8);
tiles!(f64, 4);

/// Whether the fused multiply-add is an instruction of every processor this is compiled for.
const NATIVE_FUSED: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

#[inline(always)]
fn multiply_add<T: Element, const FUSED: bool>(a: T, b: T, c: T) -> T {
    if FUSED { T::fused(a, b, c) } else { a * b + c }
}

#[inline(always)]
fn correlate<T: Element, const L: usize, const FUSED: bool>(
    a: &Packed<T>,
    src: &[T],
    off: &[u32],
    grid: Grid,
    out: &mut [T],
) {
    match a.height {
        Height::Four => correlate_tiled::<T, L, 4, 2, FUSED>(a, src, off, grid, out),
        Height::Six => correlate_tiled::<T, L, 6, 2, FUSED>(a, src, off, grid, out),
    }
}

#[inline(always)]
fn correlate_tiled<
    T: Element,
    const L: usize,
    const M: usize,
    const V: usize,
    const FUSED: bool,
>(
    a: &Packed<T>,
    src: &[T],
    off: &[u32],
    grid: Grid,
    out: &mut [T],
) {
    let pixels = grid.len();
    if pixels == 0 || a.depth == 0 {
        out.fill(T::zero());
        return;
    }
    // A row narrower than a vector is computed with lanes to spare; a longer one ends in a vector
    // that overlaps its neighbour, which computes a few pixels twice but never runs over.
    let valid = grid.cols.min(L);
    let per_row = grid.cols.div_ceil(L);
    let vectors = grid.rows * per_row;
    let place = |v: usize| {
        let v = v.min(vectors - 1);
        let (i, j) = (v / per_row, (v % per_row * L).min(grid.cols - valid));
        (grid.origin + i * grid.pitch + j, i * grid.cols + j)
    };
    let last = grid.origin + (grid.rows - 1) * grid.pitch + grid.cols - valid;
    let reach = off.iter().max().map_or(0, |&o| o as usize) + last + L;
    assert!(
        reach <= src.len(),
        "a tile would read up to {reach} of {} elements",
        src.len()
    );
    for (tile, weights) in a.data.chunks_exact(M * a.depth).enumerate() {
        let (weights, _) = weights.as_chunks::<M>();
        let rows = (a.rows - tile * M).min(M);
        for first in (0..vectors).step_by(V) {
            let places: [(usize, usize); V] = std::array::from_fn(|v| place(first + v));
            let acc = dot::<T, L, M, V, FUSED>(weights, src, off, places.map(|p| p.0));
            for (m, row) in acc.iter().enumerate().take(rows) {
                let start = (tile * M + m) * pixels;
                for (vector, &(_, at)) in row.iter().zip(&places) {
                    if let Some(slot) = out.get_mut(start + at..start + at + valid) {
                        slot.copy_from_slice(&vector[..valid]);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn dot<T: Element, const L: usize, const M: usize, const V: usize, const FUSED: bool>(
    weights: &[[T; M]],
    src: &[T],
    off: &[u32],
    bases: [usize; V],
) -> [[[T; L]; V]; M] {
    let mut acc = [[[T::zero(); L]; V]; M];
    for (w, &o) in weights.iter().zip(off) {
        let x: [&[T; L]; V] = bases.map(|base| {
            // SAFETY: `reach` bounds every offset plus every base plus a vector, and was checked.
            unsafe { &*src.as_ptr().add(base + o as usize).cast::<[T; L]>() }
        });
        for m in 0..M {
            for v in 0..V {
                for l in 0..L {
                    acc[m][v][l] = multiply_add::<T, FUSED>(w[m], x[v][l], acc[m][v][l]);
                }
            }
        }
    }
    acc
}

#[inline(always)]
fn outer<T: Element, const L: usize, const FUSED: bool>(
    b: &[T],
    width: usize,
    src: &[T],
    off: &[u32],
    grid: Grid,
    out: &mut [T],
) {
    const K: usize = 6;
    let pixels = grid.len();
    if pixels == 0 || off.is_empty() {
        return;
    }
    for (strip, b) in b.chunks_exact(pixels * 2 * L).enumerate() {
        let (vectors, _) = b.as_chunks::<L>();
        let (pairs, _) = vectors.as_chunks::<2>();
        for first in (0..off.len()).step_by(K) {
            // The last tile repeats its final offset; the surplus rows are not written back.
            let offsets: [usize; K] =
                std::array::from_fn(|k| grid.origin + off[(first + k).min(off.len() - 1)] as usize);
            let mut acc = [[[T::zero(); L]; 2]; K];
            for (i, row) in pairs.chunks_exact(grid.cols).enumerate() {
                let lines: [&[T]; K] = std::array::from_fn(|k| {
                    let at = offsets[k] + i * grid.pitch;
                    &src[at..at + grid.cols]
                });
                for (j, pair) in row.iter().enumerate() {
                    for k in 0..K {
                        let x = lines[k][j];
                        for v in 0..2 {
                            for l in 0..L {
                                acc[k][v][l] =
                                    multiply_add::<T, FUSED>(x, pair[v][l], acc[k][v][l]);
                            }
                        }
                    }
                }
            }
            for (k, row) in acc.iter().enumerate().take(off.len() - first) {
                let start = (first + k) * width + strip * 2 * L;
                for (slot, &sum) in out[start..start + 2 * L].iter_mut().zip(row.as_flattened()) {
                    *slot += sum;
                }
            }
        }
    }
}
