//! The loop: sweep, measure, step.

use super::anderson::Anderson;
use super::line_search::{Judgement, LineSearch};
use crate::entropic::outcome::{Best, Outcome};
use crate::entropic::semidual::{ROUNDING_SIDES, SemiDual, Verdict, verdict};
use crate::entropic::stagnation::Stagnation;
use crate::kernel::exp::log_add;
use crate::solver::Guard;
use crate::sweep::Backend;
use crate::sweep::streamed::exponent;
use crate::{Error, Progress, Side, Status};

/// When to stop.
pub(crate) struct Limits<'a> {
    /// Values of ε to go through; the last is the one asked for.
    pub(crate) stages: Vec<f64>,
    pub(crate) tolerance: f64,
    pub(crate) max_iterations: usize,
    pub(crate) memory: usize,
    pub(crate) guard: &'a Guard<'a>,
    /// Sweeps already spent by an earlier attempt.
    pub(crate) spent: usize,
    /// Where the work is a part of a larger one: how much of that lies before it, and how much it is. Its sweeps are then not
    /// counted as iterations.
    pub(crate) part: Option<(f64, f64)>,
}

impl Limits<'_> {
    pub(crate) fn last_stage(&self) -> Vec<f64> {
        self.stages.last().copied().into_iter().collect()
    }
}

/// Early stages only have to bring mass roughly where it belongs.
const STAGE_TOLERANCE: f64 = 0.05;

/// Accelerated steps that may fail to lower the violation between two improvements of a per cent. Some
/// freedom makes for speed; with too much, steps wander over a plateau or between two of them for ever.
/// Plain steps never raise it and leave every plateau.
const MOST_RISES: usize = 3;

/// On a plateau the violation is the same up to less than this share wherever one goes.
const FLAT_SHARE: f64 = 1e-6;

/// Sweeps without a per cent of improvement after which longer steps take over: on level ground soon, elsewhere
/// only when combinations have been stagnating for long. Level is where a step changes the violation by less
/// than a share of [`LEVEL_SHARE`].
const STAGNANT_SWEEPS: usize = 40;
const LEVEL_SWEEPS: usize = 4;
const LEVEL_SHARE: f64 = 1e-4;

/// Plain steps before combinations are tried again, twice as many each time without improvement.
const PLAIN_STEPS: usize = 4;
const MOST_PLAIN_STEPS: usize = 160;

/// How often a combination that went too far is cut to a quarter before the plain step is taken instead.
const MOST_CUTS: usize = 3;

/// Sweeps without a per cent of improvement after which there is nothing left to gain.
const PATIENCE: usize = 300;

pub(crate) fn drive(
    backend: &mut dyn Backend,
    semidual: &mut SemiDual,
    g: Vec<f64>,
    limits: &Limits<'_>,
) -> Result<Outcome, Error> {
    let mut g = semidual.centred(g);
    let mut iterations = limits.spent;
    let stages = limits.stages.len();
    for (s, &epsilon) in limits.stages.iter().enumerate() {
        let last = s + 1 == stages;
        let tolerance = if last {
            limits.tolerance
        } else {
            limits.tolerance.max(STAGE_TOLERANCE)
        };
        let mut stage = Stage {
            place: (s as f64 / stages as f64, 1.0 / stages as f64),
            backend,
            semidual,
            epsilon,
            tolerance,
            limits,
            iterations,
        };
        let mut outcome = stage.run(g)?;
        // Done here, but no sweep is left for the next stage.
        if !last && outcome.iterations >= limits.max_iterations && outcome.status != Status::Stopped
        {
            outcome.status = Status::IterationLimit;
        }
        if last || matches!(outcome.status, Status::Stopped | Status::IterationLimit) {
            return Ok(outcome);
        }
        (g, iterations) = (outcome.g, outcome.iterations);
    }
    Err(Error::Option {
        name: "epsilon",
        value: f64::NAN,
        expected: "at least one value",
    })
}

struct Stage<'a> {
    backend: &'a mut dyn Backend,
    semidual: &'a mut SemiDual,
    epsilon: f64,
    tolerance: f64,
    limits: &'a Limits<'a>,
    iterations: usize,
    /// How much of the way lies before this stage, and how much of it this stage is.
    place: (f64, f64),
}

