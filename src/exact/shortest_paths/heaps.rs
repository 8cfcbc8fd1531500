//! Many small heaps in one place.
//!
//! The contracted graph has k² arcs, most of which never see a row: a heap of its own for each would
//! cost more to set up than the search that uses it. Here an empty heap is four bytes, and all entries
//! lie in one vector. They are *skew heaps* (D. D. Sleator and R. E. Tarjan, "Self-adjusting heaps",
//! SIAM J. Comput. 15, 1986): merging two is one walk down their right spines that swaps the children on
//! its way, and everything else is merging, O(log n) on average over any sequence of operations.

/// "No entry".
const NONE: u32 = u32::MAX;

/// A row that could leave u for v.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) key: f64,
    pub(super) row: u32,
}

impl Candidate {
    /// By key, then by row, so that equal entries meet at the top.
    fn comes_before(&self, other: &Self) -> bool {
        self.key < other.key || (self.key == other.key && self.row <= other.row)
    }
}

#[derive(Debug)]
struct Entry {
    candidate: Candidate,
    left: u32,
    right: u32,
}

/// Heaps of candidates, least key first.
#[derive(Debug)]
pub(super) struct Heaps {
    tops: Vec<u32>,
    entries: Vec<Entry>,
    /// Entries that were popped, chained by `left`.
    free: u32,
}

impl Heaps {
    /// `count` empty heaps.
    pub(super) fn new(count: usize) -> Self {
        Self {
            tops: vec![NONE; count],
            entries: Vec::new(),
            free: NONE,
        }
    }

    pub(super) fn peek(&self, heap: usize) -> Option<Candidate> {
        let top = self.tops[heap];
        (top != NONE).then(|| self.entries[top as usize].candidate)
    }

    pub(super) fn push(&mut self, heap: usize, candidate: Candidate) {
        let entry = Entry {
            candidate,
            left: NONE,
            right: NONE,
        };
        let at = if self.free == NONE {
            self.entries.push(entry);
            (self.entries.len() - 1) as u32
        } else {
            let at = self.free;
            self.free = self.entries[at as usize].left;
            self.entries[at as usize] = entry;
            at
        };
        self.tops[heap] = self.merge(self.tops[heap], at);
    }

    pub(super) fn pop(&mut self, heap: usize) {
        let top = self.tops[heap];
        if top == NONE {
            return;
        }
        let Entry { left, right, .. } = self.entries[top as usize];
        self.entries[top as usize].left = self.free;
        self.free = top;
        self.tops[heap] = self.merge(left, right);
    }

    fn merge(&mut self, mut a: u32, mut b: u32) -> u32 {
        if a == NONE || b == NONE {
            return if a == NONE { b } else { a };
        }
        let mut first = NONE;
        let mut above = NONE;
        while a != NONE && b != NONE {
            let (x, y) = (&self.entries[a as usize], &self.entries[b as usize]);
            if !x.candidate.comes_before(&y.candidate) {
                (a, b) = (b, a);
            }
            // `a` goes here; what was its left branch becomes the right one, and the merge of the
            // rest its left one.
            if above == NONE {
                first = a;
            } else {
                self.entries[above as usize].left = a;
            }
            above = a;
            let entry = &mut self.entries[a as usize];
            a = core::mem::replace(&mut entry.right, entry.left);
        }
        self.entries[above as usize].left = if a == NONE { b } else { a };
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_least_is_always_on_top() {
        let mut heaps = Heaps::new(3);
        let mut twins = vec![BTreeSet::new(); 3];
        let mut x = 12_345_u64;
        for step in 0..4000u32 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let heap = (x >> 60) as usize % 3;
            if x >> 40 & 3 != 0 {
                let key = (x >> 33) % 50;
                heaps.push(
                    heap,
                    Candidate {
                        key: key as f64,
                        row: step,
                    },
                );
                twins[heap].insert((key, step));
            } else {
                heaps.pop(heap);
                twins[heap].pop_first();
            }
            for (heap, twin) in twins.iter().enumerate() {
                let top = heaps.peek(heap).map(|c| (c.key as u64, c.row));
                assert_eq!(top, twin.first().copied());
            }
        }
    }
}
