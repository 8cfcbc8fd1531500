//! Assignments: time, value and what the prices prove. `cargo bench --bench assignment -- random:2000 ties:2000 --write DIR`, then
//! `python benches/peers/assignment.py DIR` for SciPy and lap on the same tables.
//!
//! A case is `shape:size`. Shapes: `random` (independent costs), `ties` (whole numbers from 0 to 49), `big-m` (twenty costs a row, 10⁶
//! elsewhere), `points2` and `points10` (squared distances, x ~ N(0, I), y ~ N(0.5, 0.8² I)). `--write` keeps the tables as NumPy files.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::panic)]

use std::io::Write;
use std::time::Instant;

use earthmover::{Dense, assignment};
use earthmover_testkit::Rng;

fn table(shape: &str, n: usize) -> Vec<f64> {
    let mut rng = Rng(7);
    match shape {
        "random" => rng.units(n * n),
        "ties" => (0..n * n).map(|_| rng.below(50) as f64).collect(),
        "big-m" => {
            let mut table = vec![1e6; n * n];
            let shift = rng.below(n);
            for i in 0..n {
                table[i * n + (i + shift) % n] = rng.unit();
                for _ in 0..19 {
                    table[i * n + rng.below(n)] = rng.unit();
                }
            }
            table
        }
        points => {
            let d: usize = points.trim_start_matches("points").parse().unwrap();
            let x: Vec<f64> = (0..n * d).map(|_| rng.normal()).collect();
            let y: Vec<f64> = (0..n * d).map(|_| 0.5 + 0.8 * rng.normal()).collect();
            let distance = |i: usize, j: usize| -> f64 {
                let both = x[i * d..][..d].iter().zip(&y[j * d..][..d]);
                both.map(|(x, y)| (x - y) * (x - y)).sum()
            };
            (0..n * n).map(|at| distance(at / n, at % n)).collect()
        }
    }
}

/// A square table in NumPy's format, version 1.
fn write(path: &std::path::Path, table: &[f64], n: usize) {
    let mut head = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({n}, {n}), }}");
    while (10 + head.len() + 1) % 64 != 0 {
        head.push(' ');
    }
    head.push('\n');
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    file.write_all(b"\x93NUMPY\x01\x00").unwrap();
    file.write_all(&(head.len() as u16).to_le_bytes()).unwrap();
    file.write_all(head.as_bytes()).unwrap();
    for c in table {
        file.write_all(&c.to_le_bytes()).unwrap();
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let folder = args
        .iter()
        .position(|a| a == "--write")
        .map(|at| &args[at + 1]);
    println!("case,ms,value,bound");
    for case in args.iter().filter(|a| a.contains(':')) {
        let (shape, size) = case.split_once(':').unwrap();
        let n: usize = size.parse().unwrap();
        let table = table(shape, n);
        if let Some(folder) = folder {
            write(
                &std::path::Path::new(folder).join(format!("{shape}-{n}.npy")),
                &table,
                n,
            );
        }
        let cost = Dense::new(&table, n, n).unwrap();
        let mut best = f64::INFINITY;
        let mut found = assignment(&cost).unwrap();
        for _ in 0..(4000 / n).clamp(2, 20) {
            let from = Instant::now();
            found = assignment(&cost).unwrap();
            best = best.min(from.elapsed().as_secs_f64());
        }
        println!(
            "{case},{:.3},{:.9},{:.9}",
            best * 1e3,
            found.value,
            found.bound
        );
    }
}
