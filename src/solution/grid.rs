//! Certificates of plans on grids, one axis after the other.
//!
//! The same bounds as for any cost. The plan's cost is a sum over the axes, each a soft transform with that axis' exponentials times its
//! costs; rounding scales columns, which changes logarithms only, and fills in a rank-one rest, whose cost needs the rests' sums
//! along each axis; the hard transform that makes potentials feasible goes axis by axis, too. So a certificate takes n · Σ sides.

use crate::Marginals;
use crate::cost::Grid;
use crate::kernel::rounding::{LOOSE, Sum, sum};
use crate::solution::certificate::Certificate;
use crate::sweep::{GridKernel, LogKernel, Onto};

/// Bounds for the plan with exact rows at these column potentials; without slack.
pub(super) fn certify(
    grid: &Grid,
    marginals: &Marginals,
    cols: &[f64],
    epsilon: f64,
) -> Certificate {
    let (a, b, total) = (marginals.rows(), marginals.cols(), marginals.total());
    let kernel = GridKernel::new(grid, epsilon);
    let g = centred(cols, b, total);
    let v: Vec<f64> = g.iter().map(|g| g / epsilon).collect();
    let below = kernel.soft_one(Onto::Rows, &v);
    let u: Vec<f64> = a
        .iter()
        .zip(&below)
        .map(|(a, z)| {
            if *a > 0.0 {
                a.ln() - z
            } else {
                f64::NEG_INFINITY
            }
        })
        .collect();
    let sums: Vec<f64> = kernel
        .soft_one(Onto::Cols, &u)
        .iter()
        .zip(&v)
        .map(|(t, v)| (t + v).exp())
        .collect();
    let violation = sums.iter().zip(b).map(|(s, b)| (s - b).abs()).sum::<f64>() / total;
    let objective = price(grid, &kernel, &u, &v);

    // Columns that hold too much are scaled down; what is missing then is filled in.
    let scaled: Vec<f64> = v
        .iter()
        .zip(sums.iter().zip(b))
        .map(|(v, (s, b))| if s > b { v + (b / s).ln() } else { *v })
        .collect();
    let given = kernel.soft_one(Onto::Rows, &scaled);
    let row_rest = a
        .iter()
        .zip(u.iter().zip(&given))
        .map(|(a, (u, z))| (a - (u + z).exp()).max(0.0));
    let row_rest: Vec<f64> = row_rest.collect();
    let col_rest: Vec<f64> = sums.iter().zip(b).map(|(s, b)| (b - s).max(0.0)).collect();
    let filled = fill(grid, &row_rest, &col_rest);
    let primal = price(grid, &kernel, &u, &scaled) + filled;

    // Rounding of exponents is a share of every entry; what sums lose in their last digits may have to go anywhere.
    let (least, greatest) = crate::Cost::range(grid).unwrap_or((0.0, 0.0));
    let largest = |x: &[f64]| {
        x.iter()
            .filter(|x| x.is_finite())
            .fold(0.0, |m: f64, x| m.max(x.abs()))
    };
    let dearest = least.abs().max(greatest.abs());
    let exponent = largest(&u) + largest(&v) + dearest / epsilon;
    let share = f64::EPSILON * (16.0 + 4.0 * exponent);
    let size = (primal - least * total).abs() + least.abs() * total;
    let up = share * size + 2.0 * LOOSE * total * dearest;

    let f: Vec<f64> = kernel
        .hard(Onto::Rows, &g)
        .iter()
        .zip(a)
        .map(|(f, a)| if *a > 0.0 { *f } else { f64::NEG_INFINITY })
        .collect();
    let better = kernel.hard(Onto::Cols, &f);
    let mut dual = Sum::default();
    let prices = a.iter().zip(&f).chain(b.iter().zip(&better));
    let prices = prices.filter(|(m, _)| **m > 0.0);
    prices.for_each(|(m, p)| dual.add_product(*m, *p));
    let axes = grid.sides().len() as f64;
    let down = 8.0 * axes * f64::EPSILON * total * (dearest + largest(&g) + largest(&f));
    Certificate {
        primal: primal + up,
        dual: dual.value() - down,
        objective,
        violation,
        mass: sum(a),
    }
}

