//! Eight numbers side by side.
//!
//! Written so that every operation is a loop over eight lanes and nothing else: compilers turn each into
//! vector instructions of whatever width the machine has, in safe code, with the same bits everywhere.

use crate::Real;

/// Numbers in a [`Lanes`].
pub(crate) const LANES: usize = 8;

/// Eight numbers that are worked on together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lanes<T>(pub(crate) [T; LANES]);

impl<T: Copy> Lanes<T> {
    #[inline(always)]
    pub(crate) fn splat(x: T) -> Self {
        Self([x; LANES])
    }

    #[inline(always)]
    pub(crate) fn zip(self, other: Self, f: impl Fn(T, T) -> T) -> Self {
        let mut out = self.0;
        for l in 0..LANES {
            out[l] = f(self.0[l], other.0[l]);
        }
        Self(out)
    }
}

impl<T: Real> Lanes<T> {
    /// Lane-wise maximum; a NaN in `other` is ignored.
    #[inline(always)]
    pub(crate) fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| if b > a { b } else { a })
    }

    /// Sum of the lanes, in a fixed order.
    #[inline(always)]
    pub(crate) fn sum(self) -> T {
        let x = self.0;
        ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]))
    }

    /// Largest lane.
    #[inline(always)]
    pub(crate) fn largest(self) -> T {
        let x = self.0;
        let m = |a: T, b: T| if b > a { b } else { a };
        m(
            m(m(x[0], x[4]), m(x[2], x[6])),
            m(m(x[1], x[5]), m(x[3], x[7])),
        )
    }

    /// The lanes of a chunk of exactly eight numbers.
    #[inline(always)]
    pub(crate) fn of(chunk: &[T; LANES]) -> Self {
        Self(*chunk)
    }
}
