"""The answer as an object."""

import pickle

import numpy as np
import pytest
import scipy.sparse

import earthmover_ot as em


def test_sparse_is_the_plan(square):
    s = em.solve(*square)
    assert isinstance(s.sparse, scipy.sparse.csr_array) and s.sparse.nnz <= 59
    np.testing.assert_array_equal(s.sparse.toarray(), s.plan)
    rows, cols, mass = s.entries(0.01)
    assert np.all(mass > 0.01)
    np.testing.assert_array_equal(s.plan[rows, cols], mass)


def test_repr_tells_status_value_and_gap(square):
    text = repr(em.solve(*square))
    assert text.startswith("Solution(converged, value=") and "gap=" in text and "30x30, exact" in text
    assert "eps=0.5" in repr(em.solve(square[0], eps=0.5))
    assert "primal=" in repr(em.solve(square[0]).certificate)


def test_attributes_cannot_be_set(square):
    s = em.solve(*square)
    with pytest.raises(AttributeError):
        s.value = 3.0


def test_masses_are_told(square):
    cost, a, b = square
    s = em.solve(cost, a, b)
    np.testing.assert_allclose(s.a, a)
    np.testing.assert_allclose(s.b, b)
    assert s.shape == (30, 30)


@pytest.mark.parametrize("eps", [None, 0.1])
def test_plans_act(square, rng, eps):
    s = em.solve(*square, eps=eps)
    x, y = rng.normal(size=(30, 4)), rng.normal(size=(30, 3))
    np.testing.assert_allclose(s.apply(y), s.plan @ y, atol=1e-12)
    np.testing.assert_allclose(s.apply_t(x), s.plan.T @ x, atol=1e-12)
    with pytest.raises(em.ShapeError, match="30 columns"):
        s.apply(y[:5])
    with pytest.raises(em.OptionError, match="solve_points"):
        s.map(x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_old_points_are_mapped_as_their_rows(rng, dtype):
    x, y = rng.normal(size=(40, 2)).astype(dtype), rng.normal(size=(50, 2)).astype(dtype)
    s = em.solve_points(x, y, eps=0.2, tol=1e-9 if dtype == np.float64 else 1e-5)
    np.testing.assert_allclose(s.map(x), s.apply(y) / s.a[:, None], atol=1e-3)
    with pytest.raises(em.ShapeError, match="coordinates"):
        s.map(np.ones((3, 5)))


def kinds(rng):
    cost = rng.random((20, 25))
    a, b = rng.random(20) + 0.1, rng.random(25) + 0.1
    a, b = a / a.sum(), b / b.sum()
    x, y = rng.normal(size=(20, 3)).astype(np.float32), rng.normal(size=(25, 3)).astype(np.float32)
    return {
        "exact": em.solve(cost, a, b),
        "entropic": em.solve(cost, a, b, eps=0.05),
        "single": em.solve(cost.astype(np.float32), eps=0.05, tol=1e-4),
        "slack": em.solve(cost, a, b, slack=dict(row=0.5, col=0.5, row_cost=0.1, col_cost=0.2)),
        "entropic slack": em.solve(cost, a, b, eps=0.05, slack=(0.3, 0.3)),
        "kl": em.solve(cost, a, 2 * b, eps=0.05, penalty=0.5),
        "tv": em.solve(cost, a, 2 * b, penalty=("tv", 0.3)),
        "points": em.solve_points(x, y, metric="euclidean", eps=0.2, tol=1e-4),
        "exact points": em.solve_points(x, y),
        "grid": em.solve(em.Grid((4, 5)), a, a[::-1], eps=0.01),
        "stopped": em.solve(cost, a, b, eps=1e-4, max_iter=2),
    }


@pytest.mark.parametrize("kind", list(kinds(np.random.default_rng(0))))
def test_answers_survive_pickling(rng, kind):
    s = kinds(rng)[kind]
    again = pickle.loads(pickle.dumps(s))
    assert (again.status, again.iterations, again.eps, again.shape) == (s.status, s.iterations, s.eps, s.shape)
    np.testing.assert_allclose(again.plan, s.plan, rtol=1e-9, atol=1e-15)
    for name in ("value", "regularised"):
        assert getattr(again, name) == pytest.approx(getattr(s, name), rel=1e-9)
    assert again.certificate.dual == pytest.approx(s.certificate.dual, rel=1e-9)
    np.testing.assert_allclose(again.f, s.f, rtol=1e-9, atol=1e-12)
    if "points" in kind:
        np.testing.assert_allclose(again.map([[0.0, 1.0, 2.0]]), s.map([[0.0, 1.0, 2.0]]), rtol=1e-6)
        np.testing.assert_allclose(again.grad_x, s.grad_x, rtol=1e-6, atol=1e-9)


def test_a_changed_matrix_is_not_pickled(rng):
    cost = rng.random((300, 300))
    s = em.solve(cost, eps=0.1)
    cost[0, 0] += 1.0
    with pytest.raises(RuntimeError, match="changed after"):
        pickle.dumps(s)


def test_what_is_not_an_answer_is_refused(square):
    make, (cost, masses, found) = em.solve(*square).__reduce__()
    with pytest.raises(ValueError, match="not how a solver ends"):
        make(cost, masses, found[:5] + ("fine",) + found[6:])
    with pytest.raises(em.ShapeError):
        make(cost, masses, (found[0], found[1][:3]) + found[2:])
    with pytest.raises(em.ShapeError):
        make(cost, masses, found[:3] + (tuple(np.full(1, 99) for _ in range(3)),) + found[4:])