/// Potentials with a mean of zero over the columns that take mass.
fn centred(cols: &[f64], b: &[f64], total: f64) -> Vec<f64> {
    let priced = cols
        .iter()
        .zip(b)
        .filter(|(g, b)| g.is_finite() && **b > 0.0);
    let centre: f64 = priced.map(|(g, b)| g * (b / total)).sum();
    cols.iter().map(|g| g - centre).collect()
}

/// ⟨C, P⟩ for P_ij = exp(u_i + v_j − C_ij/ε).
fn price(grid: &Grid, kernel: &GridKernel<'_>, u: &[f64], v: &[f64]) -> f64 {
    let mut total = Sum::default();
    let mut mass = None;
    for axis in 0..grid.sides().len() {
        let least = grid
            .axis(axis)
            .iter()
            .copied()
            .fold(f64::INFINITY, f64::min);
        let along = kernel.weighed(axis, least).soft_one(Onto::Rows, v);
        u.iter()
            .zip(&along)
            .for_each(|(u, z)| total.add((u + z).exp()));
        if least != 0.0 {
            let mass = *mass.get_or_insert_with(|| {
                let z = kernel.soft_one(Onto::Rows, v);
                u.iter().zip(&z).map(|(u, z)| (u + z).exp()).sum::<f64>()
            });
            total.add(least * mass);
        }
    }
    total.value()
}

/// What the rest of the rows costs, handed to the columns in proportion to what they lack.
fn fill(grid: &Grid, rows: &[f64], cols: &[f64]) -> f64 {
    let short = sum(cols);
    if !(short > 0.0) {
        return 0.0;
    }
    let mut total = 0.0;
    for (axis, &side) in grid.sides().iter().enumerate() {
        let (_, inner) = grid.strides(axis);
        let along = |x: &[f64]| {
            let mut sums = vec![0.0; side];
            x.iter()
                .enumerate()
                .for_each(|(at, x)| sums[at / inner % side] += x);
            sums
        };
        let (r, c) = (along(rows), along(cols));
        for (line, r) in grid.axis(axis).chunks_exact(side).zip(&r) {
            total += r * line.iter().zip(&c).map(|(cost, c)| cost * c).sum::<f64>() / short;
        }
    }
    total
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::kernel::random::Random;
    use crate::{Cost, Dense, Entropic, Grid, Marginals, Problem, Sinkhorn};

    #[test]
    fn certificates_are_those_of_the_table() {
        let mut random = Random::new(71, 0);
        for sides in [&[9][..], &[4, 5], &[2, 3, 4]] {
            let n: usize = sides.iter().product();
            let grid = Grid::unit(sides).unwrap();
            let mut table = vec![0.0; n * n];
            grid.fill(0..n, &mut table);
            let mut masses = || -> Vec<f64> {
                let mut a: Vec<f64> = (0..n).map(|_| (random.unit() - 0.2).max(0.0)).collect();
                a[0] = 0.5;
                a
            };
            let marginals = Marginals::normalised(&masses(), &masses()).unwrap();
            let on_grid = Problem::new(&grid, marginals.clone()).unwrap();
            let on_table = Problem::new(Dense::new(&table, n, n).unwrap(), marginals).unwrap();
            for (epsilon, sweeps) in [(0.1, 10_000), (0.01, 10_000), (0.01, 3), (1e-4, 10_000)] {
                let solver = Sinkhorn::new(epsilon).max_iterations(sweeps);
                let fast = solver.solve(&on_grid).unwrap();
                let slow = solver.solve_from(&on_table, fast.potentials()).unwrap();
                let (x, y) = (fast.certificate(), slow.certificate());
                assert!(x.dual <= y.primal && y.dual <= x.primal);
                if fast.status().is_converged() && slow.status().is_converged() {
                    assert!(
                        (x.objective - y.objective).abs() < 1e-5,
                        "{sides:?} {epsilon}"
                    );
                    assert!(x.violation <= 1.0001e-6);
                    assert!(x.primal - x.dual <= y.gap() + 1e-5);
                }
            }
            let answer = Entropic::new(1e-3).solve(&on_grid).unwrap();
            assert!(answer.status().is_converged());
            let exact = crate::Exact::new().solve(&on_grid).unwrap().objective();
            let proof = answer.certificate();
            assert!(proof.dual <= exact + 1e-12 && exact <= proof.primal + 1e-12);
            assert!(proof.gap() < 0.02);
        }
    }
}
