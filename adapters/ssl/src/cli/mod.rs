//! The command line: `earthmover-ssl`, and the `ssl_train` example, which is the same program.
//!
//! ```text
//! earthmover-ssl train --dataset folder --data photos --size 64     train on one's own photographs
//! earthmover-ssl labels runs/photos/sla-seed1                       what it says about the unlabeled ones
//! earthmover-ssl predict runs/photos/sla-seed1 more/                and about others
//! earthmover-ssl report runs/photos                                 the page about it
//! earthmover-ssl allocate --logits l.npy --bounds wilson:y.npy      labels from a matrix of logits, no training at all
//! ```
//!
//! Everything a run makes is in its folder. Ctrl-C saves; the same command with `--resume` (without it for
//! `experiments`) goes on as if nothing had happened. `RAYON_NUM_THREADS` sets the number of threads; the results are the same
//! for any. Exit codes: 0 for success, 1 for a run that failed, 2 for input that is wrong, 130 after Ctrl-C.

mod allocate;
mod output;
mod signal;

#[cfg(feature = "train")]
mod experiments;
#[cfg(feature = "train")]
mod flags;
#[cfg(feature = "train")]
mod predict;
#[cfg(feature = "train")]
mod presets;
#[cfg(feature = "train")]
mod progress;
#[cfg(feature = "train")]
mod report;
#[cfg(feature = "train")]
mod session;
#[cfg(feature = "train")]
mod tables;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use output::remark;

/// What the program does when it is started without arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bare {
    /// Says what it can do.
    Help,
    /// Trains on the embedded digits.
    Train,
}

/// Learns from few labels and many unlabeled examples, and labels the rest.
#[derive(Parser)]
#[command(
    name = "earthmover-ssl",
    version,
    args_conflicts_with_subcommands = true,
    args_override_self = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[cfg(feature = "train")]
    #[command(flatten)]
    train: flags::TrainFlags,
}

#[derive(Subcommand)]
enum Command {
    /// Trains with few labels and compares methods
    #[cfg(feature = "train")]
    #[command(args_override_self = true)]
    Train(Box<flags::TrainFlags>),
    /// What a trained network says about other examples
    #[cfg(feature = "train")]
    Predict(predict::PredictFlags),
    /// What a run says about the examples it learned from: labels, weights, prices, abstention
    #[cfg(feature = "train")]
    Labels(predict::LabelFlags),
    /// Labels from a matrix of logits, under bounds on the classes: no training, no network, a certificate
    #[command(args_override_self = true)]
    Allocate(allocate::AllocateFlags),
    /// Completions for a shell: bash, zsh, fish, elvish or powershell
    Completions {
        /// Which one
        shell: clap_complete::Shell,
    },
    /// Runs all that a TOML file lists, goes on where it stopped, writes tables and a report
    #[cfg(feature = "train")]
    Experiments(experiments::ExperimentFlags),
    /// Turns run folders into one HTML page
    #[cfg(feature = "train")]
    Report(report::ReportFlags),
    /// Lists the presets, or tries them out with --check
    #[cfg(feature = "train")]
    Presets(presets::PresetFlags),
    /// Measures the share of a step's time that label allocation takes
    #[cfg(feature = "train")]
    Cost(presets::CostFlags),
}

/// Why the program ends, and with which code.
#[cfg_attr(not(feature = "train"), allow(dead_code))]
pub(crate) enum Failure {
    /// The input is wrong: 2.
    Input(String),
    /// A run failed: 1.
    Run(String),
    /// Ctrl-C: 130.
    Stopped,
}

#[cfg(feature = "train")]
impl From<crate::trainer::TrainError> for Failure {
    fn from(error: crate::trainer::TrainError) -> Self {
        use crate::trainer::TrainError;
        match error {
            TrainError::NotFinite { .. } | TrainError::BadWeights { .. } => {
                Self::Run(error.to_string())
            }
            _ => Self::Input(error.to_string()),
        }
    }
}

impl From<crate::data::DataError> for Failure {
    fn from(error: crate::data::DataError) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<crate::Error> for Failure {
    fn from(error: crate::Error) -> Self {
        Self::Input(error.to_string())
    }
}

/// Parses the arguments, does what they say, and answers with the exit code.
#[must_use]
pub fn main(bare: Bare) -> ExitCode {
    if bare == Bare::Help && std::env::args_os().len() < 2 {
        let _ = Arguments::command().print_help();
        return ExitCode::from(2);
    }
    let arguments = Arguments::parse();
    let (outcome, stopped) = match arguments.command {
        #[cfg(feature = "train")]
        None => (session::train(&arguments.train), SAVED),
        #[cfg(not(feature = "train"))]
        None => (
            Err(Failure::Input("name a command; see --help".to_owned())),
            NOTHING,
        ),
        #[cfg(feature = "train")]
        Some(Command::Train(flags)) => (session::train(&flags), SAVED),
        #[cfg(feature = "train")]
        Some(Command::Predict(flags)) => (predict::predict(&flags), NOTHING),
        #[cfg(feature = "train")]
        Some(Command::Labels(flags)) => (predict::labels(&flags), NOTHING),
        Some(Command::Allocate(flags)) => (allocate::allocate(&flags), NOTHING),
        Some(Command::Completions { shell }) => {
            let mut command = Arguments::command();
            clap_complete::generate(
                shell,
                &mut command,
                "earthmover-ssl",
                &mut std::io::stdout(),
            );
            return ExitCode::SUCCESS;
        }
        #[cfg(feature = "train")]
        Some(Command::Experiments(flags)) => (
            experiments::run(&flags),
            "stopped and saved; the same command goes on",
        ),
        #[cfg(feature = "train")]
        Some(Command::Report(flags)) => (report::report(&flags), NOTHING),
        #[cfg(feature = "train")]
        Some(Command::Presets(flags)) => (presets::presets(&flags), NOTHING),
        #[cfg(feature = "train")]
        Some(Command::Cost(flags)) => (presets::cost(&flags), NOTHING),
    };
    let (message, code) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Input(message)) => (format!("error: {message}"), 2),
        Err(Failure::Run(message)) => (format!("error: {message}"), 1),
        Err(Failure::Stopped) => (stopped.to_owned(), 130),
    };
    remark!("{message}");
    ExitCode::from(code)
}

#[cfg(feature = "train")]
const SAVED: &str = "stopped and saved; the same command with --resume goes on";
const NOTHING: &str = "stopped; nothing is saved, the same command starts anew";
