//! Groups of columns that are nested or disjoint form a forest; a flow can count each of them.

use crate::Error;

/// A forest of groups over columns.
#[derive(Debug, PartialEq)]
pub(super) struct Forest {
    /// The smallest group that contains each group.
    pub(super) group_parent: Vec<Option<usize>>,
    /// The smallest group that contains each column.
    pub(super) col_parent: Vec<Option<usize>>,
}

impl Forest {
    /// Arranges `groups` of the columns `0..cols`; equal groups nest in the order given.
    pub(super) fn new(cols: usize, groups: &[Vec<usize>]) -> Result<Self, Error> {
        let mut sets = Vec::with_capacity(groups.len());
        for group in groups {
            if let Some(&index) = group.iter().find(|&&j| j >= cols) {
                return Err(Error::Index {
                    what: "column",
                    index,
                    len: cols,
                });
            }
            let mut set = group.clone();
            set.sort_unstable();
            set.dedup();
            sets.push(set);
        }
        let mut largest_first: Vec<usize> = (0..sets.len()).collect();
        largest_first.sort_by_key(|&g| core::cmp::Reverse(sets[g].len()));
        let mut forest = Self {
            group_parent: vec![None; sets.len()],
            col_parent: vec![None; cols],
        };
        for &g in &largest_first {
            let Some(&first) = sets[g].first() else {
                continue;
            };
            let parent = forest.col_parent[first];
            if let Some(&other) = sets[g].iter().find(|&&j| forest.col_parent[j] != parent) {
                // Of the two columns' groups at least one holds only a part of this group.
                let cut = [parent, forest.col_parent[other]]
                    .into_iter()
                    .flatten()
                    .find(|&h| sets[g].iter().any(|j| sets[h].binary_search(j).is_err()))
                    .unwrap_or(g);
                return Err(Error::Overlap {
                    first: cut.min(g),
                    second: cut.max(g),
                });
            }
            forest.group_parent[g] = parent;
            for &j in &sets[g] {
                forest.col_parent[j] = Some(g);
            }
        }
        Ok(forest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_and_disjoint_groups_become_a_forest() {
        let groups = [vec![2, 3], vec![0, 1, 2, 3], vec![5], vec![], vec![3, 2]];
        let forest = Forest::new(6, &groups);
        assert_eq!(
            forest,
            Ok(Forest {
                group_parent: vec![Some(1), None, None, None, Some(0)],
                col_parent: vec![Some(1), Some(1), Some(4), Some(4), None, Some(2)],
            })
        );
    }

    #[test]
    fn groups_that_cross_are_named() {
        let crossing = Forest::new(4, &[vec![3], vec![0, 1], vec![1, 2]]);
        assert_eq!(
            crossing,
            Err(Error::Overlap {
                first: 1,
                second: 2
            })
        );
        let inner = Forest::new(5, &[vec![0, 1, 2, 3], vec![0, 1], vec![1, 2]]);
        assert_eq!(
            inner,
            Err(Error::Overlap {
                first: 1,
                second: 2
            })
        );
    }
}
