//! Transport as a loss: values, gradients against differences, plans that act, divergences that are none too small.
#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::panic
)]

use earthmover::loss::{Cotangent, Divergence, wasserstein_1, wasserstein_2};
use earthmover::{
    Cosine, Cost, Dense, Entropic, Error, Euclidean, Exact, Manhattan, Marginals, Metric, MetricFn,
    Penalty, PointCloud, Problem, Reference, Slack, SquaredEuclidean,
};
use earthmover_testkit::Rng;

const EPSILON: f64 = 0.3;

fn solver() -> Entropic {
    Entropic::new(EPSILON).tolerance(1e-13)
}

const SIDES: [(Penalty, Penalty); 5] = [
    (Penalty::Exact, Penalty::Exact),
    (Penalty::Kl(0.7), Penalty::Kl(0.4)),
    (Penalty::Kl(0.7), Penalty::Exact),
    (Penalty::Exact, Penalty::Kl(2.0)),
    (Penalty::Tv(0.5), Penalty::Tv(0.6)),
];

fn masses(rng: &mut Rng, n: usize) -> Vec<f64> {
    let raw: Vec<f64> = (0..n).map(|_| 0.2 + rng.unit()).collect();
    let total: f64 = raw.iter().sum();
    raw.iter().map(|m| m / total).collect()
}

/// ⟨C, P⟩ + ε Ω(P) + penalties, from the plan written out.
fn primal(problem: &Problem<f64, Dense<'_, f64>>, plan: &[f64], reference: Reference) -> f64 {
    let (n, k, m) = (problem.rows(), problem.cols(), problem.marginals());
    let (mut value, mut r, mut c) = (0.0, vec![0.0; n], vec![0.0; k]);
    for i in 0..n {
        for j in 0..k {
            let p = plan[i * k + j];
            (r[i], c[j]) = (r[i] + p, c[j] + p);
            let (a, b) = (m.rows()[i], m.cols()[j]);
            value += p * problem.cost().at(i, j);
            value += EPSILON
                * match reference {
                    Reference::Product => p * (p / (a * b)).ln() - p + a * b,
                    Reference::Counting => p * (p.ln() - 1.0),
                };
        }
    }
    for (penalty, masses, sums) in [
        (m.row_penalty(), m.rows(), &r),
        (m.col_penalty(), m.cols(), &c),
    ] {
        if !penalty.is_exact() {
            let each = masses.iter().zip(sums);
            value += each.map(|(&m, &s)| penalty.of(m, s)).sum::<f64>();
        }
    }
    value
}

#[test]
fn values_are_those_of_the_plan() {
    let mut rng = Rng(1);
    let (n, m) = (6, 8);
    let costs = rng.units(n * m);
    let cost = Dense::new(&costs, n, m).unwrap();
    for (rows, cols) in SIDES {
        for reference in [Reference::Product, Reference::Counting] {
            let (a, b) = (masses(&mut rng, n), masses(&mut rng, m));
            let marginals = Marginals::relaxed(&a, &b, rows, cols).unwrap();
            let problem = Problem::new(cost, marginals.with_reference(reference)).unwrap();
            let solution = solver().solve(&problem).unwrap();
            let plan = solution.plan().to_dense();
            for other in [Reference::Product, Reference::Counting] {
                let (found, expected) =
                    (solution.regularised(other), primal(&problem, &plan, other));
                assert!(
                    (found - expected).abs() < 1e-10,
                    "{rows:?} {reference:?} {other:?}: {found} {expected}"
                );
            }
            let moved: f64 = plan.iter().zip(&costs).map(|(p, c)| p * c).sum();
            assert!((solution.transport_cost() - moved).abs() < 1e-11);
        }
    }
    // Slack is one more row and column of the same value.
    let slack = Slack::new(0.4, 0.3)
        .row_cost(0.2)
        .col_cost(0.1)
        .corner_cost(0.5);
    let (a, mut b) = (masses(&mut rng, n), masses(&mut rng, m));
    b.iter_mut().for_each(|b| *b *= 1.1);
    let problem = Problem::new(cost, Marginals::with_slack(&a, &b, slack).unwrap()).unwrap();
    let mut written = Vec::new();
    for i in 0..n {
        written.extend_from_slice(&costs[i * m..][..m]);
        written.push(0.1);
    }
    written.extend(vec![0.2; m]);
    written.push(0.5);
    let (mut long_a, mut long_b) = (a, problem.marginals().cols().to_vec());
    long_a.push(0.4);
    long_b.push(problem.marginals().slack().col);
    let written = Dense::new(&written, n + 1, m + 1).unwrap();
    let whole = Problem::new(written, Marginals::balanced(&long_a, &long_b).unwrap()).unwrap();
    for reference in [Reference::Product, Reference::Counting] {
        let one = solver().solve(&problem).unwrap().regularised(reference);
        let two = solver().solve(&whole).unwrap().regularised(reference);
        assert!((one - two).abs() < 1e-10, "{one} {two}");
    }
}

