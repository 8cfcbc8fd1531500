//! `earthmover-ssl`: see [`earthmover_ssl::cli`].

use std::process::ExitCode;

use earthmover_ssl::cli::{Bare, main as run};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    run(Bare::Help)
}
