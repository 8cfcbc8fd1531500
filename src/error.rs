//! What can be wrong with a question, with the numbers that are wrong in it.
//!
//! `Err` means that the question has no answer or that a device failed. Running out of iterations is
//! not an error but a [`Status`](crate::Status) of the answer.

use core::fmt;

/// Which marginal of a problem is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The rows: sources, examples.
    Rows,
    /// The columns: targets, classes.
    Cols,
    /// The extra row that absorbs what columns may leave unused.
    SlackRow,
    /// The extra column that absorbs what rows may leave unused.
    SlackCol,
}

impl Side {
    /// The same side of the transposed problem.
    #[must_use]
    pub fn transposed(self) -> Self {
        match self {
            Self::Rows => Self::Cols,
            Self::Cols => Self::Rows,
            Self::SlackRow => Self::SlackCol,
            Self::SlackCol => Self::SlackRow,
        }
    }
}

/// A number as a person would write it: 0.25 and 1e300, not three hundred digits.
#[derive(Clone, Copy)]
struct Num(f64);

impl fmt::Display for Num {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        if size != 0.0 && size.is_finite() && !(1e-6..1e15).contains(&size) {
            write!(f, "{:e}", self.0)
        } else {
            write!(f, "{}", self.0)
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rows => "row",
            Self::Cols => "column",
            Self::SlackRow => "slack row",
            Self::SlackCol => "slack column",
        })
    }
}

/// Largest starting potential: of the size of ε times a logarithm, and its sums with costs must be numbers.
pub(crate) const LARGEST_START: f64 = 1e304;

