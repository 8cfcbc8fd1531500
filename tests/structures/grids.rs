//! Histograms and images on grids.

use earthmover::{Cost, Dense, Entropic, Exact, Grid, Marginals, Problem, Sinkhorn};
use earthmover_testkit::Rng;

use crate::near;

fn image(rng: &mut Rng, cells: usize) -> Vec<f64> {
    let mut image: Vec<f64> = (0..cells).map(|_| rng.unit().powi(3)).collect();
    image[rng.below(cells)] = 0.0;
    image
}

#[test]
fn a_grid_is_its_table_at_every_epsilon() {
    let mut rng = Rng(21);
    for sides in [&[1][..], &[9], &[4, 6], &[1, 5], &[3, 2, 4]] {
        let cells: usize = sides.iter().product();
        let grid = Grid::unit(sides).unwrap();
        let mut table = vec![0.0; cells * cells];
        grid.fill(0..cells, &mut table);
        let dense = Dense::new(&table, cells, cells).unwrap();
        let (a, b) = (image(&mut rng, cells + 1), image(&mut rng, cells + 1));
        let (mut a, mut b) = (a[..cells].to_vec(), b[..cells].to_vec());
        a[0] += 0.1;
        b[cells - 1] += 0.1;
        let marginals = Marginals::normalised(&a, &b).unwrap();
        let on_grid = Problem::new(&grid, marginals.clone()).unwrap();
        let on_table = Problem::new(dense, marginals).unwrap();
        let optimum = Exact::new().solve(&on_table).unwrap().objective();
        let exact = Exact::new().solve(&on_grid).unwrap();
        assert!(near(exact.objective(), optimum, 1e-12));
        assert!(exact.certificate().gap() < 1e-10);
        for epsilon in [1.0, 0.1, 1e-2, 1e-4, 1e-6] {
            let solver = Entropic::new(epsilon).tolerance(1e-7);
            let (one, two) = (
                solver.solve(&on_grid).unwrap(),
                solver.solve(&on_table).unwrap(),
            );
            let (p, q) = (one.certificate(), two.certificate());
            assert!(p.dual <= p.primal + 1e-12 && p.dual <= optimum + 1e-12);
            assert!(p.primal >= optimum - 1e-12);
            if one.status().is_converged() && two.status().is_converged() {
                assert!(p.violation <= 2e-7, "{sides:?} {epsilon}: {}", p.violation);
                assert!(near(p.primal, q.primal, 1e-5), "{sides:?} {epsilon}");
            }
            // What entropy costs, and not more.
            let most = epsilon * (cells as f64).ln() + 1e-6;
            if one.status().is_converged() {
                assert!(p.primal - optimum <= most, "{sides:?} {epsilon}");
            }
        }
    }
}

#[test]
fn an_image_moved_along_costs_the_way_it_went() {
    // A blob, moved by 10 and 6 cells of 64: W₂² = (10² + 6²) / 63² for every ε, up to what entropy adds.
    let side = 64;
    let blob = |x: f64, y: f64| -> Vec<f64> {
        let cell = |k: usize| ((k / side) as f64 - y, (k % side) as f64 - x);
        let mass = |(v, u): (f64, f64)| {
            if u.abs().max(v.abs()) <= 12.0 {
                (-(u * u + v * v) / 40.0).exp()
            } else {
                0.0
            }
        };
        (0..side * side).map(cell).map(mass).collect()
    };
    let (here, there) = (blob(20.0, 22.0), blob(30.0, 28.0));
    let expected = 136.0 / (63.0 * 63.0);
    let grid = Grid::unit(&[side, side]).unwrap();
    let problem = Problem::new(grid, Marginals::normalised(&here, &there).unwrap()).unwrap();
    for epsilon in [1e-2, 1e-3] {
        let solution = Entropic::new(epsilon)
            .tolerance(1e-6)
            .solve(&problem)
            .unwrap();
        assert!(solution.status().is_converged());
        let proof = solution.certificate();
        assert!(proof.dual <= expected + 1e-9 && expected <= proof.primal + 1e-9);
        assert!(
            proof.primal - expected < 3.0 * epsilon,
            "{epsilon}: {proof:?}"
        );
    }
}

#[test]
fn corner_to_corner_is_safe_at_every_epsilon() {
    // Everything underflows between two far corners: exp(−2/1e-6) is nothing at all.
    let sides = [20, 30];
    let grid = Grid::unit(&sides).unwrap();
    let (mut a, mut b) = (vec![0.0; 600], vec![0.0; 600]);
    (a[0], b[599]) = (1.0, 1.0);
    let problem = Problem::new(grid, Marginals::balanced(&a, &b).unwrap()).unwrap();
    for epsilon in [1.0, 1e-3, 1e-6, 1e-12] {
        for solution in [
            Entropic::new(epsilon).solve(&problem).unwrap(),
            Sinkhorn::new(epsilon).solve(&problem).unwrap(),
        ] {
            // Beyond that no digit of an exponent is left, and it says so.
            let digits = epsilon >= 1e-6;
            assert!(solution.status().is_converged() || !digits, "{epsilon}");
            let proof = solution.certificate();
            // An upper bound, and no looser than rounding of exponents of 2/ε makes it.
            let above = proof.primal - 2.0;
            assert!(
                -1e-12 < above && above < 1e-9 + 1e-13 / epsilon,
                "{epsilon}: {above}"
            );
            assert!(proof.dual <= 2.0 && proof.dual > 2.0 - 1e-9);
        }
    }
}

#[test]
fn a_slice_of_a_cube_is_a_line() {
    // Mass moves along one axis only, so that the answer is that of a line.
    let (mut a, mut b) = (vec![0.0; 5 * 4 * 7], vec![0.0; 5 * 4 * 7]);
    let cell = |i: usize, j: usize, k: usize| (i * 4 + j) * 7 + k;
    for (k, mass) in [(0, 0.5), (1, 0.25), (3, 0.25)] {
        a[cell(2, 1, k)] = mass;
        b[cell(2, 1, 6 - k)] = mass;
    }
    let grid = Grid::manhattan(&[
        &[0.0, 1.0, 2.0, 3.0, 4.0],
        &[0.0, 1.0, 2.0, 3.0],
        &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    ])
    .unwrap();
    let problem = Problem::new(grid, Marginals::balanced(&a, &b).unwrap()).unwrap();
    let exact = Exact::new().solve(&problem).unwrap();
    let line = earthmover::line::weighted_distance(
        &[0.0, 1.0, 3.0],
        Some(&[0.5, 0.25, 0.25]),
        &[6.0, 5.0, 3.0],
        Some(&[0.5, 0.25, 0.25]),
        1.0,
    );
    assert!(near(exact.objective(), line.unwrap(), 1e-12));
}
