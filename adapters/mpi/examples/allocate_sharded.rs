//! Labels for very many examples: each rank holds the logits of its own.
//!
//! ```sh
//! mpirun -n 2 allocate_sharded --rows 10000000 --cols 100
//! mpirun -n 8 allocate_sharded --logits logits.npy --rho 0.9 --labels labels.npy
//! ```
//!
//! Costs are C_ij = log Σ exp l_i − l_ij; every example gives at most one label, every class takes at most `--cap` times its even share
//! (1.1), and at least the share `--rho` (0.9) of the examples is labeled; ε = 1/`--gamma` (100). Without `--logits` they are made up:
//! a class of its own stands out in every example. Prints one line of JSON.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "shared/mod.rs"]
mod shared;

use core::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use earthmover::cost::{Mapped, Sharded};
use earthmover::team::{Shard, Team};
use earthmover::{Cost, Entropic, Marginals, Problem};
use earthmover_mpi::Ranks;
use shared::{Flags, Outcome, leave_pid, report, unit};

fn main() -> std::process::ExitCode {
    shared::main(|flags, ranks| {
        leave_pid(flags, ranks.rank())?;
        match flags.text("logits") {
            Some(path) => {
                let logits = Mapped::open(path)?;
                let (rows, cols) = logits.shape();
                let shard = Shard::new(Arc::clone(ranks) as _, rows, cols);
                let cost = Surprisals { logits, cols };
                allocate(
                    flags,
                    ranks,
                    &shard,
                    Sharded::part_of(&cost, shard.clone())?,
                )
            }
            None => {
                let (rows, cols) = (flags.number("rows", 1_000_000)?, flags.number("cols", 100)?);
                let shard = Shard::new(Arc::clone(ranks) as _, rows, cols);
                let costs = made_up(shard.rows(), cols, flags.number("seed", 1)?);
                let cost = Sharded::rows_of(&costs, shard.clone())?;
                allocate(flags, ranks, &shard, cost)
            }
        }
    })
}

fn allocate<C: Cost<f32>>(flags: &Flags, ranks: &Ranks, shard: &Shard, cost: C) -> Outcome<()> {
    let (rows, cols) = (shard.whole(), shard.cols());
    let (rho, cap) = (flags.number("rho", 0.9)?, flags.number("cap", 1.1)?);
    let start = Instant::now();
    let ones = vec![1.0f64; shard.rows().len()];
    let caps = vec![cap * rows as f64 / cols as f64; cols];
    let marginals = Marginals::bounded_over(shard, &ones, &caps, rho * rows as f64)?;
    let problem = Problem::new(cost, marginals)?;
    let mut solver = Entropic::new(1.0 / flags.number("gamma", 100.0)?)
        .tolerance(flags.number("tolerance", 1e-3)?);
    if flags.text("progress").is_some() && ranks.rank() == 0 {
        solver = solver.on_progress(|p| {
            eprintln!(
                "sweep {}: violation {:.2e}, about {:.0} % done",
                p.iteration,
                p.violation,
                100.0 * p.done
            );
            core::ops::ControlFlow::Continue(())
        });
    }
    let solution = solver.solve(&problem)?;
    report(flags, ranks, Some(shard), start, &solution, (rows, cols))
}

/// Logits in a file, seen as costs.
struct Surprisals {
    logits: Mapped,
    cols: usize,
}

impl Cost<f32> for Surprisals {
    fn rows(&self) -> usize {
        self.logits.shape().0
    }

    fn cols(&self) -> usize {
        self.cols
    }

    fn at(&self, row: usize, col: usize) -> f32 {
        let mut line = vec![0.0; self.cols];
        self.fill(row..row + 1, &mut line);
        line[col]
    }

    fn fill(&self, rows: Range<usize>, out: &mut [f32]) {
        self.logits.fill(rows, out);
        out.chunks_exact_mut(self.cols).for_each(surprise);
    }
}

/// Makes logits costs.
fn surprise(line: &mut [f32]) {
    let top = line.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = line.iter().map(|l| (l - top).exp()).sum();
    let total = top + sum.ln();
    line.iter_mut().for_each(|l| *l = (total - *l).max(0.0));
}

/// Logits of normal noise (a sum of four even ones) and a class that stands out, as costs.
fn made_up(rows: Range<usize>, cols: usize, seed: u64) -> Vec<f32> {
    let mut costs = vec![0.0f32; rows.len() * cols];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = rows.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for (p, costs) in costs.chunks_mut(part * cols).enumerate() {
            let first = rows.start + p * part;
            scope.spawn(move || {
                for (i, line) in costs.chunks_exact_mut(cols).enumerate() {
                    let own = (unit(seed ^ 5, first + i, 0) * cols as f64) as usize;
                    for (j, l) in line.iter_mut().enumerate() {
                        let bits = unit(seed, first + i, j).to_bits();
                        let noise: f32 = [4, 16, 28, 40]
                            .map(|at| (bits >> at & 0xfff) as f32 / 4096.0)
                            .iter()
                            .sum();
                        *l = 3.0 * 1.732 * (noise - 2.0) + if j == own { 4.0 } else { 0.0 };
                    }
                    surprise(line);
                }
            });
        }
    });
    costs
}