/// Why a problem cannot be stated or solved.
///
/// # Examples
/// ```
/// use earthmover::{Error, Marginals};
/// let wrong = Marginals::balanced(&[0.5, 0.5], &[0.5, 0.6]).unwrap_err();
/// assert!(matches!(wrong, Error::Unbalanced { .. }));
/// assert!(wrong.to_string().contains("1.1"));
/// ```
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A side of the problem has no entries.
    #[error("the problem is empty: {rows} rows by {cols} columns")]
    Empty {
        /// Number of rows.
        rows: usize,
        /// Number of columns.
        cols: usize,
    },
    /// rows × columns does not fit in the address space.
    #[error("{rows} rows by {cols} columns is more entries than this machine can count")]
    TooLarge {
        /// Number of rows.
        rows: usize,
        /// Number of columns.
        cols: usize,
    },
    /// A slice does not have the length its place asks for.
    #[error("{what}: expected {expected} values, found {found}")]
    Length {
        /// Which slice.
        what: &'static str,
        /// Length asked for.
        expected: usize,
        /// Length given.
        found: usize,
    },
    /// A row of compressed rows ends before it starts, or the first does not start at zero.
    #[error(
        "the pairs of row {row} are said to run from {start} to {end}; starts begin at 0 and never fall"
    )]
    Starts {
        /// The row.
        row: usize,
        /// Where it starts.
        start: usize,
        /// Where it ends.
        end: usize,
    },
    /// A pair is named twice where each may be named once.
    #[error("the pair of row {row} and column {col} is named more than once")]
    Duplicate {
        /// Row of the pair.
        row: usize,
        /// Column of the pair.
        col: usize,
    },
    /// A row is named twice where each may be named once.
    #[error("row {index} is named more than once")]
    Repeated {
        /// The row.
        index: usize,
    },
    /// A mass is NaN, negative or infinite.
    #[error("{side} {index} has mass {}; masses must be finite and not negative", Num(*value))]
    Mass {
        /// The side of the mass.
        side: Side,
        /// Its index on that side.
        index: usize,
        /// Its value.
        value: f64,
    },
    /// A mass is so small beside the total, or the total itself so small or large, that they cannot be related to each other.
    #[error(
        "{side} {index} has mass {} of a total of {}; a total must be from 1e-150 to 1e150, and a mass zero or at least 1e-150 of it",
        Num(*value), Num(*total)
    )]
    MassRange {
        /// The side of the mass.
        side: Side,
        /// Its index on that side.
        index: usize,
        /// Its value.
        value: f64,
        /// The total mass.
        total: f64,
    },
    /// All masses are zero: there is nothing to move.
    #[error("the {side} masses are all zero: there is nothing to move")]
    NoMass {
        /// The side without mass.
        side: Side,
    },
    /// The two sides carry different masses.
    #[error(
        "row masses sum to {} but column masses to {}: they differ by {:e}, more than the {tolerance:e} that \
         rounding explains; `Marginals::normalised` scales both to one, `balanced_within` takes a tolerance of your own",
        Num(*rows), Num(*cols), (rows - cols).abs()
    )]
    Unbalanced {
        /// Total of the rows, slack included.
        rows: f64,
        /// Total of the columns, slack included.
        cols: f64,
        /// The largest absolute difference accepted.
        tolerance: f64,
    },
    /// More mass is asked for than the bounds let through.
    #[error("a mass of at least {} is asked for but at most {} can be moved", Num(*required), Num(*available))]
    MinMass {
        /// Mass asked for.
        required: f64,
        /// Mass that the bounds let through.
        available: f64,
    },
    /// A cost is NaN or −∞ (+∞ is allowed: it forbids the pair).
    #[error(
        "the cost of row {row}, column {col} is {}; costs must be numbers or +inf (forbidden)",
        Num(*value)
    )]
    Cost {
        /// Row of the entry.
        row: usize,
        /// Column of the entry.
        col: usize,
        /// The value found.
        value: f64,
    },
    /// A cost is so large that sums of costs could overflow.
    #[error(
        "the cost of row {row}, column {col} is {}; beyond {:e} in size there is no room for sums: forbid the pair \
         with +inf, or scale the costs",
        Num(*value), largest
    )]
    TooDear {
        /// Row of the entry.
        row: usize,
        /// Column of the entry.
        col: usize,
        /// The value found.
        value: f64,
        /// The largest size that is accepted.
        largest: f64,
    },
    /// Points are so far apart that the costs between them could overflow.
    #[error(
        "the points span a box whose corners are {} apart in this metric; beyond {:e} there is no room for sums and \
         squares: scale the points",
        Num(*cost), largest
    )]
    TooFar {
        /// Cost between the far corners of the points' common box.
        cost: f64,
        /// The largest cost that is accepted.
        largest: f64,
    },
    /// A slack cost is NaN, −∞ or too large to calculate with.
    #[error(
        "the {side} cost is {}; costs must be numbers of at most {:e} in size, or +inf (forbidden)",
        Num(*value), largest
    )]
    SlackCost {
        /// Which slack.
        side: Side,
        /// The value found.
        value: f64,
        /// The largest cost that is accepted beside costs of this scalar.
        largest: f64,
    },
    /// Every pair of a row or column that carries mass is forbidden.
    #[error("{side} {index} carries mass {} but all its pairs are forbidden (cost +inf)", Num(*mass))]
    Blocked {
        /// The side of the blocked entry.
        side: Side,
        /// Its index on that side.
        index: usize,
        /// Its mass.
        mass: f64,
    },
    /// Forbidden pairs or bounds leave no way for some of the mass.
    #[error("forbidden pairs or bounds leave no way for a mass of {} out of {}", Num(*stranded), Num(*total))]
    Infeasible {
        /// Mass that cannot be moved.
        stranded: f64,
        /// Total mass of the problem.
        total: f64,
    },
    /// The marginals are penalised, and the solver keeps masses exactly.
    #[error(
        "{solver} keeps masses exactly and has no answer where they are penalised; `Entropic`, `Sinkhorn`, `Newton` and `Exact` have one"
    )]
    Penalised {
        /// Who was asked.
        solver: &'static str,
    },
    /// The cost is not made of points, its metric has no derivative, or the answer is a vertex that jumps.
    #[error(
        "no derivative: this needs an entropic answer without slack, or a cost of points whose metric has a gradient"
    )]
    NoGradient,
    /// Negative costs pay for more mass than penalties cost, so that there is no least.
    #[error("a cost of {} is below {}, where making mass on both sides pays: there is no least", Num(*cost), Num(*least))]
    Gainful {
        /// The least cost.
        cost: f64,
        /// The least that would be allowed: what both penalties charge for a unit, negative.
        least: f64,
    },
    /// An index is out of range.
    #[error("{what} {index} does not exist: there are {len}")]
    Index {
        /// What was indexed.
        what: &'static str,
        /// The index given.
        index: usize,
        /// How many there are.
        len: usize,
    },
    /// The supply of a node is NaN or too large to calculate with, or becomes so once lower bounds are taken off.
    #[error("the supply of node {node} is {}; supplies must be numbers of at most 1e150 in size", Num(*value))]
    Supply {
        /// The node.
        node: usize,
        /// Its supply.
        value: f64,
    },
    /// The cost or the bounds of an arc are no good.
    #[error(
        "arc {arc} costs {} within [{}, {}]; cost and lower bound must be finite (and the \
         cost not near overflow), the upper bound not less than the lower",
        Num(*cost), Num(*lower), Num(*upper)
    )]
    Arc {
        /// The arc.
        arc: usize,
        /// Its cost.
        cost: f64,
        /// Its lower bound.
        lower: f64,
        /// Its upper bound.
        upper: f64,
    },
    /// The bounds on a sum of entries are no good.
    #[error(
        "the bounds of {what} {index} are [{}, {}]; the lower must be finite and not more than the upper",
        Num(*lower), Num(*upper)
    )]
    Bounds {
        /// What is bounded.
        what: &'static str,
        /// Its index.
        index: usize,
        /// The lower bound.
        lower: f64,
        /// The upper bound.
        upper: f64,
    },
    /// Two groups share some columns but neither contains the other.
    #[error("groups {first} and {second} overlap: groups must be nested or disjoint")]
    Overlap {
        /// One group.
        first: usize,
        /// The other.
        second: usize,
    },
    /// A cycle of negative cost has no upper bound: the cost has no minimum.
    #[error("arc {arc} lies on a cycle of negative cost without an upper bound")]
    Unbounded {
        /// An arc of the cycle.
        arc: usize,
    },
    /// An entry of a matrix is not what it has to be.
    #[error("entry {row}, {col} of the {what} is {}; it must be {expected}", Num(*value))]
    Matrix {
        /// Which matrix.
        what: &'static str,
        /// Row of the entry.
        row: usize,
        /// Column of the entry.
        col: usize,
        /// Its value.
        value: f64,
        /// What it must be.
        expected: &'static str,
    },
    /// A solver option is outside its range.
    #[error("{name} is {}; it must be {expected}", Num(*value))]
    Option {
        /// Name of the setter.
        name: &'static str,
        /// Value given.
        value: f64,
        /// What it must be.
        expected: &'static str,
    },
    /// A name that is no method's.
    #[error(
        "`{given}` names no method: there are exact, network-simplex, shortest-paths, and with an epsilon entropic:0.01, \
         newton:0.01, sinkhorn:0.01, sinkhorn:1..0.01/4"
    )]
    Method {
        /// What was given.
        given: String,
    },
    /// A point has a coordinate that is NaN or infinite.
    #[error(
        "coordinate {coordinate} of {side} point {index} is {}; coordinates must be finite",
        Num(*value)
    )]
    Point {
        /// The side of the point.
        side: Side,
        /// Index of the point.
        index: usize,
        /// Index of the coordinate.
        coordinate: usize,
        /// The value found.
        value: f64,
    },
    /// A starting potential is NaN, +∞ or too large to calculate with.
    #[error(
        "the starting potential of {side} {index} is {}; it must be a number of at most {:e} in size, or -inf",
        Num(*value), LARGEST_START
    )]
    Start {
        /// The side of the potential.
        side: Side,
        /// Its index on that side.
        index: usize,
        /// The value found.
        value: f64,
    },
    /// Something that every member of a team would do on all rows, which are too many to be sent round.
    #[error(
        "{what} needs all rows on every member of the team: {entries} entries, and at most {most} are sent round"
    )]
    Apart {
        /// What was asked for.
        what: &'static str,
        /// Entries of the whole problem.
        entries: usize,
        /// As many as are sent round.
        most: usize,
    },
    /// A device that runs the sweeps failed.
    #[error("the {backend} backend failed: {message}")]
    Backend {
        /// Name of the backend.
        backend: &'static str,
        /// What it said.
        message: String,
    },
}

