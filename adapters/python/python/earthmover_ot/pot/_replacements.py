"""POT's kernels on this library's solvers: the same arguments, the same answers.

Each takes POT's own function first, and raises `Declined` where the call is for that one.
"""

import warnings

import numpy as np

import earthmover_ot as em


class Declined(Exception):
    """This call is for POT's own code."""


# What the C++ solver of POT says.
INFEASIBLE, OPTIMAL, UNBOUNDED, MAX_ITER_REACHED = range(4)

# POT's default; whoever asks for so many or more wants the optimum.
MANY_PIVOTS = 100_000


def _solve(*args, **kwargs):
    try:
        return em.solve(*args, **kwargs)
    except em.TransportError as error:
        raise Declined from error


def emd_c(original, a, b, M, max_iter, num_threads=1, alpha_init=None, beta_init=None, **rest):
    """The exact solver: plan, cost, potentials, code."""
    if rest:
        raise Declined
    if len(a) == 0 or len(b) == 0:
        # POT's wrapper takes empty masses for equal ones.
        n, m = M.shape
        a = a if len(a) else np.full(n, 1.0 / n)
        b = b if len(b) else np.full(m, 1.0 / m)
    start = None if beta_init is None else np.asarray(beta_init)
    limit = None if max_iter >= MANY_PIVOTS else int(max_iter)
    answer = _solve(M, a, b, start=start, max_iter=limit)
    code = OPTIMAL if answer.converged else MAX_ITER_REACHED
    return _within(answer.plan, a, b), answer.value, answer.f, answer.g, code


def _within(plan, a, b):
    """The plan with no sum above its mass by its last digit, as those who compare without a tolerance expect."""
    for axis, masses in ((0, b), (1, a)):
        above = plan.sum(axis) - masses
        for line in np.flatnonzero((above > 0) & (above <= 1e-12 * np.abs(masses))):
            entries = plan[:, line] if axis == 0 else plan[line]
            entries[np.argmax(entries)] -= 2 * above[line]
    return plan


def _masses(masses, count, like):
    """Masses as POT takes them: none at all are equal ones."""
    masses = np.asarray(masses)
    if masses.ndim == 1 and len(masses) == 0:
        return np.full(count, 1.0 / count, dtype=like.dtype)
    return masses


def _entropic(a, b, M, reg, numItermax, stopThr, warmstart, fewest=100):
    """The entropic answer to a call of one of POT's functions of that kind."""
    M = np.asarray(M) if isinstance(M, list) else M
    if not isinstance(M, np.ndarray) or M.ndim != 2 or M.dtype not in (np.float32, np.float64):
        raise Declined
    if any(not isinstance(mass, (np.ndarray, list)) for mass in (a, b)):
        raise Declined
    a, b = _masses(a, M.shape[0], M), _masses(b, M.shape[1], M)
    # A few iterations, or a tolerance that is never met, are asked for by those who want to see what comes of it.
    if numItermax < fewest or not stopThr > 0 or b.ndim != 1 or a.ndim != 1 or not reg > 0:
        raise Declined
    # POT stops at an L2 error; ours is L1, which is larger, and relative.
    total = float(a.sum())
    least = 1e-15 if M.dtype == np.float64 else 1e-7
    tol = max(float(stopThr) / total if total > 0 else stopThr, least)
    start = None if warmstart is None else np.asarray(warmstart, dtype=np.float64)
    return a, b, _solve(M, a, b, eps=float(reg), tol=tol, start=start)


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
    joint = {}
    for name, value in logs[0].items():
        if isinstance(value, np.ndarray):
            joint[name] = np.stack([one[name] for one in logs], axis=1)
    joint["err"] = [max(one["err"][-1] for one in logs)]
    joint["niter"] = joint["n_iter"] = max(one["niter"] for one in logs)
    return values, joint


def _is_several(b):
    return isinstance(b, np.ndarray) and b.ndim == 2


def sinkhorn_knopp(
    original, a, b, M, reg, numItermax=1000, stopThr=1e-9, verbose=False, log=False, warn=True, warmstart=None, **kwargs
):
    if verbose:
        raise Declined
    if _is_several(b):
        if warmstart is not None:
            raise Declined
        rest = dict(numItermax=numItermax, stopThr=stopThr, warn=warn)
        one = lambda *args, **kw: sinkhorn_knopp(original, *args, **kw)  # noqa: E731
        return _histograms(one, a, b, M, reg, log, None, rest)
    start = None if warmstart is None else np.asarray(warmstart[1]) * reg
    a, b, answer = _entropic(a, b, M, reg, numItermax, stopThr, start)
    return _answered(np.asarray(M), reg, answer, log, warn, "plain")


