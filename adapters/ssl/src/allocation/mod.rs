//! Label allocation: which examples get which label, decided for all of them at once.
//!
//! ```text
//! minimise Σ_ij Q_ij C_ij,  C_ij = −log p(class j | example i)
//! subject to  0 ≤ Q,   Σ_j Q_ij ≤ 1,   Σ_i Q_ij ≤ 1 + n b_j,   Σ_ij Q_ij ≥ n(ρ − μ₊) − 1,
//! ```
//!
//! μ = 1 − Σ_j b_j. The share ρ of labeled examples grows while training, b keeps any class from swallowing
//! the others; entropic regularisation (strength 1/γ) makes the answer a rescaled softmax, so that k + 1
//! numbers β label *any* example. Everything here is slices in, slices out, and needs no deep-learning
//! framework.

mod allocator;
mod bounds;
mod bulk;
mod constrained;
mod diagnostic;
mod engine;
mod history;
mod masses;
mod normal;
mod prices;
mod saved;
mod schedule;
mod shift;
mod storage;

pub use allocator::{AllocatorOptions, LabelAllocator, Report};
use history::History;

pub use bounds::{Bounds, MovingBounds};
pub use bulk::{BulkAllocation, BulkLabel, BulkOptions, ClassTotals, Logits};
pub use constrained::{ConstrainedAllocation, ConstrainedSolution};
pub use diagnostic::{ClassDiagnosis, Diagnosis, Warning};
pub use earthmover::bounded::Acceleration;
pub use engine::AllocationSolver;
pub use schedule::Schedule;
pub(crate) use schedule::share;
pub use shift::{Shift, ShiftEstimator};
pub use storage::CostStorage;
#[cfg(feature = "data")]
pub(crate) use storage::half_to_single;
