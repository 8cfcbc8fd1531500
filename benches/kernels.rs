//! Time of one sweep of every CPU kernel. `cargo bench --bench kernels`; `RAYON_NUM_THREADS=1` for one core.
//!
//! Timings on a shared machine wander by tens of per cent; `--bench instructions` counts instead.
#![allow(missing_docs, clippy::unwrap_used)]

mod sweeps;

use divan::Bencher;
use divan::counter::ItemsCount;

use sweeps::{KERNELS, Kernel};

fn main() {
    divan::main();
}

#[divan::bench(args = KERNELS)]
fn sweep(bencher: Bencher<'_, '_>, kernel: &Kernel) {
    let bencher = std::cell::Cell::new(Some(bencher));
    kernel.with(&mut |run| {
        if let Some(bencher) = bencher.take() {
            let run = std::cell::RefCell::new(run);
            bencher
                .counter(ItemsCount::new(kernel.entries))
                .bench_local(|| (run.borrow_mut())());
        }
    });
}
