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

/// How much a lower bound is lowered, as a share of Σ a|f| + Σ b|g|: each feasible price is one subtraction off (u), each
/// term one product (u), the compensated sum another 2 u, and the totals of both sides agree up to 2 u: 6 u, so 4 ε
/// leaves room.
pub(crate) const DUAL: f64 = 4.0 * f64::EPSILON;

/// How much an upper bound is raised, as a share of Σ |C| P + Σ a|f| + Σ b|g|: products and sums as for the lower bound, and
/// [`DEFICIT`] of every row and column that was taken for full and is moved at most at the prices.
pub(crate) const PRIMAL: f64 = 12.0 * f64::EPSILON;

/// Mass that may be lost in the last digits of the sums of a plan's rows and columns, as a share of the total: 4 ε on
/// either side, at the largest cost that is paid.
pub(crate) const LOOSE: f64 = 8.0 * f64::EPSILON;

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
pub(crate) const STRANDED: f64 = 2e-14;

/// A plan's cost and its prices' value that differ by more than this share of the cost at an optimal tree say that the prices are
/// blurred by costs of another magnitude.
pub(crate) const BLURRED: f64 = 1e-13;

/// Gains below this share of f, g and C are rounding while pivoting: prices have been shifted by every pivot
/// since they were worked out, some thousand times.
pub(crate) const GAIN: f64 = 2e-13;

/// The same right after prices were worked out afresh from the tree: sums along paths of some tens of arcs.
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

/// Flow left on artificial arcs of a network up to this share of all supplies is rounding: bounds are taken off and put
/// back at every node.
pub(crate) const ARTIFICIAL: f64 = 1e-10;

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

    /// Adds another sum.
    pub(crate) fn merge(&mut self, other: Self) {
        self.add(other.total);
        // Past the largest number the carry is ∞ − ∞, and says nothing.
        if other.carry.is_finite() {
            self.add(other.carry);
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
        [1.0, f64::INFINITY, 2.0].map(|x| endless.add(x));
        both.merge(endless);
        both.merge(Sum::default());
        assert_eq!(both.value(), f64::INFINITY);
    }
}
