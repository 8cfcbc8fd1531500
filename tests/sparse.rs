//! Costs of some pairs are the matrix with +∞ elsewhere: the same answers, errors and proofs.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use earthmover::cost::Transposed;
use earthmover::{
    Cost, Dense, Entropic, Entry, Error, Exact, Marginals, Method, Newton, Penalty, Problem, Real,
    ShortestPaths, Sinkhorn, Slack, Solver, Sparse,
};
use earthmover_testkit::Rng;

/// Random pairs, `per_row` in each row, and the masses of a plan along some of them.
struct Case {
    rows: usize,
    cols: usize,
    pairs: Vec<(usize, usize, f64)>,
    a: Vec<f64>,
    b: Vec<f64>,
}

impl Case {
    fn new(seed: u64, rows: usize, cols: usize, per_row: usize) -> Self {
        let mut rng = Rng(seed);
        let mut pairs = Vec::new();
        let (mut a, mut b) = (vec![0.0; rows], vec![0.0; cols]);
        for i in 0..rows {
            let mut row: Vec<usize> = (0..per_row).map(|_| rng.below(cols)).collect();
            row.push(i % cols);
            row.sort_unstable();
            row.dedup();
            for j in row {
                pairs.push((i, j, rng.unit()));
                if j == i % cols || rng.unit() < 0.5 {
                    let mass = rng.unit();
                    a[i] += mass;
                    b[j] += mass;
                }
            }
        }
        Self {
            rows,
            cols,
            pairs,
            a,
            b,
        }
    }

    fn sparse(&self) -> Sparse<f64> {
        Sparse::from_pairs(self.rows, self.cols, self.pairs.iter().copied()).unwrap()
    }

    fn table(&self) -> Vec<f64> {
        let mut table = vec![f64::INFINITY; self.rows * self.cols];
        for &(i, j, c) in &self.pairs {
            table[i * self.cols + j] = c;
        }
        table
    }

    fn questions(&self) -> Vec<Marginals> {
        let total: f64 = self.a.iter().sum();
        let slack = Slack::new(0.3 * total, 0.3 * total).col_cost(0.4);
        let kl = Penalty::Kl(0.5);
        vec![
            Marginals::balanced(&self.a, &self.b).unwrap(),
            Marginals::with_slack(&self.a, &self.b, slack).unwrap(),
            Marginals::relaxed(&self.a, &self.b, kl, Penalty::Exact).unwrap(),
        ]
    }
}

fn near(x: f64, y: f64, tolerance: f64) -> bool {
    x == y || (x - y).abs() <= tolerance * (1.0 + x.abs().max(y.abs()))
}

/// The two answers agree in all that they say.
fn alike<T: Real, A: Cost<T>, B: Cost<T>>(
    solver: &impl Solver<T>,
    one: &Problem<T, A>,
    other: &Problem<T, B>,
    tolerance: f64,
    what: &str,
) {
    let (x, y) = (solver.solve(one).unwrap(), solver.solve(other).unwrap());
    assert_eq!(x.status(), y.status(), "{what}");
    let (p, q) = (x.certificate(), y.certificate());
    for (s, t) in [
        (p.dual, q.dual),
        (p.objective, q.objective),
        (p.mass, q.mass),
    ] {
        assert!(near(s, t, tolerance), "{what}: {p:?} {q:?}");
    }
    // An entropic plan is rounded by an exact solve of what it lacks, and that may be any of several vertices.
    let rounded = if tolerance < 1e-9 { tolerance } else { 1e-2 };
    assert!(near(p.primal, q.primal, rounded), "{what}: {p:?} {q:?}");
    let (p, q) = (x.plan(), y.plan());
    for (s, t) in [(p.row_sums(), q.row_sums()), (p.col_sums(), q.col_sums())] {
        let both = s.iter().zip(&t);
        assert!(
            both.into_iter().all(|(s, t)| near(*s, *t, tolerance)),
            "{what}"
        );
    }
    let price = |entries: Vec<Entry>| -> f64 {
        let each = entries.iter();
        each.map(|e| e.mass * one.cost().at(e.row, e.col).widen())
            .sum()
    };
    assert!(near(
        price(p.entries(0.0)),
        price(q.entries(0.0)),
        tolerance
    ));
    let (d, ones) = (2, vec![0.5; 2 * one.cols()]);
    let (s, t) = (p.apply(&ones, d).unwrap(), q.apply(&ones, d).unwrap());
    assert!(s.iter().zip(&t).all(|(s, t)| near(*s, *t, tolerance)));
    let (s, t) = (p.heaviest(3), q.heaviest(3));
    let both = s.iter().zip(&t);
    assert!(
        both.into_iter()
            .all(|(s, t)| near(s.mass, t.mass, tolerance)),
        "{what}"
    );
}