#[test]
fn masses_have_gradients() {
    let mut rng = Rng(2);
    let (n, m) = (5, 7);
    let costs = rng.units(n * m);
    let cost = Dense::new(&costs, n, m).unwrap();
    for (rows, cols) in SIDES {
        for reference in [Reference::Product, Reference::Counting] {
            let (a, b) = (masses(&mut rng, n), masses(&mut rng, m));
            let value = |a: &[f64], b: &[f64]| {
                let marginals = Marginals::relaxed(a, b, rows, cols).unwrap();
                let problem = Problem::new(cost, marginals.with_reference(reference)).unwrap();
                let solution = solver().solve(&problem).unwrap();
                (solution.regularised(reference), solution.gradient_masses())
            };
            let (_, (by_a, by_b)) = value(&a, &b);
            // Totals stay equal: as much more on both sides.
            let h = 1e-5;
            for (i, j) in [(0, 0), (1, 3), (4, 6)] {
                let moved = |h: f64| {
                    let (mut a, mut b) = (a.clone(), b.clone());
                    (a[i], b[j]) = (a[i] + h, b[j] + h);
                    value(&a, &b).0
                };
                let slope = (moved(h) - moved(-h)) / (2.0 * h);
                let expected = by_a[i] + by_b[j];
                assert!(
                    (slope - expected).abs() < 1e-7,
                    "{rows:?} {cols:?} {reference:?}: {slope} {expected}"
                );
            }
        }
    }
    // Lines of no mass have one, too.
    let (mut a, b) = (masses(&mut rng, n), masses(&mut rng, m));
    a[2] = 0.0;
    let kl = Penalty::Kl(0.5);
    let value = |a: &[f64]| {
        let problem = Problem::new(cost, Marginals::relaxed(a, &b, kl, kl).unwrap()).unwrap();
        let solution = solver().solve(&problem).unwrap();
        (
            solution.regularised(Reference::Product),
            solution.gradient_masses().0,
        )
    };
    let (base, slope) = value(&a);
    let mut more = a.clone();
    more[2] = 1e-6;
    assert!(((value(&more).0 - base) / 1e-6 - slope[2]).abs() < 1e-4);
}

fn check_points<M: Metric<f64> + Copy>(metric: M, rng: &mut Rng) {
    let (n, m, d) = (5, 6, 3);
    let (x, y) = (rng.units(n * d), rng.units(m * d));
    for (rows, cols) in SIDES {
        let (a, b) = (masses(rng, n), masses(rng, m));
        let value = |x: &[f64], y: &[f64]| {
            let cost = PointCloud::new(x, y, d, metric).unwrap();
            let problem =
                Problem::new(cost, Marginals::relaxed(&a, &b, rows, cols).unwrap()).unwrap();
            let solution = solver().solve(&problem).unwrap();
            (
                solution.regularised(Reference::Product),
                solution.gradient_points().unwrap(),
            )
        };
        let (_, (by_x, by_y)) = value(&x, &y);
        let h = 1e-5;
        for at in [0, 4, n * d - 1] {
            let moved = |h: f64| {
                let mut x = x.clone();
                x[at] += h;
                value(&x, &y).0
            };
            let slope = (moved(h) - moved(-h)) / (2.0 * h);
            assert!(
                (slope - by_x[at]).abs() < 1e-7,
                "{rows:?} {slope} {}",
                by_x[at]
            );
            let moved = |h: f64| {
                let mut y = y.clone();
                y[at] += h;
                value(&x, &y).0
            };
            let slope = (moved(h) - moved(-h)) / (2.0 * h);
            assert!(
                (slope - by_y[at]).abs() < 1e-7,
                "{rows:?} {slope} {}",
                by_y[at]
            );
        }
    }
}

