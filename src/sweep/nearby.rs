//! Sweeps over point clouds that pass over far pairs of clusters without looking.
//!
//! At small ε a row sees few columns: all others lie so far that they weigh nothing. Both clouds are put in k-d order
//! ([`Boxes`]). For a few neighbouring rows at a time, the tree of the columns is gone down from its root; for a box J of columns
//!
//! ```text
//! Σ_{j ∈ J} exp((g_j − C_ij)/ε)  ≤  |J| exp((max_J g − least cost between the boxes)/ε)
//! ```
//!
//! and where the right side is below a small share θ of the rows' own sums Z_i (as they were at the sweep before) the box is left
//! out. What is left is a list of leaves, swept as dense little blocks: costs from the coordinates, logits in `f64`, exponentials in
//! `f32` where the tolerance allows. Nothing is kept but one number a row, so that memory is O(n + m) and the lists are always
//! those of the potentials at hand.
//!
//! **Honest**: the right sides of all that was left out are added up. Over the *new* Z_i they bound, row by row, the share of the
//! plan that was not looked at; their mean Ω is part of the [resolution](Backend::resolution), so that no solver claims a tolerance
//! that what was left out could spoil. Where a row's bound comes out too large, because its Z was not what it was thought to
//! be, the row's best entry is searched for and the group is swept again. θ follows Ω.

use crate::cost::{Boxes, Points};
use crate::kernel::dispatch::dispatch;
use crate::kernel::lanes::{LANES, Lanes};
use crate::kernel::tiles::map_ranges;
use crate::problem::penalty::Law;
use crate::sweep::streamed::{largest_finite, resolution};
use crate::sweep::{Backend, DualPoint};
use crate::{Error, Metric, Real};

/// Fewest rows that are swept together.
const GROUP_ROWS: usize = 4;

/// Fewest columns of a leaf.
const LEAF_COLUMNS: usize = 16;

/// Groups of rows go into at most so many tiles.
const MOST_TILES: usize = 32;

/// Exponents are cut off here: whoever gets there is swept again.
const HIGHEST_EXPONENT: f64 = 60.0;

/// Sums of a row, relative to what they were thought to be, that are as good as any.
const EXPECTED_SUMS: core::ops::Range<f64> = 1e-12..1e18;

/// What a row may leave out, in multiples of what all may on average, before it is swept again.
const WORST_RATIO: f64 = 64.0;

/// Times that a group is swept again before it leaves out nothing.
const MOST_ATTEMPTS: usize = 4;

/// Logarithms below this are as good as this.
const LEAST_LOG: f64 = -45.0;

/// Entries whose exponentials are added up before they go to `f64`.
const STRETCH_ENTRIES: usize = 64;

/// Sweeps over two point clouds, exponentials in `S`.
pub(crate) struct Nearby<'a, T, S> {
    metric: &'a dyn Metric<T>,
    rows: Boxes<T>,
    cols: Boxes<T>,
    /// Row masses, place by place.
    masses: Vec<f64>,
    total: f64,
    law: Law,
    /// ε ln Z of every row, place by place, at the last sweep; NaN before the first.
    levels: Vec<f64>,
    epsilon: f64,
    shift: f64,
    /// Potentials of the last sweep, place by place, less the shift.
    last: Vec<f64>,
    /// How much of the mass may be left out, and what a box may weigh to be.
    share: f64,
    threshold: f64,
    resolution: f64,
    scalar: core::marker::PhantomData<S>,
}

/// One sweep's share of a tile.
struct Part {
    sums: Vec<f64>,
    levels: Vec<f64>,
    left_out: f64,
    /// What the rows give.
    given: f64,
    reach: f64,
}

/// What a tile works with.
struct Scratch<T, S> {
    leaves: Vec<usize>,
    stack: Vec<usize>,
    g: Vec<f64>,
    costs: Vec<T>,
    entries: Vec<S>,
    recent: Vec<S>,
}

