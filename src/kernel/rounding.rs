//! Round-off tolerances: all of them, each with its argument.
//!
//! `f64` has a unit round-off of u = ε/2 = 1.1e-16: one operation is off by at most u of its result, and a number that
//! has seen m additions of numbers up to its own size by at most m·u of that size. Every constant here is a share of the
//! magnitude named beside it; below that share a difference is what rounding leaves, not a fact about the problem. They
//! are *shares*, so that neither the unit of the costs nor that of the masses matters.
//!
//! Sweeps have no constant here: how far rounding blurs an entry of an entropic plan depends on ε and is reported by
//! [`Backend::resolution`](crate::sweep::Backend::resolution).

/// A row or column whose sum is short of its mass by less than this share of it is full. A sum of products of three rounded
/// factors, compensated, is off by about 4 ε; twice that.
pub(crate) const DEFICIT: f64 = 8.0 * f64::EPSILON;

/// How much a bound is moved outwards, as a share of its value, where products and sums are kept to twice the digits: the rounding
/// of the result, u. What twice the digits leave is ε² a term, as a share of the terms' sizes.
pub(crate) const BOUND: f64 = 0.5 * f64::EPSILON;

/// What twice the digits leave of a term, as a share of its size: ε².
pub(crate) const DIGITS: f64 = f64::EPSILON * f64::EPSILON;

/// How much a lower bound is lowered where pairs are forbidden, as a share of Σ a|f| + Σ b|g|: then groups of rows and columns have
/// to hold the same mass, and the masses given do so up to rounding only.
pub(crate) const FORBIDDEN_DUAL: f64 = f64::EPSILON;

/// How much an upper bound is raised for a plan of many entries, as a share of Σ |C| P: two products (2 u) and a compensated
/// sum (u). A plan of few has its products kept to twice the digits.
pub(crate) const PRIMAL: f64 = 1.5 * f64::EPSILON;

/// Mass that may be lost in the last digits where the columns of a plan are scaled or filled, as a share of the total:
/// 4 ε on either side, at a price like others pay.
pub(crate) const LOOSE: f64 = 8.0 * f64::EPSILON;

/// How much bounds of a penalised problem are moved outwards, as a share of the sizes of their terms and of what the last digits of
/// a sum or price can do to them: a logarithm or exponential, two products, compensated sums.
pub(crate) const PENALISED: f64 = 16.0 * f64::EPSILON;

/// What a product and a sum below the normal numbers may be off by: two units of the smallest there are, each way.
pub(crate) const SUBNORMAL: f64 = 2e-323;

/// What a repaired plan may lack, as a share of its total: sums of rows and columns of some tens of entries.
pub(crate) const REPAIRED: f64 = 64.0 * f64::EPSILON;

/// Slack that is forbidden (cost +∞) and smaller than this share of its row's mass is not there: a vertex's flows are
/// sums of up to some hundred masses.
pub(crate) const FORBIDDEN_SLACK: f64 = 1e-13;

/// What is left of a mass once all of it has been handed out, as a share of it: a row is served in few pieces, so that
/// some ninety subtractions are allowed for.
pub(crate) const REMAINDER: f64 = 1e-14;

/// Flows on the simplex's tree below this share of the lighter end are what rounding leaves of zero: a flow changes with
/// every cycle through it, in the thousands, and by rounding in both directions.
pub(crate) const TREE_FLOW: f64 = 1e-13;

/// Mass left on forbidden pairs up to this share of the total is rounding of the masses ([`REMAINDER`] of a
/// row and of a column), not a question without an answer.
pub(crate) const STRANDED_SHARE: f64 = 2e-14;

/// A plan's cost and its prices' value that differ by more than this share of the cost at an optimal tree say that the prices are
/// blurred by costs of another magnitude.
pub(crate) const NOISY_GAP: f64 = 1e-13;

/// Gains below this share of f, g and C are rounding while pivoting: prices have been shifted by every pivot
/// since they were worked out, some thousand times.
pub(crate) const GAIN: f64 = 2e-13;

/// The same right after prices were worked out afresh from the tree, each to its last digit.
pub(crate) const FRESH_GAIN: f64 = 4e-15;

/// A column of the contracted graph holds what it wants up to this share: sums are compensated, moves are few.
pub(crate) const SURPLUS: f64 = 16.0 * f64::EPSILON;

/// Two paths of the contracted graph whose lengths differ by less than this share of the farthest price are equally long.
pub(crate) const PATH_TIE: f64 = 16.0 * f64::EPSILON;

/// Rounding of a single arc's length, as a share of it.
pub(crate) const ARC_LENGTH: f64 = 8.0 * f64::EPSILON;

/// Share of the total mass that rounding may leave without a place on the contracted graph: [`SURPLUS`] of some
/// hundred columns.
pub(crate) const UNPLACED: f64 = 1e-12;

/// A reduced cost of a network's arc is zero within this share of the three numbers it is made of.
pub(crate) const REDUCED_COST: f64 = 16.0 * f64::EPSILON;

/// Bounds of a network's optimum that are this share of Σ |c x| apart have met: prices are sums along paths of up to some thousand arcs,
/// each zero within [`REDUCED_COST`]. Farther apart, digits are gone and an answer is none.
pub(crate) const CLOSED: f64 = 1e-9;

/// Flow left on artificial arcs of a network up to this share of all supplies is rounding: bounds are taken off and put
/// back at every node.
pub(crate) const ARTIFICIAL: f64 = 1e-10;

/// And so is flow up to this share of all that supplies and lower bounds add up to: they may cancel at every node but for their last digits.
pub(crate) const CANCELLED: f64 = 16.0 * f64::EPSILON;

/// A compensated sum (Neumaier): its error does not grow with the number of terms.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum {
    total: f64,
    carry: f64,
}