impl Error {
    /// The same complaint about the problem as it was asked, from a solver that looked at its transpose.
    #[must_use]
    pub(crate) fn transposed(self) -> Self {
        match self {
            Self::Cost { row, col, value } => Self::Cost {
                row: col,
                col: row,
                value,
            },
            Self::TooDear {
                row,
                col,
                value,
                largest,
            } => Self::TooDear {
                row: col,
                col: row,
                value,
                largest,
            },
            Self::Empty { rows, cols } => Self::Empty {
                rows: cols,
                cols: rows,
            },
            Self::TooLarge { rows, cols } => Self::TooLarge {
                rows: cols,
                cols: rows,
            },
            Self::Unbalanced {
                rows,
                cols,
                tolerance,
            } => Self::Unbalanced {
                rows: cols,
                cols: rows,
                tolerance,
            },
            Self::MassRange {
                side,
                index,
                value,
                total,
            } => Self::MassRange {
                side: side.transposed(),
                index,
                value,
                total,
            },
            Self::Mass { side, index, value } => Self::Mass {
                side: side.transposed(),
                index,
                value,
            },
            Self::NoMass { side } => Self::NoMass {
                side: side.transposed(),
            },
            Self::SlackCost {
                side,
                value,
                largest,
            } => Self::SlackCost {
                side: side.transposed(),
                value,
                largest,
            },
            Self::Blocked { side, index, mass } => Self::Blocked {
                side: side.transposed(),
                index,
                mass,
            },
            Self::Point {
                side,
                index,
                coordinate,
                value,
            } => Self::Point {
                side: side.transposed(),
                index,
                coordinate,
                value,
            },
            Self::Start { side, index, value } => Self::Start {
                side: side.transposed(),
                index,
                value,
            },
            other => other,
        }
    }
}

