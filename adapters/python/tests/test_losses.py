"""Penalised masses, divergences and gradients, against POT, plain iterations and differences."""

import numpy as np
import pytest
from scipy.special import logsumexp

import earthmover_ot as em

ot = pytest.importorskip("ot")


def kl(u, v):
    return np.sum(np.where(u > 0, u * np.log(np.maximum(u, 1e-300) / v), 0.0)) - u.sum() + v.sum()


def slope(function, x, direction, step=1e-5):
    return (function(x + step * direction) - function(x - step * direction)) / (2 * step)


@pytest.fixture
def unequal(rng):
    """A cost with masses of different totals."""
    a, b = rng.random(25) + 0.1, rng.random(30) + 0.1
    return rng.random((25, 30)), a / a.sum(), 1.3 * b / b.sum()


@pytest.mark.parametrize("tau", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("reference, theirs", [("product", "kl"), ("counting", "entropy")])
def test_kl_is_pots(unequal, tau, reference, theirs):
    cost, a, b = unequal
    s = em.solve(cost, a, b, eps=0.05, penalty=tau, reference=reference, tol=1e-10)
    plan = ot.unbalanced.sinkhorn_unbalanced(a, b, cost, 0.05, tau, reg_type=theirs, numItermax=100_000, stopThr=1e-12)
    np.testing.assert_allclose(s.plan, plan, atol=1e-7)
    sums = tau * (kl(s.plan.sum(1), a) + kl(s.plan.sum(0), b))
    assert s.transport_cost == pytest.approx(np.sum(cost * s.plan), rel=1e-7)
    assert s.value == pytest.approx(np.sum(cost * s.plan) + sums, rel=1e-7)
    if reference == "product":
        assert s.regularised == pytest.approx(s.value + 0.05 * kl(s.plan, a[:, None] * b), rel=1e-7)


def test_each_side_has_its_own(unequal):
    cost, a, b = unequal
    s = em.solve(cost, a, b, eps=0.05, penalty=(("kl", 1.0), None), tol=1e-10)
    np.testing.assert_allclose(s.plan.sum(0), b, rtol=1e-7)
    plan = ot.unbalanced.sinkhorn_unbalanced(a, b, cost, 0.05, (1.0, float("inf")), reg_type="kl", numItermax=100_000)
    np.testing.assert_allclose(s.plan, plan, atol=1e-6)
    both = em.solve(cost, a, b, eps=0.05, penalty=(0.5, ("kl", 0.5))).plan
    np.testing.assert_array_equal(both, em.solve(cost, a, b, eps=0.05, penalty=0.5).plan)


def test_tv_is_a_price_for_what_is_not_moved(unequal):
    cost, a, b = unequal
    tau = 0.2
    s = em.solve(cost, a, b, penalty=("tv", tau))
    paid = tau * (np.abs(s.plan.sum(1) - a).sum() + np.abs(s.plan.sum(0) - b).sum())
    assert s.converged and s.eps == 0.0
    assert s.value == pytest.approx(np.sum(cost * s.plan) + paid, abs=1e-12)
    assert s.certificate.gap == pytest.approx(0.0, abs=1e-9)
    # No pair that costs more than both prices together carries mass.
    assert np.all(s.plan[cost > 2 * tau + 1e-12] == 0.0)


def test_kl_without_entropy(unequal):
    cost, a, b = unequal
    s = em.solve(cost, a, b, penalty=1.0, tol=1e-4)
    assert s.converged and s.certificate.relative_gap <= 1e-4
    value = lambda p: np.sum(cost * p) + kl(p.sum(1), a) + kl(p.sum(0), b)  # noqa: E731
    assert value(s.plan) <= value(ot.unbalanced.mm_unbalanced(a, b, cost, 1.0, div="kl")) * (1 + 2e-4)


@pytest.mark.parametrize("bad", ["kl", ("l2", 1.0), (1.0, 2.0, 3.0), object()])
def test_other_penalties_are_refused_in_words(unequal, bad):
    with pytest.raises((TypeError, ValueError), match="penalty"):
        em.solve(*unequal, eps=0.1, penalty=bad)


def test_penalties_exclude_slack(unequal):
    with pytest.raises(em.OptionError, match="exclude"):
        em.solve(*unequal, penalty=1.0, partial=0.5)
    with pytest.raises(em.OptionError, match="reference"):
        em.solve(*unequal, eps=0.1, penalty=1.0, reference="lebesgue")


@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean"])
@pytest.mark.parametrize("penalty", [None, 0.7])
def test_gradients_are_differences(rng, metric, penalty):
    x, y = rng.normal(size=(12, 3)), rng.normal(size=(9, 3)) + 0.5
    a, b = rng.random(12) + 0.2, rng.random(9) + 0.2
    a, b = a / a.sum(), b / b.sum()

    def value(x=x, y=y, a=a, b=b):
        return em.solve_points(x, y, a, b, metric=metric, eps=0.3, penalty=penalty, tol=1e-12)

    s = value()
    for name, at in dict(x=x, y=y).items():
        way = rng.normal(size=at.shape)
        found = slope(lambda z: value(**{name: z}).regularised, at, way)
        assert np.sum(getattr(s, "grad_" + name) * way) == pytest.approx(found, rel=1e-5)
    for name, at in dict(a=a, b=b).items():
        way = at * rng.normal(size=at.shape)
        if penalty is None:
            way -= way.sum() * at  # totals stay equal
        found = slope(lambda z: value(**{name: z}).regularised, at, way)
        assert getattr(s, "grad_" + name) @ way == pytest.approx(found, rel=1e-5, abs=1e-8)


def test_exact_ones_have_gradients_of_the_optimum(rng):
    x, y = rng.normal(size=(10, 2)), rng.normal(size=(10, 2))
    s, way = em.solve_points(x, y), rng.normal(size=x.shape)
    assert np.sum(s.grad_x * way) == pytest.approx(slope(lambda z: em.solve_points(z, y).value, x, way, 1e-6), rel=1e-5)
    with pytest.raises(em.OptionError, match="no derivative"):
        em.solve(rng.random((4, 4)), eps=0.1).grad_x


def regularised(cost, a, b, eps):
    """⟨C, P⟩ + ε KL(P | a ⊗ b) by plain iterations."""
    f = np.zeros(len(a))
    for _ in range(3000):
        g = -eps * logsumexp((f[:, None] - cost) / eps + np.log(a)[:, None], axis=0)
        f = -eps * logsumexp((g - cost) / eps + np.log(b), axis=1)
    return a @ f + b @ g


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_divergence_is_three_solves(rng, dtype):
    x, y = rng.normal(size=(40, 2)).astype(dtype), (rng.normal(size=(30, 2)) + 0.4).astype(dtype)
    a, b = rng.random(40) + 0.1, rng.random(30) + 0.1
    a, b = a / a.sum(), b / b.sum()
    d = em.divergence(x, y, a, b, eps=0.5, tol=1e-6 if dtype == np.float64 else 1e-5)
    pairs = [((x, a), (y, b), 1.0), ((x, a), (x, a), -0.5), ((y, b), (y, b), -0.5)]
    want = sum(w * regularised(ot.dist(p.astype(float), q.astype(float)), m, n, 0.5) for (p, m), (q, n), w in pairs)
    assert d.converged and float(d) == d.value == pytest.approx(want, rel=1e-4) and d.error < 1e-4
    assert d.grad_x.shape == x.shape and d.grad_y.shape == y.shape
    assert d.grad_a.shape == (40,) and d.grad_b.shape == (30,)
    same = em.divergence(x, x, eps=0.5)
    assert abs(same.value) <= same.error and np.abs(same.grad_x).max() < 1e-3


def test_gradients_of_the_divergence_are_differences(rng):
    x, y = rng.normal(size=(15, 2)), rng.normal(size=(12, 2)) + 0.5
    d = em.divergence(x, y, eps=0.4, tol=1e-11)
    way = rng.normal(size=x.shape)
    found = slope(lambda z: em.divergence(z, y, eps=0.4, tol=1e-11).value, x, way)
    assert np.sum(d.grad_x * way) == pytest.approx(found, rel=1e-5)
    # Points that descend arrive.
    moved = x.copy()
    for _ in range(60):
        moved -= 5.0 * em.divergence(moved, y, eps=0.1).grad_x
    assert em.divergence(moved, y, eps=0.1).value < 0.05 * em.divergence(x, y, eps=0.1).value


def test_divergence_of_unequal_masses(rng):
    x, y = rng.normal(size=(10, 2)), rng.normal(size=(10, 2))
    with pytest.raises(em.MassError, match="row masses sum to"):
        em.divergence(x, y, np.full(10, 0.1), np.full(10, 0.2), eps=0.1)
    assert em.divergence(x, y, np.full(10, 0.1), np.full(10, 0.2), eps=0.1, penalty=1.0).value > 0
    with pytest.raises(em.OptionError, match="one penalty"):
        em.divergence(x, y, eps=0.1, penalty=(1.0, 2.0))
    with pytest.raises(em.ShapeError, match="masses for 10 points"):
        em.divergence(x, y, np.full(9, 0.1), eps=0.1)
    with pytest.raises(TypeError, match="eps"):
        em.divergence(x, y)
