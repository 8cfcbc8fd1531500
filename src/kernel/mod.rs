//! Numbers: exponentials, lanes, tiles, small dense algebra, round-off. Knows nothing of transport.

pub(crate) mod cholesky;
pub(crate) mod column_block;
pub(crate) mod dispatch;
pub(crate) mod eigen;
pub(crate) mod exp;
#[cfg(feature = "serde")]
pub(crate) mod extended;
pub(crate) mod hash;
pub(crate) mod interrupt;
pub(crate) mod kd;
pub(crate) mod lanes;
pub(crate) mod product;
pub(crate) mod random;
pub(crate) mod real;
pub(crate) mod rounding;
pub(crate) mod sort;
pub(crate) mod tiles;
