//! Where points go that were not in the problem.
//!
//! ```text
//! T(x) = Σ_j w_j(x) y_j / Σ_j w_j(x)        w_j(x) = exp((g_j − c(x, y_j))/ε)
//! ```
//!
//! The column potentials of a solved problem say how a new row would be spread; its mean is the entropic map (Pooladian and
//! Niles-Weed, 2021), which at the problem's own rows is the barycentric projection. An exact answer sends a point where
//! c(x, y_j) − g_j is least.

use crate::kernel::tiles::{map_ranges, tile_rows};
use crate::problem::penalty::Law;
use crate::solution::plan::Representation;
use crate::sweep::gibbs::GibbsRows;
use crate::{Cost, Error, Real, Side, Solution};

impl<T: Real, C: Cost<T>> Solution<'_, T, C> {
    /// Where new points of the row side go on average, `dimension` coordinates each: from points, not rows of costs. NaN for a point
    /// all of whose mass stays in the slack column.
    ///
    /// # Errors
    /// [`Error::NoGradient`] where the cost is not made of points, [`Error::Length`] where `points` are not a whole number of
    /// them, [`Error::Point`] for a coordinate that is not finite.
    ///
    /// # Complexity
    /// O(points × columns) work in parallel, O(points + columns) memory.
    ///
    /// # Examples
    /// ```
    /// use earthmover::{Entropic, Marginals, PointCloud, Problem, SquaredEuclidean};
    /// let (here, there) = ([0.0, 1.0, 2.0], [10.0, 11.0, 12.0]);
    /// let cost = PointCloud::new(&here, &there, 1, SquaredEuclidean)?;
    /// let problem = Problem::new(cost, Marginals::uniform(3, 3)?)?;
    /// let solution = Entropic::new(0.5).solve(&problem)?;
    /// let moved = solution.map_points(&[1.0, 1.5])?;
    /// assert!((moved[0] - 11.0).abs() < 1e-4 && 11.0 < moved[1] && moved[1] < 12.0);
    /// # Ok::<(), earthmover::Error>(())
    /// ```
    pub fn map_points(&self, points: &[T]) -> Result<Vec<f64>, Error> {
        let problem = self.problem();
        let cloud = problem.cost().points().ok_or(Error::NoGradient)?;
        let (d, k) = (cloud.dimension, problem.cols());
        if !points.len().is_multiple_of(d) {
            return Err(Error::Length {
                what: "new points",
                expected: points.len().next_multiple_of(d),
                found: points.len(),
            });
        }
        if let Some(at) = points.iter().position(|x| !x.is_finite()) {
            return Err(Error::Point {
                side: Side::Rows,
                index: at / d,
                coordinate: at % d,
                value: points[at].widen(),
            });
        }
        // At ε → 0 the softmax is the hard minimum.
        let epsilon = match self.representation() {
            Representation::Gibbs { epsilon, .. } => *epsilon,
            Representation::Sparse(_) => f64::MIN_POSITIVE.sqrt(),
        };
        let at = self
            .columns()
            .dual_point(epsilon, problem.marginals().slack());
        let rows = GibbsRows::new(&at, Law::EXACT);
        let mut by_coordinate = vec![T::zero(); k * d];
        for (j, y) in cloud.cols.chunks_exact(d).enumerate() {
            for (c, &y) in y.iter().enumerate() {
                by_coordinate[c * k + j] = y;
            }
        }
        let count = points.len() / d;
        let tiles = map_ranges(count, tile_rows(count, k), |range| {
            let (mut costs, mut row) = (vec![T::zero(); k], vec![0.0; k]);
            let mut out = Vec::with_capacity(range.len() * d);
            for i in range {
                let x = &points[i * d..][..d];
                cloud
                    .metric
                    .fill_row(x, cloud.cols, &by_coordinate, &mut costs);
                rows.write(1.0, &costs, &mut row);
                let given: f64 = row.iter().sum();
                let factor = if given > 0.0 { 1.0 / given } else { f64::NAN };
                for line in by_coordinate.chunks_exact(k) {
                    let sum: f64 = row.iter().zip(line).map(|(p, y)| p * y.widen()).sum();
                    out.push(factor * sum);
                }
            }
            out
        });
        Ok(tiles.concat())
    }
}
