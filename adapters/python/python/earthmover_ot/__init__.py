"""Optimal transport, exact and entropic; every answer carries its own proof of quality.

    minimise  Σ C_ij P_ij     subject to   P ≥ 0,   P 1 = a,   Pᵀ 1 = b

>>> import numpy as np, earthmover_ot as em
>>> C = np.array([[0., 1.], [1., 0.]])
>>> exact = em.solve(C, [0.5, 0.5], [0.25, 0.75])
>>> exact.value, exact.certificate.gap < 1e-12
(0.25, True)
>>> smooth = em.solve(C, eps=0.1)
>>> smooth.certificate.dual <= 0.0 <= smooth.certificate.primal
True

`solve` takes a matrix of costs, `solve_points` two clouds of points; `LabelAllocator` labels examples for a training loop; `earthmover_ot.pot`
makes existing code that calls POT run on this library.
"""

from ._earthmover import (
    BarycenterResult,
    Certificate,
    CostError,
    Divergence,
    Grid,
    GromovCertificate,
    GromovSolution,
    InfeasibleError,
    LabelAllocator,
    LineTransport,
    MassError,
    MaxSliced,
    OptionError,
    PointBarycenter,
    ShapeError,
    SlicedDistance,
    Solution,
    TransportError,
    __version__,
    assignment,
    barycenter,
    barycenter_points,
    divergence,
    gromov,
    gromov_points,
    max_sliced,
    sliced,
    solve,
    solve_batch,
    solve_points,
    solve_sparse,
    transport_1d,
    wasserstein_1d,
)

__all__ = [
    "BarycenterResult",
    "Certificate",
    "CostError",
    "Divergence",
    "Grid",
    "GromovCertificate",
    "GromovSolution",
    "InfeasibleError",
    "LabelAllocator",
    "LineTransport",
    "MassError",
    "MaxSliced",
    "OptionError",
    "PointBarycenter",
    "ShapeError",
    "SlicedDistance",
    "Solution",
    "TransportError",
    "__version__",
    "assignment",
    "barycenter",
    "barycenter_points",
    "divergence",
    "gromov",
    "gromov_points",
    "max_sliced",
    "pot",
    "sliced",
    "solve",
    "solve_batch",
    "solve_points",
    "solve_sparse",
    "torch",
    "transport_1d",
    "wasserstein_1d",
]


def __getattr__(name):
    # Only whoever asks for them needs POT or PyTorch.
    if name in ("pot", "torch"):
        import importlib

        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
