//! What is wrong with a question, asked in one place for all solvers.
//!
//! * Every entry of the cost is a number or +∞, and no number is so large that sums could overflow ([`survey`]).
//! * Every row and column that carries mass has somewhere to go ([`blocked`]).
//! * All mass has somewhere to go at once ([`stranded`](crate::exact::simplex::stranded)): a flow problem on the pattern of
//!   allowed pairs, asked only where some are forbidden.

use super::whole::Whole;
use crate::kernel::dispatch::dispatch;
use crate::kernel::tiles::{map_ranges, tile_rows};
use crate::{Cost, Error, Marginals, Penalty, Problem, Real, Side};

/// What one look at every entry says about a cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Survey {
    /// Whether some pairs are forbidden.
    pub(crate) forbidden: bool,
    /// The least finite cost; +∞ where there is none.
    pub(crate) least: f64,
    /// The greatest finite cost; −∞ where there is none.
    pub(crate) greatest: f64,
}

impl Survey {
    /// How far finite costs are apart at most.
    pub(crate) fn range(&self) -> f64 {
        (self.greatest - self.least).max(0.0)
    }

    /// How far finite costs are apart at most, those of slack that carries mass included.
    pub(crate) fn span(&self, marginals: &Marginals) -> f64 {
        let slack = marginals.slack();
        let (mut least, mut greatest) = (self.least, self.greatest);
        for (mass, cost) in [
            (slack.row, slack.row_cost),
            (slack.col, slack.col_cost),
            (slack.row.min(slack.col), slack.corner_cost),
        ] {
            if mass > 0.0 && cost.is_finite() {
                (least, greatest) = (least.min(cost), greatest.max(cost));
            }
        }
        (greatest - least).max(0.0)
    }

    /// Whether rounding the largest finite cost in `T` could move entries of a plan by more than a share of the tolerance.
    pub(crate) fn is_coarse<T: Real>(&self, epsilon: f64, tolerance: f64) -> bool {
        let largest = self.least.abs().max(self.greatest.abs());
        T::epsilon().widen() * largest / epsilon > COARSE_SHARE * tolerance
    }
}

/// Share of the tolerance that rounding of the costs may take before they are read more carefully.
const COARSE_SHARE: f64 = 0.125;

/// Entries of a row that there are to look at.
pub(crate) fn line_length<T: Real, C: Cost<T> + ?Sized>(cost: &C) -> usize {
    cost.pairs().map_or(cost.cols(), |pairs| pairs.per_row())
}

/// Looks at every entry once, unless the cost knows its range, and at the slack.
pub(crate) fn survey<T: Real, C: Cost<T> + ?Sized>(
    cost: &C,
    marginals: &Marginals,
) -> Result<Survey, Error> {
    let slack = marginals.slack();
    for (side, value) in [
        (Side::SlackRow, slack.row_cost),
        (Side::SlackCol, slack.col_cost),
        (Side::SlackRow, slack.corner_cost),
    ] {
        if value != f64::INFINITY && value.abs() > T::LARGEST_COST {
            let largest = T::LARGEST_COST;
            return Err(Error::SlackCost {
                side,
                value,
                largest,
            });
        }
    }
    if let Some((least, greatest)) = cost.range() {
        return Ok(Survey {
            forbidden: false,
            least,
            greatest,
        });
    }
    let (n, k) = (cost.rows(), cost.cols());
    let pairs = cost.pairs();
    let tiles = map_ranges(n, tile_rows(n, line_length(cost)), |rows| {
        let mut look = Look::<T>::new();
        if let Some(pairs) = pairs {
            look.forbidden = pairs.len() < n * k;
            look = look_at(pairs.costs(rows.clone()), look);
        } else if let Some(block) = cost.block(rows.clone()) {
            look = look_at(block, look);
        } else {
            let at_once = (BUFFER_ENTRIES / k).clamp(1, rows.len());
            let mut buffer = vec![T::zero(); at_once * k];
            for first in rows.clone().step_by(at_once) {
                let part = first..(first + at_once).min(rows.end);
                let entries = &mut buffer[..part.len() * k];
                cost.fill(part, entries);
                look = look_at(entries, look);
            }
        }
        if look.is_fine() {
            Ok(look)
        } else {
            Err(first_wrong(cost, rows))
        }
    });
    let mut own = Ok(Look::<T>::new());
    for tile in tiles {
        own = own.and_then(|mut all| {
            let tile = tile?;
            all.forbidden |= tile.forbidden;
            all.least = all.least.min(tile.least);
            all.greatest = all.greatest.max(tile.greatest);
            Ok(all)
        });
    }
    let own = own.map(|all| Survey {
        forbidden: all.forbidden,
        least: all.least.widen(),
        greatest: all.greatest.widen(),
    });
    let Some(shard) = cost.shard() else {
        return own;
    };
    let own = own.map(|s| vec![f64::from(u8::from(s.forbidden)), -s.least, s.greatest]);
    let all = shard.sum(own, &|all, more| {
        let both = all.iter_mut().zip(more);
        both.for_each(|(a, b)| *a = a.max(b));
    })?;
    Ok(Survey {
        forbidden: all[0] > 0.0,
        least: -all[1],
        greatest: all[2],
    })
}

