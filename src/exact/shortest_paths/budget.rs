//! When to give up, because another way would be done sooner.
//!
//! Work is counted in arcs looked at, a nanosecond or so each: a measure of time that is the same on every machine. Mass
//! finds its place at a pace that hardly changes within a level once the first round has read what it needs, so that after
//! work w since then has brought the share in excess from s₁ to s the rest of the level takes about
//!
//! ```text
//! w · s / (s₁ − s)
//! ```
//!
//! more, and every finer level as much as this one and more. What was spent is lost either way: it is the *rest* that is
//! held against the other way.

/// Share of the budget below which it is too early to tell, and up to which one waits to see a pace at all.
const EARLY_SHARE: f64 = 0.1;
const LATE_SHARE: f64 = 0.7;

/// What a finer level takes, in multiples of the one before.
const FINER_LEVEL_COST: f64 = 2.0;

/// The pace may deceive; beyond this many budgets there is no more waiting.
const MOST_BUDGETS: f64 = 2.0;

/// What the other way would take, and what was spent so far.
#[derive(Debug)]
pub(super) struct Budget {
    other_way: f64,
    /// Work of the levels before this one.
    before: f64,
    /// Work of this level when it was last asked for.
    here: f64,
    /// Misplaced share at the start of this level.
    start: Option<f64>,
    /// Misplaced share and work when there was less for the first time.
    first: Option<(f64, f64)>,
    /// Levels that are still to come.
    finer: usize,
    /// Whether it was not worth going on once.
    given_up: bool,
}

impl Budget {
    /// The other way takes this much; infinite where there is none.
    pub(super) fn new(other_way: f64) -> Self {
        Self {
            other_way,
            before: 0.0,
            here: 0.0,
            start: None,
            first: None,
            finer: 0,
            given_up: false,
        }
    }

    /// Another level begins, and so many are still to come after it.
    pub(super) fn enter(&mut self, finer: usize) {
        self.before += core::mem::take(&mut self.here);
        (self.start, self.first) = (None, None);
        self.finer = finer;
    }

    /// What a single round may take without being asked about.
    pub(super) fn one_round(&self) -> f64 {
        0.5 * self.other_way
    }

    /// Whether it is worth going on at this share in excess, after this much work on the level; once it is not, it never
    /// is again.
    pub(super) fn allows(&mut self, share: f64, work: f64) -> bool {
        self.given_up |= !self.is_worth(share, work);
        !self.given_up
    }

    fn is_worth(&mut self, share: f64, work: f64) -> bool {
        self.here = work;
        let start = *self.start.get_or_insert(share);
        if share < start && self.first.is_none() {
            self.first = Some((share, work));
        }
        let spent = self.before + work;
        if spent <= EARLY_SHARE * self.other_way {
            return true;
        }
        match self.first {
            Some((s, w)) if share < s => {
                let rest = (work - w) * share / (s - share);
                let all = rest + FINER_LEVEL_COST * self.finer as f64 * (work + rest);
                spent <= MOST_BUDGETS * self.other_way && all <= self.other_way
            }
            _ => spent <= LATE_SHARE * self.other_way,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A level that has read its rows, with so many levels to come.
    fn under_way(finer: usize) -> Budget {
        let mut budget = Budget::new(100.0);
        budget.enter(finer);
        assert!(budget.allows(0.5, 0.0) && budget.allows(0.4, 5.0));
        budget
    }

    #[test]
    fn what_is_nearly_done_is_finished() {
        let mut budget = under_way(0);
        assert!(budget.allows(0.4, 10.0), "too early to tell");
        assert!(!under_way(0).allows(0.39, 25.0), "780 more at this pace");
        assert!(
            budget.allows(0.1, 125.0),
            "40 more, though it has taken long"
        );
        assert!(!budget.allows(0.01, 201.0));
    }

    #[test]
    fn without_a_pace_one_waits_a_while() {
        let mut budget = under_way(0);
        assert!(budget.allows(0.4, 69.0) && !budget.allows(0.4, 71.0));
    }

    #[test]
    fn finer_levels_take_longer() {
        for (finer, goes_on) in [(0, true), (1, true), (2, false)] {
            assert_eq!(under_way(finer).allows(0.2, 20.0), goes_on, "{finer}");
        }
        let mut budget = under_way(1);
        budget.allows(0.0, 30.0);
        budget.enter(0);
        assert!(budget.allows(0.2, 0.0) && budget.allows(0.1, 10.0));
        assert!(budget.allows(0.001, 169.0) && !budget.allows(0.001, 171.0));
        assert!(Budget::new(f64::INFINITY).allows(1.0, 1e300));
    }
}
