"""Masses that need not be kept, at a price: KL on either side."""

import numpy as np

from ._calls import Declined, is_several, masses, matrix, printing, side_by_side, solve

# What the plan of POT's majorisation-minimisation is asked for here: the proven gap, over the value.
MM_GAP = 1e-6


def _prices(reg_m):
    """Prices of both sides; infinite ones keep masses."""
    try:
        both = [float(reg) for reg in np.ravel(reg_m)]
    except (TypeError, ValueError) as error:
        raise Declined from error
    both = both * 2 if len(both) == 1 else both
    if len(both) != 2 or not all(reg > 0 for reg in both):
        raise Declined
    return both


def _divergence(p, q):
    """KL as POT's logs have it: without the difference of the masses."""
    return np.sum(p * np.log(p / q + 1e-16))


def _against(M, reg, c):
    """Costs with which the entropy relative to `c` is the one relative to the counting measure: KL(P | c) = Σ P (ln P − 1) − P ln c + …"""
    c = matrix(c)
    if c.shape != M.shape or not np.all(c > 0):
        raise Declined
    return M - reg * np.log(c)


def _one(a, b, M, reg, prices, reference, tol, start, verbose):
    a, b = masses(a, M.shape[0], M), masses(b, M.shape[1], M)
    if a.ndim != 1 or b.ndim != 1 or not (np.all(a > 0) and np.all(b > 0)) or not reg > 0:
        raise Declined
    penalty = tuple(None if price == np.inf else price for price in prices)
    if penalty == (None, None):
        penalty = None
    if start is not None:
        start = reg * (np.asarray(start, dtype=np.float64) + (np.log(b) if reference == "product" else 0.0))
    options = dict(tol=tol, penalty=penalty, reference=reference, start=start, progress=printing(verbose))
    return a, b, solve(M, a, b, eps=float(reg), **options)


def _sinkhorn(a, b, M, reg, reg_m, reg_type, c, warmstart, numItermax, stopThr, verbose, log):
    M, prices = matrix(M), _prices(reg_m)
    # A few iterations, or a tolerance that is never met, are asked for by those who want to see what comes of it.
    if numItermax < 100 or not stopThr > 0 or not reg > 0 or reg_type.lower() not in ("kl", "entropy"):
        raise Declined
    tol = float(np.clip(stopThr, 1e-14 if M.dtype == np.float64 else 1e-6, 1e-6))
    if is_several(b):
        return _several(a, b, M, reg, prices, tol, warmstart, verbose, log)
    reference, costs = "product" if reg_type.lower() == "kl" else "counting", M
    if reference == "product" and c is not None:
        reference, costs = "counting", _against(M, reg, c)
    start = None if warmstart is None else warmstart[1]
    a, b, answer = _one(a, b, costs, reg, prices, reference, tol, start, verbose)
    plan = answer.plan.astype(M.dtype, copy=False)
    if not log:
        return plan
    said = _log(answer, a, b, reg, reference, M.dtype)
    said["cost"] = np.sum(plan * M)
    if reg_type.lower() == "entropy":
        c = np.ones_like(M)
    elif c is None:
        c = a[:, None] * b
    total = said["cost"] + reg * _divergence(plan, c)
    for price, axis, mass in ((prices[0], 1, a), (prices[1], 0, b)):
        if price != np.inf:
            total = total + price * _divergence(plan.sum(axis), mass)
    said["total_cost"] = total
    return plan, said


def _log(answer, a, b, reg, reference, dtype):
    logs = (answer.f / reg, answer.g / reg)
    if reference == "product":
        logs = (logs[0] - np.log(a), logs[1] - np.log(b))
    u, v = (side.astype(dtype, copy=False) for side in logs)
    return {"err": [answer.violation], "logu": u, "logv": v}


def _several(a, b, M, reg, prices, tol, warmstart, verbose, log):
    """A loss for each column of masses; POT measures their entropy against the counting measure."""
    if warmstart is not None:
        raise Declined
    values, logs = [], []
    for column in b.T:
        mass, own, answer = _one(a, column, M, reg, prices, "counting", tol, None, verbose)
        values.append(np.sum(M * answer.plan))
        logs.append(_log(answer, mass, own, reg, "counting", M.dtype))
    values = np.array(values, dtype=M.dtype)
    return (values, side_by_side(logs)) if log else values


def sinkhorn_knopp_unbalanced(
    original,
    a,
    b,
    M,
    reg,
    reg_m,
    reg_type="kl",
    c=None,
    warmstart=None,
    numItermax=1000,
    stopThr=1e-6,
    verbose=False,
    log=False,
    **kwargs,
):
    return _sinkhorn(a, b, M, reg, reg_m, reg_type, c, warmstart, numItermax, stopThr, verbose, log)


def sinkhorn_stabilized_unbalanced(
    original,
    a,
    b,
    M,
    reg,
    reg_m,
    reg_type="kl",
    c=None,
    warmstart=None,
    tau=1e5,
    numItermax=1000,
    stopThr=1e-6,
    verbose=False,
    log=False,
    **kwargs,
):
    return _sinkhorn(a, b, M, reg, reg_m, reg_type, c, warmstart, numItermax, stopThr, verbose, log)


def sinkhorn_unbalanced_translation_invariant(original, *args, **kwargs):
    return sinkhorn_knopp_unbalanced(original, *args, **kwargs)


def mm_unbalanced(
    original,
    a,
    b,
    M,
    reg_m,
    c=None,
    reg=0,
    div="kl",
    G0=None,
    numItermax=1000,
    stopThr=1e-15,
    verbose=False,
    log=False,
):
    M, prices = matrix(M), _prices(reg_m)
    if G0 is not None or div.lower() != "kl" or numItermax < 100 or np.inf in prices:
        raise Declined
    a, b = masses(a, M.shape[0], M), masses(b, M.shape[1], M)
    if not (np.all(a > 0) and np.all(b > 0)):
        raise Declined
    costs, reference = M, "product"
    if reg > 0 and c is not None:
        costs, reference = _against(M, reg, c), "counting"
    eps, tol = (float(reg), 1e-12) if reg > 0 else (None, MM_GAP)
    options = dict(penalty=tuple(prices), reference=reference, progress=printing(verbose))
    answer = solve(costs, a, b, eps=eps, tol=tol, **options)
    if eps is None and not answer.converged:
        raise Declined
    plan = answer.plan.astype(M.dtype, copy=False)
    if not log:
        return plan
    cost = np.sum(plan * M)
    total = cost + sum(p * _divergence(plan.sum(k), m) + p * (m.sum() - plan.sum()) for p, k, m in zip(prices, (1, 0), (a, b)))
    if reg > 0:
        c = a[:, None] * b if c is None else c
        total = total + reg * (_divergence(plan, c) + c.sum() - plan.sum())
    return plan, {"err": [answer.violation], "G": [plan], "cost": cost, "total_cost": total}
