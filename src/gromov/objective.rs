//! What a way to solve has to know of an objective: E(P) = constant + linear(P) − ⟨A(P), P⟩, with A linear and symmetric.

use crate::solver::Guard;
use crate::{Entry, Error, Exact, Marginals, Potentials, Status};

/// Where a start ended.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) value: f64,
    pub(super) status: Status,
    pub(super) iterations: usize,
    /// As [`GromovCertificate::stationarity`](super::GromovCertificate::stationarity) has it.
    pub(super) stationarity: f64,
    pub(super) plan: FoundPlan,
}

/// A plan as it was found.
#[derive(Debug, Clone)]
pub(super) enum FoundPlan {
    /// So many times the product of the marginals, and entries.
    Sparse {
        background: f64,
        entries: Vec<Entry>,
    },
    /// Row-major.
    Dense(Vec<f64>),
}

/// What an entropic step makes of an image.
pub(super) struct Smooth<O: Objective + ?Sized> {
    pub(super) plan: FoundPlan,
    pub(super) image: O::Image,
    pub(super) linear: f64,
    pub(super) quadratic: f64,
    pub(super) potentials: Potentials,
    pub(super) status: Status,
    /// L1 distance from the plan before over the mass; one where there was none.
    pub(super) change: f64,
}

/// How an entropic step is to be taken.
pub(super) struct Step<'a> {
    pub(super) epsilon: f64,
    /// Of the inner solve.
    pub(super) tolerance: f64,
    /// The image may follow the last one in single precision.
    pub(super) roughly: bool,
    pub(super) guard: &'a Guard<'a>,
}

/// The exact solver, for as long as the guard has time.
pub(super) fn exact_under(guard: &Guard<'_>) -> Exact {
    match guard.time_left() {
        None => Exact::new(),
        Some(left) => Exact::new().time_limit(left),
    }
}

pub(super) trait Objective: Sync {
    /// A(P).
    type Image: Clone + Send + Sync;

    /// The part of the objective that no plan changes.
    fn constant(&self) -> f64;

    /// What differences of the objective are measured against.
    fn scale(&self) -> f64;

    /// The product of the marginals: its share of a bᵀ, its image, linear and quadratic part.
    fn product(&self) -> (f64, Self::Image, f64, f64);

    /// The image of a sparse plan, given another's where there is one.
    fn image(&self, plan: &[Entry], before: Option<(&[Entry], &Self::Image)>) -> Self::Image;

    fn linear(&self, plan: &[Entry]) -> f64;

    /// ⟨A(P), Q⟩ from the image of P and a sparse Q.
    fn inner(&self, image: &Self::Image, plan: &[Entry]) -> f64;

    /// `image = (1 − t) image + t other`.
    fn mix(&self, image: &mut Self::Image, other: &Self::Image, t: f64);

    /// The plan that is best for the gradient at an image.
    fn oracle(
        &self,
        image: &Self::Image,
        prices: &mut Option<Potentials>,
        guard: &Guard<'_>,
    ) -> Result<Vec<Entry>, Error>;

    /// Where to start from; `None` for the product.
    fn start(
        &self,
        index: usize,
        seed: u64,
        guard: &Guard<'_>,
    ) -> Result<Option<Vec<Entry>>, Error>;

    /// The objective at a sparse plan, summed directly, where that is no more work than a step: nothing cancels.
    fn direct(&self, plan: &[Entry]) -> Option<f64>;

    /// How far costs are apart at this image: where ε comes down from.
    fn spread(&self, image: &Self::Image) -> f64;

    /// The entropic plan for the gradient at an image.
    fn smooth(
        &self,
        image: &Self::Image,
        step: &Step<'_>,
        before: Option<&Smooth<Self>>,
    ) -> Result<Smooth<Self>, Error>;
}

/// A random vertex: rows and columns in random orders, filled one after the other.
pub(super) fn random_vertex(marginals: &Marginals, seed: u64, index: usize) -> Vec<Entry> {
    let mut random = crate::kernel::random::Random::new(seed, index as u64);
    let mut shuffled = |count: usize| {
        let mut order: Vec<(f64, usize)> = (0..count).map(|i| (random.unit(), i)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        order.into_iter().map(|o| o.1).collect::<Vec<usize>>()
    };
    let (rows, cols) = (
        shuffled(marginals.rows().len()),
        shuffled(marginals.cols().len()),
    );
    let (mut i, mut j) = (0, 0);
    let (mut left, mut room) = (marginals.rows()[rows[0]], marginals.cols()[cols[0]]);
    let mut plan = Vec::with_capacity(rows.len() + cols.len());
    loop {
        let mass = left.min(room);
        if mass > 0.0 {
            plan.push(Entry {
                row: rows[i],
                col: cols[j],
                mass,
            });
        }
        left -= mass;
        room -= mass;
        if left <= room {
            i += 1;
            if i == rows.len() {
                return plan;
            }
            left = marginals.rows()[rows[i]];
        } else {
            j += 1;
            if j == cols.len() {
                return plan;
            }
            room = marginals.cols()[cols[j]];
        }
    }
}