#[test]
fn every_solver_says_of_pairs_what_it_says_of_the_matrix() {
    for (seed, rows, cols, per_row) in [
        (1, 30, 20, 4),
        (2, 12, 70, 9),
        (3, 90, 11, 3),
        (4, 40, 40, 2),
    ] {
        let case = Case::new(seed, rows, cols, per_row);
        let (sparse, table) = (case.sparse(), case.table());
        let dense = Dense::new(&table, rows, cols).unwrap();
        for (at, marginals) in case.questions().into_iter().enumerate() {
            let one = Problem::new(&sparse, marginals.clone()).unwrap();
            let other = Problem::new(&dense, marginals).unwrap();
            let what = format!("case {seed}, question {at}");
            let sinkhorn = Sinkhorn::new(0.05).tolerance(1e-10);
            alike(&sinkhorn, &one, &other, 1e-7, &what);
            let entropic = Entropic::new(0.02).tolerance(1e-9);
            alike(&entropic, &one, &other, 1e-6, &what);
            if at < 2 {
                alike(&Exact::new(), &one, &other, 1e-10, &what);
                alike(&ShortestPaths::new(), &one, &other, 1e-10, &what);
                alike(
                    &Newton::new(0.05).tolerance(1e-9),
                    &one,
                    &other,
                    1e-6,
                    &what,
                );
            }
        }
    }
}

#[test]
fn transposed_and_narrow_pairs_are_the_same_question() {
    let case = Case::new(5, 33, 21, 5);
    let (sparse, table) = (case.sparse(), case.table());
    let marginals = Marginals::balanced(&case.b, &case.a).unwrap();
    let dense = Dense::new(&table, 33, 21).unwrap();
    let one = Problem::new(Transposed(&sparse), marginals.clone()).unwrap();
    let other = Problem::new(Transposed(&dense), marginals).unwrap();
    alike(&Exact::new(), &one, &other, 1e-10, "transposed");
    alike(
        &Entropic::new(0.05).tolerance(1e-9),
        &one,
        &other,
        1e-6,
        "transposed",
    );

    let narrow: Vec<f32> = table.iter().map(|&c| c as f32).collect();
    let pairs = case.pairs.iter().map(|&(i, j, c)| (i, j, c as f32));
    let sparse = Sparse::from_pairs(33, 21, pairs).unwrap();
    let dense = Dense::new(&narrow, 33, 21).unwrap();
    let marginals = Marginals::balanced(&case.a, &case.b).unwrap();
    let one = Problem::new(&sparse, marginals.clone()).unwrap();
    let other = Problem::new(&dense, marginals).unwrap();
    alike(&Exact::new(), &one, &other, 1e-10, "f32");
    alike(
        &Entropic::new(0.05).tolerance(1e-4),
        &one,
        &other,
        1e-3,
        "f32",
    );
}

