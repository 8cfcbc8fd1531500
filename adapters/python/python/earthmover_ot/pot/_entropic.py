"""Sinkhorn's iterations, whatever POT's method is called: one solver here."""

import warnings

import numpy as np

from ._calls import Declined, is_several, masses, matrix, printing, side_by_side, solve


def _entropic(a, b, M, reg, numItermax, stopThr, warmstart, verbose, fewest=100):
    """The entropic answer to a call of one of POT's functions of that kind."""
    M = matrix(M)
    a, b = masses(a, M.shape[0], M), masses(b, M.shape[1], M)
    # A few iterations, or a tolerance that is never met, are asked for by those who want to see what comes of it.
    if numItermax < fewest or not stopThr > 0 or b.ndim != 1 or a.ndim != 1 or not reg > 0:
        raise Declined
    # POT stops at an L2 error; ours is L1, which is larger, and relative.
    total = float(a.sum())
    least = 1e-15 if M.dtype == np.float64 else 1e-7
    tol = max(float(stopThr) / total if total > 0 else stopThr, least)
    start = None if warmstart is None else np.asarray(warmstart, dtype=np.float64)
    return a, b, solve(M, a, b, eps=float(reg), tol=tol, start=start, progress=printing(verbose))


_WARNING = (
    "Sinkhorn did not converge. You might want to increase the number of iterations `numItermax` or the "
    "regularization parameter `reg`."
)


def _potentials(answer):
    """Both sides, with what they have in common shared so that neither exponential is much larger than the other."""
    f, g = answer.f, answer.g
    shift = 0.5 * (np.max(f) - np.max(g)) if np.isfinite(np.max(f)) and np.isfinite(np.max(g)) else 0.0
    return f - shift, g + shift


def _answered(M, reg, answer, log, warn, kind):
    """What POT's function returns: the plan, and a log in its words."""
    if not answer.converged and warn and answer.status != "stalled":
        warnings.warn(_WARNING)
    plan = answer.plan.astype(M.dtype, copy=False)
    if not log:
        return plan
    f, g = (side.astype(M.dtype, copy=False) for side in _potentials(answer))
    said = {"err": [answer.violation], "niter": answer.iterations, "n_iter": answer.iterations}
    if kind in ("plain", "log", "greedy"):
        said["u"], said["v"] = np.exp(f / reg), np.exp(g / reg)
    if kind == "log":
        said["log_u"], said["log_v"] = f / reg, g / reg
    if kind == "stabilised":
        said["logu"], said["logv"] = f / reg, g / reg
        said["alpha"], said["beta"] = f, g
        said["warmstart"] = (f, g)
    return plan, said


def _histograms(function, a, b, M, reg, log, warmstart, kwargs):
    """Several columns of masses at once: one loss each."""
    values, logs = [], []
    for k in range(b.shape[1]):
        start = None if warmstart is None or warmstart[k] is None else warmstart[k]
        answer = function(a, b[:, k], M, reg, log=True, warmstart=start, **kwargs)
        values.append(np.sum(M * answer[0]))
        logs.append(answer[1])
    values = np.stack(values)
    if not log:
        return values
    joint = side_by_side(logs)
    joint["niter"] = joint["n_iter"] = max(one["niter"] for one in logs)
    return values, joint


def sinkhorn_knopp(
    original, a, b, M, reg, numItermax=1000, stopThr=1e-9, verbose=False, log=False, warn=True, warmstart=None, **kwargs
):
    if is_several(b):
        if warmstart is not None:
            raise Declined
        rest = dict(numItermax=numItermax, stopThr=stopThr, warn=warn, verbose=verbose)
        one = lambda *args, **kw: sinkhorn_knopp(original, *args, **kw)  # noqa: E731
        return _histograms(one, a, b, M, reg, log, None, rest)
    start = None if warmstart is None else np.asarray(warmstart[1]) * reg
    a, b, answer = _entropic(a, b, M, reg, numItermax, stopThr, start, verbose)
    return _answered(np.asarray(M), reg, answer, log, warn, "plain")


def sinkhorn_log(
    original, a, b, M, reg, numItermax=1000, stopThr=1e-9, verbose=False, log=False, warn=True, warmstart=None, **kwargs
):
    if is_several(b):
        if warmstart is not None:
            raise Declined
        rest = dict(numItermax=numItermax, stopThr=stopThr, warn=warn, verbose=verbose)
        one = lambda *args, **kw: sinkhorn_log(original, *args, **kw)  # noqa: E731
        return _histograms(one, a, b, M, reg, log, None, rest)
    start = None if warmstart is None else np.asarray(warmstart[1]) * reg
    a, b, answer = _entropic(a, b, M, reg, numItermax, stopThr, start, verbose)
    return _answered(np.asarray(M), reg, answer, log, warn, "log")


def sinkhorn_stabilized(
    original,
    a,
    b,
    M,
    reg,
    numItermax=1000,
    tau=1e3,
    stopThr=1e-9,
    warmstart=None,
    verbose=False,
    print_period=20,
    log=False,
    warn=True,
    **kwargs,
):
    if is_several(b):
        raise Declined
    start = None if warmstart is None else warmstart[1]
    a, b, answer = _entropic(a, b, M, reg, numItermax, stopThr, start, verbose)
    return _answered(np.asarray(M), reg, answer, log, warn, "stabilised")


def sinkhorn_epsilon_scaling(
    original,
    a,
    b,
    M,
    reg,
    numItermax=100,
    epsilon0=1e4,
    numInnerItermax=100,
    tau=1e3,
    stopThr=1e-9,
    warmstart=None,
    verbose=False,
    print_period=10,
    log=False,
    warn=True,
    **kwargs,
):
    start = None if warmstart is None else warmstart[1]
    a, b, answer = _entropic(a, b, M, reg, numItermax, stopThr, start, verbose, fewest=10)
    return _answered(np.asarray(M), reg, answer, log, warn, "stabilised")


def greenkhorn(
    original, a, b, M, reg, numItermax=10000, stopThr=1e-9, verbose=False, log=False, warn=True, warmstart=None
):
    start = None if warmstart is None else np.asarray(warmstart[1]) * reg
    a, b, answer = _entropic(a, b, M, reg, numItermax, stopThr, start, verbose)
    return _answered(np.asarray(M), reg, answer, log, warn, "greedy")
