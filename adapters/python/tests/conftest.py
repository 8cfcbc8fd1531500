import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def square(rng):
    """A cost of 30 × 30 with masses."""
    a, b = rng.random(30) + 0.1, rng.random(30) + 0.1
    return rng.random((30, 30)), a / a.sum(), b / b.sum()
