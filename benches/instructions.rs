//! Instructions per entry of every sweep kernel, counted by callgrind: the same number on a busy machine.
//!
//! ```sh
//! cargo bench --bench instructions            # print the counts beside the recorded ones
//! cargo bench --bench instructions -- record  # and keep them
//! ```
//!
//! The program runs itself under valgrind, with few sweeps and with many: the difference is the sweeps
//! alone. One thread, so that waiting is not counted. Exits with 1 where a kernel takes over 5% more than
//! recorded.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod sweeps;

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

use sweeps::{KERNELS, Kernel};

const FEW: usize = 2;
const MANY: usize = 12;
const RECORD: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/benches/record/instructions.csv"
);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["sweep", kernel, times] => {
            let kernel = KERNELS.iter().find(|k| k.name == kernel).unwrap();
            let times: usize = times.parse().unwrap();
            kernel.with(&mut |run| (0..times).for_each(|_| run()));
            ExitCode::SUCCESS
        }
        [] => compare(false),
        ["record"] => compare(true),
        _ => {
            eprintln!("usage: instructions [record]");
            ExitCode::from(2)
        }
    }
}

/// Counts every kernel and holds it against the record.
fn compare(keep: bool) -> ExitCode {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("valgrind is not installed: nothing is counted");
        return ExitCode::from(2);
    }
    let recorded = recorded();
    let mut worse = false;
    let mut lines = String::from("kernel,entries,instructions per entry\n");
    println!("{:24} {:>10} {:>10}", "kernel", "per entry", "recorded");
    for kernel in KERNELS {
        let count = per_entry(kernel);
        let before = recorded.get(kernel.name).copied();
        let told = before.map_or_else(|| "-".into(), |b| format!("{b:.3}"));
        println!("{:24} {count:>10.3} {told:>10}", kernel.name);
        worse |= before.is_some_and(|b| count > 1.05 * b);
        lines += &format!("{},{},{count:.3}\n", kernel.name, kernel.entries);
    }
    if keep {
        std::fs::write(RECORD, lines).unwrap();
    }
    if worse && !keep {
        println!("a kernel takes over 5% more instructions than recorded");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn per_entry(kernel: &Kernel) -> f64 {
    let (few, many) = (count(kernel, FEW), count(kernel, MANY));
    (many - few) as f64 / ((MANY - FEW) * kernel.entries) as f64
}

/// Instructions of the whole program with so many sweeps.
fn count(kernel: &Kernel, times: usize) -> u64 {
    let me = std::env::current_exe().unwrap();
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(me)
        .args(["sweep", kernel.name, &times.to_string()])
        .env("RAYON_NUM_THREADS", "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let counted = told
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    match counted {
        Some((_, number)) if output.status.success() => number.trim().parse().unwrap(),
        _ => panic!("callgrind on {}: {told}", kernel.name),
    }
}

fn recorded() -> BTreeMap<String, f64> {
    let text = std::fs::read_to_string(RECORD).unwrap_or_default();
    let lines = text.lines().skip(1);
    lines
        .filter_map(|line| {
            let mut cells = line.split(',');
            let name = cells.next()?.to_owned();
            Some((name, cells.nth(1)?.parse().ok()?))
        })
        .collect()
}
