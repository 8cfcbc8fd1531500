"""Refusals: the library's words, as ValueErrors."""

import numpy as np
import pytest

import earthmover_ot as em

two = np.array([[0.0, 1.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    "kind, words, ask",
    [
        (em.MassError, "row masses sum to 1 but column masses to 1.1", lambda: em.solve(two, [0.5, 0.5], [0.5, 0.6])),
        (em.MassError, "row 1 has mass -0.5", lambda: em.solve(two, [1.5, -0.5])),
        (em.MassError, "NaN", lambda: em.solve(two, [np.nan, 1.0])),
        (em.MassError, "all zero", lambda: em.solve(two, [0.0, 0.0])),
        (em.MassError, "a mass of at least 3", lambda: em.solve(two, partial=3.0)),
        (em.ShapeError, "row masses: expected 2 values, found 3", lambda: em.solve(two, [1.0, 1.0, 1.0], [1.0, 2.0])),
        (em.ShapeError, "empty", lambda: em.solve(np.ones((0, 3)))),
        (em.CostError, "row 0, column 1 is NaN", lambda: em.solve([[0.0, np.nan], [1.0, 0.0]])),
        (em.CostError, "-inf", lambda: em.solve([[0.0, -np.inf], [1.0, 0.0]], eps=0.1)),
        (em.CostError, "coordinate 0 of row point 1", lambda: em.solve_points([[0.0], [np.inf]], [[1.0]])),
        (em.OptionError, "epsilon", lambda: em.solve(two, eps=-1.0)),
        (em.OptionError, "epsilon", lambda: em.solve(two, eps=0.0)),
        (em.OptionError, "tolerance", lambda: em.solve(two, eps=0.1, tol=np.nan)),
        (em.OptionError, "metric is", lambda: em.solve_points([[0.0]], [[1.0]], metric="chebyshev")),
    ],
)
def test_words(kind, words, ask):
    with pytest.raises(kind, match=words) as caught:
        ask()
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, em.TransportError)


@pytest.mark.parametrize("bad", [dict(eps="small"), dict(max_iter=-1), dict(max_iter=2.5), dict(nonsense=1)])
def test_types(bad):
    with pytest.raises((TypeError, OverflowError)):
        em.solve(two, **bad)
