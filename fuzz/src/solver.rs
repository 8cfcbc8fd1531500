//! Solver input: shape, costs, masses, slack, ε, tolerance, caps, the moment to stop and the solver itself, all
//! from bytes. Whatever they say, an answer is true: bounds hold the optimum, `Converged` means within the
//! tolerance, no potential is NaN; and a refusal is short.
//!
//! ```text
//! byte 0, 1   rows, columns         4   spread of the costs       7    cap on iterations
//!      2      solver, scalar        5   kinds of numbers allowed  8    call at which to stop
//!      3      marginals             6   ε and tolerance           9 …  numbers; zeros past the end
//! ```

use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use earthmover::{
    Algorithm, Dense, Entropic, Epsilon, Error, Exact, Marginals, NetworkSimplex, Newton, Problem,
    Progress, Real, ShortestPaths, Sinkhorn, Slack, Solution, Start, Status,
};

use crate::{LONGEST, came_to, readable};

/// Reads numbers off bytes.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    /// 0 to 1 in steps of 2⁻¹⁶.
    fn unit(&mut self) -> f64 {
        f64::from(u16::from_le_bytes(self.array())) / 65536.0
    }

    /// Ten to a power between these.
    fn decades(&mut self, from: f64, to: f64) -> f64 {
        10f64.powf(from + (to - from) * self.unit())
    }

    fn sign(&mut self) -> f64 {
        if self.byte() & 1 == 0 { 1.0 } else { -1.0 }
    }

    fn raw(&mut self) -> f64 {
        match self.byte() & 1 {
            0 => f64::from_le_bytes(self.array()),
            _ => f64::from(f32::from_le_bytes(self.array())),
        }
    }
}

/// Which numbers an input may use: one NaN and there is nothing left to solve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wildness {
    Tame,
    Large,
    Forbidden,
    Any,
}

/// A question as plain numbers.
#[derive(Debug)]
struct Question {
    rows: usize,
    cols: usize,
    table: Vec<f64>,
    marginals: Marginals,
    solver: usize,
    single: bool,
    epsilon: f64,
    tolerance: f64,
    cap: usize,
    stop: Option<usize>,
    /// Small choices: acceleration, annealing, way, start.
    taste: u8,
}

fn cost(source: &mut Source<'_>, wildness: Wildness) -> f64 {
    let tag = source.byte();
    match tag {
        0..96 => f64::from(tag / 8),
        96..200 => source.unit(),
        200..216 => -f64::from(tag - 200),
        216..232 if wildness >= Wildness::Large => source.decades(3.0, 30.0),
        232..248 if wildness >= Wildness::Forbidden => f64::INFINITY,
        248.. if wildness == Wildness::Any => source.raw(),
        _ => f64::from(tag - 216) / 40.0,
    }
}

fn table(source: &mut Source<'_>, rows: usize, cols: usize, wildness: Wildness) -> Vec<f64> {
    let spread = source.byte();
    let unit = if spread & 1 == 0 {
        1.0
    } else {
        source.decades(-9.0, 9.0)
    };
    let offset = |source: &mut Source<'_>| source.sign() * source.decades(0.0, 15.0);
    let all = if spread & 2 == 0 { 0.0 } else { offset(source) };
    let lines: Vec<f64> = (0..rows)
        .map(|_| if spread & 4 == 0 { 0.0 } else { offset(source) })
        .collect();
    (0..rows * cols)
        .map(|at| unit * cost(source, wildness) + all + lines[at / cols])
        .collect()
}

fn masses(source: &mut Source<'_>, count: usize, wildness: Wildness) -> Vec<f64> {
    let kind = source.byte();
    (0..count)
        .map(|_| match kind % 6 {
            0 => 1.0,
            1 => source.decades(-12.0, 0.0),
            2 => source.below(4) as f64,
            3 if wildness == Wildness::Any => source.raw(),
            4 if wildness == Wildness::Any => source.decades(-300.0, 300.0),
            _ => source.unit() + 0.05,
        })
        .collect()
}

fn marginals(
    source: &mut Source<'_>,
    kind: u8,
    rows: usize,
    cols: usize,
    wildness: Wildness,
) -> Result<Marginals, Error> {
    let (a, b) = (
        masses(source, rows, wildness),
        masses(source, cols, wildness),
    );
    let most = a.iter().sum::<f64>().min(b.iter().sum());
    match kind % 8 {
        0 => Marginals::uniform(rows, cols),
        1 => Marginals::balanced(&a, &b),
        2 => Marginals::balanced_within(&a, &b, source.decades(-12.0, 0.0)),
        3 => Marginals::bounded(&a, &b, most * source.unit()),
        4 => Marginals::partial(&a, &b, most * source.unit()),
        5 => {
            let wild = wildness == Wildness::Any;
            let mut cost = || if wild { source.raw() } else { source.unit() };
            let (row_cost, col_cost) = (cost(), cost());
            let slack = Slack::new(b.iter().sum(), a.iter().sum())
                .row_cost(row_cost)
                .col_cost(col_cost)
                .corner_cost(match source.below(3) {
                    0 => 0.0,
                    1 => f64::INFINITY,
                    _ => source.unit(),
                });
            Marginals::with_slack(&a, &b, slack)
        }
        _ => Marginals::normalised(&a, &b),
    }
}

