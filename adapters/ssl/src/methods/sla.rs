//! Sinkhorn label allocation, the paper's Algorithm 2.
//!
//! ```text
//! label    q_j = p_jᵞ e^{β_j} / (e^{β_{k+1}} + Σ_j' p_j'ᵞ e^{β_j'})      with the β from before this step
//! update   C_i ← −log p_i for the batch;  β ← SLA(C, b, ρ_t, γ, ε), starting from β
//! ```
//!
//! Batches are drawn with replacement: of an example that occurs twice the last view counts, as it does when
//! rows of an array are assigned by a list of indices.

use std::io::{Read, Write};
use std::time::Instant;

use super::{Batch, Fidelity, Insight, Labels, Method, fidelity, unusable};
use crate::Error;
use crate::allocation::{LabelAllocator, Report, Schedule};

/// Label allocation with a schedule for its share.
#[derive(Clone, Debug)]
pub struct Sla {
    allocator: LabelAllocator,
    schedule: Schedule,
    last: Option<Report>,
    /// Seconds of this step's labels, observation and solve.
    seconds: f64,
}

impl Sla {
    /// An allocator for all unlabeled examples and the schedule of ρ.
    #[must_use]
    pub fn new(allocator: LabelAllocator, schedule: Schedule) -> Self {
        Self {
            allocator,
            schedule,
            last: None,
            seconds: 0.0,
        }
    }

    /// The allocator, for its diagnosis.
    #[must_use]
    pub fn allocator(&self) -> &LabelAllocator {
        &self.allocator
    }
}

impl Method for Sla {
    fn label(&mut self, batch: &Batch<'_>) -> Result<Labels, Error> {
        let started = Instant::now();
        batch.check()?;
        let mut labels = Labels::none(batch.indices.len(), batch.classes);
        self.allocator
            .targets(batch.log_probs, &mut labels.targets)?;
        labels.weights.fill(1.0);
        self.seconds = started.elapsed().as_secs_f64();
        Ok(labels)
    }

    fn update(&mut self, batch: &Batch<'_>) -> Result<(), Error> {
        let started = Instant::now();
        batch.check()?;
        let k = batch.classes;
        let mut order: Vec<usize> = (0..batch.indices.len()).collect();
        // By index, later rows first: the first of a run of equals is the one that counts.
        order.sort_unstable_by_key(|&row| (batch.indices[row], std::cmp::Reverse(row)));
        order.dedup_by_key(|row| batch.indices[*row]);
        let indices: Vec<usize> = order.iter().map(|&row| batch.indices[row]).collect();
        let log_probs: Vec<f32> = order
            .iter()
            .flat_map(|&row| &batch.log_probs[row * k..(row + 1) * k])
            .copied()
            .collect();
        self.allocator.observe(&indices, &log_probs)?;
        let rho = self.schedule.at(batch.step as usize, batch.steps as usize);
        self.last = Some(self.allocator.allocate(rho)?);
        self.seconds += started.elapsed().as_secs_f64();
        Ok(())
    }

    fn insight(&self) -> Insight {
        let n = self.allocator.examples() as f64;
        let last = self.last.as_ref();
        Insight {
            allocated: Some(last.map_or(0.0, |r| r.allocated)),
            scaling: Some(self.allocator.scaling()),
            prices: Some(self.allocator.prices()),
            shares: last.map(|r| r.mass.iter().map(|m| m / n).collect()),
            iterations: last.map_or(0, |r| r.iterations),
            seconds: self.seconds,
        }
    }

    fn fidelity(&self, step: u64, gammas: &[f64]) -> Result<Vec<Fidelity>, Error> {
        fidelity::compare(&self.allocator, step, gammas)
    }

    fn save(&self, writer: &mut dyn Write) -> Result<(), Error> {
        self.allocator.save(writer)
    }

    fn load(&mut self, reader: &mut dyn Read) -> Result<(), Error> {
        let saved = LabelAllocator::load(reader)?;
        let shape = |a: &LabelAllocator| (a.examples(), a.classes());
        if shape(&saved) != shape(&self.allocator) {
            return Err(unusable(format!(
                "it allocates to {:?} examples and classes where there are {:?}",
                shape(&saved),
                shape(&self.allocator)
            )));
        }
        let solver = self.allocator.engine.settings().solver;
        self.allocator = saved;
        self.allocator.engine.set_solver(solver);
        self.last = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand;
    use super::*;
    use crate::allocation::Bounds;

    fn sla(examples: usize, rho: f64) -> Sla {
        let bounds = Bounds::given(&[0.5, 0.5]).unwrap_or_else(|_| unreachable!());
        let allocator = LabelAllocator::options(examples, 2).bounds(bounds).build();
        let schedule = Schedule::constant(rho).unwrap_or_else(|_| unreachable!());
        Sla::new(allocator.unwrap_or_else(|_| unreachable!()), schedule)
    }

    #[test]
    fn the_first_labels_come_from_zero_scaling() {
        // β = 0: q_j = p_jᵞ / (1 + Σ p^γ), γ = 100. For p = 1 that is ½, for p = 0.9 about e^−10.5.
        let labels = hand::label(&mut sla(2, 1.0), &[1.0, 0.0, 0.9, 0.1], 2);
        assert!((labels.targets[0] - 0.5).abs() < 1e-6 && labels.targets[1] == 0.0);
        let expected = 0.9f64.powi(100) / (1.0 + 0.9f64.powi(100));
        assert!((f64::from(labels.targets[2]) - expected).abs() < 1e-8);
        assert_eq!(labels.weights, [1.0, 1.0]);
    }

    #[test]
    fn the_second_labels_come_from_the_first_solve() {
        let p = [0.99, 0.01, 0.9, 0.1, 0.2, 0.8, 0.03, 0.97];
        let mut method = sla(4, 1.0);
        let first = hand::label(&mut method, &p, 2);
        let second = hand::label(&mut method, &p, 2);
        let mut rows = vec![0.0; 8];
        let mut expected = sla(4, 1.0);
        hand::label(&mut expected, &p, 2);
        assert!(
            expected
                .allocator
                .targets(&hand::logs(&p), &mut rows)
                .is_ok()
        );
        assert_ne!(first, second);
        assert_eq!(second.targets, rows);
    }

    #[test]
    fn the_last_of_two_views_counts() {
        let mut method = sla(2, 0.5);
        let log_probs = hand::logs(&[0.9, 0.1, 0.6, 0.4, 0.3, 0.7]);
        let batch = Batch {
            log_probs: &log_probs,
            labeled: &[],
            indices: &[1, 0, 1],
            classes: 2,
            step: 0,
            steps: 2,
        };
        assert!(method.update(&batch).is_ok());
        let costs: Vec<f32> = [&log_probs[2..4], &log_probs[4..6]].concat();
        let costs: Vec<f32> = costs.iter().map(|l| -l).collect();
        assert_eq!(method.allocator.costs(), costs);
    }

    #[test]
    fn survives_saving() {
        let p = [0.9, 0.1, 0.3, 0.7];
        hand::survives_saving(&mut sla(2, 0.7), &mut sla(2, 0.7), &p, 2);
        let mut bytes = Vec::new();
        assert!(sla(3, 0.7).save(&mut bytes).is_ok());
        assert!(sla(2, 0.7).load(&mut bytes.as_slice()).is_err());
    }
}
