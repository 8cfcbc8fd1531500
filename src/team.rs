//! Rows on many machines.
//!
//! ```text
//! colsum(g) = Σ_members Σ_{rows of the member} P_i(g)
//! ```
//!
//! What a solver needs to know of the rows is a sum over them: k + 1 numbers a sweep, (k + 1)² for a curvature. So rows may lie on
//! many machines, the members of a [`Team`], and nothing travels but such sums. A member holds the rows of a [`Shard`] and makes a
//! problem of them, [`Sharded`](crate::cost::Sharded) and [`Marginals::with_slack_over`](crate::Marginals::with_slack_over) or
//! [`bounded_over`](crate::Marginals::bounded_over); all members call the same functions in the same order, and all get the same
//! potentials of the columns, the same status, the same certificate, or the same error. Potentials and plan of the rows stay where
//! the rows are.
//!
//! **The same bits for any number of members.** Sums over rows are added up along a tree that halves them
//! (`kernel::tiles`). A shard is a node of that tree, so that a member's sum is one that a single machine
//! would have come by, too; the members' sums are gathered, k + 1 numbers from each, and everybody adds up what is above them in
//! the same order. An all-reduce that adds as it goes would send less, and choose an order of its own.
//!
//! A node that is not worth halving is held by one member, and others by nobody: small problems are solved where their rows are.
//! As halves are halved, numbers of members that are powers of two have equal shares.

use core::fmt;
use core::ops::Range;
use std::sync::Arc;

use crate::Error;
use crate::kernel::tiles::is_shared;

/// Some processes, threads or machines that work on one problem: who am I of how many, and what has everybody to say.
///
/// # Laws
/// All members call [`gather`](Self::gather) equally often, and each call returns the same on all of them: what each member gave,
/// by rank, to the last bit. Where that cannot be had any more, because a member is gone, it is an error on all others.
///
/// # Examples
/// ```
/// use earthmover::team::{Alone, Team};
/// assert_eq!((Alone.rank(), Alone.size()), (0, 1));
/// assert_eq!(Alone.gather(&[1.0, 2.0])?, [[1.0, 2.0]]);
/// # Ok::<(), earthmover::Error>(())
/// ```
pub trait Team: fmt::Debug + Send + Sync {
    /// Which member this is, from zero.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// What every member gives, by rank. Members may give different numbers of numbers.
    ///
    /// # Errors
    /// [`Error::Backend`] where a member is gone or the network failed.
    fn gather(&self, mine: &[f64]) -> Result<Vec<Vec<f64>>, Error>;
}

/// The team of one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Team for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn gather(&self, mine: &[f64]) -> Result<Vec<Vec<f64>>, Error> {
        Ok(vec![mine.to_vec()])
    }
}

/// Which rows of a problem a member of a team holds.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use earthmover::team::{Alone, Shard};
/// let shard = Shard::new(Arc::new(Alone), 50_000, 10);
/// assert_eq!(shard.rows(), 0..50_000);
/// assert_eq!(Shard::split(50_000, 10, 2), [0..25_000, 25_000..50_000]);
/// assert_eq!(Shard::split(50, 10, 2), [0..50, 50..50]); // not worth it
/// ```
#[derive(Debug, Clone)]
pub struct Shard {
    team: Arc<dyn Team>,
    rows: Range<usize>,
    whole: usize,
    cols: usize,
}

impl Shard {
    /// The part of a problem of so many rows and columns that this member holds.
    #[must_use]
    pub fn new(team: Arc<dyn Team>, rows: usize, cols: usize) -> Self {
        let all = Self::split(rows, cols, team.size());
        Self {
            rows: all.get(team.rank()).cloned().unwrap_or(rows..rows),
            team,
            whole: rows,
            cols,
        }
    }

    /// The rows that each of so many members holds: empty where there are more members than the rows are worth.
    #[must_use]
    pub fn split(rows: usize, cols: usize, members: usize) -> Vec<Range<usize>> {
        let mut all = Vec::with_capacity(members);
        deal(0..rows, cols, members, &mut |rows, idle| {
            let end = rows.end;
            all.push(rows);
            all.extend((0..idle).map(|_| end..end));
        });
        all
    }

    /// The rows of this member.
    #[must_use]
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// The rows of all members together.
    #[must_use]
    pub fn whole(&self) -> usize {
        self.whole
    }

    /// The columns.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The team.
    #[must_use]
    pub fn team(&self) -> &dyn Team {
        &*self.team
    }

    /// What a member found, unless another found something wrong: then the first member's complaint, on all of them. For whatever
    /// members do by themselves before they go on together.
    ///
    /// # Errors
    /// The complaint. Rows in it are counted from the first of the whole problem.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use earthmover::team::{Alone, Shard};
    /// let shard = Shard::new(Arc::new(Alone), 100, 3);
    /// assert_eq!(shard.agree(Ok(7)), Ok(7));
    /// ```
    pub fn agree<R>(&self, mine: Result<R, Error>) -> Result<R, Error> {
        let (found, word) = match mine {
            Ok(found) => (Some(found), Ok(Vec::new())),
            Err(error) => (None, Err(error)),
        };
        self.gather(word)?;
        // Whoever found nothing has heard of it in the line above.
        found.ok_or_else(|| gone("a member's own complaint did not come back"))
    }