/// Entries written at one time where a cost does not lend them.
const BUFFER_ENTRIES: usize = 1 << 12;

#[derive(Debug, Clone, Copy)]
struct Look<T> {
    sound: bool,
    forbidden: bool,
    least: T,
    greatest: T,
}

impl<T: Real> Look<T> {
    fn new() -> Self {
        Self {
            sound: true,
            forbidden: false,
            least: T::infinity(),
            greatest: T::neg_infinity(),
        }
    }

    fn is_fine(&self) -> bool {
        let largest = T::narrow(T::LARGEST_COST);
        let nothing = self.least > self.greatest;
        self.sound && (nothing || (self.least >= -largest && self.greatest <= largest))
    }
}

dispatch! {
    /// Adds some entries to what was seen so far.
    fn look_at<T: Real>(entries: &[T], so_far: Look<T>) -> Look<T> {
        let Look { mut sound, mut forbidden, least, greatest } = so_far;
        // Sixteen chains each, so that comparisons do not wait for each other.
        let (mut low, mut high) = ([least; 16], [greatest; 16]);
        let (chunks, rest) = entries.as_chunks::<16>();
        for chunk in chunks {
            for ((&c, low), high) in chunk.iter().zip(&mut low).zip(&mut high) {
                sound &= c > T::neg_infinity();
                let finite = c < T::infinity();
                forbidden |= !finite;
                *low = if c < *low { c } else { *low };
                *high = if finite & (c > *high) { c } else { *high };
            }
        }
        for &c in rest {
            sound &= c > T::neg_infinity();
            forbidden |= c == T::infinity();
            low[0] = if c < low[0] { c } else { low[0] };
            high[0] = if c < T::infinity() && c > high[0] { c } else { high[0] };
        }
        Look {
            sound,
            forbidden,
            least: low.into_iter().fold(least, |a, b| if b < a { b } else { a }),
            greatest: high.into_iter().fold(greatest, |a, b| if b > a { b } else { a }),
        }
    }
}

/// What is wrong with an entry, if anything is.
pub(crate) fn wrong_entry<T: Real>(row: usize, col: usize, c: T) -> Option<Error> {
    let value = c.widen();
    if value.is_nan() || value == f64::NEG_INFINITY {
        return Some(Error::Cost { row, col, value });
    }
    let largest = T::LARGEST_COST;
    (value.abs() > largest && value != f64::INFINITY).then_some(Error::TooDear {
        row,
        col,
        value,
        largest,
    })
}

