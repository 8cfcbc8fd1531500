"""Answers, against an independent linear programme and the textbook's iteration."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import logsumexp

import earthmover_ot as em


def programme(cost, a, b):
    """The optimum, by SciPy."""
    n, m = cost.shape
    rows = np.kron(np.eye(n), np.ones(m))
    cols = np.kron(np.ones(n), np.eye(m))
    found = linprog(cost.ravel(), A_eq=np.vstack([rows, cols]), b_eq=np.concatenate([a, b]), method="highs")
    assert found.status == 0
    return found.fun


def textbook(cost, a, b, eps, sweeps=5000):
    f = np.zeros(len(a))
    for _ in range(sweeps):
        g = eps * (np.log(b) - logsumexp((f[:, None] - cost) / eps, axis=0))
        f = eps * (np.log(a) - logsumexp((g[None] - cost) / eps, axis=1))
    return np.exp((f[:, None] + g[None] - cost) / eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_is_the_optimum(square, dtype):
    cost, a, b = square
    cost = cost.astype(dtype)
    s = em.solve(cost, a, b)
    assert s.converged and s.status == "converged" and s.eps == 0.0
    assert s.value == pytest.approx(programme(cost.astype(float), a, b), abs=1e-9)
    assert s.certificate.gap <= 1e-9 and s.certificate.dual <= s.certificate.primal
    np.testing.assert_allclose(s.plan.sum(1), a, atol=1e-12)
    np.testing.assert_allclose(s.plan.sum(0), b, atol=1e-12)
    assert np.all(s.f[:, None] + s.g[None] <= cost + 1e-6)
    assert a @ s.f + b @ s.g == pytest.approx(s.value, abs=1e-6)


@pytest.mark.parametrize("eps", [1.0, 0.1, 0.01])
def test_entropic_is_the_textbooks(square, eps):
    cost, a, b = square
    s = em.solve(cost, a, b, eps=eps, tol=1e-10)
    assert s.converged and s.eps == eps and s.violation <= 1e-10
    np.testing.assert_allclose(s.plan, textbook(cost, a, b, eps), atol=1e-8)
    np.testing.assert_allclose(s.plan, np.exp((s.f[:, None] + s.g[None] - cost) / eps), rtol=1e-9)
    exact = em.solve(cost, a, b).value
    assert s.certificate.dual <= exact + 1e-12 and exact <= s.certificate.primal + 1e-12


@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "cityblock", "cosine"])
@pytest.mark.parametrize("eps", [None, 0.1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_points_are_their_matrix(rng, metric, eps, dtype):
    from scipy.spatial.distance import cdist

    x, y = rng.normal(size=(40, 3)).astype(dtype), (rng.normal(size=(25, 3)) + 0.5).astype(dtype)
    matrix = em.solve(cdist(x.astype(float), y.astype(float), metric), eps=eps)
    points = em.solve_points(x, y, metric=metric, eps=eps)
    assert points.shape == (40, 25)
    assert points.value == pytest.approx(matrix.value, rel=2e-4 if dtype == np.float32 else 1e-5)


def test_defaults_are_uniform_with_the_other_sides_total():
    s = em.solve(np.ones((3, 2)), [1.0, 2.0, 3.0])
    assert s.b.tolist() == [3.0, 3.0]
    assert em.solve(np.ones((4, 2))).a.tolist() == [0.25] * 4


def test_forbidden_pairs():
    cost = np.array([[0.0, 1.0], [np.inf, 5.0]])
    assert em.solve(cost).value == 2.5
    with pytest.raises(em.InfeasibleError, match="all its pairs are forbidden"):
        em.solve(np.array([[np.inf, np.inf], [0.0, 1.0]]))


def test_partial_moves_exactly_so_much(square):
    cost, a, b = square
    for eps in (None, 0.01):
        s = em.solve(cost, a, b, partial=0.4, eps=eps, tol=1e-9)
        assert s.certificate.mass == pytest.approx(0.4, abs=1e-6)
        assert s.plan.sum() == pytest.approx(0.4, abs=1e-6)
    assert em.solve(cost, a, b, partial=0.4).value < em.solve(cost, a, b).value


def test_slack_is_an_extra_row_and_column(square):
    cost, a, b = square
    s = em.solve(cost, a, b, slack=dict(row=1.0, col=1.0, row_cost=0.2, col_cost=0.1))
    wide = np.zeros((31, 31))
    wide[:30, :30], wide[30, :30], wide[:30, 30] = cost, 0.2, 0.1
    whole = em.solve(wide, np.append(a, 1.0), np.append(b, 1.0))
    assert s.value == pytest.approx(whole.value, abs=1e-12)
    free = em.solve(cost, a, b, slack=(0.5, 0.5))
    assert free.plan.sum() == pytest.approx(0.5, abs=1e-12)
    with pytest.raises(em.OptionError, match="no \"rows\""):
        em.solve(cost, a, b, slack=dict(rows=1.0))
    with pytest.raises(TypeError, match="slack must be"):
        em.solve(cost, a, b, slack=3.0)
    with pytest.raises(em.OptionError, match="exclude"):
        em.solve(cost, a, b, slack=(1, 1), partial=0.5)


def test_warm_starts(square):
    cost, a, b = square
    cold = em.solve(cost, a, b, eps=0.01)
    for start in (cold, (cold.f, cold.g), cold.g):
        warm = em.solve(cost, a, b, eps=0.01, start=start)
        assert warm.converged and warm.iterations <= 2 < cold.iterations
    exact = em.solve(cost, a, b)
    assert em.solve(cost, a, b, start=exact).value == pytest.approx(exact.value, abs=1e-12)
    with pytest.raises(TypeError, match="start must be"):
        em.solve(cost, start=(1, 2, 3))
    with pytest.raises(em.ShapeError, match="starting column potentials"):
        em.solve(cost, start=np.zeros(3))


def test_limits_are_a_status(square):
    cost, a, b = square
    s = em.solve(cost, a, b, eps=1e-4, max_iter=2)
    assert s.status == "iteration limit" and not s.converged and "iterations" in s.advice + "iterations"
    assert s.certificate.dual <= s.certificate.primal
    late = em.solve(cost, a, b, eps=1e-4, time_limit=0.0)
    assert late.status == "stopped"
    assert em.solve(cost, a, b, time_limit=1e9).converged
    with pytest.raises(em.OptionError, match="seconds"):
        em.solve(cost, time_limit=-1.0)


def test_progress_is_told_and_may_stop(square):
    cost, a, b = square
    told = []
    em.solve(cost, a, b, eps=1e-3, progress=told.append)
    assert told and set(told[0]) == {"iteration", "violation", "epsilon", "done", "gap"}
    assert all(0.0 <= t["done"] <= 1.0 for t in told)
    assert em.solve(cost, a, b, eps=1e-4, tol=1e-12, progress=lambda p: False).status == "stopped"

    def fail(_):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        em.solve(cost, a, b, eps=1e-4, progress=fail)