impl Stage<'_> {
    /// The same where masses are penalised: potentials are cut to what the penalty allows, and lifted to where they are best.
    fn measure_relaxed(
        &mut self,
        g: &mut [f64],
        sums: &mut [f64],
        step: &mut [f64],
    ) -> Result<f64, Error> {
        let epsilon = self.epsilon;
        self.semidual.clip(epsilon, g);
        self.backend.obey(self.semidual.row_law());
        let at = self.semidual.dual_point(epsilon, g);
        self.backend.sweep(&at, sums)?;
        self.iterations += 1;
        // The step's place serves for the logarithms it is made of.
        self.semidual
            .respond(self.backend, epsilon, g, sums, step)?;
        for (j, (r, &g)) in step.iter_mut().zip(&*g).enumerate() {
            *r = self.semidual.step(epsilon, j, g, *r);
        }
        if self.semidual.is_translated() {
            self.centre(step);
        }
        Ok(self.semidual.violation(sums))
    }

    /// Sweeps at `g` and writes the plain step `ln b − ln colsum` over `step`; returns the violation.
    fn measure(&mut self, g: &mut [f64], sums: &mut [f64], step: &mut [f64]) -> Result<f64, Error> {
        if self.semidual.is_relaxed() {
            return self.measure_relaxed(g, sums, step);
        }
        let k = g.len() - 1;
        self.backend
            .sweep(&self.semidual.dual_point(self.epsilon, g), sums)?;
        self.semidual.add_slack_row(self.epsilon, g, sums);
        self.iterations += 1;
        let mut underflowed = Vec::new();
        for (j, ((r, &s), &w)) in step
            .iter_mut()
            .zip(sums.iter())
            .zip(&self.semidual.demands)
            .enumerate()
        {
            *r = if w > 0.0 { (w / s).ln() } else { 0.0 };
            // Sums this far below what is demands may have lost terms to underflow.
            if w > 0.0 && s < 1e-30 * w && j < k {
                underflowed.push(j);
            }
        }
        if !underflowed.is_empty() {
            let mut logs = vec![0.0; underflowed.len()];
            self.backend.log_sums(&underflowed, &mut logs)?;
            self.with_slack_row(g, &underflowed, &mut logs);
            for (&j, &log) in underflowed.iter().zip(&logs) {
                if log == f64::NEG_INFINITY {
                    return Err(Error::Blocked {
                        side: Side::Cols,
                        index: j,
                        mass: self.semidual.demands[j],
                    });
                }
                step[j] = self.semidual.demands[j].ln() - log;
            }
        }
        if self.semidual.demands[k] > 0.0 && sums[k] < 1e-30 * self.semidual.demands[k] {
            step[k] = self.slack_step(g)?;
        }
        self.centre(step);
        Ok(self.semidual.violation(sums))
    }

    /// Takes from a step what moves all columns alike. That changes nothing, so nothing holds it back:
    /// combinations of steps would pile it up until the potentials have no digits left for their differences.
    fn centre(&self, step: &mut [f64]) {
        let demands = &self.semidual.demands;
        let pull: f64 = step.iter().zip(demands).map(|(r, w)| r * w).sum();
        let mean = pull / demands.iter().sum::<f64>();
        if !mean.is_finite() {
            return;
        }
        for (r, &w) in step.iter_mut().zip(demands) {
            if w > 0.0 {
                *r -= mean;
            }
        }
    }

    /// Adds the slack row to log-sums of real rows.
    fn with_slack_row(&self, g: &[f64], cols: &[usize], logs: &mut [f64]) {
        if self.semidual.slack.row > 0.0 && self.semidual.slack.row_cost < f64::INFINITY {
            let f = self
                .semidual
                .slack_row(self.epsilon, g, &mut vec![0.0; g.len()]);
            for (&j, log) in cols.iter().zip(logs) {
                let mine = exponent(f + (g[j] - self.semidual.slack.row_cost), self.epsilon);
                *log = log_add(*log, mine);
            }
        }
    }

    /// The plain step of a slack column whose sum underflowed: from the rows' potentials.
    fn slack_step(&mut self, g: &[f64]) -> Result<f64, Error> {
        let k = g.len() - 1;
        let slack = self.semidual.slack;
        let at = self.semidual.dual_point(self.epsilon, g);
        let mut log = self.backend.log_slack_sum(&at)?;
        if slack.row > 0.0 {
            let f = self
                .semidual
                .slack_row(self.epsilon, g, &mut vec![0.0; g.len()]);
            log = log_add(log, exponent(f + g[k] - slack.corner_cost, self.epsilon));
        }
        if log == f64::NEG_INFINITY {
            return Err(Error::Blocked {
                side: Side::SlackCol,
                index: 0,
                mass: slack.col,
            });
        }
        Ok(self.semidual.demands[k].ln() - log)
    }

    /// What every column still wants.
    fn missing<'s>(&'s self, sums: &'s [f64]) -> impl Iterator<Item = f64> + 's {
        self.semidual.demands.iter().zip(sums).map(|(w, s)| w - s)
    }

    /// The plain step as a move of the potentials; columns without mass stay where they are.
    fn direction(&self, g: &[f64], step: &[f64]) -> Vec<f64> {
        let both = g.iter().zip(step);
        both.map(|(&g, r)| {
            if g > f64::NEG_INFINITY {
                self.epsilon * r
            } else {
                0.0
            }
        })
        .collect()
    }

    fn run(&mut self, start: Vec<f64>) -> Result<Outcome, Error> {
        let mut walk = self.begin(start)?;
        let mut best = Best::at(self.epsilon);
        let status = loop {
            if let Some(status) = self.end(&mut walk) {
                break status;
            }
            let found = (self.epsilon, walk.violation);
            best.note(self.semidual, found, &walk.g, &walk.sums);
            self.advance(&mut walk);
            walk.violation = self.measure(&mut walk.g, &mut walk.sums, &mut walk.step)?;
        };
        let end = Outcome {
            g: walk.g,
            epsilon: self.epsilon,
            status,
            iterations: self.iterations,
            violation: walk.violation,
            sums: walk.sums,
        };
        Ok(best.or(self.semidual, end))
    }

    /// The first sweep.
    fn begin(&mut self, mut g: Vec<f64>) -> Result<Walk, Error> {
        let size = g.len();
        // Only differences of potentials matter: one unknown less than columns that take mass. More memory
        // than unknowns would fit steps to noise.
        let unknowns = self.semidual.asked().iter().filter(|w| **w > 0.0).count();
        let memory = self.limits.memory.min(unknowns.saturating_sub(1));
        let (mut sums, mut step) = (vec![0.0; size], vec![0.0; size]);
        let violation = self.measure(&mut g, &mut sums, &mut step)?;
        Ok(Walk {
            g,
            sums,
            step,
            violation,
            first: violation,
            phase: Phase::Plain,
            plain: vec![0.0; size],
            accepted: violation,
            anderson: Anderson::new(memory),
            stagnation: Stagnation::new(violation),
            rises: 0,
            plain_steps: PLAIN_STEPS,
            stagnant: 0,
            level: 0,
        })
    }

    /// Whether the walk is over, and why; takes note of how it went since the last sweep.
    fn end(&self, walk: &mut Walk) -> Option<Status> {
        let (violation, resolution) = (walk.violation, self.backend.resolution());
        match verdict(violation, resolution, self.tolerance, ROUNDING_SIDES) {
            Verdict::Met => return Some(Status::Converged),
            Verdict::Blurred => return Some(Status::Stalled),
            Verdict::Missed => {}
        }
        if self.limits.guard.says_stop(&self.progress(walk)) {
            return Some(Status::Stopped);
        }
        if self.iterations >= self.limits.max_iterations {
            return Some(Status::IterationLimit);
        }
        if walk.stagnation.improves(violation) {
            (walk.rises, walk.plain_steps, walk.stagnant) = (0, PLAIN_STEPS, 0);
            return None;
        }
        walk.stagnant += 1;
        let patience = if resolution > 0.1 * violation {
            PATIENCE / 10
        } else {
            PATIENCE
        };
        let is_stalled =
            walk.stagnation.idle() > patience && violation < 1e3 * resolution.max(1e-15);
        is_stalled.then_some(Status::Stalled)
    }

    fn progress(&self, walk: &Walk) -> Progress {
        let part = self.limits.part;
        let iteration = if part.is_some() { 0 } else { self.iterations };
        let mut progress = Progress::entropic(
            iteration,
            walk.violation,
            walk.first,
            self.tolerance,
            self.epsilon,
        );
        progress.done = self.place.0 + self.place.1 * progress.done;
        if let Some((before, share)) = part {
            progress.done = before + share * progress.done;
        }
        progress
    }

    /// Goes to the next point to sweep at.
    fn advance(&self, walk: &mut Walk) {
        match core::mem::replace(&mut walk.phase, Phase::Plain) {
            Phase::LineSearch(on) => {
                if self.search_on(walk, on) {
                    return;
                }
            }
            Phase::Accelerated { cuts } if walk.overshot() => {
                walk.retreat(cuts);
                return;
            }
            Phase::Accelerated { .. } | Phase::Plain => {}
        }
        walk.accept();
        let is_stuck = walk.level > LEVEL_SWEEPS || walk.stagnant >= STAGNANT_SWEEPS;
        if self.limits.memory > 0 && is_stuck {
            walk.anderson.forget();
            let direction = self.direction(&walk.g, &walk.step);
            let on = LineSearch::new(&walk.g, direction, self.missing(&walk.sums));
            on.next(self.epsilon, &mut walk.g);
            walk.phase = Phase::LineSearch(on);
        } else {
            walk.combine(self.epsilon);
        }
    }

    /// Judges the last of the longer steps and takes the next; false where there have been enough of them.
    fn search_on(&self, walk: &mut Walk, mut on: LineSearch) -> bool {
        if on.judge(self.missing(&walk.sums)) == Judgement::Accepted {
            walk.accepted = walk.violation;
            let direction = self.direction(&walk.g, &walk.step);
            on.go_on(&walk.g, direction, self.missing(&walk.sums));
        }
        if !on.is_plain() || on.taken < walk.plain_steps {
            on.next(self.epsilon, &mut walk.g);
            walk.phase = Phase::LineSearch(on);
            return true;
        }
        walk.plain_steps = (2 * walk.plain_steps).min(MOST_PLAIN_STEPS);
        (walk.stagnant, walk.level, walk.rises) = (0, 0, 0);
        false
    }
}

