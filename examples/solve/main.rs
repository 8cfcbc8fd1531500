//! Solves a problem given as NumPy files and prints one line of JSON.
//!
//! ```text
//! solve --cost C.npy --rows a.npy --cols b.npy --method auto|sinkhorn|newton|exact [--epsilon E] --tolerance T
//!       [--slack-row R --slack-col S | --penalty-rows P --penalty-cols P] [--dtype f32|f64] [--threads N] [--repeat K] [--plan out.npy]
//! solve --from X.npy --to Y.npy --metric squared-euclidean|euclidean|manhattan|cosine … the rest as above
//! ```
//!
//! A penalty is `kl:τ` or `tv:τ`, what a side pays for masses other than its own; with KL, `exact` stops at a relative gap of T.
//! Points, one a row, in place of a matrix: their distances are worked out on the fly and never stored.
//! `ms` is the best of K solves without reading and writing; `violation` the L1 error of the columns over
//! the total mass; `primal` and `dual` the certificate's bounds. Errors go to stderr with exit code 2.
#![allow(missing_docs, clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod npy;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use earthmover::{
    Cosine, Cost, Dense, Entropic, Euclidean, Exact, Manhattan, Marginals, Newton, Penalty,
    PointCloud, Problem, Real, Sinkhorn, Slack, Solution, SquaredEuclidean,
};

