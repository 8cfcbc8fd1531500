//! Loops over one row of pixels of one channel, for [batch normalisation](super::batch_norm).
//!
//! Sums run in one accumulator per vector lane, folded in a fixed order at the end of the row: fast,
//! and a row of a thousand f32 loses no more than a few units in the last place.

use super::dispatch::dispatch;
use super::element::Element;
use super::tile::Tiles;

/// The loops, for one float type.
pub(super) trait Rows: Tiles {
    /// Mean of the row and Σ (x − mean)².
    fn moments(x: &[Self]) -> [f64; 2];
    /// `y = φ(scale·x + shift)`.
    fn activate(x: &[Self], scale: Self, shift: Self, slope: Self, y: &mut [Self]);
    /// `[Σ g, Σ g·x̂]` with `g = dy·φ′(scale·x + shift)` and `x̂ = inverse·x + centre`.
    fn slopes(x: &[Self], dy: &[Self], channel: &Channel<Self>) -> [f64; 2];
    /// `dx = scale·g + on_x·x + constant`.
    fn descend(x: &[Self], dy: &[Self], channel: &Channel<Self>, rest: [Self; 2], dx: &mut [Self]);
}

/// What one channel does to x: γ·x̂ + β written as scale·x + shift, and x̂ as inverse·x + centre.
pub(super) struct Channel<T> {
    pub(super) scale: T,
    pub(super) shift: T,
    pub(super) inverse: T,
    pub(super) centre: T,
    pub(super) slope: T,
}

// No fused operations: wide or not, the bodies give the same bits.
macro_rules! rows {
    ($float:ty, $lanes:literal) => {
        impl Rows for $float {
            fn moments(x: &[Self]) -> [f64; 2] {
                dispatch!("avx2"; moments::<$float, $lanes>, moments::<$float, $lanes>;
                    (x: &[$float]) -> [f64; 2])
            }
            fn activate(x: &[Self], scale: Self, shift: Self, slope: Self, y: &mut [Self]) {
                dispatch!("avx2"; activate::<$float>, activate::<$float>;
                    (x: &[$float], scale: $float, shift: $float, slope: $float, y: &mut [$float]))
            }
            fn slopes(x: &[Self], dy: &[Self], channel: &Channel<Self>) -> [f64; 2] {
                dispatch!("avx2"; slopes::<$float, $lanes>, slopes::<$float, $lanes>;
                    (x: &[$float], dy: &[$float], channel: &Channel<$float>) -> [f64; 2])
            }
            fn descend(
                x: &[Self],
                dy: &[Self],
                channel: &Channel<Self>,
                rest: [Self; 2],
                dx: &mut [Self],
            ) {
                dispatch!("avx2"; descend::<$float>, descend::<$float>;
                    (x: &[$float], dy: &[$float], channel: &Channel<$float>, rest: [$float; 2], dx: &mut [$float]))
            }
        }
    };
}

rows!(f32, 8);
rows!(f64, 4);

#[inline(always)]
fn fold<T: Element, const L: usize>(lanes: [T; L]) -> f64 {
    lanes.iter().map(|l| l.to_f64()).sum()
}

#[inline(always)]
fn moments<T: Element, const L: usize>(x: &[T]) -> [f64; 2] {
    let (vectors, tail) = x.as_chunks::<L>();
    let mut sum = [T::zero(); L];
    for v in vectors {
        for l in 0..L {
            sum[l] += v[l];
        }
    }
    let total = fold(sum) + tail.iter().map(|x| x.to_f64()).sum::<f64>();
    let mean = total / x.len().max(1) as f64;
    // The row's own mean, rounded: what is lost to the rounding is put back below.
    let near = T::from_f64(mean);
    let mut squares = [T::zero(); L];
    for v in vectors {
        for l in 0..L {
            let d = v[l] - near;
            squares[l] += d * d;
        }
    }
    let spread = fold(squares)
        + tail
            .iter()
            .map(|x| (x.to_f64() - near.to_f64()).powi(2))
            .sum::<f64>();
    let off = mean - near.to_f64();
    [mean, (spread - off * off * x.len() as f64).max(0.0)]
}

#[inline(always)]
fn activate<T: Element>(x: &[T], scale: T, shift: T, slope: T, y: &mut [T]) {
    for (y, &x) in y.iter_mut().zip(x) {
        let z = x * scale + shift;
        *y = if z > T::zero() { z } else { z * slope };
    }
}

#[inline(always)]
fn gradient<T: Element>(x: T, dy: T, c: &Channel<T>) -> T {
    let positive = x * c.scale + c.shift > T::zero();
    dy * if positive { T::one() } else { c.slope }
}

#[inline(always)]
fn slopes<T: Element, const L: usize>(x: &[T], dy: &[T], c: &Channel<T>) -> [f64; 2] {
    let (xs, x_tail) = x.as_chunks::<L>();
    let (dys, dy_tail) = dy.as_chunks::<L>();
    let (mut sum, mut product) = ([T::zero(); L], [T::zero(); L]);
    for (x, dy) in xs.iter().zip(dys) {
        // One plain loop per result: each becomes a vector instruction or two.
        let mut g = [T::zero(); L];
        for l in 0..L {
            g[l] = gradient(x[l], dy[l], c);
        }
        for l in 0..L {
            sum[l] += g[l];
        }
        for l in 0..L {
            product[l] += g[l] * (x[l] * c.inverse + c.centre);
        }
    }
    let mut total = [fold(sum), fold(product)];
    for (&x, &dy) in x_tail.iter().zip(dy_tail) {
        let g = gradient(x, dy, c);
        total[0] += g.to_f64();
        total[1] += (g * (x * c.inverse + c.centre)).to_f64();
    }
    total
}

#[inline(always)]
fn descend<T: Element>(x: &[T], dy: &[T], c: &Channel<T>, rest: [T; 2], dx: &mut [T]) {
    for ((dx, &x), &dy) in dx.iter_mut().zip(x).zip(dy) {
        *dx = gradient(x, dy, c) * c.scale + (x * rest[0] + rest[1]);
    }
}
