//! Sweeps over a grid, one axis after the other: n · Σ sides instead of n².
//!
//! A line of the grid with its largest logarithm taken out is multiplied with the axis' own table of exponentials; entries of which
//! underflow leaves nothing are worked out term by term, so that no ε is too small.

use super::backend::{Backend, DualPoint};
use super::log_kernel::{LogKernel, Onto, UNDERFLOW};
use super::streamed::{largest_finite, resolution};
use crate::cost::Grid;
use crate::kernel::exp::log_sum_exp;
use crate::kernel::product::product;
use crate::kernel::tiles::{map_ranges, map_tiles};
use crate::problem::penalty::Law;
use crate::{Error, Real, Side};

/// Entries of a line of sums that one thread finishes at a time.
const TILE: usize = 1 << 12;

/// One axis' exponentials, towards its rows and towards its columns, and their logarithms.
#[derive(Debug, Clone)]
struct Axis {
    tables: [Vec<f64>; 2],
    logs: [Vec<f64>; 2],
}

impl Axis {
    fn new(side: usize, logs: impl Fn(usize, usize) -> f64) -> Self {
        let table = |mirrored: bool| -> Vec<f64> {
            let pairs = (0..side).flat_map(|i| (0..side).map(move |j| (i, j)));
            pairs
                .map(|(i, j)| if mirrored { logs(j, i) } else { logs(i, j) })
                .collect()
        };
        let logs = [table(false), table(true)];
        let tables = [0, 1].map(|k: usize| logs[k].iter().map(|l: &f64| l.exp()).collect());
        Self { tables, logs }
    }
}

/// The kernel of a grid at one ε.
#[derive(Debug, Clone)]
pub(crate) struct GridKernel<'a> {
    grid: &'a Grid,
    axes: Vec<Axis>,
}

impl<'a> GridKernel<'a> {
    pub(crate) fn new(grid: &'a Grid, epsilon: f64) -> Self {
        let axis = |(a, &side): (usize, &usize)| {
            let costs = grid.axis(a);
            Axis::new(side, |i, j| -costs[i * side + j] / epsilon)
        };
        Self {
            grid,
            axes: grid.sides().iter().enumerate().map(axis).collect(),
        }
    }

    /// The same kernel times the costs of one axis less the least of them: what ⟨C, P⟩ is summed from.
    pub(crate) fn weighed(&self, axis: usize, least: f64) -> Self {
        let (side, costs) = (self.grid.sides()[axis], self.grid.axis(axis));
        let mut axes = self.axes.clone();
        axes[axis] = Axis::new(side, |i, j| {
            (costs[i * side + j] - least).ln() + self.axes[axis].logs[0][i * side + j]
        });
        Self {
            grid: self.grid,
            axes,
        }
    }

    pub(crate) fn soft_one(&self, onto: Onto, v: &[f64]) -> Vec<f64> {
        let mut now = v.to_vec();
        let mut sums = vec![0.0; now.len()];
        for a in 0..self.axes.len() {
            self.pass(a, onto, &mut now, &mut sums);
        }
        now
    }

    /// The soft transform along one axis, over `v`.
    fn pass(&self, a: usize, onto: Onto, v: &mut [f64], sums: &mut [f64]) {
        let side = self.grid.sides()[a];
        let (_, inner) = self.grid.strides(a);
        let (own, other) = match onto {
            Onto::Rows => (0, 1),
            Onto::Cols => (1, 0),
        };
        let axis = &self.axes[a];
        // The largest of each line, and the line's exponentials below it.
        let tops = tops(v, side, inner);
        let mut scaled = v.to_vec();
        map_tiles(&mut scaled, TILE, |range, part| {
            for (x, at) in part.iter_mut().zip(range) {
                let top = tops[at / (side * inner) * inner + at % inner];
                *x = if top == f64::NEG_INFINITY {
                    0.0
                } else {
                    (*x - top).quick_exp()
                };
            }
        });
        if inner == 1 {
            product(&scaled, &axis.tables[other], side, side, sums);
        } else {
            let blocks = scaled
                .chunks_exact(side * inner)
                .zip(sums.chunks_exact_mut(side * inner));
            blocks.for_each(|(block, out)| product(&axis.tables[own], block, side, inner, out));
        }
        let before = &*v;
        let finished = |at: usize| -> f64 {
            let (block, within) = (at / (side * inner), at % inner);
            let top = tops[block * inner + within];
            if top == f64::NEG_INFINITY {
                return top;
            }
            if sums[at] > UNDERFLOW {
                return sums[at].ln() + top;
            }
            let line = &axis.logs[own][at / inner % side * side..][..side];
            let first = block * side * inner + within;
            let terms = line.iter().enumerate();
            log_sum_exp(terms.map(|(k, l)| before[first + k * inner] + l))
        };
        let done = map_ranges(before.len(), TILE, |range| {
            range.map(finished).collect::<Vec<f64>>()
        });
        for (part, place) in done.iter().zip(v.chunks_mut(TILE)) {
            place.copy_from_slice(part);
        }
    }
}

