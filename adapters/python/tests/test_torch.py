"""Losses for PyTorch: their gradients, by PyTorch's own check."""

import doctest

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import earthmover_ot as em  # noqa: E402


def drawn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def check(function, *inputs):
    return torch.autograd.gradcheck(function, inputs, eps=1e-5, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("eps", [0.5, 0.1])
def test_transport(eps):
    cost, u, v = drawn(6, 5), drawn(6, seed=1), drawn(5, seed=2)
    assert check(lambda c: em.torch.transport(c, eps=eps, tol=1e-12), cost)
    # Masses on the simplex: totals stay equal.
    assert check(lambda c, u, v: em.torch.transport(c, u.softmax(0), v.softmax(0), eps=eps, tol=1e-12), cost, u, v)
    # Masses that may be anything, at a price.
    assert check(lambda c, u, v: em.torch.transport(c, u.exp(), v.exp(), eps=eps, penalty=0.7, tol=1e-12), cost, u, v)


def test_exact_transport():
    cost, u, v = drawn(6, 5), drawn(6, seed=1), drawn(5, seed=2)
    assert check(lambda c, u, v: em.torch.transport(c, u.softmax(0), v.softmax(0)), cost, u, v)


@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean"])
@pytest.mark.parametrize("eps", [None, 0.3])
def test_points(metric, eps):
    x, y, u, v = drawn(6, 2), drawn(5, 2, seed=3), drawn(6, seed=1), drawn(5, seed=2)

    def loss(x, y, u, v):
        return em.torch.transport_points(x, y, u.softmax(0), v.softmax(0), metric=metric, eps=eps, tol=1e-12)

    assert check(loss, x, y, u, v)


def test_divergence():
    x, y, u, v = drawn(6, 2), drawn(5, 2, seed=3), drawn(6, seed=1), drawn(5, seed=2)
    assert check(lambda x, y, u, v: em.torch.divergence(x, y, u.softmax(0), v.softmax(0), eps=0.4, tol=1e-12), x, y, u, v)
    options = dict(eps=0.4, penalty=1.0, tol=1e-12)
    assert check(lambda x, y, u, v: em.torch.divergence(x, y, u.exp(), v.exp(), **options), x, y, u, v)
    with pytest.raises(ValueError, match="both a and b"):
        em.torch.divergence(x, y, u.exp(), **options)


@pytest.mark.parametrize("p", [1.5, 2.0])
def test_sliced(p):
    assert check(lambda x, y: em.torch.sliced(x, y, p=p, projections=20), drawn(7, 3), drawn(5, 3, seed=1))


def test_plans():
    cost, u, v = drawn(5, 4), drawn(5, seed=1), drawn(4, seed=2)
    assert check(lambda c: em.torch.plan(c, eps=0.5, tol=1e-13), cost)
    assert check(lambda c, u, v: em.torch.plan(c, u.softmax(0), v.softmax(0), eps=0.5, tol=1e-13), cost, u, v)
    assert check(lambda c, u, v: em.torch.plan(c, u.exp(), v.exp(), eps=0.5, penalty=0.7, tol=1e-13), cost, u, v)


def test_single_precision_stays_single():
    x = torch.randn(20, 3, requires_grad=True)
    loss = em.torch.divergence(x, torch.randn(30, 3), eps=0.5, tol=1e-4)
    loss.backward()
    assert loss.dtype == x.grad.dtype == torch.float32 and x.grad.shape == x.shape


def test_a_network_learns():
    torch.manual_seed(0)
    target = torch.randn(60, 2) * torch.tensor([2.0, 0.5]) + 1.0
    net = torch.nn.Linear(2, 2)
    noise = torch.randn(60, 2)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.1)
    losses = []
    for _ in range(60):
        loss = em.torch.divergence(net(noise), target, eps=0.5, tol=1e-4)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


def test_what_is_not_for_the_cpu_is_refused():
    with pytest.raises(TypeError, match="on meta"):
        em.torch.transport(torch.ones(2, 2, device="meta"))
    for dtype in (torch.float16, torch.int64, torch.complex64):
        with pytest.raises(TypeError, match="must be float32 or float64"):
            em.torch.transport(torch.ones(2, 2, dtype=dtype))


def test_values_are_numpys():
    cost = drawn(6, 5)
    s = em.solve(cost.detach().numpy(), eps=0.2, tol=1e-9)
    assert float(em.torch.transport(cost, eps=0.2).detach()) == s.regularised
    np.testing.assert_array_equal(em.torch.plan(cost, eps=0.2, tol=1e-9).detach().numpy(), s.plan)


def test_examples():
    assert doctest.testmod(em.torch).failed == 0
