//! A short list of pairs, by row.

/// Pairs in compressed rows, each with its cost.
#[derive(Debug, Clone, Default)]
pub(in crate::exact) struct Pairs<C> {
    starts: Vec<usize>,
    rows: Vec<u32>,
    cols: Vec<u32>,
    costs: Vec<C>,
}

impl<C: Copy + Default> Pairs<C> {
    /// Lists pairs (row, column, cost) given in any order; of several with the same ends one is kept.
    pub(in crate::exact) fn new(rows: usize, pairs: &[(u32, u32, C)]) -> Self {
        let mut starts = vec![0usize; rows + 1];
        for p in pairs {
            starts[p.0 as usize + 1] += 1;
        }
        for i in 0..rows {
            starts[i + 1] += starts[i];
        }
        let mut fill = starts.clone();
        let mut sorted = vec![(0u32, C::default()); pairs.len()];
        for &(i, j, c) in pairs {
            sorted[fill[i as usize]] = (j, c);
            fill[i as usize] += 1;
        }
        let mut list = Self {
            starts: Vec::with_capacity(rows + 1),
            rows: Vec::with_capacity(pairs.len()),
            cols: Vec::with_capacity(pairs.len()),
            costs: Vec::with_capacity(pairs.len()),
        };
        list.starts.push(0);
        for i in 0..rows {
            let line = &mut sorted[starts[i]..starts[i + 1]];
            line.sort_unstable_by_key(|p| p.0);
            let mut last = u32::MAX;
            for &(j, c) in &*line {
                if j != last {
                    list.rows.push(i as u32);
                    list.cols.push(j);
                    list.costs.push(c);
                    last = j;
                }
            }
            list.starts.push(list.cols.len());
        }
        list
    }

    /// How many there are.
    pub(in crate::exact) fn len(&self) -> usize {
        self.cols.len()
    }

    /// The places of a row's pairs.
    pub(in crate::exact) fn of_row(&self, i: usize) -> core::ops::Range<usize> {
        self.starts[i]..self.starts[i + 1]
    }

    #[inline]
    pub(in crate::exact) fn col(&self, at: usize) -> usize {
        self.cols[at] as usize
    }

    #[inline]
    pub(in crate::exact) fn cost(&self, at: usize) -> C {
        self.costs[at]
    }

    /// All pairs as (row, column, cost), by row and column.
    pub(in crate::exact) fn iter(&self) -> impl Iterator<Item = (u32, u32, C)> + '_ {
        let ends = self.rows.iter().zip(&self.cols).zip(&self.costs);
        ends.map(|((&i, &j), &c)| (i, j, c))
    }
}
