//! Digests of answers to a fixed set of questions: the same bits on every machine, not only for every number of threads.
//!
//! Questions are made of products, sums and fractional parts alone, so that they are the same everywhere. One line an answer;
//! `.ci/aarch64` holds the lines of two processors and of several numbers of threads against each other:
//!
//! ```text
//! cargo test --release --test digests -- --nocapture
//! ```
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use earthmover::{
    Cosine, Cost, Dense, Entropic, Epsilon, Euclidean, Exact, FromFn, Incremental, Kernel,
    Manhattan, Marginals, Metric, NetworkSimplex, Newton, PointCloud, Problem, Real, ShortestPaths,
    Sinkhorn, Slack, Solution, SquaredEuclidean,
};

/// FNV-1a of 64-bit words.
fn digest(words: impl IntoIterator<Item = u64>) -> u64 {
    words
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

/// The fractional parts of multiples of `step`.
fn fractions(count: usize, step: f64) -> Vec<f64> {
    (1..=count).map(|i| (i as f64 * step).fract()).collect()
}

fn narrowed<T: Real>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&x| T::narrow(x)).collect()
}

/// Everything an answer says.
fn words<T: Real, C: Cost<T>>(solution: &Solution<'_, T, C>) -> Vec<u64> {
    let proof = solution.certificate();
    let mut words = vec![solution.iterations() as u64];
    let numbers = [
        proof.primal,
        proof.dual,
        proof.objective,
        proof.violation,
        proof.mass,
    ];
    let potentials = solution.potentials();
    let numbers = numbers
        .iter()
        .chain(&potentials.cols)
        .chain(&potentials.rows);
    words.extend(numbers.map(|x| x.to_bits()));
    for entry in solution.plan().entries(0.0) {
        words.extend([
            entry.row as u64,
            entry.col as u64,
            entry.mass.widen().to_bits(),
        ]);
    }
    words
}

/// Lines of the form `question solver digest`.
#[derive(Default)]
struct Lines(Vec<(String, u64)>);

impl Lines {
    fn add(&mut self, question: &str, solver: &str, words: &[u64]) {
        let name = format!("{question} {solver}");
        self.0.push((name, digest(words.iter().copied())));
    }

    /// The answers of every solver.
    fn all<T: Real>(&mut self, name: &str, cost: &dyn Cost<T>, marginals: Marginals) {
        let problem = Problem::new(cost, marginals).unwrap();
        let tolerance = if T::epsilon().widen() > 1e-10 {
            1e-4
        } else {
            1e-8
        };
        let (epsilon, problem) = (0.05, &problem);
        let annealed = Epsilon::Annealed {
            from: 1.0,
            to: epsilon,
            factor: 4.0,
        };
        let sinkhorn = Sinkhorn::new(epsilon).tolerance(tolerance);
        let stored = sinkhorn.clone().kernel(Kernel::Stored);
        let annealed = sinkhorn.clone().epsilon(annealed);
        let entropic = Entropic::new(epsilon).tolerance(tolerance);
        let newton = Newton::new(epsilon).tolerance(tolerance);
        for (solver, answer) in [
            ("sinkhorn", sinkhorn.solve(problem)),
            ("stored", stored.solve(problem)),
            ("annealed", annealed.solve(problem)),
            ("entropic", entropic.solve(problem)),
            ("newton", newton.solve(problem)),
            ("exact", Exact::new().solve(problem)),
            ("simplex", NetworkSimplex::new().solve(problem)),
            ("paths", ShortestPaths::new().solve(problem)),
        ] {
            self.add(name, solver, &words(&answer.unwrap()));
        }
    }

    fn clouds<T: Real>(&mut self, name: &str, metric: impl Metric<T> + 'static) {
        let (x, y) = (fractions(3 * 90, 0.618_034), fractions(3 * 41, 0.754_878));
        let (x, y) = (narrowed::<T>(&x), narrowed::<T>(&y));
        let cost = PointCloud::new(&x, &y, 3, metric).unwrap();
        self.all::<T>(name, &cost, Marginals::uniform(90, 41).unwrap());
    }

    fn scalar<T: Real>(&mut self, scalar: &str)
    where
        SquaredEuclidean: Metric<T>,
        Euclidean: Metric<T>,
        Manhattan: Metric<T>,
        Cosine: Metric<T>,
    {
        let named = |what: &str| format!("{what}-{scalar}");
        // Weighted, with slack on both sides.
        let (n, k) = (203, 37);
        let a: Vec<f64> = (0..n).map(|i| 1.0 + (i % 5) as f64).collect();
        let b: Vec<f64> = (0..k).map(|j| 10.0 + (j % 3) as f64).collect();
        let slack = Slack::new(b.iter().sum::<f64>() - 200.0, a.iter().sum::<f64>() - 200.0);
        let table = narrowed::<T>(&fractions(n * k, 0.569_840_29));
        let dense = Dense::new(&table, n, k).unwrap();
        let with_slack = Marginals::with_slack(&a, &b, slack).unwrap();
        self.all::<T>(&named("slack"), &dense, with_slack);
        // Forbidden pairs, in bands that hang together.
        let banded = FromFn::new(60, 60, |i, j| match (i + 60 - j) % 60 {
            0..20 => T::narrow(((i * 7 + j * 13) % 17) as f64 / 17.0),
            _ => T::infinity(),
        })
        .unwrap();
        let even = Marginals::uniform(60, 60).unwrap();
        self.all::<T>(&named("banded"), &banded, even);
        // Short rows.
        let labels = narrowed::<T>(&fractions(400 * 10, 0.819_172_51));
        let labels_cost = Dense::new(&labels, 400, 10).unwrap();
        let bounded = Marginals::bounded(&[1.0; 400], &[50.0; 10], 300.0).unwrap();
        self.all::<T>(&named("labels"), &labels_cost, bounded.clone());
        // And a few of them replaced.
        let mut changing = Incremental::new(labels, bounded, 0.01).unwrap();
        let first = changing.solve(1e-4).unwrap();
        let rows = narrowed::<T>(&fractions(3 * 10, 0.671_043_6));
        changing.replace_rows(&[5, 17, 399], &rows).unwrap();
        let again = changing.solve(1e-4).unwrap();
        let mut words = vec![first.iterations as u64, again.iterations as u64];
        words.extend(changing.potentials().iter().map(|g| g.to_bits()));
        self.add(&named("labels"), "incremental", &words);
        self.clouds::<T>(&named("squared"), SquaredEuclidean);
        self.clouds::<T>(&named("euclidean"), Euclidean);
        self.clouds::<T>(&named("manhattan"), Manhattan);
        self.clouds::<T>(&named("cosine"), Cosine);
    }

    fn everything() -> Vec<(String, u64)> {
        let mut lines = Self::default();
        lines.scalar::<f32>("f32");
        lines.scalar::<f64>("f64");
        lines.0
    }
}

#[test]
fn the_same_question_has_the_same_bits() {
    let lines = Lines::everything();
    for (name, digest) in &lines {
        println!("digest {name} {digest:016x}");
    }
    assert_eq!(lines, Lines::everything());
    // Digests that are all alike would say nothing.
    let mut seen: Vec<u64> = lines.iter().map(|l| l.1).collect();
    seen.sort_unstable();
    seen.dedup();
    assert!(
        seen.len() > lines.len() / 2,
        "{} of {}",
        seen.len(),
        lines.len()
    );
}
