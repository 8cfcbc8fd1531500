//! A first feasible plan: every row in turn fills the columns that are cheapest for it.
//!
//! Each step empties a row or fills a column, so the arcs form a forest and are a basis at once. Where
//! forbidden pairs leave rows and columns over, they are paired regardless; phase one then moves that
//! mass to allowed pairs, or proves that it cannot be done.

use super::augmented_rows::AugmentedRows;
use super::pricing::Arcs;
use super::tree::Tree;
use crate::kernel::rounding::REMAINDER;
use crate::{Cost, Marginals, Real, Slack};

/// Arcs of each row and of each column that are looked at for a tree at given prices.
const FEW: usize = 6;

/// Masses of the rows and columns, slack at the end where it carries mass.
pub(super) struct Masses {
    pub(super) rows: Vec<f64>,
    pub(super) cols: Vec<f64>,
}

impl Masses {
    pub(super) fn new(marginals: &Marginals) -> Self {
        Self::with_slack(marginals.rows(), marginals.cols(), marginals.slack())
    }

    pub(super) fn with_slack(rows: &[f64], cols: &[f64], slack: Slack) -> Self {
        let with = |masses: &[f64], extra: f64| {
            let mut all = masses.to_vec();
            all.extend((extra > 0.0).then_some(extra));
            all
        };
        Self {
            rows: with(rows, slack.row),
            cols: with(cols, slack.col),
        }
    }
}

/// A starting plan: its arcs, and whether any of them is forbidden.
pub(super) struct Plan {
    pub(super) arcs: Vec<(usize, usize, f64)>,
    pub(super) forbidden: bool,
}

/// Rows take from the columns with the least `C_ij − g_j` that have room.
pub(super) fn greedy<T: Real, C: Cost<T>>(
    lines: &mut AugmentedRows<'_, T, C>,
    masses: &Masses,
    g: &[f64],
) -> Plan {
    let mut hands = Hands::new(masses);
    hands.fill(lines, g);
    hands.finish()
}

/// Starts from prices that may be optimal. At an optimum the arcs of the tree are tight,
/// `C_ij = f_i + g_j`, and near it they are nearly so: the spanning forest of least total slack is the
/// optimal tree or close to it. In a forest the flows follow from the leaves inwards, for a node with a
/// single arc must use it; what does not fit is placed greedily.
pub(super) fn eliminate_leaves<T: Real, C: Cost<T>>(
    lines: &mut AugmentedRows<'_, T, C>,
    masses: &Masses,
    g: &[f64],
) -> Plan {
    let mut hands = Hands::new(masses);
    let open = hands.open(g);
    let near = tightest(lines, masses, &open);
    hands.eliminate_leaves(&spanning_forest(near, masses));
    hands.fill(lines, g);
    hands.finish()
}

/// The few arcs of least slack `C_ij + h_j − f_i` of every row and column, as (slack, row, column).
fn tightest<T: Real, C: Cost<T>>(
    lines: &mut AugmentedRows<'_, T, C>,
    masses: &Masses,
    h: &[f64],
) -> Vec<(f64, usize, usize)> {
    let mut near = Vec::with_capacity(FEW * (masses.rows.len() + masses.cols.len()));
    let mut by_col = vec![Fewest::default(); masses.cols.len()];
    for i in (0..masses.rows.len()).filter(|&i| masses.rows[i] > 0.0) {
        let mut by_row = Fewest::default();
        let (f, _) = lines.cheapest(i, h, f64::INFINITY);
        for (j, &h) in h.iter().enumerate() {
            let slack = lines.at(i, j) + h - f;
            by_row.offer(slack, j);
            by_col[j].offer(slack, i);
        }
        near.extend(by_row.list().map(|(slack, j)| (slack, i, j)));
    }
    for (j, col) in by_col.iter().enumerate() {
        near.extend(col.list().map(|(slack, i)| (slack, i, j)));
    }
    near
}

