//! Newton's method at one ε: sweep with curvature, step, judge.

use super::step::Step;
use crate::entropic::outcome::{Best, Outcome};
use crate::entropic::semidual::{SemiDual, Verdict, verdict};
use crate::entropic::stagnation::Stagnation;
use crate::entropic::transpose::measure;
use crate::solver::Guard;
use crate::sweep::Curvature;
use crate::{Error, Progress, Side, Status};

/// When an ascent stops.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits<'a> {
    pub(crate) tolerance: f64,
    pub(crate) max_iterations: usize,
    /// How many resolutions the violation must stay below the tolerance by.
    pub(crate) margin: f64,
    /// The ε above which a larger one sees no further: what the costs span.
    pub(crate) ceiling: f64,
    pub(crate) guard: &'a Guard<'a>,
}

/// Damping that only fixes the gauge.
const GAUGE_DAMPING: f64 = 1e-11;

/// First damping after a step that went too far.
const FIRST_DAMPING: f64 = 1e-3;

/// Steps in a row without improvement after which rounding must be what is left.
const PATIENCE: usize = 30;
const IMPATIENCE: usize = 5;

/// Ascends the semi-dual from `g` (slack last) at `epsilon`; `iterations` were spent before. Takes note of the `best` point on its way.
///
/// A step Δ is judged by the slope it leaves: the semi-dual is concave, so the slope along Δ falls from
/// d·Δ at the start, and where it is still above −½ of that at the end the step has not gone far beyond
/// the top. That needs no value of the semi-dual, whose last digits would be lost in a large sum.
pub(crate) fn ascend(
    backend: &mut dyn Curvature,
    semidual: &mut SemiDual,
    g: Vec<f64>,
    epsilon: f64,
    iterations: usize,
    limits: &Limits<'_>,
    best: &mut Best,
) -> Result<Outcome, Error> {
    let size = g.len();
    let mut ascent = Ascent {
        backend,
        semidual,
        epsilon,
        iterations,
        step: Step::new(size).until(limits.guard.interrupt()),
        slack_row: vec![0.0; size],
        damping: GAUGE_DAMPING,
        longest: 40.0 * epsilon,
    };
    let mut here = ascent.begin(g)?;
    if !here.violation.is_finite() && limits.guard.is_over() {
        // Given up before it could say anything: a sweep without curvature does.
        let (found, tolerance) = ((&mut here.g, &mut here.sums), limits.tolerance);
        let (backend, semidual) = (&mut *ascent.backend, &mut *ascent.semidual);
        (here.violation, _) = measure(backend, semidual, epsilon, found.0, found.1, tolerance)?;
    }
    let mut trial = Point {
        g: here.g.clone(),
        sums: vec![0.0; size],
        violation: f64::INFINITY,
    };
    let mut stagnation = Stagnation::new(here.violation);
    let first = here.violation;
    let status = loop {
        let found = (epsilon, here.violation);
        best.note(ascent.semidual, found, &here.g, &here.sums);
        if let Some(status) = ascent.end(here.violation, first, stagnation.idle(), limits) {
            break status;
        }
        if !ascent.propose(&here) {
            if ascent.damping > 1e12 {
                break Status::IterationLimit;
            }
            ascent.damping = (ascent.damping * 10.0).max(FIRST_DAMPING);
            continue;
        }
        ascent.go(&mut here, &mut trial)?;
        stagnation.improves(here.violation);
    };
    Ok(Outcome {
        g: here.g,
        epsilon,
        status,
        iterations: ascent.iterations,
        violation: here.violation,
        sums: here.sums,
    })
}

/// Potentials, and what a sweep found there.
struct Point {
    g: Vec<f64>,
    sums: Vec<f64>,
    violation: f64,
}

struct Ascent<'a> {
    backend: &'a mut dyn Curvature,
    semidual: &'a mut SemiDual,
    epsilon: f64,
    iterations: usize,
    step: Step,
    slack_row: Vec<f64>,
    /// Of the next step, and how far it may go.
    damping: f64,
    longest: f64,
}

