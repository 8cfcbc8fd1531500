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
