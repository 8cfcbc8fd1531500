//! A training run as the allocator sees it, against the authors' order of work, in one process.
//!
//! ```text
//! cargo bench -p earthmover-ssl --no-default-features --bench allocation
//! cargo bench -p earthmover-ssl --no-default-features --bench allocation -- --classes 10 --tolerance 1e-6
//! ```
//!
//! n = 50,000 examples; each of 2,000 steps shows 448 of them to a model that sharpens and drifts, hands the
//! log-probabilities over (`observe`) and re-solves (`allocate`) with ρ growing from 0 to 1. Both calls are timed together:
//! checking and storing the rows is part of a re-solve's price.
//!
//! The baseline does what the published code does, in its order: dense (n+1)×(k+1) single-precision arrays in the
//! log domain, a fresh full-size temporary for each operation, three exponentials per entry and iteration (column
//! sums, row sums, error), same tolerance, warm start from its own last answer. It is far too slow for
//! 2,000 steps, so it runs on windows of consecutive steps spread over training. A window starts from our
//! answer, which is better than the tolerance asks for and would spare it iterations that its own answers do
//! not; so steps count only after the first at which it had to iterate, or after `--warm` steps. Ratios compare means over the
//! same steps.
//!
//! `--trace true` prints every step that iterates or takes longer than 2 ms. Set RAYON_NUM_THREADS=1 for figures of one
//! thread.
//!
//! Times are CPU times of the whole process, so that neither a second core nor a busy machine flatters or hurts either
//! side; on a quiet machine and one thread they are the wall clock's.
//!
//! At every 20th step the true residual is evaluated from the costs and β alone, in double precision, and must
//! be within the tolerance; so must the baseline's.
//!
//! Two other questions, each instead of the above:
//!
//! ```text
//! … -- --huge 1280000 1000 f16       ImageNet's size: peak memory beside the size of the cost matrix
//! … -- --constrained 10000 10        groups and lower bounds: cycles of projections with and without Newton's steps
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use std::hint::black_box;
use std::time::Instant;

use cpu_time::ProcessTime;
use earthmover_ssl::allocation::{
    Acceleration, Bounds, ConstrainedAllocation, CostStorage, LabelAllocator, Schedule,
};
use earthmover_testkit::Rng;

struct Settings {
    examples: usize,
    classes: Vec<usize>,
    batch: usize,
    steps: usize,
    tolerance: f64,
    gamma: f64,
    windows: usize,
    window: usize,
    warm: usize,
    drift: f64,
    trace: bool,
    seen: f64,
    rho: f64,
}

fn main() {
    let mut settings = Settings {
        examples: 50_000,
        classes: vec![10, 100],
        batch: 448,
        steps: 2000,
        tolerance: 0.01,
        gamma: 100.0,
        windows: 8,
        window: 10,
        warm: 40,
        drift: 0.5,
        trace: false,
        seen: 1.0,
        rho: 0.1,
    };
    let mut arguments = std::env::args().skip(1).filter(|a| a != "--bench");
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().expect("a value after each option");
        match name.as_str() {
            "--examples" => settings.examples = value().parse().unwrap(),
            "--classes" => {
                settings.classes = value().split(',').map(|k| k.parse().unwrap()).collect()
            }
            "--batch" => settings.batch = value().parse().unwrap(),
            "--steps" => settings.steps = value().parse().unwrap(),
            "--tolerance" => settings.tolerance = value().parse().unwrap(),
            "--gamma" => settings.gamma = value().parse().unwrap(),
            "--windows" => settings.windows = value().parse().unwrap(),
            "--drift" => settings.drift = value().parse().unwrap(),
            "--warm" => settings.warm = value().parse().unwrap(),
            "--window" => settings.window = value().parse().unwrap(),
            "--seen" => settings.seen = value().parse().unwrap(),
            "--rho" => settings.rho = value().parse().unwrap(),
            "--huge" => {
                let (n, k) = (value().parse().unwrap(), value().parse().unwrap());
                return huge(&settings, n, k, &value());
            }
            "--constrained" => {
                let (n, k) = (value().parse().unwrap(), value().parse().unwrap());
                return constrained(n, k);
            }
            "--trace" => settings.trace = value().parse().unwrap(),
            other => panic!("unknown option {other}"),
        }
    }
    for &k in &settings.classes {
        simulate(&settings, k);
    }
}

