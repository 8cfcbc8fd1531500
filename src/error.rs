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
    /// A row is named twice where each may be named once.
    #[error("row {index} is named more than once")]
    Repeated {
        /// The row.
        index: usize,
    },
    /// A mass is NaN, negative or infinite.
    #[error("{side} {index} has mass {value}; masses must be finite and not negative")]
    Mass {
        /// The side of the mass.
        side: Side,
        /// Its index on that side.
        index: usize,
        /// Its value.
        value: f64,
    },
    /// All masses are zero: there is nothing to move.
    #[error("the {side} masses are all zero: there is nothing to move")]
    NoMass {
        /// The side without mass.
        side: Side,
    },
    /// The two sides carry different masses.
    #[error(
        "row masses sum to {rows} but column masses to {cols}: they differ by {difference:e}, more than \
         the {tolerance:e} that rounding explains",
        difference = (rows - cols).abs()
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
    #[error("a mass of at least {required} is asked for but at most {available} can be moved")]
    MinMass {
        /// Mass asked for.
        required: f64,
        /// Mass that the bounds let through.
        available: f64,
    },
    /// A cost is NaN or −∞ (+∞ is allowed: it forbids the pair).
    #[error(
        "the cost of row {row}, column {col} is {value}; costs must be numbers or +inf (forbidden)"
    )]
    Cost {
        /// Row of the entry.
        row: usize,
        /// Column of the entry.
        col: usize,
        /// The value found.
        value: f64,
    },
    /// A slack cost is NaN or −∞.
    #[error("the {side} cost is {value}; costs must be numbers or +inf (forbidden)")]
    SlackCost {
        /// Which slack.
        side: Side,
        /// The value found.
        value: f64,
    },
    /// Every pair of a row or column that carries mass is forbidden.
    #[error("{side} {index} carries mass {mass} but all its pairs are forbidden (cost +inf)")]
    Blocked {
        /// The side of the blocked entry.
        side: Side,
        /// Its index on that side.
        index: usize,
        /// Its mass.
        mass: f64,
    },
    /// Forbidden pairs or bounds leave no way for some of the mass.
    #[error("forbidden pairs or bounds leave no way for a mass of {stranded} out of {total}")]
    Infeasible {
        /// Mass that cannot be moved.
        stranded: f64,
        /// Total mass of the problem.
        total: f64,
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
    /// The supply of a node is NaN or infinite, or becomes so once lower bounds are taken off.
    #[error("the supply of node {node} is {value}; supplies must be finite")]
    Supply {
        /// The node.
        node: usize,
        /// Its supply.
        value: f64,
    },
    /// The cost or the bounds of an arc are no good.
    #[error(
        "arc {arc} costs {cost} within [{lower}, {upper}]; cost and lower bound must be finite (and the \
         cost not near overflow), the upper bound not less than the lower"
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
        "the bounds of {what} {index} are [{lower}, {upper}]; the lower must be finite and not more than \
         the upper"
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
    /// A solver option is outside its range.
    #[error("{name} is {value}; it must be {expected}")]
    Option {
        /// Name of the setter.
        name: &'static str,
        /// Value given.
        value: f64,
        /// What it must be.
        expected: &'static str,
    },
    /// A point has a coordinate that is NaN or infinite.
    #[error(
        "coordinate {coordinate} of {side} point {index} is {value}; coordinates must be finite"
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
    /// A starting potential is NaN or +∞.
    #[error("the starting potential of {side} {index} is {value}; it must be a number or -inf")]
    Start {
        /// The side of the potential.
        side: Side,
        /// Its index on that side.
        index: usize,
        /// The value found.
        value: f64,
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
