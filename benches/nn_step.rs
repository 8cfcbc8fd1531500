//! A training step of a wide ResNet-28-2 (forward, backward, Nesterov) beside PyTorch's, interleaved.
//!
//! ```text
//! cargo bench -p earthmover-ssl --bench nn_step -- [--batch 64] [--rounds 3] [--steps 3] [--python PYTHON]
//! ```
//!
//! Each round runs both programmes once, one after the other, each in a process of its own so that
//! the peak memory is its own; the first step of a process is not counted. Both wall-clock and
//! processor seconds are given: on a machine shared with others only the latter can be compared.
//! Prints CSV lines as kept under `benches/record`. Without a Python that has torch our side is timed
//! alone.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr
)]

use std::process::Command;
use std::time::Instant;

use candle_core::{DType, Device, Tensor};
use earthmover_ssl::nn::ops::cross_entropy;
use earthmover_ssl::nn::optim::Sgd;
use earthmover_ssl::nn::{Classifier, Mode, WideResNet};

// Activations are megabytes each and freed every step: an allocator that keeps pages saves the kernel
// from clearing them again and again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn flag(name: &str, default: &str) -> String {
    let mut arguments = std::env::args().skip_while(|a| a != name).skip(1);
    arguments.next().unwrap_or_else(|| default.to_owned())
}

/// User and system seconds of this process so far, and its peak memory in megabytes (Linux only).
fn used() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split(' ').collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse().ok()).unwrap_or(0.0);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .and_then(|l| l.trim().trim_end_matches(" kB").parse::<f64>().ok());
    ((ticks(12) + ticks(13)) / 100.0, peak.unwrap_or(0.0) / 1e3)
}

fn train(batch: usize, steps: usize) {
    let device = Device::Cpu;
    let model = WideResNet::new(28, 2, 3, 10, 1, DType::F32, &device).unwrap();
    let mut sgd = Sgd::new().weight_decay(5e-4);
    let pixels: Vec<f32> = (0..batch * 3072)
        .map(|i| ((i * 2_654_435_761) % 1009) as f32 / 1009.0)
        .collect();
    let x = Tensor::from_vec(pixels, (batch, 3, 32, 32), &device).unwrap();
    let classes = Tensor::from_iter((0..batch as u32).map(|i| i % 10), &device).unwrap();
    for _ in 0..steps {
        let (start, cpu) = (Instant::now(), used().0);
        let logits = model.forward(&x, Mode::Train).unwrap();
        let loss = cross_entropy(&logits, &classes)
            .unwrap()
            .mean_all()
            .unwrap();
        sgd.step(model.parameters(), &loss.backward().unwrap(), 0.03)
            .unwrap();
        let value = loss.to_scalar::<f32>().unwrap();
        assert!(value.is_finite() && value < 10.0, "the loss is {value}");
        println!("step {} {}", start.elapsed().as_secs_f64(), used().0 - cpu);
    }
    println!("peak {}", used().1);
}

/// Median wall-clock and processor seconds after the first step, and the peak memory.
fn figures(command: &mut Command) -> Option<[f64; 3]> {
    let output = command.output().ok().filter(|o| o.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows = |name: &str| -> Vec<Vec<f64>> {
        text.lines()
            .filter_map(|l| l.strip_prefix(name))
            .map(|l| {
                l.split_whitespace()
                    .filter_map(|n| n.parse().ok())
                    .collect()
            })
            .collect()
    };
    let steps = rows("step");
    let median = |i: usize| {
        let mut column: Vec<f64> = steps.iter().skip(1).map(|s| s[i]).collect();
        column.sort_by(f64::total_cmp);
        column.get(column.len() / 2).copied()
    };
    Some([median(0)?, median(1)?, *rows("peak").first()?.first()?])
}

fn main() {
    let number = |name: &str, default: &str| flag(name, default).parse::<usize>().unwrap();
    let (batch, steps) = (number("--batch", "64"), number("--steps", "3") + 1);
    if std::env::args().any(|a| a == "--alone") {
        return train(batch, steps);
    }
    // `cargo test` runs benches too, with no intention to measure.
    if !std::env::args().any(|a| a == "--bench") {
        return train(2, 1);
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let peer = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../benches/peers/nn_step.py"
    );
    println!("round,batch,threads,who,wall_s,cpu_s,peak_mb");
    for round in 1..=number("--rounds", "3") {
        let mut own = Command::new(std::env::current_exe().unwrap());
        own.args(["--alone", "--batch", &batch.to_string()]);
        own.args(["--steps", &(steps - 1).to_string()]);
        let mut torch = Command::new(flag("--python", "python3"));
        torch.args([
            peer,
            &batch.to_string(),
            &steps.to_string(),
            &threads.to_string(),
        ]);
        for (who, command) in [("earthmover", &mut own), ("pytorch", &mut torch)] {
            match figures(command) {
                Some([wall, cpu, peak]) => {
                    println!("{round},{batch},{threads},{who},{wall:.3},{cpu:.2},{peak:.0}");
                }
                None => eprintln!("{who} did not run"),
            }
        }
    }
}
