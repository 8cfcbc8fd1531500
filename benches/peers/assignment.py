"""SciPy's and lap's times for the tables that `cargo bench --bench assignment -- CASES --write DIR` has left in DIR.

    python benches/peers/assignment.py DIR
"""

import pathlib
import sys
import time

import lap
import numpy as np
from scipy.optimize import linear_sum_assignment


def best_of(solve, times):
    found, best = None, float("inf")
    for _ in range(times):
        start = time.perf_counter()
        found = solve()
        best = min(best, time.perf_counter() - start)
    return found, 1e3 * best


print("case,scipy_ms,lap_ms,scipy_value,lap_value")
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.npy")):
    table = np.load(path)
    times = max(2, min(20, 4000 // len(table)))
    (rows, cols), scipy_ms = best_of(lambda: linear_sum_assignment(table), times)
    (value, _, _), lap_ms = best_of(lambda: lap.lapjv(table), times)
    print(f"{':'.join(path.stem.rsplit('-', 1))},{scipy_ms:.3f},{lap_ms:.3f},{table[rows, cols].sum():.9f},{value:.9f}", flush=True)
