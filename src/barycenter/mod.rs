//! Barycentres: the distribution that is nearest to several at once.
//!
//! ```text
//! minimise over b   Σ_k w_k OT(a_k, b)            fixed support: b lives on given cells or points   ([`Barycenter`])
//!                                                 free support: b = Σ_j m_j δ(x_j), the x_j sought  ([`FreeSupport`])
//! ```
//!
//! On a fixed support, entropic: with g_k the prices of the columns towards a_k and s_k the column sums of the plan with exact rows, the
//! dual is maximal under Σ_k w_k g_k = 0 where all s_k are the same. The step g_k += ε (ln b − ln s_k), ln b = Σ_k w_k ln s_k, keeps that
//! sum (iterative Bregman projections) and is accelerated as Sinkhorn's is. It takes two soft transforms a histogram: products with a
//! stored kernel, one axis after the other on a [`Grid`](crate::Grid), in logarithms throughout, ε coming down from the costs' range.
//! *Debiased*, the same with the Sinkhorn divergence in place of the entropic cost: no blur at any ε.
//!
//! Bounds on the unregularised optimum: plans rounded onto (a_k, b) from above; Σ w_k ⟨a_k, f_k⟩ + min_j Σ w_k g_kj from
//! below, with f_k and g_k made feasible by hard transforms.
//!
//! # References
//! Agueh and Carlier, *Barycenters in the Wasserstein space*, 2011. Benamou et al., *Iterative Bregman projections for regularized
//! transportation problems*, 2015. Janati et al., *Debiased Sinkhorn barycenters*, 2020. Cuturi and Doucet, *Fast computation of Wasserstein
//! barycenters*, 2014.

mod fixed;
mod free;

pub use fixed::{Barycenter, BarycenterCertificate, BarycenterSolution};
pub use free::{FreeSupport, FreeSupportSolution};

pub(crate) use fixed::Parts;