impl Ascent<'_> {
    fn begin(&mut self, mut g: Vec<f64>) -> Result<Point, Error> {
        let mut sums = vec![0.0; g.len()];
        let violation = self.look(&mut g, &mut sums)?;
        Ok(Point { g, sums, violation })
    }

    /// Whether the ascent is over, and why.
    fn end(&self, violation: f64, first: f64, idle: usize, limits: &Limits<'_>) -> Option<Status> {
        let floor = self.backend.resolution();
        match verdict(violation, floor, limits.tolerance, limits.margin) {
            Verdict::Met => return Some(Status::Converged),
            Verdict::Blurred => return Some(Status::Stalled),
            Verdict::Missed => {}
        }
        let (iterations, tolerance) = (self.iterations, limits.tolerance);
        let progress = Progress::entropic(iterations, violation, first, tolerance, self.epsilon);
        if limits.guard.says_stop(&progress) {
            return Some(Status::Stopped);
        }
        if self.iterations >= limits.max_iterations {
            return Some(Status::IterationLimit);
        }
        // Close to what the scalar can resolve, a few idle steps say that there is no more to gain.
        let is_stalled = (idle > PATIENCE && violation < 1e3 * floor)
            || (idle > IMPATIENCE && violation < 20.0 * floor);
        is_stalled.then_some(Status::Stalled)
    }

    /// Works out the damped step; false where it has none at this damping.
    fn propose(&mut self, here: &Point) -> bool {
        let stiffness = &mut self.step.stiffness;
        self.semidual
            .stiffness(self.epsilon, &here.g, &here.sums, stiffness);
        let demands = &self.semidual.demands;
        self.step.solve(
            demands,
            &here.sums,
            self.epsilon,
            self.damping,
            self.longest,
        )
    }

    /// What is left to gain along the step where the sums are these, of the total mass.
    fn slope(&self, delta: &[f64], sums: &[f64]) -> f64 {
        let each = self.semidual.demands.iter().zip(sums).zip(delta);
        each.map(|((w, s), d)| ((w - s) / self.semidual.total) * d)
            .sum()
    }

    /// Takes the step, or stays and dares less.
    fn go(&mut self, here: &mut Point, trial: &mut Point) -> Result<(), Error> {
        let delta = self.step.delta.clone();
        let before = self.slope(&delta, &here.sums);
        for ((t, &g), &d) in trial.g.iter_mut().zip(&here.g).zip(&delta) {
            *t = g + d;
        }
        // The curvature of the point at hand is needed again if the trial is worse.
        let size = delta.len();
        let kept = core::mem::replace(&mut self.step.outer, vec![0.0; size * size]);
        let relaxed = self.semidual.is_relaxed().then(|| self.semidual.clone());
        trial.violation = self.look(&mut trial.g, &mut trial.sums)?;
        let after = self.slope(&delta, &trial.sums);
        let fine = trial.violation <= here.violation || after >= -0.5 * before;
        if fine && trial.violation.is_finite() {
            core::mem::swap(here, trial);
            if after > -0.2 * before {
                self.damping = (self.damping * 0.1).max(GAUGE_DAMPING);
                self.longest = (self.longest * 2.0).min(1e6 * self.epsilon);
            }
        } else {
            self.step.outer = kept;
            if let Some(relaxed) = relaxed {
                *self.semidual = relaxed;
            }
            self.damping = (self.damping * 8.0).max(FIRST_DAMPING);
            self.longest = (self.longest * 0.25).max(self.epsilon);
        }
        Ok(())
    }

    /// Sums and curvature at `g`; returns the violation, infinite where the sweep was given up.
    fn look(&mut self, g: &mut [f64], sums: &mut [f64]) -> Result<f64, Error> {
        let relaxed = self.semidual.is_relaxed();
        if relaxed {
            self.semidual.clip(self.epsilon, g);
            self.backend.obey(self.semidual.row_law());
        }
        let at = self.semidual.dual_point(self.epsilon, g);
        self.backend
            .sweep_with_curvature(&at, sums, &mut self.step.outer)?;
        self.iterations += 1;
        if self.step.interrupt.is_due() {
            return Ok(f64::INFINITY);
        }
        if relaxed {
            let mut logs = vec![0.0; g.len()];
            let factor = self
                .semidual
                .respond(self.backend, self.epsilon, g, sums, &mut logs)?;
            if factor != 1.0 {
                self.step.outer.iter_mut().for_each(|h| *h *= factor);
            }
            return Ok(self.semidual.violation(sums));
        }
        if self.semidual.slack.row > 0.0 {
            self.semidual
                .slack_row(self.epsilon, g, &mut self.slack_row);
            sums.iter_mut()
                .zip(&self.slack_row)
                .for_each(|(s, p)| *s += p);
            self.step.add_row(&self.slack_row, self.semidual.slack.row);
        }
        self.check_blocked(g, sums)?;
        Ok(self.semidual.violation(sums))
    }

    /// A column that wants mass and holds exactly nothing is either far away or forbidden altogether.
    fn check_blocked(&mut self, g: &[f64], sums: &[f64]) -> Result<(), Error> {
        let k = g.len() - 1;
        let empty: Vec<usize> = (0..k)
            .filter(|&j| sums[j] == 0.0 && self.semidual.demands[j] > 0.0)
            .collect();
        if empty.is_empty() {
            return Ok(());
        }
        let mut logs = vec![0.0; empty.len()];
        self.backend.log_sums(&empty, &mut logs)?;
        let reachable =
            self.semidual.slack.row > 0.0 && self.semidual.slack.row_cost < f64::INFINITY;
        match empty
            .iter()
            .zip(&logs)
            .find(|(_, log)| **log == f64::NEG_INFINITY && !reachable)
        {
            Some((&j, _)) => Err(Error::Blocked {
                side: Side::Cols,
                index: j,
                mass: self.semidual.demands[j],
            }),
            None => Ok(()),
        }
    }
}
