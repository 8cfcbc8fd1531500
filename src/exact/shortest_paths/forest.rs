//! A vertex out of an optimal plan: no cycles, and masses that add up to the last bit.
//!
//! Shortest paths leave an optimal plan, but ties can leave a cycle row – column – row – … in it. All
//! its pairs are tight, so mass can be sent round for free until a pair is empty. What remains is a
//! forest, at most n + m − 1 pairs with both slacks counted, and in a forest the masses follow from the
//! marginals: they are recomputed leaf by leaf, which removes the rounding of thousands of moves.

use std::collections::VecDeque;

/// A bipartite forest: nodes `0..cols` are columns, the others split rows.
#[derive(Debug)]
struct Forest {
    /// (neighbour, mass) per node; every pair is there twice.
    near: Vec<Vec<(usize, f64)>>,
}

/// Removes cycles from the shares of split rows (columns `0..wanted.len()`), and recomputes the masses: `rest[j]` is what
/// column `j` has to receive from these rows, `mass` what each row has to give.
pub(super) fn untangle(
    shares: &[Vec<(u32, f64)>],
    mass: &[f64],
    rest: &[f64],
) -> Vec<Vec<(u32, f64)>> {
    let cols = rest.len();
    let mut forest = Forest {
        near: vec![Vec::new(); cols + shares.len()],
    };
    for (r, shares) in shares.iter().enumerate() {
        for &(col, m) in shares {
            forest.add(cols + r, col as usize, m);
        }
    }
    forest.settle(mass, rest);
    (0..shares.len())
        .map(|r| {
            let mut row: Vec<(u32, f64)> = forest.near[cols + r]
                .iter()
                .map(|&(c, m)| (c as u32, m))
                .collect();
            row.sort_unstable_by_key(|s| s.0);
            row
        })
        .collect()
}

impl Forest {
    fn change(&mut self, a: usize, b: usize, by: f64) -> f64 {
        let mut now = 0.0;
        for (a, b) in [(a, b), (b, a)] {
            if let Some(pair) = self.near[a].iter_mut().find(|p| p.0 == b) {
                pair.1 += by;
                now = pair.1;
            }
        }
        now
    }

    fn mass(&self, a: usize, b: usize) -> f64 {
        self.near[a].iter().find(|p| p.0 == b).map_or(0.0, |p| p.1)
    }

    fn remove(&mut self, a: usize, b: usize) {
        self.near[a].retain(|p| p.0 != b);
        self.near[b].retain(|p| p.0 != a);
    }

    /// Nodes from `start` to `end`, both included, or nothing where they are not connected.
    fn path(&self, start: usize, end: usize) -> Option<Vec<usize>> {
        let mut before = vec![usize::MAX; self.near.len()];
        before[end] = end;
        let mut queue = VecDeque::from([end]);
        while let Some(x) = queue.pop_front() {
            if x == start {
                let mut path = vec![start];
                let mut at = start;
                while at != end {
                    at = before[at];
                    path.push(at);
                }
                return Some(path);
            }
            for &(y, _) in &self.near[x] {
                if before[y] == usize::MAX {
                    before[y] = x;
                    queue.push_back(y);
                }
            }
        }
        None
    }

    /// Adds a pair; if that closes a cycle, sends mass round until one of its pairs is empty.
    fn add(&mut self, row: usize, col: usize, mass: f64) {
        let path = self.path(row, col);
        self.near[row].push((col, mass));
        self.near[col].push((row, mass));
        let Some(path) = path else { return };
        // The new pair takes over from the odd pairs of the path, the even ones give.
        let giving: Vec<(usize, usize)> =
            path.windows(2).step_by(2).map(|w| (w[0], w[1])).collect();
        let least = giving
            .iter()
            .map(|&(a, b)| self.mass(a, b))
            .fold(f64::INFINITY, f64::min);
        self.change(row, col, least);
        for (at, w) in path.windows(2).enumerate() {
            let by = if at % 2 == 0 { -least } else { least };
            let now = self.change(w[0], w[1], by);
            if at % 2 == 0 && now <= 0.0 {
                self.remove(w[0], w[1]);
            }
        }
    }

    /// Masses from the marginals, leaf by leaf towards the heaviest node of each tree, which is where
    /// what rounding has left over weighs least.
    fn settle(&mut self, mass: &[f64], rest: &[f64]) {
        let nodes = self.near.len();
        let mut due: Vec<f64> = rest.iter().chain(mass).copied().collect();
        let mut by_weight: Vec<usize> = (0..nodes).collect();
        by_weight.sort_by(|&a, &b| due[b].total_cmp(&due[a]));
        let mut seen = vec![false; nodes];
        for root in by_weight {
            if seen[root] {
                continue;
            }
            seen[root] = true;
            let mut order = vec![(root, root)];
            let mut at = 0;
            while at < order.len() {
                let (x, _) = order[at];
                for &(y, _) in &self.near[x] {
                    if !seen[y] {
                        seen[y] = true;
                        order.push((y, x));
                    }
                }
                at += 1;
            }
            for &(x, parent) in order[1..].iter().rev() {
                let amount = due[x].max(0.0);
                let old = self.mass(x, parent);
                self.change(x, parent, amount - old);
                due[parent] -= amount;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_go_and_sums_stay() {
        // Three rows spread over the same three columns: four pairs too many for a forest.
        let shares: Vec<Vec<(u32, f64)>> = vec![
            vec![(0, 0.5), (1, 0.25), (2, 0.25)],
            vec![(0, 0.125), (1, 0.5), (2, 0.375)],
            vec![(0, 0.25), (1, 0.25), (2, 0.5)],
        ];
        let rest: Vec<f64> = (0..3)
            .map(|j| shares.iter().map(|row| row[j].1).sum())
            .collect();
        let forest = untangle(&shares, &[1.0; 3], &rest);
        assert!(forest.iter().map(Vec::len).sum::<usize>() <= 5);
        let mut cols = [0.0; 3];
        for row in &forest {
            assert_eq!(row.iter().map(|s| s.1).sum::<f64>(), 1.0);
            for &(j, m) in row {
                assert!(m >= 0.0);
                cols[j as usize] += m;
            }
        }
        assert_eq!(cols.to_vec(), rest);
    }
}
