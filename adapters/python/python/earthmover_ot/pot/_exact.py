"""The exact solver."""

import numpy as np

from ._calls import Declined, solve

# What the C++ solver of POT says.
INFEASIBLE, OPTIMAL, UNBOUNDED, MAX_ITER_REACHED = range(4)

# POT's default; whoever asks for so many or more wants the optimum.
MANY_PIVOTS = 100_000


def emd_c(original, a, b, M, max_iter, num_threads=1, alpha_init=None, beta_init=None, **rest):
    """The exact solver: plan, cost, potentials, code."""
    if rest:
        raise Declined
    if len(a) == 0 or len(b) == 0:
        # POT's wrapper takes empty masses for equal ones.
        n, m = M.shape
        a = a if len(a) else np.full(n, 1.0 / n)
        b = b if len(b) else np.full(m, 1.0 / m)
    a, b = _told(a), _told(b)
    start = None if beta_init is None else np.asarray(beta_init)
    limit = None if max_iter >= MANY_PIVOTS else int(max_iter)
    answer = solve(M, a, b, start=start, max_iter=limit)
    code = OPTIMAL if answer.converged else MAX_ITER_REACHED
    f, g = _prices(M, answer.f, answer.g)
    return _within(answer.plan, a, b), answer.value, f, g, code


def _told(masses):
    """Masses without those that no digit of the others tells from none."""
    specks = (masses > 0) & (masses < 1e-140 * np.sum(masses))
    return np.where(specks, 0.0, masses) if np.any(specks) else masses


def _prices(M, f, g):
    """Prices of all lines, finite: without mass there is none, so that the highest which is feasible will do."""
    rows, cols = ~np.isfinite(f), ~np.isfinite(g)
    if np.any(rows):
        f[rows] = np.min(M[np.ix_(rows, ~cols)] - g[~cols], axis=1)
    if np.any(cols):
        g[cols] = np.min(M[:, cols] - f[:, None], axis=0)
    return f, g


def _within(plan, a, b):
    """The plan with no sum above its mass by its last digit, as those who compare without a tolerance expect."""
    for axis, masses in ((0, b), (1, a)):
        above = plan.sum(axis) - masses
        for line in np.flatnonzero((above > 0) & (above <= 1e-12 * np.abs(masses))):
            entries = plan[:, line] if axis == 0 else plan[line]
            entries[np.argmax(entries)] -= 2 * above[line]
    return plan