/// Kruskal's forest of least total slack.
fn spanning_forest(mut near: Vec<(f64, usize, usize)>, masses: &Masses) -> Vec<(usize, usize)> {
    let rows = masses.rows.len();
    near.sort_by(|x, y| x.0.total_cmp(&y.0).then((x.1, x.2).cmp(&(y.1, y.2))));
    let mut leader: Vec<usize> = (0..rows + masses.cols.len()).collect();
    fn find(leader: &mut [usize], mut v: usize) -> usize {
        while leader[v] != v {
            leader[v] = leader[leader[v]];
            v = leader[v];
        }
        v
    }
    let mut forest = Vec::with_capacity(leader.len());
    for (_, i, j) in near {
        let (a, b) = (find(&mut leader, i), find(&mut leader, rows + j));
        if a != b {
            leader[a] = b;
            forest.push((i, j));
        }
    }
    forest
}

/// The `FEW` least of what is offered, finite ones only.
#[derive(Clone, Copy)]
struct Fewest([(f64, usize); FEW]);

impl Default for Fewest {
    fn default() -> Self {
        Self([(f64::INFINITY, 0); FEW])
    }
}

impl Fewest {
    fn offer(&mut self, value: f64, index: usize) {
        if value < self.0[FEW - 1].0 {
            self.0[FEW - 1] = (value, index);
            let mut at = FEW - 1;
            while at > 0 && self.0[at].0 < self.0[at - 1].0 {
                self.0.swap(at, at - 1);
                at -= 1;
            }
        }
    }

    fn list(&self) -> impl Iterator<Item = (f64, usize)> + '_ {
        self.0.iter().copied().filter(|e| e.0 < f64::INFINITY)
    }
}

/// Masses that are still to be placed, and the arcs placed so far.
pub(super) struct Hands<'a> {
    masses: &'a Masses,
    left: Vec<f64>,
    room: Vec<f64>,
    arcs: Vec<(usize, usize, f64)>,
}

impl<'a> Hands<'a> {
    pub(super) fn new(masses: &'a Masses) -> Self {
        Self {
            masses,
            left: masses.rows.clone(),
            room: masses.cols.clone(),
            arcs: Vec::with_capacity(masses.rows.len() + masses.cols.len()),
        }
    }

    /// −g of the columns with room; +∞ for the others.
    fn open(&self, g: &[f64]) -> Vec<f64> {
        let open = g.iter().zip(&self.room);
        open.map(|(&g, &r)| if r > 0.0 { -g } else { f64::INFINITY })
            .collect()
    }

    /// Whether row `i` and column `j` both have mass to place.
    pub(super) fn pair_open(&self, i: usize, j: usize) -> bool {
        self.left[i] > 0.0 && self.room[j] > 0.0
    }

    /// Moves what fits from row `i` to column `j`; at least one of them is done afterwards.
    fn place(&mut self, i: usize, j: usize) {
        self.place_up_to(i, j, f64::INFINITY);
    }

    /// Moves what fits from row `i` to column `j`, and no more than `most`. Returns how much that was.
    pub(super) fn place_up_to(&mut self, i: usize, j: usize, most: f64) -> f64 {
        let moved = self.left[i].min(self.room[j]).min(most);
        self.arcs.push((i, j, moved));
        let dust = REMAINDER * self.masses.rows[i].max(self.masses.cols[j]);
        for rest in [&mut self.left[i], &mut self.room[j]] {
            *rest -= moved;
            if *rest <= dust {
                *rest = 0.0;
            }
        }
        moved
    }

