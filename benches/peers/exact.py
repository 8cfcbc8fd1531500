"""Exact solves: POT's `emd` on the problems of `cargo bench --bench exact`, both timed alternately.

    cargo bench --bench exact --no-run                  # prints the path of the bench
    python benches/peers/exact.py --bin target/release/deps/exact-… [--repeat 3] [--out record.csv] SHAPE…

Shapes are named in `benches/exact/shapes.rs`. POT is handed the dense matrix, slack row and column included, and its
time is that of `ot.emd` alone: neither distances nor files count, while ours from points computes its distances.
Costs must agree to 1e-9.
"""
import argparse
import csv
import datetime
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np

warnings.filterwarnings("ignore")


def processor():
    try:
        lines = [line for line in open("/proc/cpuinfo") if line.startswith("model name")]
        return lines[0].split(":", 1)[1].strip()
    except (OSError, IndexError):
        return platform.machine()


def ours(binary, shape, repeat):
    line = subprocess.run([binary, "--repeat", str(repeat), shape], capture_output=True, text=True, check=True).stdout.split()
    return float(line[2]), float(line[-1])


def problem(binary, shape):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([binary, "--write", folder, shape], check=True)
        load = lambda name: np.load(os.path.join(folder, name))
        return load("rows.npy")[0], load("cols.npy")[0], load("cost.npy")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", required=True)
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--out")
    p.add_argument("shapes", nargs="+")
    o = p.parse_args()
    import ot

    rows, right = [], True
    for shape in o.shapes:
        a, b, cost = problem(o.bin, shape)
        mine, theirs = float("inf"), float("inf")
        for _ in range(o.repeat):
            ms, value = ours(o.bin, shape, o.repeat)
            start = time.perf_counter()
            _, log = ot.emd(a, b, cost, numItermax=10**8, log=True)
            peer = 1e3 * (time.perf_counter() - start)
            mine, theirs = min(mine, ms), min(theirs, peer)
            agree = abs(value - log["cost"]) <= 1e-9 * abs(log["cost"])
            right &= agree
            if peer > 2e4:
                break
        note = "" if agree else "DIFFERS: ours %.12g, peer %.12g" % (value, log["cost"])
        print("%-36s POT %10.1f ms   ours %9.2f ms   %7.1fx %s" % (shape, theirs, mine, theirs / mine, note), flush=True)
        rows.append([shape, "POT emd", "%.1f" % theirs, "%.2f" % mine, "%.1f" % (theirs / mine)])
    if o.out:
        with open(o.out, "w", newline="") as f:
            f.write("# date %s; cpu %s, %d cores; POT %s; best of %d, solves alone\n"
                    % (datetime.date.today(), processor(), os.cpu_count(), ot.__version__, o.repeat))
            f.write("# python benches/peers/exact.py --bin target/release/deps/exact-* --repeat %d %s\n" % (o.repeat, " ".join(o.shapes)))
            w = csv.writer(f)
            w.writerow(["shape", "peer", "peer_ms", "ours_ms", "ratio"])
            w.writerows(rows)
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
