#!/usr/bin/env python3
"""The digits from 40 labels: a PyTorch loop with `em.LabelAllocator` beside FixMatch.

    python label_allocation.py [--epochs 60] [--seeds 3] [--out label_allocation.png]

Both learn from 4 labelled digits of each class and 1,397 unlabelled ones, with noise and shifts as augmentation. FixMatch takes for a label what
the network is sure of; the allocator decides for all examples at once, under bounds on the classes, for a share of them that grows. Needs
torch, scikit-learn and matplotlib.
"""

import argparse

import matplotlib
import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

import earthmover_ot as em

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--epochs", type=int, default=60)
parser.add_argument("--seeds", type=int, default=3)
parser.add_argument("--out", default="label_allocation.png")
options = parser.parse_args()

images, labels = load_digits(return_X_y=True)
images = (images / 16.0).astype(np.float32)


def shifted(x, g, strong):
    """Noise, and a shift by up to a pixel; strong ones also lose a patch."""
    pictures = x.reshape(-1, 8, 8).copy()
    for picture, (dy, dx) in zip(pictures, g.integers(-1, 2, size=(len(x), 2))):
        picture[:] = np.roll(picture, (dy, dx), axis=(0, 1))
        if strong:
            top, left = g.integers(0, 6, size=2)
            picture[top : top + 3, left : left + 3] = 0.0
    noise = (0.25 if strong else 0.05) * g.normal(size=pictures.shape)
    return torch.tensor((pictures + noise).reshape(-1, 64), dtype=torch.float32)


def run(method, seed):
    g = np.random.default_rng(seed)
    torch.manual_seed(seed)
    order = g.permutation(len(images))
    test, pool = order[:400], order[400:]
    known = np.concatenate([pool[labels[pool] == c][:4] for c in range(10)])
    unknown = np.setdiff1d(pool, known)
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    allocator = em.LabelAllocator(len(unknown), 10, bounds=em.LabelAllocator.empirical([4] * 10))
    errors, steps = [], len(unknown) // 64
    for epoch in range(options.epochs):
        for step, batch in enumerate(np.array_split(g.permutation(len(unknown)), steps)):
            x, y = shifted(images[known], g, False), torch.tensor(labels[known])
            weak, strong = (shifted(images[unknown[batch]], g, s) for s in (False, True))
            with torch.no_grad():
                log_p = F.log_softmax(net(weak), 1)
            if method == "SLA":
                target = torch.from_numpy(allocator.targets(log_p))
                allocator.observe(batch, log_p)
                allocator.allocate((epoch + step / steps) / options.epochs)
            else:
                sure, guess = log_p.exp().max(1)
                target = F.one_hot(guess, 10) * (sure >= 0.95)[:, None]
            loss = F.cross_entropy(net(x), y) - (target * F.log_softmax(net(strong), 1)).sum(1).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            guess = net(torch.tensor(images[test])).argmax(1).numpy()
        errors.append(100 * np.mean(guess != labels[test]))
    return errors


figure, axis = plt.subplots(figsize=(7, 4))
for method, colour in {"FixMatch": "tab:blue", "SLA": "tab:orange"}.items():
    errors = np.array([run(method, seed) for seed in range(options.seeds)])
    print(f"{method}: test error {errors[:, -1].mean():.2f} ± {errors[:, -1].std():.2f}%")
    axis.plot(errors.T, color=colour, alpha=0.3, linewidth=0.8)
    axis.plot(errors.mean(0), color=colour, label=f"{method}: {errors[:, -1].mean():.1f}%")
axis.set_xlabel("epoch")
axis.set_ylabel("test error in %")
axis.set_ylim(0, None)
axis.legend()
figure.tight_layout()
figure.savefig(options.out, dpi=110)
print(f"wrote {options.out}")