    /// What every member gives, by rank, or the first complaint.
    pub(crate) fn gather(&self, mine: Result<Vec<f64>, Error>) -> Result<Vec<Vec<f64>>, Error> {
        let word = match mine {
            Ok(mut numbers) => {
                numbers.push(0.0);
                numbers
            }
            Err(error) => {
                let mut numbers = error.below(self.rows.start).to_numbers();
                numbers.push(1.0);
                numbers
            }
        };
        let mut all = self.team.gather(&word)?;
        if all.len() != self.team.size() {
            return Err(gone("members are missing"));
        }
        for numbers in &mut all {
            match numbers.pop() {
                Some(0.0) => {}
                Some(_) => return Err(Error::from_numbers(numbers)),
                None => return Err(gone("a member said nothing")),
            }
        }
        Ok(all)
    }

    /// What nodes of the tree over all rows add up to, each member having given its own; members without rows do not count.
    pub(crate) fn fold<R>(&self, mut given: Vec<R>, merge: &impl Fn(&mut R, R)) -> Option<R> {
        given.reverse();
        climb(
            0..self.whole,
            self.cols,
            self.team.size(),
            &mut given,
            merge,
        )
    }

    /// Gathers what every member has and adds it up.
    pub(crate) fn sum(
        &self,
        mine: Result<Vec<f64>, Error>,
        merge: &impl Fn(&mut Vec<f64>, Vec<f64>),
    ) -> Result<Vec<f64>, Error> {
        let all = self.gather(mine)?;
        self.fold(all, merge).ok_or_else(|| gone("no members"))
    }

    /// The largest that any member has.
    pub(crate) fn largest(&self, mine: f64) -> Result<f64, Error> {
        let all = self.gather(Ok(vec![mine]))?;
        Ok(all
            .iter()
            .flatten()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max))
    }
}

/// Deals rows out to members: calls `each` with the rows of one, and how many behind it get none.
fn deal(
    rows: Range<usize>,
    cols: usize,
    members: usize,
    each: &mut impl FnMut(Range<usize>, usize),
) {
    let Range { start, end } = rows;
    if members <= 1 || !is_shared(end - start, cols) {
        return each(rows, members.saturating_sub(1));
    }
    let (middle, first) = (start + (end - start) / 2, members.div_ceil(2));
    deal(start..middle, cols, first, each);
    deal(middle..end, cols, members - first, each);
}

/// Adds up what members gave, the first one's last in the list, along the tree by which [`deal`] dealt their rows out.
fn climb<R>(
    rows: Range<usize>,
    cols: usize,
    members: usize,
    given: &mut Vec<R>,
    merge: &impl Fn(&mut R, R),
) -> Option<R> {
    let Range { start, end } = rows;
    if members <= 1 || !is_shared(end - start, cols) {
        let found = given.pop();
        given.truncate((given.len() + 1).saturating_sub(members));
        return found;
    }
    let (middle, first) = (start + (end - start) / 2, members.div_ceil(2));
    let sum = climb(start..middle, cols, first, given, merge);
    let more = climb(middle..end, cols, members - first, given, merge);
    match (sum, more) {
        (Some(mut sum), Some(more)) => {
            merge(&mut sum, more);
            Some(sum)
        }
        (sum, more) => sum.or(more),
    }
}

/// The team does not answer as a team does.
fn gone(what: &str) -> Error {
    Error::Backend {
        backend: "team",
        message: what.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn shards_cover_every_row_once_and_fold_in_order() {
        for (rows, cols) in [
            (50_000, 10),
            (100_003, 3),
            (3, 5),
            (4_000, 2_000),
            (1 << 17, 1),
        ] {
            for members in 1..10 {
                let shards = Shard::split(rows, cols, members);
                assert_eq!(shards.len(), members);
                assert_eq!((shards[0].start, shards[members - 1].end), (0, rows));
                assert!(shards.windows(2).all(|w| w[0].end == w[1].start));
                let shard = Shard::new(Arc::new(Pretended(members)), rows, cols);
                let named: Vec<String> = shards.iter().map(|s| format!("{s:?}")).collect();
                let add = |a: &mut String, b: String| *a = format!("({a}+{b})");
                let folded = shard.fold(named, &add).unwrap();
                let held = shards.iter().filter(|s| !s.is_empty()).count();
                assert_eq!(folded.matches("..").count(), held.max(1));
            }
        }
        assert!(
            Shard::split(50_000, 10, 4)
                .iter()
                .all(|s| s.len() == 12_500)
        );
    }

    #[derive(Debug)]
    struct Pretended(usize);

    impl Team for Pretended {
        fn rank(&self) -> usize {
            0
        }
        fn size(&self) -> usize {
            self.0
        }
        fn gather(&self, _: &[f64]) -> Result<Vec<Vec<f64>>, Error> {
            Err(gone("nobody is there"))
        }
    }
}