/// Complaints as numbers, so that all members of a team have the same.
impl Error {
    /// The same complaint about rows that begin with row `first` of a larger problem.
    #[must_use]
    pub(crate) fn below(mut self, first: usize) -> Self {
        match &mut self {
            Self::Cost { row, .. } | Self::TooDear { row, .. } => *row += first,
            Self::Mass { side, index, .. }
            | Self::MassRange { side, index, .. }
            | Self::Blocked { side, index, .. }
                if *side == Side::Rows =>
            {
                *index += first;
            }
            _ => {}
        }
        self
    }

    /// What [`from_numbers`](Self::from_numbers) makes the same complaint of; of one that is seldom made, its words.
    pub(crate) fn to_numbers(&self) -> Vec<f64> {
        let at = |side: Side, index: usize| {
            [
                SIDES.iter().position(|s| *s == side).unwrap_or(0) as f64,
                index as f64,
            ]
        };
        match *self {
            Self::Cost { row, col, value } => vec![1.0, row as f64, col as f64, value],
            Self::TooDear {
                row,
                col,
                value,
                largest,
            } => vec![2.0, row as f64, col as f64, value, largest],
            Self::Blocked { side, index, mass } => {
                let [side, index] = at(side, index);
                vec![3.0, side, index, mass]
            }
            Self::Mass { side, index, value } => {
                let [side, index] = at(side, index);
                vec![4.0, side, index, value]
            }
            Self::MassRange {
                side,
                index,
                value,
                total,
            } => {
                let [side, index] = at(side, index);
                vec![5.0, side, index, value, total]
            }
            Self::Infeasible { stranded, total } => vec![6.0, stranded, total],
            Self::Unbalanced {
                rows,
                cols,
                tolerance,
            } => vec![7.0, rows, cols, tolerance],
            Self::NoMass { side } => vec![8.0, at(side, 0)[0]],
            ref other => {
                let words = other.to_string();
                core::iter::once(0.0)
                    .chain(words.bytes().map(f64::from))
                    .collect()
            }
        }
    }

