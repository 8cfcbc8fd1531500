//! Semi-supervised training: label allocation beside its peers, on real data.
//!
//! ```text
//! cargo run --release --example ssl_train                          digits, 20 labels, three methods, a minute
//! cargo run --release --example ssl_train -- --seeds 1,2,3,4,5     the same, mean ± std
//! cargo run --release --features cuda --example ssl_train -- --preset paper-cifar10-40 --data <folder> --device cuda:0
//! cargo run --release --example ssl_train -- report runs/digits-20
//! cargo run --release --example ssl_train -- experiments examples/experiments/digits.toml
//! cargo run --release --example ssl_train -- presets --check --data data      every preset, a few steps each
//! cargo run --release --example ssl_train -- cost --data data                 allocation's share of a step
//! ```
//!
//! Features: `cuda` for an NVIDIA card, `cudnn` for the same with cuDNN's convolutions, `metal` for an Apple one; each
//! needs the vendor's toolkit to build. Without them `--device` says so and computes on the processor.
//!
//! Everything a run makes is in its folder under `runs/`. Ctrl-C saves; the same command with `--resume` (without it for
//! `experiments`) goes on as if nothing had happened. `RAYON_NUM_THREADS` sets the number of threads; the results are the same for any.

mod check;
mod experiments;
mod flags;
mod output;
mod progress;
mod session;
mod tables;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use earthmover_ssl::report;

use check::{CostFlags, PresetFlags};
use experiments::ExperimentFlags;
use flags::TrainFlags;
use output::{remark, say};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Trains with few labels and compares methods. Without arguments: 20 labels of the embedded digits.
#[derive(Parser)]
#[command(name = "ssl_train", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    train: TrainFlags,
}

#[derive(Subcommand)]
enum Command {
    /// Turns run folders into one HTML page
    Report {
        /// Run folders, or folders of them
        #[arg(required = true)]
        runs: Vec<PathBuf>,
        /// The page to write [default: report.html in the first folder]
        #[arg(long)]
        output: Option<PathBuf>,
        /// Its heading
        #[arg(long, default_value = "Semi-supervised training")]
        title: String,
    },
    /// Runs all that a TOML file lists, goes on where it stopped, writes tables and a report
    Experiments(ExperimentFlags),
    /// Lists the presets, or tries them out with --check
    Presets(PresetFlags),
    /// Measures the share of a step's time that label allocation takes
    Cost(CostFlags),
}

/// Why the program ends, and with which code.
enum Failure {
    /// The input is wrong: 2.
    Input(String),
    /// A run failed: 1.
    Run(String),
    /// Ctrl-C: 130.
    Stopped,
}

impl From<earthmover_ssl::trainer::TrainError> for Failure {
    fn from(error: earthmover_ssl::trainer::TrainError) -> Self {
        use earthmover_ssl::trainer::TrainError;
        match error {
            TrainError::NotFinite { .. } | TrainError::BadWeights { .. } => {
                Self::Run(error.to_string())
            }
            _ => Self::Input(error.to_string()),
        }
    }
}

/// What Ctrl-C leaves, and how to go on.
fn after_stop(command: Option<&Command>) -> &'static str {
    match command {
        None => "stopped and saved; the same command with --resume goes on",
        Some(Command::Experiments(_)) => "stopped and saved; the same command goes on",
        Some(Command::Report { .. } | Command::Presets(_) | Command::Cost(_)) => {
            "stopped; nothing is saved, the same command starts anew"
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let stopped = after_stop(arguments.command.as_ref());
    let outcome = match arguments.command {
        None => session::train(&arguments.train),
        Some(Command::Report {
            runs,
            output,
            title,
        }) => write_report(&runs, output, &title),
        Some(Command::Experiments(flags)) => experiments::run(&flags),
        Some(Command::Presets(flags)) => check::presets(&flags),
        Some(Command::Cost(flags)) => check::cost(&flags),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Input(message)) => {
            remark!("error: {message}");
            ExitCode::from(2)
        }
        Err(Failure::Run(message)) => {
            remark!("error: {message}");
            ExitCode::from(1)
        }
        Err(Failure::Stopped) => {
            remark!("{stopped}");
            ExitCode::from(130)
        }
    }
}

fn write_report(runs: &[PathBuf], output: Option<PathBuf>, title: &str) -> Result<(), Failure> {
    let output = output.unwrap_or_else(|| runs[0].join("report.html"));
    report::write(title, runs, &[], &output)?;
    say!("wrote {}", output.display());
    Ok(())
}