impl<'a, T: Real, S: Real> Nearby<'a, T, S> {
    /// A backend for these points and row masses that may leave out `share` of the mass; `None` where the metric has no bounds.
    pub(crate) fn new(points: Points<'a, T>, masses: &[f64], share: f64) -> Option<Self> {
        if !is_bounded(&points) {
            return None;
        }
        let d = points.dimension;
        let rows = Boxes::new(points.rows, d, GROUP_ROWS);
        let cols = Boxes::new(points.cols, d, LEAF_COLUMNS);
        let masses: Vec<f64> = rows.order().iter().map(|&p| masses[p as usize]).collect();
        Some(Self {
            metric: points.metric,
            levels: vec![f64::NAN; masses.len()],
            total: masses.iter().sum(),
            law: Law::EXACT,
            masses,
            epsilon: 1.0,
            shift: 0.0,
            last: Vec::new(),
            share,
            threshold: share / 32.0,
            resolution: 8.0 * S::epsilon().widen(),
            scalar: core::marker::PhantomData,
            rows,
            cols,
        })
    }

    /// The leaves of columns that rows of `group` see, and what the others weigh at most in units of exp(`level`/ε).
    fn list(
        &self,
        group: usize,
        high: &[f64],
        level: f64,
        threshold: f64,
        scratch: &mut Scratch<T, S>,
    ) -> f64 {
        let here = self.rows.corners(self.rows.leaves() + group);
        let (leaves, inverse) = (self.cols.leaves(), 1.0 / self.epsilon);
        let drop_log = threshold.ln();
        let mut left_out = 0.0;
        scratch.leaves.clear();
        scratch.stack.clear();
        scratch.stack.push(1);
        while let Some(node) = scratch.stack.pop() {
            let apart = self
                .metric
                .least_between(here, self.cols.corners(node))
                .widen();
            let log =
                (high[node] - apart - level) * inverse + (self.cols.population(node) as f64).ln();
            if log <= drop_log {
                left_out += log.max(LEAST_LOG).exp();
            } else if node >= leaves {
                scratch.leaves.push(node - leaves);
            } else {
                scratch.stack.push(2 * node + 1);
                scratch.stack.push(2 * node);
            }
        }
        left_out
    }

    /// Sweeps the rows of a group; false where one of them turned out other than thought.
    #[allow(clippy::too_many_arguments)] // what it reads, and where it writes
    fn sweep_group(
        &self,
        group: usize,
        g: &[f64],
        slack: f64,
        left_out: (f64, f64),
        levels: &mut [f64],
        scratch: &mut Scratch<T, S>,
        part: &mut Part,
    ) -> bool {
        let (left_out, base) = left_out;
        let inverse = 1.0 / self.epsilon;
        let k = part.sums.len() - 1;
        let Scratch {
            leaves,
            g: near,
            costs,
            entries,
            recent,
            ..
        } = scratch;
        near.clear();
        for &leaf in leaves.iter() {
            near.extend_from_slice(&g[self.cols.places(leaf)]);
        }
        costs.resize(near.len(), T::zero());
        entries.resize(near.len(), S::zero());
        recent.clear();
        recent.resize(near.len(), S::zero());
        // Masses are added up in units of their mean, which the scalar can count in.
        let unit = self.total / self.masses.len() as f64;
        let (mut kept_by_slack, mut missed, mut given) = (0.0, 0.0, 0.0);
        for (place, level) in self.rows.places(group).zip(levels.iter_mut()) {
            let mass = self.masses[place];
            if mass == 0.0 {
                continue;
            }
            let x = self.rows.point(place);
            let mut rest = &mut costs[..];
            for &leaf in leaves.iter() {
                let (line, more) = rest.split_at_mut(self.cols.places(leaf).len());
                self.cols.costs(self.metric, x, leaf, line);
                rest = more;
            }
            let kept = ((slack - *level) * inverse).min(HIGHEST_EXPONENT).exp();
            let z = exponentiate(costs, near, *level, inverse, entries) + kept;
            let missing = left_out * ((base - *level) * inverse).exp() / z;
            if !(EXPECTED_SUMS.contains(&z) && missing <= WORST_RATIO * self.share) {
                return false;
            }
            *level += self.epsilon * z.ln();
            let mass = self
                .law
                .mass(self.epsilon, mass, (*level + self.shift) * inverse);
            let factor = mass / z;
            add(entries, S::narrow(factor / unit), recent);
            kept_by_slack += kept * factor;
            missed += missing * mass;
            given += mass;
        }
        let mut recent = &recent[..];
        for &leaf in leaves.iter() {
            let places = self.cols.places(leaf);
            let (here, more) = recent.split_at(places.len());
            for (s, r) in part.sums[places].iter_mut().zip(here) {
                *s += r.widen() * unit;
            }
            recent = more;
        }
        part.sums[k] += kept_by_slack;
        part.left_out += missed;
        part.given += given;
        true
    }