/// How the point at hand was come to.
enum Phase {
    /// By the plain step.
    Plain,
    /// By a combination of steps, cut back so often.
    Accelerated { cuts: usize },
    /// By a longer step along a plain direction.
    LineSearch(LineSearch),
}

/// Where a stage stands.
struct Walk {
    g: Vec<f64>,
    /// Sums and plain step at `g`.
    sums: Vec<f64>,
    step: Vec<f64>,
    violation: f64,
    /// The violation at the start.
    first: f64,
    phase: Phase,
    /// The plain successor of the last point accepted, to go back to, and that point's violation.
    plain: Vec<f64>,
    accepted: f64,
    anderson: Anderson,
    stagnation: Stagnation,
    /// Accelerated steps since the last improvement that did not lower the violation.
    rises: usize,
    /// How many longer steps there will be the next time.
    plain_steps: usize,
    /// Sweeps since the last of them without improvement, and how many of those, the last ones, were on level ground.
    stagnant: usize,
    level: usize,
}

impl Walk {
    /// Whether a combination was worse than what it was made from.
    fn overshot(&self) -> bool {
        let limit = if self.rises < MOST_RISES {
            1.5
        } else {
            1.0 - FLAT_SHARE
        };
        !(self.violation <= limit * self.accepted)
    }

