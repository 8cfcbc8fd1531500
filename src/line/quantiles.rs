//! Quantiles: the inverse of the distribution function, and what is made by averaging them.

use super::samples::Samples;
use super::staircase::Cumulative;
use crate::problem::marginals::shares;
use crate::{Error, Side};

impl Samples {
    /// The least sample at or below which at least the share `level` of the mass lies: F⁻¹(level), no interpolation.
    ///
    /// # Errors
    /// [`Error::Option`] for a level outside 0 to 1.
    ///
    /// # Examples
    /// ```
    /// use earthmover::line::Samples;
    /// let samples = Samples::new(&[30.0, 10.0, 20.0, 40.0])?;
    /// assert_eq!((samples.quantile(0.5)?, samples.quantile(0.51)?), (20.0, 30.0));
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn quantile(&self, level: f64) -> Result<f64, Error> {
        if !(0.0..=1.0).contains(&level) {
            return Err(Error::Option {
                name: "quantile level",
                value: level,
                expected: "a number from 0 to 1",
            });
        }
        let rank = match &self.levels {
            Cumulative::Uniform(n) => {
                let mut rank = ((level * *n as f64) as usize).min(n - 1);
                while rank > 0 && self.levels.at(rank - 1) >= level {
                    rank -= 1;
                }
                while rank + 1 < *n && self.levels.at(rank) < level {
                    rank += 1;
                }
                rank
            }
            Cumulative::Weighted(levels) => {
                levels.partition_point(|l| *l < level).min(levels.len() - 1)
            }
        };
        // The first that carries mass, at level zero.
        let massive = (rank..self.len()).find(|r| self.levels.at(*r) > 0.0);
        Ok(self.positions[massive.unwrap_or(rank)])
    }

    /// [`quantile`](Self::quantile) at each of some levels.
    ///
    /// # Errors
    /// As [`quantile`](Self::quantile).
    ///
    /// # Examples
    /// ```
    /// use earthmover::line::Samples;
    /// let samples = Samples::weighted(&[1.0, 2.0, 3.0], &[1.0, 1.0, 2.0])?;
    /// assert_eq!(samples.quantiles(&[0.0, 0.5, 0.75, 1.0])?, [1.0, 2.0, 3.0, 3.0]);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn quantiles(&self, levels: &[f64]) -> Result<Vec<f64>, Error> {
        levels.iter().map(|level| self.quantile(*level)).collect()
    }

    /// The 2-Wasserstein barycentre of some distributions on the line: quantiles, averaged level by level with these weights
    /// (scaled to a total of one). It has at most Σ n_k samples.
    ///
    /// # Errors
    /// [`Error::Empty`] where there is none, [`Error::Length`] where the weights are not as many, [`Error::Mass`] or
    /// [`Error::NoMass`] for weights that are none.
    ///
    /// # Examples
    /// ```
    /// use earthmover::line::Samples;
    /// let (a, b) = (Samples::new(&[0.0, 1.0])?, Samples::new(&[10.0, 13.0])?);
    /// let middle = Samples::barycenter(&[&a, &b], &[1.0, 1.0])?;
    /// assert_eq!(middle.positions(), [5.0, 7.0]);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn barycenter(samples: &[&Self], weights: &[f64]) -> Result<Self, Error> {
        let shares = shares(weights, samples.len(), Side::Rows, "weights")?;
        let mut ranks = vec![0; samples.len()];
        let (mut positions, mut masses) = (Vec::new(), Vec::new());
        let mut t = 0.0;
        loop {
            let levels = samples.iter().zip(&ranks).map(|(s, r)| s.levels.at(*r));
            let next = levels.fold(f64::INFINITY, f64::min);
            if next > t {
                let here = samples.iter().zip(&ranks).zip(&shares);
                positions.push(here.map(|((s, r), w)| w * s.positions[*r]).sum::<f64>());
                masses.push(next - t);
                t = next;
            }
            let mut moved = false;
            for (s, r) in samples.iter().zip(&mut ranks) {
                if *r + 1 < s.len()
                    && (s.levels.at(*r) <= t || super::staircase::tie(s.levels.at(*r), t))
                {
                    *r += 1;
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        Self::weighted(&positions, &masses)
    }
}