fn question(data: &[u8]) -> Result<Question, Error> {
    let mut source = Source(data);
    let (rows, cols) = (1 + source.below(12), 1 + source.below(12));
    let solver = source.byte();
    let kind = source.byte();
    let wildness = match source.byte() % 16 {
        0..6 => Wildness::Tame,
        6..9 => Wildness::Large,
        9..12 => Wildness::Forbidden,
        _ => Wildness::Any,
    };
    let (epsilon, cap, stop, taste) = (source.byte(), source.byte(), source.byte(), source.byte());
    let (epsilon, tolerance) = match epsilon % 8 {
        0 => (source.decades(-300.0, 300.0), source.decades(-9.0, -2.0)),
        1 => (source.raw(), source.raw()),
        2 => (source.decades(-12.0, -4.0), source.decades(-14.0, 0.0)),
        _ => (source.decades(-4.0, 1.0), source.decades(-9.0, -2.0)),
    };
    let table = table(&mut source, rows, cols, wildness);
    Ok(Question {
        rows,
        cols,
        marginals: marginals(&mut source, kind, rows, cols, wildness)?,
        table,
        solver: usize::from(solver % 6),
        single: solver & 0x80 != 0,
        epsilon,
        tolerance,
        cap: if cap < 64 { usize::from(cap) } else { 400 },
        stop: (stop < 24).then_some(usize::from(stop)),
        taste,
    })
}

impl Question {
    /// Whether ε and tolerance are such that a solver must take them.
    fn reasonable(&self) -> bool {
        (1e-290..1e290).contains(&self.epsilon) && (1e-15..1.0).contains(&self.tolerance)
    }

    /// Whether every mass can be seen beside the total. Errors are shares of the total: what is less than 10⁻¹⁰ of it may be
    /// lost in one without anything untrue being said, and with it all that it costs.
    fn comparable(&self) -> bool {
        let (m, slack) = (&self.marginals, self.marginals.slack());
        let least = 1e-10 * m.total();
        let all = m.rows().iter().chain(m.cols());
        let mut all = all.chain([&slack.row, &slack.col]);
        (1e-100..1e100).contains(&m.total()) && all.all(|&mass| mass == 0.0 || mass >= least)
    }

    fn exact(&self) -> bool {
        self.solver >= 3
    }