    /// Rows take from the columns with the least `C_ij − g_j` that have room.
    pub(super) fn fill<T: Real, C: Cost<T>>(
        &mut self,
        lines: &mut AugmentedRows<'_, T, C>,
        g: &[f64],
    ) {
        let mut open = self.open(g);
        // The heaviest first, for what they do not find nearby costs most; the slack row, which finds
        // everything equally near, after all others.
        let mut order: Vec<usize> = (0..self.left.len()).collect();
        order[..lines.real_rows()].sort_by(|&a, &b| self.left[b].total_cmp(&self.left[a]));
        for i in order {
            while self.left[i] > 0.0 {
                let (price, j) = lines.cheapest(i, &open, f64::INFINITY);
                if price == f64::INFINITY {
                    break;
                }
                self.place(i, j);
                if self.room[j] == 0.0 {
                    open[j] = f64::INFINITY;
                }
            }
        }
    }

    fn eliminate_leaves(&mut self, tight: &[(usize, usize)]) {
        let rows = self.left.len();
        let nodes = rows + self.room.len();
        let ends = |at: usize| [tight[at].0, rows + tight[at].1];
        let mut around: Vec<Vec<u32>> = vec![Vec::new(); nodes];
        for at in 0..tight.len() {
            for v in ends(at) {
                around[v].push(at as u32);
            }
        }
        let mut degree: Vec<usize> = around.iter().map(Vec::len).collect();
        let mut alive = vec![true; tight.len()];
        let mut leaves: Vec<usize> = (0..nodes).filter(|&v| degree[v] == 1).collect();
        let mut next = 0;
        loop {
            // A leaf if there is one, otherwise any arc of a cycle.
            let arc = if let Some(v) = leaves.pop() {
                let mut arcs = around[v].iter().map(|&at| at as usize);
                arcs.find(|&at| alive[at])
            } else {
                while next < tight.len() && !alive[next] {
                    next += 1;
                }
                if next == tight.len() {
                    return;
                }
                Some(next)
            };
            let Some(arc) = arc else { continue };
            self.place(tight[arc].0, tight[arc].1);
            let done = [
                self.left[tight[arc].0] == 0.0,
                self.room[tight[arc].1] == 0.0,
            ];
            for (v, done) in ends(arc).into_iter().zip(done) {
                for &at in &around[v] {
                    let at = at as usize;
                    if alive[at] && (at == arc || done) {
                        alive[at] = false;
                        for w in ends(at) {
                            degree[w] -= 1;
                            if degree[w] == 1 {
                                leaves.push(w);
                            }
                        }
                    }
                }
            }
        }
    }

    /// What is placed, and nothing else.
    pub(super) fn into_arcs(self) -> Vec<(usize, usize, f64)> {
        self.arcs
    }

    /// Pairs whoever has no allowed partner left, unless it is dust.
    pub(super) fn finish(mut self) -> Plan {
        let over: f64 = self.left.iter().sum();
        let total: f64 = self.masses.rows.iter().sum();
        if over <= REMAINDER * total {
            return Plan {
                arcs: self.arcs,
                forbidden: false,
            };
        }
        let mut forbidden = false;
        let mut j = 0;
        for i in 0..self.left.len() {
            while self.left[i] > 0.0 && j < self.room.len() {
                if self.room[j] > 0.0 {
                    forbidden = true;
                    self.place(i, j);
                } else {
                    j += 1;
                }
            }
        }
        Plan {
            arcs: self.arcs,
            forbidden,
        }
    }
}

/// The tree of a forest of arcs; columns without mass are closed by a price of −∞.
pub(super) fn build_basis<T: Real, C: Cost<T>>(
    arcs: &[(usize, usize, f64)],
    lines: &AugmentedRows<'_, T, C>,
    masses: &Masses,
    g: &[f64],
) -> Tree {
    let mut tree = Tree::loose(lines.rows(), lines.cols());
    for (j, &g) in g.iter().enumerate() {
        let closed = masses.cols[j] == 0.0;
        let price = if closed { f64::NEG_INFINITY } else { g };
        tree.set_g(j, price);
    }
    for &(i, j, flow) in arcs {
        tree.link(i, j, flow, lines.at(i, j));
    }
    tree
}
