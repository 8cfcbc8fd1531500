//! One side's points in nested clusters: what problems are solved coarse to fine over.
//!
//! Points are clustered in a k-d tree, four to a cluster and again, until a few hundred clusters are left. A
//! cluster stands for its points at their centre of mass.

use crate::kernel::kd::{Nested, deepest, inside};
use crate::{Metric, Real};

/// The longest side of the coarsest problem, about.
const COARSEST: usize = 256;

/// One side's points and how they are clustered.
pub(crate) struct Clusters<'a, T> {
    points: &'a [T],
    masses: &'a [f64],
    pub(crate) dimension: usize,
    nested: Nested,
}

impl<'a, T: Real> Clusters<'a, T> {
    pub(crate) fn new(points: &'a [T], masses: &'a [f64], dimension: usize) -> Self {
        Self {
            points,
            masses,
            dimension,
            nested: Nested::new(points, dimension),
        }
    }

    /// How many levels of clusters it takes to get down to the coarsest.
    pub(crate) fn levels(&self) -> usize {
        let mut levels = 0;
        while self.masses.len() >> (2 * levels) > COARSEST {
            levels += 1;
        }
        levels
    }

    /// Depth of the runs that are the clusters of `level`; `None` for the points themselves.
    pub(crate) fn depth(&self, level: usize) -> Option<u32> {
        (level > 0).then(|| (deepest(self.masses.len()) + 1).saturating_sub(2 * level as u32))
    }

    /// How many clusters a level has.
    pub(crate) fn count(&self, level: usize) -> usize {
        self.depth(level).map_or(self.masses.len(), |d| 1 << d)
    }

    /// The point at a place of the nested order; the slack, after the last, is itself.
    pub(crate) fn original(&self) -> impl Fn(usize) -> usize + '_ {
        |at| self.nested.order().get(at).map_or(at, |&p| p as usize)
    }

    /// Centres and masses of the clusters of a level.
    pub(crate) fn clusters(&self, level: usize) -> (Vec<T>, Vec<f64>) {
        let (mut centres, mut masses) = (Vec::new(), Vec::new());
        let d = self.dimension;
        let Some(depth) = self.depth(level) else {
            for &p in self.nested.order() {
                centres.extend_from_slice(&self.points[p as usize * d..][..d]);
                masses.push(self.masses[p as usize]);
            }
            return (centres, masses);
        };
        let mut centre = vec![0.0; d];
        for q in 0..1usize << depth {
            let run = &self.nested.order()[self.nested.places(depth, q)];
            let mass: f64 = run.iter().map(|&p| self.masses[p as usize]).sum();
            centre.fill(0.0);
            for &p in run {
                let weight = if mass > 0.0 {
                    self.masses[p as usize] / mass
                } else {
                    1.0 / run.len() as f64
                };
                let point = &self.points[p as usize * d..][..d];
                for (c, x) in centre.iter_mut().zip(point) {
                    *c += weight * x.widen();
                }
            }
            centres.extend(centre.iter().map(|&c| T::narrow(c)));
            masses.push(mass);
        }
        (centres, masses)
    }

    /// The clusters, one level below, of cluster `q` of `level`; the slack has itself.
    pub(crate) fn members(&self, level: usize, q: usize) -> core::ops::Range<usize> {
        let below = self.count(level - 1);
        match (self.depth(level), self.depth(level - 1)) {
            (Some(depth), _) if q >= 1 << depth => below..below + 1,
            (Some(depth), None) => self.nested.places(depth, q),
            (Some(depth), Some(deeper)) => inside(depth, deeper, q),
            (None, _) => q..q + 1,
        }
    }

    /// What it costs on average from a point to the centre of its cluster: how finely a level resolves.
    pub(crate) fn mean_cost(&self, level: usize, metric: &dyn Metric<T>) -> f64 {
        let Some(depth) = self.depth(level) else {
            return 0.0;
        };
        let (d, (centres, _)) = (self.dimension, self.clusters(level));
        let (mut sum, mut mass) = (0.0, 0.0);
        for (q, centre) in centres.chunks_exact(d).enumerate() {
            for &p in &self.nested.order()[self.nested.places(depth, q)] {
                let p = p as usize;
                let cost = metric.distance(&self.points[p * d..][..d], centre);
                sum += self.masses[p] * cost.widen();
                mass += self.masses[p];
            }
        }
        if mass > 0.0 { sum / mass } else { 0.0 }
    }
}
