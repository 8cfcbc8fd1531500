//! Costs kept in as few bits as asked for.
//!
//! Costs are −log p in [0, 1000]. Single precision is exact for what a model gives; half precision keeps 11
//! significant bits, bfloat16 8: a relative error of 2⁻¹² or 2⁻⁹ in each cost, which at γ = 100 moves a soft label only where
//! an example is undecided anyway. Whatever the bits kept, arithmetic is in single or double precision.

use std::ops::Range;

use earthmover::team::Shard;
use earthmover::{Cost, Rewritable};
use serde::{Deserialize, Serialize};

/// How the n×k costs are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostStorage {
    /// Four bytes each.
    #[default]
    Single,
    /// IEEE half precision, two bytes each.
    Half,
    /// bfloat16, two bytes each: fewer digits than [`Half`](Self::Half), the range of single precision.
    Bfloat,
}

/// The costs, row-major.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    classes: usize,
    cells: Cells,
    /// Which examples of all these are, where a team holds them.
    shard: Option<Shard>,
}

#[derive(Debug, Clone)]
enum Cells {
    Single(Vec<f32>),
    Half(Vec<u16>),
    Bfloat(Vec<u16>),
}

impl Stored {
    /// No rows yet.
    pub(crate) fn empty(classes: usize, storage: CostStorage) -> Self {
        Self::constant(0.0, 0, classes, storage)
    }

    /// Appends costs.
    pub(crate) fn extend(&mut self, costs: &[f32]) {
        match &mut self.cells {
            Cells::Single(cells) => cells.extend_from_slice(costs),
            Cells::Half(cells) => cells.extend(costs.iter().map(|c| half_bits(*c))),
            Cells::Bfloat(cells) => cells.extend(costs.iter().map(|c| bfloat_bits(*c))),
        }
    }

    /// The same cost everywhere.
    pub(crate) fn constant(cost: f32, cells: usize, classes: usize, storage: CostStorage) -> Self {
        let cells = match storage {
            CostStorage::Single => Cells::Single(vec![cost; cells]),
            CostStorage::Half => Cells::Half(vec![half_bits(cost); cells]),
            CostStorage::Bfloat => Cells::Bfloat(vec![bfloat_bits(cost); cells]),
        };
        Self {
            classes,
            cells,
            shard: None,
        }
    }

    /// The same as a part of what a team holds.
    pub(crate) fn part_of(self, shard: Option<Shard>) -> Self {
        Self { shard, ..self }
    }

    /// The part that these costs are, where a team holds the whole.
    pub(crate) fn part(&self) -> Option<&Shard> {
        self.shard.as_ref()
    }

    pub(crate) fn storage(&self) -> CostStorage {
        match self.cells {
            Cells::Single(_) => CostStorage::Single,
            Cells::Half(_) => CostStorage::Half,
            Cells::Bfloat(_) => CostStorage::Bfloat,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.cells {
            Cells::Single(cells) => cells.len(),
            Cells::Half(cells) | Cells::Bfloat(cells) => cells.len(),
        }
    }

    /// All costs where they lie in single precision.
    pub(crate) fn single(&self) -> Option<&[f32]> {
        match &self.cells {
            Cells::Single(cells) => Some(cells),
            _ => None,
        }
    }

    /// Writes the costs of the cells `range`.
    pub(crate) fn read(&self, range: Range<usize>, out: &mut [f32]) {
        match &self.cells {
            Cells::Single(cells) => out.copy_from_slice(&cells[range]),
            Cells::Half(cells) => unpack(&cells[range], out, half_value),
            Cells::Bfloat(cells) => unpack(&cells[range], out, bfloat_value),
        }
    }

    fn rows_range(&self, rows: Range<usize>) -> Range<usize> {
        rows.start * self.classes..rows.end * self.classes
    }
}

fn unpack(cells: &[u16], out: &mut [f32], value: impl Fn(u16) -> f32) {
    for (out, bits) in out.iter_mut().zip(cells) {
        *out = value(*bits);
    }
}

/// Writes a row, rounding to the nearest the storage has.
fn write(stored: &mut Stored, row: usize, costs: impl Iterator<Item = f32>) {
    let range = stored.rows_range(row..row + 1);
    match &mut stored.cells {
        Cells::Single(cells) => cells[range]
            .iter_mut()
            .zip(costs)
            .for_each(|(c, new)| *c = new),
        Cells::Half(cells) => cells[range]
            .iter_mut()
            .zip(costs)
            .for_each(|(c, new)| *c = half_bits(new)),
        Cells::Bfloat(cells) => cells[range]
            .iter_mut()
            .zip(costs)
            .for_each(|(c, new)| *c = bfloat_bits(new)),
    }
}

impl Cost<f32> for Stored {
    fn rows(&self) -> usize {
        self.len() / self.classes
    }

    fn cols(&self) -> usize {
        self.classes
    }

    fn at(&self, row: usize, col: usize) -> f32 {
        let mut cost = [0.0];
        let at = row * self.classes + col;
        self.read(at..at + 1, &mut cost);
        cost[0]
    }

    fn fill(&self, rows: Range<usize>, out: &mut [f32]) {
        self.read(self.rows_range(rows), out);
    }

    fn block(&self, rows: Range<usize>) -> Option<&[f32]> {
        self.single()?.get(self.rows_range(rows))
    }

    fn is_stored(&self) -> bool {
        self.single().is_some()
    }

    fn shard(&self) -> Option<&Shard> {
        self.part()
    }
}

impl Cost<f64> for Stored {
    fn rows(&self) -> usize {
        self.len() / self.classes
    }

