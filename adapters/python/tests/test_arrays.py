"""What is taken for an array, and what is not."""

import numpy as np
import pytest

import earthmover_ot as em


def layouts(cost):
    wide = np.zeros((cost.shape[0] * 2, cost.shape[1] * 3), dtype=cost.dtype)
    wide[::2, ::3] = cost
    padded = np.zeros((cost.shape[0], cost.shape[1] + 5), dtype=cost.dtype)
    padded[:, :-5] = cost
    record = np.zeros(cost.shape, dtype=[("tag", "i1"), ("cost", cost.dtype)])
    record["cost"] = cost
    frozen = cost.copy()
    frozen.flags.writeable = False
    return {
        "C": np.ascontiguousarray(cost),
        "Fortran": np.asfortranarray(cost),
        "strided": wide[::2, ::3],
        "padded": padded[:, :-5],
        "backwards": cost[::-1, ::-1].copy()[::-1, ::-1],
        "record": record["cost"],
        "big-endian": cost.astype(cost.dtype.newbyteorder(">")),
        "read-only": frozen,
        "list": cost.tolist(),
    }


@pytest.mark.parametrize("n", [20, 250])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("eps", [None, 0.05])
def test_every_layout_gives_the_same(rng, n, dtype, eps):
    cost = rng.random((n, n + 3)).astype(dtype)
    values = {name: em.solve(made, eps=eps).value for name, made in layouts(cost).items()}
    for name, value in values.items():
        assert value == pytest.approx(values["C"], rel=1e-6), name


def test_masses_may_be_strided_lists_or_single(square):
    cost, a, b = square
    value = em.solve(cost, a, b).value
    assert em.solve(cost, np.repeat(a, 2)[::2], b.tolist()).value == pytest.approx(value, abs=1e-12)
    assert em.solve(cost, a.astype(np.float32), b.astype(np.float32)).value == pytest.approx(value, abs=1e-5)


def test_integers_and_half_precision_become_floats():
    assert em.solve(np.array([[0, 3], [3, 0]])).value == 0.0
    assert em.solve([[True, False], [False, True]]).value == 0.0
    assert em.solve(np.array([[0.5, 3], [3, 0.5]], dtype=np.float16)).value == 0.5


@pytest.mark.parametrize(
    "made",
    [np.ones((2, 2), complex), np.ones((2, 2), object), np.array([["a", "b"]]), np.ones((2, 2), "M8[s]"), "cost", None],
)
def test_other_types_are_refused_in_words(made):
    with pytest.raises((TypeError, ValueError), match="cost must"):
        em.solve(made)


def test_ragged_lists_are_refused_in_words():
    with pytest.raises(TypeError, match="cost cannot be read as an array"):
        em.solve([[1.0, 2.0], [3.0]])


def test_dimensions_are_refused_in_words():
    with pytest.raises(em.ShapeError, match="cost must have 2 dimensions"):
        em.solve(np.ones(3))
    with pytest.raises(em.ShapeError, match="a must have 1 dimension, not"):
        em.solve(np.ones((3, 3)), np.ones((3, 1)))
    with pytest.raises(em.ShapeError, match="coordinates"):
        em.solve_points(np.ones((3, 2)), np.ones((3, 3)))


def test_pandas():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame([[0.0, 1.0], [1.0, 0.0]], columns=["a", "b"])
    assert em.solve(frame, pd.Series([0.5, 0.5]), pd.Series([0.25, 0.75])).value == 0.25


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    cost = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert em.solve(cost, torch.tensor([0.5, 0.5])).value == 0.0
    with pytest.raises(TypeError, match="cannot be read as an array"):
        em.solve(cost.requires_grad_())
    with pytest.raises(TypeError, match="cannot be read as an array"):
        em.solve(torch.ones((2, 2), device="meta"))


def test_a_large_matrix_is_not_copied(rng):
    tracemalloc = pytest.importorskip("tracemalloc")
    cost = rng.random((400, 400))
    em.solve(cost)
    tracemalloc.start()
    s = em.solve(cost)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < cost.nbytes / 4
    assert s.converged


def test_changes_after_the_solve_are_noticed(rng):
    cost = rng.random((200, 200))
    s = em.solve(cost, eps=0.1)
    cost *= 2.0
    with pytest.raises(RuntimeError, match="changed after"):
        s.value
    assert "changed" in repr(s)
    cost *= 0.5
    assert s.converged and s.value > 0.0  # as they were
    small = rng.random((20, 20))
    s, again = em.solve(small, eps=0.1), em.solve(small.copy(), eps=0.1)
    small[:] = 0.0
    assert s.value == again.value  # small ones are copied


def test_the_array_lives_as_long_as_the_answer(rng):
    cost = rng.random((300, 300))
    s, value = em.solve(cost, eps=0.1), em.solve(cost, eps=0.1).value
    del cost
    _ = [np.zeros((300, 300)) for _ in range(10)]
    assert s.value == value