    /// Potentials of the rows, place by place, the shift added: `ε ln a − ε ln Z` where masses are kept; −∞ for a row without mass.
    fn shifted_potentials(&self) -> Vec<f64> {
        let (epsilon, shift) = (self.epsilon, self.shift);
        let each = self.masses.iter().zip(&self.levels);
        each.map(|(&mass, &level)| match (mass > 0.0, self.law.is_exact()) {
            (false, _) => f64::NEG_INFINITY,
            (true, true) => epsilon * mass.ln() - level,
            (true, false) => self.law.potential(epsilon, mass, (level + shift) / epsilon) + shift,
        })
        .collect()
    }

    /// Sweeps a tile of groups.
    fn tile(&self, groups: core::ops::Range<usize>, g: &[f64], high: &[f64], slack: f64) -> Part {
        let mut part = Part {
            sums: vec![0.0; g.len() + 1],
            levels: Vec::new(),
            left_out: 0.0,
            given: 0.0,
            reach: 0.0,
        };
        let mut scratch = Scratch {
            leaves: Vec::new(),
            stack: Vec::new(),
            g: Vec::new(),
            costs: Vec::new(),
            entries: Vec::new(),
            recent: Vec::new(),
        };
        for group in groups {
            let places = self.rows.places(group);
            let mut levels = self.levels[places.clone()].to_vec();
            let carries = |place: usize| self.masses[place] > 0.0;
            let mut threshold = self.threshold;
            let mut attempts = 0;
            loop {
                let carried = places.clone().zip(&levels).filter(|(p, _)| carries(*p));
                let base = carried
                    .map(|(_, l)| *l)
                    .fold(f64::INFINITY, |a, b| if b.is_nan() { b } else { a.min(b) });
                if base == f64::INFINITY {
                    break; // nobody here has any mass
                }
                if !base.is_nan() {
                    let left_out = self.list(group, high, base, threshold, &mut scratch);
                    let before = levels.clone();
                    let left_out = (left_out, base);
                    let fine = self.sweep_group(
                        group,
                        g,
                        slack,
                        left_out,
                        &mut levels,
                        &mut scratch,
                        &mut part,
                    );
                    if fine {
                        break;
                    }
                    levels = before;
                    attempts += 1;
                    // Nothing at all is left out in the end.
                    threshold *= if attempts < MOST_ATTEMPTS { 1e-3 } else { 0.0 };
                }
                for (place, level) in places.clone().zip(&mut levels) {
                    if carries(place) {
                        let top = best(
                            &self.cols,
                            self.metric,
                            g,
                            high,
                            self.rows.point(place),
                            &mut scratch.stack,
                            &mut scratch.costs,
                        );
                        *level = top.max(slack);
                    }
                }
            }
            part.reach = levels.iter().fold(part.reach, |m, l| m.max(l.abs()));
            part.levels.extend(levels);
        }
        part
    }
}

/// Whether boxes of points say anything about costs between them, from either side.
pub(crate) fn is_bounded<T: Real>(points: &Points<'_, T>) -> bool {
    let d = points.dimension;
    let (x, y) = (&points.rows[..d], &points.cols[..d]);
    points.metric.is_symmetric() && points.metric.least_between((x, x), (y, y)) > T::neg_infinity()
}