    fn cols(&self) -> usize {
        self.classes
    }

    fn at(&self, row: usize, col: usize) -> f64 {
        f64::from(<Self as Cost<f32>>::at(self, row, col))
    }

    fn fill(&self, rows: Range<usize>, out: &mut [f64]) {
        let range = self.rows_range(rows);
        let from = |out: &mut [f64], value: &dyn Fn(usize) -> f32| {
            for (out, cell) in out.iter_mut().zip(range.clone()) {
                *out = f64::from(value(cell));
            }
        };
        match &self.cells {
            Cells::Single(cells) => {
                for (out, cost) in out.iter_mut().zip(&cells[range]) {
                    *out = f64::from(*cost);
                }
            }
            Cells::Half(cells) => from(out, &|cell| half_value(cells[cell])),
            Cells::Bfloat(cells) => from(out, &|cell| bfloat_value(cells[cell])),
        }
    }

    fn shard(&self) -> Option<&Shard> {
        self.part()
    }
}

impl Rewritable<f32> for Stored {
    fn write_row(&mut self, row: usize, costs: &[f32]) {
        write(self, row, costs.iter().copied());
    }
}

impl Rewritable<f64> for Stored {
    fn write_row(&mut self, row: usize, costs: &[f64]) {
        write(self, row, costs.iter().map(|c| *c as f32));
    }
}

/// A non-negative number below 65,504 to half precision, to nearest, ties to even.
fn half_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    let exponent = (bits >> 23) as i32 - 127;
    if exponent < -25 {
        return 0;
    }
    let mantissa = (bits & 0x7f_ffff) | 0x80_0000;
    // Below 2⁻¹⁴ the exponent stays and digits go.
    let (drop, base) = if exponent < -14 {
        ((13 - 14 - exponent) as u32, 0)
    } else {
        (13, ((exponent + 14) as u32) << 10)
    };
    let kept = mantissa >> drop;
    let rest = mantissa & ((1 << drop) - 1);
    let half = 1 << (drop - 1);
    let up = rest > half || (rest == half && kept & 1 == 1);
    // The implicit bit adds one to the exponent, and so does a mantissa that rounds up to the next power.
    (base + kept + u32::from(up)) as u16
}

fn half_value(bits: u16) -> f32 {
    let (exponent, mantissa) = (u32::from(bits >> 10), u32::from(bits & 0x3ff));
    if exponent == 0 {
        return mantissa as f32 / (1u32 << 24) as f32;
    }
    f32::from_bits(((exponent + 112) << 23) | (mantissa << 13))
}

/// Any number in half precision. Selections in place of branches, so that loops over it vectorise.
#[cfg(feature = "data")]
#[inline]
pub(crate) fn half_to_single(bits: u16) -> f32 {
    let size = u32::from(bits & 0x7fff);
    let (normal, infinite) = ((size << 13) + (112 << 23), (size << 13) | 0x7f80_0000);
    let subnormal = (size as f32 / (1u32 << 24) as f32).to_bits();
    let finite = if size < 0x400 { subnormal } else { normal };
    let magnitude = if size < 0x7c00 { finite } else { infinite };
    f32::from_bits(magnitude | (u32::from(bits & 0x8000) << 16))
}

fn bfloat_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

fn bfloat_value(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_by_its_definition() {
        // Values from the IEEE 754 tables.
        for (value, bits) in [
            (0.0, 0x0000),
            (1.0, 0x3c00),
            (0.333_251_95, 0x3555),
            (1000.0, 0x63d0),
            (65504.0, 0x7bff),
            (6.103_515_6e-5, 0x0400),
            (5.960_464_5e-8, 0x0001),
            (6.097_555e-5, 0x03ff),
        ] {
            assert_eq!(half_bits(value), bits, "{value}");
            assert_eq!(half_value(bits), value);
        }
        #[cfg(feature = "data")]
        for (bits, value) in [(0xc000, -2.0), (0xfc00, f32::NEG_INFINITY), (0x8000, -0.0)] {
            assert_eq!(half_to_single(bits), value);
        }
        #[cfg(feature = "data")]
        for bits in 0..=u16::MAX {
            let size = match bits & 0x7fff {
                0x7c00 => f32::INFINITY,
                0x7c01.. => f32::NAN,
                finite => half_value(finite),
            };
            let signed = if bits >> 15 == 1 { -size } else { size };
            let found = half_to_single(bits);
            assert!(found == signed || found.is_nan() && signed.is_nan());
            assert_eq!(found.is_sign_negative(), bits >> 15 == 1);
        }
        // Half-way goes to the even neighbour.
        assert_eq!(half_bits(1.0 + 1.0 / 2048.0), 0x3c00);
        assert_eq!(half_bits(1.0 + 3.0 / 2048.0), 0x3c02);
    }

    #[test]
    fn every_half_survives_and_rounding_is_to_nearest() {
        for bits in 0..0x7c00u16 {
            assert_eq!(half_bits(half_value(bits)), bits);
            assert!(half_value(bits) <= half_value((bits + 1).min(0x7bff)));
        }
        for bits in 0..0x7f80u16 {
            assert_eq!(bfloat_bits(bfloat_value(bits)), bits);
        }
        let mut x = 1e-6f32;
        while x < 1000.0 {
            assert!((half_value(half_bits(x)) - x).abs() <= (x / 2048.0).max(3e-8));
            assert!((bfloat_value(bfloat_bits(x)) - x).abs() <= x / 256.0);
            x *= 1.0137;
        }
    }
}