/// ‖x − y‖⁴, which brings its derivative.
#[derive(Clone, Copy)]
struct Quartic;

impl Metric<f64> for Quartic {
    fn distance(&self, x: &[f64], y: &[f64]) -> f64 {
        let square: f64 = x.iter().zip(y).map(|(a, b)| (a - b) * (a - b)).sum();
        square * square
    }
    fn gradient(&self, x: &[f64], y: &[f64], out: &mut [f64]) -> bool {
        let square: f64 = x.iter().zip(y).map(|(a, b)| (a - b) * (a - b)).sum();
        for ((o, a), b) in out.iter_mut().zip(x).zip(y) {
            *o = 4.0 * square * (a - b);
        }
        true
    }
}

#[test]
fn points_have_gradients_under_every_metric() {
    let mut rng = Rng(3);
    check_points(SquaredEuclidean, &mut rng);
    check_points(Euclidean, &mut rng);
    check_points(Manhattan, &mut rng);
    check_points(Cosine, &mut rng);
    check_points(Quartic, &mut rng);
    let bare = MetricFn(|x: &[f64], y: &[f64]| (x[0] - y[0]).abs());
    let (x, y) = ([0.0, 1.0], [0.5, 2.0]);
    let cost = PointCloud::new(&x, &y, 1, bare).unwrap();
    let problem = Problem::new(cost, Marginals::uniform(2, 2).unwrap()).unwrap();
    let solution = solver().solve(&problem).unwrap();
    assert_eq!(solution.gradient_points().unwrap_err(), Error::NoGradient);
}

#[test]
fn functions_of_the_plan_are_differentiated_implicitly() {
    let mut rng = Rng(4);
    let (n, m, d) = (4, 5, 2);
    for (rows, cols) in SIDES {
        for reference in [Reference::Product, Reference::Counting] {
            let (x, y) = (rng.units(n * d), rng.units(m * d));
            let (a, b) = (masses(&mut rng, n), masses(&mut rng, m));
            // L = Σ W P + Σ w f + Σ v g, all weights arbitrary; those of potentials leave the gauge alone.
            let table = rng.units(n * m);
            let (mut of_rows, of_cols) = (rng.units(n), rng.units(m));
            of_rows[0] -= of_rows.iter().sum::<f64>() - of_cols.iter().sum::<f64>();
            let slopes = Dense::new(&table, n, m).unwrap();
            let loss = |x: &[f64], a: &[f64], b: &[f64]| {
                let cost = PointCloud::new(x, &y, d, SquaredEuclidean).unwrap();
                let marginals = Marginals::relaxed(a, b, rows, cols).unwrap();
                let problem = Problem::new(cost, marginals.with_reference(reference)).unwrap();
                let solution = solver().solve(&problem).unwrap();
                let dot = |u: &[f64], v: &[f64]| u.iter().zip(v).map(|(a, b)| a * b).sum::<f64>();
                let prices = solution.potentials();
                let value = dot(&table, &solution.plan().to_dense())
                    + dot(&of_rows, &prices.rows)
                    + dot(&of_cols, &prices.cols);
                let cotangent = Cotangent {
                    plan: Some(&slopes),
                    rows: of_rows.clone(),
                    cols: of_cols.clone(),
                };
                (value, solution.pull_back(&cotangent).unwrap())
            };
            let (_, back) = loss(&x, &a, &b);
            assert!(back.residual < 1e-9, "{}", back.residual);
            let h = 1e-5;
            let what = format!("{rows:?} {cols:?} {reference:?}");
            for at in 0..n * d {
                let moved = |h: f64| {
                    let mut x = x.clone();
                    x[at] += h;
                    loss(&x, &a, &b).0
                };
                let slope = (moved(h) - moved(-h)) / (2.0 * h);
                let found = back.row_points[at];
                assert!((slope - found).abs() < 2e-5, "{what}: {slope} {found}");
            }
            for (i, j) in [(0, 1), (3, 4)] {
                let moved = |h: f64| {
                    let (mut a, mut b) = (a.clone(), b.clone());
                    (a[i], b[j]) = (a[i] + h, b[j] + h);
                    loss(&x, &a, &b).0
                };
                let slope = (moved(h) - moved(-h)) / (2.0 * h);
                let found = back.row_masses[i] + back.col_masses[j];
                assert!(
                    (slope - found).abs() < 2e-5 * (1.0 + slope.abs()),
                    "{what}: {slope} {found}"
                );
            }
        }
    }
}