/// The largest `values_j − C(x, y_j)`.
fn best<T: Real>(
    tree: &Boxes<T>,
    metric: &dyn Metric<T>,
    values: &[f64],
    high: &[f64],
    x: &[T],
    stack: &mut Vec<usize>,
    costs: &mut Vec<T>,
) -> f64 {
    let leaves = tree.leaves();
    let bound = |node: usize| high[node] - metric.least_between((x, x), tree.corners(node)).widen();
    let mut top = f64::NEG_INFINITY;
    stack.clear();
    stack.push(1);
    while let Some(node) = stack.pop() {
        if !(bound(node) > top) {
            continue;
        }
        if node < leaves {
            // The more promising one is looked at first.
            let (one, two) = (2 * node, 2 * node + 1);
            let first = if bound(one) < bound(two) { two } else { one };
            stack.extend([one + two - first, first]);
            continue;
        }
        let places = tree.places(node - leaves);
        costs.resize(places.len(), T::zero());
        tree.costs(metric, x, node - leaves, costs);
        let logits = values[places].iter().zip(costs.iter());
        top = logits.map(|(v, c)| v - c.widen()).fold(top, f64::max);
    }
    top
}

/// `ln Σ_j exp((values_j − C(x, y_j))/ε)`, from the definition but for what is below the last digit.
fn log_sum<T: Real>(
    tree: &Boxes<T>,
    metric: &dyn Metric<T>,
    values: &[f64],
    high: &[f64],
    x: &[T],
    epsilon: f64,
) -> f64 {
    let (mut stack, mut costs) = (Vec::new(), Vec::new());
    let top = best(tree, metric, values, high, x, &mut stack, &mut costs);
    if top == f64::NEG_INFINITY {
        return top;
    }
    let leaves = tree.leaves();
    let mut sum = 0.0;
    stack.push(1);
    while let Some(node) = stack.pop() {
        let apart = metric.least_between((x, x), tree.corners(node)).widen();
        if (high[node] - apart - top) / epsilon < LEAST_LOG {
            continue;
        }
        if node < leaves {
            stack.extend([2 * node + 1, 2 * node]);
            continue;
        }
        let places = tree.places(node - leaves);
        costs.resize(places.len(), T::zero());
        tree.costs(metric, x, node - leaves, &mut costs);
        let logits = values[places].iter().zip(&costs);
        sum += logits
            .map(|(v, c)| ((v - c.widen() - top) / epsilon).exp())
            .sum::<f64>();
    }
    crate::sweep::streamed::exponent(top, epsilon) + sum.ln()
}

dispatch! {
    /// Writes `exp((g − C − level)/ε)` and returns the sum.
    fn exponentiate<T: Real, S: Real>(
        costs: &[T],
        g: &[f64],
        level: f64,
        inverse: f64,
        out: &mut [S],
    ) -> f64 {
        let mut z = 0.0;
        let parts = out.chunks_mut(STRETCH_ENTRIES).zip(costs.chunks(STRETCH_ENTRIES).zip(g.chunks(STRETCH_ENTRIES)));
        for (out, (costs, g)) in parts {
            for (e, (c, g)) in out.iter_mut().zip(costs.iter().zip(g)) {
                let exponent = (*g - c.widen() - level) * inverse;
                let exponent = if exponent > HIGHEST_EXPONENT { HIGHEST_EXPONENT } else { exponent };
                *e = S::narrow(exponent).quick_exp();
            }
            let (chunks, rest) = out.as_chunks::<LANES>();
            let mut chains = Lanes::splat(S::zero());
            for chunk in chunks {
                chains = chains.zip(Lanes::of(chunk), |a, b| a + b);
            }
            z += chains.sum().widen();
            for e in rest {
                z += e.widen();
            }
        }
        z
    }
}