/// Rejects rows of costs that hold something that is none; `first` is the row of the first one.
pub(crate) fn rows<T: Real>(costs: &[T], cols: usize, first: usize) -> Result<(), Error> {
    if look_at(costs, Look::new()).is_fine() {
        return Ok(());
    }
    let mut entries = costs.iter().enumerate();
    match entries.find_map(|(at, &c)| wrong_entry(first + at / cols, at % cols, c)) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// The first wrong entry of these rows, of which there is one.
fn first_wrong<T: Real, C: Cost<T> + ?Sized>(cost: &C, rows: core::ops::Range<usize>) -> Error {
    let k = cost.cols();
    let mut line = vec![T::zero(); k];
    for row in rows {
        cost.fill(row..row + 1, &mut line);
        let mut entries = line.iter().enumerate();
        if let Some(error) = entries.find_map(|(col, &c)| wrong_entry(row, col, c)) {
            return error;
        }
    }
    // A cost that changes from one look to the next has no entries to point at.
    Error::Cost {
        row: 0,
        col: 0,
        value: f64::NAN,
    }
}

/// Whether every row and column that carries mass has a pair with one that does, slack included.
pub(crate) fn blocked<T: Real, C: Cost<T> + ?Sized>(
    cost: &C,
    marginals: &Marginals,
) -> Result<(), Error> {
    let slack = marginals.slack();
    let (a, b) = (marginals.rows(), marginals.cols());
    let (n, k) = (a.len(), b.len());
    let carries = |masses: &[f64]| masses.iter().any(|m| *m > 0.0);
    let to_slack = slack.col > 0.0 && slack.col_cost < f64::INFINITY;
    let from_slack = slack.row > 0.0 && slack.row_cost < f64::INFINITY;
    let pairs = cost.pairs();
    let tiles = map_ranges(n, tile_rows(n, line_length(cost)), |rows| {
        let mut line = vec![T::zero(); if pairs.is_some() { 0 } else { k }];
        let mut open = vec![false; k];
        for index in rows.filter(|&i| a[i] > 0.0) {
            // A penalised row may keep its mass.
            let mut any = to_slack || !marginals.row_penalty().is_exact();
            if let Some(pairs) = pairs {
                for &j in pairs.row(index).0 {
                    open[j as usize] = true;
                    any |= b[j as usize] > 0.0;
                }
            } else {
                cost.fill(index..index + 1, &mut line);
                for ((o, c), b) in open.iter_mut().zip(&line).zip(b) {
                    let allowed = *c < T::infinity();
                    *o |= allowed;
                    any |= allowed && *b > 0.0;
                }
            }
            if !any {
                return Err(Error::Blocked {
                    side: Side::Rows,
                    index,
                    mass: a[index],
                });
            }
        }
        Ok(open)
    });
    let mut open = vec![from_slack || !marginals.col_penalty().is_exact(); k];
    let mut own = Ok(());
    for tile in tiles {
        match tile {
            Ok(tile) => open
                .iter_mut()
                .zip(tile)
                .for_each(|(all, part)| *all |= part),
            Err(error) => own = own.and(Err(error)),
        }
    }
    let mut gives = carries(a);
    match cost.shard() {
        None => own?,
        Some(shard) => {
            let own = own.map(|()| {
                let flags = open.iter().chain([&gives]);
                flags.map(|o| f64::from(u8::from(*o))).collect()
            });
            for member in shard.gather(own)? {
                let (last, rest) = member.split_last().unwrap_or((&0.0, &[]));
                gives |= *last > 0.0;
                let both = open.iter_mut().zip(rest);
                both.for_each(|(all, part)| *all |= *part > 0.0);
            }
        }
    }
    if let Some(index) = (0..k).find(|&j| b[j] > 0.0 && !open[j]) {
        return Err(Error::Blocked {
            side: Side::Cols,
            index,
            mass: b[index],
        });
    }
    let corner = slack.corner_cost < f64::INFINITY && slack.row > 0.0 && slack.col > 0.0;
    let lines = [
        (Side::SlackRow, slack.row, from_slack && carries(b)),
        (Side::SlackCol, slack.col, to_slack && gives),
    ];
    for (side, mass, way) in lines {
        if mass > 0.0 && !way && !corner {
            return Err(Error::Blocked {
                side,
                index: 0,
                mass,
            });
        }
    }
    Ok(())
}

/// Whether any slack pair that mass might want is forbidden.
fn forbids_slack(marginals: &Marginals) -> bool {
    let slack = marginals.slack();
    let closed = |mass: f64, cost: f64| mass > 0.0 && cost == f64::INFINITY;
    closed(slack.row, slack.row_cost)
        || closed(slack.col, slack.col_cost)
        || closed(slack.row.min(slack.col), slack.corner_cost)
}

/// Refuses penalised masses on behalf of a solver that keeps them exactly.
pub(crate) fn keeps_masses<T: Real, C: Cost<T>>(
    problem: &Problem<T, C>,
    solver: &'static str,
) -> Result<(), Error> {
    if problem.marginals().is_relaxed() {
        return Err(Error::Penalised { solver });
    }
    Ok(())
}

/// All of the above for a problem that an entropic solver is to answer: what the exact ones find out on their way is
/// asked here.
pub(crate) fn whole<T: Real, C: Cost<T>>(problem: &Problem<T, C>) -> Result<Survey, Error> {
    let survey = entries(problem)?;
    let marginals = problem.marginals();
    let (rows, cols) = (marginals.row_penalty(), marginals.col_penalty());
    if let (Penalty::Tv(row), Penalty::Tv(col)) = (rows, cols)
        && survey.least < -(row + col)
    {
        return Err(Error::Gainful {
            cost: survey.least,
            least: -(row + col),
        });
    }
    // A penalised side takes whatever the other has to give.
    if !marginals.is_relaxed() && (survey.forbidden || forbids_slack(marginals)) {
        match Whole::gather(problem, "looking for mass that forbidden pairs strand") {
            // What a large team is not told before the solve shows in its status.
            Err(Error::Apart { .. }) => {}
            Err(error) => return Err(error),
            Ok(None) => T::stranded(problem.cost(), problem.marginals())?,
            Ok(Some(whole)) => {
                let whole = whole.problem()?;
                T::stranded(whole.cost(), whole.marginals())?;
            }
        }
    }
    Ok(survey)
}

/// Entries, and rows and columns without a way.
pub(crate) fn entries<T: Real, C: Cost<T>>(problem: &Problem<T, C>) -> Result<Survey, Error> {
    let cost: &dyn Cost<T> = problem.cost();
    let survey = survey(cost, problem.marginals())?;
    if survey.forbidden || forbids_slack(problem.marginals()) {
        blocked(cost, problem.marginals())?;
    }
    Ok(survey)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::dispatch::plainly;
    use crate::{Dense, FromFn, Slack};

    #[test]
    fn every_entry_is_looked_at() {
        let (n, k) = (37, 53);
        let marginals = Marginals::uniform(n, k).unwrap();
        let sound: Vec<f64> = (0..n * k).map(|e| (e * 31 % 97) as f64 - 40.0).collect();
        let seen = survey(&Dense::new(&sound, n, k).unwrap(), &marginals).unwrap();
        let expected = Survey {
            forbidden: false,
            least: -40.0,
            greatest: 56.0,
        };
        assert_eq!((seen, seen.range()), (expected, 96.0));
        for at in [0, 1, 16, 17, k - 1, k, n * k / 2, n * k - 2, n * k - 1] {
            for poison in [f64::NAN, f64::NEG_INFINITY, 2e250, -2e250, f64::INFINITY] {
                let mut costs = sound.clone();
                costs[at] = poison;
                let dense = survey(&Dense::new(&costs, n, k).unwrap(), &marginals);
                let lazy = FromFn::new(n, k, |i, j| costs[i * k + j]).unwrap();
                let lazy = plainly(|| survey(&lazy, &marginals));
                let same = format!("{dense:?}") == format!("{lazy:?}");
                assert!(same, "{dense:?} {lazy:?}");
                let (row, col) = (at / k, at % k);
                match dense {
                    Ok(seen) => assert!(poison == f64::INFINITY && seen.forbidden),
                    Err(Error::Cost { row: r, col: c, .. }) => {
                        assert!((r, c) == (row, col) && !poison.is_finite());
                    }
                    Err(Error::TooDear { row: r, col: c, .. }) => {
                        assert!((r, c) == (row, col) && poison.is_finite());
                    }
                    Err(other) => unreachable!("{other:?}"),
                }
            }
        }
    }

    #[test]
    fn partners_without_mass_are_no_way() {
        let inf = f64::INFINITY;
        let costs = [inf, 0.0, 0.0, inf];
        let cost = Dense::new(&costs, 2, 2).unwrap();
        let marginals = Marginals::balanced(&[1.0, 0.0], &[1.0, 0.0]).unwrap();
        let error = blocked(&cost, &marginals).unwrap_err();
        let expected = Error::Blocked {
            side: Side::Rows,
            index: 0,
            mass: 1.0,
        };
        assert_eq!(error, expected);
        let slack = Slack {
            row: 1.0,
            col: 1.0,
            ..Slack::NONE
        };
        let marginals = Marginals::with_slack(&[1.0, 0.0], &[1.0, 0.0], slack).unwrap();
        assert_eq!(blocked(&cost, &marginals), Ok(()));
    }
}
