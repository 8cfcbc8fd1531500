//! Semi-supervised training: label allocation beside its peers, on real data.
//!
//! ```text
//! cargo run --release --example ssl_train                          digits, 20 labels, three methods, a minute
//! cargo run --release --example ssl_train -- --seeds 1..5          the same, mean ± std
//! cargo run --release --features cuda --example ssl_train -- --preset paper-cifar10-40 --data <folder> --device cuda:0
//! cargo run --release --example ssl_train -- report runs/digits-20
//! cargo run --release --example ssl_train -- experiments examples/experiments/digits.toml
//! cargo run --release --example ssl_train -- presets --check --data data      every preset, a few steps each
//! cargo run --release --example ssl_train -- cost --data data                 allocation's share of a step
//! ```
//!
//! It is the `earthmover-ssl` program (`cargo install --path adapters/ssl`), which trains where no command is named.
//!
//! Features: `cuda` for an NVIDIA card, `cudnn` for the same with cuDNN's convolutions, `metal` for an Apple one; each
//! needs the vendor's toolkit to build. `--device auto` takes what is there.

use std::process::ExitCode;

use earthmover_ssl::cli::{Bare, main as run};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    run(Bare::Train)
}
