"""Samples on a line."""

import numpy as np

import earthmover_ot as em

from ._calls import Declined


def _unit(weights):
    """Whether the weights of each column add up to one, as this library's scaled ones do."""
    return weights is None or np.allclose(np.sum(weights, axis=0), 1.0, rtol=0.0, atol=1e-9)


def _plans(found, shape, kind, dtype):
    """The plans of several columns, in either of POT's forms."""
    from collections import namedtuple

    from scipy.sparse import coo_matrix

    Entries = namedtuple("PlanTuple", ["data", "rows", "cols"])
    plans = []
    for rows, cols, data in (each.entries for each in found):
        data = data.astype(dtype, copy=False)
        plans.append(Entries(data, rows, cols) if kind == "coo_tuple" else coo_matrix((data, (rows, cols)), shape=shape))
    return plans


def wasserstein_1d(original, u_values, v_values, u_weights=None, v_weights=None, p=1, require_sort=True, return_plans=False):
    """W_p^p of two lists, or of each column of two arrays; values that are sorted are sorted again, which changes nothing."""
    arrays = [u_values, v_values] + [w for w in (u_weights, v_weights) if w is not None]
    if not p >= 1 or any(not isinstance(x, np.ndarray) for x in arrays):
        raise Declined
    shapes = {x.ndim for x in arrays}
    if not (_unit(u_weights) and _unit(v_weights)) or max(shapes) > 2 or u_values.ndim != v_values.ndim:
        raise Declined
    if any(x.dtype not in (np.float32, np.float64) for x in arrays) or min(len(x) for x in arrays) == 0:
        raise Declined
    single = u_values.ndim == 1
    if (single and return_plans is not False) or (not single and u_values.shape[1] != v_values.shape[1]):
        raise Declined

    def column(x, k):
        return x if x is None or x.ndim == 1 else x[:, k]

    problems = [
        tuple(column(x, k) for x in (u_values, v_values, u_weights, v_weights))
        for k in range(1 if single else u_values.shape[1])
    ]
    try:
        if return_plans is False:
            costs = [em.wasserstein_1d(*problem, p=p) ** p for problem in problems]
        else:
            found = [em.transport_1d(*problem, p=p) for problem in problems]
            costs = [each.cost for each in found]
    except em.TransportError as error:
        raise Declined from error
    if single:
        return u_values.dtype.type(costs[0])
    costs = np.array(costs, dtype=u_values.dtype)
    if return_plans is False:
        return costs
    return costs, _plans(found, (len(u_values), len(v_values)), return_plans, u_values.dtype)


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
