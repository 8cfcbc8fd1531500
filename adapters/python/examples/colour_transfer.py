#!/usr/bin/env python3
"""The colours of a sunset for a picture taken at noon.

    python colour_transfer.py [--size 160] [--eps 0.002] [--out colour_transfer.png]

Colours are points in a cube. A sample of either picture's is matched, and every pixel goes where the map of the sample sends it: `Solution.map`,
which takes points that were not in the problem. The pictures are drawn here.
"""

import argparse

import matplotlib
import numpy as np

import earthmover_ot as em

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--size", type=int, default=160)
parser.add_argument("--sample", type=int, default=1500)
parser.add_argument("--eps", type=float, default=0.002)
parser.add_argument("--out", default="colour_transfer.png")
options = parser.parse_args()
g = np.random.default_rng(0)


def landscape(sky_top, sky_low, sun, hill, field):
    """A sky with a sun over hills and a field."""
    y, x = np.mgrid[0 : 1 : options.size * 1j, 0 : 1 : options.size * 1j]
    sky_top, sky_low, sun, hill, field = (np.array(c) for c in (sky_top, sky_low, sun, hill, field))
    picture = sky_top + (sky_low - sky_top) * np.clip(y / 0.65, 0, 1)[..., None]
    glow = np.exp(-((x - 0.7) ** 2 + (y - 0.3) ** 2) / 0.01)[..., None]
    picture = picture + (sun - picture) * glow
    hills = y > 0.6 + 0.08 * np.sin(7 * x) + 0.04 * np.sin(17 * x + 1)
    picture[hills] = hill
    near = y > 0.78 + 0.03 * np.sin(5 * x + 2)
    picture[near] = (field * (0.7 + 0.6 * (y - 0.78) / 0.22)[..., None])[near]
    return np.clip(picture + 0.015 * g.normal(size=picture.shape), 0, 1)


noon = landscape((0.25, 0.5, 0.9), (0.75, 0.88, 1.0), (1.0, 1.0, 0.9), (0.25, 0.45, 0.3), (0.4, 0.65, 0.25))
dusk = landscape((0.25, 0.12, 0.35), (0.98, 0.55, 0.25), (1.0, 0.85, 0.4), (0.22, 0.12, 0.22), (0.35, 0.2, 0.15))
pixels, others = noon.reshape(-1, 3), dusk.reshape(-1, 3)
x, y = (p[g.choice(len(p), options.sample, replace=False)] for p in (pixels, others))

s = em.solve_points(x, y, eps=options.eps)
proof = s.certificate
print(s)
print(f"moving the colours costs between {proof.dual:.5f} and {proof.primal:.5f} (squared distance in the cube)")
moved = np.clip(s.map(pixels), 0, 1).reshape(noon.shape)
before, after = (em.solve_points(p[g.choice(len(p), 1500, replace=False)], y).value for p in (pixels, moved.reshape(-1, 3)))
print(f"exact distance of the colours to the sunset's: {before:.4f} before, {after:.4f} after")

figure, panels = plt.subplots(2, 3, figsize=(11, 7.4))
for column, (title, picture) in enumerate({"noon": noon, "noon in the sunset's colours": moved, "sunset": dusk}.items()):
    panels[0, column].imshow(picture)
    panels[0, column].set_title(title)
    panels[0, column].axis("off")
    colours = picture.reshape(-1, 3)[g.choice(picture.size // 3, 2500, replace=False)]
    panels[1, column].scatter(colours[:, 0], colours[:, 2], c=colours, s=4)
    panels[1, column].set(xlim=(0, 1), ylim=(0, 1), xlabel="red", ylabel="blue", aspect="equal")
figure.tight_layout()
figure.savefig(options.out, dpi=110)
print(f"wrote {options.out}")
