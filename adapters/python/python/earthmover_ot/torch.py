"""Losses for PyTorch: values with gradients, for tensors on the CPU.

    OT_ε(C, a, b) = min_P ⟨C, P⟩ + ε KL(P | a ⊗ b),      ∂/∂C = P,   ∂/∂a = f − ε ln a,   ∂/∂b = g − ε ln b

By the envelope theorem the gradients are what the solver has found anyway: nothing is differentiated through. Those with respect to masses
are for changes that leave both totals equal, as a softmax does; only differences within a side mean anything.

>>> import torch, earthmover_ot as em
>>> cost = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64, requires_grad=True)
>>> loss = em.torch.transport(cost)
>>> loss.backward()
>>> cost.grad                                        # the plan
tensor([[0.5000, 0.0000],
        [0.0000, 0.5000]], dtype=torch.float64)
"""

import numpy as np

try:
    import torch
except ImportError as error:  # pragma: no cover
    raise ImportError("earthmover_ot.torch needs PyTorch: pip install torch") from error

from . import _earthmover as em

__all__ = ["transport"]


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


def _like(array, tensor):
    return torch.from_numpy(np.ascontiguousarray(array)).to(tensor.dtype)


def _mass_gradient(potentials, masses, eps):
    """f − ε ln a; zero where there is no mass, about which an answer says nothing."""
    there = masses > 0.0
    out = np.zeros_like(potentials)
    out[there] = potentials[there] - (eps * np.log(masses[there]) if eps else 0.0)
    return out


class _Transport(torch.autograd.Function):
    @staticmethod
    def forward(ctx, cost, a, b, options):
        answer = em.solve(_numpy("cost", cost), _numpy("a", a), _numpy("b", b), **options)
        eps, rows, cols = answer.eps, answer.a, answer.b
        f, g = (_mass_gradient(*side, eps) for side in ((answer.f, rows), (answer.g, cols)))
        ctx.answer, ctx.gradients, ctx.like = answer, (f, g), (cost, a, b)
        value = answer.value if eps == 0.0 else float(rows @ f + cols @ g)
        return cost.new_tensor(value)

    @staticmethod
    def backward(ctx, outer):
        cost, a, b = ctx.like
        f, g = ctx.gradients
        by_cost = outer * _like(ctx.answer.plan, cost) if ctx.needs_input_grad[0] else None
        by_a = outer * _like(f, a) if ctx.needs_input_grad[1] else None
        by_b = outer * _like(g, b) if ctx.needs_input_grad[2] else None
        return by_cost, by_a, by_b, None


def transport(cost, a=None, b=None, *, eps=None, tol=1e-9, max_iter=None, time_limit=None):
    """The transport cost between rows and columns, with gradients for the costs and for the masses.

    Exact where `eps` is None (then the gradients are one choice of several where the optimum is not unique), otherwise the regularised value
    ⟨C, P⟩ + ε KL(P | a ⊗ b).
    """
    options = dict(eps=eps, tol=tol, max_iter=max_iter, time_limit=time_limit)
    return _Transport.apply(cost, a, b, options)