    /// Back from a combination: it may have been right about the direction; if not, there is the plain step.
    fn retreat(&mut self, cuts: usize) {
        if cuts < MOST_CUTS {
            for (g, &p) in self.g.iter_mut().zip(&self.plain) {
                if p > f64::NEG_INFINITY {
                    *g = p + 0.25 * (*g - p);
                }
            }
            self.phase = Phase::Accelerated { cuts: cuts + 1 };
        } else {
            self.anderson.forget();
            self.g.copy_from_slice(&self.plain);
        }
    }

    /// The point at hand is where the next step starts.
    fn accept(&mut self) {
        self.rises += usize::from(!(self.violation < (1.0 - FLAT_SHARE) * self.accepted));
        let is_level = (self.violation - self.accepted).abs() <= LEVEL_SHARE * self.accepted;
        self.level = if is_level { self.level + 1 } else { 0 };
        self.accepted = self.violation;
    }

    /// The combination of steps where there are some to combine, else the plain step.
    fn combine(&mut self, epsilon: f64) {
        let (mut x, mut next) = (vec![0.0; self.g.len()], vec![0.0; self.g.len()]);
        let all = x.iter_mut().zip(&self.g).zip(&mut self.plain);
        for (((x, &g), p), &r) in all.zip(&self.step) {
            *x = if g > f64::NEG_INFINITY {
                g / epsilon
            } else {
                0.0
            };
            *p = g + epsilon * r;
        }
        self.anderson.propose(&x, &self.step, &mut next);
        if !self.anderson.is_warm() {
            self.g.copy_from_slice(&self.plain);
            return;
        }
        for (g, &n) in self.g.iter_mut().zip(&next) {
            if *g > f64::NEG_INFINITY {
                *g = epsilon * n;
            }
        }
        self.phase = Phase::Accelerated { cuts: 0 };
    }
}
