//! Short rows transposed into blocks of columns, side by side.
//!
//! A row of ten numbers leaves a vector of eight lanes idle most of the time, and its maximum and its sum run *across*
//! the lanes. Sixteen such rows transposed are ten lines of sixteen numbers: every operation is about one column of
//! all sixteen rows, nothing runs across, and nothing is idle.

/// Rows side by side.
pub(crate) const BATCH_WIDTH: usize = 16;

/// Lines there is room for: columns and, behind them, one more.
pub(crate) const MOST_LINES: usize = 16;

/// Rows taken at a time.
const ROWS_AT_A_TIME: usize = 4;

/// At most [`BATCH_WIDTH`] rows of fewer entries than [`MOST_LINES`], one line a column.
#[derive(Debug, Clone)]
pub(crate) struct ColumnBlock<T> {
    pub(crate) lines: [[T; BATCH_WIDTH]; MOST_LINES],
}

impl<T: Copy> ColumnBlock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            lines: [[value; BATCH_WIDTH]; MOST_LINES],
        }
    }

    /// Takes the rows of `k` entries each in `rows`, not more than [`BATCH_WIDTH`]; places of rows that are missing keep
    /// what they held.
    #[inline(always)]
    pub(crate) fn transpose_in(&mut self, rows: &[T], k: usize) {
        let lines = &mut self.lines[..k];
        if rows.len() < BATCH_WIDTH * k {
            for (r, row) in rows.chunks_exact(k).enumerate() {
                for (line, &x) in lines.iter_mut().zip(row) {
                    line[r] = x;
                }
            }
            return;
        }
        // Four numbers are written at a time: single ones would be slow to read as a whole right after.
        for at in 0..BATCH_WIDTH / ROWS_AT_A_TIME {
            let four = &rows[at * ROWS_AT_A_TIME * k..][..ROWS_AT_A_TIME * k];
            let (a, rest) = four.split_at(k);
            let (b, rest) = rest.split_at(k);
            let (c, d) = rest.split_at(k);
            let rows = a.iter().zip(b).zip(c).zip(d);
            for (line, (((&a, &b), &c), &d)) in lines.iter_mut().zip(rows) {
                line.as_chunks_mut::<ROWS_AT_A_TIME>().0[at] = [a, b, c, d];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_columns() {
        for k in 1..=MOST_LINES {
            for count in [1, 3, BATCH_WIDTH - 1, BATCH_WIDTH] {
                let rows: Vec<usize> = (0..count * k).collect();
                let mut block = ColumnBlock::new(usize::MAX);
                block.transpose_in(&rows, k);
                for (j, line) in block.lines.iter().enumerate() {
                    for (r, &x) in line.iter().enumerate() {
                        let there = j < k && r < count;
                        assert_eq!(x, if there { r * k + j } else { usize::MAX });
                    }
                }
            }
        }
    }
}