fn simulate(settings: &Settings, k: usize) {
    let (n, steps) = (settings.examples, settings.steps);
    let mut model = Model::new(n, k, settings.drift, 1);
    let bounds = Bounds::given(&vec![1.0 / k as f64; k]).unwrap();
    let mut allocator = LabelAllocator::options(n, k)
        .bounds(bounds)
        .gamma(settings.gamma)
        .tolerance(settings.tolerance)
        .build()
        .unwrap();
    let ramp = Schedule::linear();
    let mut ours = Samples::default();
    let mut shared = Samples::default();
    let mut theirs = Samples::default();
    let mut baseline: Option<Baseline> = None;
    let (mut warmed, mut counted) = (0, 0);
    let mut worst_residual = 0.0f64;
    let mut indices = Vec::new();
    for step in 0..steps {
        let rho = ramp.at(step, steps);
        let log_p = model.batch(step as f64 / steps as f64, settings.batch, &mut indices);
        if (1..=settings.windows).any(|w| w * steps / (settings.windows + 1) == step) {
            baseline = Some(Baseline::new(
                &allocator.costs(),
                &allocator.scaling(),
                k,
                settings.gamma,
            ));
            (warmed, counted) = (0, 0);
        }
        let started = ProcessTime::now();
        allocator.observe(&indices, &log_p).unwrap();
        let report = allocator.allocate(rho).unwrap();
        let seconds = started.elapsed().as_secs_f64();
        ours.add(seconds, report.iterations);
        if settings.trace && (report.iterations > 0 || seconds > 2e-3) {
            let ms = seconds * 1e3;
            println!(
                "  step {step}: {ms:.3} CPU ms, {} iterations",
                report.iterations
            );
        }
        assert!(report.status.is_converged(), "step {step}: {report:?}");
        if step % 20 == 0 || step + 1 == steps {
            let residual = residual(
                &allocator.costs(),
                &allocator.scaling(),
                k,
                settings.gamma,
                rho,
            );
            worst_residual = worst_residual.max(residual);
            assert!(
                residual <= settings.tolerance * (1.0 + 1e-9),
                "step {step}: true residual {residual}"
            );
        }
        if let Some(other) = baseline.as_mut() {
            other.replace(&indices, &log_p);
            let started = ProcessTime::now();
            let iterations = other.solve(rho, settings.tolerance);
            let elapsed = started.elapsed().as_secs_f64();
            if warmed >= settings.warm {
                theirs.add(elapsed, iterations);
                shared.add(seconds, report.iterations);
                counted += 1;
            } else if iterations > 0 {
                // Not counted itself: a step picked because it iterates would not be a fair sample.
                warmed = settings.warm;
            } else {
                warmed += 1;
            }
            if counted == settings.window {
                let scaling: Vec<f64> = other.beta.iter().map(|b| f64::from(*b)).collect();
                let residual = residual(&allocator.costs(), &scaling, k, settings.gamma, rho);
                // Its own error is a single-precision sum.
                assert!(
                    residual <= settings.tolerance + 1e-4,
                    "baseline residual {residual}"
                );
                baseline = None;
            }
        }
    }
    println!(
        "n = {n}, k = {k}, {} rows a step, {steps} steps, tolerance {:e}, gamma {}",
        settings.batch, settings.tolerance, settings.gamma
    );
    println!("  this crate, all steps       {}", ours.line());
    println!(
        "  no iteration needed in {:.1}% of steps; worst checked residual {worst_residual:.2e}",
        100.0 * ours.idle()
    );
    if !theirs.seconds.is_empty() {
        println!("  this crate, shared steps    {}", shared.line());
        println!("  authors' order of work      {}", theirs.line());
        println!(
            "  ratio of means: {:.0}x on the shared steps, {:.0}x against all steps",
            theirs.mean() / shared.mean(),
            theirs.mean() / ours.mean()
        );
    }
}