impl Sum {
    /// Adds a term.
    #[inline(always)]
    pub(crate) fn add(&mut self, term: f64) {
        let next = self.total + term;
        // Knuth's two-sum, which needs no comparison of the magnitudes.
        let added = next - self.total;
        self.carry += (self.total - (next - added)) + (term - added);
        self.total = next;
    }

    /// Adds a product without rounding it first.
    pub(crate) fn add_product(&mut self, a: f64, b: f64) {
        let product = a * b;
        self.add(product);
        let rest = a.mul_add(b, -product);
        if rest.is_finite() {
            self.add(rest);
        }
    }

    /// Adds another sum.
    pub(crate) fn merge(&mut self, other: Self) {
        self.add(other.total);
        // Past the largest number the carry is ∞ − ∞, and says nothing.
        if other.carry.is_finite() {
            self.add(other.carry);
        }
    }

    /// Whether no addition lost anything.
    pub(crate) fn is_exact(self) -> bool {
        self.carry == 0.0
    }

    /// What another machine needs to go on with it.
    pub(crate) fn to_numbers(self) -> [f64; 2] {
        [self.total, self.carry]
    }

    /// The sum that [`to_numbers`](Self::to_numbers) wrote down.
    pub(crate) fn from_numbers(numbers: &[f64]) -> Self {
        let at = |i: usize| numbers.get(i).copied().unwrap_or(f64::NAN);
        Self {
            total: at(0),
            carry: at(1),
        }
    }

    /// The sum.
    pub(crate) fn value(self) -> f64 {
        // Past the largest number the carry is ∞ − ∞.
        if self.total.is_finite() && self.carry.is_finite() {
            self.total + self.carry
        } else {
            self.total
        }
    }
}

/// A sum of products, and how large they are.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) value: Sum,
    /// Σ |a b|.
    pub(crate) size: f64,
    terms: f64,
    /// What factors that are not exact may have moved it by.
    pub(crate) blur: f64,
}

impl Tally {
    /// Adds a product.
    pub(crate) fn add(&mut self, a: f64, b: f64) {
        if a != 0.0 && b != 0.0 {
            self.value.add_product(a, b);
            self.size += (a * b).abs();
            self.terms += 1.0;
        }
    }

    /// What rounding may have moved the value by.
    pub(crate) fn error(&self) -> f64 {
        let digits = if self.value.is_exact() {
            0.0
        } else {
            BOUND * self.value.value().abs() + self.terms * DIGITS * self.size
        };
        digits + self.blur
    }
}

/// A number with twice the digits: `high + low`, where `low` is what `high` lost to rounding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Double {
    pub(crate) high: f64,
    pub(crate) low: f64,
}

impl Double {
    /// `a − b`, exactly; +∞ and −∞ as usual.
    #[inline(always)]
    pub(crate) fn difference(a: f64, b: f64) -> Self {
        let high = a - b;
        let taken = high - a;
        let low = (a - (high - taken)) - (b + taken);
        Self {
            high,
            low: if high.is_finite() { low } else { 0.0 },
        }
    }

    /// Less a number that is small beside it.
    #[inline(always)]
    pub(crate) fn less(self, small: f64) -> Self {
        Self {
            low: self.low - small,
            ..self
        }
    }

    /// The smaller of two.
    #[inline(always)]
    pub(crate) fn min(self, other: Self) -> Self {
        // The high parts round what they stand for: where they differ, so do the numbers, or the low parts say by how much less.
        let closer = (self.high - other.high) + (self.low - other.low);
        if closer > 0.0 || self.high == f64::INFINITY {
            other
        } else {
            self
        }
    }
}

impl From<f64> for Double {
    fn from(high: f64) -> Self {
        Self { high, low: 0.0 }
    }
}

/// The compensated sum of some numbers: two sides that list the same mass in a different order or granularity still agree.
pub(crate) fn sum(values: &[f64]) -> f64 {
    let mut sum = Sum::default();
    values.iter().for_each(|&v| sum.add(v));
    sum.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_keep_what_rounding_takes() {
        let d = Double::difference(1.0, 1e-20);
        assert_eq!((d.high, d.low), (1.0, -1e-20));
        assert_eq!(d.min(Double::from(1.0)), d);
        assert_eq!(Double::from(1.0).min(d), d);
        assert_eq!(Double::difference(1e-20, 1.0).low, 1e-20);
        let endless = Double::difference(f64::INFINITY, 3.0);
        assert_eq!(endless, Double::from(f64::INFINITY));
        assert_eq!(endless.min(d), d);
        assert_eq!(d.min(endless), d);
        let mut sum = Sum::default();
        sum.add_product(1.0 + f64::EPSILON, 1.0 + f64::EPSILON);
        sum.add(-1.0 - 2.0 * f64::EPSILON);
        assert_eq!(sum.value(), f64::EPSILON * f64::EPSILON);
    }

    #[test]
    fn nothing_is_lost_in_large_sums() {
        assert_eq!(sum(&[1.0, 1e100, 1.0, -1e100]), 2.0);
        assert_eq!(sum(&[0.1; 10]), 1.0);
        assert_eq!(sum(&[f64::MAX, f64::MAX]), f64::INFINITY);
        let mut both = Sum::default();
        both.add(1e16);
        let mut other = Sum::default();
        (0..10).for_each(|_| other.add(0.1));
        both.merge(other);
        both.add(-1e16);
        assert_eq!(both.value(), 1.0);
        let mut endless = Sum::default();
        for x in [1.0, f64::INFINITY, 2.0] {
            endless.add(x);
        }
        both.merge(endless);
        both.merge(Sum::default());
        assert_eq!(both.value(), f64::INFINITY);
    }
}
