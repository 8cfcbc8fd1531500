#!/usr/bin/env python3
"""20,000 cells of one batch matched to 20,000 of another, without a matrix of 400 million costs.

    python matching.py [--points 20000] [--eps 1.0] [--penalty 50] [--out matching.png]

Two draws of the same five populations in ten dimensions (as after PCA), the second one shifted and with other shares. Entropic transport
says how much of each population goes to which. With all masses kept some cells must go to another population, there being more of theirs
than of the other batch's; where other masses have a price instead, they need not. What is printed is how much stays within its own, the
time and the peak memory.
"""

import argparse
import resource
import time

import matplotlib
import numpy as np

import earthmover_ot as em

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--points", type=int, default=20_000)
parser.add_argument("--eps", type=float, default=1.0)
parser.add_argument("--penalty", type=float, default=50.0)
parser.add_argument("--out", default="matching.png")
options = parser.parse_args()

g = np.random.default_rng(0)
centres, shift = 3.0 * g.normal(size=(5, 10)), g.normal(size=10)


def batch(shares, moved):
    kinds = g.choice(5, size=options.points, p=shares)
    return (centres[kinds] + g.normal(size=(options.points, 10)) + moved).astype(np.float32), kinds


x, kind_x = batch([0.30, 0.25, 0.20, 0.15, 0.10], 0.0)
y, kind_y = batch([0.28, 0.24, 0.21, 0.16, 0.11], shift)


def matched(title, penalty):
    """Where the points of x go on average."""
    started = time.perf_counter()
    s = em.solve_points(x, y, eps=options.eps, penalty=penalty, tol=1e-3)
    took = time.perf_counter() - started
    # What arrives, by population, and where: one pass that never holds more than a row of the plan.
    arrived = s.apply(np.concatenate([np.eye(5)[kind_y], y], axis=1))
    flow = np.stack([arrived[kind_x == k, :5].sum(0) for k in range(5)])
    stays = 100 * np.trace(flow) / flow.sum()
    print(f"{title}: {s.status} in {took:.1f} s, {s.iterations} sweeps; {stays:.1f}% of the mass stays within its population")
    return arrived[:, 5:] / arrived[:, :5].sum(1, keepdims=True), kind_x, f"{title}: {stays:.1f}% stays"


shown = [(x, kind_x, "one batch"), matched("masses kept", None), matched("at a price", options.penalty), (y, kind_y, "the other batch")]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"peak memory {peak:.0f} MB; the matrix alone would take {4 * len(x) * len(y) / 2**20:.0f} MB")

axes_2d = np.linalg.svd(centres - centres.mean(0), full_matrices=False)[2][:2].T
figure, panels = plt.subplots(1, 4, figsize=(18, 4.5), sharex=True, sharey=True)
for panel, (cloud, kinds, title) in zip(panels, shown):
    some = g.choice(len(cloud), size=min(3000, len(cloud)), replace=False)
    panel.scatter(*(cloud[some] @ axes_2d).T, c=kinds[some], cmap="tab10", vmax=9, s=2)
    panel.set_title(title)
figure.tight_layout()
figure.savefig(options.out, dpi=100)
print(f"wrote {options.out}")