#[test]
fn the_same_errors() {
    let solvers = ["exact", "network-simplex", "entropic:0.1", "sinkhorn:0.1"];
    let refused = |pairs: &[(usize, usize, f64)], a: &[f64], b: &[f64]| {
        let (n, k) = (a.len(), b.len());
        let mut table = vec![f64::INFINITY; n * k];
        for &(i, j, c) in pairs {
            table[i * k + j] = c;
        }
        let sparse = Sparse::from_pairs(n, k, pairs.iter().copied()).unwrap();
        let dense = Dense::new(&table, n, k).unwrap();
        let marginals = Marginals::balanced(a, b).unwrap();
        let one = Problem::new(&sparse, marginals.clone()).unwrap();
        let other = Problem::new(&dense, marginals).unwrap();
        let mut first = None;
        for name in solvers {
            let method: Method = name.parse().unwrap();
            let (x, y) = (
                method.solve(&one).unwrap_err(),
                method.solve(&other).unwrap_err(),
            );
            assert_eq!(format!("{x:?}"), format!("{y:?}"), "{name}");
            first = first.or(Some(x));
        }
        first.unwrap()
    };
    // Two rows that share one column: half of their mass is stranded.
    let (a, b) = ([1.0, 1.0, 2.0], [1.0, 1.0, 2.0]);
    let pairs = [
        (0, 0, 1.0),
        (1, 0, 1.0),
        (2, 0, 1.0),
        (2, 1, 1.0),
        (2, 2, 1.0),
    ];
    let stranded = refused(&pairs, &a, &b);
    assert_eq!(
        stranded,
        Error::Infeasible {
            stranded: 1.0,
            total: 4.0
        }
    );
    let row = refused(&[(0, 0, 1.0), (2, 1, 1.0), (2, 2, 1.0)], &a, &b);
    assert!(matches!(row, Error::Blocked { index: 1, .. }));
    let col = refused(&[(0, 0, 1.0), (1, 0, 1.0), (2, 1, 1.0)], &a, &b);
    assert!(matches!(col, Error::Blocked { index: 2, .. }));
    let nan = refused(&[(0, 0, 1.0), (1, 2, f64::NAN), (2, 1, f64::NAN)], &a, &b);
    assert!(matches!(nan, Error::Cost { row: 1, col: 2, .. }));
    let dear = refused(&[(0, 0, 1.0), (1, 2, 1e260), (2, 1, 1.0)], &a, &b);
    assert!(matches!(dear, Error::TooDear { row: 1, col: 2, .. }));
}

#[test]
fn stranded_mass_is_counted_alike_in_tangled_patterns() {
    let mut found = 0;
    for seed in 0..200 {
        let mut rng = Rng(1000 + seed);
        let (n, k) = (2 + rng.below(8), 2 + rng.below(8));
        let table: Vec<f64> = (0..n * k)
            .map(|_| {
                if rng.unit() < 0.7 {
                    f64::INFINITY
                } else {
                    rng.unit()
                }
            })
            .collect();
        let a: Vec<f64> = (0..n).map(|_| 1.0 + rng.below(4) as f64).collect();
        let mut b = vec![0.0; k];
        let total: f64 = a.iter().sum();
        for _ in 0..total as usize {
            b[rng.below(k)] += 1.0;
        }
        let finite = table.iter().enumerate().filter(|e| e.1.is_finite());
        let pairs = finite.map(|(at, &c)| (at / k, at % k, c));
        let sparse = Sparse::from_pairs(n, k, pairs).unwrap();
        let marginals = Marginals::balanced(&a, &b).unwrap();
        let one = Problem::new(&sparse, marginals.clone()).unwrap();
        let other = Problem::new(Dense::new(&table, n, k).unwrap(), marginals).unwrap();
        match (Exact::new().solve(&one), Exact::new().solve(&other)) {
            (Ok(x), Ok(y)) => assert!(near(x.objective(), y.objective(), 1e-12)),
            (Err(x), Err(y)) => {
                assert_eq!(x, y);
                found += usize::from(matches!(x, Error::Infeasible { .. }));
            }
            (x, y) => panic!("{:?} {:?}", x.is_ok(), y.is_ok()),
        }
    }
    assert!(found > 10);
}

#[test]
fn certificates_prove_large_answers() {
    let case = Case::new(6, 3_000, 2_500, 6);
    let sparse = case.sparse();
    let marginals = Marginals::balanced(&case.a, &case.b).unwrap();
    let problem = Problem::new(&sparse, marginals).unwrap();
    let solution = Exact::new().solve(&problem).unwrap();
    assert!(solution.status().is_converged());
    assert!(solution.certificate().relative_gap() < 1e-12);
    let entropic = Entropic::new(0.01).solve(&problem).unwrap();
    assert!(entropic.status().is_converged());
    let proof = entropic.certificate();
    assert!(proof.dual <= solution.objective() && solution.objective() <= proof.primal);
    assert!(proof.relative_gap() < 0.2, "{proof:?}");
    // From its own prices hardly anything is left to do.
    let again = Exact::new()
        .solve_from(&problem, solution.potentials())
        .unwrap();
    assert!(near(again.objective(), solution.objective(), 1e-12));
    assert!(again.iterations() * 10 < solution.iterations().max(10));
}