    /// The complaint that [`to_numbers`](Self::to_numbers) wrote down.
    pub(crate) fn from_numbers(numbers: &[f64]) -> Self {
        let side = |side: f64| SIDES[(side as usize).min(3)];
        match *numbers {
            [1.0, row, col, value] => Self::Cost {
                row: row as usize,
                col: col as usize,
                value,
            },
            [2.0, row, col, value, largest] => Self::TooDear {
                row: row as usize,
                col: col as usize,
                value,
                largest,
            },
            [3.0, of, index, mass] => Self::Blocked {
                side: side(of),
                index: index as usize,
                mass,
            },
            [4.0, of, index, value] => Self::Mass {
                side: side(of),
                index: index as usize,
                value,
            },
            [5.0, of, index, value, total] => Self::MassRange {
                side: side(of),
                index: index as usize,
                value,
                total,
            },
            [6.0, stranded, total] => Self::Infeasible { stranded, total },
            [7.0, rows, cols, tolerance] => Self::Unbalanced {
                rows,
                cols,
                tolerance,
            },
            [8.0, of] => Self::NoMass { side: side(of) },
            _ => {
                let words: Vec<u8> = numbers.iter().skip(1).map(|b| *b as u8).collect();
                Self::Backend {
                    backend: "team",
                    message: String::from_utf8_lossy(&words).into_owned(),
                }
            }
        }
    }
}

/// Sides by number.
const SIDES: [Side; 4] = [Side::Rows, Side::Cols, Side::SlackRow, Side::SlackCol];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_travel_as_numbers() {
        let (side, index) = (Side::Rows, 3);
        let (row, col, value, total) = (7, 2, f64::NEG_INFINITY, 5.0);
        for error in [
            Error::Cost { row, col, value },
            Error::TooDear {
                row,
                col,
                value: 1e300,
                largest: 1e250,
            },
            Error::Blocked {
                side: Side::SlackCol,
                index: 0,
                mass: 0.25,
            },
            Error::Mass { side, index, value },
            Error::MassRange {
                side,
                index,
                value,
                total,
            },
            Error::Infeasible {
                stranded: 0.5,
                total,
            },
            Error::Unbalanced {
                rows: 1.0,
                cols: 2.0,
                tolerance: 1e-9,
            },
            Error::NoMass { side: Side::Cols },
        ] {
            assert_eq!(Error::from_numbers(&error.to_numbers()), error);
        }
        let moved = Error::Cost { row, col, value }.below(10);
        assert_eq!(
            moved,
            Error::Cost {
                row: 17,
                col,
                value
            }
        );
        let words = Error::from_numbers(&Error::Repeated { index: 4 }.to_numbers());
        assert!(words.to_string().contains("row 4 is named"));
    }

    #[test]
    fn numbers_stay_short() {
        for (value, text) in [
            (0.25, "0.25"),
            (1e300, "1e300"),
            (-1.5e-7, "-1.5e-7"),
            (0.0, "0"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
            (123_456.0, "123456"),
        ] {
            assert_eq!(Num(value).to_string(), text);
        }
    }
}
