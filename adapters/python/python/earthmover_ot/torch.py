"""Losses for PyTorch: values, and plans, with gradients, for tensors on the CPU.

    F(C, a, b) = min_P ⟨C, P⟩ + ε KL(P | a ⊗ b),      ∂F/∂C = P,      ∂F/∂a from the prices of the rows

By the envelope theorem the gradients are what the solver has found anyway: nothing is differentiated through. Those with respect to masses
that are kept are for changes that leave both totals equal, as a softmax does; with a `penalty` they are for any. The plan itself
(`plan`) is differentiated implicitly: one linear system.

>>> import torch, earthmover_ot as em
>>> cost = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64, requires_grad=True)
>>> loss = em.torch.transport(cost)
>>> loss.backward()
>>> cost.grad                                        # the plan
tensor([[0.5000, 0.0000],
        [0.0000, 0.5000]], dtype=torch.float64)
>>> x = torch.tensor([[0.0], [1.0]], requires_grad=True)
>>> em.torch.divergence(x, x.detach() + 1.0, eps=0.1).backward()
>>> bool((x.grad < 0).all())                         # a step against the gradient is a step to the right
True
"""

import numpy as np

try:
    import torch
    from torch.autograd.function import once_differentiable
except ImportError as error:  # pragma: no cover
    raise ImportError("earthmover_ot.torch needs PyTorch: pip install torch") from error

from . import _earthmover as em

__all__ = ["divergence", "plan", "sliced", "transport", "transport_points"]


def _numpy(what, tensor):
    if tensor is None:
        return None
    if not isinstance(tensor, torch.Tensor):
        return np.asarray(tensor)
    if tensor.device.type != "cpu":
        raise TypeError(f"{what} is on {tensor.device}; this library calculates on the CPU: use {what}.cpu()")
    if tensor.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"{what} must be float32 or float64, not {tensor.dtype}")
    return tensor.detach().numpy()


def _tensor(array, like):
    return torch.from_numpy(np.ascontiguousarray(array)).to(like.dtype)


class _Value(torch.autograd.Function):
    """A number and what its gradients are, found at once: `solve` gives both for NumPy arrays."""

    @staticmethod
    def forward(ctx, solve, names, *inputs):
        value, ctx.gradient = solve(*(_numpy(name, tensor) for name, tensor in zip(names, inputs)))
        ctx.like, ctx.names = inputs, names
        first = next(tensor for tensor in inputs if isinstance(tensor, torch.Tensor))
        return first.new_tensor(value)

    @staticmethod
    @once_differentiable
    def backward(ctx, outer):
        gradients = []
        for name, like, wanted in zip(ctx.names, ctx.like, ctx.needs_input_grad[2:]):
            gradients.append(outer.to(like.dtype) * _tensor(ctx.gradient(name), like) if wanted else None)
        return (None, None, *gradients)


def _both(a, b, penalty):
    """Masses that are left out follow the other side's total, which no gradient knows of where totals are free."""
    if penalty is not None and (a is None) != (b is None):
        raise ValueError("where masses are penalised give both a and b, or neither")


def transport(cost, a=None, b=None, *, eps=None, tol=1e-9, **options):
    """The transport cost between rows and columns, with gradients for the costs and for the masses.

    Exact where `eps` is None (then the gradients are one choice of several where the optimum is not unique), otherwise the regularised value
    ⟨C, P⟩ + ε KL(P | a ⊗ b). Other options are `em.solve`'s.

    >>> import torch, earthmover_ot as em
    >>> em.torch.transport(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.75]))
    tensor(0.2500)
    """

    _both(a, b, options.get("penalty"))

    def solve(cost, a, b):
        s = em.solve(cost, a, b, eps=eps, tol=tol, **options)
        return s.regularised, lambda name: s.plan if name == "cost" else getattr(s, "grad_" + name)

    return _Value.apply(solve, ("cost", "a", "b"), cost, a, b)


def transport_points(x, y, a=None, b=None, *, metric="sqeuclidean", eps=None, tol=1e-6, **options):
    """The same between two clouds of points, with gradients for the points and for the masses; never rows × columns in memory.

    >>> import torch, earthmover_ot as em
    >>> x = torch.tensor([[0.0], [1.0]], requires_grad=True)
    >>> em.torch.transport_points(x, torch.tensor([[3.0], [4.0]])).backward()
    >>> x.grad.tolist()                              # half of 2 (x − y) each
    [[-3.0], [-3.0]]
    """

    _both(a, b, options.get("penalty"))

    def solve(x, y, a, b):
        s = em.solve_points(x, y, a, b, metric=metric, eps=eps, tol=tol, **options)
        return s.regularised, lambda name: getattr(s, "grad_" + name)

    return _Value.apply(solve, ("x", "y", "a", "b"), x, y, a, b)


def divergence(x, y, a=None, b=None, *, eps, metric="sqeuclidean", tol=1e-6, **options):
    """The Sinkhorn divergence of two clouds, with gradients for the points and for the masses. Options are `em.divergence`'s.

    >>> import torch, earthmover_ot as em
    >>> x = torch.randn(10, 2, dtype=torch.float64, generator=torch.manual_seed(0))
    >>> bool(em.torch.divergence(x, x, eps=0.1).abs() < 1e-5)
    True
    """

    _both(a, b, options.get("penalty"))

    def solve(x, y, a, b):
        d = em.divergence(x, y, a, b, eps=eps, metric=metric, tol=tol, **options)
        return d.value, lambda name: getattr(d, "grad_" + name)

    return _Value.apply(solve, ("x", "y", "a", "b"), x, y, a, b)


def sliced(x, y, a=None, b=None, *, p=2.0, projections=100, seed=0):
    """The p-th power of the sliced Wasserstein distance of two clouds, with gradients for the points.

    >>> import torch, earthmover_ot as em
    >>> x = torch.randn(50, 3, dtype=torch.float64, generator=torch.manual_seed(0))
    >>> float(em.torch.sliced(x, x))
    0.0
    """
    a, b = _numpy("a", a), _numpy("b", b)

    def solve(x, y):
        s = em.sliced(x, y, a, b, p, projections, seed, gradients=True)
        return s.cost, lambda name: getattr(s, "grad_" + name)

    return _Value.apply(solve, ("x", "y"), x, y)


class _Plan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, options, cost, a, b):
        ctx.like = (cost, a, b)
        ctx.answer = em.solve(*(_numpy(name, tensor) for name, tensor in zip(("cost", "a", "b"), ctx.like)), **options)
        return _tensor(ctx.answer.plan, cost)

    @staticmethod
    @once_differentiable
    def backward(ctx, outer):
        back = ctx.answer.pull_back(plan=outer.detach().numpy())
        wanted = zip(("cost", "a", "b"), ctx.like, ctx.needs_input_grad[1:])
        return (None, *(_tensor(back[name], like) if needed else None for name, like, needed in wanted))


def plan(cost, a=None, b=None, *, eps, tol=1e-10, **options):
    """The entropic plan itself, to be put into any function; gradients for costs and masses by implicit differentiation.

    >>> import torch, earthmover_ot as em
    >>> cost = torch.tensor([[0.0, 1.0], [2.0, 0.5]], dtype=torch.float64, requires_grad=True)
    >>> em.torch.plan(cost, eps=0.5)[0, 0].backward()
    >>> bool(cost.grad[0, 0] < 0)                    # a dearer pair carries less
    True
    """
    _both(a, b, options.get("penalty"))
    return _Plan.apply(dict(eps=eps, tol=tol, **options), cost, a, b)