/// Solve an optimal-transport problem given as NumPy files.
#[derive(Parser)]
struct Arguments {
    /// Matrix of costs; +inf forbids a pair.
    #[arg(long, required_unless_present = "from", conflicts_with_all = ["from", "to", "metric"])]
    cost: Option<PathBuf>,
    /// Points of the rows, in place of a matrix of costs.
    #[arg(long, requires = "to")]
    from: Option<PathBuf>,
    /// Points of the columns.
    #[arg(long, requires = "from")]
    to: Option<PathBuf>,
    /// Distance between points.
    #[arg(long, value_enum, default_value_t = Metric::SquaredEuclidean)]
    metric: Metric,
    /// Masses of the rows.
    #[arg(long)]
    rows: PathBuf,
    /// Masses of the columns.
    #[arg(long)]
    cols: PathBuf,
    #[arg(long, value_enum, default_value_t = Method::Auto)]
    method: Method,
    /// Entropic regularisation in the units of the cost; every method but `exact` needs one.
    #[arg(long)]
    epsilon: Option<f64>,
    /// L1 error of the column sums, relative to the total mass, at which to stop.
    #[arg(long, default_value_t = 1e-6)]
    tolerance: f64,
    /// Mass of the slack row.
    #[arg(long, default_value_t = 0.0)]
    slack_row: f64,
    /// Mass of the slack column.
    #[arg(long, default_value_t = 0.0)]
    slack_col: f64,
    /// What the rows pay for other masses: kl:τ, tv:τ or exact.
    #[arg(long, default_value = "exact", value_parser = penalty, conflicts_with_all = ["slack_row", "slack_col"])]
    penalty_rows: Penalty,
    /// What the columns pay for other masses.
    #[arg(long, default_value = "exact", value_parser = penalty, conflicts_with_all = ["slack_row", "slack_col"])]
    penalty_cols: Penalty,
    /// Precision of the cost while solving.
    #[arg(long, value_enum, default_value_t = Dtype::F64)]
    dtype: Dtype,
    /// Threads of the sweeps; all cores where left out.
    #[arg(long)]
    threads: Option<usize>,
    /// Solves this often and reports the fastest.
    #[arg(long, default_value_t = 1)]
    repeat: usize,
    /// Writes the plan, without slack, to this file.
    #[arg(long)]
    plan: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Method {
    Auto,
    Sinkhorn,
    Newton,
    Exact,
}

#[derive(Clone, Copy, ValueEnum)]
enum Metric {
    SquaredEuclidean,
    Euclidean,
    Manhattan,
    Cosine,
}

#[derive(Clone, Copy, ValueEnum)]
enum Dtype {
    F32,
    F64,
}

/// `kl:0.5`, `tv:2` or `exact`.
fn penalty(text: &str) -> Result<Penalty, String> {
    let number = |text: &str| text.parse::<f64>().map_err(|e| e.to_string());
    match text.split_once(':') {
        Some(("kl", tau)) => Ok(Penalty::Kl(number(tau)?)),
        Some(("tv", tau)) => Ok(Penalty::Tv(number(tau)?)),
        None if text == "exact" => Ok(Penalty::Exact),
        _ => Err("expected kl:τ, tv:τ or exact".into()),
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<String, String> {
    let (a, b) = (npy::read(&arguments.rows)?, npy::read(&arguments.cols)?);
    let slack = Slack::new(arguments.slack_row, arguments.slack_col);
    let (rows, cols) = (arguments.penalty_rows, arguments.penalty_cols);
    let marginals = if rows.is_exact() && cols.is_exact() {
        Marginals::with_slack(&a.entries, &b.entries, slack)
    } else {
        Marginals::relaxed(&a.entries, &b.entries, rows, cols)
    };
    let marginals = marginals.map_err(|e| e.to_string())?;
    let work = || match arguments.dtype {
        Dtype::F64 => read::<f64>(arguments, marginals),
        Dtype::F32 => read::<f32>(arguments, marginals),
    };
    #[cfg(feature = "rayon")]
    if let Some(threads) = arguments.threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        return pool.map_err(|e| e.to_string())?.install(work);
    }
    work()
}

/// Reads the costs or the points, in the precision asked for, and answers.
fn read<T: Real>(arguments: &Arguments, marginals: Marginals) -> Result<String, String> {
    let matrix = |path: &PathBuf| -> Result<(Vec<T>, usize, usize), String> {
        let array = npy::read(path)?;
        let &[rows, cols] = &array.shape[..] else {
            let (path, shape) = (path.display(), array.shape);
            return Err(format!("{path} has shape {shape:?}; expected a matrix"));
        };
        let entries = array.entries.iter().map(|&x| T::narrow(x)).collect();
        Ok((entries, rows, cols))
    };
    if let (Some(from), Some(to)) = (&arguments.from, &arguments.to) {
        let ((x, _, d), (y, _, e)) = (matrix(from)?, matrix(to)?);
        if d != e {
            return Err(format!("points of {d} and of {e} coordinates"));
        }
        let wrong = |e: earthmover::Error| e.to_string();
        // One compiled solver for all metrics: a tile of distances is one call.
        let cloud: &dyn Cost<T> = match arguments.metric {
            Metric::SquaredEuclidean => {
                &PointCloud::new(&x, &y, d, SquaredEuclidean).map_err(wrong)?
            }
            Metric::Euclidean => &PointCloud::new(&x, &y, d, Euclidean).map_err(wrong)?,
            Metric::Manhattan => &PointCloud::new(&x, &y, d, Manhattan).map_err(wrong)?,
            Metric::Cosine => &PointCloud::new(&x, &y, d, Cosine).map_err(wrong)?,
        };
        return answer(arguments, cloud, marginals);
    }
    let path = arguments.cost.as_ref().ok_or("--cost is missing")?;
    let (costs, rows, cols) = matrix(path)?;
    let cost = Dense::new(&costs, rows, cols).map_err(|e| e.to_string())?;
    answer(arguments, cost, marginals)
}

fn answer<T: Real, C: Cost<T>>(
    arguments: &Arguments,
    cost: C,
    marginals: Marginals,
) -> Result<String, String> {
    let problem = Problem::new(cost, marginals).map_err(|e| e.to_string())?;
    let (mut best, mut last) = (f64::INFINITY, None);
    for _ in 0..arguments.repeat.max(1) {
        let start = Instant::now();
        let solution = solve(arguments, &problem)?;
        best = best.min(1e3 * start.elapsed().as_secs_f64());
        last = Some(solution);
    }
    let solution = last.ok_or("nothing was solved")?;
    if let Some(path) = &arguments.plan {
        let plan = solution.plan().to_dense();
        npy::write(path, &plan, problem.rows(), problem.cols())?;
    }
    let certificate = solution.certificate();
    Ok(format!(
        "{{\"ms\":{best},\"iterations\":{},\"status\":\"{}\",\"primal\":{},\"dual\":{},\"violation\":{},\"mass\":{}}}",
        solution.iterations(),
        solution.status(),
        json(certificate.primal),
        json(certificate.dual),
        json(solution.violation()),
        json(certificate.mass),
    ))
}

fn solve<'p, T: Real, C: Cost<T>>(
    arguments: &Arguments,
    problem: &'p Problem<T, C>,
) -> Result<Solution<'p, T, C>, String> {
    let entropic = || {
        let missing = "--epsilon is missing; only --method exact does without";
        arguments.epsilon.ok_or_else(|| missing.to_string())
    };
    match arguments.method {
        Method::Auto => Entropic::new(entropic()?)
            .tolerance(arguments.tolerance)
            .max_iterations(100_000)
            .solve(problem),
        Method::Sinkhorn => Sinkhorn::new(entropic()?)
            .tolerance(arguments.tolerance)
            .max_iterations(100_000)
            .solve(problem),
        Method::Newton => Newton::new(entropic()?)
            .tolerance(arguments.tolerance)
            .solve(problem),
        Method::Exact => Exact::new().gap(arguments.tolerance).solve(problem),
    }
    .map_err(|e| e.to_string())
}

/// JSON has no infinity and no NaN; Python's reader knows these words for them.
fn json(x: f64) -> String {
    match x {
        x if x.is_nan() => "NaN".into(),
        x if x.is_infinite() => if x > 0.0 { "Infinity" } else { "-Infinity" }.into(),
        x => format!("{x:e}"),
    }
}