#[test]
fn plans_act_as_if_written_out() {
    let mut rng = Rng(5);
    let (n, m, d) = (50, 37, 2);
    let (x, y) = (rng.units(n * d), rng.units(m * d));
    let cost = PointCloud::new(&x, &y, d, SquaredEuclidean).unwrap();
    let (mut a, b) = (rng.masses(n, true), rng.masses(m, true));
    let (rows, cols) = (Penalty::Kl(0.1), Penalty::Kl(0.1));
    let relaxed = Problem::new(&cost, Marginals::relaxed(&a, &b, rows, cols).unwrap()).unwrap();
    let exact = Problem::new(&cost, Marginals::balanced(&a, &b).unwrap()).unwrap();
    a.iter_mut().for_each(|a| *a *= 2.0);
    let partial = Problem::new(&cost, Marginals::partial(&a, &b, 0.6).unwrap()).unwrap();
    let entropic = Entropic::new(0.01);
    for solution in [
        entropic.solve(&relaxed).unwrap(),
        entropic.solve(&exact).unwrap(),
        entropic.solve(&partial).unwrap(),
        Exact::new().solve(&exact).unwrap(),
        Exact::new().solve(&partial).unwrap(),
    ] {
        let plan = solution.plan();
        let dense = plan.to_dense();
        let (out, back) = (
            plan.apply(&y, d).unwrap(),
            plan.apply_transposed(&x, d).unwrap(),
        );
        let projected = plan.barycentric(&y, d).unwrap();
        for i in 0..n {
            let sum: f64 = dense[i * m..][..m].iter().sum();
            for c in 0..d {
                let slow: f64 = (0..m).map(|j| dense[i * m + j] * y[j * d + c]).sum();
                assert!((out[i * d + c] - slow).abs() < 1e-13);
                let mean = projected[i * d + c];
                assert!(if sum > 0.0 {
                    (mean - slow / sum).abs() < 1e-9
                } else {
                    mean.is_nan()
                });
            }
        }
        for j in 0..m {
            for c in 0..d {
                let slow: f64 = (0..n).map(|i| dense[i * m + j] * x[i * d + c]).sum();
                assert!((back[j * d + c] - slow).abs() < 1e-13);
            }
        }
        let most = plan.heaviest(10);
        let mut sorted = dense.clone();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let count = sorted.iter().take(10).filter(|p| **p > 0.0).count();
        assert!(
            most.len() == count
                && most
                    .iter()
                    .zip(&sorted)
                    .all(|(e, p)| (e.mass - p).abs() < 1e-14)
        );
        let (starts, columns, mass) = plan.to_csr(1e-9);
        assert_eq!((starts.len(), starts[n]), (n + 1, mass.len()));
        for i in 0..n {
            for at in starts[i]..starts[i + 1] {
                assert_eq!(mass[at], dense[i * m + columns[at]]);
            }
        }
        // New points where old ones are go where those go.
        let mapped = solution.map_points(&x).unwrap();
        if solution.epsilon() > 0.0 {
            for (found, known) in mapped.iter().zip(&projected) {
                assert!(
                    known.is_nan() || (found - known).abs() < 1e-9,
                    "{found} {known}"
                );
            }
        }
        assert!(matches!(plan.apply(&y, 3), Err(Error::Length { .. })));
        assert!(matches!(
            solution.map_points(&[f64::NAN, 0.0]),
            Err(Error::Point { .. })
        ));
    }
}

