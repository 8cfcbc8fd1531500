//! Sweeps over rows that a team holds together.
//!
//! Every member sweeps over its own rows, which are a node of the tree along which a single machine would have added up; the nodes'
//! sums are gathered, and what is above them in the tree is added up by everybody. What goes wrong with one member's rows is everybody's error.

use super::backend::{Backend, Curvature, DualPoint};
use super::rows::add;
use crate::Error;
use crate::kernel::exp::log_add;
use crate::problem::penalty::Law;
use crate::team::Shard;

/// A backend for a member's rows as one for those of all.
#[derive(Debug)]
pub(crate) struct Shared<'s, B> {
    own: B,
    /// `None` where nobody shares.
    shard: Option<&'s Shard>,
    resolution: f64,
}

impl<'s, B: Backend> Shared<'s, B> {
    pub(crate) fn new(own: B, shard: Option<&'s Shard>) -> Self {
        Self {
            resolution: own.resolution(),
            own,
            shard,
        }
    }

    /// Gathers the sums and what rounding may have done to them, and adds them up.
    fn add_up(&mut self, swept: Result<(), Error>, out: [&mut [f64]; 2]) -> Result<(), Error> {
        let [sums, lower] = out;
        self.resolution = self.own.resolution();
        let Some(shard) = self.shard else {
            return swept;
        };
        let resolution = self.resolution;
        let mine = swept.map(|()| {
            let numbers = sums.iter().chain(&*lower).chain([&resolution]);
            numbers.copied().collect()
        });
        let merge = |all: &mut Vec<f64>, more: Vec<f64>| {
            let last = all.len() - 1;
            let coarser = all[last].max(more[last]);
            add(all, &more);
            all[last] = coarser;
        };
        let found = shard.sum(mine, &merge)?;
        let (first, rest) = found.split_at(sums.len());
        let (second, resolution) = rest.split_at(lower.len());
        sums.copy_from_slice(first);
        lower.copy_from_slice(second);
        self.resolution = resolution.first().copied().unwrap_or(f64::INFINITY);
        Ok(())
    }

    fn add_up_logs(&self, mine: Result<Vec<f64>, Error>, out: &mut [f64]) -> Result<(), Error> {
        let found = match self.shard {
            None => mine?,
            Some(shard) => shard.sum(mine, &|all, more| {
                let both = all.iter_mut().zip(more);
                both.for_each(|(a, b)| *a = log_add(*a, b));
            })?,
        };
        out.copy_from_slice(&found);
        Ok(())
    }
}

impl<B: Backend> Backend for Shared<'_, B> {
    fn name(&self) -> &'static str {
        self.own.name()
    }

    fn rows(&self) -> usize {
        self.own.rows()
    }

    fn cols(&self) -> usize {
        self.own.cols()
    }

    fn sweep(&mut self, at: &DualPoint<'_>, sums: &mut [f64]) -> Result<(), Error> {
        let swept = self.own.sweep(at, sums);
        self.add_up(swept, [sums, &mut []])
    }

    fn log_sums(&mut self, cols: &[usize], out: &mut [f64]) -> Result<(), Error> {
        let found = self.own.log_sums(cols, out).map(|()| out.to_vec());
        self.add_up_logs(found, out)
    }

    fn log_slack_sum(&mut self, at: &DualPoint<'_>) -> Result<f64, Error> {
        let mut log = [0.0];
        let found = self.own.log_slack_sum(at).map(|log| vec![log]);
        self.add_up_logs(found, &mut log)?;
        Ok(log[0])
    }

    fn row_potentials(&mut self, out: &mut [f64]) -> Result<(), Error> {
        self.own.row_potentials(out)
    }

    fn resolution(&self) -> f64 {
        self.resolution
    }

    fn obey(&mut self, law: &Law) -> bool {
        self.own.obey(law)
    }
}

impl<B: Curvature> Curvature for Shared<'_, B> {
    fn sweep_with_curvature(
        &mut self,
        at: &DualPoint<'_>,
        sums: &mut [f64],
        hessian: &mut [f64],
    ) -> Result<(), Error> {
        let swept = self.own.sweep_with_curvature(at, sums, hessian);
        if self.shard.is_none() {
            return self.add_up(swept, [sums, hessian]);
        }
        // The lower triangle is all there is.
        let side = sums.len();
        let rows = |i: usize| i * side..=i * side + i;
        let mut lower: Vec<f64> = (0..side).flat_map(|i| &hessian[rows(i)]).copied().collect();
        self.add_up(swept, [sums, &mut lower])?;
        let mut rest = &lower[..];
        for i in 0..side {
            let (row, after) = rest.split_at(i + 1);
            hessian[rows(i)].copy_from_slice(row);
            rest = after;
        }
        Ok(())
    }
}