    fn solve<'p, T: Real>(
        &self,
        problem: &'p Problem<T, Dense<'p, T>>,
    ) -> Result<Solution<'p, T, Dense<'p, T>>, Error> {
        let stop = self.stop;
        let calls = AtomicUsize::new(0);
        let callback = move |progress: &Progress| {
            assert!((0.0..=1.0).contains(&progress.done), "{progress:?}");
            assert!(progress.gap >= 0.0, "{progress:?}");
            match stop {
                Some(stop) if calls.fetch_add(1, Ordering::Relaxed) == stop => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        };
        let (epsilon, tolerance, taste) = (self.epsilon, self.tolerance, self.taste);
        // Few pivots are enough for twelve by twelve; all of them, to see the end.
        let pivots = if self.cap == 400 {
            usize::MAX
        } else {
            self.cap
        };
        macro_rules! entropic {
            ($solver:expr) => {{
                let solver = $solver.tolerance(tolerance).max_iterations(self.cap);
                solver.on_progress(callback).solve(problem)
            }};
        }
        macro_rules! exact {
            ($solver:expr) => {{
                let solver = $solver.max_iterations(pivots);
                solver.on_progress(callback).solve(problem)
            }};
        }
        let annealed = Epsilon::Annealed {
            from: 64.0 * epsilon,
            to: epsilon,
            factor: 4.0,
        };
        let start = [Start::Auto, Start::RowMinimum, Start::Multiscale][usize::from(taste) % 3];
        let way = [
            Algorithm::Auto,
            Algorithm::NetworkSimplex,
            Algorithm::ShortestPaths,
        ][usize::from(taste / 3) % 3];
        match self.solver {
            0 if taste & 1 == 0 => {
                entropic!(Sinkhorn::new(epsilon).acceleration(usize::from(taste >> 4)))
            }
            0 => entropic!(Sinkhorn::new(annealed)),
            1 => entropic!(Newton::new(epsilon)),
            2 => entropic!(Entropic::new(epsilon)),
            3 => exact!(NetworkSimplex::new().start(start)),
            4 => exact!(ShortestPaths::new()),
            _ => exact!(Exact::new().algorithm(way).start(start)),
        }
    }

    /// The most iterations that an answer may have taken.
    fn most(&self) -> usize {
        match (self.exact(), self.cap) {
            (true, 400) => usize::MAX,
            (_, cap) => cap,
        }
    }

    fn check<T: Real>(&self) {
        let table: Vec<T> = self.table.iter().map(|&c| T::narrow(c)).collect();
        let dense = Dense::new(&table, self.rows, self.cols).expect("a table of its size");
        let problem = Problem::new(dense, self.marginals.clone()).expect("masses that fit");
        let answer = self.solve(&problem);
        if !(self.comparable() || strict()) {
            if let Err(error) = &answer {
                readable(error, 400);
            }
            return;
        }
        let reference = NetworkSimplex::new().solve(&problem);
        if let Err(error) = &reference {
            readable(error, 400);
        }
        let found = match answer {
            Ok(found) => found,
            Err(error) => {
                readable(&error, 400);
                let alone = reference.is_ok() && (self.exact() || self.reasonable());
                assert!(!alone, "refused alone: {error} {self:?}");
                return;
            }
        };
        came_to(&"abcdef"[self.solver..]);
        came_to(&format!("{:?}", found.status()));
        let proof = *found.certificate();
        let mut told = format!("{:?} {proof:?}", found.status());
        let potentials = found.potentials();
        let mut all = potentials.rows.iter().chain(&potentials.cols);
        assert!(all.all(|p| !p.is_nan()), "NaN potential: {told} {self:?}");
        let measured = found.violation();
        assert!(
            measured.is_finite() && measured >= 0.0,
            "violation {measured}: {told} {self:?}"
        );
        assert!(
            found.iterations() <= self.most(),
            "{} iterations: {told} {self:?}",
            found.iterations()
        );
        let converged = found.status().is_converged();
        assert_eq!(found.advice().is_none(), converged, "advice: {told}");
        match (found.status(), self.exact()) {
            (Status::Converged, false) => assert!(
                proof.violation <= self.tolerance && measured <= self.tolerance,
                "converged with {measured}: {told} {self:?}"
            ),
            (Status::Converged, true) => assert!(
                proof.violation <= 1e-11 && (measured - proof.violation).abs() <= 1e-11,
                "converged with {measured}: {told} {self:?}"
            ),
            (Status::Stopped, _) => assert!(self.stop.is_some(), "stopped: {told} {self:?}"),
            _ => {}
        }
        let best = match &reference {
            Ok(reference) => {
                assert!(reference.status().is_converged(), "no end: {self:?}");
                *reference.certificate()
            }
            // What is stranded by rounding one solver may take for nothing, another for something.
            Err(Error::Infeasible { stranded, total }) if *stranded <= 1e-11 * total => return,
            Err(error) => {
                assert!(!converged, "answers alone: {error} {told} {self:?}");
                return;
            }
        };
        let _ = write!(told, " optimum {best:?}");
        // Masses are known to their last digit, and so is the optimum, at the price of a pair.
        let slack = self.marginals.slack();
        let slack = [slack.row_cost, slack.col_cost, slack.corner_cost];
        let costs = self.table.iter().chain(&slack).filter(|c| c.is_finite());
        let dearest = costs.fold(0.0, |m: f64, c| m.max(c.abs()));
        let digit = 4.0 * f64::EPSILON * self.marginals.total() * dearest;
        assert!(
            best.dual <= best.primal + digit,
            "the reference's bounds: {told} {self:?}"
        );
        assert!(
            proof.dual <= best.primal + digit && best.dual <= proof.primal + digit,
            "false bounds: {told} {self:?}"
        );
    }
}

/// Whether to hold answers to their word for masses beyond all comparison too: `FUZZ_STRICT=1`.
fn strict() -> bool {
    static STRICT: OnceLock<bool> = OnceLock::new();
    *STRICT.get_or_init(|| std::env::var_os("FUZZ_STRICT").is_some_and(|v| v == "1"))
}

/// Any solver on any input.
pub fn run(data: &[u8]) {
    if data.len() > LONGEST {
        return;
    }
    match question(data) {
        Ok(question) if question.single => question.check::<f32>(),
        Ok(question) => question.check::<f64>(),
        Err(error) => readable(&error, 400),
    }
}
