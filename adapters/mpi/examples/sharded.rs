//! An entropic problem whose rows lie with many ranks.
//!
//! ```sh
//! mpirun -n 4 sharded --cost costs.npy --epsilon 0.01
//! mpirun -n 4 sharded --points x.npy --to y.npy --metric euclidean --epsilon 0.05
//! mpirun -n 4 sharded --rows 100000 --cols 50 --forbid 0.1 --slack 0.25 --scalar f32 --solver newton
//! ```
//!
//! | flag | |
//! | --- | --- |
//! | `--cost F` | rows × columns costs, `.npy`, mapped: each rank reads its own rows |
//! | `--points F --to F` | points of rows and columns, `.npy`; `--metric` squared (default), euclidean, manhattan |
//! | `--rows N --cols K` | costs made up from `--seed`; `--forbid P` of them forbidden |
//! | `--slack S` | a slack row and column that take this share of the mass each |
//! | `--masses uneven` | masses made up from the seed instead of equal ones |
//! | `--solver` | entropic (default), sinkhorn, newton, exact |
//! | `--epsilon --tolerance --max-iterations --time-limit SECONDS` | of the solver |
//! | `--scalar` | f64 (default) or f32 |
//! | `--plain yes` | rank 0 solves alone, as if there were no team |
//! | `--labels F --plan F` | written by all ranks, each its rows |
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "shared/mod.rs"]
mod shared;

use std::sync::Arc;
use std::time::{Duration, Instant};

use earthmover::cost::{Mapped, Sharded};
use earthmover::team::{Alone, Shard, Team};
use earthmover::{
    Cost, Entropic, Euclidean, Exact, FromFn, Manhattan, Marginals, Newton, PointCloud, Problem,
    Real, Sinkhorn, Slack, SquaredEuclidean,
};
use earthmover_mpi::Ranks;
use shared::{Flags, Outcome, leave_pid, report, unit};

fn main() -> std::process::ExitCode {
    shared::main(|flags, ranks| match flags.text("scalar") {
        None | Some("f64") => run::<f64>(flags, ranks),
        Some("f32") => run::<f32>(flags, ranks),
        Some(other) => Err(format!("--scalar {other}: f64 or f32").into()),
    })
}

fn run<T: Real>(flags: &Flags, ranks: &Arc<Ranks>) -> Outcome<()>
where
    Mapped: Cost<T>,
{
    leave_pid(flags, ranks.rank())?;
    if let Some(path) = flags.text("cost") {
        return solve::<T>(flags, ranks, &Mapped::open(path)?);
    }
    if let (Some(from), Some(to)) = (flags.text("points"), flags.text("to")) {
        let (x, y) = (Mapped::open(from)?, Mapped::open(to)?);
        let (d, points) = (x.shape().1, |file: &Mapped| {
            let mut all = vec![T::zero(); file.shape().0 * file.shape().1];
            file.fill(0..file.shape().0, &mut all);
            all
        });
        let (x, y) = (points(&x), points(&y));
        return match flags.text("metric") {
            None | Some("squared") => {
                solve(flags, ranks, &PointCloud::new(&x, &y, d, SquaredEuclidean)?)
            }
            Some("euclidean") => solve(flags, ranks, &PointCloud::new(&x, &y, d, Euclidean)?),
            Some("manhattan") => solve(flags, ranks, &PointCloud::new(&x, &y, d, Manhattan)?),
            Some(other) => Err(format!("--metric {other}: squared, euclidean or manhattan").into()),
        };
    }
    let (rows, cols) = (flags.number("rows", 10_000)?, flags.number("cols", 10)?);
    let (seed, forbid) = (flags.number("seed", 1)?, flags.number("forbid", 0.0)?);
    let cost = FromFn::new(rows, cols, |i, j| {
        // A way for every row and column is left open.
        if i % cols != j && unit(seed ^ 77, i, j) < forbid {
            T::infinity()
        } else {
            T::narrow(unit(seed, i, j))
        }
    })?;
    solve(flags, ranks, &cost)
}

fn solve<T: Real>(flags: &Flags, ranks: &Arc<Ranks>, cost: &dyn Cost<T>) -> Outcome<()> {
    let (rows, cols) = (cost.rows(), cost.cols());
    let alone = flags.text("plain").is_some();
    if alone && ranks.rank() > 0 {
        // The first rank asks one more thing in its report.
        ranks.gather(&[0.0])?;
        return Ok(());
    }
    let team: Arc<dyn Team> = if alone {
        Arc::new(Alone)
    } else {
        Arc::clone(ranks) as _
    };
    let shard = Shard::new(team, rows, cols);
    let (share, seed) = (flags.number("slack", 0.0)?, flags.number("seed", 1u64)?);
    let uneven = flags.text("masses") == Some("uneven");
    let mass = |i: usize| {
        if uneven {
            0.5 + unit(seed ^ 99, i, 0)
        } else {
            1.0
        }
    };
    let own: Vec<f64> = shard.rows().map(mass).collect();
    // Added up in the same order on every rank, whatever its share.
    let total: f64 = if uneven {
        (0..rows).map(mass).sum()
    } else {
        rows as f64
    };
    let columns: Vec<f64> = (0..cols)
        .map(|j| {
            if uneven {
                0.5 + unit(seed ^ 98, j, 1)
            } else {
                1.0
            }
        })
        .collect();
    let sum: f64 = columns.iter().sum();
    let columns: Vec<f64> = columns.iter().map(|c| c * (total / sum)).collect();
    let slack = Slack::new(share * total, share * total);
    let start = Instant::now();
    if alone {
        let all: Vec<f64> = (0..rows).map(mass).collect();
        let problem = Problem::new(cost, Marginals::with_slack(&all, &columns, slack)?)?;
        return answer(flags, ranks, None, start, &problem, (rows, cols));
    }
    let marginals = Marginals::with_slack_over(&shard, &own, &columns, slack)?;
    let problem = Problem::new(Sharded::part_of(cost, shard.clone())?, marginals)?;
    answer(flags, ranks, Some(&shard), start, &problem, (rows, cols))
}

fn answer<T: Real, C: Cost<T>>(
    flags: &Flags,
    ranks: &Ranks,
    shard: Option<&Shard>,
    start: Instant,
    problem: &Problem<T, C>,
    shape: (usize, usize),
) -> Outcome<()> {
    let (epsilon, tolerance) = (
        flags.number("epsilon", 0.05)?,
        flags.number("tolerance", 1e-6)?,
    );
    let limit = Duration::from_secs_f64(flags.number("time-limit", 1e6)?);
    let most = flags.number("max-iterations", 10_000)?;
    let solution = match flags.text("solver") {
        None | Some("entropic") => {
            let solver = Entropic::new(epsilon)
                .tolerance(tolerance)
                .max_iterations(most);
            solver.time_limit(limit).solve(problem)?
        }
        Some("sinkhorn") => {
            let solver = Sinkhorn::new(epsilon)
                .tolerance(tolerance)
                .max_iterations(most);
            solver.time_limit(limit).solve(problem)?
        }
        Some("newton") => {
            let solver = Newton::new(epsilon)
                .tolerance(tolerance)
                .max_iterations(most);
            solver.time_limit(limit).solve(problem)?
        }
        Some("exact") => Exact::new().solve(problem)?,
        Some(other) => {
            return Err(format!("--solver {other}: entropic, sinkhorn, newton or exact").into());
        }
    };
    report(flags, ranks, shard, start, &solution, shape)
}