/// One allocation of a tenth of the examples (or the share `--rho`), from a cold start, once the model has looked at all of them (or at the
/// share `--seen`), and the most memory that the process ever had.
///
/// Predictions for a thousand million pairs would take longer than all else: those of 4,096 examples serve for
/// all, batch by batch with the classes moved on, so that no two rows are the same.
fn huge(settings: &Settings, n: usize, k: usize, bits: &str) {
    let (storage, bytes) = match bits {
        "f32" => (CostStorage::Single, 4),
        "f16" => (CostStorage::Half, 2),
        "bf16" => (CostStorage::Bfloat, 2),
        other => panic!("costs in {other}?"),
    };
    let (size, rho) = (4096.min(n), settings.rho);
    let mut log_p = Model::new(n, k, settings.drift, 1).rows(0.2, &(0..size).collect::<Vec<_>>());
    let before = peak_bytes();
    let started = Instant::now();
    let mut allocator = LabelAllocator::options(n, k)
        .bounds(Bounds::given(&vec![1.0 / k as f64; k]).unwrap())
        .gamma(settings.gamma)
        .tolerance(settings.tolerance)
        .storage(storage)
        .build()
        .unwrap();
    let build = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let (seen, mut from) = ((settings.seen * n as f64) as usize, 0);
    while from < seen {
        for rows in log_p.chunks(settings.batch * k) {
            let batch: Vec<usize> = (from..n.min(from + rows.len() / k)).collect();
            allocator.observe(&batch, &rows[..batch.len() * k]).unwrap();
            from += batch.len();
        }
        log_p.chunks_exact_mut(k).for_each(|row| row.rotate_left(1));
    }
    let observe = started.elapsed().as_secs_f64();
    let cpu = ProcessTime::now();
    let report = allocator.allocate(rho).unwrap();
    let cpu = cpu.elapsed().as_secs_f64();
    assert!(report.status.is_converged(), "{report:?}");
    let matrix = (n * k * bytes) as f64;
    println!(
        "n = {n}, k = {k}, costs in {bits}, {} seen, rho = {rho}, tolerance {:e}, gamma {}",
        from, settings.tolerance, settings.gamma
    );
    println!(
        "  build {build:.2} s, observe {observe:.2} s, allocate {:.2} s ({cpu:.2} CPU s), {} iterations, error {:.2e}",
        report.seconds, report.iterations, report.error
    );
    match (before, peak_bytes()) {
        (Some(before), Some(peak)) => println!(
            "  cost matrix {:.1} MB, peak {:.1} MB ({:.1} MB of it before the allocator was made): {:.1} MB more, \
             {:.1} bytes an example",
            matrix / 1e6,
            peak / 1e6,
            before / 1e6,
            (peak - before - matrix) / 1e6,
            (peak - before - matrix) / n as f64
        ),
        _ => println!("  peak memory is not known on this system"),
    }
}

/// Most resident memory so far, where the system tells.
fn peak_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024.0)
}

/// Lower bounds on every class and two groups, by cycles alone and with Newton's steps between them.
fn constrained(n: usize, k: usize) {
    let mut model = Model::new(n, k, 1.0, 1);
    let log_p = model.rows(0.2, &(0..n).collect::<Vec<_>>());
    let share = 1.0 / k as f64;
    println!(
        "n = {n}, k = {k}, lower bounds, two groups, rho = 0.8; passes over the costs, CPU ms"
    );
    for (labels, cap) in [(1.0, f64::INFINITY), (2.0, 1.0)] {
        for gamma in [10.0, 100.0] {
            for tolerance in [1e-4, 1e-6] {
                let share = labels * share;
                let bounds = Bounds::between(&vec![0.6 * share; k], &vec![1.1 * share; k]).unwrap();
                let question = ConstrainedAllocation::new(k)
                    .labels_per_example(labels)
                    .entry_cap(cap)
                    .bounds(bounds)
                    .group(0..k / 2, 0.0, 0.4 * labels)
                    .group(k / 2..k - 1, 0.35 * labels, f64::INFINITY)
                    .rho(0.8)
                    .gamma(gamma)
                    .tolerance(tolerance)
                    .max_iterations(if cap.is_finite() { 200 } else { 10_000 });
                let mut line = format!("  labels {labels}, gamma {gamma:3}, {tolerance:e}:");
                for (name, acceleration) in [
                    ("cycles", Acceleration::None),
                    ("newton", Acceleration::Newton),
                ] {
                    let question = question.clone().acceleration(acceleration);
                    let started = ProcessTime::now();
                    let answer = question.solve(&log_p).unwrap();
                    let ms = started.elapsed().as_secs_f64() * 1e3;
                    let passes = answer.iterations();
                    let end = if answer.status().is_converged() {
                        ""
                    } else {
                        " (not there)"
                    };
                    line += &format!("  {name} {passes:5}{end} {ms:9.1} ms");
                }
                println!("{line}");
            }
        }
    }
}

/// Seconds and iterations of some steps.
#[derive(Default)]
struct Samples {
    seconds: Vec<f64>,
    iterations: Vec<usize>,
}

impl Samples {
    fn add(&mut self, seconds: f64, iterations: usize) {
        self.seconds.push(seconds);
        self.iterations.push(iterations);
    }

    fn mean(&self) -> f64 {
        self.seconds.iter().sum::<f64>() / self.seconds.len() as f64
    }

    fn idle(&self) -> f64 {
        self.iterations.iter().filter(|i| **i == 0).count() as f64 / self.iterations.len() as f64
    }