#[test]
fn divergences_are_not_negative_and_descend() {
    let mut rng = Rng(6);
    let d = 2;
    for penalty in [
        Penalty::Exact,
        Penalty::Kl(1.0),
        Penalty::Kl(1e4),
        Penalty::Tv(0.7),
    ] {
        for (n, m) in [(7, 9), (30, 30)] {
            let (x, y) = (rng.units(n * d), rng.units(m * d));
            let (a, mut b) = (masses(&mut rng, n), masses(&mut rng, m));
            if !penalty.is_exact() {
                b.iter_mut().for_each(|b| *b *= 1.3);
            }
            let of = |x: &[f64], y: &[f64], a: &[f64], b: &[f64]| {
                let solver = Divergence::new(EPSILON).tolerance(1e-12).penalty(penalty);
                solver.between(x, y, d, SquaredEuclidean, a, b).unwrap()
            };
            let found = of(&x, &y, &a, &b);
            assert!(
                found.status.is_converged() && found.value > 0.0 && found.error < 1e-9,
                "{penalty:?} {found:?}"
            );
            let same = of(&x, &x, &a, &a);
            assert!(
                same.value.abs() <= same.error,
                "{} {}",
                same.value,
                same.error
            );
            assert!(same.row_points.iter().all(|g| g.abs() < 1e-7));
            let h = 1e-5;
            for at in [0, n * d - 1] {
                let moved = |h: f64| {
                    let mut x = x.clone();
                    x[at] += h;
                    of(&x, &y, &a, &b).value
                };
                let slope = (moved(h) - moved(-h)) / (2.0 * h);
                assert!(
                    (slope - found.row_points[at]).abs() < 1e-7,
                    "{penalty:?} {slope}"
                );
                let moved = |h: f64| {
                    let mut y = y.clone();
                    y[at] += h;
                    of(&x, &y, &a, &b).value
                };
                let slope = (moved(h) - moved(-h)) / (2.0 * h);
                assert!(
                    (slope - found.col_points[at]).abs() < 1e-7,
                    "{penalty:?} {slope}"
                );
            }
            let moved = |h: f64| {
                let (mut a, mut b) = (a.clone(), b.clone());
                (a[1], b[2]) = (a[1] + h, b[2] + h);
                of(&x, &y, &a, &b).value
            };
            let slope = (moved(h) - moved(-h)) / (2.0 * h);
            let expected = found.row_masses[1] + found.col_masses[2];
            assert!(
                (slope - expected).abs() < 1e-6,
                "{penalty:?} {slope} {expected}"
            );
            // Loose solves say how loose they are.
            let solver = Divergence::new(EPSILON).tolerance(1e-2).penalty(penalty);
            let loose = solver.between(&x, &y, d, SquaredEuclidean, &a, &b).unwrap();
            assert!(
                (loose.value - found.value).abs() <= loose.error,
                "{penalty:?} {loose:?} {}",
                found.value
            );
        }
    }
}

#[test]
fn distances_of_shifted_clouds() {
    let mut rng = Rng(7);
    let x = rng.units(40);
    let y: Vec<f64> = x.chunks(2).flat_map(|p| [p[0] + 3.0, p[1] + 4.0]).collect();
    let uniform = Marginals::uniform(20, 20).unwrap();
    assert!((wasserstein_1(&x, &y, 2, &uniform).unwrap() - 5.0).abs() < 1e-12);
    assert!((wasserstein_2(&x, &y, 2, &uniform).unwrap() - 5.0).abs() < 1e-12);
}
