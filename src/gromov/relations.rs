//! How the things of one side relate among themselves.

use crate::cost::check_points;
use crate::{Error, Side};

/// How much two relations differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Loss {
    /// (c − d)².
    #[default]
    Square,
    /// c ln (c/d) − c + d, for relations that are not negative. Logarithms are taken of c + 1e-15 and d + 1e-15, so that a zero
    /// against something costs much but not everything.
    Kl,
}

/// What is added to relations before their logarithms are taken.
const FLOOR: f64 = 1e-15;

impl Loss {
    /// φ(c), of the rows' relations.
    pub(super) fn of_rows(self, c: f64) -> f64 {
        match self {
            Self::Square => c * c,
            Self::Kl => c * (c + FLOOR).ln() - c,
        }
    }

    /// ψ(d), of the columns' relations.
    pub(super) fn of_cols(self, d: f64) -> f64 {
        match self {
            Self::Square => d * d,
            Self::Kl => d,
        }
    }

    /// k(d): the product h(c) k(d), with h(c) = c, is what the loss has of both.
    pub(super) fn factor(self, d: f64) -> f64 {
        match self {
            Self::Square => 2.0 * d,
            Self::Kl => (d + FLOOR).ln(),
        }
    }

    /// What no loss is below, for relations of the rows up to a largest one: zero, but for what is added before logarithms.
    pub(super) fn least(self, largest: impl Fn() -> f64) -> f64 {
        match self {
            Self::Square => 0.0,
            // With x = c + F and y = d + F it is x ln (x/y) − x + y ≥ 0 less F ln (x/y).
            Self::Kl => -FLOOR * ((largest() + FLOOR) / FLOOR).ln().max(0.0),
        }
    }

    /// The loss itself.
    pub(super) fn between(self, c: f64, d: f64) -> f64 {
        match self {
            Self::Square => (c - d) * (c - d),
            Self::Kl => c * ((c + FLOOR).ln() - (d + FLOOR).ln()) - c + d,
        }
    }
}

/// The relations among the things of one side: a table, or points and their squared distances.
///
/// # Examples
/// ```
/// use earthmover::Relations;
/// let table = Relations::table(&[0.0, 1.0, 1.0, 0.0], 2)?;
/// let points = Relations::points(&[0.0, 0.0, 3.0, 4.0], 2)?;
/// assert_eq!((table.len(), points.len()), (2, 2));
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Relations<'a> {
    numbers: &'a [f64],
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Table(usize),
    Points(usize),
}

impl<'a> Relations<'a> {
    /// A table of `count` × `count` relations: distances, adjacencies, similarities. It need not be symmetric.
    ///
    /// # Errors
    /// [`Error::Empty`] for none, [`Error::Length`] for a table of another size, [`Error::Matrix`] for an entry that is not finite.
    pub fn table(table: &'a [f64], count: usize) -> Result<Self, Error> {
        if count == 0 {
            return Err(Error::Empty { rows: 0, cols: 0 });
        }
        let expected = count.checked_mul(count).ok_or(Error::TooLarge {
            rows: count,
            cols: count,
        })?;
        if table.len() != expected {
            return Err(Error::Length {
                what: "relations",
                expected,
                found: table.len(),
            });
        }
        if let Some(at) = table.iter().position(|c| !c.is_finite()) {
            return Err(Error::Matrix {
                what: "relations",
                row: at / count,
                col: at % count,
                value: table[at],
                expected: "finite",
            });
        }
        Ok(Self {
            numbers: table,
            kind: Kind::Table(count),
        })
    }

    /// Points, row-major, related by their squared distances. With points on both sides, the square loss, balanced marginals and no
    /// features, no table of them is ever made.
    ///
    /// # Errors
    /// [`Error::Empty`], [`Error::Length`] or [`Error::Point`] for points that are none.
    pub fn points(points: &'a [f64], dimension: usize) -> Result<Self, Error> {
        check_points(points, dimension, Side::Rows)?;
        Ok(Self {
            numbers: points,
            kind: Kind::Points(dimension),
        })
    }

    /// How many things there are.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // There is always one.
    pub fn len(&self) -> usize {
        match self.kind {
            Kind::Table(count) => count,
            Kind::Points(dimension) => self.numbers.len() / dimension,
        }
    }

    /// The points and their dimension.
    pub(super) fn as_points(&self) -> Option<(&'a [f64], usize)> {
        match self.kind {
            Kind::Table(_) => None,
            Kind::Points(dimension) => Some((self.numbers, dimension)),
        }
    }

    /// One relation.
    pub(super) fn at(&self, i: usize, j: usize) -> f64 {
        match self.kind {
            Kind::Table(count) => self.numbers[i * count + j],
            Kind::Points(d) => {
                let (x, y) = (&self.numbers[i * d..][..d], &self.numbers[j * d..][..d]);
                x.iter().zip(y).map(|(a, b)| (a - b) * (a - b)).sum()
            }
        }
    }

    /// All of them, changed one by one.
    pub(super) fn mapped(&self, change: impl Fn(f64) -> f64) -> Vec<f64> {
        let n = self.len();
        let pairs = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
        pairs.map(|(i, j)| change(self.at(i, j))).collect()
    }

    /// Whether relations are mutual.
    pub(super) fn is_symmetric(&self) -> bool {
        let n = self.len();
        matches!(self.kind, Kind::Points(_))
            || (0..n).all(|i| (0..i).all(|j| self.at(i, j) == self.at(j, i)))
    }
}