    fn line(&self) -> String {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |q: f64| sorted[((sorted.len() - 1) as f64 * q).round() as usize] * 1e3;
        let total: usize = self.iterations.iter().sum();
        format!(
            "mean {:9.3} CPU ms  median {:9.3}  p99 {:9.3}  worst {:9.3}  iterations {:.2} mean, {} most",
            self.mean() * 1e3,
            at(0.5),
            at(0.99),
            at(1.0),
            total as f64 / self.iterations.len() as f64,
            self.iterations.iter().max().copied().unwrap_or(0),
        )
    }
}

/// ‖c − column sums‖₁/‖c‖₁ of the paper's problem for b = 1/k, from costs and β alone.
fn residual(costs: &[f32], beta: &[f64], k: usize, gamma: f64, rho: f64) -> f64 {
    let n = (costs.len() / k) as f64;
    let mut sums = vec![0.0f64; k + 1];
    let mut row = vec![0.0f64; k + 1];
    let zeros = vec![0.0f32; k];
    let slack_row = 1.0 + k as f64 + n * (1.0 - rho);
    let rows = costs.chunks_exact(k).map(|r| (r, 1.0));
    for (costs, mass) in rows.chain([(zeros.as_slice(), slack_row)]) {
        let mut top = beta[k];
        for j in 0..k {
            row[j] = beta[j] - gamma * f64::from(costs[j]);
            top = top.max(row[j]);
        }
        row[k] = beta[k];
        let mut total = 0.0;
        for value in &mut row {
            *value = (*value - top).exp();
            total += *value;
        }
        for (sum, value) in sums.iter_mut().zip(&row) {
            *sum += mass * value / total;
        }
    }
    let cap = 1.0 + n / k as f64;
    let slack_col = 1.0 + n * (1.0 - rho);
    let error: f64 =
        sums[..k].iter().map(|s| (s - cap).abs()).sum::<f64>() + (sums[k] - slack_col).abs();
    error / (cap * k as f64 + slack_col)
}

/// The published order of work on host arrays.
struct Baseline {
    n: usize,
    k: usize,
    gamma: f32,
    /// −γC with a zero row and column, (n+1)×(k+1).
    kernel: Vec<f32>,
    alpha: Vec<f32>,
    beta: Vec<f32>,
}

impl Baseline {
    fn new(costs: &[f32], beta: &[f64], k: usize, gamma: f64) -> Self {
        let n = costs.len() / k;
        let mut kernel = vec![0.0; (n + 1) * (k + 1)];
        for (row, costs) in kernel.chunks_exact_mut(k + 1).zip(costs.chunks_exact(k)) {
            for (cell, cost) in row.iter_mut().zip(costs) {
                *cell = -(gamma as f32) * cost;
            }
        }
        Self {
            n,
            k,
            gamma: gamma as f32,
            kernel,
            alpha: vec![0.0; n + 1],
            beta: beta.iter().map(|b| *b as f32).collect(),
        }
    }

    fn replace(&mut self, indices: &[usize], log_p: &[f32]) {
        for (&i, row) in indices.iter().zip(log_p.chunks_exact(self.k)) {
            for (cell, l) in self.kernel[i * (self.k + 1)..].iter_mut().zip(row) {
                *cell = self.gamma * l;
            }
        }
    }

    fn solve(&mut self, rho: f64, tolerance: f64) -> usize {
        let (n, k) = (self.n, self.k);
        let mut r = vec![1.0f32; n + 1];
        r[n] = (1.0 + k as f64 + n as f64 * (1.0 - rho)) as f32;
        let mut c = vec![1.0 + n as f32 / k as f32; k + 1];
        c[k] = (1.0 + n as f64 * (1.0 - rho)) as f32;
        let limit = tolerance as f32 * c.iter().sum::<f32>();
        let mut iterations = 0;
        // Rows first: the stored row variables belong to the rows before this batch.
        self.rows(&r);
        while self.error(&c) > limit && iterations < 5000 {
            self.columns(&c);
            self.rows(&r);
            iterations += 1;
        }
        iterations
    }

    /// β ← log c − logsumexp over rows of (M + α).
    fn columns(&mut self, c: &[f32]) {
        let width = self.k + 1;
        let shifted: Vec<f32> = self
            .kernel
            .chunks_exact(width)
            .zip(&self.alpha)
            .flat_map(|(row, a)| row.iter().map(move |m| m + a))
            .collect();
        let mut top = vec![f32::NEG_INFINITY; width];
        for row in shifted.chunks_exact(width) {
            for (t, v) in top.iter_mut().zip(row) {
                *t = t.max(*v);
            }
        }
        let powers: Vec<f32> = shifted
            .chunks_exact(width)
            .flat_map(|row| row.iter().zip(&top).map(|(v, t)| (v - t).exp()))
            .collect();
        let mut sums = vec![0.0f32; width];
        for row in black_box(&powers).chunks_exact(width) {
            for (s, v) in sums.iter_mut().zip(row) {
                *s += v;
            }
        }
        for j in 0..width {
            self.beta[j] = c[j].ln() - (top[j] + sums[j].ln());
        }
    }