/// The largest value of each line along an axis.
fn tops(v: &[f64], side: usize, inner: usize) -> Vec<f64> {
    let mut tops = vec![f64::NEG_INFINITY; v.len() / side];
    for (block, tops) in v
        .chunks_exact(side * inner)
        .zip(tops.chunks_exact_mut(inner))
    {
        for line in block.chunks_exact(inner) {
            tops.iter_mut().zip(line).for_each(|(t, x)| *t = t.max(*x));
        }
    }
    tops
}

impl LogKernel for GridKernel<'_> {
    fn soft(&self, onto: Onto, vectors: &[Vec<f64>]) -> Vec<Vec<f64>> {
        map_ranges(vectors.len(), 1, |k| self.soft_one(onto, &vectors[k.start]))
    }

    fn hard(&self, onto: Onto, potentials: &[f64]) -> Vec<f64> {
        // min_j (c_a + c_b − g_j), one axis after the other.
        let mut now: Vec<f64> = potentials.iter().map(|g| -g).collect();
        for (a, &side) in self.grid.sides().iter().enumerate() {
            let (_, inner) = self.grid.strides(a);
            let costs = self.grid.axis(a);
            let cost = |i: usize, k: usize| match onto {
                Onto::Rows => costs[i * side + k],
                Onto::Cols => costs[k * side + i],
            };
            let mut next = vec![f64::INFINITY; now.len()];
            let before = &now;
            map_tiles(&mut next, inner * tile_lines(inner), |range, lines| {
                for (line, at) in lines.chunks_mut(inner).zip(range.start / inner..) {
                    let (block, i) = (at / side, at % side);
                    for k in 0..side {
                        let from = &before[(block * side + k) * inner..][..inner];
                        let c = cost(i, k);
                        line.iter_mut()
                            .zip(from)
                            .for_each(|(o, x)| *o = o.min(c + x));
                    }
                }
            });
            now = next;
        }
        now
    }
}

fn tile_lines(inner: usize) -> usize {
    (TILE / 8).div_ceil(inner)
}

/// Sweeps over a grid in n · Σ sides time and O(n) memory.
///
/// # Examples
/// ```
/// use earthmover::sweep::{Backend, DualPoint, GridSweeps};
/// use earthmover::Grid;
/// let grid = Grid::unit(&[2, 2])?;
/// let mut backend = GridSweeps::new(&grid, &[0.25; 4]);
/// let mut sums = [0.0; 5];
/// let at = DualPoint { epsilon: 0.1, cols: &[0.0; 4], slack: f64::NEG_INFINITY };
/// backend.sweep(&at, &mut sums)?;
/// assert!((sums[3] - 0.25).abs() < 1e-12);
/// # Ok::<(), earthmover::Error>(())
/// ```
#[derive(Debug)]
pub struct GridSweeps<'a> {
    grid: &'a Grid,
    masses: Vec<f64>,
    kernel: Option<(f64, GridKernel<'a>)>,
    law: Law,
    /// ln Z of the rows, and ln of the columns' sums, at the last sweep.
    rows: Vec<f64>,
    sums: Vec<f64>,
    shift: f64,
    resolution: f64,
}

impl<'a> GridSweeps<'a> {
    /// A backend for a grid with these row masses, one for each cell.
    #[must_use]
    pub fn new(grid: &'a Grid, masses: &[f64]) -> Self {
        let cells = grid.sides().iter().product();
        let mut masses = masses.to_vec();
        masses.resize(cells, 0.0);
        Self {
            grid,
            rows: vec![f64::NEG_INFINITY; cells],
            sums: vec![f64::NEG_INFINITY; cells],
            masses,
            kernel: None,
            law: Law::EXACT,
            shift: 0.0,
            resolution: 8.0 * f64::EPSILON,
        }
    }
}

impl GridSweeps<'_> {
    /// ln u of a row, less the shift: its potential over ε; −∞ where it carries nothing.
    fn log_scaling(&self, epsilon: f64, mass: f64, log_sum: f64) -> f64 {
        if mass == 0.0 || log_sum == f64::NEG_INFINITY {
            return f64::NEG_INFINITY;
        }
        if self.law.is_exact() {
            return mass.ln() - log_sum;
        }
        let shift = self.shift / epsilon;
        self.law.potential(epsilon, mass, log_sum + shift) / epsilon + shift
    }
}

