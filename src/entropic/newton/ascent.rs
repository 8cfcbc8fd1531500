//! Newton's method at one ε: sweep with curvature, step, judge.

use super::step::Step;
use crate::entropic::outcome::Outcome;
use crate::entropic::semidual::{SemiDual, Verdict, verdict};
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
const LIGHT: f64 = 1e-11;

/// First damping after a step that went too far.
const FIRST: f64 = 1e-3;

/// Steps in a row without improvement after which rounding must be what is left.
const PATIENCE: usize = 30;
const IMPATIENCE: usize = 5;

/// Ascends the semi-dual from `g` (slack last) at `epsilon`; `iterations` were spent before.
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
) -> Result<Outcome, Error> {
    let size = g.len();
    let mut ascent = Ascent {
        backend,
        semidual,
        epsilon,
        iterations,
        step: Step::new(size),
        slack_row: vec![0.0; size],
    };
    let mut g = g;
    let mut sums = vec![0.0; size];
    let mut violation = ascent.look(&mut g, &mut sums)?;
    let (mut lambda, mut longest) = (LIGHT, 40.0 * epsilon);
    let (mut trial, mut trial_sums) = (g.clone(), vec![0.0; size]);
    let (mut best, mut since_best) = (violation, 0);
    let first = violation;
    let status = loop {
        let floor = ascent.backend.resolution();
        match verdict(violation, floor, limits.tolerance, limits.margin) {
            Verdict::Met => break Status::Converged,
            Verdict::Blurred => break Status::Stalled,
            Verdict::Missed => {}
        }
        let progress = Progress::entropic(
            ascent.iterations,
            violation,
            first,
            limits.tolerance,
            epsilon,
        );
        if limits.guard.says_stop(&progress) {
            break Status::Stopped;
        }
        if ascent.iterations >= limits.max_iterations {
            break Status::IterationLimit;
        }
        // Close to what the scalar can resolve, a few idle steps say that there is no more to gain.
        if (since_best > PATIENCE && violation < 1e3 * floor)
            || (since_best > IMPATIENCE && violation < 20.0 * floor)
        {
            break Status::Stalled;
        }
        let demands = &ascent.semidual.demands;
        let stiffness = &mut ascent.step.stiffness;
        ascent.semidual.stiffness(epsilon, &g, &sums, stiffness);
        if !ascent.step.solve(demands, &sums, epsilon, lambda, longest) {
            if lambda > 1e12 {
                break Status::IterationLimit;
            }
            lambda = (lambda * 10.0).max(FIRST);
            continue;
        }
        let (delta, total) = (ascent.step.delta.clone(), ascent.semidual.total);
        let slope = |sums: &[f64], demands: &[f64]| -> f64 {
            demands
                .iter()
                .zip(sums)
                .zip(&delta)
                .map(|((w, s), d)| ((w - s) / total) * d)
                .sum()
        };
        let before = slope(&sums, demands);
        for ((t, &g), &d) in trial.iter_mut().zip(&g).zip(&delta) {
            *t = g + d;
        }
        // The curvature of the point at hand is needed again if the trial is worse.
        let kept = core::mem::take(&mut ascent.step.outer);
        ascent.step.outer = vec![0.0; size * size];
        let here = ascent
            .semidual
            .is_relaxed()
            .then(|| ascent.semidual.clone());
        let outcome = ascent.look(&mut trial, &mut trial_sums)?;
        let after = slope(&trial_sums, &ascent.semidual.demands);
        let fine = outcome <= violation || after >= -0.5 * before;
        if fine && outcome.is_finite() {
            core::mem::swap(&mut g, &mut trial);
            core::mem::swap(&mut sums, &mut trial_sums);
            violation = outcome;
            if after > -0.2 * before {
                lambda = (lambda * 0.1).max(LIGHT);
                longest = (longest * 2.0).min(1e6 * epsilon);
            }
        } else {
            ascent.step.outer = kept;
            if let Some(here) = here {
                *ascent.semidual = here;
            }
            lambda = (lambda * 8.0).max(FIRST);
            longest = (longest * 0.25).max(epsilon);
        }
        if violation < 0.99 * best {
            (best, since_best) = (violation, 0);
        } else {
            since_best += 1;
        }
    };
    // Leave the backend at the point that is returned.
    if trial_sums.iter().any(|s| *s != 0.0) && trial != g {
        ascent.backend.obey(ascent.semidual.row_law());
        ascent
            .backend
            .sweep(&ascent.semidual.dual_point(epsilon, &g), &mut trial_sums)?;
    }
    Ok(Outcome {
        g,
        epsilon,
        status,
        iterations: ascent.iterations,
        violation,
        sums,
    })
}

struct Ascent<'a> {
    backend: &'a mut dyn Curvature,
    semidual: &'a mut SemiDual,
    epsilon: f64,
    iterations: usize,
    step: Step,
    slack_row: Vec<f64>,
}

impl Ascent<'_> {
    /// Sums and curvature at `g`; returns the violation.
    fn look(&mut self, g: &mut [f64], sums: &mut [f64]) -> Result<f64, Error> {
        let relaxed = self.semidual.is_relaxed();
        if relaxed {
            self.semidual.cut(self.epsilon, g);
            self.backend.obey(self.semidual.row_law());
        }
        let at = self.semidual.dual_point(self.epsilon, g);
        self.backend
            .sweep_with_curvature(&at, sums, &mut self.step.outer)?;
        self.iterations += 1;
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
