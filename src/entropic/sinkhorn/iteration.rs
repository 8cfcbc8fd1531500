//! The loop: sweep, measure, step.

use super::anderson::Anderson;
use super::line_search::{Judgement, Stride};
use crate::entropic::outcome::Outcome;
use crate::entropic::semidual::{CERTAIN, SemiDual, Verdict, verdict};
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
const ROUGH: f64 = 0.05;

/// Accelerated steps that may fail to lower the violation between two improvements of a per cent. Some
/// freedom makes for speed; with too much, steps wander over a plateau or between two of them for ever.
/// Plain steps never raise it and leave every plateau.
const RISES: usize = 3;

/// On a plateau the violation is the same up to less than this share wherever one goes.
const FLAT: f64 = 1e-6;

/// Sweeps without a per cent of improvement after which strides take over: on level ground soon, elsewhere
/// only when combinations have been stagnating for long. Level is where a step changes the violation by less
/// than a share of [`LEVEL`].
const STAGNATION: usize = 40;
const LEVEL_FOR: usize = 4;
const LEVEL: f64 = 1e-4;

/// Plain steps before combinations are tried again, twice as many each time without improvement.
const PLAIN_STEPS: usize = 4;
const MOST_PLAIN_STEPS: usize = 160;

/// How often a combination that went too far is cut to a quarter before the plain step is taken instead.
const CUTS: usize = 3;

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
            limits.tolerance.max(ROUGH)
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
        self.semidual.cut(epsilon, g);
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
        let mut faint = Vec::new();
        for (j, ((r, &s), &w)) in step
            .iter_mut()
            .zip(sums.iter())
            .zip(&self.semidual.demands)
            .enumerate()
        {
            *r = if w > 0.0 { (w / s).ln() } else { 0.0 };
            // Sums this far below what is demands may have lost terms to underflow.
            if w > 0.0 && s < 1e-30 * w && j < k {
                faint.push(j);
            }
        }
        if !faint.is_empty() {
            let mut logs = vec![0.0; faint.len()];
            self.backend.log_sums(&faint, &mut logs)?;
            self.with_slack_row(g, &faint, &mut logs);
            for (&j, &log) in faint.iter().zip(&logs) {
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
                let top = log.max(mine);
                *log = top + ((*log - top).exp() + (mine - top).exp()).ln();
            }
        }
    }

    /// The plain step of a slack column whose sum underflowed: from the rows' potentials.
    fn slack_step(&mut self, g: &[f64]) -> Result<f64, Error> {
        let k = g.len() - 1;
        let slack = self.semidual.slack;
        let mut f = vec![0.0; self.backend.rows()];
        self.backend.row_potentials(&mut f)?;
        let mut logits: Vec<f64> = f
            .iter()
            .map(|f| exponent(f + g[k] - slack.col_cost, self.epsilon))
            .collect();
        if slack.row > 0.0 {
            let f = self
                .semidual
                .slack_row(self.epsilon, g, &mut vec![0.0; g.len()]);
            logits.push(exponent(f + g[k] - slack.corner_cost, self.epsilon));
        }
        let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if top == f64::NEG_INFINITY {
            return Err(Error::Blocked {
                side: Side::SlackCol,
                index: 0,
                mass: slack.col,
            });
        }
        let log = top + logits.iter().map(|z| (z - top).exp()).sum::<f64>().ln();
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
        let size = start.len();
        let (mut sums, mut step) = (vec![0.0; size], vec![0.0; size]);
        // Only differences of potentials matter: one unknown less than columns that take mass. More memory
        // than unknowns would fit steps to noise.
        let unknowns = self.semidual.asked().iter().filter(|w| **w > 0.0).count();
        let memory = self.limits.memory.min(unknowns.saturating_sub(1));
        let mut anderson = Anderson::new(memory);
        let mut g = start;
        let mut violation = self.measure(&mut g, &mut sums, &mut step)?;
        let first = violation;
        // The plain successor of the last point accepted, to go back to, and that point's violation.
        let mut plain = vec![0.0; size];
        let mut accepted = violation;
        let mut accelerated = false;
        let (mut best, mut since_best) = (violation, 0usize);
        let (mut rises, mut cuts) = (0usize, 0usize);
        // Strides under way, how many there will be the next time, sweeps since the last of them without
        // improvement, and how many of those were on level ground.
        let mut stride: Option<Stride> = None;
        let (mut plain_steps, mut stagnation, mut level) = (PLAIN_STEPS, 0usize, 0usize);
        let (mut x, mut next) = (vec![0.0; size], vec![0.0; size]);
        let status = loop {
            let resolution = self.backend.resolution();
            match verdict(violation, resolution, self.tolerance, CERTAIN) {
                Verdict::Met => break Status::Converged,
                Verdict::Blurred => break Status::Stalled,
                Verdict::Missed => {}
            }
            let part = self.limits.part;
            let iteration = if part.is_some() { 0 } else { self.iterations };
            let epsilon = self.epsilon;
            let mut progress =
                Progress::entropic(iteration, violation, first, self.tolerance, epsilon);
            progress.done = self.place.0 + self.place.1 * progress.done;
            if let Some((before, share)) = part {
                progress.done = before + share * progress.done;
            }
            if self.limits.guard.says_stop(&progress) {
                break Status::Stopped;
            }
            if self.iterations >= self.limits.max_iterations {
                break Status::IterationLimit;
            }
            if violation < 0.99 * best {
                (best, since_best) = (violation, 0);
                (rises, plain_steps, stagnation) = (0, PLAIN_STEPS, 0);
            } else {
                since_best += 1;
                stagnation += 1;
                let patience = if resolution > 0.1 * violation {
                    PATIENCE / 10
                } else {
                    PATIENCE
                };
                if since_best > patience && violation < 1e3 * resolution.max(1e-15) {
                    break Status::Stalled;
                }
            }
            if let Some(mut on) = stride.take() {
                if on.judge(self.missing(&sums)) == Judgement::Accepted {
                    accepted = violation;
                    on.go_on(&g, self.direction(&g, &step), self.missing(&sums));
                }
                if !on.is_plain() || on.taken < plain_steps {
                    on.next(self.epsilon, &mut g);
                    stride = Some(on);
                    violation = self.measure(&mut g, &mut sums, &mut step)?;
                    continue;
                }
                plain_steps = (2 * plain_steps).min(MOST_PLAIN_STEPS);
                (stagnation, level, accelerated, cuts, rises) = (0, 0, false, 0, 0);
            }
            let limit = if rises < RISES { 1.5 } else { 1.0 - FLAT };
            if accelerated && !(violation <= limit * accepted) {
                // The combination was worse than what it was made from: it may have been right about the
                // direction; if not, there is the plain step.
                if cuts < CUTS {
                    cuts += 1;
                    for (g, &p) in g.iter_mut().zip(&plain) {
                        if p > f64::NEG_INFINITY {
                            *g = p + 0.25 * (*g - p);
                        }
                    }
                } else {
                    anderson.forget();
                    (accelerated, cuts) = (false, 0);
                    g.copy_from_slice(&plain);
                }
            } else {
                cuts = 0;
                rises += usize::from(!(violation < (1.0 - FLAT) * accepted));
                let is_level = (violation - accepted).abs() <= LEVEL * accepted;
                level = if is_level { level + 1 } else { 0 };
                accepted = violation;
                if self.limits.memory > 0 && (level > LEVEL_FOR || stagnation >= STAGNATION) {
                    anderson.forget();
                    let on = Stride::new(&g, self.direction(&g, &step), self.missing(&sums));
                    on.next(self.epsilon, &mut g);
                    stride = Some(on);
                } else {
                    for (((x, &g), p), &r) in x.iter_mut().zip(&g).zip(&mut plain).zip(&step) {
                        *x = if g > f64::NEG_INFINITY {
                            g / self.epsilon
                        } else {
                            0.0
                        };
                        *p = g + self.epsilon * r;
                    }
                    anderson.propose(&x, &step, &mut next);
                    accelerated = anderson.is_warm();
                    if accelerated {
                        for (g, &n) in g.iter_mut().zip(&next) {
                            if *g > f64::NEG_INFINITY {
                                *g = self.epsilon * n;
                            }
                        }
                    } else {
                        g.copy_from_slice(&plain);
                    }
                }
            }
            violation = self.measure(&mut g, &mut sums, &mut step)?;
        };
        Ok(Outcome {
            g,
            epsilon: self.epsilon,
            status,
            iterations: self.iterations,
            violation,
            sums,
        })
    }
}
