#!/usr/bin/env python3
"""Flow matching from a Gaussian to two moons: minibatch couplings by POT's `emd`, run on earthmover.

    python flow_matching.py [--steps 2000] [--batch 256] [--out flow_matching.png]

A network learns a velocity field along straight lines from noise to data. Which noise goes with which data decides how straight the flow
is: at random, or as optimal transport within each batch pairs them. The sampler is torchcfm's where it is installed, and otherwise the same in
a few lines; either calls `ot.emd`, which `earthmover_ot.pot.patch()` answers. Needs torch and matplotlib.
"""

import argparse
import time

import matplotlib
import numpy as np
import torch

import earthmover_ot.pot

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

earthmover_ot.pot.patch()
import ot  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=2000)
parser.add_argument("--batch", type=int, default=256)
parser.add_argument("--out", default="flow_matching.png")
options = parser.parse_args()


def moons(n, g):
    angle = np.pi * g.random(n)
    upper = g.random(n) < 0.5
    x = np.where(upper, np.cos(angle), 1.0 - np.cos(angle))
    y = np.where(upper, np.sin(angle), 0.5 - np.sin(angle))
    return 2.0 * (np.stack([x, y], 1) - [0.5, 0.25]) + 0.1 * g.normal(size=(n, 2))


class Sampler:
    """Pairs drawn from the exact plan between two minibatches."""

    def __init__(self, g):
        self.g = g

    def sample_plan(self, x0, x1):
        cost = torch.cdist(x0, x1) ** 2
        n = len(x0)
        plan = ot.emd(ot.unif(n), ot.unif(n), cost.numpy().astype(float))
        pairs = self.g.choice(n * n, p=plan.ravel() / plan.sum(), size=n)
        return x0[pairs // n], x1[pairs % n]


try:
    from torchcfm.optimal_transport import OTPlanSampler

    coupling = OTPlanSampler(method="exact")
    print("the sampler is torchcfm's")
except ImportError:
    coupling = Sampler(np.random.default_rng(2))


def train(paired):
    torch.manual_seed(0)
    g = np.random.default_rng(1)
    field = torch.nn.Sequential(
        torch.nn.Linear(3, 64), torch.nn.SiLU(), torch.nn.Linear(64, 64), torch.nn.SiLU(), torch.nn.Linear(64, 2)
    )
    optimiser = torch.optim.Adam(field.parameters(), lr=3e-3)
    spent = 0.0
    for _ in range(options.steps):
        x0 = torch.tensor(g.normal(size=(options.batch, 2)), dtype=torch.float32)
        x1 = torch.tensor(moons(options.batch, g), dtype=torch.float32)
        if paired:
            started = time.perf_counter()
            x0, x1 = coupling.sample_plan(x0, x1)
            spent += time.perf_counter() - started
        t = torch.tensor(g.random((len(x0), 1)), dtype=torch.float32)
        told = field(torch.cat([(1 - t) * x0 + t * x1, t], 1))
        loss = ((told - (x1 - x0)) ** 2).sum(1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return field, float(loss.detach()), spent


@torch.no_grad()
def flow(field, x, steps=100):
    path = [x]
    for k in range(steps):
        t = torch.full((len(x), 1), k / steps)
        x = x + field(torch.cat([x, t], 1)) / steps
        path.append(x)
    return torch.stack(path)


figure, axes = plt.subplots(1, 2, figsize=(10, 5), sharex=True, sharey=True)
g = np.random.default_rng(5)
start, target = torch.tensor(g.normal(size=(1000, 2)), dtype=torch.float32), moons(1000, g)
for axis, (name, paired) in zip(axes, {"pairs at random": False, "optimal pairs in each batch": True}.items()):
    field, loss, spent = train(paired)
    path = flow(field, start)
    length = (path[1:] - path[:-1]).norm(dim=2).sum(0)
    straight = (path[-1] - path[0]).norm(dim=1)
    bend = float((length / straight.clamp(min=1e-6)).mean())
    away = float(ot.emd2(ot.unif(1000), ot.unif(1000), ot.dist(path[-1].numpy().astype(float), target)))
    print(f"{name}: last loss {loss:.3f}, paths {100 * (bend - 1):.1f}% longer than straight, W2^2 to the data {away:.4f}, couplings {spent:.1f} s")
    for k in range(0, 300):
        axis.plot(*path[:, k].T.numpy(), color="0.75", linewidth=0.4, zorder=1)
    axis.scatter(*path[0, :300].T.numpy(), s=3, color="tab:blue", zorder=2)
    axis.scatter(*path[-1].T.numpy(), s=3, color="tab:orange", zorder=2)
    axis.set_title(f"{name}: {100 * (bend - 1):.1f}% longer than straight")
    axis.set_aspect("equal")
figure.tight_layout()
figure.savefig(options.out, dpi=110)
print(f"wrote {options.out}")
print(earthmover_ot.pot.report())
