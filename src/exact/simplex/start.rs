//! A first feasible plan: every row in turn fills the columns that are cheapest for it.
//!
//! Each step empties a row or fills a column, so the arcs form a forest and are a basis at once. Where
//! forbidden pairs leave rows and columns over, they are paired regardless; phase one then moves that
//! mass to allowed pairs, or proves that it cannot be done.

use super::augmented_rows::AugmentedRows;
use super::multiscale::forest;
use super::pricing::Arcs;
use super::tree::Tree;
use crate::cost::Room;
use crate::exact::lists::Source;
use crate::exact::max_flow::MaxFlow;
use crate::kernel::rounding::{REMAINDER, STRANDED_SHARE};
use crate::solver::Guard;
use crate::{Cost, Error, Marginals, Real, Slack};

/// Arcs of each row and of each column that are looked at for a tree at given prices.
const ARCS_PER_NODE: usize = 6;

/// Fewest rows with mass to place for which columns are put in boxes, and columns that are closed before bounds are gathered afresh.
const FEWEST_FOR_BOXES: usize = 64;
const REFRESH_AFTER: usize = 256;

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
/// single arc must use it; what does not fit is placed greedily. Arcs come from a source where there is one, and otherwise from all.
pub(super) fn eliminate_leaves<T: Real, C: Cost<T>>(
    lines: &mut AugmentedRows<'_, T, C>,
    masses: &Masses,
    g: &[f64],
    source: Option<&mut dyn Source>,
) -> Plan {
    let mut hands = Hands::new(masses);
    let open = hands.open(g);
    let near = match source {
        Some(source) => tightest_listed(source, masses, &open),
        None => tightest(lines, masses, &open),
    };
    hands.eliminate_leaves(&spanning_forest(near, masses));
    hands.fill(lines, g);
    hands.finish()
}

/// The same plan without forbidden pairs, where the cost names those that are allowed and there is no slack: mass that has no place finds
/// one along shortest ways, whatever they cost. A forest again.
pub(super) fn along_pairs<T: Real, C: Cost<T>>(
    lines: &AugmentedRows<'_, T, C>,
    masses: &Masses,
    g: &[f64],
    first: Plan,
    total: f64,
    guard: &Guard<'_>,
) -> Result<Plan, Error> {
    let Some(pairs) = lines.pairs_alone().filter(|_| first.forbidden) else {
        return Ok(first);
    };
    let both = (&masses.rows[..], &masses.cols[..]);
    let mut flow = MaxFlow::new(pairs, both, first.arcs.iter().copied());
    let Some(stranded) = flow.run(guard) else {
        return Ok(first);
    };
    if stranded > STRANDED_SHARE * total {
        return Err(Error::Infeasible { stranded, total });
    }
    let arcs: Vec<_> = flow.entries().collect();
    Ok(Plan {
        arcs: forest(&arcs, lines, masses, g),
        forbidden: false,
    })
}

/// The few arcs of least slack `C_ij + h_j − f_i` of every row and column, as (slack, row, column).
fn tightest<T: Real, C: Cost<T>>(
    lines: &mut AugmentedRows<'_, T, C>,
    masses: &Masses,
    h: &[f64],
) -> Vec<(f64, usize, usize)> {
    let mut near = Vec::with_capacity(ARCS_PER_NODE * (masses.rows.len() + masses.cols.len()));
    let mut by_col = vec![Fewest::default(); masses.cols.len()];
    for i in (0..masses.rows.len()).filter(|&i| masses.rows[i] > 0.0) {
        let mut by_row = Fewest::default();
        let (f, _) = lines.cheapest(i, h, f64::INFINITY);
        for j in lines.columns(i) {
            let slack = lines.at(i, j) + h[j] - f;
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

/// The same from a source of such pairs, where there is no slack row or column.
fn tightest_listed(
    source: &mut dyn Source,
    masses: &Masses,
    h: &[f64],
) -> Vec<(f64, usize, usize)> {
    let mut g: Vec<f64> = h.iter().map(|h| -h).collect();
    let mut list = source.short_list(&mut g, ARCS_PER_NODE);
    let carries =
        |p: &(u32, u32, f64)| masses.rows[p.0 as usize] > 0.0 && masses.cols[p.1 as usize] > 0.0;
    list.retain(carries);
    let mut f = vec![f64::INFINITY; masses.rows.len()];
    for &(i, j, c) in &list {
        f[i as usize] = f[i as usize].min(c - g[j as usize]);
    }
    let slack = |&(i, j, c): &(u32, u32, f64)| {
        let (i, j) = (i as usize, j as usize);
        (c - g[j] - f[i], i, j)
    };
    list.iter().map(slack).collect()
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

/// The `ARCS_PER_NODE` least of what is offered, finite ones only.
#[derive(Clone, Copy)]
struct Fewest([(f64, usize); ARCS_PER_NODE]);

impl Default for Fewest {
    fn default() -> Self {
        Self([(f64::INFINITY, 0); ARCS_PER_NODE])
    }
}

impl Fewest {
    fn offer(&mut self, value: f64, index: usize) {
        if value < self.0[ARCS_PER_NODE - 1].0 {
            self.0[ARCS_PER_NODE - 1] = (value, index);
            let mut at = ARCS_PER_NODE - 1;
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
        let (real_rows, mut room) = (lines.real_rows(), Room::default());
        // Boxes are worth their making where more than a few rows have mass to place.
        let rows = self.left.iter().filter(|l| **l > 0.0).count();
        let mut near = if rows >= FEWEST_FOR_BOXES {
            lines.boxes(&open)
        } else {
            None
        };
        // The heaviest first, for what they do not find nearby costs most; the slack row, which finds
        // everything equally near, after all others.
        let mut order: Vec<usize> = (0..self.left.len()).collect();
        order[..real_rows].sort_by(|&a, &b| self.left[b].total_cmp(&self.left[a]));
        let mut closed = 0;
        for i in order {
            while self.left[i] > 0.0 {
                let (price, j) = match &near {
                    Some(near) if i < real_rows => {
                        near.cheapest(i, &open, lines.slack(i, &open), &mut room)
                    }
                    _ => lines.cheapest(i, &open, f64::INFINITY),
                };
                if price == f64::INFINITY {
                    break;
                }
                self.place(i, j);
                if self.room[j] == 0.0 {
                    open[j] = f64::INFINITY;
                    closed += 1;
                    if let Some(near) = near.as_mut().filter(|_| closed % REFRESH_AFTER == 0) {
                        near.refresh(&open);
                    }
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

    /// Whether everything is placed, up to dust.
    pub(super) fn is_done(&self) -> bool {
        let over: f64 = self.left.iter().sum();
        let total: f64 = self.masses.rows.iter().sum();
        over <= REMAINDER * total
    }

    /// Pairs whoever has no allowed partner left, unless it is dust.
    pub(super) fn finish(mut self) -> Plan {
        if self.is_done() {
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