    /// α ← log r − logsumexp over columns of (M + β).
    fn rows(&mut self, r: &[f32]) {
        let width = self.k + 1;
        let shifted: Vec<f32> = self
            .kernel
            .chunks_exact(width)
            .flat_map(|row| row.iter().zip(&self.beta).map(|(m, b)| m + b))
            .collect();
        let top: Vec<f32> = shifted
            .chunks_exact(width)
            .map(|row| row.iter().copied().fold(f32::NEG_INFINITY, f32::max))
            .collect();
        let powers: Vec<f32> = shifted
            .chunks_exact(width)
            .zip(&top)
            .flat_map(|(row, t)| row.iter().map(move |v| (v - t).exp()))
            .collect();
        let rows = black_box(&powers).chunks_exact(width);
        for ((row, alpha), (t, r)) in rows.zip(&mut self.alpha).zip(top.iter().zip(r)) {
            *alpha = r.ln() - (t + row.iter().sum::<f32>().ln());
        }
    }

    /// ‖c − column sums of exp(α + M + β)‖₁.
    fn error(&self, c: &[f32]) -> f32 {
        let width = self.k + 1;
        let plan: Vec<f32> = self
            .kernel
            .chunks_exact(width)
            .zip(&self.alpha)
            .flat_map(|(row, a)| {
                row.iter()
                    .zip(&self.beta)
                    .map(move |(m, b)| (m + a + b).exp())
            })
            .collect();
        // Torch adds in blocks; double precision here stands for that, else the sum's rounding would rule.
        let mut sums = vec![0.0f64; width];
        for row in black_box(&plan).chunks_exact(width) {
            for (s, v) in sums.iter_mut().zip(row) {
                *s += f64::from(*v);
            }
        }
        let gaps = sums.iter().zip(c).map(|(s, c)| (s - f64::from(*c)).abs());
        gaps.sum::<f64>() as f32
    }
}

/// A model that learns: example i of class y has logits s(t)(m_i e_y + noise_i) + drift(t) + fresh noise.
struct Model {
    n: usize,
    k: usize,
    truth: Vec<usize>,
    margin: Vec<f64>,
    /// How many nats the model's opinion of a class swings by.
    drift: f64,
    seed: u64,
    rng: Rng,
}

impl Model {
    fn new(n: usize, k: usize, drift: f64, seed: u64) -> Self {
        let mut rng = Rng(seed);
        let truth = (0..n).map(|i| i % k).collect();
        let margin = (0..n).map(|_| 1.0 + 1.0 * rng.normal()).collect();
        Self {
            n,
            k,
            truth,
            margin,
            drift,
            seed,
            rng,
        }
    }

    /// Predictions for distinct random examples at a fraction of training done.
    fn batch(&mut self, progress: f64, size: usize, indices: &mut Vec<usize>) -> Vec<f32> {
        indices.clear();
        while indices.len() < size {
            let index = self.rng.below(self.n);
            if !indices.contains(&index) {
                indices.push(index);
            }
        }
        self.rows(progress, indices)
    }

    /// Predictions for these examples.
    fn rows(&mut self, progress: f64, indices: &[usize]) -> Vec<f32> {
        let sharpness = 0.5 + 5.5 * progress;
        let drift: Vec<f64> = (0..self.k)
            .map(|j| {
                self.drift
                    * (std::f64::consts::TAU * (3.0 * progress + j as f64 / self.k as f64)).sin()
            })
            .collect();
        let mut log_p = Vec::with_capacity(indices.len() * self.k);
        let mut logits = vec![0.0; self.k];
        for &i in indices {
            // What the example looks like stays; how it was augmented this time does not.
            let mut own = Rng(self.seed ^ (i as u64).wrapping_mul(0x9e37_79b9));
            for j in 0..self.k {
                let appeal = 0.6 * own.normal()
                    + if j == self.truth[i] {
                        2.0 * self.margin[i]
                    } else {
                        0.0
                    };
                logits[j] = sharpness * appeal + drift[j] + 0.3 * self.rng.normal();
            }
            let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let lse = top + logits.iter().map(|l| (l - top).exp()).sum::<f64>().ln();
            log_p.extend(logits.iter().map(|l| (l - lse) as f32));
        }
        log_p
    }
}