dispatch! {
    /// Adds a row's entries, times a factor.
    fn add<S: Real>(entries: &[S], factor: S, recent: &mut [S]) {
        for (r, &e) in recent.iter_mut().zip(entries) {
            *r += e * factor;
        }
    }
}

impl<T, S> core::fmt::Debug for Nearby<'_, T, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Nearby")
            .field("rows", &self.masses.len())
            .finish_non_exhaustive()
    }
}

impl<T: Real, S: Real> Backend for Nearby<'_, T, S> {
    fn name(&self) -> &'static str {
        "nearby"
    }

    fn rows(&self) -> usize {
        self.masses.len()
    }

    fn cols(&self) -> usize {
        self.cols.order().len()
    }

    fn sweep(&mut self, at: &DualPoint<'_>, sums: &mut [f64]) -> Result<(), Error> {
        let k = self.cols();
        let shift = largest_finite(at);
        // Levels follow the shift, and stay where they are in ε.
        let moved = shift - self.shift;
        self.levels.iter_mut().for_each(|level| *level -= moved);
        (self.shift, self.epsilon) = (shift, at.epsilon);
        let g: Vec<f64> = self
            .cols
            .order()
            .iter()
            .map(|&p| at.cols[p as usize] - shift)
            .collect();
        let (high, slack) = (self.cols.highest(&g), at.slack - shift);
        let groups = self.rows.leaves();
        let tile = groups.div_ceil(MOST_TILES);
        let parts = map_ranges(groups, tile, |groups| self.tile(groups, &g, &high, slack));
        let mut found = vec![0.0; k + 1];
        let (mut left_out, mut given, mut reach, mut from) = (0.0, 0.0, 0.0f64, 0);
        for part in parts {
            found.iter_mut().zip(&part.sums).for_each(|(s, p)| *s += p);
            self.levels[from..from + part.levels.len()].copy_from_slice(&part.levels);
            from += part.levels.len();
            left_out += part.left_out;
            given += part.given;
            reach = reach.max(part.reach);
        }
        sums[k] = found[k];
        for (&p, s) in self.cols.order().iter().zip(&found) {
            sums[p as usize] = *s;
        }
        self.last = g;
        let left_out = if given > 0.0 { left_out / given } else { 0.0 };
        // An entry's exponent is off by its own size times the last digit: on average over a row no more than the entropy.
        let narrow = S::epsilon().widen() * (6.0 + (k as f64 + 1.0).ln());
        self.resolution = resolution::<f64>(at, shift, reach) + narrow + left_out;
        let by = if left_out > 0.0 {
            0.5 * self.share / left_out
        } else {
            4.0
        };
        self.threshold =
            (self.threshold * by.clamp(0.05, 4.0)).clamp(1e-9 * self.share, self.share);
        Ok(())
    }

    fn log_sums(&mut self, cols: &[usize], out: &mut [f64]) -> Result<(), Error> {
        let f = self.shifted_potentials();
        let (high, mut place) = (self.rows.highest(&f), vec![0u32; self.cols()]);
        for (at, &p) in self.cols.order().iter().enumerate() {
            place[p as usize] = at as u32;
        }
        let logs = map_ranges(cols.len(), 64, |range| {
            let one = |&j: &usize| {
                let at = place[j] as usize;
                let (y, epsilon) = (self.cols.point(at), self.epsilon);
                let log = log_sum(&self.rows, self.metric, &f, &high, y, epsilon);
                log + self.last[at] / epsilon
            };
            cols[range].iter().map(one).collect::<Vec<f64>>()
        });
        out.iter_mut()
            .zip(logs.into_iter().flatten())
            .for_each(|(o, l)| *o = l);
        Ok(())
    }

    fn row_potentials(&mut self, out: &mut [f64]) -> Result<(), Error> {
        for (&p, f) in self.rows.order().iter().zip(self.shifted_potentials()) {
            out[p as usize] = f - self.shift;
        }
        Ok(())
    }

    fn resolution(&self) -> f64 {
        self.resolution
    }

    fn obey(&mut self, law: &Law) -> bool {
        self.law = *law;
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sweep::conformance;
    use crate::{
        Cost, Euclidean, Manhattan, Marginals, Penalty, PointCloud, Problem, SquaredEuclidean,
    };

    fn points<T: Real>(count: usize, d: usize, step: f64) -> Vec<T> {
        let far = |at: usize| if at / d % 41 == 3 { 5.0 } else { 1.0 };
        let unit = |at: usize| far(at) * (at as f64 * step).fract();
        (0..count * d).map(|at| T::narrow(unit(at + 1))).collect()
    }

    /// Sweeps like the definition, from potentials of rest and from others, after any other sweep.
    fn conforms<T: Real, S: Real, M: Metric<T>>(metric: M, d: usize, share: f64, allowed: f64) {
        for (n, m) in [(211, 157), (3, 90), (90, 1)] {
            let (x, y) = (
                points::<T>(n, d, 0.618_033_988),
                points::<T>(m, d, 0.754_877_666),
            );
            let cloud = PointCloud::new(&x, &y, d, &metric).unwrap();
            let a: Vec<f64> = (0..n).map(|i| (i % 4) as f64).collect();
            let kept = Marginals::bounded(&a, &vec![1.0; m], 0.5).unwrap();
            let kl = Penalty::Kl(0.3);
            let penalised = Marginals::relaxed(&a, &vec![1.0; m], kl, kl).unwrap();
            let masses = kept.rows().to_vec();
            let mut backend = Nearby::<T, S>::new(cloud.points().unwrap(), &masses, share).unwrap();
            for (epsilon, tilt, slack) in [
                (1e-3, 0.0, f64::NEG_INFINITY),
                (1e-3, 0.3, -0.1),
                (0.3, -0.2, 0.4),
                (1e-3, 9.0, f64::NEG_INFINITY),
            ] {
                let mut cols: Vec<f64> = (0..m).map(|j| tilt * (j % 7) as f64).collect();
                if m > 1 {
                    cols[m / 2] = f64::NEG_INFINITY;
                }
                let at = DualPoint {
                    epsilon,
                    cols: &cols,
                    slack,
                };
                for marginals in [&kept, &penalised] {
                    // A penalised row of this potential would carry more than there are numbers for.
                    if marginals.is_relaxed() && tilt > 1.0 {
                        continue;
                    }
                    let problem = Problem::new(&cloud, marginals.clone()).unwrap();
                    let found = conformance(&mut backend, &problem, &at).unwrap();
                    let blur = 2.0 * backend.resolution();
                    assert!(
                        found.sums <= blur.min(allowed),
                        "{found:?} {blur} {epsilon} {tilt}"
                    );
                    assert!(
                        found.row_potentials <= allowed,
                        "{found:?} {epsilon} {tilt}"
                    );
                    assert!(found.log_sums <= allowed, "{found:?} {epsilon} {tilt}");
                }
            }
        }
    }

    #[test]
    fn sweeps_are_those_of_the_definition() {
        conforms::<f64, f64, _>(SquaredEuclidean, 2, 1e-12, 1e-9);
        conforms::<f64, f64, _>(Euclidean, 3, 1e-12, 1e-9);
        conforms::<f32, f64, _>(Manhattan, 1, 1e-12, 1e-9);
        conforms::<f64, f32, _>(SquaredEuclidean, 2, 1e-6, 1e-4);
        conforms::<f32, f32, _>(Euclidean, 2, 1e-6, 1e-4);
    }

    #[test]
    fn metrics_without_bounds_are_refused() {
        let (x, y) = (
            points::<f64>(50, 2, 0.618_033_988),
            points(40, 2, 0.754_877_666),
        );
        let cloud = PointCloud::new(&x, &y, 2, crate::Cosine).unwrap();
        assert!(Nearby::<f64, f64>::new(cloud.points().unwrap(), &[1.0; 50], 1e-9).is_none());
    }
}
