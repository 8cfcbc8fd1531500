//! Problems whose costs name their pairs: time, iterations, and what the certificate says.
//! `cargo bench --bench pairs -- random:100000:100000:30:exact near:100000:100000:30:0.01:1e-6`.
//!
//! A case is `shape:rows:columns:pairs a row:exact` or `…:epsilon:tolerance`, then `uniform` for equal masses. Shapes: `random` (random
//! columns, random costs), `near` (points of the unit square and those next to them, squared distances). A pair of each row with the
//! column of its own number makes every problem feasible.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::panic)]

use std::time::Instant;

use earthmover::{Entropic, Exact, Marginals, Problem, Sparse};
use earthmover_testkit::Rng;

fn pairs(shape: &str, n: usize, m: usize, few: usize) -> Vec<(usize, usize, f64)> {
    let mut rng = Rng(1);
    let mut pairs = Vec::with_capacity(n * (few + 1));
    match shape {
        "random" => {
            for i in 0..n {
                let mut row: Vec<usize> = (1..few).map(|_| rng.below(m)).collect();
                row.push(i % m);
                row.sort_unstable();
                row.dedup();
                pairs.extend(row.into_iter().map(|j| (i, j, rng.unit())));
            }
        }
        "near" => {
            let side = ((m as f64).sqrt() / 2.0).ceil() as usize;
            let place = |p: &[f64; 2]| p.map(|x| (x * side as f64) as usize);
            let points = |rng: &mut Rng, n| -> Vec<[f64; 2]> {
                (0..n).map(|_| [rng.unit(), rng.unit()]).collect()
            };
            let (x, y) = (points(&mut rng, n), points(&mut rng, m));
            let mut cells = vec![Vec::new(); side * side];
            for (j, p) in y.iter().enumerate() {
                let [u, v] = place(p);
                cells[u * side + v].push(j);
            }
            for (i, p) in x.iter().enumerate() {
                let [u, v] = place(p);
                let distance = |j: usize| {
                    let q = y[j];
                    (p[0] - q[0]).powi(2) + (p[1] - q[1]).powi(2)
                };
                let (from, to) = (
                    [u, v].map(|c| c.saturating_sub(1)),
                    [u, v].map(|c| (c + 1).min(side - 1)),
                );
                let around =
                    (from[0]..=to[0]).flat_map(|u| (from[1]..=to[1]).map(move |v| u * side + v));
                let mut row: Vec<usize> = around
                    .flat_map(|cell| cells[cell].iter().copied())
                    .collect();
                row.sort_by(|&a, &b| distance(a).total_cmp(&distance(b)));
                row.truncate(few - 1);
                if !row.contains(&(i % m)) {
                    row.push(i % m);
                }
                pairs.extend(row.into_iter().map(|j| (i, j, distance(j))));
            }
        }
        other => panic!("no shape {other}"),
    }
    pairs
}

fn main() {
    for case in std::env::args().skip(1).filter(|a| !a.starts_with('-')) {
        let parts: Vec<&str> = case.split(':').collect();
        let [n, m, few] = [1, 2, 3].map(|at| parts[at].parse::<usize>().unwrap());
        let listed = pairs(parts[0], n, m, few);
        let mut rng = Rng(2);
        let (mut a, mut b) = (vec![0.0; n], vec![0.0; m]);
        for i in 0..n {
            let mass = if parts.contains(&"uniform") {
                1.0
            } else {
                0.5 + rng.unit()
            };
            a[i] += mass;
            b[i % m] += mass;
        }
        let from = Instant::now();
        let cost = Sparse::from_pairs(n, m, listed).unwrap();
        let built = from.elapsed().as_secs_f64();
        let problem = Problem::new(&cost, Marginals::balanced(&a, &b).unwrap()).unwrap();
        let from = Instant::now();
        let solution = match parts[4] {
            "exact" => Exact::new().solve(&problem).unwrap(),
            epsilon => {
                let solver = Entropic::new(epsilon.parse().unwrap());
                solver
                    .tolerance(parts[5].parse().unwrap())
                    .solve(&problem)
                    .unwrap()
            }
        };
        let solved = from.elapsed().as_secs_f64();
        println!(
            "{case}: {} pairs read in {built:.2} s, solved in {solved:.2} s, {} after {}",
            cost.len(),
            solution.status(),
            solution.iterations(),
        );
        let from = Instant::now();
        let proof = solution.certificate();
        println!(
            "  certificate in {:.2} s: primal {:.9}, gap {:.2e}, violation {:.1e}",
            from.elapsed().as_secs_f64(),
            proof.primal,
            proof.relative_gap(),
            proof.violation
        );
    }
}
