"""The answer as an object."""

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
