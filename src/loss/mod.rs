//! Transport inside something else: values to descend, gradients, maps, divergences.
//!
//! ```text
//! F(a, b, C) = min_P ⟨C, P⟩ + ε Ω(P) + D(P1 | a) + D(Pᵀ1 | b)
//! ∂F/∂C = P       ∂F/∂x_i = Σ_j P_ij ∂c(x_i, y_j)/∂x_i       ∂F/∂a_i from the potential of row i
//! ```
//!
//! * [`Solution::regularised`](crate::Solution::regularised): the value of the regularised problem, with either reference of the entropy;
//!   [`Solution::transport_cost`](crate::Solution::transport_cost): ⟨C, P⟩ alone.
//! * [`Solution::gradient_points`](crate::Solution::gradient_points), [`Solution::gradient_masses`](crate::Solution::gradient_masses): of
//!   the value; with respect to the cost it is the plan.
//! * [`Solution::pull_back`](crate::Solution::pull_back): gradients of any function of the plan or the potentials, by implicit
//!   differentiation.
//! * [`Solution::map_points`](crate::Solution::map_points): where points go that were not in the problem.
//! * [`Divergence`]: the Sinkhorn divergence of two clouds, with gradients.
//! * [`wasserstein_1`], [`wasserstein_2`]: distances, exactly.

mod divergence;
pub(crate) mod gradient;
pub(crate) mod implicit;
mod map;
pub(crate) mod value;

pub use divergence::{Comparison, Divergence};
pub use implicit::{Cotangent, PullBack};
pub use value::{wasserstein_1, wasserstein_2};