impl Backend for GridSweeps<'_> {
    fn name(&self) -> &'static str {
        "grid"
    }

    fn rows(&self) -> usize {
        self.masses.len()
    }

    fn cols(&self) -> usize {
        self.masses.len()
    }

    fn sweep(&mut self, at: &DualPoint<'_>, sums: &mut [f64]) -> Result<(), Error> {
        let epsilon = at.epsilon;
        self.shift = largest_finite(at);
        if self.kernel.as_ref().is_none_or(|k| k.0 != epsilon) {
            self.kernel = Some((epsilon, GridKernel::new(self.grid, epsilon)));
        }
        let Some((_, kernel)) = &self.kernel else {
            return Ok(());
        };
        let v: Vec<f64> = at.cols.iter().map(|g| (g - self.shift) / epsilon).collect();
        let slack = (at.slack - self.shift) / epsilon;
        let mut rows = kernel.soft_one(Onto::Rows, &v);
        let mut kept = crate::kernel::rounding::Sum::default();
        let mut reach = 0.0f64;
        let mut scalings = vec![f64::NEG_INFINITY; rows.len()];
        for (index, (z, &mass)) in rows.iter_mut().zip(&self.masses).enumerate() {
            if mass == 0.0 {
                continue;
            }
            let top = z.max(slack);
            let whole = if slack > f64::NEG_INFINITY {
                top + ((*z - top).exp() + (slack - top).exp()).ln()
            } else {
                top
            };
            if whole == f64::NEG_INFINITY && !self.law.is_exact() {
                *z = whole;
                continue;
            }
            if whole == f64::NEG_INFINITY {
                return Err(Error::Blocked {
                    side: Side::Rows,
                    index,
                    mass,
                });
            }
            *z = whole;
            scalings[index] = self.log_scaling(epsilon, mass, whole);
            reach = reach.max(epsilon * whole.abs());
            kept.add((scalings[index] + slack).exp());
        }
        self.rows = rows;
        self.sums = kernel.soft_one(Onto::Cols, &scalings);
        for ((log, v), sum) in self.sums.iter_mut().zip(&v).zip(sums.iter_mut()) {
            *log += v;
            *sum = log.exp();
        }
        sums[self.masses.len()] = kept.value();
        self.resolution = resolution::<f64>(at, self.shift, reach);
        Ok(())
    }

    fn log_sums(&mut self, cols: &[usize], out: &mut [f64]) -> Result<(), Error> {
        for (j, o) in cols.iter().zip(out) {
            *o = self.sums[*j];
        }
        Ok(())
    }

    fn row_potentials(&mut self, out: &mut [f64]) -> Result<(), Error> {
        let epsilon = self.kernel.as_ref().map_or(1.0, |k| k.0);
        for ((o, &z), &mass) in out.iter_mut().zip(&self.rows).zip(&self.masses) {
            let u = self.log_scaling(epsilon, mass, z);
            *o = if u == f64::NEG_INFINITY {
                u
            } else {
                epsilon * u - self.shift
            };
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
    use crate::kernel::random::Random;
    use crate::sweep::conformance;
    use crate::{Marginals, Penalty, Problem};

    #[test]
    fn sweeps_keep_the_laws_in_one_to_three_dimensions() {
        let mut random = Random::new(61, 0);
        for sides in [&[7][..], &[4, 5], &[3, 2, 4]] {
            let grid = Grid::unit(sides).unwrap();
            let n = sides.iter().product::<usize>();
            let mut masses: Vec<f64> = (0..n).map(|_| random.unit()).collect();
            masses[n / 2] = 0.0;
            let skewed: Vec<Vec<f64>> = sides
                .iter()
                .map(|s| (0..s * s).map(|_| random.unit()).collect())
                .collect();
            let tables: Vec<&[f64]> = skewed.iter().map(Vec::as_slice).collect();
            let skewed = Grid::per_axis(sides, &tables).unwrap();
            for grid in [&grid, &skewed] {
                for epsilon in [1.0, 0.05, 1e-3, 1e-5] {
                    let mut cols: Vec<f64> = (0..n).map(|_| random.unit()).collect();
                    cols[0] = f64::NEG_INFINITY;
                    for slack in [f64::NEG_INFINITY, 0.3] {
                        let point = DualPoint {
                            epsilon,
                            cols: &cols,
                            slack,
                        };
                        let mut backend = GridSweeps::new(grid, &masses);
                        let kept = Penalty::Exact;
                        for penalty in [kept, Penalty::Kl(0.5)] {
                            let marginals = Marginals::relaxed(&masses, &masses, penalty, kept);
                            let problem = Problem::new(grid, marginals.unwrap()).unwrap();
                            let off = conformance(&mut backend, &problem, &point).unwrap();
                            assert!(off.sums < 1e-8, "{sides:?} {epsilon}: {off:?}");
                            assert!(off.row_potentials < 1e-8, "{sides:?} {epsilon}: {off:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn hard_transforms_are_least_entries() {
        use crate::Cost;
        let mut random = Random::new(62, 0);
        let tables: Vec<Vec<f64>> = [3usize, 4]
            .iter()
            .map(|s| (0..s * s).map(|_| random.unit()).collect())
            .collect();
        let grid = Grid::per_axis(&[3, 4], &[&tables[0], &tables[1]]).unwrap();
        let kernel = GridKernel::new(&grid, 1.0);
        let g: Vec<f64> = (0..12).map(|_| random.normal()).collect();
        let (rows, cols) = (kernel.hard(Onto::Rows, &g), kernel.hard(Onto::Cols, &g));
        for i in 0..12 {
            let least = |f: &dyn Fn(usize) -> f64| (0..12).map(f).fold(f64::INFINITY, f64::min);
            assert!((rows[i] - least(&|j| grid.at(i, j) - g[j])).abs() < 1e-14);
            assert!((cols[i] - least(&|j| grid.at(j, i) - g[j])).abs() < 1e-14);
        }
    }
}