def sinkhorn_log(
    original, a, b, M, reg, numItermax=1000, stopThr=1e-9, verbose=False, log=False, warn=True, warmstart=None, **kwargs
):
    if verbose:
        raise Declined
    if _is_several(b):
        if warmstart is not None:
            raise Declined
        rest = dict(numItermax=numItermax, stopThr=stopThr, warn=warn)
        one = lambda *args, **kw: sinkhorn_log(original, *args, **kw)  # noqa: E731
        return _histograms(one, a, b, M, reg, log, None, rest)
    start = None if warmstart is None else np.asarray(warmstart[1]) * reg
    a, b, answer = _entropic(a, b, M, reg, numItermax, stopThr, start)
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
    if verbose or _is_several(b):
        raise Declined
    start = None if warmstart is None else warmstart[1]
    a, b, answer = _entropic(a, b, M, reg, numItermax, stopThr, start)
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
    if verbose:
        raise Declined
    start = None if warmstart is None else warmstart[1]
    a, b, answer = _entropic(a, b, M, reg, numItermax, stopThr, start, fewest=10)
    return _answered(np.asarray(M), reg, answer, log, warn, "stabilised")


def greenkhorn(
    original, a, b, M, reg, numItermax=10000, stopThr=1e-9, verbose=False, log=False, warn=True, warmstart=None
):
    if verbose:
        raise Declined
    start = None if warmstart is None else np.asarray(warmstart[1]) * reg
    a, b, answer = _entropic(a, b, M, reg, numItermax, stopThr, start)
    return _answered(np.asarray(M), reg, answer, log, warn, "greedy")


def _unit(weights):
    """Whether the weights of each column add up to one, as this library's scaled ones do."""
    return weights is None or np.allclose(np.sum(weights, axis=0), 1.0, rtol=0.0, atol=1e-9)


def wasserstein_1d(original, u_values, v_values, u_weights=None, v_weights=None, p=1, require_sort=True, return_plans=False):
    arrays = [u_values, v_values] + [w for w in (u_weights, v_weights) if w is not None]
    if return_plans or not require_sort or not p >= 1 or any(not isinstance(x, np.ndarray) for x in arrays):
        raise Declined
    shapes = {x.ndim for x in arrays}
    if not (_unit(u_weights) and _unit(v_weights)) or max(shapes) > 2 or u_values.ndim != v_values.ndim:
        raise Declined
    if any(x.dtype not in (np.float32, np.float64) for x in arrays) or min(len(x) for x in arrays) == 0:
        raise Declined

    def column(x, k):
        return x if x is None or x.ndim == 1 else x[:, k]

    lists = range(1 if u_values.ndim == 1 else u_values.shape[1])
    if u_values.ndim == 2 and u_values.shape[1] != v_values.shape[1]:
        raise Declined
    try:
        costs = [
            em.wasserstein_1d(*(column(x, k) for x in (u_values, v_values, u_weights, v_weights)), p=p) ** p for k in lists
        ]
    except em.TransportError as error:
        raise Declined from error
    return u_values.dtype.type(costs[0]) if u_values.ndim == 1 else np.array(costs, dtype=u_values.dtype)


def emd_1d_sorted(original, u_weights, v_weights, u, v, metric="sqeuclidean", p=1.0):
    """Entries of the plan, their places in the sorted lists, and the cost."""
    power = {"sqeuclidean": 2.0, "cityblock": 1.0, "euclidean": 1.0, "minkowski": p}.get(metric)
    if power is None or not power >= 1:
        raise Declined
    try:
        found = em.transport_1d(u, v, u_weights, v_weights, power)
    except em.TransportError as error:
        raise Declined from error
    total = float(np.sum(u_weights))
    rows, cols, masses = found.entries
    return masses * total, np.stack([rows, cols], axis=1), found.cost * total


KERNELS = {
    "ot.lp.emd_wrap.emd_c": emd_c,
    "ot.bregman._sinkhorn.sinkhorn_knopp": sinkhorn_knopp,
    "ot.bregman._sinkhorn.sinkhorn_log": sinkhorn_log,
    "ot.bregman._sinkhorn.sinkhorn_stabilized": sinkhorn_stabilized,
    "ot.bregman._sinkhorn.sinkhorn_epsilon_scaling": sinkhorn_epsilon_scaling,
    "ot.bregman._sinkhorn.greenkhorn": greenkhorn,
    "ot.lp.solver_1d.wasserstein_1d": wasserstein_1d,
    "ot.lp.emd_wrap.emd_1d_sorted": emd_1d_sorted,
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
    "ot.unbalanced.sinkhorn_unbalanced",
    "ot.unbalanced.sinkhorn_unbalanced2",
    "ot.unbalanced.mm_unbalanced",
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
