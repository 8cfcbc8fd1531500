"""POT's kernels on this library's solvers: the same arguments, the same answers.

Each takes POT's own function first, and raises `Declined` where the call is for that one.
"""

from . import _barycenter, _entropic, _exact, _line, _unbalanced

KERNELS = {
    "ot.lp.emd_wrap.emd_c": _exact.emd_c,
    "ot.bregman._sinkhorn.sinkhorn_knopp": _entropic.sinkhorn_knopp,
    "ot.bregman._sinkhorn.sinkhorn_log": _entropic.sinkhorn_log,
    "ot.bregman._sinkhorn.sinkhorn_stabilized": _entropic.sinkhorn_stabilized,
    "ot.bregman._sinkhorn.sinkhorn_epsilon_scaling": _entropic.sinkhorn_epsilon_scaling,
    "ot.bregman._sinkhorn.greenkhorn": _entropic.greenkhorn,
    "ot.unbalanced._sinkhorn.sinkhorn_knopp_unbalanced": _unbalanced.sinkhorn_knopp_unbalanced,
    "ot.unbalanced._sinkhorn.sinkhorn_stabilized_unbalanced": _unbalanced.sinkhorn_stabilized_unbalanced,
    "ot.unbalanced._sinkhorn.sinkhorn_unbalanced_translation_invariant": _unbalanced.sinkhorn_unbalanced_translation_invariant,
    "ot.unbalanced._mm.mm_unbalanced": _unbalanced.mm_unbalanced,
    "ot.bregman._barycenter.barycenter_sinkhorn": _barycenter.barycenter,
    "ot.bregman._barycenter._barycenter_sinkhorn_log": _barycenter.barycenter,
    "ot.bregman._barycenter._barycenter_debiased": _barycenter.barycenter_debiased,
    "ot.bregman._barycenter._barycenter_debiased_log": _barycenter.barycenter_debiased,
    "ot.bregman._convolutional._convolutional_barycenter2d": _barycenter.convolutional,
    "ot.bregman._convolutional._convolutional_barycenter2d_log": _barycenter.convolutional_log,
    "ot.lp.solver_1d.wasserstein_1d": _line.wasserstein_1d,
    "ot.lp.emd_wrap.emd_1d_sorted": _line.emd_1d_sorted,
}

# Functions that people call, to be counted.
PUBLIC = [
    "ot.emd",
    "ot.emd2",
    "ot.sinkhorn",
    "ot.sinkhorn2",
    "ot.solve",
    "ot.solve_sample",
    "ot.solve_gromov",
    "ot.bregman.empirical_sinkhorn",
    "ot.bregman.empirical_sinkhorn2",
    "ot.bregman.empirical_sinkhorn_divergence",
    "ot.bregman.barycenter",
    "ot.bregman.barycenter_debiased",
    "ot.bregman.convolutional_barycenter2d",
    "ot.unbalanced.sinkhorn_unbalanced",
    "ot.unbalanced.sinkhorn_unbalanced2",
    "ot.unbalanced.mm_unbalanced2",
    "ot.partial.partial_wasserstein",
    "ot.partial.partial_wasserstein2",
    "ot.partial.entropic_partial_wasserstein",
    "ot.emd_1d",
    "ot.emd2_1d",
    "ot.sliced_wasserstein_distance",
    "ot.max_sliced_wasserstein_distance",
    "ot.gromov.gromov_wasserstein",
    "ot.gromov.gromov_wasserstein2",
    "ot.gromov.fused_gromov_wasserstein",
    "ot.gromov.fused_gromov_wasserstein2",
    "ot.gromov.entropic_gromov_wasserstein",
]
